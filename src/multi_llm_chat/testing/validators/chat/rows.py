"""The judge of Chat Completions requests, and its rows: each server is data."""

import re
from collections.abc import Iterator, Mapping

import msgspec

from multi_llm_chat.testing.validators.chat import keys, wordings
from multi_llm_chat.testing.validators.chat.faults import COMPATIBLE, OPENAI
from multi_llm_chat.testing.validators.chat.history_calls import check_pairing
from multi_llm_chat.testing.validators.chat.hosted_quirks import (
    check_azure_mistral,
    check_equal_strictness,
    check_fireworks,
    check_forced_choice,
    check_glm,
    check_groq_model,
    check_kimi,
    check_qwen,
    check_reasoner_alternation,
    check_reasoning_content,
    check_router_model,
    check_tagged_reasoning,
    check_upstream,
    check_xai_content,
    check_xai_model,
)
from multi_llm_chat.testing.validators.chat.local_servers import (
    check_llamacpp_messages,
    check_llamacpp_numbers,
    check_llamacpp_tools,
    check_template,
    check_vllm_reasoning,
)
from multi_llm_chat.testing.validators.chat.messages import check_content_presence, check_messages
from multi_llm_chat.testing.validators.chat.mistral import (
    check_mistral_content,
    check_mistral_media,
    check_mistral_order,
    check_mistral_pairing,
    check_mistral_tools,
)
from multi_llm_chat.testing.validators.chat.ollama import (
    check_ollama_identifiers,
    check_ollama_messages,
    check_ollama_tools,
)
from multi_llm_chat.testing.validators.chat.parameters import (
    check_capabilities,
    check_model_messages,
    check_parameters,
    check_request_keys,
    check_required,
)
from multi_llm_chat.testing.validators.chat.row import ChatCall, ChatRow, Check
from multi_llm_chat.testing.validators.chat.tools import check_tool_choice, check_tools
from multi_llm_chat.testing.validators.typed_views import as_object, as_string
from multi_llm_chat.testing.validators.violation import Violation, Wording

_OPENAI_ROLES: tuple[str, ...] = ("system", "assistant", "user", "function", "tool", "developer")
_PLAIN_ROLES = ("system", "user", "assistant", "tool")
_NAME = re.compile(r"^[a-zA-Z0-9_-]+$")

_TEXT = frozenset({"text"})
_OPENAI_PARTS = {
    "system": _TEXT,
    "developer": _TEXT,
    "tool": _TEXT,
    "function": _TEXT,
    "assistant": frozenset({"text", "refusal"}),
    "user": frozenset({"text", "image_url", "input_audio", "file"}),
}
_IMAGE_PARTS = _OPENAI_PARTS | {"user": frozenset({"text", "image_url"}), "assistant": _TEXT}
_LOCAL_MEDIA = frozenset({"text", "image_url", "input_audio", "video_url", "refusal", "thinking"})
_LOCAL_PARTS: dict[str, frozenset[str]] = dict.fromkeys(_OPENAI_ROLES, _LOCAL_MEDIA)
_LLAMACPP_PARTS: dict[str, frozenset[str]] = dict.fromkeys(
    _OPENAI_ROLES, frozenset({"text", "image_url", "input_audio"})
)
_OLLAMA_PARTS: dict[str, frozenset[str]] = dict.fromkeys(
    _OPENAI_ROLES, frozenset({"text", "image_url"})
)
_MISTRAL_PARTS = {
    "system": frozenset({"text", "thinking"}),
    "user": frozenset({"text", "image_url", "input_audio", "document_url", "reference", "file"}),
    "assistant": frozenset({"text", "thinking", "reference"}),
    "tool": _TEXT,
}

_SHAPE = (check_required, check_request_keys, check_messages, check_tools, check_tool_choice)
_OPENAI_CHECKS = (
    *_SHAPE,
    check_parameters,
    check_capabilities,
    check_model_messages,
    check_content_presence,
    check_pairing,
)
_COMPATIBLE_CHECKS = (*_SHAPE, check_content_presence, check_pairing)
_LOCAL_CHECKS = (check_required, check_messages, check_tools, check_tool_choice)

_OPENAI_CHAT = ChatRow(
    name="openai-chat",
    wordings=OPENAI,
    checks=_OPENAI_CHECKS,
    roles=_OPENAI_ROLES,
    part_types=_OPENAI_PARTS,
    request_keys=keys.OPENAI_REQUEST,
    tool_types=("function", "custom"),
    # The published limit was 40; api.openai.com takes 64 since 2026. Azure still says 40.
    identifier_limit=64,
    name_pattern=_NAME,
)


