"""A reply while it arrives: its events, and in the end the reply itself.

Rules:
1. Iteration yields the events; ``reply`` is available after the ``Finish`` event.
2. Every stream is closed by its ``with`` block, by ``close``/``aclose``, or by being read to its end;
   closing one that is being read closes its socket.
3. An invalid request raises when the stream is created, before any network access.
4. A chain sends the request to its next provider only if no event was emitted yet; a note of the reply records this.
5. An ``Inquiry`` is one provider answering one request. Creating it checks the request; ``ask`` is called once. Events are yielded in
   lists; the last list ends with ``Finish``, and the reply is complete. ``streamed`` is true once events were emitted: after that no other
   provider gets the request.
6. Each inquiry is observed (``agent.telemetry``), except one that a plug-in's own method starts within an observed inquiry.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, closing
from typing import Any, Final, Protocol, TypeAlias, cast

from msgspec.structs import replace

from multi_llm_chat.agent.reply import Reply
from multi_llm_chat.agent.telemetry import ModelCall, begin_call
from multi_llm_chat.data_limits import Limits
from multi_llm_chat.errors import ProviderError, UsageError
from multi_llm_chat.events import Event, Finish, TextDelta, ToolCallEnd, Usage
from multi_llm_chat.history.json_values import as_list, as_text
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.history.writer import write_call
from multi_llm_chat.http import async_driver as drive_async
from multi_llm_chat.http import sync_driver as drive_sync
from multi_llm_chat.http.sync_driver import Stop
from multi_llm_chat.http.transports import Transports
from multi_llm_chat.protocol.attempts import Attempts
from multi_llm_chat.protocol.retry import RetryPolicy, hands_over
from multi_llm_chat.repair.policy import Note
from multi_llm_chat.request import ModelRequest

# One provider answering one request.


class Inquiry(Protocol):
    """One request to one provider, over the network, to the embedded model or to a plug-in's code."""

    @property
    def provider(self) -> str:
        """The provider's name."""
        ...

    @property
    def model(self) -> str:
        """The name of the model."""
        ...

    @property
    def streamed(self) -> bool:
        """Whether events of the reply were emitted."""
        ...

    def ask(self, stop: Stop) -> Generator[list[Event]]:
        """Send the request and yield its events in lists; ``stop`` ends the reply from another thread."""
        ...

    def ask_async(self) -> AsyncGenerator[list[Event]]:
        """Like ``ask``, with ``async``."""
        ...

    def reply(self, last_events: list[Event]) -> Reply:
        """The reply that ends with these events."""
        ...


class Inquirer(Protocol):
    """A provider that accepts requests; a chain has several."""

    def inquire(self, request: ModelRequest) -> Inquiry:
        """Check the request, with this provider's address and model; nothing is sent."""
        ...


#: Called before each retry, with the failure and the seconds until the retry.
RetryCallback: TypeAlias = Callable[[ProviderError, float], object]


def _ignore_retry(_failure: ProviderError, _seconds: float) -> None:
    pass


class RemoteInquiry(Attempts):
    """Attempts over the network, through the transports of one provider."""

    def __init__(
        self,
        request: ModelRequest,
        transports: Transports,
        *,
        api_key: str | None,
        retry: RetryPolicy,
        limits: Limits,
    ) -> None:
        super().__init__(request, api_key=api_key, retry=retry, limits=limits)
        self.call: ModelCall | None = None  # observes the request
        self.on_retry: RetryCallback = _ignore_retry
        self.pace: Callable[[], float] = float  # seconds between two reads: none
        self._transports = transports

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self.exchange.rendered.provider

    @property
    def model(self) -> str:
        """The name of the model."""
        return self._origin.model

    def failed(self, failure: ProviderError, *, jitter: float) -> float:
        """Return the seconds until the retry, or raise the failure, as ``Attempts`` does; record a retry in the telemetry."""
        seconds = super().failed(failure, jitter=jitter)
        if self.call is not None:
            self.call.retried(failure, seconds, self._notes[-1].message)
        self.on_retry(failure, seconds)
        return seconds

    def ask(self, stop: Stop) -> Generator[list[Event]]:
        """Send the request and yield its events in lists; ``stop`` ends the reply from another thread."""
        transports = self._transports
        return drive_sync.answer(self, transports.for_sync(), transports.health, stop)

    def ask_async(self) -> AsyncGenerator[list[Event]]:
        """Like ``ask``, with ``async``."""
        transports = self._transports
        return drive_async.answer(self, transports.for_async(), transports.health, self.pace)

    def reply(self, last_events: list[Event]) -> Reply:
        """The reply that ends with these events."""
        usage, finish = ending(last_events)
        return Reply(self.turn, usage, finish, self.notes, self.provider, self.exchange.rendered)


