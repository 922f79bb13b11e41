"""Every provider as one row of data: its dialect, its address and its peculiarities.

A server that speaks a known dialect needs only a row here. The ids in comments are those of the rules
in the catalogue (``protocol.rules``) that require the value next to them.
"""

import difflib
import re
from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from multi_llm_chat.errors import UsageError
from multi_llm_chat.protocol.capabilities import EMBEDDINGS, EmbeddingsApi
from multi_llm_chat.repair.policy import Ends, Opens
from multi_llm_chat.schema.dialect_rules import (
    FIREWORKS,
    LLAMACPP,
    MISTRAL,
    OLLAMA,
    OPENAI,
    SchemaRules,
)


class ChatQuirks(Struct, frozen=True):
    """One server's variant of Chat Completions; the defaults are OpenAI's own.

    ``alternates``: neighbouring messages of one role and all system texts must be merged (chat templates require it).
    ``answers_after_tools``: a message of the model must be between results and a user message.
    ``content``: when content is a list of parts: for any user turn of several parts, only if
    there are media among them (templates often accept plain strings only), or never; ``media`` lists
    the accepted kinds.
    ``bare_calls``: the content of a message that has calls and no text.
    ``words_beside_calls``: one message may have text and calls.
    ``thinking_field``: the key in which the server expects its own reasoning; ``tags``: as think tags in the content;
    ``own``: the key in which the server sent it.
    ``thinking_always``: every assistant turn must have the key, even if it is empty.
    ``thinking_details``: the server's own reasoning blocks are sent back verbatim.
    ``message_keys``: the accepted additional keys of messages; ``cache_mark``: the key of cache marks in content parts, if any;
    ``result_names``: which tool messages have the tool's name: all, those that were sent to us with a name, or none.
    ``refusals``: a refusal is a content part; ``custom_tools``: calls may be free text; ``chunks``: content may have parts that
    only this server has.
    ``required``: the value for "some tool must be called"; ``named_choice``: a request may name the tool to call.
    ``effort``: how thinking effort is written, if at all; ``forced_thinking``: a tool may be forced while the model thinks.
    ``other_keys``: the keys of options that differ from the option's name; an empty key if the server has no such option.
    ``output_schema``: how structured output is requested; ``web_search``: how the server's own search is requested.
    ``cache_key``: the server accepts a key that routes the requests of a conversation to one cache.
    """

    alternates: bool = False
    answers_after_tools: bool = False
    content: Literal["parts", "media", "string"] = "media"
    media: frozenset[str] = frozenset()
    bare_calls: Literal["omit", "empty"] = "omit"
    words_beside_calls: bool = True
    thinking_field: Literal["reasoning_content", "reasoning", "content", "tags", "own"] | None = (
        None
    )
    thinking_always: bool = False
    thinking_details: bool = False
    message_keys: tuple[str, ...] = ()
    cache_mark: Literal["cache_control", "prompt_cache_breakpoint", ""] = ""
    refusals: bool = False
    custom_tools: bool = False
    chunks: bool = False
    result_names: Literal["always", "stated", "never"] = "stated"
    required: str = "required"
    named_choice: bool = True
    most_tools: int = 128
    schema_rules: SchemaRules = OPENAI
    max_tokens_key: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_usage: bool = True
    effort: Literal["reasoning_effort", "thinking", "family", "none"] = "none"
    forced_thinking: bool = True
    output_schema: Literal["json_schema", "json_object", "none"] = "json_schema"
    schema_beside_tools: bool = True
    stop: bool = True
    web_search: Literal["web_search_options", "openrouter"] | None = None
    other_keys: Mapping[str, str] = {}
    reasoning_models: bool = False
    cache_key: bool = False


class MediaLimits(Struct, frozen=True):
    """The media limits of a receiver for one request; None if no limit is known.

    ``image_types`` are the accepted types of images, ``image_bytes`` limits the base64 text of one image, ``image_side`` its
    longest side in pixels, ``image_patches`` its squares of 32 pixels. If a request has more than ``few`` images, ``many_side``
    is the limit of their sides.
    """

    images: int | None = None
    image_types: frozenset[str] | None = None
    image_bytes: int | None = None
    image_side: int | None = None
    image_patches: int | None = None
    few: int | None = None
    many_side: int | None = None
    pdf_pages: int | None = None


