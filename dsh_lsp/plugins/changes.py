"""Changes: tells the model which of the files that it knows have changed since.

A file is known from the result that showed it (`meta.digest`), and after an edit from what landed (`meta.files`). It
is looked at again before each step, as the editor holds it; the runtime context lists those that differ.

Rules: what counts is the text, and a time only tells that nobody can have changed it; a file that the model has read
again is known again; what changed by the agent's own edit is no news; the log is the only memory, so that a session
that goes on knows what it knew.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread

from dsh_lsp.agent.hooks import AgentHooks, Enter, PreStep, Reject
from dsh_lsp.agent.snapshot import RuntimeContext
from dsh_lsp.errors import ToolError
from dsh_lsp.events import LogEvent, ToolResult
from dsh_lsp.plugin import Context
from dsh_lsp.session.log import SessionLog
from dsh_lsp.wire import JsonObject
from dsh_lsp.workspace.port import Workspace

name = "changes"
inject = (AgentHooks, RuntimeContext, SessionLog, Workspace)

MAX_FILES: Final = 200  # the last that were seen
MAX_NAMES: Final = 30
AT_ONCE: Final = 8
SETTLED_NS: Final = 2_000_000_000  # a later change could carry the same time

Stamp = tuple[int, int, int]  # time, size, identity


class Known:
    """The files that the model knows, each with the digest of the text that it knows, the last seen last."""

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}

    def note(self, event: LogEvent) -> None:
        """Take one more event."""
        if not isinstance(event.data, ToolResult) or event.replaces is not None or event.data.meta is None:
            return
        meta = event.data.meta
        if isinstance(path := meta.get("path"), str) and isinstance(digest := meta.get("digest"), str):
            self._see(path, digest)
        files = meta.get("files")
        for file in files if isinstance(files, list) else ():
            if isinstance(file, dict) and isinstance(file.get("path"), str):
                self._touched(file["path"], file)

    def _see(self, path: str, digest: str) -> None:
        self.digests.pop(path, None)
        self.digests[path] = digest
        if len(self.digests) > MAX_FILES:
            del self.digests[next(iter(self.digests))]

    def _touched(self, path: str, file: JsonObject) -> None:
        """An edit of what the model knew leaves it knowing what landed; it knows a file that it wrote whole."""
        before, after, origin = file.get("before"), file.get("after"), file.get("movedFrom")
        if file.get("gone"):
            self.digests.pop(path, None)
        elif isinstance(origin, str) and origin in self.digests:
            self._see(path, self.digests[origin])
        elif isinstance(after, str) and (before is None or self.digests.get(path) == before):
            self._see(path, after)


def apply(ctx: Context, _settings: Any) -> None:
    """Look at the known files before each step."""
    hooks, log, workspace = ctx.get(AgentHooks), ctx.get(SessionLog), ctx.get(Workspace)
    known, looks = Known(), Looks(workspace)
    for event in log.facts():
        known.note(event)
    differing: list[str] = []

    async def look(payload: PreStep, call_next: Callable[[PreStep], Awaitable[Enter | Reject]]) -> Enter | Reject:
        nonlocal differing
        differing = await looks.differing(known.digests)
        return await call_next(payload)

    ctx.register(RuntimeContext, name, 50, lambda: describe(differing))
    ctx.listen(log.appended, known.note)
    ctx.listen(hooks.pre_step, look, prepend=True)


class Looks:
    """Looks at files, and remembers what it saw of those that nobody has touched for a while."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._seen: dict[str, tuple[Stamp, str | None]] = {}

    async def differing(self, digests: Mapping[str, str]) -> list[str]:
        """The files that hold another text by now, or none."""
        held = {document.path for document in self._workspace.open_documents()}
        stamps = await anyio.to_thread.run_sync(
            stamps_of, self._workspace.root, [path for path in digests if path not in held]
        )
        slots = anyio.CapacityLimiter(AT_ONCE)
        found: list[str] = []

        async def look(path: str, digest: str) -> None:
            async with slots:
                now = await self._digest(path, stamps.get(path))
            if now != digest:
                found.append(path if now is not None else f"{path} (gone)")

        async with anyio.create_task_group() as tasks:
            for path, digest in list(digests.items()):
                tasks.start_soon(look, path, digest)
        return sorted(found)

    async def _digest(self, path: str, stamp: Stamp | None) -> str | None:
        """What tells a file's text; None where there is no such file."""
        if stamp is not None and (seen := self._seen.get(path)) is not None and seen[0] == stamp:
            return seen[1]
        digest: str | None = ""
        known = frozenset(effect.grant_key for effect in self._workspace.effects(path, "read"))  # it was read already
        try:
            digest = (await self._workspace.read(path, known)).rope.digest
        except ToolError as error:
            digest = None if error.code == "NOT_FOUND" else ""  # no text any more, which is another one
        if stamp is not None:
            self._seen[path] = (stamp, digest)
        return digest


def stamps_of(root: Path, paths: Sequence[str]) -> dict[str, Stamp]:
    """When files were touched last; what was touched just now has no stamp that could be relied on. Blocks."""
    found = {}
    for path in paths:
        try:
            stat = (root / path).stat()
        except OSError:
            continue
        if time.time_ns() - stat.st_mtime_ns > SETTLED_NS:
            found[path] = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
    return found


def describe(paths: list[str]) -> str | None:
    """What the model is told."""
    if not paths:
        return None
    more = f" and {len(paths) - MAX_NAMES} more" if len(paths) > MAX_NAMES else ""
    return (
        "These files are not as you last saw them; somebody else has changed them. Read them again before you rely "
        f"on them: {', '.join(paths[:MAX_NAMES])}{more}"
    )
