"""The Neovim client under a flood: 20,000 chunks in 5 s beside a key that is held down.

What it measures is printed with `pytest -s`; what it asserts is what is promised.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.desk import wait_for
from tests.e2e.neovim_client import ClientDesk
from tests.e2e.story import CALC
from tests.support.model_server import Packet, Pause, Reply, answer, chunk, event

CHUNKS, SECONDS = 20_000, 5.0
BURST = 40
KEY_EVERY_S = 0.033  # a key that is held down repeats about 30 times a second
MAX_DELAY_MS = 50
MAX_GROWTH_MB = 64
PIECES = ("`word` ", "and ", "more\n", "* item ", "\n\n", "```lua\nlocal x = 1\n```\n", "**bold** ", "text ")

PROBE = """
keys, progress = {}, {}
vim.api.nvim_create_autocmd('TextChangedI', { callback = function()
  if vim.bo.buftype == '' then table.insert(keys, { vim.uv.hrtime(), #vim.api.nvim_get_current_line() }) end
end })
-- as a progress plugin does: it shows whatever begins until it ends
vim.api.nvim_create_autocmd('LspProgress', { callback = function(event)
  table.insert(progress, event.data.params.value)
end })
"""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[ClientDesk]:
    with ClientDesk.set_up(tmp_path, {"calc.py": CALC}) as desk:
        yield desk


def flood() -> Reply:
    head, *_ = answer("").packets
    packets: list[Packet] = [head]
    for number in range(CHUNKS):
        if number % BURST == 0:
            packets.append(Pause(SECONDS * BURST / CHUNKS))
        packets.append(event(chunk({"content": PIECES[number % len(PIECES)]})))
    tokens = {"prompt_tokens": 10, "completion_tokens": CHUNKS}
    return Reply(packets=(*packets, event(chunk({}, "stop", usage=tokens)), b"data: [DONE]\n\n"))


def memory_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def is_over(desk: ClientDesk) -> bool:
    return bool(desk.announced("DshTurnEnd"))


def test_no_key_is_lost_or_late_while_20_000_chunks_stream_beside_it(desk: ClientDesk) -> None:
    neovim = desk.neovim
    neovim.lua(PROBE)
    desk.model.script(answer("Ready."), flood())
    desk.dsh("ask Are you there?")  # so that no start is measured
    desk.wait_for_turns(1)
    before = memory_mb(neovim.process.pid)
    desk.dsh("ask Flood me.")
    wait_for(lambda: len(desk.model.requests) == 2, "the flood begins")
    desk.go_to_file("calc.py")
    neovim.keys("ggO")
    wait_for(lambda: neovim.mode()["mode"] == "i", "insert mode")

    sent: list[int] = []
    began = time.monotonic()
    while time.monotonic() - began < SECONDS + 1 and not len(desk.model.requests[1:]) > 1:
        sent.append(time.monotonic_ns())
        neovim.keys("x")
        time.sleep(KEY_EVERY_S)
    wait_for(lambda: desk.model.requests[1].answered, "the model has said all", timeout_s=60)
    took = time.monotonic() - began
    wait_for(lambda: is_over(desk), "the turn ends", timeout_s=60)
    desk.wait_for_turns(2)

    assert neovim.text() == "x" * len(sent) + "\n" + CALC
    seen: list[tuple[int, int]] = neovim.lua("return keys")
    arrived = [next(when for when, length in seen if length > number) for number in range(len(sent))]
    delays = sorted((there - pressed) / 1e6 for pressed, there in zip(sent, arrived, strict=True))
    growth = memory_mb(neovim.process.pid) - before
    print(
        f"\n{CHUNKS} chunks in {took:.1f} s, {len(sent)} keys; delay in ms: median {delays[len(delays) // 2]:.1f}, "
        f"99 % {delays[int(len(delays) * 0.99)]:.1f}, worst {delays[-1]:.1f}; memory grew by {growth:.0f} MB"
    )
    assert delays[-1] <= MAX_DELAY_MS
    assert growth < MAX_GROWTH_MB
    whole = "".join(PIECES[number % len(PIECES)] for number in range(CHUNKS))
    wait_for(lambda: whole.rstrip("\n") in desk.chat(), "all of the text is shown")
    progress: list[dict[str, Any]] = neovim.lua("return progress")
    assert [value["kind"] for value in progress if value["kind"] != "report"] == ["begin", "end"] * 2
    assert not any("dsh" in value for value in progress)
