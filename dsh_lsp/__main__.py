"""Command line: `dsh-lsp serve` for editors, `dsh-lsp demo` for people."""

from __future__ import annotations

import argparse
import os
import sys

from dsh_lsp import __version__


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit code."""
    parser = argparse.ArgumentParser(prog="dsh-lsp", description="A coding agent that lives in your editor.")
    parser.add_argument("--version", action="version", version=f"dsh-lsp {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve = commands.add_parser("serve", help="talk LSP on standard input and output; an editor starts this")
    serve.add_argument("--log-file", metavar="PATH", help="write the log here instead of standard error")
    serve.add_argument("--stdio", action="store_true", help=argparse.SUPPRESS)  # VS Code's client adds it
    demo = commands.add_parser("demo", help="watch the agent mend a failing test; needs no key and no network")
    demo.add_argument("--reject", action="store_true", help="decline the edit that the demo proposes")
    demo.add_argument("--fast", action="store_true", help="do not pause for the reader")
    demo.add_argument("--lie", action="store_true", help=argparse.SUPPRESS)  # an editor that claims and does nothing
    options = parser.parse_args(arguments)
    if options.command == "serve":
        return _serve(options.log_file)
    from dsh_lsp.lsp.demo import run_demo

    return run_demo(rejects=options.reject, fast=options.fast, lies=options.lie)


def _serve(log_file: str | None) -> int:
    from dsh_lsp.lsp.transport import claim_descriptors

    descriptors = claim_descriptors()  # before anything can print into the protocol
    from dsh_lsp.lsp.log_file import start_logging

    start_logging(log_file, level=os.environ.get("DSH_LOG_LEVEL", "WARNING"))
    from dsh_lsp.lsp.lifetime import run
    from dsh_lsp.lsp.server import build_server

    run(build_server(), descriptors)


if __name__ == "__main__":
    sys.exit(main())
