"""Stories that are worth a recording: each drives the real server as a client of ours does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from tests.support.fake_editor import FakeEditor, fake_editor
from tests.support.model_server import FakeModelServer, Gate, Reply, answer, refusal

CALC = "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return a + a\n"
TWO_EDITS = CALC.replace("a - b", "a + b").replace("a + a", "2 * a")
Told = list[dict[str, Any]]
Story = Callable[[Path, FakeModelServer], Awaitable[Told]]


def editor_at(root: Path, model: FakeModelServer, **options: Any) -> AbstractAsyncContextManager[FakeEditor]:
    """An editor with a client of ours; `options` are settings besides its own."""
    offers = {"review": True, "approve": True, "ask": True}
    return fake_editor(root, model_url=model.url, dsh=offers, client_name="a client of ours", options=options)


def edit(old: str, new: str) -> tuple[str, dict[str, Any]]:
    """A call of the edit tool."""
    return ("edit_file", {"path": "calc.py", "old_text": old, "new_text": new})


def held(reply: Reply, packets: int) -> tuple[Reply, Gate]:
    """A reply that stops after so many packets until its gate is released."""
    gate = Gate()
    return Reply(packets=(*reply.packets[:packets], gate, *reply.packets[packets:])), gate


async def conversation(root: Path, model: FakeModelServer) -> Told:
    """Thinking, tools side by side, unicode, a title, two turns."""
    todo = {"items": [{"text": "Look at add", "status": "in_progress"}, {"text": "Tell"}]}
    reads = [
        ("read_file", {"path": "calc.py"}),
        ("list_files", {}),
        ("read_file", {"path": "missing.py"}),
        ("todo", todo),
    ]
    model.script(
        answer("I look at *it* first. 🐍", reasoning="Two functions,\n\nperhaps three.", calls=reads),
        answer("`add` subtracts.\n\n```python\nreturn a + b\n```\n", usage=(20, 7)),
        answer("You are welcome. ä"),
    )
    async with editor_at(root, model) as editor:
        accepted = await editor.command("dsh.followup", {"text": "What is wrong with add?", "wait": True})
        await editor.command("dsh.session.rename", {"session": accepted["session"], "title": "Why add subtracts"})
        await editor.command("dsh.inject", {"text": "By the way: it is Python 3."})
        await editor.command("dsh.followup", {"text": "Thanks.", "wait": True})
        return list(editor.events)


async def failure(root: Path, model: FakeModelServer) -> Told:
    """A model that fails and is asked again by hand, and a stream that tears and is tried again by itself."""
    model.script(
        refusal(401, {"error": {"message": "no such key"}}),
        answer("Torn in the middle of a sentence.").torn_after(4),
        answer("Now whole."),
    )
    async with editor_at(root, model, retry={"firstSeconds": 0.05, "jitter": 0}) as editor:
        await editor.command("dsh.followup", {"text": "Are you there?"})
        await editor.event("turn/end", 1)
        await editor.command("dsh.retry")
        await editor.event("turn/end", 2)
        return list(editor.events)


async def retries(root: Path, model: FakeModelServer) -> Told:
    """A model that is tried again, after a refusal and after a stream that tore; and a wait that is cancelled."""
    model.script(
        refusal(503, {"error": {"message": "too busy"}}),
        answer("Torn in the middle of a sentence.", reasoning="Hm.").torn_after(6),
        answer("Now whole."),
        refusal(503, {"error": {"message": "too busy"}}, headers={"Retry-After": "40"}),
    )
    async with editor_at(root, model, retry={"firstSeconds": 0.05, "jitter": 0}) as editor:
        await editor.command("dsh.followup", {"text": "Are you there?", "wait": True})
        await editor.command("dsh.followup", {"text": "Still?"})
        await editor.event("llm/retry", 3)
        await editor.command("dsh.cancel")
        await editor.event("turn/end", 2)
        return list(editor.events)


async def interruption(root: Path, model: FakeModelServer) -> Told:
    """A turn that is steered, then cancelled while it streams, with input that waits and is changed meanwhile."""
    first, before_steer = held(answer("I look.", calls=[("list_files", {})]), 3)
    second, before_cancel = held(answer("A long answer that nobody wants to read to its end.", reasoning="Hm."), 5)
    model.script(first, second, answer("The next turn."))
    async with editor_at(root, model) as editor:
        await editor.command("dsh.followup", {"text": "Tell me all."})
        await editor.until(lambda: before_steer.reached)
        await editor.command("dsh.steer", {"text": "In one sentence."})
        before_steer.release()
        await editor.until(lambda: before_cancel.reached and editor.seen("assistant/stream"))
        dropped = await editor.command("dsh.followup", {"text": "Drop me."})
        kept = await editor.command("dsh.followup", {"text": "Chnage me."})
        await editor.command("dsh.inbox.remove", {"message": dropped["message"]})
        await editor.command("dsh.inbox.edit", {"message": kept["message"], "text": "Changed."})
        await editor.command("dsh.cancel")
        await editor.event("turn/end")
        await editor.command("dsh.inbox.resume")
        await editor.event("turn/end", 2)
        return list(editor.events)


async def review(root: Path, model: FakeModelServer) -> Told:
    """Hunks that land, one with other text; that are rejected with a comment, in conflict; a new file."""
    write = ("write_file", {"path": "calc.py", "content": TWO_EDITS})
    new = ("write_file", {"path": "new.py", "content": "NEW = True\n"})
    model.script(
        answer("Both.", calls=[write]),
        answer("Again.", calls=[edit("a + a", "a * 2")]),
        answer("A new one.", calls=[new]),
        answer("Once more.", calls=[edit("a + a", "a << 1")]),
        answer("Done."),
    )
    async with editor_at(root, model) as editor:
        editor.open("calc.py")
        await editor.command("dsh.followup", {"text": "Mend both."})
        await editor.event("review/opened")
        (file,) = (await editor.command("dsh.review.list"))["files"]
        first, last = (hunk["id"] for hunk in file["hunks"])
        await editor.command(
            "dsh.review.accept", {"hunks": [first], "edited": {first: "    return a + b  # mended\n"}}
        )
        await editor.event("edit/landed")
        await editor.command("dsh.review.reject", {"hunks": [last], "comment": "leave double alone"})
        await editor.event("review/opened", 2)
        at = editor.text("calc.py").index("a + a")
        editor.type("calc.py", at, at, "mine + ")
        await editor.event("review/opened", 3)
        await editor.command("dsh.review.accept", {"hunks": "all"})
        await editor.event("review/opened", 4)
        await editor.command("dsh.review.accept", {"hunks": "all"})
        await editor.event("turn/end")
        return list(editor.events)


async def cancelled_review(root: Path, model: FakeModelServer) -> Told:
    """A review that a cancel takes away."""
    model.script(answer("Both.", calls=[edit("a - b", "a + b"), edit("a + a", "2 * a")]))
    async with editor_at(root, model) as editor:
        editor.open("calc.py")
        await editor.command("dsh.followup", {"text": "Mend both."})
        await editor.event("review/opened", 2)
        await editor.command("dsh.cancel")
        await editor.event("turn/end")
        return list(editor.events)


async def approval(root: Path, model: FakeModelServer) -> Told:
    """Permissions: given once, given for the session, refused with a comment, and taken away by a cancel."""
    (root.parent / "outside.txt").write_text("far away\n")
    look = ("read_file", {"path": "../outside.txt"})
    model.script(*(answer("", calls=[look]) for _ in range(3)), answer("", calls=[("list_files", {"path": ".."})]))
    async with editor_at(root, model) as editor:
        for mode in ("plan", "ask"):
            await editor.command("dsh.mode.set", {"mode": mode})
        await editor.command("dsh.followup", {"text": "Read it."})
        decisions = (
            {"decision": "allowOnce"},
            {"decision": "reject", "comment": "not that one"},
            {"decision": "allowSession"},
        )
        for number, decision in enumerate(decisions, 1):
            asked = await editor.event("approval/asked", number)
            await editor.command("dsh.approve", {"approval": asked["data"]["id"], **decision})
        await editor.event("approval/asked", 4)
        await editor.command("dsh.cancel")
        await editor.event("turn/end")
        return list(editor.events)


async def reload(root: Path, model: FakeModelServer) -> Told:
    """A session that another window goes on with: the replay, then new events."""
    model.script(answer("First.", reasoning="Hm.", calls=[("list_files", {})]), answer("Second."), answer("Third."))
    async with editor_at(root, model) as editor:
        accepted = await editor.command("dsh.followup", {"text": "One.", "wait": True})
    async with editor_at(root, model) as editor:
        await editor.command("dsh.session.open", {"session": accepted["session"]})
        await editor.command("dsh.followup", {"text": "Two.", "wait": True})
        return list(editor.events)


async def question(root: Path, model: FakeModelServer) -> Told:
    """Questions: with options, in one's own words, and one that a cancel takes away."""
    ask = {"question": "Which of the two?", "options": ["the first", "the second"]}
    model.script(
        answer("", calls=[("ask", ask)]),
        answer("", calls=[("ask", {"question": "And why?"})]),
        answer("", calls=[("ask", ask)]),
    )
    async with editor_at(root, model) as editor:
        await editor.command("dsh.followup", {"text": "Ask me."})
        for number, words in enumerate(("the second", "Because."), 1):
            asked = await editor.event("question/asked", number)
            await editor.command("dsh.answer", {"question": asked["data"]["id"], "answer": words})
        await editor.event("question/asked", 3)
        await editor.command("dsh.cancel")
        await editor.event("turn/end")
        return list(editor.events)


