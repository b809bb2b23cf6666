"""Rpc: JSON-RPC over pygls' protocol layer, with one answer to every request.

Owns: what a message may be, the encoding of what goes out, the error that a failed handler is answered with.
Rules: nothing that a client sends raises, hangs or pops up; methods that LSP does not define get their params as
raw JSON; `notify`, `notify_live` and answers are safe in every thread, all else belongs to the loop's.
Knows nothing of: the lifecycle, commands, descriptors.
"""

from __future__ import annotations

import enum
import itertools
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from cattrs import transform_error
from lsprotocol import types
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInternalError,
    JsonRpcInvalidRequest,
    JsonRpcMethodNotFound,
    JsonRpcParseError,
    JsonRpcRequestCancelled,
)
from pygls.protocol import LanguageServerProtocol

from dsh_lsp.errors import error_chain
from dsh_lsp.lsp.client_calls import ClientCalls, error_text
from dsh_lsp.lsp.refusals import REQUEST_FAILED, internal_error, invalid_params, one_line, to_lsp_error
from dsh_lsp.lsp.transport import FrameSink
from dsh_lsp.wire import JsonObject, loads

if TYPE_CHECKING:
    from cattrs import Converter
    from pygls.lsp.server import LanguageServer

log = logging.getLogger(__name__)


