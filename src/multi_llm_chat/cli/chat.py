"""``mlc chat``: a conversation with one or more models in the terminal.

Rules:
1. The prompt appears before large modules are imported; a thread imports them while the first message is typed.
2. Without a terminal the lines are read from standard input, and the answers are plain text.
"""

import sys
from collections.abc import Iterator
from concurrent.futures import Future
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING, Any

import click

from multi_llm_chat.chat.speaker_names import EMBEDDED, speaker_settings
from multi_llm_chat.cli.local import prepare_embedded
from multi_llm_chat.cli.messages import print_message
from multi_llm_chat.cli.request_options import request_options
from multi_llm_chat.config.config_file import read_settings
from multi_llm_chat.config.folders import program_folders
from multi_llm_chat.config.keys import Keys

if TYPE_CHECKING:
    from multi_llm_chat.cli.repl import ChatRepl


@click.command()
@request_options
@click.option("-c", "--continue", "continued", is_flag=True, help="Continue the last conversation.")
@click.option(
    "--chat", "conversation", metavar="ID", help="Continue this conversation: id or title."
)
@click.option("--columns", is_flag=True, help="Show answers of several speakers side by side.")
@click.option("--plain", is_flag=True, help="Text only: no colours, nothing drawn.")
@click.option(
    "--db", metavar="PLACE", help="Where conversations are stored: a path or postgresql://…"
)
@click.option(
    "--no-store",
    is_flag=True,
    help="Keep the conversation in memory only: nothing is saved, and it ends with the program.",
)
def chat(**options: Any) -> None:
    """Talk to models in one conversation.

    Address a speaker with @name or all of them with @all; with one speaker no name is needed. /help lists
    the commands.
    """
    folders = program_folders()
    names = tuple(speaker_settings(read_settings(folders.config_file), Keys(folders=folders)))
    if names == (EMBEDDED,) and not options["to"]:
        prepare_embedded(names)
    known = ", ".join(f"@{name}" for name in names)
    print_message(f"Speakers: {known}. /help lists the commands, /quit or Ctrl-D leaves.")
    loading = _Loading(options)
    # An earlier conversation is read at once: a wrong name is reported before anything is typed.
    is_checked_now = any(
        options.get(name)
        for name in ("continued", "conversation", "no_store", "to", "option", "system")
    )
    if not sys.stdin.isatty() or is_checked_now:
        loading.start()
        loading.wait()
    try:
        for line in _lines(loading, names):
            if not loading.wait().handle(line):
                break
    finally:
        loading.close()


class _Loading:
    """The conversation, which another thread prepares."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._ready: Future[ChatRepl] = Future()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Start the preparation; a second call does nothing."""
        if self._thread is None:
            self._thread = Thread(target=self._load, daemon=True)
            self._thread.start()

    def wait(self) -> "ChatRepl":
        """Wait for the conversation; raise the error of its preparation, if there is one."""
        self.start()
        return self._ready.result()

    @property
    def talk(self) -> "ChatRepl | None":
        """The conversation, if it is ready."""
        done = self._ready.done() and self._ready.exception() is None
        return self._ready.result() if done else None

    def close(self) -> None:
        """Close the conversation, if its preparation has started."""
        if self._thread is not None:
            self._thread.join()
        if self.talk is not None:
            self.talk.__exit__()

    def _load(self) -> None:
        try:
            repl = import_module("multi_llm_chat.cli.repl")
            self._ready.set_result(repl.ChatRepl(repl.ChatOptions(**self._options)))
        except BaseException as error:  # noqa: BLE001  raised where the conversation is wanted
            self._ready.set_exception(error)


def _lines(loading: _Loading, names: tuple[str, ...]) -> Iterator[str]:
    if not sys.stdin.isatty():
        yield from (line.rstrip("\n") for line in sys.stdin)
        return
    terminal = import_module("multi_llm_chat.cli.terminal")
    speakers = " ".join(f"@{name}" for name in names)
    early = terminal.Vocabulary(dict.fromkeys(names, ""))
    prompt = terminal.ChatPrompt(
        program_folders().state,
        lambda: loading.talk.vocabulary() if loading.talk else early,
        lambda: loading.talk.toolbar() if loading.talk else speakers,
        shown=loading.start,
    )
    draft = ""
    while (line := prompt.read(draft)) is not None:
        yield line
        draft = loading.wait().session.take_draft()
