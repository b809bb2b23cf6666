"""Doctor: looks at everything that a model call needs, and says what to do about what is missing.

Rules: reads settings as an editor gives them; imports the plugins that they name; leaves nothing behind; sends the
key nowhere but to the server that a session would ask; shows it nowhere.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sys
import tempfile
import textwrap
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, Literal

import dsh_lsp
from dsh_lsp.compose import sessions_folder
from dsh_lsp.directories import locks_directory, logs_directory
from dsh_lsp.errors import ConfigError, LlmError, error_chain
from dsh_lsp.llm.adapter import Adapter, Balances, Keyed, Lists
from dsh_lsp.log_level import LEVEL_VARIABLE, read_level
from dsh_lsp.messages import CallConfig
from dsh_lsp.plugin import check_plugin
from dsh_lsp.plugin_host import PluginEntry, read_plugin_settings
from dsh_lsp.plugin_source import bring_in, locate
from dsh_lsp.providers import ModelSettings, build_models
from dsh_lsp.screen import MAX_WIDTH, PIPE_WIDTH, harmless
from dsh_lsp.secrets import redact
from dsh_lsp.session_settings import Settings
from dsh_lsp.settings import read_settings, settings_under

FAILED: Final = 1
USAGE: Final = 2
PACKAGES: Final = ("pygls", "lsprotocol", "httpx", "httpx-sse", "pydantic", "anyio")
MAX_NAMES: Final = 8
TOPIC_WIDTH: Final = 10
INDENT: Final = 17
STATE_ADVICE: Final = "let your user write there" + (
    ", or set XDG_STATE_HOME to a folder where it may" if sys.platform == "linux" else ""
)

State = Literal["ok", "note", "wrong"]
MARKS: Final[Mapping[State, str]] = {"ok": "ok   ", "note": "note ", "wrong": "WRONG"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at; `advice` says what to do where it is not as it should be."""

    topic: str
    words: str
    state: State = "ok"
    advice: str = ""


def run_doctor(*, settings: Path | None, provider: str | None, model: str | None) -> int:
    """Look at everything and print it; 0 if a session could work, 1 if not, 2 for wrong usage."""
    try:
        chosen, problems = _read(settings, provider, model)
    except ConfigError as error:
        sys.stderr.write(f"dsh-lsp doctor: {error}\n")
        return USAGE

    async def look() -> list[Finding]:
        found = []
        async for finding in examine(chosen, problems, os.environ):
            found.append(finding)
            sys.stdout.write(lines_of(finding))
            sys.stdout.flush()
        return found

    wrong = [finding for finding in asyncio.run(look()) if finding.state == "wrong"]
    sys.stdout.write(f"\n{len(wrong)} to mend.\n" if wrong else "\nAll is well.\n")
    return FAILED if wrong else 0


def lines_of(finding: Finding) -> str:
    """A finding as it is printed; what a server said cannot steer the terminal."""
    width = min(shutil.get_terminal_size((PIPE_WIDTH, 24)).columns - 1, MAX_WIDTH)
    hanging = " " * INDENT
    first = f"{MARKS[finding.state]}  {finding.topic:<{TOPIC_WIDTH}}"
    texts = [(first, finding.words), (hanging, finding.advice)]
    return "".join(_wrapped(harmless(text), width, start, hanging) for start, text in texts if text)


def _wrapped(text: str, width: int, start: str, hanging: str) -> str:
    """Lines within a width; a path or an address stays whole."""
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=start,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines) + "\n"


def _read(path: Path | None, provider: str | None, model: str | None) -> tuple[Settings, list[str]]:
    """The settings of a file under those of the command line, and what is wrong with them.

    Raises:
        ConfigError: the file cannot be read.
    """
    settings, problems = read_settings(
        Settings, settings_under(path, {"model.provider": provider, "model.name": model})
    )
    return settings, [str(problem) for problem in problems]


async def examine(settings: Settings, problems: list[str], environ: Mapping[str, str]) -> AsyncIterator[Finding]:
    """Look at one thing after another."""
    yield Finding(topic="dsh-lsp", words=f"{dsh_lsp.__version__}, Python {platform.python_version()}, {sys.platform}")
    yield _packages()
    for problem in problems:
        yield Finding(topic="setting", words=problem, state="wrong", advice="docs/settings.md lists the settings")
    for entry in settings.plugins:
        yield _plugin(entry)
    yield _folder("sessions", sessions_folder(settings), "set sessions.directory to a folder that can be written")
    yield _folder("locks", locks_directory(), STATE_ADVICE)
    yield _folder("log", logs_directory(), STATE_ADVICE, note="a file for each server; editors show it, too")
    yield _log_level(environ)
    async for finding in _model(settings.model, environ):
        yield finding


