"""Renders the turns of a conversation as exchanges for a page.

Rules:
1. The view is made from the turns; costs, errors and branches are added.
2. Running answers come from ``live`` and not from their turns.
3. A run that failed without an answer is shown with its error, unless its speaker was asked again.
4. Answers are in the order in which the message addresses their speakers, the council's verdict last.
5. Every answer has its own switch to the same speaker's other answers to the message. It leads to the branch that has most of the other
   shown answers.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from multi_llm_chat.chat.branch import COUNCIL, addressed_by, typed
from multi_llm_chat.chat.council import read_verdict, readable_turn
from multi_llm_chat.events import Usage
from multi_llm_chat.history.json_values import as_object
from multi_llm_chat.history.values import (
    JsonObject,
    Media,
    Native,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from multi_llm_chat.metering.token_count import Counter
from multi_llm_chat.store import (
    Placed,
    Run,
    Total,
    Transaction,
    children,
    get_turn,
    reading,
    runs_at,
    siblings,
    turn_totals,
)
from multi_llm_chat.tools.approval import visible_text
from multi_llm_chat.tools.tool_output import without_note
from multi_llm_chat.web.artifacts import (
    Artifact,
    CodeBlock,
    may_have_artifacts,
    split_artifacts,
)
from multi_llm_chat.web.cited_text import read_sources, render_text, verdict_view
from multi_llm_chat.web.exchange_groups import turns_by_run
from multi_llm_chat.web.markdown import render_markdown
from multi_llm_chat.web.views import (
    ArtifactSegment,
    Footer,
    NoteSegment,
    PageAnswer,
    PageAttachment,
    PageExchange,
    PageMessage,
    Segment,
    SourcesSegment,
    StepSegment,
    Switch,
    TextSegment,
    ThinkingSegment,
    ToolSegment,
    address_of,
    attachment,
    changed_arguments,
    format_arguments,
    hue_of,
    result_text,
    truncate,
)

#: The turn of a result, its position in it, and the result.
PlacedResult: TypeAlias = tuple[str, int, ToolResult]

#: The server of a tool and its name there, by the name that models use.
ToolOrigin: TypeAlias = Callable[[str], tuple[str, str]]

#: How many turns of a branch are read to find the answers on it.
MOST_TURNS_OF_ANSWERS = 400


_COUNTER = Counter()


class AnswerBranch(Struct, frozen=True):
    """A branch after a message: its first turn, and the runs of the answers on it, by speaker and number."""

    first: str
    runs: dict[tuple[str, int], str]


class HistoryDetails(Struct, frozen=True):
    """What the store knows about a conversation in addition to its turns; ``branches`` are those after each message."""

    runs: tuple[Run, ...] = ()
    totals: dict[str, Total] = field(default_factory=dict)
    siblings: dict[str, tuple[str, ...]] = field(default_factory=dict)
    branches: dict[str, tuple[AnswerBranch, ...]] = field(default_factory=dict)


@reading
def read_history_details(
    transaction: Transaction,
    conversation: str,
    exchanges: Sequence[Sequence[Placed]],
    live: Sequence[str] = (),
) -> HistoryDetails:
    """Read the runs and costs of these exchanges and of running answers, and the branches at them."""
    shown = [each for group in exchanges for each in group]
    answering = {each.run_id for each in shown if each.run_id is not None}
    messages = [group[0].turn.id or "" for group in exchanges if group]
    answers = {
        group[1].turn.id or "": group[0].turn.id or "" for group in exchanges if len(group) > 1
    }
    found = siblings(transaction, conversation, [*messages, *answers])
    return HistoryDetails(
        runs_at(transaction, conversation, [*answering, *live], messages),
        turn_totals(transaction, conversation, [each.turn.id or "" for each in shown]),
        found,
        {
            message: tuple(
                _read_branch(transaction, conversation, first) for first in found[answer]
            )
            for answer, message in answers.items()
            if len(found.get(answer, ())) > 1
        },
    )


def _read_branch(transaction: Transaction, conversation: str, first: str) -> AnswerBranch:
    """The answers from a turn on, up to the next message."""
    found: dict[tuple[str, int], str] = {}
    turn: str | None = first
    for _ in range(MOST_TURNS_OF_ANSWERS):
        if turn is None:
            break
        placed = get_turn(transaction, conversation, turn)
        if placed.turn.role == "user":
            break
        run = placed.run_id or f"turn-{placed.turn.id}"
        if placed.turn.role != "tool" and run not in found.values():
            speaker = placed.turn.role
            found[speaker, sum(name == speaker for name, _ in found)] = run
        turn = next(iter(reversed(children(transaction, conversation, turn))), None)
    return AnswerBranch(first, found)


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
        origin: ToolOrigin = lambda name: ("", name),
        artifacts: Callable[[], Mapping[tuple[str, int], Artifact]] = dict,
    ) -> None:
        self._artifacts = artifacts
        self._conversation = conversation
        self._names = tuple(names)
        self._details = details
        self._live = live or {}
        self._footers = footers or {}
        self._origin = origin

    def exchanges(
        self, groups: Sequence[Sequence[Placed]], *, is_end: bool = True
    ) -> list[PageExchange]:
        """These exchanges, oldest first; running answers to other messages are added to the last one if it is the end of the branch."""
        shown = [self._exchange(group) for group in groups]
        shown_runs = {answer.run for exchange in shown for answer in exchange.answers}
        where = {each.turn.id: at for at, group in enumerate(groups) for each in group}
        bases = {run.id: run.base for run in self._details.runs}
        for run, answer in self._live.items():
            at = where.get(bases.get(run), len(shown) - 1 if is_end else -1)
            if run not in shown_runs and at >= 0:
                exchange = shown[at]
                message = groups[at][0].turn
                answers = in_order((*exchange.answers, answer), addressed_by(message))
                shown[at] = replace(exchange, answers=answers)
        return shown

    def answer(
        self, run: str, turns: Sequence[Turn], around: Sequence[Turn] | None = None
    ) -> PageAnswer:
        """One answer, from its turns; ``around`` are the turns of its exchange, to which the links of a verdict lead."""
        speaker = next((turn.role for turn in turns if turn.role != "tool"), "tool")
        last = next((turn for turn in reversed(turns) if turn.role != "tool"), turns[-1])
        footer = self._footer(run, turns)
        if footer.usage is None and footer.stop_reason == "cancelled":
            footer = replace(footer, about_tokens=sum(map(_COUNTER.turn, turns)))
        elif any(turn.meta.get("estimated") for turn in turns):
            footer = replace(footer, is_about=True)
        return PageAnswer(
            run,
            speaker,
            hue_of(speaker, self._names),
            last.model or "",
            self._verdict(run, turns, around or turns) or self._segments(run, turns),
            footer,
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
        around = [each.turn for each in group]
        answers = [
            self._live.get(run) or self.answer(run, turns, around)
            for run, turns in turns_by_run(rest).items()
        ]
        answers += self._failed(first.id, answers)
        answers = self._with_switches(first.id or "", answers)
        return PageExchange(first.id or "", message, in_order(answers, addressed_by(first)))

    def _with_switches(self, message: str, answers: Sequence[PageAnswer]) -> list[PageAnswer]:
        """Add to each answer the switch to its speaker's other answers."""
        branches = self._details.branches.get(message, ())
        if len(branches) < 2:
            return list(answers)
        keys: dict[tuple[str, int], PageAnswer] = {}
        for answer in answers:
            number = sum(speaker == answer.speaker for speaker, _ in keys)
            keys[answer.speaker, number] = answer
        shown = {key: answer.run for key, answer in keys.items()}
        return [
            replace(answer, switch=_answer_switch(branches, key, shown))
            for key, answer in keys.items()
        ]

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

    def _verdict(
        self, run: str, turns: Sequence[Turn], around: Sequence[Turn]
    ) -> tuple[Segment, ...]:
        """The verdict of a council; nothing for any other answer, and for a verdict that cannot be read."""
        verdict = read_verdict(turns[-1])
        if verdict is None or not verdict.claims:
            return ()
        thoughts = self._segments(run, [_thinking_only(turns[-1])])
        return (*thoughts, verdict_view(f"{run}-{len(thoughts)}", verdict, around, self._names))

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
        edits = {name: ran for turn in turns for name, ran in _edits(turn).items()}
        turns = [readable_turn(turn) for turn in turns]
        sources = read_sources(turns)
        segments: list[Segment] = []
        for turn in turns:
            compressed = turn.meta.get("compressed")
            if isinstance(compressed, str):
                segments.append(NoteSegment(f"{run}-{len(segments)}", compressed))
            number = 0  # the number of the next artifact in the turn
            for position, part in enumerate(turn.parts):
                identifier = f"{run}-{len(segments)}"
                match part:
                    case Text() if not sources and self._has_artifact(turn, part, number):
                        for piece in split_artifacts(part.content):
                            segments.append(
                                self._piece(f"{run}-{len(segments)}", piece, turn.id or "", number)
                            )
                            number += isinstance(piece, CodeBlock)
                        found = None
                    case Text():
                        html = render_text(turn, position, sources)
                        found = TextSegment(identifier, html) if html else None
                    case ToolCall():
                        found = self._tool(identifier, part, results, seconds_by_call, edits)
                    case _:
                        found = self._other_segment(identifier, turn, position)
                segments += [found] if found else []
        if sources:
            segments.append(SourcesSegment(f"{run}-{len(segments)}", tuple(sources.values())))
        return tuple(segments)

    def _has_artifact(self, turn: Turn, part: Text, number: int) -> bool:
        """Whether a text has artifacts; only then the branch is searched for earlier versions."""
        return may_have_artifacts(part.content) and (turn.id or "", number) in self._artifacts()

    def _piece(self, identifier: str, piece: str | CodeBlock, turn: str, number: int) -> Segment:
        """A piece of a text: an artifact, or the text between artifacts."""
        if not isinstance(piece, CodeBlock):
            return TextSegment(identifier, render_markdown(piece))
        version = self._artifacts()[turn, number].version
        return ArtifactSegment(identifier, piece.title, piece.language, version, turn, number)

    def _other_segment(self, identifier: str, turn: Turn, position: int) -> Segment | None:
        """A part other than text and calls; None if it is not shown."""
        match turn.parts[position]:
            case Thinking(content=str(text)) if text:
                return ThinkingSegment(identifier, text)
            case Media() as media:
                source = media_source(self._conversation, turn.id or "", position)
                return attachment(media, identifier, source)
            case Native() as item:
                return step_view(identifier, item)
            case _:
                return None

    def _tool(
        self,
        identifier: str,
        call: ToolCall,
        results: list[PlacedResult],
        seconds_by_call: Mapping[str, float],
        edits: Mapping[str, JsonObject],
    ) -> ToolSegment:
        found = next((each for each in results if each[2].tool_call_id == call.tool_call_id), None)
        seconds = seconds_by_call.get(call.tool_call_id)
        if found is None:
            return tool_view(identifier, call, None, seconds, self._origin)
        results.remove(found)
        turn, position, result = found
        source = media_source(self._conversation, turn, position)
        files = tuple(
            attachment(media, f"{identifier}-{number}", f"{source}/{number}")
            for number, media in enumerate(result_text(result)[1])
        )
        ran = edits.get(call.tool_call_id)
        view = tool_view(identifier, call, result, seconds, self._origin, ran)
        return replace(view, attachments=files)

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
        return _switch_at(branches, branches.index(turn))


