"""Choose the tool that a message needs, or none, by examples of what each tool is for.

Rules:
1. For a model that is too small to write its choice, the choice is made by the probability of each label as the next token.
   The model's bias is subtracted first: the mean scores over messages without content.
2. Whether a tool is needed at all is decided by distance: the score of the message must be far enough
   from that of small talk, towards that of messages that certainly need the tool. Both are measured with the
   model itself, once for each set of tools.
3. A bigger model writes its choice under a schema that allows nothing else.
4. If the caller has chosen the tool, the model is not asked.
5. Every tool on offer has its own label: one plain word that begins like no other label, so that
   the first token identifies it.
6. The examples are made from the tool's name and description; the caller's own, if given, come
   first. The same tools give the same examples, so the engine's prompt cache can be used.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct, field

from multi_llm_chat.history.json_values import as_object
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.local._generation import EngineClient
from multi_llm_chat.local.catalogue import Routing
from multi_llm_chat.request import ToolDefinition

# Examples.

#: The label for "no tool": small models choose an everyday word more reliably than ``none``.
NO_TOOL = "chat"

#: How many examples each tool gets, by the number of tools: the prompt must stay short.
_EXAMPLES = ((4, 3), (8, 2))
#: More tools than this are first sorted by the words they share with the question.
MOST_TOOLS = 8
_LONGEST_PURPOSE = 12
_PREFIX = 3

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")


class Example(Struct, frozen=True):
    """A message that needs a tool, and the arguments it should be called with."""

    message: str
    arguments: JsonObject = field(default_factory=dict[str, object])


class Offer(Struct, frozen=True):
    """A tool as it is offered to a small model.

    ``examples`` are shown in the prompt; ``anchors`` are further messages that need the tool, with which
    the model's scores are measured.
    """

    tool: ToolDefinition
    label: str
    examples: tuple[str, ...]
    anchors: tuple[str, ...]
    filled: tuple[Example, ...] = ()


def make_offers(
    tools: Sequence[ToolDefinition],
    question: str,
    examples: Mapping[str, Sequence[Example]] | None = None,
) -> tuple[Offer, ...]:
    """Make the offers of tools to a small model.

    Args:
        tools: All tools.
        question: The user's question; if there are too many tools, it decides which ones are left out.
        examples: The caller's own examples, by the name of the tool.
    """
    chosen = _nearest(tools, question)
    count = next((number for most, number in _EXAMPLES if len(chosen) <= most), 1)
    offers: list[Offer] = []
    for tool, label in zip(chosen, _labels(chosen), strict=True):
        purpose = _purpose(tool)
        own = tuple((examples or {}).get(tool.name, ()))
        made = (f"{purpose.capitalize()}.", f"Can you {purpose}?", f"Please {purpose} for me.")
        shown = (*(example.message for example in own), *made)[:count]
        anchors = (
            f"I want to {purpose}.",
            f"{purpose.capitalize()}, please.",
            f"Could you {purpose} now?",
        )
        offers.append(Offer(tool, label, shown, anchors[:count], own))
    return tuple(offers)


def words_of(name: str) -> list[str]:
    """The words in a tool's name: ``getWeather`` and ``get_weather`` alike."""
    return [word.lower() for word in _WORD.findall(name)]


def _purpose(tool: ToolDefinition) -> str:
    """What the tool does, in a few words that can follow "can you"."""
    first = re.split(r"[.;:\n(]", tool.description.strip(), maxsplit=1)[0].split()
    text = " ".join((first or words_of(tool.name))[:_LONGEST_PURPOSE])
    return text[:1].lower() + text[1:]


def _labels(tools: Sequence[ToolDefinition]) -> list[str]:
    names = [words_of(tool.name) for tool in tools]
    labels = [
        next((word for word in reversed(name) if sum(word in other for other in names) == 1), "")
        for name in names
    ]
    beginnings = [label[:_PREFIX] for label in (*labels, NO_TOOL)]
    if all(len(label) >= _PREFIX for label in labels) and len(set(beginnings)) == len(beginnings):
        return labels
    return [str(number) for number in range(1, len(tools) + 1)]


def _nearest(tools: Sequence[ToolDefinition], question: str) -> Sequence[ToolDefinition]:
    if len(tools) <= MOST_TOOLS:
        return tools
    words = set(words_of(question.lower()))

    def shared(tool: ToolDefinition) -> int:
        return len(words & {*words_of(tool.name), *words_of(tool.description.lower())})

    nearest = sorted(tools, key=shared, reverse=True)[:MOST_TOOLS]
    return [tool for tool in tools if any(tool is near for near in nearest)]


# The choice.

_TALK = ("Hello!", "Tell me a story.", "Who was Albert Einstein?")
#: Messages without content.
_EMPTY = ("", "N/A", "...", "?")
#: Small talk that needs no tool; none of these messages is among the examples.
_SMALL_TALK = (
    "How are you?",
    "Write a poem about love.",
    "What is the meaning of life?",
    "Thank you!",
    "Explain how cars work.",
    "My day was fine.",
)
#: How far between small talk (0) and a certain case (1) a message must be to need a tool.
_FAR_ENOUGH = 0.25
#: The minimum that is assumed for the distance between the two.
_LEAST_SPAN = 0.5
#: The number of most likely tokens in which labels are searched; other labels get ``_UNLISTED_SCORE``.
_LISTED_TOKENS = 3000
_UNLISTED_SCORE = -20.0

