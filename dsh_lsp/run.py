"""Run: one prompt in one directory without an editor, for people at a terminal, scripts and CI.

Owns: the process while it lasts: its signals, its output, its exit code.
Rules: the same runtime as in an editor, over files; edits and approvals are asked for; what is printed is derived
from the session's events; however it ends, the log on disk is whole.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TextIO

import anyio
from anyio.abc import TaskGroup

from dsh_lsp.abort import USER
from dsh_lsp.agent.driver import new_id
from dsh_lsp.agent.hooks import AgentHooks, StreamFrame
from dsh_lsp.compose import Ports, Session, groundwork_of, new_log, open_session
from dsh_lsp.decisions import HunkDecided, ReviewDecided, ReviewOpened
from dsh_lsp.errors import ConfigError, DshError, error_chain
from dsh_lsp.events import (
    AssistantAttempt,
    AssistantChunk,
    AssistantMessageLogged,
    Ended,
    EndedByAbort,
    EndedByError,
    LogEvent,
    ToolCall,
    ToolResult,
    TurnEnd,
    encode_event,
)
from dsh_lsp.llm.adapter import Llm
from dsh_lsp.log_level import read_level
from dsh_lsp.messages import ToolResultBlock
from dsh_lsp.providers import build_models
from dsh_lsp.questions import Lines, Questions
from dsh_lsp.screen import Screen
from dsh_lsp.session.store import SessionStore
from dsh_lsp.session_settings import Settings
from dsh_lsp.settings import read_settings, settings_under
from dsh_lsp.tools.cards import call_card
from dsh_lsp.tools.registry import ToolRegistry
from dsh_lsp.upkeep import RetryPlanned
from dsh_lsp.wire import JsonObject, dump_bytes, encode
from dsh_lsp.workspace.files import FileWorkspace

FAILED: Final = 1
USAGE: Final = 2
BROKEN_PIPE: Final = 141
INTERRUPTED: Final = 128  # and the signal's number, as shells say it
DISPOSE_GRACE_S: Final = 1.0
MAX_TROUBLE_LINES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the command line asks for; `settings` is the file of settings, the others win over it."""

    prompt: str
    directory: Path = field(default_factory=Path.cwd)
    accepts_edits: bool = False
    as_json: bool = False
    provider: str | None = None
    model: str | None = None
    mode: str | None = None
    settings: Path | None = None
    sessions: Path | None = None


def run_prompt(options: RunOptions) -> int:
    """Run one prompt; the exit code: 0 completed, 1 failed, 2 usage, 130 interrupted."""
    if not options.prompt.strip():
        return _complain("there is nothing to do: the prompt is empty", USAGE)
    if not options.directory.is_dir():
        return _complain(f"{options.directory} is not a directory", USAGE)
    try:
        logging.basicConfig(level=read_level(os.environ, default="ERROR"), stream=sys.stderr)
        settings = choose_settings(options)
        # A log that cannot be written ends the run, which says so itself.
        logging.getLogger(SessionStore.__module__).setLevel(logging.CRITICAL)
    except ConfigError as error:
        return _complain(str(error), USAGE)
    run = _Run(options, settings)
    try:
        return asyncio.run(run.play())
    except DshError as error:
        return _complain(str(error), FAILED)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED + signal.SIGINT
    finally:
        run.output.close()


def _complain(message: str, code: int) -> int:
    sys.stderr.write(f"dsh-lsp run: {message}\n")
    return code


def choose_settings(options: RunOptions) -> Settings:
    """The settings of a file under those of the command line.

    Raises:
        ConfigError: one is wrong; the text names its key.
    """
    chosen = {
        "model.provider": options.provider,
        "model.name": options.model,
        "mode": options.mode,
        "sessions.directory": str(options.sessions.absolute()) if options.sessions is not None else None,
    }
    settings, problems = read_settings(Settings, settings_under(options.settings, chosen))
    if problems:
        raise ConfigError("; ".join(f"setting {problem}" for problem in problems), code="BAD_SETTING")
    return settings


