"""The shape of a chunk of a Chat Completions stream, as far as it matters.

Rules:
1. Everything is optional: compatible servers leave out, send ``null``, or send something else.
2. A field is as wide as the quirks that are known of it: content may be a list (Mistral),
   arguments may be an object (Ollama).
3. A non-streamed reply is a chunk whose delta is called ``message``.
"""

from typing import Any

from msgspec import Struct

from multi_llm_chat.events import Usage
from multi_llm_chat.protocol.lenient_json import LenientDecoder


class FunctionDelta(Struct, gc=False):
    """A piece of a function call."""

    name: str | None = None
    arguments: Any = None


class CallDelta(Struct, gc=False):
    """A piece of one of the tool calls."""

    index: int | None = None
    id: str | None = None
    function: FunctionDelta | None = None


class Delta(Struct, gc=False):
    """What a chunk adds to the message."""

    content: str | list[Any] | None = None
    tool_calls: list[CallDelta] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[Any] | None = None
    refusal: str | None = None
    function_call: FunctionDelta | None = None
    images: list[Any] | None = None


class Choice(Struct, gc=False):
    """One of the alternatives; only the first is ever asked for."""

    index: int | None = None
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    error: Any = None


class PromptDetails(Struct, gc=False):
    """Where prompt tokens came from."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class CompletionDetails(Struct, gc=False):
    """What completion tokens were spent on."""

    reasoning_tokens: int | None = None


class ChatUsage(Struct, gc=False):
    """Tokens as counted by the server."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_cache_hit_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None

    def as_usage(self) -> Usage:
        """Translate; servers that count reasoning beside the completion show it in the total."""
        prompt = self.prompt_tokens or 0
        completion = self.completion_tokens or 0
        before = self.prompt_tokens_details or PromptDetails()
        spent = self.completion_tokens_details or CompletionDetails()
        return Usage(
            input_tokens=prompt,
            output_tokens=max(completion, (self.total_tokens or 0) - prompt),
            cache_read_tokens=before.cached_tokens or self.prompt_cache_hit_tokens or 0,
            cache_write_tokens=before.cache_write_tokens or 0,
            thinking_tokens=spent.reasoning_tokens or 0,
        )


class GroqExtra(Struct, gc=False):
    """What Groq says beside the standard."""

    usage: ChatUsage | None = None
    error: Any = None


class Chunk(Struct, gc=False):
    """One event of the stream, or a whole reply."""

    choices: list[Choice] | None = None
    usage: ChatUsage | None = None
    error: Any = None
    x_groq: GroqExtra | None = None


CHUNKS = LenientDecoder(Chunk)
CALLS = LenientDecoder(CallDelta)
