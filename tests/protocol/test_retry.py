"""Retries over the wire: what an editor is told while a failed model call waits, and how the wait ends."""

from __future__ import annotations

import time

from tests.support.fake_editor import fake_editor, session_rows
from tests.support.model_server import FakeModelServer, answer, refusal


async def test_a_turn_outlives_a_busy_a_failing_and_a_broken_provider(project) -> None:
    replies = (
        refusal(429, {"error": {"message": "slow down"}}, headers={"Retry-After": "1"}),
        refusal(503, {"error": {"message": "overloaded"}}),
        answer("Half of an answ").torn_after(2),
        answer("A whole answer."),
    )
    with FakeModelServer(*replies) as model:
        options = {"model": {"baseUrl": model.url}, "retry": {"firstSeconds": 0.1}}
        async with fake_editor(project, dsh={}, options=options) as editor:
            await editor.command("dsh.followup", {"text": "Go."})
            end = await editor.event("turn/end")
            assert end["data"]["reason"] == {"kind": "completed"}
            planned = [e["data"] for e in editor.seen("llm/retry")]
            assert [p["retry"] for p in planned] == [1, 2, 3]
            assert planned[0]["delayMs"] == 1000
            assert [p["failure"]["code"] for p in planned] == ["RATE_LIMIT", "SERVER", "TRANSPORT"]
            attempts = [e["data"] for e in editor.seen("assistant/attempt")]
            assert [a["attempt"] for a in attempts] == [1, 2, 3]
            assert next(s["waitingFor"] for s in editor.statuses if "waitingFor" in s) == "retry"
            reports = [value["message"] for _, value in editor.progress if value["kind"] == "report"]
            assert any("slow down" in report and "tries again in 1 s (1 of 5)" in report for report in reports)
            assert len(model.requests) == 4
            assert all(r.body["messages"] == model.requests[0].body["messages"] for r in model.requests)
            await editor.until(lambda: session_rows(project)[-1]["type"] == "turn/end")
    rows = session_rows(project)
    assert [r["type"] for r in rows].count("turn/start") == 1
    (message,) = [r["data"]["message"] for r in rows if r["type"] == "assistant/message"]
    assert [block["text"] for block in message["content"] if block["type"] == "text"] == ["A whole answer."]


async def test_a_wait_is_ended_by_its_user_or_cancelled_at_once(project) -> None:
    busy = refusal(429, headers={"Retry-After": "50"})
    with FakeModelServer(busy, answer("There."), busy) as model:
        async with fake_editor(project, model_url=model.url) as editor:
            await editor.command("dsh.followup", {"text": "one"})
            await editor.event("llm/retry")
            assert await editor.command("dsh.retry") == {}
            await editor.event("turn/end")
            await editor.command("dsh.followup", {"text": "two"})
            await editor.event("llm/retry", 2)
            began = time.monotonic()
            assert (await editor.command("dsh.cancel"))["wasRunning"]
            end = await editor.event("turn/end", 2)
            assert end["data"]["reason"]["kind"] == "aborted"
            assert time.monotonic() - began < 2
            assert len(model.requests) == 3
