"""Demo screen: the page of a run, and the runs of the project's tests that the demo alone shows."""

from __future__ import annotations

import re
from typing import Final

from dsh_lsp.screen import Screen

_TEST_LINES: Final = re.compile(r"(FAIL|ERROR): |\s+self\.assert|\w+(Error|Exception)\b|Ran \d|OK\b|FAILED\b")


class DemoScreen(Screen):
    """The demo's page."""

    def test(self, command: str, output: str, *, passed: bool) -> None:
        """Show a run of the tests: the command and the lines that matter."""
        self._paragraph("test", "test")
        self._put(f"$ {command}", "dim")
        self._break()
        for line in output.splitlines():
            if _TEST_LINES.match(line):
                verdict = line.startswith(("OK", "FAILED"))
                self._indent()
                self._flow(line, ("green" if passed else "red") if verdict else "plain")
                self._break()
