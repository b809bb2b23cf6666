"""Instructions: what `AGENTS.md` says, of the workspace's root and of the folders whose files are touched.

It enters as a message before the step that needs it: the root's before the first, a folder's once a call has touched
a file below it. A file that says something else by now is told again.

Rules: never in a workspace that is not trusted, not even what was asked for; what counts as told is what still stands
in history; a file that leads outside the workspace is not read; the size is bounded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import PurePosixPath
from typing import Any, Final

from dsh_lsp.agent.driver import new_id
from dsh_lsp.agent.hooks import AgentHooks, Enter, PreStep, Reject
from dsh_lsp.agent.modes import Modes
from dsh_lsp.errors import ToolError
from dsh_lsp.messages import PluginSource, TextBlock, UserMessage
from dsh_lsp.plugin import Context
from dsh_lsp.secrets import Keys
from dsh_lsp.session.log import SessionLog
from dsh_lsp.tools.arguments import effects_of
from dsh_lsp.tools.outcome import Outcome
from dsh_lsp.tools.tool import Execution
from dsh_lsp.workspace.port import Workspace

name = "instructions"
inject = (AgentHooks, Keys, Modes, SessionLog, Workspace)

FILE: Final = "AGENTS.md"
MAX_CHARS: Final = 16_000
MAX_SUMMARY: Final = 120


def apply(ctx: Context, _settings: Any) -> None:
    """Note which folders are touched, and tell what their files say."""
    hooks, modes, log, workspace = ctx.get(AgentHooks), ctx.get(Modes), ctx.get(SessionLog), ctx.get(Workspace)
    keys, folders = ctx.get(Keys), {PurePosixPath(".")}

    def note(payload: tuple[Execution, Outcome]) -> None:
        folders.update(folder for path in touched(payload[0]) for folder in PurePosixPath(path).parents)

    async def tell(payload: PreStep, call_next: Callable[[PreStep], Awaitable[Enter | Reject]]) -> Enter | Reject:
        decision = await call_next(payload)
        if not isinstance(decision, Enter) or not (decision.messages or payload.step > 1) or not modes.trusted:
            return decision
        known = standing(log)
        news = []
        for folder in sorted(folders, key=lambda folder: (len(folder.parts), folder)):
            path = (folder / FILE).as_posix()
            text = await read_instructions(workspace, path, keys)
            if text is not None and known.get(_summary(path)) != text:
                source = PluginSource(plugin=name, form="instructions", summary=_summary(path))
                news.append(UserMessage(id=new_id(), content=(TextBlock(text=text),), source=source))
        if not news:
            return decision
        return Enter(messages=(*news, *decision.messages), starts_request_series=decision.starts_request_series)

    ctx.listen(hooks.tools.result, note)
    ctx.listen(hooks.pre_step, tell)


def touched(execution: Execution) -> list[str]:
    """The files of the workspace that a call meant to read or edit, relative to its root where they lie below it."""
    effects = effects_of(execution)
    outside = any(effect.kind == "outside" for effect in effects)
    paths = [effect.detail for effect in effects if effect.kind in ("read", "edit")]
    return [path for path in paths if not (outside and PurePosixPath(path).is_absolute())]


def standing(log: SessionLog) -> dict[str, str]:
    """What was told of each file last and still stands in history."""
    told: dict[str, str] = {}
    for event in log.facts():
        message = event.data
        if isinstance(message, UserMessage) and isinstance(message.source, PluginSource):
            source = message.source
            if source.plugin == name and source.summary is not None and log.surface.holds(event.seq):
                told[source.summary] = message.text
    return told


def _summary(path: str) -> str:
    return path if len(path) <= MAX_SUMMARY else f"…{path[1 - MAX_SUMMARY :]}"


async def read_instructions(workspace: Workspace, path: str, keys: Keys) -> str | None:
    """The message for a file, without keys; None where there is none that can be read."""
    try:
        text = keys.hide((await workspace.read(path)).text).strip()
    except ToolError:
        return None
    if not text:
        return None
    if len(text) > MAX_CHARS:
        text = f"{text[:MAX_CHARS]}\n[... the rest is left out; read {path} if you need it]"
    folder = PurePosixPath(path).parent.as_posix()
    where = "this workspace" if folder == "." else f"the files below {folder}"
    return f"The user's instructions for {where}, from {path}:\n\n{text}"
