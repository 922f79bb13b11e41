"""Ask a provider with and without ``async``, so that one test covers both."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NamedTuple, Protocol, TypeVar

from multi_llm_chat.agent.providers import LLMProvider, ModelInfo, Reply
from multi_llm_chat.errors import MultiLLMChatError
from multi_llm_chat.events import Event
from multi_llm_chat.history.values import JsonObject

T = TypeVar("T")

HISTORY = [{"role": "user", "content": "Hello?"}]


class Outcome(NamedTuple):
    """The outcome of a request."""

    events: list[Event]
    reply: Reply | None
    failure: MultiLLMChatError | None


class Asker(Protocol):
    """One way of asking; it closes the connections it used."""

    def stream(
        self, provider: LLMProvider, history: Iterable[Any] = HISTORY, **settings: Any
    ) -> Outcome: ...

    def complete(
        self, provider: LLMProvider, history: Iterable[Any] = HISTORY, **settings: Any
    ) -> Outcome: ...

    def call_api(
        self, provider: LLMProvider, history: Iterable[Any] = HISTORY, **settings: Any
    ) -> list[JsonObject]: ...

    def list_models(self, provider: LLMProvider) -> list[ModelInfo]: ...


class SyncAsker:
    def stream(
        self, provider: LLMProvider, history: Iterable[Any] = HISTORY, **settings: Any
    ) -> Outcome:
        events: list[Event] = []
        with provider:
            try:
                with provider.stream(history, **settings) as stream:
                    events.extend(stream)
                    return Outcome(events, stream.reply, None)
            except MultiLLMChatError as failure:
                return Outcome(events, None, failure)

    def complete(
        self, provider: LLMProvider, history: Iterable[Any] = HISTORY, **settings: Any
    ) -> Outcome:
        with provider:
            try:
                return Outcome([], provider.complete(history, **settings), None)
            except MultiLLMChatError as failure:
                return Outcome([], None, failure)

    def call_api(
        self, provider: LLMProvider, history: Iterable[Any] = HISTORY, **settings: Any
    ) -> list[JsonObject]:
        with provider:
            return list(provider.call_api(history, **settings))

    def list_models(self, provider: LLMProvider) -> list[ModelInfo]:
        with provider:
            return provider.list_models()


class AsyncAsker:
    """Asks in a new event loop: asyncio's own, or that of ``loop_factory``."""

    def __init__(self, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
        self._loop_factory = loop_factory

    def _run(self, main: Coroutine[Any, Any, T]) -> T:
        with asyncio.Runner(loop_factory=self._loop_factory) as runner:
            return runner.run(main)

    def stream(
        self, provider: LLMProvider, history: Iterable[Any] = HISTORY, **settings: Any
    ) -> Outcome:
        return self._run(self._stream(provider, history, settings))

    async def _stream(
        self, provider: LLMProvider, history: Iterable[Any], settings: dict[str, Any]
    ) -> Outcome:
        events: list[Event] = []
        async with provider:
            try:
                async with provider.astream(history, **settings) as stream:
                    async for event in stream:
                        events.append(event)  # noqa: PERF401  what came before a failure counts
                    return Outcome(events, stream.reply, None)
            except MultiLLMChatError as failure:
                return Outcome(events, None, failure)

    def complete(
        self, provider: LLMProvider, history: Iterable[Any] = HISTORY, **settings: Any
    ) -> Outcome:
        async def run() -> Outcome:
            async with provider:
                try:
                    return Outcome([], await provider.acomplete(history, **settings), None)
                except MultiLLMChatError as failure:
                    return Outcome([], None, failure)

        return self._run(run())

    def call_api(
        self, provider: LLMProvider, history: Iterable[Any] = HISTORY, **settings: Any
    ) -> list[JsonObject]:
        async def run() -> list[JsonObject]:
            async with provider:
                return [chunk async for chunk in provider.acall_api(history, **settings)]

        return self._run(run())

    def list_models(self, provider: LLMProvider) -> list[ModelInfo]:
        async def run() -> list[ModelInfo]:
            async with provider:
                return await provider.alist_models()

        return self._run(run())


ASKERS: dict[str, Asker] = {"sync": SyncAsker(), "async": AsyncAsker()}


def failure_facts(failure: MultiLLMChatError | None) -> Any:
    """Return a failure as a value that can be compared."""
    if failure is None:
        return None
    names = ("status", "code", "retry_after", "repair", "partial", "provider")
    return type(failure), str(failure), {name: getattr(failure, name, None) for name in names}
