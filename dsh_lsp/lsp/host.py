"""Host: pygls' protocol layer with every request answered exactly once, and nothing shown to the user.

    server = create_server("dsh-lsp", __version__)     # HostServer; .protocol is a HostProtocol
    server.command_table["dsh.x"] = run_x              # async (argument: dict) -> JSON, attrs or None
    server.on_shutdown = save                          # async (); at most 2 s; once, on shutdown, EOF or a signal
    @server.feature("textDocument/didOpen")            # as in pygls; async handlers are cancellable by id
    lifetime.run(server)                               # never returns

    server.task_group                                  # anyio group of the whole life, once served
    await server.protocol.request(method, params, timeout_s=5)      # raw JSON result, or EditorError
    server.protocol.notify(method, params)             # must arrive; `await drain()` between many of them
    server.protocol.notify_live(method, params)        # False: dropped, because the client reads too slowly
    server.protocol.work_done_token                    # of the request being handled in this context
    server.protocol.position_encoding                  # "utf-16" unless the client does not offer it

Owns: what a JSON-RPC message may be, the errors that cross the border, requests to the client.
Rules: messages are handled in order; the first step of an async handler runs before the next message is
handled; methods that LSP does not define get their params as raw JSON; pygls keeps no documents.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidRequest, JsonRpcServerNotInitialized
from pygls.lsp.server import LanguageServer
from pygls.protocol import default_converter, lsp_method

from dsh_lsp.errors import error_chain
from dsh_lsp.lsp.client_process import is_alive
from dsh_lsp.lsp.refusals import invalid_params
from dsh_lsp.lsp.rpc import RpcProtocol
from dsh_lsp.wire import JsonObject

if TYPE_CHECKING:
    from collections.abc import Generator

    from anyio.abc import TaskGroup
    from cattrs import Converter
    from pygls.server import ServerErrors

log = logging.getLogger(__name__)

Command = Callable[[JsonObject], Awaitable[Any]]

SHUTDOWN_HOOK_S: Final = 2.0  # VS Code waits this long for the answer to `shutdown`

_UTF16: Final = types.PositionEncodingKind.Utf16

# The document mirror is ours: pygls' own takes U+2028 for a line end and costs 17 ms a key on 5 MB. So is progress:
# pygls warns of every cancellation of a token that it did not make.
_OURS_ALONE: Final = (
    types.TEXT_DOCUMENT_DID_OPEN,
    types.TEXT_DOCUMENT_DID_CHANGE,
    types.TEXT_DOCUMENT_DID_CLOSE,
    types.NOTEBOOK_DOCUMENT_DID_OPEN,
    types.NOTEBOOK_DOCUMENT_DID_CHANGE,
    types.NOTEBOOK_DOCUMENT_DID_CLOSE,
    types.WINDOW_WORK_DONE_PROGRESS_CANCEL,
)


class HostProtocol(RpcProtocol):
    """The protocol of one connection: its commands, its state, its end."""

    _server: HostServer

    def __init__(self, server: HostServer, converter: Converter) -> None:
        self.command_table: dict[str, Command] = {}
        self.position_encoding = "utf-16"
        self.content_schemes: tuple[str, ...] = ()  # of the URIs of virtual documents
        self.closing = False
        self.client_pid: int | None = None
        self.on_exit: Callable[[int], None] = lambda _code: None
        self._hook: asyncio.Task[None] | None = None
        self._hook_deadline = 0.0
        self._shutdown_id: int | str | None = None
        self._token: ContextVar[int | str | None] = ContextVar("work_done_token", default=None)
        super().__init__(server, converter)

    def _register_builtin_features(self) -> None:
        super()._register_builtin_features()  # type: ignore[no-untyped-call]
        for method in _OURS_ALONE:
            self.fm.builtin_features.pop(method, None)

    @property
    def work_done_token(self) -> int | str | None:
        """The client's progress token of the command that runs in this context; pygls hides it."""
        return self._token.get()

    def check_state(self, method: str) -> None:
        """Refuse what the lifecycle forbids; stock pygls runs commands before `initialize`."""
        if self.closing:
            raise JsonRpcInvalidRequest("the server is shutting down")
        if method == types.INITIALIZE:
            if self._workspace is not None:
                raise JsonRpcInvalidRequest("already initialized")
        elif self._workspace is None:
            raise JsonRpcServerNotInitialized("initialize comes first")

    def drops_notification(self, method: str) -> bool:
        """Ignore what comes before `initialize` or after `shutdown`, but for `exit`."""
        return method != types.EXIT and (self._workspace is None or self.closing)

    # Commands

    @lsp_method(types.WORKSPACE_EXECUTE_COMMAND)
    async def lsp_workspace__execute_command(  # type: ignore[override]
        self, params: types.ExecuteCommandParams
    ) -> Any:
        """Run a command of the table.

        A coroutine that `$/cancelRequest` can stop; pygls has a generator, whose task goes by a random id and runs
        to its end.
        """
        run_command = self.command_table.get(params.command)
        if run_command is None:
            raise invalid_params(f"unknown command {params.command!r}")
        self._token.set(params.work_done_token)
        return await self.cancellable(run_command(_one_object(params)))

    # Life

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        """Advertise what pygls does not know of."""
        general = params.capabilities.general
        offered = (general and general.position_encodings) or ()
        if general is not None and _UTF16 in offered:
            # pygls takes the client's first; a buffer with servers of several encodings warns its user.
            general.position_encodings = [_UTF16, *(other for other in offered if other != _UTF16)]
        try:
            result = yield from super().lsp_initialize(params)
        except BaseException:
            self._workspace = None  # not initialized: the client may try again
            raise
        pid = params.process_id
        if pid is not None and is_alive(pid):  # else it names a process of another machine or container
            self.client_pid = pid
        capabilities = result.capabilities
        encoding = capabilities.position_encoding
        self.position_encoding = str(getattr(encoding, "value", encoding))
        sync = capabilities.text_document_sync
        if isinstance(sync, types.TextDocumentSyncOptions):
            sync.open_close, sync.change = True, types.TextDocumentSyncKind.Incremental
            sync.save = sync.save or True
        client = params.capabilities.workspace
        if self.content_schemes and client is not None and client.text_document_content is not None:
            capabilities.workspace = capabilities.workspace or types.WorkspaceOptions()
            capabilities.workspace.text_document_content = types.TextDocumentContentOptions(
                schemes=list(self.content_schemes)
            )
        capabilities.execute_command_provider = types.ExecuteCommandOptions(
            commands=list(self.command_table), work_done_progress=True
        )
        return result

    @lsp_method(types.SHUTDOWN)
    async def lsp_shutdown(self, *_arguments: Any) -> None:  # type: ignore[override]
        """Run the shutdown hook, stop what still runs, answer.

        pygls fails here with a command in flight (openlawlibrary/pygls#606), and waits for no handler.
        """
        self._shutdown_id = self.msg_id
        await self.finish()

    @lsp_method(types.EXIT)
    def lsp_exit(self, *_arguments: Any) -> None:  # type: ignore[override]
        """End the process; pygls' exit code is always 0."""
        self.on_exit(0 if self.closing else 1)

    async def finish(self) -> None:
        """Begin the end, or wait for it: run the shutdown hook once, then stop the handlers that still run."""
        loop = asyncio.get_running_loop()
        self.closing = self._shutdown = True
        if self._hook is None:
            self._hook = loop.create_task(self._run_hook(), name="shutdown-hook")
            self._hook_deadline = loop.time() + SHUTDOWN_HOOK_S
        await asyncio.sleep(0)  # the hook's first step cancels the turns, before their waits fail
        self._calls.close(unlimited_only=True)
        await asyncio.wait([self._hook], timeout=max(0.0, self._hook_deadline - loop.time()))
        self._hook.cancel()
        self._calls.close()
        await self._stop_handlers(timeout_s=max(0.1, self._hook_deadline - loop.time()))

    async def _stop_handlers(self, *, timeout_s: float) -> None:
        """Cancel what runs for the client and let it answer; the shutdown request itself is only waited for."""
        running: dict[Any, Any] = dict(self._request_futures)  # asyncio tasks, and futures of threads
        running.pop(self.msg_id, None)
        for message_id in running:
            if message_id != self._shutdown_id:
                self.cancel_request(message_id)
        if tasks := [future for future in running.values() if asyncio.isfuture(future)]:
            await asyncio.wait(tasks, timeout=timeout_s)

    async def _run_hook(self) -> None:
        try:
            if (hook := self._server.on_shutdown) is not None:
                await hook()
        except Exception:
            log.exception("the shutdown hook failed")  # whose task nobody awaits


