"""The outcome of a message, collected from its events: what ``mlc ask --json`` prints."""

from collections.abc import Iterable, Iterator

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


class Outcome:
    """Collects the events of a message; ``document`` is the outcome."""

    def __init__(self, conversation: str) -> None:
        self.answered: list[str] = []
        self.failed: list[str] = []
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
                self.answered.append(event.speaker)
                self._end(event.run, event, stop_reason=event.stop_reason)
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
