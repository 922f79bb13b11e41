"""A running answer in the form in which pages show it.

Rules:
1. Every event changes the answer and returns the changes that bring a page to the same state.
2. Text and thinking are buffered until ``flush``, so that a page changes a few times a second and not for each token.
3. A tool call is one card from its first character to its result, also if it starts again after an interruption.
"""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from multi_llm_chat.events import (
    ApprovalDecided,
    Event,
    HistoryCompressed,
    NativeItem,
    RunWaiting,
    TextDelta,
    ThinkingDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolFinished,
    ToolStarted,
)
from multi_llm_chat.history.values import ToolCall
from multi_llm_chat.tools.approval import ApprovalRequest, edit_text, visible_text
from multi_llm_chat.tools.tool_output import without_note
from multi_llm_chat.web.history_view import ToolOrigin, step_view, tool_view
from multi_llm_chat.web.markdown import IncrementalMarkdown
from multi_llm_chat.web.oplog import Change
from multi_llm_chat.web.views import (
    NoteSegment,
    PageAnswer,
    Segment,
    ServerForm,
    TextSegment,
    ThinkingSegment,
    ToolSegment,
    changed_arguments,
    format_arguments,
    truncate,
)


class LiveAnswer:
    """One speaker's answer while it streams."""

    def __init__(self, view: PageAnswer, origin: ToolOrigin = lambda name: ("", name)) -> None:
        self._view = view
        self._origin = origin
        self._segments: list[Segment] = []
        self._markdown: IncrementalMarkdown | None = None
        self._saved_count = 0
        self._text_deltas: list[str] = []
        self._thinking_deltas: list[str] = []
        self._calls: dict[int, int] = {}
        self._cards: dict[str, int] = {}
        self._running: list[tuple[ToolCall, int]] = []
        # Events without a handler change nothing on the page.
        self._handlers: dict[type, Callable[[Any], list[Change]]] = {
            TextDelta: self._on_text,
            ThinkingDelta: self._on_thinking,
            ToolCallStart: self._on_call_start,
            ToolCallEnd: self._on_call_end,
            ToolStarted: self._on_tool_started,
            ToolFinished: self._on_tool_finished,
            HistoryCompressed: self._on_compressed,
            RunWaiting: self._on_waiting,
            NativeItem: self._on_native,
            ApprovalDecided: self._on_decided,
        }

    @property
    def view(self) -> PageAnswer:
        """The answer as it is now."""
        return replace(self._view, segments=tuple(self._segments), is_live=True)

    @property
    def has_waiting_text(self) -> bool:
        """Whether text or thinking is buffered for ``flush``."""
        return bool(self._text_deltas or self._thinking_deltas)

    @property
    def tail_size(self) -> int:
        """The length of the unfinished end, which is sent again with each change."""
        last = self._segments[-1] if self._segments else None
        return len(last.tail) if isinstance(last, TextSegment) else 0

    def apply(self, event: Event) -> list[Change]:
        """Apply an event; return the changes of the page."""
        handler = self._handlers.get(type(event))
        if handler is None:
            return []
        return [*self._end_wait(event), *handler(event)]

    def _end_wait(self, event: Event) -> list[Change]:
        """Remove the note of a wait when the next event arrives."""
        last = self._segments[-1] if self._segments else None
        is_over = isinstance(last, NoteSegment) and last.wait and not isinstance(event, RunWaiting)
        if last is None or not is_over:
            return []
        self._segments.pop()
        return [{"op": "remove", "id": last.id}]

    def flush(self) -> list[Change]:
        """Apply the buffered text and thinking; return the changes of the page."""
        changes: list[Change] = []
        thinking, self._thinking_deltas = "".join(self._thinking_deltas), []
        if thinking:
            changes += self._append_thinking(thinking)
        text, self._text_deltas = "".join(self._text_deltas), []
        if text:
            changes += self._append_text(text)
        return changes

    def set_model(self, model: str) -> None:
        """Set the model that answers."""
        self._view = replace(self._view, model=model)

    def end_turn(self) -> list[Change]:
        """Close the text of a saved turn; the next turn starts new segments."""
        self._calls = {}
        changes = self._close_text()
        self._saved_count = len(self._segments)
        return changes

    def reset_to_saved(self) -> None:
        """Remove everything after the last saved turn: the run was resumed from there."""
        self._text_deltas, self._thinking_deltas, self._markdown = [], [], None
        self._calls, self._running = {}, []
        del self._segments[self._saved_count :]
        self._cards = {call: at for call, at in self._cards.items() if at < self._saved_count}

    def is_running(self, call: ToolCall) -> bool:
        """Whether the call is running."""
        return self._position_of(call) is not None

    def ask_approval(self, request: ApprovalRequest, question: str) -> list[Change]:
        """Show the approval buttons in the card of a running call."""
        at = self._position_of(request.call)
        if at is None:
            return []
        call, written = request.call, request.written
        wrote = call if written is None else replace(call, arguments=written)
        details = {
            "source": request.source,
            "description": visible_text(request.description),
            "interrupted": request.interrupted,
            "rows": format_arguments(wrote, whole=True),
            "changes": changed_arguments(wrote.arguments, call.arguments, whole=True),
            "editable": edit_text(call.arguments),
            "hints": request.hints,
        }
        return [self._update(at, state="waiting", question=question, **details)]

    def end_approval(self, question: str) -> list[Change]:
        """Remove the approval buttons."""
        for at, segment in enumerate(self._segments):
            if isinstance(segment, ToolSegment) and segment.question == question:
                rows = tuple((name, truncate(value)) for name, value in segment.rows)
                closed = {"state": "running", "question": "", "editable": "", "rows": rows}
                return [self._update(at, **closed)]
        return []

    @property
    def waiting_count(self) -> int:
        """How many cards have a question for the user."""
        cards = [each for each in self._segments if isinstance(each, ToolSegment)]
        return sum(bool(card.question) or card.form is not None for card in cards)

    def show_form(self, form: ServerForm) -> list[Change] | None:
        """Show the form of a server in the card of its call; return None if this answer does not run that call."""
        call = form.question.call
        at = None if call is None else self._position_of(call)
        if at is None:
            return None
        card = self._segments[at]
        is_free = isinstance(card, ToolSegment) and card.form is None
        return [self._update(at, form=form)] if is_free else None

    def end_form(self, key: str) -> list[Change]:
        """Remove the form of a server."""
        for at, segment in enumerate(self._segments):
            if isinstance(segment, ToolSegment) and segment.form and segment.form.key == key:
                return [self._update(at, form=None)]
        return []

    def _position_of(self, call: ToolCall) -> int | None:
        """The position of a running call's card: matched by identity, else by equality, else by id."""
        same = [at for each, at in self._running if each is call]
        equal = [at for each, at in self._running if each == call]
        same_id = [at for each, at in self._running if each.tool_call_id == call.tool_call_id]
        return next(iter([*same, *equal, *same_id]), None)

    def _is_taken(self, at: int) -> bool:
        """Whether the card belongs to another call with the same id."""
        card = self._segments[at]
        assert isinstance(card, ToolSegment)
        return card.state in {"done", "failed"} or any(
            position == at for _, position in self._running
        )

    @property
    def _new_id(self) -> str:
        return f"{self._view.run}-{len(self._segments)}"

    def _append(self, segment: Segment) -> Change:
        self._segments.append(segment)
        return {"op": "append", "to": f"{self._view.run}-body", "html": segment}

    def _update(self, at: int, **fields: object) -> Change:
        segment = replace(self._segments[at], **fields)
        self._segments[at] = segment
        return {"op": "replace", "id": segment.id, "html": segment}

    def _close_text(self) -> list[Change]:
        """Close the text segment: later text starts a new one."""
        changes = self.flush()
        if self._markdown is not None:
            at = len(self._segments) - 1
            changes.append(self._update(at, final=self._markdown.finish(), tail=""))
            self._markdown = None
        return changes

    def _append_thinking(self, text: str) -> list[Change]:
        last = self._segments[-1] if self._segments else None
        if not isinstance(last, ThinkingSegment):
            return [*self._close_text(), self._append(ThinkingSegment(self._new_id, text))]
        self._segments[-1] = replace(last, text=last.text + text)
        return [{"op": "text", "id": f"{last.id}-text", "text": text}]

    def _append_text(self, text: str) -> list[Change]:
        if self._markdown is None:
            if not text.strip():
                return []
            self._markdown = IncrementalMarkdown()
            piece = self._markdown.feed(text)
            return [self._append(TextSegment(self._new_id, piece.final, piece.tail))]
        piece = self._markdown.feed(text)
        last = self._segments[-1]
        assert isinstance(last, TextSegment)
        self._segments[-1] = replace(last, final=last.final + piece.final, tail=piece.tail)
        if piece.grown is not None:
            return [{"op": "grow", "id": last.id, "html": piece.grown}] if piece.grown else []
        return [{"op": "stream", "id": last.id, "final": piece.final, "tail": piece.tail}]

    def _on_text(self, event: TextDelta) -> list[Change]:
        changes = self.flush() if self._thinking_deltas else []
        self._text_deltas.append(event.text)
        return changes

    def _on_thinking(self, event: ThinkingDelta) -> list[Change]:
        changes = self.flush() if self._text_deltas else []
        self._thinking_deltas.append(event.text)
        return changes

    def _on_compressed(self, event: HistoryCompressed) -> list[Change]:
        return [*self._close_text(), self._append(NoteSegment(self._new_id, event.note.text))]

    def _on_native(self, event: NativeItem) -> list[Change]:
        return [*self._close_text(), self._append(step_view(self._new_id, event.item))]

    def _on_waiting(self, event: RunWaiting) -> list[Change]:
        changes = self._close_text()
        last = len(self._segments) - 1
        wait = {"text": event.text, "wait": event.reason, "until": event.until}
        if last >= 0 and isinstance(self._segments[last], NoteSegment):
            return [*changes, self._update(last, **wait)]
        note = NoteSegment(self._new_id, event.text, event.reason, event.until)
        return [*changes, self._append(note)]

    def _on_call_start(self, event: ToolCallStart) -> list[Change]:
        changes = self._close_text()
        self._calls[event.index] = len(self._segments)
        source, name = self._origin(event.name)
        return [*changes, self._append(ToolSegment(self._new_id, name, "writing", source))]

    def _on_call_end(self, event: ToolCallEnd) -> list[Change]:
        at = self._calls.get(event.index)
        if at is None:
            changes = [*self._close_text(), self._append(self._card(self._new_id, event.call))]
            self._calls[event.index] = len(self._segments) - 1
        else:
            card = self._card(self._segments[at].id, event.call)
            changes = [
                self._update(at, name=card.name, source=card.source, rows=card.rows, raw=card.raw)
            ]
        self._cards[event.call.tool_call_id] = self._calls[event.index]
        return changes

    def _card(self, identifier: str, call: ToolCall) -> ToolSegment:
        return tool_view(identifier, call, None, origin=self._origin)

    def _on_tool_started(self, event: ToolStarted) -> list[Change]:
        call = event.call
        at = self._cards.get(call.tool_call_id)
        if at is None or self._is_taken(at):
            changes = [*self._close_text(), self._append(self._card(self._new_id, call))]
            at = self._cards[call.tool_call_id] = len(self._segments) - 1
        else:
            # The approval request of the next attempt may arrive before its first event.
            asked = getattr(self._segments[at], "question", "")
            changes = [self._update(at, state="waiting" if asked else "running")]
        self._running.append((call, at))
        return changes

    def _on_decided(self, event: ApprovalDecided) -> list[Change]:
        at = self._position_of(event.call)
        if at is None or event.arguments is None:
            return []
        written = next(call for call, position in self._running if position == at)
        changes = changed_arguments(written.arguments, event.arguments)
        return [self._update(at, changes=changes)]

    def _on_tool_finished(self, event: ToolFinished) -> list[Change]:
        at = self._position_of(event.call)
        if at is None:  # an interrupted call has a result, although it was not repeated
            at = self._cards.get(event.call.tool_call_id)
        if at is None:
            return []
        self._running = [entry for entry in self._running if entry[1] != at]
        before = self._segments[at]
        card = tool_view(before.id, event.call, event.result, event.seconds)
        is_edited = isinstance(before, ToolSegment) and before.changes
        return [
            self._update(
                at,
                state=card.state,
                result=without_note(card.result) if is_edited else card.result,
                seconds=event.seconds,
                question="",
                form=None,
            )
        ]
