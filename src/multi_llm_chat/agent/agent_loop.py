"""The agentic loop as a pure function: it decides between model and tools until the model answers.

Rules:
1. Every call gets exactly one result, in the order of the calls, also if it failed or did not run.
2. Every request contains all earlier rounds: history and everything this run added.
3. The run ends with text from the model if possible: when it reaches a limit, it sends one more request, without tools. At the time limit
   it ends with the text so far.
4. The run sends a reply that the provider paused back unchanged, within the limit of iterations (ANT-47).
5. Text and results that arrived before a cancel or a failure are kept.
6. The same history and outcomes give the same effects: no clock, no randomness, no input or output.
7. ``Repetition`` detects a model that repeats the same call with the same result.
8. ``ThinkingRation`` applies the thinking budget over all requests of one run.
"""

import json
import re
from collections import Counter
from collections.abc import Generator, Sequence
from hashlib import blake2b

import msgspec
from msgspec import Struct

from multi_llm_chat.agent.effects import (
    CallModel,
    Cancelled,
    Effect,
    ModelAnswered,
    ModelFailed,
    Outcome,
    RunTools,
    ToolsRan,
)
from multi_llm_chat.agent.limits import LoopLimits, ThinkingBudget
from multi_llm_chat.errors import LimitReached, ProviderError
from multi_llm_chat.events import StopReason, Usage
from multi_llm_chat.history.json_values import clean_json
from multi_llm_chat.history.values import Text, Thinking, ToolCall, ToolResult, Turn
from multi_llm_chat.request import Options

CANCELLED = "[cancelled: the user stopped the run before this tool had finished]"
TIME_UP = "[not finished: the time of the run was up]"
NO_RESULT = "[no result: the tool gave none]"
NO_MORE = "[not run: the run had reached its limit]"
BAD_ARGUMENTS = "[not run: the arguments could not be used: {error}]"

#: The result of a tool that a stopped run did not wait for.
_MISSING = {"cancelled": CANCELLED, "time": TIME_UP}

#: The stop reasons of a run whose last answer has no calls, by finish reason; ``answered`` for all others.
_ENDINGS: dict[str, StopReason] = {
    "refusal": "refusal",
    "safety": "refusal",
    "length": "length",
    "paused": "iterations",
}


class LoopEnd(Struct, frozen=True):
    """How a run ended: the turns it added, why it stopped, and what it used.

    ``added`` are the turns that no effect has reported yet.
    """

    delta: tuple[Turn, ...]
    reason: StopReason
    iterations: int
    usage: Usage
    error: ProviderError | LimitReached | None = None
    added: tuple[Turn, ...] = ()


def agent_loop(
    history: Sequence[Turn], *, options: Options = Options(), limits: LoopLimits = LoopLimits()
) -> Generator[Effect, Outcome, LoopEnd]:
    """Run a model with tools: yield effects, receive their outcomes, return how the run ended."""
    return (yield from _Loop(history, options, limits).run())


class _Loop:
    def __init__(self, history: Sequence[Turn], options: Options, limits: LoopLimits) -> None:
        self._history = tuple(history)
        self._options = options
        self._limits = limits
        self._delta: list[Turn] = []
        self._reported = 0
        self._usage = Usage()
        self._iterations = 0
        self._repetition = Repetition()
        self._ration = ThinkingRation(limits.thinking)
        self._repeats = 0
        self._pauses = 0

    def run(self) -> Generator[Effect, Outcome, LoopEnd]:
        stop: StopReason | None = None
        while True:
            outcome = yield self._ask(offer_tools=stop is None)
            if not isinstance(outcome, ModelAnswered):
                return self._broken(outcome)
            calls = self._take_answer(outcome)
            if outcome.finish == "paused" and not calls and self._may_continue(stop):
                continue
            if calls and stop is not None:
                self._answer(calls, (), NO_MORE)
            if not calls or stop is not None:
                return self._end(stop or _ENDINGS.get(outcome.finish, "answered"))
            ran = yield RunTools(calls, self._iterations, self._added())
            if not isinstance(ran, ToolsRan):
                stopped = ran if isinstance(ran, Cancelled) else Cancelled()
                self._answer(calls, stopped.results, _MISSING[stopped.reason])
                return self._end(stopped.reason)
            self._answer(calls, ran.results, NO_RESULT)
            stop = self._limit(ran.elapsed)
            if stop == "time":
                return self._end(stop)

    def _may_continue(self, stop: StopReason | None) -> bool:
        """Whether a paused turn is continued."""
        self._pauses += 1
        most = self._limits.iterations
        return self._pauses < most and (stop is not None or self._iterations < most)

    def _ask(self, *, offer_tools: bool) -> CallModel:
        self._iterations += offer_tools
        options = self._ration.options(self._options)
        history = (*self._history, *self._delta)
        return CallModel(history, offer_tools, options, self._iterations, self._added())

    def _added(self) -> tuple[Turn, ...]:
        """The turns that were not reported yet."""
        added = tuple(self._delta[self._reported :])
        self._reported = len(self._delta)
        return added

    def _take_answer(self, answer: ModelAnswered) -> tuple[ToolCall, ...]:
        """Add the model's turn; return the calls to run."""
        self._delta.append(answer.turn)
        self._usage += answer.usage
        self._ration.spend(answer.turn, answer.usage)
        if answer.finish in ("refusal", "safety"):
            return ()
        return tuple(part for part in answer.turn.parts if isinstance(part, ToolCall))

    def _answer(
        self, calls: Sequence[ToolCall], results: Sequence[ToolResult], missing: str
    ) -> None:
        """Add one result for each call, in their order."""
        found: dict[str, list[ToolResult]] = {}
        for result in results:
            found.setdefault(result.tool_call_id, []).append(result)
        answers: list[ToolResult] = []
        for call in calls:
            waiting = found.get(call.tool_call_id)
            answer = waiting.pop(0) if waiting else _missing(call, missing)
            answer, times = self._repetition.marked(call, answer)
            self._repeats = max(self._repeats, times)
            answers.append(answer)
        speaker = self._delta[-1].role
        self._delta.append(Turn("tool", tuple(answers), meta={"speaker": speaker}))

    def _limit(self, elapsed: float) -> StopReason | None:
        limits = self._limits
        used = self._usage.input_tokens + self._usage.output_tokens
        reached: tuple[tuple[StopReason, bool], ...] = (
            ("iterations", self._iterations >= limits.iterations),
            ("time", limits.seconds is not None and elapsed >= limits.seconds),
            ("tokens", limits.tokens is not None and used >= limits.tokens),
            ("repetition", self._repeats >= limits.repeats),
        )
        return next((reason for reason, is_reached in reached if is_reached), None)

    def _broken(self, outcome: Outcome) -> LoopEnd:
        partial = None
        if isinstance(outcome, (ModelFailed, Cancelled)):
            partial = outcome.partial
            self._usage += outcome.usage
        if partial is not None and any(not isinstance(part, Thinking) for part in partial.parts):
            self._delta.append(partial)
            calls = [part for part in partial.parts if isinstance(part, ToolCall)]
            if calls:
                self._answer(calls, (), CANCELLED)
        if isinstance(outcome, ModelFailed):
            return self._end("error", outcome.error)
        return self._end(outcome.reason if isinstance(outcome, Cancelled) else "cancelled")

    def _end(
        self, reason: StopReason, error: ProviderError | LimitReached | None = None
    ) -> LoopEnd:
        delta = tuple(self._delta)
        return LoopEnd(delta, reason, self._iterations, self._usage, error, self._added())


