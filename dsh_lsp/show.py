"""Show: a stored session as text, as an editor shows it or as the model sees it.

Rules: it only reads; what is printed to a terminal cannot steer it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from dsh_lsp.directories import sessions_directory
from dsh_lsp.errors import SessionError
from dsh_lsp.events import RequestHeaderLogged
from dsh_lsp.messages import Message, ReasoningBlock, TextBlock, ToolCallBlock, ToolResultBlock
from dsh_lsp.screen import harmless
from dsh_lsp.session.catalog import Catalog
from dsh_lsp.session.log import SessionHeader, SessionLog
from dsh_lsp.session.store import look_at
from dsh_lsp.session.summary import title_of
from dsh_lsp.session.view import SessionView, view_of
from dsh_lsp.session.view_items import (
    ApprovalView,
    FailureView,
    FileView,
    QuestionView,
    ReviewView,
    Said,
    ToolView,
    TurnView,
)
from dsh_lsp.wire import dumps, encode

As: TypeAlias = Literal["editor", "model", "json"]

MAX_RESULT_LINES = 12


def show_session(session: str, *, shown_as: As = "editor", sessions: Path | None = None) -> int:
    """Print a session; the exit code: 0, or 1 when it is not there or cannot be read."""
    try:
        log = look_at(find(session, sessions or sessions_directory())).log
    except SessionError as error:
        sys.stderr.write(f"dsh-lsp show: {error}\n")
        return 1
    match shown_as:
        case "json":
            lines: Iterator[str] = iter([dumps(encode(view_of(log.facts())))])
        case "model":
            lines = model_lines(log)
        case "editor":
            lines = editor_lines(log.header, view_of(log.facts()))
    return _print(lines)


def _print(lines: Iterator[str]) -> int:
    out = sys.stdout
    try:
        for line in lines:
            text = harmless(line) if out.isatty() else line
            out.buffer.write(f"{text}\n".encode(out.encoding or "utf-8", "replace"))
        out.flush()
    except BrokenPipeError:  # whoever read along has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
    return 0


def find(session: str, folder: Path) -> Path:
    """The log that a word names: a path, an id, the unique beginning of one, or `last`.

    Raises:
        SessionError: `UNKNOWN_SESSION`.
    """
    if not session.strip():
        which = "say which session: an id, the beginning of one, the path of a log, or `last`"
        raise SessionError(which, code="UNKNOWN_SESSION")
    if session.endswith(".jsonl") or os.sep in session:
        path = Path(session)
        if not path.is_file():
            raise SessionError(f"there is no file {session}", code="UNKNOWN_SESSION")
        return path
    from dsh_lsp.compose import summarize  # heavy

    catalog = Catalog(folder, summarize)
    try:
        return catalog.path_of(catalog.find(session))
    except SessionError as error:
        if session == "last":
            raise SessionError(f"there is no session in {folder} yet", code=error.code) from error
        raise SessionError(f"{error} in {folder}; `dsh-lsp sessions` lists them", code=error.code) from error


# -- as an editor shows it -----------------------------------------------------------------------------------


def editor_lines(header: SessionHeader, view: SessionView) -> Iterator[str]:
    """The conversation, as Markdown."""
    asked = (item.text for turn in view.turns for item in turn.items if item.kind == "user")
    yield f"# {view.title or title_of(next(asked, '')) or 'Untitled session'}"
    yield ""
    yield f"- session: {header.id}"
    yield f"- workspace: {header.cwd}"
    if view.model is not None:
        yield f"- model: {view.model} ({view.provider})"
    usage = view.usage
    yield f"- tokens: {usage.input} read, {usage.cache_read} from a cache, {usage.output} written"
    for turn in view.turns:
        yield from ("", f"## Turn {turn.turn}")
        for item in turn.items:
            yield ""
            yield from _item_lines(item)
        yield from _ending(turn, view)
    waiting = [*view.queue.next_step, *view.queue.next_turn]
    if waiting:
        yield from ("", "## Waiting for a turn", "")
        yield from (f"- {_one_line(message.text)}" for message in waiting)


def _item_lines(item: Said | ToolView | ReviewView | ApprovalView | QuestionView | FailureView) -> Iterator[str]:
    match item:
        case Said(kind="user"):
            yield f"**You:** {item.text}"
        case Said(kind="notice"):
            yield f"*Note: {_one_line(item.text)}*"
        case Said(kind="thinking"):
            yield from (f"> {line}".rstrip() for line in item.text.splitlines())
        case Said():
            yield item.text + (" *(cut short)*" if item.interrupted else "")
        case ToolView():
            title = item.name if item.title == item.name else f"{item.title} ({item.name})"
            arguments = "" if item.card else f" `{_one_line(item.arguments)}`"
            yield f"- **{title}**{arguments}: {item.state}"
            yield from _quoted(item.result or "")
        case ReviewView():
            for file in item.files:
                yield from _file_lines(file)
        case ApprovalView():
            yield f"- **May {item.tool} run?** {'; '.join(item.effects)}: {item.outcome or 'waiting'}"
        case QuestionView():
            ending = "no answer" if item.closed else "waiting"
            yield f"- **Asked:** {_one_line(item.text)} {item.answer or ending}"
        case FailureView():
            yield f"- **Attempt {item.attempt} failed:** {item.message} ({item.code})"


def _quoted(text: str) -> Iterator[str]:
    lines = text.splitlines()
    yield from (f"      {line}".rstrip() for line in lines[:MAX_RESULT_LINES])
    if len(lines) > MAX_RESULT_LINES:
        yield f"      [{len(lines) - MAX_RESULT_LINES} more lines]"


def _file_lines(file: FileView) -> Iterator[str]:
    verb = {"edit": "Edit of", "create": "New file", "rename": "Rename of", "delete": "Deletion of"}[file.kind]
    target = f" to {file.new_uri.rsplit('/', 1)[-1]}" if file.new_uri else ""
    yield f"- **{verb} {file.uri.rsplit('/', 1)[-1]}{target}**"
    for hunk in file.hunks:
        said = f", they said: {hunk.comment}" if hunk.comment else ""
        yield ""
        yield f"  line {hunk.line}: {hunk.outcome or 'waiting'}{', taken back' if hunk.undone else ''}{said}"
        yield ""
        yield from (f"      -{line}" for line in hunk.old_text.splitlines())
        yield from (f"      +{line}" for line in hunk.new_text.splitlines())


def _ending(turn: TurnView, view: SessionView) -> Iterator[str]:
    if turn.ended is None and turn is view.turns[-1]:
        yield from ("", f"*The turn has not ended; the session is {view.state}.*")
    elif turn.ended not in ("completed", None):
        yield from ("", f"*The turn ended as {turn.ended}{f': {turn.message}' if turn.message else ''}.*")


def _one_line(text: str, limit: int = 200) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit]}..."


# -- as the model sees it ------------------------------------------------------------------------------------


def model_lines(log: SessionLog) -> Iterator[str]:
    """The last request's header and the messages of the next one."""
    headers = [event.data.header for event in log.facts() if isinstance(event.data, RequestHeaderLogged)]
    if headers:
        header = headers[-1]
        yield f"=== request: {dumps(encode(header.config))}"
        for tool in header.tools:
            yield f"=== tool {tool.name}: {dumps(tool.parameters)}"
            yield tool.description
        yield "=== system"
        yield header.system or "(none)"
    for message in log.derive_messages():
        yield from _message_lines(message)


def _message_lines(message: Message) -> Iterator[str]:
    for block in message.content:
        match block:
            case TextBlock(text=text):
                yield f"=== {message.role}"
                yield text
            case ReasoningBlock(text=text):
                yield f"=== {message.role}, thinking"
                yield text
            case ToolCallBlock(id=call_id, name=name, arguments=arguments):
                yield f"=== {message.role} calls {name} ({call_id})"
                yield arguments
            case ToolResultBlock(tool_call_id=call_id):
                yield f"=== result of {call_id}{', a failure' if block.is_error else ''}"
                yield block.text
