"""The items of a Responses input, one by one (RSP-07 to RSP-09, RSP-14)."""

import re
from collections.abc import Iterator
from typing import Any

from multi_llm_chat.testing.validators.responses import wordings as say
from multi_llm_chat.testing.validators.responses.content import (
    ASSISTANT_PARTS,
    INPUT_PARTS,
    OUTPUT_PARTS,
    check_parts,
)
from multi_llm_chat.testing.validators.typed_views import as_array, as_object, objects
from multi_llm_chat.testing.validators.violation import Violation

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
