"""Editor: what the connected client can do, and the requests that the server makes of it.

Rules: a capability that was not announced is not used; an error, `null` or silence means "not offered", never an
answer; nothing here waits for ever but what a person decides.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import anyio
from pydantic import ValidationError

from dsh_lsp.decisions import ApprovalAsked, QuestionAsked
from dsh_lsp.errors import EditorError
from dsh_lsp.lsp.arguments import ClientOffers
from dsh_lsp.lsp.client import Client
from dsh_lsp.lsp.manners import Manners, manners_of, unlinked
from dsh_lsp.lsp.protocol import APPROVE, ASK, REVIEW, SAVE, VERSION
from dsh_lsp.lsp.refusals import one_line
from dsh_lsp.tools.tool import Card
from dsh_lsp.wire import JsonObject, encode

log = logging.getLogger(__name__)

WARNING, INFO = 2, 3  # LSP's MessageType

APPLY_TIMEOUT_S = 10.0
REQUEST_TIMEOUT_S = 5.0
PULLS = 3  # an editor that starts may be busy for longer than a request waits

# Observed (Emacs 28: the jsonrpc of eglot, lsp-mode 8.0): what they read together with an answer for which they wait
# is looked at only when more comes, or never. So an edit does not follow the answer to its code action at once, but
# when the client has answered a request that is harmless to lose and to repeat.
ANSWERED_S = 0.03
ECHO_TIMEOUT_S = 0.25
ECHOES = 8

Offer = Literal["review", "approve", "ask", "diagnostics", "navigate", "save"]

# Observed (eglot 1.9): it refuses an edit with an error that names the version which its buffer has by now, and tells
# of that change only when its user has paused.
SAYS_STALE = re.compile(r"\bversion\b", re.IGNORECASE)


class ApplyReply(NamedTuple):
    """What a client says of an edit that it was asked to apply, and the reason that it gave for a no, on one line."""

    kind: Literal["applied", "refused", "stale"]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientProfile:
    """What a client said of itself in `initialize`."""

    name: str = ""
    dsh: ClientOffers | None = None
    previews_edits: bool = False
    resource_operations: frozenset[str] = frozenset()
    work_done_progress: bool = False
    watches_files: bool = False
    code_lens_refresh: bool = False
    code_action_literals: bool = False
    applies_edits: bool = True
    shows_documents: bool = False
    virtual_documents: bool = False
    configures: bool = False
    tells_of_configuration: bool = False

    @classmethod
    def from_initialize(cls, params: JsonObject) -> ClientProfile:
        """Read the capabilities, whatever shape they have."""
        capabilities = _dig(params, "capabilities")
        edit = _dig(capabilities, "workspace", "workspaceEdit")
        failure_handling = edit.get("failureHandling")
        offers = _dig(capabilities, "experimental").get("dsh")
        try:
            dsh = ClientOffers.model_validate(offers) if isinstance(offers, dict) else None
        except ValidationError as error:
            log.warning("capabilities.experimental.dsh is not understood: %s", error)
            dsh = None
        return cls(
            name=str(_dig(params, "clientInfo").get("name", "")),
            dsh=dsh,
            previews_edits="changeAnnotationSupport" in edit
            and failure_handling in ("transactional", "textOnlyTransactional"),
            resource_operations=frozenset(
                kind for kind in ("rename", "delete") if kind in _listed(edit, "resourceOperations")
            ),
            watches_files=all(
                _dig(capabilities, "workspace", "didChangeWatchedFiles").get(name) is True
                for name in ("dynamicRegistration", "relativePatternSupport")
            ),
            work_done_progress=_dig(capabilities, "window").get("workDoneProgress") is True,
            applies_edits=_dig(capabilities, "workspace").get("applyEdit") is True,
            shows_documents=_dig(capabilities, "window", "showDocument").get("support") is True,
            virtual_documents="textDocumentContent" in _dig(capabilities, "workspace"),
            code_lens_refresh=_dig(capabilities, "workspace", "codeLens").get("refreshSupport") is True,
            code_action_literals=isinstance(
                _dig(capabilities, "textDocument", "codeAction").get("codeActionLiteralSupport"), dict
            ),
            configures=_dig(capabilities, "workspace").get("configuration") is True,
            tells_of_configuration=_dig(capabilities, "workspace", "didChangeConfiguration").get(
                "dynamicRegistration"
            )
            is True,
        )

    @property
    def offers_review(self) -> bool:
        """Whether the client has a view of its own for reviews."""
        return self.offers("review")

    def offers(self, request: Offer) -> bool:
        """Whether the client answers one of our requests."""
        return self.dsh is not None and bool(getattr(self.dsh, request))

    @property
    def manners(self) -> Manners:
        """What a client of this name does that it does not announce; ours compare every version."""
        known = manners_of(self.name)
        return replace(known, compares_from=0) if self.dsh is not None else known

    @property
    def is_modal(self) -> bool:
        """Whether a prompt could take keystrokes that were meant for a document; an unknown client may be."""
        return self.manners.modal

    @property
    def line_ends_apart(self) -> bool:
        r"""Whether the client may keep line ends apart from the text, and tell of `\n` alone; ours do not."""
        return self.dsh is None and self.manners.line_ends_apart

    @property
    def may_be_edited(self) -> bool:
        """Whether edits may be sent at all."""
        return self.applies_edits and not self.manners.applies_stale_edits

    @property
    def looks_for_actions(self) -> bool:
        """Whether the client asks for code actions by itself, and does not say when."""
        return self.manners.looks_for_actions

    @property
    def may_be_told(self) -> bool:
        """Whether a message can be shown without disturbing somebody's typing; else the log has it."""
        return self.dsh is not None or not self.manners.prompts_on_messages

    @property
    def newer_protocol(self) -> bool:
        """Whether the client speaks a later version of the contract than this server."""
        return self.dsh is not None and self.dsh.version > VERSION


