"""Sessions over the wire: gone on with after a restart, forked, renamed, listed, exported, thrown away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pygls.exceptions import JsonRpcException

from tests.support.fake_editor import fake_editor
from tests.support.model_server import Gate, answer, chunk, event


@pytest.fixture
def project(project: Path) -> Path:
    (project / "calc.py").write_text("x = 1\n")
    return project


def words(request) -> list[str]:
    return [m["content"] for m in request.body["messages"] if m["role"] != "system"]


async def test_a_session_goes_on_after_the_server_was_started_anew(project, model) -> None:
    model.script(answer("One.", usage=(3_000, 5)), answer("Two."))
    async with fake_editor(project, model_url=model.url) as editor:
        first = await editor.command("dsh.followup", {"text": "First question.", "wait": True})
        await editor.command("dsh.inject", {"text": "For later."})
        counted = (await editor.command("dsh.status"))["usage"]
        seen = [value for value in editor.events if "seq" in value]
    async with fake_editor(project, model_url=model.url) as editor:
        (listed,) = (await editor.command("dsh.session.list"))["sessions"]
        assert (listed["session"], listed["title"], listed["turns"]) == (first["session"], "First question.", 1)
        opened = await editor.command("dsh.session.open", {"session": first["session"]})
        assert opened["summary"]["title"] == "First question."
        usage = (await editor.command("dsh.status"))["usage"]
        assert usage == counted, "what was counted before it was opened"
        assert (usage["input"], usage["output"]) == (3_000, 5)
        replayed = [value for value in editor.events if "seq" in value]
        assert replayed == seen[: len(replayed)]
        assert replayed[-1]["seq"] <= opened["lastSeq"]
        assert "assistant/chunk" not in {value["type"] for value in replayed}
        done = await editor.command("dsh.followup", {"text": "Second question.", "wait": True})
        assert (done["session"], done["turn"], done["text"]) == (first["session"], 2, "Two.")
        assert words(model.requests[1]) == ["First question.", "One.", "For later.", "Second question."]
        reasons = [value["data"]["reason"] for value in editor.seen("request/header")]
        assert reasons == ["initial", "resume"]


async def test_a_session_that_runs_is_replayed_in_order_and_nothing_comes_twice(project, model) -> None:
    (project / "big.txt").write_text(("x" * 70 + "\n") * 600)
    reads = [answer("", calls=[("read_file", {"path": "big.txt", "offset": n + 1}) for n in range(10)])] * 4
    steps = [answer("", calls=[("todo", {"items": [{"text": f"Step {n}."}]})]) for n in range(150)]
    model.script(*reads, answer("Read."), *steps, answer("Done."))
    options = {"compaction": {"auto": False}, "limits": {"steps": 1_000}}
    async with fake_editor(project, model_url=model.url, dsh={}, options=options) as editor:
        session = (await editor.command("dsh.followup", {"text": "Read it.", "wait": True}))["session"]
        await editor.command("dsh.followup", {"text": "Go on."})
        await editor.until(lambda: len(editor.seen("todo/write")) > 3)
        before = len(editor.events)
        opened = await editor.command("dsh.session.open", {"session": session})
        await editor.command("dsh.cancel")
        await editor.until(lambda: editor.seen("turn/end")[-1]["data"]["turn"] == 2)
        numbers = [value["seq"] for value in editor.events[before:] if "seq" in value]
        again = numbers[numbers.index(0) :]
        assert again == sorted(set(again)), "in order, each once"
        assert opened["lastSeq"] <= again[-1]


async def test_the_result_of_a_call_that_the_client_has_seen_is_replayed_with_its_card(project, model) -> None:
    model.script(answer("", calls=[("read_file", {"path": "calc.py"})]), answer("Read."))
    async with fake_editor(project, model_url=model.url, dsh={}) as editor:
        session = (await editor.command("dsh.followup", {"text": "Read it.", "wait": True}))["session"]
        (call,) = editor.seen("tool/call")
        await editor.command("dsh.session.open", {"session": session, "after": call["seq"]})
        live, replayed = editor.seen("tool/result")
        assert live["card"] == replayed["card"]


async def test_a_replay_begins_after_what_the_client_knows(project, model) -> None:
    model.script(answer("One."))
    async with fake_editor(project, model_url=model.url) as editor:
        first = await editor.command("dsh.followup", {"text": "Hello.", "wait": True})
        before = len(editor.events)
        seqs = [value["seq"] for value in editor.events if "seq" in value]
        await editor.command("dsh.session.open", {"session": first["session"], "after": seqs[-3]})
        again = [value["seq"] for value in editor.events[before:] if "seq" in value]
        assert again == seqs[-2:]


async def test_a_new_session_becomes_the_current_one_and_knows_nothing_of_the_other(project, model) -> None:
    model.script(answer("One."), answer("Two."))
    async with fake_editor(project, model_url=model.url) as editor:
        first = await editor.command("dsh.followup", {"text": "First.", "wait": True})
        new = await editor.command("dsh.session.new", {"title": "Other things"})
        assert new["title"] == "Other things"
        second = await editor.command("dsh.followup", {"text": "Second.", "wait": True})
        assert second["session"] == new["session"] != first["session"]
        assert words(model.requests[1]) == ["Second."]
        listed = (await editor.command("dsh.session.list"))["sessions"]
        assert [summary["title"] for summary in listed] == ["Other things", "First."]
        elsewhere = await editor.command("dsh.session.list", {"root": str(project.parent)})
        assert elsewhere == {"sessions": []}


async def test_a_fork_takes_the_history_and_leaves_the_source_alone(project, model) -> None:
    model.script(answer("One."), answer("Two."), answer("Other two."))
    async with fake_editor(project, model_url=model.url) as editor:
        first = await editor.command("dsh.followup", {"text": "First.", "wait": True})
        await editor.command("dsh.followup", {"text": "Second.", "wait": True})
        await editor.command("dsh.inject", {"text": "Stays behind."})
        fork = await editor.command("dsh.session.fork", {"turn": 1})
        assert fork["parent"] == first["session"]
        done = await editor.command("dsh.followup", {"text": "Instead.", "wait": True})
        assert (done["session"], done["turn"]) == (fork["session"], 2)
        assert words(model.requests[2]) == ["First.", "One.", "Instead."]
        waiting = await editor.command("dsh.inbox.list", {"session": first["session"]})
        assert [entry["text"] for entry in waiting["nextStep"]] == ["Stays behind."]
        with pytest.raises(JsonRpcException, match="turn 9"):
            await editor.command("dsh.session.fork", {"session": first["session"], "turn": 9})


async def test_a_running_session_is_forked_after_its_last_ended_turn(project, model) -> None:
    gate = Gate()
    model.script(answer("One."), answer("x").before(event(chunk({"content": "x"})), gate), answer("Forked."))
    async with fake_editor(project, model_url=model.url) as editor:
        await editor.command("dsh.followup", {"text": "First.", "wait": True})
        await editor.command("dsh.followup", {"text": "Second."})
        await gate.wait_reached()
        await editor.command("dsh.session.fork")
        await editor.command("dsh.followup", {"text": "In the fork.", "wait": True})
        assert words(model.requests[2]) == ["First.", "One.", "In the fork."]
        gate.release()
        await editor.event("turn/end", 3)


async def test_a_session_is_renamed_exported_and_deleted(project, model) -> None:
    model.script(
        answer("Reading.", reasoning="Hm.", calls=[("read_file", {"path": "calc.py"})]), answer("It says x = 1.")
    )
    async with fake_editor(project, model_url=model.url) as editor:
        done = await editor.command("dsh.followup", {"text": "What does it say?", "wait": True})
        session = {"session": done["session"]}
        assert (await editor.command("dsh.session.rename", {**session, "title": "Calc"}))["title"] == "Calc"
        assert (await editor.command("dsh.session.list"))["sessions"][0]["title"] == "Calc"
        markdown = (await editor.command("dsh.session.export", {**session, "format": "markdown"}))["text"]
        assert markdown.startswith("# Calc\n")
        for part in ("What does it say?", "read_file", "It says x = 1."):
            assert part in markdown
        rows = (await editor.command("dsh.session.export", {**session, "format": "jsonl"}))["text"].splitlines()
        kinds = [json.loads(row)["type"] for row in rows]
        assert kinds[0] == "session"
        assert "turn/end" in kinds
        assert await editor.command("dsh.session.delete", session) == {}
        assert await editor.command("dsh.session.list") == {"sessions": []}
        with pytest.raises(JsonRpcException) as refused:
            await editor.command("dsh.session.open", session)
        assert refused.value.data["code"] == "UNKNOWN_SESSION"
    trash = project.parent / "project-state" / "trash"
    assert [path.suffix for path in trash.glob("*.jsonl")] == [".jsonl"]


async def test_two_servers_do_not_write_one_session(project, model) -> None:
    model.script(answer("One."))
    async with fake_editor(project, model_url=model.url) as holder:
        first = await holder.command("dsh.followup", {"text": "Hello.", "wait": True})
        async with fake_editor(project, model_url=model.url) as second:
            for command in ("dsh.session.open", "dsh.session.delete"):
                with pytest.raises(JsonRpcException, match=r"process \d+") as refused:
                    await second.command(command, {"session": first["session"]})
                assert refused.value.data["code"] == "SESSION_LOCKED"
            assert (await second.command("dsh.status"))["state"] == "idle"


async def test_what_a_killed_server_left_open_is_closed_and_told(project, model) -> None:
    edit = answer("", calls=[("edit_file", {"path": "calc.py", "old_text": "1", "new_text": "2"})])
    model.script(edit, answer("I see."))
    async with fake_editor(project, model_url=model.url) as editor:
        editor.open("calc.py")
        accepted = await editor.command("dsh.followup", {"text": "Go."})
        await editor.event("review/opened")
        await editor.until(lambda: (project.parent / "project-state").glob("*.jsonl"))
        await editor.command("dsh.inject", {"text": "On disk by now."})
        editor.client._server.kill()
        await editor.client._server.wait()
        editor.gone = True
    async with fake_editor(project, model_url=model.url) as editor:
        await editor.command("dsh.session.open", {"session": accepted["session"]})
        assert editor.seen("turn/end")[0]["data"]["reason"] == {"kind": "interrupted"}
        assert editor.seen("review/decided")[0]["data"]["hunks"][0]["outcome"] == "cancelled"
        assert editor.seen("tool/result")[0]["data"]["error"]["code"] == "TOOL_OUTCOME_UNKNOWN"
        assert (await editor.command("dsh.review.list")) == {"files": []}
        await editor.command("dsh.followup", {"text": "And now?", "wait": True})
        roles = [message["role"] for message in model.requests[1].body["messages"]]
        assert roles == ["system", "user", "assistant", "tool", "user", "user"]


async def test_several_sessions_that_work_are_all_on_disk_when_the_editor_leaves(project, model) -> None:
    gates = [Gate() for _ in range(3)]
    model.script(*(answer("x").before(event(chunk({"content": "x"})), gate) for gate in gates))
    sessions = []
    async with fake_editor(project, model_url=model.url) as editor:
        for gate in gates:
            sessions.append((await editor.command("dsh.session.new"))["session"])
            await editor.command("dsh.followup", {"text": "Work.", "session": sessions[-1]})
            await gate.wait_reached()
    for session in sessions:
        rows = (project.parent / "project-state" / f"{session}.jsonl").read_text().splitlines()
        end = json.loads(rows[-1])
        assert (end["type"], end["data"]["reason"]["reason"]["kind"]) == ("turn/end", "disposed")
