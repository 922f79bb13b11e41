"""A request to a model, before it is written in any provider's form."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from multi_llm_chat.history.values import JsonObject, Turn
from multi_llm_chat.repair.policy import RepairPolicy


class ToolDefinition(Struct, frozen=True):
    """A tool as it is offered to a model; ``schema`` is the full JSON Schema of its arguments."""

    name: str
    description: str = ""
    schema: JsonObject = field(default_factory=dict)


#: ``auto``, ``none``, ``required``, or the name of the one tool to call; ``read_options`` also reads the objects by which
#: OpenAI and Anthropic name one.
ToolChoice: TypeAlias = str


#: Tools that a provider runs itself, in portable words.
ServerToolName: TypeAlias = Literal[
    "web_search", "web_fetch", "code_execution", "file_search", "mcp", "image_generation"
]


class ServerTool(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A tool that the provider runs itself, with settings.

    ``allowed_domains``, ``blocked_domains`` and ``max_uses`` belong to ``web_search`` and ``web_fetch``, ``stores`` (the
    ids of the stores to search) to ``file_search``, the others to ``mcp``. ``authorization`` is the server's token and
    appears in no repr.
    """

    type: ServerToolName
    allowed_domains: tuple[str, ...] = ()
    blocked_domains: tuple[str, ...] = ()
    max_uses: int | None = None
    stores: tuple[str, ...] = ()
    name: str = ""
    url: str = ""
    authorization: str = ""
    allowed_tools: tuple[str, ...] = ()
    approval: bool = False

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"ServerTool({shown})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        values = [(name, getattr(self, name)) for name in self.__struct_fields__]
        given = [(name, value) for name, value in values if value]
        return [(name, "…" if name == "authorization" else value) for name, value in given]


class Options(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of one request. A setting that the provider does not have is left out, and a note says so."""

    max_tokens: int | None = None
    """The most tokens that the answer may have."""
    temperature: float | None = None
    """How much the words vary."""
    thinking: int | str | bool | None = None
    """A token budget, an effort word (``low``, ``medium``, ``high``), ``True`` for the model's own default, or ``False`` for
    off; ``None`` leaves the choice to the provider."""
    tool_choice: ToolChoice | None = None
    """``auto``, ``none``, ``required`` or the name of a tool; the provider's own object form is read, too."""
    schema: JsonObject | None = None
    """The JSON Schema of the answer."""
    stop: tuple[str, ...] = ()
    """Words that end the answer."""
    cache: bool | Literal["auto"] = "auto"
    """What the provider is asked to cache: with ``auto`` what a later request of the conversation can reuse, with ``True``
    the whole request, with ``False`` nothing. Where a provider caches by itself, it does so in any case."""
    server_tools: tuple[ServerTool | ServerToolName, ...] = ()
    """Tools that the provider runs itself: a word such as ``web_search``, or a ``ServerTool``."""
    top_p: float | None = None
    """The share of probability from which words are drawn."""
    seed: int | None = None
    """The seed of the provider's random numbers."""
    parallel_tool_calls: bool | None = None
    """``False`` asks for one call at a time."""
    service_tier: str | None = None
    """The provider's word for how fast it answers."""
    metadata: dict[str, str] | None = None
    """Labels for the provider's own records."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Keys of the request's body that have no name here, as the provider spells them."""


class Transcript(Struct, frozen=True):
    """What one target was sent so far of one conversation: the next request begins with it (SPEC 2.9).

    ``target`` names the receiver and everything that decides how a history is written for it. ``turns`` are those of the
    history, in the order in which they were sent; ``digests`` stand for them where the transcript comes from a store.
    ``messages`` are the JSON texts that were sent, without cache marks of ours. ``tail`` are the turns as they were sent, from
    the model's last passage on, and ``stable`` is how many messages stand before them. ``system_prompt`` is what was sent
    in its place, ``instructions`` what is in force now: a later prompt is a message of its own. ``system_texts`` are those of
    the history's leading system turns. ``tools`` are the tools on offer, ``tools_sent`` a hash of how they were sent. ``names`` leads from the caller's
    tool names to those sent, ``ids`` from call ids as sent to the history's, ``calls`` from the history's call ids to the
    tool and the speaker. ``deferred`` are the tools that were added by a message, ``removed`` those that one took away (ANT-46). ``pictures`` counts them, and ``state`` is the dialect's own. ``rewrites``: the
    messages behind the stable ones are always written again. ``kept`` is how many messages it has from the transcript before it.
    """

    target: str
    turns: tuple[Turn, ...]
    messages: tuple[bytes, ...]
    tail: tuple[Turn, ...]
    stable: int
    system_prompt: str = ""
    instructions: str = ""
    system_texts: tuple[str, ...] = ()
    tools: tuple[ToolDefinition, ...] = ()
    tools_sent: str = ""
    names: dict[str, str] = {}
    ids: dict[str, str] = {}
    calls: dict[str, tuple[str, str]] = {}
    pictures: int = 0
    state: JsonObject = {}
    digests: tuple[bytes, ...] = ()
    rewrites: bool = False
    kept: int = 0
    deferred: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Transcript({len(self.messages)} messages)"


class ModelRequest(Struct, frozen=True):
    """One request to a model: ``render``, ``Exchange``, ``LLMProvider`` and plug-ins take it.

    ``None`` leaves a choice to the provider: its default model, its speaker's name, its address.
    ``skipped_tools`` says of each tool that the caller offered and no model can be offered why it
    is missing from ``tools``. ``messages``, in the provider's own form, are sent in place of ``turns``, unrepaired:
    a provider's own ``format_history`` makes them. ``previous`` is the transcript of an earlier request of the conversation to the
    same target: this one begins with what that one sent. ``conversation`` names the conversation, or is an empty string for a
    loop without a name: later requests will begin with this one, so its provider is asked to cache it. ``headers`` are extra HTTP headers; their values may be secret, so a
    repr shows only their names. The key is not part of a request.
    """

    turns: tuple[Turn, ...]
    provider: str
    model: str | None = None
    system_prompt: str | None = None
    tools: tuple[ToolDefinition, ...] = ()
    skipped_tools: tuple[str, ...] = ()
    policy: RepairPolicy | None = None
    options: Options = Options()
    stream: bool = True
    speaker: str | None = None
    base_url: str | None = None
    messages: tuple[JsonObject, ...] | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    previous: Transcript | None = None
    conversation: str | None = None

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"ModelRequest({shown})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        shown = {name: getattr(self, name) for name in self.__struct_fields__}
        return list((shown | {"headers": sorted(self.headers)}).items())
