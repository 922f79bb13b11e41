"""The messages of a Chat Completions request, one by one: roles, keys and content."""

from collections.abc import Iterator
from typing import Any

from multi_llm_chat.testing.validators.chat.history_calls import check_calls
from multi_llm_chat.testing.validators.chat.parts import check_part
from multi_llm_chat.testing.validators.chat.row import ChatCall
from multi_llm_chat.testing.validators.typed_views import as_array, as_object, type_name
from multi_llm_chat.testing.validators.violation import Violation, listed

#: What stands in for an assistant's content.
_SUBSTITUTES = ("tool_calls", "function_call", "refusal", "audio")


def check_messages(call: ChatCall) -> Iterator[Violation]:
    """Roles, keys, types of content and tool calls of every message, in order."""
    if "messages" not in call.body:
        return
    items = as_array(call.body["messages"])
    if items is None:
        actual = type_name(call.body["messages"])
        yield from call.say(
            "messages_type", path="messages", expected="an array of objects", actual=actual
        )
        return
    if not items:
        yield from call.say("messages_empty", path="messages")
    for index, item in enumerate(items):
        message = as_object(item)
        path = f"messages[{index}]"
        if message is None:
            actual = type_name(item)
            yield from call.say("message_type", path=path, expected="an object", actual=actual)
        else:
            yield from _check_message(call, index, path, message)


def _check_message(
    call: ChatCall, index: int, path: str, message: dict[str, Any]
) -> Iterator[Violation]:
    if "role" not in message:
        yield from call.say("role_missing", path=f"{path}.role", index=index)
        return
    role = message["role"]
    if not isinstance(role, str) or role not in call.row.roles:
        supported = listed(call.row.roles)
        yield from call.say(
            "role_value", path=f"{path}.role", index=index, value=role, supported=supported
        )
        return
    yield from _check_message_keys(call, index, role, message)
    yield from _check_content(call, index, path, role, message)
    if role == "assistant":
        yield from check_calls(call, index, path, message)


def _check_message_keys(
    call: ChatCall, index: int, role: str, message: dict[str, Any]
) -> Iterator[Violation]:
    if call.row.message_keys is None:
        return
    known = call.row.message_keys[role]
    for key, value in message.items():
        if key not in known:
            yield from call.say("message_key", index=index, role=role, key=key)
        elif value is None and key != "content":
            yield from call.say("message_key_null", index=index, role=role, key=key)


def _check_content(
    call: ChatCall, index: int, path: str, role: str, message: dict[str, Any]
) -> Iterator[Violation]:
    content = message.get("content")
    if content is None or isinstance(content, str):
        return
    where = f"{path}.content"
    parts = as_array(content)
    if parts is None:
        expected = "one of a string or array of objects"
        yield from call.say(
            "content_type", path=where, index=index, expected=expected, actual=type_name(content)
        )
        return
    yield from call.say("content_list", path=where, index=index, role=role)
    if not parts:
        yield from call.say("content_empty", path=where, index=index, role=role)
    for position, item in enumerate(parts):
        yield from check_part(call, index, f"{where}[{position}]", role, item)


def check_content_presence(call: ChatCall) -> Iterator[Violation]:
    """Every message has content; only an assistant's may be stood in for.

    OpenAI reports this after everything else that it can see in a request.
    """
    for index, message in call.messages():
        role = message.get("role")
        if role not in call.row.roles or message.get("content") is not None:
            continue
        if role == "assistant" and any(message.get(key) for key in _SUBSTITUTES):
            yield from call.say("content_null_beside_calls", index=index, role=role)
        elif role == "developer":
            fault = (
                "content_developer_null" if "content" in message else "content_developer_missing"
            )
            expected = "one of a string or array of objects"
            path = f"messages[{index}].content"
            yield from call.say(fault, path=path, index=index, expected=expected, actual="null")
        else:
            yield from call.say("content_null", index=index, role=role)
