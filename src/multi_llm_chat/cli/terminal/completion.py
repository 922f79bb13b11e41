"""What can be completed while a message is typed.

Rules:
1. After ``@``: speakers, groups and ``@all``; a word that merely contains an ``@`` (an address) is left alone.
2. ``/`` at the very beginning: commands.
3. After ``/attach`` or ``-a``: paths of files, also with spaces in them.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from multi_llm_chat.chat.mentions import ALL

_MENTION: Final = re.compile(r"(?<![\w@./-])@([\w.-]*)$")
_COMMAND: Final = re.compile(r"\A/(\w*)$")
_FILE: Final = re.compile(r"(?:\A/attach|(?:\A|\s)-a)[ \t]+([^\n]*)$")
_MOST_FILES: Final = 200


class Vocabulary(Struct, frozen=True):
    """What there is to be named: speakers and their models, groups and their members, commands and their use."""

    speakers: Mapping[str, str] = {}
    groups: Mapping[str, Sequence[str]] = {}
    commands: Mapping[str, str] = {}


class ChatCompleter(Completer):
    """Completes from a vocabulary, asked for anew each time: models come and go."""

    def __init__(self, vocabulary: Callable[[], Vocabulary]) -> None:
        self._vocabulary = vocabulary

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Everything the word before the cursor may become."""
        del complete_event
        before = document.text_before_cursor
        if found := _FILE.search(before):
            return _files(found[1])
        if found := _COMMAND.search(before):
            return _named(self._vocabulary().commands, found[1])
        if found := _MENTION.search(before):
            return _named(self._mentions(), found[1])
        return ()

    def _mentions(self) -> dict[str, str]:
        known = self._vocabulary()
        groups = {name: ", ".join(members) for name, members in known.groups.items()}
        everybody = {ALL: ", ".join(known.speakers)} if len(known.speakers) > 1 else {}
        return dict(known.speakers) | groups | everybody


def _named(names: Mapping[str, str], begun: str) -> Iterable[Completion]:
    for name, meaning in names.items():
        word = name.lstrip("/")
        if word.casefold().startswith(begun.casefold()):
            yield Completion(f"{word} ", -len(begun), display=word, display_meta=meaning)


def _files(begun: str) -> Iterable[Completion]:
    folder_text, _, name = begun.rpartition("/")
    slash = "/" if "/" in begun else ""
    folder = Path(f"{folder_text}{slash}" or ".").expanduser()
    try:
        entries = sorted(folder.iterdir(), key=lambda path: path.name.casefold())
        matching = [
            (path.name, path.is_dir())
            for path in entries
            if path.name.startswith(name)
            and (name.startswith(".") or not path.name.startswith("."))
        ]
    except (OSError, RuntimeError):
        return
    for found, is_folder in matching[:_MOST_FILES]:
        yield Completion(f"{found}/" if is_folder else found, -len(name))
