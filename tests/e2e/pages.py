"""Pages: the configuration blocks of the documentation, so that the tests load what the user is told to write."""

from __future__ import annotations

import re
from pathlib import Path

EDITORS = Path(__file__).parents[2] / "docs" / "editors"


def block_of(page: str, heading: str, language: str) -> str:
    """The first block in a language under a heading.

    Raises:
        LookupError: there is none.
    """
    text = (EDITORS / page).read_text()
    section = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    block = section and re.search(rf"^```{language}\n(.*?)^```$", section[1], re.MULTILINE | re.DOTALL)
    if not block:
        raise LookupError(f"no {language} block under '## {heading}' of {page}")
    return block[1]
