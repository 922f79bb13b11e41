"""Examples that teach a small model what a tool is for.

Rules:
1. Every tool on offer has a label of its own: one plain word no other label begins like, so that
   the first token tells them apart.
2. The examples are made from the tool's name and description; the caller's own, where given, come
   first.
3. The same tools give the same examples: a prompt that was read once stays warm.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.request import ToolDefinition

#: The label for "no tool": a word of everyday talk does better here than ``none``.
NO_TOOL = "chat"

#: How many examples each tool gets, by the number of tools: the prompt must stay short.
_EXAMPLES = ((4, 3), (8, 2))
#: More tools than this are first sorted by the words they share with the question.
MOST_TOOLS = 8
_LONGEST_PURPOSE = 12
_TELLING = 3

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")


class Example(Struct, frozen=True):
    """A message that needs a tool, and the arguments it should be called with."""

    message: str
    arguments: JsonObject = field(default_factory=dict[str, object])


class Offer(Struct, frozen=True):
    """A tool as it is put before a small model.

    ``examples`` stand in the prompt; ``anchors`` are further messages that need the tool, by which
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
    """Put tools before a small model.

    Args:
        tools: All tools there are.
        question: What is asked; it decides which tools are left out where there are too many.
        examples: The caller's own, by the name of the tool.
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
    beginnings = [label[:_TELLING] for label in (*labels, NO_TOOL)]
    if all(len(label) >= _TELLING for label in labels) and len(set(beginnings)) == len(beginnings):
        return labels
    return [str(number) for number in range(1, len(tools) + 1)]


def _nearest(tools: Sequence[ToolDefinition], question: str) -> Sequence[ToolDefinition]:
    if len(tools) <= MOST_TOOLS:
        return tools
    asked = set(words_of(question.lower()))

    def shared(tool: ToolDefinition) -> int:
        return len(asked & {*words_of(tool.name), *words_of(tool.description.lower())})

    nearest = sorted(tools, key=shared, reverse=True)[:MOST_TOOLS]
    return [tool for tool in tools if any(tool is near for near in nearest)]