class _Run:
    """One run: the session, what is shown of it, and how it ends."""

    def __init__(self, options: RunOptions, settings: Settings) -> None:
        self._options = options
        self._settings = settings
        self.output = _Output(sys.stdout)
        # Where events are printed, questions go beside them.
        self._screen = Screen.on(sys.stderr if options.as_json else sys.stdout, os.environ)
        self._questions = Questions(self._screen, Lines(0), accepts_edits=options.accepts_edits)
        self._signal: int | None = None
        self._error: BaseException | None = None

    async def play(self) -> int:
        """Ask, wait for the end, and say how it ended; the exit code.

        Raises:
            DshError: it could not begin, or the log could not be written.
        """
        llm = build_models(self._settings.model)
        failure: DshError | None = None  # a task group would wrap it
        code = FAILED
        try:
            async with anyio.create_task_group() as tasks:
                try:
                    code = await self._play(self._open(llm, tasks))
                except DshError as error:
                    failure = error
                tasks.cancel_scope.cancel()
        finally:
            await llm.aclose()
        if failure is not None:
            raise failure
        return code

    async def _play(self, session: Session) -> int:
        try:
            session.check_ready()
            self._heed_signals(session)
            self._follow(session)
            session.agent.followup(session.agent.message(self._options.prompt))
            await session.agent.when_idle()
            await session.store.flush()
            return self._end(session)
        finally:
            with anyio.CancelScope(shield=True):
                await session.agent.dispose(grace_s=DISPOSE_GRACE_S)
                if len(session.log):  # what was refused at once leaves no file
                    await session.close()

    def _open(self, llm: Llm, tasks: TaskGroup) -> Session:
        hooks = AgentHooks()
        hooks.tools.approval.listen(self._questions.approve)
        hooks.tools.question.listen(self._questions.answer)
        hooks.error.listen(lambda failed: setattr(self, "_error", failed.error))
        root = Path(os.path.realpath(self._options.directory))

        ground = groundwork_of(self._settings, new_log(self._settings, root))
        workspace = FileWorkspace(
            root,
            ground.log,
            decide=self._questions.decide,
            new_id=new_id,
            copies=ground.copies,
            guarded=ground.guarded,
        )
        session = open_session(self._settings, ground, Ports(workspace=workspace), llm=llm, hooks=hooks, tasks=tasks)
        for failure in session.plugins.report().failed:
            _complain(str(failure), FAILED)
        return session

    def _follow(self, session: Session) -> None:
        """Print what happens, and stop the turn when nobody can read it any more."""

        def guarded(act: Callable[[], object]) -> None:
            try:
                act()
            except OSError:  # the reader has gone: a pipe is closed, a terminal is no more
                self.output.broken = True
                session.agent.cancel(USER)

        log, hooks = session.log, session.agent.hooks
        if self._options.as_json:
            guarded(lambda: self.output.row({"type": "session", **encode(log.header)}))
            log.appended.listen(lambda event: guarded(lambda: self.output.event(event)))
            return
        page = Page(self._screen, session.tools)
        guarded(lambda: self._screen.user(self._options.prompt))
        log.appended.listen(lambda event: self._questions.show(lambda: guarded(lambda: page.show(event))))
        hooks.stream.listen(lambda frame: self._questions.show(lambda: guarded(lambda: page.stream(frame))))

    def _heed_signals(self, session: Session) -> None:
        """Let a signal cancel the turn: a second one no longer waits for anybody."""

        def cancel(number: int) -> None:
            self._signal = self._signal or number
            session.agent.cancel(USER)

        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None:
                with suppress(NotImplementedError):  # Windows
                    asyncio.get_running_loop().add_signal_handler(number, cancel, number)

    def _end(self, session: Session) -> int:
        """Say how the last turn ended."""
        ends = (event.data for event in reversed(session.log) if isinstance(event.data, TurnEnd))
        end = next(ends, None)
        if self.output.broken:
            return BROKEN_PIPE
        if not self._options.as_json:
            with suppress(OSError):
                self._screen.note(f"dsh-lsp show {session.id[:12]} shows this session again.", "dim")
        if self._signal is not None:
            return _complain("cancelled", INTERRUPTED + self._signal)
        match end.reason if end is not None else None:
            case Ended(kind="completed"):
                return 0
            case Ended(kind="max-tokens"):
                return _complain("the answer reached its token limit: raise model.maxTokens", FAILED)
            case Ended(kind=kind):
                return _complain(f"the turn ended as {kind}", FAILED)
            case EndedByAbort(reason=cause):
                return _complain(f"the turn was stopped: {cause.reason or cause.kind}", FAILED)
            case EndedByError(error=failure):
                return _complain(failure.message, FAILED)
            case _:
                why = error_chain(self._error) if self._error is not None else "no turn could be opened"
                return _complain(why, FAILED)


