"""The shape of a generateContent reply, as far as it matters; a stream is a row of them.

Rules:
1. Everything is optional: the protocol leaves out whatever is empty.
2. A streamed reply and a whole one have the same shape.
"""

from typing import Any

from msgspec import Struct

from multi_llm_chat.events import Usage
from multi_llm_chat.protocol.lenient_json import LenientDecoder


class FunctionCall(Struct, rename="camel", gc=False):
    """A call, or the part of it that has come."""

    name: str | None = None
    args: Any = None
    id: str | None = None


class Blob(Struct, rename="camel", gc=False):
    """Media in the reply itself."""

    mime_type: str = "application/octet-stream"
    data: str = ""


class FileData(Struct, rename="camel", gc=False):
    """Media elsewhere."""

    mime_type: str = "application/octet-stream"
    file_uri: str = ""


class ReplyPart(Struct, rename="camel", gc=False):
    """One part of the content."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: FunctionCall | None = None
    inline_data: Blob | None = None
    file_data: FileData | None = None


class Content(Struct, gc=False):
    """What a candidate says."""

    parts: list[ReplyPart] | None = None


class Candidate(Struct, rename="camel", gc=False):
    """One of the alternatives; only the first is ever asked for."""

    content: Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    index: int | None = None


class PromptFeedback(Struct, rename="camel", gc=False):
    """Why there is no candidate."""

    block_reason: str | None = None
    block_reason_message: str | None = None


class UsageMetadata(Struct, rename="camel", gc=False):
    """Tokens as counted by the server."""

    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    cached_content_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None

    def as_usage(self) -> Usage:
        """Translate: the provider counts thoughts beside the answer, we count them in it."""
        thoughts = self.thoughts_token_count or 0
        return Usage(
            input_tokens=(self.prompt_token_count or 0) + (self.tool_use_prompt_token_count or 0),
            output_tokens=(self.candidates_token_count or 0) + thoughts,
            cache_read_tokens=self.cached_content_token_count or 0,
            thinking_tokens=thoughts,
        )


class Frame(Struct, rename="camel", gc=False):
    """One event of the stream, or a whole reply."""

    candidates: list[Candidate] | None = None
    usage_metadata: UsageMetadata | None = None
    prompt_feedback: PromptFeedback | None = None
    error: Any = None


FRAMES = LenientDecoder(Frame)
CALLS = LenientDecoder(FunctionCall)
