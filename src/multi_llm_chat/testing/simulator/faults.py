"""What can go wrong with a reply.

Rules:
1. A fault with ``change`` alters how one reply is sent and is given to a ``Say``; several work in
   the order given.
2. A ``Quirk`` alters how a reply is encoded; quirks work before every other fault.
3. ``Status``, ``Hang``, ``Garbage`` and ``Drop`` may stand in a script in place of a ``Say``.
4. Faults wait for gates that a test opens, or for a number of seconds: never for chance.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct, field

from multi_llm_chat.testing.simulator.plan import (
    PATIENCE,
    Await,
    Break,
    Pause,
    Signal,
    Stall,
    Step,
    at_frame,
    between_frames,
    until_byte,
    until_frame,
)


class Slow(Struct, frozen=True):
    """Wait before each frame but the first; ``first`` seconds before that one."""

    delay: float
    first: float = 0.0

    def change(self, steps: list[Step]) -> list[Step]:
        """Put the pauses between the frames."""
        return between_frames(steps, lambda number: Pause(self.delay if number else self.first))


class Gate:
    """Hold the reply after some frames until the test opens the gate."""

    def __init__(self, after_frames: int = 1) -> None:
        self.after_frames = after_frames
        self.reached = Signal()
        self.opened = Signal()

    def open(self) -> None:
        """Let the reply continue."""
        self.opened.give()

    def wait_reached(self, timeout: float = PATIENCE) -> None:
        """Block until the reply has come as far as the gate."""
        self.reached.wait(timeout)

    def change(self, steps: list[Step]) -> list[Step]:
        """Put the gate behind its frame."""
        return at_frame(steps, self.after_frames, Await(self.reached, self.opened))


class Disconnect(Struct, frozen=True):
    """End the connection after some bytes or frames of the body, with or without a reset."""

    after_bytes: int | None = None
    after_frames: int | None = None
    reset: bool = False

    def change(self, steps: list[Step]) -> list[Step]:
        """Keep what comes before the cut."""
        if self.after_frames is not None:
            steps = until_frame(steps, self.after_frames)
        if self.after_bytes is not None:
            steps = until_byte(steps, self.after_bytes)
        return [*steps, Break(self.reset)]


class KeepAlive(Struct, frozen=True):
    """Put a frame that says nothing before every frame of the reply; streams only."""

    frame: bytes = b": keep-alive\n\n"

    def change(self, steps: list[Step]) -> list[Step]:
        """Insert the frames."""
        return between_frames(steps, lambda _number: self.frame)


class Hang(Struct, frozen=True):
    """Fall silent after some frames; in a script of its own, before the reply's head."""

    after_frames: int = 0

    def change(self, steps: list[Step]) -> list[Step]:
        """Keep what comes before the silence."""
        return [*until_frame(steps, self.after_frames), Stall()]


class Garbage(Struct, frozen=True):
    """Bytes that are no reply: in place of it, or after some frames of one."""

    data: bytes = b"\x00\xff<html>502 Bad Gateway</html>\n\n"
    after_frames: int = 0
    status: int = 200
    content_type: str = "text/html"

    def change(self, steps: list[Step]) -> list[Step]:
        """Replace the rest of the reply."""
        return [*until_frame(steps, self.after_frames), self.data]


class Status(Struct, frozen=True):
    """An HTTP error in the provider's own words; ``retry_delay`` becomes Gemini's RetryInfo."""

    status: int
    message: str | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    retry_delay: float | None = None
    code: str | None = None


class ErrorInStream(Struct, frozen=True):
    """An error inside a 200, in the provider's own form, after some frames of the reply."""

    after_frames: int = 2
    status: int = 503
    message: str | None = None


class Drop(Struct, frozen=True):
    """Close the connection before a single byte of the reply."""

    reset: bool = False


class Quirk(Struct, frozen=True):
    """A deviation of the rule catalogue, such as ``Quirk("STR-01")``; see ``quirks`` for variants."""

    rule: str
    variant: str = ""


Fault: TypeAlias = Slow | Gate | Disconnect | KeepAlive | Hang | Garbage | ErrorInStream | Quirk

#: What may stand in a script in place of a reply.
Instead: TypeAlias = Status | Hang | Garbage | Drop
