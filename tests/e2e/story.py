"""Story: the file and the scripted answers that the editor suites share."""

from __future__ import annotations

from tests.support.model_server import Gate, Reply, answer

CALC = "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return a + a\n"
MENDED = CALC.replace("a - b", "a + b")
OTHER = "x = 1\ny = 2\n"
MEND = answer("I mend it.", calls=[("edit_file", {"path": "calc.py", "old_text": "a - b", "new_text": "a + b"})])
BOTH = MENDED.replace("a + a", "2 * a")
MEND_BOTH = answer("Both.", calls=[("write_file", {"path": "calc.py", "content": BOTH})])
DONE = answer("Done.")
ACCEPT, REJECT = "DSH: Accept this edit", "DSH: Reject this edit"


def edits(*changes: tuple[str, str, str]) -> Reply:
    """One answer that edits files, each change a path, the old text and the new."""
    calls = [("edit_file", {"path": path, "old_text": old, "new_text": new}) for path, old, new in changes]
    return answer("I edit.", calls=calls)


MEND_OTHER = edits(("other.py", "y = 2", "y = 3"))


def held_after(words: str, packets: int = 3) -> tuple[Reply, Gate]:
    """An answer that stops after so many packets until the gate is released."""
    whole, gate = answer(words), Gate()
    return Reply(packets=(*whole.packets[:packets], gate, *whole.packets[packets:])), gate


def uneven(number: int) -> float:
    """Pauses as a person makes them, some longer than the 150 ms after which Neovim tells of what was typed."""
    return (0.01, 0.03, 0.01, 0.08, 0.02, 0.2)[number % 6]
