"""Conversations with simulated speakers over real HTTP, read with and without ``async``."""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias, TypeVar

from multi_llm_chat.agent.providers import LLMProvider, create_provider
from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.config.settings import Settings
from multi_llm_chat.events import (
    Event,
    MessageFinished,
    MessageSaved,
    RunFailed,
    RunFinished,
    RunResumed,
    RunStarted,
    TurnFinished,
)
from multi_llm_chat.history.values import Text, Turn
from multi_llm_chat.protocol.retry import RetryPolicy
from multi_llm_chat.runs.event_stream import EventStream
from multi_llm_chat.testing.simulator import Say, Simulator

#: Reads an event stream to its end.
Read: TypeAlias = Callable[[EventStream], list[Event]]

T = TypeVar("T")

ONCE = RetryPolicy(attempts=1)

#: Events that mark the steps of a message.
STEPS = (
    MessageSaved,
    RunStarted,
    RunResumed,
    TurnFinished,
    RunFinished,
    RunFailed,
    MessageFinished,
)


def read_plainly(proceeding: EventStream) -> list[Event]:
    return list(proceeding)


class Loop:
    """One event loop for a whole conversation, as in a program: connections belong to their loop."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(work)

    def close(self) -> None:
        if self._runner is not None:
            self._runner.close()
            self._runner = None


LOOP = Loop()


def read_async(proceeding: EventStream) -> list[Event]:
    async def collect() -> list[Event]:
        return [event async for event in proceeding]

    return LOOP.run(collect())


class Stage:
    """A conversation, and the simulators behind its speakers."""

    def __init__(self, service: ChatService, simulators: dict[str, Simulator]) -> None:
        self.service = service
        self.simulators = simulators

    def body(self, speaker: str, number: int = -1) -> Any:
        """Return the body of a request that a speaker received."""
        return self.simulators[speaker].requests[number].body

    def words(self) -> list[tuple[str, str]]:
        return [(turn.role, words_of(turn)) for turn in self.service.turns]


@contextmanager
def stage(
    settings: Settings | None = None,
    *,
    store: Any = ":memory:",
    tools: Any = None,
    conversation: str | None = None,
    **scripts: Sequence[Any],
) -> Generator[Stage]:
    """Set up a conversation: each keyword names a speaker's provider and gives its scripted replies."""
    with ExitStack() as stack:
        simulators: dict[str, Simulator] = {}
        providers: dict[str, LLMProvider] = {}
        for name, script in scripts.items():
            replies = [Say(each) if isinstance(each, str) else each for each in script]
            simulators[name] = stack.enter_context(Simulator(replies))
            row = {"claude": "anthropic", "chatgpt": "openai"}.get(name, name)
            providers[name] = create_provider(
                row, api_key="key", base_url=simulators[name].base_url(row), retry=ONCE
            )
        service = ChatService(
            providers, store=store, tools=tools, settings=settings, conversation=conversation
        )
        stack.callback(LOOP.close)
        stack.callback(lambda: LOOP.run(service.aclose()))
        yield Stage(service, simulators)


def words_of(turn: Turn) -> str:
    return "".join(part.content for part in turn.parts if isinstance(part, Text))


def kinds(events: Sequence[Event]) -> list[str]:
    """Return the kinds of the events that mark steps, without those between them."""
    return [type(event).__name__ for event in events if isinstance(event, STEPS)]


def saved(events: Sequence[Event]) -> list[Turn]:
    return [event.turn for event in events if isinstance(event, TurnFinished)]