def _compatible(name: str, *tolerated: str) -> ChatRow:
    """A row that ignores unknown keys and otherwise answers in OpenAI's words."""
    return ChatRow(
        name=name,
        wordings={fault: words for fault, words in COMPATIBLE.items() if fault not in tolerated},
        nulls_are_absent=True,
        checks=_COMPATIBLE_CHECKS,
        roles=_OPENAI_ROLES,
        part_types=_OPENAI_PARTS,
        identifier_limit=64,
        name_pattern=_NAME,
    )


def _thinker(
    name: str, words: Mapping[str, Wording], check: Check, user_parts: set[str]
) -> ChatRow:
    """A server whose thinking has a switch of its own."""
    return ChatRow(
        name=name,
        wordings=words,
        checks=(*_COMPATIBLE_CHECKS, check),
        roles=_PLAIN_ROLES,
        part_types=_OPENAI_PARTS | {"user": frozenset(user_parts)},
        identifier_limit=64,
        name_pattern=_NAME,
        nulls_are_absent=True,
    )


_TABLE = (
    _OPENAI_CHAT,
    ChatRow(
        name="azure",
        wordings=wordings.AZURE,
        # AZR-04: no files; the model may be in the address alone.
        checks=(*_OPENAI_CHECKS, check_azure_mistral),
        roles=_OPENAI_ROLES,
        part_types=_OPENAI_PARTS | {"user": _OPENAI_PARTS["user"] - {"file"}},
        request_keys=keys.AZURE_REQUEST,
        tool_types=("function", "custom"),
        identifier_limit=40,
        name_pattern=_NAME,
    ),
    ChatRow(
        name="groq",
        wordings=wordings.GROQ,
        checks=(*_COMPATIBLE_CHECKS, check_groq_model),
        # console.groq.com/docs/tool-use/built-in-tools
        tool_types=("function", "browser_search", "code_interpreter"),
        roles=("system", "user", "assistant", "tool", "developer", "function"),
        part_types=_IMAGE_PARTS,
        request_keys=keys.GROQ_REQUEST,
        message_keys=keys.GROQ_MESSAGES,
        part_keys=keys.PARTS,
        call_keys=keys.CALL,
        tool_keys=keys.TOOL,
        function_keys=keys.FUNCTION,
        identifier_limit=64,
        name_pattern=_NAME,
    ),
    ChatRow(
        name="cerebras",
        wordings=wordings.CEREBRAS,
        checks=(*_COMPATIBLE_CHECKS, check_equal_strictness, check_tagged_reasoning),
        roles=("system", "user", "assistant", "tool", "developer"),
        part_types=_OPENAI_PARTS,
        request_keys=keys.CEREBRAS_REQUEST,
        message_keys=keys.CEREBRAS_MESSAGES,
        part_keys=keys.PARTS,
        call_keys=keys.CALL,
        tool_keys=keys.TOOL,
        function_keys=keys.FUNCTION,
        identifier_limit=64,
        lists=re.compile("gemma"),  # recorded: maruel/genai providers/cerebras, gemma-4-31b
        name_pattern=_NAME,
    ),
    ChatRow(
        name="fireworks",
        wordings=wordings.FIREWORKS,
        checks=(*_COMPATIBLE_CHECKS, check_fireworks),
        roles=("system", "user", "assistant", "tool", "developer"),
        part_types=_IMAGE_PARTS,
        request_keys=keys.FIREWORKS_REQUEST,
        message_keys=keys.FIREWORKS_MESSAGES,
        part_keys=keys.PARTS,
        call_keys=keys.CALL,
        tool_keys=keys.TOOL,
        function_keys=keys.FUNCTION_WITHOUT_STRICT,
        tool_choices=("none", "auto", "any"),
        identifier_limit=64,
        name_pattern=_NAME,
    ),
    ChatRow(
        name="mistral",
        wordings=wordings.MISTRAL,
        checks=(
            *_SHAPE,
            check_mistral_order,
            check_mistral_pairing,
            check_mistral_content,
            check_mistral_tools,
            check_mistral_media,
        ),
        roles=_PLAIN_ROLES,
        part_types=_MISTRAL_PARTS,
        audio_may_be_string=True,  # MIS-15
        request_keys=keys.MISTRAL_REQUEST,
        message_keys=keys.MISTRAL_MESSAGES,
        part_keys=keys.PARTS,
        call_keys=keys.MISTRAL_CALL,
        tool_keys=keys.TOOL,
        function_keys=keys.FUNCTION,
        tool_choices=("auto", "none", "any", "required"),
        image_url_may_be_string=True,
    ),
    ChatRow(
        name="deepseek",
        wordings=wordings.DEEPSEEK,
        checks=(
            *_COMPATIBLE_CHECKS,
            check_reasoning_content,
            check_forced_choice,
            check_reasoner_alternation,
        ),
        roles=_PLAIN_ROLES,
        part_types=dict.fromkeys(_PLAIN_ROLES, _TEXT),  # DSK-09
        nulls_are_absent=True,
        identifier_limit=64,
        name_pattern=_NAME,
    ),
    _thinker("kimi", wordings.KIMI, check_kimi, {"text", "image_url", "video_url"}),
    _thinker(
        "dashscope", wordings.QWEN, check_qwen, {"text", "image_url", "input_audio", "video_url"}
    ),
    _thinker("zai", wordings.GLM, check_glm, {"text", "image_url", "video_url", "file_url"}),
    ChatRow(
        name="xai",
        wordings=wordings.XAI,
        checks=(*_COMPATIBLE_CHECKS, check_xai_content, check_xai_model),
        roles=_OPENAI_ROLES,
        part_types=_OPENAI_PARTS,
        message_keys=dict.fromkeys(
            _OPENAI_ROLES,
            frozenset(
                {
                    "role",
                    "content",
                    "tool_calls",
                    "tool_call_id",
                    "reasoning_content",
                    "encrypted_content",
                    "function_call",
                    "refusal",
                }
            ),
        ),
        image_types=frozenset({"image/png", "image/jpeg", "image/jpg"}),
        identifier_limit=64,
        name_pattern=_NAME,
    ),
    ChatRow(
        name="openrouter",
        wordings=wordings.OPENROUTER,
        checks=(*_COMPATIBLE_CHECKS, check_upstream),
        roles=_OPENAI_ROLES,
        part_types=_OPENAI_PARTS
        | {
            "user": _OPENAI_PARTS["user"] | {"video_url"},  # ORT-06
            "tool": frozenset({"text", "image_url"}),  # OAI-17
        },
        files_by_address=True,  # ORT-05
        tool_choices=("none", "auto", "any", "required"),  # recorded: activeagents/activeagent
        nulls_are_absent=True,
        server_tools="openrouter:",  # ORT-07
        name_pattern=_NAME,
    ),
    # recorded: maruel/genai providers/togetherai, videos to three models
    msgspec.structs.replace(
        _compatible("together"),
        part_types=_OPENAI_PARTS | {"user": _OPENAI_PARTS["user"] | {"video_url"}},
    ),
    _compatible("lmstudio"),
    msgspec.structs.replace(
        _compatible("huggingface", "tools_empty"),  # OAI-06
        checks=(*_COMPATIBLE_CHECKS, check_router_model),
    ),
    ChatRow(
        name="ollama",
        wordings=wordings.OLLAMA,
        checks=(
            check_required,
            check_ollama_messages,
            check_messages,
            check_tools,
            check_ollama_tools,
            check_ollama_identifiers,
        ),
        roles=_OPENAI_ROLES,
        part_types=_OLLAMA_PARTS,
        image_types=frozenset({"image/png", "image/jpeg", "image/jpg", "image/webp"}),
        image_url_may_be_string=True,
    ),
    ChatRow(
        name="vllm",
        wordings=wordings.VLLM,
        checks=(*_LOCAL_CHECKS, check_template, check_vllm_reasoning),
        roles=_OPENAI_ROLES,
        part_types=_LOCAL_PARTS,
        mistral_identifier=re.compile(r"[a-zA-Z0-9]{9,}"),
    ),
    ChatRow(
        name="llamacpp",
        wordings=wordings.LLAMACPP,
        checks=(
            *_LOCAL_CHECKS,
            check_llamacpp_messages,
            check_llamacpp_numbers,
            check_llamacpp_tools,
            check_template,
        ),
        roles=_OPENAI_ROLES,
        part_types=_LLAMACPP_PARTS,
    ),
)

CHAT_ROWS: dict[str, ChatRow] = {row.name: row for row in _TABLE}


# The judge.


def validate_chat(provider: str, body: object, model: str | None) -> Iterator[Violation]:
    """Run the row's checks in the order in which it would report."""
    row = CHAT_ROWS[provider]
    request = as_object(body)
    if request is None:
        yield from ChatCall(row, {}, "").say("body_type")
        return
    named = model if model is not None else as_string(request.get("model"))
    call = ChatCall(row, request, named or "")
    for check in row.checks:
        yield from check(call)
