"""Conversations at a real terminal, from the first prompt to the last key."""

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cli.commands import Shell, shell
from tests.cli.terminal.screens import Terminal

from multi_llm_chat.store import list_conversations, open_store, path
from multi_llm_chat.testing.simulator import Call, Gate, Say, Simulator, Status


@contextmanager
def talking(
    home: Path, *arguments: str, columns: int = 80, rows: int = 40, **scripts: Sequence[Any]
) -> Generator[tuple[Terminal, Shell, Simulator]]:
    with shell(home, **scripts) as (mlc, simulator):
        variables = {name: value for name, value in mlc.environment.items() if name != "NO_COLOR"}
        del variables["TERM"]
        with Terminal(
            "multi_llm_chat",
            "chat",
            *arguments,
            columns=columns,
            rows=rows,
            module=True,
            **variables,
        ) as terminal:
            terminal.wait_for("❯")
            yield terminal, mlc, simulator


def test_a_conversation_of_two_speakers_with_commands(tmp_path: Path) -> None:
    with talking(
        tmp_path,
        anthropic=[Say("# Hello\n\nI am **Claude**."), Say("Better.")],
        gemini=[Say("And I am Gemini.")],
    ) as (terminal, _, simulator):
        terminal.send("@all who are you?\r")
        text = terminal.wait_for("I am Claude.", "And I am Gemini.")
        terminal.wait_until(lambda shown: shown.count("out ·") == 2)
        assert text.index("I am Claude.") < text.index("And I am Gemini.")
        assert "**" not in text
        terminal.send("remember the milk\r")
        terminal.wait_for("(noted; address a speaker")
        terminal.send("/cost\r")
        terminal.wait_for("@claude ", "@gemini ")
        terminal.send("/nonsense\r")
        terminal.wait_for("There is no command /nonsense")
        terminal.send("/edit\r")
        terminal.wait_until(lambda shown: shown.count("remember the milk") == 2)
        terminal.send("\x15@claude better?\r")
        terminal.wait_for("Better.")
        assert "remember the milk" not in json.dumps(simulator.requests[-1].body)
        terminal.send("/quit\r")
        terminal.finish()
    with open_store(tmp_path / "data" / "conversations.db") as store:
        (only,) = store.run(list_conversations).conversations
        assert only.title == "who are you?"


def test_ctrl_c_stops_the_answer_and_the_conversation_continues(tmp_path: Path) -> None:
    gate = Gate(after_frames=6)
    says = [Say("One two three four five", faults=[gate]), Say("Onward.")]
    with talking(tmp_path, anthropic=says) as (terminal, _, simulator):
        terminal.send("count\r")
        terminal.wait_for("One")
        terminal.send("\x03")
        terminal.wait_for("Stopped.")
        terminal.send("go on\r")
        terminal.wait_for("Onward.")
        assert "One" in json.dumps(simulator.requests[-1].body["messages"][1])
        terminal.wait_until(lambda shown: shown.count("❯") == 3)
        terminal.send("\x04")
        terminal.finish()


def test_a_second_ctrl_c_leaves_and_what_was_said_is_kept(tmp_path: Path) -> None:
    gate = Gate(after_frames=6)
    slow = Say("One two three four five", faults=[gate])
    with talking(tmp_path, anthropic=[slow]) as (terminal, mlc, _):
        terminal.send("count\r")
        terminal.wait_for("One")
        terminal.send("\x03")
        terminal.wait_until(lambda shown: shown.count("❯") == 2)
        terminal.send("\x03")
        terminal.wait_for("Ctrl-C again leaves")
        terminal.send("\x03")
        terminal.finish()
        assert "One" in mlc.run("history", "show", "count")


