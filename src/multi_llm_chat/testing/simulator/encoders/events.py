"""Server-sent events before they are bytes, and what an encoder must know of its request.

Rules:
1. An event's data is a JSON value until the last moment: quirks change values, never text.
2. Ids are derived from the request's number and their place in the reply, so that a test run
   twice sees the same bytes.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.testing.simulator.says import Say

#: The moment at which every reply was created.
CREATED = 1794700000

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
HEXADECIMAL = "0123456789abcdef"
DIGITS = "0123456789"


class StreamEvent(Struct, frozen=True):
    """One server-sent event; ``data`` given as a string is sent as it is.

    A ``comment`` has no data: it is the line itself.
    """

    data: JsonObject | str = ""
    name: str | None = None
    comment: str | None = None


class Request(Struct, frozen=True):
    """What an encoder knows of the request it answers."""

    provider: str
    model: str
    body: JsonObject
    number: int = 0
    size: int = 0

    def identifier(self, place: str, length: int, alphabet: str = BASE62) -> str:
        """An id that looks random and never changes."""
        digest = hashlib.sha512(f"{self.number}/{self.provider}/{place}".encode()).digest()
        return "".join(alphabet[byte % len(alphabet)] for byte in digest[:length])


class Style(Struct, frozen=True):
    """How a provider writes its JSON and its events."""

    separators: tuple[str, str] = (",", ":")
    newline: str = "\n"
    whole_indent: int | None = None

    def frame(self, event: StreamEvent) -> bytes:
        """The bytes of one event."""
        newline = self.newline
        if event.comment is not None:
            return f"{event.comment}{newline}{newline}".encode()
        name = f"event: {event.name}{newline}" if event.name else ""
        return f"{name}data: {self.text(event.data)}{newline}{newline}".encode()

    def text(self, data: Any) -> str:
        """A value as JSON text; text as it is."""
        if isinstance(data, str):
            return data
        return json.dumps(data, ensure_ascii=False, separators=self.separators)

    def whole(self, body: Any) -> bytes:
        """The bytes of a reply that is not streamed."""
        if self.whole_indent is None:
            return self.text(body).encode()
        return (json.dumps(body, ensure_ascii=False, indent=self.whole_indent) + "\n").encode()


class Encoder(Struct, frozen=True):
    """How one dialect says a ``Say``."""

    stream: Callable[[Say, Request], Sequence[StreamEvent]]
    whole: Callable[[Say, Request], JsonObject]
    style: Style
