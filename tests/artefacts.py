"""Artefacts: what is given to users, in one folder: wheel, sdist, the VS Code extension and the Neovim plugin.

`python -m tests.artefacts` makes all in `dist/`; `wheel`, `sdist`, `vscode` or `nvim` after it make only these.
The extension needs npm; Node.js comes from a cache outside the project.

Rules: every name carries the version of `dsh_lsp/__init__.py`; nothing that git ignores gets in.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

from dsh_lsp import __version__

ROOT = Path(__file__).parents[1]
CLIENTS = ROOT / "editor-clients"


def make_wheel(folder: Path) -> Path:
    """The server, for pip."""
    return _built(folder, "wheel", f"dsh_lsp-{__version__}-py3-none-any.whl")


def make_sdist(folder: Path) -> Path:
    """All sources, tests and clients included."""
    return _built(folder, "sdist", f"dsh_lsp-{__version__}.tar.gz")


def _built(folder: Path, kind: str, name: str) -> Path:
    subprocess.run([sys.executable, "-m", "build", f"--{kind}", "--outdir", folder, ROOT], check=True)
    return folder / name


def make_nvim(folder: Path) -> Path:
    """The Neovim plugin, to be unpacked below `pack/*/start` of a site folder."""
    archive = folder / f"dsh.nvim-{__version__}.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(ROOT / "LICENSE", "dsh.nvim/LICENSE")
        for path in sorted((CLIENTS / "nvim").rglob("*")):
            if path.is_file() and path.name != "tags":  # `:helptags` makes them where the plugin is installed
                tar.add(path, f"dsh.nvim/{path.relative_to(CLIENTS / 'nvim')}")
    return archive


def make_vscode(folder: Path) -> Path:
    """The VS Code extension, with the server's wheel in it."""
    from tests.e2e.vscode_install import client_env, install_client_tools

    env = client_env()
    install_client_tools(env)
    out = folder / f"dsh-lsp-{__version__}.vsix"
    command = ["npm", "run", "--silent", "package", "--", str(out)]
    subprocess.run(command, cwd=CLIENTS / "vscode", env={**os.environ, **env, "PYTHON": sys.executable}, check=True)
    return out


MAKERS: Mapping[str, Callable[[Path], Path]] = {
    "wheel": make_wheel,
    "sdist": make_sdist,
    "nvim": make_nvim,
    "vscode": make_vscode,
}


def main() -> int:
    """Make what is named, or all; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.artefacts", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MAKERS))
    parser.add_argument("--into", type=Path, default=ROOT / "dist", help="the folder (default: dist)")
    options = parser.parse_args()
    if unknown := set(options.names) - set(MAKERS):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(MAKERS)}")
    names = options.names or list(MAKERS)
    if "vscode" in names and shutil.which("npm") is None:
        parser.error("the VS Code extension needs npm (Node.js 20 or newer); `wheel sdist nvim` do without")
    folder = options.into.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    made = [MAKERS[name](folder) for name in names]
    for path in made:
        sys.stdout.write(f"{path}  ({path.stat().st_size / 1000:.0f} kB)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
