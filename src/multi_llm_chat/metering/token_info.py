"""How much of a model's window a message and its history take: the first seed system's function."""

from collections.abc import Iterable, Mapping
from typing import Any

from multi_llm_chat.history.reader import read_history
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.metering.model_windows import Window, window_of
from multi_llm_chat.metering.token_count import get_buffer_factor
from multi_llm_chat.metering.tokenizers import counter_for


def get_token_info(
    text: str,
    history: Iterable[Any] | None = None,
    model_name: str | None = None,
    has_tools: bool = False,
    *,
    tools: Iterable[Any] = (),
    provider: str = "",
    windows: Mapping[str, int | Window] | None = None,
) -> JsonObject:
    """The tokens of a text and a history, and how many the model takes.

    Args:
        text: What is about to be said.
        history: What was said before.
        model_name: The model; its tokenizer counts where it is here, otherwise the count is an estimate.
        has_tools: Whether tools are offered.
        tools: The definitions of those tools, in any form; they are counted as well.
        provider: Who serves the model.
        windows: Windows by model name or pattern that come before our own table.

    Returns:
        ``input_tokens``, ``max_tokens`` (the model's window) and ``is_estimate``. An estimate is raised by
        20 %, and whatever is counted by half where tools are offered: how a provider words them is its secret.
    """
    counter = counter_for(model_name)
    offered = list(tools)
    with_tools = has_tools or bool(offered)
    tokens = (
        counter.text(text) + counter.turns(read_history(history or ())) + counter.tools(offered)
    )
    is_estimate = with_tools or not counter.is_exact
    return {
        "input_tokens": int(tokens * get_buffer_factor(with_tools)) if is_estimate else tokens,
        "max_tokens": window_of(model_name or "", provider, windows).tokens,
        "is_estimate": is_estimate,
    }
