"""The embedded model as a provider like any other.

Rules:
1. It takes and gives what every ``LLMProvider`` does; no key, no address, no network.
2. Its replies are streams that know their reply once they are over.
"""

import threading
from collections.abc import AsyncGenerator, Awaitable, Generator, Iterable, Mapping
from contextlib import aclosing, closing
from typing import Any

from multi_llm_chat.client.models import ModelInfo
from multi_llm_chat.client.provider import LLMProvider, Tools
from multi_llm_chat.client.reply import Reply
from multi_llm_chat.client.streams import AsyncReplyStream, Link, ReplyStream
from multi_llm_chat.errors import StreamBroken, UsageError
from multi_llm_chat.events import Event
from multi_llm_chat.exchange.question import Question
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.local import LocalModel, choose_local, list_models
from multi_llm_chat.request import Options


def create_local(
    *,
    model: str | None = None,
    options: Options | Mapping[str, Any] | None = None,
    **settings: Any,
) -> LLMProvider:
    """Whoever speaks as ``local``: the embedded model, or Ollama where it runs and nothing was chosen."""
    if model is None:
        choice = choose_local()
        if choice.provider == "ollama":
            return LLMProvider(
                "ollama", model=choice.model, options=options, speaker="local", **settings
            )
        model = choice.model
    return LocalProvider(model=model, options=options, **settings)


class LocalProvider(LLMProvider):
    """The embedded model, ready to be asked; its file is loaded when it first speaks."""

    default_provider = "local"

    def __init__(self, *, model: str | None = None, **settings: Any) -> None:
        """Remember how to ask; the settings are those of ``LLMProvider``."""
        self._local = LocalModel(model)
        super().__init__(model=self._local.row.name, **settings)

    @property
    def notice(self) -> str:
        """The line to show wherever this model speaks."""
        return self._local.notice

    def stream(
        self,
        history: Iterable[Any],
        system_prompt: str | None = None,
        tools: Tools = None,
        *,
        options: Options | Mapping[str, Any] | None = None,
        schema: JsonObject | None = None,
    ) -> ReplyStream:
        """Ask; iterate over the events of the reply as they arrive."""
        asked = self._asked(history, system_prompt, tools, options, schema)
        return LocalReplyStream(self._local, asked, self.speaker)

    def astream(
        self,
        history: Iterable[Any],
        system_prompt: str | None = None,
        tools: Tools = None,
        *,
        options: Options | Mapping[str, Any] | None = None,
        schema: JsonObject | None = None,
    ) -> AsyncReplyStream:
        """Like ``stream``, with ``async for``."""
        asked = self._asked(history, system_prompt, tools, options, schema)
        return AsyncLocalReplyStream(self._local, asked, self.speaker)

    def complete(self, *arguments: Any, **settings: Any) -> Reply:
        """Ask for the whole reply at once; the arguments are those of ``stream``."""
        with self.stream(*arguments, **settings) as stream:
            for _ in stream:
                pass
            return stream.reply

    async def acomplete(self, *arguments: Any, **settings: Any) -> Reply:
        """Like ``complete``, to be awaited."""
        async with self.astream(*arguments, **settings) as stream:
            async for _ in stream:
                pass
            return stream.reply

    def list_models(self) -> list[ModelInfo]:
        """The models that are installed here."""
        return [ModelInfo(model.name) for model in list_models() if model.is_installed]

    async def alist_models(self) -> list[ModelInfo]:
        """Like ``list_models``, to be awaited."""
        return self.list_models()

    def link(self, asked: Question) -> Link:
        """An embedded model has no part in a chain: nothing it fails at is mended by waiting."""
        del asked
        raise UsageError("The embedded model cannot be part of a chain of providers")


class _Answer:
    """What both kinds of streams know of their question and their reply."""

    def __init__(self, model: LocalModel, asked: Question, speaker: str) -> None:
        self.model = model
        self.speaker = speaker
        self.events: list[Event] = []
        self.settings: dict[str, Any] = {
            "history": asked.turns,
            "system_prompt": asked.system_prompt,
            "tools": asked.tools or None,
            "options": asked.options,
            "speaker": speaker,
        }

    def reply(self) -> Reply:
        """The reply that the events tell."""
        whole = self.model.collect(self.events, self.speaker)
        return Reply(whole.turn, whole.usage, whole.finish, provider="local")


class LocalReplyStream(ReplyStream):
    """The events of the embedded model's reply."""

    def __init__(self, model: LocalModel, asked: Question, speaker: str) -> None:
        """Check the question; the model begins when the first event is wanted."""
        self._answer = _Answer(model, asked, speaker)
        self._source = model.stream(**self._answer.settings)
        self._reply = None
        self._stopped = threading.Event()
        self._events = self._run()

    def stop(self) -> None:
        """End the reply, from any thread; its reader gets ``StreamBroken`` with what was said."""
        self._stopped.set()

    def _run(self) -> Generator[Event]:
        with closing(self._source) as source:
            for event in source:
                self._answer.events.append(event)
                if self._stopped.is_set():
                    partial = self._answer.reply().turn
                    raise StreamBroken("The reply was stopped.", provider="local", partial=partial)
                yield event
        self._reply = self._answer.reply()


class AsyncLocalReplyStream(AsyncReplyStream):
    """The events of the embedded model's reply, with ``async``."""

    def __init__(self, model: LocalModel, asked: Question, speaker: str) -> None:
        """Check the question; the model begins when the first event is wanted."""
        self._answer = _Answer(model, asked, speaker)
        self._source = model.astream(**self._answer.settings)
        self._reply = None
        self._events = self._run()

    def __anext__(self) -> Awaitable[Event]:
        return self._events.__anext__()

    async def _run(self) -> AsyncGenerator[Event]:
        async with aclosing(self._source) as source:
            async for event in source:
                self._answer.events.append(event)
                yield event
        self._reply = self._answer.reply()
