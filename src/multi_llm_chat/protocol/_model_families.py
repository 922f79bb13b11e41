"""Requirements of model families that differ from those of the server, by the model's name.

Rules:
1. A chat template belongs to the model, on whichever server it runs: ``row_for_model`` changes a server's row if the model's
   family requires it.
2. The capabilities of a model itself are data (``protocol.capabilities``).
"""

import re
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from multi_llm_chat.protocol.capabilities import claude_family
from multi_llm_chat.protocol.providers import ProviderRow

#: Whether the model will think in this request.
Thinks: TypeAlias = bool

_NINE = re.compile(r"[A-Za-z0-9]{9}")
_PRINTABLE = re.compile(r"[!-~]{1,64}")

_MISTRAL = re.compile(
    r"(?:mi[sx]tral|magistral|ministral|codestral|devstral|pixtral)", re.IGNORECASE
)
_EARLY_MISTRAL = re.compile(
    r"open-mistral-7b|open-mixtral|mistral-7b|mixtral-8x|codestral-mamba", re.IGNORECASE
)
_VOXTRAL = re.compile(r"voxtral", re.IGNORECASE)
_VISION = re.compile(
    r"llava|vision|[-_.]vl\b|\bvl[-_]|\dvl|gemma-?3(?!n)|gemma-?4|pixtral|minicpm-?[vo]|internvl|smolvlm|moondream|llama-?4",
    re.IGNORECASE,
)
_TEXT_ONLY = re.compile(
    r"gpt-oss|compound|llama-3\.[13]-|qwen3-(?!vl|omni)|deepseek-v\d", re.IGNORECASE
)
_LLAMA = re.compile(r"llama[-_ ]?3[._p]?[12]\b", re.IGNORECASE)
_LOCAL_SERVERS = frozenset({"vllm", "llamacpp", "lmstudio", "huggingface"})
#: Families whose templates accept any id. A name without a family, such as ``default``, may be that of a Mistral model.
_ANY_ID = re.compile(
    r"kimi|qwen|qwq|gpt-oss|llama[-_ ]?[234]|gemma|deepseek|glm|minimax|granite|phi-?[34]|olmo|smollm",
    re.IGNORECASE,
)


def _any_id(row: ProviderRow, _thinking: Thinks) -> ProviderRow:
    """Ids that the model or its server made are sent back unchanged: only Mistral's templates read them (LCP-06, VLL-07).

    Recorded: charmbracelet/fantasy TestOpenAICompatibleCommon, huggingface-kimi-k2 and llama-cpp-gpt-oss.
    """
    if row.name not in _LOCAL_SERVERS:
        return row
    return msgspec.structs.replace(row, id_pattern=_PRINTABLE)


def _nameless_results(row: ProviderRow, _thinking: Thinks) -> ProviderRow:
    """These templates take the name of a result's tool from the call before it; Kimi's and Gemma's read it from the result (LCP-06)."""
    if row.name != "llamacpp":
        return row
    return msgspec.structs.replace(
        row, chat=msgspec.structs.replace(row.chat, result_names="stated")
    )


def _kimi_ids(row: ProviderRow, _thinking: Thinks) -> ProviderRow:
    """Kimi's template reads the tool's name from its own ids, ``functions.add:0``, on every host (KMI-04)."""
    return msgspec.structs.replace(row, id_pattern=_PRINTABLE)


def _mistral(row: ProviderRow, _thinking: Thinks) -> ProviderRow:
    """Mistral's own template and validator, on any server (MIS-01, MIS-06, AZR-03); its own API accepts more (MIS-18)."""
    is_own = row.name == "mistral"
    return msgspec.structs.replace(
        row,
        id_pattern=_NINE,
        system="leading",
        alternates=True,
        opens="any" if is_own else "user",
        ends="user",
        chat=msgspec.structs.replace(
            row.chat, alternates=True, answers_after_tools=not is_own, reasoning_models=False
        ),
    )