class RpcProtocol(LanguageServerProtocol, ABC):
    """Both directions of one connection; a subclass says what the lifecycle allows."""

    def __init__(self, server: LanguageServer, converter: Converter) -> None:
        self._sink: FrameSink | None = None
        self._notifications = itertools.count(1)
        self._calls = ClientCalls()
        self._scopes: dict[Any, anyio.CancelScope] = {}
        encoder = partial(
            json.JSONEncoder,
            default=self._serialize_message,
            allow_nan=False,  # Python writes a bare NaN, on which vscode-jsonrpc drops the whole message
            separators=(",", ":"),
        )
        self._encode = encoder(ensure_ascii=False).encode
        self._encode_ascii = encoder(ensure_ascii=True).encode
        super().__init__(server, converter)

    @abstractmethod
    def check_state(self, method: str) -> None:
        """Raise the `JsonRpcException` that a request is refused with because of when it comes."""

    @abstractmethod
    def drops_notification(self, method: str) -> bool:
        """Whether a notification is ignored because of when it comes."""

    # Input

    def handle_body(self, body: bytes) -> None:
        """Handle one message as it came from the pipe; never raises for what the client sent."""
        try:
            message = loads(body)
        except (ValueError, RecursionError) as error:
            # Stock pygls shows a popup and answers nothing.
            self._refuse(None, JsonRpcParseError(f"not JSON: {error}"))
            return
        self.handle_message(message)

    def structure_message(self, data: JsonObject) -> Any:
        """Leave `data` as it is: pygls calls this for every nested object, and takes "jsonrpc" for a message."""
        return data

    def handle_message(self, message: Any) -> None:
        """Sort a raw message; stock pygls answers none of the malformed ones."""
        if not isinstance(message, dict):  # a batch, too: LSP has none
            self._refuse(None, JsonRpcInvalidRequest("not a JSON-RPC 2.0 object"))
            return
        has_id, message_id, method = "id" in message, message.get("id"), message.get("method")
        valid_id = message_id if type(message_id) in (int, str) else None  # no bool, though Python counts it
        if "method" not in message and ("result" in message or "error" in message):
            self._handle_reply(valid_id, message)
        elif message.get("jsonrpc") != self.VERSION or not isinstance(method, str):
            self._refuse(valid_id, JsonRpcInvalidRequest("not a JSON-RPC 2.0 object"))
        elif not has_id:
            self._take_notification(method, message)
        elif valid_id is None:
            self._refuse(None, JsonRpcInvalidRequest("the id is neither a string nor an integer"))
        else:
            self._take_request(valid_id, method, message)

    def _take_request(self, message_id: int | str, method: str, message: JsonObject) -> None:
        try:
            self.check_state(method)
            if method not in self.fm.builtin_features and method not in self.fm.features:
                raise JsonRpcMethodNotFound(one_line(f"unknown method {method}"))
            params = self._structure_params(method, message)
        except JsonRpcException as error:
            self._refuse(message_id, error)
            return
        copy_context().run(self._handle_request, message_id, method, params)

    def _take_notification(self, method: str, message: JsonObject) -> None:
        if self.drops_notification(method):
            return
        try:
            params = self._structure_params(method, message)
        except JsonRpcException as error:
            log.error("dropped %s: %s", method, error)
            return
        copy_context().run(self._handle_notification, method, params)

    def get_message_type(self, method: str) -> type[Any] | None:  # type: ignore[override]
        """Return the LSP type of a message; pygls caches whatever strings a client makes up."""
        kind: type[Any] | None = types.METHOD_TO_TYPES.get(method, (None,))[0]
        return kind

    def _structure_params(self, method: str, message: JsonObject) -> Any:
        """Give the params their LSP type, at the top level only; missing ones are an empty object."""
        params = message.get("params")
        message_type = self.get_message_type(method)
        if message_type is None:  # pygls would make nested namedtuples of them, and lose names such as "a-b"
            return params
        named = {**message, "params": {} if params is None else params}
        try:
            return self._converter.structure(named, message_type).params
        except Exception as error:  # converters raise anything on a stranger's data
            reasons = "; ".join(transform_error(error, path="message"))
            raise invalid_params(f"{method}: {reasons}") from error

    def _handle_request(self, msg_id: int | str, method_name: str, params: Any) -> None:
        self._ctx_msg_id.set(msg_id)
        self._execute_handler(
            msg_id=msg_id,
            handler=self._get_handler(method_name),
            args=(params,),
            callback=partial(self._send_handler_result, msg_id=msg_id),
        )

    async def cancellable(self, work: Awaitable[Any]) -> Any:
        """Await the work of the request in this context; `$/cancelRequest` cancels it by anyio's rules.

        pygls cancels the task, which tears through shields. In a scope, what is shielded ends in peace, and work that
        has a result in spite of the cancellation, such as an input that was accepted already, is answered with it.
        """
        message_id = self.msg_id
        with anyio.CancelScope() as scope:
            self._scopes[message_id] = scope
            try:
                return await work
            finally:
                if self._scopes.get(message_id) is scope:  # a careless client may use an id twice
                    del self._scopes[message_id]
        raise JsonRpcRequestCancelled

    def cancel_request(self, message_id: Any) -> None:
        """Cancel what runs for a request, if anything does."""
        if (scope := self._scopes.get(message_id)) is not None:
            scope.cancel()
        elif (future := self._request_futures.get(message_id)) is not None:
            future.cancel()

    def _handle_notification(self, method_name: str, params: Any) -> None:
        if method_name == types.CANCEL_REQUEST:
            self.cancel_request(params.id)
            return
        try:
            handler = self._get_handler(method_name)
        except JsonRpcMethodNotFound:
            log.debug("ignored %s", method_name)
            return
        task_id: Any = ("notification", next(self._notifications))  # no client can name it

        def done(future: Future[Any]) -> None:
            self._request_futures.pop(task_id, None)  # pygls keeps one future for each notification for ever
            self._check_handler_result(future, method_name)

        self._execute_handler(msg_id=task_id, handler=handler, args=(params,), callback=done)

    # Results

    def _send_handler_result(self, future: Future[Any], *, msg_id: int | str) -> None:
        if self._request_futures.get(msg_id) is future:
            del self._request_futures[msg_id]
        if future.cancelled():
            self._refuse(msg_id, JsonRpcRequestCancelled())
        elif (error := future.exception()) is not None:
            self._refuse(msg_id, to_lsp_error(error))
        else:
            self._send_response(msg_id, result=future.result())

    def _check_handler_result(self, future: Future[Any], method: str = "") -> None:
        if not future.cancelled() and (error := future.exception()) is not None:
            log.error("handler of %s failed", method, exc_info=error)

    def _refuse(self, message_id: int | str | None, error: JsonRpcException) -> None:
        self._send_response(message_id, error=error.to_response_error())

    def _send_response(
        self,
        msg_id: int | str | None,
        result: Any | None = None,
        error: types.ResponseError | None = None,
    ) -> None:
        """Send the one answer of a request, in any thread; pygls loses one that cannot be encoded."""
        reply: JsonObject = {"jsonrpc": self.VERSION, "id": msg_id}
        if error is not None:
            reply["error"] = {"code": int(error.code), "message": error.message}
            if error.data is not None:
                reply["error"]["data"] = error.data
        else:
            reply["result"] = result
        try:
            body = self.encode(reply)
        except Exception as failure:  # a handler's result may be anything
            log.error("the answer to %r cannot be encoded", msg_id, exc_info=failure)
            self._refuse(msg_id, internal_error(f"the result is no JSON: {error_chain(failure)}"))
        else:
            self._send(body)

    # Output

    def attach(self, sink: FrameSink) -> None:
        """Send all that follows to `sink`."""
        self._sink = sink

    def encode(self, data: Any) -> bytes:
        """Write JSON; attrs objects of LSP types may sit anywhere in it.

        Raises:
            ValueError, TypeError: the data has no JSON form.
        """
        text = self._encode(data)
        try:
            return text.encode()
        except UnicodeEncodeError:  # half of a surrogate pair, which editors can produce
            return self._encode_ascii(data).encode()

    def notify(self, method: str, params: Any | None = None) -> None:
        """Send a notification that must arrive, in any thread; a plain dict takes the fast way."""
        self._send(self._notification(method, params))

    def notify_live(self, method: str, params: Any) -> bool:
        """Send a notification that may be lost; False when it was, because the client reads too slowly."""
        return self._sink is not None and self._sink.send_live(self._notification(method, params))

    async def drain(self) -> None:
        """Wait, between many notifications, until the client has caught up."""
        if self._sink is not None:
            await self._sink.drain()

    def _notification(self, method: str, params: Any) -> bytes:
        message = {"jsonrpc": self.VERSION, "method": method}
        return self.encode(message if params is None else {**message, "params": params})

    def _send(self, body: bytes) -> None:
        if self._sink is None:
            log.error("nothing to send to yet")
        else:
            self._sink.send(body)

    def _send_data(self, data: Any) -> None:
        self._send(self.encode(data))  # pygls' typed requests come this way

    def _serialize_message(self, data: Any) -> Any:
        if hasattr(data, "__attrs_attrs__"):
            return self._converter.unstructure(data)
        if isinstance(data, enum.Enum):
            return data.value
        raise TypeError(f"{type(data).__name__} has no JSON form")  # pygls sends the `__dict__` of anything

    # Requests to the client

    async def request(self, method: str, params: JsonObject, *, timeout_s: float | None) -> Any:
        """Ask the client and return the raw JSON result; None waits until the shutdown begins.

        A request that is given up, by its time limit or by cancellation, is cancelled in the client too.

        Raises:
            EditorError: `EDITOR_REFUSED` for an error reply, `EDITOR_TIMEOUT` for none in time,
                `EDITOR_CLOSED` once the shutdown has begun.
        """
        call = self._calls.open(method, timeout_s)
        try:
            head = {"jsonrpc": self.VERSION, "id": call.id, "method": method}
            self._send(self.encode({**head, "params": params}))
            return await self._calls.wait(call)
        finally:
            if self._calls.forget(call):
                self.notify(types.CANCEL_REQUEST, {"id": call.id})

    def _handle_reply(self, message_id: int | str | None, message: JsonObject) -> None:
        if self._calls.settle(message_id, message):
            return
        if message_id is not None and message_id in self._result_types:  # asked by one of pygls' typed methods
            self._settle_typed(message_id, message)
        else:
            log.debug("a reply to %r, which nobody awaits", message_id)

    def _settle_typed(self, message_id: int | str, message: JsonObject) -> None:
        """Settle a request of pygls' own; there a reply of a wrong shape hangs the caller for ever."""
        result_type = self._result_types.pop(message_id)
        future = self._request_futures.pop(message_id, None)
        if future is None or future.done():
            return
        if (error := message.get("error")) is not None:
            future.set_exception(JsonRpcException(error_text(error), code=REQUEST_FAILED))
            return
        reply = {"jsonrpc": self.VERSION, "id": message_id, "result": message.get("result")}
        try:
            result = self._converter.structure(reply, result_type).result if result_type else reply["result"]
        except Exception as failure:  # noqa: BLE001 - converters raise anything on a stranger's data
            future.set_exception(JsonRpcInternalError(one_line(f"bad reply: {error_chain(failure)}")))
        else:
            future.set_result(result)
