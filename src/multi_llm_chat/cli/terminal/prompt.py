"""The prompt at which messages are typed.

Rules:
1. Enter sends. Alt-Enter, or a backslash before Enter, begins a new line; pasted text never sends.
2. Ctrl-C empties the line; on an empty line it warns, and a second one leaves. Ctrl-D on an empty line leaves.
3. The arrow keys and Ctrl-R find sent messages, also in later sessions; only the user can read the history file. If it cannot be written,
   the prompt works without it.

Rules of completion:
4. After ``@``: speakers, groups and ``@all``; a word that contains an ``@`` elsewhere (an address) is not completed.
5. ``/`` at the very beginning: commands.
6. After ``/attach`` or ``-a``: paths of files, also with spaces in them.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.formatted_text import AnyFormattedText, FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.shortcuts import PromptSession
from prompt_toolkit.styles import Style

from multi_llm_chat.chat.mentions import ALL

# Completion.

_MENTION: Final = re.compile(r"(?<![\w@./-])@([\w.-]*)$")
_COMMAND: Final = re.compile(r"\A/(\w*)$")
_FILE: Final = re.compile(r"(?:\A/attach|(?:\A|\s)-a)[ \t]+([^\n]*)$")
_MOST_FILES: Final = 200


class Vocabulary(Struct, frozen=True):
    """The names for completion: speakers and their models, groups and their members, commands and their usage."""

    speakers: Mapping[str, str] = {}
    groups: Mapping[str, Sequence[str]] = {}
    commands: Mapping[str, str] = {}


class ChatCompleter(Completer):
    """Completes from a vocabulary, which is requested for each completion, because the models may change."""

    def __init__(self, vocabulary: Callable[[], Vocabulary]) -> None:
        self._vocabulary = vocabulary

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """The completions of the word before the cursor."""
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


# The prompt.

HISTORY_NAME: Final = "input_history"
_MESSAGE: Final = FormattedText([("class:prompt", "❯ ")])
_CONTINUED: Final = FormattedText([("class:continued", "… ")])
_WARNING: Final = "Ctrl-C again leaves"
_STYLE: Final = Style.from_dict(
    {
        "prompt": "bold",
        "continued": "ansibrightblack",
        "bottom-toolbar": "noreverse ansibrightblack",
        "completion-menu.completion.current": "reverse",
    }
)


class ChatPrompt:
    """Reads messages, one after the other."""

    def __init__(
        self,
        state_folder: Path | None = None,
        vocabulary: Callable[[], Vocabulary] = Vocabulary,
        toolbar: Callable[[], str] = str,
        shown: Callable[[], None] | None = None,
    ) -> None:
        """Make a prompt; it reads nothing yet.

        Args:
            state_folder: The folder of the history file; history is only in memory if not given.
            vocabulary: Returns the names for completion; called each time.
            toolbar: Returns the line at the bottom; called each time.
            shown: Called each time the prompt has been drawn.
        """
        self._toolbar = toolbar
        self._warned = False
        self._session: PromptSession[str] = PromptSession(
            _MESSAGE,
            multiline=True,
            prompt_continuation=_CONTINUED,
            history=_history(state_folder),
            completer=ChatCompleter(vocabulary),
            complete_while_typing=True,
            key_bindings=self._keys(),
            bottom_toolbar=self._bottom,
            style=_STYLE,
            reserve_space_for_menu=6,
        )
        self._session.default_buffer.on_text_changed += self._changed
        if shown is not None:
            on_shown = shown

            def drawn(_application: object) -> None:
                on_shown()

            self._session.app.after_render += drawn

    def read(self, default: str = "") -> str | None:
        """Read the next message; return None if the user leaves."""
        try:
            return self._session.prompt(default=default, handle_sigint=False)
        except EOFError:
            return None

    async def read_async(self, default: str = "") -> str | None:
        """Read the next message within a running event loop; return None if the user leaves."""
        try:
            return await self._session.prompt_async(default=default, handle_sigint=False)
        except EOFError:
            return None

    def _bottom(self) -> AnyFormattedText:
        return _WARNING if self._warned else self._toolbar() or None

    def _changed(self, _buffer: Buffer) -> None:
        self._warned = False

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        typing = has_focus(DEFAULT_BUFFER)

        @keys.add("enter", filter=typing)
        def _(event: KeyPressEvent) -> None:
            _send(event.current_buffer)

        @keys.add("escape", "enter", filter=typing)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.newline(copy_margin=False)

        @keys.add("c-c", filter=typing)
        def _(event: KeyPressEvent) -> None:
            self._interrupt(event)

        return keys

    def _interrupt(self, event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        elif self._warned:
            event.app.exit(exception=EOFError())
        else:
            self._warned = True


def _send(buffer: Buffer) -> None:
    if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
        buffer.complete_state = None  # this Enter accepts the completion, the next one sends
    elif buffer.document.text_before_cursor.endswith("\\"):
        buffer.delete_before_cursor()
        buffer.newline(copy_margin=False)
    else:
        buffer.validate_and_handle()


class _QuietHistory(FileHistory):
    """A history file that may become unwritable; then nothing more is stored, and no error is raised."""

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            super().store_string(string)


def _history(folder: Path | None) -> History:
    if folder is None:
        return InMemoryHistory()
    file = folder / HISTORY_NAME
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return _QuietHistory(file)
