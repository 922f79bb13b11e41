"""The embedded model behind the interface of ``LLMProvider``.

Rules:
1. It has the interface of every ``LLMProvider``, but needs no key, no address and no network.
2. Its replies are streams; the whole reply is available at their end.
"""

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, closing
from typing import Unpack

from multi_llm_chat.agent._reply_stream import Inquiry
from multi_llm_chat.agent.model_list import ModelInfo
from multi_llm_chat.agent.provider import LLMProvider
from multi_llm_chat.agent.provider_access import ProviderSettings
from multi_llm_chat.agent.reply import Reply
from multi_llm_chat.errors import StreamBroken
from multi_llm_chat.events import Event
from multi_llm_chat.http.sync_driver import Stop
from multi_llm_chat.local import Completed, LocalModel, choose_local, list_models
from multi_llm_chat.request import ModelRequest


def create_local(**settings: Unpack[ProviderSettings]) -> LLMProvider:
    """The provider ``local``: the embedded model, or a running Ollama if no model is chosen."""
    if settings.get("model") is None:
        choice = choose_local()
        settings["model"] = choice.model
        if choice.provider == "ollama":
            settings["speaker"] = settings.get("speaker") or "local"
            return LLMProvider("ollama", **settings)
    return LocalProvider(**settings)


class LocalProvider(LLMProvider):
    """The embedded model; its file is loaded with the first request."""

    default_provider = "local"

    def __init__(self, **settings: Unpack[ProviderSettings]) -> None:
        """Store the settings; they are those of ``LLMProvider``."""
        self._local = LocalModel(settings.get("model"))
        settings["model"] = self._local.row.name
        super().__init__(**settings)

    @property
    def notice(self) -> str:
        """The notice that user interfaces show with this model."""
        return self._local.notice

    def list_models(self) -> list[ModelInfo]:
        """The models that are installed here."""
        return [ModelInfo(model.name) for model in list_models() if model.is_installed]

    async def alist_models(self) -> list[ModelInfo]:
        """Like ``list_models``, to be awaited."""
        return self.list_models()

    def _inquire_network(self, request: ModelRequest) -> Inquiry:
        """Check the request, also one made for another provider; the model does not run yet."""
        return LocalInquiry(self._local, request, self.speaker)


class LocalInquiry:
    """A request to the embedded model; generation starts when the first event is read."""

    provider = "local"

    def __init__(self, model: LocalModel, request: ModelRequest, speaker: str) -> None:
        """Check the request."""
        self.model = model.row.name
        self.streamed = False
        self._local = model
        self._speaker = speaker
        self._said: list[Event] = []
        self._question = model.question(
            request.turns,
            system_prompt=request.system_prompt,
            tools=request.tools,
            options=request.options,
            speaker=speaker,
            policy=request.policy,
        )

    def ask(self, stop: Stop) -> Generator[list[Event]]:
        """Generate the reply and yield its events; ``stop`` ends it from another thread."""
        with closing(self._question.stream()) as source:
            for event in source:
                if stop.stopped:
                    partial = self._whole().turn
                    raise StreamBroken("The reply was stopped.", provider="local", partial=partial)
                yield self._hear(event)

    async def ask_async(self) -> AsyncGenerator[list[Event]]:
        """Like ``ask``, with ``async``."""
        async with aclosing(self._question.astream()) as source:
            async for event in source:
                yield self._hear(event)

    def reply(self, last_events: list[Event]) -> Reply:
        """The complete reply."""
        del last_events  # ``_said`` has all events
        whole = self._whole()
        return Reply(whole.turn, whole.usage, whole.finish, provider=self.provider)

    def _hear(self, event: Event) -> list[Event]:
        self._said.append(event)
        self.streamed = True
        return [event]

    def _whole(self) -> Completed:
        return self._local.collect(self._said, self._speaker)
