"""Search: with ripgrep and without, the same lines are found, and what the editor holds is what counts."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
import tracemalloc
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from dsh_lsp.errors import ToolError
from dsh_lsp.workspace import search as module
from dsh_lsp.workspace.port import Found, OpenDocument, Query
from dsh_lsp.workspace.ripgrep import ripgrep
from dsh_lsp.workspace.search import search

RG = ripgrep()
BOTH = pytest.mark.parametrize("program", [pytest.param(RG, id="ripgrep"), pytest.param(None, id="python")])


def test_ripgrep_is_there_so_that_both_are_tested() -> None:
    assert RG is not None


KINDS = ["git", "plain"]


@pytest.fixture(params=KINDS)
def root(tmp_path: Path, request) -> Path:
    """A folder of the test's own."""
    return make(tmp_path, request.param)


@pytest.fixture(scope="module", params=KINDS)
def tree(tmp_path_factory: pytest.TempPathFactory, request) -> Path:
    """The same folder, for tests that change nothing."""
    return make(tmp_path_factory.mktemp("tree"), request.param)


def make(above: Path, kind: str) -> Path:
    root = above / "w"
    (root / "src").mkdir(parents=True)
    (root / "ignored").mkdir()
    (root / ".gitignore").write_text("ignored/\n*.log\n!kept.log\n")
    (root / "a.py").write_text("import x\nneedle = 1\n")
    (root / "src" / "b.ts").write_bytes(b"\xef\xbb\xbffirst needle\r\nsecond NEEDLE\r\nneedle$\r\n")
    (root / "src" / "\N{LATIN SMALL LETTER E WITH ACUTE} x.py").write_text("é needle\n")
    (root / "ignored" / "c.py").write_text("needle\n")
    (root / "d.log").write_text("needle\n")
    (root / "kept.log").write_text("needle\n")
    (root / ".hidden").write_text("needle\n")
    (root / "binary").write_bytes(b"\0needle\n")
    (root / "bad").write_bytes(b"needle \xff\n")
    (above / "outside.py").write_text("needle\n")
    (root / "link.py").symlink_to(above / "outside.py")
    if kind == "git":
        subprocess.run(["git", "init", "-q", str(root)], check=True)
        (root / ".git" / "needle").write_text("needle\n")
    return root


async def found(
    root: Path, program: str | None, *held: tuple[str, str], path: str = ".", timeout_s: float = 20.0, **more
) -> Found:
    documents = [OpenDocument(path=name, uri="", text=text) for name, text in held]
    query = Query(**{"pattern": "needle", "path": path, **more})
    return await search(root, root / path, query, documents, program=program, timeout_s=timeout_s)


def places(result: Found) -> list[str]:
    return [f"{match.path}:{match.line}: {match.text}" for match in result.matches]


ALL = [
    ".hidden:1: needle",
    "a.py:2: needle = 1",
    "bad:1: needle \ufffd",
    "kept.log:1: needle",
    "src/b.ts:1: \ufefffirst needle",
    "src/b.ts:3: needle$",
    "src/é x.py:1: é needle",
]


@BOTH
async def test_lines_are_found_in_order_and_ignored_hidden_by_git_binary_and_outside_ones_are_not(
    tree, program
) -> None:
    result = await found(tree, program)
    assert [place.replace("\ufeff", "") for place in places(result)] == [place.replace("\ufeff", "") for place in ALL]
    assert not result.truncated


@BOTH
@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({"ignore_case": True, "path": "src"}, ["src/b.ts:1", "src/b.ts:2", "src/b.ts:3", "src/é x.py:1"]),
        ({"pattern": "needle$", "fixed": True}, ["src/b.ts:3"]),
        ({"pattern": "^needle"}, [".hidden:1", "a.py:2", "bad:1", "kept.log:1", "src/b.ts:3"]),
        ({"pattern": "second.*$", "ignore_case": True}, ["src/b.ts:2"]),
        ({"glob": "*.py"}, ["a.py:2", "src/é x.py:1"]),
        ({"glob": "src/*.{ts,js}"}, ["src/b.ts:1", "src/b.ts:3"]),
        ({"glob": "/*.py"}, ["a.py:2"]),
        ({"glob": "!{*.ts,.hidden,kept.*,bad}"}, ["a.py:2", "src/é x.py:1"]),
        ({"pattern": "nowhere"}, []),
    ],
)
async def test_what_narrows_a_search(tree, program, more, wanted) -> None:
    result = await found(tree, program, **more)
    assert [f"{match.path}:{match.line}" for match in result.matches] == wanted


