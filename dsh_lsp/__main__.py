"""Command line: `dsh-lsp serve` for editors, `run` for terminals and scripts, `show` and `demo` for people."""

from __future__ import annotations

import argparse
import gc
import sys
from pathlib import Path

from dsh_lsp import __version__

GARBAGE_AFTER = 20_000  # new objects; a start makes 200,000 that stay, and Python would look through them 200 times
PROVIDERS = "deepseek, openai_compatible, anthropic or demo: a script (default: deepseek)"


def build_parser() -> argparse.ArgumentParser:
    """The command line: what there is, and what it says of itself."""
    parser = argparse.ArgumentParser(prog="dsh-lsp", description="A coding agent that lives in your editor.")
    parser.epilog = "`dsh-lsp COMMAND --help` says more. Without a key, begin with `dsh-lsp demo`."
    parser.add_argument("--version", action="version", version=f"dsh-lsp {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve = commands.add_parser("serve", help="talk LSP on standard input and output; an editor starts this")
    serve.add_argument(
        "--log-file",
        metavar="PATH",
        help="write the log here alone (default: a file in your state directory, and standard error)",
    )
    serve.add_argument("--stdio", action="store_true", help=argparse.SUPPRESS)  # VS Code's client adds it
    _describe_run(commands.add_parser("run", help="do what one prompt says in a directory, without an editor"))
    _describe_show(commands.add_parser("show", help="print a stored session as an editor or as the model sees it"))
    _describe_sessions(commands.add_parser("sessions", help="list the stored sessions, newest first"))
    _describe_doctor(commands.add_parser("doctor", help="check all that a session needs, and say what is missing"))
    demo = commands.add_parser("demo", help="watch the agent mend a failing test; needs no key and no network")
    demo.add_argument("--reject", action="store_true", help="decline the edit that the demo proposes")
    demo.add_argument("--fast", action="store_true", help="do not pause for the reader")
    demo.add_argument("--lie", action="store_true", help=argparse.SUPPRESS)  # an editor that claims and does nothing
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit code."""
    gc.set_threshold(GARBAGE_AFTER, *gc.get_threshold()[1:])
    options = build_parser().parse_args(arguments)
    if options.command == "serve":
        return _serve(options.log_file)
    if options.command == "run":
        return _run(options)
    if options.command == "show":
        from dsh_lsp.show import show_session

        return show_session(options.session, shown_as=options.shown_as, sessions=options.sessions)
    if options.command == "sessions":
        from dsh_lsp.listing import list_sessions

        return list_sessions(root=Path() if options.here else None, as_json=options.json, sessions=options.sessions)
    if options.command == "doctor":
        from dsh_lsp.doctor import run_doctor

        return run_doctor(settings=options.settings, provider=options.provider, model=options.model)
    from dsh_lsp.lsp.demo import run_demo

    return run_demo(rejects=options.reject, fast=options.fast, lies=options.lie)


def _describe_run(run: argparse.ArgumentParser) -> None:
    run.description = (
        "Run one prompt in a directory, without an editor. Each edit is shown and asked for: y accepts it, n rejects "
        "it (n and a few words tell the model why), a accepts it and all that follow, q rejects it and all that "
        "follow. The end of input rejects."
    )
    run.epilog = "Exit codes: 0 completed, 1 failed, 2 wrong usage, 130 interrupted (Ctrl-C cancels the turn)."
    run.add_argument("prompt", metavar="PROMPT", help="what to do")
    run.add_argument("--directory", metavar="DIR", type=Path, default=Path(), help="the workspace (default: here)")
    run.add_argument(
        "--yes", action="store_true", help="accept all edits; commands and the like are still asked for at a terminal"
    )
    run.add_argument(
        "--json", action="store_true", help="print the session's events, a JSON row each, and nothing else"
    )
    run.add_argument(
        "--model", metavar="NAME", help="the model (default for deepseek: deepseek-flash; other servers need one)"
    )
    run.add_argument("--provider", metavar="P", help=PROVIDERS)
    run.add_argument("--mode", metavar="M", help="ask, auto-edit, read-only or plan (default: ask)")
    run.add_argument("--settings", metavar="FILE", type=Path, help="settings as JSON, as an editor gives them")
    _add_sessions(run)


def _describe_show(show: argparse.ArgumentParser) -> None:
    show.description = "Print a stored session, as an editor shows it unless another form is asked for."
    show.add_argument("session", metavar="SESSION", help="an id, the beginning of one, the path of a log, or `last`")
    form = show.add_mutually_exclusive_group()
    form.add_argument(
        "--model",
        dest="shown_as",
        action="store_const",
        const="model",
        default="editor",
        help="what the model sees: the header of its requests, and the messages",
    )
    form.add_argument(
        "--json", dest="shown_as", action="store_const", const="json", help="what an editor shows, as one JSON value"
    )
    _add_sessions(show)


def _describe_sessions(sessions: argparse.ArgumentParser) -> None:
    sessions.description = "List the stored sessions, newest first; `dsh-lsp show` prints one."
    sessions.add_argument("--here", action="store_true", help="only those of this directory")
    sessions.add_argument("--json", action="store_true", help="print each as a JSON object")
    _add_sessions(sessions)


def _describe_doctor(doctor: argparse.ArgumentParser) -> None:
    doctor.description = "Look at everything that a model call needs, and say what to do about what is missing."
    doctor.epilog = "Exit codes: 0 a session could work, 1 something is to be mended, 2 wrong usage."
    doctor.add_argument("--model", metavar="NAME", help="the model to look for")
    doctor.add_argument("--provider", metavar="P", help=PROVIDERS)
    doctor.add_argument("--settings", metavar="FILE", type=Path, help="settings as JSON, as an editor gives them")


def _add_sessions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sessions", metavar="DIR", type=_folder, help="where session logs live (default: in your state directory)"
    )


def _folder(text: str) -> Path:
    """A folder that is there, or may come to be."""
    path = Path(text)
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is not a directory")
    return path


def _run(options: argparse.Namespace) -> int:
    from dsh_lsp.run import RunOptions, run_prompt

    return run_prompt(
        RunOptions(
            prompt=options.prompt,
            directory=options.directory,
            accepts_edits=options.yes,
            as_json=options.json,
            provider=options.provider,
            model=options.model,
            mode=options.mode,
            settings=options.settings,
            sessions=options.sessions,
        )
    )


def _serve(log_file: str | None) -> int:
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write(
            "dsh-lsp serve talks LSP with an editor; for a terminal there is `dsh-lsp run`. Ctrl-D ends this.\n"
        )
    from dsh_lsp.lsp.transport import claim_descriptors

    descriptors = claim_descriptors()  # before anything can print into the protocol
    from dsh_lsp.lsp.log_file import start_logging

    start_logging(log_file)
    from dsh_lsp.lsp.compiled_types import import_types

    import_types()
    from dsh_lsp.lsp.lifetime import run
    from dsh_lsp.lsp.server import build_server

    run(build_server(), descriptors)


if __name__ == "__main__":
    sys.exit(main())
