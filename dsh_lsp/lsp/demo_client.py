"""Demo client: a small editor without a screen: a real LSP client on the server's standard streams.

Owns: one server process, which it ends by its id; the buffers that it opened, and the files that it saves.
Rules: every wait has a limit; what the server asks is answered at once, edits only for the version they name;
what is worth showing is queued in the order in which it came.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

from dsh_lsp import __version__
from dsh_lsp.lsp.documents import Document, path_of, uri_of
from dsh_lsp.lsp.protocol import REVIEW, SAVE, VERSION
from dsh_lsp.wire import JsonObject, dump_bytes, loads
from dsh_lsp.workspace.rope import Rope

START_S: Final = 20.0
ANSWER_S: Final = 10.0
NEWS_S: Final = 20.0  # longer than the server waits for an edit that does not come
GOODBYE_S: Final = 2.0
END_S: Final = 4.0  # the server ends itself 3 s after `exit`, whatever still runs

EVENT_TOKEN: Final = "dsh-demo"  # noqa: S105 - a progress token is no secret
METHOD_NOT_FOUND: Final = -32601

News: TypeAlias = tuple[str, JsonObject]
"""A method and its params; the event stream comes as the event's type and its value."""


class DemoError(Exception):
    """The demo cannot go on; the text is one line for the person who watches."""


