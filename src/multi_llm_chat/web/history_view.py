"""A conversation as exchanges, from what the store and the service know.

Rules:
1. The turns decide what is shown; what answers took, how they ended and which branches there are is put beside it.
2. Answers that are being given come from ``live`` and not from their turns.
3. A run that failed without a word is shown with its error, unless its speaker was asked again.
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
    AnswerView,
    Attachment,
    Exchange,
    Footer,
    MessageView,
    Note,
    Segment,
    Switch,
    Thoughts,
    Tool,
    Words,
    address_of,
    argument_rows,
    attachment,
    hue_of,
    result_text,
)

#: A result, the turn it is in, and its place there.
Placing: TypeAlias = tuple[str, int, ToolResult]


class Beside(Struct, frozen=True):
    """What the store knows beside the turns."""

    runs: tuple[Run, ...] = ()
    totals: dict[str, Total] = field(default_factory=dict)
    siblings: dict[str, tuple[str, ...]] = field(default_factory=dict)


@reading
def read_beside(transaction: Transaction, conversation: str, turns: Sequence[str]) -> Beside:
    """Runs, spending, and the branches at these turns."""
    return Beside(
        runs(transaction, conversation),
        totals(transaction, conversation, "turn"),
        siblings(transaction, conversation, turns),
    )


def forks(placed: Sequence[Placed]) -> list[str]:
    """The turns at which branches are offered: messages, and what comes directly behind them."""
    return [
        each.turn.id or ""
        for number, each in enumerate(placed)
        if each.turn.role == "user" or number == 0 or placed[number - 1].turn.role == "user"
    ]


class Shower:
    """Makes exchanges of one conversation."""

    def __init__(
        self,
        conversation: str,
        names: Iterable[str],
        beside: Beside,
        *,
        live: Mapping[str, AnswerView] | None = None,
        footers: Mapping[str, Footer] | None = None,
    ) -> None:
        self._conversation = conversation
        self._names = tuple(names)
        self._beside = beside
        self._live = live or {}
        self._footers = footers or {}

    def exchanges(self, placed: Sequence[Placed]) -> list[Exchange]:
        """All exchanges of these turns, oldest first."""
        groups: list[list[Placed]] = []
        for each in by_run(placed):
            if each.turn.role == "user" or not groups:
                groups.append([])
            groups[-1].append(each)
        shown = [self._exchange(group) for group in groups]
        begun = {answer.run for exchange in shown for answer in exchange.answers}
        where = {each.turn.id: at for at, group in enumerate(groups) for each in group}
        bases = {run.id: run.base for run in self._beside.runs}
        for run, answer in self._live.items():
            if run not in begun and shown:
                at = where.get(bases.get(run), len(shown) - 1)
                exchange = shown[at]
                shown[at] = replace(exchange, answers=(*exchange.answers, answer))
        return shown

    def answer(self, run: str, turns: Sequence[Turn]) -> AnswerView:
        """One answer, from its turns."""
        speaker = next((turn.role for turn in turns if turn.role != "tool"), "tool")
        last = next((turn for turn in reversed(turns) if turn.role != "tool"), turns[-1])
        return AnswerView(
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

    def message(self, turn: Turn) -> MessageView:
        """One message of the user."""
        identifier = turn.id or ""
        return MessageView(
            identifier,
            render_markdown(typed(turn)),
            typed(turn),
            addressed_by(turn),
            bool(turn.meta.get("memo")),
            tuple(self._attachments(turn, identifier)),
            self._switch(identifier),
        )

    def _exchange(self, group: Sequence[Placed]) -> Exchange:
        first = group[0].turn
        message = self.message(first) if first.role == "user" else None
        rest = [each for each in group if each.turn.role not in ("user", "system")]
        answers = [
            self._live.get(run) or self.answer(run, turns) for run, turns in _by_run(rest).items()
        ]
        answers += self._failed(first.id, answers)
        switch = self._switch(rest[0].turn.id or "") if rest else None
        return Exchange(first.id or "", message, tuple(answers), switch)

    def _failed(self, base: str | None, answers: Sequence[AnswerView]) -> list[AnswerView]:
        """Those who failed without a word and were not asked again."""
        answered = {answer.speaker for answer in answers} | {
            answer.speaker for answer in self._live.values()
        }
        newest = {run.speaker: run for run in self._beside.runs if run.base == base and base}
        return [
            AnswerView(
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
        took = {name: seconds for turn in turns for name, seconds in _took(turn).items()}
        segments: list[Segment] = []
        for turn in turns:
            compressed = turn.meta.get("compressed")
            if isinstance(compressed, str):
                segments.append(Note(f"{run}-{len(segments)}", compressed))
            for position, part in enumerate(turn.parts):
                identifier = f"{run}-{len(segments)}"
                match part:
                    case Text() if part.content.strip():
                        segments.append(Words(identifier, render_markdown(part.content)))
                    case Thinking() if part.content:
                        segments.append(Thoughts(identifier, part.content))
                    case ToolCall():
                        segments.append(self._tool(identifier, part, results, took))
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
        results: list[Placing],
        took: Mapping[str, float],
    ) -> Tool:
        found = next((each for each in results if each[2].tool_call_id == call.tool_call_id), None)
        seconds = took.get(call.tool_call_id)
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
        spent = [self._beside.totals[turn.id] for turn in turns if turn.id in self._beside.totals]
        record = next((each for each in self._beside.runs if each.id == run), None)
        usage = Usage()
        cost: Decimal | None = Decimal(0) if spent else None
        for each in spent:
            usage += each.tokens
            known = each.costs.get("USD")
            cost = None if cost is None or known is None or each.unknown_costs else cost + known
        return Footer(
            usage if usage != Usage() else None,
            None if cost is None else money(cost),
            _seconds(record) if record else None,
            "cancelled" if record and record.status == "cancelled" else "",
            record.error if record else None,
        )

    def _attachments(self, turn: Turn, identifier: str) -> Iterable[Attachment]:
        for position, part in enumerate(turn.parts):
            if isinstance(part, Media):
                source = media_source(self._conversation, identifier, position)
                yield attachment(part, f"{identifier}-{position}", source)

    def _switch(self, turn: str) -> Switch | None:
        there = self._beside.siblings.get(turn, ())
        if len(there) < 2 or turn not in there:
            return None
        at = there.index(turn)
        return Switch(
            at + 1,
            len(there),
            there[at - 1] if at else None,
            there[at + 1] if at + 1 < len(there) else None,
        )


def tool_view(
    identifier: str, call: ToolCall, result: ToolResult | None, seconds: float | None = None
) -> Tool:
    """A call and its result, if it has one."""
    words = result_text(result)[0] if result else ""
    state = "running" if result is None else "failed" if result.is_error else "done"
    return Tool(
        identifier,
        call.name,
        state,
        rows=argument_rows(call),
        raw=call.raw_arguments or "" if call.error else "",
        result=words,
        seconds=seconds,
    )


def media_source(conversation: str, turn: str, position: int) -> str:
    """Where a picture or a file of a turn is served."""
    return f"/c/{address_of(conversation)}/media/{address_of(turn)}/{position}"


def money(cost: Decimal) -> str:
    """US dollars, with as many digits as say something."""
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


def _took(turn: Turn) -> dict[str, float]:
    """The seconds that each call took, as they were noted with the results; what others wrote there is passed over."""
    told = as_object(turn.meta.get("seconds")) or {}
    return {name: value for name, value in told.items() if isinstance(value, int | float)}


def _seconds(run: Run) -> float | None:
    return None if run.ended_ms is None else (run.ended_ms - run.began_ms) / 1000
