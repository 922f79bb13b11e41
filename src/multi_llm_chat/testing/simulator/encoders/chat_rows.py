"""What each Chat Completions server does in its own way, as data.

Rules:
1. A difference between servers is a field here and nowhere else.
2. ``openai-chat`` is the default of every field.
"""

from typing import Literal, TypeAlias

from msgspec import Struct, field

from multi_llm_chat.events import FinishReason
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.testing.simulator.encoders.events import BASE62, DIGITS, HEXADECIMAL

#: Where a stream reports its usage: in a chunk of its own if asked, in one always, with the finish
#: reason, or inside Groq's own member.
UsagePlace: TypeAlias = Literal["asked", "always", "last", "groq"]

#: Where reasoning is put: nowhere, under a key, in content chunks, or in OpenRouter's details.
ThinkingPlace: TypeAlias = Literal["", "reasoning", "reasoning_content", "content", "details"]


class ChatReplyRow(Struct, frozen=True):
    """One server's ways."""

    thinking: ThinkingPlace = ""
    usage: UsagePlace = "asked"
    whole_calls: bool = False
    id_prefix: str = "call_"
    id_alphabet: str = BASE62
    id_length: int = 24
    finish_words: dict[FinishReason, str] = {}
    refuses: bool = False
    pictures: bool = False
    opening_comments: int = 0
    filter_results: bool = False
    role_everywhere: bool = False
    chunk_extra: JsonObject = field(default_factory=dict[str, object])
    reply_prefix: str = "chatcmpl-"
    indent: int | None = None


_OPENAI_EXTRA: JsonObject = {"service_tier": "default", "system_fingerprint": "fp_8e1177b306"}

CHAT_ROWS: dict[str, ChatReplyRow] = {
    "openai-chat": ChatReplyRow(refuses=True, chunk_extra=_OPENAI_EXTRA, indent=2),
    "azure": ChatReplyRow(
        refuses=True,
        filter_results=True,
        chunk_extra={"system_fingerprint": "fp_8e1177b306"},
    ),
    "groq": ChatReplyRow(
        thinking="reasoning",
        usage="groq",
        whole_calls=True,
        id_prefix="",
        id_length=9,
        id_alphabet="abcdefghijklmnopqrstuvwxyz0123456789",
        chunk_extra={"system_fingerprint": "fp_fd1bd0b5e8"},
    ),
    "cerebras": ChatReplyRow(
        thinking="reasoning",
        usage="last",
        whole_calls=True,
        id_prefix="",
        id_length=9,
        id_alphabet=HEXADECIMAL,
        chunk_extra={"system_fingerprint": "fp_c7af5c1a4e5d"},
    ),
    "fireworks": ChatReplyRow(thinking="reasoning_content", usage="last", reply_prefix=""),
    "mistral": ChatReplyRow(
        thinking="content",
        usage="last",
        whole_calls=True,
        id_prefix="",
        id_length=9,
        finish_words={"refusal": "stop", "safety": "stop"},
        reply_prefix="",
    ),
    "deepseek": ChatReplyRow(
        thinking="reasoning_content",
        usage="last",
        id_prefix="call_00_",
        chunk_extra={"system_fingerprint": "fp_ffc7281d48_prod0820_fp8_kvcache"},
        reply_prefix="",
    ),
    "kimi": ChatReplyRow(thinking="reasoning_content", usage="last"),
    "dashscope": ChatReplyRow(thinking="reasoning_content", usage="last"),
    "zai": ChatReplyRow(thinking="reasoning_content", usage="last", reply_prefix=""),
    # STR-06: a reply with calls ends with an empty reason.
    "xai": ChatReplyRow(
        thinking="reasoning_content",
        usage="always",
        whole_calls=True,
        id_alphabet=DIGITS,
        id_length=8,
        finish_words={"tool_calls": ""},
        chunk_extra={"system_fingerprint": "fp_3a7881249c"},
        reply_prefix="",
    ),
    # STR-08: comments while the upstream model is awaited.
    "openrouter": ChatReplyRow(
        thinking="details",
        usage="always",
        id_prefix="",
        id_length=9,
        opening_comments=2,
        pictures=True,
        role_everywhere=True,
        chunk_extra={"provider": "OpenAI"},
        reply_prefix="gen-1794700000-",
    ),
    "together": ChatReplyRow(thinking="reasoning", usage="last", reply_prefix=""),
    "ollama": ChatReplyRow(
        thinking="reasoning",
        whole_calls=True,
        id_length=8,
        id_alphabet="abcdefghijklmnopqrstuvwxyz0123456789",
        role_everywhere=True,
        chunk_extra={"system_fingerprint": "fp_ollama"},
    ),
    "vllm": ChatReplyRow(
        thinking="reasoning", id_prefix="chatcmpl-tool-", id_length=32, id_alphabet=HEXADECIMAL
    ),
    "llamacpp": ChatReplyRow(
        thinking="reasoning_content",
        id_prefix="",
        id_length=32,
        chunk_extra={"system_fingerprint": "b6700-3df2244d"},
    ),
    "lmstudio": ChatReplyRow(
        thinking="reasoning_content",
        id_prefix="",
        id_length=9,
        id_alphabet=DIGITS,
        chunk_extra={"system_fingerprint": "default"},
    ),
    "huggingface": ChatReplyRow(
        thinking="reasoning", id_prefix="call_", chunk_extra={"service_tier": None}
    ),
}
