"""Read the input (or output) items of OpenAI Responses as a history.

The items of one answer, reasoning, words and calls, become one turn of the model.
"""

from collections.abc import Callable, Iterable

from multi_llm_chat.history.arguments import parse_arguments
from multi_llm_chat.history.json_values import as_list, as_object, as_text
from multi_llm_chat.history.reader import ROLE_ALIASES
from multi_llm_chat.history.values import (
    NOWHERE,
    JsonObject,
    Origin,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from multi_llm_chat.history.writer import write_part
from multi_llm_chat.protocol._message_reader import (
    MODEL,
    content_parts,
    left_out,
    media_from_url,
    read_messages_list,
)


def read_messages(messages: object, origin: Origin = NOWHERE) -> list[Turn]:
    """The items as turns; ``origin`` stamps the reasoning found in them."""
    if isinstance(messages, str):
        return [Turn("user", (Text(messages),))]
    turns: list[Turn] = []
    pending: list[Part] = []
    pending_role = ""
    for index, item in enumerate(read_messages_list(messages)):
        role, parts, joins = _read_item(item, index, origin)
        if pending and not (joins and role == pending_role):
            turns.append(Turn(pending_role, tuple(pending)))
            pending = []
        pending_role = role
        pending.extend(parts)
        if not joins and pending:
            turns.append(Turn(role, tuple(pending)))
            pending = []
    if pending:
        turns.append(Turn(pending_role, tuple(pending)))
    return turns


def _read_item(item: JsonObject, index: int, origin: Origin) -> tuple[str, list[Part], bool]:
    """Who speaks, what is said, and whether it belongs to the items around it."""
    kind = as_text(item.get("type")) or "message"
    if kind == "message":
        role = as_text(item.get("role")) or "user"
        role = ROLE_ALIASES.get(role, role)
        parts = [_read_part(part) for part in content_parts(item.get("content"), index)]
        return role, parts, role == MODEL
    if kind == "function_call_output":
        return "tool", [_read_output(item, index)], True
    reader = _ITEMS.get(kind)
    return MODEL, [reader(item, origin) if reader else left_out(kind)], True


def _read_call(item: JsonObject, origin: Origin) -> Part:
    del origin  # only reasoning is bound to where it came from
    arguments, raw, error = parse_arguments(item.get("arguments"))
    identifier = as_text(item.get("call_id")) or as_text(item.get("id"))
    return ToolCall(as_text(item.get("name")), arguments, identifier, raw, error)


def _read_reasoning(item: JsonObject, origin: Origin) -> Part:
    summary = as_list(item.get("summary")) or []
    texts = [as_text(part.get("text")) for value in summary if (part := as_object(value))]
    opaque: JsonObject = {"summary": summary}
    if isinstance(item.get("encrypted_content"), str):
        opaque["encrypted_content"] = item["encrypted_content"]
    return Thinking("\n\n".join(texts), origin, opaque)


_ITEMS: dict[str, Callable[[JsonObject, Origin], Part]] = {
    "function_call": _read_call,
    "reasoning": _read_reasoning,
}


def _read_output(item: JsonObject, index: int) -> ToolResult:
    output = item.get("output")
    if not isinstance(output, str):
        output = _plain(_read_part(part) for part in content_parts(output, index))
    return ToolResult("", output, as_text(item.get("call_id")))


def _plain(parts: Iterable[Part]) -> str | list[JsonObject]:
    read = list(parts)
    if all(isinstance(part, Text) for part in read):
        return "\n".join(part.content for part in read if isinstance(part, Text))
    return [write_part(part) for part in read]


def _read_part(part: JsonObject) -> Part:
    kind = as_text(part.get("type"))
    if kind in ("input_text", "output_text", "text", "summary_text"):
        return Text(as_text(part.get("text")))
    if kind == "refusal":
        return Text(as_text(part.get("refusal")))
    if kind == "input_image":
        return media_from_url(as_text(part.get("image_url")))
    if kind == "input_file" and isinstance(part.get("file_data"), str):
        name = as_text(part.get("filename")) or None
        return media_from_url(part["file_data"], "application/pdf", name)
    return left_out(kind)
