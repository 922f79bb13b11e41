"""The texts around the answers: tool calls, tokens, money, endings and errors; as plain text.

Rules:
1. Text of a model, a tool or a server is sanitized first.
2. Long text is cut, with a note of how much was left out.
3. An error is followed by advice.
"""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from msgspec import Struct

from multi_llm_chat.cli.messages import one_line, sanitize, tr
from multi_llm_chat.errors import (
    AuthError,
    BadRequest,
    ConnectionFailed,
    ContextTooLong,
    Overloaded,
    RateLimited,
    Refused,
    StoreError,
    StreamBroken,
)
from multi_llm_chat.events import FinishReason, StopReason, Usage
from multi_llm_chat.history.values import Media, Text, ToolCall, ToolResult
from multi_llm_chat.tools.approval import visible_text

_LONGEST_VALUE: Final = 60
_SECONDS_AN_HOUR: Final = 3600

#: The advice for each error, in a conversation and after a single question.
_HINTS: Final[dict[type[BaseException], tuple[str, ...]]] = {
    AuthError: ("Check the key: mlc keys list, mlc keys set.",) * 2,
    RateLimited: (
        "Wait a moment, then /retry, or ask another speaker.",
        "Wait a moment, then ask again, or ask another speaker: -m.",
    ),
    Overloaded: (
        "Their servers are busy: /retry later, or ask another speaker.",
        "Their servers are busy: ask again later, or another speaker: -m.",
    ),
    ConnectionFailed: (
        "Check the network and the proxy settings, then /retry.",
        "Check the network and the proxy settings, then ask again.",
    ),
    ContextTooLong: (
        "Start anew with /history new, or choose a model with a larger window: /model.",
        "Ask without --continue, or a speaker whose model has a larger window: -m.",
    ),
    Refused: ("Say it in other words, or ask another speaker.",) * 2,
    StreamBroken: (
        "What arrived is kept. /retry asks again.",
        "What arrived is kept. Continue: mlc chat --continue, then /retry.",
    ),
    BadRequest: (
        "/retry asks again; /model chooses another model.",
        "Ask again, or another speaker: -m.",
    ),
    StoreError: ("Make sure that the disk has room and the folder can be written to: mlc doctor.",)
    * 2,
}

#: The notice that an interrupted answer is resumed.
RESUMED: Final = "The answer was interrupted and begins anew."
#: The notice of an answer without text.
EMPTY: Final = "The answer is empty."

_FINISHES: Final[dict[FinishReason, str]] = {
    "length": "The answer was cut off: it reached the limit of its length.",
    "refusal": "The model declined to answer.",
    "safety": "The provider's safety filter stopped the answer.",
    "failed": "The provider could not use what the model wrote. /retry asks again.",
}

_STOPS: Final[dict[StopReason, str]] = {
    "iterations": "Stopped: too many rounds of tools.",
    "time": "Stopped: the time was used up.",
    "tokens": "Stopped: the tokens were used up.",
    "repetition": "Stopped: the same call brought the same result again.",
    "cancelled": "Stopped. What was said so far is kept.",
    "refusal": _FINISHES["refusal"],
    "length": _FINISHES["length"],
}


class AnswerSummary(Struct, frozen=True):
    """The end of an answer: its cost, and its stop reason if that is worth showing."""

    usage: Usage | None = None
    cost: Decimal | None = None
    stop: StopReason = "answered"


def arguments_text(call: ToolCall) -> str:
    """The arguments in one line."""
    if call.error is not None:
        return one_line(call.raw_arguments or "")
    return " ".join(f"{one_line(name)}={_short(value)}" for name, value in call.arguments.items())


def argument_lines(call: ToolCall) -> list[str]:
    """The complete arguments, at least one line each, to check before a tool runs; invisible characters are made visible."""
    if call.error is not None:
        return visible_text(call.raw_arguments or "").split("\n")
    return [
        line
        for name, value in call.arguments.items()
        for line in _named(one_line(visible_text(name)), visible_text(_written(value)).split("\n"))
    ]