def ending(events: list[Event]) -> tuple[Usage, Finish]:
    """The usage and the finish reason among the last events of a reply."""
    usage, finish = Usage(), Finish("other")
    for event in events:
        if type(event) is Usage:
            usage = event
        elif type(event) is Finish:
            finish = event
    return usage, finish


# The reply while it arrives.


class _Course:
    """The provider of a chain that has the request now, and the reply once it is complete."""

    def __init__(
        self, chain: Sequence[Inquirer], request: ModelRequest, *, observed: bool = True
    ) -> None:
        self._waiting = list(chain)
        self._request = request
        self._observed = observed
        self._call: ModelCall | None = None
        self._reply: Reply | None = None
        self._notes: list[Note] = []
        self.on_retry: RetryCallback = _ignore_retry
        #: Seconds between two reads of a reply that is read with ``async``; ``float()`` is 0.
        self.pace: Callable[[], float] = float
        self._take()

    @property
    def reply(self) -> Reply:
        """The whole reply.

        Raises:
            UsageError: The reply is not complete yet.
        """
        if self._reply is None:
            raise UsageError("The reply is not complete: read the stream to its end first")
        return self._reply

    @property
    def counted(self) -> Usage:
        """The usage that the provider has reported so far; the reply may end before it is complete."""
        asked = self._asked
        return asked.exchange.usage if isinstance(asked, RemoteInquiry) else Usage()

    def _take(self) -> None:
        self._asked = self._waiting.pop(0).inquire(self._request)

    def _begin(self) -> None:
        """Start the current inquiry: pass on the callbacks and begin its telemetry."""
        if isinstance(self._asked, RemoteInquiry):
            self._asked.on_retry, self._asked.pace = self.on_retry, self.pace
        if not self._observed:
            return
        asked = self._asked
        request = asked.request if isinstance(asked, RemoteInquiry) else self._request
        self._call = begin_call(asked.provider, asked.model, request)
        if isinstance(asked, RemoteInquiry):
            asked.call = self._call

    def _receive(self, events: list[Event]) -> None:
        if self._call is not None:
            self._call.received()
        if type(events[-1]) is Finish:
            self._finish(events)

    def _finish(self, events: list[Event]) -> None:
        reply = self._asked.reply(events)
        self._reply = replace(reply, notes=(*reply.notes, *self._notes)) if self._notes else reply
        if self._call is not None:
            self._call.answered(self._reply)

    def _end(self) -> None:
        """End the telemetry of the inquiry; an unanswered one counts as interrupted, because its reader has left."""
        if self._call is not None:
            self._call.end(error="interrupted")

    def _hand_over(self, failure: ProviderError) -> None:
        """Continue with the next provider; raise the failure if there is none, or if events were emitted already."""
        if self._call is not None:
            self._call.failed(failure)
        if not self._waiting or not hands_over(failure, streamed=self._asked.streamed):
            raise failure
        why = f"asked the next provider after {type(failure).__name__} of {self._asked.provider}"
        self._notes.append(Note("", None, why))
        self._take()


class ReplyStream(_Course):
    """The events of a reply."""

    def __init__(
        self, chain: Sequence[Inquirer], request: ModelRequest, *, observed: bool = True
    ) -> None:
        super().__init__(chain, request, observed=observed)
        self._stop = Stop()
        self._events = self._run()

    def __iter__(self) -> Generator[Event]:
        return self._events

    def __next__(self) -> Event:
        return next(self._events)

    def __enter__(self) -> "ReplyStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop reading and close the socket; only for the thread that reads."""
        self._events.close()

    def stop(self) -> None:
        """End the reply, from any thread; its reader gets ``StreamBroken`` with the partial reply."""
        self._stop.stop()

    def _run(self) -> Generator[Event]:
        while True:
            self._begin()
            try:
                with closing(self._asked.ask(self._stop)) as batches:
                    for events in batches:
                        self._receive(events)
                        yield from events
                    return
            except ProviderError as failure:
                if self._stop.stopped:
                    raise
                self._hand_over(failure)
            finally:
                self._end()


