"""Choose the tool that a message needs, or none.

Rules:
1. A model that is too small to write its choice down is asked how likely each label is. Its habits
   are subtracted first: the mean scores over messages that say nothing.
2. Whether a tool is needed at all is then a question of distance: the message must score a good way
   from everyday talk towards messages that certainly need the tool. Both are measured on the
   model itself, once for each set of tools.
3. A bigger model writes its choice under a schema that allows nothing else.
4. A choice that the caller has made is never asked for.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from multi_llm_chat.history.json_values import as_object
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.local.catalogue import Routing
from multi_llm_chat.local.generation import Asking
from multi_llm_chat.local.tool_examples import NO_TOOL, Offer

_TALK = ("Hello!", "Tell me a story.", "Who was Albert Einstein?")
#: Messages that say nothing.
_EMPTY = ("", "N/A", "...", "?")
#: Everyday talk that needs no tool, none of it among the examples.
_SMALL_TALK = (
    "How are you?",
    "Write a poem about love.",
    "What is the meaning of life?",
    "Thank you!",
    "Explain how cars work.",
    "My day was fine.",
)
#: How far from everyday talk (0) towards a sure case (1) a message must lie to need a tool.
_FAR_ENOUGH = 0.25
#: The least distance between the two that is taken for real.
_LEAST_SPAN = 0.5
#: Labels are looked for among so many of the likeliest tokens; others count as ``_UNHEARD``.
_HEARD = 3000
_UNHEARD = -20.0

Scores = Mapping[str, float]


class Router(Protocol):
    """Chooses a tool."""

    def choose(
        self, asking: Asking, offers: Sequence[Offer], question: str, *, must: bool
    ) -> Offer | None:
        """The tool for the question; None for none, unless one ``must`` be used."""
        ...

    def prepare(self, asking: Asking, offers: Sequence[Offer]) -> None:
        """Do beforehand what needs no question, so that the first one is answered sooner."""
        ...


class _Habits(Struct, frozen=True):
    """What the model's scores look like for this set of tools."""

    empty: Scores
    talk: Scores
    sure: Mapping[str, Scores]


class ScoreRouter:
    """Chooses by the scores of labels."""

    def __init__(self) -> None:
        self._habits: dict[str, _Habits] = {}

    def choose(
        self, asking: Asking, offers: Sequence[Offer], question: str, *, must: bool
    ) -> Offer | None:
        """The tool for the question."""
        prefix = _examples(offers, _plain)
        habits = self._learnt(asking, offers, prefix)
        scores = _score(asking, offers, prefix, question)
        best = max(offers, key=lambda offer: scores[offer.label] - habits.empty[offer.label])
        return best if must or _is_needed(best, scores, habits) else None

    def prepare(self, asking: Asking, offers: Sequence[Offer]) -> None:
        """Learn the model's habits with these tools."""
        self._learnt(asking, offers, _examples(offers, _plain))

    def _learnt(self, asking: Asking, offers: Sequence[Offer], prefix: list[JsonObject]) -> _Habits:
        key = json.dumps(prefix)
        if key not in self._habits:
            self._habits[key] = _learn(asking, offers, prefix)
        return self._habits[key]


def _is_needed(offer: Offer, scores: Scores, habits: _Habits) -> bool:
    def lead(of: Scores) -> float:
        return of[offer.label] - of[NO_TOOL]

    span = max(lead(habits.sure[offer.label]) - lead(habits.talk), _LEAST_SPAN)
    return lead(scores) - lead(habits.talk) > _FAR_ENOUGH * span


def _learn(asking: Asking, offers: Sequence[Offer], prefix: list[JsonObject]) -> _Habits:
    def mean(messages: Iterable[str]) -> Scores:
        rows = [_score(asking, offers, prefix, message) for message in messages]
        return {label: sum(row[label] for row in rows) / len(rows) for label in rows[0]}

    return _Habits(
        empty=mean(_EMPTY),
        talk=mean(_SMALL_TALK),
        sure={offer.label: mean(offer.anchors) for offer in offers},
    )


def _score(
    asking: Asking, offers: Sequence[Offer], prefix: list[JsonObject], message: str
) -> Scores:
    settings: JsonObject = {
        "max_tokens": 1,
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": _HEARD,
    }
    heard = asking.ask([*prefix, {"role": "user", "content": message}], settings).scores
    labels = [*(offer.label for offer in offers), NO_TOOL]
    return {label: _label_score(label, labels, heard) for label in labels}


def _label_score(label: str, labels: Sequence[str], heard: Scores) -> float:
    """How likely an answer is that begins like this label and like no other."""
    likely = sum(
        math.exp(score)
        for token, score in heard.items()
        if (start := token.strip().lower())
        and label.startswith(start)
        and not any(other != label and other.startswith(start) for other in labels)
    )
    return math.log(likely) if likely > 0 else _UNHEARD


class SchemaRouter:
    """Chooses by what the model writes under a schema."""

    def choose(
        self, asking: Asking, offers: Sequence[Offer], question: str, *, must: bool
    ) -> Offer | None:
        """The tool for the question."""
        labels = [offer.label for offer in offers] + ([] if must else [NO_TOOL])
        schema: JsonObject = {
            "type": "object",
            "properties": {"tool": {"type": "string", "enum": labels}},
            "required": ["tool"],
            "additionalProperties": False,
        }
        messages = [*_examples(offers, _written), {"role": "user", "content": question}]
        asked = asking.ask(messages, {"max_tokens": 32, "temperature": 0, "json_schema": schema})
        try:
            chosen = (as_object(json.loads(asked.text)) or {}).get("tool")
        except ValueError:
            chosen = None
        return next((offer for offer in offers if offer.label == chosen), None)

    def prepare(self, asking: Asking, offers: Sequence[Offer]) -> None:
        """Read the examples, so that they are warm."""
        asking.ask(_examples(offers, _written), {"max_tokens": 1, "temperature": 0})


def _plain(label: str) -> str:
    return label


def _written(label: str) -> str:
    return json.dumps({"tool": label})


class _Spelling(Protocol):
    def __call__(self, label: str, /) -> str: ...


def _examples(offers: Sequence[Offer], spell: _Spelling) -> list[JsonObject]:
    """The prompt up to the question: what each label means, and examples in turn."""
    lines = [f"{offer.label}: {offer.tool.description or offer.tool.name}" for offer in offers]
    intro = "\n".join(
        ["Choose the right tool for the message.", *lines, f"{NO_TOOL}: Anything else."]
    )
    messages: list[JsonObject] = [{"role": "system", "content": intro}]
    count = max(len(offer.examples) for offer in offers)
    for at in range(count):
        shown = [(offer.examples[at], offer.label) for offer in offers if at < len(offer.examples)]
        for message, label in (*shown, (_TALK[at % len(_TALK)], NO_TOOL)):
            messages.append({"role": "user", "content": message})
            messages.append({"role": "assistant", "content": spell(label)})
    return messages


def router_for(routing: Routing) -> Router:
    """A router of the kind that fits the model."""
    return _ROUTERS[routing]()


_ROUTERS: Mapping[Routing, type[ScoreRouter] | type[SchemaRouter]] = {
    "scores": ScoreRouter,
    "schema": SchemaRouter,
}
