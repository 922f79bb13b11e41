"""The result of an agent's run, its stream, and their construction from events."""

import asyncio
import time
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Mapping,
    Sequence,
)
from decimal import Decimal
from typing import Any, Final, Generic, Self, TypeVar

from msgspec import Struct

from multi_llm_chat.agent.agent_loop import final_text
from multi_llm_chat.chat.council import VERDICT
from multi_llm_chat.errors import (
    AuthError,
    BadRequest,
    ConnectionFailed,
    ContextTooLong,
    LimitReached,
    MultiLLMChatError,
    Overloaded,
    ProviderError,
    RateLimited,
    Refused,
    StreamBroken,
    UsageError,
)
from multi_llm_chat.events import (
    ErrorRecord,
    Event,
    RunFailed,
    RunFinished,
    StopReason,
    TextDelta,
    TurnFinished,
    Usage,
)
from multi_llm_chat.history.values import Turn
from multi_llm_chat.repair.policy import Note
from multi_llm_chat.runs.channel import EventSink
from multi_llm_chat.runs.event_stream import EventStream
from multi_llm_chat.schema.python_types import OutputType

Output = TypeVar("Output")

_LIMITS: Final[dict[StopReason, str]] = {
    "iterations": "it asked for tools more often than its limits allow",
    "time": "its time was over",
    "tokens": "it used more tokens than its limits allow",
    "repetition": "it made the same call again and again",
    "cancelled": "it was cancelled",
}


_ERRORS: Final[dict[str, type[ProviderError]]] = {
    kind.__name__: kind
    for kind in (
        AuthError,
        BadRequest,
        ConnectionFailed,
        ContextTooLong,
        Overloaded,
        ProviderError,
        RateLimited,
        Refused,
        StreamBroken,
    )
} | {"MissingKey": AuthError}


class AgentResult(Struct, Generic[Output], frozen=True):
    """The answer of a run.

    ``output`` is the answer in its type, ``text`` its text, ``turns`` the turns that the run adds to the history. ``cost`` is in US
    dollars, None if a price is unknown. ``notes`` are the changes that its requests needed. ``answers`` is the text of each speaker, if
    there are several. ``history`` is the prompt and the turns that the run added: ``[*result.history, "And then?"]`` continues it.
    """

    output: Output
    text: str
    turns: tuple[Turn, ...]
    usage: Usage
    cost: Decimal | None
    notes: tuple[Note, ...]
    stop_reason: StopReason
    conversation: str | None = None
    answers: Mapping[str, str] = {}
    history: tuple[Turn, ...] = ()


class RunOutcome(Struct):
    """The outcome of one attempt, collected from its events: the turns of each speaker, the stop reason, the usage, the errors."""

    turns: list[Turn]
    usage: Usage = Usage()
    cost: Decimal | None = None
    reason: StopReason = "answered"
    failure: Exception | None = None
    texts: dict[str, str] = {}


class AgentStream(Generic[Output]):
    """The events of a run, for ``for`` and ``async for``; ``await`` reads them all and returns the result."""

    def __init__(
        self,
        produce: "Callable[[AgentStream[Output], EventSink], Awaitable[None]]",
        stop: Callable[[], object] | None = None,
        output: OutputType[Output] | None = None,
    ) -> None:
        async def run(sink: EventSink) -> None:
            await produce(self, sink)

        self._events = EventStream(run, stop)
        self._output = output
        self._words: list[str] = []
        self.results: list[AgentResult[Output]] = []

    def __iter__(self) -> Generator[Event]:
        return self._events.__iter__()

    def __aiter__(self) -> AsyncGenerator[Event]:
        return self._events.__aiter__()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def close(self) -> None:
        """Stop the run, if it was read with ``for`` and has not ended."""
        self._events.close()

    async def aclose(self) -> None:
        """Stop the run, if it was read with ``async for`` and has not ended."""
        await self._events.aclose()

    def __await__(self) -> Generator[Any, None, AgentResult[Output]]:
        return self._finish().__await__()

    async def _finish(self) -> AgentResult[Output]:
        async for _ in self:
            pass
        return self.result

    @property
    def result(self) -> AgentResult[Output]:
        """The result, once all events are read.

        Raises:
            UsageError: The run has not ended.
        """
        if not self.results:
            raise UsageError("The run has not ended yet; read its events to the end first")
        return self.results[-1]

    @property
    def text(self) -> str:
        """The text of the answer so far."""
        return "".join(self._words)

    @property
    def partial(self) -> Any:
        """The typed answer as far as it has arrived, as plain JSON values; without ``output``, the text so far."""
        return self.text if self._output is None else self._output.read_partial(self.text)

    def observe(self, event: Event) -> None:
        """Add the text of an event; a new turn starts with an empty text."""
        if isinstance(event, TextDelta):
            self._words.append(event.text)
        elif isinstance(event, TurnFinished) and event.turn.role == "tool":
            self._words.clear()


