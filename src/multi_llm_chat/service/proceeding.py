"""What happens in a conversation, as one value for both ways of reading it."""

from collections.abc import AsyncGenerator, Callable, Generator

from multi_llm_chat.service.events import ChatEvent


class Proceeding:
    """What happens in a conversation, told while it happens; it happens when it is read."""

    def __init__(
        self,
        events: Callable[[], Generator[ChatEvent]],
        events_async: Callable[[], AsyncGenerator[ChatEvent]],
    ) -> None:
        self._events = events
        self._events_async = events_async

    def __iter__(self) -> Generator[ChatEvent]:
        return self._events()

    def __aiter__(self) -> AsyncGenerator[ChatEvent]:
        return self._events_async()
