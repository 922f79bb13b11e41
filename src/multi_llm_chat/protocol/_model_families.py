"""What a model demands beyond its server, by its name.

Rules:
1. A chat template travels with the model: ``row_for_model`` changes a server's row where the model's family
   demands it, wherever the model runs.
2. What a Claude model takes is a row of ``_CLAUDE`` (RULES section 9, state of November 2026).
3. A name that is not in a table is taken for a newest model.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

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
_VOXTRAL = re.compile(r"voxtral", re.IGNORECASE)
_VISION = re.compile(
    r"llava|vision|[-_.]vl\b|\bvl[-_]|\dvl|gemma-?3(?!n)|pixtral|minicpm-?[vo]|internvl|smolvlm|moondream|llama-?4",
    re.IGNORECASE,
)
_LLAMA = re.compile(r"llama[-_ ]?3[._p]?[12]\b", re.IGNORECASE)
_LOCAL_SERVERS = frozenset({"vllm", "llamacpp", "lmstudio", "huggingface"})


def _mistral(row: ProviderRow, _thinking: Thinks) -> ProviderRow:
    """Mistral's own template and validator, wherever they run (MIS-01, MIS-06, AZR-03); its own API takes more (MIS-18)."""
    is_own = row.name == "mistral"
    return msgspec.structs.replace(
        row,
        id_pattern=_NINE,
        system="leading",
        alternates=True,
        opens="words" if is_own else "user",
        ends="user",
        chat=msgspec.structs.replace(
            row.chat, alternates=True, answers_after_tools=not is_own, reasoning_models=False
        ),
    )


def _early_mistral(row: ProviderRow, _thinking: Thinks) -> ProviderRow:
    """Models of the third tokenizer and before: "either content or tool_calls, but not both" (MIS-08)."""
    if row.name != "mistral":
        return row
    return msgspec.structs.replace(
        row, chat=msgspec.structs.replace(row.chat, words_beside_calls=False)
    )


def _voxtral(row: ProviderRow, _thinking: Thinks) -> ProviderRow:
    """Voxtral takes sound, as plain base64 text (MIS-15)."""
    if row.name != "mistral":
        return row
    return _with_media(row, "audio_text")


def _vision(row: ProviderRow, _thinking: Thinks) -> ProviderRow:
    """A vision model on llama.cpp's server takes pictures as data (LCP-08)."""
    return _with_media(row, "image") if row.name == "llamacpp" else row


def _compound(row: ProviderRow, _thinking: Thinks) -> ProviderRow:
    """Groq's agents: "last message role must be 'user'" (danielmiessler/Fabric#2108, 2026-05-01)."""
    if row.name != "groq":
        return row
    return msgspec.structs.replace(row, ends="user", system="leading")


def _deaf(row: ProviderRow, _thinking: Thinks) -> ProviderRow:
    """OpenAI's models take sound only where their name says so (OAI-25)."""
    if row.name not in {"openai-chat", "azure"}:
        return row
    chat = msgspec.structs.replace(row.chat, media=row.chat.media - {"audio"})
    return msgspec.structs.replace(row, chat=chat)


def _gemini(row: ProviderRow, _thinking: Thinks) -> ProviderRow:
    """Gemini behind OpenRouter takes video and sound (ORT-06)."""
    return _with_media(row, "video", "audio") if row.name == "openrouter" else row


def _with_media(row: ProviderRow, *kinds: str) -> ProviderRow:
    chat = msgspec.structs.replace(row.chat, media=row.chat.media.union(kinds))
    return msgspec.structs.replace(row, chat=chat)


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
    (_VOXTRAL, _voxtral),
    (_VISION, _vision),
    (re.compile(r"^(?:groq/)?compound"), _compound),
    (re.compile(r"^(?!.*audio)"), _deaf),
    (re.compile(r"^google/gemini"), _gemini),
    (re.compile(r"deepseek"), _deepseek),
)


def row_for_model(
    row: ProviderRow,
    model: str,
    thinking: int | str | bool | None = None,
    *,
    structured: bool = False,
) -> ProviderRow:
    """The row as it is for this model; ``thinking`` is the wish of ``Options`` of that name, ``structured`` that a schema is given."""
    if row.dialect == "anthropic":
        family = claude_family(model)
        # Neither thinking nor a schema for the answer goes with the beginning of an answer.
        prefill = family.prefill and not structured and thinking in (None, False, 0, "none")
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
    return row


