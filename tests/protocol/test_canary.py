"""Canary: a key in every place where one can be, and nothing that leaves the server repeats it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tests.support.model_server import FakeModelServer, answer, refusal
from tests.support.raw_client import RawClient, agent_handshake

KEY = "sk-canary-4f1c2e9a7b3d5068"
QUERY_KEY = "AIza-canary-9b3d50684f1c2e"  # of an address that ends with it

# Stands for a program that the server starts, and writes down what it was told; by absolute names, or it would meet
# itself.
SPY = """#!/bin/sh
{printenv} > "{seen}/{name}.$$"
exec {real} "$@"
"""

# Reads what the shell, our guard, the server and its client were started with; not `/proc/*`, where servers of other
# tests have keys that this one cannot know.
ANCESTORS = """
number=$$
while [ "$number" -gt 1 ]; do
  cat /proc/$number/environ
  number=$(sed -n 's/^PPid:[^0-9]*//p' /proc/$number/status)
done 2>/dev/null
"""

FAILING_PLUGIN = """
import os
name = "failing"
def apply(ctx, settings):
    ctx.log.warning("the key is %s", "not mine to say")
    raise RuntimeError("no")
"""


def spies(folder: Path, seen: Path) -> None:
    folder.mkdir()
    printenv = shutil.which("printenv")
    assert printenv is not None
    for name in ("git", "rg", "bash"):
        real = shutil.which(name) or str(Path(sys.executable).with_name(name))
        (folder / name).write_text(SPY.format(printenv=printenv, seen=seen, name=name, real=real))
        (folder / name).chmod(0o755)


def test_no_log_event_frame_child_or_error_repeats_a_key(tmp_path: Path, model: FakeModelServer) -> None:
    root, state, bin_, seen = (tmp_path / name for name in ("project", "state", "bin", "seen"))
    root.mkdir()
    seen.mkdir()
    spies(bin_, seen)
    (root / "a.txt").write_text("needle\n")
    plugin = tmp_path / "failing.py"
    plugin.write_text(FAILING_PLUGIN)
    env = {
        "XDG_STATE_HOME": str(state),
        "PATH": f"{bin_}:{os.environ['PATH']}",
        "DSH_LOG_LEVEL": "DEBUG",
        "DEEPSEEK_API_KEY": KEY,
        "A_COPY_OF_IT": KEY,
        "A_HEADER_WITH_IT": f"Authorization: Bearer {KEY}",
    }
    said = f"Incorrect API key provided: {KEY}, or /v1?key={QUERY_KEY}"
    echo = {"error": {"message": said, "type": "authentication_error"}}
    model.script(
        answer("", calls=[("search", {"pattern": "needle"}), ("list_files", {})]),
        answer("", calls=[("shell", {"command": "env; env | sort; echo done"})]),
        answer("", calls=[("shell", {"command": ANCESTORS})]),
        refusal(401, echo),
    )
    with RawClient.start(("-m", "dsh_lsp", "serve"), env) as client:
        client.on_request("window/workDoneProgress/create", lambda _params: None)
        handshake = agent_handshake(state, f"{model.url}?key={QUERY_KEY}")
        handshake["options"] |= {"shell": {"allow": ["env *"]}, "plugins": [str(plugin)]}
        client.initialize(**handshake, rootUri=root.as_uri())
        client.command("dsh.followup", {"text": "Go."})
        done: set[str] = set()
        for _ in range(2):
            asked = client.wait_for(
                lambda message: _type(message) == "approval/asked" and _id(message) not in done, what="approval/asked"
            )
            done.add(_id(asked))
            client.command("dsh.approve", {"approval": _id(asked), "decision": "allowOnce"})
        client.wait_for(lambda message: _type(message) == "turn/end", what="turn/end")
        frames = repr(client.messages)
        stderr = client.stderr
    assert model.requests[0].headers["authorization"] == f"Bearer {KEY}", "the key was in use"
    assert model.requests[0].path.endswith(f"?key={QUERY_KEY}")
    assert "done" in frames
    for key in (KEY, QUERY_KEY):
        assert key not in frames
        assert key not in stderr
    spied = sorted(path.name.partition(".")[0] for path in seen.iterdir())
    assert {"git", "rg", "bash"} <= set(spied), "children were watched"
    for path in tmp_path.rglob("*"):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            assert KEY.encode() not in data, path
            assert QUERY_KEY.encode() not in data, path


# Stands for the system's keyring.
KEYRING = """
def get_password(service, name):
    return {keys!r}.get(name)