def _packages() -> Finding:
    found: list[str] = []
    missing: list[str] = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        return Finding(
            topic="packages",
            words=f"missing: {', '.join(missing)}",
            state="wrong",
            advice="install dsh-lsp again, with its dependencies",
        )
    return Finding(topic="packages", words=", ".join(found))


def _plugin(entry: PluginEntry) -> Finding:
    """Whether a plugin of the settings could be mounted; its module is imported, as by a session."""
    try:
        plugin = bring_in(locate(entry.use), again=False).plugin
        check_plugin(plugin)
        read_plugin_settings(plugin, entry.settings)
    except Exception as error:  # noqa: BLE001 - its code is somebody else's
        advice = "docs/writing-a-plugin.md says how plugins are named"
        return Finding(topic="plugin", words=f"{entry.use}: {error_chain(error)}", state="wrong", advice=advice)
    return Finding(topic="plugin", words=entry.use)


def _folder(topic: str, path: Path, advice: str, note: str = "") -> Finding:
    """Whether files could be made in a folder, or the folder itself, found by making something there for a moment."""
    try:
        near = path
        while not near.exists():
            near = near.parent
        with tempfile.TemporaryDirectory(prefix=".dsh-lsp-doctor-", dir=near):
            pass
    except OSError as error:
        words = f"{path} cannot be {'written' if near == path else 'made'}: {error.strerror}"
        return Finding(topic=topic, words=words, state="wrong", advice=advice)
    return Finding(topic=topic, words=f"{path}: {note}" if note else str(path))


def _log_level(environ: Mapping[str, str]) -> Finding:
    try:
        level = read_level(environ, default="WARNING")
    except ConfigError as error:
        return Finding(topic="log level", words=str(error), state="wrong")
    more = "" if level == "DEBUG" else f"{LEVEL_VARIABLE}=DEBUG in a server's environment says more"
    return Finding(topic="log level", words=level, advice=more)


async def _model(settings: ModelSettings, environ: Mapping[str, str]) -> AsyncIterator[Finding]:
    """Look at the key, at the server, and at the model that it should offer."""
    llm = build_models(settings, environ)
    try:
        adapter = llm.adapter(settings.provider)
    except ConfigError as error:
        yield Finding(topic="model", words=str(error), state="wrong")
        return
    named = settings.model or "no name"
    where = redact(getattr(getattr(adapter, "endpoint", None), "base_url", "no server"), environ)
    yield Finding(
        topic="model",
        words=f"{named} of {settings.provider} at {where}",
        state="ok" if settings.model else "wrong",
        advice="" if settings.model else "set model.name",
    )
    try:
        async for finding in _server(adapter, settings):
            yield finding
    finally:
        await llm.aclose()


async def _server(adapter: Adapter, settings: ModelSettings) -> AsyncIterator[Finding]:
    if isinstance(adapter, Keyed):
        await adapter.warm()
        place = adapter.keys.place
        try:
            adapter.prepare(CallConfig(provider=settings.provider, model=settings.model or "?"))
        except LlmError as error:
            yield Finding(topic="key" if "CREDENTIAL" in error.code else "model", words=str(error), state="wrong")
            return
        yield Finding(topic="key", words=f"in {place}" if place else "none, and none is needed here")
    if not isinstance(adapter, Lists):
        yield Finding(topic="server", words="none is asked: a script answers", state="note")
        return
    try:
        names = [info.name for info in await adapter.models()]
    except LlmError as error:
        tells_nothing = error.code == "HTTP_404"
        yield Finding(
            topic="server",
            words="it gives no list of models, which some do not" if tells_nothing else str(error),
            state="note" if tells_nothing else "wrong",
        )
        return
    yield Finding(topic="server", words=f"answers, and offers {len(names)} models")
    if settings.model and settings.model not in names:
        shown = ", ".join(names[:MAX_NAMES]) + (", ..." if len(names) > MAX_NAMES else "")
        yield Finding(
            topic="model",
            words=f"{settings.model} is not in the server's list",
            state="note",
            advice=f"it offers {shown}" if names else "it offers none: load one there",
        )
    if isinstance(adapter, Balances):
        try:
            yield Finding(topic="balance", words=await adapter.balance())
        except LlmError as error:
            empty = error.code == "QUOTA"
            advice = "top it up, or choose another provider" if empty else ""
            yield Finding(topic="balance", words=str(error), state="wrong" if empty else "note", advice=advice)
