"""The recorded streams in ``tests/corpus``, with their expected results."""

import json
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from multi_llm_chat.data_limits import REPLY_LIMITS
from multi_llm_chat.errors import ProviderError
from multi_llm_chat.events import Event
from multi_llm_chat.history.values import (
    Extras,
    Media,
    Native,
    Origin,
    Part,
    Text,
    Thinking,
    ToolCall,
)
from multi_llm_chat.protocol._sse import SseDecoder
from multi_llm_chat.protocol.anthropic import decode as anthropic
from multi_llm_chat.protocol.calls import DecodeContext
from multi_llm_chat.protocol.gemini import decode as gemini
from multi_llm_chat.protocol.openai_chat import decode as openai_chat
from multi_llm_chat.protocol.openai_responses import decode as openai_responses

ROOT = Path(__file__).parent.parent / "corpus"
ORIGIN = Origin(provider="acme", endpoint="https://acme.test", model="acme-1")
CONTEXT = DecodeContext(origin=ORIGIN)

DECODERS: dict[str, Callable[[DecodeContext], "Decoder"]] = {
    "openai_chat": openai_chat.OpenAIChatDecoder,
    "openai_responses": openai_responses.OpenAIResponsesDecoder,
    "anthropic": anthropic.AnthropicDecoder,
    "gemini": gemini.GeminiDecoder,
}
WHOLE: dict[str, Callable[[bytes, DecodeContext], tuple[tuple[Part, ...], list[Event]]]] = {
    "openai_chat": openai_chat.decode_reply,
    "openai_responses": openai_responses.decode_reply,
    "anthropic": anthropic.decode_reply,
    "gemini": gemini.decode_reply,
}

TYPE_NAMES: dict[type[Part], str] = {
    Text: "text",
    ToolCall: "tool_call",
    Thinking: "thinking",
    Media: "media",
    Native: "native",
}


class Decoder(Protocol):
    """A decoder of any dialect."""

    failure: ProviderError | None

    def feed(self, event: str | None, data: bytes) -> list[Event]: ...

    def end(self) -> list[Event]: ...

    @property
    def parts(self) -> tuple[Part, ...]: ...


class Case(NamedTuple):
    """One stream and its expected result."""

    dialect: str
    name: str
    stream: bytes
    expected: dict[str, Any]

    @property
    def id(self) -> str:
        return "-".join([self.dialect, self.name, *self.expected["rules"]])


class Outcome(NamedTuple):
    """The result of decoding a stream."""

    events: list[Event]
    parts: tuple[Part, ...]
    error: ProviderError | None


@cache
def cases() -> tuple[Case, ...]:
    """Read all streams."""
    return tuple(
        Case(
            path.parent.name,
            path.stem,
            path.read_bytes(),
            json.loads(path.with_suffix(".json").read_text(encoding="utf-8")),
        )
        for path in sorted(ROOT.glob("*/*.sse"))
    )


def run(dialect: str, chunks: Iterable[bytes], context: DecodeContext = CONTEXT) -> Outcome:
    """Decode a stream that arrives in the given pieces."""
    stream, decoder = SseDecoder(REPLY_LIMITS), DECODERS[dialect](context)
    events: list[Event] = []
    for chunk in chunks:
        for name, data in stream.feed(chunk):
            events += decoder.feed(name, data)
    for name, data in stream.end():
        events += decoder.feed(name, data)
    try:
        events += decoder.end()
    except ProviderError as error:
        return Outcome(events, error.partial.parts, error)
    return Outcome(events, decoder.parts, None)


def as_json(part: Part) -> dict[str, Any]:
    """Write a part as the corpus does: without absent keys."""
    fields = {
        name: value.fields if isinstance(value, Extras) else value
        for name, value in msgspec.structs.asdict(part).items()
        if name != "origin" and value is not None
    }
    return {"type": TYPE_NAMES[type(part)], **fields}


def expected_parts(case: Case) -> list[dict[str, Any]]:
    """Return a case's expected parts, without absent keys."""
    return [
        {name: value for name, value in part.items() if value is not None}
        for part in case.expected["parts"]
    ]
