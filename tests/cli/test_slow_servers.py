"""An MCP server that is slow to start, or does not start at all: no request is sent without saying so."""

import errno
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import Shell, shell
from tests.cli.test_repl import talking

from multi_llm_chat.testing.simulator import Say, Simulator

SCRIPT = Path(__file__).parent.parent / "tools" / "servers" / "slow.py"
WAITING = 'Waiting for the MCP server "slow" to start …'


def configure(home: Path, **entries: dict[str, Any]) -> None:
    (home / "config").mkdir()
    (home / "config" / "mcp.json").write_text(json.dumps({"mcpServers": entries}))


def slow(home: Path, **settings: Any) -> dict[str, Any]:
    """Configure a server that waits for the pipe."""
    os.mkfifo(home / "pipe")
    return {
        "command": sys.executable,
        "trusted": True,
        "args": [str(SCRIPT), str(home / "pipe")],
        **settings,
    }


def release(home: Path, words: str = "") -> None:
    (home / "pipe").write_text(words)


def is_waited_at(pipe: Path) -> bool:
    """Return whether a process waits for the pipe to be opened."""
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return False
    return True


def read_until(words: str, process: "subprocess.Popen[bytes]") -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if words in line.decode():
            return
    raise AssertionError(f"the program ended without saying: {words}")


def offered(simulator: Simulator) -> list[str]:
    return [tool["name"] for tool in simulator.requests[0].body.get("tools", [])]


@pytest.mark.parametrize(
    "flag",
    [
        "--json",
        *(pytest.param(flag, marks=pytest.mark.judge) for flag in ("--no-stream", "--jsonl")),
    ],
)
def test_ask_waits_for_a_slow_server_and_says_so(tmp_path: Path, flag: str) -> None:
    configure(tmp_path, slow=slow(tmp_path))
    with shell(tmp_path, anthropic=[Say("Fine.")]) as (mlc, simulator):
        with mlc.start("how are you?", flag) as process:
            read_until(WAITING, process)
            assert len(simulator.requests) == 0
            release(tmp_path)
            printed, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        assert offered(simulator) == ["answer"]
    match flag:
        case "--json":
            assert json.loads(printed)["answers"][0]["text"] == "Fine."
        case "--jsonl":
            assert all(json.loads(line)["type"] for line in printed.splitlines())
        case _:
            assert printed == b"Fine.\n"


def test_ask_names_the_servers_that_are_missing_and_why_before_it_answers(tmp_path: Path) -> None:
    configure(
        tmp_path,
        slow=slow(tmp_path, startupTimeout=0.5),
        gone={"command": "/no/such/program"},
        wrong={},
    )
    with shell(tmp_path, anthropic=[Say("Fine."), Say("Fine.")]) as (mlc, simulator):
        assert json.loads(mlc.run("hi", "--json"))["answers"][0]["text"] == "Fine."
        lines = [line for line in mlc.errors.splitlines() if line != WAITING]
        assert lines[:3] == [
            "MCP server 'wrong' cannot be used: expected either a command or a url",
            'The MCP server "slow" did not start: it did not answer within 0.5 seconds '
            "(startupTimeout). Its tools are not available.",
            'The MCP server "gone" did not start: the program or folder was not found: '
            "/no/such/program. Its tools are not available.",
        ]
        assert offered(simulator) == []
        mlc.run("hi", "--no-tools")
        assert "MCP" not in mlc.errors


@pytest.mark.judge
def test_a_slow_server_that_fails_is_named_when_it_fails(tmp_path: Path) -> None:
    configure(tmp_path, slow=slow(tmp_path))
    with shell(tmp_path, anthropic=[Say("Fine.")]) as (mlc, _), mlc.start("hi") as process:
        read_until(WAITING, process)
        release(tmp_path, "\x1b[31mno licence")
        printed, errors = process.communicate(timeout=60)
    assert printed == b"Fine.\n"
    assert "it said: ␛[31mno licence. Its tools are not available." in errors.decode()


