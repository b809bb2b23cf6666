"""Simulated editor: buffers, a user's hands and the manners of real editors, in the event loop of the test.

Every character of a buffer is a cell with an identity that undo brings back, so a test knows what became of each.
Time is virtual: a `VirtualLoop` skips to the next timer, but never while a worker thread is busy.
"""

from __future__ import annotations

import asyncio
import re
import selectors
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.to_thread

from dsh_lsp.errors import EditorError
from dsh_lsp.lsp.documents import Documents
from dsh_lsp.workspace.text import Span

ENDS = ("start", "end")
STUCK_S = 30.0  # real seconds; no worker thread takes that long, on a loaded machine neither


class _SkippingSelector(selectors.DefaultSelector):  # type: ignore[misc, valid-type]
    """Waits only for threads; whatever else there is to wait for is time, and that is skipped."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.busy: Callable[[], bool] = lambda: False

    def select(self, timeout: float | None = None) -> Any:
        events = super().select(0)
        if events or (timeout is not None and timeout <= 0):
            return events
        if timeout is None or self.busy():
            if events := super().select(STUCK_S):
                return events
            raise RuntimeError("nothing can happen any more")
        self.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock is skipped forward."""

    def __init__(self) -> None:
        self.selector = _SkippingSelector()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.now

    def watch_threads(self) -> None:
        """Let time stand still while anyio's threads are at work."""
        limiter = anyio.to_thread.current_default_thread_limiter()
        self.selector.busy = lambda: limiter.borrowed_tokens > 0


@dataclass(frozen=True, kw_only=True)
class Manners:
    """How an editor behaves.

    `tells` is when it tells of an edit that it was sent: before its reply, `delay` after it, or with everything
    else when nothing has changed for `delay`. `stale` is what it answers to an edit of another version, and
    `answers` to one that it applied (`later` never comes). `lies` is how many edits it drops, saying yes.
    """

    name: str = "an honest one"
    tells: Literal["before", "after", "debounced"] = "before"
    delay: float = 0.0
    stale: Literal["no", "yes", "error", "null"] = "no"
    answers: Literal["yes", "no", "null", "error", "silence"] = "yes"
    lies: int = 0
    refuses: bool = False  # says no to everything
    first_version: int = 1
    unchecked_zero: bool = False  # an edit of version 0 is applied to whatever there is
    edit_by_edit: bool = False  # each text edit is a change and a didChange of its own
    whole_text: bool = False  # a didChange holds the whole text
    operations: Literal["does", "ignores"] = "does"  # renames and deletions; some say yes to them and do nothing
    saves: bool = False  # offers `dsh/save`
    reviews: bool = False  # is a client of ours, which makes edits of files that are not open, too
    opens: Literal["and tells", "silently"] = "and tells"  # what it does with those
    encoding: Literal["utf-8", "utf-16", "utf-32"] = "utf-16"
    client: str = "simulated"  # the name by which the server knows it
    splits_at_return: bool = True  # a `\r` ends a line; else it is a character of one
    last_end_apart: bool = False  # how the last line ends is the buffer's, as in Neovim
    link: float = 0.002  # how long a message is on its way


@dataclass(frozen=True)
class State:
    """A text and the identities of its characters; `typed` counts what the user did until then."""

    text: str
    cells: tuple[int, ...]
    typed: int = 0

    def replaced(self, start: int, end: int, text: str, cells: tuple[int, ...]) -> State:
        cells = self.cells[:start] + cells + self.cells[end:]
        return State(self.text[:start] + text + self.text[end:], cells, self.typed)


@dataclass
class Buffer:
    """One open document."""

    uri: str
    path: Path
    state: State
    version: int
    history: dict[int, State] = field(default_factory=dict)
    undo: list[State] = field(default_factory=list)
    unsent: list[tuple[int, list[dict[str, Any]]]] = field(default_factory=list)
    timer: asyncio.TimerHandle | None = None


