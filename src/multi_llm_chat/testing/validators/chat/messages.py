"""The messages of a Chat Completions request, one by one: roles, keys, content and the parts of it.

The parts of a message's content have types per role, members and media.
"""

from collections.abc import Iterator
from typing import Any

from multi_llm_chat.testing.validators.chat.history_calls import check_calls
from multi_llm_chat.testing.validators.chat.row import ChatCall
from multi_llm_chat.testing.validators.media import (
    is_base64,
    is_picture,
    is_web_url,
    parse_data_uri,
)
from multi_llm_chat.testing.validators.typed_views import as_array, as_object, as_string, type_name
from multi_llm_chat.testing.validators.violation import Violation, listed

# Parts.


def check_part(
    call: ChatCall, index: int, path: str, role: str, item: object
) -> Iterator[Violation]:
    """Judge one content part."""
    part = as_object(item)
    if part is None:
        actual = type_name(item)
        yield from call.say(
            "part_object", path=path, index=index, expected="an object", actual=actual
        )
        return
    if "type" not in part:
        yield from call.say("part_type_missing", path=f"{path}.type", index=index)
        return
    kind = part["type"]
    if not isinstance(kind, str) or kind not in call.row.part_types[role]:
        yield from _say_part_type(call, index, path, role, kind)
        return
    yield from _check_part_keys(call, path, index, kind, part)
    yield from _check_part_body(call, path, kind, part)


def _say_part_type(
    call: ChatCall, index: int, path: str, role: str, kind: object
) -> Iterator[Violation]:
    fault = "part_type"
    if kind == "image_url":
        fault = "image_role"
    elif role == "tool":
        fault = "tool_part_type"
    supported = listed(sorted(call.row.part_types[role]))
    yield from call.say(
        fault, path=f"{path}.type", index=index, role=role, value=kind, supported=supported
    )


def _check_part_keys(
    call: ChatCall, path: str, index: int, kind: str, part: dict[str, Any]
) -> Iterator[Violation]:
    if call.row.part_keys is None or kind not in call.row.part_keys:
        return
    for key in part:
        if key not in call.row.part_keys[kind]:
            yield from call.say("part_key", path=path, index=index, key=key)


def _check_part_body(
    call: ChatCall, path: str, kind: str, part: dict[str, Any]
) -> Iterator[Violation]:
    match kind:
        case "text" | "refusal":
            yield from _require_string(call, f"{path}.{kind}", part.get(kind))
        case "image_url":
            yield from _check_image(call, path, part.get("image_url"))
        case "input_audio":
            yield from _check_audio(call, path, part.get("input_audio"))
        case "file":
            yield from _check_file(call, path, part.get("file"))
        case _:
            return


def _require_string(call: ChatCall, path: str, value: object) -> Iterator[Violation]:
    if value is None:
        yield from call.say("part_member_missing", path=path)
    elif not isinstance(value, str):
        actual = type_name(value)
        yield from call.say("part_member_type", path=path, expected="a string", actual=actual)


def _check_image(call: ChatCall, path: str, value: object) -> Iterator[Violation]:
    # gpt-4-vision-preview of 2023 was recorded to take the address alone.
    may_be_string = call.row.image_url_may_be_string or "vision-preview" in call.model
    url = value if may_be_string and isinstance(value, str) else None
    where = f"{path}.image_url"
    if url is None:
        image = as_object(value)
        if image is None:
            fault = "part_member_missing" if value is None else "part_member_type"
            yield from call.say(fault, path=where, expected="an object", actual=type_name(value))
            return
        url, where = image.get("url"), f"{where}.url"
    yield from _require_string(call, where, url)
    if isinstance(url, str):
        yield from _check_image_address(call, where, url)


def _check_image_address(call: ChatCall, path: str, url: str) -> Iterator[Violation]:
    data = parse_data_uri(url)
    if data is None:
        fault = "image_remote" if is_web_url(url) else "image_address"
        yield from call.say(fault, path=path)
    elif data.media_type not in call.row.image_types:
        yield from call.say("image_media_type", path=path, media_type=data.media_type)
    elif not data.payload_is_valid:
        yield from call.say("image_base64", path=path)
    elif not is_picture(url):
        yield from call.say("image_bytes", path=path)


def _check_audio(call: ChatCall, path: str, value: object) -> Iterator[Violation]:
    where = f"{path}.input_audio"
    audio = as_object(value)
    if call.row.audio_may_be_string and isinstance(value, str):
        if not is_base64(value) and not is_web_url(value):
            yield from call.say("media_base64", path=where)
        return
    if audio is None:
        fault = "part_member_missing" if value is None else "part_member_type"
        yield from call.say(fault, path=where, expected="an object", actual=type_name(value))
        return
    yield from _require_string(call, f"{where}.data", audio.get("data"))
    yield from _require_string(call, f"{where}.format", audio.get("format"))
    data, form = as_string(audio.get("data")), as_string(audio.get("format"))
    if data is not None and not is_base64(data):
        yield from call.say("media_base64", path=f"{where}.data")
    if form is not None and form not in {"wav", "mp3"}:
        supported = listed(("wav", "mp3"))
        yield from call.say(
            "parameter_value", path=f"{where}.format", value=form, supported=supported
        )


def _check_file(call: ChatCall, path: str, value: object) -> Iterator[Violation]:
    where = f"{path}.file"
    file = as_object(value)
    if file is None:
        fault = "part_member_missing" if value is None else "part_member_type"
        yield from call.say(fault, path=where, expected="an object", actual=type_name(value))
        return
    data = as_string(file.get("file_data"))
    if data is None and not as_string(file.get("file_id")):
        yield from call.say("part_member_missing", path=f"{where}.file_id")
    elif data is not None:
        if call.row.files_by_address and is_web_url(data):
            return
        uri = parse_data_uri(data)
        if uri is None or not uri.payload_is_valid:
            yield from call.say("media_base64", path=f"{where}.file_data")
        elif uri.media_type.startswith(("audio/", "video/")):
            yield from call.say("file_type", path=f"{where}.file_data", kind=uri.media_type)


# Messages.

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
    if call.row.lists is None or not call.row.lists.search(call.model):
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
            fault = "content_null_beside_calls" if "content" in message else "content_absent_calls"
            yield from call.say(fault, index=index, role=role)
        elif role == "developer":
            fault = (
                "content_developer_null" if "content" in message else "content_developer_missing"
            )
            expected = "one of a string or array of objects"
            path = f"messages[{index}].content"
            yield from call.say(fault, path=path, index=index, expected=expected, actual="null")
        else:
            yield from call.say("content_null", index=index, role=role)
