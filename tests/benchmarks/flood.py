"""Flood: what 20,000 progress messages do to the round trip of a command, and to memory.

The baseline is the same command on the same server when nothing else is sent. The client reads with a plain loop that
parses nothing, so that its own speed is not what is measured.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import threading
import time
from typing import Any, Self

from tests.benchmarks import Ratio, interleave, ratio

ROUNDS = 5
MESSAGES = 20_000
LIMIT = 3.0
MEMORY_LIMIT = 1.5
PAUSE_S = 0.002


class Pipe:
    """A server process, with a thread that sorts its answers from the flood; counts its `messages`."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.protocol.host_fixture"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._input, self._output = self.process.stdin, self.process.stdout
        self.messages = 0
        self._answers: dict[int, bytes] = {}
        self._changed = threading.Condition()
        self._last = 0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def post(self, method: str, params: Any) -> int:
        self._last += 1
        self.send(f'{{"jsonrpc":"2.0","id":{self._last},"method":"{method}","params":{params}}}')
        return self._last

    def command(self, name: str, argument: str = "{}") -> int:
        return self.post("workspace/executeCommand", f'{{"command":"test.{name}","arguments":[{argument}]}}')

    def send(self, body: str) -> None:
        os.write(self._input.fileno(), b"Content-Length: %d\r\n\r\n%b" % (len(body), body.encode()))

    def answer(self, number: int, timeout_s: float = 60) -> bytes:
        with self._changed:
            assert self._changed.wait_for(lambda: number in self._answers, timeout_s)
            return self._answers[number]

    def is_answered(self, number: int) -> bool:
        return number in self._answers

    def _read(self) -> None:
        rest = b""
        while data := os.read(self._output.fileno(), 64 << 10):
            self.messages += data.count(b"Content-Length")
            rest += data
            for found in re.finditer(rb'"id":(\d+),"(?:result|error)":([^\r\n]*)\}(?=Content-Length|$)', rest):
                with self._changed:
                    self._answers[int(found[1])] = found[2]
                    self._changed.notify_all()
            rest = rest[rest.rfind(b"Content-Length") :]

    def __enter__(self) -> Self:
        self.answer(self.post("initialize", '{"processId":null,"rootUri":null,"capabilities":{}}'))
        self.send('{"jsonrpc":"2.0","method":"initialized","params":{}}')
        return self

    def __exit__(self, *_: object) -> None:
        self._input.close()
        self.process.wait(10)
        self._thread.join(5)
        self._output.close()


def run(rounds: int = ROUNDS) -> list[Ratio]:
    """Compare the median round trips, and the peaks of memory before and after all floods."""
    with Pipe() as pipe:
        for _ in range(2):
            _idle(pipe)
            _flooded(pipe, live=False)  # to the high mark of memory
        before = _peak(pipe)
        work = {
            "idle": lambda: _idle(pipe),
            "durable": lambda: _flooded(pipe, live=False),
            "live": lambda: _flooded(pipe, live=True),
        }
        samples = interleave(rounds, work)
        after = _peak(pipe)
    return [
        ratio("command while 20,000 live frames are sent", samples["live"], samples["idle"], limit=LIMIT),
        ratio("command while 20,000 durable messages are sent", samples["durable"], samples["idle"], limit=LIMIT),
        ratio("peak of memory after all floods", [after], [before], limit=MEMORY_LIMIT, scale=2**-20, unit="MiB"),
    ]


def _round_trip(pipe: Pipe) -> float:
    time.sleep(PAUSE_S)  # a person's command meets a server that rests, not one that is still warm
    began = time.perf_counter()
    pipe.answer(pipe.command("echo"))
    return time.perf_counter() - began


def _idle(pipe: Pipe) -> float:
    return statistics.median(_round_trip(pipe) for _ in range(100))


def _flooded(pipe: Pipe, *, live: bool) -> float:
    flood = pipe.command("progress", f'{{"count":{MESSAGES},"live":{str(live).lower()}}}')
    trips = []
    while not pipe.is_answered(flood):
        trips.append(_round_trip(pipe))
    return statistics.median(trips)


def _peak(pipe: Pipe) -> float:
    found = re.search(rb'"peakBytes":(\d+)', pipe.answer(pipe.command("measure")))
    assert found is not None
    return float(found[1])
