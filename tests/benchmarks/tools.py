"""Tools: `search` over 50,000 files with 20 unsaved buffers, and `read_file` of a page of 100 MB.

The baselines are plain ripgrep over the same tree in the same round, which knows nothing of buffers, and a page of a
file of 2 MB.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

import anyio

from dsh_lsp.workspace.pages import read_page
from dsh_lsp.workspace.port import OpenDocument, Query
from dsh_lsp.workspace.ripgrep import ripgrep
from dsh_lsp.workspace.search import search
from tests.benchmarks import Ratio, interleave, ratio, seconds

FILES, FOLDERS, BUFFERS = 50_000, 500, 20
ROUNDS = 5
SEARCH_LIMIT, PAGE_LIMIT = 2.0, 2.0
NEEDLE = "needle_[0-9]+"
BODY = "def function(argument):\n    return argument + 1\n\n" * 12


def run() -> list[Ratio]:
    """Measure both."""
    with tempfile.TemporaryDirectory(prefix="dsh-bench-") as folder:
        return [*_search(Path(folder)), *_pages(Path(folder))]


def _search(folder: Path) -> list[Ratio]:
    root = folder / "tree"
    _grow(root)
    program = ripgrep()
    if program is None:
        raise SystemExit("ripgrep is needed: pip install 'dsh-lsp[rg]'")
    documents = [
        OpenDocument(path=f"d{n}/f{n}.py", uri="", text=f"{BODY}# unsaved needle_{n}\n{BODY}") for n in range(BUFFERS)
    ]
    query = Query(pattern=NEEDLE, limit=1_000)

    async def ours_async() -> int:
        found = await search(root, root, query, documents, program=program)
        return len(found.matches)

    def ours() -> float:
        began = time.perf_counter()
        count = anyio.run(ours_async)
        assert count == FILES // 100 + BUFFERS, count
        return time.perf_counter() - began

    def plain() -> float:
        command = [program, "--no-config", "--hidden", "-n", NEEDLE, "."]
        return seconds(lambda: subprocess.run(command, cwd=root, stdout=subprocess.DEVNULL, check=True))

    ours(), plain()  # both find the files in the cache
    samples = interleave(ROUNDS, {"ours": ours, "plain": plain})
    return [ratio("search, to plain ripgrep", samples["ours"], samples["plain"], limit=SEARCH_LIMIT)]


def _grow(root: Path) -> None:
    root.mkdir()
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / ".gitignore").write_text("*.log\n")
    for number in range(FOLDERS):
        (root / f"d{number}").mkdir()
    for number in range(FILES):
        needle = f"# needle_{number}\n" if number % 100 == 99 else ""
        (root / f"d{number % FOLDERS}" / f"f{number}.py").write_text(BODY + needle)


def _pages(folder: Path) -> list[Ratio]:
    line = b"a line of text that is as long as lines are\n"
    small, large = folder / "small.txt", folder / "large.txt"
    small.write_bytes(line * (2_000_000 // len(line)))
    large.write_bytes(line * (100_000_000 // len(line)))

    def page(path: Path, first: int) -> float:
        return seconds(lambda: [read_page(path, path.name, first=first, limit=1_000) for _ in range(20)]) / 20

    samples = interleave(
        ROUNDS,
        {
            "small": lambda: page(small, 1),
            "large": lambda: page(large, 1),
            "middle": lambda: seconds(lambda: read_page(large, large.name, first=1_000_000, limit=1_000)),
            "whole": lambda: seconds(lambda: large.read_bytes().decode()),
        },
    )
    return [
        ratio("first page of 100 MB, to that of 2 MB", samples["large"], samples["small"], limit=PAGE_LIMIT),
        ratio("first page of 100 MB, to reading it whole", samples["large"], samples["whole"]),
        ratio("page in the middle of 100 MB, to reading it whole", samples["middle"], samples["whole"]),
    ]
