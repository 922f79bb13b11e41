"""One question, asked until it is answered or given up: the state between two requests.

Rules:
1. ``next`` gives the exchange to run; when it has failed, ``failed`` tells how long to wait before
   the next one, or raises the failure.
2. What was changed on the way is in ``notes``, behind those of the request itself.
3. Nothing here sends, waits or looks at a clock: both drivers run the same decisions.
"""

from collections.abc import Mapping
from typing import assert_never
from urllib.parse import urlsplit

from multi_llm_chat.errors import ConnectionFailed, ProviderError, StreamBroken
from multi_llm_chat.events import Event
from multi_llm_chat.exchange.exchange import Exchange
from multi_llm_chat.exchange.question import Question
from multi_llm_chat.exchange.retrying import (
    Decision,
    GiveUp,
    RepairAndRetry,
    RetryPolicy,
    Wait,
    decide,
)
from multi_llm_chat.exchange.stronger import stronger
from multi_llm_chat.history.values import Turn
from multi_llm_chat.repair import Note
from multi_llm_chat.wire.rejections import find_rejection


class Attempts:
    """The requests that one question takes."""

    def __init__(
        self, question: Question, *, api_key: str | None = None, policy: RetryPolicy | None = None
    ) -> None:
        self.question = question
        self.exchange = question.exchange(api_key)
        self.streamed = False  # events of the present request were handed out
        self._policy = policy or RetryPolicy()
        self._key = api_key
        self._attempt = 1
        self._repaired = False
        self._unused = True
        self._notes: list[Note] = []

    def __repr__(self) -> str:
        return f"Attempts({self.exchange!r}, attempt {self._attempt})"

    @property
    def notes(self) -> tuple[Note, ...]:
        """What was changed in the request, and what was asked again."""
        return (*self.exchange.rendered.notes, *self._notes)

    @property
    def turn(self) -> Turn:
        """What the model has said, with the caller's tool names."""
        return self.question.original_turn(self.exchange.turn)

    def next(self) -> Exchange:
        """The exchange to run now."""
        if not self._unused:
            self.exchange = self.question.exchange(self._key)
        self._unused = self.streamed = False
        return self.exchange

    def read(self, events: list[Event]) -> list[Event]:
        """Events as the caller gets them."""
        self.streamed = True
        return self.question.original_events(events) if self.question.names else events

    def failed(self, failure: ProviderError, *, jitter: float) -> float:
        """Decide what follows a failure: the seconds to wait before the next request.

        Raises:
            ProviderError: This failure, when it is not asked again.
        """
        failure = self.question.original_failure(failure)
        failure.provider = failure.provider or self.exchange.rendered.provider
        decision: Decision = decide(
            self._attempt,
            failure,
            policy=self._policy,
            streamed=self.streamed,
            jitter=jitter,
            repaired=self._repaired,
        )
        match decision:
            case Wait(seconds):
                self._attempt += 1
                self._note("STR-09", f"asked again after {_kind(failure)}")
                return seconds
            case RepairAndRetry(key):
                self._repaired = True
                rejection = find_rejection(failure.message)
                self._note(rejection.rule if rejection else "", f"asked again with {key}")
                self.question = stronger(self.question, key)
                return 0.0
            case GiveUp(reason):
                failure.add_note(f"Not asked again: {reason}.")
                raise failure
            case _:
                assert_never(decision)

    def _note(self, rule: str, message: str) -> None:
        self._notes.append(Note(rule, None, message))


def begin(exchange: Exchange, status: int, headers: Mapping[str, str]) -> None:
    """Take the head of a reply.

    Raises:
        ProviderError: The server sends its callers elsewhere; a key is not carried along.
    """
    if 300 <= status < 400:
        place = urlsplit(headers.get("location", "")).netloc or "another address"
        raise ProviderError(
            f"The server sends its callers on to {place} ({status}). Set base_url to the address "
            "that answers itself.",
            provider=exchange.rendered.provider,
            status=status,
        )
    exchange.begin(status, headers)


def end(exchange: Exchange, loss: ConnectionFailed | None) -> list[Event]:
    """Close an exchange; one whose connection was lost may be complete all the same.

    Raises:
        ProviderError: What was wrong; ``StreamBroken`` has what was said until then.
    """
    try:
        return exchange.end()
    except StreamBroken as broken:
        if loss is not None:
            broken.code = loss.code
            broken.args = (f"{loss.message} {broken.message}",)
        raise


def _kind(failure: ProviderError) -> str:
    status = f" ({failure.status})" if failure.status else ""
    return f"{type(failure).__name__}{status}"
