"""Demo script: what the demo's model says; a script, not a model, and it says so.

Rules: a reply depends on what the request holds and on nothing else, so that a steer, a rejection or an edit that
is not confirmed is answered for what it is; to anything but the demo's own question in the demo's own project it
answers that it is a script.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

import anyio

from dsh_lsp.llm.adapter import ModelRequest, PreparedCall
from dsh_lsp.llm.scripted import Reply, ScriptedAdapter, call, say, think
from dsh_lsp.messages import (
    AssistantMessage,
    BlockStart,
    CallConfig,
    Chunk,
    ReasoningDelta,
    TextDelta,
    ToolResultBlock,
    UserMessage,
    UserSource,
)

PROVIDER: Final = "demo"
MODEL: Final = "demo"
FAST_MODEL: Final = "demo-fast"

FILES: Final = {
    "calc.py": '"""A pocket calculator."""\n\n\ndef add(a, b):\n    """Add two numbers."""\n    return a - b\n',
    "test_calc.py": (
        "import unittest\n\nimport calc\n\n\nclass CalcTest(unittest.TestCase):\n"
        "    def test_add(self):\n        self.assertEqual(calc.add(2, 3), 5)\n\n\n"
        'if __name__ == "__main__":\n    unittest.main()\n'
    ),
}
QUESTION: Final = "test_calc.py fails. Find out why and mend it."
STEER: Final = "Keep the change as small as you can."
OLD, NEW = "return a - b", "return a + b"

SORRY: Final = (
    "I am the script that plays DSH's demo, not a model, and I know only the demo's own question. "
    "Set model.provider to a real one, and its key, to get real answers."
)

PACE_S: Final = 0.036  # a word: about what a quick model writes
FAST_PACE_S: Final = 0.004
_WORDS_A_BLOCK: Final = 10  # the pause before a block, in words


class DemoAdapter:
    """Plays the demo at a pace to read by; the model name `demo-fast` plays it quickly."""

    def __init__(self) -> None:
        self._script = ScriptedAdapter(provider=PROVIDER, default=_reply)

    @property
    def provider(self) -> str:
        """The name by which settings choose it."""
        return PROVIDER

    def prepare(self, config: CallConfig) -> PreparedCall:
        """Bind the call; the model's name chooses the pace."""
        prepared = self._script.prepare(config)
        pace_s = FAST_PACE_S if config.model == FAST_MODEL else PACE_S

        async def stream(request: ModelRequest) -> AsyncIterator[Chunk]:
            async with aclosing(prepared.stream(request)) as chunks:  # type: ignore[type-var]
                async for chunk in chunks:
                    with request.signal.guard():
                        await anyio.sleep(_words(chunk) * pace_s)
                    yield chunk

        return replace(prepared, stream=stream)


def demo_adapter() -> DemoAdapter:
    """The adapter that plays the demo."""
    return DemoAdapter()


def _words(chunk: Chunk) -> int:
    """How long a chunk takes, in words."""
    match chunk:
        case BlockStart():
            return _WORDS_A_BLOCK
        case TextDelta() | ReasoningDelta():
            return 1
        case _:
            return 0


# -- what a request holds ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What has happened since the demo's question: what people said, and each tool with its result."""

    said: tuple[str, ...]
    results: tuple[tuple[str, str], ...]

    @property
    def steered(self) -> bool:
        """Whether the steer has arrived."""
        return STEER in self.said

    @property
    def tools(self) -> list[str]:
        """The tools that have answered, in order."""
        return [name for name, _ in self.results]

    def last(self, tool: str) -> str:
        """The last result of a tool."""
        return next((text for name, text in reversed(self.results) if name == tool), "")


def derive_scene(request: ModelRequest) -> Scene | None:
    """Read a request; None if it does not end in the demo's question."""
    said: list[str] = []
    results: list[tuple[str, str]] = []
    names: dict[str, str] = {}
    asked = False
    for message in request.messages:
        if isinstance(message, AssistantMessage):
            names |= {block.id: block.name for block in message.tool_calls}
        elif isinstance(message.source, UserSource) and message.text == QUESTION:
            asked, said, results = True, [], []
        elif isinstance(message.source, UserSource):
            said.append(message.text)
        else:
            results += _results(message, names)
    others = [text for text in said if text != STEER]
    return Scene(said=tuple(said), results=tuple(results)) if asked and not others else None


def _results(message: UserMessage, names: dict[str, str]) -> list[tuple[str, str]]:
    return [
        (names.get(block.tool_call_id, ""), block.text)
        for block in message.content
        if isinstance(block, ToolResultBlock)
    ]


# -- what is answered ----------------------------------------------------------------------------------------


def _reply(request: ModelRequest) -> Reply:
    scene = derive_scene(request)
    match scene.tools if scene is not None else None:
        case []:
            return _look()
        case ["list_files"] if scene is not None and all(name in scene.last("list_files") for name in FILES):
            return _read()
        case ["list_files", "read_file", "read_file"] if scene is not None and OLD in scene.last("read_file"):
            return _edit(scene)
        case [*_, "edit_file"] if scene is not None:
            return _after_edit(scene)
        case [*_, "edit_file", "read_file"] if scene is not None:
            return _after_doubt(scene)
        case _:
            return say(SORRY)


def _look() -> Reply:
    return (
        think("A failing test, and I have not seen the project yet.")
        + say("Let me see what is here.")
        + call("list_files")
    )


def _read() -> Reply:
    return (
        say("Two files. I read the test, then the code that it tests.")
        + call("read_file", path="test_calc.py")
        + call("read_file", path="calc.py")
    )


def _edit(scene: Scene) -> Reply:
    size = "You want it small: one character is enough. " if scene.steered else ""
    return (
        think("The test wants 5 for add(2, 3). The function returns 2 - 3, which is -1.")
        + say(f"`add` subtracts where it should add. {size}This is the edit, for your review.")
        + call("edit_file", path="calc.py", old_text=OLD, new_text=NEW)
    )


def _after_edit(scene: Scene) -> Reply:
    result = scene.last("edit_file")
    if "is in the document" in result:
        small = ", by one character as you asked" if scene.steered else ""
        return say(f"Done. `add` in calc.py adds now{small}. I have not run the test myself.")
    if "user rejected" in result:
        comment = re.search(r"They said: (.*)", result)
        words = f' You said: "{comment[1]}"' if comment else ""
        return say(f"You rejected the edit, so calc.py is as it was and the test fails as before.{words}")
    return (
        think("I am told that the edit was applied and that nobody has seen it. I had better look.")
        + say("The edit is not confirmed. I read the file again.")
        + call("read_file", path="calc.py")
    )


def _after_doubt(scene: Scene) -> Reply:
    if NEW in scene.last("read_file"):
        return say("It is there now: `add` in calc.py adds. It came late.")
    return say(f"calc.py still says `{OLD}`. The edit is not there, and nothing is mended.")
