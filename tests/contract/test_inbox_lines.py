"""Inbox, L116 to L120: its edits, each one durable event, and what it refuses."""

from __future__ import annotations

import pytest

from dsh_lsp.errors import SessionError, UsageError
from dsh_lsp.events import InboxSpliced
from dsh_lsp.llm.scripted import say
from tests.support.headless import headless
from tests.support.loop import Refuse, notice, numbered, outcomes, splices, texts


def changes_of(h) -> list[tuple[str, str]]:
    changes: list[tuple[str, str]] = []
    h.agent.hooks.inbox.listen(lambda change: changes.append((change.kind, change.message.text)))
    return changes


async def test_l116_the_inbox_places_messages_itself_and_takes_each_once() -> None:
    async with headless([]) as h:
        inbox = h.agent.inbox
        one, two = notice("one", "m1"), notice("two", "m2")
        inbox.insert("next-turn", one)
        inbox.insert("next-turn", two, first=True)
        assert [(splice.start, texts(splice.inserted)) for splice in splices(h.log)] == [(0, ["one"]), (0, ["two"])]
        assert texts(inbox.next_turn) == ["two", "one"]
        for target in ("next-turn", "next-step"):
            with pytest.raises(UsageError, match="already pending"):
                inbox.insert(target, notice("again", "m1"))
        with pytest.raises(UsageError, match="already pending"):
            inbox.replace("m1", notice("again", "m2"))
        assert not inbox.remove("m9")
        assert not inbox.replace("m9", notice("x", "m3"))
        inbox.insert("next-step")
        inbox.clear()
        assert len(h.log) == 4, "two inserts, the empty one, one clear"


async def test_l117_a_replacement_is_one_event_and_two_tales() -> None:
    async with headless([]) as h:
        for number in (1, 2, 3):
            h.agent.inbox.insert("next-turn", notice(f"m{number}", f"m{number}"))
        changes = changes_of(h)
        assert h.agent.inbox.replace("m2", notice("better", "m2"))
        assert len(h.log) == 4
        assert h.log[-1].data == InboxSpliced(
            target="next-turn", start=1, removed_count=1, inserted=(notice("better", "m2"),), outcome="canceled"
        )
        assert changes == [("discarded", "m2"), ("inserted", "better")]
        assert texts(h.agent.inbox.next_turn) == ["m1", "better", "m3"]


async def test_l118_a_clear_drops_what_joins_the_step_and_then_the_turns() -> None:
    async with headless([]) as h:
        for target in ("next-turn", "next-step"):
            for number in (1, 2):
                h.agent.inbox.insert(target, notice(f"{target} {number}", f"{target}{number}"))
        changes = changes_of(h)
        h.agent.inbox.clear()
        assert [(s.target, s.removed_count, s.outcome) for s in splices(h.log)[-2:]] == [
            ("next-step", 2, "canceled"),
            ("next-turn", 2, "canceled"),
        ]
        assert [kind for kind, _ in changes] == ["discarded"] * 4
        assert not h.agent.inbox.pending


@pytest.mark.parametrize(
    "splice",
    [
        InboxSpliced(target="next-turn", start=1, inserted=(notice("x", "m1"),)),
        InboxSpliced(target="next-turn", start=0, removed_count=1),
        InboxSpliced(target="next-turn", start=-1, inserted=(notice("x", "m1"),)),
        InboxSpliced(target="next-turn", start=0, inserted=(notice("x", "m0"),)),
    ],
    ids=["past the end", "removes what is not there", "before the start", "waits twice"],
)
async def test_l119_a_log_whose_splices_do_not_fit_names_the_event(splice) -> None:
    first = InboxSpliced(target="next-step", start=0, inserted=(notice("x", "m0"),))
    with pytest.raises(ExceptionGroup) as refused:
        async with headless([], events=numbered(first, splice)):
            pass
    error = refused.value.exceptions[0]
    assert isinstance(error, SessionError)
    assert error.code == "LOG_NOT_READABLE"
    assert "event 1:" in str(error)


@pytest.mark.parametrize("verb", ["followup", "steer", "inject"])
async def test_l120_a_refused_send_leaves_no_trace_and_tells_its_sender(verb) -> None:
    async with headless([say("ok")], checks=[Refuse("agent/inbox/spliced")]) as h:
        changes = changes_of(h)
        with pytest.raises(RuntimeError, match="no agent/inbox/spliced now"):
            getattr(h.agent, verb)(h.say("a"))
        assert (len(h.log), changes, h.agent.inbox.pending, h.agent.status) == (0, [], False, "idle")
        await h.ask("b")
        assert outcomes(h.log) == []
        assert texts(h.log.derive_messages())[0] == "b"
