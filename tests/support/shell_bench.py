"""Shell bench: a folder, the shell tool over it, and an agent that runs the commands of a test."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import anyio.to_thread

from dsh_lsp.llm.scripted import call, say
from dsh_lsp.plugins.tools.shell import Shell
from dsh_lsp.secrets import Keys
from dsh_lsp.shell.environment import ChildEnvironment
from dsh_lsp.shell.rules import CommandRules, ShellSettings
from dsh_lsp.workspace.copies import Copies
from dsh_lsp.workspace.files import FileWorkspace, accept_all
from dsh_lsp.workspace.paths import Guarded
from dsh_lsp.workspace.port import OpenDocument
from tests.support.headless_tools import answers, errors, with_plugins

KEY = "sk-canary-0123456789abcdef"


class Here:
    """A workspace with a shell; `open` are documents that an editor holds."""

    def __init__(self, root: Path, **settings: object) -> None:
        self.root = root
        self.open: dict[str, str] = {}
        self.folders: list[Path] = []
        self.environ = {**os.environ, "DEEPSEEK_API_KEY": KEY, "COPY_OF_IT": KEY}
        self.settings = ShellSettings(**settings)

    @property
    def keys(self) -> Keys:
        return Keys({"DEEPSEEK_API_KEY"}, self.environ)

    def shell(self, h) -> Shell:
        workspace = FileWorkspace(
            self.root,
            h.log,
            decide=accept_all,
            new_id=lambda: "id",
            copies=Copies(self.root.parent / "copies"),
            guarded=Guarded(folders=lambda: self.folders),
        )
        workspace.open_documents = lambda: [  # type: ignore[method-assign]
            OpenDocument(path=path, uri=(self.root / path).as_uri(), text=text) for path, text in self.open.items()
        ]
        rules = CommandRules(self.root, self.settings, self.environ)
        return Shell(workspace, rules, ChildEnvironment(self.keys))


async def run(here: Here, *commands: str, **more):
    """The results of some commands."""
    script = [*(call("shell", command=command, **more) for command in commands), say("ok")]
    async with with_plugins(script, parts={"keys": here.keys}) as w:
        w.h.registry.register(here.shell(w.h))
        with anyio.fail_after(20):
            w.h.agent.followup(w.h.say("go"))
            await w.h.agent.when_idle()
        return answers(w.h), errors(w.h)
