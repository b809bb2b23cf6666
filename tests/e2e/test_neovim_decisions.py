"""The Neovim client's permissions: said without a prompt, given and refused by keys made for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.desk import wait_for
from tests.e2e.neovim_client import READ_S, ClientDesk
from tests.e2e.story import CALC, DONE, held_after, uneven
from tests.support.model_server import Reply, answer


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[ClientDesk]:
    with ClientDesk.set_up(tmp_path, {"calc.py": CALC}) as desk:
        yield desk


@pytest.fixture
def outside(desk: ClientDesk) -> Iterator[Path]:
    path = desk.root.parent / f"{desk.root.name}-outside.txt"
    path.write_text("far away\n")
    yield path
    path.unlink()


def look(path: Path):
    return answer("", calls=[("read_file", {"path": str(path)})])


def test_a_key_gives_permission_once_and_is_gone_afterwards(desk: ClientDesk, outside: Path) -> None:
    neovim = desk.neovim
    desk.model.script(look(outside), DONE)
    desk.dsh("ask Read it.")
    desk.wait_for_permission()
    assert desk.announced("DshWaiting")[0]["waitingFor"] == "approval"
    desk.wait_for_screen("your permission")
    desk.wait_for_screen("ghy allow · ghs for this session · ghn refuse")
    neovim.keys("ghy")
    assert "far away" in desk.tool_result(2)
    desk.wait_for_chat("allowed once")
    desk.wait_for_turns(1)
    wait_for(lambda: neovim.lua("return vim.fn.maparg('ghy', 'n')") == "", "the key is gone")
    assert neovim.prompts() == []


def test_permission_for_the_session_is_asked_for_once(desk: ClientDesk, outside: Path) -> None:
    desk.model.script(look(outside), look(outside), DONE)
    desk.dsh("ask Read it twice.")
    desk.wait_for_permission()
    desk.neovim.keys("ghs")
    assert "far away" in desk.tool_result(3)
    assert desk.wait_for_turns(1) == "completed"
    assert len(desk.announced("DshWaiting")) == 1


def test_a_refusal_takes_words_for_the_agent_and_leaving_the_prompt_refuses_nothing(
    desk: ClientDesk, outside: Path
) -> None:
    neovim = desk.neovim
    desk.model.script(look(outside), DONE)
    desk.dsh("ask Read it.")
    desk.wait_for_permission()
    neovim.keys("ghn")
    wait_for(lambda: neovim.mode()["mode"] == "c", "it asks why, since the user pressed the key")
    neovim.keys("<Esc>")
    wait_for(lambda: neovim.mode()["mode"] == "n", "the prompt is left")
    assert desk.run("dsh.status")["state"] == "waiting"
    neovim.keys("ghnnot that one<CR>")
    assert "not that one" in desk.tool_result(2)
    assert "far away" not in desk.tool_result(2)
    desk.wait_for_chat("refused: not that one")
    desk.wait_for_turns(1)


def test_while_the_conversation_is_closed_a_corner_says_what_waits(desk: ClientDesk, outside: Path) -> None:
    neovim = desk.neovim
    desk.model.script(look(outside), DONE)
    desk.dsh("ask Read it.")
    desk.wait_for_permission()
    window = neovim.lua("return vim.api.nvim_get_current_win()")
    desk.dsh("chat")
    wait_for(lambda: not desk.window("dsh"), "the conversation is closed")
    screen = desk.wait_for_screen("May read_file run?")
    assert f"{desk.root.name}-outside.txt" in screen
    assert "ghy allow" in screen
    assert neovim.lua("return vim.api.nvim_get_current_win()") == window
    neovim.keys("ghy")
    desk.wait_for_turns(1)
    wait_for(lambda: "May read_file" not in str(neovim.screen), "the corner is gone")


def test_keys_that_are_typed_while_permission_is_asked_for_reach_the_buffer(desk: ClientDesk, outside: Path) -> None:
    neovim = desk.neovim
    desk.model.script(look(outside), DONE)
    desk.dsh("ask Read it.")
    neovim.keys("ggO")
    text = "# ghy ghs y n 1 2 3 <yes> ok "
    neovim.type(text, pause_s=uneven)
    desk.wait_for_permission()
    neovim.type("ghy", pause_s=uneven)
    neovim.keys("<CR><CR><Esc>")
    wait_for(lambda: neovim.text().startswith(f"{text}ghy\n"), "every key is in the buffer")
    assert desk.run("dsh.status")["state"] == "waiting"
    assert len(desk.model.requests) == 1
    neovim.keys("ghy")
    assert "far away" in desk.tool_result(2)
    desk.wait_for_turns(1)
    assert neovim.prompts() == []


def test_a_permission_that_is_asked_for_beside_the_command_line_window_shows_afterwards(
    desk: ClientDesk, outside: Path
) -> None:
    neovim = desk.neovim
    reply, gate = held_after("I look around first, slowly.")
    desk.model.script(Reply(packets=(*reply.packets[:-2], *look(outside).packets[1:])), DONE)
    desk.dsh("ask Read it.")
    wait_for(lambda: gate.reached, "it streams")
    desk.dsh("chat")
    neovim.keys("q:")
    wait_for(lambda: neovim.lua("return vim.fn.getcmdwintype()") == ":", "the window of the command line is open")
    gate.release()
    wait_for(lambda: desk.announced("DshWaiting"), "the agent waits")
    assert neovim.mode() == {"mode": "n", "blocking": False}
    neovim.keys(":quit<CR>")
    desk.read("May read_file run?")
    neovim.keys("ghy")
    assert desk.wait_for_turns(1) == "completed"


def test_a_choice_of_all_answers_is_one_key_away(desk: ClientDesk, outside: Path) -> None:
    neovim = desk.neovim
    desk.model.script(look(outside), DONE)
    desk.dsh("ask Read it.")
    desk.wait_for_permission()
    neovim.keys("gho")
    desk.wait_for_screen("2: Allow once")
    neovim.keys("2<CR>")
    assert "far away" in desk.tool_result(2)
    desk.wait_for_turns(1)


def test_a_key_that_falls_as_the_question_appears_allows_nothing(desk: ClientDesk, outside: Path) -> None:
    neovim = desk.neovim
    desk.model.script(look(outside), DONE)
    neovim.lua("""
      vim.api.nvim_create_autocmd('User', { pattern = 'DshWaiting', once = true, callback = function()
        vim.api.nvim_feedkeys('ghy', 'm', false)
      end })
    """)
    desk.dsh("ask Read it.")
    desk.wait_for_permission()
    assert desk.run("dsh.status")["state"] == "waiting"
    assert len(desk.model.requests) == 1
    neovim.keys("ghy")
    assert "far away" in desk.tool_result(2)
    assert desk.wait_for_turns(1) == "completed"


def test_what_is_too_long_for_the_corner_is_read_in_the_conversation_before_it_is_allowed(desk: ClientDesk) -> None:
    neovim = desk.neovim
    command = "\n".join(f"echo {number} > made-{number}.txt" for number in range(20))
    desk.model.script(answer("", calls=[("shell", {"command": command})]), DONE)
    desk.dsh("ask Make them.")
    desk.wait_for_permission()
    desk.dsh("chat")
    desk.read("… and more: :Dsh shows all of it")
    neovim.keys("ghy")
    desk.read("echo 19 > made-19.txt")
    assert not (desk.root / "made-0.txt").exists()
    assert desk.run("dsh.status")["waitingFor"] == "approval"
    neovim.keys("ghy")
    assert desk.wait_for_turns(1) == "completed"
    assert (desk.root / "made-19.txt").exists()


def test_what_is_too_long_for_the_screen_is_shown_part_by_part_and_allowed_then(desk: ClientDesk) -> None:
    neovim = desk.neovim
    command = "\n".join(f"echo {number} > made-{number}.txt" for number in range(60))
    desk.model.script(answer("", calls=[("shell", {"command": command})]), answer("All are made.\n" * 40 + "Done."))
    desk.dsh("ask Make them.")
    desk.wait_for_permission()
    told = "look at all of it, then press the key again; gho decides at once"
    for screen in (1, 2):
        neovim.keys("ghy")
        wait_for(lambda seen=screen: neovim.messages().count(told) == seen, "it is told")  # type: ignore[misc]
        assert desk.run("dsh.status")["waitingFor"] == "approval"
        desk.read(told)
    neovim.keys("ghy")
    assert desk.wait_for_turns(1) == "completed"
    assert (desk.root / "made-59.txt").exists()
    desk.wait_for_screen("Done.")


def test_nothing_is_allowed_that_is_not_on_the_screen(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.model.script(answer("", calls=[("shell", {"command": "echo one > made.txt"})]), DONE)
    desk.dsh("ask Make it.")
    desk.wait_for_permission()
    desk.dsh("chat")
    desk.read("May shell run?")
    neovim.keys(":tabnew<CR>ghy")  # faster than anything could be drawn
    desk.wait_for_screen("look at all of it")
    assert desk.run("dsh.status")["waitingFor"] == "approval"
    desk.dsh("chat")
    wait_for(lambda: not desk.window("dsh"), "the conversation is closed")
    neovim.keys(":tabnew<CR>")
    wait_for(lambda: neovim.lua("return vim.fn.tabpagenr('$')") == 3, "a third tab page")
    desk.read("May shell run?")
    neovim.keys("ghy")
    assert desk.wait_for_turns(1) == "completed"
    assert desk.on_disk("made.txt") == "one\n"


def test_a_mistyped_word_allows_nothing(desk: ClientDesk, outside: Path) -> None:
    desk.model.script(look(outside), DONE)
    desk.dsh("ask Read it.")
    desk.wait_for_permission()
    for words in ("never", "sesion", "sav", "once more"):
        desk.dsh(f"allow {words}")
        told = f"dsh: {words} is none of once, session, save: nothing is allowed"
        wait_for(lambda told=told: told in desk.neovim.messages(), "it is told")  # type: ignore[misc]
    assert desk.run("dsh.status")["waitingFor"] == "approval"
    desk.dsh("allow once")
    assert "far away" in desk.tool_result(2)
    desk.wait_for_chat("allowed once")
    desk.wait_for_turns(1)


@pytest.mark.parametrize(("words", "outcome"), [("allow", "allowed once"), ("allow session", "for this session")])
def test_commands_give_permission_as_the_keys_do(desk: ClientDesk, outside: Path, words: str, outcome: str) -> None:
    desk.model.script(look(outside), DONE)
    desk.dsh("ask Read it.")
    desk.wait_for_permission()
    desk.dsh(words)
    desk.wait_for_chat(outcome)
    assert "far away" in desk.tool_result(2)
    desk.wait_for_turns(1)


def test_commands_refuse_and_answer_too(desk: ClientDesk, outside: Path) -> None:
    desk.model.script(look(outside), answer("", calls=[("ask", {"question": "Why?"})]), DONE)
    desk.dsh("ask Read it.")
    desk.wait_for_permission()
    desk.dsh("deny not that one")
    assert "not that one" in desk.tool_result(2)
    desk.wait_for_chat("? Why?")
    desk.dsh("answer")
    wait_for(lambda: desk.neovim.mode()["mode"] == "c", "it asks")
    desk.neovim.keys("Because.<CR>")
    assert "Because." in desk.tool_result(3)
    desk.wait_for_turns(1)


# -- commands


def test_a_command_is_read_before_it_is_allowed_and_runs_then(desk: ClientDesk) -> None:
    desk.model.script(answer("", calls=[("shell", {"command": "echo one > made.txt"})]), DONE)
    desk.dsh("ask Make it.")
    desk.wait_for_permission()
    desk.wait_for_screen("echo one > made.txt")
    assert not (desk.root / "made.txt").exists()
    desk.neovim.keys("ghy")
    assert desk.wait_for_turns(1) == "completed"
    assert desk.on_disk("made.txt") == "one\n"


def test_a_command_that_would_not_see_unsaved_text_is_allowed_with_saving(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.model.script(answer("", calls=[("shell", {"command": "cat calc.py > seen.txt"})]), DONE)
    neovim.keys("Go# mine<Esc>")
    desk.dsh("ask Run it.")
    desk.wait_for_permission()
    desk.dsh("chat")
    desk.wait_for_screen("It would not see what is unsaved in calc.py.")
    neovim.keys("ghw")
    assert desk.wait_for_turns(1) == "completed"
    assert desk.on_disk("seen.txt") == f"{CALC}# mine\n"
    assert desk.on_disk("calc.py") == f"{CALC}# mine\n"


# -- questions


def test_a_question_is_answered_with_one_of_its_options(desk: ClientDesk) -> None:
    neovim = desk.neovim
    ask = {"question": "Which of the two?", "options": ["the first", "the second"]}
    desk.model.script(answer("", calls=[("ask", ask)]), DONE)
    desk.dsh("ask Ask me.")
    desk.wait_for_chat("? Which of the two?\n  ○ the first\n  ○ the second\n  gho answer")
    wait_for(lambda: desk.announced("DshWaiting"), "it is announced")
    assert desk.announced("DshWaiting")[-1]["waitingFor"] == "question"
    assert not neovim.mode()["blocking"]
    neovim.keys("gho")
    desk.wait_for_screen("2: the second")
    neovim.keys("2<CR>")
    assert "the second" in desk.tool_result(2)
    desk.wait_for_chat("✓ Which of the two?\n  the second")
    desk.wait_for_turns(1)


def test_a_question_is_answered_in_own_words(desk: ClientDesk) -> None:
    neovim = desk.neovim
    ask = {"question": "Which of the two?", "options": ["the first", "the second"]}
    desk.model.script(answer("", calls=[("ask", ask)]), answer("", calls=[("ask", {"question": "Why?"})]), DONE)
    desk.dsh("ask Ask me.")
    desk.wait_for_chat("○ the second")
    neovim.keys("gho")
    desk.wait_for_screen("3: Something else…")
    neovim.keys("3<CR>")
    wait_for(lambda: neovim.mode()["mode"] == "c", "it asks")
    neovim.keys("both<CR>")
    assert "both" in desk.tool_result(2)
    desk.wait_for_chat("? Why?")
    neovim.keys("gho")
    wait_for(lambda: neovim.mode()["mode"] == "c", "it asks")
    neovim.keys("Because.<CR>")
    assert "Because." in desk.tool_result(3)
    desk.wait_for_turns(1)


ODD = "echo `touch a` [x](rm -rf b) **c** > made.txt"


@pytest.mark.parametrize("before", ["", "Look:\n```sh\nls\n", "Look:\n```"])
def test_a_command_is_shown_with_all_its_characters_whatever_was_said_before_it(
    desk: ClientDesk, before: str
) -> None:
    desk.neovim.command("set columns=200")
    desk.model.script(answer(before, calls=[("shell", {"command": f"{ODD}\n```\n{ODD}"})]), DONE)
    desk.dsh("ask Make it.")
    desk.wait_for_permission()
    assert str(desk.neovim.screen).count(ODD) == 3, "in the title too"
    desk.dsh("deny")
    desk.neovim.keys("<CR>")
    desk.wait_for_turns(1)


def test_nothing_is_allowed_that_a_small_screen_does_not_show(tmp_path: Path) -> None:
    class SmallDesk(ClientDesk):
        SIZE = (40, 9)

    with SmallDesk.set_up(tmp_path, {"calc.py": CALC}) as desk:
        command = f"echo {'a' * 50}\n" * 4 + "echo last > made.txt"
        desk.model.script(answer("", calls=[("shell", {"command": command})]), DONE)
        desk.dsh("mode ask")
        desk.send("dsh.followup", text="Make it.")
        wait_for(lambda: desk.announced("DshWaiting"), "the agent waits")
        desk.read("… and more")
        desk.neovim.keys("ghy")
        desk.wait_for_screen("look at all")
        assert desk.run("dsh.status")["state"] == "waiting"
        assert not (desk.root / "made.txt").exists()
        desk.dsh("cancel")
        desk.wait_for_turns(1)


def test_a_command_in_one_line_that_is_higher_than_its_window_is_allowed_after_all_of_it_was_shown(
    desk: ClientDesk,
) -> None:
    neovim = desk.neovim
    desk.model.script(answer("", calls=[("shell", {"command": f"echo {'a' * 4000}; touch made.txt"})]), DONE)
    desk.dsh("ask Make it.")
    desk.wait_for_permission()
    shown = ""
    for _ in range(20):
        shown += str(neovim.screen)
        neovim.keys("ghy")
        time.sleep(READ_S)
        if desk.announced("DshTurnEnd"):
            break
    assert desk.wait_for_turns(1) == "completed"
    assert (desk.root / "made.txt").exists()
    assert "command echo" in shown
    assert "made.txt" in shown
