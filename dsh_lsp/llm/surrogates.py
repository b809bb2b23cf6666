"""Surrogates: text whose emoji were cut in half between two deltas, made whole again.

Rules: what leaves here can be encoded as UTF-8. A half that never finds its other half becomes U+FFFD.
"""

from __future__ import annotations

REPLACEMENT = "\ufffd"


def mend_surrogates(text: str) -> str:
    """Join the pairs in `text` and replace the halves that are alone."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class SurrogateJoiner:
    """One stream of text: holds back a first half until the next piece shows the second."""

    def __init__(self) -> None:
        self._held = ""

    def push(self, piece: str) -> str:
        """Take the next piece and give what is whole."""
        text = self._held + piece
        self._held = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._held = text[:-1], text[-1]
        return mend_surrogates(text)

    def flush(self) -> str:
        """End the stream: a half still held is replaced."""
        held, self._held = self._held, ""
        return REPLACEMENT if held else ""
