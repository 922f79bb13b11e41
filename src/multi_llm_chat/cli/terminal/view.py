"""One answer on the screen, as a list of sections: text, thoughts, tools, remarks.

Rules:
1. ``take`` is cheap: text is parsed and laid out only when the board draws.
2. Sections are in the order in which they began. Any other section closes a text, so that all of it is readable before a question about a
   tool.
3. Sections of different kinds are separated by an empty line, and an answer by one from the next.
4. A section returns every line once, in ``settled``, when the line can no longer change; until then it
   is part of ``tail``.
5. A closed section returns all of its lines.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias, assert_never

from rich.console import RenderableType

from multi_llm_chat.cli.messages import tr
from multi_llm_chat.cli.terminal.cards import (
    card,
    failure,
    header,
    notice,
    running,
    sources,
    status,
    step,
    thinking,
    thought,
    usage,
)
from multi_llm_chat.cli.terminal.markdown import MarkdownStream
from multi_llm_chat.cli.terminal.renderer import Renderer
from multi_llm_chat.cli.terminal.words import (
    RESUMED,
    AnswerSummary,
    finish_text,
    stop_text,
    usage_text,
)
from multi_llm_chat.events import (
    Event,
    Finish,
    HistoryCompressed,
    NativeItem,
    RunPaused,
    RunWaiting,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    Usage,
    WaitReason,
)
from multi_llm_chat.history.citations import citations_of
from multi_llm_chat.history.json_values import as_object, as_text
from multi_llm_chat.history.values import Text, ToolCall, ToolResult, Turn
from multi_llm_chat.metering.token_count import estimate_tokens

# The sections of an answer.

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


class TextSection:
    """The text of the model."""

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


class ThinkingSection:
    """The thinking of the model, in one line."""

    kind = "thought"

    def __init__(self, renderer: Renderer, clock: Clock) -> None:
        self.closed = False
        self._renderer = renderer
        self._clock = clock
        self._begun = clock()
        self._seconds = 0.0
        self._recent = ""

    def add(self, words: str) -> None:
        """Add text of the thought."""
        self._recent = (self._recent + words)[-400:]

    def close(self) -> None:
        """End the thought."""
        self._seconds = self._clock() - self._begun
        self.closed = True

    def settled(self, width: int) -> list[str]:
        """The line that says how long it took."""
        return self._renderer.lines(thought(self._seconds), width) if self.closed else []

    def tail(self, width: int, height: int) -> list[str]:
        """The newest text of the thought."""
        shown = thinking(self._clock() - self._begun, self._recent, width)
        return self._renderer.lines(shown, width)[:height]


class ToolSection:
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
        """Whether this is the section of the call; a later round may use the same id again."""
        return not self.closed and self.call.tool_call_id == call.tool_call_id

    def start(self) -> None:
        """Note that the tool runs."""
        self._begun = self._clock()

    def finish(self, result: ToolResult, seconds: float) -> None:
        """Add the tool's result."""
        self._result, self._seconds, self.closed = result, seconds, True

    def settled(self, width: int) -> list[str]:
        """The card."""
        if not self.closed:
            return []
        return self._renderer.lines(card(self.call, self._result, self._seconds, width), width)

    def tail(self, width: int, height: int) -> list[str]:
        """The card, or a spinner."""
        if self.closed:
            return self.settled(width)[-height:]
        shown = running(self.call, self._clock() - self._begun, width)
        return self._renderer.lines(shown, width)[:height]


class RemarkSection:
    """A remark."""

    def __init__(self, renderer: Renderer, shown: RenderableType, kind: str = "remark") -> None:
        self.kind = kind
        self.closed = True
        self._renderer = renderer
        self._shown = shown

    def settled(self, width: int) -> list[str]:
        """The remark."""
        return self._renderer.lines(self._shown, width)

    def tail(self, width: int, height: int) -> list[str]:
        """The remark."""
        return self.settled(width)[-height:]


# The answer.

#: The texts of the status line while a run waits.
_WAITS: Final[dict[WaitReason, str]] = {
    "store": "waiting for the store",
    "rate": "waiting for the rate limit",
    "approval": "waiting for approval",
    "retry": "waiting for another try",
}

_Delta: TypeAlias = (
    TextDelta | ThinkingDelta | ToolCallStart | ToolCallDelta | ToolCallEnd | NativeItem
)


