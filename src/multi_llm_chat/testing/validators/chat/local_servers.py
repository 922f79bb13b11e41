"""Checks of vLLM and llama.cpp, and what the chat templates they run raise on (VLL-06, LCP-06).

The server cannot know better than the template of the model it loaded. The default profile is
the strictest that a history can meet without knowing the model:

1. One system message, and only at the beginning.
2. There is a user message, and the first turn is the user's.
3. User and assistant take turns; an assistant's calls, their results and its next words are one
   turn.
4. A tool message follows a call or another tool message.

Models whose names say more are held to more: Mistral's ids and stricter alternation, the single
calls of Llama 3.1 and 3.2.
"""

import re
from collections.abc import Iterator
from typing import Any

from multi_llm_chat.testing.validators.chat.hosted_quirks import MISTRAL_FAMILY
from multi_llm_chat.testing.validators.chat.row import ChatCall, calls_of
from multi_llm_chat.testing.validators.function_schema import walk
from multi_llm_chat.testing.validators.typed_views import (
    as_array,
    as_object,
    as_string,
    members,
    type_name,
)
from multi_llm_chat.testing.validators.violation import Violation

_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")


def check_vllm_reasoning(call: ChatCall) -> Iterator[Violation]:
    """VLL-08: reasoning is read from ``reasoning``; under another name it is lost."""
    for index, message in call.messages():
        if message.get("reasoning_content") and not message.get("reasoning"):
            yield from call.say("reasoning_lost", index=index)


def check_llamacpp_messages(call: ChatCall) -> Iterator[Violation]:
    """LCP-02, LCP-04: every message has content, and the end is not two assistants."""
    roles: list[object] = []
    for index, message in call.messages():
        roles.append(message.get("role"))
        if message.get("role") != "assistant":
            if "content" not in message:
                yield from call.say("content_missing", index=index)
        elif "content" not in message and "tool_calls" not in message:
            yield from call.say("assistant_empty", index=index)
    if roles[-2:] == ["assistant", "assistant"]:
        yield from call.say("assistants_last")


_NUMBERS = ("temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "frequency_penalty", "presence_penalty")  # fmt: skip


def check_llamacpp_numbers(call: ChatCall) -> Iterator[Violation]:
    """LCP-10, LCP-11: numbers are numbers; a schema or a grammar, never both."""
    for name in _NUMBERS:
        value = call.body.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            yield from call.say("number_type", name=name, actual=type_name(value))
    if call.body.get("grammar") and call.body.get("json_schema"):
        yield from call.say("grammar_with_schema")


def check_llamacpp_tools(call: ChatCall) -> Iterator[Violation]:
    """LCP-07: no grammar together with tools, and schemas that a grammar can be made of."""
    if call.body.get("grammar") and call.body.get("tools"):
        yield from call.say("grammar_with_tools")
    for _, tool in call.tools():
        parameters = as_object(members(tool.get("function")).get("parameters"))
        if parameters is not None:
            for reason in _grammar_faults(parameters):
                yield from call.say("schema_conversion", reason=reason)


def _grammar_faults(root: dict[str, Any]) -> Iterator[str]:
    for _, schema in walk(root):
        reference = as_string(schema.get("$ref"))
        if reference is not None and reference.startswith("#") and not _resolves(root, reference):
            yield f"Error resolving ref {reference}"
        kind = schema.get("type")
        listed = as_array(kind)
        kinds: list[Any] = [kind] if listed is None else listed
        if kind is not None and any(name not in _TYPES for name in kinds):
            yield f"Unrecognized schema: {schema!r}"
        pattern = as_string(schema.get("pattern"))
        if pattern is not None and not (pattern.startswith("^") and pattern.endswith("$")):
            yield "Pattern must start with '^' and end with '$'"
        for name, child in members(schema.get("properties")).items():
            if not isinstance(child, dict):
                yield f"Unrecognized schema: {name}: {child!r}"


def _resolves(root: dict[str, Any], reference: str) -> bool:
    place: object = root
    for step in reference.lstrip("#").split("/"):
        if step:
            found = as_object(place)
            if found is None or step not in found:
                return False
            place = found[step]
    return True


# Chat templates.

_LLAMA_SINGLE = re.compile(r"llama-?3[._-][12]", re.IGNORECASE)
_LLAMA_3 = re.compile(r"llama-?3", re.IGNORECASE)
#: Templates that take neighbours of one role (LCP-06).
_PATIENT = re.compile(r"qwen-?3", re.IGNORECASE)
_SYSTEM = ("system", "developer")


def check_template(call: ChatCall) -> Iterator[Violation]:
    """Hold the messages against the default profile and what the model's name adds to it."""
    history = list(call.messages())
    yield from _check_system(call, history)
    spoken = [(index, message) for index, message in history if message.get("role") not in _SYSTEM]
    if not any(message.get("role") == "user" for _, message in spoken):
        yield from call.say("template_no_user")
    yield from _check_tool_place(call, history)
    if MISTRAL_FAMILY.search(call.model):
        yield from _check_mistral_turns(call, spoken)
        yield from _check_mistral_identifiers(call, spoken)
    elif not _PATIENT.search(call.model):
        yield from _check_turns(call, spoken)
    yield from _check_llama(call, spoken)


_History = list[tuple[int, dict[str, Any]]]


def _check_system(call: ChatCall, history: _History) -> Iterator[Violation]:
    for index, message in history:
        if message.get("role") in _SYSTEM and index > 0:
            yield from call.say("template_system", index=index)


def _check_tool_place(call: ChatCall, history: _History) -> Iterator[Violation]:
    in_exchange = False
    for index, message in history:
        if message.get("role") == "tool":
            if not in_exchange:
                yield from call.say("template_tool", index=index)
        else:
            in_exchange = bool(calls_of(message))


def _check_turns(call: ChatCall, spoken: _History) -> Iterator[Violation]:
    previous = "assistant"  # so that the first turn has to be the user's
    for _, message in spoken:
        role = as_string(message.get("role")) or ""
        # Only a tool message may stand between two of the assistant's.
        if role in {"user", "assistant"} and role == previous:
            yield from call.say("template_turns")
        previous = role


def _check_mistral_turns(call: ChatCall, spoken: _History) -> Iterator[Violation]:
    """Mistral's templates leave tool exchanges out and let the rest alternate."""
    expected = "user"
    for _, message in spoken:
        role = message.get("role")
        if role == "tool" or calls_of(message):
            continue
        if role != expected:
            yield from call.say("template_turns")
            return
        expected = "assistant" if expected == "user" else "user"


def _check_mistral_identifiers(call: ChatCall, spoken: _History) -> Iterator[Violation]:
    suffixes: dict[str, str] = {}
    for _, message in spoken:
        for made in calls_of(message):
            identifier = as_string(made.get("id")) or ""
            if not call.row.mistral_identifier.fullmatch(identifier):
                yield from call.say("template_identifier", identifier=identifier)
            # The tokenizer keeps the last nine characters only: different ids may fall together.
            if suffixes.setdefault(identifier[-9:], identifier) != identifier:
                yield from call.say("identifier_collides", identifier=identifier)


def _check_llama(call: ChatCall, spoken: _History) -> Iterator[Violation]:
    if _LLAMA_SINGLE.search(call.model):
        for _, message in spoken:
            if len(calls_of(message)) > 1:
                yield from call.say("template_single_call")
    first = spoken[0][1] if spoken else {}
    if _LLAMA_3.search(call.model) and call.body.get("tools") and first.get("role") != "user":
        yield from call.say("template_tools_place")
