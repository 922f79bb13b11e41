"""The items of a Responses input, one by one (RSP-07 to RSP-09, RSP-14), and their content (RSP-09, RSP-13)."""

import re
from collections.abc import Iterator
from typing import Any

from multi_llm_chat.testing.validators.media import is_web_url, parse_data_uri
from multi_llm_chat.testing.validators.responses import wordings as say
from multi_llm_chat.testing.validators.typed_views import as_array, as_object, as_string, objects
from multi_llm_chat.testing.validators.violation import Violation

# Content: parts by role, and media.

INPUT_PARTS = ("input_text", "input_image", "input_file", "scoped_content", "input_audio")
ASSISTANT_PARTS = ("output_text", "refusal")
OUTPUT_PARTS = ("input_text", "input_image", "input_file")
_ALL_PARTS = (
    "input_text",
    "input_image",
    "input_audio",
    "output_text",
    "refusal",
    "input_file",
    "computer_screenshot",
    "summary_text",
    "encrypted_content",
    "scoped_content",
)
_PART_KEYS = {
    "input_text": frozenset({"type", "text", "prompt_cache_breakpoint"}),
    "input_image": frozenset({"type", "detail", "file_id", "image_url", "prompt_cache_breakpoint"}),
    "input_file": frozenset(
        {
            "type",
            "detail",
            "file_data",
            "file_id",
            "file_url",
            "filename",
            "prompt_cache_breakpoint",
        }
    ),
    "input_audio": frozenset({"type", "input_audio"}),
    "output_text": frozenset({"type", "text", "annotations", "logprobs"}),
    "refusal": frozenset({"type", "refusal"}),
}
_TEXTS = {"input_text": "text", "output_text": "text", "refusal": "refusal"}
#: Kinds of files that are no documents (RSP-24).
_MEDIA = ("audio/", "video/")
_SOUND = re.compile(r"\.(?:mp3|wav|ogg|flac|m4a|mp4|mov)(?:\?|$)", re.IGNORECASE)
_IMAGES = ("image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp")


def check_parts(path: str, value: object, allowed: tuple[str, ...]) -> Iterator[Violation]:
    """Judge a string or a list of parts."""
    if isinstance(value, str):
        return
    parts = as_array(value)
    if parts is None:
        yield say.wrong_type(path, "one of a string or array of objects", value)
        return
    if not parts:
        yield say.empty_array(path)
    for index, item in enumerate(parts):
        yield from _check_part(f"{path}[{index}]", item, allowed)


def _check_part(path: str, item: object, allowed: tuple[str, ...]) -> Iterator[Violation]:
    part = as_object(item)
    if part is None:
        yield say.wrong_type(path, "an object", item)
        return
    kind = part.get("type")
    if kind not in _ALL_PARTS:
        yield say.wrong_value(f"{path}.type", kind, _ALL_PARTS[:-1], "RSP-09")
        return
    if kind not in allowed:
        yield say.wrong_value(path, kind, allowed, "RSP-09")
        return
    for key in part:
        if key not in _PART_KEYS.get(str(kind), frozenset(part)):
            yield say.UNKNOWN_ITEM_KEY.fill(path=f"{path}.{key}")
    yield from _check_body(path, str(kind), part)


def _check_body(path: str, kind: str, part: dict[str, Any]) -> Iterator[Violation]:
    member = _TEXTS.get(kind)
    if member is not None:
        if member not in part:
            yield say.missing(f"{path}.{member}")
        elif not isinstance(part[member], str):
            yield say.wrong_type(f"{path}.{member}", "a string", part[member])
    elif kind == "input_image":
        yield from _check_image(path, part)
    elif kind == "input_file":
        yield from _check_file(path, part)


def _check_image(path: str, part: dict[str, Any]) -> Iterator[Violation]:
    url = part.get("image_url")
    where = f"{path}.image_url"
    if url is None:
        if not as_string(part.get("file_id")):
            yield say.missing(where)
        return
    if not isinstance(url, str):
        yield say.wrong_type(where, "a string", url)
        return
    data = parse_data_uri(url)
    if data is None:
        if not is_web_url(url):
            text = (
                f"Invalid '{where}'. Expected a valid URL, but got a value with an invalid format."
            )
            yield Violation("RSP-DOC", text, param=where, code="invalid_value")
    elif data.media_type not in _IMAGES or not data.payload_is_valid:
        text = (
            f"Invalid '{where}'. Expected a base64-encoded data URL with an image MIME type (e.g. "
            "'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got unsupported MIME type "
            f"'{data.media_type}'."
        )
        yield Violation("RSP-DOC", text, param=where, code="invalid_value")


