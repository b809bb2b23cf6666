"""Server: the LSP methods and `dsh` commands; each converts, calls and converts.

Rules: nothing heavy is imported until the client has its answer to `initialize`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from dsh_lsp import __version__
from dsh_lsp.lsp.host import Command, HostServer, create_server
from dsh_lsp.lsp.protocol import COMMANDS, SCHEME
from dsh_lsp.wire import JsonObject

if TYPE_CHECKING:
    from dsh_lsp.lsp.runtime import Runtime


def build_server() -> HostServer:
    """Make a server that waits to be run."""
    server = create_server("dsh-lsp", __version__)
    Connection(server)
    return server


class Connection:
    """The handlers of one client; what they call is built with the first of them after `initialize`."""

    def __init__(self, server: HostServer) -> None:
        self._server = server
        self._initialize: types.InitializeParams | None = None
        self._built: Runtime | None = None
        server.on_shutdown = self._shutdown
        server.protocol.content_schemes = (SCHEME,)
        for name in COMMANDS:
            server.command_table[name] = self._command(name)
        self._register(server)

    @property
    def _runtime(self) -> Runtime:
        if self._built is None:
            from dsh_lsp.lsp.runtime import Runtime

            params: JsonObject = self._server.protocol._converter.unstructure(self._initialize)  # noqa: SLF001
            self._built = Runtime(
                params,
                client=self._server.protocol,
                tasks=self._server.task_group,
                encoding=self._server.protocol.position_encoding,  # type: ignore[arg-type]
            )
        return self._built

    def _command(self, name: str) -> Command:
        async def run(argument: JsonObject) -> Any:
            from dsh_lsp.lsp.commands import run_command

            return await run_command(self._runtime, name, argument)

        return run

    async def _shutdown(self) -> None:
        if self._built is not None:
            await self._built.close()

    def _register(self, server: HostServer) -> None:
        handlers: dict[str, Callable[..., Any]] = {
            types.INITIALIZE: self._on_initialize,
            types.INITIALIZED: self._on_initialized,
            types.TEXT_DOCUMENT_DID_OPEN: self._did_open,
            types.TEXT_DOCUMENT_DID_CHANGE: self._did_change,
            types.TEXT_DOCUMENT_DID_CLOSE: self._did_close,
            types.WORKSPACE_DID_CHANGE_WATCHED_FILES: self._did_change_files,
            types.WORKSPACE_DID_CHANGE_CONFIGURATION: self._configuration_changed,
            types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: self._folders_changed,
            types.WINDOW_WORK_DONE_PROGRESS_CANCEL: self._progress_cancel,
            types.TEXT_DOCUMENT_CODE_ACTION: self._code_action,
            types.TEXT_DOCUMENT_CODE_LENS: self._code_lens,
            types.WORKSPACE_TEXT_DOCUMENT_CONTENT: self._text_document_content,
        }
        for method, handler in handlers.items():
            server.feature(method)(partial(handler))  # pygls marks what it registers; a method takes no mark

    def _on_initialize(self, params: types.InitializeParams) -> None:
        self._initialize = params

    def _on_initialized(self, _params: types.InitializedParams) -> None:
        self._runtime.start()

    def _configuration_changed(self, params: types.DidChangeConfigurationParams) -> None:
        self._runtime.configuration_changed(params.settings)

    def _folders_changed(self, params: types.DidChangeWorkspaceFoldersParams) -> None:
        added, removed = ([{"uri": one.uri} for one in some] for some in (params.event.added, params.event.removed))
        self._runtime.folders_changed(added, removed)

    def _did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        document = params.text_document
        self._runtime.documents.open(document.uri, document.version, document.text)

    def _did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        changes = [_change(change) for change in params.content_changes]
        self._runtime.documents.change(params.text_document.uri, params.text_document.version, changes)

    def _did_change_files(self, params: types.DidChangeWatchedFilesParams) -> None:
        self._runtime.files_changed(change.uri for change in params.changes)

    def _did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        self._runtime.documents.close(params.text_document.uri)

    def _progress_cancel(self, params: types.WorkDoneProgressCancelParams) -> None:
        self._runtime.cancel_progress(params.token)

    def _code_action(self, params: types.CodeActionParams) -> Sequence[types.CodeAction | types.Command]:
        found = self._runtime.code_actions(params)
        if self._runtime.editor.profile.code_action_literals:
            return found
        return [action.command for action in found if action.command is not None]  # all that LSP lets it be sent

    def _code_lens(self, params: types.CodeLensParams) -> list[types.CodeLens]:
        return self._runtime.code_lenses(params.text_document.uri)

    async def _text_document_content(
        self, params: types.TextDocumentContentParams
    ) -> types.TextDocumentContentResult:
        return types.TextDocumentContentResult(text=await self._runtime.virtual.give(params.uri))


def _change(change: types.TextDocumentContentChangeEvent) -> JsonObject:
    if isinstance(change, types.TextDocumentContentChangePartial):
        start, end = change.range.start, change.range.end
        return {
            "range": {
                "start": {"line": start.line, "character": start.character},
                "end": {"line": end.line, "character": end.character},
            },
            "text": change.text,
        }
    return {"text": change.text}
