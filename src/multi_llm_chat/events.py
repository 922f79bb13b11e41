"""Everything that happens in a run and its conversation, as one tagged union.

``ResponseEvent`` is what a provider streams. ``Event`` adds what the run, its tools and its conversation do. Journal
rows, ``--jsonl`` and the Python API are encodings of this one union (``event_codec``).

Rules:
1. A reply is any number of deltas, then at most one ``Usage``, then exactly one ``Finish``.
2. Every ``ToolCallStart`` that is not cut off is closed by one ``ToolCallEnd`` with the same ``index``; only the
   ``ToolCallEnd`` carries a call that may be run. A broken reply has neither a ``Finish`` nor a ``ToolCallEnd`` for
   the call that was still open.
3. A run is ``RunStarted``, its events, then exactly one of ``RunFinished`` and ``RunFailed``. ``RunResumed`` starts
   another attempt: it invalidates every delta since the last ``TurnFinished`` or ``ToolFinished``.
   The stream of ``ChatService.resume`` begins with it.
4. A message is ``MessageSaved``, the events of its runs (interleaved in any order), then ``MessageFinished``.
5. ``run`` and ``speaker`` name the run an event belongs to, and its speaker. Both are empty on the events that a provider
   streams, and on the events of a run without a journal.
"""

import re
from decimal import Decimal
from typing import Final, Literal, TypeAlias

from msgspec import Struct, field

from multi_llm_chat.history.values import JsonObject, Native, ToolCall, ToolResult, Turn

#: Why a reply ended. ``paused``: the provider interrupted its server tools, and continues when it receives the turn again.
#: ``failed``: the model wrote something that the provider could not use, such as a call that is not JSON.
FinishReason: TypeAlias = Literal[
    "stop", "tool_calls", "length", "refusal", "safety", "paused", "failed", "other"
]

#: Why a run ended.
StopReason: TypeAlias = Literal[
    "answered",
    "iterations",
    "time",
    "tokens",
    "repetition",
    "cancelled",
    "error",
    "refusal",
    "length",
]

#: What a run waits for: a store that accepts writes, the provider's rate limit, a person's decision, the next attempt.
WaitReason: TypeAlias = Literal["store", "rate", "approval", "retry"]

_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")


def _tag(name: str) -> str:
    return _CAPITAL.sub("_", name).lower()


class _Event(Struct, frozen=True, kw_only=True, tag=_tag, tag_field="type"):
    """The fields of every event: its run, and the speaker of that run."""

    run: str = ""
    speaker: str = ""


# What a provider streams.


class TextDelta(_Event, frozen=True):
    """More text of the answer."""

    text: str


class ThinkingDelta(_Event, frozen=True):
    """More text of the model's reasoning."""

    text: str


class ToolCallStart(_Event, frozen=True):
    """A tool call begins; its arguments follow."""

    index: int
    tool_call_id: str
    name: str


class ToolCallDelta(_Event, frozen=True):
    """A piece of the JSON text of a call's arguments."""

    index: int
    arguments: str


class ToolCallEnd(_Event, frozen=True):
    """A tool call is complete."""

    index: int
    call: ToolCall


class NativeItem(_Event, frozen=True):
    """A provider-specific item is complete: a step of a server tool, an approval request, executable code."""

    item: Native


