"""The parts of an answer on the screen: words, thoughts, tools, remarks.

Rules:
1. A section gives out every line once, in ``settled``, when the line can no longer change; until then it
   is part of ``tail``.
2. A closed section gives out all it has.
"""

from collections.abc import Callable
from typing import Protocol

from rich.console import RenderableType

from multi_llm_chat.cli.terminal.cards import card, running, thinking, thought
from multi_llm_chat.cli.terminal.renderer import Renderer
from multi_llm_chat.cli.terminal.stream import MarkdownStream
from multi_llm_chat.history.values import ToolCall, ToolResult

Clock = Callable[[], float]


class Section(Protocol):
    """A part of an answer."""

    kind: str
    closed: bool

    def settled(self, width: int) -> list[str]:
        """The lines that stay, since the last time."""
        ...

    def tail(self, width: int, height: int) -> list[str]:
        """The last of the lines that may still change."""
        ...


class Words:
    """What the model says."""

    kind = "words"

    def __init__(self, renderer: Renderer) -> None:
        self.closed = False
        self.stream = MarkdownStream(renderer)

    def settled(self, width: int) -> list[str]:
        """The blocks that are finished."""
        lines = self.stream.finished(width)
        return lines + self.stream.rest(width) if self.closed else lines

    def tail(self, width: int, height: int) -> list[str]:
        """The block that is being written."""
        return self.stream.tail(width, height)


class Thought:
    """What the model thinks: one line."""

    kind = "thought"

    def __init__(self, renderer: Renderer, clock: Clock) -> None:
        self.closed = False
        self._renderer = renderer
        self._clock = clock
        self._begun = clock()
        self._seconds = 0.0
        self._recent = ""

    def add(self, words: str) -> None:
        """Go on thinking."""
        self._recent = (self._recent + words)[-400:]

    def close(self) -> None:
        """The thought is over."""
        self._seconds = self._clock() - self._begun
        self.closed = True

    def settled(self, width: int) -> list[str]:
        """How long it took."""
        return self._renderer.lines(thought(self._seconds), width) if self.closed else []

    def tail(self, width: int, height: int) -> list[str]:
        """The newest words."""
        shown = thinking(self._clock() - self._begun, self._recent, width)
        return self._renderer.lines(shown, width)[:height]


class Tool:
    """A call and its result."""

    kind = "tool"

    def __init__(self, renderer: Renderer, clock: Clock, call: ToolCall) -> None:
        self.closed = False
        self.call = call
        self._renderer = renderer
        self._clock = clock
        self._begun = clock()
        self._result: ToolResult | None = None
        self._seconds: float | None = None

    def answers(self, call: ToolCall) -> bool:
        """Whether this is the call's section; an id may be used again in a later round."""
        return not self.closed and self.call.tool_call_id == call.tool_call_id

    def start(self) -> None:
        """The tool begins to run."""
        self._begun = self._clock()

    def finish(self, result: ToolResult, seconds: float) -> None:
        """The tool has answered."""
        self._result, self._seconds, self.closed = result, seconds, True

    def settled(self, width: int) -> list[str]:
        """The card."""
        if not self.closed:
            return []
        return self._renderer.lines(card(self.call, self._result, self._seconds, width), width)

    def tail(self, width: int, height: int) -> list[str]:
        """The card, or a sign of life."""
        if self.closed:
            return self.settled(width)[-height:]
        shown = running(self.call, self._clock() - self._begun, width)
        return self._renderer.lines(shown, width)[:height]


class Remark:
    """Something said once."""

    def __init__(self, renderer: Renderer, shown: RenderableType, kind: str = "remark") -> None:
        self.kind = kind
        self.closed = True
        self._renderer = renderer
        self._shown = shown

    def settled(self, width: int) -> list[str]:
        """It."""
        return self._renderer.lines(self._shown, width)

    def tail(self, width: int, height: int) -> list[str]:
        """It."""
        return self.settled(width)[-height:]
