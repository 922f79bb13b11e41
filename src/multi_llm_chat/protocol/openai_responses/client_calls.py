"""Calls that the client answers, and their outputs, in the item types of Responses (RSP-16, RSP-17, RSP-21, RSP-22).

Rules:
1. A function, custom, shell, local shell, patch or computer call, a tool search that the client runs and a request for
   approval are tool calls. The requested action is in the call's arguments: a custom call's text is ``{"input": text}``.
2. A call's other fields are its extras; ``type`` is among them unless it is a function call. With them, the call is written
   as its original item. Another receiver gets a function call.
3. A result is sent in the output type of its call. A result that was read from such an output and has not
   been changed is sent back as received.
4. A screenshot is the only output of a computer call: without one, call and result are written as text.
5. Calls that the server itself answers (a tool search, a shell in a container) are native items.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from multi_llm_chat.history.json_values import as_list, as_object, as_text, compact_json
from multi_llm_chat.history.reader import split_result
from multi_llm_chat.history.values import JsonObject, ToolCall, ToolResult


class CallItem(NamedTuple):
    """A call of an item: ``arguments`` are text or an object, ``fields`` are those that a ``ToolCall`` does not express."""

    name: str
    identifier: str
    arguments: object
    fields: JsonObject


#: The tool of a call without a name, and the field with the requested action.
_TOOLS: Final[Mapping[str, tuple[str, str]]] = {
    "shell_call": ("shell", "action"),
    "local_shell_call": ("local_shell", "action"),
    "apply_patch_call": ("apply_patch", "operation"),
    "computer_call": ("computer", "action"),
    "tool_search_call": ("tool_search", "arguments"),
}

_APPROVAL: Final = "mcp_approval"
_APPROVAL_FIELDS: Final = ("server_label", "name", "arguments")

#: The output types of calls that the client answers.
OUTPUT_TYPES: Final[Mapping[str, str]] = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "shell_call": "shell_call_output",
    "local_shell_call": "local_shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
    "tool_search_call": "tool_search_output",
    "mcp_approval_request": "mcp_approval_response",
}


def read_call(item: JsonObject) -> CallItem | None:
    """The call, if the client must answer it."""
    kind = as_text(item.get("type"))
    identifier = as_text(item.get("call_id")) or as_text(item.get("id"))
    if kind == "function_call":
        arguments = item.get("arguments")
        fields = _without(item, "type", "call_id", "name", "arguments")
        return CallItem(as_text(item.get("name")), identifier, _given(arguments), fields)
    if kind == "custom_tool_call":
        fields = _without(item, "call_id", "name", "input")
        text = {"input": as_text(item.get("input"))}
        return CallItem(as_text(item.get("name")), identifier, text, fields)
    if kind == "mcp_approval_request":
        arguments = {key: item[key] for key in _APPROVAL_FIELDS if key in item}
        return CallItem(_APPROVAL, identifier, arguments, _without(item, *_APPROVAL_FIELDS))
    if kind not in _TOOLS or _is_run_by_server(kind, item):
        return None
    name, body = _TOOLS[kind]
    arguments = as_object(item.get(body))
    fields = _without(item, "call_id", body)
    if arguments is None:
        arguments, fields = {}, _without(item, "call_id")
        if kind == "computer_call" and as_list(item.get("actions")):
            arguments = {"actions": fields.pop("actions")}
    return CallItem(name, identifier, arguments, fields)


def _is_run_by_server(kind: str, item: JsonObject) -> bool:
    if kind == "tool_search_call":
        return item.get("execution") != "client" or not as_text(item.get("call_id"))
    environment = as_object(item.get("environment")) or {}
    return kind == "shell_call" and as_text(environment.get("type")).startswith("container")


def _given(arguments: object) -> object:
    """The arguments; ``null``, also as text, means no arguments (STR-20)."""
    return None if isinstance(arguments, str) and arguments.strip() == "null" else arguments


def _without(item: JsonObject, *keys: str) -> JsonObject:
    return {key: value for key, value in item.items() if key not in keys and value is not None}


def write_call(call: ToolCall, arguments: str, fields: JsonObject) -> JsonObject:
    """The item of a call; ``arguments`` is their text, ``fields`` are the call's extras if the receiver issued them."""
    kind = as_text(fields.get("type")) or "function_call"
    if kind == "custom_tool_call":
        text = call.arguments.get("input")
        written = text if isinstance(text, str) else arguments
        return {**fields, "call_id": call.tool_call_id, "name": call.name, "input": written}
    if kind == "mcp_approval_request":
        return {**fields, **call.arguments}
    if kind in _TOOLS:
        body = _TOOLS[kind][1]
        if kind == "computer_call" and "actions" in call.arguments:
            return {**fields, "call_id": call.tool_call_id, **call.arguments}
        given = {} if body in fields or not call.arguments else {body: call.arguments}
        return {**fields, "call_id": call.tool_call_id, **given}
    function: JsonObject = {
        "type": "function_call",
        "call_id": call.tool_call_id,
        "name": call.name,
        "arguments": arguments,
    }
    return function | fields if fields else function


# Outputs.