def _early_mistral(row: ProviderRow, _thinking: Thinks) -> ProviderRow:
    """Models of the third tokenizer and before: "either content or tool_calls, but not both" (MIS-08).

    Their validator skips the first message, including its calls (MIS-02).
    """
    if row.name != "mistral":
        return row
    chat = msgspec.structs.replace(row.chat, words_beside_calls=False)
    return msgspec.structs.replace(row, opens="words", chat=chat)


def _voxtral(row: ProviderRow, _thinking: Thinks) -> ProviderRow:
    """Voxtral accepts sound, as plain base64 text, and no images (MIS-15)."""
    if row.name != "mistral":
        return row
    return _with_media(_without_pictures(row), "audio_text")


def _vibe(row: ProviderRow, _thinking: Thinks) -> ProviderRow:
    """The model of Mistral's Vibe accepts no images (recorded: maruel/genai providers/mistral, mistral-vibe-cli-latest)."""
    return _without_pictures(row) if row.name == "mistral" else row


def _vision(row: ProviderRow, _thinking: Thinks) -> ProviderRow:
    """A vision model accepts images as data on llama.cpp's server (LCP-08) and on Cerebras (CER-03).

    Recorded: maruel/genai providers/cerebras, gemma-4-31b.
    """
    if row.name == "cerebras":
        chat = msgspec.structs.replace(row.chat, content="media")
        row = msgspec.structs.replace(row, chat=chat)
    return _with_media(row, "image") if row.name in {"llamacpp", "cerebras"} else row


def _text_only(row: ProviderRow, _thinking: Thinks) -> ProviderRow:
    """Text-only models refuse images: "messages[0].content must be a string" (OAI-11).

    Recorded: maruel/genai providers/groq and providers/huggingface.
    """
    return _without_pictures(row) if row.name in {"groq", "huggingface"} else row


def _without_pictures(row: ProviderRow) -> ProviderRow:
    chat = msgspec.structs.replace(row.chat, media=row.chat.media - {"image", "image_url"})
    return msgspec.structs.replace(row, chat=chat)


def _compound(row: ProviderRow, _thinking: Thinks) -> ProviderRow:
    """Groq's agents: "last message role must be 'user'" (danielmiessler/Fabric#2108, 2026-05-01)."""
    if row.name != "groq":
        return row
    return msgspec.structs.replace(row, ends="user", system="leading")


def _deaf(row: ProviderRow, _thinking: Thinks) -> ProviderRow:
    """OpenAI's models accept sound only if their name contains ``audio`` (OAI-25)."""
    if row.name not in {"openai-chat", "azure"}:
        return row
    chat = msgspec.structs.replace(row.chat, media=row.chat.media - {"audio"})
    return msgspec.structs.replace(row, chat=chat)


def _gemini(row: ProviderRow, _thinking: Thinks) -> ProviderRow:
    """Gemini behind OpenRouter accepts video and sound (ORT-06)."""
    return _with_media(row, "video", "audio") if row.name == "openrouter" else row


def _openai(row: ProviderRow, _thinking: Thinks) -> ProviderRow:
    """OpenAI's models accept any first and any last turn, also behind OpenRouter.

    Recorded: 0xPlaygrounds/rig tests/cassettes/openrouter/history_roundtrip_matrix.
    """
    if row.name != "openrouter":
        return row
    return msgspec.structs.replace(row, opens="any", ends="any")


def _claude(row: ProviderRow, model: str, *, prefill: bool) -> ProviderRow:
    """Claude behind OpenRouter continues the beginning of an answer if the model does so at Anthropic (ANT-08).

    Recorded: crmne/ruby_llm … chat_with_params_openrouter_claude-haiku-4-5_supports_top_k_param.yml.
    """
    can_prefill = prefill and claude_family(model.replace(".", "-")).prefill
    return msgspec.structs.replace(row, ends="any") if can_prefill else row


def _with_media(row: ProviderRow, *kinds: str) -> ProviderRow:
    chat = msgspec.structs.replace(row.chat, media=row.chat.media.union(kinds))
    return msgspec.structs.replace(row, chat=chat)


