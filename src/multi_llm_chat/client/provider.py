"""Ask a provider: one class for all of them, for what differs is in the provider's row.

Rules:
1. Every method takes a history in any readable form and changes nothing in it.
2. A missing key, an unusable history or setting is a ``UsageError`` (a ``ValueError``) when the method
   is called, before any network. What the provider does wrong is a ``ProviderError``.
3. Refusals and safety blocks are answers: they are told by the finish reason.
4. Connections are kept between calls until ``close`` or ``aclose``; a closed provider opens
   new ones when it is asked again.
"""

import os
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

import msgspec

from multi_llm_chat.client.access import Access
from multi_llm_chat.client.inquiry import Link, RemoteInquiry
from multi_llm_chat.client.models import ModelInfo, ModelListing
from multi_llm_chat.client.reply import Reply
from multi_llm_chat.client.streams import AsyncReplyStream, ReplyStream
from multi_llm_chat.drive import aio as drive_async
from multi_llm_chat.drive import sync as drive_sync
from multi_llm_chat.drive.health import Health
from multi_llm_chat.errors import UsageError
from multi_llm_chat.events import Event, TextDelta, ToolCallEnd
from multi_llm_chat.exchange.attempts import Attempts
from multi_llm_chat.exchange.breaker import Breaker
from multi_llm_chat.exchange.conversion import history_to
from multi_llm_chat.exchange.question import Question
from multi_llm_chat.exchange.rendering import read_options
from multi_llm_chat.exchange.retrying import RetryPolicy
from multi_llm_chat.history.reading import read_history
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.history.writing import write_call
from multi_llm_chat.metering.token_info import get_token_info
from multi_llm_chat.providers import ProviderRow, provider_row
from multi_llm_chat.repair import RepairPolicy
from multi_llm_chat.request import Options, ToolDefinition
from multi_llm_chat.transport import (
    Timeouts,
    TransportSettings,
    open_async,
    open_sync,
    settings_from,
)

if TYPE_CHECKING:  # loaded when a transport is opened
    from multi_llm_chat.transport.aio import AsyncTransport
    from multi_llm_chat.transport.sync import SyncTransport


#: Definitions in MCP, OpenAI, Anthropic or Gemini form; one alone will do.
Tools: TypeAlias = Iterable[Any] | ToolDefinition | None