def read_output(item: JsonObject) -> tuple[str, str, JsonObject]:
    """An output's call id, its text, and the fields to send it back with; not for outputs with content parts."""
    kind = as_text(item.get("type"))
    key = _ID_KEYS.get(kind, "call_id")
    return as_text(item.get(key)), output_words(item), _without(item)


#: The field of an output with the id of its call, if that is not ``call_id``.
_ID_KEYS: Final[Mapping[str, str]] = {
    "local_shell_call_output": "id",
    "mcp_approval_response": "approval_request_id",
}


def output_words(item: JsonObject) -> str:
    """The text of an output."""
    kind, output = as_text(item.get("type")), item.get("output")
    if kind == "mcp_approval_response":
        reason = as_text(item.get("reason"))
        decision = "approved" if item.get("approve") is True else "not approved"
        return f"{decision}: {reason}" if reason else decision
    if kind == "shell_call_output":
        chunks = (as_object(chunk) for chunk in as_list(output) or [])
        return "\n".join(words for chunk in chunks if chunk and (words := _shell_words(chunk)))
    if kind == "tool_search_output":
        return compact_json({"tools": item.get("tools")})
    if kind == "apply_patch_call_output":
        return as_text(output) or as_text(item.get("status"))
    return output if isinstance(output, str) else compact_json(output)


def _shell_words(chunk: JsonObject) -> str:
    outcome = as_object(chunk.get("outcome")) or {}
    lines = [as_text(chunk.get("stdout")), as_text(chunk.get("stderr"))]
    code = outcome.get("exit_code")
    if outcome.get("type") == "timeout":
        lines.append("(timed out)")
    elif code:
        lines.append(f"(exit code {code})")
    return "\n".join(line for line in lines if line)


def write_output(
    kind: str, result: ToolResult, fields: JsonObject, call_fields: JsonObject
) -> JsonObject | None:
    """The output item for a call of this kind; None if the result cannot be written in this form."""
    sent = as_text(fields.get("type"))
    if sent == OUTPUT_TYPES[kind] and output_words(fields) == result.content:
        return fields | {_ID_KEYS.get(sent, "call_id"): result.tool_call_id}
    text, media = split_result(result.content)
    if kind == "computer_call":
        shown = next((one for one in media if one.mime.startswith("image/")), None)
        if shown is None or not (shown.data or shown.url):
            return None
        url = shown.url or f"data:{shown.mime};base64,{shown.data}"
        return {
            "type": "computer_call_output",
            "call_id": result.tool_call_id,
            "output": {"type": "computer_screenshot", "image_url": url},
        } | _without(fields, "type", "output", "call_id")
    return _WRITERS[kind](result, text, call_fields)


def _shell_output(result: ToolResult, text: str, _call: JsonObject) -> JsonObject:
    outcome: JsonObject = {"type": "exit", "exit_code": int(result.is_error)}
    if result.synthetic:
        outcome = {"type": "timeout"}
    out, errors = ("", text) if result.is_error else (text, "")
    return {
        "type": "shell_call_output",
        "call_id": result.tool_call_id,
        "output": [{"stdout": out, "stderr": errors, "outcome": outcome}],
    }


def _local_shell_output(result: ToolResult, text: str, _call: JsonObject) -> JsonObject:
    return {"type": "local_shell_call_output", "id": result.tool_call_id, "output": text}


def _patch_output(result: ToolResult, text: str, _call: JsonObject) -> JsonObject:
    return {
        "type": "apply_patch_call_output",
        "call_id": result.tool_call_id,
        "status": "failed" if result.is_error else "completed",
        "output": text,
    }


def _search_output(result: ToolResult, text: str, call: JsonObject) -> JsonObject:
    """The tools that were found; plain text is sent as the output of a function, which is also accepted (RSP-02)."""
    found = as_object(result.content) or {}
    if "tools" not in found and not result.synthetic:
        return {"type": "function_call_output", "call_id": result.tool_call_id, "output": text}
    return {
        "type": "tool_search_output",
        "call_id": result.tool_call_id,
        "execution": as_text(call.get("execution")) or "client",
        "status": "completed",
        "tools": as_list(found.get("tools")) or [],
    }


_YES: Final = frozenset({"approved", "approve", "yes", "true", "ok"})


def _approval(result: ToolResult, text: str, call: JsonObject) -> JsonObject:
    """The user's decision: any text but a plain yes is a refusal, with the text as its reason."""
    decision = as_object(result.content) or {}
    word = text.strip().strip(".!").lower()
    approve = not result.is_error and (decision.get("approve") is True or word in _YES)
    written: JsonObject = {
        "type": "mcp_approval_response",
        "approval_request_id": as_text(call.get("id")) or result.tool_call_id,
        "approve": approve,
    }
    return written if approve else written | {"reason": text}


_WRITERS: Final[Mapping[str, Callable[[ToolResult, str, JsonObject], JsonObject]]] = {
    "shell_call": _shell_output,
    "local_shell_call": _local_shell_output,
    "apply_patch_call": _patch_output,
    "tool_search_call": _search_output,
    "mcp_approval_request": _approval,
}
