"""Fit a whole request into a model's window: system text, tools and turns together."""

from collections.abc import Iterable
from typing import Any

import msgspec

from multi_llm_chat.agent.window._compression import compress
from multi_llm_chat.agent.window.compression_notes import WHOLE, CompressionNote, Cut, Reason
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.history.values import Turn
from multi_llm_chat.metering.model_windows import Window
from multi_llm_chat.metering.token_count import Counter
from multi_llm_chat.request import Options


def fit(
    history: Iterable[Any],
    window: Window | int,
    system_prompt: str | None = None,
    tools: Iterable[Any] = (),
    options: Options = Options(),
    counter: Counter | None = None,
    *,
    cut: Cut = WHOLE,
    factor: float | None = None,
    limit: int | None = None,
    summarise: bool = False,
    reason: Reason = "window",
) -> tuple[tuple[Turn, ...], CompressionNote | None]:
    """The turns to send, and what they leave out; all turns and no note if everything fits.

    Args:
        history: The conversation; not changed.
        window: The model's window, from ``window_of`` or in tokens.
        system_prompt: Sent with it.
        tools: Definitions that are offered with it.
        options: Settings of the request; ``max_tokens`` stays free for the answer.
        counter: Counts tokens; use one for a whole conversation, since it caches counts of turns. An estimate if not given.
        cut: The ``cut`` of the note of an earlier request, so that what was left out stays so.
        factor: What counts are multiplied with; 1 for a tokenizer, the buffer factor for an estimate.
        limit: Most tokens of the whole request, if that is less than the window allows.
        summarise: Leave out whole exchanges and reserve room for a summary; the caller writes the summary into the cut.
        reason: Why a cut is made, for the note.
    """
    turns = read_history(history)
    offered = list(tools)
    counter = counter or Counter()
    factor = counter.factor(bool(offered)) if factor is None else factor
    window = window if isinstance(window, Window) else Window(window)
    budget = window.budget(options.max_tokens)
    budget = budget if limit is None else min(budget, limit)
    overhead = overhead_tokens(system_prompt, offered, counter)
    room = max(int(budget / factor) - overhead, 0)
    sent, note = compress(turns, room, counter, cut=cut, summarise=summarise, reason=reason)
    if note is None:
        return sent, None
    whole = msgspec.structs.replace(
        note,
        tokens_before=int((note.tokens_before + overhead) * factor),
        tokens_after=int((note.tokens_after + overhead) * factor),
        budget=budget,
    )
    return sent, whole


def overhead_tokens(system_prompt: str | None, tools: Iterable[Any], counter: Counter) -> int:
    """The tokens of a request without its turns: system prompt and tools."""
    return counter.text(system_prompt or "") + counter.tools(tools)