def _switch_at(branches: Sequence[str], at: int) -> Switch:
    return Switch(
        at + 1,
        len(branches),
        branches[at - 1] if at else None,
        branches[at + 1] if at + 1 < len(branches) else None,
    )


def _answer_switch(
    branches: Sequence[AnswerBranch],
    key: tuple[str, int],
    shown: Mapping[tuple[str, int], str],
) -> Switch | None:
    """The switch of an answer: for each of its speaker's runs, the branch that is most similar to the shown one."""
    best: dict[str, AnswerBranch] = {}
    for branch in branches:
        run = branch.runs.get(key)
        if run is None:
            continue
        if run not in best or _in_common(branch, shown) >= _in_common(best[run], shown):
            best[run] = branch
    if len(best) < 2 or shown[key] not in best:
        return None
    return _switch_at([branch.first for branch in best.values()], list(best).index(shown[key]))


def _in_common(branch: AnswerBranch, shown: Mapping[tuple[str, int], str]) -> int:
    return sum(shown.get(key) == run for key, run in branch.runs.items())


def in_order(answers: Sequence[PageAnswer], addressed: Sequence[str]) -> tuple[PageAnswer, ...]:
    """The answers in the order in which the message addresses their speakers; verdicts come last."""
    places = {name: at for at, name in enumerate(addressed)}
    return tuple(
        sorted(answers, key=lambda each: (each.is_council, places.get(each.speaker, len(places))))
    )


