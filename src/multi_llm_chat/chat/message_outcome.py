"""The outcome of a message, collected from its events: what ``mlc ask --json`` prints.

Rules:
1. An answer that breaks its schema counts as failed: ``misfits`` says why, and the document has a ``schema_error``.
2. If a speaker is asked again, its last answer counts; the document lists all of them.
"""

from collections.abc import Iterable, Iterator

from multi_llm_chat.errors import OutputError
from multi_llm_chat.event_codec import write_value
from multi_llm_chat.events import (
    Event,
    MessageSaved,
    RunFailed,
    RunFinished,
    RunStarted,
    TurnFinished,
)
from multi_llm_chat.history.values import JsonObject, Text, Turn
from multi_llm_chat.tools.schema_validation import SchemaCheck


class Outcome:
    """Collects the events of a message; ``document`` is the outcome."""

    def __init__(self, conversation: str, check: SchemaCheck | None = None) -> None:
        self.answered: list[str] = []
        self.failed: list[str] = []
        #: The speakers whose last answer breaks the schema.
        self.misfits: dict[str, OutputError] = {}
        self._check = check
        self._conversation = conversation
        self._message: Turn | None = None
        self._answers: dict[str, JsonObject] = {}
        self._turns: dict[str, list[Turn]] = {}

    def following(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield the events, and note each of them."""
        for event in events:
            self.note(event)
            yield event

    def note(self, event: Event) -> None:
        """Note an event."""
        match event:
            case MessageSaved():
                self._message = event.turn
            case RunStarted():
                self._answers[event.run] = {"speaker": event.speaker, "model": event.model}
                self._turns[event.run] = []
            case TurnFinished():
                self._turns[event.run].append(event.turn)
            case RunFinished():
                details: dict[str, object] = {"stop_reason": event.stop_reason}
                misfit = self._misfit(event.run)
                if misfit is None:
                    self.answered.append(event.speaker)
                    self.misfits.pop(event.speaker, None)
                else:
                    self.misfits[event.speaker] = misfit
                    details["schema_error"] = str(misfit)
                self._end(event.run, event, **details)
            case RunFailed():
                self.failed.append(event.speaker)
                self._end(event.run, event, error=write_value(event.error))
            case _:
                pass

    @property
    def document(self) -> JsonObject:
        """The outcome as a JSON object."""
        return {
            "conversation": self._conversation,
            "message": None if self._message is None else write_value(self._message),
            "answers": [
                {**answer, "text": _last_words(self._turns[run]), "turns": write_value(self._turns[run])}
                for run, answer in self._answers.items()
            ],
        }  # fmt: skip

    def _misfit(self, run: str) -> OutputError | None:
        """Why an answer breaks its schema; None if it does not."""
        if self._check is None:
            return None
        try:
            self._check.read_answer(_last_words(self._turns[run]))
        except OutputError as error:
            return error
        return None

    def _end(self, run: str, event: RunFinished | RunFailed, **details: object) -> None:
        self._answers[run] |= {
            "usage": write_value(event.usage),
            "cost": write_value(event.cost),
            "seconds": round(event.seconds, 3),
            **details,
        }


def _last_words(turns: list[Turn]) -> str:
    last = next((turn for turn in reversed(turns) if turn.role != "tool"), None)
    if last is None:
        return ""
    return "".join(part.content for part in last.parts if isinstance(part, Text))
