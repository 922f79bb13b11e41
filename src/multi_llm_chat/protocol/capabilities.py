"""The capabilities of models, by family.

Rules:
1. ``model_families.json`` is the only table: rows by a pattern or a prefix of a model's name; the first match decides.
   Its part ``table`` has every known cell (state of November 2026) with its grade; requests are written from the other parts.
2. The file is read with the first request. The result for a name is cached.
3. A setting is sent only if the model is known to accept it. A Claude or GPT whose name is not in the table is treated as one of
   the newest.
4. A package brings its own rows with ``add_families``; they come before ours.
5. The conformance kit has its own table and imports none of this; ``tests/protocol/test_capabilities.py`` compares the two.
"""

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

#: The names of thinking efforts, from the lowest.
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def nearest_effort(wanted: str, accepted: Sequence[str]) -> str | None:
    """The requested effort if it is accepted, else the nearest lower one, else the lowest (ANT-36, OAI-30)."""
    if wanted in accepted or not accepted:
        return wanted if accepted else None
    reach = _reach(wanted)
    lower = [word for word in accepted if _reach(word) <= reach]
    return lower[-1] if lower else accepted[0]


def _reach(word: str) -> int:
    return _EFFORTS.index(word if word in _EFFORTS else "high")


class OpenAICapabilities(Struct, frozen=True, forbid_unknown_fields=True):
    """The capabilities of an OpenAI model, by a pattern of its name.

    ``reasons``: never, always, only if an effort is requested, or unless the effort is ``none``. ``efforts`` are the
    efforts it accepts, from the lowest. ``chat_tools``: Chat Completions, too, accepts function tools together with reasoning.
    """

    match: str = ""
    reasons: Literal["never", "always", "asked", "default"] = "never"
    efforts: tuple[str, ...] = ()
    chat_tools: bool = True
    stop: bool = False
    system: bool = True

    @property
    def thinks_at_all(self) -> bool:
        """Whether a request can make it reason."""
        return self.reasons != "never"

    def is_reasoning(self, effort: str | None) -> bool:
        """Whether it reasons in a request with this effort; then it refuses sampling parameters (OAI-19)."""
        if self.reasons in ("never", "always"):
            return self.reasons == "always"
        return self.reasons == "default" if effort is None else effort != "none"

    def effort(self, wanted: int | str | bool | None, word: str | None) -> str | None:
        """The effort to send for a requested ``word``: the same, else the nearest lower one, else the lowest (OAI-30)."""
        if wanted is None or not self.efforts:
            return None
        if wanted is True:
            return "medium" if self.reasons == "asked" else None
        word = "none" if wanted is False or word is None else word
        return nearest_effort(word, self.efforts)


class ClaudeFamily(Struct, frozen=True, forbid_unknown_fields=True):
    """The capabilities of one Claude family; the defaults are those of the newest models.

    ``thinking`` is how thinking is requested, ``off`` what turns it off (empty: nothing does), ``thinks`` whether it is on by
    default. ``binds_thinking``: a thinking block is valid only after the prefix it was made for (ANT-28).
    ``later_system``: system messages are allowed in mid-conversation (ANT-45). ``prefill``: a request may end with the beginning
    of the answer (ANT-08). ``first_user``: the first turn must be a user turn; later models were recorded without it (ANT-21).
    ``wants_tools``: if the history has tool blocks, the request must declare tools (ANT-16).
    """

    name: str = ""
    thinking: Literal["adaptive", "budget", ""] = "adaptive"
    off: Literal["disabled", "between_tools", ""] = ""
    thinks: bool = True
    efforts: tuple[str, ...] = ("low", "medium", "high", "xhigh", "max")
    temperature: bool = False
    forced_tools: bool = False
    binds_thinking: bool = True
    later_system: bool = True
    prefill: bool = False
    first_user: bool = False
    wants_tools: bool = False


