"""Rules for every test: the network is the loopback, and the event loop is never blocked."""

from __future__ import annotations

import gc
import inspect
import os
import signal
import sys
from typing import Any

import pytest
from blockbuster import BlockBuster
from hypothesis import settings

from dsh_lsp.lsp.compiled_types import import_types

gc.disable()  # all that is imported and collected stays: see `pytest_collection_finish`
import_types()

# In CI, hypothesis would draw the same examples each time.
settings.register_profile("default", deadline=None, derandomize=False, max_examples=50)
settings.register_profile("long", deadline=None, derandomize=False, max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Each of the hundreds of servers that are started would compile the package again.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    sys.dont_write_bytecode = False

os.environ["GIT_TEMPLATE_DIR"] = ""  # a repository of a test needs no sample hooks, which are most of its files

BLOCKBUSTER = BlockBuster("dsh_lsp")
LOOPBACK = ("127.", "::1", "localhost", "0:0:0:0:0:0:0:1")


def _refuse_the_network(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "socket.connect":
        return
    address = arguments[1]
    if isinstance(address, tuple) and not str(address[0]).startswith(LOOPBACK):
        raise AssertionError(f"a test must not reach {address[0]}")


if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under `nohup` the servers that tests start would ignore it

sys.addaudithook(_refuse_the_network)


def pytest_collection_finish() -> None:
    """Let the garbage collector look through what tests make, not again and again through all that was imported."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def loop_is_never_blocked(request: pytest.FixtureRequest):
    """Fail a test in which this package blocks the event loop: with sleep, files, sockets or processes."""
    elsewhere = {"protocol", "e2e"} & set(request.node.path.parts)  # the package runs in a process of its own there
    if elsewhere or not inspect.iscoroutinefunction(getattr(request.node, "obj", None)):
        yield
        return
    BLOCKBUSTER.activate()
    yield
    BLOCKBUSTER.deactivate()
