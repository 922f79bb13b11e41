"""What was asked of the simulator.

Rules:
1. Requests stand in the order in which they were complete.
2. A record keeps headers and body as they came; its repr shows no header, no query and no key.
3. ``answered`` and ``disconnected`` exclude each other: whichever happens first ends the request.
   A reply that the script itself cuts is answered; one that the simulator's end cuts is not.
"""

import threading
from collections.abc import Iterator
from typing import overload

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.testing.simulator.plan import PATIENCE, Signal
from multi_llm_chat.testing.simulator.received_conversation import (
    ReceivedConversation,
    read_conversation,
)
from multi_llm_chat.testing.simulator.routes import Route
from multi_llm_chat.testing.validators import Violation


class RecordedRequest:
    """One request, and what became of it.

    Attributes:
        number: Its place among all requests, from 0.
        method: The HTTP method.
        path: The path without the query.
        query: The query's parameters.
        headers: The headers as sent, by lower-case name.
        content: The body as it came.
        body: The body as a JSON object; empty where it is none.
        violations: What the judges found, silent ones included.
        status: The status of the reply; 0 before there is one.
        frames_sent: How many frames of the reply's body were sent.
        answered: Given when the whole reply was sent.
        disconnected: Given when the client went away before that.
        ended: Given in both cases.
    """

    def __init__(
        self,
        *,
        number: int,
        method: str,
        path: str,
        query: dict[str, str],
        headers: dict[str, str],
        content: bytes,
        body: JsonObject,
        route: Route,
    ) -> None:
        self.number = number
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.content = content
        self.body = body
        self.route = route
        self.violations: tuple[Violation, ...] = ()
        self.status = 0
        self.frames_sent = 0
        self.answered = Signal()
        self.disconnected = Signal()
        self.ended = Signal()

    @property
    def provider(self) -> str:
        """The provider that was asked."""
        return self.route.provider

    @property
    def model(self) -> str:
        """The model that was asked for."""
        model = self.route.model or self.body.get("model")
        return model if isinstance(model, str) else ""

    @property
    def streamed(self) -> bool:
        """Whether a stream was asked for."""
        return self.route.streamed or self.body.get("stream") is True

    @property
    def conversation(self) -> ReceivedConversation:
        """What the request says, whatever its dialect."""
        return read_conversation(self.route.dialect, self.body)

    @property
    def was_disconnected(self) -> bool:
        """Whether the client went away before the reply was complete."""
        return self.disconnected.given

    def finish(self, *, complete: bool) -> None:
        """End the request, once."""
        if self.ended.given:
            return
        (self.answered if complete else self.disconnected).give()
        self.ended.give()

    def __repr__(self) -> str:
        return (
            f"RecordedRequest({self.number}, {self.method} {self.path}, {self.provider}, "
            f"{self.model}, status {self.status}, {len(self.violations)} violations)"
        )


class RequestLog:
    """All requests so far; safe to read from any thread."""

    def __init__(self) -> None:
        self._requests: list[RecordedRequest] = []
        self._changed = threading.Condition()

    def add(self, request: RecordedRequest) -> None:
        """Record a request."""
        with self._changed:
            self._requests.append(request)
            self._changed.notify_all()

    def wait_for(self, count: int, timeout: float = PATIENCE) -> list[RecordedRequest]:
        """Block until there are so many requests, and return them all.

        Raises:
            TimeoutError: There are fewer.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._requests) >= count, timeout):
                raise TimeoutError(f"{len(self._requests)} of {count} requests within {timeout} s")
            return list(self._requests)

    def clear(self) -> None:
        """Forget all requests."""
        with self._changed:
            self._requests.clear()

    def __len__(self) -> int:
        with self._changed:
            return len(self._requests)

    def __iter__(self) -> Iterator[RecordedRequest]:
        with self._changed:
            return iter(list(self._requests))

    @overload
    def __getitem__(self, index: int) -> RecordedRequest: ...
    @overload
    def __getitem__(self, index: slice) -> list[RecordedRequest]: ...
    def __getitem__(self, index: int | slice) -> RecordedRequest | list[RecordedRequest]:
        with self._changed:
            return self._requests[index]