#: Words for how deep a model thinks, from the lowest.
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def nearest_effort(wanted: str, accepted: Sequence[str]) -> str | None:
    """The accepted word for the wanted effort, else the nearest lower one, else the lowest (ANT-36, OAI-30)."""
    if wanted in accepted or not accepted:
        return wanted if accepted else None
    reach = _EFFORTS.index(wanted) if wanted in _EFFORTS else _EFFORTS.index("high")
    lower = [word for word in accepted if _EFFORTS.index(word) <= reach]
    return lower[-1] if lower else accepted[0]


# OpenAI's own models; both of its dialects ask (RULES section 9, November 2026).


class OpenAICapabilities(msgspec.Struct, frozen=True):
    """What a model of OpenAI's takes.

    ``reasons``: never, always, only when an effort is asked for, or unless the effort is ``none``. ``efforts`` are the
    words it knows, from the lowest. ``chat_tools``: function tools stand beside reasoning on Chat Completions, too.
    """

    reasons: Literal["never", "always", "asked", "default"] = "never"
    efforts: tuple[str, ...] = ()
    chat_tools: bool = True
    stop: bool = False
    system: bool = True

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


_LOW_TO_HIGH = ("low", "medium", "high")
_SWITCHED = ("none", *_LOW_TO_HIGH)
_NEWEST_GPT = OpenAICapabilities("default", (*_SWITCHED, "xhigh", "max"), chat_tools=False)

#: By name; the first row that fits counts. What is not known of a model is left out of requests.
_OPENAI: tuple[tuple[re.Pattern[str], OpenAICapabilities], ...] = tuple(
    (re.compile(rf"(?:^|/){pattern}"), model)
    for pattern, model in (
        (r"o1-(?:mini|preview)", OpenAICapabilities("always", system=False)),  # OAI-28
        (r"o3-mini", OpenAICapabilities("always", _LOW_TO_HIGH, stop=True)),
        (r"o[1-9]", OpenAICapabilities("always", _LOW_TO_HIGH)),
        (r"gpt-5-chat", OpenAICapabilities(stop=True)),
        (r"gpt-5-pro", OpenAICapabilities("always", ("high",))),
        (r"gpt-5(?![.\d])", OpenAICapabilities("always", ("minimal", *_LOW_TO_HIGH))),
        (r"gpt-\d+\.\d+.*-chat", OpenAICapabilities("always", ("medium",))),
        (
            r"gpt-5\.[4-9].*-pro",
            OpenAICapabilities("always", ("medium", "high", "xhigh"), chat_tools=False),
        ),
        (r"gpt-\d+\.\d+.*-pro", OpenAICapabilities("always", ("medium", "high", "xhigh"))),
        (r"gpt-\d+\.\d+.*-codex", OpenAICapabilities("always", _LOW_TO_HIGH)),
        (r"gpt-5\.1", OpenAICapabilities("asked", _SWITCHED)),
        (r"gpt-5\.[23]", OpenAICapabilities("asked", (*_SWITCHED, "xhigh"))),
        (
            r"gpt-5\.4",
            OpenAICapabilities("asked", (*_SWITCHED, "xhigh"), chat_tools=False),
        ),  # OAI-16
        (r"gpt-5\.5", OpenAICapabilities("default", (*_SWITCHED, "xhigh"), chat_tools=False)),
        (r"gpt-(?:5\.\d|[6-9]|\d\d)", _NEWEST_GPT),
    )
)
_PLAIN_GPT = OpenAICapabilities(stop=True)


@lru_cache(maxsize=256)  # the same few names, for every request
def openai_model(model: str) -> OpenAICapabilities:
    """What the model takes; a name that is not in the table is one that does not reason."""
    return next((row for pattern, row in _OPENAI if pattern.search(model)), _PLAIN_GPT)


# Claude models.


class ClaudeFamily(Struct, frozen=True):
    """What the models of one Claude family take; the default is what the newest take.

    ``thinking`` is how it is asked for, ``off`` what turns it off (empty: nothing does), ``thinks`` whether it is on where the
    request says nothing. ``binds_thinking``: a thinking block is valid only behind the prefix it was made for (ANT-28).
    ``later_system``: system messages may stand in mid-conversation (ANT-45). ``prefill``: a request may end with the beginning of
    the answer (ANT-08). ``first_user``: the user must speak first; later models were recorded without it (ANT-21). ``wants_tools``: tool blocks in the history need declared
    tools (ANT-16).
    """

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


