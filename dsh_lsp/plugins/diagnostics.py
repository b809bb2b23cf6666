"""Diagnostics: after an edit, the problems that it brought come with its result.

Works for every tool whose effects name an edit and whose `meta` lists its `files`. The problems are those of the
user's own language servers.

Rules: neither a body nor a review waits for it; the news is waited for at most 2 s; without news after the edit the
result says that nothing is confirmed; a cancel keeps the result as it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import anyio

from dsh_lsp.abort import Aborted
from dsh_lsp.agent.hooks import AgentHooks
from dsh_lsp.errors import DshError
from dsh_lsp.plugin import Context
from dsh_lsp.tools.arguments import effects_of
from dsh_lsp.tools.outcome import Outcome
from dsh_lsp.tools.tool import Execution
from dsh_lsp.workspace.language import Diagnosis, LanguageServers, Problem, describe_problems

name = "diagnostics"
inject = (AgentHooks, LanguageServers)

BASELINE_S: Final = 0.5  # for what the client holds already
MAX_FILES: Final = 8


def apply(ctx: Context, _settings: Any) -> None:
    """Wrap each body that may edit."""
    languages = ctx.get(LanguageServers)

    async def watch(execution: Execution, call_next: Callable[[Execution], Awaitable[Outcome]]) -> Outcome:
        paths = edited_paths(execution)
        if not paths:
            return await call_next(execution)
        before: dict[str, Diagnosis] = {}

        async def look() -> None:
            before.update(await _diagnose(languages, paths, execution, after_edit=False))

        outcome: Outcome | Exception
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(look)  # beside the body, which begins in the order of the calls
            try:
                outcome = await call_next(execution)
            except Exception as error:  # noqa: BLE001 - raised below: the group would wrap it
                outcome = error
            landed = _landed(outcome) if isinstance(outcome, Outcome) else []
            if not landed:
                tasks.cancel_scope.cancel()
        if isinstance(outcome, Exception):
            raise outcome
        if not landed:
            return outcome
        try:
            with execution.signal.guard():
                after = await _diagnose(languages, landed, execution, after_edit=True)
        except Aborted:
            return outcome
        news = [line for path in landed if (line := _news(path, before.get(path), after.get(path)))]
        return replace(outcome, text="\n".join([outcome.text, *news])) if news else outcome

    ctx.listen(ctx.get(AgentHooks).tools.execute, watch)


def edited_paths(execution: Execution) -> list[str]:
    """The files that a call means to edit."""
    edits = (effect.detail for effect in effects_of(execution) if effect.kind == "edit")
    return list(dict.fromkeys(edits))[:MAX_FILES]


def new_problems(before: Sequence[Problem], after: Sequence[Problem]) -> list[Problem]:
    """The problems that were not there before, wherever the old ones stand now."""
    known = Counter(map(_identity, before))
    found = []
    for problem in after:
        if known[_identity(problem)]:
            known[_identity(problem)] -= 1
        else:
            found.append(problem)
    return found


def _identity(problem: Problem) -> tuple[str, ...]:
    return problem.severity, problem.source, problem.code, problem.message


async def _diagnose(
    languages: LanguageServers, paths: Sequence[str], execution: Execution, *, after_edit: bool
) -> dict[str, Diagnosis]:
    found: dict[str, Diagnosis] = {}

    async def ask(path: str) -> None:
        with suppress(DshError, OSError):  # the body, which runs on, says itself what is wrong with a path
            diagnosis = await languages.diagnose(path, execution.approved, after_edit=after_edit)
            if diagnosis is not None:
                found[path] = diagnosis

    with anyio.move_on_after(None if after_edit else BASELINE_S):
        async with anyio.create_task_group() as tasks:
            for path in paths:
                tasks.start_soon(ask, path)
    return found


def _landed(outcome: Outcome) -> list[str]:
    files = (outcome.meta or {}).get("files")
    if not isinstance(files, list):
        return []
    there = (file for file in files if isinstance(file, dict) and not file.get("gone"))
    return [path for file in there if isinstance(path := file.get("path"), str)][:MAX_FILES]


def _news(path: str, before: Diagnosis | None, after: Diagnosis | None) -> str | None:
    if after is None:
        return None
    if before is None:
        found, what = list(after.problems), "problems now"
    else:
        found, what = new_problems(before.problems, after.problems), "new problems after this edit"
    if not after.fresh:
        known = f"\n{describe_problems(found)}" if found else ""
        return f"{path}: not confirmed whether there are {what}: the editor has no news since the edit.{known}"
    return f"{path}: {what}:\n{describe_problems(found)}" if found else f"{path}: no {what}."
