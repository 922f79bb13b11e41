"""The verdict of a council: the claims of several speakers, who agrees with each, who contradicts it, and in which paragraphs.

Rules:
1. The members of a council answer at the same time, each in a run of its own with its tools and the files of the message. Then the
   chair writes a verdict about their answers. A member that fails does not stop the others; the chair receives its name.
2. The chair sees the question and the paragraphs of each answer under an id such as ``claude:2``. The schema of the verdict
   lists these ids and no others, so that every link of a valid verdict leads to a paragraph that exists.
3. A verdict that breaks its schema is asked for again with the error, ``VERDICT_RETRIES`` times, on another branch.
4. The verdict is the text of the chair's turn, as JSON; ``meta`` marks the turn. ``read_verdict`` reads it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from multi_llm_chat.chat.branch import addressed_by
from multi_llm_chat.errors import OutputError
from multi_llm_chat.events import Event, RunStarted, TextDelta, TurnFinished
from multi_llm_chat.history.values import RESERVED_ROLES, JsonObject, Text, Turn
from multi_llm_chat.schema.python_types import without_fence
from multi_llm_chat.tools.schema_validation import SchemaCheck

#: Marks the run, and its turn, that holds a verdict.
VERDICT: Final = "verdict"
#: The chair of the council that a message addresses, in its ``meta``.
CHAIR: Final = "chair"
VERDICT_RETRIES: Final = 2
#: The form in which a message addresses a council: ``@council:NAME``.
COUNCIL_PREFIX: Final = "council:"

_PROMPT: Final = (
    "The models below have answered the message above. Compare their answers and write a verdict as JSON. `answer` is the best "
    "answer to the message, in full. `claims` are the statements that matter: `claim` is one statement in one sentence, `agree` "
    "are the ids of the paragraphs that make it or support it, `contradict` the ids of those that say otherwise. Use only ids that "
    "stand below."
)


class Claim(Struct, frozen=True, rename={"text": "claim"}):
    """One statement; ``agree`` and ``contradict`` are ids of paragraphs, such as ``claude:2``."""

    text: str
    agree: tuple[str, ...] = ()
    contradict: tuple[str, ...] = ()


class Verdict(Struct, frozen=True):
    """The result of a council: the chair's answer, and the claims behind it."""

    answer: str
    claims: tuple[Claim, ...] = ()

    def markdown(self) -> str:
        """The verdict as Markdown: the answer, and the claims as a table."""
        if not self.claims:
            return self.answer
        rows = [
            f"| {_cell(claim.text)} | {_links(claim.agree)} | {_links(claim.contradict)} |"
            for claim in self.claims
        ]
        return "\n".join(
            [self.answer, "", "| claim | agree | contradict |", "|---|---|---|", *rows]
        )


def split_paragraphs(text: str) -> list[str]:
    """The paragraphs of an answer; a block of code counts as one."""
    found: list[str] = []
    lines: list[str] = []
    is_code = False
    for line in text.splitlines():
        is_code ^= bool(re.match(r"\s*(```|~~~)", line))
        if line.strip() or is_code:
            lines.append(line)
        elif lines:
            found.append("\n".join(lines))
            lines = []
    return [*found, "\n".join(lines)] if lines else found


def member_answers(turns: Sequence[Turn]) -> dict[str, list[str]]:
    """The paragraphs of each answer to the last message."""
    answers: dict[str, list[str]] = {}
    for turn in turns[_message_at(turns) + 1 :]:
        if turn.role in RESERVED_ROLES or turn.meta.get(VERDICT):
            continue
        words = "".join(part.content for part in turn.parts if isinstance(part, Text))
        if words.strip():
            answers[turn.role] = split_paragraphs(words)
    return answers


def chair_history(turns: Sequence[Turn], complaint: str = "") -> tuple[Turn, ...]:
    """The history for the chair: the conversation up to the message, and the members' answers with their paragraph ids."""
    at = _message_at(turns)
    answers = member_answers(turns)
    texts = [_PROMPT]
    for name, paragraphs in answers.items():
        numbered = (f"[{name}:{number}] {text}" for number, text in enumerate(paragraphs, 1))
        texts.append("\n\n".join([f"Answer of {name}:", *numbered]))
    silent = [name for name in addressed_by(turns[at]) if name not in answers] if at >= 0 else []
    texts += [f"{name} did not answer." for name in silent]
    if complaint:
        texts.append(f"An earlier verdict could not be used. {complaint}")
    return (*turns[: at + 1], Turn("user", (Text("\n\n".join(texts)),)))


def verdict_schema(answers: Mapping[str, Sequence[str]]) -> JsonObject:
    """The schema of a verdict about these answers."""
    ids = [
        f"{name}:{number}"
        for name, paragraphs in answers.items()
        for number in range(1, len(paragraphs) + 1)
    ]
    links: JsonObject = {"type": "array", "items": {"type": "string", "enum": ids}}
    claim: JsonObject = {
        "type": "object",
        "properties": {
            "claim": {"type": "string"},
            "agree": {**links, "minItems": 1},
            "contradict": links,
        },
        "required": ["claim", "agree", "contradict"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {
            "answer": {"type": "string"},
            "claims": {"type": "array", "items": claim, "minItems": 1},
        },
        "required": ["answer", "claims"],
        "additionalProperties": False,
    }


def check_verdict(turn: Turn, schema: JsonObject) -> str:
    """The error of an invalid verdict; empty if the turn's verdict is valid."""
    try:
        SchemaCheck(schema).read_answer(_words(turn))
    except OutputError as error:
        return str(error)
    return ""


def read_verdict(turn: Turn) -> Verdict | None:
    """The verdict of a turn; None if it holds none that can be read."""
    if not turn.meta.get(VERDICT):
        return None
    try:
        text = without_fence(_words(turn)).encode(errors="replace")
        return msgspec.json.decode(text, type=Verdict)
    except (msgspec.DecodeError, RecursionError):
        return None


def readable_turn(turn: Turn) -> Turn:
    """The turn, with a verdict as Markdown in place of its JSON."""
    verdict = read_verdict(turn)
    return turn if verdict is None else replace(turn, parts=(Text(verdict.markdown()),))


class VerdictReader:
    """Replaces the JSON of verdicts by Markdown; a verdict is then emitted in one piece."""

    def __init__(self) -> None:
        self._runs: set[str] = set()

    def read(self, event: Event) -> list[Event]:
        """The events to show for an event."""
        if isinstance(event, RunStarted) and event.purpose == VERDICT:
            self._runs.add(event.run)
        if event.run not in self._runs:
            return [event]
        if isinstance(event, TextDelta):
            return []
        if isinstance(event, TurnFinished):
            turn = readable_turn(event.turn)
            words = TextDelta(_words(turn), run=event.run, speaker=event.speaker)
            return [words, replace(event, turn=turn)]
        return [event]


def readable_verdicts(events: Iterable[Event]) -> Iterator[Event]:
    """The events, with verdicts as Markdown."""
    reader = VerdictReader()
    for event in events:
        yield from reader.read(event)


def _message_at(turns: Sequence[Turn]) -> int:
    return next((at for at in range(len(turns) - 1, -1, -1) if turns[at].role == "user"), -1)


def _words(turn: Turn) -> str:
    return "".join(part.content for part in turn.parts if isinstance(part, Text))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _links(ids: Iterable[str]) -> str:
    places = (each.rpartition(":") for each in ids)
    return ", ".join(f"{_cell(name)} ¶{number}" for name, _, number in places) or "–"
