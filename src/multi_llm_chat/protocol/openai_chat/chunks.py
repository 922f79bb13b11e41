"""The shape of a chunk of a Chat Completions stream, as far as it matters.

Rules:
1. Everything is optional: compatible servers leave out, send ``null``, or send something else.
2. A field is as wide as the quirks that are known of it: content may be a list (Mistral) or the object that was asked for
   (Cloudflare's Workers AI), arguments may be an object (Ollama). A field of the message that is not known is refused by
   the fast decoder, so that it is read again and kept.
3. A non-streamed reply is a chunk whose delta is called ``message``.

OpenRouter's ``reasoning_details`` are blocks that arrive in pieces and go back verbatim (ORT-03):
4. Pieces with the same ``index`` and ``type`` are one block. Encrypted blocks come whole: each
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
    """What a chunk adds to the message; the last four fields are known and say nothing of its content."""

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
        """Translate; servers that count reasoning apart from the completion show it in the total."""
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
    """What Groq adds to the standard."""

    usage: ChatUsage | None = None
    error: Any = None


class Chunk(Struct, gc=False):
    """One event of the stream, or a whole reply."""

    choices: list[ChunkChoice] | None = None
    usage: ChatUsage | None = None
    error: Any = None
    x_groq: GroqExtra | None = None
    citations: Any = None
    search_results: Any = None
    images: Any = None
    related_questions: Any = None

    def sources(self) -> dict[str, Any]:
        """What a search of the server found; Perplexity says it next to the message, whole in every chunk."""
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
        """Take the pieces of one chunk; give the readable words among them."""
        blocks = [cast("dict[str, Any]", item) for item in details if isinstance(item, dict)]
        return "".join([self._add(block) for block in blocks])

    def merged(self) -> list[dict[str, Any]]:
        """Give the whole blocks."""
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
