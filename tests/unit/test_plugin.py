"""Plugin: what is registered is undone, last first."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dsh_lsp.errors import UsageError
from dsh_lsp.plugin import Context, Scope


def test_a_scope_undoes_last_first_and_once() -> None:
    scope, undone = Scope(), []
    for name in "abc":
        scope.own(lambda name=name: undone.append(name))
    early = scope.own(lambda: undone.append("early"))
    early()
    early()
    scope.close()
    scope.close()
    assert undone == ["early", "c", "b", "a"]


def test_a_disposer_that_fails_stops_no_other() -> None:
    scope, undone = Scope(), []
    scope.own(lambda: undone.append(1))
    scope.own(lambda: 1 / 0)
    scope.close()
    assert undone == [1]


def test_a_child_closes_with_its_parent_or_before_and_is_forgotten() -> None:
    parent, undone = Scope(), []
    for name in ("first", "second"):
        child = parent.child()
        child.own(lambda name=name: undone.append(name))
        if name == "first":
            child.close()
    parent.close()
    assert undone == ["first", "second"]


def test_a_closed_scope_takes_nothing() -> None:
    scope = Scope()
    scope.close()
    with pytest.raises(UsageError):
        scope.own(lambda: None)


def test_a_plugin_gets_what_it_injects_and_leaves_nothing_behind() -> None:
    context = Context()
    context.provide(list, seen := [])

    def apply(ctx: Context, settings: object) -> None:
        ctx.get(list).append(settings)
        ctx.own(lambda: seen.append("gone"))

    plugin = SimpleNamespace(name="p", inject=(list,), apply=apply)
    unmount = context.mount(plugin, "settings")
    unmount()
    assert seen == ["settings", "gone"]


def test_a_plugin_that_fails_while_it_is_applied_leaves_nothing_behind() -> None:
    context, seen = Context(), []

    def apply(ctx: Context, settings: object) -> None:
        ctx.own(lambda: seen.append("undone"))
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        context.mount(SimpleNamespace(name="p", apply=apply))
    assert seen == ["undone"]


@pytest.mark.parametrize("plugin", [SimpleNamespace(name="p", inject=(dict,), apply=print), object()])
def test_what_is_no_plugin_or_misses_a_service_is_refused(plugin: object) -> None:
    with pytest.raises(UsageError):
        Context().mount(plugin)


def test_a_service_is_provided_once() -> None:
    context = Context()
    dispose = context.provide(list, [])
    with pytest.raises(UsageError):
        context.provide(list, [])
    dispose()
    context.provide(list, [])