def _llama(row: ProviderRow, _thinking: Thinks) -> ProviderRow:
    """Llama 3.1 and 3.2: "This model only supports single tool-calls at once!" (VLL-06)."""
    if row.name not in _LOCAL_SERVERS:
        return row
    return msgspec.structs.replace(row, most_calls=1)


def _deepseek(row: ProviderRow, thinking: Thinks) -> ProviderRow:
    """If DeepSeek thinks in a request, every turn of the model must have its reasoning (DSK-01)."""
    if row.name != "deepseek" or not thinking:
        return row
    chat = msgspec.structs.replace(
        row.chat, thinking_field="reasoning_content", thinking_always=True
    )
    return msgspec.structs.replace(row, chat=chat)


def _kimi(row: ProviderRow, thinking: Thinks) -> ProviderRow:
    """If Kimi thinks in a request, every turn with calls must have its reasoning (KMI-01)."""
    if row.name != "kimi" or not thinking:
        return row
    chat = msgspec.structs.replace(
        row.chat, thinking_field="reasoning_content", thinking_always=True
    )
    return msgspec.structs.replace(row, chat=chat)


def _glm_vision(row: ProviderRow, _thinking: Thinks) -> ProviderRow:
    """GLM models with a V in their name accept images."""
    return _with_media(row, "image", "image_url") if row.name == "zai" else row


def _glm_on_cerebras(row: ProviderRow, _thinking: Thinks) -> ProviderRow:
    """GLM on Cerebras reads its earlier reasoning in think tags of the content (ZAI-04)."""
    if row.name != "cerebras":
        return row
    chat = msgspec.structs.replace(row.chat, thinking_field="tags")
    return msgspec.structs.replace(row, chat=chat)


_FAMILIES: tuple[tuple[re.Pattern[str], Callable[[ProviderRow, Thinks], ProviderRow]], ...] = (
    (_ANY_ID, _any_id),
    (re.compile(r"gpt-oss|qwen|qwq|llama[-_ ]?3", re.IGNORECASE), _nameless_results),
    (re.compile(r"kimi-k|moonshotai/", re.IGNORECASE), _kimi_ids),
    (_MISTRAL, _mistral),
    (_EARLY_MISTRAL, _early_mistral),
    (_LLAMA, _llama),
    (_VOXTRAL, _voxtral),
    (re.compile(r"vibe-cli"), _vibe),
    (_TEXT_ONLY, _text_only),
    (_VISION, _vision),
    (re.compile(r"^(?:groq/)?compound"), _compound),
    (re.compile(r"^(?!.*audio)"), _deaf),
    (re.compile(r"^google/gemini"), _gemini),
    (re.compile(r"^openai/"), _openai),
    (re.compile(r"deepseek"), _deepseek),
    (re.compile(r"kimi-(?!k2-0)"), _kimi),
    (re.compile(r"glm-[\d.]+v"), _glm_vision),
    (re.compile(r"glm"), _glm_on_cerebras),
)


def row_for_model(
    row: ProviderRow,
    model: str,
    thinking: int | str | bool | None = None,
    *,
    structured: bool = False,
) -> ProviderRow:
    """The row with the changes for this model.

    ``thinking`` is the field of ``Options``; ``structured`` is true if the request has a schema for the answer.
    """
    # A request with thinking or with a schema for the answer cannot end with the beginning of an answer.
    is_plain = not structured and thinking in (None, False, 0, "none")
    if row.dialect == "anthropic":
        family = claude_family(model)
        prefill = family.prefill and is_plain
        return msgspec.structs.replace(
            row,
            system="anywhere" if family.later_system else row.system,
            opens="user" if family.first_user else "any",
            ends="any" if prefill else "user",
        )
    if row.dialect != "openai_chat":
        return row
    thinks = bool(thinking) if thinking is not None else "deepseek-chat" not in model
    for pattern, change in _FAMILIES:
        if pattern.search(model):
            row = change(row, thinks)
    if row.name == "openrouter" and model.startswith("anthropic/"):
        row = _claude(row, model, prefill=is_plain)
    return row