class Usage(_Event, frozen=True):
    """Tokens as the provider counted them; ``input_tokens`` includes cached ones."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    thinking_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.thinking_tokens + other.thinking_tokens,
        )

    @property
    def counts(self) -> tuple[int, ...]:
        """The numbers, in the order of ``TOKEN_COUNTS``."""
        return tuple(getattr(self, name) for name in TOKEN_COUNTS)


#: The fields of ``Usage`` that are counts.
TOKEN_COUNTS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "thinking_tokens",
)


class Finish(_Event, frozen=True):
    """The reply is complete; ``raw`` is the finish reason as the provider wrote it."""

    reason: FinishReason
    raw: str = ""


ResponseEvent: TypeAlias = (
    TextDelta
    | ThinkingDelta
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
    | NativeItem
    | Usage
    | Finish
)


# Values that events carry.


class Cut(Struct, frozen=True):
    """How far a history is shortened. The positions are indexes of turns, and only ever increase.

    An exchange that ends at or before ``gone`` is not sent at all; one that ends before ``words`` is sent as the user's text
    alone, one that ends before ``talk`` as the user's text and the final answer. ``results`` is the maximum length in characters
    of a tool result in the newest exchange. ``summary`` summarises what is not sent.
    """

    talk: int = 0
    words: int = 0
    gone: int = 0
    results: int | None = None
    summary: str | None = None


class CompressionNote(Struct, frozen=True):
    """What a request left out of its history, and why; the history itself is not changed.

    ``left_out`` are the indexes of turns that are not sent at all, ``shortened`` those of turns that are sent in part;
    ``turn_ids`` are the ids of both, for turns that have one. The counts are numbers of exchanges. ``summary`` is sent in place
    of what is left out; ``trouble`` says why there is no summary although one was requested. The next request starts from
    ``cut``; to undo the compression, discard ``cut`` and send the request with a larger window or with none.
    """

    cut: Cut
    reason: Literal["window", "refused"]
    tokens_before: int
    tokens_after: int
    budget: int
    fits: bool
    is_estimate: bool
    left_out: tuple[int, ...]
    shortened: tuple[int, ...]
    turn_ids: tuple[str, ...] = ()
    exchanges_gone: int = 0
    exchanges_as_words: int = 0
    exchanges_without_tools: int = 0
    results_cut: int = 0
    first: str = ""
    last: str = ""
    summary: str | None = None
    summary_usage: Usage | None = None
    trouble: str | None = None

    @property
    def text(self) -> str:
        """The note as one line of text for the user."""
        what = self.describe("summarised" if self.summary else "not sent")
        size = f"{self.tokens_before:,} → {self.tokens_after:,} tokens of {self.budget:,}"
        ending = "" if self.fits else "; it is still too long"
        why = "to fit the window" if self.reason == "window" else "as it was refused as too long"
        trouble = f"; no summary: {self.trouble}" if self.trouble else ""
        return f"History shortened {why} ({size}{ending}): {what}{trouble}."

    def describe(self, gone: str) -> str:
        """Describe what is left out or shortened; ``gone`` is the text for exchanges that are not sent."""
        found: list[str] = []
        if self.exchanges_gone:
            when = f" ({self.first} to {self.last})" if self.first else ""
            found.append(f"{gone}: {_counted(self.exchanges_gone, 'earlier exchange')}{when}")
        if self.exchanges_as_words:
            found.append(
                f"of {_counted(self.exchanges_as_words, 'exchange')} only the user's words remain"
            )
        if self.exchanges_without_tools:
            found.append(
                f"of {_counted(self.exchanges_without_tools, 'exchange')} "
                "the user's words and the final answers remain"
            )
        if self.results_cut:
            found.append(
                f"cut in the middle: {_counted(self.results_cut, 'turn')} of long tool results"
            )
        return "; ".join(found) or "nothing could be left out"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


class ErrorRecord(Struct, frozen=True, omit_defaults=True):
    """Why a run failed; shown to the user, never sent to a model as if it had written it."""

    kind: str
    message: str
    provider: str | None = None
    status: int | None = None
    code: str | None = None


# What a run does.


class RunStarted(_Event, frozen=True):
    """A speaker starts to answer with this model; ``purpose`` is ``verdict`` if it judges the answers of a council."""

    model: str = ""
    purpose: str = ""


class RunResumed(_Event, frozen=True):
    """Another attempt continues the run; discard the deltas since the last finished turn or tool."""

    attempt: int


class RunWaiting(_Event, frozen=True):
    """The run waits for what ``text`` says; ``until`` is the Unix time at which the wait ends, if it is known."""

    reason: WaitReason
    text: str = ""
    until: float | None = None


class RunPaused(_Event, frozen=True):
    """The run waits for ``resume``; until then the caller can edit ``results`` or run their tools again."""

    results: tuple[ToolResult, ...] = ()


class RunFinished(_Event, frozen=True):
    """The run ended without an error; ``cost`` is in US dollars, None if the price is unknown."""

    stop_reason: StopReason
    usage: Usage = Usage()
    cost: Decimal | None = None
    seconds: float = 0.0


class RunFailed(_Event, frozen=True):
    """The run ended with an error; the turns before the failure are kept."""

    error: ErrorRecord
    usage: Usage = Usage()
    cost: Decimal | None = None
    seconds: float = 0.0


class ToolStarted(_Event, frozen=True):
    """A tool starts; the journal, if the run has one, has recorded the start."""

    call: ToolCall


class ToolFinished(_Event, frozen=True):
    """A tool returned its result, ``seconds`` after it started."""

    call: ToolCall
    result: ToolResult
    seconds: float


class ApprovalRequested(_Event, frozen=True):
    """A tool runs only if a person allows it; ``interrupted`` if an earlier attempt may have run it already."""

    call: ToolCall
    source: str = ""
    description: str = ""
    interrupted: bool = False


class ApprovalDecided(_Event, frozen=True):
    """A person allowed or refused a call; ``arguments`` replace those that the model wrote, if the person changed them."""

    call: ToolCall
    allowed: bool
    reason: str = ""
    arguments: JsonObject | None = None


class FormRequested(_Event, frozen=True):
    """The server of a running tool asks the user: to fill in a form, or to visit a URL."""

    call: ToolCall
    server: str
    message: str
    mode: Literal["form", "url"] = "form"
    schema: JsonObject = field(default_factory=dict)
    url: str | None = None


class TurnFinished(_Event, frozen=True):
    """A turn was added to the history: the model's turn, or the turn with the results of its tools.

    ``usage`` are the tokens that the provider counted for a model's turn. ``is_whole`` is false for a partial turn, which
    arrived before the run failed or was stopped; ``is_saved`` is false for a turn that the store has not accepted.
    """

    turn: Turn
    usage: Usage | None = None
    is_whole: bool = True
    is_saved: bool = True


class HistoryCompressed(_Event, frozen=True):
    """The next request leaves out a part of the history; the history itself stays as it is."""

    note: CompressionNote


# What a conversation does.


class MessageSaved(_Event, frozen=True):
    """The store has the user's message; ``addressed`` is empty for a memo."""

    conversation: str
    turn: Turn
    addressed: tuple[str, ...] = ()


class MessageFinished(_Event, frozen=True):
    """Every run of the message is over; ``answered`` and ``failed`` name their speakers."""

    conversation: str
    answered: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


RunEvent: TypeAlias = (
    RunStarted
    | RunResumed
    | RunWaiting
    | RunPaused
    | RunFinished
    | RunFailed
    | ToolStarted
    | ToolFinished
    | ApprovalRequested
    | ApprovalDecided
    | FormRequested
    | TurnFinished
    | HistoryCompressed
)

Event: TypeAlias = ResponseEvent | RunEvent | MessageSaved | MessageFinished