@BOTH
async def test_unsaved_text_counts_instead_of_the_file(tree, program) -> None:
    result = await found(
        tree,
        program,
        ("a.py", "one\r\ntwo\r\nthree needle"),
        ("src/b.ts", "nothing here\n"),
        ("new.py", "needle in a file that is not saved yet\n"),
        ("ignored/c.py", "needle\n"),
        ("e.log", "needle\n"),
        (".git/x", "needle\n"),
    )
    assert places(result) == [
        ".hidden:1: needle",
        "a.py:3: three needle",
        "bad:1: needle \ufffd",
        "kept.log:1: needle",
        "new.py:1: needle in a file that is not saved yet",
        "src/é x.py:1: é needle",
    ]
    assert result.unsaved == ("a.py", "new.py", "src/b.ts")


@BOTH
async def test_many_held_texts_are_told_apart_by_their_lines(tree, program) -> None:
    held = [(f"held{n}.txt", "x\n" * n + f"needle {n}" + "\n" * (n % 2)) for n in range(20)]
    result = await found(tree, program, *held, glob="held*.txt")
    assert sorted(places(result)) == sorted(f"held{n}.txt:{n + 1}: needle {n}" for n in range(20))


@BOTH
async def test_matches_and_their_size_are_bounded(root, program) -> None:
    (root / "many.txt").write_text("needle\n" * 5_000)
    (root / "wide.txt").write_text("x" * 50_000 + "needle" + "y" * 50_000 + "\n")
    result = await found(root, program, limit=10)
    assert (len(result.matches), result.truncated) == (10, True)
    (wide,) = (await found(root, program, glob="wide.txt")).matches
    assert "needle" in wide.text
    assert len(wide.text) < 300


@BOTH
@pytest.mark.parametrize("pattern", ["(", "[", "a\nb", "x{2,1}"])
async def test_a_pattern_that_is_none_is_told(tree, program, pattern) -> None:
    for held in ((), (("a.py", "needle\n"),)):
        with pytest.raises(ToolError) as refused:
            await found(tree, program, *held, pattern=pattern)
    assert refused.value.code == "BAD_PATTERN"


@BOTH
@pytest.mark.parametrize("glob", ["[", "a{", "a}b", "{a,b}" * 18, "\\", "x" * 5_000])
async def test_a_glob_that_is_none_is_told(tree, program, glob) -> None:
    with pytest.raises(ToolError) as refused:
        await found(tree, program, ("held.py", "needle\n"), glob=glob)
    assert refused.value.code == "BAD_PATTERN"


@BOTH
@pytest.mark.parametrize("pattern", ["a{99999999999}", "(" * 3_000, "\ud800", "x" * 200_000, "(?P<x>"])
async def test_a_pattern_that_no_program_can_take_is_told(tree, program, pattern) -> None:
    with pytest.raises(ToolError) as refused:
        await found(tree, program, pattern=pattern)
    assert refused.value.code == "BAD_PATTERN"
    assert len(str(refused.value)) < 1_000


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script plays ripgrep")
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'rg: Permission denied (os error 13)' >&2; exit 2", "Permission denied"),
        ("kill -9 $$", "exit code -9"),
        (None, "cannot be run"),
    ],
)
async def test_a_search_that_failed_is_no_search_that_found_nothing(root, script, words) -> None:
    fake = root.parent / "rg"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755 if script else 0o644)
    with pytest.raises(ToolError, match=words) as refused:
        await found(root, str(fake))
    assert refused.value.code == "SEARCH_FAILED"


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script plays ripgrep")
async def test_what_a_search_found_before_it_failed_is_told_and_that_there_may_be_more(root) -> None:
    fake = root.parent / "rg"
    fake.write_text("#!/bin/sh\nprintf 'a.py\\0002:1:needle = 1\\n'; echo oh >&2; exit 2\n")
    fake.chmod(0o755)
    result = await found(root, str(fake))
    assert (places(result), result.truncated) == (["a.py:2: needle = 1"], True)


@BOTH
async def test_lines_that_nobody_can_read_whole_are_searched_and_neither_kept_nor_counted_often(
    root, program
) -> None:
    for number in range(4):
        (root / f"bundle{number}.min.js").write_text("e" * 750_000 + "needle" + "e" * 750_000 + "\nneedle\n")
    tracemalloc.start()
    try:
        result = await found(root, program, pattern="e+?|needle", glob="*.js")
        around = await found(root, program, pattern="needlee", glob="*.js")
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()
    assert [f"{match.path}:{match.line}" for match in result.matches] == [
        f"bundle{number}.min.js:{line}" for number in range(4) for line in (1, 2)
    ]
    assert all(len(match.text) < 250 for match in (*result.matches, *around.matches))
    assert [match.text for match in around.matches] == ["…" + "e" * 60 + "needle" + "e" * 174 + "…"] * 4