class GeminiFamily(Struct, frozen=True, forbid_unknown_fields=True):
    """The thinking settings of one Gemini family: one of ``levels``, from the lowest, or a budget (GEM-28).

    A budget is ``least`` to ``most`` tokens; ``off``: it may also be 0. ``thinks``: the models can think at all.
    """

    match: str = ""
    levels: tuple[str, ...] = ()
    least: int = 0
    most: int = 24_576
    off: bool = True
    thinks: bool = True


class ChatFamily(Struct, frozen=True, forbid_unknown_fields=True):
    """The thinking settings of models on servers of the OpenAI dialect.

    ``thinks``: never, always, only if requested, or unless it is turned off. ``switch`` is the field that turns it on and off,
    ``efforts`` are the efforts it accepts, ``most_tokens`` is the largest token limit it accepts.
    """

    providers: tuple[str, ...]
    match: str = ""
    thinks: Literal["never", "always", "asked", "default"] = "never"
    efforts: tuple[str, ...] = ()
    switch: Literal["thinking", "enable_thinking", ""] = ""
    most_tokens: int | None = None
    rules: tuple[str, ...] = ()

    @property
    def thinks_at_all(self) -> bool:
        """Whether a request can make it think."""
        return self.thinks != "never"


class InputFamily(Struct, frozen=True, forbid_unknown_fields=True):
    """The inputs and tools that the models of a family support, on any server.

    ``thinks`` is set only for families that the rows of the dialects do not have. From the vendors' pages of models
    (platform.openai.com/docs/models, ai.google.dev/gemini-api/docs/models, docs.claude.com), November 2026.
    """

    match: str
    tools: bool = True
    pictures: bool = False
    thinks: bool | None = None


class ModelTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The file: rows for requests, and ``table`` with everything that is known of each family."""

    date: str = ""
    openai: tuple[OpenAICapabilities, ...] = ()
    claude: tuple[ClaudeFamily, ...] = ()
    gemini: tuple[GeminiFamily, ...] = ()
    chat: tuple[ChatFamily, ...] = ()
    inputs: tuple[InputFamily, ...] = ()
    table: tuple[dict[str, str], ...] = ()


_brought: list[ModelTable] = []


@cache
def model_table() -> ModelTable:
    """All rows, those added with ``add_families`` first."""
    data = Path(__file__).with_name("model_families.json").read_bytes()
    whole = msgspec.json.decode(data, type=ModelTable)
    for more in _brought:
        whole = replace(
            whole,
            openai=more.openai + whole.openai,
            claude=more.claude + whole.claude,
            gemini=more.gemini + whole.gemini,
            chat=more.chat + whole.chat,
            inputs=more.inputs + whole.inputs,
            table=more.table + whole.table,
        )
    return whole


def add_families(table: ModelTable | bytes) -> None:
    """Add a package's own rows, as a value or as JSON of the form of ``model_families.json``."""
    _brought.append(
        msgspec.json.decode(table, type=ModelTable) if isinstance(table, bytes) else table
    )
    forget_families()


def forget_families(*, added: bool = False) -> None:
    """Clear the caches; with ``added``, also remove the rows that packages have added."""
    if added:
        _brought.clear()
    for found in (model_table, openai_model, claude_family, gemini_family, chat_family):
        found.cache_clear()


@lru_cache(maxsize=256)  # requests use the same few names
def openai_model(model: str) -> OpenAICapabilities:
    """The model's capabilities; a model that is not in the table does not reason."""
    rows = model_table().openai
    return next(row for row in rows if re.search(rf"(?:^|/){row.match}", model) or not row.match)


_LATER_VERSION = re.compile(r"\d|-\d{1,2}(?!\d)")


@lru_cache(maxsize=256)
def claude_family(model: str) -> ClaudeFamily:
    """The model's family. A row matches the name itself and dated or suffixed forms of it, but no later version."""
    name = model.lower().rpartition("claude-")[2].replace(".", "-").replace("@", "-")
    for family in model_table().claude:
        rest = name.removeprefix(family.name)
        if rest != name and (family.name[0].isdigit() or not _LATER_VERSION.match(rest)):
            return family
    return ClaudeFamily()