def test_ctrl_c_leaves_while_a_server_is_slow_and_ends_the_server(tmp_path: Path) -> None:
    configure(tmp_path, slow=slow(tmp_path))
    with shell(tmp_path, anthropic=[]) as (mlc, simulator):
        with mlc.start("hi") as process:
            read_until(WAITING, process)
            process.send_signal(signal.SIGINT)
            printed, errors = process.communicate(timeout=60)
        assert (process.returncode, printed) == (130, b"")
        assert b"Traceback" not in errors
        assert len(simulator.requests) == 0
    assert not is_waited_at(tmp_path / "pipe")


@pytest.mark.judge
@pytest.mark.parametrize("command", [["hi"], ["chat"]], ids=["ask", "chat"])
def test_more_ctrl_c_while_leaving_ends_the_server_at_once(
    tmp_path: Path, command: list[str]
) -> None:
    """The first one quits, which takes as many seconds as a server has to stop by itself."""
    configure(tmp_path, slow=slow(tmp_path))
    with (
        shell(tmp_path, anthropic=[]) as (mlc, _),
        mlc.start(*command, stdin=subprocess.PIPE) as process,
    ):
        assert process.stdin is not None
        process.stdin.write(b"hi\n")
        process.stdin.close() if command == ["hi"] else process.stdin.flush()
        read_until(WAITING, process)
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.2)
    assert not is_waited_at(tmp_path / "pipe")


@pytest.mark.judge
def test_the_other_commands_wait_and_name_what_is_missing_too(tmp_path: Path) -> None:
    configure(tmp_path, slow=slow(tmp_path), gone={"command": "/no/such/program"})
    mlc = Shell(tmp_path)
    for command in (["tools"], ["mcp", "test"]):
        with mlc.start(*command) as process:
            read_until(WAITING, process)
            release(tmp_path)
            printed, errors = process.communicate(timeout=60)
        assert b"answer" in printed
        assert b"/no/such/program" in printed + errors


@pytest.mark.judge
def test_a_conversation_waits_and_ctrl_c_gives_the_message_back(tmp_path: Path) -> None:
    configure(tmp_path, slow=slow(tmp_path))
    with talking(tmp_path, anthropic=[Say("Fine.")]) as (terminal, _, simulator):
        terminal.send("how are you?\r")
        terminal.wait_for(WAITING)
        terminal.send("\x03")
        terminal.wait_until(lambda shown: "❯ how are you?" in shown.split("Not sent.")[-1])
        terminal.send("\x15/cost\r")  # a command that needs no tools does not wait
        terminal.wait_until(lambda shown: "Nothing was spent" in shown)
        assert len(simulator.requests) == 0
        terminal.send("hello\r")
        terminal.wait_until(lambda shown: shown.count(WAITING) == 2)
        release(tmp_path)
        terminal.wait_for("Fine.")
        assert offered(simulator) == ["answer"]
        terminal.send("/quit\r")
        terminal.finish()


@pytest.mark.judge
def test_a_conversation_can_be_left_while_a_server_is_slow(tmp_path: Path) -> None:
    configure(tmp_path, slow=slow(tmp_path))
    with talking(tmp_path, anthropic=[]) as (terminal, _, _):
        terminal.send("hi\r")
        terminal.wait_for(WAITING)
        terminal.send("\x03")
        terminal.wait_for("Not sent.")
        terminal.send("\x15/quit\r")
        terminal.finish()
    assert not is_waited_at(tmp_path / "pipe")


def test_a_conversation_from_a_pipe_names_what_is_missing(tmp_path: Path) -> None:
    configure(tmp_path, gone={"command": "/no/such/program"})
    with shell(tmp_path, anthropic=[Say("Fine.")]) as (mlc, _):
        assert mlc.run("chat", input="hi\n") == "claude:\nFine.\n"
        assert mlc.errors.count('The MCP server "gone" did not start') == 1
