"""The shape of the events of a Responses stream, as far as it matters.

Rules:
1. One type fits every event: an event leaves out what it does not have.
2. Everything is optional: gateways leave things out.
"""

from typing import Any

from msgspec import Struct

from multi_llm_chat.events import Usage
from multi_llm_chat.protocol.lenient_json import LenientDecoder


class Content(Struct, gc=False):
    """One piece of a message, or of a reasoning item."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None


class Item(Struct, gc=False):
    """One output item."""

    type: str = ""
    status: str | None = None
    content: list[Content] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: Any = None
    summary: list[Any] | None = None
    encrypted_content: str | None = None
    result: str | None = None
    output_format: str | None = None


class InputDetails(Struct, gc=False):
    """Where input tokens came from."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class OutputDetails(Struct, gc=False):
    """What output tokens were spent on."""

    reasoning_tokens: int | None = None


class ResponseUsage(Struct, gc=False):
    """Tokens as counted by the server."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: InputDetails | None = None
    output_tokens_details: OutputDetails | None = None

    def as_usage(self) -> Usage:
        """Translate."""
        before = self.input_tokens_details or InputDetails()
        spent = self.output_tokens_details or OutputDetails()
        return Usage(
            input_tokens=self.input_tokens or 0,
            output_tokens=self.output_tokens or 0,
            cache_read_tokens=before.cached_tokens or 0,
            cache_write_tokens=before.cache_write_tokens or 0,
            thinking_tokens=spent.reasoning_tokens or 0,
        )


class IncompleteDetails(Struct, gc=False):
    """Why a response is not whole."""

    reason: str | None = None


class Response(Struct, gc=False):
    """The whole response: the end of a stream, or a reply that was not streamed."""

    status: str | None = None
    output: list[Item] | None = None
    usage: ResponseUsage | None = None
    error: Any = None
    incomplete_details: IncompleteDetails | None = None


class Frame(Struct, gc=False):
    """One event of the stream."""

    type: str = ""
    output_index: int = 0
    content_index: int = 0
    summary_index: int = 0
    delta: str | None = None
    arguments: Any = None
    item: Item | None = None
    response: Response | None = None
    error: Any = None
    code: Any = None
    message: str | None = None


FRAMES = LenientDecoder(Frame)
RESPONSES = LenientDecoder(Response)
