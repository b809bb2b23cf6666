"""Models: what the sessions of one client ask, by the newest settings, and by older ones while one still does."""

from __future__ import annotations

from collections.abc import Callable

from anyio.abc import TaskGroup

from dsh_lsp.llm.adapter import Llm
from dsh_lsp.providers import ModelSettings, build_models


class Models:
    """The models that sessions begin with; `in_use` says whether a live session asks one of them."""

    def __init__(self, tasks: TaskGroup, in_use: Callable[[Llm], bool]) -> None:
        self._tasks = tasks
        self._in_use = in_use
        self._newest: Llm | None = None
        self._settings: ModelSettings | None = None  # that it was built by

    def by(self, settings: ModelSettings) -> Llm:
        """What a session that begins now asks; those that live go on with what they have.

        Raises:
            ConfigError: something is wrong with the settings.
        """
        if self._newest is None or settings != self._settings:
            llm = build_models(settings)
            llm.adapter(settings.provider)  # what is wrong with the settings is told now
            before, self._newest, self._settings = self._newest, llm, settings
            if before is not None:
                self._tasks.start_soon(self.leave, before)
            self._tasks.start_soon(llm.warm, settings.provider)
        return self._newest

    async def leave(self, llm: Llm) -> None:
        """Close its connections if no session asks it any more, and none to come will."""
        if llm is not self._newest and not self._in_use(llm):
            await llm.aclose()

    async def close(self) -> None:
        """Close the connections of the newest one; the sessions are closed by now, and so are the others."""
        if self._newest is not None:
            await self._newest.aclose()
