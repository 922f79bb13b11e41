"""What a model's family demands beyond its server: a chat template travels with the model."""

import re
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from multi_llm_chat.protocol.provider_rows import ProviderRow

#: Whether the model will think in this request.
Thinks: TypeAlias = bool

_NINE = re.compile(r"[A-Za-z0-9]{9}")

_MISTRAL = re.compile(
    r"(?:mi[sx]tral|magistral|ministral|codestral|devstral|pixtral)", re.IGNORECASE
)
_EARLY_MISTRAL = re.compile(
    r"open-mistral-7b|open-mixtral|mistral-7b|mixtral-8x|codestral-mamba", re.IGNORECASE
)
_LLAMA = re.compile(r"llama[-_ ]?3[._p]?[12]\b", re.IGNORECASE)
_LOCAL_SERVERS = frozenset({"vllm", "llamacpp", "lmstudio", "huggingface"})


def _mistral(row: ProviderRow, _thinking: Thinks) -> ProviderRow:
    """Mistral's own template and validator, wherever they run (MIS-01, MIS-06, AZR-03)."""
    return msgspec.structs.replace(
        row,
        id_pattern=_NINE,
        system="leading",
        alternates=True,
        chat=msgspec.structs.replace(
            row.chat, alternates=True, answers_after_tools=True, reasoning_models=False
        ),
    )


def _early_mistral(row: ProviderRow, _thinking: Thinks) -> ProviderRow:
    """Models of the third tokenizer and before: "either content or tool_calls, but not both" (MIS-08)."""
    if row.name != "mistral":
        return row
    return msgspec.structs.replace(
        row, chat=msgspec.structs.replace(row.chat, words_beside_calls=False)
    )


def _llama(row: ProviderRow, _thinking: Thinks) -> ProviderRow:
    """Llama 3.1 and 3.2: "This model only supports single tool-calls at once!" (VLL-06)."""
    if row.name not in _LOCAL_SERVERS:
        return row
    return msgspec.structs.replace(row, most_calls=1)


def _deepseek(row: ProviderRow, thinking: Thinks) -> ProviderRow:
    """DeepSeek wants its reasoning back in every turn as soon as it thinks (DSK-01)."""
    if row.name != "deepseek" or not thinking:
        return row
    chat = msgspec.structs.replace(
        row.chat, thinking_field="reasoning_content", thinking_always=True
    )
    return msgspec.structs.replace(row, chat=chat)


_FAMILIES: tuple[tuple[re.Pattern[str], Callable[[ProviderRow, Thinks], ProviderRow]], ...] = (
    (_MISTRAL, _mistral),
    (_EARLY_MISTRAL, _early_mistral),
    (_LLAMA, _llama),
    (re.compile(r"deepseek"), _deepseek),
)


def row_for_model(
    row: ProviderRow, model: str, thinking: int | str | bool | None = None
) -> ProviderRow:
    """The row as it is for this model; ``thinking`` is the wish of ``Options`` of that name."""
    if row.dialect != "openai_chat":
        return row
    thinks = bool(thinking) if thinking is not None else "deepseek-chat" not in model
    for pattern, change in _FAMILIES:
        if pattern.search(model):
            row = change(row, thinks)
    return row
