"""Checks the Lua of the Neovim client: `python -m tests.lua` lints and checks the format, `--fix` formats.

Needs luacheck (Debian: `lua-check`; elsewhere `luarocks install luacheck`), Node.js, and `npm ci` in this folder.
What is missing is a failure: a check that did not run has not passed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SOURCES = ROOT / "editor-clients" / "nvim"


def main() -> int:
    """Run both and say what is missing; 0 if all is well."""
    files = sorted(map(str, (path.relative_to(ROOT) for path in SOURCES.rglob("*.lua"))))
    node, luacheck = shutil.which("node"), shutil.which("luacheck")
    if not luacheck:
        sys.stderr.write("luacheck is missing: apt-get install lua-check\n")
    if not node or not (HERE / "node_modules").is_dir():
        sys.stderr.write(f"stylua is missing: npm ci --prefix {HERE.relative_to(ROOT)}\n")
    if not luacheck or not node or not (HERE / "node_modules").is_dir():
        return 1
    mode = () if "--fix" in sys.argv else ("--check",)
    style = subprocess.run([node, str(HERE / "style.mjs"), *mode, *files], cwd=ROOT, check=False)
    lint = subprocess.run(
        [luacheck, "--quiet", "--config", str(SOURCES / ".luacheckrc"), *files], cwd=ROOT, check=False
    )
    return style.returncode or lint.returncode


if __name__ == "__main__":
    sys.exit(main())
