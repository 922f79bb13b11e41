"""The terminal in four languages; and an answer without text is shown as such."""

import ast
import string
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.cli.commands import Shell, shell
from tests.web.server_process import run_server
from tests.web.test_streams import changes, new_conversation, read_until_idle

from multi_llm_chat.cli import main, messages, slash_commands
from multi_llm_chat.cli.messages import LANGUAGES, catalogue, terminal_language
from multi_llm_chat.cli.terminal import words
from multi_llm_chat.testing.simulator import Call, Say

SOURCE = Path(messages.__file__).parent
OTHERS = [name for name in LANGUAGES if name != "en"]


def helps() -> Iterator[str]:
    """Return the list of commands, and the help of every command."""
    yield from (text for _, text in main._COMMANDS.values())  # pyright: ignore[reportPrivateUsage]
    yield from main.help_paragraphs(main.main)
    for name in main._COMMANDS:  # pyright: ignore[reportPrivateUsage]
        yield from help_of(main._load(name))  # pyright: ignore[reportPrivateUsage]


def help_of(command: click.Command) -> Iterator[str]:
    yield from filter(None, main.help_paragraphs(command))
    yield from (each.help for each in command.params if isinstance(each, click.Option) and each.help)  # fmt: skip
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        yield from help_of(inner)


def texts() -> Iterator[str]:
    """Return every text that the program translates."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id="tr"), args=[ast.Constant(value=str(text))]):
                    yield text
                case _:
                    pass
    yield from helps()
    yield from (command.usage for command in slash_commands.COMMANDS.values())
    yield from (hint for hints in words._HINTS.values() for hint in hints)  # pyright: ignore[reportPrivateUsage]
    yield from (*words._FINISHES.values(), *words._STOPS.values(), words.RESUMED, words.EMPTY)  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("name", OTHERS)
def test_every_text_has_a_translation_with_the_same_places(name: str):
    known = catalogue(name)
    assert set(texts()) == set(known)
    for text, translated in known.items():
        assert _places(text) == _places(translated), text
        assert translated.strip()


def _places(text: str) -> set[str]:
    return {field for _, field, _, _ in string.Formatter().parse(text) if field}


@pytest.mark.parametrize(
    ("environment", "chosen"),
    [
        ({}, "en"),
        ({"LANG": "ja_JP.UTF-8"}, "ja"),
        ({"LANG": "ja_JP.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "ja_JP.UTF-8", "LC_MESSAGES": "ko_KR"}, "ko"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LC_ALL": "C.UTF-8", "MLC_LANGUAGE": "it"}, "it"),
        ({"LANG": "!"}, "en"),
    ],
)
def test_the_environment_decides(environment: dict[str, str], chosen: str):
    assert terminal_language(environment) == chosen


@pytest.mark.parametrize("name", LANGUAGES)
def test_help_in_each_language(name: str, tmp_path: Path):
    mlc = Shell(tmp_path, MLC_LANGUAGE=name)
    known = catalogue(name)
    whole, asking = ("".join(mlc.run(*words, "--help").split()) for words in ((), ("ask",)))
    listed = "Start the web app."
    assert "".join(known.get(listed, listed).split()) in whole
    option = "Continue the last conversation."
    assert "".join(known.get(option, option).split()) in asking
    assert "--no-store" in asking
    inner = "".join(mlc.run("history", "rename", "--help").split())
    renaming = "Give a conversation another title."
    assert "".join(known.get(renaming, renaming).split()) in inner


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_conversation_in_each_language(name: str, tmp_path: Path):
    with shell(tmp_path, anthropic=[Say("Hi."), Say("")]) as (mlc, _):
        mlc.environment["MLC_LANGUAGE"] = name
        mlc.run(
            "chat", input="/system\n/help\n@claude hi\n@claude nothing?\n/copy 9\n/reset\nexit\n"
        )
    known = catalogue(name)
    for text in (
        "There is no system prompt of this conversation.",
        "list the commands",
        "The answer is empty.",
        "A new conversation begins.",
    ):
        assert known.get(text, text) in mlc.errors
    assert mlc.errors.count(known.get("The answer is empty.", "The answer is empty.")) == 1


def test_an_answer_is_empty_only_where_nothing_follows_its_tools(tmp_path: Path):
    with shell(tmp_path, anthropic=[Say("Let me look.", calls=[Call("none", {})]), Say("")]) as (
        mlc,
        _,
    ):
        mlc.run("look", "--plain")
        assert "The answer is empty." in mlc.errors
    with shell(tmp_path, anthropic=[Say("", calls=[Call("none", {})]), Say("Done.")]) as (mlc, _):
        mlc.run("look", "--plain")
        assert "empty" not in mlc.errors


def test_the_page_shows_an_empty_answer_as_one(tmp_path: Path):
    with (
        run_server(tmp_path, speakers=("claude",)) as server,
        server.signed_in_client() as client,
    ):
        server.add_replies("claude", Say(""))
        identifier, position = new_conversation(client)
        client.post(f"/c/{identifier}/messages", data={"text": "@claude hi"})
        address = f"/c/{identifier}/events"
        with client.stream("GET", address, params={"after": position}) as stream:
            read_until_idle(changes(stream.iter_lines()))
        assert "The answer is empty." in client.get(f"/c/{identifier}").text
