"""Reads the items of Responses as parts of a history; used by the reader of requests and the decoder of replies.

Rules:
1. Each content part of a message is a text or media. The fields of the message itself (``id``, ``status``, ``phase``)
   are the extra ``message`` of its first part; further parts of one message have the extra ``joined``.
2. All fields of a reasoning item but its type are opaque data.
3. A text or call to which reasoning with an id led has the extra ``reasoning_id``: its own id may be sent only
   together with that item (RSP-03, RSP-04).
4. An item that is neither a message nor reasoning nor a call that the client answers is native. Its text has the readable
   content: the query, titles, URLs, code, output.
5. The image of an image generation is a media part after the native item; the native item does not contain it a second time.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from multi_llm_chat.history.json_values import as_list, as_object, as_text, compact_json
from multi_llm_chat.history.values import Extras, JsonObject, Media, Native, Origin

#: Fields of a message and of its content parts that the encoder always writes.
_MESSAGE: Final = frozenset({"type", "role", "content"})
_CONTENT: Final = frozenset({"type", "text", "refusal"})

IMAGE_CALL: Final = "image_generation_call"


def said(fields: JsonObject) -> JsonObject:
    """The fields that have a value."""
    return {key: value for key, value in fields.items() if value is not None}


def message_fields(item: JsonObject) -> JsonObject:
    """The additional fields of a message."""
    return {key: value for key, value in item.items() if key not in _MESSAGE and value is not None}


def content_fields(content: JsonObject) -> JsonObject:
    """The additional fields of a text part; a refusal has its type."""
    fields = {
        key: value
        for key, value in content.items()
        if key not in _CONTENT and value is not None and value != []
    }
    if content.get("type") == "refusal":
        fields["type"] = "refusal"
    return fields


def reasoning_text(item: JsonObject) -> str:
    """The readable text of a reasoning item: its summary, or its content."""
    for key in ("summary", "content"):
        parts = (as_object(part) for part in as_list(item.get(key)) or [])
        texts = [as_text(part.get("text")) for part in parts if part]
        if any(texts):
            return "\n\n".join(filter(None, texts))
    return ""


def reasoning_fields(item: JsonObject) -> JsonObject:
    """The fields that the server needs to accept a reasoning item."""
    return {"summary": as_list(item.get("summary")) or []} | {
        key: value for key, value in said(item).items() if key not in ("type", "summary")
    }


def native_item(item: JsonObject, origin: Origin) -> tuple[Native, Media | None]:
    """The item as a native part, and the image that it generated."""
    kind = as_text(item.get("type")) or "unknown"
    raw = dict(item)
    picture: Media | None = None
    if kind == IMAGE_CALL and isinstance(result := raw.get("result"), str) and result:
        del raw["result"]
        mime = f"image/{as_text(item.get('output_format')) or 'png'}"
        fields = {"type": IMAGE_CALL, "id": as_text(item.get("id"))}
        picture = Media(mime, data=result, extras=Extras(origin, fields))
    return Native(kind, describe(item), origin, raw), picture


# The readable text of items.


def describe(item: JsonObject) -> str:
    """The readable text of an item."""
    describer = _DESCRIBERS.get(as_text(item.get("type")))
    return (describer(item) if describer is not None else "") or _contents(item)


def _contents(item: JsonObject) -> str:
    """The text in the fields of an unknown item, or of one without other readable text."""
    kind = as_text(item.get("type")) or "item"
    rest = {key: value for key, value in said(item).items() if key not in ("type", "id", "status")}
    return f"{kind} {compact_json(rest)}" if rest else kind


def _list(values: Iterable[Any]) -> str:
    return ", ".join(text for value in values if (text := as_text(value)))


def _objects(value: object) -> list[JsonObject]:
    return [entry for each in as_list(value) or [] if (entry := as_object(each)) is not None]


def _lines(*lines: str) -> str:
    return "\n".join(line for line in lines if line)


def _web_search(item: JsonObject) -> str:
    action = as_object(item.get("action")) or {}
    address, pattern = as_text(action.get("url")), as_text(action.get("pattern"))
    if pattern:
        return f"searched for {pattern!r} in {address}"
    if address:
        return f"opened {address}"
    queries = _list(as_list(action.get("queries")) or [action.get("query")])
    sources = _list(source.get("url") for source in _objects(action.get("sources")))
    return _lines(
        f"searched the web for: {queries}" if queries else "", sources and f"sources: {sources}"
    )


def _file_search(item: JsonObject) -> str:
    found = [
        f"{as_text(each.get('filename'))}: {as_text(each.get('text'))}"
        for each in _objects(item.get("results"))
    ]
    queries = _list(as_list(item.get("queries")) or [])
    return _lines(f"searched the files for: {queries}" if queries else "", *found)


def _code(item: JsonObject) -> str:
    outputs = [
        as_text(each.get("logs")) or as_text(each.get("url"))
        for each in _objects(item.get("outputs"))
    ]
    code = as_text(item.get("code"))
    output = _lines(*outputs)
    return _lines(code and f"ran code:\n{code}", output and f"output:\n{output}")


def _image(item: JsonObject) -> str:
    prompt = as_text(item.get("revised_prompt"))
    return f"generated an image: {prompt}" if prompt else "generated an image"


def _mcp_tools(item: JsonObject) -> str:
    names = _list(tool.get("name") for tool in _objects(item.get("tools")))
    error = as_text(item.get("error"))
    said_of = f"tools of the MCP server {as_text(item.get('server_label'))}: {names or 'none'}"
    return _lines(said_of, error and f"error: {error}")


def _mcp_call(item: JsonObject) -> str:
    called = (
        f"called {as_text(item.get('name'))} of the MCP server {as_text(item.get('server_label'))}"
    )
    error = item.get("error")
    return _lines(
        f"{called} with {as_text(item.get('arguments')) or '{}'}",
        as_text(item.get("output")),
        f"error: {error if isinstance(error, str) else compact_json(error)}" if error else "",
    )


def _tool_search(item: JsonObject) -> str:
    return f"searched for tools: {compact_json(item.get('arguments'))}"


def _tools_found(item: JsonObject) -> str:
    return f"tools: {_tool_names(item) or 'none'}"


def _tool_names(item: JsonObject) -> str:
    names: list[str] = []
    for tool in _objects(item.get("tools")):
        inner = _tool_names(tool)
        name = as_text(tool.get("name")) or as_text(tool.get("type"))
        names.append(f"{name} ({inner})" if inner else name)
    return ", ".join(names)


def _compaction(_item: JsonObject) -> str:
    return (
        "an earlier part of the conversation was summarised by its provider and cannot be read here"
    )


def _reference(item: JsonObject) -> str:
    return f"refers to the stored item {as_text(item.get('id'))}"


_DESCRIBERS: Final[Mapping[str, Callable[[JsonObject], str]]] = {
    "web_search_call": _web_search,
    "file_search_call": _file_search,
    "code_interpreter_call": _code,
    IMAGE_CALL: _image,
    "mcp_list_tools": _mcp_tools,
    "mcp_call": _mcp_call,
    "tool_search_call": _tool_search,
    "tool_search_output": _tools_found,
    "additional_tools": _tools_found,
    "compaction": _compaction,
    "item_reference": _reference,
}