def _check_file(path: str, part: dict[str, Any]) -> Iterator[Violation]:
    data = as_string(part.get("file_data"))
    if data is not None:
        uri = parse_data_uri(data)
        if uri is None or not uri.payload_is_valid:
            where = f"{path}.file_data"
            text = f"Invalid '{where}'. Expected a base64-encoded data URL."
            yield Violation("RSP-DOC", text, param=where, code="invalid_value")
        elif uri.media_type.startswith(_MEDIA):
            yield say.FILE_KIND.fill(path=path, kind=uri.media_type)
    elif _SOUND.search(as_string(part.get("file_url")) or ""):
        yield say.FILE_ADDRESS.fill()
    elif not as_string(part.get("file_id")) and not as_string(part.get("file_url")):
        yield say.missing(f"{path}.file_id")


# Items.

ITEM_TYPES = (
    "additional_tools",
    "agent_message",
    "apply_patch_call",
    "apply_patch_call_output",
    "code_interpreter_call",
    "compaction",
    "compaction_trigger",
    "computer_call",
    "computer_call_output",
    "configuration_update",
    "custom_tool_call",
    "custom_tool_call_output",
    "file_search_call",
    "function_call",
    "function_call_output",
    "image_generation_call",
    "item_reference",
    "local_shell_call",
    "local_shell_call_output",
    "mcp_approval_request",
    "mcp_approval_response",
    "mcp_call",
    "mcp_list_tools",
    "message",
    "multi_agent_call",
    "multi_agent_call_output",
    "program",
    "program_output",
    "reasoning",
    "shell_call",
    "shell_call_output",
    "tool_search_call",
    "tool_search_output",
    "web_search_call",
)
_ROLES = ("assistant", "system", "developer", "user")
_MESSAGE = frozenset({"type", "role", "content", "status", "id"})
_KEYS = {
    "function_call": frozenset(
        {
            "type",
            "call_id",
            "name",
            "arguments",
            "id",
            "status",
            "caller",
            "namespace",
            "async",
        }
    ),
    "function_call_output": frozenset(
        {"type", "call_id", "output", "id", "status", "caller", "name", "namespace"}
    ),
    "reasoning": frozenset({"type", "id", "summary", "content", "encrypted_content", "status"}),
}
_STATUSES = ("in_progress", "completed", "incomplete")
_PREFIXES = {"function_call": "fc", "reasoning": "rs", "message": "msg"}
_NAME = re.compile(r"[a-zA-Z0-9_-]+")

CALL_ID_LIMIT = 64
NAME_LIMIT = 128
OUTPUT_LIMIT = 10_485_760
ENCRYPTED_LIMIT = 20_971_520


def check_items(body: dict[str, Any]) -> Iterator[Violation]:
    """Judge the ``input`` member."""
    value = body.get("input")
    if "input" not in body or isinstance(value, str):
        return
    items = as_array(value)
    if items is None:
        yield say.wrong_type("input", "one of a string or array of input items", value)
        return
    for index, item in enumerate(items):
        path = f"input[{index}]"
        found = as_object(item)
        if found is None:
            yield say.wrong_type(path, "an input item", item)
        else:
            yield from _check_item(path, found)


def _check_item(path: str, item: dict[str, Any]) -> Iterator[Violation]:
    kind = item.get("type", "message")
    if not isinstance(kind, str) or kind not in ITEM_TYPES:
        yield say.wrong_value(path, kind, ITEM_TYPES)
        return
    for key in item:
        if key not in _known(kind, item):
            yield say.UNKNOWN_ITEM_KEY.fill(path=f"{path}.{key}")
    yield from _check_identity(path, kind, item)
    match kind:
        case "message":
            yield from _check_message(path, item)
        case "function_call":
            yield from _check_call(path, item)
        case "function_call_output":
            yield from _check_output(path, item)
        case "reasoning":
            yield from _check_reasoning(path, item)
        case _:
            return


