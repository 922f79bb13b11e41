"""The tools a Chat Completions request offers, and the choice among them."""

from collections.abc import Iterator
from typing import Any

from multi_llm_chat.testing.validators.chat.history_calls import check_name
from multi_llm_chat.testing.validators.chat.row import ChatCall
from multi_llm_chat.testing.validators.function_schema import function_faults, strict_faults
from multi_llm_chat.testing.validators.typed_views import (
    as_array,
    as_object,
    as_string,
    members,
    type_name,
)
from multi_llm_chat.testing.validators.violation import Violation, listed


def check_tools(call: ChatCall) -> Iterator[Violation]:
    """Judge the ``tools`` member."""
    if call.body.get("tools") is None:  # null was recorded as accepted, by OpenAI too
        return
    items = as_array(call.body["tools"])
    if items is None:
        actual = type_name(call.body["tools"])
        yield from call.say(
            "tools_type", path="tools", expected="an array of objects", actual=actual
        )
        return
    if not items:
        yield from call.say("tools_empty", path="tools")
    if len(items) > call.row.tool_limit:
        limit = call.row.tool_limit
        yield from call.say("tools_many", path="tools", limit=limit, length=len(items))
    for index, item in enumerate(items):
        tool = as_object(item)
        path = f"tools[{index}]"
        if tool is None:
            actual = type_name(item)
            yield from call.say("tool_object", path=path, expected="an object", actual=actual)
        else:
            yield from _check_tool(call, index, path, tool)


def _is_absent(call: ChatCall, key: str) -> bool:
    return call.row.nulls_are_absent and call.body[key] is None


def _check_tool(call: ChatCall, index: int, path: str, tool: dict[str, Any]) -> Iterator[Violation]:
    yield from _check_keys(call, index, path, tool, call.row.tool_keys)
    kind = tool.get("type")
    prefix = call.row.server_tools
    if prefix is not None and isinstance(kind, str) and kind.startswith(prefix):
        return
    if kind is None:
        yield from call.say("tool_kind_missing", path=f"{path}.type")
    elif kind not in call.row.tool_types:
        supported = listed(call.row.tool_types)
        yield from call.say("tool_kind", path=f"{path}.type", value=kind, supported=supported)
        return
    if kind not in (None, "function", "custom"):  # a tool of the server's own
        return
    member = "custom" if kind == "custom" else "function"
    function = as_object(tool.get(member))
    if function is None:
        yield from call.say("tool_function_missing", path=f"{path}.{member}")
        return
    yield from check_name(call, "tool_name", f"{path}.{member}.name", function)
    if member == "function":
        yield from _check_keys(call, index, f"{path}.function", function, call.row.function_keys)
        yield from _check_function(call, f"{path}.function", function)


def _check_keys(
    call: ChatCall, index: int, path: str, value: dict[str, Any], known: frozenset[str] | None
) -> Iterator[Violation]:
    if known is not None:
        for key in value:
            if key not in known:
                yield from call.say("tool_key", index=index, path=path, key=key)


def _check_function(call: ChatCall, path: str, function: dict[str, Any]) -> Iterator[Violation]:
    for member, kind, expected in (("description", str, "a string"), ("strict", bool, "a boolean")):
        value = function.get(member)
        if value is not None and not isinstance(value, kind):
            yield from call.say(
                "tool_member_type",
                path=f"{path}.{member}",
                expected=expected,
                actual=type_name(value),
            )
    parameters = function.get("parameters")
    if parameters is None:
        if function.get("strict") is not True:
            return
        # No parameters are an open object, which strict mode refuses (recorded: openai/openai-dotnet, ChatToolTests).
        parameters = dict[str, Any](type="object", properties={})
    where = f"{path}.parameters"
    schema = as_object(parameters)
    if schema is None:
        actual = type_name(parameters)
        yield from call.say("tool_member_type", path=where, expected="an object", actual=actual)
        return
    name = as_string(function.get("name")) or ""
    for reason in function_faults(schema):
        yield from call.say("tool_schema", path=where, name=name, reason=reason)
    if function.get("strict") is True:
        for reason in strict_faults(schema):
            yield from call.say("tool_strict_schema", path=where, name=name, reason=reason)


def check_tool_choice(call: ChatCall) -> Iterator[Violation]:
    """Judge ``tool_choice``: only what is offered can be chosen."""
    if "tool_choice" not in call.body or _is_absent(call, "tool_choice"):
        return
    choice = call.body["tool_choice"]
    if "tools" not in call.body and choice != "none":
        yield from call.say("choice_without_tools")
    if isinstance(choice, str):
        if choice not in call.row.tool_choices:
            supported = listed(call.row.tool_choices)
            yield from call.say(
                "choice_value", path="tool_choice", value=choice, supported=supported
            )
        return
    named = as_object(choice)
    if named is None:
        yield from call.say("choice_type", path="tool_choice", actual=type_name(choice))
    elif named.get("type") not in ("allowed_tools", "custom"):
        yield from _check_named_choice(call, named)


def _check_named_choice(call: ChatCall, choice: dict[str, Any]) -> Iterator[Violation]:
    function = as_object(choice.get("function"))
    if function is None:
        yield from call.say("choice_member_missing", path="tool_choice.function")
        return
    name = as_string(function.get("name"))
    if name is None:
        yield from call.say("choice_member_missing", path="tool_choice.function.name")
    elif name not in offered_names(call):
        yield from call.say("choice_unknown", name=name)


def offered_names(call: ChatCall) -> set[str]:
    """The names of the functions that the request offers."""
    names = (as_string(members(tool.get("function")).get("name")) for _, tool in call.tools())
    return {name for name in names if name}
