"""One provider being asked one question.

Rules:
1. Making an inquiry checks the question, before any network; asking it is done once.
2. Events leave in lists; the last list ends with ``Finish``, and then the reply is known.
3. ``streamed`` tells that events were handed out: from then on nobody else is asked.
"""

from collections.abc import AsyncGenerator, Callable, Generator
from typing import Protocol, TypeAlias

from multi_llm_chat.client.reply import Reply
from multi_llm_chat.drive.sync import Stop
from multi_llm_chat.events import Event, Finish, Usage
from multi_llm_chat.exchange.attempts import Attempts


class Inquiry(Protocol):
    """Somebody who is asked, wherever the answer comes from."""

    @property
    def provider(self) -> str:
        """Who is asked."""
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
        """The reply that has come to an end with these events."""
        ...


#: How an inquiry is made once its turn has come.
Link: TypeAlias = Callable[[], Inquiry]


class RemoteInquiry:
    """A provider that is asked over the network."""

    def __init__(
        self,
        attempts: Attempts,
        answer: Callable[[Attempts, Stop], Generator[list[Event]]],
        answer_async: Callable[[Attempts], AsyncGenerator[list[Event]]],
    ) -> None:
        self._attempts = attempts
        self._answer = answer
        self._answer_async = answer_async

    @property
    def provider(self) -> str:
        """Who is asked."""
        return self._attempts.exchange.rendered.provider

    @property
    def streamed(self) -> bool:
        """Whether events of the reply were handed out."""
        return self._attempts.streamed

    def ask(self, stop: Stop) -> Generator[list[Event]]:
        """Ask; ``stop`` ends the reply from another thread."""
        return self._answer(self._attempts, stop)

    def ask_async(self) -> AsyncGenerator[list[Event]]:
        """Like ``ask``, with ``async``."""
        return self._answer_async(self._attempts)

    def reply(self, last_events: list[Event]) -> Reply:
        """The reply that has come to an end with these events."""
        usage, finish = ending(last_events)
        return Reply(self._attempts.turn, usage, finish, self._attempts.notes, self.provider)


def ending(events: list[Event]) -> tuple[Usage, Finish]:
    """What the last events of a reply say about it."""
    usage, finish = Usage(), Finish("other")
    for event in events:
        if isinstance(event, Usage):
            usage = event
        elif isinstance(event, Finish):
            finish = event
    return usage, finish