def _dig(value: Any, *keys: str) -> JsonObject:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _listed(node: JsonObject, key: str) -> list[Any]:
    """A list of a capability; its items may be members of an enumeration, which equal their texts."""
    return value if isinstance(value := node.get(key), list) else []


class Editor:
    """The connected client."""

    def __init__(self, client: Client, profile: ClientProfile) -> None:
        self.profile = profile
        self.refuses_prompts = False  # as it has shown: it is raised no prompt that nobody asked for
        self._client = client

    async def ask(self, method: str, params: JsonObject, *, timeout_s: float) -> Any:
        """Make a request that the client offers.

        Raises:
            EditorError: it failed, or was not answered in time.
        """
        return await self._client.request(method, params, timeout_s=timeout_s)

    async def apply_edit(
        self, label: str, edit: JsonObject, *, timeout_s: float | None = APPLY_TIMEOUT_S
    ) -> ApplyReply:
        """Ask the client to apply a workspace edit; what it says is a hint, not the truth."""
        try:
            reply = await self._client.request(
                "workspace/applyEdit", {"label": label, "edit": edit}, timeout_s=timeout_s
            )
        except EditorError as error:
            log.info("applyEdit: %s", error)
            if error.code == "EDITOR_TIMEOUT":
                return ApplyReply("applied")  # silence proves nothing: wait for the document
            return ApplyReply("stale" if SAYS_STALE.search(str(error)) else "refused", one_line(str(error)))
        if isinstance(reply, dict) and reply.get("applied") is not True:
            reason = reply.get("failureReason")
            return ApplyReply("refused", one_line(reason) if isinstance(reason, str) else "")
        return ApplyReply("applied")  # what is no answer proves nothing either

    async def save(self, uri: str, version: int | None = None) -> bool | None:
        """Ask the client to save a document, as this version if one is named; None when it does not offer that."""
        if not self.profile.offers("save"):
            return None
        versions = {} if version is None else {"versions": {uri: version}}
        try:
            reply = await self._client.request(SAVE, {"uris": [uri], **versions}, timeout_s=REQUEST_TIMEOUT_S)
        except EditorError as error:
            log.info("dsh/save: %s", error)
            return False
        return isinstance(reply, dict) and uri in (reply.get("saved") or ())

    async def show_review(self, proposal: str) -> None:
        """Let a client that has a view for reviews open it."""
        try:
            await self._client.request(REVIEW, {"proposal": proposal}, timeout_s=REQUEST_TIMEOUT_S)
        except EditorError as error:
            log.info("dsh/review: %s", error)

    async def show_approval(self, asked: ApprovalAsked, title: str, detail: str, card: Card) -> None:
        """Let a client that shows approvals itself show one."""
        params = {
            "approval": asked.id,
            "tool": asked.tool_name,
            "title": title,
            "detail": detail,
            "card": encode(card),
            **({"unsaved": list(asked.unsaved)} if asked.unsaved else {}),
        }
        try:
            await self._client.request(APPROVE, params, timeout_s=REQUEST_TIMEOUT_S)
        except EditorError as error:
            log.info("dsh/approve: %s", error)

    async def show_question(self, asked: QuestionAsked) -> None:
        """Let a client that shows questions itself show one."""
        params = encode(asked)
        params["question"] = params.pop("id")
        try:
            await self._client.request(ASK, params, timeout_s=REQUEST_TIMEOUT_S)
        except EditorError as error:
            log.info("dsh/ask: %s", error)

    async def choose(self, text: str, buttons: list[str]) -> str | None:
        """Raise the editor's own prompt; the title of the chosen button, None for no answer."""
        await self.caught_up()
        params = {"type": INFO, "message": unlinked(text), "actions": [{"title": button} for button in buttons]}
        try:
            reply = await self._client.request("window/showMessageRequest", params, timeout_s=None)
        except EditorError as error:
            log.info("showMessageRequest: %s", error)
            if error.code == "EDITOR_REFUSED":
                self.refuses_prompts = True
                self.warn("DSH: this editor cannot ask a question; decide by code action, or by command")
            return None
        title = reply.get("title") if isinstance(reply, dict) else None
        return title if title in buttons else None

    async def show_document(self, uri: str) -> bool:
        """Ask the client to show a document, without taking the focus from where the user types; whether it did."""
        if not self.profile.shows_documents:
            return False
        params = {"uri": uri, "takeFocus": False}
        try:
            reply = await self._client.request("window/showDocument", params, timeout_s=REQUEST_TIMEOUT_S)
        except EditorError as error:
            log.info("showDocument: %s", error)
            return False
        return isinstance(reply, dict) and reply.get("success") is True

    async def caught_up(self) -> None:
        """Return when the client has looked at the answer that it was just given; then a request is safe to send."""
        if self.profile.dsh is not None or not self.profile.configures:
            return
        await anyio.sleep(ANSWERED_S)
        for _ in range(ECHOES):
            try:
                await self._client.request("workspace/configuration", {"items": []}, timeout_s=ECHO_TIMEOUT_S)
            except EditorError as error:
                if error.code == "EDITOR_TIMEOUT":
                    continue
            return

    async def configuration(self, section: str) -> Any:
        """Ask for a section of the client's settings; None where it has none.

        Raises:
            EditorError: the client has not answered, or not what was asked for.
        """
        params = {"items": [{"section": section}]}
        for left in reversed(range(PULLS)):
            try:
                reply = await self._client.request("workspace/configuration", params, timeout_s=REQUEST_TIMEOUT_S)
                break
            except EditorError as error:
                if error.code != "EDITOR_TIMEOUT" or not left:
                    raise
        if not isinstance(reply, list) or len(reply) != 1:
            raise EditorError("no list of one section", code="EDITOR_REFUSED")
        return reply[0]

    async def watch_configuration(self) -> None:
        """Have the client tell when its settings change, where it wants to be asked for that."""
        if not self.profile.tells_of_configuration:
            return
        await self.register("dsh-configuration", "workspace/didChangeConfiguration", {"section": "dsh"})

    async def register(self, name: str, method: str, options: JsonObject) -> None:
        """Have the client send what it sends only to who has asked for it."""
        registration = {"id": name, "method": method, "registerOptions": options}
        await self._try("client/registerCapability", {"registrations": [registration]})

    async def unregister(self, name: str, method: str) -> None:
        """Ask for it no longer."""
        await self._try("client/unregisterCapability", {"unregisterations": [{"id": name, "method": method}]})

    async def _try(self, method: str, params: JsonObject) -> None:
        try:
            await self._client.request(method, params, timeout_s=REQUEST_TIMEOUT_S)
        except EditorError as error:
            log.info("%s: %s", method, error)

    async def refresh_code_lenses(self) -> None:
        """Let the client ask for the code lenses again."""
        if self.profile.code_lens_refresh:
            await self._try("workspace/codeLens/refresh", {})

    async def refresh_document(self, uri: str) -> None:
        """Let the client ask for a virtual document again."""
        if self.profile.virtual_documents:
            await self._try("workspace/textDocumentContent/refresh", {"uri": uri})

    def publish_diagnostics(self, uri: str, version: int | None, items: list[JsonObject]) -> None:
        """Show our own diagnostics of a document, and no others."""
        params: JsonObject = {"uri": uri, "diagnostics": items}
        if version is not None:
            params["version"] = version
        self._client.notify("textDocument/publishDiagnostics", params)

    def tell(self, text: str) -> None:
        """Say something to the user, on one short line."""
        self._message(INFO, text)

    def warn(self, text: str) -> None:
        """Tell the user of something that they must mend."""
        self._message(WARNING, text)

    def _message(self, kind: int, text: str) -> None:
        method = "window/showMessage" if self.profile.may_be_told else "window/logMessage"
        self._client.notify(method, {"type": kind, "message": unlinked(text)})
