"""Arguments: what each command takes, checked before anything happens.

Rules: one object argument each, unknown keys refused; camelCase on the wire.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dsh_lsp.errors import UsageError
from dsh_lsp.lsp.protocol import COMMANDS, VERSION
from dsh_lsp.providers import Provider
from dsh_lsp.validation import problems_in
from dsh_lsp.wire import to_camel


class Arguments(BaseModel):
    """Base of command arguments."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, populate_by_name=True, defer_build=True
    )


class LspPosition(Arguments):
    """A position in the connection's encoding."""

    line: int = Field(ge=0)
    character: int = Field(ge=0)


class LspRange(Arguments):
    """A range in the connection's encoding."""

    start: LspPosition
    end: LspPosition


class ContextItem(Arguments):
    """Something that the user points at: a whole document, a part of it, or a given text."""

    uri: str
    range: LspRange | None = None
    text: str | None = None


class OfSession(Arguments):
    """`session` defaults to the connection's current one."""

    session: str | None = None


class Say(OfSession):
    """Words for the agent."""

    text: str = Field(min_length=1)
    context: tuple[ContextItem, ...] = ()


class Followup(Say):
    """Words that open a turn of their own; `first` puts them before what waits."""

    first: bool = False
    wait: bool = False


class Cancel(OfSession):
    """Stop the running turn."""

    keep_inbox: bool = True


class InboxRemove(OfSession):
    """Drop a waiting message."""

    message: str


class InboxEdit(InboxRemove):
    """Give a waiting message other words."""

    text: str = Field(min_length=1)


class SessionNew(Arguments):
    """Begin a session, in another folder than the connection's where `root` names one."""

    title: str | None = Field(default=None, min_length=1)
    root: str | None = None


class SessionNamed(Arguments):
    """One session."""

    session: str


class SessionOpen(SessionNamed):
    """Go on with a session; events up to and with `after` are known already."""

    after: int = Field(default=-1, ge=-1)


class SessionList(Arguments):
    """The sessions of a workspace, or of all."""

    root: str | None = None
    limit: int | None = Field(default=None, gt=0)


class SessionFork(OfSession):
    """Begin a session with the history of another one, up to the end of a turn."""

    turn: int | None = Field(default=None, gt=0)


class SessionRename(SessionNamed):
    """Give a session another title."""

    title: str = Field(min_length=1)


class SessionExport(SessionNamed):
    """Write a session out."""

    format: Literal["markdown", "jsonl"]


class ModeSet(OfSession):
    """Say what the agent may do without asking."""

    mode: Literal["read-only", "ask", "auto-edit", "plan"]


class ModelSet(OfSession):
    """Go on with another model."""

    provider: Provider
    name: str = Field(min_length=1)


class Approve(OfSession):
    """Decide on a tool call; without a decision the server raises the editor's own prompt.

    `save` has the editor save what is unsaved first; if that fails, nothing is decided.
    """

    approval: str
    decision: Literal["allowOnce", "allowSession", "reject"] | None = None
    comment: str | None = None
    save: bool = False


class Answer(OfSession):
    """Answer a question, else the oldest that waits; without an answer the server raises the editor's own prompt."""

    question: str | None = None
    answer: str | None = Field(default=None, min_length=1)


class ReviewAccept(OfSession):
    """Accept hunks, some of them with other text."""

    hunks: tuple[str, ...] | Literal["all"]
    uri: str | None = None
    edited: dict[str, str] = {}


class ReviewReject(OfSession):
    """Reject hunks; the model reads the comment."""

    hunks: tuple[str, ...] | Literal["all"]
    uri: str | None = None
    comment: str | None = None


class Rewind(OfSession):
    """Take back what a turn changed in the user's files."""

    turn: int = Field(gt=0)


class Text(Arguments):
    """Read a virtual document; `show` lets the editor show it, too."""

    uri: str
    show: bool = False


class PluginsReload(Arguments):
    """Bring in a plugin again, or all of them."""

    name: str | None = None


class ClientOffers(BaseModel):
    """What a client announces in `capabilities.experimental.dsh`."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    version: int = VERSION
    review: bool = False
    approve: bool = False
    ask: bool = False
    diagnostics: bool = False
    navigate: bool = False
    save: bool = False


def read_arguments(command: str, argument: dict[str, Any]) -> Arguments:
    """Check a command's argument.

    Raises:
        UsageError: it does not fit; names each path and what is wrong there.
    """
    model: type[Arguments] = globals()[COMMANDS[command]]
    try:
        return model.model_validate(argument)
    except ValidationError as error:
        problems = problems_in(error, model, argument, noun="argument")
        raise UsageError("; ".join(map(str, problems))) from None
