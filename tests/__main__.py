"""The checks: `python -m tests` needs nothing but Python and git; `--all` adds what takes long or must be installed.

Each check is one row of a table; all of them run, what did not is named, and the exit code is 1 if one failed. A test
of a real editor, whose clock is not ours, is tried once more when it fails; if it passes then, the summary names it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parent.parent
IN_CI = os.environ.get("CI") == "true"  # where an editor that is not there is a failure
PYTEST = ("-m", "pytest", "-q")
SHARED = ("--dist", "worksteal")  # for thousands of short tests, and some long ones
NEOVIM_CLIENT = tuple(
    f"tests/e2e/test_neovim_{name}.py"
    for name in (
        "calm",
        "chat",
        "decisions",
        "edits",
        "folders",
        "generated",
        "install",
        "landing",
        "language",
        "languages",
        "life",
        "line_ends",
        "order",
        "review",
        "terminal",
        "windows",
    )
)
EMACS = tuple(f"tests/e2e/test_{name}.py" for name in ("emacs", "emacs_generated", "eglot", "lsp_mode"))
FLOOD, SOAK = "tests/protocol/test_host_flood.py", "tests/protocol/test_soak.py"
VSCODE = tuple(
    f"tests/e2e/test_vscode_{name}.py"
    for name in ("chat", "decisions", "focus", "review", "palette", "life", "setup", "folders", "generated")
)


def _in_memory() -> tuple[tuple[str, str], ...]:
    """Have temporary files kept in memory, where the system has room for that: thousands of tests make some."""
    folder = Path("/dev/shm")
    if not (sys.platform == "linux" and os.access(folder, os.W_OK | os.X_OK)):
        return ()
    system = os.statvfs(folder)
    fits = system.f_bavail * system.f_frsize > 1 << 30 and not system.f_flag & os.ST_NOEXEC
    return (("TMPDIR", str(folder)),) if fits else ()


IN_MEMORY = _in_memory()
TESTS_FAILED = 1  # pytest's exit code for that, and for nothing worse
MAX_RETRIED = 2  # more failures in one check are no chance
BY_HAND = "tests/local (a real small model; run by hand, the file says how)"


@dataclass(frozen=True)
class Check:
    """One command; `long` ones run with `--all` only, and outside of CI only where their program is installed.

    One that `drives_editor` may have a test or two that pass at a second try only.
    """

    name: str
    arguments: tuple[str, ...]
    long: bool = False
    needs: str = sys.executable
    env: tuple[tuple[str, str], ...] = ()
    drives_editor: bool = False


@dataclass(frozen=True)
class Result:
    """How a check ended, the seconds that it took, and the tests that passed at their second try only."""

    check: Check
    code: int
    seconds: float
    flaky: tuple[str, ...] = ()

    def __str__(self) -> str:
        outcome = "FAILED" if self.code else "flaky " if self.flaky else "ok    "
        line = f"{outcome}  {self.check.name}  ({self.seconds:.0f} s)\n"
        return line + "".join(f"        passed at the second try only: {test}\n" for test in self.flaky)


CHECKS = (
    Check("style", ("-m", "ruff", "check", ".")),
    Check("format", ("-m", "ruff", "format", "--check", ".")),
    Check("types", ("-m", "mypy")),
    Check("floors", ("-c", "from importlinter.cli import lint_imports_command; lint_imports_command()")),
    Check(
        "unit",
        (*PYTEST, "-n", "3", *SHARED, "tests/unit", "tests/contract"),
        env=IN_MEMORY,
    ),
    Check("architecture", (*PYTEST, "tests/architecture"), env=IN_MEMORY),
    Check(
        "protocol",
        (*PYTEST, "-n", "4", *SHARED, "tests/protocol", "--ignore", FLOOD, "--ignore", SOAK),
        env=IN_MEMORY,
    ),
    Check("flood", (*PYTEST, FLOOD)),  # alone, since it measures
    Check("soak", (*PYTEST, "-s", SOAK), long=True),
    Check("lua", ("-m", "tests.lua"), long=True, needs="luacheck"),
    Check(
        "neovim",
        (*PYTEST, *(f"tests/e2e/test_neovim{name}.py" for name in ("", "_files", "_page", "_session"))),
        drives_editor=True,
    ),
    Check("packages", (*PYTEST, "--timeout", "900", "tests/e2e/test_packages.py"), long=True),
    Check("neovim client", (*PYTEST, "-n", "2", *NEOVIM_CLIENT), long=True, drives_editor=True),
    Check(  # alone, since it measures
        "neovim flood",
        (*PYTEST, "tests/e2e/test_neovim_flood.py"),
        long=True,
        drives_editor=True,
    ),
    Check(
        "emacs",
        (*PYTEST, "-n", "2", "--timeout", "180", *EMACS),
        long=True,
        needs="emacs",
        drives_editor=True,
    ),
    Check("vscode sources", ("-m", "tests.e2e.vscode_install", "--check-client"), long=True, needs="npm"),
    Check("vscode", (*PYTEST, *VSCODE), long=True, needs="npm", drives_editor=True),
    Check(
        "editors in turn",
        (*PYTEST, "tests/e2e/test_editors_in_turn.py"),
        long=True,
        needs="npm",
        drives_editor=True,
    ),
    Check(
        "vscode stock",
        (*PYTEST, "tests/e2e/test_vscode_stock.py"),
        long=True,
        needs="npm",
        drives_editor=True,
    ),
    Check(
        "long properties",
        (*PYTEST, "tests/unit", "tests/contract", "tests/protocol/test_fuzz.py", "--timeout", "900", "-n", "2"),
        long=True,
        env=(("HYPOTHESIS_PROFILE", "long"),),
    ),
    Check("mutants", ("-m", "tests.contract.run_mutants"), long=True),
)


def main() -> int:
    """Run the checks and say what ran, what did not, and what failed."""
    parser = argparse.ArgumentParser(prog="python -m tests", description=__doc__)
    parser.add_argument("--all", action="store_true", help="also run what takes long")
    parser.add_argument("names", nargs="*", help="run these checks only: " + ", ".join(c.name for c in CHECKS))
    options = parser.parse_args()
    unknown = set(options.names) - {check.name for check in CHECKS}
    if unknown:
        parser.error(f"there is no check called {', '.join(sorted(unknown))}")
    chosen = [c for c in CHECKS if (c.name in options.names if options.names else options.all or not c.long)]
    missing = {c: f" ({c.needs} is not installed)" for c in chosen if not (IN_CI or shutil.which(c.needs))}
    chosen = [check for check in chosen if check not in missing]
    results = [run(check) for check in chosen]
    sys.stdout.write("\n" + "".join(map(str, results)))
    left_out = [check for check in CHECKS if check not in chosen]
    sys.stdout.write(f"in all {sum(result.seconds for result in results):.0f} s\n")
    not_run = [*(c.name + missing.get(c, "") for c in left_out), BY_HAND]
    sys.stdout.write(f"not run: {', '.join(not_run)}\n")
    if any(check.long and check not in missing for check in left_out) and not options.names:
        sys.stdout.write("`python -m tests --all` runs those that nothing is missing for\n")
    return 1 if any(result.code for result in results) else 0


def run(check: Check, root: Path = ROOT) -> Result:
    """Run a check, and those of its tests that an editor's clock may have failed once more."""
    started = time.monotonic()
    with TemporaryDirectory() as kept:  # what pytest keeps of this run, and of no other
        arguments = (*check.arguments, "-o", f"cache_dir={kept}") if check.drives_editor else check.arguments
        code = _command(check, arguments, root)
        failed = _failed_tests(Path(kept)) if code == TESTS_FAILED else []
        if 0 < len(failed) <= MAX_RETRIED:
            code = _command(check, (*arguments, "--last-failed"), root)
    return Result(check, code, time.monotonic() - started, () if code else tuple(failed))


def _command(check: Check, arguments: tuple[str, ...], root: Path) -> int:
    sys.stdout.write(f"\n== {check.name}: python {' '.join(arguments)}\n")
    sys.stdout.flush()
    env = {**os.environ, **dict(check.env)}
    return subprocess.run([sys.executable, *arguments], cwd=root, env=env, check=False).returncode


def _failed_tests(cache: Path) -> list[str]:
    """The tests that failed, as pytest keeps them."""
    kept = cache / "v/cache/lastfailed"
    failed: list[str] = sorted(json.loads(kept.read_text())) if kept.exists() else []
    return failed


if __name__ == "__main__":
    sys.exit(main())
