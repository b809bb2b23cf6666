"""Globs: which paths a model means by `src/**/*.{ts,tsx}` or `!*.min.js`, the same for whatever searches them.

Rules: a glob is read as a line of an ignore file, after its braces; what is not understood is an error, never a glob
that fits nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.ignore import translate

MAX_GLOBS: Final = 256  # that braces may make of one
MAX_CHARS: Final = 1_000

_BRACES: Final = re.compile(r"\{([^{}]*)\}")


def expanded(glob: str) -> list[str]:
    """A glob with `{a,b}` as several without.

    Raises:
        ToolError: `BAD_PATTERN`, they would be too many, or the braces are no pairs.
    """
    if len(glob) > MAX_CHARS:
        raise ToolError(f"the glob is longer than {MAX_CHARS} characters", code="BAD_PATTERN")
    globs = [glob]
    while found := [
        pair for one in globs if (pair := _BRACES.search(one))
    ]:  # in each or in none: they differ in words
        if sum(pair[1].count(",") + 1 for pair in found) > MAX_GLOBS:
            raise ToolError(f"the braces of the glob make more than {MAX_GLOBS} of it", code="BAD_PATTERN")
        several = (
            f"{pair.string[: pair.start()]}{word}{pair.string[pair.end() :]}"
            for pair in found
            for word in pair[1].split(",")
        )
        globs = list(dict.fromkeys(several))
    if any("{" in one or "}" in one for one in globs):
        raise ToolError(f"the braces of the glob {glob} are no pairs", code="BAD_PATTERN")
    return globs


def fitting(glob: str | None) -> Callable[[str], bool]:
    """What tells whether a path, with `/`, fits a glob; all fit None.

    Raises:
        ToolError: `BAD_PATTERN`.
    """
    if glob is None:
        return lambda _: True
    negated = glob.startswith("!")
    matches = [_compiled(one, glob) for one in expanded(glob.removeprefix("!"))]
    return lambda path: any(match(path) for match in matches) != negated


def _compiled(one: str, glob: str) -> Callable[[str], re.Match[str] | None]:
    expression = translate(one)
    try:
        if expression is not None:
            return re.compile(expression, re.DOTALL).fullmatch
    except re.error:
        pass
    raise ToolError(f"the glob {glob} is not understood", code="BAD_PATTERN")
