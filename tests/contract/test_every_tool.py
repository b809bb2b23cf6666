"""Every tool: what holds for each one that the scan finds, so also for the next one that somebody adds."""

from __future__ import annotations

import copy
import json
import types
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticUndefined

from dsh_lsp.abort import USER, AbortSignal
from dsh_lsp.decisions import EffectKind
from dsh_lsp.llm.scripted import call_text, say
from dsh_lsp.plugin import Context
from dsh_lsp.plugins import toolbox
from dsh_lsp.plugins.toolbox import find_tools
from dsh_lsp.secrets import Keys
from dsh_lsp.shell.environment import ChildEnvironment
from dsh_lsp.shell.rules import CommandRules, ShellSettings
from dsh_lsp.tools.arguments import validate
from dsh_lsp.tools.outcome import ABORTED_BEFORE_DISPATCH
from dsh_lsp.tools.pipeline import ToolHooks, ToolPipeline
from dsh_lsp.tools.registry import ToolRegistry
from dsh_lsp.tools.spills import Spills
from dsh_lsp.tools.tool import Card, Execution, Tool, ToolArgs
from dsh_lsp.workspace.port import Workspace
from tests.support.fake_workspace import FakeWorkspace
from tests.support.headless import headless
from tests.support.headless_tools import answers, codes

FOUND = find_tools()
EVERY = pytest.mark.parametrize("kind", FOUND, ids=lambda kind: kind.name)

SIMPLE_KEYWORDS = {
    "type", "properties", "required", "description", "default", "enum", "const", "items", "anyOf", "$ref", "$defs",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems",
    "prefixItems", "additionalProperties", "pattern",
}  # fmt: skip


ODD_TEXTS = ["a.py", "../odd", "/etc/odd", "~/odd", "odd\r\n\n\rodd", "\0\0\0\0", "\u2028odd\x85"]


class Untouchable:
    """A service of which a test says that nobody uses it."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was used")


def built(kind: type[Tool[Any]], **services: Any) -> Tool[Any]:
    """A tool over a workspace in memory; a service that the test does not know is one that nobody may touch."""
    given_ = {
        Workspace: services.get("workspace") or FakeWorkspace(),
        Spills: Spills(Path("/no/such/outputs")),
        CommandRules: CommandRules(Path("/w"), ShellSettings()),
        ChildEnvironment: ChildEnvironment(Keys()),
    }
    needs = [hint for key, hint in get_type_hints(kind.__init__).items() if key != "return"]
    return kind(*(given_.get(need, Untouchable()) for need in needs))


def values(hint: Any, limits: list[Any]) -> st.SearchStrategy[Any]:
    """Values of an argument's type, as JSON has them."""
    low, high, shortest, longest = None, None, 0, 40
    for limit in limits:
        match limit:
            case Ge(ge=bound):
                low = bound
            case Gt(gt=bound):
                low = bound + 1
            case Le(le=bound):
                high = bound
            case Lt(lt=bound):
                high = bound - 1
            case MinLen(min_length=bound):
                shortest = bound
            case MaxLen(max_length=bound):
                longest = bound
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return st.one_of(*(values(part, limits) for part in parts))
    if origin in (tuple, list):
        return st.lists(values(parts[0], []), min_size=shortest, max_size=max(shortest, 3))
    if str(origin) == "typing.Literal":
        return st.sampled_from(parts)
    if isinstance(hint, type) and issubclass(hint, ToolArgs):
        return arguments(hint)
    table: dict[Any, st.SearchStrategy[Any]] = {
        str: st.text(min_size=shortest, max_size=max(shortest, min(longest, 40)))
        | st.sampled_from([text for text in ODD_TEXTS if len(text) >= shortest]),
        bool: st.booleans(),
        int: st.integers(low, high),
        float: st.floats(low, high, allow_nan=False, allow_infinity=False),
        type(None): st.none(),
    }
    return table[hint]