class DemoClient:
    """A connection to one server and what the editor behind it holds.

    `saved` names the documents that were written to disk. With `lies` it answers that it applied every edit and
    applies none, as some editors do.
    """

    def __init__(self, process: asyncio.subprocess.Process, *, server_log: Path, lies: bool) -> None:
        self.saved: list[str] = []
        self._process = process
        self._server_log = server_log
        self._lies = lies
        self._buffers: dict[str, Document] = {}
        self._news: asyncio.Queue[News | None] = asyncio.Queue()
        self._waiting: dict[int, asyncio.Future[JsonObject]] = {}
        self._last_id = 0
        self._ended = False
        self._answers: dict[str, Callable[[JsonObject], JsonObject | None]] = {
            "workspace/applyEdit": self._apply_edit,
            "window/workDoneProgress/create": lambda _: None,
            REVIEW: lambda _: {"shown": True},
            SAVE: self._save,
        }
        self._reader = asyncio.create_task(self._read())

    @classmethod
    @asynccontextmanager
    async def serving(
        cls, command: Sequence[str], *, folder: Path, server_log: Path, lies: bool = False
    ) -> AsyncIterator[DemoClient]:
        """Start a server in a folder, and end it whatever happens.

        Raises:
            DemoError: it cannot be started.
        """
        with server_log.open("wb") as errors:
            try:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    cwd=folder,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=errors,
                    start_new_session=True,  # Ctrl-C is the demo's, which then says goodbye
                )
            except OSError as error:
                raise DemoError(f"the server did not start: {error}") from error
        client = cls(process, server_log=server_log, lies=lies)
        try:
            yield client
        finally:
            await client._close()

    # -- what the editor does --------------------------------------------------------------------------------

    async def initialize(self, folder: Path, options: JsonObject) -> None:
        """Do the handshake; `options` go with the token of the event stream.

        Raises:
            DemoError: the server refused, ended or did not answer.
        """
        params = {
            "processId": os.getpid(),
            "clientInfo": {"name": "dsh-demo", "version": __version__},
            "rootUri": uri_of(folder),
            "workspaceFolders": [{"uri": uri_of(folder), "name": folder.name}],
            "capabilities": {
                "general": {"positionEncodings": ["utf-16"]},
                "workspace": {"applyEdit": True, "workspaceEdit": {"documentChanges": True}},
                "textDocument": {"synchronization": {"didSave": True}},
                "window": {"workDoneProgress": True},
                "experimental": {"dsh": {"version": VERSION, "review": True, "save": True}},
            },
            "initializationOptions": {"eventToken": EVENT_TOKEN, **options},
        }
        try:
            await self.request("initialize", params, timeout_s=START_S)
        except DemoError as error:
            raise DemoError(f"the server did not start: {error}") from error
        self._notify("initialized", {})

    def open(self, path: Path) -> None:
        """Open a file in a buffer."""
        document = Document(uri_of(path), 1, Rope.of(path.read_bytes().decode()))
        self._buffers[document.uri] = document
        item = {"uri": document.uri, "languageId": "python", "version": document.version, "text": document.text}
        self._notify("textDocument/didOpen", {"textDocument": item})

    async def command(self, name: str, argument: JsonObject) -> Any:
        """Run a command of the server and return its result.

        Raises:
            DemoError: the server refused, ended or did not answer.
        """
        return await self.request("workspace/executeCommand", {"command": name, "arguments": [argument]})

    def preview(self, file: JsonObject) -> tuple[str, str]:
        """The text of a file under review as it is and as it would be."""
        before = self._buffers[file["uri"]].rope
        draft = Document(file["uri"], None, before)
        _apply(draft, 0, [{"range": hunk["range"], "newText": hunk["newText"]} for hunk in file["hunks"]])
        return str(before), draft.text

    async def news(self) -> News:
        """The next thing that the server told or asked.

        Raises:
            DemoError: nothing came for a long time, or the server ended.
        """
        try:
            async with asyncio.timeout(NEWS_S):  # `wait_for` of Python 3.11 may swallow a cancel
                item = await self._news.get()
        except TimeoutError:
            raise DemoError(f"the server said nothing for {NEWS_S:.0f} s") from None
        if item is None:
            raise DemoError(self._why_ended())
        return item

    # -- the connection --------------------------------------------------------------------------------------

    async def request(self, method: str, params: JsonObject | None = None, *, timeout_s: float = ANSWER_S) -> Any:
        """Ask the server.

        Raises:
            DemoError: it refused, ended or did not answer.
        """
        if self._ended:
            raise DemoError(self._why_ended())
        self._last_id += 1
        number = self._last_id
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._send({"id": number, "method": method, "params": params})
        try:
            async with asyncio.timeout(timeout_s):
                reply = await answer
        except TimeoutError:
            raise DemoError(f"no answer to {method} within {timeout_s:.0f} s") from None
        finally:
            self._waiting.pop(number, None)
        if "error" in reply:
            raise DemoError(f"{method} was refused: {reply['error'].get('message')}")
        return reply.get("result")

    def _notify(self, method: str, params: JsonObject | None = None) -> None:
        self._send({"method": method, "params": params})

    def _send(self, message: JsonObject) -> None:
        body = dump_bytes({"jsonrpc": "2.0", **{key: value for key, value in message.items() if value is not None}})
        if self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    async def _read(self) -> None:
        """Take messages until the stream ends or holds something else."""
        try:
            while (message := await self._receive()) is not None:
                self._take(message)
        except (OSError, ValueError, asyncio.IncompleteReadError):
            pass  # the end, told below
        finally:
            self._ended = True
            with suppress(TimeoutError):  # for its exit code
                async with asyncio.timeout(1):
                    await self._process.wait()
            self._news.put_nowait(None)
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(DemoError(self._why_ended()))

    async def _receive(self) -> JsonObject | None:
        stream = self._process.stdout
        length = None
        while stream is not None and (line := (await stream.readline()).strip()):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        if stream is None or length is None:
            return None
        message: JsonObject = loads(await stream.readexactly(length))
        return message

    def _take(self, message: JsonObject) -> None:
        if "method" not in message:
            answer = self._waiting.get(message.get("id", -1))
            if answer is not None and not answer.done():
                answer.set_result(message)
            return
        method: str = message["method"]
        params: JsonObject = message.get("params") or {}
        if "id" in message:
            self._send({"id": message["id"], **self._answer(method, params)})
        elif method == "$/progress" and params["token"] == EVENT_TOKEN:
            method, params = params["value"]["type"], params["value"]
        self._news.put_nowait((method, params))

    def _why_ended(self) -> str:
        code = self._process.returncode
        last = self._server_log.read_text(errors="replace").strip().rpartition("\n")[2]
        how = "the server's output broke off" if code is None else f"the server ended with code {code}"
        return f"{how}: {last}" if last else how

    async def _close(self) -> None:
        """Say goodbye as LSP wants it; a server that does not end is killed."""
        try:
            with suppress(DemoError):
                await self.request("shutdown", timeout_s=GOODBYE_S)
                self._notify("exit")
                async with asyncio.timeout(END_S):
                    await self._process.wait()
        except TimeoutError:
            pass
        finally:
            if self._process.returncode is None:
                self._process.kill()
            await self._process.wait()
            if self._process.stdin is not None:
                self._process.stdin.close()
            self._reader.cancel()
            with suppress(asyncio.CancelledError):
                await self._reader

    # -- what the server asks --------------------------------------------------------------------------------

    def _answer(self, method: str, params: JsonObject) -> JsonObject:
        answer = self._answers.get(method)
        if answer is None:
            return {"error": {"code": METHOD_NOT_FOUND, "message": f"the demo's editor has no {method}"}}
        return {"result": answer(params)}

    def _apply_edit(self, params: JsonObject) -> JsonObject:
        if self._lies:
            return {"applied": True}
        changes = params["edit"].get("documentChanges") or []
        for change in changes:
            target = change.get("textDocument") or {}
            document = self._buffers.get(target.get("uri", ""))
            if document is None or document.version != target.get("version"):
                return {"applied": False, "failureReason": "not the open document in this version"}
        for change in changes:
            document = self._buffers[change["textDocument"]["uri"]]
            sent = _apply(document, (document.version or 0) + 1, change["edits"])
            identifier = {"uri": document.uri, "version": document.version}
            self._notify("textDocument/didChange", {"textDocument": identifier, "contentChanges": sent})
        return {"applied": bool(changes)}

    def _save(self, params: JsonObject) -> JsonObject:
        saved: list[str] = []
        for uri in params["uris"]:
            document, path = self._buffers.get(uri), path_of(uri)
            if document is not None and path is not None:
                path.write_bytes(document.text.encode())
                self._notify("textDocument/didSave", {"textDocument": {"uri": uri}})
                saved.append(uri)
        self.saved += saved
        return {"saved": saved, "failed": [uri for uri in params["uris"] if uri not in saved]}


def _apply(document: Document, version: int, edits: list[JsonObject]) -> list[JsonObject]:
    """Apply text edits and return them as content changes: from the end, so that the ranges stay true."""

    def start(edit: JsonObject) -> tuple[int, int]:
        return edit["range"]["start"]["line"], edit["range"]["start"]["character"]

    ordered = sorted(edits, key=start)[::-1]  # inserts at one place keep their order so, not with `reverse=True`
    changes = [{"range": edit["range"], "text": edit["newText"]} for edit in ordered]
    document.apply(version, changes)
    return changes
