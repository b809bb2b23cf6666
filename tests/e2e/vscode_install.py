"""VS Code install: the real workbench (code-server) and a Node.js for it, put once into a cache outside the project.

`python -m tests.e2e.vscode_install` installs and says where. Chromium, compilers and the Kerberos headers come from
the system's packages (`.ci/run`): `SYSTEM_PACKAGES`.

Rules: pinned versions; installed beside and moved into place, so that a broken install is never taken for a whole
one; one installer at a time; nothing is skipped: what is missing is an error that says what to do.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "editor-clients" / "vscode"
CACHE = Path(os.environ.get("DSH_TEST_CACHE", Path.home() / ".cache" / "dsh-lsp-tests"))
NODE = "24.21.0"  # code-server 4.139 wants Node 24; the npm package holds the headers that node-gyp needs, too
CODE_SERVER = "4.139.1"
MACHINES = {"x86_64": "x64", "aarch64": "arm64"}
SYSTEM_PACKAGES = ("chromium", "fonts-dejavu-core", "libkrb5-dev", "pkg-config", "g++", "make")
INSTALL_S = 900.0
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


class MissingError(Exception):
    """Something that must be installed on the system is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What the harness runs."""

    node: Path
    code_server: Path
    chromium: Path

    @property
    def env(self) -> dict[str, str]:
        """The environment with this Node.js first."""
        return node_env(self.node.parent)


def node_env(bin_folder: Path) -> dict[str, str]:
    """An environment in which npm uses one Node.js and builds native modules with that one's headers."""
    return os.environ | {
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "npm_config_nodedir": str(bin_folder.parent),
        "PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD": "1",
        "ELECTRON_SKIP_BINARY_DOWNLOAD": "1",
        "JOBS": "2",
    }


def install() -> Installation:
    """Install what is not there yet; quick if all is.

    Raises:
        MissingError: npm or Chromium is missing.
        subprocess.CalledProcessError: an install failed; its output has been shown.
    """
    if shutil.which("npm") is None:
        raise MissingError("npm is missing: install Node.js 20 or newer with npm")
    chromium = _chromium()
    if chromium is None:
        raise MissingError(f"Chromium is missing: apt-get install {' '.join(SYSTEM_PACKAGES)}")
    with _alone():
        node = _install_node() / "bin"
        code_server = _npm_install(f"code-server-{CODE_SERVER}", f"code-server@{CODE_SERVER}", node_env(node))
    entry = code_server / "node_modules" / "code-server" / "out" / "node" / "entry.js"
    return Installation(node=node / "node", code_server=entry, chromium=Path(chromium))


def _chromium() -> str | None:
    return next((found for name in CHROMIUM if (found := shutil.which(name))), None)


def _install_node() -> Path:
    """Install the distribution that the npm package `node` would choose; it has the headers beside the program."""
    package = f"node-{sys.platform}-{MACHINES.get(platform.machine(), platform.machine())}"
    return _npm_install(f"node-{NODE}", f"{package}@{NODE}", os.environ) / "node_modules" / package


def _npm_install(name: str, package: str, env: Mapping[str, str]) -> Path:
    """Install one npm package with its dependencies into a folder of the cache."""
    folder = CACHE / name
    if folder.exists():
        return folder
    partial = CACHE / f"{name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    (partial / "package.json").write_text("{}")
    print(f"installing {package} into {folder}", file=sys.stderr, flush=True)
    run(["npm", "install", package, "--no-audit", "--no-fund", "--foreground-scripts"], cwd=partial, env=env)
    partial.rename(folder)
    return folder


@contextmanager
def _alone() -> Iterator[None]:
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run(command: list[str], *, cwd: Path, env: Mapping[str, str], timeout_s: float = INSTALL_S) -> str:
    """Run a command to its end; its output is shown only if it fails."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        timeout=timeout_s,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode != 0:
        print(done.stdout[-8_000:], file=sys.stderr)
        raise subprocess.CalledProcessError(done.returncode, command)
    return done.stdout


def client_env() -> Mapping[str, str]:
    """The environment that the client's sources are built in, with a Node.js of its own first.

    Raises:
        MissingError: npm is missing.
    """
    if shutil.which("npm") is None:
        raise MissingError("npm is missing: install Node.js 20 or newer with npm")
    with _alone():
        return node_env(_install_node() / "bin")


def install_client_tools(env: Mapping[str, str]) -> None:
    """Install what the client's sources are built with, unless what is there matches the lock file."""
    lock, stamp = CLIENT / "package-lock.json", CLIENT / "node_modules" / ".installed-lock"
    with _alone():
        if stamp.exists() and stamp.read_bytes() == lock.read_bytes():
            return
        run(["npm", "ci", "--no-audit", "--no-fund"], cwd=CLIENT, env=env)
        stamp.write_bytes(lock.read_bytes())


def missing_from_the_system() -> list[str]:
    """What the system's packages must bring and did not."""
    tools = [name for name in ("npm", "g++", "make", "pkg-config") if shutil.which(name) is None]
    headers = [] if Path("/usr/include/gssapi/gssapi.h").exists() else ["gssapi/gssapi.h"]
    return tools + headers + ([] if _chromium() else ["chromium"])


def main() -> int:
    """Install, or say what is missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.vscode_install", description=__doc__)
    parser.add_argument("--system-packages", action="store_true", help="print the Debian packages that are needed")
    parser.add_argument("--check-client", action="store_true", help="style, types, tests and bundle of the client")
    parser.add_argument("--check-system", action="store_true", help="fail if they are not all there")
    options = parser.parse_args()
    if options.system_packages:
        print(" ".join(SYSTEM_PACKAGES))
    elif options.check_system:
        missing = missing_from_the_system()
        print(f"missing: {', '.join(missing)}" if missing else "all there")
        return 1 if missing else 0
    elif options.check_client:
        env = client_env()
        install_client_tools(env)
        return subprocess.run(["npm", "run", "check"], cwd=CLIENT, env=env, check=False).returncode
    else:
        installation = install()
        install_client_tools(installation.env)
        print(installation)
    return 0


if __name__ == "__main__":
    sys.exit(main())
