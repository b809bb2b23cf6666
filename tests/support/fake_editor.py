"""Fake editor: a real LSP client over pytest-lsp, with buffers of its own and the manners of real editors."""

from __future__ import annotations

import ast
import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pytest_lsp import client_capabilities, make_test_lsp_client

from dsh_lsp.events import encode_event
from dsh_lsp.session.loading import load_session
from dsh_lsp.wire import encode

WAIT_S = 20.0  # a limit, not a delay: a machine under load takes long
POLL_S = 0.02


@dataclass
class Buffer:
    """What the editor holds of one document."""

    uri: str
    text: str
    version: int = 1

    def offset(self, position: types.Position) -> int:
        """Code points before a UTF-16 position, the plain way."""
        lines = re.findall(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+", self.text)
        before = "".join(lines[: position.line])
        line = lines[position.line] if position.line < len(lines) else ""
        head = line.encode("utf-16-le")[: position.character * 2].decode("utf-16-le")
        return len(before) + len(head)

    def position(self, offset: int) -> types.Position:
        """The UTF-16 position of an offset."""
        head = self.text[:offset]
        line = head.count("\n")
        column = len(head[head.rfind("\n") + 1 :].encode("utf-16-le")) // 2
        return types.Position(line, column)


@dataclass
class FakeEditor:
    """One editor window.

    `decide_preview` answers an annotated edit: which of its text edits are ticked (None: not an editor with a
    preview). `applies` is what becomes of a plain edit: "honest", "lies" (says yes, does nothing), "refuses".
    `overtaken` is how many edits a key in `calc.py` overtakes, of which the editor tells only after it has refused.
    """

    root: Path
    applies: str = "honest"
    overtaken: int = 0
    saves: bool = False
    folders: tuple[Path, ...] = ()  # of the window; none: it tells of a root alone
    decide_preview: Callable[[list[Any]], list[bool] | None] | None = None
    buffers: dict[str, Buffer] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    progress: list[tuple[Any, Any]] = field(default_factory=list)
    statuses: list[dict[str, Any]] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    diagnostics: dict[str, list[types.Diagnostic]] = field(default_factory=dict)
    shown: list[types.ShowDocumentParams] = field(default_factory=list)
    edits: list[types.ApplyWorkspaceEditParams] = field(default_factory=list)
    refreshed: list[str] = field(default_factory=list)
    client: Any = None
    gone: bool = False  # the test has killed the server
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    # -- what the user does ----------------------------------------------------------------------------------

    def uri(self, name: str) -> str:
        return (self.root / name).as_uri()

    def open(self, name: str, text: str | None = None) -> str:
        """Open a file, with other text than the disk's where given: unsaved text."""
        uri = self.uri(name)
        disk = (self.root / name).read_bytes().decode() if (self.root / name).exists() else ""
        self.buffers[uri] = Buffer(uri, disk)
        item = types.TextDocumentItem(uri=uri, language_id="python", version=1, text=disk)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(text_document=item))
        if text is not None and text != disk:
            self.type(name, 0, len(disk), text)
        return uri

    def type(self, name: str, start: int, end: int, text: str) -> None:
        """Replace a span of a buffer and tell the server, as typing does."""
        buffer = self.buffers[self.uri(name)]
        span = types.Range(buffer.position(start), buffer.position(end))
        buffer.text = buffer.text[:start] + text + buffer.text[end:]
        buffer.version += 1
        self._did_change(buffer, [types.TextDocumentContentChangePartial(range=span, text=text)])

    def close(self, name: str) -> None:
        uri = self.uri(name)
        del self.buffers[uri]
        document = types.TextDocumentIdentifier(uri)
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(text_document=document))

    def text(self, name: str) -> str:
        return self.buffers[self.uri(name)].text

    async def command(self, name: str, argument: Any = None, *, timeout_s: float = WAIT_S) -> Any:
        """Run a server command; raises `JsonRpcException` for an error."""
        params = types.ExecuteCommandParams(command=name, arguments=[] if argument is None else [argument])
        return await asyncio.wait_for(self.client.workspace_execute_command_async(params), timeout_s)

    async def code_actions(
        self,
        name: str,
        line: int,
        *,
        problems: Sequence[types.Diagnostic] = (),
        automatic: bool | None = False,
    ) -> list[Any]:
        """What can be done on a line; `automatic` says why the editor asks, None that it does not say why."""
        where = types.Position(line, 0)
        kinds = types.CodeActionTriggerKind
        trigger = None if automatic is None else kinds.Automatic if automatic else kinds.Invoked
        params = types.CodeActionParams(
            text_document=types.TextDocumentIdentifier(self.uri(name)),
            range=types.Range(where, where),
            context=types.CodeActionContext(diagnostics=list(problems), trigger_kind=trigger),
        )
        return await asyncio.wait_for(self.client.text_document_code_action_async(params), WAIT_S) or []

    async def choose(self, name: str, line: int, title: str, **how: Any) -> Any:
        """Run the code action whose title begins like this."""
        action = next(a for a in await self.code_actions(name, line, **how) if a.title.startswith(title))
        if action.arguments:
            return await self.command(action.command, action.arguments[0])
        command = ast.literal_eval(action.command)  # lsprotocol takes a code action for a command
        return await self.command(command["command"], command["arguments"][0])

    def change_folders(self, *, added: Sequence[Path] = (), removed: Sequence[Path] = ()) -> None:
        """Let folders come into the window and leave it."""
        event = types.WorkspaceFoldersChangeEvent([_folder(one) for one in added], [_folder(one) for one in removed])
        params = types.DidChangeWorkspaceFoldersParams(event=event)
        self.client.workspace_did_change_workspace_folders(params)

    def cancel_progress(self, token: str) -> None:
        self.client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(token=token))

    # -- what the user sees ----------------------------------------------------------------------------------

    async def until(self, condition: Callable[[], Any], timeout_s: float = WAIT_S) -> Any:
        """Wait until something is so, and return it."""

        async def wait() -> Any:
            while not (found := condition()):
                self._news.clear()
                with suppress(TimeoutError):  # some conditions look at the model server, which has no news
                    await asyncio.wait_for(self._news.wait(), POLL_S)
            return found

        try:
            return await asyncio.wait_for(wait(), timeout_s)
        except TimeoutError:
            seen = [event["type"] for event in self.events][-20:]
            raise AssertionError(f"it did not come; last events: {seen}; messages: {self.messages}") from None

    def seen(self, tag: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == tag]

    async def event(self, tag: str, number: int = 1) -> dict[str, Any]:
        """The nth event of a type."""
        found = await self.until(lambda: len(self.seen(tag)) >= number and self.seen(tag))
        return found[number - 1]

    @property
    def tool_results(self) -> list[str]:
        """The texts of the tool results, in order."""
        return [e["data"]["message"]["content"][0]["content"][0]["text"] for e in self.seen("tool/result")]

    @property
    def kinds(self) -> list[str]:
        """The kinds of work-done progress, in order."""
        return [value["kind"] for _, value in self.progress]

    # -- the client ------------------------------------------------------------------------------------------

    async def start(
        self, options: Any, capabilities: types.ClientCapabilities, env: dict[str, str], name: str
    ) -> None:
        self.client = client = make_test_lsp_client()
        for method in ("$/progress", "window/showMessage", "window/showDocument", "textDocument/publishDiagnostics"):
            client.protocol.fm.features.pop(method)  # ours replace them; theirs know no payload of our events
        self._register(client)
        command = [sys.executable, "-m", "dsh_lsp", "serve"]
        await client.start_io(*command, env={**os.environ, **env})
        client.announced = await asyncio.wait_for(
            client.initialize_session(
                types.InitializeParams(
                    process_id=os.getpid(),
                    capabilities=capabilities,
                    root_uri=self.root.as_uri(),
                    workspace_folders=[_folder(folder) for folder in self.folders] or None,
                    initialization_options=options,
                    client_info=types.ClientInfo(name=name),
                )
            ),
            WAIT_S,
        )

    def _register(self, client: Any) -> None:
        @client.feature("$/progress")
        def progress(params: Any) -> None:
            value = params.value
            if isinstance(value, dict) and "dsh" in value:
                self.events.append(value)
            else:
                self.progress.append((params.token, value))
            self._news.set()

        @client.feature("dsh/status")
        def status(params: Any) -> None:
            self.statuses.append(_plain(params))
            self._news.set()

        @client.feature("dsh/save")
        def save(params: Any) -> Any:
            uris = params["uris"] if isinstance(params, dict) else params.uris
            for uri in uris:
                path = Path.from_uri(uri) if hasattr(Path, "from_uri") else Path(uri.removeprefix("file://"))
                path.write_bytes(self.buffers[uri].text.encode())
            return {"saved": list(uris), "failed": []}

        @client.feature("window/showMessage")
        def message(params: types.ShowMessageParams) -> None:
            self.messages.append(params.message)
            self._news.set()

        @client.feature("window/showDocument")
        def show(params: types.ShowDocumentParams) -> types.ShowDocumentResult:
            self.shown.append(params)
            return types.ShowDocumentResult(success=True)

        @client.feature("workspace/textDocumentContent/refresh")
        def refresh(params: types.TextDocumentContentRefreshParams) -> None:
            self.refreshed.append(params.uri)
            self._news.set()

        @client.feature("textDocument/publishDiagnostics")
        def diagnostics(params: types.PublishDiagnosticsParams) -> None:
            self.diagnostics[params.uri] = list(params.diagnostics)
            self._news.set()

        @client.feature("workspace/applyEdit")
        async def apply(params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
            self.edits.append(params)
            self._news.set()
            if len(self.edits) <= self.overtaken:
                asyncio.get_running_loop().call_later(POLL_S, self.type, "calc.py", 0, 0, "x")
                raise JsonRpcException("Edits on 'calc.py' require version 1, you have 2", code=-32603)
            return types.ApplyWorkspaceEditResult(applied=await self._apply(params.edit))

    async def _apply(self, edit: types.WorkspaceEdit) -> bool:
        if self.applies == "lies":
            return True
        if self.applies == "refuses":
            return False
        for document_edit in edit.document_changes or []:
            buffer = self.buffers.get(document_edit.text_document.uri)
            if buffer is None or buffer.version != document_edit.text_document.version:
                return False
            ticked = [True] * len(document_edit.edits)
            if edit.change_annotations:
                chosen = self.decide_preview(document_edit.edits) if self.decide_preview else None
                if chosen is None:
                    return False
                ticked = chosen
            edits = [e for e, tick in zip(document_edit.edits, ticked, strict=True) if tick]
            if not edits:
                return False
            changes = []
            for text_edit in sorted(edits, key=lambda e: (e.range.start.line, e.range.start.character), reverse=True):
                start, end = buffer.offset(text_edit.range.start), buffer.offset(text_edit.range.end)
                buffer.text = buffer.text[:start] + text_edit.new_text + buffer.text[end:]
                changes.append(types.TextDocumentContentChangePartial(range=text_edit.range, text=text_edit.new_text))
            buffer.version += 1
            self._did_change(buffer, changes)
        return True

    def _did_change(self, buffer: Buffer, changes: list[Any]) -> None:
        document = types.VersionedTextDocumentIdentifier(version=buffer.version, uri=buffer.uri)
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(text_document=document, content_changes=changes)
        )


