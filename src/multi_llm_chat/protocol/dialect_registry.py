"""The registry of dialects (wire formats), all with the same interface.

A new dialect is one package next to this module and one entry in ``DIALECTS``; a plug-in calls ``register_dialect``.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from multi_llm_chat.errors import ProviderError
from multi_llm_chat.events import Event, Usage
from multi_llm_chat.history.values import Origin, Part, Turn
from multi_llm_chat.protocol.anthropic import decode as anthropic_decode
from multi_llm_chat.protocol.anthropic import encode as anthropic_encode
from multi_llm_chat.protocol.anthropic import read as anthropic_read
from multi_llm_chat.protocol.calls import DecodeContext
from multi_llm_chat.protocol.gemini import decode as gemini_decode
from multi_llm_chat.protocol.gemini import encode as gemini_encode
from multi_llm_chat.protocol.gemini import read as gemini_read
from multi_llm_chat.protocol.openai_chat import decode as chat_decode
from multi_llm_chat.protocol.openai_chat import encode as chat_encode
from multi_llm_chat.protocol.openai_chat import read as chat_read
from multi_llm_chat.protocol.openai_responses import decode as responses_decode
from multi_llm_chat.protocol.openai_responses import encode as responses_encode
from multi_llm_chat.protocol.openai_responses import read as responses_read
from multi_llm_chat.protocol.providers import ChatQuirks
from multi_llm_chat.protocol.request_draft import Encoded, RequestDraft


class Decoder(Protocol):
    """Reads one streamed reply: server-sent events in, our events out; ``feed`` never raises."""

    failure: ProviderError | None

    def feed(self, event: str | None, data: bytes) -> list[Event]:
        """Read one server-sent event."""
        ...

    def end(self) -> list[Event]:
        """End the reply; raise its error if it has one."""
        ...

    @property
    def parts(self) -> tuple[Part, ...]:
        """The finished parts so far."""
        ...

    @property
    def usage(self) -> Usage | None:
        """The tokens that the provider has counted so far."""
        ...


class Dialect(Struct, frozen=True):
    """The functions that write and read a wire format.

    ``messages`` is the key of the history in a request's body; ``system_in_messages``: the system prompt is the first
    message.
    """

    encode: Callable[[RequestDraft, ChatQuirks], Encoded]
    decoder: Callable[[DecodeContext], Decoder]
    decode_reply: Callable[[bytes, DecodeContext], tuple[tuple[Part, ...], list[Event]]]
    read_failure: Callable[..., ProviderError]
    read_messages: Callable[[object, Origin], Sequence[Turn]]
    messages: str = "messages"
    system_in_messages: bool = False


def _plain(
    encode: Callable[[RequestDraft], Encoded],
) -> Callable[[RequestDraft, ChatQuirks], Encoded]:
    """An encoder for a format that only its own provider speaks, so that it needs no ``ChatQuirks``."""
    return lambda draft, _quirks: encode(draft)


DIALECTS: dict[str, Dialect] = {
    "openai_chat": Dialect(
        encode=chat_encode.encode,
        decoder=chat_decode.OpenAIChatDecoder,
        decode_reply=chat_decode.decode_reply,
        read_failure=chat_decode.read_failure,
        read_messages=chat_read.read_messages,
        system_in_messages=True,
    ),
    "openai_responses": Dialect(
        encode=_plain(responses_encode.encode),
        decoder=responses_decode.OpenAIResponsesDecoder,
        decode_reply=responses_decode.decode_reply,
        read_failure=responses_decode.read_failure,
        read_messages=responses_read.read_messages,
        messages="input",
    ),
    "anthropic": Dialect(
        encode=_plain(anthropic_encode.encode),
        decoder=anthropic_decode.AnthropicDecoder,
        decode_reply=anthropic_decode.decode_reply,
        read_failure=anthropic_decode.read_failure,
        read_messages=anthropic_read.read_messages,
    ),
    "gemini": Dialect(
        encode=_plain(gemini_encode.encode),
        decoder=gemini_decode.GeminiDecoder,
        decode_reply=gemini_decode.decode_reply,
        read_failure=gemini_decode.read_failure,
        read_messages=gemini_read.read_messages,
        messages="contents",
    ),
}


def register_dialect(name: str, dialect: Dialect) -> None:
    """Register a wire format, so that a ``ProviderRow`` can name it; a later one replaces an earlier one of the same name."""
    DIALECTS[name] = dialect
