"""Simulated editor: buffers, a user's hands and the manners of real editors, in a loop of virtual time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import anyio

from dsh_lsp.errors import EditorError
from dsh_lsp.lsp.documents import Documents
from tests.support.simulated_buffer import (
    Application,
    Buffer,
    State,
    inside_line_end,
    offset_of,
    position_of,
    with_own_end,
)
from tests.support.simulated_manners import Manners

ENDS = ("start", "end")


class SimulatedEditor:
    """The client of an `Editor`, and the hands of its user."""

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

    # -- the client --------------------------------------------------------------------------------------------

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
        overtaken = buffer.version > version if self.manners.newer_only else version != buffer.version
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
                text = with_own_end(base.text, start, text)
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
        buffer.version = max(buffer.version + 1, self.manners.next_version)
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
        start, end = (at - inside_line_end(buffer.state.text, at) for at in (start, end))
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
        while head and (inside_line_end(now.text, head) or inside_line_end(then.text, head)):
            head -= 1
        while tail and (
            inside_line_end(now.text, len(now.text) - tail) or inside_line_end(then.text, len(then.text) - tail)
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
