"""Keys: where an adapter's API key comes from: the environment, else the system's keyring.

Rules: never a file of ours; read anew for each call, so that a key set after the start is found; the keyring is only
asked where the environment has none, in a thread, since it may ask its user first.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
from collections.abc import Callable, Mapping

import anyio
import anyio.to_thread
from pydantic import SecretStr

from dsh_lsp.errors import LlmError, LlmFailure
from dsh_lsp.secrets import learn

log = logging.getLogger(__name__)

SERVICE = "dsh-lsp"
KEYRING_TIMEOUT_S = 60.0  # its user may have to unlock it
HAS_KEYRING = importlib.util.find_spec("keyring") is not None

Lookup = Callable[[str], str | None]


def ask_keyring(name: str) -> str | None:
    """Look a key up in the system's keyring, where `keyring set dsh-lsp NAME` puts it; blocks."""
    found: str | None = importlib.import_module("keyring").get_password(SERVICE, name)
    return found


class KeySource:
    """One key by the name of its variable; without a name there is none.

    `lookup` asks the keyring; None where there is no keyring.
    """

    def __init__(
        self,
        name: str | None,
        *,
        needed: bool = True,
        environ: Mapping[str, str] = os.environ,
        lookup: Lookup | None = ask_keyring if HAS_KEYRING else None,
    ) -> None:
        self.name = name
        self._needed = needed
        self._environ = environ
        self._lookup = lookup
        self._kept: str | None = None
        self._asked = False

    @property
    def place(self) -> str | None:
        """Where the key is, for people; None if there is none so far."""
        if self._in_environment():
            return f"the environment variable {self.name}"
        return f"the keyring ({SERVICE}, {self.name})" if self._kept else None

    @property
    def pending(self) -> bool:
        """Whether the keyring may have the key and was not asked yet."""
        return not self._in_environment() and self._lookup is not None and self.name is not None and not self._asked

    def read(self, host: str) -> SecretStr | None:
        """The key of this moment; None where none is needed.

        Raises:
            LlmError: `MISSING_CREDENTIAL`, `INVALID_CREDENTIAL`.
        """
        key = self._in_environment() or (self._kept or "")
        if not key:
            if not self._needed:
                return None
            raise LlmError(LlmFailure(message=self._missing(host), code="MISSING_CREDENTIAL"))
        if not (key.isascii() and key.isprintable()) or " " in key:
            message = f"the API key in {self.place} has characters that no key has: copy it again"
            raise LlmError(LlmFailure(message=message, code="INVALID_CREDENTIAL"))
        learn(key)
        return SecretStr(key)

    async def warm(self, *, again: bool = False) -> None:
        """Ask the keyring if it must be asked; `again` also if it was, since its key may have been mended."""
        if self.name is None or self._lookup is None or self._in_environment():
            return
        if self._kept and not again:
            return
        lookup, name = self._lookup, self.name
        try:
            with anyio.move_on_after(KEYRING_TIMEOUT_S):
                found = await anyio.to_thread.run_sync(lambda: lookup(name), abandon_on_cancel=True)
                self._kept = (found or "").strip() or None
                learn(self._kept or "")
        except Exception as error:  # noqa: BLE001 - the border to the keyring's many back ends
            log.warning("the keyring cannot be asked: %s", error)
        self._asked = True

    def _in_environment(self) -> str:
        return self._environ.get(self.name, "").strip() if self.name is not None else ""

    def _missing(self, host: str) -> str:
        if self.name is None:
            return f"no API key for {host}: name the variable that holds it in model.apiKeyEnv"
        keyring = f", or store it with `keyring set {SERVICE} {self.name}`" if self._lookup is not None else ""
        return (
            f"no API key for {host}: set {self.name} in the environment that starts this program, "
            f"an editor or a shell{keyring}"
        )