"""


def test_a_key_in_a_file_reaches_nobody_whatever_reads_it_and_wherever_it_comes_from(
    tmp_path: Path, model: FakeModelServer
) -> None:
    """By every tool that shows text, cut in its midst, from the environment, the keyring, and after a live change."""
    kept, later = "of-the-keyring-77c1e9a7b3d5068", "of-a-later-setting-5f1c2e9a7b3d"
    root, state, modules = (tmp_path / name for name in ("project", "state", "modules"))
    root.mkdir()
    modules.mkdir()
    (modules / "keyring.py").write_text(KEYRING.format(keys={"KEPT_KEY": kept}))
    secrets = (KEY, kept, later)
    first, second = (f"NAME={KEY}\nNAME={kept}\n", f"NAME={later}\n")
    (root / "long.txt").write_text(f"{'x' * 300}needle{KEY}{'y' * 300}\n")
    (root / "AGENTS.md").write_text(f"Use {KEY}.\n")
    env = {
        "XDG_STATE_HOME": str(state),
        "PYTHONPATH": str(modules),
        "DSH_LOG_LEVEL": "DEBUG",
        "DEEPSEEK_API_KEY": KEY,
        "LATER_KEY": later,
    }
    printed = "env; head -c 16370 /dev/zero | tr '\\0' x; cat .env; head -c 40000 /dev/zero | tr '\\0' y"
    calls = [
        ("read_file", {"path": ".env"}),
        ("search", {"pattern": "NAME|needle"}),
        ("shell", {"command": "cat .env; sleep 0.3; cat .env; false"}),
        ("write_file", {"path": ".env", "content": "NAME=none\n"}),
        ("delete_file", {"path": ".env"}),
    ]
    at_last = [*calls[:2], ("shell", {"command": printed}), *calls[3:]]  # the last key is not ours before
    model.script(answer("", calls=calls), answer("Done."), answer("", calls=at_last), answer("Done."))
    with RawClient.start(("-m", "dsh_lsp", "serve"), env) as client:
        client.on_request("window/workDoneProgress/create", lambda _params: None)
        handshake = agent_handshake(state, model.url)
        handshake["options"] |= {"shell": {"allow": ["env *"]}, "mode": "auto-edit"}
        client.initialize(**handshake, rootUri=root.as_uri())
        done: set[str] = set()
        for turn, held in ((1, first), (2, first + second)):
            (root / ".env").write_text(held)
            section = {"model": {"apiKeyEnv": "KEPT_KEY" if turn == 1 else "LATER_KEY"}}
            client.notify("workspace/didChangeConfiguration", {"settings": {"dsh": section}})
            pointed_at = [
                {"uri": (root / ".env").as_uri(), "text": held if turn == 2 else KEY}
            ]  # the keyring is asked later
            client.command("dsh.followup", {"text": "Go.", "context": pointed_at})
            asked = client.wait_for(
                lambda message: _type(message) == "approval/asked" and _id(message) not in done, what="approval/asked"
            )
            done.add(_id(asked))
            client.command("dsh.approve", {"approval": _id(asked), "decision": "allowOnce"})
            client.wait_for(
                lambda message, turn=turn: _type(message) == "turn/end" and _turn(message) == turn, what="turn/end"
            )
        frames, stderr = repr(client.messages), client.stderr
    assert model.requests[0].headers["authorization"] == f"Bearer {kept}", "the keyring's was in use"
    read = repr([request.body for request in model.requests])
    assert read.count("NAME=[key left out]") > 12
    assert "the agent never writes it" in read
    for secret in secrets:
        for part in (secret, secret[:12], secret[-12:]):
            assert part not in read
            assert part not in frames
            assert part not in stderr
        for path in state.rglob("*"):
            if path.is_file():
                assert secret.encode() not in path.read_bytes(), path
    assert (root / ".env").read_text() == first + second


def _turn(message: dict) -> int:
    return int(message["params"]["value"]["data"]["turn"])


def _type(message: dict) -> object:
    value = (message.get("params") or {}).get("value") if message.get("method") == "$/progress" else None
    return value.get("type") if isinstance(value, dict) else None


def _id(message: dict) -> str:
    return str(message["params"]["value"]["data"]["id"])
