"""Assembles tool calls from the fragments in which servers send them.

Rules (the STR ids are those of the catalogue of stream quirks):
1. A fragment belongs to the call with its key; without a key, to the open call with its id;
   with neither, to the call of the last fragment (STR-01). The position within a chunk is never
   used as a key (STR-03).
2. A new call begins under a used key if its id changes together with a name, or if the
   arguments so far are a complete JSON object and a new id, name or object follows (STR-02).
   Concatenated objects are split when the call is closed.
3. A name is set once; repeated, it changes nothing (STR-13). Pieces of a name are joined as long as
   no arguments have arrived. The start event of a call is emitted as soon as name and arguments are known.
4. Ids are unique within the reply: a missing, empty or repeated id is replaced by a generated one
   (STR-04).
5. Arguments may be text, an object, or missing (STR-10, STR-11, STR-12). A call without
   arguments is a call. A call that never gets a name is dropped.
6. A call is closed when another has begun and its own arguments are complete, or by the end of the
   reply. A call that a length limit cuts off is kept with an error and cannot be run (STR-14).
7. Fragments are joined once, when the call is closed: the cost is linear.
8. A reply has at most ``DecodeContext.parts`` calls and other parts; one more raises ``OverLimit``.
9. ``DecodeContext`` has everything that a decoder knows of the request whose answer it reads.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from multi_llm_chat.data_limits import REPLY_LIMITS, OverLimit
from multi_llm_chat.events import Event, ToolCallDelta, ToolCallEnd, ToolCallStart
from multi_llm_chat.history.arguments import parse_arguments, split_arguments
from multi_llm_chat.history.values import Extras, JsonObject, Origin, Part, ToolCall
from multi_llm_chat.protocol.lenient_json import ObjectEnd


class DecodeContext(Struct, frozen=True):
    """The data of a request that a decoder needs to turn the reply into parts of the history.

    ``names`` maps tool names as they were sent to the names the caller knows; ``arguments``
    does the same for renamed argument keys, by the caller's tool name. ``id_prefix`` is the prefix of
    the ids of calls for which the provider sent none (or no unique one): prefix, underscore, number.
    ``parts`` is the most parts of a reply. A decoder writes into ``meta`` what goes into the ``meta`` of the answer's turn.
    """

    origin: Origin = Origin()
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    arguments: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    id_prefix: str = "call"
    parts: int = REPLY_LIMITS.parts
    meta: JsonObject = field(default_factory=dict)


CUT_OFF = "The call was cut off by the length limit before its arguments were complete."


class CallDraft:
    """One call while its fragments arrive; when it is closed, it is split into one or more calls."""

    def __init__(self, index: int, key: int | None, wire_id: str) -> None:
        self.index = index
        self.key = key
        self.wire_id = wire_id
        self.name = ""
        self.announced_id = ""
        self.fragments: list[str] = []
        self._length = 0
        self._end = ObjectEnd()
        self.value: object = None  # arguments that came as a JSON value instead of text
        self.refusal = ""  # why the server rejected the call
        self.closed = False
        self.placed = False  # whether it has its place among the other parts of the turn
        self.calls: list[ToolCall] = []
        #: Provider-specific fields of the call; they become its extras.
        self.extras: JsonObject = {}

    @property
    def has_arguments(self) -> bool:
        """Return whether any arguments have arrived."""
        return bool(self.fragments) or self.value is not None

    @property
    def finished(self) -> bool:
        """Return whether the call is closed."""
        return self.closed

    def is_complete(self) -> bool:
        """Return whether the arguments are complete, so that nothing can be added."""
        return self.value is not None or self._end.reached()

    def add(self, fragment: str) -> None:
        """Add a piece of the text of the arguments."""
        self.fragments.append(fragment)
        self._length += len(fragment)
        self._end.add(fragment)

    def repeats(self, arguments: object) -> bool:
        """Return whether these are the complete arguments that have already arrived, sent again."""
        if self.value is not None:
            return arguments == self.value
        if not isinstance(arguments, str) or len(arguments) != self._length:
            return False
        return self.is_complete() and arguments == self.text()

    def text(self) -> str:
        """Join the text of the arguments so far."""
        if len(self.fragments) > 1:
            self.fragments = ["".join(self.fragments)]
        return self.fragments[0] if self.fragments else ""

    def parts(self) -> tuple[Part, ...]:
        """Return the finished calls."""
        return tuple(self.calls)


class CallAssembly:
    """All tool calls of one reply."""

    def __init__(self, context: DecodeContext) -> None:
        self._context = context
        self._drafts: list[CallDraft] = []
        self._open: dict[int, CallDraft] = {}
        self._by_key: dict[int, CallDraft] = {}
        self._by_id: dict[str, CallDraft] = {}
        self._last: CallDraft | None = None
        self._used_ids: set[str] = set()
        self._count = 0

    @property
    def last(self) -> CallDraft | None:
        """The call of the last fragment."""
        return self._last

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The finished calls in the order in which they began."""
        return tuple(call for draft in self._drafts for call in draft.calls)

    def add(
        self,
        *,
        key: int | None = None,
        wire_id: str | None = None,
        name: str | None = None,
        arguments: object = None,
        separate: bool = False,
    ) -> tuple[CallDraft, list[Event]]:
        """Add one fragment of a call.

        Args:
            key: The provider's own number of the call, if it sent one.
            wire_id: The provider's id of the call, if it sent one.
            name: The name of the tool, or a piece of it.
            arguments: A piece of the JSON text, or the arguments as a value.
            separate: Whether the fragment certainly does not continue the last call.

        Returns:
            The call to which it belongs, and the events.
        """
        events: list[Event] = []
        draft = self._find(key, wire_id or "", name or "", separate)
        inherited = ""
        if draft is not None and self._begins_anew(draft, wire_id or "", name or "", arguments):
            inherited = draft.name
            draft = None
        if draft is None:
            events += self._close_last_if_complete()
            draft = self._begin(key, wire_id or "")
            draft.name = "" if name else inherited
        elif wire_id and not draft.wire_id and not draft.announced_id:
            draft.wire_id = wire_id
            self._by_id.setdefault(wire_id, draft)
        self._last = draft
        # Only a name and an id together distinguish a call that is sent again from one more call.
        if draft.closed or (name and wire_id and draft.repeats(arguments)):
            return draft, events
        if name:
            self._add_name(draft, name)
        return draft, events + self._add_arguments(draft, arguments)

    def add_fragment(self, key: int, text: str) -> list[Event] | None:
        """The fast path for most fragments, a piece of the arguments of an open call; None if ``add`` has to decide."""
        draft = self._by_key.get(key)
        if draft is None or draft.closed:
            return None
        self._last = draft
        return self._add_arguments(draft, text)

    def add_refused(self, name: str, arguments: str, refusal: str) -> tuple[CallDraft, list[Event]]:
        """Add a complete call that the server rejected: it is kept, and never run."""
        draft = self._begin(None, "")
        draft.refusal = refusal
        draft.name = name
        events = self._add_arguments(draft, arguments)
        return draft, events + self.close(draft)

    def close(self, draft: CallDraft, *, cut: bool = False) -> list[Event]:
        """Close a call: no more fragments are added to it."""
        if draft.closed:
            return []
        draft.closed = True
        del self._open[draft.index]
        if not draft.name:
            return []
        events: list[Event] = [] if draft.announced_id else [self._announce(draft)]
        first, *others = self._build(draft, cut=cut)
        if draft.extras:
            first = replace(first, extras=Extras(self._context.origin, dict(draft.extras)))
        draft.calls.append(first)
        events.append(ToolCallEnd(draft.index, first))
        for other in others:
            index = self._next_index()
            draft.calls.append(other)
            events.append(ToolCallStart(index, other.tool_call_id, other.name))
            events.append(ToolCallEnd(index, other))
        return events

    def close_all(self, *, cut: bool = False) -> list[Event]:
        """Close all open calls; ``cut``: a length limit ended the reply."""
        events: list[Event] = []
        for draft in list(self._open.values()):
            events += self.close(draft, cut=cut and draft is self._last)
        return events

    def _find(self, key: int | None, wire_id: str, name: str, separate: bool) -> CallDraft | None:
        known = self._by_id.get(wire_id) if wire_id else None
        if key is not None:
            draft = self._by_key.get(key)
            return known if draft and known and known.key == key and not known.closed else draft
        if separate and name:
            return None
        return known if wire_id else self._last

    def _begins_anew(self, draft: CallDraft, wire_id: str, name: str, arguments: object) -> bool:
        other_id = bool(wire_id) and wire_id != draft.wire_id
        other_name = bool(name and draft.name) and name != draft.name
        # A new id alone means nothing: some servers generate one for each fragment.
        if other_id and name and draft.wire_id:
            return True
        if not _says_something(arguments):
            # A complete known name is not the first piece of a longer one.
            bare = draft.closed or draft.name in self._context.names
            return other_name and bare and not draft.has_arguments
        again = not other_id and bool(wire_id) and draft.repeats(arguments)
        if draft.closed:
            return not again
        if other_id or other_name or (name and _opens_object(arguments)):
            return draft.is_complete() and not again
        return False

    def _begin(self, key: int | None, wire_id: str) -> CallDraft:
        draft = CallDraft(self._next_index(), key, wire_id)
        self._drafts.append(draft)
        self._open[draft.index] = draft
        if key is not None:
            self._by_key[key] = draft
        if wire_id:
            self._by_id[wire_id] = draft
        return draft

    def _close_last_if_complete(self) -> list[Event]:
        last = self._last
        return self.close(last) if last is not None and last.is_complete() else []

    def _add_name(self, draft: CallDraft, name: str) -> None:
        if not draft.name or (name.startswith(draft.name) and not draft.has_arguments):
            draft.name = name
        elif name != draft.name and not draft.has_arguments:
            draft.name += name

    def _add_arguments(self, draft: CallDraft, arguments: object) -> list[Event]:
        if arguments is None or arguments == "":
            return []
        if not isinstance(arguments, str):
            draft.value = arguments
            return [self._announce(draft)] if draft.name and not draft.announced_id else []
        draft.add(arguments)
        if draft.announced_id:
            return [ToolCallDelta(draft.index, arguments)]
        if not draft.name:
            return []
        return [self._announce(draft), ToolCallDelta(draft.index, draft.text())]

    def _announce(self, draft: CallDraft) -> ToolCallStart:
        draft.announced_id = self._unique_id(draft.wire_id, draft.index)
        return ToolCallStart(draft.index, draft.announced_id, self._original_name(draft.name))

    def _build(self, draft: CallDraft, *, cut: bool) -> list[ToolCall]:
        text = draft.text()
        if (
            text.strip() == "null"
        ):  # llama-3.3 on Groq, for a tool without parameters (GRQ-08, STR-20)
            text = ""
        raw: object = text if draft.value is None else draft.value
        name = self._original_name(draft.name)
        arguments, kept, error = parse_arguments(raw)
        pieces = split_arguments(text) if error and draft.value is None else []
        if 1 < len(pieces) <= self._context.parts - self._count:
            return [
                self._call(name, piece, draft.announced_id if number == 0 else "")
                for number, piece in enumerate(pieces)
            ]
        if draft.refusal:
            return [ToolCall(name, {}, draft.announced_id, text, draft.refusal)]
        if cut and (error or not draft.has_arguments):
            return [ToolCall(name, {}, draft.announced_id, kept, CUT_OFF)]
        return [self._finished(name, arguments, draft.announced_id, kept, error)]

    def _call(self, name: str, text: str, call_id: str) -> ToolCall:
        arguments, kept, error = parse_arguments(text)
        call_id = call_id or self._unique_id("", self._count)
        return self._finished(name, arguments, call_id, kept, error)

    def _finished(
        self, name: str, arguments: JsonObject, call_id: str, kept: str | None, error: str | None
    ) -> ToolCall:
        originals: Mapping[str, str] = self._context.arguments.get(name, {})
        if originals:
            renamed: dict[str, Any] = {}
            for key, value in arguments.items():
                renamed[originals.get(key, key)] = value
            arguments = renamed
        return ToolCall(name, arguments, call_id, kept, error)

    def _original_name(self, name: str) -> str:
        return self._context.names.get(name, name)

    def _unique_id(self, wire_id: str, number: int) -> str:
        call_id = wire_id
        while not call_id or call_id in self._used_ids:
            call_id = f"{self._context.id_prefix}_{number}"
            number += 1
        self._used_ids.add(call_id)
        return call_id

    def _next_index(self) -> int:
        index = self._count
        if index >= self._context.parts:
            raise OverLimit(f"more than {self._context.parts:,} calls")
        self._count += 1
        return index


def _says_something(arguments: object) -> bool:
    return bool(arguments.strip()) if isinstance(arguments, str) else arguments is not None


def _opens_object(arguments: object) -> bool:
    return arguments.lstrip().startswith("{") if isinstance(arguments, str) else True
