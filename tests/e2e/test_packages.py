"""Packages: what `python -m build` makes can be installed in an empty environment, and runs there."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest

from dsh_lsp import __version__
from tests import artefacts

INSTALL_S = 240
RUN_S = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dist")


@pytest.fixture(scope="module")
def wheel(folder: Path) -> Path:
    return artefacts.make_wheel(folder)


@pytest.fixture(scope="module")
def sdist(folder: Path) -> Path:
    return artefacts.make_sdist(folder)


def run(*command: object, cwd: Path, timeout_s: float = RUN_S) -> str:
    """Run a program as a user who has nothing but a search path and a home."""
    keep = {
        key: value for key, value in os.environ.items() if key.startswith("PIP_") or key in ("PATH", "SSL_CERT_FILE")
    }
    env = {**keep, "HOME": str(cwd), "LANG": "C.UTF-8"}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=env,
        text=True,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("package", ["wheel", "sdist"])
def test_it_installs_in_an_empty_environment_and_runs(package: str, request, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    programs = tmp_path / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
    run(
        programs / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        request.getfixturevalue(package),
        cwd=tmp_path,
        timeout_s=INSTALL_S,
    )
    assert run(programs / "dsh-lsp", "--version", cwd=tmp_path) == f"dsh-lsp {__version__}\n"
    assert "says the edit landed" in run(programs / "dsh-lsp", "demo", "--fast", cwd=tmp_path)


def test_the_sdist_holds_what_the_checks_and_clients_need(sdist: Path) -> None:
    with tarfile.open(sdist) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    for wanted in ("dsh_lsp/__init__.py", "tests/__main__.py", "docs/protocol.md", "requirements.lock", "LICENSE"):
        assert wanted in names
    assert {"editor-clients/nvim/plugin/dsh.lua", "editor-clients/vscode/package-lock.json"} <= names
    assert not [name for name in names if "node_modules" in name or name.endswith((".vsix", ".pyc"))]


def test_the_neovim_plugin_is_one_folder_with_its_help_and_licence(folder: Path) -> None:
    with tarfile.open(artefacts.make_nvim(folder)) as tar:
        names = set(tar.getnames())
    assert {
        "dsh.nvim/plugin/dsh.lua",
        "dsh.nvim/doc/dsh.txt",
        "dsh.nvim/lsp/dsh_lsp.lua",
        "dsh.nvim/LICENSE",
    } <= names
    assert all(name.startswith("dsh.nvim/") for name in names)