_NINE = re.compile(r"[A-Za-z0-9]{9}")
_FORTY = re.compile(r"[!-~]{1,40}")  # OAI-07
_NAMES = re.compile(r"[A-Za-z0-9_-]{1,64}")  # OAI-08, ANT-17, MIS-09
_STRICT_NAMES = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class ProviderRow(Struct, frozen=True):
    """One provider: its address, its request format, and its requirements on a history.

    ``other_key_variables`` are read if ``key_variable`` is not set, ``model_variable`` if no model is chosen.
    """

    name: str
    dialect: str
    speaker: str
    base_url: str
    default_model: str
    key_variable: str | None = None
    other_key_variables: tuple[str, ...] = ()
    model_variable: str | None = None
    key_header: Literal["Authorization", "x-api-key", "x-goog-api-key", "api-key"] = "Authorization"
    headers: dict[str, str] = {}
    aliases: frozenset[str] = frozenset()
    id_pattern: re.Pattern[str] = _FORTY
    name_pattern: re.Pattern[str] = _NAMES
    system: Literal["anywhere", "leading"] = "anywhere"
    alternates: bool = False
    most_calls: int | None = None
    opens: Opens = "any"
    ends: Ends = "any"
    pauses: frozenset[str] = frozenset()
    blank_texts: bool = False
    media: MediaLimits | None = None
    chat: ChatQuirks = ChatQuirks()
    embeddings: EmbeddingsApi | None = None

    @property
    def key_variables(self) -> tuple[str, ...]:
        """The environment variables that may hold the key, in the order in which they are read."""
        return (self.key_variable, *self.other_key_variables) if self.key_variable else ()


def _compatible(
    name: str,
    base_url: str,
    default_model: str,
    key_variable: str | None,
    chat: ChatQuirks,
    *,
    speaker: str | None = None,
    id_pattern: re.Pattern[str] = _FORTY,
    name_pattern: re.Pattern[str] = _NAMES,
    key_header: Literal["Authorization", "api-key"] = "Authorization",
    model_variable: str | None = None,
    opens: Opens = "user",
    ends: Ends = "user",
    media: MediaLimits | None = None,
    blank_texts: bool = False,
) -> ProviderRow:
    """The row of a server that speaks Chat Completions; if ``alternates`` is set, system text comes first.

    ``opens`` and ``ends`` have the strictest value unless the server is known to accept more: a chat template that
    expects a user message first, or last, raises an error otherwise (VLL-06, LCP-06).
    """
    return ProviderRow(
        name=name,
        dialect="openai_chat",
        speaker=speaker or name,
        base_url=base_url,
        default_model=default_model,
        key_variable=key_variable,
        model_variable=model_variable,
        key_header=key_header,
        aliases=frozenset({name}),
        id_pattern=id_pattern,
        name_pattern=name_pattern,
        system="leading" if chat.alternates else "anywhere",
        alternates=chat.alternates,
        most_calls=128,  # OAI-13
        opens=opens,
        ends=ends,
        blank_texts=blank_texts,
        media=media,
        chat=chat,
    )


_PICTURES = frozenset({"image", "image_url", "gif"})
_OPENAI_MEDIA = _PICTURES | {"audio", "pdf"}
_OPENAI_CHAT = ChatQuirks(
    media=_OPENAI_MEDIA,
    message_keys=("name", "role"),
    cache_mark="prompt_cache_breakpoint",
    cache_key=True,
    refusals=True,  # OAI-11
    custom_tools=True,  # OAI-32
    effort="reasoning_effort",
    web_search="web_search_options",  # OAI-29
    reasoning_models=True,  # OAI-16, OAI-19
)

