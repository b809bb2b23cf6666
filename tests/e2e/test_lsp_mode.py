"""Emacs with lsp-mode: what its user sees, types and decides, and what the model reads of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.desk import wait_for
from tests.e2e.emacs import END, LSP_MODE, START, EmacsDesk
from tests.e2e.story import ACCEPT, CALC, MENDED, OTHER
from tests.support.model_server import answer

LENSES = """
(vconcat (mapcar (lambda (overlay) (substring-no-properties (or (overlay-get overlay 'after-string) "")))
                 (overlays-in (point-min) (point-max))))
"""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[EmacsDesk]:
    with EmacsDesk.set_up(tmp_path, {"calc.py": CALC, "other.py": OTHER}, client=LSP_MODE) as desk:
        yield desk


def test_a_code_action_explains_the_region_and_no_count_of_actions_follows_the_cursor(desk: EmacsDesk) -> None:
    desk.model.script(answer("It subtracts."))
    desk.go_to_hunk()
    desk.emacs.value("(lsp-modeline--check-code-actions)")
    desk.run("dsh.status")  # what was asked before is answered by now
    assert not desk.emacs.value("lsp-modeline--code-actions-string")
    desk.emacs.keys(f"{START}\x0e\x00\x0e")  # the second line is the region
    desk.act("DSH: Explain this")
    assert "From calc.py, lines 2-2:\n```\n    return a - b\n" in desk.sent_messages(1)[-1]["content"]
    wait_for(lambda: "DSH: It subtracts." in desk.emacs.messages(), "the answer is told")


def test_what_waits_is_shown_and_a_code_action_lands_it_beside_unsaved_text(desk: EmacsDesk) -> None:
    emacs = desk.emacs
    emacs.keys(f"{END}# not saved yet")
    wait_for(lambda: emacs.text() == CALC + "# not saved yet", "the keys are in the buffer")
    desk.open_review()
    shown = "(vconcat (mapcar #'flymake-diagnostic-text (flymake-diagnostics)))"
    wait_for(lambda: "+     return a + b" in str(emacs.value(shown)), "the hunk is a diagnostic")
    wait_for(lambda: "DSH: Accept" in str(emacs.value(LENSES)), "the hunk has lenses")
    assert emacs.prompts() == []
    desk.go_to_hunk()
    desk.act(ACCEPT)
    result = desk.tool_result(2)
    assert "calc.py: the edit was accepted and is in the document, line 2" in result
    assert "not saved: the document and its file differed before the edit" in result
    assert emacs.text() == MENDED + "# not saved yet"
    assert desk.on_disk("calc.py") == CALC
    wait_for(lambda: emacs.value(shown) == [], "nothing is shown any more")


def test_a_file_that_is_not_open_is_written_and_a_new_one_made_after_acceptance(desk: EmacsDesk) -> None:
    files = desk.emacs.files()
    write = ("write_file", {"path": "pkg/new.py", "content": "NEW = True\n"})
    edit = ("edit_file", {"path": "other.py", "old_text": "y = 2", "new_text": "y = 3"})
    desk.open_review(answer("", calls=[write, edit]), 2)
    assert not (desk.root / "pkg").exists()
    assert desk.on_disk("other.py") == OTHER
    desk.emacs.run_command("dsh-accept-all")
    results = desk.tool_results(2)
    assert ["the edit was accepted" in result for result in results] == [True, True]
    assert desk.on_disk("pkg/new.py") == "NEW = True\n"
    assert desk.on_disk("other.py") == "x = 1\ny = 3\n"
    assert desk.emacs.files() == files