class AsyncReplyStream(_Course):
    """The events of a reply, with ``async``."""

    def __init__(
        self, chain: Sequence[Inquirer], request: ModelRequest, *, observed: bool = True
    ) -> None:
        super().__init__(chain, request, observed=observed)
        self._events = self._run()

    def __aiter__(self) -> AsyncGenerator[Event]:
        return self._events

    def __anext__(self) -> Awaitable[Event]:
        return self._events.__anext__()

    async def __aenter__(self) -> "AsyncReplyStream":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop reading and close the socket."""
        await self._events.aclose()

    async def read(self) -> Reply:
        """Read to the end; return the whole reply."""
        async with self, aclosing(self.batches()) as batches:
            async for _ in batches:
                pass
        return self.reply

    async def batches(self) -> AsyncGenerator[list[Event]]:
        """The events in lists, as they arrive; an alternative to iterating over the stream itself."""
        while True:
            self._begin()
            try:
                async with aclosing(self._asked.ask_async()) as batches:
                    async for events in batches:
                        self._receive(events)
                        yield events
                    return
            except ProviderError as failure:
                self._hand_over(failure)
            finally:
                self._end()

    async def _run(self) -> AsyncGenerator[Event]:
        async with aclosing(self.batches()) as batches:
            async for events in batches:
                for event in events:
                    yield event


# The reply as plain JSON.


def plain_chunks(stream: ReplyStream) -> Generator[JsonObject]:
    """The text and the calls of a reply: ``{"type": "text", …}``, ``{"type": "tool_call", …}``."""
    with stream:
        for event in stream:
            chunk = _plain_chunk(event)
            if chunk is not None:
                yield chunk


async def plain_chunks_async(stream: AsyncReplyStream) -> AsyncGenerator[JsonObject]:
    """Like ``plain_chunks``, with ``async for``."""
    async with stream:
        async for event in stream:
            chunk = _plain_chunk(event)
            if chunk is not None:
                yield chunk


def _plain_chunk(event: Event) -> JsonObject | None:
    if isinstance(event, TextDelta):
        return {"type": "text", "content": event.text}
    if isinstance(event, ToolCallEnd):
        return {"type": "tool_call", "content": write_call(event.call)}
    return None


def extract_text(chunk: object) -> str:
    """The text in a chunk of ``call_api``, or in a stream chunk of the provider's own library; empty if there is none."""
    if isinstance(chunk, str):
        return chunk
    if _field(chunk, "type") == "text":
        return as_text(_field(chunk, "content")) or as_text(_field(chunk, "text"))
    found = (place(chunk) for place in (_chat_text, _delta_text, _gemini_text))
    return next(filter(None, found), "") or as_text(_field(chunk, "text"))


# A mock of a chunk has every field, so only strings count as text.


def _chat_text(chunk: object) -> str:
    first = _first(_field(chunk, "choices"))
    return as_text(_field(_field(first, "delta") or _field(first, "message"), "content"))


def _delta_text(chunk: object) -> str:
    """The text of Anthropic and OpenAI Responses deltas, but not the arguments of a call, which are deltas too."""
    delta = _field(chunk, "delta")
    if isinstance(delta, str):
        return delta if _field(chunk, "type") in _TEXT_DELTAS else ""
    return as_text(_field(delta, "text"))


_TEXT_DELTAS: Final = ("response.output_text.delta", "response.refusal.delta")


def _gemini_text(chunk: object) -> str:
    parts = as_list(_field(chunk, "parts"))
    if parts is None:
        parts = as_list(_field(_field(_first(_field(chunk, "candidates")), "content"), "parts"))
    spoken = (part for part in parts or [] if _field(part, "thought") is not True)
    return "".join(as_text(_field(part, "text")) for part in spoken)


def _first(items: Any) -> object:
    try:
        return items[0]
    except (TypeError, LookupError):
        return None


def _field(value: object, name: str) -> object:
    if isinstance(value, Mapping):
        return cast("Mapping[str, object]", value).get(name)
    return getattr(value, name, None)
