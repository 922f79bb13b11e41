"""Send one request to the engine and collect the answer.

Rules:
1. Every request has a maximum prompt length. A longer prompt is refused (``PromptTooLong``) before it is processed,
   because the engine reports a prompt's token count first.
2. With every chunk, the client checks that the reader is still reading.
3. Usage is summed over all requests of one answer.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from multi_llm_chat.events import FinishReason, TextDelta, ThinkingDelta, Usage
from multi_llm_chat.history.json_values import as_list, as_object, as_text
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.local._engine import GenerationSink, LlamaEngine, PromptTooLong

_REASONS: Mapping[str, FinishReason] = {"stop": "stop", "length": "length"}

OnDelta = Callable[[TextDelta | ThinkingDelta], None]


class GeneratedText(Struct):
    """One generation: its text, why it ended, and the log probabilities of its first token."""

    text: str = ""
    reason: FinishReason = "stop"
    raw_reason: str = ""
    scores: dict[str, float] = field(default_factory=dict[str, float])


class EngineClient:
    """Sends requests to an engine for one reader."""

    def __init__(self, engine: LlamaEngine, sink: GenerationSink, context: int) -> None:
        self._engine = engine
        self._sink = sink
        self.context = context
        self.usage = Usage()

    def ask(
        self, messages: list[JsonObject], settings: JsonObject, *, on_delta: OnDelta | None = None
    ) -> GeneratedText:
        """Send one request.

        Args:
            messages: The chat's messages.
            settings: Further keys of the request; ``max_tokens`` is the room for the answer.
            on_delta: Receives every piece of the answer.

        Raises:
            PromptTooLong: The prompt and the room for the answer do not fit the window.
        """
        generated = GeneratedText()
        room = self.context - int(settings["max_tokens"])

        def receive(chunk: JsonObject) -> None:
            self._sink.check()
            progress = as_object(chunk.get("prompt_progress"))
            if progress is not None:
                if progress["total"] > room:
                    raise PromptTooLong(progress["total"])
                return
            self._count(as_object(chunk.get("usage")))
            for choice in as_list(chunk.get("choices")) or ():
                _receive_choice(choice, generated, on_delta)

        body: JsonObject = {
            "messages": messages,
            "return_progress": True,
            "stream_options": {"include_usage": True},
            **settings,
        }
        self._engine.chat(body, receive)
        return generated

    def _count(self, used: JsonObject | None) -> None:
        if used is None:
            return
        cached = (as_object(used.get("prompt_tokens_details")) or {}).get("cached_tokens", 0)
        self.usage = Usage(
            input_tokens=self.usage.input_tokens + used["prompt_tokens"],
            output_tokens=self.usage.output_tokens + used["completion_tokens"],
            cache_read_tokens=self.usage.cache_read_tokens + cached,
        )


def _receive_choice(choice: JsonObject, generated: GeneratedText, on_delta: OnDelta | None) -> None:
    delta: JsonObject = as_object(choice.get("delta")) or {}
    thought, text = as_text(delta.get("reasoning_content")), as_text(delta.get("content"))
    if thought and on_delta is not None:
        on_delta(ThinkingDelta(thought))
    if text:
        generated.text += text
        if on_delta is not None:
            on_delta(TextDelta(text))
    if choice.get("logprobs") and not generated.scores:
        generated.scores = _scores(choice["logprobs"])
    if reason := as_text(choice.get("finish_reason")):
        generated.reason, generated.raw_reason = _REASONS.get(reason, "other"), reason


def _scores(logprobs: Mapping[str, Any]) -> dict[str, float]:
    tokens = as_list(logprobs.get("content")) or ()
    return {
        entry["token"]: entry["logprob"] for first in tokens[:1] for entry in first["top_logprobs"]
    }
