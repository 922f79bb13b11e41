"""A question that is answered with one key.

Rules:
1. Keys that were typed before the question was asked do not answer it.
2. Only the keys that are shown answer; Enter alone never does, unless it is shown.
3. Ctrl-C, Ctrl-D and Escape are the answer that changes nothing.
"""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from msgspec import Struct
from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.shortcuts import PromptSession, print_formatted_text

if sys.platform != "win32":
    import termios
else:  # pragma: no cover
    termios = None

_BACK: Final = ("c-c", "c-d", "escape")
Line = tuple[str, str]


class Teletype(Struct, frozen=True):
    """A keyboard and a screen."""

    input: Input
    output: Output

    def show(self, lines: Sequence[Line]) -> None:
        """Write lines, each with its style."""
        for style, text in lines:
            print_formatted_text(FormattedText([(style, text)]), output=self.output)

    def session(self) -> PromptSession[str]:
        """A prompt for one line."""
        return PromptSession(input=self.input, output=self.output)

    def choose(self, options: Mapping[str, str], back: str) -> str:
        """Wait for one of the keys; ``back`` is the answer of Ctrl-C, Ctrl-D and Escape."""
        self.drop_typed_keys()
        bindings = KeyBindings()

        def bind(key: str, answer: str) -> None:
            @bindings.add(key, eager=True)
            def _(event: KeyPressEvent) -> None:
                event.app.exit(result=answer)

        for key in options:
            bind(key, key)
            if len(key) == 1:
                bind(key.upper(), key)
        for key in _BACK:
            bind(key, back)
        shown: list[tuple[str, str]] = []
        for key, label in options.items():
            shown += [("bold", f"[{key}]"), ("", f" {label}  ")]
        window = Window(FormattedTextControl(FormattedText(shown)), wrap_lines=True, height=None)
        application: Application[str] = Application(
            Layout(window),
            key_bindings=bindings,
            erase_when_done=True,
            input=self.input,
            output=self.output,
        )
        # A lone Escape is an answer; waiting for the rest of a sequence would only delay it.
        application.ttimeoutlen = 0.05
        return application.run(handle_sigint=False)

    def drop_typed_keys(self) -> None:
        """Drop the keys that were not read yet."""
        clear_typeahead(self.input)
        if termios is not None:
            with suppress(OSError, ValueError, termios.error):
                termios.tcflush(self.input.fileno(), termios.TCIFLUSH)


def open_teletype() -> Teletype:
    """The terminal, even where the standard streams are pipes, as long as one of them is not."""
    return Teletype(create_input(always_prefer_tty=True), create_output(always_prefer_tty=True))