class ObservedSink:
    """Passes events on; the stream observes them first."""

    def __init__(self, sink: EventSink, stream: AgentStream[Any]) -> None:
        self._sink = sink
        self._stream = stream

    @property
    def in_step(self) -> bool:
        return self._sink.in_step

    def put(self, events: Sequence[Event]) -> None:
        for event in events:
            self._stream.observe(event)
        self._sink.put(events)

    async def ready(self) -> None:
        await self._sink.ready()


def collect_event(outcome: RunOutcome, event: Event) -> None:
    """Add an event to the outcome of a run."""
    if isinstance(event, TurnFinished):
        outcome.turns.append(event.turn)
        if event.turn.role != "tool" and not event.turn.meta.get(VERDICT):
            outcome.texts[event.speaker or event.turn.role] = final_text([event.turn])
    elif isinstance(event, RunFailed):
        outcome.failure = _error(event.error, tuple(outcome.turns))
        outcome.usage += event.usage
    elif isinstance(event, RunFinished):
        outcome.usage += event.usage
        outcome.cost = event.cost if outcome.cost is None else outcome.cost + (event.cost or 0)
        outcome.reason = event.stop_reason
        outcome.failure = outcome.failure or failure_of(
            event.stop_reason, final_text(outcome.turns), tuple(outcome.turns)
        )


def add_outcome(total: RunOutcome, outcome: RunOutcome) -> None:
    total.turns += outcome.turns
    total.usage += outcome.usage
    if outcome.cost is not None:
        total.cost = outcome.cost + (total.cost or 0)
    total.reason = outcome.reason
    total.texts = outcome.texts


def failure_of(
    reason: StopReason, text: str, turns: tuple[Turn, ...], error: Exception | None = None
) -> Exception | None:
    """The exception for a run that ended for this reason or with this error; None if it has an answer."""
    if isinstance(error, LimitReached):
        return LimitReached(str(error), reason=error.reason, turns=turns)
    if error is not None:
        return error
    if reason == "refusal":
        return Refused(text or "The model declined to answer.")
    if reason in _LIMITS:
        return LimitReached(
            f"The run ended without an answer: {_LIMITS[reason]}.", reason=reason, turns=turns
        )
    return None


def _error(record: ErrorRecord, turns: tuple[Turn, ...]) -> Exception:
    """The exception for a recorded error; ``turns`` are those of its run."""
    if record.kind == LimitReached.__name__:
        return LimitReached(record.message, reason="budget", turns=turns)
    kind = _ERRORS.get(record.kind)
    if kind is None:
        return MultiLLMChatError(record.message)
    return kind(record.message, provider=record.provider, status=record.status, code=record.code)


class Pace:
    """Limits how many runs start in a second."""

    def __init__(self, rate: float | None) -> None:
        self._gap = 0.0 if rate is None else 1.0 / rate
        self._next = time.monotonic()

    async def wait(self) -> None:
        """Return when the next run may start."""
        now = time.monotonic()
        self._next = max(self._next, now) + self._gap
        if (pause := self._next - self._gap - now) > 0:
            await asyncio.sleep(pause)
