"""The Neovim client's conversation: asking, reading along, steering, cancelling, and what waits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.desk import wait_for
from tests.e2e.neovim_client import ClientDesk
from tests.e2e.story import CALC, DONE, MEND, OTHER, held_after
from tests.support.model_server import Reply, answer, refusal

LOOK = answer("I look.", reasoning="Two functions,\n\nperhaps three.", calls=[("read_file", {"path": "calc.py"})])


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[ClientDesk]:
    with ClientDesk.set_up(tmp_path, {"calc.py": CALC, "other.py": OTHER}) as desk:
        yield desk


def test_a_question_is_asked_and_answered_beside_the_file_and_the_cursor_stays(desk: ClientDesk) -> None:
    desk.model.script(LOOK, answer("It has `add` and `double`, see calc.py:5."))
    window = desk.neovim.lua("return vim.api.nvim_get_current_win()")
    desk.dsh("ask What is in calc.py?")
    chat = desk.wait_for_chat("see calc.py:5.")
    assert desk.sent_messages(1)[-1]["content"] == "What is in calc.py?"
    assert chat.splitlines() == [
        "What is in calc.py?",
        "",
        "▸ Thinking · 4 words",
        "",
        "I look.",
        "",
        "✓ Read calc.py  lines 1-6",
        "",
        "It has `add` and `double`, see calc.py:5.",
    ]
    assert desk.neovim.lua("return vim.api.nvim_get_current_win()") == window
    assert desk.neovim.lua("return vim.api.nvim_win_get_cursor(0)") == [1, 0]
    assert desk.wait_for_turns(1) == "completed"


def test_characters_that_neovim_does_not_take_stand_in_the_conversation_as_it_shows_them(desk: ClientDesk) -> None:
    desk.model.script(answer("One\x00two", calls=[("read_file", {"path": "a\x00b"})]), answer("Done."))
    desk.dsh("ask What is in calc.py?")
    assert "One^@two" in desk.wait_for_chat("Done.")
    assert desk.wait_for_turns(1) == "completed"


def test_what_is_folded_unfolds_and_what_is_named_is_a_link(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.model.script(LOOK, answer("See other.py:2 for more."))
    desk.dsh("ask What is in calc.py?")
    desk.wait_for_chat("for more.")
    desk.go_to("dsh")
    neovim.keys("/Thinking<CR><Tab>")
    assert "▾ Thinking · 4 words\n  Two functions,\n  \n  perhaps three." in desk.wait_for_chat("perhaps three.")
    neovim.keys("zc")
    wait_for(lambda: "perhaps three" not in desk.chat(), "it is folded")
    neovim.keys("/Read calc<CR>zo")
    assert "1\tdef add(a, b):" in desk.wait_for_chat("def add")
    neovim.keys("zM")
    wait_for(lambda: "def add" not in desk.chat(), "all is folded")
    neovim.keys("/Read calc<CR><CR>")
    wait_for(lambda: neovim.text() == CALC, "the file of the tool call opens")
    desk.go_to("dsh")
    neovim.keys("/other.py<CR>gf")
    wait_for(lambda: neovim.text() == OTHER, "the file in the text opens")
    assert neovim.lua("return vim.fn.line('.')") == 2


def test_the_stream_is_followed_at_the_end_and_nowhere_else(desk: ClientDesk) -> None:
    neovim = desk.neovim
    first, gate = held_after("\n".join(f"line {n}" for n in range(60)))
    desk.model.script(first)
    desk.dsh("ask Count.")
    desk.wait_for_chat("line 1")
    desk.go_to("dsh")
    neovim.keys("gg")
    gate.release()
    desk.wait_for_chat("line 59")
    assert neovim.lua("return vim.fn.line('.')") == 1, "the cursor that was moved away stays"
    desk.model.script(answer("\n".join(f"more {n}" for n in range(60))))
    neovim.keys("G")
    desk.go_to_file("calc.py")
    desk.dsh("ask Again.")
    desk.wait_for_chat("more 59")
    desk.wait_for_screen("more 59")
    assert desk.wait_for_turns(2) == "completed"


def test_a_range_goes_with_the_question(desk: ClientDesk) -> None:
    desk.model.script(DONE, DONE, DONE)
    desk.neovim.keys(":1,2Dsh ask What is this?<CR>")
    asked = desk.sent_messages(1)[-1]["content"]
    assert asked == "What is this?\n\nFrom calc.py, lines 1-2:\n```\ndef add(a, b):\n    return a - b\n```"
    desk.neovim.keys("<Esc>2G0wve:Dsh ask And this word?<CR>")
    assert desk.sent_messages(2)[-1]["content"] == "And this word?\n\nFrom calc.py, lines 2-2:\n```\nreturn\n```"
    desk.neovim.keys("<Esc>:%Dsh ask And all?<CR>")
    assert desk.sent_messages(3)[-1]["content"] == "And all?\n\nSee calc.py"
    desk.model.script(DONE, DONE)
    desk.neovim.keys("<Esc>:2Dsh ask And this line?<CR>")
    assert "\n    return a - b\n" in desk.sent_messages(4)[-1]["content"]
    desk.neovim.keys("<Esc>:set selection=exclusive<CR>2G0wve:Dsh ask And this word?<CR>")
    assert desk.sent_messages(5)[-1]["content"].endswith("```\nreturn\n```")


def test_the_input_area_sends_steers_and_cancels_by_keys(desk: ClientDesk) -> None:
    neovim, model = desk.neovim, desk.model
    first, before_steer = held_after("I look around.")
    steered = Reply(packets=(*first.packets[:-2], *answer("", calls=[("list_files", {})]).packets[1:]))
    second, before_cancel = held_after("A long answer that nobody wants to read to its end.")
    model.script(steered, second)
    desk.dsh("ask")
    wait_for(lambda: neovim.mode()["mode"] == "i", "one can write")
    neovim.keys("Tell me<C-j>all.<CR>")
    assert desk.sent_messages(1)[-1]["content"] == "Tell me\nall."
    wait_for(lambda: before_steer.reached, "it streams")
    neovim.keys("In one sentence.<C-s>")
    wait_for(lambda: desk.run("dsh.inbox.list")["nextStep"], "the steer waits")
    before_steer.release()
    assert desk.sent_messages(2)[-1]["content"] == "In one sentence."
    wait_for(lambda: before_cancel.reached, "it streams again")
    neovim.keys("<C-q>")
    assert desk.wait_for_turns(1) == "aborted"
    assert desk.wait_for_chat("– cancelled")
    assert neovim.mode()["mode"] == "i", "one can go on writing"


@pytest.mark.parametrize(
    ("command", "hint", "chip"),
    [
        ("steer", "Steer…", "↳ joins the running turn"),
        ("inject", "Leave context…", "↳ is left for the next step, and starts nothing"),
    ],
)
def test_what_is_begun_as_a_steer_or_as_context_is_sent_as_that(
    desk: ClientDesk, command: str, hint: str, chip: str
) -> None:
    neovim = desk.neovim
    first, gate = held_after("I look around.")
    steered = Reply(packets=(*first.packets[:-2], *answer("", calls=[("list_files", {})]).packets[1:]))
    desk.model.script(steered, DONE)
    neovim.lua("vim.keymap.set('n', '<F2>', '<Plug>(dsh-steer)')")
    desk.dsh("ask One.")
    wait_for(lambda: gate.reached, "it streams")
    if command == "steer":
        neovim.keys("<F2>")
    else:
        desk.dsh(command)
    desk.wait_for_screen(hint)
    neovim.keys("In one sentence.")
    desk.wait_for_screen(chip)
    neovim.keys("<CR>")
    wait_for(lambda: desk.run("dsh.inbox.list")["nextStep"], "it waits for the next step")
    assert desk.run("dsh.inbox.list")["nextTurn"] == []
    desk.wait_for_screen("Ask…")
    desk.dsh(f"{command} And in English.")
    wait_for(lambda: len(desk.run("dsh.inbox.list")["nextStep"]) == 2, "the other one too")
    gate.release()
    assert "And in English." in str(desk.sent_messages(2)[-1]["content"])
    desk.wait_for_turns(1)


def test_a_link_shows_the_buffer_as_it_is_in_its_window(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.model.script(answer("See other.py:2 and calc.py:5."))
    neovim.keys(":set nohidden<CR>GA  # mine<Esc>")
    desk.dsh("ask Where?")
    desk.wait_for_chat("calc.py:5.")
    for _ in range(2):
        desk.go_to("dsh")
        neovim.keys("gg/other.py<CR>gf")
        wait_for(lambda: neovim.text() == OTHER, "the other file is open")
        neovim.keys("GA  # unsaved<Esc>")
        desk.go_to("dsh")
        neovim.keys("gg/calc.py<CR>gf")
        wait_for(lambda: "# mine" in neovim.text(), "this one is gone to")
        desk.go_to_file("other.py")
        neovim.keys("u")
    names = [
        Path(name).name
        for name in neovim.lua(
            "return vim.tbl_map(function(w) return vim.fn.bufname(w.bufnr) end, vim.fn.getwininfo())"
        )
    ]
    assert sorted(names) == ["calc.py", "chat", "input", "other.py"]


def test_a_link_reads_nothing_from_the_disk_that_is_open(desk: ClientDesk) -> None:
    neovim = desk.neovim
    desk.model.script(answer("See other.py:2."))
    neovim.command("set noautoread")
    neovim.command("edit other.py")
    neovim.command("edit calc.py")
    (desk.root / "other.py").write_text("changed outside\n")
    desk.dsh("ask Where?")
    desk.wait_for_chat("other.py:2.")
    reads = "reads = 0; vim.api.nvim_create_autocmd('BufReadPost', { callback = function() reads = reads + 1 end })"
    neovim.lua(reads)
    desk.go_to("dsh")
    neovim.keys("gg/other.py<CR>gf")
    wait_for(lambda: neovim.lua("return vim.api.nvim_buf_get_name(0)").endswith("other.py"), "it is shown")
    assert neovim.lua("return reads") == 0


def test_words_that_could_not_be_sent_come_back(tmp_path: Path) -> None:
    with ClientDesk.set_up(tmp_path, {"calc.py": CALC}, key=None) as desk:
        desk.dsh("ask")
        wait_for(lambda: desk.neovim.mode()["mode"] == "i", "one can write")
        desk.neovim.keys("Mend add.<CR>")
        wait_for(lambda: "DEEPSEEK_API_KEY" in desk.neovim.messages(), "the variable is named")
        wait_for(lambda: desk.neovim.text() == "Mend add.\n", "the words are back")


def test_what_waits_can_be_seen_changed_dropped_and_run(desk: ClientDesk) -> None:
    neovim = desk.neovim
    first, gate = held_after("I take my time.")
    desk.model.script(first, answer("To the second."))
    desk.dsh("ask One.")
    wait_for(lambda: gate.reached, "it streams")
    desk.dsh("ask Two")
    desk.dsh("ask Three.")
    wait_for(lambda: desk.status()["queued"] == 2, "two wait")
    desk.wait_for_screen("2 queued")
    desk.dsh("queue")
    wait_for(lambda: neovim.text() == "Two\nThree.\n", "both are listed")
    neovim.keys("Gdd")
    wait_for(lambda: neovim.text() == "Two\n", "one is dropped")
    neovim.keys("<CR>")
    wait_for(lambda: "dsh://queue/" in neovim.lua("return vim.api.nvim_buf_get_name(0)"), "it can be changed")
    neovim.keys("A, the second.<Esc>")
    desk.go_to("dsh-queue")
    neovim.keys("<CR>")
    wait_for(lambda: neovim.text() == "Two, the second.\n", "the window that is open is gone to")
    neovim.keys(":w<CR>")
    wait_for(
        lambda: [one["text"] for one in desk.run("dsh.inbox.list")["nextTurn"]] == ["Two, the second."], "changed"
    )
    desk.dsh("cancel")
    assert desk.wait_for_turns(1) == "aborted"
    desk.wait_for_screen("1 paused")
    desk.dsh("resume")
    assert desk.sent_messages(2)[-1]["content"] == "Two, the second."
    desk.wait_for_chat("To the second.")
    gate.release()


def test_the_queue_shows_what_waits_in_the_session_that_is_shown(desk: ClientDesk) -> None:
    first, gate = held_after("I take my time.")
    desk.model.script(first, DONE)
    desk.dsh("ask One.")
    wait_for(lambda: gate.reached, "it streams")
    desk.dsh("ask Two")
    wait_for(lambda: desk.status()["queued"] == 1, "one waits")
    desk.dsh("queue")
    wait_for(lambda: desk.neovim.text() == "Two\n", "it is listed")
    desk.dsh("new Others")
    desk.wait_for_screen("nothing waits")
    desk.go_to("dsh-queue")
    assert desk.neovim.text() == "\n"
    desk.neovim.keys("dd")
    gate.release()
    desk.model.wait_for_requests(2, 20)


def test_the_winbar_and_the_status_line_say_how_it_stands(desk: ClientDesk) -> None:
    neovim = desk.neovim
    assert neovim.lua("return require('dsh').statusline()") == ""
    reply, gate = held_after("Slowly.")
    desk.model.script(reply)
    desk.dsh("ask One.")
    wait_for(lambda: gate.reached, "it streams")
    desk.wait_for_screen("● dsh")
    line = "return require('dsh').statusline()"
    wait_for(lambda: neovim.lua(line).startswith("● dsh ask · deepseek-flash"), "the status line says so too")
    gate.release()
    desk.wait_for_screen("○ dsh")
    desk.run("dsh.session.rename", session=desk.announced("DshTurnEnd")[0]["session"], title="100% slow")
    desk.wait_for_screen("○ 100% slow")
    assert desk.status()["context"] == 0
    assert desk.status()["tokens"].endswith("/1M")
    assert neovim.lua("return require('dsh').statusline()").endswith(f"· {desk.status()['tokens']}")


LOOKS = """
local ns, found = vim.api.nvim_get_namespaces()['dsh.chat'], {}
for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(vim.fn.bufnr('dsh://chat'), ns, 0, -1, { details = true })) do
  local line = vim.api.nvim_buf_get_lines(vim.fn.bufnr('dsh://chat'), mark[2], mark[2] + 1, false)[1]
  table.insert(found, { line, mark[4].line_hl_group or '' })