_ROWS = (
    ProviderRow(
        name="openai",
        dialect="openai_responses",
        speaker="chatgpt",
        base_url="https://api.openai.com/v1",
        default_model="gpt-5.6-terra",
        key_variable="OPENAI_API_KEY",
        model_variable="CHATGPT_MODEL",
        aliases=frozenset({"openai", "gpt"}),
        id_pattern=re.compile(r"[!-~]{1,64}"),  # RSP-07
        blank_texts=True,  # recorded: Mirascope, test_call_with_empty_string
        media=MediaLimits(images=1500, image_patches=30_000),  # OAI-27
    ),
    _compatible(
        "openai-chat",
        "https://api.openai.com/v1",
        "gpt-4.1",
        "OPENAI_API_KEY",
        _OPENAI_CHAT,
        speaker="chatgpt",
        model_variable="CHATGPT_MODEL",
        opens="any",
        ends="any",  # recorded for gpt-4o and gpt-5 (RULES section 9)
        blank_texts=True,  # recorded for user, assistant and tool: Mirascope, OlympiaAI/raix
    ),
    ProviderRow(
        name="anthropic",
        dialect="anthropic",
        speaker="claude",
        base_url="https://api.anthropic.com/v1",
        default_model="claude-sonnet-5",
        key_variable="ANTHROPIC_API_KEY",
        key_header="x-api-key",
        headers={"anthropic-version": "2023-06-01"},
        aliases=frozenset({"anthropic"}),
        id_pattern=re.compile(r"[A-Za-z0-9_-]{1,64}"),  # ANT-05
        system="leading",  # ANT-20
        alternates=True,  # ANT-21
        ends="user",  # ANT-08
        pauses=frozenset({"server_tool_use", "mcp_tool_use", "compaction"}),  # ANT-47
        # ANT-37, ANT-38, ANT-40, ANT-41
        media=MediaLimits(
            images=100,
            image_bytes=10_485_760,
            image_side=8000,
            few=20,
            many_side=2000,
            pdf_pages=100,
        ),
    ),
    ProviderRow(
        name="gemini",
        dialect="gemini",
        speaker="gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        default_model="gemini-3.7-flash",
        key_variable="GEMINI_API_KEY",
        other_key_variables=("GOOGLE_API_KEY",),  # the name that Google's own SDK reads
        model_variable="GEMINI_MODEL",
        key_header="x-goog-api-key",
        aliases=frozenset({"google"}),
        id_pattern=re.compile(r"[!-~]{1,64}"),
        name_pattern=re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}"),  # GEM-11
        system="leading",  # GEM-21
        alternates=True,  # GEM-01
        opens="words",  # GEM-01
        ends="spoken",  # GEM-09
        blank_texts=True,  # GEM-08: AI Studio takes them, Vertex does not
        media=MediaLimits(images=3600),  # GEM-29
    ),
    _compatible(
        "groq",
        "https://api.groq.com/openai/v1",
        "openai/gpt-oss-120b",
        "GROQ_API_KEY",
        ChatQuirks(
            media=_PICTURES,
            thinking_field="reasoning",  # GRQ-01: its own key, and only reasoning that it produced
            max_tokens_key="max_completion_tokens",
            effort="reasoning_effort",
        ),
        opens="any",
        ends="any",  # console.groq.com/docs/prompting: prefilled assistant messages
    ),
    _compatible(
        "cerebras",
        "https://api.cerebras.ai/v1",
        "gpt-oss-120b",
        "CEREBRAS_API_KEY",
        ChatQuirks(
            content="string",  # CER-03
            bare_calls="empty",  # CER-03
            thinking_field="reasoning",  # CER-01
            other_keys={"metadata": ""},
            max_tokens_key="max_completion_tokens",
            effort="reasoning_effort",
        ),
        opens="any",
    ),
    _compatible(
        "fireworks",
        "https://api.fireworks.ai/inference/v1",
        "accounts/fireworks/models/gpt-oss-120b",
        "FIREWORKS_API_KEY",
        ChatQuirks(
            media=frozenset({"image", "image_url"}),
            required="any",  # FWK-02
            schema_rules=FIREWORKS,  # FWK-02
            schema_beside_tools=False,  # FWK-02
            effort="reasoning_effort",
        ),
        opens="any",
    ),
    _compatible(
        "mistral",
        "https://api.mistral.ai/v1",
        "mistral-medium-latest",
        "MISTRAL_API_KEY",
        ChatQuirks(
            alternates=True,  # MIS-05
            other_keys={"seed": "random_seed", "service_tier": ""},
            media=_PICTURES | {"document_url"},  # MIS-14; 18 requests with a GIF recorded
            thinking_field="content",  # MIS-16
            message_keys=("prefix",),  # MIS-11 forbids names
            chunks=True,
            required="any",  # MIS-12
            named_choice=False,  # MIS-12
            schema_rules=MISTRAL,  # MIS-10, MIS-13
            cache_key=True,
            stream_usage=False,  # MIS-11: the usage is sent without a request for it
        ),
        id_pattern=_NINE,  # MIS-01
        opens="any",  # MIS-18
        ends="user",  # MIS-07
    ),
    _compatible(
        "deepseek",
        "https://api.deepseek.com",
        "deepseek-chat",
        "DEEPSEEK_API_KEY",
        ChatQuirks(
            alternates=True,  # DSK-05
            content="string",  # DSK-07
            bare_calls="empty",
            effort="thinking",
            forced_thinking=False,  # DSK-08
            output_schema="json_object",
        ),
        opens="any",  # recorded: rig tests/cassettes/deepseek/wire_shape_matrix
    ),
    _compatible(
        "kimi",
        "https://api.moonshot.ai/v1",
        "kimi-k2.6",
        "MOONSHOT_API_KEY",
        ChatQuirks(
            alternates=True,
            media=frozenset({"image"}),
            bare_calls="empty",
            effort="family",  # KMI-03
            forced_thinking=False,  # KMI-02
            output_schema="json_object",
        ),
        id_pattern=re.compile(r"[!-~]{1,64}"),  # KMI-04: its own ids have colons and dots
    ),
    _compatible(
        "dashscope",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        "qwen-plus",
        "DASHSCOPE_API_KEY",
        ChatQuirks(
            alternates=True,
            media=_PICTURES,  # QWN-03: no files; 8 requests with a GIF recorded
            thinking_field="reasoning_content",
            effort="family",  # QWN-02
            forced_thinking=False,  # QWN-01
        ),
    ),
    _compatible(
        "zai",
        "https://api.z.ai/api/paas/v4",
        "glm-5.2",
        "ZAI_API_KEY",
        ChatQuirks(
            alternates=True,
            thinking_field="reasoning_content",  # ZAI-02
            effort="family",  # ZAI-01
            output_schema="json_object",
        ),
    ),
    _compatible(
        "xai",
        "https://api.x.ai/v1",
        "grok-4.5",
        "XAI_API_KEY",
        ChatQuirks(
            media=_PICTURES,
            # recorded: charmbracelet/fantasy TestOpenAICompatibleThinking/xai-grok-3-mini, 6 requests accepted
            thinking_field="reasoning_content",
            bare_calls="empty",  # XAI-01
            result_names="never",  # XAI-02
            stop=False,  # XAI-02
        ),
        opens="any",
        # XAI-06: 20 MiB, in base64
        media=MediaLimits(
            image_types=frozenset({"image/jpeg", "image/png"}),
            image_bytes=20 * 1024 * 1024 * 4 // 3,
        ),
    ),
    _compatible(
        "openrouter",
        "https://openrouter.ai/api/v1",
        "openai/gpt-5.4-mini",
        "OPENROUTER_API_KEY",
        ChatQuirks(
            alternates=True,
            media=_PICTURES | {"pdf_url"},  # ORT-05; 6 requests with a GIF recorded
            thinking_details=True,  # ORT-03, ORT-09
            message_keys=("name", "role", "annotations", "cache_control"),  # ORT-05, ORT-07
            cache_mark="cache_control",  # ORT-07
            web_search="openrouter",  # ORT-07
        ),
        # ORT-02: every upstream but Mistral accepts these (MIS-01).
        id_pattern=re.compile(r"[A-Za-z0-9_-]{1,64}"),
        name_pattern=_STRICT_NAMES,
    ),
    _compatible(
        "together",
        "https://api.together.xyz/v1",
        "openai/gpt-oss-120b",
        "TOGETHER_API_KEY",
        ChatQuirks(
            alternates=True,
            media=frozenset({"image", "image_url", "video"}),  # ORT-06
            thinking_field="reasoning",  # VLL-08
        ),
    ),
    _compatible(
        "azure",
        "https://YOUR-RESOURCE.openai.azure.com/openai/v1",
        "gpt-4.1",
        "AZURE_OPENAI_API_KEY",
        msgspec.structs.replace(_OPENAI_CHAT, media=_OPENAI_MEDIA - {"pdf"}),  # AZR-04
        key_header="api-key",
        opens="any",
        ends="any",
    ),
    _compatible(
        "ollama",
        "http://localhost:11434/v1",
        "qwen3",
        None,
        ChatQuirks(
            alternates=True,
            media=frozenset({"image"}),  # OLL-05: data only, and no GIF
            thinking_field="reasoning",  # OLL-09
            schema_rules=OLLAMA,  # OLL-06
            effort="reasoning_effort",
        ),
        name_pattern=_STRICT_NAMES,
    ),
    _compatible(
        "vllm",
        "http://localhost:8000/v1",
        "default",
        None,
        ChatQuirks(
            alternates=True,  # VLL-06
            media=frozenset({"image", "image_url"}),
            thinking_field="reasoning",  # VLL-08
        ),
        id_pattern=_NINE,  # VLL-06, VLL-07
        name_pattern=_STRICT_NAMES,
    ),
    _compatible(
        "llamacpp",
        "http://localhost:8080/v1",
        "default",
        None,
        ChatQuirks(
            alternates=True,  # LCP-04, LCP-06
            thinking_field="reasoning_content",  # LCP-09
            result_names="always",  # LCP-06
            schema_rules=LLAMACPP,  # LCP-07
        ),
        id_pattern=_NINE,  # LCP-06
        name_pattern=_STRICT_NAMES,
    ),
    _compatible(
        "lmstudio",
        "http://localhost:1234/v1",
        "default",
        None,
        ChatQuirks(alternates=True, media=frozenset({"image"})),
        id_pattern=_NINE,
        name_pattern=_STRICT_NAMES,
    ),
    _compatible(
        "huggingface",
        "https://router.huggingface.co/v1",
        "openai/gpt-oss-120b",
        "HF_TOKEN",
        # The servers behind the router differ in the key of their reasoning (recorded: maruel/genai providers/huggingface).
        ChatQuirks(alternates=True, media=frozenset({"image", "image_url"}), thinking_field="own"),
        id_pattern=_NINE,
        name_pattern=_STRICT_NAMES,
    ),
)

