"""``LLMProvider``: one class for all providers; the provider's row holds the differences.

Rules:
1. Every method takes a history in any readable form and changes nothing in it.
2. A missing key and an unusable history or setting raise ``UsageError`` (a ``ValueError``) when the method is called, before any network
   access. Failures of the provider raise ``ProviderError``.
3. Refusals and safety blocks are answers: the finish reason says which.
4. Connections are kept between calls until ``close`` or ``aclose``; a closed provider opens new ones with its next request.
5. ``request`` makes a ``ModelRequest`` of a caller's arguments, ``ask`` and ``ask_sync`` send one; the other methods are short forms of
   these.
6. Address and key are always the provider object's own, so that no request sends its key to another address.
7. A subclass, or an object, that replaces ``call_api``, ``acall_api`` or ``ask`` answers all requests with that code, whichever method,
   chain or run makes them; ``super()`` sends them over the network. A subclass that replaces ``format_history`` sends the messages that it
   returns. Such a provider needs no row: without ``default_provider`` it has the name of its class and no key.
"""

from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from copy import copy
from hashlib import sha256
from typing import Any, Final, Self, TypeAlias, TypedDict, Unpack

from msgspec.structs import replace

from multi_llm_chat.agent._reply_stream import (
    AsyncReplyStream,
    Inquirer,
    Inquiry,
    RemoteInquiry,
    ReplyStream,
    extract_text,
    plain_chunks,
    plain_chunks_async,
)
from multi_llm_chat.agent.embeddings import EmbeddingMethods
from multi_llm_chat.agent.model_list import LISTING_LIMITS, ModelInfo, ModelListing
from multi_llm_chat.agent.plugin_replies import PluginReply, call_arguments, own_messages
from multi_llm_chat.agent.provider_access import ProviderAccess, ProviderSettings
from multi_llm_chat.agent.reply import Reply
from multi_llm_chat.data_limits import REPLY_LIMITS, Limits
from multi_llm_chat.errors import UsageError, check_type
from multi_llm_chat.history.reader import check_contents
from multi_llm_chat.history.values import JsonObject, Turn
from multi_llm_chat.history.writer import write_history
from multi_llm_chat.http import Timeouts
from multi_llm_chat.http import async_driver as drive_async
from multi_llm_chat.http import sync_driver as drive_sync
from multi_llm_chat.http.transports import Breaker, Transports
from multi_llm_chat.metering.tokenizers import get_token_info
from multi_llm_chat.protocol.conversion import history_to
from multi_llm_chat.protocol.exchange import free_prefix
from multi_llm_chat.protocol.providers import ProviderRow, is_known, plain_row, provider_row
from multi_llm_chat.protocol.request_settings import SentRequest, read_options, read_request
from multi_llm_chat.protocol.retry import RetryPolicy
from multi_llm_chat.repair.policy import Note, RepairPolicy
from multi_llm_chat.request import ModelRequest, Options, ToolDefinition, Transcript
from multi_llm_chat.schema.python_types import schema_of
from multi_llm_chat.schema.tool_definitions import find_tools
from multi_llm_chat.tools.registry import definitions_of
from multi_llm_chat.tools.tool_runner import ToolRunner

#: The message format of a provider without a dialect.
_PLAIN_DIALECT: Final = "openai-chat"

#: Definitions in MCP, OpenAI, Anthropic or Gemini form, or a single one.
#: The tools that a model is offered: functions, a ``ToolRegistry``, definitions, or a list of these.
Tools: TypeAlias = Iterable[Any] | ToolDefinition | ToolRunner | Callable[..., Any] | None


class AskSettings(TypedDict, total=False):
    """The keyword arguments of every method that sends a request to a provider."""

    options: Options | Mapping[str, Any] | None
    """Settings of this call; the provider object's own settings apply for the others."""
    schema: JsonObject | type[Any] | None
    """The form of the answer: a JSON Schema, or a type such as a dataclass or a pydantic model."""
    policy: RepairPolicy | None
    """How the history is repaired for this call."""
    previous: Transcript | SentRequest | None
    """``Reply.transcript`` of the conversation's last request; this request begins with it."""
    conversation: str | None
    """The conversation's name, or an empty string, if later requests will begin with this one."""


