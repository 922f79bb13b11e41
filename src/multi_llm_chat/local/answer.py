"""One answer of the embedded model: a tool call, a tool's result in words, or plain words.

Rules:
1. A question whose tools have answered is answered with their results; no further tool is called
   for it. So every question ends after one round.
2. A call that cannot be filled in validly is not made: the model answers in words. Only where the
   caller insists on a tool is the call given out, with its error, and never run.
3. A prompt that does not fit the window loses its oldest exchanges; the newest question stays.
4. Every answer ends with one ``Usage`` over all its steps and one ``Finish``.

A tool's result in a sentence:
5. The model words the sentence from the question and the facts, after two examples.
6. A sentence that shows none of the facts, or a number that is neither in the facts nor in the
   question, is not said: the facts are given as they are instead. So a very small model's
   sentence is held back until it is whole.
7. A failure is given as it is; the model is not asked to explain it.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from multi_llm_chat.errors import ContextTooLong
from multi_llm_chat.events import (
    Finish,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from multi_llm_chat.history.json_values import as_list, as_object, compact_json
from multi_llm_chat.history.values import JsonObject, ToolCall
from multi_llm_chat.local.argument_fill import fill
from multi_llm_chat.local.engine import PromptTooLong, Voice
from multi_llm_chat.local.generation import Asked, Asking
from multi_llm_chat.local.machine import PROVIDER
from multi_llm_chat.local.prompt import Prompt, Told
from multi_llm_chat.local.tool_choice import Example, Offer, Router, make_offers
from multi_llm_chat.request import ToolDefinition

_AUTO = frozenset({None, "auto"})
#: The beginning of a question says which tool it needs.
_TELLING_LENGTH = 600


class Task(Struct, frozen=True):
    """What is to be answered, and how."""

    prompt: Prompt
    settings: JsonObject
    tool_call_id: str
    tools: Sequence[ToolDefinition] = ()
    tool_choice: str | None = None
    examples: Mapping[str, Sequence[Example]] = field(default_factory=dict[str, Sequence[Example]])


def answer(task: Task, router: Router, asking: Asking, voice: Voice) -> None:
    """Answer the task; everything is said through the voice."""
    prompt = task.prompt
    if prompt.told:
        voice.say(TextDelta(word_result(asking, prompt.question, prompt.told)))
        finish = Finish("stop", "stop")
    elif (call := _call(task, router, asking)) is not None:
        _say_call(call, voice)
        finish = Finish("tool_calls", "tool_calls")
    else:
        asked = _say_words(task, asking, voice)
        finish = Finish(asked.reason, asked.raw_reason)
    voice.say(asking.usage)
    voice.say(finish)


def _call(task: Task, router: Router, asking: Asking) -> ToolCall | None:
    choice = task.tool_choice
    if not task.tools or choice == "none":
        return None
    question = task.prompt.question
    try:
        offer = _offer(task, router, asking)
        call = None if offer is None else fill(asking, offer, question, task.tool_call_id)
    except PromptTooLong:
        return None  # a question too long for the tools' prompts is answered in words
    if call is None or (call.error is not None and choice in _AUTO):
        return None
    return call


def _offer(task: Task, router: Router, asking: Asking) -> Offer | None:
    question = task.prompt.question[:_TELLING_LENGTH]
    named = [tool for tool in task.tools if tool.name == task.tool_choice]
    offers = make_offers(named or task.tools, question, task.examples)
    must = bool(named) or task.tool_choice == "required"
    if must and len(offers) == 1:
        return offers[0]
    return router.choose(asking, offers, question, must=must)


def _say_call(call: ToolCall, voice: Voice) -> None:
    voice.say(ToolCallStart(0, call.tool_call_id, call.name))
    voice.say(ToolCallDelta(0, call.raw_arguments or compact_json(call.arguments)))
    voice.say(ToolCallEnd(0, call))


def _say_words(task: Task, asking: Asking, voice: Voice) -> Asked:
    prompt = task.prompt
    room = asking.context - int(task.settings["max_tokens"])
    while True:
        try:
            return asking.ask(prompt.messages(), task.settings, tell=voice.say)
        except PromptTooLong as error:
            shorter = prompt.shorter(1 - room / error.tokens)
            if shorter is None:
                raise ContextTooLong(
                    f"The newest message and the system prompt have {error.tokens} tokens; the "
                    f"embedded model can read {room}. Shorten them or choose another model.",
                    provider=PROVIDER,
                ) from None
            prompt = shorter


# A tool's result in a sentence.

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
