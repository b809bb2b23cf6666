"""Questions: what a headless run asks the person who started it: whether an edit or a call is wanted, and more.

Owns: standard input.
Rules: one question at a time; silence, an end of input and what nobody understands never allow anything; what was
typed before a question stood there is no answer to it; an edit may be answered through a pipe, a call only at a
terminal.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import anyio

from dsh_lsp.decisions import Allowed, ApprovalOutcome, FileKind, Refused
from dsh_lsp.screen import Screen
from dsh_lsp.tools.approvals import ApprovalRequest
from dsh_lsp.tools.cards import words_of
from dsh_lsp.tools.questions import QuestionRequest
from dsh_lsp.workspace.edits import applied
from dsh_lsp.workspace.files import Choice, HunkQuestion

EDIT_CHOICES: Final = "Accept? [y]es, [n]o, no and why, [a]ll from here on, [q]: none from here on:"
CALL_CHOICES: Final = "Allow? [y]es, [s]: for the whole session, [n]o:"
NOBODY: Final = "nobody was there to review it, so it counts as rejected"
NO_TERMINAL: Final = "nobody can be asked: this is a run without a terminal"


class Lines:
    """A descriptor's lines, read when they are asked for."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._held = b""
        self._ended = False

    @property
    def is_terminal(self) -> bool:
        """Whether a person types them."""
        with suppress(OSError):
            return os.isatty(self._descriptor)
        return False

    def forget(self) -> None:
        """Drop what was typed already; what came through a pipe stays."""
        if self.is_terminal:
            self._held = b""
            with suppress(ImportError, OSError):
                import termios

                termios.tcflush(self._descriptor, termios.TCIFLUSH)

    async def next(self) -> str | None:
        """The next line without its end; None at the end of input."""
        while b"\n" not in self._held and not self._ended:
            data = await self._read()
            self._ended = not data and not self.is_terminal  # a terminal's end of input ends one answer
            self._held += data
            if not data:
                break
        line, end, rest = self._held.partition(b"\n")
        self._held = rest
        return line.decode(errors="replace").strip() if line or end else None

    async def _read(self) -> bytes:
        """Read in a thread of its own: it cannot be interrupted, and must not keep the process from ending."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[bytes] = loop.create_future()

        def settle(data: bytes) -> None:
            if not done.done():
                done.set_result(data)

        def read() -> None:
            data = b""
            with suppress(OSError):
                data = os.read(self._descriptor, 4096)
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(settle, data)

        threading.Thread(target=read, name="answers", daemon=True).start()
        return await done


WHAT: dict[FileKind, str] = {"edit": "an edit", "create": "a new file", "rename": "a rename", "delete": "a deletion"}


class Questions:
    """Asks on a screen and reads the answers; `accepts_edits` answers for all edits."""

    def __init__(self, screen: Screen, lines: Lines, *, accepts_edits: bool) -> None:
        self._screen = screen
        self._lines = lines
        self._edits: bool | None = True if accepts_edits else None  # the answer for all that come
        self._turns = anyio.Lock()
        self._waiting: list[Callable[[], object]] = []
        self._asking = False

    def show(self, act: Callable[[], object]) -> None:
        """Put something on the screen: now, or once the open question is answered."""
        if self._asking:
            self._waiting.append(act)
        else:
            act()

    async def decide(self, question: HunkQuestion) -> Choice:
        """Show a change and ask whether it is wanted."""
        async with self._turns:
            what = WHAT[question.kind] + (f" to {question.new_path}" if question.new_path else "")
            part = f", {question.number} of {question.count}" if question.count > 1 else ""
            after = applied(question.text, [question.hunk])
            self._screen.diff(question.path, str(question.text), str(after), state=f"{what}{part}")
            if self._edits is not None:
                return Choice(accepts=self._edits)
            while True:
                answer = await self._ask(EDIT_CHOICES)
                if answer is None:
                    return Choice(accepts=False, comment=None if self._lines.is_terminal else NOBODY)
                word, _, comment = answer.partition(" ")
                match word.lower():
                    case "y" | "yes":
                        return Choice(accepts=True)
                    case "n" | "no":
                        return Choice(accepts=False, comment=comment.strip() or None)
                    case "a" | "all":
                        self._edits = True
                        return Choice(accepts=True)
                    case "q" | "quit":
                        self._edits = False
                        return Choice(accepts=False)

    async def approve(
        self, request: ApprovalRequest, _call_next: Callable[[ApprovalRequest], Awaitable[ApprovalOutcome]]
    ) -> ApprovalOutcome:
        """Ask whether a call may run."""
        asked = request.asked
        async with self._turns:
            self._screen.edit(f"May {asked.tool_name} run?")
            for effect in asked.effects:
                self._screen.edit(f"  {words_of(effect)}")
            if asked.reason:
                self._screen.edit(asked.reason)
            if not self._lines.is_terminal:
                self._screen.edit(f"Refused: {NO_TERMINAL}.")
                return Refused(kind="unavailable", comment=NO_TERMINAL)
            while True:
                answer = await self._ask(CALL_CHOICES)
                if answer is None:
                    return Refused(kind="rejected")
                word, _, comment = answer.partition(" ")
                match word.lower():
                    case "y" | "yes":
                        return Allowed(kind="allowedOnce")
                    case "s" | "session":
                        keys = tuple(effect.grant_key for effect in asked.effects)
                        return Allowed(kind="allowedSession", grant_keys=keys)
                    case "n" | "no" | "q" | "quit":
                        return Refused(kind="rejected", comment=comment.strip() or None)

    async def answer(
        self, request: QuestionRequest, _call_next: Callable[[QuestionRequest], Awaitable[str | None]]
    ) -> str | None:
        """Ask what the agent wants to know; None where nobody is at a terminal."""
        asked = request.asked
        options = asked.options or ()
        async with self._turns:
            self._screen.edit(asked.text)
            for number, option in enumerate(options, 1):
                self._screen.edit(f"  [{number}] {option}")
            if not self._lines.is_terminal:
                self._screen.edit(f"Not answered: {NO_TERMINAL}.")
                return None
            free = asked.free_text or not options
            numbers = f"a number from 1 to {len(options)}" if options else ""
            choices = " or ".join(filter(None, [numbers, "your own words" if free else ""]))
            while True:
                answer = await self._ask(f"{choices[:1].upper()}{choices[1:]}:")
                if answer is None:
                    return None
                if answer.isdecimal() and 0 < int(answer) <= len(options):
                    return options[int(answer) - 1]
                if answer in options or (free and answer):
                    return answer

    async def _ask(self, choices: str) -> str | None:
        self._lines.forget()
        self._screen.ask(choices)
        self._asking = True
        answer: str | None = None
        answered = False
        try:
            answer = await self._lines.next()
            answered = True
        finally:
            self._asking = False
            typed = answered and answer is not None and self._lines.is_terminal
            self._screen.answer("(end of input)" if answered and answer is None else answer or "", echoed=typed)
            waiting, self._waiting = self._waiting, []
            for act in waiting:
                act()
        return answer
