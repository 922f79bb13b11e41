"""Events and requests of servers, as values of our own.

Rules:
1. Callbacks for events are called in the background loop's thread: they must be quick and must not wait.
2. Questions are answered by the user's callback, which may be ``async``; a plain function is called in
   a thread of its own. Without a callback, or if it fails, the question is declined.
3. URLs are only shown; this package never opens one.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from multi_llm_chat.history.values import JsonObject, ToolCall

ServerState: TypeAlias = Literal["stopped", "starting", "ready", "restarting", "failed"]


class StateChanged(Struct, frozen=True):
    """A server started, ended or failed; ``message`` says why."""

    server: str
    state: ServerState
    message: str = ""


class ServerLogged(Struct, frozen=True):
    """A server's log message for people; ``logger`` is ``stderr`` for its error output."""

    server: str
    level: str
    data: Any
    logger: str | None = None


class ListChanged(Struct, frozen=True):
    """A server's tools, resources or prompts have changed; the registered tools are already up to date."""

    server: str
    kind: Literal["tools", "resources", "prompts"]


ServerEvent: TypeAlias = StateChanged | ServerLogged | ListChanged
EventCallback: TypeAlias = Callable[[ServerEvent], object]
#: Receives the names of the servers that are still starting.
WaitingCallback: TypeAlias = Callable[[tuple[str, ...]], object]


class Elicitation(Struct, frozen=True):
    """A server asks the user: to fill in a form, or to visit a URL.

    ``schema`` describes the form's flat fields. A ``url`` must be shown in full and opened only by
    the user's own decision.

    ``call`` is the call that the question belongs to, and ``conversations`` those with a call in flight. A server of
    the older protocol does not say which call asks: with several in one conversation ``call`` is the latest, with
    several conversations there is none. Both are empty when a server asks outside any call, for a sign-in.
    """

    server: str
    message: str
    mode: Literal["form", "url"] = "form"
    schema: JsonObject = field(default_factory=dict)
    url: str | None = None
    call: ToolCall | None = None
    conversations: tuple[str | None, ...] = ()


class ElicitationAnswer(Struct, frozen=True):
    """The user's answer; ``content`` holds the form's fields."""

    action: Literal["accept", "decline", "cancel"]
    content: JsonObject | None = None


ElicitationCallback: TypeAlias = Callable[
    [Elicitation], ElicitationAnswer | Awaitable[ElicitationAnswer]
]


class SamplingRequest(Struct, frozen=True):
    """A server asks for a model's answer; ``params`` are those of the protocol."""

    server: str
    params: JsonObject


class SamplingAnswer(Struct, frozen=True):
    """The model's answer."""

    text: str
    model: str
    stop_reason: str = "endTurn"


SamplingCallback: TypeAlias = Callable[
    [SamplingRequest], "SamplingAnswer | Awaitable[SamplingAnswer]"
]


class Resource(Struct, frozen=True):
    """A resource of a server; a ``template`` is a pattern of URIs."""

    server: str
    uri: str
    name: str
    description: str = ""
    mime: str | None = None
    template: bool = False


class PromptArgument(Struct, frozen=True):
    """An argument of a prompt."""

    name: str
    description: str = ""
    required: bool = False


class Prompt(Struct, frozen=True):
    """A prompt that a server offers to people."""

    server: str
    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()
