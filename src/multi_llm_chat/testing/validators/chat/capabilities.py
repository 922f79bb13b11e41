"""What OpenAI's models refuse although the request is well formed (OAI-16, OAI-19).

Reasoning models refuse sampling parameters; from gpt-5.4 on they also refuse function tools on
Chat Completions unless reasoning is switched off.
"""

from collections.abc import Iterator

from multi_llm_chat.testing.validators.chat.row import ChatCall
from multi_llm_chat.testing.validators.openai_models import openai_model
from multi_llm_chat.testing.validators.typed_views import as_number, objects
from multi_llm_chat.testing.validators.violation import Violation

#: Refused by reasoning models whatever the value.
_NEVER = ("stop", "logit_bias", "prediction")
#: Refused while the model reasons.
_WHILE_REASONING = ("frequency_penalty", "presence_penalty", "logprobs")


def check_capabilities(call: ChatCall) -> Iterator[Violation]:
    """Parameters and tools that the named model does not take."""
    model = openai_model(call.model)
    if not model.can_reason:
        return
    body = call.body
    if body.get("max_tokens") is not None:
        yield from call.say("max_tokens_unsupported")
    reasoning = model.is_reasoning(body.get("reasoning_effort"))
    refused = _NEVER + (_WHILE_REASONING if reasoning else ())
    for name in refused:
        if body.get(name) not in (None, False, 0):
            yield from call.say("parameter_unsupported", path=name)
    if reasoning:
        yield from _check_sampling(call)
        if model.refuses_tools_while_reasoning and _offers_functions(call):
            yield from call.say("tools_while_reasoning", model=call.model)


def _check_sampling(call: ChatCall) -> Iterator[Violation]:
    for name in ("temperature", "top_p"):
        value = as_number(call.body.get(name))
        if value is not None and value != 1:
            yield from call.say("temperature_unsupported", path=name, value=value)


def _offers_functions(call: ChatCall) -> bool:
    return any(tool.get("type") == "function" for tool in objects(call.body.get("tools")))
