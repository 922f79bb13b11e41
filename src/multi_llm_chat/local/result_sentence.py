"""Say in a sentence what a tool has answered.

Rules:
1. The model words the sentence from the question and the facts, after two examples.
2. A sentence that shows none of the facts, or a number that is neither in the facts nor in the
   question, is not said: the facts are told as they are instead. So a very small model's
   sentence is held back until it is whole.
3. A failure is told as it is; the model is not asked to explain it.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from multi_llm_chat.history.json_values import as_list, as_object
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.local.generation import Asking
from multi_llm_chat.local.prompt import Told

_LONGEST = 120
_MOST_FACTS = 1200

_EXAMPLES = (
    ("What is 3 + 4?", "7", "3 + 4 is 7."),
    (
        "How is the sea at Nice?",
        "waves 2 m, wind strong",
        "At Nice the waves are 2 m and the wind is strong.",
    ),
)

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_WORD = re.compile(r"\w{3,}")


def word_result(asking: Asking, question: str, told: Sequence[Told]) -> str:
    """The sentence that answers the question with what the tools have said."""
    failures = [item for item in told if item.is_error]
    if failures:
        return "\n".join(f"{item.call.name} failed: {item.result}" for item in failures)
    facts = "; ".join(flat(item.result) for item in told)[:_MOST_FACTS]
    messages: list[JsonObject] = [
        {"role": "system", "content": "Answer the question with the facts in one sentence."}
    ]
    for asked, known, answer in _EXAMPLES:
        messages.append({"role": "user", "content": _asked(asked, known)})
        messages.append({"role": "assistant", "content": answer})
    messages.append({"role": "user", "content": _asked(question, facts)})
    sentence = asking.ask(messages, {"max_tokens": _LONGEST, "temperature": 0}).text.strip()
    return sentence if is_faithful(sentence, question, facts) else _plainly(told)


def flat(result: str) -> str:
    """A result that is JSON in everyday words: ``temperature 7, sky rain``."""
    try:
        value = json.loads(result)
    except ValueError:
        return result
    return ", ".join(_flat(value))


def _flat(value: Any) -> Iterator[str]:
    fields, items = as_object(value), as_list(value)
    if fields is not None:
        for name, inner in fields.items():
            yield f"{name.replace('_', ' ')} {', '.join(_flat(inner))}"
    elif items is not None:
        for item in items:
            yield ", ".join(_flat(item))
    else:
        yield value if isinstance(value, str) else json.dumps(value)


def is_faithful(sentence: str, question: str, facts: str) -> bool:
    """Whether the sentence shows the facts and invents no number."""
    known = set(_NUMBER.findall(facts))
    said = set(_NUMBER.findall(sentence))
    if said - known - set(_NUMBER.findall(question)):
        return False
    if known:
        return bool(known & said)
    return bool(_words(facts) & _words(sentence))


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _plainly(told: Sequence[Told]) -> str:
    return "\n".join(f"{item.call.name}: {flat(item.result)}" for item in told)


def _asked(question: str, facts: str) -> str:
    return f"Question: {question}\nFacts: {facts}"
