"""Plugin: what is registered is undone, last first."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lsp.errors import UsageError
from dsh_lsp.hooks import Emit, HookSet, Serial, Waterfall
from dsh_lsp.plugin import Context, Scope, check_plugin


def test_a_scope_undoes_last_first_and_once() -> None:
    scope, undone = Scope(), []
    for name in "abc":
        scope.own(lambda name=name: undone.append(name))
    early = scope.own(lambda: undone.append("early"))
    early()
    early()
    scope.close()
    scope.close()
    assert undone == ["early", "c", "b", "a"]


def test_a_disposer_that_fails_stops_no_other() -> None:
    scope, undone = Scope(), []
    scope.own(lambda: undone.append(1))
    scope.own(lambda: 1 / 0)
    scope.close()
    assert undone == [1]


def test_a_child_closes_with_its_parent_or_before_and_is_forgotten() -> None:
    parent, undone = Scope(), []
    for name in ("first", "second"):
        child = parent.child()
        child.own(lambda name=name: undone.append(name))
        if name == "first":
            child.close()
    parent.close()
    assert undone == ["first", "second"]


def test_a_closed_scope_takes_nothing() -> None:
    scope = Scope()
    scope.close()
    with pytest.raises(UsageError):
        scope.own(lambda: None)


def test_a_plugin_gets_what_it_injects_and_leaves_nothing_behind() -> None:
    context = Context()
    context.provide(list, seen := [])

    def apply(ctx: Context, settings: object) -> None:
        ctx.get(list).append(settings)
        ctx.own(lambda: seen.append("gone"))

    plugin = SimpleNamespace(name="p", inject=(list,), apply=apply)
    unmount = context.mount(plugin, "settings")
    unmount()
    assert seen == ["settings", "gone"]


def test_a_plugin_that_fails_while_it_is_applied_leaves_nothing_behind() -> None:
    context, seen = Context(), []

    def apply(ctx: Context, settings: object) -> None:
        ctx.own(lambda: seen.append("undone"))
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        context.mount(SimpleNamespace(name="p", apply=apply))
    assert seen == ["undone"]


@pytest.mark.parametrize("plugin", [SimpleNamespace(name="p", inject=(dict,), apply=print), object()])
def test_what_is_no_plugin_or_misses_a_service_is_refused(plugin: object) -> None:
    with pytest.raises(UsageError):
        Context().mount(plugin)


def test_a_service_is_provided_once() -> None:
    context = Context()
    dispose = context.provide(list, [])
    with pytest.raises(UsageError):
        context.provide(list, [])
    dispose()
    context.provide(list, [])


# -- hiding, retiring, calls ---------------------------------------------------------------------------------


class Names:
    """A registry as strict as the real ones."""

    def __init__(self) -> None:
        self.held: list[str] = []

    def register(self, item: str, /):
        if item in self.held:
            raise UsageError(f"{item} is taken")
        self.held.append(item)
        return lambda: self.held.remove(item)


class Hooks(HookSet):
    def __init__(self) -> None:
        self.told: Emit[str] = Emit("told")
        self.asked: Serial[str] = Serial("asked")
        self.wrapped: Waterfall[str, Any] = Waterfall("wrapped")


async def default(text: str) -> str:
    return f"<{text}>"


actions = st.lists(st.sampled_from(["own", "register", "child", "leave"]), max_size=20)


@given(actions)
def test_closing_undoes_whatever_was_done_in_exactly_the_reverse_order(actions: list[str]) -> None:
    done: list[int] = []
    undone: list[int] = []
    root = Scope()
    nested = [root]
    for number, action in enumerate(actions):

        def do(number=number):
            done.append(number)
            return lambda: undone.append(number)

        match action:
            case "own":
                done.append(number)
                nested[-1].own(lambda number=number: undone.append(number))
            case "register":
                nested[-1].register(do)
            case "child":
                nested.append(nested[-1].child())
            case "leave" if len(nested) > 1:
                nested.pop()
    root.close()
    assert undone == done[::-1]


@given(actions)
def test_what_is_hidden_and_shown_again_is_as_it_was(actions: list[str]) -> None:
    names, root = Names(), Scope()
    nested = [root]
    for number, action in enumerate(actions):
        match action:
            case "register":
                nested[-1].register(lambda number=number: names.register(str(number)))
            case "child":
                nested.append(nested[-1].child())
            case "leave" if len(nested) > 1:
                nested.pop()
    before = set(names.held)
    root.hide()
    assert names.held == []
    root.show()
    assert set(names.held) == before
    root.close()
    assert names.held == []


def test_hiding_leaves_what_is_owned_and_forgets_what_was_disposed_before() -> None:
    names, scope, undone = Names(), Scope(), []
    scope.own(lambda: undone.append("connection"))
    dispose = scope.register(lambda: names.register("early"))
    scope.register(lambda: names.register("late"))
    dispose()
    scope.hide()
    assert (names.held, undone) == ([], [])
    scope.show()
    assert names.held == ["late"]


def test_a_registration_that_cannot_come_back_stops_no_other() -> None:
    names, scope = Names(), Scope()
    for name in "ab":
        scope.register(lambda name=name: names.register(name))
    scope.hide()
    names.register("a")
    scope.show()
    assert names.held == ["a", "b"]


def test_a_retired_scope_hides_at_once_and_closes_after_its_last_call() -> None:
    names, scope, undone = Names(), Scope(), []
    scope.own(lambda: undone.append("connection"))
    scope.register(lambda: names.register("tool"))
    with scope.call():
        with scope.call():
            scope.retire()
            assert names.held == []
            assert not scope.takes_calls
        assert undone == []
    assert undone == ["connection"]


def test_a_call_in_a_child_keeps_its_parent_open() -> None:
    parent, undone = Scope(), []
    parent.own(lambda: undone.append("parent"))
    child = parent.child()
    with child.call():
        parent.retire()
        assert not child.takes_calls
        assert undone == []
    assert undone == ["parent"]


def test_closing_does_not_wait_for_calls() -> None:
    scope, undone = Scope(), []
    scope.own(lambda: undone.append("connection"))
    with scope.call():
        scope.close()
        assert undone == ["connection"]


def test_what_a_plugin_registers_listens_to_and_provides_goes_with_it() -> None:
    context, names, hooks = Context(), Names(), Hooks()
    context.provide(Names, names)
    heard: list[str] = []

    def apply(ctx: Context, settings: object) -> None:
        ctx.register(Names, "mine")
        ctx.register(ctx.get(Names).register, "mine too")
        ctx.listen(hooks.told, heard.append)
        ctx.provide(dict, {})

    unmount = context.mount(SimpleNamespace(name="p", apply=apply))
    hooks.told("1")
    assert (names.held, heard, context.get(dict)) == (["mine", "mine too"], ["1"], {})
    unmount()
    hooks.told("2")
    assert (names.held, heard) == ([], ["1"])
    with pytest.raises(UsageError):
        context.get(dict)


async def test_a_listener_may_go_in_front_and_takes_part_as_its_hook_says() -> None:
    context, hooks = Context(), Hooks()
    context.listen(hooks.asked, answers(None))
    context.listen(hooks.asked, answers("yes"))
    context.listen(hooks.wrapped, around("a"))
    context.listen(hooks.wrapped, around("b"), prepend=True)
    assert await hooks.asked("?") == "yes"
    assert await hooks.wrapped("x", default) == "b(a(<xba>))"


def answers(value):
    async def listener(text):
        return value

    return listener


def around(name: str):
    async def listener(text, call_next):
        return f"{name}({await call_next(text + name)})"

    return listener


async def test_a_replaced_plugins_listener_finishes_its_call_and_gets_no_other() -> None:
    context, hooks, undone = Context(), Hooks(), []
    began, gate = asyncio.Event(), asyncio.Event()

    async def slow(text, call_next):
        began.set()
        await gate.wait()
        return f"slow({await call_next(text)})"

    def apply(ctx: Context, settings: object) -> None:
        ctx.listen(hooks.wrapped, slow)
        ctx.own(lambda: undone.append("connection"))

    unmount = context.mount(SimpleNamespace(name="p", apply=apply))
    running = asyncio.create_task(hooks.wrapped("x", default))
    await began.wait()
    unmount()
    assert await hooks.wrapped("y", default) == "<y>"
    assert undone == []
    gate.set()
    assert await running == "slow(<x>)"
    assert undone == ["connection"]


async def test_a_dispatch_that_began_before_passes_a_retired_listener_by() -> None:
    context, hooks, heard = Context(), Hooks(), []
    scopes: list[Scope] = []

    def apply(ctx: Context, settings: object) -> None:
        scopes.append(ctx.scope)
        ctx.listen(hooks.told, heard.append)
        ctx.listen(hooks.asked, answers("mine"))
        ctx.listen(hooks.wrapped, around("mine"))

    async def retires(text, call_next=default):
        for scope in scopes:
            scope.retire()
        return await call_next(text) if call_next is not default else None

    for hook in (hooks.wrapped, hooks.asked):
        dispose = hook.listen(retires)
        context.mount(SimpleNamespace(name="p", apply=apply))
        assert await (hooks.wrapped("x", default) if hook is hooks.wrapped else hooks.asked("?")) in ("<x>", None)
        dispose()

    hooks.told.listen(lambda _: [scope.retire() for scope in scopes])
    context.mount(SimpleNamespace(name="p", apply=apply))
    hooks.told("?")
    assert heard == []


async def test_a_stream_that_a_listener_answers_with_belongs_to_its_call() -> None:
    context, hooks, undone = Context(), Hooks(), []

    async def numbers(_text):
        async def stream():
            for number in range(3):
                yield number

        return stream()

    async def doubled(text, call_next):
        async def stream(inner):
            async for number in inner:
                yield number * 2

        return stream(await call_next(text))

    def apply(ctx: Context, settings: object) -> None:
        ctx.listen(hooks.wrapped, doubled)
        ctx.own(lambda: undone.append("connection"))

    unmount = context.mount(SimpleNamespace(name="p", apply=apply))
    stream = await hooks.wrapped("", numbers)
    assert await anext(stream) == 0
    unmount()
    assert undone == []
    assert [number async for number in stream] == [2, 4]
    assert undone == ["connection"]


def test_what_is_no_hook_is_refused() -> None:
    with pytest.raises(UsageError):
        Context().listen("agent/status", print)  # type: ignore[call-overload]


def test_an_async_function_cannot_be_told() -> None:
    with pytest.raises(UsageError, match="must not be async"):
        Context().listen(Hooks().told, default)


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ({"apply": print}, "needs `name`"),
        ({"name": "p"}, "needs `name`"),
        ({"name": "", "apply": print}, "`name` must be"),
        ({"name": 7, "apply": print}, "`name` must be"),
        ({"name": "p", "apply": 7}, "`apply` must be"),
        ({"name": "p", "apply": print, "inject": [list]}, "`inject` must be"),
        ({"name": "p", "apply": print, "inject": ("list",)}, "`inject` must be"),
    ],
)
def test_what_is_wrong_with_a_plugins_shape_is_said_to_its_author(shape: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_plugin(SimpleNamespace(**shape))


def test_a_class_is_no_plugin() -> None:
    class Unmade:
        name = "p"

        def apply(self, ctx, settings) -> None: ...

    check_plugin(Unmade())
    with pytest.raises(UsageError):
        check_plugin(Unmade)