class TerminalAnswer:
    """An answer that is shown as it arrives."""

    def __init__(self, renderer: Renderer, speaker: str, model: str, clock: Clock) -> None:
        self.speaker = speaker
        self.over = False
        self._left = False
        self._renderer = renderer
        self._clock = clock
        self._begun = clock()
        self._took = 0.0
        self._doing = "waiting"
        self._tokens = 0
        self._usage = Usage()
        self._has_words = False
        self._kind = ""
        self._sections: deque[Section] = deque(
            [RemarkSection(renderer, header(speaker, model), "header")]
        )

    def take(self, event: Event) -> None:
        """Add an event of the model or its tools."""
        match event:
            case Usage():
                self._usage += event
            case Finish():
                self._close_last()
                self._notice(finish_text(event.reason))
            case ToolStarted():
                self._doing = "running tools"
                self._tool(event.call).start()
            case ToolFinished():
                self._has_words = False  # the answer follows its tools
                self._doing = "waiting"
                self._tool(event.call).finish(event.result, event.seconds)
            case TurnFinished():
                self._close_last()
                self._cite(event.turn)
            case RunPaused():
                self._notice("Paused: the results can be changed before the model sees them.")
            case HistoryCompressed():
                self._notice(event.note.text)
            case RunWaiting():
                self._wait(event)
            case (
                TextDelta()
                | ThinkingDelta()
                | ToolCallStart()
                | ToolCallDelta()
                | ToolCallEnd()
                | NativeItem()
            ):
                self._has_words |= isinstance(event, TextDelta) and not event.text.isspace()
                self._take_delta(event)
            case _:
                pass  # nothing to show

    def _wait(self, event: RunWaiting) -> None:
        """Show why the run waits; a store that refuses writes is also named above the status line."""
        self._doing = _WAITS[event.reason]
        if event.reason == "store":
            self._notice(f"Not saved: {event.text}")

    def _take_delta(self, delta: _Delta) -> None:
        """Add a piece of the model's reply."""
        match delta:
            case NativeItem():
                self._remark(step(delta.item), "step")
            case TextDelta():
                self._count(delta.text, "writing")
                self._text().stream.feed(delta.text)
            case ThinkingDelta():
                self._count(delta.text, "thinking")
                self._thinking().add(delta.text)
            case ToolCallStart():
                self._doing = "calling a tool"
                self._close_last()
            case ToolCallDelta():
                self._count(delta.arguments, "calling a tool")
            case ToolCallEnd():
                self._tool(delta.call)
            case _:
                assert_never(delta)

    def end(self, summary: AnswerSummary | None = None) -> None:
        """End the answer."""
        end = summary or AnswerSummary()
        self._close_all()
        if end.stop not in {"length", "refusal"}:  # the ending of the reply was already shown
            self._notice(stop_text(end.stop, is_empty=not self._has_words))
        words = usage_text(end.usage or self._usage, end.cost, self._seconds())
        self._end_with(RemarkSection(self._renderer, usage(words), "usage"))

    def fail(self, error: BaseException, *, once: bool = False) -> None:
        """End the answer with an error."""
        self._close_all()
        self._end_with(RemarkSection(self._renderer, failure(error, once=once), "failure"))

    def resume(self) -> None:
        """Start the answer again after an interruption: drop the sections that are not settled on the screen."""
        while self._sections and not self._sections[-1].closed:
            self._sections.pop()
        self._doing = "waiting"
        self._sections.append(RemarkSection(self._renderer, usage(tr(RESUMED)), "resumed"))

    def settled(self, width: int) -> list[str]:
        """The lines that stay, since the last time."""
        lines: list[str] = []
        while self._sections:
            section = self._sections[0]
            new = section.settled(width)
            if new:
                lines += self._gap(self._kind, section.kind) + new
                self._kind = section.kind
            if not section.closed:
                break
            self._sections.popleft()
        if self.over and not self._left:
            self._left = True
            lines.append("")
        return lines

    def tail(self, width: int, height: int) -> list[str]:
        """The last of the lines that may still change."""
        lines: list[str] = []
        before = self._kind
        for section in self._sections:
            new = section.tail(width, height)
            if new:
                lines += self._gap(before, section.kind) + new
                before = section.kind
        return lines[-height:] if height > 0 else []

    def status(self, width: int, doing: str | None = None) -> list[str]:
        """The speaker's status, in one line."""
        seconds = self._seconds()
        shown = status(self.speaker, doing or self._doing, seconds, self._tokens, width)
        return self._renderer.lines(shown, width)

    def waiting(self, width: int) -> list[str]:
        """The status line of an answer that is not written yet."""
        return self.status(width, "done, comes next" if self.over else None)

    @staticmethod
    def _gap(before: str, after: str) -> list[str]:
        return [""] if before not in {"", "header", "thought", after} else []

    def _text(self) -> TextSection:
        last = self._sections[-1] if self._sections else None
        if isinstance(last, TextSection) and not last.closed:
            return last
        self._close_last()
        words = TextSection(self._renderer)
        self._sections.append(words)
        return words

    def _thinking(self) -> ThinkingSection:
        last = self._sections[-1] if self._sections else None
        if isinstance(last, ThinkingSection) and not last.closed:
            return last
        self._close_last()
        thought = ThinkingSection(self._renderer, self._clock)
        self._sections.append(thought)
        return thought

    def _tool(self, call: ToolCall) -> ToolSection:
        for section in self._sections:
            if isinstance(section, ToolSection) and section.answers(call):
                return section
        self._close_last()
        tool = ToolSection(self._renderer, self._clock, call)
        self._sections.append(tool)
        return tool

    def _notice(self, words: str) -> None:
        if words:
            self._remark(notice(words), "notice")

    def _remark(self, shown: RenderableType, kind: str) -> None:
        self._close_last()
        self._sections.append(RemarkSection(self._renderer, shown, kind))

    def _cite(self, turn: Turn) -> None:
        """Show the pages that a turn cites, each once, and whether the model knew only the newest turns."""
        applied = as_object((as_object(turn.meta.get("repairs")) or {}).get("applied")) or {}
        # No event reports this: the provider refused the rest of the history.
        if "newest_turns" in applied:
            self._notice(as_text(turn.meta.get("compressed")))
        texts = (part for part in turn.parts if isinstance(part, Text))
        cited = dict.fromkeys(each for text in texts for each in citations_of(text))
        if cited:
            self._remark(sources(list(cited)), "sources")

    def _close_last(self) -> None:
        """Close a text or thought; a tool is closed by its result."""
        match self._sections[-1] if self._sections else None:
            case TextSection() as words:
                words.closed = True
            case ThinkingSection() as thought if not thought.closed:
                thought.close()
            case _:
                pass

    def _close_all(self) -> None:
        self._close_last()
        for section in self._sections:
            section.closed = True

    def _end_with(self, remark: RemarkSection) -> None:
        self._sections.append(remark)
        self._took = self._seconds()
        self.over = True

    def _seconds(self) -> float:
        return self._took if self.over else self._clock() - self._begun

    def _count(self, text: str, doing: str) -> None:
        self._tokens += estimate_tokens(text)
        self._doing = doing