end
return found
"""


def test_what_waits_and_what_a_diff_takes_and_gives_stands_out(desk: ClientDesk) -> None:
    desk.model.script(MEND, DONE)
    desk.dsh("ask Mend add.")
    desk.wait_for_chat("waits for your review")
    looks = desk.neovim.lua(LOOKS)
    assert ["-    return a - b", "DshRemoved"] in looks
    assert ["+    return a + b", "DshAdded"] in looks
    winbar = "return require('dsh.status').winbar()"
    wait_for(lambda: "%#DshWaiting#your review" in desk.neovim.lua(winbar), "the winbar too")
    desk.dsh("reject all")
    desk.wait_for_turns(1)


def test_keys_go_from_question_to_question(desk: ClientDesk) -> None:
    desk.model.script(DONE, DONE, DONE)
    for number, words in enumerate(("One.", "Two.", "Three."), 1):
        desk.dsh(f"ask {words}")
        desk.wait_for_turns(number)
    desk.wait_for_chat("Three.\n\nDone.")
    desk.go_to("dsh")
    line = "return vim.api.nvim_get_current_line()"
    for keys, question in (("gg]]", "Two."), ("]]", "Three."), ("]]", "Three."), ("[[", "Two."), ("[[", "One.")):
        desk.neovim.keys(keys)
        wait_for(lambda wanted=question: desk.neovim.lua(line) == wanted, f"{keys} leads to {question}")  # type: ignore[misc]


def test_a_mistyped_subcommand_is_told_with_the_one_that_is_meant(desk: ClientDesk) -> None:
    desk.dsh("sesions")
    wait_for(lambda: "there is no :Dsh sesions, do you mean sessions?" in desk.neovim.messages(), "it is told")
    desk.dsh("cancel now")
    wait_for(lambda: ":Dsh cancel takes nothing after it, not now" in desk.neovim.messages(), "it is told")
    complete = desk.neovim.lua("return vim.fn.getcompletion('Dsh re', 'cmdline')")
    assert complete == ["reject", "rename", "restart", "resume", "retry", "review", "rewind"]
    assert desk.neovim.lua("return vim.fn.getcompletion('Dsh mode p', 'cmdline')") == ["plan"]


COMPLETION = """
local began = vim.uv.hrtime()
return { vim.fn.getcompletion('Dsh model deepseek/s', 'cmdline'), (vim.uv.hrtime() - began) / 1e6 }
"""


def test_models_are_completed_before_the_first_list_is_seen(desk: ClientDesk) -> None:
    desk.model.script(DONE)
    desk.model.documents["/models"] = refusal(200, {"data": [{"id": "first-model"}, {"id": "second-model"}]})
    desk.dsh("ask One.")
    desk.wait_for_turns(1)

    def completed() -> bool:
        names, waited_ms = desk.neovim.lua(COMPLETION)
        assert names == ["deepseek/second-model"] or waited_ms > 900, "it waits a moment for the list"
        return bool(names)

    wait_for(completed, "the list is there")
    assert desk.neovim.prompts() == []


def test_a_selection_goes_as_it_is_seen_and_not_as_the_file_that_it_spans(desk: ClientDesk) -> None:
    (desk.root / "one.txt").write_text("alpha cafe\u0301 \U0001f469\u200d\U0001f467 omega\n")
    desk.neovim.command("edit one.txt")
    desk.model.script(DONE, DONE)
    for number, (keys, words) in enumerate((("0wve", "cafe\u0301"), ("0wwv", "\U0001f469\u200d\U0001f467")), 1):
        desk.neovim.keys(f"<Esc>{keys}:Dsh ask And this?<CR>")
        content = desk.sent_messages(number)[-1]["content"]
        assert content == f"And this?\n\nFrom one.txt, lines 1-1:\n```\n{words}\n```"


def test_a_long_message_asks_for_no_key_where_the_ruler_has_its_place(desk: ClientDesk) -> None:
    desk.neovim.command("set laststatus=0 | only")
    desk.neovim.lua("require('dsh.message').warn(('x'):rep(200))")
    desk.wait_for_screen("dsh: xxx")
    assert desk.neovim.mode() == {"mode": "n", "blocking": False}
