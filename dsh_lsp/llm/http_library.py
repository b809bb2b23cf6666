"""HTTP library: how httpx is imported, and whom it trusts.

Rules: it is imported late, outside of the event loop, and without its command line.
"""

from __future__ import annotations

import ssl
import sys
from functools import cache


def import_alone() -> None:
    """Import httpx without its command line.

    It brings that along where `click` and `rich` are installed, which takes twice as long as all the rest.
    """
    command_line = "httpx._main"
    if "httpx" in sys.modules:
        return
    sys.modules[command_line] = None  # type: ignore[assignment] # so the import system is told that there is none
    try:
        import httpx  # noqa: F401
    finally:
        del sys.modules[command_line]


@cache
def trusted() -> ssl.SSLContext:
    """The certificates that this machine trusts: each reading takes longer than all else that opens a client."""
    import httpx

    return httpx.create_ssl_context()


def nobody_trusted() -> ssl.SSLContext:
    """No certificate at all, for an address without TLS: redirects are not followed, so nobody shows one."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
