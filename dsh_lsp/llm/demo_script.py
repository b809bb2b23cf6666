"""Demo script: what the demo's model says; a script, not a model, and it says so.

Rules: replies depend on what the request holds, so that a steer, a rejection or an edit that is not confirmed is
answered for what it is.
"""

from __future__ import annotations

from dsh_lsp.llm.adapter import ModelRequest
from dsh_lsp.llm.scripted import Reply, ScriptedAdapter, call, say, think
from dsh_lsp.messages import ToolResultBlock

FILES = {
    "calc.py": '"""A pocket calculator."""\n\n\ndef add(a, b):\n    return a - b\n',
    "test_calc.py": (
        "import unittest\n\nimport calc\n\n\nclass CalcTest(unittest.TestCase):\n"
        "    def test_add(self):\n        self.assertEqual(calc.add(2, 3), 5)\n\n\n"
        'if __name__ == "__main__":\n    unittest.main()\n'
    ),
}
QUESTION = "test_calc.py fails. Find out why and mend it."
STEER = "Keep the change as small as you can."
OLD, NEW = "    return a - b\n", "    return a + b\n"

SORRY = "I am a script that plays DSH's demo, not a model. Choose a provider and set a key to get real answers."


def demo_adapter() -> ScriptedAdapter:
    """The adapter that plays the demo."""
    return ScriptedAdapter([_look, _read, _edit, _sum_up], provider="demo", default=say(SORRY), delay_s=0.02)


def _asked(request: ModelRequest) -> bool:
    return any(message.role == "user" and QUESTION in message.text for message in request.messages)


def _look(request: ModelRequest) -> Reply:
    if not _asked(request):
        return say(SORRY)
    return think("A failing test. First see what there is.") + say("Let me look at the project.") + call("list_files")


def _read(request: ModelRequest) -> Reply:  # noqa: ARG001
    return (
        say("I will read the test and the code under it.")
        + call("read_file", path="test_calc.py")
        + call("read_file", path="calc.py")
    )


def _edit(request: ModelRequest) -> Reply:
    steered = any(message.role == "user" and STEER in message.text for message in request.messages)
    plan = "Understood: one character will do. " if steered else ""
    return (
        think("add() subtracts.")
        + say(f"{plan}`add` subtracts where it should add. I propose an edit for your review.")
        + call("edit_file", path="calc.py", old_text=OLD, new_text=NEW)
    )


def _sum_up(request: ModelRequest) -> Reply:
    results = [
        block.text for message in request.messages for block in message.content if isinstance(block, ToolResultBlock)
    ]
    last = results[-1] if results else ""
    if "accepted and is in the document" in last:
        return say("Done: `add` in calc.py adds now. I changed one line, and have not run the tests myself.")
    if "rejected" in last:
        return say("You rejected the edit, so calc.py is as it was and the test still fails.")
    return say("The edit is not confirmed to be in calc.py, so I do not claim that anything is mended.")
