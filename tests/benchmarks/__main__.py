"""Run the benchmarks: all, or those that are named."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys

import tests.benchmarks
from tests.benchmarks import Ratio


def main() -> int:
    """Run and print; 1 if a ratio is above its limit."""
    names = sorted(m.name for m in pkgutil.iter_modules(tests.benchmarks.__path__) if not m.name.startswith("_"))
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=tests.benchmarks.__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(names))
    chosen = parser.parse_args().names or names
    if unknown := set(chosen) - set(names):
        parser.error(f"there is no benchmark called {', '.join(sorted(unknown))}")
    broken = 0
    for name in chosen:
        sys.stdout.write(f"{name}\n")
        sys.stdout.flush()
        found: list[Ratio] = importlib.import_module(f"tests.benchmarks.{name}").run()
        for each in found:
            broken += not each.holds
            promise = "" if each.limit is None else f" (limit {each.limit:g}x{'' if each.holds else ': BROKEN'})"
            sys.stdout.write(f"  {each.value:6.2f}x  {each.name}{promise}: {each.detail}\n")
        sys.stdout.flush()
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
