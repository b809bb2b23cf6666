"""Startup: from spawning the server to its answer to `initialize`, and to the first input that it accepted.

The baseline is a bare pygls server; both import `lsprotocol`, of which ours keeps what attrs compiled before.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from tests.benchmarks import Ratio, interleave, ratio
from tests.support.raw_client import RawClient

ROUNDS = 9
LIMIT = 1.1

BARE = """
from pygls.lsp.server import LanguageServer
server = LanguageServer("bare", "1")
@server.command("dsh.followup")
def followup(argument):
    return argument
server.start_io()
"""


def run() -> list[Ratio]:
    """Compare with a bare server, which answers its own `dsh.followup` with what it was given."""
    with tempfile.TemporaryDirectory() as state:
        env = {"XDG_STATE_HOME": state, "DEEPSEEK_API_KEY": "sk-none"}
        accepted: dict[str, list[float]] = {"ours": [], "bare": []}

        def start(name: str, arguments: tuple[str, ...]) -> float:
            initialized, followed = _measure(arguments, env, Path(state))
            accepted[name].append(followed)
            return initialized

        work = {
            "ours": lambda: start("ours", ("-m", "dsh_lsp", "serve")),
            "bare": lambda: start("bare", ("-c", BARE)),
        }
        for warm_up in work.values():
            warm_up()
        for each in accepted.values():
            each.clear()
        samples = interleave(ROUNDS, work)
    return [
        ratio("spawn to initialize answered", samples["ours"], samples["bare"], limit=LIMIT),
        ratio("spawn to first followup accepted", accepted["ours"], accepted["bare"]),
    ]


def _measure(arguments: tuple[str, ...], env: dict[str, str], root: Path) -> tuple[float, float]:
    """Seconds from the spawn to the two answers."""
    began = time.perf_counter()
    with RawClient.start(arguments, env) as client:
        options = {"eventToken": "events", "model": {"baseUrl": "http://127.0.0.1:9"}}
        client.initialize(options=options, rootUri=root.as_uri())
        initialized = time.perf_counter() - began
        reply = client.command("dsh.followup", {"text": "Good morning."}, timeout_s=30)
        accepted = time.perf_counter() - began
        assert "result" in reply, reply
        client.close()
    return initialized, accepted