def _missing(call: ToolCall, text: str) -> ToolResult:
    if call.error is not None:
        text = BAD_ARGUMENTS.format(error=call.error)
    return ToolResult(call.name, text, call.tool_call_id, is_error=True, synthetic=True)


def final_text(turns: Sequence[Turn]) -> str:
    """The words of the last model turn."""
    last = next((turn for turn in reversed(turns) if turn.role != "tool"), None)
    if last is None:
        return ""
    return "\n\n".join(part.content for part in last.parts if isinstance(part, Text))


# Repeated calls.

_REPEATED = (
    "[This is the same call with the same result as before. "
    "Use what you have, try something else, or answer.]"
)


class Repetition:
    """Counts equal calls with equal results over one run."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, bytes]] = Counter()

    def marked(self, call: ToolCall, result: ToolResult) -> tuple[ToolResult, int]:
        """The result, with a remark for the model if it is a repetition, and how often it has occurred."""
        # A digest: results may hold pictures.
        said = _sorted_json([call.arguments, result.content])
        key = (call.name, blake2b(said, digest_size=16).digest())
        self._seen[key] += 1
        times = self._seen[key]
        if times == 1 or not isinstance(result.content, str):
            return result, times
        marked = ToolResult(
            result.name,
            f"{result.content}\n{_REPEATED}",
            result.tool_call_id,
            result.is_error,
            result.synthetic,
        )
        return marked, times


def _sorted_json(value: object) -> bytes:
    """The value as text that does not depend on the order of keys."""
    try:
        return msgspec.json.encode(value, order="sorted")
    except (
        TypeError,
        ValueError,
        OverflowError,
        RecursionError,
    ):  # not strict JSON, or huge numbers
        return json.dumps(clean_json(value), sort_keys=True).encode()


# The thinking budget.

_WORDS = re.compile(r"\w+")


class ThinkingRation:
    """Tracks the thinking budget of a run and limits the options of its requests accordingly."""

    def __init__(self, budget: ThinkingBudget) -> None:
        self._budget = budget
        self._calls = 0
        self._tokens = 0
        self._last: frozenset[str] = frozenset()
        self._circling = False

    def options(self, options: Options) -> Options:
        """The options for the next call."""
        wanted = options.thinking
        if not wanted:
            return options
        if self._used_up():
            return msgspec.structs.replace(options, thinking=False)
        if isinstance(wanted, int) and wanted is not True:
            left = min(wanted, self._budget.tokens_a_call, self._budget.tokens - self._tokens)
            return msgspec.structs.replace(options, thinking=left)
        return options

    def spend(self, turn: Turn, usage: Usage) -> None:
        """Count the thinking of a turn."""
        thought = " ".join(part.content for part in turn.parts if isinstance(part, Thinking))
        if not thought and not usage.thinking_tokens:
            return
        self._calls += 1
        # If the provider does not report thinking tokens, four characters count as one token.
        self._tokens += usage.thinking_tokens or len(thought) // 4
        words = frozenset(_WORDS.findall(thought.lower()))
        self._circling = overlap(words, self._last) > self._budget.overlap
        self._last = words

    def _used_up(self) -> bool:
        return (
            self._circling
            or self._calls >= self._budget.calls
            or self._tokens >= self._budget.tokens
        )


def overlap(one: frozenset[str], other: frozenset[str]) -> float:
    """The share of words that two thoughts have in common."""
    together = one | other
    return len(one & other) / len(together) if together else 0.0
