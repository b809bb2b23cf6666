"""Log level: how much the environment variable `DSH_LOG_LEVEL` wants to read, of a server or of one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dsh_lsp.errors import ConfigError

LEVEL_VARIABLE: Final = "DSH_LOG_LEVEL"
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def read_level(environ: Mapping[str, str], *, default: str) -> str:
    """The level that is asked for, in any case of letters; `default` where none is.

    Raises:
        ConfigError: `BAD_SETTING`, there is no such level.
    """
    asked = environ.get(LEVEL_VARIABLE, "").upper() or default
    if asked not in LEVELS:
        message = f"{LEVEL_VARIABLE} is {environ[LEVEL_VARIABLE]!r}, and must be one of {', '.join(LEVELS)}"
        raise ConfigError(message, code="BAD_SETTING")
    return asked
