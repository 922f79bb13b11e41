"""One provider answering one request.

Rules:
1. Making an inquiry checks the request, before any network; asking it is done once.
2. Events leave in lists; the last list ends with ``Finish``, and then the reply is known.
3. ``streamed`` says that events were handed out: from then on nobody else is asked.
"""

from collections.abc import AsyncGenerator, Generator
from typing import Protocol

from multi_llm_chat.agent.reply import Reply
from multi_llm_chat.events import Event, Finish, Usage
from multi_llm_chat.http import async_driver as drive_async
from multi_llm_chat.http import sync_driver as drive_sync
from multi_llm_chat.http.sync_driver import Stop
from multi_llm_chat.http.transports import Transports
from multi_llm_chat.protocol.attempts import Attempts
from multi_llm_chat.protocol.retry import RetryPolicy
from multi_llm_chat.request import ModelRequest


class Inquiry(Protocol):
    """A request that a provider answers, wherever the answer comes from."""

    @property
    def provider(self) -> str:
        """The provider's name."""
        ...

    @property
    def streamed(self) -> bool:
        """Whether events of the reply were handed out."""
        ...

    def ask(self, stop: Stop) -> Generator[list[Event]]:
        """Ask; ``stop`` ends the reply from another thread."""
        ...

    def ask_async(self) -> AsyncGenerator[list[Event]]:
        """Like ``ask``, with ``async``."""
        ...

    def reply(self, last_events: list[Event]) -> Reply:
        """The reply that ends with these events."""
        ...


class Inquirer(Protocol):
    """A provider that can be asked; a chain has several."""

    def inquire(self, request: ModelRequest) -> Inquiry:
        """Check the request, addressed to this provider; nothing is sent."""
        ...


class RemoteInquiry(Attempts):
    """Attempts over the network, through the transports of one provider."""

    def __init__(
        self,
        request: ModelRequest,
        transports: Transports,
        *,
        api_key: str | None,
        retry: RetryPolicy,
    ) -> None:
        super().__init__(request, api_key=api_key, retry=retry)
        self._transports = transports

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self.exchange.rendered.provider

    def ask(self, stop: Stop) -> Generator[list[Event]]:
        """Ask; ``stop`` ends the reply from another thread."""
        transports = self._transports
        return drive_sync.answer(self, transports.for_sync(), transports.health, stop)

    def ask_async(self) -> AsyncGenerator[list[Event]]:
        """Like ``ask``, with ``async``."""
        transports = self._transports
        return drive_async.answer(self, transports.for_async(), transports.health)

    def reply(self, last_events: list[Event]) -> Reply:
        """The reply that ends with these events."""
        usage, finish = ending(last_events)
        return Reply(self.turn, usage, finish, self.notes, self.provider)


def ending(events: list[Event]) -> tuple[Usage, Finish]:
    """What the last events of a reply say about it."""
    usage, finish = Usage(), Finish("other")
    for event in events:
        if isinstance(event, Usage):
            usage = event
        elif isinstance(event, Finish):
            finish = event
    return usage, finish
