"""Approval: which effects of a tool call run, are asked for, or are refused, by the session's mode.

Rules: edits inside the workspace are reviewed hunk by hunk, so `ask` lets them through to their review; nobody is
asked for what somebody denies; a listener that wants to ask too is asked along.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Literal

import anyio.to_thread

from dsh_lsp.agent.hooks import AgentHooks
from dsh_lsp.agent.modes import Modes
from dsh_lsp.agent.prompt import Assembly, Section
from dsh_lsp.decisions import Effect, EffectKind, Mode
from dsh_lsp.plugin import Context
from dsh_lsp.shell.rules import CommandRules
from dsh_lsp.tools.approvals import Approvals
from dsh_lsp.tools.arguments import InvalidArgumentsError, validate
from dsh_lsp.tools.pipeline import Allow, Ask, Denied, Verdict
from dsh_lsp.tools.tool import Execution

name = "approval"
inject = (AgentHooks, Modes, Approvals, CommandRules)

Rule = Literal["allow", "ask", "deny"]

_ASK: dict[EffectKind, Rule] = {
    "read": "allow",
    "edit": "allow",
    "outside": "ask",
    "rights": "ask",
    "command": "ask",
    "network": "ask",
}
_READ_ONLY: dict[EffectKind, Rule] = {
    "read": "allow",
    "outside": "ask",
    "edit": "deny",
    "rights": "deny",
    "command": "deny",
    "network": "deny",
}
TABLE: dict[Mode, dict[EffectKind, Rule]] = {
    "read-only": _READ_ONLY,
    "plan": _READ_ONLY,
    "ask": _ASK,
    "auto-edit": _ASK,
}

PLAN = """
You are in plan mode: you can read, and nothing else. Find out what has to be done and lay it out as a plan for the
user, who switches the mode when they want it carried out.
"""


def apply(ctx: Context, _settings: Any) -> None:
    """Judge each call before it runs, and tell the model of plan mode."""
    hooks, modes, approvals = ctx.get(AgentHooks), ctx.get(Modes), ctx.get(Approvals)
    rules = ctx.get(CommandRules)

    async def judge(execution: Execution, call_next: Callable[[Execution], Awaitable[Verdict]]) -> Verdict:
        tool = execution.tool
        if tool is None:
            return await call_next(execution)  # the body says that it is unknown
        try:
            args = validate(tool, execution.arguments)
        except InvalidArgumentsError:
            return await call_next(execution)  # the body lists what is wrong
        effects = tool.effects(args)
        commands = [effect.grant_key for effect in effects if effect.kind == "command"]
        covered = await anyio.to_thread.run_sync(rules.covered, commands) if commands else frozenset()
        mine = decide(modes.current, effects, approvals.granted() | covered)
        if isinstance(mine, Denied):
            return mine
        verdict = joined(mine, await call_next(execution))
        return replace(verdict, unsaved=tuple(await tool.unsaved(args))) if isinstance(verdict, Ask) else verdict

    async def explain(assembly: Assembly, call_next: Callable[[Assembly], Awaitable[Assembly]]) -> Assembly:
        assembly = await call_next(assembly)
        if modes.current != "plan":
            return assembly
        section = Section(name="plan-mode", order=50, text=PLAN)
        return Assembly(sections=(*assembly.sections, section), tools=assembly.tools, variables=assembly.variables)

    ctx.listen(hooks.tools.pre_execute, judge)
    ctx.listen(hooks.assemble, explain)


def decide(mode: Mode, effects: list[Effect], granted: frozenset[str]) -> Allow | Denied | Ask:
    """Judge a call's effects: one that is refused refuses the call, those to ask for are asked together."""
    rules = TABLE[mode]
    refused = next((effect for effect in effects if rules[effect.kind] == "deny"), None)
    if refused is not None:
        return Denied(f"in {mode} mode the agent may not do this: {refused.kind} {refused.detail}")
    guarded = [effect for effect in effects if rules[effect.kind] == "ask"]
    open_effects = tuple(effect for effect in guarded if effect.grant_key not in granted)
    approved = frozenset(effect.grant_key for effect in guarded if effect not in open_effects)
    return Ask(open_effects, approved=approved) if open_effects else Allow(approved)


def joined(mine: Allow | Ask, others: Verdict) -> Verdict:
    """Both verdicts on one call as one: what one of them asks for is asked, what one denies is denied."""
    match mine, others:
        case Ask(), Ask():
            effects = mine.effects + tuple(effect for effect in others.effects if effect not in mine.effects)
            return Ask(effects, reason=others.reason, approved=mine.approved | others.approved)
        case Allow(), Allow():
            return Allow(mine.approved | others.approved)
        case (Ask() as ask, Allow() as allow) | (Allow() as allow, Ask() as ask):
            return replace(ask, approved=ask.approved | allow.approved)
    return others