@asynccontextmanager
async def fake_editor(
    root: Path,
    *,
    model_url: str = "http://127.0.0.1:9",
    profile: str | None = None,
    dsh: dict[str, Any] | None = None,
    key: str | None = "sk-test-secret",
    options: dict[str, Any] | None = None,
    capabilities: types.ClientCapabilities | None = None,
    client_name: str = "fake-editor",
    **manners: Any,
) -> AsyncIterator[FakeEditor]:
    """Start the server in a project; `profile` borrows a real editor's capabilities, `capabilities` are others."""
    capabilities = (
        capabilities
        or (client_capabilities(profile) if profile else None)
        or types.ClientCapabilities(
            window=types.WindowClientCapabilities(work_done_progress=True),
            workspace=types.WorkspaceClientCapabilities(apply_edit=True),
        )
    )
    if dsh is not None:
        capabilities.experimental = {"dsh": {"version": 1, **dsh}}
    state = root.parent / f"{root.name}-state"
    env = {"XDG_STATE_HOME": str(state), "DEEPSEEK_API_KEY": key or ""}
    editor = FakeEditor(root, **manners)
    settings = {
        "eventToken": "events",
        "model": {"baseUrl": model_url},
        "sessions": {"directory": str(state)},
        **(options or {}),
    }
    await editor.start(settings, capabilities, env, client_name)
    try:
        yield editor
        if not editor.gone:
            await asyncio.wait_for(editor.client.shutdown_session(), WAIT_S)
        told = (editor.events, editor.progress, editor.statuses, editor.messages, editor.diagnostics)
        assert not key or key not in repr(told), "the key reached the editor"
    except BaseException:
        if editor.client._server.returncode is None:
            editor.client._server.kill()
        raise
    finally:
        await asyncio.wait_for(editor.client.stop(), WAIT_S)


def _folder(path: Path) -> types.WorkspaceFolder:
    return types.WorkspaceFolder(uri=path.as_uri(), name=path.name)


def _plain(value: Any) -> Any:
    """Turn the nested namedtuples that pygls makes of unknown payloads back into JSON."""
    if hasattr(value, "_asdict"):
        return {key: _plain(item) for key, item in value._asdict().items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def session_rows(root: Path) -> list[dict[str, Any]]:
    """The session log as it is on disk: its header, then its events."""
    (path,) = (root.parent / f"{root.name}-state").glob("*.jsonl")
    return rows_of(path)


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a session's log: its header, then its events."""
    loaded = load_session(path)
    return [{"type": "session", **encode(loaded.header)}, *(encode_event(event) for event in loaded.events)]
