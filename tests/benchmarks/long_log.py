"""Long log: opening a session of 200,000 events, against a bare `json.loads` of each of its lines.

The log is one that the store wrote: turns with tools, whose runs of chunks are packed. To be seen beside it, the same
session with a line for each event. Opening is reading, checking and repairing: all that comes before a session can go
on. That the time is linear is measured on a log of a tenth.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from dsh_lsp.events import (
    AssistantChunk,
    AssistantMessageLogged,
    Ended,
    EventData,
    InboxSpliced,
    RequestContext,
    RequestHeader,
    RequestHeaderLogged,
    StepEnd,
    StepStart,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    encode_event,
)
from dsh_lsp.messages import (
    AssistantMessage,
    BlockEnd,
    BlockStart,
    CallConfig,
    Finish,
    ModelSource,
    ReasoningBlock,
    ReasoningDelta,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
    ToolResultBlock,
    ToolSource,
    UserMessage,
    UserSource,
)
from dsh_lsp.session.loading import inspect_session
from dsh_lsp.session.log import SessionHeader, SessionLog
from dsh_lsp.session.store import SessionStore
from dsh_lsp.wire import dump_bytes, encode
from tests.benchmarks import Ratio, interleave, ratio, seconds

ROUNDS = 7
EVENTS = 200_000
LIMIT = 3.0
LINEAR_LIMIT = 1.3
MEMORY_LIMIT = 8.0  # times the file: the messages of a long session stay in memory, its chunks packed
STEPS = 20  # in a turn
WORDS = ("the", " quick", " brown", " fox", " jumps", " over", " it", ".\n")


def run() -> list[Ratio]:
    """Measure both shapes of a log, the growth, and the memory."""
    with tempfile.TemporaryDirectory() as directory:
        long, tenth, flat = (Path(directory, name, "s.jsonl") for name in ("long", "tenth", "flat"))
        asyncio.run(_write(long, EVENTS))
        asyncio.run(_write(tenth, EVENTS // 10))
        _flatten(long, flat)
        assert len(inspect_session(long).log) == len(inspect_session(flat).log) >= EVENTS
        work: dict[str, Callable[[], float]] = {}
        for path in (long, tenth, flat):
            work[path.parent.name] = lambda path=path: _seconds(lambda: inspect_session(path))
            work[f"bare {path.parent.name}"] = lambda path=path: _seconds(lambda: _parse(path))
        samples = interleave(ROUNDS, work)
        before, after = (_peak(path) for path in (None, long))
        memory = [float(after - before)], [float(long.stat().st_size)]
    return [
        ratio(f"open {EVENTS:,} events", samples["long"], samples["bare long"], limit=LIMIT),
        ratio(f"open {EVENTS:,} events, a line each", samples["flat"], samples["bare flat"]),
        ratio("ten times the log", [s / 10 for s in samples["long"]], samples["tenth"], limit=LINEAR_LIMIT),
        ratio("memory to its file", *memory, limit=MEMORY_LIMIT, scale=2**-20, unit="MiB"),
    ]


def _seconds(function: Callable[[], object]) -> float:
    gc.collect()
    return seconds(function)


def _parse(path: Path) -> int:
    """The baseline: every line becomes a value."""
    count = 0
    with path.open("rb") as file:
        for line in file:
            count += json.loads(line) is not None
    return count


def _peak(path: Path | None) -> int:
    """Bytes that a process of its own needs at most to open the log, or to do nothing."""
    script = (
        "import sys\nfrom pathlib import Path\nfrom dsh_lsp.session.loading import inspect_session\n"
        "kept = inspect_session(Path(sys.argv[1])) if sys.argv[1:] else None\n"
        "status = Path('/proc/self/status').read_text()\n"
        "print(1024 * int(status.partition('VmHWM:')[2].split()[0]))"
    )
    arguments = [sys.executable, "-c", script, *([str(path)] if path else [])]
    return int(subprocess.run(arguments, stdout=subprocess.PIPE, check=True).stdout)


# -- the log -------------------------------------------------------------------------------------------------


async def _write(path: Path, events: int) -> None:
    """Write a log of at least so many events with the store itself, a barrier after each step."""
    log = SessionLog(SessionHeader(id="s", created_at=0, cwd="/w"), clock=_ticking())
    store = SessionStore.create(path.parent, log)
    turn = 0
    while len(log) < events:
        turn += 1
        for data in _turn(turn):
            log.append(data)
            if isinstance(data, StepEnd):
                await store.flush()
    await store.close()


def _ticking() -> Callable[[], int]:
    now = 1_764_000_000_000

    def clock() -> int:
        nonlocal now
        now += 3
        return now

    return clock


def _turn(turn: int) -> Iterator[EventData]:
    prompt = UserMessage(id=f"m{turn}", content=(TextBlock(text="Do it again. " * 5),), source=UserSource())
    yield InboxSpliced(target="next-turn", start=0, inserted=(prompt,))
    yield TurnStart(turn=turn)
    yield InboxSpliced(target="next-turn", start=0, removed_count=1)
    for step in range(1, STEPS + 1):
        yield StepStart(turn=turn, step=step)
        if step == 1:
            yield prompt
        if turn == step == 1:
            config = CallConfig(provider="p", model="m")
            yield RequestHeaderLogged(header=RequestHeader(config=config, system="s" * 4000), reason="initial")
            yield RequestContext(provider="p", model="m", context_window=128_000)
        yield from _step(turn, step, last=step == STEPS)
        yield StepEnd(turn=turn, step=step)
    yield TurnEnd(turn=turn, reason=Ended(kind="completed"))


def _step(turn: int, step: int, *, last: bool) -> Iterator[EventData]:
    """An answer of about 190 chunks: thinking, text, and a call of a tool that reads 2 kB."""
    thought, text = WORDS * 10, WORDS * 8
    call = ToolCallBlock(id=f"c{turn}.{step}", name="read_file", arguments='{"path":"a/b/c.py","from":1,"to":80}' * 9)
    pieces = [call.arguments[start : start + 8] for start in range(0, len(call.arguments), 8)]
    blocks = (ReasoningBlock(text="".join(thought)), TextBlock(text="".join(text)), *(() if last else (call,)))
    chunks = [
        BlockStart(index=0, block_type="reasoning"),
        *(ReasoningDelta(index=0, text=word) for word in thought),
        BlockStart(index=1, block_type="text"),
        *(TextDelta(index=1, text=word) for word in text),
    ]
    if not last:
        chunks.append(BlockStart(index=2, block_type="tool-call"))
        chunks += [ToolCallDelta(index=2, id=call.id, arguments_delta=piece) for piece in pieces]
    chunks += [BlockEnd(index=index, block=block) for index, block in enumerate(blocks)]
    chunks.append(Finish(reason="stop" if last else "tool-calls"))
    yield from (AssistantChunk(turn=turn, step=step, chunk=chunk) for chunk in chunks)
    source = ModelSource(provider="p", model="m")
    message = AssistantMessage(id=f"a{turn}.{step}", content=blocks, source=source)
    yield AssistantMessageLogged(turn=turn, step=step, message=message)
    if not last:
        yield ToolCall(turn=turn, step=step, call_id=call.id, name=call.name, arguments=call.arguments)
        result = ToolResultBlock(tool_call_id=call.id, content=(TextBlock(text="a line of the file\n" * 100),))
        answer = UserMessage(id=f"r{turn}.{step}", content=(result,), source=ToolSource(call_id=call.id))
        yield ToolResult(turn=turn, step=step, message=answer)


def _flatten(packed: Path, flat: Path) -> None:
    """The same session with a line for each event."""
    loaded = inspect_session(packed)
    flat.parent.mkdir()
    with flat.open("wb") as file:
        file.write(dump_bytes({"type": "session", **encode(loaded.header)}) + b"\n")
        for event in loaded.log:
            file.write(dump_bytes(encode_event(event)) + b"\n")
