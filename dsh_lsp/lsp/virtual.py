"""Virtual: documents that no file holds: a session's transcript, and a file as a waiting proposal would make it.

Rules: a text is made when it is asked for and kept nowhere, but for a copy in the cache folder of an editor that can
show files only; that copy is the user's alone. An editor that has read a text is told once when it has changed, and
again when it has read it again: so nobody is told of what they do not show any more.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from dsh_lsp.decisions import ReviewFile
from dsh_lsp.directories import cache_directory
from dsh_lsp.errors import SessionError, ToolError, UsageError
from dsh_lsp.lsp.documents import Document, Documents, path_of, uri_of
from dsh_lsp.lsp.editor import Editor
from dsh_lsp.lsp.protocol import SCHEME
from dsh_lsp.lsp.sessions import Sessions
from dsh_lsp.workspace.disk import read_file
from dsh_lsp.workspace.paths import shown
from dsh_lsp.workspace.rope import Rope

TRANSCRIPT = "transcript.md"
PROPOSALS = f"{SCHEME}:/proposal/"
REFRESH_S = 1.0  # changes of so long are told of together


def transcript_uri(session: str) -> str:
    """The transcript of a session."""
    return f"{SCHEME}:/session/{quote(session, safe='')}/{TRANSCRIPT}"


class VirtualDocuments:
    """The virtual documents of one connection."""

    def __init__(self, sessions: Sessions, documents: Documents, editor: Editor, tasks: TaskGroup) -> None:
        self._sessions = sessions
        self._documents = documents
        self._editor = editor
        self._tasks = tasks
        self._given: dict[str, str] = {}  # what the editor has read and was not told of since
        self._changed: set[str] = set()
        sessions.changed.listen(self._on_change)

    async def give(self, uri: str) -> str:
        """The text of a virtual document for the editor itself, which is told when there is another one.

        Raises:
            UsageError, SessionError: as `text`.
        """
        text = await self.text(uri)
        self._given[uri] = text if uri.startswith(PROPOSALS) else ""  # a transcript grows with all that happens
        return text

    async def text(self, uri: str) -> str:
        """The text of a virtual document as it is now.

        Raises:
            UsageError: it is not the URI of one.
            SessionError: `UNKNOWN_SESSION`, `NOT_PENDING`, the proposal does not wait (any more).
        """
        parts = urlsplit(uri)
        match [unquote(part) for part in parts.path.split("/")] if parts.scheme == SCHEME else []:
            case ["", "session", session, name] if name == TRANSCRIPT:
                return await self._sessions.export(session, "markdown")
            case ["", "proposal", proposal, *path] if path:
                return await self._proposed(proposal, "/".join(path))
            case _:
                raise UsageError(f"{uri} is not the URI of a virtual document")

    async def show(self, uri: str) -> str:
        """Let the editor show a virtual document; where it can show none, say where a copy lies. The text.

        Raises:
            UsageError, SessionError: as `text`.
        """
        text = await self.text(uri)
        profile = self._editor.profile
        if profile.virtual_documents and await self._editor.show_document(uri):
            return text
        try:
            copy = await anyio.to_thread.run_sync(keep_copy, uri, text)
        except OSError as error:
            self._editor.warn(f"DSH: no copy of it can be kept in {cache_directory()}: {error.strerror}")
            return text
        if not await self._editor.show_document(uri_of(copy)):
            self._editor.tell(f"DSH: this editor shows no documents for a server; it is in {copy}")
        return text

    def _on_change(self, session: str) -> None:
        """Take that something has happened in a session, or to what waits in it."""
        changed = {uri for uri in self._given if uri.startswith(PROPOSALS) or uri == transcript_uri(session)}
        if changed and not self._changed:
            self._tasks.start_soon(self._refresh)
        self._changed |= changed

    async def _refresh(self) -> None:
        await anyio.sleep(REFRESH_S)
        changed, self._changed = self._changed, set()
        for uri in changed & self._given.keys():
            known = self._given.pop(uri)
            if uri.startswith(PROPOSALS):
                try:
                    text = await self.text(uri)
                except SessionError:
                    continue  # it waits no more, and what was read stays
                if text == known:
                    self._given.setdefault(uri, known)
                    continue
            await self._editor.refresh_document(uri)

    async def _proposed(self, proposal: str, path: str) -> str:
        """Apply what waits of a proposal to one of its files."""
        _, real = self._waiting(proposal, path)
        on_disk = await anyio.to_thread.run_sync(_text_of, real)
        file, real = self._waiting(proposal, path)  # as it is now
        document = self._documents.at(real) or Document(file.uri, None, Rope.of(on_disk), self._documents.encoding)
        text = document.text
        for hunk in reversed(file.hunks):
            start, end = document.offset_at(hunk.range.start), document.offset_at(hunk.range.end)
            text = text[:start] + hunk.new_text + text[end:]
        return text

    def _waiting(self, proposal: str, path: str) -> tuple[ReviewFile, Path]:
        for live in self._sessions.all():
            root = Path(live.session.log.header.cwd)
            for found, file in live.reviews.pending_files():
                real = path_of(file.uri)
                if found == proposal and real is not None and shown(root, real) == path:
                    return file, real
        raise SessionError(f"no edit of {path} waits in the proposal {proposal}", code="NOT_PENDING")


def keep_copy(uri: str, text: str) -> Path:
    """Write a virtual document where an editor can open it; the copy from before is replaced."""
    path = _copy_of(uri)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace", newline="") as file:
        file.write(text)
    new.replace(path)
    return path


def forget_copy(session: str) -> None:
    """Remove the copy of a session's transcript, if one was kept."""
    with suppress(OSError):
        _copy_of(transcript_uri(session)).unlink()


def _copy_of(uri: str) -> Path:
    name = quote(uri.removeprefix(f"{SCHEME}:/").replace("/", "-"), safe="")
    return cache_directory() / "documents" / name


def _text_of(path: Path) -> str:
    """A file's text; nothing for one that does not exist (any more)."""
    try:
        return read_file(path, path.name).text
    except ToolError:
        return ""