def arguments(model: type[ToolArgs]) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments that a model may send: what it must give, and some of the rest."""
    required, optional = {}, {}
    for name, info in model.model_fields.items():
        target = required if info.default is PydanticUndefined and info.default_factory is None else optional
        target[name] = values(info.annotation, info.metadata)
    return st.fixed_dictionaries(required, optional=optional)


def subschemas(node: Any) -> list[dict[str, Any]]:
    """A schema and all schemas inside it."""
    if not isinstance(node, dict):
        return []
    found = [node]
    for key, value in node.items():
        if key in ("properties", "$defs"):
            found += [inner for schema in value.values() for inner in subschemas(schema)]
        elif isinstance(value, dict) and key != "default":
            found += subschemas(value)
        elif key in ("anyOf", "prefixItems"):
            found += [inner for schema in value for inner in subschemas(schema)]
    return found


def test_the_scan_finds_tools_and_their_names_are_those_of_their_modules() -> None:
    assert FOUND
    for kind in FOUND:
        assert kind.__module__.rpartition(".")[2] == kind.name


@EVERY
def test_the_schema_is_an_object_in_plain_json_schema_without_titles(kind) -> None:
    spec = built(kind).spec()
    schema = json.loads(json.dumps(spec.parameters))
    assert schema["type"] == "object"
    assert set(schema.get("required", [])) <= set(schema["properties"])
    for inner in subschemas(schema):
        assert set(inner) <= SIMPLE_KEYWORDS, "a keyword that a provider may not know"
        if "$ref" in inner:
            assert inner["$ref"].removeprefix("#/$defs/") in schema["$defs"]
    assert "mode" not in spec.parameters, "how it runs is no business of the model"


@EVERY
def test_every_argument_is_described(kind) -> None:
    for name, schema in built(kind).spec().parameters["properties"].items():
        assert schema.get("description"), name


@EVERY
def test_the_description_says_something_and_is_short(kind) -> None:
    description = built(kind).spec().description
    assert description == description.strip()
    assert 0 < len(description) <= 600


@EVERY
async def test_all_that_is_wrong_with_its_arguments_is_told_at_once_and_nothing_is_touched(kind) -> None:
    workspace = FakeWorkspace()
    tool = built(kind, workspace=workspace)
    bad = {name: {"no": "such type"} for name in tool.Args.model_fields}
    async with headless([call_text(kind.name, json.dumps(bad)), say("ok")], tools=[tool]) as h:
        await h.ask("go")
        assert codes(h) == ["INVALID_ARGS"]
        for name in bad:
            assert f"{name}: " in answers(h)[0] or f"{name}." in answers(h)[0]
        assert not workspace.touched


@EVERY
@given(data=st.data())
def test_effects_and_cards_are_pure_and_never_raise_for_valid_arguments(kind, data) -> None:
    workspace = FakeWorkspace({"a.py": "x = 1\n"})
    tool = built(kind, workspace=workspace)
    args = validate(tool, data.draw(arguments(kind.Args)))
    output = data.draw(st.text(max_size=50))
    before, state = args.model_copy(deep=True), copy.deepcopy(vars(workspace))
    effects = tool.effects(args)
    assert effects == tool.effects(args)
    for effect in effects:
        assert effect.kind in get_args(EffectKind)
        assert isinstance(effect.grant_key, str)
    for make in (
        lambda: tool.present_call(args),
        lambda: tool.present_result(args, output, None),
        lambda: tool.present_result(args, output, {}),
    ):
        card = make()
        assert card == make()
        assert isinstance(card, Card)
        assert card.title.strip()
    assert tool.mode_of(args) in ("parallel", "exclusive")
    assert args == before
    assert vars(workspace) == state


@EVERY
async def test_a_cancel_before_the_body_touches_nothing(kind) -> None:
    workspace = FakeWorkspace()
    registry = ToolRegistry()
    registry.register(built(kind, workspace=workspace))
    pipeline = ToolPipeline(registry, ToolHooks())
    signal = AbortSignal()
    execution = Execution(call_id="c", name=kind.name, arguments={}, turn=1, step=1, signal=signal)
    assert await pipeline.admit(execution) is None
    signal.abort(USER)
    outcome = await pipeline.dispatch(execution)
    assert outcome.error == ABORTED_BEFORE_DISPATCH.error
    assert not workspace.touched


def test_the_toolbox_registers_each_once_and_the_model_sees_them_by_name() -> None:
    context, registry = Context(), ToolRegistry()
    context.provide(ToolRegistry, registry)
    for service in (Workspace, Spills):
        context.provide(service, Untouchable())
    needed = {hint for kind in FOUND for key, hint in get_type_hints(kind.__init__).items() if key != "return"}
    for service in needed - {Workspace, Spills}:
        context.provide(service, Untouchable())
    dispose = context.mount(toolbox)
    names = [spec.name for spec in registry.specs()]
    assert names == sorted(kind.name for kind in FOUND) == registry.names()
    assert len(set(names)) == len(names)
    dispose()
    assert not registry.names()


# -- the tools over a workspace in memory ------------------------------------------------------------------------


async def test_files_are_listed_read_and_changed_by_their_tools() -> None:
    workspace = FakeWorkspace({"a.py": "x = 1\n", "b/c.py": "y = 2\n"})
    tools = [built(kind, workspace=workspace) for kind in FOUND]
    script = [
        call_text("list_files", "{}"),
        call_text("read_file", '{"path": "a.py"}'),
        call_text("edit_file", '{"path": "a.py", "old_text": "1", "new_text": "3"}'),
        call_text("write_file", '{"path": "d.py", "content": "z = 4\\n"}'),
        call_text("read_file", '{"path": "../e.py"}'),
        say("ok"),
    ]
    async with headless(script, tools=tools) as h:
        await h.ask("go")
        assert answers(h)[:2] == ["a.py\nb/c.py", "1\tx = 1"]
        assert codes(h) == [None, None, None, None, "OUTSIDE"]
        assert workspace.files == {"a.py": "x = 3\n", "b/c.py": "y = 2\n", "d.py": "z = 4\n"}