Scores = Mapping[str, float]


class Router(Protocol):
    """Chooses a tool."""

    def choose(
        self, client: EngineClient, offers: Sequence[Offer], question: str, *, must: bool
    ) -> Offer | None:
        """The tool for the question; None if no tool is needed, unless one ``must`` be used."""
        ...

    def prepare(self, client: EngineClient, offers: Sequence[Offer]) -> None:
        """Do the work that does not depend on a question, so that the first question is answered sooner."""
        ...


class _Habits(Struct, frozen=True):
    """The model's mean scores with this set of tools: for empty messages, for small talk, and for certain cases of each tool."""

    empty: Scores
    talk: Scores
    sure: Mapping[str, Scores]


class ScoreRouter:
    """Chooses by the scores of labels."""

    def __init__(self) -> None:
        self._habits: dict[str, _Habits] = {}

    def choose(
        self, client: EngineClient, offers: Sequence[Offer], question: str, *, must: bool
    ) -> Offer | None:
        """The tool for the question."""
        prefix = _examples(offers, _plain)
        habits = self._learnt(client, offers, prefix)
        scores = _score(client, offers, prefix, question)
        best = max(offers, key=lambda offer: scores[offer.label] - habits.empty[offer.label])
        return best if must or _is_needed(best, scores, habits) else None

    def prepare(self, client: EngineClient, offers: Sequence[Offer]) -> None:
        """Measure the model's mean scores with these tools."""
        self._learnt(client, offers, _examples(offers, _plain))

    def _learnt(
        self, client: EngineClient, offers: Sequence[Offer], prefix: list[JsonObject]
    ) -> _Habits:
        key = json.dumps(prefix)
        if key not in self._habits:
            self._habits[key] = _learn(client, offers, prefix)
        return self._habits[key]


def _is_needed(offer: Offer, scores: Scores, habits: _Habits) -> bool:
    def lead(of: Scores) -> float:
        return of[offer.label] - of[NO_TOOL]

    span = max(lead(habits.sure[offer.label]) - lead(habits.talk), _LEAST_SPAN)
    return lead(scores) - lead(habits.talk) > _FAR_ENOUGH * span


def _learn(client: EngineClient, offers: Sequence[Offer], prefix: list[JsonObject]) -> _Habits:
    def mean(messages: Iterable[str]) -> Scores:
        rows = [_score(client, offers, prefix, message) for message in messages]
        return {label: sum(row[label] for row in rows) / len(rows) for label in rows[0]}

    return _Habits(
        empty=mean(_EMPTY),
        talk=mean(_SMALL_TALK),
        sure={offer.label: mean(offer.anchors) for offer in offers},
    )


def _score(
    client: EngineClient, offers: Sequence[Offer], prefix: list[JsonObject], message: str
) -> Scores:
    settings: JsonObject = {
        "max_tokens": 1,
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": _LISTED_TOKENS,
    }
    scores = client.ask([*prefix, {"role": "user", "content": message}], settings).scores
    labels = [*(offer.label for offer in offers), NO_TOOL]
    return {label: _label_score(label, labels, scores) for label in labels}


def _label_score(label: str, labels: Sequence[str], scores: Scores) -> float:
    """The log probability of a first token that begins this label and no other label."""
    likely = sum(
        math.exp(score)
        for token, score in scores.items()
        if (start := token.strip().lower())
        and label.startswith(start)
        and not any(other != label and other.startswith(start) for other in labels)
    )
    return math.log(likely) if likely > 0 else _UNLISTED_SCORE


class SchemaRouter:
    """Lets the model write its choice under a schema."""

    def choose(
        self, client: EngineClient, offers: Sequence[Offer], question: str, *, must: bool
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
        generated = client.ask(
            messages, {"max_tokens": 32, "temperature": 0, "json_schema": schema}
        )
        try:
            chosen = (as_object(json.loads(generated.text)) or {}).get("tool")
        except ValueError:
            chosen = None
        return next((offer for offer in offers if offer.label == chosen), None)

    def prepare(self, client: EngineClient, offers: Sequence[Offer]) -> None:
        """Run the prompt with the examples once, so that the engine's prompt cache has it."""
        client.ask(_examples(offers, _written), {"max_tokens": 1, "temperature": 0})


def _plain(label: str) -> str:
    return label


def _written(label: str) -> str:
    return json.dumps({"tool": label})


class _Spelling(Protocol):
    def __call__(self, label: str, /) -> str: ...


def _examples(offers: Sequence[Offer], spell: _Spelling) -> list[JsonObject]:
    """The prompt before the question: the meaning of each label, and examples of all labels in turn."""
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
    """A new router of this kind."""
    return _ROUTERS[routing]()


_ROUTERS: Mapping[Routing, type[ScoreRouter] | type[SchemaRouter]] = {
    "scores": ScoreRouter,
    "schema": SchemaRouter,
}
