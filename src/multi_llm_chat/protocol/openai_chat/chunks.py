"""The types of a chunk of a Chat Completions stream, with the fields that are read.

Rules:
1. All fields are optional: compatible servers omit them, send ``null``, or send values of other types.
2. The type of a field allows all known quirks: content may be a list (Mistral) or the requested object
   (Cloudflare's Workers AI), arguments may be an object (Ollama). The fast decoder refuses an unknown field of the message,
   so that the message is read again and the field is kept.
3. A reply that is not streamed is a chunk whose delta is called ``message``.

OpenRouter's ``reasoning_details`` are blocks that arrive in pieces and are sent back verbatim (ORT-03):
4. Pieces with the same ``index`` and ``type`` are one block. Encrypted blocks arrive complete: each
   with an id of its own, or without any id, is a block.
5. ``text``, ``summary`` and ``data`` grow; every other key keeps the last value that was not null.
6. Blocks keep the order in which they began. Strings are joined once, at the end.
"""

from typing import Any, Final, cast

from msgspec import Struct

from multi_llm_chat.events import Usage
from multi_llm_chat.protocol.lenient_json import LenientDecoder


class FunctionDelta(Struct, gc=False):
    """A piece of a function call."""

    name: str | None = None
    arguments: Any = None


class CustomDelta(Struct, gc=False):
    """A piece of a call of a custom tool: free text."""

    name: str | None = None
    input: str | None = None


class CallDelta(Struct, gc=False):
    """A piece of one of the tool calls; ``extra_content`` holds Gemini's thought signature."""

    index: int | None = None
    id: str | None = None
    function: FunctionDelta | None = None
    custom: CustomDelta | None = None
    extra_content: Any = None


class AudioDelta(Struct, gc=False):
    """A piece of a spoken answer."""

    id: str | None = None
    data: str | None = None
    transcript: str | None = None
    expires_at: int | None = None


class Delta(Struct, gc=False, forbid_unknown_fields=True):
    """The addition of a chunk to the message; the last four fields are known, but not part of its content."""

    content: str | list[Any] | dict[str, Any] | None = None
    tool_calls: list[CallDelta] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[Any] | None = None
    refusal: str | None = None
    function_call: FunctionDelta | None = None
    images: list[Any] | None = None
    annotations: list[Any] | None = None
    audio: AudioDelta | None = None
    executed_tools: list[Any] | None = None
    extra_content: Any = None
    role: Any = None
    channel: Any = None
    token_id: Any = None
    provider_metadata: Any = None


class ChunkChoice(Struct, gc=False):
    """One of the alternatives; the first is the answer."""

    index: int | None = None
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    error: Any = None
    logprobs: Any = None


class PromptDetails(Struct, gc=False):
    """The details of the prompt tokens."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class CompletionDetails(Struct, gc=False):
    """The details of the completion tokens."""

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
        """Convert to ``Usage``; if the total is larger than its parts, the server counts reasoning separately."""
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
    """Groq's additional field."""

    usage: ChatUsage | None = None
    error: Any = None


class Chunk(Struct, gc=False):
    """One event of the stream, or a reply that is not streamed."""

    choices: list[ChunkChoice] | None = None
    usage: ChatUsage | None = None
    error: Any = None
    x_groq: GroqExtra | None = None
    citations: Any = None
    search_results: Any = None
    images: Any = None
    related_questions: Any = None

    def sources(self) -> dict[str, Any]:
        """The results of the server's own search; Perplexity sends all of them next to the message, in every chunk."""
        found = {name: getattr(self, name) for name in _SOURCES}
        return {name: value for name, value in found.items() if value}


_SOURCES: Final = ("citations", "search_results", "images", "related_questions")

CHUNKS = LenientDecoder(Chunk)
CALLS = LenientDecoder(CallDelta)


# OpenRouter's reasoning blocks.

_GROWING: Final = ("text", "summary", "data")


class ReasoningDetails:
    """The reasoning blocks of one reply."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self._pieces: list[dict[str, list[str]]] = []
        self._places: dict[str, int] = {}

    def add(self, details: list[Any]) -> str:
        """Add the pieces of one chunk; return their readable text."""
        blocks = [cast("dict[str, Any]", item) for item in details if isinstance(item, dict)]
        return "".join([self._add(block) for block in blocks])

    def merged(self) -> list[dict[str, Any]]:
        """Return the complete blocks."""
        return [
            entry | {key: "".join(values) for key, values in pieces.items()}
            for entry, pieces in zip(self.entries, self._pieces, strict=True)
        ]

    def _add(self, detail: dict[str, Any]) -> str:
        marks = [detail.get("index"), detail.get("type")]
        if detail.get("type") == "reasoning.encrypted":
            marks.append(detail.get("id") or len(self.entries))
        key = repr(marks)
        place = self._places.get(key)
        if place is None:
            place = len(self.entries)
            self._places[key] = place
            self.entries.append({})
            self._pieces.append({})
        entry, pieces = self.entries[place], self._pieces[place]
        for name, value in detail.items():
            if name in _GROWING and isinstance(value, str):
                entry.setdefault(name, "")  # keeps the order of the keys
                pieces.setdefault(name, []).append(value)
            elif value is not None or name not in entry:
                entry[name] = value
        text = detail.get("text") or detail.get("summary")
        return text if isinstance(text, str) else ""
