"""Shell permission: which commands a person is asked for, and what they are told."""

from __future__ import annotations

import sys

import anyio
import anyio.to_thread
import pytest

from dsh_lsp.decisions import Allowed, ApprovalAsked, Refused
from dsh_lsp.llm.scripted import call, say
from dsh_lsp.plugins import approval
from dsh_lsp.plugins.tools.write_file import WriteFile
from dsh_lsp.shell.rules import CommandRules, ShellSettings
from tests.support.headless_tools import answers, with_plugins
from tests.support.shell_bench import Here

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no commands on Windows yet")


async def asked_for(here: Here, command: str, *, mode="ask", answer=None):
    """What a person is asked for a command, and the result."""
    seen: list[ApprovalAsked] = []

    async def person(request, call_next):
        seen.append(request.asked)
        return answer or Refused(kind="rejected")

    async with with_plugins([call("shell", command=command), say("ok")], mode=mode) as w:
        w.context.get(CommandRules).settings = here.settings
        w.context.mount(approval, None)
        w.h.registry.register(here.shell(w.h))
        w.h.agent.hooks.tools.approval.listen(person)
        w.h.agent.followup(w.h.say("go"))
        with anyio.fail_after(10):
            await w.h.agent.when_idle()
        return seen, answers(w.h)[0]


async def test_a_rule_of_the_users_answers_and_all_else_is_asked_for(here: Here) -> None:
    here.settings = ShellSettings(allow=("echo *",))
    asked, text = await asked_for(here, "echo yes")
    assert (asked, text) == ([], "yes\n[exit code 0]")
    asked, text = await asked_for(here, "echo yes; touch x\u202e")
    assert [effect.detail for effect in asked[0].effects] == ["echo yes; touch x\\u202e"]
    assert "the user rejected" in text
    assert not list(here.root.glob("x*"))


@pytest.mark.parametrize("mode", ["read-only", "plan"])
async def test_no_rule_runs_a_command_where_nothing_may_run(here: Here, mode) -> None:
    here.settings = ShellSettings(allow=("echo *",))
    asked, text = await asked_for(here, "echo yes", mode=mode)
    assert asked == []
    assert f"in {mode} mode" in text


async def test_who_allows_it_is_told_what_the_command_will_not_see(here: Here) -> None:
    here.open = {"a.txt": "one\n", "b.txt": "unsaved\n"}
    asked, text = await asked_for(here, "cat b.txt", answer=Allowed(kind="allowedOnce"))
    assert asked[0].unsaved == ((here.root / "b.txt").as_uri(),)
    assert "did not see the unsaved text of: b.txt" in text


def test_in_auto_edit_an_agent_that_writes_settings_is_asked_and_gains_nothing(here: Here) -> None:
    asked: list[ApprovalAsked] = []

    async def story() -> None:  # a path is followed in the loop
        async def person(request, call_next):
            asked.append(request.asked)
            return (
                Allowed(kind="allowedOnce") if request.asked.tool_name == "write_file" else Refused(kind="rejected")
            )

        settings = {"path": ".vscode/settings.json", "content": '{"dsh.shell.allow": ["touch *"]}'}
        script = [call("write_file", **settings), call("shell", command="touch x"), say("ok")]
        async with with_plugins(script, mode="auto-edit") as w:
            w.context.mount(approval, None)
            shell = here.shell(w.h)
            w.h.registry.register(shell)
            w.h.registry.register(WriteFile(shell._workspace))
            w.h.agent.hooks.tools.approval.listen(person)
            w.h.agent.followup(w.h.say("go"))
            with anyio.fail_after(10):
                await w.h.agent.when_idle()

    anyio.run(story)
    assert (here.root / ".vscode" / "settings.json").exists()
    kinds = [[effect.kind for effect in one.effects] for one in asked]
    assert kinds == [["rights"], ["command"]]
    assert not (here.root / "x").exists()


async def test_commands_do_not_overlap(here: Here) -> None:
    script = [
        call("shell", id="a", command="sleep 0.2; echo a >> log") + call("shell", id="b", command="echo b >> log")
    ]
    async with with_plugins([*script, say("ok")]) as w:
        w.h.registry.register(here.shell(w.h))
        w.h.agent.followup(w.h.say("go"))
        with anyio.fail_after(10):
            await w.h.agent.when_idle()
    assert (here.root / "log").read_text() == "a\nb\n"