_BOUND = ClaudeFamily()
_FIVE = ClaudeFamily(forced_tools=True, binds_thinking=False)
_FOUR_SEVEN = ClaudeFamily(
    off="disabled", thinks=False, forced_tools=True, binds_thinking=False, later_system=False
)
_FOUR_SIX = msgspec.structs.replace(
    _FOUR_SEVEN, efforts=("low", "medium", "high", "max"), temperature=True
)
_FOUR_FIVE = msgspec.structs.replace(_FOUR_SIX, thinking="budget", efforts=(), prefill=True)
_OLDER = msgspec.structs.replace(_FOUR_FIVE, first_user=True, wants_tools=True)

#: The longest name first. Fable, Mythos: always think (ANT-32); a forced tool is refused from 5.1 on (ANT-34).
_CLAUDE: tuple[tuple[str, ClaudeFamily], ...] = (
    ("sonnet-5-5", msgspec.structs.replace(_BOUND, off="between_tools")),
    ("haiku-5-5", msgspec.structs.replace(_BOUND, off="disabled", forced_tools=True)),
    ("opus-5-5", _BOUND),
    ("sonnet-4-0", _OLDER),
    ("sonnet-4-5", _FOUR_FIVE),
    ("sonnet-4-6", _FOUR_SIX),
    ("haiku-4-5", _FOUR_FIVE),
    ("opus-4-0", _OLDER),
    ("opus-4-1", _OLDER),
    ("opus-4-5", msgspec.structs.replace(_FOUR_FIVE, efforts=("low", "medium", "high"))),
    ("opus-4-6", _FOUR_SIX),
    ("opus-4-7", _FOUR_SEVEN),
    ("opus-4-8", msgspec.structs.replace(_FOUR_SEVEN, later_system=True)),
    ("sonnet-5", msgspec.structs.replace(_FIVE, off="disabled", later_system=False)),
    ("mythos-5", _FIVE),
    ("fable-5", _FIVE),
    ("opus-5", msgspec.structs.replace(_FIVE, off="disabled")),
    ("sonnet-4", _OLDER),
    ("opus-4", _OLDER),
    ("3-7", _OLDER),
    ("3", msgspec.structs.replace(_OLDER, thinking="")),
    ("2", msgspec.structs.replace(_OLDER, thinking="")),
)


_LATER_VERSION = re.compile(r"\d|-\d{1,2}(?!\d)")


@lru_cache(maxsize=256)  # the same few names, for every request
def claude_family(model: str) -> ClaudeFamily:
    """What the model takes. A row covers the name itself and dated or suffixed forms of it, but no later version."""
    name = model.lower().rpartition("claude-")[2].replace(".", "-").replace("@", "-")
    for prefix, family in _CLAUDE:
        rest = name.removeprefix(prefix)
        if rest != name and (prefix[0].isdigit() or not _LATER_VERSION.match(rest)):
            return family
    return _BOUND


# Gemini models.

_GEMINI_VERSION = re.compile(r"gemini-(\d+)")


def gemini_generation(model: str) -> int:
    """The generation in a model's name; an unnumbered alias is taken for a current one."""
    found = _GEMINI_VERSION.search(model)
    if found is not None:
        return int(found[1])
    return 3 if "gemini" in model else 0


class GeminiThinking(Struct, frozen=True):
    """How a Gemini model is told how deep to think: a word of ``levels``, from the lowest, or a budget (GEM-28).

    A budget is ``least`` to ``most`` tokens; ``off`` says that it may be 0 as well.
    """

    levels: tuple[str, ...] = ()
    least: int = 0
    most: int = 24_576
    off: bool = True


#: By name; the first row that fits counts. A name that is in no row takes the words that all newer models take.
_GEMINI_THINKING: tuple[tuple[re.Pattern[str], GeminiThinking], ...] = tuple(
    (re.compile(pattern), row)
    for pattern, row in (
        (r"gemini-2\.5-flash-lite", GeminiThinking(least=512)),
        (r"gemini-2\.5-pro", GeminiThinking(least=128, most=32_768, off=False)),
        (r"gemini-[12]", GeminiThinking()),
        (r"gemini-3-pro", GeminiThinking(("low", "high"))),
        (r"gemini-3(?:\.\d)?-flash-lite", GeminiThinking(("minimal", *_LOW_TO_HIGH))),
        (r"gemini-3(?:\.[1-6])?-flash", GeminiThinking(("minimal", *_LOW_TO_HIGH))),
    )
)


def gemini_thinking(model: str) -> GeminiThinking:
    """How the model is told how deep to think."""
    newer = GeminiThinking(_LOW_TO_HIGH)
    return next((row for pattern, row in _GEMINI_THINKING if pattern.search(model)), newer)


def signs_calls(model: str) -> bool:
    """Whether the first call of each step must bear a thought signature (GEM-04)."""
    return gemini_generation(model) >= 3