@dataclass(frozen=True, kw_only=True)
class Application:
    """One text edit of the server in a buffer, with what it took out and put in."""

    uri: str
    start: int
    end: int
    text: str
    base: State
    before: State
    put: tuple[int, ...]
    took: tuple[int, ...]
    overtaken: bool = False  # it was made for an earlier text, and the editor did not look

    def stands(self, state: State, lines: Span) -> bool:
        """Whether a state shows all of this edit, untouched and in whole lines; in `base` it replaces `lines`."""
        cells, base = state.cells, self.base.cells
        if set(cells).intersection(self.took):
            return False
        whole = base[lines.start : self.start] + self.put + base[self.end : lines.end]
        if not whole:  # nothing stands there: what was on both sides of it must have met
            whole = base[max(0, lines.start - 1) : lines.start] + base[lines.end : lines.end + 1]
            return not whole or any(cells[i : i + len(whole)] == whole for i in range(len(cells)))
        if whole[0] not in cells:
            return False
        at = cells.index(whole[0])
        begins_behind_a_line = (
            self.start > 0 and self.base.text[self.start - 1] not in "\r\n" and self.text[:1] in ("\r", "\n")
        )
        end = at + len(whole)
        return (
            cells[at:end] == whole
            and (at == 0 or state.text[at - 1] in "\r\n" or begins_behind_a_line)
            and (end == len(cells) or state.text[end - 1] in "\r\n")
        )

    def in_part(self, state: State) -> bool:
        """Whether a state shows something of this edit."""
        here = set(state.cells)
        return bool(here.intersection(self.put)) if self.put else not here.intersection(self.took)


def offset_of(text: str, line: int, column: int, manners: Manners) -> int:
    """Code points before a position, the plain way."""
    lines = split_plainly(text, manners)
    if line >= len(lines):
        return len(text)
    encoding = manners.encoding
    width = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]
    bare = lines[line].rstrip("\r\n" if manners.splits_at_return else "\n")
    raw = bare.encode(f"{encoding}-le" if width > 1 else encoding)
    return sum(map(len, lines[:line])) + len(
        raw[: column * width].decode(f"{encoding}-le" if width > 1 else encoding)
    )


def split_plainly(text: str, manners: Manners) -> list[str]:
    """The lines with their ends, as an editor sees them; the last one is what has no end, and may be empty."""
    *bodies_and_ends, last = re.split(r"(\r\n|\n|\r)" if manners.splits_at_return else r"(\n)", text)
    return [*map("".join, zip(bodies_and_ends[::2], bodies_and_ends[1::2], strict=True)), last]


