"""Replies of providers that answer with their own Python code instead of one of our dialects.

Rules:
1. The code is a generator of chunks, plain or ``async``: the earlier systems' ``call_api``, or a plug-in's ``ask``.
2. A chunk is an event, a string, or a part of a history such as ``{"type": "text", "content": …}`` or
   ``{"type": "tool_call", "content": …}``. A chunk of another form is kept as a native part.
3. A plain generator runs in a thread of its own when its reader has an event loop; an ``async`` one runs in the
   background loop when its reader has none. It runs at most a few chunks ahead of its reader.
4. When the reader stops reading, the generator is closed: immediately if it is ``async``, at its next chunk if it is plain.
5. An exception of the code becomes a ``ProviderError`` with the turn so far as ``partial``; errors of this package pass unchanged.
6. A call without an id gets one from its position. A reply without ``Finish`` gets one at its end.
7. A reply has at most 64 MB of text and 50,000 other chunks.
"""

import asyncio
import contextlib
import inspect
import threading
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from multi_llm_chat.agent.reply import Reply
from multi_llm_chat.errors import MultiLLMChatError, ProviderError, StreamBroken
from multi_llm_chat.events import (
    Event,
    Finish,
    NativeItem,
    ResponseEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from multi_llm_chat.history.json_values import compact_json
from multi_llm_chat.history.reader import read_turn
from multi_llm_chat.history.values import JsonObject, Native, Part, Text, Thinking, ToolCall, Turn
from multi_llm_chat.history.writer import write_history
from multi_llm_chat.http.sync_driver import Stop
from multi_llm_chat.protocol.exchange import hide
from multi_llm_chat.repair.policy import Note
from multi_llm_chat.request import ModelRequest, Options
from multi_llm_chat.tools.background_loop import wait_for

#: The most characters of text in a reply, and the most chunks that are not text.
_MOST_TEXT: Final = 64_000_000
_MOST_CHUNKS: Final = 50_000
#: How many chunks a plain generator may run ahead of a reader with an event loop.
_AHEAD: Final = 16

_EVENTS: Final = ResponseEvent.__args__


class PluginReply:
    """One request that a provider answers with its own code: an ``Inquiry``.

    Args:
        provider: The provider's name.
        source: Starts the reply: returns the generator, or any iterable.
        turn: The turn that the reply becomes: its speaker and model.
        id_prefix: The prefix of ids for calls that come without one.
        notes: The parts of the request that the provider's code cannot receive.
        secrets: Texts that no error may contain.
    """

    def __init__(
        self,
        provider: str,
        source: Callable[[], object],
        turn: Turn,
        *,
        id_prefix: str,
        notes: tuple[Note, ...] = (),
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        self.provider = provider
        self.model = turn.model or ""
        self.streamed = False
        self._source = source
        self._turn = turn
        self._notes = notes
        self._secrets = secrets or {}
        self._assembly = _Assembly(id_prefix)

    def ask(self, stop: Stop) -> Generator[list[Event]]:
        """Run the code and yield its events; ``stop`` ends the reply at its next chunk, from another thread."""
        chunks = self._begin()
        if isinstance(chunks, AsyncIterator):
            chunks = _awaited(chunks)
        try:
            for chunk in self._guarded(chunks):
                if stop.stopped:
                    partial = self._partial()
                    raise StreamBroken(
                        "The reply was stopped.", provider=self.provider, partial=partial
                    )
                yield from self._receive(chunk)
                if self._assembly.finish is not None:
                    break
        finally:
            _close(chunks)
        yield self._end()

    async def ask_async(self) -> AsyncGenerator[list[Event]]:
        """Like ``ask``, with ``async``."""
        chunks = self._begin()
        if not isinstance(chunks, AsyncIterator):
            chunks = _in_thread(chunks, f"{self.provider} reply")
        try:
            async for chunk in self._guarded_async(chunks):
                for events in self._receive(chunk):
                    yield events
                if self._assembly.finish is not None:
                    break
        finally:
            await _aclose(chunks)
        yield self._end()

    def reply(self, last_events: list[Event]) -> Reply:
        """The complete reply."""
        del last_events  # the assembly has collected them
        assembly = self._assembly
        finish = assembly.finish or Finish("other")
        return Reply(self._partial(), assembly.usage, finish, self._notes, self.provider)

    def _begin(self) -> Iterator[object] | AsyncIterator[object]:
        try:
            source = self._source()
            if hasattr(source, "__aiter__"):
                return aiter(cast("AsyncIterator[object]", source))
            if isinstance(source, str):
                return iter([source])
            return iter(cast("Iterable[object]", source))
        except Exception as error:
            raise self._failure(error) from error

    def _guarded(self, chunks: Iterator[object]) -> Iterator[object]:
        try:
            yield from chunks
        except Exception as error:
            raise self._failure(error) from error

    async def _guarded_async(self, chunks: AsyncIterator[object]) -> AsyncIterator[object]:
        try:
            async for chunk in chunks:
                yield chunk
        except Exception as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> MultiLLMChatError:
        if isinstance(error, MultiLLMChatError):
            return error
        failure = ProviderError(
            f"The code of the provider {self.provider!r} failed: {type(error).__name__}: {error}",
            provider=self.provider,
            partial=self._partial() if self.streamed else None,
        )
        hide(failure, self._secrets.values())
        return failure

    def _receive(self, chunk: object) -> Iterator[list[Event]]:
        events = self._assembly.add(chunk)
        if events:
            self.streamed = True
            yield events

    def _end(self) -> list[Event]:
        self.streamed = True
        return self._assembly.end()

    def _partial(self) -> Turn:
        return replace(self._turn, parts=self._assembly.parts())


class _Assembly:
    """The parts of a reply while its chunks arrive."""

    def __init__(self, id_prefix: str) -> None:
        self.usage = Usage()
        self.finish: Finish | None = None
        self._prefix = id_prefix
        self._parts: list[Part | TextDelta | ThinkingDelta] = []
        self._calls = 0
        self._length = 0
        self._others = 0

    def add(self, chunk: object) -> list[Event]:
        """Add a chunk; return its events. ``end`` returns ``Usage`` and ``Finish``."""
        events: list[Event] = []
        for event in [chunk] if isinstance(chunk, _EVENTS) else self._read(chunk):
            self._count(event)
            match event:
                case Usage():
                    self.usage = event
                    continue
                case Finish():
                    self.finish = event
                    break
                case TextDelta() | ThinkingDelta():
                    if not event.text:
                        continue
                    self._parts.append(event)
                case ToolCallEnd():
                    self._parts.append(event.call)
                case NativeItem():
                    self._parts.append(event.item)
                case _:
                    pass
            events.append(cast("Event", event))
        return events

    def end(self) -> list[Event]:
        """The last events of the reply."""
        calls = any(isinstance(part, ToolCall) for part in self._parts)
        self.finish = self.finish or Finish("tool_calls" if calls else "stop")
        return [self.usage, self.finish]

    def parts(self) -> tuple[Part, ...]:
        """The parts so far; successive deltas are joined to one part."""
        parts: list[Part] = []
        joined: list[str] = []
        kind: type[TextDelta] | type[ThinkingDelta] = TextDelta

        def close() -> None:
            if joined:
                words = "".join(joined)
                parts.append(Text(words) if kind is TextDelta else Thinking(words))
                joined.clear()

        for part in self._parts:
            if not isinstance(part, (TextDelta, ThinkingDelta)):
                close()
                parts.append(part)
                continue
            if type(part) is not kind:
                close()
                kind = type(part)
            joined.append(part.text)
        close()
        return tuple(parts)

    def _read(self, chunk: object) -> list[Any]:
        """The events of a chunk that is not an event itself."""
        if isinstance(chunk, str):
            return [TextDelta(chunk)]
        events: list[Any] = []
        for part in read_turn({"role": "assistant", "content": [chunk]}, None).parts:
            match part:
                case Text():
                    events.append(TextDelta(part.content))
                case Thinking() if not part.opaque:
                    events.append(ThinkingDelta(part.content))
                case ToolCall():
                    events += self._call_events(part)
                case Native():
                    events.append(NativeItem(part))
                case _:  # a picture, or thinking that its provider signed: it has no event
                    self._parts.append(part)
        return events

    def _call_events(self, call: ToolCall) -> list[Event]:
        index = self._calls
        self._calls += 1
        identifier = call.tool_call_id or f"{self._prefix}_{index}"
        whole = replace(call, tool_call_id=identifier)
        text = compact_json(call.arguments) if call.raw_arguments is None else call.raw_arguments
        return [
            ToolCallStart(index, identifier, call.name),
            ToolCallDelta(index, text),
            ToolCallEnd(index, whole),
        ]

    def _count(self, event: object) -> None:
        if isinstance(event, (TextDelta, ThinkingDelta)):
            self._length += len(event.text)
        else:
            self._others += 1
        if self._length > _MOST_TEXT or self._others > _MOST_CHUNKS:
            raise ProviderError("The reply is longer than a reply may be; the rest was not read.")


# Between generators with and without ``async``.


def _awaited(chunks: AsyncIterator[object]) -> Iterator[object]:
    """The chunks of an ``async`` generator, for a reader without an event loop."""
    end = object()

    async def following() -> object:
        return await anext(chunks, end)

    async def close() -> None:
        await _aclose(chunks)

    try:
        while (chunk := wait_for(following())) is not end:
            yield chunk
    finally:
        wait_for(close())


async def _in_thread(chunks: Iterator[object], name: str) -> AsyncIterator[object]:
    """The chunks of a plain generator, which runs in a thread of its own."""
    worker = _Worker(chunks)
    threading.Thread(target=worker.work, name=name, daemon=True).start()
    try:
        while not (received := await worker.receive()).is_last:
            yield received.chunk
        if received.error is not None:
            raise received.error
    finally:
        worker.leave()


class _Received(Struct, frozen=True):
    """A chunk, or the end of the generator and what it raised."""

    chunk: object = None
    error: Exception | None = None
    is_last: bool = False


class _Worker:
    """Runs a plain generator in a thread; the event loop calls ``receive`` and ``leave``."""

    def __init__(self, chunks: Iterator[object]) -> None:
        self._chunks = chunks
        self._loop = asyncio.get_running_loop()
        self._received: asyncio.Queue[_Received] = asyncio.Queue()
        self._room = threading.Semaphore(_AHEAD)
        self._left = threading.Event()

    def work(self) -> None:
        """Run the generator to its end, or until ``leave`` was called."""
        error: Exception | None = None
        try:
            for chunk in self._chunks:
                self._put(_Received(chunk))
                self._room.acquire()
                if self._left.is_set():
                    break
        except BaseException as raised:  # noqa: BLE001 - raised again where it is waited for
            error = raised if isinstance(raised, Exception) else RuntimeError(repr(raised))
        finally:
            _close(self._chunks)
            self._put(_Received(error=error, is_last=True))

    async def receive(self) -> _Received:
        """The next chunk."""
        received = await self._received.get()
        self._room.release()
        return received

    def leave(self) -> None:
        """Let the generator end at its next chunk."""
        self._left.set()
        self._room.release()

    def _put(self, received: _Received) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._received.put_nowait, received)


def _close(chunks: object) -> None:
    close = getattr(chunks, "close", None)
    if callable(close):
        # The reply is over: an error while closing does not matter.
        with contextlib.suppress(Exception):
            close()


async def _aclose(chunks: object) -> None:
    close = getattr(chunks, "aclose", None)
    if callable(close):
        # The reply is over: an error while closing does not matter.
        with contextlib.suppress(Exception):
            await cast("Any", close())


# The arguments of a provider's own code.


def call_arguments(
    code: Callable[..., object], request: ModelRequest
) -> tuple[dict[str, Any], tuple[Note, ...]]:
    """The arguments of a ``call_api`` besides the history, by its parameters; a note for each setting without a parameter."""
    tools = [
        {"name": tool.name, "description": tool.description, "inputSchema": tool.schema}
        for tool in request.tools
    ]
    wanted: dict[str, Any] = {"system_prompt": request.system_prompt, "tools": tools or None}
    if request.options != Options():
        wanted["options"] = request.options
    try:
        parameters = inspect.signature(code).parameters.values()
    except (TypeError, ValueError):  # a function without a signature, such as one written in C
        return wanted, ()
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return wanted, ()
    names = {each.name for each in parameters}
    notes = [
        Note("", None, f"did not send {name}: the provider's own code takes none")
        for name, value in wanted.items()
        if value is not None and name not in names
    ]
    return {name: value for name, value in wanted.items() if name in names}, tuple(notes)


def own_messages(
    provider: str, code: Callable[..., Any], request: ModelRequest
) -> tuple[JsonObject, ...]:
    """The messages that a provider's own ``format_history`` makes of a request's history."""
    try:
        return tuple(code(write_history(request.turns)))
    except MultiLLMChatError:
        raise
    except Exception as error:
        raise ProviderError(
            f"The code of the provider {provider!r} failed: {type(error).__name__}: {error}",
            provider=provider,
        ) from error
