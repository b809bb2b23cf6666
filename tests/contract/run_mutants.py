"""Runs the mutants: each must be killed by a test of its own lines, or at least by one of the loop.

    python -m tests.contract.run_mutants [part of a name ...]

Exits 1 if a mutant survives or its patch does not apply any more.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATCHES = Path(__file__).parent / "mutants"
KEPT = ("pyproject.toml", "tests", "docs")
WORKERS = 2
PYTEST = (sys.executable, "-B", "-m", "pytest", "-q", "-x", "--timeout", "8", "-p", "no:cacheprovider")
PYTEST += ("-p", "no:xdist", "-p", "no:hypothesispytest")  # they cost more than the tests
GOOD = ("killed", "killed by other lines")


def copy_tree(place: Path) -> None:
    """A tree of its own to patch and to test."""
    skipped = shutil.ignore_patterns("__pycache__", "*.pyc")
    shutil.copytree(ROOT / "dsh_lsp", place / "dsh_lsp", ignore=skipped)
    for name in KEPT:
        (place / name).symlink_to(ROOT / name)


def tests_pass(place: Path, lines: list[str]) -> bool:
    """Whether the loop's tests pass there: those of some lines, or all if none are named.

    Raises:
        RuntimeError: no test names the lines, or nothing could be imported, which proves nothing.
    """
    files = sorted((ROOT / "tests" / "contract").glob("test_*_lines.py"))
    if lines:
        files = [path for path in files if any(f"test_{line.lower()}_" in path.read_text() for line in lines)]
    done = subprocess.run(
        [
            *PYTEST,
            *(["-k", " or ".join(lines)] if lines else []),
            *(f"tests/contract/{path.name}" for path in files),
        ],
        cwd=place,  # it comes first in the search path, so the copy is what is imported
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1) or not files:
        raise RuntimeError(f"the tests of {lines} did not run\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 0


def judge(patch: Path | None) -> str:
    """What became of a mutant; without a patch, of the tree as it is."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as directory:
        place = Path(directory)
        copy_tree(place)
        if patch is None:
            return "passes" if tests_pass(place, []) else "FAILS WITHOUT A MUTANT"
        applied = subprocess.run(["git", "apply", str(patch)], cwd=place, capture_output=True, text=True, check=False)
        if applied.returncode:
            return f"DOES NOT APPLY: {applied.stderr.strip()}"
        try:
            if not tests_pass(place, re.findall(r"L\d{3}", patch.stem)):
                return "killed"
            return "SURVIVED" if tests_pass(place, []) else "killed by other lines"
        except RuntimeError as error:
            return f"DID NOT RUN: {error}"


def main() -> int:
    """Run them all, two at a time, and say what became of each."""
    wanted = sys.argv[1:]
    patches = [
        path for path in sorted(PATCHES.glob("L*.patch")) if not wanted or any(part in path.name for part in wanted)
    ]
    started = time.monotonic()
    baseline = judge(None)
    if baseline != "passes":
        sys.stdout.write(f"{baseline}\n")
        return 1
    with ThreadPoolExecutor(WORKERS) as pool:
        verdicts = list(pool.map(judge, patches))
    for patch, verdict in zip(patches, verdicts, strict=True):
        sys.stdout.write(f"{verdict:24} {patch.stem}\n")
    bad = sum(verdict not in GOOD for verdict in verdicts)
    sys.stdout.write(f"{len(patches)} mutants, {bad} not killed, {time.monotonic() - started:.0f} s\n")
    return 1 if bad or not patches else 0


if __name__ == "__main__":
    sys.exit(main())
