"""Ration a model's thinking over the calls of one run."""

import re

import msgspec

from multi_llm_chat.agent.limits import ThinkingBudget
from multi_llm_chat.events import Usage
from multi_llm_chat.history.values import Thinking, Turn
from multi_llm_chat.request import Options

_WORDS = re.compile(r"\w+")


class ThinkingRation:
    """What is left of the budget, and the options that say so."""

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
        """Count what the model thought."""
        thought = " ".join(part.content for part in turn.parts if isinstance(part, Thinking))
        if not thought and not usage.thinking_tokens:
            return
        self._calls += 1
        # Where the provider does not count it, four characters are taken for a token.
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
