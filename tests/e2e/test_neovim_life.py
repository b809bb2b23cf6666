"""The Neovim client's sessions, and a server that dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.desk import ended_within, wait_for
from tests.e2e.neovim_client import ClientDesk, kill
from tests.e2e.story import CALC, DONE, MEND, MENDED, held_after
from tests.support.model_server import Reply, answer, refusal

CHILDREN = "return vim.api.nvim_get_proc_children(vim.fn.getpid())"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[ClientDesk]:
    with ClientDesk.set_up(tmp_path, {"calc.py": CALC, "other.py": "x = 1\n"}) as desk:
        yield desk


def session_id(desk: ClientDesk) -> str:
    return str(desk.neovim.lua("return require('dsh.feed').state.session"))


# -- a server that dies


def test_a_killed_server_is_told_of_and_one_key_goes_on_with_the_session(desk: ClientDesk) -> None:
    neovim = desk.neovim
    reply, gate = held_after("I am in the middle of it.")
    desk.model.script(answer("The first answer."), reply, answer("The third answer."))
    desk.dsh("ask One.")
    desk.wait_for_chat("The first answer.")
    desk.dsh("ask Two.")
    wait_for(lambda: gate.reached, "it streams")
    session = session_id(desk)
    pid = desk.server_pid()
    kill(pid)
    assert ended_within(pid, 5)
    desk.expects = "the server has ended (signal 9); :Dsh restart goes on with the session"
    desk.wait_for_screen(desk.expects)
    desk.wait_for_screen("✗ dsh")
    assert desk.announced("DshExit") == [{"code": 0, "signal": 9}]
    assert not neovim.mode()["blocking"]
    gate.release()
    desk.go_to("dsh")
    neovim.keys("R")
    desk.wait_for_chat("– interrupted")
    assert session_id(desk) == session
    desk.dsh("ask Three.")
    chat = desk.wait_for_chat("The third answer.")
    assert chat.index("The first answer.") < chat.index("Two.") < chat.index("– interrupted") < chat.index("Three.")
    assert chat.count("The first answer.") == 1
    contents = [message["content"] for message in desk.sent_messages(3)]
    assert "The first answer." in contents


def test_the_next_question_starts_a_dead_server_too(desk: ClientDesk) -> None:
    desk.model.script(answer("The first answer."), answer("The second answer."))
    desk.dsh("ask One.")
    desk.wait_for_turns(1)
    session = session_id(desk)
    kill(desk.server_pid())
    desk.expects = "the server has ended (signal 9)"
    wait_for(lambda: desk.announced("DshExit"), "it is dead")
    desk.dsh("ask Two.")
    desk.wait_for_chat("The second answer.")
    assert session_id(desk) == session


def test_a_question_that_follows_a_stop_at_once_is_asked_of_the_next_server(desk: ClientDesk) -> None:
    desk.model.script(answer("The first answer."), answer("The second answer."))
    desk.dsh("ask One.")
    desk.wait_for_turns(1)
    desk.neovim.keys(":Dsh stop<CR>:Dsh ask Two.<CR>")
    desk.wait_for_chat("The second answer.")


def test_a_review_that_waited_when_the_server_died_is_gone_and_said_to_be(desk: ClientDesk) -> None:
    desk.model.script(MEND)
    desk.dsh("ask Mend add.")
    desk.wait_for_proposal("calc.py")
    kill(desk.server_pid())
    desk.expects = "the server has ended (signal 9)"
    wait_for(lambda: desk.announced("DshExit"), "it is dead")
    wait_for(lambda: desk.marks("calc.py") == [], "nothing is drawn that nobody can decide")
    desk.dsh("restart")
    desk.wait_for_chat("– interrupted")
    assert desk.neovim.text() == CALC


@pytest.mark.parametrize("command", ["no-such-server", "false"])
def test_a_server_that_cannot_be_started_is_told_and_the_words_come_back(tmp_path: Path, command: str) -> None:
    with ClientDesk.set_up(tmp_path, {"calc.py": CALC}) as desk:
        desk.neovim.lua("vim.g.dsh = { cmd = { ... } }", command)
        desk.dsh("ask")
        wait_for(lambda: desk.neovim.mode()["mode"] == "i", "one can write")
        desk.neovim.keys("One.<CR>")
        problems = {
            "no-such-server": "no-such-server is not there; see :checkhealth dsh",
            "false": "the server has ended",
        }
        desk.expects = problems[command]
        wait_for(lambda: desk.expects in desk.neovim.messages(), "it is told")
        wait_for(lambda: desk.neovim.text() == "One.\n", "the words are back")
        assert not desk.neovim.mode()["blocking"]


def test_words_that_a_dying_server_did_not_take_come_back(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.model.script(answer("The first answer."))
    desk.dsh("ask One.")
    desk.wait_for_turns(1)
    pid = desk.server_pid()
    os.kill(pid, signal.SIGSTOP)  # it hears nothing any more
    desk.go_to("dsh-input")
    neovim.keys("iTwo.<CR>and")
    wait_for(lambda: neovim.text() == "and\n", "the words are sent")
    kill(pid)
    desk.expects = "the server has ended (signal 9)"
    wait_for(lambda: neovim.text() == "Two.\nand\n", "the words are back, before those written since")


def test_a_server_that_hangs_as_it_starts_is_restarted_and_the_words_come_back(desk: ClientDesk) -> None:
    neovim = desk.neovim
    working = neovim.lua("local before = vim.g.dsh; vim.g.dsh = { cmd = { 'sleep', '60' } } return before")
    desk.dsh("ask")
    wait_for(lambda: neovim.mode()["mode"] == "i", "one can write")
    neovim.keys("One.<CR>")
    wait_for(lambda: neovim.lua("return #vim.lsp.get_clients({ _uninitialized = true })") == 1, "it starts")
    desk.model.script(answer("The first answer."))
    neovim.lua("vim.g.dsh = ...", working)
    desk.dsh("restart")
    wait_for(lambda: neovim.text() == "One.\n", "the words are back")
    wait_for(lambda: desk.status()["state"] == "idle", "the other one runs")
    desk.go_to("dsh-input")
    neovim.keys("<CR>")
    desk.wait_for_chat("The first answer.")


def test_a_server_that_never_answers_is_given_up_and_it_is_told(tmp_path: Path) -> None:
    with ClientDesk.set_up(tmp_path, {"calc.py": CALC}) as desk:
        desk.neovim.lua("vim.g.dsh = { cmd = { 'sleep', '60' } }")
        desk.dsh("ask One.")
        wait_for(lambda: len(desk.neovim.lua(CHILDREN)) == 1, "it starts")
        (pid,) = desk.neovim.lua(CHILDREN)
        desk.expects = "the server does not answer; see :Dsh log, :Dsh restart tries again"
        wait_for(lambda: desk.expects in desk.neovim.messages(), "it is told", 40)
        assert ended_within(pid, 5)
        desk.go_to("dsh-input")
        assert desk.neovim.text() == "One.\n"
        assert desk.status()["state"] == "off"


def test_the_command_can_be_set_where_servers_are_configured(tmp_path: Path) -> None:
    with ClientDesk.set_up(tmp_path, {"calc.py": CALC}) as desk:
        desk.neovim.lua("""
          vim.lsp.config('dsh_lsp', { cmd = { vim.fn.exepath('dsh-lsp'), 'serve' } })
          local options = vim.g.dsh
          options.cmd = { 'no-such-server' }
          vim.g.dsh = options
        """)
        desk.model.script(answer("The first answer."))
        desk.dsh("ask One.")
        desk.wait_for_turns(1)
        kill(desk.server_pid())
        desk.expects = "the server has ended (signal 9); :Dsh restart goes on with the session"
        desk.wait_for_screen(desk.expects)


def test_links_and_sessions_are_those_of_the_server_wherever_the_user_goes(desk: ClientDesk) -> None:
    neovim = desk.neovim
    (desk.root / "sub").mkdir()
    (desk.root / "sub" / "calc.py").write_text("another one\n")
    desk.model.script(answer("", calls=[("read_file", {"path": "calc.py"})]), DONE)
    desk.dsh("ask One.")
    desk.wait_for_chat("Done.")
    neovim.command("cd sub")
    desk.go_to("dsh")
    neovim.keys("/Read calc<CR><CR>")
    wait_for(lambda: neovim.text() == CALC, "the file that the agent read opens")
    desk.dsh("sessions")
    desk.wait_for_screen("Go on with a session")
    neovim.keys("<Esc>")


# -- sessions


def test_a_session_is_left_and_gone_on_with(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.model.script(answer("The first answer."), answer("The second answer."), answer("The third answer."))
    desk.dsh("ask One.")
    desk.wait_for_turns(1)
    first = session_id(desk)
    desk.dsh("rename Numbers")
    desk.wait_for_screen("○ Numbers")
    desk.dsh("new Others")
    wait_for(lambda: session_id(desk) != first, "there is another session")
    desk.dsh("ask Two.")
    chat = desk.wait_for_chat("The second answer.")
    assert "The first answer." not in chat
    desk.wait_for_turns(2)
    desk.dsh("sessions")
    desk.wait_for_screen("Numbers  (1 turn, ")
    number = next(line.split(":")[0][-1] for line in str(neovim.screen).splitlines() if "Numbers  (" in line)
    neovim.keys(f"{number}<CR>")
    chat = desk.wait_for_chat("The first answer.")
    assert "The second answer." not in chat
    assert session_id(desk) == first
    desk.dsh("ask Three.")
    desk.wait_for_chat("The third answer.")
    assert [message["content"] for message in desk.sent_messages(3)] == ["One.", "The first answer.", "Three."]


def test_a_session_in_the_background_that_waits_is_told_of_and_shown(desk: ClientDesk) -> None:
    neovim = desk.neovim
    reply, gate = held_after("I look around first.")
    desk.model.script(Reply(packets=(*reply.packets[:-2], *MEND.packets[1:])), DONE)
    desk.dsh("ask One.")
    wait_for(lambda: gate.reached, "it streams")
    first = session_id(desk)
    desk.dsh("new Others")
    wait_for(lambda: session_id(desk) != first, "there is another session")
    gate.release()
    wait_for(lambda: desk.announced("DshWaiting"), "it is told of")
    assert desk.announced("DshWaiting") == [{"session": first, "waitingFor": "review"}]
    assert desk.status()["elsewhere"] == 1
    desk.wait_for_screen("1 in :Dsh sessions")
    desk.dsh("sessions")
    screen = desk.wait_for_screen("waits for your review")
    number = next(line.split(":")[0][-1] for line in screen.splitlines() if "waits for your review" in line)
    neovim.keys(f"{number}<CR>")
    desk.wait_for_proposal("calc.py")
    wait_for(lambda: desk.status()["elsewhere"] == 0, "nothing waits elsewhere")
    desk.dsh("accept all")
    wait_for(lambda: desk.on_disk("calc.py") == MENDED, "it landed")
    assert len(desk.announced("DshWaiting")) == 1
    desk.model.wait_for_requests(2, 20)


def test_a_session_is_forked_after_a_turn(desk: ClientDesk) -> None:
    desk.model.script(answer("The first answer."), answer("The second answer."), answer("The third answer."))
    for number, words in enumerate(("One.", "Two."), 1):
        desk.dsh(f"ask {words}")
        desk.wait_for_turns(number)
    first = session_id(desk)
    desk.dsh("fork 1")
    wait_for(lambda: session_id(desk) != first, "there is a fork")
    wait_for(lambda: desk.chat() == "One.\n\nThe first answer.", "it holds the first turn")
    desk.dsh("ask Three.")
    desk.wait_for_chat("The third answer.")
    assert [message["content"] for message in desk.sent_messages(3)] == ["One.", "The first answer.", "Three."]


def test_what_a_failed_turn_owes_is_run_again(desk: ClientDesk) -> None:
    desk.model.script(refusal(401, {"error": {"message": "no such key"}}), answer("Now it works."))
    desk.dsh("ask One.")
    desk.wait_for_chat(":Dsh retry runs it again")
    desk.dsh("retry")
    desk.wait_for_chat("Now it works.")
    desk.dsh("retry")
    wait_for(lambda: "dsh: " in desk.neovim.messages(), "it is told that nothing is owed")


def test_a_wait_for_the_next_try_is_shown_and_can_be_ended(desk: ClientDesk) -> None:
    busy = refusal(503, {"error": {"message": "too busy"}}, headers={"Retry-After": "50"})
    desk.model.script(busy, answer("Now it works."))
    desk.dsh("ask One.")
    desk.wait_for_chat("try 1 of 5 in 50 s · :Dsh retry tries now")
    desk.wait_for_screen("the next try")
    desk.dsh("retry")
    chat = desk.wait_for_chat("Now it works.")
    assert "tries now" not in chat
    assert desk.wait_for_turns(1) == "completed"


def test_the_mode_is_chosen_and_shown(desk: ClientDesk) -> None:
    desk.model.script(DONE)
    desk.dsh("mode plan")
    wait_for(lambda: desk.status().get("mode") == "plan", "the mode is set")
    desk.dsh("ask One.")
    desk.wait_for_screen("plan · deepseek-flash")
    desk.dsh("mode")
    desk.wait_for_screen("read-only: nothing is changed")
    desk.neovim.keys("1<CR>")
    wait_for(lambda: desk.status().get("mode") == "ask", "the mode is set")
    desk.dsh("mode nonsense")
    wait_for(lambda: "dsh: " in desk.neovim.messages(), "it is told")
    desk.wait_for_turns(1)


def test_a_session_is_exported_and_thrown_away(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.model.script(answer("The first answer."))
    desk.dsh("ask One.")
    desk.wait_for_turns(1)
    desk.dsh("export")
    wait_for(lambda: "## DSH\n\nThe first answer." in neovim.text(), "the session is a text")
    neovim.command("tabclose!")
    desk.dsh("delete")
    desk.wait_for_screen("Throw a session away")
    neovim.keys("1<CR>")
    wait_for(lambda: "trash" in neovim.messages(), "it is told where it is")
    assert desk.run("dsh.session.list")["sessions"] == []


def test_a_session_is_read_like_a_file(desk: ClientDesk) -> None:
    desk.model.script(answer("The first answer."))
    desk.dsh("ask One.")
    desk.wait_for_turns(1)
    desk.neovim.command(f"edit dsh:/session/{session_id(desk)}/transcript.md")
    wait_for(lambda: "## DSH\n\nThe first answer." in desk.neovim.text(), "the transcript")
    assert desk.neovim.lua("return { vim.bo.filetype, vim.bo.modifiable }") == ["markdown", False]


def test_the_log_opens(desk: ClientDesk) -> None:
    desk.model.script(DONE)
    desk.dsh("ask One.")
    desk.wait_for_turns(1)
    desk.dsh("log")
    wait_for(lambda: "HTTP Request" in desk.neovim.text(), "the log is there")
    assert "sk-test" not in desk.neovim.text()


def test_the_log_is_that_of_our_own_server(desk: ClientDesk) -> None:
    desk.model.script(DONE)
    desk.dsh("ask One.")
    desk.wait_for_turns(1)
    mine = Path(desk.neovim.lua("return require('dsh.commands').log_file()"))
    newer = mine.with_name("dsh-lsp-1.log")
    newer.write_text("of another Neovim\n")
    os.utime(newer, (4e9, 4e9))
    desk.dsh("log")
    wait_for(lambda: "HTTP Request" in desk.neovim.text(), "the log is there")


def test_nothing_that_waits_is_told_of(desk: ClientDesk) -> None:
    desk.model.script(DONE)
    desk.dsh("ask One.")
    desk.wait_for_turns(1)
    desk.dsh("resume")
    wait_for(lambda: "dsh: nothing waits" in desk.neovim.messages(), "it is told")


def test_an_edit_lands_after_a_restart(desk: ClientDesk) -> None:
    desk.model.script(DONE, MEND, DONE)
    desk.dsh("ask One.")
    desk.wait_for_turns(1)
    old = desk.server_pid()
    desk.dsh("restart")
    assert ended_within(old, 10)
    assert desk.announced("DshExit") == []
    wait_for(lambda: desk.status()["state"] == "idle", "it runs again")
    desk.dsh("ask Mend add.")
    desk.wait_for_proposal("calc.py")
    desk.go_to_file("calc.py")
    desk.neovim.keys("ghA")
    desk.wait_for_turns(2)
    assert desk.on_disk("calc.py") == MENDED


# -- models, and a history that gets long


def test_the_model_is_chosen_from_a_list_and_by_name(desk: ClientDesk) -> None:
    desk.model.script(DONE, DONE)
    desk.dsh("ask One.")
    desk.wait_for_turns(1)
    desk.dsh("model deepseek/another-model")
    wait_for(lambda: desk.status().get("model") == "another-model", "the model is set")
    desk.dsh("ask Two.")
    desk.wait_for_turns(2)
    assert desk.model.requests[-1].body["model"] == "another-model"
    desk.wait_for_screen("another-model")
    desk.dsh("model")
    wait_for(lambda: "dsh: no list of models: " in desk.neovim.messages(), "an endpoint that lists none is told of")
    desk.model.documents["/models"] = refusal(200, {"data": [{"id": "first-model"}, {"id": "second-model"}]})
    desk.dsh("model")
    screen = desk.wait_for_screen("deepseek/second-model")
    number = next(line.split(":")[0][-1] for line in screen.splitlines() if "deepseek/second-model" in line)
    desk.neovim.keys(f"{number}<CR>")
    wait_for(lambda: desk.status().get("model") == "second-model", "the model is set")


def test_a_history_is_made_shorter_and_it_is_told(desk: ClientDesk) -> None:
    desk.model.script(*(answer("word " * 400) for _ in range(4)), answer("In short."))
    for number in range(1, 5):
        desk.dsh(f"ask Question {number}.")
        desk.wait_for_turns(number)
    desk.dsh("compact")
    wait_for(lambda: "dsh: the history " in desk.neovim.messages(), "it is told how it went")