@BOTH
async def test_a_folder_that_is_not_there_is_told(tree, program) -> None:
    with pytest.raises(ToolError) as refused:
        await found(tree, program, path="nowhere")
    assert refused.value.code == "NOT_FOUND"


async def test_a_pattern_that_takes_for_ever_takes_no_more_than_its_process(root) -> None:
    (root / "slow.txt").write_text("a" * 40 + "!\n")
    started = time.monotonic()
    with pytest.raises(ToolError) as refused:
        await found(
            root, None, ("held.txt", "a" * 40 + "!\n"), pattern="(a+)+$", glob="{slow,held}.txt", timeout_s=0.3
        )
    assert refused.value.code == "TIMEOUT"
    assert time.monotonic() - started < 10


@BOTH
async def test_a_cancel_as_soon_as_a_program_runs_leaves_none_behind(root, program) -> None:
    (root / "slow.txt").write_text("needle\n" * 1_000_000)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(found, root, program, limit=10_000_000))
        with anyio.fail_after(10):
            while not any(map(is_search, children())):
                await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    gc.collect()  # a program that is forgotten warns here, which fails the test
    assert not any(map(is_search, children()))
    with anyio.fail_after(5):  # git is asked in a thread, which looks now and then whether anybody waits
        while children():
            await anyio.lowlevel.checkpoint()


HELD_BY = """
import anyio, pathlib, sys
from dsh_lsp.workspace.port import Query
from dsh_lsp.workspace.search import search
root = pathlib.Path(sys.argv[1])
anyio.run(lambda: search(root, root, Query(pattern="(a+)+$"), [], program=None))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it ends after its time")
def test_a_search_ends_with_a_server_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "slow.txt").write_text("a" * 60 + "!\n")
    server = subprocess.Popen([sys.executable, "-c", HELD_BY, str(tmp_path)])
    try:
        pid = within_5_s(lambda: next(iter(searches_of(server.pid)), None))
    finally:
        server.kill()
        server.wait()
    within_5_s(lambda: not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text())


def test_a_search_that_nobody_ends_ends_after_its_time(tmp_path: Path) -> None:
    (tmp_path / "slow.txt").write_text("a" * 60 + "!\n")
    task = {"pattern": "(a+)+$", "ignoreCase": False, "fixed": False, "folder": str(tmp_path), "paths": ["slow.txt"]}
    given = json.dumps({**task, "texts": {}, "limit": 9, "timeoutS": 0.5, "parent": os.getpid()}).encode()
    script = Path(module.__file__).with_name("grep.py")
    done = subprocess.run([sys.executable, "-I", "-S", str(script)], input=given, timeout=10, check=False)
    assert done.returncode == 1


def within_5_s(look):
    ends = time.monotonic() + 5
    while not (found := look()):
        assert time.monotonic() < ends
        time.sleep(0.02)
    return found


def searches_of(parent: int) -> list[int]:
    """The searches that a process has started and that are at work."""
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(pid) for pid in found if b"grep.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def children() -> list[str]:
    """The command lines of what this process has started and that is at work; of a fork they are its own."""
    rows = []
    for number in {number for task in Path("/proc/self/task").iterdir() for number in started_by(task)}:
        try:
            rows.append(Path(f"/proc/{number}/cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return list(filter(None, rows))  # a program that has ended has none


def is_search(command_line: str) -> bool:
    """Whether a program is one of those that search."""
    return "grep.py" in command_line or Path(command_line.split(maxsplit=1)[0]).name == "rg"


def started_by(task: Path) -> list[str]:
    try:
        return (task / "children").read_text().split()
    except OSError:  # the thread has ended meanwhile
        return []


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script plays ripgrep")
@pytest.mark.parametrize(("end", "ended"), [("sleep 0.01; touch ended", True), ("exec sleep 60", False)])
async def test_a_program_that_has_printed_all_ends_by_itself_and_is_killed_if_it_does_not(root, end, ended) -> None:
    fake = root.parent / "rg"
    fake.write_text(f"#!/bin/sh\nexec >&- 2>&-\n{end}\n")
    fake.chmod(0o755)
    assert places(await found(root, str(fake))) == []
    assert (root / "ended").exists() == ended


def test_the_worker_needs_no_package_of_ours() -> None:
    script = Path(module.__file__).with_name("grep.py")
    query = {"pattern": "x", "ignoreCase": False, "fixed": True, "folder": ".", "paths": [], "texts": {"a": "x"}}
    task = json.dumps({**query, "limit": 9, "timeoutS": 9, "parent": os.getpid()}).encode()
    done = subprocess.run([sys.executable, "-I", "-S", str(script)], input=task, capture_output=True, check=True)
    assert done.stdout == b'{"path": "a", "line": 1, "text": "x"}\n'
