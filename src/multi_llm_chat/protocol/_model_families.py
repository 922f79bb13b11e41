"""What a model demands beyond its server, by its name.

Rules:
1. A chat template travels with the model: ``row_for_model`` changes a server's row where the model's family
   demands it, wherever the model runs.
2. Claude: from 4.7 on, and in the whole 5 family, thinking is ``adaptive`` and a fixed budget is refused,
   and so are sampling parameters; 4.6 takes both forms of thinking; before that only a budget exists.
3. A name without a number is taken for a current model.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import msgspec

from multi_llm_chat.protocol.providers import ProviderRow

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


# OpenAI's own models; both of its dialects ask.

_REASONING = re.compile(r"(?:^|/)(?:o[1-9]|gpt-(?:5|[6-9]|\d\d))(?!.*chat)")
_GPT_VERSION = re.compile(r"(?:^|/)gpt-(\d+)(?:\.(\d+))?")


@lru_cache(maxsize=256)  # the same few names, for every request
def refuses_sampling(model: str) -> bool:
    """Whether the model takes no temperature, no stop sequences and no ``max_tokens`` (OAI-19)."""
    return _REASONING.search(model) is not None


@lru_cache(maxsize=256)
def thinks_without_tools(model: str) -> bool:
    """Whether the model takes function tools here only with its reasoning off (OAI-16)."""
    found = _GPT_VERSION.search(model)
    if found is None or "chat" in model:
        return False
    return (int(found[1]), int(found[2] or 0)) >= (5, 4)


# Claude models.

_CLAUDE_VERSION = re.compile(r"(\d+)(?:[-.](\d{1,2}))?(?![\d])")
_NEWEST = (99, 0)


def claude_version(model: str) -> tuple[int, int]:
    """The generation in a model's name; a name without one is taken for the newest."""
    found = _CLAUDE_VERSION.search(model.split("claude", 1)[-1])
    if found is None:
        return _NEWEST
    return int(found[1]), int(found[2] or 0)


def thinks_adaptively(model: str) -> bool:
    """Whether thinking is asked for as ``adaptive``."""
    return claude_version(model) >= (4, 6)


def takes_temperature(model: str) -> bool:
    """Whether the model still takes sampling parameters."""
    return claude_version(model) < (4, 7)


# Gemini models.

_GEMINI_VERSION = re.compile(r"gemini-(\d+)")


def gemini_generation(model: str) -> int:
    """The generation in a model's name; an unnumbered alias is taken for a current one."""
    found = _GEMINI_VERSION.search(model)
    if found is not None:
        return int(found[1])
    return 3 if "gemini" in model else 0


def signs_calls(model: str) -> bool:
    """Whether the first call of each step must bear a thought signature (GEM-04)."""
    return gemini_generation(model) >= 3
