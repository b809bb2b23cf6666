"""Walk: what is listed, what ripgrep searches and what Python searches are the same files."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import DEVNULL

import anyio
import pytest

from dsh_lsp.errors import ToolError
from dsh_lsp.workspace.port import OpenDocument, Query
from dsh_lsp.workspace.ripgrep import ripgrep
from dsh_lsp.workspace.search import search
from dsh_lsp.workspace.walk import left_out, list_folder

TEXT = "needle\n"

# Of a git repository and of a plain folder: what is there (a name with `+` in front is tracked, one with `/` at its
# end a repository), and what of it is shown.
GIT = {
    ".gitignore": ("*.log\nbuild/\n/only\n!.env\nx y.txt\n", True),
    "a.py": (TEXT, True),
    ".env": (TEXT, True),
    "b.log": (TEXT, False),
    "+kept.log": (TEXT, True),
    "build/x.py": (TEXT, False),
    "+build/kept.py": (TEXT, True),
    ".ignore": ("a.txt\nc.txt\n", True),
    "+a.txt": (TEXT, True),
    "c.txt": (TEXT, True),
    ".rgignore": ("a.py\n", True),
    "only": (TEXT, False),
    "d/only": (TEXT, True),
    "d/.gitignore": ("*.tmp\n!keep.tmp\n", True),
    "d/x.tmp": (TEXT, False),
    "d/keep.tmp": (TEXT, True),
    "d/e/f/x.tmp": (TEXT, False),
    "x y.txt": (TEXT, False),
    "odd [1]{a}!#*?\\.txt": (TEXT, True),
    "node_modules/x.js": (TEXT, True),
    "logs/only[1].log": (TEXT, False),
    "inner/": ("", True),
    "inner/.gitignore": ("secret\n", True),
    "inner/secret": (TEXT, False),
    "inner/x.log": (TEXT, True),
    "+module/": ("", True),
    "module/.gitignore": ("secret\n", True),
    "module/secret": (TEXT, False),
    "module/x.log": (TEXT, True),
}
PLAIN = {
    ".gitignore": ("*.log\nbuild/\n!keep.log\nodd*\n", True),
    ".ignore": ("c.txt\n", True),
    ".rgignore": ("a.py\n", True),
    "a.py": (TEXT, True),
    "b.log": (TEXT, False),
    "keep.log": (TEXT, True),
    "build/x.py": (TEXT, False),
    "c.txt": (TEXT, False),
    "d/c.txt": (TEXT, False),
    "d/.gitignore": ("!b.log\n", True),
    "d/b.log": (TEXT, True),
    "node_modules/x.js": (TEXT, False),
    "d/__pycache__/x.pyc": (TEXT, False),
    "odd [1]{a}!#*?\\.txt": (TEXT, False),
    "sub/": ("", True),
    "sub/.gitignore": ("secret\n", True),
    "sub/secret": (TEXT, False),
    "sub/node_modules/x.js": (TEXT, True),
}


def make(root: Path, table: dict[str, tuple[str, bool]], *, git: bool) -> dict[str, str]:
    """Make a tree; the texts of what is to be shown."""
    root.mkdir()
    (root.parent / ".gitignore").write_text("*.py\n")  # nobody asked for what stands above
    (root.parent / ".ignore").write_text("*.py\n")
    if git:
        subprocess.run(["git", "init", "-q", str(root)], check=True)
    for name, (text, _) in table.items():
        path = root / name.removeprefix("+")
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            subprocess.run(["git", "init", "-q", str(path)], check=True)
            commit = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x", "--allow-empty"]
            subprocess.run(["git", "-C", str(path), *commit], check=True)
        else:
            path.write_text(text)
        if name.startswith("+"):
            subprocess.run(["git", "-C", str(root), "add", "-f", "--", str(path)], check=True, stderr=DEVNULL)
    (root / "link.py").symlink_to(root / "b.log")
    shown = {name.removeprefix("+"): text for name, (text, is_shown) in table.items() if is_shown}
    return {name: text for name, text in shown.items() if not name.endswith("/")}


def listed(root: Path, folder: Path) -> set[str]:
    entries = list_folder(root, folder, limit=1_000).entries
    return {entry.path for entry in entries if not (root / entry.path).is_symlink()}


def searched(root: Path, folder: Path, program: str | None, *held: str, glob: str | None = None) -> set[str]:
    path = os.path.relpath(folder, root)
    documents = [OpenDocument(path=name, uri="", text=TEXT) for name in held]
    query = Query(pattern="", path=path, limit=1_000, glob=glob)
    found = anyio.run(partial(search, root, folder, query, documents, program=program))
    return {match.path for match in found.matches}


@dataclass(frozen=True)
class Tree:
    """A tree that nobody changes: what it was made of, where it is, and the texts of what is to be shown."""

    table: dict[str, tuple[str, bool]]
    root: Path
    shown: dict[str, str]


@pytest.fixture(scope="module", params=[(GIT, True), (PLAIN, False)], ids=["git", "plain"])
def tree(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Tree:
    table, git = request.param
    root = tmp_path_factory.mktemp("tree") / "w"
    return Tree(table, root, make(root, table, git=git))


@pytest.fixture(params=["list_files", "ripgrep", "python"])
def files_of(request: pytest.FixtureRequest):
    """The three that look at a folder."""
    program = ripgrep()
    return {
        "list_files": listed,
        "ripgrep": partial(searched, program=program),
        "python": partial(searched, program=None),
    }[request.param]


def test_whoever_looks_sees_the_same_files(tree: Tree, files_of) -> None:
    root, shown = tree.root, tree.shown
    assert files_of(root, root) == set(shown)
    below = {name for name in shown if name.startswith("d/")}
    assert files_of(root, root / "d") == below, "the ignore files above the folder count too"
    assert files_of(root, root / "build") == {name for name in shown if name.startswith("build/")}


@pytest.mark.parametrize("program", [ripgrep(), None], ids=["ripgrep", "python"])
@pytest.mark.parametrize("glob", ["*", "**/*.log", "*.log", "!*.log", "node_modules/**", "*.{js,log}"])
def test_a_glob_brings_nothing_back_that_is_left_out(tree: Tree, program, glob: str) -> None:
    found = searched(tree.root, tree.root, program, glob=glob)
    assert found <= set(tree.shown)
    if glob == "*.log":
        assert found == {name for name in tree.shown if name.endswith(".log")}


@pytest.mark.parametrize("program", [ripgrep(), None], ids=["ripgrep", "python"])
def test_opening_a_file_changes_nothing_of_what_is_searched(tree: Tree, program) -> None:
    names = [
        name.removeprefix("+")
        for name in tree.table
        if not name.startswith(("inner", "module", "+module", "sub")) and name[-1] != "/"
    ]
    assert searched(tree.root, tree.root, program, *names) == set(tree.shown)


def test_git_and_the_ignore_files_alone_leave_out_the_same(tmp_path: Path) -> None:
    files = {name: entry for name, entry in PLAIN.items() if "node_modules" not in name and name[-1] != "/"}
    del files[".ignore"], files["c.txt"], files["d/c.txt"], files["d/__pycache__/x.pyc"]
    root = tmp_path / "w"
    make(root, files, git=False)
    alone = set(left_out(root, root))
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    assert {
        name for name in left_out(root, root) if not any(name.startswith(f) and name != f for f in alone)
    } == alone


@pytest.mark.skipif(os.name == "nt", reason="paths are shorter there")
@pytest.mark.parametrize(
    ("name", "code"),
    [("nowhere", "NOT_FOUND"), ("a.txt", "NOT_FOUND"), ("a.txt/b", "NOT_FOUND"), ("x" * 300, "NOT_READABLE")],
)
def test_what_is_no_folder_and_what_cannot_be_looked_at_are_told_in_words(
    tmp_path: Path, name: str, code: str
) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    with pytest.raises(ToolError) as refused:
        list_folder(tmp_path, tmp_path / name, limit=10)
    assert refused.value.code == code
    assert name in str(refused.value)


def test_folders_in_folders_without_end_are_walked(tmp_path: Path) -> None:
    root = tmp_path / "w"
    descriptor = os.open(tmp_path, os.O_RDONLY)
    os.mkdir("w", dir_fd=descriptor)
    for name in ["w", *["d"] * 1_200]:
        inner = os.open(name, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        os.mkdir("d", dir_fd=inner)
        descriptor = inner
    os.close(os.open("last.py", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    os.close(descriptor)
    try:
        assert [entry.path for entry in list_folder(root, root, limit=9).entries] == ["d/" * 1_200 + "last.py"]
    finally:
        subprocess.run(["rm", "-rf", str(root)], check=True)  # which Python cannot


def test_a_walk_ends_when_nobody_waits_for_it(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"f{number:02}").touch()
    looks = iter([False] * 10)
    assert len(list_folder(tmp_path, tmp_path, limit=1_000, stop=lambda: next(looks, True)).entries) < 10
