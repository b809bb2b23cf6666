"""Git: a repository that nobody trusts is listed and searched, and runs nothing."""

from __future__ import annotations

import os
import subprocess
from functools import partial
from pathlib import Path

import anyio
import pytest

from dsh_lsp.workspace.git import git as run_git
from dsh_lsp.workspace.git import program
from dsh_lsp.workspace.port import OpenDocument, Query
from dsh_lsp.workspace.ripgrep import ripgrep
from dsh_lsp.workspace.search import search
from dsh_lsp.workspace.walk import ignored, list_folder

REAL = program("git") or "git"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository whose index needs an object that is missing, so that git would fetch it."""
    root = tmp_path / "w"
    (root / "d").mkdir(parents=True)
    (root / "d" / "f.py").write_text("needle\n")
    (root / "g.py").write_text("needle\n")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x")
    git(root, "sparse-checkout", "set", "--cone", "--sparse-index")
    missing = git(root, "rev-parse", "HEAD:d").strip()
    (root / ".git" / "objects" / missing[:2] / missing[2:]).unlink()
    config(root, "core.repositoryFormatVersion", "1")
    config(root, "extensions.partialClone", "evil")
    config(root, "remote.evil.promisor", "true")
    config(root, "protocol.allow", "always")
    (root / "new.py").write_text("needle\n")
    (root / "sub").mkdir()
    git(root / "sub", "init", "-q")
    return root


def git(root: Path, *words: str, check: bool = True) -> str:
    return subprocess.run([REAL, "-C", str(root), *words], capture_output=True, check=check, text=True).stdout


def config(root: Path, name: str, value: str) -> None:
    git(root, "config", name, value)


def script(tmp_path: Path, name: str) -> Path:
    """A program that leaves a trace when it runs."""
    path = tmp_path / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    path.chmod(0o755)
    return path


def look_at(root: Path) -> None:
    """All that we do with a folder before anybody has allowed anything."""
    list_folder(root, root, limit=9)
    ignored(root, root, ["g.py", "d/f.py", "sub/x"])
    held = [OpenDocument(path="g.py", uri="", text="needle\n")]
    for searched_by in (ripgrep(), None):
        look = partial(search, root, root, Query(pattern="needle"), held, program=searched_by)
        assert anyio.run(look).matches


FETCHES = {
    "core.sshCommand": ("ssh://x/y", "{script}"),
    "remote.evil.uploadpack": ("file:///", "{script}"),
    "remote.evil.vcs": ("x", "evil"),
    "remote.evil.url": ("x", "ext::{script}"),
    "core.gitProxy": ("git://x/y", "{script}"),
    "credential.helper": ("http://127.0.0.1:1/", "!{script}"),
}


@pytest.mark.parametrize("name", FETCHES)
def test_a_missing_object_is_not_fetched_by_a_program_that_the_repository_names(
    root: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, value = FETCHES[name]
    config(root, "remote.evil.url", url)
    config(root, name, value.format(script=script(tmp_path, "run")))
    script(tmp_path, "git-remote-evil")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    ran = tmp_path / "ran"
    if name != "credential.helper":  # which needs a server that answers
        git(root, "ls-files", "-co", check=False)
        assert ran.exists(), "git by itself runs it, so this test means something"
        ran.unlink()
    look_at(root)
    assert not ran.exists()


OTHERS = {
    "core.fsmonitor": "{script}",
    "core.hooksPath": "{folder}",
    "core.pager": "{script}",
    "pager.ls-files": "{script}",
    "alias.ls-files": "!{script}",
    "core.alternateRefsCommand": "{script}",
    "filter.evil.clean": "{script}",
    "filter.evil.process": "{script}",
    "diff.external": "{script}",
    "core.editor": "{script}",
    "core.askPass": "{script}",
    "gpg.program": "{script}",
    "submodule.recurse": "true",
}


@pytest.mark.parametrize("place", ["repository", "included", "worktree", "submodule"])
def test_a_repository_runs_nothing_of_its_own_when_it_is_listed(root: Path, tmp_path: Path, place: str) -> None:
    run = script(tmp_path, "run")
    for hook in ("post-index-change", "reference-transaction", "pre-auto-gc", "fsmonitor-watchman"):
        script(tmp_path, hook)
    (root / ".gitattributes").write_text("* filter=evil diff=evil\n")
    file = {
        "repository": root / ".git" / "config",
        "included": tmp_path / "more",
        "worktree": root / ".git" / "config.worktree",
        "submodule": root / "sub" / ".git" / "config",
    }[place]
    for name, value in OTHERS.items():
        git(root, "config", "--file", str(file), name, value.format(script=run, folder=run.parent))
    if place == "included":
        config(root, f"includeIf.gitdir:{root}/.path", str(file))
    config(root, "extensions.worktreeConfig", "true")
    look_at(root)
    assert not (tmp_path / "ran").exists()


def test_a_folder_that_looks_like_the_inside_of_a_repository_is_none(root: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    (root / ".git").rename(bare)
    (bare / "x.py").write_text("needle\n")
    config(bare, "core.bare", "false")
    config(bare, "core.worktree", str(bare))
    config(bare, "core.fsmonitor", str(script(tmp_path, "run")))
    assert "x.py" in [entry.path for entry in list_folder(bare, bare, limit=99).entries]
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(os.name == "nt", reason="a script plays git")
def test_no_program_is_taken_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path, "git")
    monkeypatch.chdir(tmp_path / "bin")
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.pathsep}{os.environ['PATH']}")
    assert program("git") == REAL
    monkeypatch.setenv("PATH", ".")
    assert program("git") is None


def test_a_git_that_takes_its_time_is_given_all_of_its_input_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "git"
    slow.write_text("#!/bin/sh\nsleep 0.3; cat; sleep 0.3\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    given = "path\0" * 50_000  # more than a pipe holds
    assert run_git(tmp_path, "check-ignore", given=given) == (0, given.encode())