def _misplaced(name: str, known: Iterable[str]) -> str:
    """The error text for an unknown keyword argument: where it belongs."""
    if name in Options.__struct_fields__:
        return f"{name!r} is an option: pass options={{{name!r}: …}}"
    if name == "timeout":
        return "'timeout' belongs to the provider: create_provider(…, timeouts=Timeouts(total=…)), from multi_llm_chat.http"
    return f"unknown argument {name!r}; known are: {', '.join(known)}"


class _OnClassToo:
    """A method that can also be called on the class, which then creates an object."""

    def __init__(self, function: Callable[[Any, Iterable[Any]], list[JsonObject]]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(
        self, provider: "LLMProvider | None", owner: "type[LLMProvider]"
    ) -> Callable[[Iterable[Any]], list[JsonObject]]:
        def call(history: Iterable[Any]) -> list[JsonObject]:
            return self._function(owner() if provider is None else provider, history)

        call.__doc__ = self.__doc__
        return call


class LLMProvider(EmbeddingMethods):
    """A connection to one provider: its model, key, address and default options."""

    #: The provider's name, in a subclass for one provider.
    default_provider: str | None = None
    #: The default model of a subclass without a row.
    default_model: str | None = None

    def __init__(
        self,
        provider: str | None = None,
        *,
        model: str | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        options: Options | Mapping[str, Any] | None = None,
        policy: RepairPolicy | None = None,
        retry: RetryPolicy | None = None,
        speaker: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        connections_per_host: int | None = None,
        breaker: Breaker | None = None,
        limits: Limits = REPLY_LIMITS,
        **unknown: Any,
    ) -> None:
        """Store the settings; no connection is opened before the first call.

        Args:
            provider: Its name, such as ``groq``.
            model: The model; if not given, that of ``CHATGPT_MODEL`` or ``GEMINI_MODEL``, or the provider's default.
            api_key: The key; the provider's environment variable if not given.
            base_url: The address; ``<NAME>_BASE_URL`` or the provider's own if not given.
            options: Settings for every call, in the vocabulary of ``Options``.
            policy: How histories are repaired.
            retry: How failed requests are retried.
            speaker: The role of this model's turns; the provider's default if not given.
            headers: Extra HTTP headers of every request; they replace ours, except the key's.
            timeouts: Time limits of a request.
            connections_per_host: How many requests may be in flight at once.
            breaker: When requests to a failing endpoint are suspended for a while.
            limits: How much of a reply is read.
            unknown: Not allowed: a ``TypeError`` says where the setting belongs.
        """
        if unknown:
            raise TypeError(_misplaced(next(iter(unknown)), ProviderSettings.__annotations__))
        check_type(model, str, "model=…", "the model's name, a text")
        check_type(timeouts, Timeouts, "timeouts=…", "Timeouts(total=…), from multi_llm_chat.http")
        check_type(policy, RepairPolicy, "policy=…", "a RepairPolicy")
        check_type(retry, RetryPolicy, "retry=…", "a RetryPolicy")
        self.row: ProviderRow = self._find_row(provider or self.default_provider)
        self.speaker = speaker or self.row.speaker
        self._own_speaker = speaker
        self._access = ProviderAccess(self.row, api_key=api_key, base_url=base_url, headers=headers)
        self.model = model or self.default_model or self._access.model()
        self.options = read_options(options)
        self._policy = policy
        self._retry = retry or RetryPolicy()
        self._limits = limits
        self._transports = Transports(
            timeouts=timeouts, connections_per_host=connections_per_host, breaker=breaker
        )

    def with_speaker(self, name: str) -> Self:
        """The same provider under another speaker name; both use the same connections."""
        twin = copy(self)
        twin.speaker = twin._own_speaker = name
        return twin

    def with_model(self, model: str) -> Self:
        """The same provider with another model; both use the same connections."""
        twin = copy(self)
        twin.model = model
        return twin

    def set_up(self, **settings: Unpack[ProviderSettings]) -> None:
        """Change the settings of a provider that a factory has created: ``model``, ``speaker``, ``options``, ``policy``, ``retry``."""
        self.model = settings.get("model") or self.model
        self._own_speaker = settings.get("speaker") or self._own_speaker
        self.speaker = self._own_speaker or self.speaker
        self.options = self._settled(settings.get("options"))
        self._policy = settings.get("policy") or self._policy
        self._retry = settings.get("retry") or self._retry

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.row.name!r}, model={self.model!r})"

    @property
    def name(self) -> str:
        """The provider's name."""
        return self.row.name

    @property
    def priced_as(self) -> str:
        """The provider whose prices apply to its answers."""
        return self.name

    @property
    def account(self) -> str:
        """An id that distinguishes this provider's key from others without revealing it."""
        key = self._access.key() or ""
        return f"{self.name}:{sha256(key.encode()).hexdigest()[:16]}"

    def request(
        self,
        history: Iterable[Any],
        system_prompt: str | None = None,
        tools: Tools = None,
        *,
        options: Options | Mapping[str, Any] | None = None,
        schema: JsonObject | type[Any] | None = None,
        policy: RepairPolicy | None = None,
        stream: bool = True,
        previous: Transcript | SentRequest | None = None,
        conversation: str | None = None,
        **unknown: Any,
    ) -> ModelRequest:
        """Make a request to this provider, for ``ask`` and ``ask_sync``; nothing is sent.

        Args:
            history: The conversation; not changed.
            system_prompt: Sent before everything else.
            tools: Functions, a ``ToolRegistry``, definitions in MCP, OpenAI, Anthropic or Gemini form, or a mixture.
            options: Settings of this call; the provider object's own settings apply for the others.
            schema: The form of the answer: a JSON Schema, or a type such as a dataclass or a pydantic model.
            policy: How the history is repaired for this call.
            stream: Whether the answer is streamed.
            previous: ``Reply.transcript`` of the conversation's last request; this request begins with it.
            conversation: The conversation's name, or an empty string, if later requests will begin with this one.
            unknown: Not allowed: a ``TypeError`` says where the setting belongs.
        """
        if unknown:
            known = ("history", "system_prompt", "tools", *AskSettings.__annotations__)
            raise TypeError(_misplaced(next(iter(unknown)), known))
        settled = self._settled(options)
        if schema is not None:
            settled = replace(settled, schema=schema_of(schema))
        return self._addressed(
            read_request(
                history,
                self.name,
                system_prompt=system_prompt,
                tools=definitions_of(tools),
                policy=policy or self._policy,
                options=settled,
                stream=stream,
                previous=previous,
                conversation=conversation,
            )
        )

    def ask(self, request: ModelRequest) -> AsyncReplyStream:
        """Send a request; iterate with ``async for`` over the events of the reply.

        The provider object's own settings apply where the request sets none. A request made for another provider keeps its conversation,
        tools and options, but gets the model, speaker and headers of this one.
        """
        observed = self._code("ask") is None
        return AsyncReplyStream(self._below("ask"), request, observed=observed)

    def open_reply(self, request: ModelRequest) -> AsyncReplyStream:
        """Like ``ask``, but always returns a stream with ``batches`` and ``reply``, also if a plug-in has its own ``ask``."""
        return AsyncReplyStream(self.chain, request)

    def ask_sync(self, request: ModelRequest) -> ReplyStream:
        """Like ``ask``, without ``async``."""
        return ReplyStream(self.chain, request)

    def call_api(
        self,
        history: Iterable[Any],
        system_prompt: str | None = None,
        tools: Tools = None,
        **settings: Unpack[AskSettings],
    ) -> Generator[JsonObject]:
        """Send the history; yield ``{"type": "text", …}`` and ``{"type": "tool_call", …}`` as they arrive.

        The arguments are those of ``request``: ``settings`` are ``options``, ``schema`` and ``policy``.
        """
        request = self.request(history, system_prompt, tools, **settings)
        observed = self._code("call_api") is None
        return plain_chunks(ReplyStream(self._below("call_api"), request, observed=observed))

    def acall_api(
        self,
        history: Iterable[Any],
        system_prompt: str | None = None,
        tools: Tools = None,
        **settings: Unpack[AskSettings],
    ) -> AsyncGenerator[JsonObject]:
        """Like ``call_api``, with ``async for``."""
        request = self.request(history, system_prompt, tools, **settings)
        observed = self._code("acall_api") is None
        stream = AsyncReplyStream(self._below("acall_api"), request, observed=observed)
        return plain_chunks_async(stream)

    def stream(
        self,
        history: Iterable[Any],
        system_prompt: str | None = None,
        tools: Tools = None,
        **settings: Unpack[AskSettings],
    ) -> ReplyStream:
        """Send the history; iterate over the events of the reply.

        The arguments are those of ``request``: ``settings`` are ``options``, ``schema`` and ``policy``.
        """
        return self.ask_sync(self.request(history, system_prompt, tools, **settings))

    def astream(
        self,
        history: Iterable[Any],
        system_prompt: str | None = None,
        tools: Tools = None,
        **settings: Unpack[AskSettings],
    ) -> AsyncReplyStream:
        """Like ``stream``, with ``async for``."""
        return self.open_reply(self.request(history, system_prompt, tools, **settings))

    def complete(
        self,
        history: Iterable[Any],
        system_prompt: str | None = None,
        tools: Tools = None,
        **settings: Unpack[AskSettings],
    ) -> Reply:
        """Send the history; return the whole reply.

        The arguments are those of ``request``: ``settings`` are ``options``, ``schema`` and ``policy``.
        """
        request = self.request(history, system_prompt, tools, stream=False, **settings)
        with self.ask_sync(request) as stream:
            for _ in stream:
                pass
            return stream.reply

    async def acomplete(
        self,
        history: Iterable[Any],
        system_prompt: str | None = None,
        tools: Tools = None,
        **settings: Unpack[AskSettings],
    ) -> Reply:
        """Like ``complete``, to be awaited."""
        request = self.request(history, system_prompt, tools, stream=False, **settings)
        return await self.open_reply(request).read()

    @_OnClassToo
    def format_history(self, history: Iterable[Any]) -> list[JsonObject]:
        """The history, or a single user message, in this provider's message format; can also be called on a provider's class.

        Raises:
            UsageError: The content of a turn is neither a string nor a list.
        """
        turns = (
            [{"role": "user", "content": history}] if isinstance(history, str) else list(history)
        )
        check_contents(turns)
        return history_to(
            turns,
            self.name if is_known(self.name) else _PLAIN_DIALECT,
            model=self.model,
            policy=self._policy,
            options=self.options,
            speaker=self._own_speaker,
        )

    def extract_text_from_chunk(self, chunk: object) -> str:
        """The text in a chunk of ``call_api`` or of the provider's own stream; empty if there is none."""
        return extract_text(chunk)

    def stream_text_events(
        self, history: Iterable[Any], system_prompt: str | None = None
    ) -> Generator[str]:
        """Send the history; yield the text of the answer in pieces, as they arrive."""
        for chunk in self.call_api(history, system_prompt):
            text = self.extract_text_from_chunk(chunk)
            if text:
                yield text

    def get_token_info(
        self,
        text: str,
        history: Iterable[Any] | None = None,
        model_name: str | None = None,
        has_tools: bool = False,
        *,
        tools: Tools = None,
    ) -> JsonObject:
        """The tokens of a text and a history, and the model's limits; see ``token_utils``."""
        return get_token_info(
            text,
            history,
            model_name or self.model,
            has_tools,
            tools=find_tools(tools or None).definitions,
            provider=self.name,
        )

    def list_models(self) -> list[ModelInfo]:
        """The models that the provider offers; its one model if it answers with its own code."""
        if self._answers_itself():
            return [ModelInfo(self.model)]
        listing = self._listing()
        for request in listing.requests():
            listing.receive(*drive_sync.fetch(request, self._transports.for_sync(), LISTING_LIMITS))
        return listing.models

    async def alist_models(self) -> list[ModelInfo]:
        """Like ``list_models``, to be awaited."""
        if self._answers_itself():
            return self.list_models()
        listing = self._listing()
        for request in listing.requests():
            transport = self._transports.for_async()
            listing.receive(*await drive_async.fetch(request, transport, LISTING_LIMITS))
        return listing.models

    def close(self) -> None:
        """Close all connections, also those in use; any thread may call it."""
        self._transports.close()

    async def aclose(self) -> None:
        """Like ``close``; returns when the connections of this event loop are closed."""
        await self._transports.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def chain(self) -> Sequence["LLMProvider"]:
        """The providers that get the request, in order."""
        return (self,)

    def inquire(self, request: ModelRequest) -> Inquiry:
        """Check the request, addressed to this provider; nothing is sent."""
        code = self._code("ask")
        if code is None:
            return self._inquire_chunks(request)
        addressed = self._addressed(request)
        return self._plugin_reply(addressed, lambda: code(addressed))

    def _inquire_chunks(self, request: ModelRequest) -> Inquiry:
        """Let the subclass's ``call_api`` answer; send the request over the network if it has none."""
        code = self._code("acall_api") or self._code("call_api")
        if code is None:
            return self._inquire_network(request)
        addressed = self._addressed(request)
        arguments, notes = call_arguments(code, addressed)
        return self._plugin_reply(
            addressed, lambda: code(write_history(addressed.turns), **arguments), notes
        )

    def _inquire_network(self, request: ModelRequest) -> Inquiry:
        """Send the request to the provider over the network."""
        key = self._access.key()
        addressed = self._addressed(request)
        code = self._code("format_history")
        if code is not None:
            addressed = replace(addressed, messages=own_messages(self.name, code, addressed))
        return RemoteInquiry(
            addressed, self._transports, api_key=key, retry=self._retry, limits=self._limits
        )

    def _plugin_reply(
        self, request: ModelRequest, source: Callable[[], object], notes: tuple[Note, ...] = ()
    ) -> Inquiry:
        turn = Turn(request.speaker or self.speaker, model=request.model)
        return PluginReply(
            self.name,
            source,
            turn,
            id_prefix=free_prefix(request.turns),
            notes=notes,
            secrets=self._access.secrets(),
        )

    def _below(self, method: str) -> Sequence[Inquirer]:
        """The providers that answer a call of a method's default: without the subclass's own code if the subclass replaces that method."""
        below = self._inquire_network
        if method == "ask":
            below = self._inquire_chunks
        elif self._code(method) is None:
            return self.chain
        return [_Below(below) if each is self else each for each in self.chain]

    def _code(self, method: str) -> Callable[..., Any] | None:
        """The code with which a subclass or this object replaces a method; None if it replaces nothing."""
        if method in self.__dict__:
            return self.__dict__[method]
        for owner in type(self).__mro__:
            if method in owner.__dict__:
                own = owner.__dict__[method] is not _DEFAULTS[method]
                return getattr(self, method) if own else None
        return None

    def _answers_itself(self) -> bool:
        return any(self._code(method) is not None for method in ("ask", "call_api", "acall_api"))

    def _find_row(self, name: str | None) -> ProviderRow:
        if not self._answers_itself():
            if name is None:
                raise UsageError("Name a provider, or use one of the classes made for one")
            return provider_row(name)
        if name is None:
            name = type(self).__name__.lower()
            name = name.removesuffix("provider") or name
        return provider_row(name) if is_known(name) else plain_row(name)

    def __getattr__(self, name: str) -> Any:
        # A subclass whose own __init__ does not call this one's is initialised when an attribute is first read.
        if name not in _STATE or "row" in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        own = dict(self.__dict__)
        LLMProvider.__init__(self)
        self.__dict__.update(own)
        return self.__dict__[name]

    def _addressed(self, request: ModelRequest) -> ModelRequest:
        """The request with this provider's name, model, speaker, address and headers."""
        own = _is_named(request.provider, self.name)
        return replace(
            request,
            provider=self.name,
            model=(request.model if own else None) or self.model,
            speaker=(request.speaker if own else None) or self._own_speaker,
            base_url=self._access.base_url(),
            headers={**self._access.headers, **(request.headers if own else {})},
        )

    def _settled(self, options: Options | Mapping[str, Any] | None) -> Options:
        if options is None:
            return self.options
        read = read_options(options)
        if isinstance(options, Options):
            return read
        return replace(self.options, **{name: getattr(read, name) for name in options})

    def _listing(self) -> ModelListing:
        access = self._access
        return ModelListing(self.row, access.base_url(), access.key(), access.headers)


def _is_named(name: str, provider: str) -> bool:
    """Whether a provider name or speaker name refers to this provider."""
    return name == provider or (is_known(name) and provider_row(name).name == provider)


class _Below:
    """A provider without its own code, for that code's calls of ``super()``."""

    def __init__(self, answer: Callable[[ModelRequest], Inquiry]) -> None:
        self._answer = answer

    def inquire(self, request: ModelRequest) -> Inquiry:
        """Check the request; nothing is sent."""
        return self._answer(request)


#: The methods that a subclass may replace; see rule 7.
_DEFAULTS: Final[Mapping[str, Any]] = {
    name: LLMProvider.__dict__[name] for name in ("ask", "call_api", "acall_api", "format_history")
}
#: The attributes that ``__init__`` sets.
_STATE: Final = frozenset(
    {"row", "model", "speaker", "options", "_own_speaker", "_access", "_policy", "_retry", "_transports"}
)  # fmt: skip
