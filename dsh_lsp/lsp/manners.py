r"""Manners: what known clients do that they do not announce, one row each.

Rules: each row is what was observed of a client of that name, and of that version; an unknown client gets the row
that is safe with any.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    r"""How a client behaves; the defaults are for one that nobody has looked at.

    - `observed`: the client and its version.
    - `modal`: a prompt may take keystrokes that were meant for a document; else it waits until it is clicked.
    - `prompts_on_messages`: a message makes it ask for a key, which swallows what its user is typing.
    - `applies_stale_edits`: it applies an edit although the document has moved on; so it is sent none.
    - `looks_for_actions`: it asks for code actions as the cursor moves, in the same words as for its user.
    - `line_ends_apart`: it may keep line ends apart from the text, and tell of `\n` alone.
    - `splits_at_return`: a `\r` alone ends a line, as LSP says; where it does not, positions mean other places.
    - `last_end_apart`: how the last line ends is the buffer's, not its text's: an edit neither gives that end nor
      takes it, text behind it gets one of its own, an empty buffer may be told as `\n`, a file is written with one.
    - `tells_within_s`: how late it may tell of a key.
    - `compares_from`: the lowest version with which it compares its own; an edit of an older one goes into whatever
      is there, so that edits of a document which has not changed since it was opened name this one.
    """

    observed: str = ""
    modal: bool = True
    prompts_on_messages: bool = False
    applies_stale_edits: bool = False
    looks_for_actions: bool = False
    line_ends_apart: bool = True
    splits_at_return: bool = True
    last_end_apart: bool = False
    tells_within_s: float = 0.2
    compares_from: int = 0


_VSCODE = Manners(observed="VS Code 1.139", modal=False, line_ends_apart=False, tells_within_s=0.02)

UNKNOWN = Manners()
KNOWN = {
    "visual studio code": _VSCODE,
    "vscode": _VSCODE,
    "vscodium": _VSCODE,
    "code-server": _VSCODE,
    "code - oss": _VSCODE,
    "cursor": _VSCODE,
    "windsurf": _VSCODE,
    "neovim": Manners(
        observed="Neovim 0.11.4, stock and with our client",
        prompts_on_messages=True,
        line_ends_apart=False,
        splits_at_return=False,
        last_end_apart=True,
        tells_within_s=0.15,
        compares_from=1,
    ),
    "emacs": Manners(observed="lsp-mode 8.0", looks_for_actions=True, tells_within_s=0.5),
    "eglot": Manners(observed="eglot 1.9", tells_within_s=0.5),
    "kate": Manners(observed="Kate 22.12", applies_stale_edits=True),
}


def manners_of(name: str) -> Manners:
    """The row of a client by its `clientInfo.name`; a word after it tells of a flavour, as in `… - Insiders`."""
    known = name.lower()
    while known not in KNOWN and " " in known:
        known = known.rpartition(" ")[0]
    return KNOWN.get(known, UNKNOWN)


def unlinked(text: str) -> str:
    """Words for a person without a link in them: VS Code makes one of `[words](command:…)`, and it would run that."""
    return text.replace("](", "] (")