def position_of(text: str, offset: int, manners: Manners) -> dict[str, int]:
    """The position of an offset, the plain way."""
    *whole, tail = split_plainly(text[:offset], manners)
    encoding, line = manners.encoding, len(whole)
    width = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]
    return {"line": line, "character": len(tail.encode(f"{encoding}-le" if width > 1 else encoding)) // width}


class SimulatedEditor:
    """The wire of an `Editor`, and the hands of its user."""

    def __init__(self, documents: Documents, manners: Manners) -> None:
        self.documents = documents
        self.manners = manners
        self.buffers: dict[str, Buffer] = {}
        self.on_disk: dict[str, State] = {}
        self.applied: Callable[[Application], None] = lambda _: None
        self.saved: Callable[[State, State], None] = lambda _before, _after: None
        self.delivered: Callable[[str], None] = lambda _uri: None
        self.mirrored: dict[str, State] = {}  # what the server was told last
        self.rewritten: list[
            tuple[set[int], set[int]]
        ] = []  # the cells that the user took out and put in their place
        self.messages: list[str] = []
        self.hints: dict[str, list[str]] = {}  # the hunks beside each document
        self.registered: list[tuple[str, dict[str, Any]]] = []
        self._next = count(1)
        self._lies = manners.lies
        self._inbox: deque[tuple[dict[str, Any], asyncio.Future[Any]]] = deque()
        self._outbox: deque[Callable[[], None]] = deque()

    # -- the wire --------------------------------------------------------------------------------------------

    async def request(self, method: str, params: dict[str, Any], *, timeout_s: float | None) -> Any:
        loop = asyncio.get_running_loop()
        if method == "dsh/save":
            await asyncio.sleep(self.manners.link)
            versions = params.get("versions", {})
            before = dict(self.on_disk)
            saved = [uri for uri in params["uris"] if self.save(uri, versions.get(uri))]
            for uri in saved:
                self.saved(before[uri], self.on_disk[uri])
            await asyncio.sleep(self.manners.link)
            return {"saved": saved}
        if method.startswith("client/"):
            self.registered.append((method, params))
            return None
        if method == "dsh/review":
            return {"shown": True}
        assert method == "workspace/applyEdit", method
        reply: asyncio.Future[Any] = loop.create_future()
        self._inbox.append((params, reply))
        loop.call_later(self.manners.link, self._take)
        try:
            with anyio.fail_after(timeout_s):
                answer = await reply
        except TimeoutError:
            raise EditorError("no answer", code="EDITOR_TIMEOUT") from None
        if answer == "error":
            raise EditorError("Edits require another version", code="EDITOR_ERROR")
        return {"yes": {"applied": True}, "no": {"applied": False}, "null": None}[answer]

    def notify(self, method: str, params: Any | None = None) -> None:
        if method == "window/showMessage" and params is not None:
            self.messages.append(params["message"])
        elif method == "textDocument/publishDiagnostics" and params is not None:
            self.hints[params["uri"]] = [one["code"] for one in params["diagnostics"]]

    def _take(self) -> None:
        if self._inbox:
            params, reply = self._inbox.popleft()
            answer, flush = self._answer(params["edit"]["documentChanges"][0])
            if flush is not None and self.manners.tells == "before":
                self.flush(flush)
            if answer != "silence":
                self._post(lambda: None if reply.done() else reply.set_result(answer))
            if flush is not None and self.manners.tells == "after":
                self._flush_after(flush)

    def _operate(self, change: dict[str, Any]) -> None:
        """Rename or delete a file with its buffer."""
        uri = change.get("oldUri") or change["uri"]
        path = self.buffers[uri].path
        if change["kind"] == "delete":
            path.unlink()
            self.close(uri)
            return
        target = Path(change["newUri"].removeprefix("file://"))
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
        self.close(uri)
        self.open(target)

    def _answer(self, change: dict[str, Any]) -> tuple[str, Buffer | None]:
        if "kind" in change:
            if self.manners.operations == "does":
                self._operate(change)
            return "yes", None
        uri, version = change["textDocument"]["uri"], change["textDocument"]["version"]
        if version is None and uri not in self.buffers:
            self.open(Path(uri.removeprefix("file://")))
            version = self.buffers[uri].version
        buffer = self.buffers.get(uri)
        if buffer is None:
            return "no", None
        overtaken = version != buffer.version
        if overtaken and not (self.manners.unchecked_zero and version == 0):
            return self.manners.stale, None
        if self.manners.refuses:
            return "no", None
        if self._lies:
            self._lies -= 1
            return "yes", None
        self._apply(buffer, change["edits"], overtaken=overtaken)
        return self.manners.answers, buffer

    def _apply(self, buffer: Buffer, edits: list[dict[str, Any]], *, overtaken: bool) -> None:
        base = buffer.state
        ends = [
            [
                offset_of(base.text, edit["range"][end]["line"], edit["range"][end]["character"], self.manners)
                for end in ENDS
            ]
            for edit in edits
        ]
        buffer.undo.append(base)
        contents = []
        in_order = sorted(zip(ends, edits, strict=True), key=lambda pair: pair[0])  # at one place: as they were sent
        for (start, end), edit in reversed(in_order):
            text = edit["newText"]
            if self.manners.last_end_apart and end == len(base.text):
                text = _with_own_end(base.text, start, text)
            cells = self._cells(text)
            before = buffer.state
            contents.append(self._content(before, start, end, text))
            buffer.state = before.replaced(start, end, text, cells)
            self.applied(
                Application(
                    uri=buffer.uri,
                    start=start,
                    end=end,
                    text=text,
                    base=base,
                    before=before,
                    put=cells,
                    took=before.cells[start:end],
                    overtaken=overtaken,
                )
            )
            if self.manners.edit_by_edit:
                self._step(buffer, contents)
                contents = []
        if contents:
            self._step(buffer, contents)

    def _post(self, message: Callable[[], None]) -> None:
        """Send to the server; messages arrive in their order."""
        self._outbox.append(message)
        asyncio.get_running_loop().call_later(self.manners.link, self._arrive)

    def _arrive(self) -> None:
        self._outbox.popleft()()

    def flush(self, buffer: Buffer) -> None:
        """Tell the server of everything that it was not told yet."""
        if buffer.timer is not None:
            buffer.timer.cancel()
            buffer.timer = None
        sent, buffer.unsent = buffer.unsent, []
        if self.manners.tells == "debounced" and sent:
            sent = [(sent[-1][0], [content for _, contents in sent for content in contents])]
        for version, contents in sent:
            state = buffer.history[version]
            content = [{"text": state.text}] if self.manners.whole_text else contents
            self._post(lambda v=version, c=content, s=state: self._deliver(buffer.uri, v, c, s))  # type: ignore[misc]

    def _flush_after(self, buffer: Buffer) -> None:
        if buffer.timer is not None:
            buffer.timer.cancel()
        buffer.timer = asyncio.get_running_loop().call_later(self.manners.delay, self.flush, buffer)

    def _deliver(self, uri: str, version: int, contents: list[dict[str, Any]], state: State) -> None:
        document = self.documents.get(uri)
        self.mirrored[uri] = state
        self.documents.change(uri, version, contents)
        if document is not None:
            document.changed_at = asyncio.get_running_loop().time()  # it was stamped by another clock
        self.delivered(uri)

    # -- the user --------------------------------------------------------------------------------------------

    def _cells(self, text: str) -> tuple[int, ...]:
        return tuple(next(self._next) for _ in text)

    def _content(self, before: State, start: int, end: int, text: str) -> dict[str, Any]:
        ends = {"start": start, "end": end}
        return {"range": {k: position_of(before.text, at, self.manners) for k, at in ends.items()}, "text": text}

    def _step(self, buffer: Buffer, contents: list[dict[str, Any]]) -> None:
        buffer.version += 1
        buffer.history[buffer.version] = buffer.state
        buffer.unsent.append((buffer.version, contents))
        if self.manners.tells == "debounced":
            self._flush_after(buffer)

    def _edit(self, buffer: Buffer, start: int, end: int, text: str, cells: tuple[int, ...]) -> None:
        before = buffer.state
        self.rewritten.append((set(before.cells[start:end]), set(cells)))
        buffer.state = replace(before.replaced(start, end, text, cells), typed=before.typed + 1)
        self._step(buffer, [self._content(before, start, end, text)])
        if self.manners.tells != "debounced":
            self.flush(buffer)

    def type(self, uri: str, start: int, end: int, text: str) -> tuple[int, ...]:
        """Replace a part of a buffer; never between the two halves of a line end."""
        buffer = self.buffers[uri]
        start, end = (at - _inside_line_end(buffer.state.text, at) for at in (start, end))
        buffer.undo.append(buffer.state)
        cells = self._cells(text)
        self._edit(buffer, start, end, text, cells)
        return cells

    def undo(self, uri: str) -> None:
        """Take back the last change, whoever made it."""
        buffer = self.buffers[uri]
        if not buffer.undo:
            return
        now, then = buffer.state, buffer.undo.pop()
        limit = min(len(now.cells), len(then.cells))
        head = next((i for i in range(limit) if now.cells[i] != then.cells[i]), limit)
        tail = next((i for i in range(limit - head) if now.cells[~i] != then.cells[~i]), limit - head)
        while head and (_inside_line_end(now.text, head) or _inside_line_end(then.text, head)):
            head -= 1
        while tail and (
            _inside_line_end(now.text, len(now.text) - tail) or _inside_line_end(then.text, len(then.text) - tail)
        ):
            tail -= 1
        end = len(then.text) - tail
        self._edit(buffer, head, len(now.text) - tail, then.text[head:end], then.cells[head:end])

    def save(self, uri: str, version: int | None = None) -> bool:
        """Write a buffer to its file, unless it is not at this version any more."""
        buffer = self.buffers.get(uri)
        if buffer is None or version not in (None, buffer.version):
            return False
        self.flush(buffer)
        buffer.path.write_bytes(buffer.state.text.encode())
        self.on_disk[uri] = buffer.state
        return True

    def open(self, path: Path) -> None:
        """Open a file."""
        uri = path.as_uri()
        text = path.read_bytes().decode()
        known = self.on_disk.get(uri)
        state = known if known is not None and known.text == text else State(text, self._cells(text))
        self.on_disk[uri] = state
        version = self.manners.first_version
        self.buffers[uri] = Buffer(uri, path, state, version, {version: state})
        if self.manners.opens == "and tells":
            self._post(lambda: self._opened(uri, version, state))

    def open_untitled(self, uri: str, text: str) -> None:
        """Open a document that has no file."""
        state = State(text, self._cells(text))
        self.buffers[uri] = Buffer(uri, Path(uri), state, 1, {1: state})
        self._post(lambda: self._opened(uri, 1, state))

    def _opened(self, uri: str, version: int, state: State) -> None:
        self.mirrored[uri] = state
        self.documents.open(uri, version, state.text)
        self.delivered(uri)

    def close(self, uri: str) -> None:
        """Close a buffer and throw away what is not saved; what the server sent before has arrived by then."""
        while self._inbox:
            self._take()
        buffer = self.buffers.pop(uri)
        self.flush(buffer)
        self._post(lambda: self._closed(uri))

    def _closed(self, uri: str) -> None:
        self.mirrored.pop(uri)
        self.documents.close(uri)
        self.delivered(uri)

    def flush_all(self) -> None:
        for buffer in self.buffers.values():
            self.flush(buffer)

    def standing(self) -> Iterator[tuple[str, State]]:
        """All open buffers and what they hold."""
        yield from ((uri, buffer.state) for uri, buffer in self.buffers.items())


def _with_own_end(base: str, start: int, text: str) -> str:
    """What comes to the end of a buffer, as Neovim puts it there: lines behind the last one, which ends as it did."""
    if base and base[-1] != "\n":
        return text
    if start == len(base):
        return f"{text}\n" if text or not base else text
    left = base[:start] + text
    return text if not left or left[-1] == "\n" else f"{text}\n"


def _inside_line_end(text: str, at: int) -> int:
    return int(text[max(0, at - 1) : at + 1] == "\r\n")
