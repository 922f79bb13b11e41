"""Renders the turns of a conversation as exchanges for a page.

Rules:
1. The turns decide what is shown; costs, errors and branches are added to them.
2. Running answers come from ``live`` and not from their turns.
3. A run that failed without an answer is shown with its error, unless its speaker was asked again.
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from multi_llm_chat.chat.branch import COUNCIL, addressed_by, by_run, typed
from multi_llm_chat.events import Usage
from multi_llm_chat.history.json_values import as_object
from multi_llm_chat.history.values import Media, Text, Thinking, ToolCall, ToolResult, Turn
from multi_llm_chat.store import Placed, Run, Total, Transaction, reading, runs, siblings, totals
from multi_llm_chat.web.markdown import render_markdown
from multi_llm_chat.web.views import (
    Footer,
    NoteSegment,
    PageAnswer,
    PageAttachment,
    PageExchange,
    PageMessage,
    Segment,
    Switch,
    TextSegment,
    ThinkingSegment,
    ToolSegment,
    address_of,
    attachment,
    format_arguments,
    hue_of,
    result_text,
)

#: The turn of a result, its position in it, and the result.
PlacedResult: TypeAlias = tuple[str, int, ToolResult]


class HistoryDetails(Struct, frozen=True):
    """What the store knows about a conversation in addition to its turns."""

    runs: tuple[Run, ...] = ()
    totals: dict[str, Total] = field(default_factory=dict)
    siblings: dict[str, tuple[str, ...]] = field(default_factory=dict)


@reading
def read_history_details(
    transaction: Transaction, conversation: str, turns: Sequence[str]
) -> HistoryDetails:
    """Read runs, costs, and the branches at these turns."""
    return HistoryDetails(
        runs(transaction, conversation),
        totals(transaction, conversation, "turn"),
        siblings(transaction, conversation, turns),
    )


def find_forks(placed: Sequence[Placed]) -> list[str]:
    """The turns at which branches are offered: messages, and the first turn after each."""
    return [
        each.turn.id or ""
        for number, each in enumerate(placed)
        if each.turn.role == "user" or number == 0 or placed[number - 1].turn.role == "user"
    ]


class HistoryRenderer:
    """Renders the exchanges of one conversation."""

    def __init__(
        self,
        conversation: str,
        names: Iterable[str],
        details: HistoryDetails,
        *,
        live: Mapping[str, PageAnswer] | None = None,
        footers: Mapping[str, Footer] | None = None,
    ) -> None:
        self._conversation = conversation
        self._names = tuple(names)
        self._details = details
        self._live = live or {}
        self._footers = footers or {}

    def exchanges(self, placed: Sequence[Placed]) -> list[PageExchange]:
        """All exchanges of these turns, oldest first."""
        groups: list[list[Placed]] = []
        for each in by_run(placed):
            if each.turn.role == "user" or not groups:
                groups.append([])
            groups[-1].append(each)
        shown = [self._exchange(group) for group in groups]
        shown_runs = {answer.run for exchange in shown for answer in exchange.answers}
        where = {each.turn.id: at for at, group in enumerate(groups) for each in group}
        bases = {run.id: run.base for run in self._details.runs}
        for run, answer in self._live.items():
            if run not in shown_runs and shown:
                at = where.get(bases.get(run), len(shown) - 1)
                exchange = shown[at]
                shown[at] = replace(exchange, answers=(*exchange.answers, answer))
        return shown

    def answer(self, run: str, turns: Sequence[Turn]) -> PageAnswer:
        """One answer, from its turns."""
        speaker = next((turn.role for turn in turns if turn.role != "tool"), "tool")
        last = next((turn for turn in reversed(turns) if turn.role != "tool"), turns[-1])
        return PageAnswer(
            run,
            speaker,
            hue_of(speaker, self._names),
            last.model or "",
            self._segments(run, turns),
            self._footer(run, turns),
            last.id,
            is_council=any(turn.meta.get(COUNCIL) for turn in turns),
            is_partial=bool(last.meta.get("partial")),
        )

    def message(self, turn: Turn) -> PageMessage:
        """One message of the user."""
        identifier = turn.id or ""
        return PageMessage(
            identifier,
            render_markdown(typed(turn)),
            typed(turn),
            addressed_by(turn),
            bool(turn.meta.get("memo")),
            tuple(self._attachments(turn, identifier)),
            self._switch(identifier),
        )

    def _exchange(self, group: Sequence[Placed]) -> PageExchange:
        first = group[0].turn
        message = self.message(first) if first.role == "user" else None
        rest = [each for each in group if each.turn.role not in ("user", "system")]
        answers = [
            self._live.get(run) or self.answer(run, turns) for run, turns in _by_run(rest).items()
        ]
        answers += self._failed(first.id, answers)
        switch = self._switch(rest[0].turn.id or "") if rest else None
        return PageExchange(first.id or "", message, tuple(answers), switch)

    def _failed(self, base: str | None, answers: Sequence[PageAnswer]) -> list[PageAnswer]:
        """The runs that failed without an answer and whose speaker was not asked again."""
        answered = {answer.speaker for answer in answers} | {
            answer.speaker for answer in self._live.values()
        }
        newest = {run.speaker: run for run in self._details.runs if run.base == base and base}
        return [
            PageAnswer(
                run.id,
                run.speaker,
                hue_of(run.speaker, self._names),
                footer=Footer(error=run.error, seconds=_seconds(run)),
            )
            for run in newest.values()
            if run.status == "failed" and run.speaker not in answered
        ]

    def _segments(self, run: str, turns: Sequence[Turn]) -> tuple[Segment, ...]:
        results = [
            (turn.id or "", position, part)
            for turn in turns
            for position, part in enumerate(turn.parts)
            if isinstance(part, ToolResult)
        ]
        seconds_by_call = {
            name: seconds for turn in turns for name, seconds in _call_seconds(turn).items()
        }
        segments: list[Segment] = []
        for turn in turns:
            compressed = turn.meta.get("compressed")
            if isinstance(compressed, str):
                segments.append(NoteSegment(f"{run}-{len(segments)}", compressed))
            for position, part in enumerate(turn.parts):
                identifier = f"{run}-{len(segments)}"
                match part:
                    case Text() if part.content.strip():
                        segments.append(TextSegment(identifier, render_markdown(part.content)))
                    case Thinking() if part.content:
                        segments.append(ThinkingSegment(identifier, part.content))
                    case ToolCall():
                        segments.append(self._tool(identifier, part, results, seconds_by_call))
                    case Media():
                        source = media_source(self._conversation, turn.id or "", position)
                        segments.append(attachment(part, identifier, source))
                    case _:
                        pass
        return tuple(segments)

    def _tool(
        self,
        identifier: str,
        call: ToolCall,
        results: list[PlacedResult],
        seconds_by_call: Mapping[str, float],
    ) -> ToolSegment:
        found = next((each for each in results if each[2].tool_call_id == call.tool_call_id), None)
        seconds = seconds_by_call.get(call.tool_call_id)
        if found is None:
            return tool_view(identifier, call, None, seconds)
        results.remove(found)
        turn, position, result = found
        source = media_source(self._conversation, turn, position)
        files = tuple(
            attachment(media, f"{identifier}-{number}", f"{source}/{number}")
            for number, media in enumerate(result_text(result)[1])
        )
        return replace(tool_view(identifier, call, result, seconds), attachments=files)

    def _footer(self, run: str, turns: Sequence[Turn]) -> Footer:
        if run in self._footers:
            return self._footers[run]
        spent = [self._details.totals[turn.id] for turn in turns if turn.id in self._details.totals]
        record = next((each for each in self._details.runs if each.id == run), None)
        usage = Usage()
        cost: Decimal | None = Decimal(0) if spent else None
        for each in spent:
            usage += each.tokens
            known = each.costs.get("USD")
            cost = None if cost is None or known is None or each.unknown_costs else cost + known
        return Footer(
            usage if usage != Usage() else None,
            None if cost is None else format_money(cost),
            _seconds(record) if record else None,
            "cancelled" if record and record.status == "cancelled" else "",
            record.error if record else None,
        )

    def _attachments(self, turn: Turn, identifier: str) -> Iterable[PageAttachment]:
        for position, part in enumerate(turn.parts):
            if isinstance(part, Media):
                source = media_source(self._conversation, identifier, position)
                yield attachment(part, f"{identifier}-{position}", source)

    def _switch(self, turn: str) -> Switch | None:
        branches = self._details.siblings.get(turn, ())
        if len(branches) < 2 or turn not in branches:
            return None
        at = branches.index(turn)
        return Switch(
            at + 1,
            len(branches),
            branches[at - 1] if at else None,
            branches[at + 1] if at + 1 < len(branches) else None,
        )


def tool_view(
    identifier: str, call: ToolCall, result: ToolResult | None, seconds: float | None = None
) -> ToolSegment:
    """A call and its result, if it has one."""
    text = result_text(result)[0] if result else ""
    state = "running" if result is None else "failed" if result.is_error else "done"
    return ToolSegment(
        identifier,
        call.name,
        state,
        rows=format_arguments(call),
        raw=call.raw_arguments or "" if call.error else "",
        result=text,
        seconds=seconds,
    )


def media_source(conversation: str, turn: str, position: int) -> str:
    """The URL of a picture or a file of a turn."""
    return f"/c/{address_of(conversation)}/media/{address_of(turn)}/{position}"


def format_money(cost: Decimal) -> str:
    """Format US dollars with the significant digits."""
    if not cost:
        return "$0"
    return (
        f"${cost:.2f}" if cost >= 1 else f"${cost:.4f}" if cost >= Decimal("0.0001") else "<$0.0001"
    )


def _by_run(placed: Iterable[Placed]) -> dict[str, list[Turn]]:
    """The turns of each answer; turns without a run belong to the speaker before them."""
    answers: dict[str, list[Turn]] = {}
    speaker, key = "", ""
    for each in placed:
        if each.run_id is not None:
            key = each.run_id
        elif each.turn.role not in ("tool", speaker) or not key:
            key = f"turn-{each.turn.id}"
        speaker = speaker if each.turn.role == "tool" else each.turn.role
        answers.setdefault(key, []).append(each.turn)
    return answers


def _call_seconds(turn: Turn) -> dict[str, float]:
    """The duration of each call, noted with its result; values of other programs are ignored."""
    noted = as_object(turn.meta.get("seconds")) or {}
    return {name: value for name, value in noted.items() if isinstance(value, int | float)}


def _seconds(run: Run) -> float | None:
    return None if run.ended_ms is None else (run.ended_ms - run.began_ms) / 1000
