"""Demo: the agent mends a failing test before your eyes, with a script in the place of the model.

Owns: a project in a temporary directory, and the story that is played in it.
Rules: all but the model is real: the server process, the client, the review, the file, the test; the world and the
session's log decide how it ended, not what anybody said; no key, no network, and nothing is left behind.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from dsh_lsp.llm import demo_script as script
from dsh_lsp.lsp.demo_client import DemoClient, DemoError
from dsh_lsp.lsp.demo_screen import DemoScreen
from dsh_lsp.lsp.protocol import REVIEW
from dsh_lsp.wire import JsonObject, loads

SERVER: Final = (sys.executable, "-m", "dsh_lsp", "serve")
TEST: Final = ("-B", "-m", "unittest")  # without cached bytecode: the edit may come within a second, in equal size
TEST_SHOWN: Final = "python -m unittest"
TEST_S: Final = 20.0
READING_S: Final = 1.2  # for the diff, before it is decided on

COMMENT: Final = "Leave it as it is; I will look at it myself."
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141


def run_demo(*, rejects: bool, fast: bool, lies: bool = False, server: Sequence[str] = SERVER) -> int:
    """Play the demo on standard output; the exit code, 0 when all went as it should.

    With `rejects` the edit is declined; with `lies` the demo's editor claims to apply it and does not.
    """
    screen = DemoScreen.on(sys.stdout, os.environ)
    try:
        return asyncio.run(_play(screen, _Wishes(rejects=rejects, fast=fast, lies=lies, server=tuple(server))))
    except DemoError as error:
        screen.close()
        sys.stderr.write(f"dsh-lsp demo: {error}\n")
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        with suppress(OSError):  # the terminal may be what went away
            screen.note("Interrupted; the server is ended and nothing is left behind.", "dim")
            screen.close()
        return INTERRUPTED
    except BrokenPipeError:  # whoever read along has gone; nor may the interpreter flush to them at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE


def _heed_signals() -> None:
    """Let a signal that would end the process cancel the story, so that nothing is left behind."""
    task = asyncio.current_task()
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if task is not None and number is not None:
            with suppress(NotImplementedError):  # Windows
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wishes:
    rejects: bool
    fast: bool
    lies: bool
    server: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteRun:
    """What the project's tests said."""

    output: str
    code: int

    @property
    def passed(self) -> bool:
        """Whether tests ran and all passed."""
        return self.code == 0 and re.search(r"^Ran [1-9]", self.output, re.MULTILINE) is not None

    @property
    def failed(self) -> bool:
        """Whether tests ran and one of them failed."""
        return self.code != 0 and re.search(r"^FAILED \(failures=", self.output, re.MULTILINE) is not None


async def _play(screen: DemoScreen, wishes: _Wishes) -> int:
    _heed_signals()
    with TemporaryDirectory(prefix="dsh-demo-", ignore_cleanup_errors=True) as temporary:
        project = _make_project(Path(temporary))
        sessions = project.with_name("sessions")
        screen.note("The model in this demo is a script; everything else is real.")
        if wishes.lies:
            screen.note("In this run the editor says that it applies edits, and applies none.")
        before = await _run_tests(project)
        screen.test(TEST_SHOWN, before.output, passed=before.passed)
        async with DemoClient.serving(
            wishes.server, folder=project, server_log=project.with_name("server.log"), lies=wishes.lies
        ) as client:
            await client.initialize(project, _options(sessions, fast=wishes.fast))
            client.open(project / "calc.py")
            story = _Story(screen, client, project, wishes)
            await story.play()
        return _tell_ending(screen, wishes, before, story.after, _read_log(sessions), project)


def _make_project(folder: Path) -> Path:
    project = folder.resolve() / "calculator"
    project.mkdir()
    for name, text in script.FILES.items():
        (project / name).write_bytes(text.encode())
    return project


def _options(sessions: Path, *, fast: bool) -> JsonObject:
    name = script.FAST_MODEL if fast else script.MODEL
    return {"model": {"provider": script.PROVIDER, "name": name}, "sessions": {"directory": str(sessions)}}