class HostServer(LanguageServer):
    """One server for one client; all that runs for it lives in `task_group` once it is served.

    A task that crashes in the group ends the process: whoever starts one catches its errors.
    """

    protocol: HostProtocol
    task_group: TaskGroup
    on_shutdown: Callable[[], Awaitable[None]] | None = None

    @property
    def command_table(self) -> dict[str, Command]:
        """What `workspace/executeCommand` runs, by name; read when the client initializes."""
        return self.protocol.command_table

    def report_server_error(self, error: Exception, source: ServerErrors) -> None:
        """Log; pygls shows a popup to the user."""
        log.error("%s: %s", source.__name__, error_chain(error))


def create_server(name: str, version: str) -> HostServer:
    """Make a server that waits to be served."""
    return HostServer(
        name,
        version,
        protocol_cls=HostProtocol,
        converter_factory=lenient_converter,
        max_workers=2,
    )


def lenient_converter() -> Converter:
    """Make a converter that keeps unknown enum values as they are.

    Otherwise a value of a newer LSP in the client's capabilities, or vscode-languageclient's
    `trace: "compact"`, fails `initialize`.
    """
    converter: Converter = default_converter()  # type: ignore[no-untyped-call]
    for kind in vars(types).values():
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            converter.register_structure_hook(kind, _enum_or_raw)
    return converter


def _enum_or_raw(value: Any, kind: type[enum.Enum]) -> Any:
    try:
        return kind(value)
    except ValueError:
        return value


def _one_object(params: types.ExecuteCommandParams) -> JsonObject:
    """Return the one argument of a command; null and the empty list that Lua makes of `{}` count as missing."""
    arguments = params.arguments or ()
    if len(arguments) > 1:
        raise invalid_params(f"{params.command}: takes one object, got {len(arguments)} arguments")
    argument: Any = arguments[0] if arguments else {}
    if argument is None or argument == []:
        return {}
    if not isinstance(argument, dict):
        raise invalid_params(f"{params.command}: takes one object, got {type(argument).__name__}")
    return argument
