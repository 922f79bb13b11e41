"""One answer of the embedded model: a tool call, a tool's result in words, or plain words.

Rules:
1. A question whose tools have answered is answered with their results; no further tool is called
   for it. So every question ends after one round.
2. A call that cannot be filled in validly is not made: the model answers in words. Only where the
   caller insists on a tool is the call given out, with its error, and never run.
3. A prompt that does not fit the window loses its oldest exchanges; the newest question stays.
4. Every answer ends with one ``Usage`` over all its steps and one ``Finish``.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from multi_llm_chat.errors import ContextTooLong
from multi_llm_chat.events import (
    Finish,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from multi_llm_chat.history.json_values import compact_json
from multi_llm_chat.history.values import JsonObject, ToolCall
from multi_llm_chat.local.argument_fill import fill
from multi_llm_chat.local.engine import PromptTooLong
from multi_llm_chat.local.generation import Asked, Asking
from multi_llm_chat.local.machine import PROVIDER
from multi_llm_chat.local.prompt import Prompt
from multi_llm_chat.local.result_sentence import word_result
from multi_llm_chat.local.runtime import Voice
from multi_llm_chat.local.tool_choice import Router
from multi_llm_chat.local.tool_examples import Example, Offer, make_offers
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