async def _run_tests(project: Path) -> SuiteRun:
    """Really run the project's tests.

    Raises:
        DemoError: they do not end.
    """
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *TEST,
        cwd=project,
        env={**environ, "PYTHON_COLORS": "0"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(TEST_S):
            output, _ = await process.communicate()
    except TimeoutError:
        raise DemoError(f"the project's tests did not end within {TEST_S:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return SuiteRun(output=output.decode(errors="replace"), code=process.returncode or 0)


@dataclass(slots=True)
class _Story:
    """One question and what comes of it, told from what the server sends."""

    screen: DemoScreen
    client: DemoClient
    project: Path
    wishes: _Wishes
    after: SuiteRun | None = None
    _steered: bool = False
    _streamed: str = ""
    _reviews: dict[str, JsonObject] = field(default_factory=dict)
    _places: list[str] = field(default_factory=list)

    async def play(self) -> None:
        """Ask, and follow the turn to its end.

        Raises:
            DemoError: the server refused, ended or fell silent.
        """
        self.screen.user(script.QUESTION)
        await self.client.command("dsh.followup", {"text": script.QUESTION})
        while True:
            kind, value = await self.client.news()
            if kind == "turn/end":
                self._end(value["data"]["reason"])
                return
            await self._show(kind, value)

    async def _show(self, kind: str, value: JsonObject) -> None:
        data = value.get("data") or {}
        match kind:
            case "user/message" if data["source"]["kind"] == "user" and self._steered:
                self.screen.user(_text_of(data))
            case "assistant/stream" if data["kind"] in ("text", "thinking"):
                self._stream(data)
            case "assistant/message":
                self._complete(data["message"])
            case "tool/call":
                self.screen.tool(value["card"]["title"])
                await self._steer()
            case "tool/result":
                self._show_failure(data["message"])
            case "review/opened":
                self._reviews[data["proposal"]] = data
            case "review/decided":
                await self._show_outcome([hunk["outcome"] for hunk in data["hunks"]])
            case "edit/landed":
                self._places.append(f"calc.py, line {data['range']['start']['line'] + 1}")
            case _ if kind == REVIEW:
                await self._decide(self._reviews[value["proposal"]])
            case "workspace/applyEdit" if self.wishes.lies:
                self.screen.edit("The editor says that it applied it. The server waits up to 10 s to see it.")
            case _:
                pass

    # -- the model -------------------------------------------------------------------------------------------

    def _stream(self, frame: JsonObject) -> None:
        self.screen.stream(frame["kind"], frame["text"])
        if frame["kind"] == "text":
            self._streamed += frame["text"]

    def _complete(self, message: JsonObject) -> None:
        """Show what is missing of a message: live frames may be dropped, the message never is."""
        text = _text_of(message)
        streamed, self._streamed = self._streamed, ""
        if text.startswith(streamed) and text != streamed:
            self.screen.stream("text", text[len(streamed) :])

    async def _steer(self) -> None:
        """Speak up once, while the first tool runs."""
        if not self._steered:
            self._steered = True
            await self.client.command("dsh.steer", {"text": script.STEER})

    def _show_failure(self, message: JsonObject) -> None:
        for block in message["content"]:
            if block.get("isError"):
                self.screen.trouble(_text_of(block))

    def _end(self, reason: JsonObject) -> None:
        self.screen.close()
        if reason["kind"] != "completed":
            detail = (reason.get("error") or {}).get("message", "")
            raise DemoError(f"the turn ended as {reason['kind']!r}. {detail}".rstrip(". "))

    # -- the edit --------------------------------------------------------------------------------------------

    async def _decide(self, review: JsonObject) -> None:
        """Show a review and decide on it, by the command that every client has."""
        for edited in review["files"]:
            self.screen.diff(Path(edited["uri"]).name, *self.client.preview(edited))
        if not self.wishes.fast:
            await asyncio.sleep(READING_S)
        if self.wishes.rejects:
            self.screen.user(f"reject: {COMMENT}")
            await self.client.command("dsh.review.reject", {"hunks": "all", "comment": COMMENT})
        else:
            self.screen.user("accept")
            await self.client.command("dsh.review.accept", {"hunks": "all"})

    async def _show_outcome(self, outcomes: list[str]) -> None:
        """Show what the log says of the edit, then ask the tests."""
        if set(outcomes) == {"landed"}:
            saved = "and saved" if self.client.saved else "but not saved"
            self.screen.edit(f"Landed in {' and '.join(self._places)}, {saved}.", "green")
        elif set(outcomes) == {"rejected"}:
            self.screen.edit("Rejected; calc.py is not touched.")
        elif "unconfirmed" in outcomes:
            self.screen.edit("Not confirmed: calc.py does not show it.", "red")
        else:
            self.screen.edit(f"Not applied: {', '.join(outcomes)}.", "red")
        self.after = await _run_tests(self.project)
        self.screen.test(TEST_SHOWN, self.after.output, passed=self.after.passed)


def _text_of(message: JsonObject) -> str:
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")


# -- the end -------------------------------------------------------------------------------------------------


def _read_log(sessions: Path) -> list[str]:
    """What the session's log on disk says became of each hunk; `landed` only with the landing itself."""
    rows: list[JsonObject] = []
    for path in sessions.glob("*.jsonl"):
        with suppress(OSError, ValueError):
            rows += [loads(line) for line in path.read_bytes().splitlines()]
    landed = {row["data"]["hunk"] for row in rows if row["type"] == "edit/landed"}
    return [
        hunk["outcome"]
        for row in rows
        if row["type"] == "review/decided"
        for hunk in row["data"]["hunks"]
        if hunk["outcome"] != "landed" or hunk["id"] in landed
    ]


def _tell_ending(
    screen: DemoScreen, wishes: _Wishes, before: SuiteRun, after: SuiteRun | None, outcomes: list[str], project: Path
) -> int:
    """Judge by the tests, the file and the log; say it, and return the exit code."""
    untouched = (project / "calc.py").read_bytes() == script.FILES["calc.py"].encode()
    mended = before.failed and after is not None and after.passed and not untouched
    still_fails = before.failed and after is not None and after.failed and untouched
    if wishes.rejects and still_fails and outcomes == ["rejected"]:
        screen.note("You rejected the edit: calc.py is as it was, and the test still fails.")
    elif not wishes.rejects and mended and outcomes == ["landed"]:
        screen.note("The test failed before and passes now; the session's log says the edit landed.")
    else:
        test = "passes" if after is not None and after.passed else "still fails"
        told = "is not confirmed" if "unconfirmed" in outcomes else f"is {', '.join(outcomes) or 'not decided'}"
        screen.note(f"Not what was wanted: the session's log says that the edit {told}; the test {test}.", "red")
        return 1
    screen.note("Next: set DEEPSEEK_API_KEY, point your editor at `dsh-lsp serve` (see README).", "dim")
    return 0