@lru_cache(maxsize=256)
def gemini_family(model: str) -> GeminiFamily:
    """The model's thinking settings."""
    return next(row for row in model_table().gemini if re.search(row.match, model))


@lru_cache(maxsize=256)
def chat_family(provider: str, model: str) -> ChatFamily | None:
    """The model's thinking settings on this server; None if they are unknown."""
    rows = (row for row in model_table().chat if provider in row.providers)
    return next((row for row in rows if re.search(row.match, model.lower())), None)


def abilities_of(provider: str, model: str) -> frozenset[str]:
    """The model's abilities: any of ``tools``, ``pictures`` and ``thinking``; empty if none is known."""
    name = model.lower()
    row = next((row for row in model_table().inputs if re.search(row.match, name)), None)
    if row is None:
        return frozenset()
    thinks = (row.tools and _thinks(provider, name)) if row.thinks is None else row.thinks
    found = {"tools": row.tools, "pictures": row.pictures, "thinking": thinks}
    return frozenset(word for word, is_able in found.items() if is_able)


def _thinks(provider: str, name: str) -> bool:
    """Whether the model's family can think."""
    if "claude" in name:
        return claude_family(name).thinking != ""
    if "gemini" in name:
        return gemini_family(name).thinks
    family = chat_family(provider, name)
    return (family or openai_model(name)).thinks_at_all


_GEMINI_VERSION = re.compile(r"gemini-(\d+)")


def gemini_generation(model: str) -> int:
    """The generation in a model's name; an alias without a number counts as the current generation."""
    found = _GEMINI_VERSION.search(model)
    if found is not None:
        return int(found[1])
    return 3 if "gemini" in model else 0


def signs_calls(model: str) -> bool:
    """Whether the first call of each step must have a thought signature (GEM-04)."""
    return gemini_generation(model) >= 3


# Embeddings.


class EmbeddingsApi(Struct, frozen=True):
    """A provider's endpoint for embeddings.

    One request takes at most ``most_texts``; ``dimensions_key`` is the key for the length of vectors, empty if it is fixed.
    """

    default_model: str
    most_texts: int = 100
    dimensions_key: str = "dimensions"


#: The rows that have an endpoint for embeddings (docs read 2026-11). The others have none: Anthropic, Groq, Cerebras,
#: DeepSeek, Kimi, xAI; Hugging Face's router and Z.ai have none that is documented for their address here.
EMBEDDINGS = {
    # 2,048 texts: platform.openai.com/docs/api-reference/embeddings
    "openai": EmbeddingsApi("text-embedding-3-small", 2048),
    "openai-chat": EmbeddingsApi("text-embedding-3-small", 2048),
    "azure": EmbeddingsApi("text-embedding-3-small", 2048),
    # batchEmbedContents takes 100: ai.google.dev/api/embeddings
    "gemini": EmbeddingsApi("gemini-embedding-001", 100, "outputDimensionality"),
    # docs.mistral.ai/api/endpoint/embeddings; 257 texts are refused (rig-core 0.42, tried at the API)
    "mistral": EmbeddingsApi("mistral-embed", 256, "output_dimension"),
    # help.aliyun.com/model-studio/embedding-interfaces-compatible-with-openai: 10 rows
    "dashscope": EmbeddingsApi("text-embedding-v4", 10),
    # docs.fireworks.ai/guides/querying-embeddings-models
    "fireworks": EmbeddingsApi("fireworks/qwen3-embedding-8b"),
    # docs.together.ai/reference/embeddings has no such setting
    "together": EmbeddingsApi("intfloat/multilingual-e5-large-instruct", dimensions_key=""),
    "openrouter": EmbeddingsApi("openai/text-embedding-3-small"),
    "ollama": EmbeddingsApi("nomic-embed-text"),  # ollama docs, openai compatibility
    "vllm": EmbeddingsApi("default"),
    "llamacpp": EmbeddingsApi("default", dimensions_key=""),  # tools/server/README.md
    "lmstudio": EmbeddingsApi("default", dimensions_key=""),
}