def _known(kind: str, item: dict[str, Any]) -> frozenset[str]:
    if kind == "message":
        return _MESSAGE | {"phase"} if item.get("role") == "assistant" else _MESSAGE
    return _KEYS.get(kind, frozenset(item))


def _check_identity(path: str, kind: str, item: dict[str, Any]) -> Iterator[Violation]:
    identifier = item.get("id")
    prefix = _PREFIXES.get(kind)
    if identifier is not None and not isinstance(identifier, str):
        yield say.wrong_type(f"{path}.id", "a string", identifier)
    elif identifier is not None and prefix is not None and not identifier.startswith(prefix):
        yield say.IDENTIFIER_PREFIX.fill(path=f"{path}.id", value=identifier, prefix=prefix)
    status = item.get("status")
    if kind in {"message", *_KEYS} and status is not None and status not in _STATUSES:
        yield say.wrong_value(f"{path}.status", status, _STATUSES)


def _check_message(path: str, item: dict[str, Any]) -> Iterator[Violation]:
    role = item.get("role")
    if role not in _ROLES:
        yield say.wrong_value(path, role, _ROLES)
        return
    if "content" not in item:
        yield say.missing(f"{path}.content")
    else:
        allowed = ASSISTANT_PARTS if role == "assistant" else INPUT_PARTS
        yield from check_parts(f"{path}.content", item["content"], allowed)
    phase = item.get("phase")
    phases = ("commentary", "final_answer")
    if role == "assistant" and phase is not None and phase not in phases:
        yield say.wrong_value(f"{path}.phase", phase, phases)


def _check_call(path: str, item: dict[str, Any]) -> Iterator[Violation]:
    yield from _check_call_id(path, item)
    yield from check_name(f"{path}.name", item.get("name"))
    arguments = item.get("arguments")
    if arguments is None:
        yield say.missing(f"{path}.arguments")
    elif not isinstance(arguments, str):
        yield say.wrong_type(f"{path}.arguments", "a string", arguments)


def _check_call_id(path: str, item: dict[str, Any]) -> Iterator[Violation]:
    where = f"{path}.call_id"
    identifier = item.get("call_id")
    if identifier is None:
        yield say.missing(where, "RSP-14")
    elif not isinstance(identifier, str):
        yield say.wrong_type(where, "a string", identifier, "RSP-14")
    elif not identifier:
        yield say.empty_string(where)
    elif len(identifier) > CALL_ID_LIMIT:
        yield say.too_long(where, CALL_ID_LIMIT, len(identifier))


def check_name(path: str, name: object) -> Iterator[Violation]:
    """A function's name, in a definition or in a call of the history."""
    if name is None:
        yield say.missing(path, "RSP-10" if path.startswith("tools") else "RSP-07")
    elif not isinstance(name, str):
        yield say.wrong_type(path, "a string", name, "RSP-07")
    elif not name:
        yield say.empty_string(path)
    elif not _NAME.fullmatch(name):
        yield say.wrong_pattern(path)
    elif len(name) > NAME_LIMIT:
        yield say.too_long(path, NAME_LIMIT, len(name))


def _check_output(path: str, item: dict[str, Any]) -> Iterator[Violation]:
    yield from _check_call_id(path, item)
    where = f"{path}.output"
    if item.get("output") is None:
        yield say.missing(where)
        return
    output = item["output"]
    yield from check_parts(where, output, OUTPUT_PARTS)
    if isinstance(output, str) and len(output) > OUTPUT_LIMIT:
        yield say.too_long(where, OUTPUT_LIMIT, len(output))


def _check_reasoning(path: str, item: dict[str, Any]) -> Iterator[Violation]:
    if as_array(item.get("summary")) is None:
        yield say.missing(f"{path}.summary")
    for index, part in enumerate(objects(item.get("summary"))):
        if part.get("type") != "summary_text":
            where = f"{path}.summary[{index}].type"
            yield say.wrong_value(where, part.get("type"), ("summary_text",))
    encrypted = item.get("encrypted_content")
    if encrypted is None:
        return
    if not isinstance(encrypted, str):
        yield say.wrong_type(f"{path}.encrypted_content", "a string", encrypted)
    elif not encrypted:
        yield say.ENCRYPTED.fill(value=encrypted)
    elif len(encrypted) > ENCRYPTED_LIMIT:
        yield say.too_long(f"{path}.encrypted_content", ENCRYPTED_LIMIT, len(encrypted))
