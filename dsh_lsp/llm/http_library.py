"""HTTP library: how httpx is imported, and whom it trusts.

Rules: it is imported late, outside of the event loop, and without its command line.
"""

from __future__ import annotations

import ssl
import sys
from functools import cache
from importlib.util import find_spec


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
