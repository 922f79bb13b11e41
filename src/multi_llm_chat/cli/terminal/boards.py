"""The board that suits an output."""

import os
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol, Self, TextIO

from multi_llm_chat.cli.terminal.capabilities import capabilities_of
from multi_llm_chat.cli.terminal.words import Summary

if TYPE_CHECKING:
    from multi_llm_chat.events import Event


class Board(Protocol):
    """Shows answers. Any thread may call any of these."""

    def begin(self, speaker: str, model: str = "") -> None:
        """The speaker was asked."""
        ...

    def event(self, speaker: str, event: "Event") -> None:
        """The speaker, or a tool it called, tells something."""
        ...

    def end(self, speaker: str, summary: Summary | None = None) -> None:
        """The speaker has answered."""
        ...

    def resume(self, speaker: str) -> None:
        """The speaker's answer was interrupted and begins anew."""
        ...

    def fail(self, speaker: str, error: BaseException, *, once: bool = False) -> None:
        """The speaker cannot answer; asked ``once``, no command of a conversation helps."""
        ...

    def notice(self, text: str) -> None:
        """Tell something that is no speaker's."""
        ...

    def suspended(self) -> AbstractContextManager[None]:
        """The terminal is the caller's: one at a time, and nothing is shown meanwhile."""
        ...

    def close(self) -> None:
        """Show all that is left; answers that are not over end as stopped."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def open_board(
    output: TextIO | None = None,
    notes: TextIO | None = None,
    *,
    plain: bool = False,
    headers: bool = True,
    columns: int = 0,
    environment: Mapping[str, str] = os.environ,
) -> Board:
    """A board on the output; close it, or use it as a context manager, for each round of answers.

    Args:
        output: For the answers; standard output if not given.
        notes: For everything else, where the output takes text only; standard error if not given.
        plain: Write text only, whatever the output can do.
        headers: Whether text only tells who speaks.
        columns: How many answers to show side by side, if the window is wide enough.
        environment: Where ``NO_COLOR``, ``FORCE_COLOR`` and ``TERM`` are looked up.
    """
    shown = output or sys.stdout
    able = capabilities_of(shown, plain=plain, environment=environment)
    if able.plain:
        from multi_llm_chat.cli.terminal.plain import PlainBoard  # noqa: PLC0415  # the lazy door

        return PlainBoard(shown, notes or sys.stderr, headers=headers)
    # Rich is loaded when the first answer is to be shown, not before.
    from multi_llm_chat.cli.terminal.board import AnswerBoard  # noqa: PLC0415  # the lazy door
    from multi_llm_chat.cli.terminal.screen import Screen  # noqa: PLC0415  # the lazy door

    return AnswerBoard(Screen(shown, able), columns=columns)