def test_a_tool_is_approved_and_denied_at_the_keyboard(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("the word is tulip")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text(
        f'[tools]\napproval = "ask"\nfolders = ["{tmp_path / "notes"}"]\n'
    )
    call = Say("I look.", calls=[Call("read_file", {"path": str(tmp_path / "notes" / "a.txt")})])
    says = [call, Say("It is tulip."), call, Say("Then not.")]
    with talking(tmp_path, anthropic=says) as (terminal, _, simulator):
        terminal.send("read it\r")
        terminal.wait_for("May read_file of files run?", "[y] once")
        terminal.send("y")
        terminal.wait_for("It is tulip.")
        assert "the word is tulip" in json.dumps(simulator.requests[1].body)
        terminal.send("again\r")
        terminal.wait_until(lambda shown: "[y] once" in shown.split("again")[-1])
        terminal.send("n")
        terminal.wait_for("Then not.")
        assert "denied" in json.dumps(simulator.requests[3].body)
        terminal.send("/quit\r")
        terminal.finish()


def test_a_failure_is_shown_with_advice_and_retried(tmp_path: Path) -> None:
    with talking(tmp_path, anthropic=[Status(400, "no"), Say("Now it works.")]) as (
        terminal,
        _,
        _s,
    ):
        terminal.send("hello\r")
        terminal.wait_for("rejected the request")
        terminal.send("/retry\r")
        terminal.wait_for("Now it works.")
        terminal.send("/quit\r")
        terminal.finish()


def test_wide_text_in_a_window_that_changes_and_a_conversation_that_goes_on(tmp_path: Path) -> None:
    words = "これは日本語の長い文章です。" * 12
    with talking(tmp_path, anthropic=[Say(words), Say("はい。")]) as (terminal, mlc, _):
        terminal.send("日本語で\r")
        terminal.wait_for("out ·")
        terminal.resize(50, 40)
        terminal.send("/history list\r")
        terminal.wait_for("日本語で")
        terminal.send("/history save 花\r")
        terminal.wait_for("called '花'")
        terminal.send("\x04")
        terminal.finish()
        assert words in mlc.run("history", "show", "花")
        assert mlc.run("ask", "--chat", "花", "続けて") == "はい。\n"
    with open_store(tmp_path / "data" / "conversations.db") as store:
        (only,) = store.run(list_conversations).conversations
        assert len(store.run(path, only.id)) == 4


def test_ten_thousand_lines_reach_the_end(tmp_path: Path) -> None:
    lines = "".join(f"line {number}\n" for number in range(10_000))
    answer = Say(f"```\n{lines}```\n\nThe end.", delta_size=4_000)
    with talking(tmp_path, anthropic=[answer]) as (terminal, _, _s):
        terminal.send("many\r")
        terminal.wait_for("The end.", "line 9999")
        terminal.send("/quit\r")
        text = terminal.finish()
    assert all(f"line {number}" in text for number in (0, 1, 5_000, 9_998))


def test_commands_and_files_of_a_conversation(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("alpha beta")
    with talking(tmp_path, columns=160, anthropic=[Say("I see."), Say("Yes.")]) as (
        terminal,
        mlc,
        simulator,
    ):
        terminal.send(f"/attach {tmp_path}/a.txt\r")
        terminal.wait_for("goes with the next message")
        terminal.send("/system Be kind.\r")
        terminal.wait_for("system prompt is set")
        terminal.send("look\r")
        terminal.wait_for("I see.")
        asked = json.dumps(simulator.requests[0].body)
        assert "alpha beta" in asked
        assert "Be kind." in asked
        terminal.send(f"/export {tmp_path}/out.md\r")
        terminal.wait_for("Written to")
        assert "I see." in (tmp_path / "out.md").read_text()
        terminal.send("/model claude claude-opus-9\r")
        terminal.wait_for("claude-opus-9 from now on")
        terminal.send("/history new\r")
        terminal.wait_for("A new conversation begins")
        terminal.send("again\r")
        terminal.wait_for("Yes.")
        assert simulator.requests[-1].body["model"] == "claude-opus-9"
        assert "alpha" not in json.dumps(simulator.requests[-1].body)
        terminal.send("/help\r")
        terminal.wait_for("/history", "/retry", "/quit")
        terminal.send("/quit\r")
        terminal.finish()
        assert len(json.loads(mlc.run("history", "list", "--json"))) == 2


def test_a_conversation_without_a_store_has_its_history_and_leaves_nothing(tmp_path: Path) -> None:
    with talking(tmp_path, "--no-store", anthropic=[Say("Tulip."), Say("You said tulip.")]) as (
        terminal,
        mlc,
        simulator,
    ):
        terminal.send("a flower\r")
        terminal.wait_for("Tulip.")
        terminal.send("which one?\r")
        terminal.wait_for("You said tulip.")
        assert "Tulip." in json.dumps(simulator.requests[-1].body)
        terminal.send("/quit\r")
        terminal.finish()
        assert mlc.run("history", "list") == ""


def test_messages_wait_in_the_outbox_until_they_are_sent(tmp_path: Path) -> None:
    says = [Say("Hello."), Say("Roses."), Say("Tulips.")]
    with talking(tmp_path, anthropic=says) as (terminal, _, simulator):
        terminal.send("/queue too early\r")
        terminal.wait_for("The conversation has no message yet")
        terminal.send("hi\r")
        terminal.wait_for("Hello.")
        terminal.send("/outbox\r")
        terminal.wait_for("No message waits.")
        for words in ("a rose", "a tulip", "a weed"):
            terminal.send(f"/queue {words}\r")
        terminal.wait_until(lambda shown: shown.count("The message waits") == 3)
        terminal.send("/outbox edit 1 some roses\r")
        terminal.wait_for("The message is changed.")
        terminal.send("/outbox withdraw 3\r")
        terminal.wait_for("The message is withdrawn.")
        terminal.send("/outbox list\r")
        terminal.wait_for("  1 some roses", "  2 a tulip")
        terminal.send("/outbox send 7\r")
        terminal.wait_for("There is no waiting message 7")
        terminal.send("/outbox burn 1\r")
        terminal.wait_for("/outbox [list] | send N")
        terminal.send("/outbox send 1\r")
        terminal.wait_for("Roses.")
        assert "some roses" in json.dumps(simulator.requests[-1].body)
        terminal.send("/quit\r")
        terminal.finish()
    with talking(tmp_path, "--continue", anthropic=[Say("Tulips.")]) as (terminal, _, simulator):
        terminal.wait_for("1 message waits to be sent")
        terminal.send("/outbox send 1\r")
        terminal.wait_for("Tulips.")
        body = json.dumps(simulator.requests[-1].body)
        assert "a tulip" in body
        assert "a weed" not in body
        terminal.send("/outbox\r")
        terminal.wait_for("No message waits.")
        terminal.send("/quit\r")
        terminal.finish()
