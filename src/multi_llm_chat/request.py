"""A request to a model, independent of any provider's format."""

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


#: Provider-independent names of tools that the provider runs itself.
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
    """Settings of one request. A setting that the provider does not support is left out, and a note says so."""

    max_tokens: int | None = None
    """The most tokens that the answer may have."""
    temperature: float | None = None
    """The sampling temperature: how much the text varies."""
    thinking: int | str | bool | None = None
    """A token budget, an effort word (``low``, ``medium``, ``high``), ``True`` for the model's own default, or ``False`` for
    off; ``None`` leaves the choice to the provider."""
    tool_choice: ToolChoice | None = None
    """``auto``, ``none``, ``required`` or the name of a tool; the provider's own object form is read, too."""
    schema: JsonObject | None = None
    """The JSON Schema of the answer."""
    stop: tuple[str, ...] = ()
    """Stop sequences: texts that end the answer."""
    cache: bool | Literal["auto"] = "auto"
    """What the provider is asked to cache: with ``auto`` what a later request of the conversation can reuse, with ``True``
    the whole request, with ``False`` nothing. A provider that caches automatically does so in any case."""
    server_tools: tuple[ServerTool | ServerToolName, ...] = ()
    """Tools that the provider runs itself: a word such as ``web_search``, or a ``ServerTool``."""
    top_p: float | None = None
    """Nucleus sampling: the share of probability mass from which tokens are drawn."""
    seed: int | None = None
    """The seed of the provider's random numbers."""
    parallel_tool_calls: bool | None = None
    """Whether one turn may have several tool calls; ``False`` asks for one call at a time."""
    service_tier: str | None = None
    """The service tier, in the provider's terms: how fast and at which price it answers."""
    metadata: dict[str, str] | None = None
    """Labels for the provider's own records."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Further keys of the request's body, as the provider spells them."""


class Transcript(Struct, frozen=True):
    """What was sent to one target so far in one conversation; the next request begins with the same messages (SPEC 2.9).

    - ``target``: a key for the receiver and everything that determines how a history is written for it.
    - ``turns``: the turns of the history, in the order in which they were sent; ``digests`` are their hashes, used instead if the
      transcript was loaded from a store.
    - ``messages``: the JSON texts that were sent, without the cache marks that this library adds.
    - ``tail``: the turns as they were sent, starting at the model's last passage (its last neighbouring turns); ``stable`` is
      the number of messages before them.
    - ``system_prompt``: the system prompt that was sent at the beginning; ``instructions`` is the one in force now (a changed
      prompt is sent as a message); ``system_texts`` are the texts of the history's leading system turns.
    - ``tools``: the tools on offer; ``tools_sent`` is a hash of their encoded form.
    - ``names``: maps the caller's tool names to the names sent; ``ids`` maps call ids as sent to those of the history;
      ``calls`` maps the history's call ids to the tool and the speaker.
    - ``deferred``: the tools that a message has added; ``removed``: those that a message has removed (ANT-46);
      ``has_tool_changes``: there is such a message, even if all tools are back.
    - ``pictures``: the number of images; ``state``: data of the dialect's encoder.
    - ``rewrites``: the messages after the stable ones are always written again.
    - ``kept``: how many messages were taken over from the transcript before this one.
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
    has_tool_changes: bool = False

    def __repr__(self) -> str:
        return f"Transcript({len(self.messages)} messages)"


class ModelRequest(Struct, frozen=True):
    """One request to a model: ``render``, ``Exchange``, ``LLMProvider`` and plug-ins take it.

    ``None`` means the provider's default: its model, its name as the speaker, its address.
    ``skipped_tools`` has one line for each tool of the caller that is not in ``tools``: why it cannot be offered to a model.
    ``messages``, in the provider's format, are sent without repair in place of ``turns``; ``format_history`` of a plug-in
    makes them. ``previous`` is the transcript of an earlier request of the conversation to the same target: this request begins
    with the messages of that one. ``conversation`` names the conversation, and is an empty string for a loop without a name;
    if it is not None, later requests will begin with this one, so the provider is asked to cache it. ``headers`` are extra HTTP
    headers; their values may be secret, so a repr shows only their names. The API key is not part of a request.
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