def result_lines(result: ToolResult, most: int = 4) -> list[str]:
    """The first lines of a result, and how many are left out."""
    lines = [line for line in sanitize(_content_text(result.content)).split("\n") if line.strip()]
    if len(lines) <= most + 1:
        return lines
    return [*lines[:most], f"… {len(lines) - most:,} more lines"]


def seconds_text(seconds: float) -> str:
    """A duration as text."""
    if seconds < 1:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < _SECONDS_AN_HOUR:
        return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
    return f"{seconds // _SECONDS_AN_HOUR:.0f} h {seconds % _SECONDS_AN_HOUR // 60:.0f} min"


def cost_text(cost: Decimal) -> str:
    """An amount of US dollars; small ones with more digits."""
    if cost == 0:
        return "free"
    return (
        f"${cost:,.2f}"
        if cost >= 1
        else f"${cost:.4f}"
        if cost >= Decimal("0.0001")
        else "<$0.0001"
    )


def usage_text(usage: Usage | None, cost: Decimal | None, seconds: float | None) -> str:
    """Tokens, money and time in one line; unknown values are left out."""
    return " · ".join(_usage_parts(usage, cost, seconds))


def finish_text(reason: FinishReason) -> str:
    """The text about the end of a reply; empty if it ended normally."""
    return tr(_FINISHES.get(reason, ""))


def stop_text(reason: StopReason, *, is_empty: bool = False) -> str:
    """The text about the end of a run; empty if it ended normally, with text."""
    return tr(EMPTY if is_empty and reason == "answered" else _STOPS.get(reason, ""))


def error_lines(error: BaseException, *, once: bool = False) -> list[str]:
    """The error and the advice: for a conversation, or for a single question (``once``)."""
    lines = [line for line in sanitize(str(error)).split("\n") if line.strip()]
    hints = [hint[once] for kind, hint in _HINTS.items() if isinstance(error, kind)]
    wait: float | None = getattr(error, "retry_after", None)
    if wait:
        again = (
            "ask again, or ask another speaker: -m" if once else "/retry, or ask another speaker"
        )
        hints = [f"Wait {seconds_text(wait)}, then {again}."]
    return [*(lines or [type(error).__name__]), *(tr(hint) for hint in hints[:1])]


def _usage_parts(usage: Usage | None, cost: Decimal | None, seconds: float | None) -> Iterator[str]:
    if usage is not None and usage != Usage():
        cached = f" ({usage.cache_read_tokens:,} cached)" if usage.cache_read_tokens else ""
        thought = f" ({usage.thinking_tokens:,} thinking)" if usage.thinking_tokens else ""
        yield f"{usage.input_tokens:,} in{cached}"
        yield f"{usage.output_tokens:,} out{thought}"
    if seconds is not None:
        yield seconds_text(seconds)
    if cost is not None:
        yield cost_text(cost)


def _short(value: Any) -> str:
    text = one_line(json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def _written(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def _named(name: str, lines: list[str]) -> Iterator[str]:
    if len(lines) == 1:
        yield f"{name}: {lines[0]}"
        return
    yield f"{name}:"
    yield from (f"  {line}" for line in lines)


def _content_text(content: Any) -> str:
    match content:
        case str():
            return content
        case Text():
            return content.content
        case Media():
            return f"[{content.mime} {content.name or content.url or ''}".rstrip() + "]"
        case list() | tuple() if all(isinstance(part, str | Text | Media) for part in content):  # pyright: ignore[reportUnknownVariableType]  # JSON is untyped
            return "\n".join(_content_text(part) for part in content)  # pyright: ignore[reportUnknownVariableType]  # JSON is untyped
        case _:
            return json.dumps(content, ensure_ascii=False, default=str)
