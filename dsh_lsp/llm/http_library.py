"""HTTP library: how httpx is imported, whom it trusts, and what the machine's own settings keep it from.

Rules: it is imported late, outside of the event loop, and without its command line; a proxy's address is never shown,
for it may hold a password: its variable is named.
"""

from __future__ import annotations

import os
import ssl
import sys
from functools import cache
from importlib.util import find_spec
from typing import Final

_CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


def import_alone() -> None:
    """Import httpx without its command line.

    It brings that along where `click` and `rich` are installed, which takes twice as long as all the rest. And with
    each wait httpcore tries to import `sniffio`, on which anyio does not depend any more: that looks through all
    folders of the path again and again, unless the import system is told that there is none.
    """
    if "sniffio" not in sys.modules and find_spec("sniffio") is None:
        _say_there_is_no("sniffio")
    command_line = "httpx._main"
    if "httpx" not in sys.modules:
        _say_there_is_no(command_line)
        try:
            import httpx  # noqa: F401
        finally:
            del sys.modules[command_line]


def _say_there_is_no(module: str) -> None:
    sys.modules[module] = None  # type: ignore[assignment] # which the import system takes for that


@cache
def trusted() -> ssl.SSLContext:
    """The certificates that this machine trusts: each reading takes longer than all else that opens a client."""
    import httpx

    return httpx.create_ssl_context()


def nobody_trusted() -> ssl.SSLContext:
    """No certificate at all, for an address without TLS: redirects are not followed, so nobody shows one."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def request_errors() -> tuple[type[Exception], ...]:
    """What a request raises: the library's own errors, and those of an address that no socket takes."""
    import httpx

    return httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError, ExceptionGroup  # the last of those who connect


def opening_errors() -> tuple[type[Exception], ...]:
    """What opening a client raises, for what it reads of the machine."""
    import httpx

    return httpx.InvalidURL, ImportError, OSError, ValueError


def why_unusable(error: Exception) -> str:
    """Why no client could be opened, which is for what it reads of the machine: its proxies, and whom it trusts."""
    match error:
        case ImportError():
            words = "is a SOCKS proxy, which needs one more package: pip install 'httpx[socks]'"
            return f"{_named(_PROXIES[:3])} {words}"
        case OSError():  # also what the certificates' reader raises
            return f"the certificates that {_named(_CERTIFICATES)} names cannot be read: {error.strerror}"
        case _:
            words = "an http:// or https:// address, or a host that needs none"
            return f"a proxy or an exception from it in {_named(_PROXIES)} cannot be used; each has to be {words}"


def _named(variables: tuple[str, ...]) -> str:
    """Those of some variables that are set, as they are spelled."""
    found = [name for each in variables for name in (each, each.lower()) if os.environ.get(name)]
    return " or ".join(found) or "the system's settings"
