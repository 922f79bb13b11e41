"""Typing messages at a real terminal."""

from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from tests.cli.terminal.screens import Terminal

from multi_llm_chat.cli.terminal.prompt import HISTORY_NAME, ChatCompleter, Vocabulary

WORDS = Vocabulary(
    speakers={"claude": "", "gemini": "", "GPT.4-o": ""},
    groups={"both": ["claude", "gemini"]},
    commands={"/help": "", "/history": "", "/attach": ""},
)


def completed(text: str) -> list[str]:
    completer = ChatCompleter(lambda: WORDS)
    return [found.text for found in completer.get_completions(Document(text), CompleteEvent())]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("@", ["claude ", "gemini ", "GPT.4-o ", "both ", "all "]),
        ("well, @gp", ["GPT.4-o "]),
        ("me@g", []),
        ("a @@c", []),
        ("/h", ["help ", "history "]),
        ("say /h", []),
        ("nothing", []),
    ],
)
def test_speakers_and_commands_are_completed_where_they_can_stand(text: str, words: list[str]):
    assert completed(text) == words


def test_paths_are_completed_after_the_words_that_take_one(tmp_path: Path):
    (tmp_path / "my notes.txt").touch()
    (tmp_path / "my folder").mkdir()
    (tmp_path / ".hidden").touch()
    assert completed(f"/attach {tmp_path}/my") == ["my folder/", "my notes.txt"]
    assert completed(f"look -a {tmp_path}/") == ["my folder/", "my notes.txt"]
    assert completed(f"look -a {tmp_path}/.h") == [".hidden"]
    assert completed(f"/attach {tmp_path}/missing/x") == []
    assert completed(f"look at {tmp_path}/") == []


def test_messages_are_typed_pasted_completed_and_remembered(tmp_path: Path):
    folder = tmp_path / "state"
    with Terminal("prompting", str(folder)) as terminal:
        terminal.wait_for("❯", "the toolbar")
        terminal.send("one\x1b\rtwo\\\rthree\r")
        terminal.wait_for(r"got 'one\ntwo\nthree'")
        terminal.send("\x1b[200~a pasted\rline\r\x1b[201~")
        terminal.wait_for("… line")
        assert "got 'a" not in terminal.text()
        terminal.send("\x7f\r")
        terminal.wait_for(r"got 'a pasted\nline'")
        terminal.send("@cl")
        terminal.wait_for("claude-model")
        terminal.send("\t")
        terminal.wait_for("❯ @claude")
        terminal.send("\rこんにちは\r")
        terminal.wait_for("got '@claude こんにちは'")
        terminal.send("to be thrown away")
        terminal.wait_for("thrown away")
        terminal.send("\x03")
        terminal.wait_until(lambda text: "thrown away" not in text)
        terminal.send("\x03")
        terminal.wait_for("Ctrl-C again leaves")
        terminal.send("x")
        terminal.wait_until(lambda text: "Ctrl-C again leaves" not in text)
        terminal.send("\x03\x03\x03")
        assert terminal.finish().endswith("left")
    file = folder / HISTORY_NAME
    assert file.stat().st_mode & 0o777 == 0o600
    with Terminal("prompting", str(folder)) as terminal:
        terminal.wait_for("❯")
        terminal.send("\x1b[A")
        terminal.wait_for("❯ @claude こんにちは")
        terminal.send("\x03\x04")
        assert terminal.finish().endswith("left")


def test_a_folder_that_cannot_be_made_is_done_without(tmp_path: Path):
    (tmp_path / "file").touch()
    with Terminal("prompting", str(tmp_path / "file" / "state")) as terminal:
        terminal.wait_for("❯")
        terminal.send("hello\r")
        terminal.wait_for("got 'hello'")
        terminal.send("\x04")
        assert terminal.finish().endswith("left")
