"""Protocol: the `dsh` names on the wire.

`COMMANDS` is the one list of commands, each with the name of its model in `lsp/arguments.py`; the documentation and
the clients are checked against it. Nothing is imported here: it is read before the editor has its first answer.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = 1

STATUS: Final = "dsh/status"
REVIEW: Final = "dsh/review"
SAVE: Final = "dsh/save"
APPROVE: Final = "dsh/approve"
ASK: Final = "dsh/ask"
DIAGNOSTICS: Final = "dsh/diagnostics"
NAVIGATE: Final = "dsh/navigate"

SCHEME: Final = "dsh"  # of the URIs of virtual documents

COMMANDS: Final[dict[str, str]] = {
    "dsh.followup": "Followup",
    "dsh.steer": "Say",
    "dsh.inject": "Say",
    "dsh.cancel": "Cancel",
    "dsh.retry": "OfSession",
    "dsh.inbox.list": "OfSession",
    "dsh.inbox.edit": "InboxEdit",
    "dsh.inbox.remove": "InboxRemove",
    "dsh.inbox.resume": "OfSession",
    "dsh.status": "OfSession",
    "dsh.session.new": "SessionNew",
    "dsh.session.open": "SessionOpen",
    "dsh.session.list": "SessionList",
    "dsh.session.fork": "SessionFork",
    "dsh.session.rename": "SessionRename",
    "dsh.session.delete": "SessionNamed",
    "dsh.session.export": "SessionExport",
    "dsh.mode.set": "ModeSet",
    "dsh.model.set": "ModelSet",
    "dsh.model.list": "Arguments",
    "dsh.compact": "OfSession",
    "dsh.approve": "Approve",
    "dsh.answer": "Answer",
    "dsh.rewind": "Rewind",
    "dsh.review.list": "OfSession",
    "dsh.review.accept": "ReviewAccept",
    "dsh.review.reject": "ReviewReject",
    "dsh.text": "Text",
    "dsh.plugins.reload": "PluginsReload",
}