class _Output:
    """Standard output for events: one row a line, at once."""

    def __init__(self, out: TextIO) -> None:
        self.broken = False
        self._out = out

    def event(self, event: LogEvent) -> None:
        """Print an event as it stands in the log; chunks are left out."""
        if not isinstance(event.data, AssistantChunk):
            self.row(encode_event(event))

    def row(self, row: JsonObject) -> None:
        """Print a row."""
        self._out.buffer.write(dump_bytes(row) + b"\n")
        self._out.flush()

    def close(self) -> None:
        """Let the interpreter's own flush at its end find somebody who reads."""
        try:
            self._out.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._out.fileno())


class Page:
    """A session's events as text on a screen."""

    def __init__(self, screen: Screen, tools: ToolRegistry) -> None:
        self._screen = screen
        self._tools = tools
        self._streamed = ""
        self._shown = False  # whether anything of the running call stands on the screen
        self._paths: dict[str, str] = {}  # by hunk

    def stream(self, frame: StreamFrame) -> None:
        """Show more of an answer."""
        if frame.kind != "toolArguments":
            self._screen.stream(frame.kind, frame.text)
            self._shown = True
            self._streamed += frame.text if frame.kind == "text" else ""

    def show(self, event: LogEvent) -> None:
        """Show an event that matters to a reader."""
        match event.data:
            case AssistantMessageLogged(message=message):
                streamed, self._streamed, self._shown = self._streamed, "", False
                if message.text != streamed and message.text.startswith(streamed):
                    self._screen.stream("text", message.text[len(streamed) :])
            case AssistantAttempt():
                if self._shown:
                    self._screen.trouble("that answer broke off and does not count")
                self._streamed, self._shown = "", False
            case RetryPlanned(failure=failure, delay_ms=delay_ms, retry=retry, max_retries=most):
                self._screen.trouble(failure.message)
                self._screen.note(f"Trying again in {delay_ms / 1000:.1f} s ({retry} of {most}).", "dim")
            case ToolCall() as call:
                self._screen.tool(call_card(self._tools, call).title)
            case ToolResult(message=message):
                for block in message.content:
                    if isinstance(block, ToolResultBlock) and block.is_error:
                        self._screen.trouble(_clipped(block.text))
            case ReviewOpened(files=files):
                self._paths |= {hunk.id: file.uri.rsplit("/", 1)[-1] for file in files for hunk in file.hunks}
            case ReviewDecided(hunks=hunks):
                self._outcomes(hunks)
            case TurnEnd():
                self._screen.close()
            case _:
                pass

    def _outcomes(self, hunks: tuple[HunkDecided, ...]) -> None:
        for path in dict.fromkeys(self._paths.get(hunk.id, "") for hunk in hunks):
            outcomes = {hunk.outcome for hunk in hunks if self._paths.get(hunk.id, "") == path}
            if outcomes == {"landed"}:
                self._screen.edit(f"Saved in {path}.", "green")
            elif outcomes == {"rejected"}:
                self._screen.edit(f"Rejected; {path} is not touched by it.")
            else:
                self._screen.edit(f"Not applied to {path}: {', '.join(sorted(outcomes))}.", "red")


def _clipped(text: str) -> str:
    lines = text.splitlines()
    more = [f"[{len(lines) - MAX_TROUBLE_LINES} more lines]"] if len(lines) > MAX_TROUBLE_LINES else []
    return "\n".join(lines[:MAX_TROUBLE_LINES] + more)