def step_view(identifier: str, item: Native) -> StepSegment:
    """A step that the provider ran itself."""
    return StepSegment(identifier, item.kind, truncate(item.text))


def tool_view(
    identifier: str,
    call: ToolCall,
    result: ToolResult | None,
    seconds: float | None = None,
    origin: ToolOrigin = lambda name: ("", name),
    ran: JsonObject | None = None,
) -> ToolSegment:
    """A call and its result, if it has one; ``ran`` are the changed arguments that a person gave it."""
    text = result_text(result)[0] if result else ""
    state = "running" if result is None else "failed" if result.is_error else "done"
    source, name = origin(call.name)
    return ToolSegment(
        identifier,
        name,
        state,
        source,
        rows=format_arguments(call),
        raw=visible_text(call.raw_arguments or "") if call.error else "",
        result=text if ran is None else without_note(text),
        seconds=seconds,
        changes=() if ran is None else changed_arguments(call.arguments, ran),
    )


def media_source(conversation: str, turn: str, position: int) -> str:
    """The URL of a picture or a file of a turn."""
    return f"/c/{address_of(conversation)}/media/{address_of(turn)}/{position}"


def format_money(cost: Decimal, digits: int = 4) -> str:
    """Format US dollars with the significant digits."""
    if not cost:
        return "$0"
    least = Decimal(1).scaleb(-digits)
    return f"${cost:.2f}" if cost >= 1 else f"${cost:.{digits}f}" if cost >= least else f"<${least}"


def _call_seconds(turn: Turn) -> dict[str, float]:
    """The duration of each call, stored with its result; values of other programs are ignored."""
    noted = as_object(turn.meta.get("seconds")) or {}
    return {name: value for name, value in noted.items() if isinstance(value, int | float)}


def _thinking_only(turn: Turn) -> Turn:
    return replace(turn, parts=tuple(part for part in turn.parts if isinstance(part, Thinking)))


def _edits(turn: Turn) -> dict[str, JsonObject]:
    """The arguments that a person gave each call, stored with its result; values of other programs are ignored."""
    noted = as_object(turn.meta.get("arguments")) or {}
    return {name: ran for name, value in noted.items() if (ran := as_object(value)) is not None}


def _seconds(run: Run) -> float | None:
    return None if run.ended_ms is None else (run.ended_ms - run.began_ms) / 1000
