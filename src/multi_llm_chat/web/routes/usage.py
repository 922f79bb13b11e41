"""The page of the user's spending: by day, speaker and model.

Rules:
1. All branches and all chats count, also archived and deleted ones, because their requests were paid for.
2. Unknown costs are shown ("at least"), and never count as zero.
3. The savings by the cache are the price of the same tokens without it, minus what they cost, at today's prices; they are left out if no
   price is known.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from multi_llm_chat.chat.planner import configured_prices
from multi_llm_chat.chat.workspace import Workspace
from multi_llm_chat.errors import MultiLLMChatError
from multi_llm_chat.events import Usage
from multi_llm_chat.metering.prices import savings_of
from multi_llm_chat.store import SpentRow, spent_by_day
from multi_llm_chat.web.history_view import format_money
from multi_llm_chat.web.routes.request_context import RequestContext
from multi_llm_chat.web.routes.settings import render_page
from multi_llm_chat.web.views import hue_of

#: Days that the page can show.
PERIODS: Final = (7, 30, 90)
_DAY_MS: Final = 86_400_000
#: Height of the highest bar.
_HIGHEST: Final = 96


class SpentLine(Struct, frozen=True):
    """A line of a table: the spending, and the height of its bar."""

    name: str
    tokens: Usage
    cost: Decimal
    is_at_least: bool
    saved: Decimal | None = None
    hue: int = 0
    height: int = 0

    @property
    def price(self) -> str:
        """The cost as text."""
        return f"{'≥ ' if self.is_at_least else ''}{format_money(self.cost)}"

    @property
    def saved_price(self) -> str:
        """The savings by the cache; empty if unknown or zero."""
        return format_money(self.saved) if self.saved and self.saved > 0 else ""

    @property
    def cached(self) -> int:
        """The share of the input that came from a cache, in percent."""
        read, sent = self.tokens.cache_read_tokens, self.tokens.input_tokens
        return round(100 * read / sent) if sent else 0


async def page(request: Request) -> Response:
    """The user's spending in the last days."""
    context = RequestContext(request)
    asked = request.query_params.get("days", "")
    days = int(asked) if asked.isdecimal() and int(asked) in PERIODS else PERIODS[1]
    now = datetime.now(UTC).astimezone()
    offset = int((now.utcoffset() or timedelta()).total_seconds() * 1000)
    today = (time.time_ns() // 1_000_000 + offset) // _DAY_MS
    first = today - days + 1
    rows = await context.store.arun(spent_by_day, first * _DAY_MS - offset, offset)
    workspace = context.hub.workspace
    # In a thread: the table of prices takes half a second to load.
    saved = await asyncio.to_thread(_saved_by_cache, workspace, rows)
    by_day = {row.day: row for row in sum_by(rows, lambda row: row.day)}
    highest = max((row.cost for row in by_day.values()), default=Decimal(0))
    return render_page(
        context,
        "usage",
        days=days,
        periods=PERIODS,
        total=_line("", rows, sum(filter(None, saved.values()), Decimal(0))),
        bars=[_bar(day, by_day.get(day), highest) for day in range(first, today + 1)],
        speakers=[
            _line(
                name, each, _sum(saved[key] for key in saved if key[0] == name),
                hue_of(name, workspace.speakers),
            )
            for name, each in _groups(rows, lambda row: row.speaker)
        ],
        models=[
            _line(name, each, _sum(saved[key] for key in saved if key[1] == name))
            for name, each in _groups(rows, lambda row: row.model)
        ],
    )  # fmt: skip


def sum_by(rows: Iterable[SpentRow], key: Callable[[SpentRow], object]) -> list[SpentRow]:
    """The rows that have the same key as one row each."""
    summed: dict[object, SpentRow] = {}
    for row in rows:
        before = summed.get(key(row))
        summed[key(row)] = row if before is None else before + row
    return list(summed.values())


def _groups(
    rows: Sequence[SpentRow], key: Callable[[SpentRow], str]
) -> list[tuple[str, list[SpentRow]]]:
    """The rows by key, the most expensive first."""
    groups: dict[str, list[SpentRow]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return sorted(groups.items(), key=lambda each: (-sum(row.cost for row in each[1]), each[0]))


def _line(
    name: str, rows: Sequence[SpentRow], saved: Decimal | None = None, hue: int = 0
) -> SpentLine:
    merged = sum_by(rows, lambda _row: "")
    tokens = merged[0].tokens if merged else Usage()
    cost = merged[0].cost if merged else Decimal(0)
    unknown = bool(merged and merged[0].unknown)
    return SpentLine(name, tokens, cost, unknown, saved, hue)


def _bar(day: int, row: SpentRow | None, highest: Decimal) -> SpentLine:
    name = f"{datetime.fromtimestamp(day * 86_400, UTC):%Y-%m-%d}"
    if row is None:
        return SpentLine(name, Usage(), Decimal(0), is_at_least=False)
    height = int(_HIGHEST * row.cost / highest) if highest else 0
    return SpentLine(name, row.tokens, row.cost, bool(row.unknown), height=max(1, height))


def _sum(values: Iterable[Decimal | None]) -> Decimal:
    return sum((value for value in values if value is not None), Decimal(0))


def _saved_by_cache(
    workspace: Workspace, rows: Sequence[SpentRow]
) -> dict[tuple[str, str], Decimal | None]:
    return {
        (row.speaker, row.model): _saved(workspace, row.speaker, row.model, row.tokens)
        for row in sum_by(rows, lambda row: (row.speaker, row.model))
    }


def _saved(workspace: Workspace, speaker: str, model: str, tokens: Usage) -> Decimal | None:
    """The savings by the cache; None if the speaker is not configured any more, or its prices are unknown."""
    try:
        provider = workspace.speakers[speaker].provider
    except (MultiLLMChatError, ValueError, KeyError):
        return None
    return savings_of(tokens, provider.priced_as, model, configured_prices(workspace.settings))
