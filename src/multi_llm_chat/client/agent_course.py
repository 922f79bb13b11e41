"""What both ways of running a model with tools have in common: everything but waiting.

Rules:
1. Decisions are those of ``agent_loop``; here is only the book-keeping around it.
2. Results can be edited or asked for again until the model is asked to go on.
3. Two runs share nothing: each has its own loop, results and controls.
4. A run that was interrupted goes on from the outcomes of its first effects: what they were is not done again.
"""

import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from multi_llm_chat.client.agent_context import Compression, Fitting
from multi_llm_chat.client.agent_events import (
    AgentEvent,
    AgenticLoopResult,
    TurnFinished,
    chunk_of,
)
from multi_llm_chat.client.provider import LLMProvider
from multi_llm_chat.client.reply import Reply
from multi_llm_chat.errors import ProviderError, UsageError
from multi_llm_chat.events import TextDelta
from multi_llm_chat.history.reading import read_history
from multi_llm_chat.history.values import JsonObject, Text, ToolCall, ToolResult, Turn
from multi_llm_chat.loop.agent import LoopEnd, agent_loop, final_text
from multi_llm_chat.loop.effects import (
    CallModel,
    Cancelled,
    Effect,
    ModelAnswered,
    ModelFailed,
    Outcome,
    RunTools,
    ToolsRan,
)
from multi_llm_chat.loop.limits import LoopLimits
from multi_llm_chat.repair import RepairPolicy
from multi_llm_chat.request import Options, ToolDefinition
from multi_llm_chat.tools.runner import ToolRunner


class Course:
    """One run: where it stands, what came of it, and what may still be changed."""

    def __init__(
        self,
        provider: LLMProvider,
        history: Iterable[Any],
        tools: ToolRunner,
        *,
        system_prompt: str | None = None,
        options: Options | None = None,
        limits: LoopLimits = LoopLimits(),
        conversation: str | None = None,
        compression: Compression | None = Compression(),
        policy: RepairPolicy | None = None,
        replay: Sequence[Outcome] = (),
    ) -> None:
        self.provider = provider
        self.tools = tools
        self.conversation = conversation
        self.fitting = Fitting(provider, compression, system_prompt)
        self._system_prompt = system_prompt
        self._policy = policy
        self._loop = agent_loop(
            read_history(history), options=options or provider.options, limits=limits
        )
        self._replay = tuple(replay)
        self._started = time.monotonic() - max((each.elapsed for each in replay), default=0.0)
        self._chunks: list[JsonObject] = []
        self._words: list[str] = []
        self._offered: Sequence[ToolDefinition] | None = None
        self._heard = False
        self._calls: dict[str, ToolCall] = {}
        self._results: dict[str, ToolResult] = {}
        self._end: LoopEnd | None = None
        self._finished: list[TurnFinished] = []

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._started

    @property
    def result(self) -> AgenticLoopResult:
        """How the run ended; ``UsageError`` while it goes on."""
        end = self._end
        if end is None:
            raise UsageError("The run has not ended yet; read its events to the end first")
        return AgenticLoopResult(
            chunks=tuple(self._chunks),
            history_delta=end.delta,
            final_text=final_text(end.delta),
            iterations_used=end.iterations,
            timed_out=end.reason == "time",
            error=end.error,
            stop_reason=end.reason,
            usage=end.usage,
            compressions=tuple(self.fitting.notes),
        )

    def begin(self) -> Effect | None:
        """The first thing to do; None if everything was done before the run was interrupted."""
        effect: Effect | None = next(self._loop)
        for outcome in self._replay:
            if effect is None or isinstance(outcome, ToolsRan) != isinstance(effect, RunTools):
                raise UsageError("What the run has done before is not what it does now")
            effect = self.advance(outcome)
        return effect

    def advance(self, outcome: Outcome) -> Effect | None:
        """The next thing to do; None when the run is over."""
        effect: Effect | None = None
        try:
            effect = self._loop.send(outcome)
            added = effect.added
        except StopIteration as stop:
            self._end = stop.value
            added = stop.value.added
        whole = isinstance(outcome, (ModelAnswered, ToolsRan))
        for turn in added:
            usage = outcome.usage if isinstance(outcome, ModelAnswered) else None
            is_models = turn.role != "tool"
            self._finished.append(
                TurnFinished(turn, usage if is_models else None, whole or not is_models)
            )
        return effect

    def finished(self) -> list[TurnFinished]:
        """The turns that were added since this was last asked."""
        finished, self._finished = self._finished, []
        return finished

    def fit(self, effect: CallModel) -> None:
        """Fit the next request into the window."""
        self._offered = self.tools.definitions() if effect.offer_tools else None
        self.fitting.begin(effect.history, self._offered or (), effect.options)

    def question(self, effect: CallModel) -> dict[str, Any]:
        """The arguments with which the provider is asked, once the request is fitted."""
        self._words = []
        self._heard = False
        return {
            "history": self.fitting.turns,
            "system_prompt": self._system_prompt,
            "tools": self._offered,
            "options": effect.options,
            "policy": self._policy,
        }

    def asks_again(self, error: ProviderError) -> bool:
        """Whether the model is asked once more, with less, after it refused a request as too long."""
        return not self._heard and self.fitting.refused(error)

    def seen(self, event: AgentEvent) -> AgentEvent:
        """Note an event on its way to whoever listens."""
        self._heard = True
        if type(event) is TextDelta:
            self._words.append(event.text)
        chunk = chunk_of(event)
        if chunk is not None:
            self._chunks.append(chunk)
        return event

    def answered(self, reply: Reply) -> ModelAnswered:
        """The model is done."""
        self.fitting.answered(reply.usage)
        return ModelAnswered(reply.turn, reply.finish.reason, reply.usage, self.elapsed)

    def failed(self, error: ProviderError) -> ModelFailed:
        """The model gave no whole answer."""
        partial = error.partial if isinstance(error.partial, Turn) else None
        return ModelFailed(error, partial, self.elapsed)

    def cancelled(self) -> Cancelled:
        """The run was stopped: what was said, and the results there are."""
        words = "".join(self._words)
        partial = Turn(self.provider.speaker, (Text(words),)) if words.strip() else None
        return Cancelled(partial, tuple(self._results.values()), self.elapsed)

    def expect(self, calls: Iterable[ToolCall]) -> None:
        """Forget earlier results; these calls are answered next."""
        self._words = []
        self._calls = {call.tool_call_id: call for call in calls}
        self._results = {}

    def found(self, call: ToolCall, result: ToolResult) -> None:
        """Keep a result."""
        self._results[call.tool_call_id] = result

    def ran(self) -> ToolsRan:
        """All tools have run, and nobody wants to change anything any more."""
        return ToolsRan(tuple(self._results.values()), self.elapsed)

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The results that the model has not been told yet."""
        return tuple(self._results.values())

    def modify_tool_result(self, tool_call_id: str, content: Any) -> ToolResult:
        """Tell the model something else than the tool did."""
        self.call_of(tool_call_id)
        edited = msgspec.structs.replace(self._results[tool_call_id], content=content)
        self._results[tool_call_id] = edited
        return edited

    def call_of(self, tool_call_id: str) -> ToolCall:
        """The call whose result is waiting to be told."""
        if tool_call_id not in self._results:
            waiting = ", ".join(self._results) or "none"
            raise UsageError(f"No result of {tool_call_id!r} waits to be told (waiting: {waiting})")
        return self._calls[tool_call_id]