#: The model inside this process: no address and no key, but it speaks like llama.cpp's server.
EMBEDDED = _compatible(
    "local",
    "",
    "smollm2-135m",
    None,
    ChatQuirks(alternates=True, result_names="always", schema_rules=LLAMACPP),
    id_pattern=_NINE,
    name_pattern=_STRICT_NAMES,
)

ROWS: dict[str, ProviderRow] = {
    row.name: msgspec.structs.replace(row, embeddings=EMBEDDINGS.get(row.name)) for row in _ROWS
}


#: Other common names of providers.
_ALIASES = {
    "chatgpt": "openai", "claude": "anthropic", "google": "gemini", "grok": "xai",
    "moonshot": "kimi", "qwen": "dashscope", "glm": "zai",
}  # fmt: skip


def provider_row(name: object) -> ProviderRow:
    """The row of a provider, by its name or its speaker's name (an enum member is accepted)."""
    row = _find(name)
    if row is None:
        value = getattr(name, "value", name)
        names = {*ROWS, *_ALIASES}
        similar = difflib.get_close_matches(str(value).lower(), sorted(names), n=1)
        advice = f" (did you mean {similar[0]!r}?)" if similar else ""
        raise UsageError(
            f"Unknown provider {value!r}{advice}; known are: {', '.join(sorted(names))}"
        )
    return row


def is_known(name: object) -> bool:
    """Whether a provider of this name has a row."""
    return _find(name) is not None


def plain_row(name: str) -> ProviderRow:
    """The row of a provider that is implemented in Python: no address, no key."""
    return _compatible(name, "", "default", None, ChatQuirks())


def register_row(row: ProviderRow) -> None:
    """Register a provider by its row; a later row of the same name replaces an earlier one."""
    ROWS[row.name] = row
    if row.speaker != row.name:
        _ALIASES.setdefault(row.speaker, row.name)


def _find(name: object) -> ProviderRow | None:
    if type(name) is str and name in ROWS and name not in _ALIASES:  # the usual case
        return ROWS[name]
    key = str(getattr(name, "value", name)).strip().lower()
    return EMBEDDED if key == EMBEDDED.name else ROWS.get(_ALIASES.get(key, key))
