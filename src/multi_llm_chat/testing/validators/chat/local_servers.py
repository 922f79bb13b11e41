"""Checks of vLLM and llama.cpp beside their chat templates."""

from collections.abc import Iterator
from typing import Any

from multi_llm_chat.testing.validators.chat.row import ChatCall
from multi_llm_chat.testing.validators.schema_walk import walk
from multi_llm_chat.testing.validators.typed_views import as_array, as_object, as_string, members
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


def check_llamacpp_tools(call: ChatCall) -> Iterator[Violation]:
    """LCP-07: no grammar beside tools, and schemas that a grammar can be made of."""
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