class LLMProvider:
    """A provider, ready to be asked."""

    #: The provider of a subclass that stands for one.
    default_provider: str | None = None

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
        timeouts: Timeouts | None = None,
        connections_per_host: int | None = None,
        breaker: Breaker | None = None,
    ) -> None:
        """Remember how to ask; nothing is checked or opened before the first call.

        Args:
            provider: Its name, such as ``groq``.
            model: The model; the provider's default otherwise.
            api_key: The key; the provider's environment variable otherwise.
            base_url: The address; ``<NAME>_BASE_URL`` or the provider's own otherwise.
            options: Settings for every call, in the vocabulary of ``Options``.
            policy: How histories are repaired.
            retry: How patient to be.
            speaker: The role under which this model speaks; the provider's otherwise.
            timeouts: Limits of time for a request.
            connections_per_host: How many requests may be on their way at once.
            breaker: When a failing endpoint is left alone for a while.
        """
        name = provider or self.default_provider
        if name is None:
            raise UsageError("Name a provider, or use one of the classes made for one")
        self.row: ProviderRow = provider_row(name)
        self.model = model or self.row.default_model
        self.speaker = speaker or self.row.speaker
        self._told_speaker = speaker
        self._access = Access(self.row, api_key=api_key, base_url=base_url)
        self.options = read_options(options)
        self._policy = policy
        self._retry = retry or RetryPolicy()
        self._timeouts = timeouts
        self._limit = connections_per_host
        self._health = Health(breaker)
        self._sync: SyncTransport | None = None
        self._async: AsyncTransport | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.row.name!r}, model={self.model!r})"

    @property
    def name(self) -> str:
        """The provider's name."""
        return self.row.name

    @property
    def priced_as(self) -> str:
        """The provider by whose prices its answers are paid."""
        return self.name

    @property
    def account(self) -> str:
        """What tells this provider's key from others, without telling the key."""
        key = self._access.key() or ""
        return f"{self.name}:{sha256(key.encode()).hexdigest()[:16]}"

    def call_api(
        self,
        history: Iterable[Any],
        system_prompt: str | None = None,
        tools: Tools = None,
        **settings: Any,
    ) -> Generator[JsonObject]:
        """Ask; yield ``{"type": "text", …}`` and ``{"type": "tool_call", …}`` as they come."""
        return _plain_chunks(self.stream(history, system_prompt, tools, **settings))

    def acall_api(
        self,
        history: Iterable[Any],
        system_prompt: str | None = None,
        tools: Tools = None,
        **settings: Any,
    ) -> AsyncGenerator[JsonObject]:
        """Like ``call_api``, with ``async for``."""
        return _plain_chunks_async(self.astream(history, system_prompt, tools, **settings))

    def stream(
        self,
        history: Iterable[Any],
        system_prompt: str | None = None,
        tools: Tools = None,
        *,
        options: Options | Mapping[str, Any] | None = None,
        schema: JsonObject | None = None,
        policy: RepairPolicy | None = None,
    ) -> ReplyStream:
        """Ask; iterate over the events of the reply as they arrive.

        Args:
            history: The conversation; not changed.
            system_prompt: Put before everything else.
            tools: Definitions in MCP, OpenAI, Anthropic or Gemini form.
            options: Settings of this call; those it does not name are the provider object's.
            schema: The JSON Schema that the answer is to follow.
            policy: How the history is repaired this time.
        """
        asked = self._asked(history, system_prompt, tools, options, schema, policy)
        return ReplyStream(self.links(asked))

    def astream(
        self,
        history: Iterable[Any],
        system_prompt: str | None = None,
        tools: Tools = None,
        *,
        options: Options | Mapping[str, Any] | None = None,
        schema: JsonObject | None = None,
        policy: RepairPolicy | None = None,
    ) -> AsyncReplyStream:
        """Like ``stream``, with ``async for``."""
        asked = self._asked(history, system_prompt, tools, options, schema, policy)
        return AsyncReplyStream(self.links(asked))

    def complete(
        self,
        history: Iterable[Any],
        system_prompt: str | None = None,
        tools: Tools = None,
        *,
        options: Options | Mapping[str, Any] | None = None,
        schema: JsonObject | None = None,
        policy: RepairPolicy | None = None,
    ) -> Reply:
        """Ask for the whole reply at once; the arguments are those of ``stream``."""
        asked = self._asked(history, system_prompt, tools, options, schema, policy, stream=False)
        with ReplyStream(self.links(asked)) as stream:
            for _ in stream:
                pass
            return stream.reply

    async def acomplete(
        self,
        history: Iterable[Any],
        system_prompt: str | None = None,
        tools: Tools = None,
        *,
        options: Options | Mapping[str, Any] | None = None,
        schema: JsonObject | None = None,
        policy: RepairPolicy | None = None,
    ) -> Reply:
        """Like ``complete``, to be awaited."""
        asked = self._asked(history, system_prompt, tools, options, schema, policy, stream=False)
        async with AsyncReplyStream(self.links(asked)) as stream:
            async for _ in stream:
                pass
            return stream.reply

    def format_history(self, history: Iterable[Any]) -> list[JsonObject]:
        """The history as this provider's own messages."""
        return history_to(
            history,
            self.name,
            model=self.model,
            policy=self._policy,
            options=self.options,
            speaker=self._told_speaker,
        )

    def get_token_info(
        self,
        text: str,
        history: Iterable[Any] | None = None,
        model_name: str | None = None,
        has_tools: bool = False,
        *,
        tools: Tools = None,
    ) -> JsonObject:
        """The tokens of a text and a history, and how many the model takes; see ``token_utils``."""
        return get_token_info(
            text,
            history,
            model_name or self.model,
            has_tools,
            tools=_members(tools),
            provider=self.name,
        )

    def list_models(self) -> list[ModelInfo]:
        """The models on offer."""
        listing = self._listing()
        for request in listing.requests():
            listing.receive(*drive_sync.fetch(request, self._sync_transport()))
        return listing.models

    async def alist_models(self) -> list[ModelInfo]:
        """Like ``list_models``, to be awaited."""
        listing = self._listing()
        for request in listing.requests():
            listing.receive(*await drive_async.fetch(request, self._async_transport()))
        return listing.models

    def close(self) -> None:
        """Close all connections, also those in use; from any thread."""
        if self._sync is not None:
            self._sync.close()
            self._sync = None
        if self._async is not None:
            self._async.close()
            self._async = None

    async def aclose(self) -> None:
        """Like ``close``; returns when the connections of this event loop are closed."""
        transport, self._async = self._async, None
        self.close()
        if transport is not None:
            await transport.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def links(self, asked: Question) -> Sequence[Link]:
        """Who is asked, in order."""
        return [self.link(asked)]

    def link(self, asked: Question) -> Link:
        """How this provider is asked that question, whoever it was meant for."""
        return lambda: RemoteInquiry(self._attempts(asked), self._answer, self._answer_async)

    def _attempts(self, asked: Question) -> Attempts:
        key = self._access.key()
        question = msgspec.structs.replace(
            asked,
            provider=self.name,
            model=self.model,
            speaker=self._told_speaker,
            base_url=self._access.base_url(),
        )
        return Attempts(question, api_key=key, policy=self._retry)

    def _answer(self, attempts: Attempts, stop: drive_sync.Stop) -> Generator[list[Event]]:
        return drive_sync.answer(attempts, self._sync_transport(), self._health, stop)

    def _answer_async(self, attempts: Attempts) -> AsyncGenerator[list[Event]]:
        return drive_async.answer(attempts, self._async_transport(), self._health)

    def _asked(
        self,
        history: Iterable[Any],
        system_prompt: str | None,
        tools: Tools,
        options: Options | Mapping[str, Any] | None,
        schema: JsonObject | None,
        policy: RepairPolicy | None,
        *,
        stream: bool = True,
    ) -> Question:
        settled = self._settled(options)
        if schema is not None:
            settled = msgspec.structs.replace(settled, schema=schema)
        return Question(
            turns=read_history(history),
            provider=self.name,
            system_prompt=system_prompt,
            tools=_members(tools),
            policy=policy or self._policy,
            options=settled,
            stream=stream,
        )

    def _settled(self, options: Options | Mapping[str, Any] | None) -> Options:
        if options is None:
            return self.options
        told = read_options(options)
        if isinstance(options, Options):
            return told
        return msgspec.structs.replace(
            self.options, **{name: getattr(told, name) for name in options}
        )

    def _listing(self) -> ModelListing:
        return ModelListing(self.row, self._access.base_url(), self._access.key())

    def _sync_transport(self) -> "SyncTransport":
        if self._sync is None:
            self._sync = open_sync(self._settings())
        return self._sync

    def _async_transport(self) -> "AsyncTransport":
        if self._async is None:
            self._async = open_async(self._settings())
        return self._async

    def _settings(self) -> TransportSettings:
        return settings_from(os.environ, timeouts=self._timeouts, connections_per_host=self._limit)


class ChatGPTProvider(LLMProvider):
    """OpenAI's models, over the Responses API."""

    default_provider = "openai"


class GeminiProvider(LLMProvider):
    """Google's models."""

    default_provider = "gemini"


class ClaudeProvider(LLMProvider):
    """Anthropic's models."""

    default_provider = "anthropic"


def _members(tools: Tools) -> tuple[Any, ...]:
    """A list of tools, or a single one."""
    if isinstance(tools, Mapping | ToolDefinition):
        return (cast("object", tools),)
    return tuple(tools or ())


def _plain_chunks(stream: ReplyStream) -> Generator[JsonObject]:
    with stream:
        for event in stream:
            chunk = _plain_chunk(event)
            if chunk is not None:
                yield chunk


async def _plain_chunks_async(stream: AsyncReplyStream) -> AsyncGenerator[JsonObject]:
    async with stream:
        async for event in stream:
            chunk = _plain_chunk(event)
            if chunk is not None:
                yield chunk


def _plain_chunk(event: Event) -> JsonObject | None:
    if isinstance(event, TextDelta):
        return {"type": "text", "content": event.text}
    if isinstance(event, ToolCallEnd):
        return {"type": "tool_call", "content": write_call(event.call)}
    return None
