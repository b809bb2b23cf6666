"""A real small model, served by llama.cpp on this machine: the same loop reads a file and edits it.

Opt in: it needs a model of about a gigabyte and some minutes.

    python3 -m venv /somewhere/llama && /somewhere/llama/bin/pip install 'llama-cpp-python[server]'
    DSH_TEST_LLAMA=/somewhere/llama/bin/python DSH_TEST_MODEL=/somewhere/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf \
        python -m pytest -m localmodel tests/local

Such a model writes its calls as text, so the setting that reads them is on.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.localmodel, pytest.mark.timeout(1_800)]

CODE = "def add(a, b):\n    return a - b\n"
# The official file of Qwen2.5-Coder-1.5B-Instruct, Q4_K_M; another model may be tried, and is told of.
SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
START_S = 120.0
TURN_S = 1_200.0
ATTEMPTS = 3  # it is a small model
# The tool that must be called, what is asked, and what calc.py then holds.
STORY = (
    ("read_file", "Call read_file with the path calc.py, then say what add returns.", CODE),
    (
        "edit_file",
        "Use edit_file to replace `return a - b` by `return a + b` in calc.py.",
        CODE.replace("a - b", "a + b"),
    ),
)


def needed(name: str) -> Path:
    path = Path(os.environ.get(name, ""))
    assert path.is_file(), f"{name} must name a file: see the top of {__file__}"
    return path


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A llama.cpp server with the model, while the tests of this file run."""
    python, model = needed("DSH_TEST_LLAMA"), needed("DSH_TEST_MODEL")
    with model.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    assert found == os.environ.get("DSH_TEST_MODEL_SHA256", SHA256), "another file than expected: it is not parsed"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [python, "-m", "llama_cpp.server", "--model", model, "--n_ctx", "8192", "--port", str(port)]
    process = subprocess.Popen(
        [str(part) for part in command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )
    try:
        wait_for(f"http://127.0.0.1:{port}/v1/models", process)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(10)


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    ends = time.monotonic() + START_S
    while time.monotonic() < ends:
        assert process.poll() is None, "the server ended"
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.5)
    raise AssertionError("the server did not start")


def run_prompt(prompt: str, settings: Path, root: Path) -> list[dict[str, Any]]:
    """Run one prompt as a user at a terminal does who accepts every edit; the session's events."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "dsh_lsp",
            "run",
            prompt,
            "--yes",
            "--json",
            "--directory",
            root,
            "--settings",
            settings,
        ],
        capture_output=True,
        text=True,
        timeout=TURN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_small_model_reads_a_file_and_edits_it(server: str, tmp_path: Path) -> None:
    settings, root = tmp_path / "settings.json", tmp_path / "project"
    model = {
        "provider": "openai_compatible",
        "baseUrl": server,
        "name": "local",
        "contextWindow": 8_192,
        "maxTokens": 300,
        "timeouts": {"idleSeconds": 900},
        "compatibility": {"textCalls": True},
    }
    settings.write_text(json.dumps({"model": model, "sessions": {"directory": str(tmp_path / "sessions")}}))
    root.mkdir()
    (root / "calc.py").write_text(CODE)
    for tool, prompt, text in STORY:
        said: list[Any] = []
        for _ in range(ATTEMPTS):
            events = run_prompt(prompt, settings, root)
            called = {event["data"]["name"] for event in events if event["type"] == "tool/call"}
            said += [event["data"]["message"]["content"] for event in events if event["type"] == "assistant/message"]
            if tool in called and (root / "calc.py").read_text() == text:
                break
        else:
            pytest.fail(f"{tool} in {ATTEMPTS} tries: calc.py is {(root / 'calc.py').read_text()!r}; it said {said}")
