"""The log file and stderr: bounded, private, without keys, and never in the way."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dsh_lsp.lsp.log_file import LogFile
from dsh_lsp.secrets import redact
from tests.support.raw_client import HOST_FIXTURE, RawClient

KEY = "hush-93f5c1d2e8"


@pytest.fixture
def logger(tmp_path: Path):
    made = logging.Logger("test")
    made.addHandler(LogFile(tmp_path / "logs" / "server.log", max_bytes=10_000))
    return made


# The file


def test_a_server_with_nothing_to_say_leaves_no_file(logger, tmp_path) -> None:
    assert not (tmp_path / "logs").exists()
    logger.error("now")
    assert (tmp_path / "logs" / "server.log").read_text() == "now\n"


def test_only_the_user_can_read_it(logger, tmp_path) -> None:
    logger.error("private")
    assert stat.S_IMODE((tmp_path / "logs").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "logs" / "server.log").stat().st_mode) == 0o600


def test_it_is_capped_and_keeps_the_latest(logger, tmp_path) -> None:
    for number in range(1000):
        logger.error("%04d %s", number, "x" * 90)
        assert sum(file.stat().st_size for file in (tmp_path / "logs").iterdir()) <= 10_000 + 100
    logger.error("the last")
    kept = "".join((tmp_path / "logs" / name).read_text() for name in ("server.log.1", "server.log"))
    assert kept.endswith("the last\n")
    assert "0999 " in kept
    assert "0000 " not in kept


def test_several_servers_may_share_a_file(tmp_path) -> None:
    path = tmp_path / "shared.log"

    def write(name: str) -> None:
        logger = logging.Logger(name)
        logger.addHandler(LogFile(path, max_bytes=100_000))
        for number in range(200):
            logger.error("%s %03d", name, number)

    threads = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = path.read_text().splitlines()
    assert sorted(lines) == sorted(f"{name} {number:03d}" for name in "abc" for number in range(200))


def test_a_file_that_another_server_moved_is_begun_again(logger, tmp_path) -> None:
    logger.error("one")
    (tmp_path / "logs" / "server.log").unlink()
    logger.error("two")
    assert (tmp_path / "logs" / "server.log").read_text() == "two\n"


def test_a_place_that_cannot_be_written_is_complained_of_once(tmp_path, capsys) -> None:
    (tmp_path / "logs").write_text("no folder")
    logger = logging.Logger("test")
    logger.addHandler(LogFile(tmp_path / "logs" / "server.log"))
    logger.error("one")
    logger.error("two")
    assert capsys.readouterr().err.count("cannot be written") == 1


def test_files_of_servers_that_are_gone_do_not_gather(tmp_path) -> None:
    for number in range(30):
        (tmp_path / f"dsh-lsp-{number}.log").write_text("old")
        os.utime(tmp_path / f"dsh-lsp-{number}.log", (number, number))
    logger = logging.Logger("test")
    logger.addHandler(LogFile(tmp_path / "dsh-lsp-99.log"))
    logger.error("new")
    left = {file.name for file in tmp_path.iterdir()}
    assert left == {"dsh-lsp-99.log", *(f"dsh-lsp-{number}.log" for number in range(20, 30))}


# Keys


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("Authorization: Bearer abcdef123456", "abcdef123456"),
        ("the key sk-1234567890abcdef failed", "1234567890abcdef"),
        ('{"api_key": "abcdef123456"}', "abcdef123456"),
        (f"https://example.com/?k={KEY}", KEY),
        ("plain 9f8e7d6c5b4a39281706f5e4d3c2b1a0 text", "9f8e7d6c5b4a39281706f5e4d3c2b1a0"),
    ],
)
def test_keys_are_blotted_out(text: str, hidden: str) -> None:
    environ = {"MY_API_KEY": KEY, "MODEL_LOGIN": "9f8e7d6c5b4a39281706f5e4d3c2b1a0"}
    assert hidden not in redact(text, environ)
    assert "[hidden]" in redact(text, environ)


@pytest.mark.parametrize("text", ["No key: set DEEPSEEK_API_KEY.", "task-runner", "/home/me/project", ""])
def test_plain_words_stay(text: str) -> None:
    assert redact(text, {"HOME": "/home/me", "USER": "me", "SHORT_KEY": "key"}) == text


# In a server


def test_an_internal_error_names_the_log_and_hides_the_key(tmp_path) -> None:
    path = tmp_path / "server.log"
    with RawClient.start_host(FIXTURE_LOG=str(path), FIXTURE_API_KEY=KEY) as client:
        client.initialize()
        error = client.command("test.fail", {"how": "key"})["error"]
        broken = client.command("test.bad_result", {"what": "set"})["error"]
        assert client.close() == 0
    for message in (error["message"], broken["message"]):
        assert message.endswith(f"(the log: {path})")
        assert KEY not in message
    assert "?key=[hidden] failed" in error["message"]
    written = path.read_text()
    assert "?key=[hidden] failed" in written
    assert "Traceback" in written
    assert KEY not in written


def test_the_real_server_logs_to_a_file_of_its_own(tmp_path) -> None:
    with RawClient.start_agent(tmp_path, env={"DSH_LOG_LEVEL": "nonsense"}) as client:
        client.notify("textDocument/didChange", {})
        client.wait_stderr("dropped textDocument/didChange")
        assert client.close() == 0
        (path,) = (tmp_path / "dsh_lsp" / "logs").iterdir()
        assert path.name == f"dsh-lsp-{client.process.pid}.log"
        written = path.read_text()
        assert "dropped textDocument/didChange" in written
        assert "DSH_LOG_LEVEL is 'nonsense', and must be one of DEBUG, " in written


@pytest.mark.parametrize("path", ["/dev/null/x.log", "."])
def test_a_log_that_cannot_be_written_is_told_at_the_start_and_goes_to_standard_error(tmp_path, path: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dsh_lsp", "serve", "--log-file", path],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=30,
        check=False,
    )
    assert f"the log {path} cannot be written (" in done.stderr
    assert list(tmp_path.iterdir()) == []


# Stderr


def test_a_client_that_does_not_drain_stderr_stops_nothing() -> None:
    with RawClient.start_host() as client:
        client.initialize()
        client.stop_reading_stderr()
        before = client.command("test.measure")["result"]
        client.command("test.complain", {"lines": 5_000})
        client.command("test.stray")  # and neither its own print nor a child's
        after = client.command("test.measure")["result"]
        assert after["peakBytes"] - before["peakBytes"] < 8 << 20
        client.resume_reading_stderr()
        while "bytes of stderr were lost]" not in client.stderr:  # said when there is room again
            client.command("test.complain", {"lines": 1})
        assert client.close() == 0
    assert client.stderr.startswith("complaint 0 ")


def test_a_client_that_drains_stderr_loses_nothing() -> None:
    with RawClient.start_host() as client:
        client.initialize()
        client.command("test.complain", {"lines": 300})
        assert client.close() == 0
    assert [line for line in client.stderr.splitlines() if line.startswith("complaint")] == [
        f"complaint {number} {'x' * 100}" for number in range(300)
    ]


@pytest.mark.parametrize("closed", ["stderr", "stderr reader"])
def test_a_server_without_stderr_serves(closed: str, tmp_path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    program = "import os, runpy; os.close(2); runpy.run_module('tests.protocol.host_fixture', run_name='__main__')"
    arguments = ("-c", program) if closed == "stderr" else HOST_FIXTURE
    body = b'{"jsonrpc":"2.0","id":1,"method":"nothing"}'
    process = subprocess.Popen(
        [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=write_end
    )
    os.close(write_end)
    output, _ = process.communicate(b"Content-Length: %d\r\n\r\n%b" % (len(body), body), timeout=10)
    assert b'"id":1' in output
    assert process.returncode == 1


def test_a_crash_before_the_first_message_is_still_told() -> None:
    program = (
        "from dsh_lsp.lsp.transport import claim_descriptors; claim_descriptors(); raise SystemError('at the door')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=10, check=False)
    assert "SystemError: at the door" in done.stderr
    assert done.stdout == ""
