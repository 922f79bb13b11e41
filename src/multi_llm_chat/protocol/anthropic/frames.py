"""The shape of the events of a Messages stream, as far as it matters.

Rules:
1. One type fits every event: an event leaves out what it does not have.
2. Everything is optional: proxies leave things out.
"""

from typing import Any

from msgspec import Struct

from multi_llm_chat.events import Usage
from multi_llm_chat.protocol.lenient_json import LenientDecoder


class FrameDelta(Struct, gc=False):
    """What an event adds to a block, or to the message."""

    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    stop_reason: str | None = None


class Block(Struct, gc=False):
    """The head of a content block; in a whole reply, all of it."""

    type: str = ""
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None


class OutputDetails(Struct, gc=False):
    """What output tokens were spent on."""

    thinking_tokens: int | None = None


class MessageUsage(Struct, gc=False):
    """Tokens as counted by the server; later reports replace earlier ones, number by number."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens_details: OutputDetails | None = None

    def updated(self, newer: "MessageUsage") -> "MessageUsage":
        """Give the numbers after a newer report."""
        return MessageUsage(
            *(
                old if new is None else new
                for old, new in zip(self._numbers(), newer._numbers(), strict=True)
            )
        )

    def _numbers(self) -> tuple[Any, ...]:
        return (
            self.input_tokens,
            self.output_tokens,
            self.cache_creation_input_tokens,
            self.cache_read_input_tokens,
            self.output_tokens_details,
        )

    def as_usage(self) -> Usage:
        """Translate: the provider counts cached tokens beside the input, we count them in it."""
        written = self.cache_creation_input_tokens or 0
        read = self.cache_read_input_tokens or 0
        details = self.output_tokens_details or OutputDetails()
        return Usage(
            input_tokens=(self.input_tokens or 0) + written + read,
            output_tokens=self.output_tokens or 0,
            cache_read_tokens=read,
            cache_write_tokens=written,
            thinking_tokens=details.thinking_tokens or 0,
        )


class Message(Struct, gc=False):
    """The head of a message; in a whole reply, all of it."""

    usage: MessageUsage | None = None


class Frame(Struct, gc=False):
    """One event of the stream, or a whole reply."""

    type: str = ""
    index: int = 0
    delta: FrameDelta | None = None
    content_block: Block | None = None
    message: Message | None = None
    usage: MessageUsage | None = None
    error: Any = None
    content: list[Block] | None = None
    stop_reason: str | None = None


FRAMES = LenientDecoder(Frame)
