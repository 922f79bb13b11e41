"""An answer while it is given, as pages show it.

Rules:
1. Every event changes the answer and gives the changes that bring a page to the same state.
2. Words and thoughts wait until ``flush``, so that a page changes a few times a second and not for each token.
3. A call of a tool is one card from its first letter to its result, also if it is begun anew after an interruption.
"""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from multi_llm_chat.events import (
    Event,
    HistoryCompressed,
    RunWaiting,
    TextDelta,
    ThinkingDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolFinished,
    ToolStarted,
)
from multi_llm_chat.history.values import ToolCall
from multi_llm_chat.tools.approval import ApprovalRequest
from multi_llm_chat.web.history_view import tool_view
from multi_llm_chat.web.markdown import Growing
from multi_llm_chat.web.oplog import Change
from multi_llm_chat.web.views import AnswerView, Note, Segment, Thoughts, Tool, Words


class LiveAnswer:
    """One speaker's answer while it comes."""

    def __init__(self, view: AnswerView) -> None:
        self._view = view
        self._segments: list[Segment] = []
        self._growing: Growing | None = None
        self._kept = 0
        self._words: list[str] = []
        self._thoughts: list[str] = []
        self._calls: dict[int, int] = {}
        self._cards: dict[str, int] = {}
        self._running: list[tuple[ToolCall, int]] = []
        # What each kind of event does; the others change nothing that is seen.
        self._handlers: dict[type, Callable[[Any], list[Change]]] = {
            TextDelta: self._text,
            ThinkingDelta: self._thought,
            ToolCallStart: self._call_begun,
            ToolCallEnd: self._call_written,
            ToolStarted: self._started,
            ToolFinished: self._finished,
            HistoryCompressed: self._compressed,
            RunWaiting: self._waits,
        }

    @property
    def view(self) -> AnswerView:
        """The answer as it is now."""
        return replace(self._view, segments=tuple(self._segments), is_live=True)

    @property
    def running(self) -> list[str]:
        """The names of the tools that run."""
        return [call.name for call, _ in self._running]

    @property
    def weight(self) -> int:
        """How much is sent again with each change: the length of the open end."""
        last = self._segments[-1] if self._segments else None
        return len(last.tail) if isinstance(last, Words) else 0

    def take(self, event: Event) -> list[Change]:
        """What an event changes."""
        handler = self._handlers.get(type(event))
        return [] if handler is None else handler(event)

    def flush(self) -> list[Change]:
        """Show the words and thoughts that wait."""
        changes: list[Change] = []
        thoughts, self._thoughts = "".join(self._thoughts), []
        if thoughts:
            changes += self._more_thoughts(thoughts)
        words, self._words = "".join(self._words), []
        if words:
            changes += self._more_words(words)
        return changes

    def named(self, model: str) -> None:
        """Which model answers."""
        self._view = replace(self._view, model=model)

    def turn_saved(self) -> list[Change]:
        """What comes next begins anew."""
        self._calls = {}
        changes = self._closed()
        self._kept = len(self._segments)
        return changes

    def resumed(self) -> None:
        """What was said since the last saved turn is no more: somebody goes on from there."""
        self._words, self._thoughts, self._growing = [], [], None
        self._calls, self._running = {}, []
        del self._segments[self._kept :]
        self._cards = {call: at for call, at in self._cards.items() if at < self._kept}

    def runs(self, call: ToolCall) -> bool:
        """Whether the call is one of those that run."""
        return self._place(call) is not None

    def ask(self, request: ApprovalRequest, question: str) -> list[Change]:
        """The user has to decide about a call that runs."""
        at = self._place(request.call)
        if at is None:
            return []
        told = {"source": request.source, "interrupted": request.interrupted}
        return [self._put(at, state="waiting", question=question, **told)]

    def decided(self, question: str) -> list[Change]:
        """The user has decided."""
        for at, segment in enumerate(self._segments):
            if isinstance(segment, Tool) and segment.question == question:
                return [self._put(at, state="running", question="")]
        return []

    def _place(self, call: ToolCall) -> int | None:
        """Where the card of a running call is; a call that only looks the same, or has its id, is the second choice."""
        same = [at for each, at in self._running if each is call]
        alike = [at for each, at in self._running if each == call]
        called = [at for each, at in self._running if each.tool_call_id == call.tool_call_id]
        return next(iter([*same, *alike, *called]), None)

    def _is_taken(self, at: int) -> bool:
        """Whether the card is that of another call with the same id."""
        card = self._segments[at]
        assert isinstance(card, Tool)
        return card.state in {"done", "failed"} or any(place == at for _, place in self._running)

    @property
    def _new_id(self) -> str:
        return f"{self._view.run}-{len(self._segments)}"

    def _add(self, segment: Segment) -> Change:
        self._segments.append(segment)
        return {"op": "append", "to": f"{self._view.run}-body", "html": segment}

    def _put(self, at: int, **fields: object) -> Change:
        segment = replace(self._segments[at], **fields)
        self._segments[at] = segment
        return {"op": "replace", "id": segment.id, "html": segment}

    def _closed(self) -> list[Change]:
        """Nothing is added to the words any more."""
        changes = self.flush()
        if self._growing is not None:
            at = len(self._segments) - 1
            changes.append(self._put(at, final=self._growing.finish(), tail=""))
            self._growing = None
        return changes

    def _more_thoughts(self, text: str) -> list[Change]:
        last = self._segments[-1] if self._segments else None
        if not isinstance(last, Thoughts):
            return [*self._closed(), self._add(Thoughts(self._new_id, text))]
        self._segments[-1] = replace(last, text=last.text + text)
        return [{"op": "text", "id": f"{last.id}-text", "text": text}]

    def _more_words(self, text: str) -> list[Change]:
        if self._growing is None:
            if not text.strip():
                return []
            self._growing = Growing()
            grown = self._growing.add(text)
            return [self._add(Words(self._new_id, grown.final, grown.tail))]
        grown = self._growing.add(text)
        last = self._segments[-1]
        assert isinstance(last, Words)
        self._segments[-1] = replace(last, final=last.final + grown.final, tail=grown.tail)
        return [{"op": "stream", "id": last.id, "final": grown.final, "tail": grown.tail}]

    def _text(self, event: TextDelta) -> list[Change]:
        changes = self.flush() if self._thoughts else []
        self._words.append(event.text)
        return changes

    def _thought(self, event: ThinkingDelta) -> list[Change]:
        changes = self.flush() if self._words else []
        self._thoughts.append(event.text)
        return changes

    def _compressed(self, event: HistoryCompressed) -> list[Change]:
        return [*self._closed(), self._add(Note(self._new_id, event.note.text))]

    def _waits(self, event: RunWaiting) -> list[Change]:
        changes = self._closed()
        last = len(self._segments) - 1
        if last >= 0 and isinstance(self._segments[last], Note):
            return [*changes, self._put(last, text=event.text)]
        return [*changes, self._add(Note(self._new_id, event.text))]

    def _call_begun(self, event: ToolCallStart) -> list[Change]:
        changes = self._closed()
        self._calls[event.index] = len(self._segments)
        return [*changes, self._add(Tool(self._new_id, event.name, "writing"))]

    def _call_written(self, event: ToolCallEnd) -> list[Change]:
        at = self._calls.get(event.index)
        if at is None:
            changes = [*self._closed(), self._add(tool_view(self._new_id, event.call, None))]
            self._calls[event.index] = len(self._segments) - 1
        else:
            card = tool_view(self._segments[at].id, event.call, None)
            changes = [self._put(at, name=card.name, rows=card.rows, raw=card.raw)]
        self._cards[event.call.tool_call_id] = self._calls[event.index]
        return changes

    def _started(self, event: ToolStarted) -> list[Change]:
        call = event.call
        at = self._cards.get(call.tool_call_id)
        if at is None or self._is_taken(at):
            changes = [*self._closed(), self._add(tool_view(self._new_id, call, None))]
            at = self._cards[call.tool_call_id] = len(self._segments) - 1
        else:
            # The question of the next attempt may be there before its first event is.
            asked = getattr(self._segments[at], "question", "")
            changes = [self._put(at, state="waiting" if asked else "running")]
        self._running.append((call, at))
        return changes

    def _finished(self, event: ToolFinished) -> list[Change]:
        at = self._place(event.call)
        if at is None:  # a call that was interrupted has an outcome, though nobody ran it again
            at = self._cards.get(event.call.tool_call_id)
        if at is None:
            return []
        self._running = [entry for entry in self._running if entry[1] != at]
        card = tool_view(self._segments[at].id, event.call, event.result, event.seconds)
        return [
            self._put(at, state=card.state, result=card.result, seconds=event.seconds, question="")
        ]
