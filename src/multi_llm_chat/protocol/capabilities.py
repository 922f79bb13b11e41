"""What models take, by family.

Rules:
1. ``model_families.json`` is the only table: rows by a pattern or a prefix of a model's name; the first that fits counts.
   Its part ``table`` has every cell that is known (state of November 2026) with its grade; the other parts are what requests are
   written by.
2. The file is read with the first request. What is found for a name is kept.
3. What is not known of a model is not sent. A Claude or GPT whose name is not in the table is taken for a newest one.
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

#: Words for how deep a model thinks, from the lowest.
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def nearest_effort(wanted: str, accepted: Sequence[str]) -> str | None:
    """The accepted word for the wanted effort, else the nearest lower one, else the lowest (ANT-36, OAI-30)."""
    if wanted in accepted or not accepted:
        return wanted if accepted else None
    reach = _reach(wanted)
    lower = [word for word in accepted if _reach(word) <= reach]
    return lower[-1] if lower else accepted[0]


def _reach(word: str) -> int:
    return _EFFORTS.index(word if word in _EFFORTS else "high")


class OpenAICapabilities(Struct, frozen=True, forbid_unknown_fields=True):
    """What a model of OpenAI's takes, by a pattern of its name.

    ``reasons``: never, always, only when an effort is asked for, or unless the effort is ``none``. ``efforts`` are the
    words it knows, from the lowest. ``chat_tools``: function tools stand beside reasoning on Chat Completions, too.
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
        """Whether it reasons in a request with this effort; sampling parameters are refused then (OAI-19)."""
        if self.reasons in ("never", "always"):
            return self.reasons == "always"
        return self.reasons == "default" if effort is None else effort != "none"

    def effort(self, wanted: int | str | bool | None, word: str | None) -> str | None:
        """The word to send for a wanted depth, ``word`` in general terms: the nearest lower one, else the lowest (OAI-30)."""
        if wanted is None or not self.efforts:
            return None
        if wanted is True:
            return "medium" if self.reasons == "asked" else None
        word = "none" if wanted is False or word is None else word
        return nearest_effort(word, self.efforts)


class ClaudeFamily(Struct, frozen=True, forbid_unknown_fields=True):
    """What the models of one Claude family take; the default is what the newest take.

    ``thinking`` is how it is asked for, ``off`` what turns it off (empty: nothing does), ``thinks`` whether it is on where the
    request says nothing. ``binds_thinking``: a thinking block is valid only behind the prefix it was made for (ANT-28).
    ``later_system``: system messages may stand in mid-conversation (ANT-45). ``prefill``: a request may end with the beginning of
    the answer (ANT-08). ``first_user``: the user must speak first; later models were recorded without it (ANT-21). ``wants_tools``: tool blocks in the history need declared
    tools (ANT-16).
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
    """How the models of one Gemini family take how deep to think: a word of ``levels``, from the lowest, or a budget (GEM-28).

    A budget is ``least`` to ``most`` tokens; ``off`` says that it may be 0 as well. ``thinks``: it can think at all.
    """

    match: str = ""
    levels: tuple[str, ...] = ()
    least: int = 0
    most: int = 24_576
    off: bool = True
    thinks: bool = True


class ChatFamily(Struct, frozen=True, forbid_unknown_fields=True):
    """How deep models on servers of the OpenAI dialect think.

    ``thinks``: never, always, only when asked, or unless it is turned off. ``switch`` is the field that turns it on and off,
    ``efforts`` the words it knows, ``most_tokens`` the largest limit it takes.
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
    """What a user can do with the models of a family, on any server.

    ``thinks`` is set where the rows of the dialects do not know it. From the makers' pages of models
    (platform.openai.com/docs/models, ai.google.dev/gemini-api/docs/models, docs.claude.com), November 2026.
    """

    match: str
    tools: bool = True
    pictures: bool = False
    thinks: bool | None = None


class ModelTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The file: rows for requests, and all that is known of each family in words (``table``)."""

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
    """All rows, those of packages first."""
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
    """Forget what was found for a name; ``added``: also the rows of packages."""
    if added:
        _brought.clear()
    for found in (model_table, openai_model, claude_family, gemini_family, chat_family):
        found.cache_clear()


@lru_cache(maxsize=256)  # the same few names, for every request
def openai_model(model: str) -> OpenAICapabilities:
    """What the model takes; a name that is not in the table is one that does not reason."""
    rows = model_table().openai
    return next(row for row in rows if re.search(rf"(?:^|/){row.match}", model) or not row.match)


_LATER_VERSION = re.compile(r"\d|-\d{1,2}(?!\d)")


@lru_cache(maxsize=256)
def claude_family(model: str) -> ClaudeFamily:
    """What the model takes. A row covers the name itself and dated or suffixed forms of it, but no later version."""
    name = model.lower().rpartition("claude-")[2].replace(".", "-").replace("@", "-")
    for family in model_table().claude:
        rest = name.removeprefix(family.name)
        if rest != name and (family.name[0].isdigit() or not _LATER_VERSION.match(rest)):
            return family
    return ClaudeFamily()


@lru_cache(maxsize=256)
def gemini_family(model: str) -> GeminiFamily:
    """How deep the model can think."""
    return next(row for row in model_table().gemini if re.search(row.match, model))


@lru_cache(maxsize=256)
def chat_family(provider: str, model: str) -> ChatFamily | None:
    """How deep the model can think on this server; None if nothing is known."""
    rows = (row for row in model_table().chat if provider in row.providers)
    return next((row for row in rows if re.search(row.match, model.lower())), None)


def abilities_of(provider: str, model: str) -> frozenset[str]:
    """What the model can do, in words of ``tools``, ``pictures`` and ``thinking``; none if nothing is known."""
    name = model.lower()
    row = next((row for row in model_table().inputs if re.search(row.match, name)), None)
    if row is None:
        return frozenset()
    thinks = (row.tools and _thinks(provider, name)) if row.thinks is None else row.thinks
    found = {"tools": row.tools, "pictures": row.pictures, "thinking": thinks}
    return frozenset(word for word, is_able in found.items() if is_able)


def _thinks(provider: str, name: str) -> bool:
    """Whether the families say that the model can think."""
    if "claude" in name:
        return claude_family(name).thinking != ""
    if "gemini" in name:
        return gemini_family(name).thinks
    family = chat_family(provider, name)
    return (family or openai_model(name)).thinks_at_all


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


# Embeddings.


class EmbeddingsApi(Struct, frozen=True):
    """A provider's endpoint for embeddings.

    ``most_texts`` go into one request; the length of vectors is chosen under ``dimensions_key``, empty where it cannot be.
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
