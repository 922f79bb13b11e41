"""``mlc chat``: a conversation with one or more models in the terminal."""

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import click

from multi_llm_chat.cli.speakers import available_speakers
from multi_llm_chat.client import LLMProvider
from multi_llm_chat.errors import MultiLLMChatError
from multi_llm_chat.events import TextDelta
from multi_llm_chat.history.values import Text, Turn
from multi_llm_chat.mentions import read_mentions

_COLOURS = ("cyan", "magenta", "green", "yellow", "blue")


@click.command()
def chat() -> None:
    """Talk to models in one conversation.

    Address a speaker with @name or all of them with @all; with one speaker no name is needed.
    """
    speakers = available_speakers()
    Conversation(speakers).run(sys.stdin)


class Conversation:
    """A history and those who speak in it."""

    def __init__(self, speakers: Mapping[str, LLMProvider]) -> None:
        self._speakers = speakers
        self._history: list[Turn] = []
        self._colours = {name: _COLOURS[at % len(_COLOURS)] for at, name in enumerate(speakers)}

    def run(self, lines: Iterable[str]) -> None:
        """Answer line after line until there is none."""
        self._greet()
        for line in self._prompted(lines):
            if line.strip() in ("/quit", "/exit"):
                break
            if line.strip():
                self.say(line.rstrip("\n"))
        for provider in self._speakers.values():
            provider.close()

    def say(self, text: str) -> None:
        """Take a message and let those it is addressed to answer."""
        addressed = read_mentions(text, self._speakers)
        names = addressed.speakers or (tuple(self._speakers) if len(self._speakers) == 1 else ())
        self._history.append(Turn("user", (Text(addressed.text or text),)))
        if not names:
            known = ", ".join(f"@{name}" for name in self._speakers)
            click.echo(f"(noted; address somebody to get an answer: {known}, @all)", err=True)
        snapshot = tuple(self._history)
        for name in names:
            self._answer(name, snapshot)

    def _answer(self, name: str, snapshot: tuple[Turn, ...]) -> None:
        click.secho(f"{name}: ", fg=self._colours[name], bold=True, nl=False)
        said: list[str] = []
        try:
            with self._speakers[name].stream(snapshot) as stream:
                for event in stream:
                    if isinstance(event, TextDelta):
                        said.append(event.text)
                        click.echo(event.text, nl=False)
                self._history.append(stream.reply.turn)
        except MultiLLMChatError as error:
            click.echo(f"\n({error})", err=True)
        except KeyboardInterrupt:
            click.echo("\n(stopped)", err=True)
            if said:
                self._history.append(Turn(name, (Text("".join(said)),)))
        click.echo()

    def _greet(self) -> None:
        names = ", ".join(f"@{name}" for name in self._speakers)
        click.echo(f"Speakers: {names}. /quit or Ctrl-D leaves.", err=True)
        for provider in self._speakers.values():
            notice: Any = getattr(provider, "notice", None)
            if notice:
                click.echo(notice, err=True)

    def _prompted(self, lines: Iterable[str]) -> Iterable[str]:
        if not sys.stdin.isatty():
            yield from lines
            return
        while True:
            try:
                yield input("you: ")
            except (EOFError, KeyboardInterrupt):
                click.echo()
                return