async def undo(root: Path, model: FakeModelServer) -> Told:
    """Edits that land at once, one of them taken back; and a turn that is rewound, but for what was changed since."""
    model.script(
        answer("Both.", calls=[edit("a - b", "a + b"), edit("a + a", "2 * a")]),
        answer("Done."),
        answer("And a new one.", calls=[("write_file", {"path": "new.py", "content": "NEW = True\n"})]),
        answer("Done."),
    )
    async with editor_at(root, model) as editor:
        editor.open("calc.py")
        await editor.command("dsh.mode.set", {"mode": "auto-edit"})
        await editor.command("dsh.followup", {"text": "Mend both.", "wait": True})
        await editor.command("dsh.review.reject", {"hunks": [editor.seen("edit/landed")[0]["data"]["hunk"]]})
        await editor.event("edit/landed", 3)
        await editor.command("dsh.followup", {"text": "More.", "wait": True})
        for turn in (2, 1):
            await editor.command("dsh.rewind", {"turn": turn})
            await editor.event("rewind/done", 3 - turn)
        return list(editor.events)


async def upkeep(root: Path, model: FakeModelServer) -> Told:
    """Another model in mid-session, and a conversation that is made shorter."""
    (root / "long.py").write_text("x = 1\n" * 3_000)
    model.script(
        *(answer("word " * 400) for _ in range(3)),
        answer("I read it.", calls=[("read_file", {"path": "long.py"})]),
        refusal(400, {"error": {"message": "too long", "code": "context_length_exceeded"}}),
        answer("Three times a word, then a long file."),
        answer("It is long."),
        answer("In short."),
        answer("Yes."),
    )
    async with editor_at(root, model) as editor:
        for text in ("one", "two", "three", "And long.py?"):
            await editor.command("dsh.followup", {"text": text, "wait": True})
        await editor.command("dsh.model.set", {"provider": "deepseek", "name": "deepseek-v4-pro"})
        await editor.command("dsh.compact", {})
        await editor.event("compact/done")
        await editor.command("dsh.followup", {"text": "four", "wait": True})
        return list(editor.events)


STORIES: dict[str, Story] = {
    "conversation": conversation,
    "failure": failure,
    "retries": retries,
    "interruption": interruption,
    "review": review,
    "cancelled-review": cancelled_review,
    "approval": approval,
    "reload": reload,
    "question": question,
    "undo": undo,
    "upkeep": upkeep,
}
