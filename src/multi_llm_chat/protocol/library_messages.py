"""Read the messages of other libraries: LangChain, Vercel AI, pydantic-ai.

Rules:
1. LangChain: ``messages_to_dict``, ``model_dump`` and ``dumpd``. A call that is both in the content and under
   ``tool_calls`` is read once.
2. Vercel AI: UI messages (``parts``, before that ``toolInvocations``) and model messages.
3. pydantic-ai: ``ModelMessagesTypeAdapter``.
4. A content block may have the form of any library or dialect: ``read_block`` reads them all. An unknown block becomes a
   native part.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, cast

from msgspec.structs import replace

from multi_llm_chat.history.arguments import parse_arguments
from multi_llm_chat.history.flat import read_flat
from multi_llm_chat.history.json_values import as_list, as_object, as_text
from multi_llm_chat.history.reader import PART_READERS, unknown_part
from multi_llm_chat.history.values import (
    JsonObject,
    Media,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from multi_llm_chat.history.writer import write_part
from multi_llm_chat.protocol.anthropic.read import read_messages as read_anthropic
from multi_llm_chat.protocol.openai_chat.read import read_messages as read_chat
from multi_llm_chat.protocol.openai_responses.read import read_messages as read_responses

LANGCHAIN_TYPES: Final = {
    "human": "user",
    "HumanMessage": "user",
    "HumanMessageChunk": "user",
    "ai": "assistant",
    "AIMessage": "assistant",
    "AIMessageChunk": "assistant",
    "system": "system",
    "SystemMessage": "system",
    "developer": "system",
    "tool": "tool",
    "ToolMessage": "tool",
    "function": "tool",
    "FunctionMessage": "tool",
    "chat": "user",
}
_ANTHROPIC_TYPES: Final = frozenset(
    {
        "tool_use",
        "server_tool_use",
        "redacted_thinking",
        "mcp_tool_use",
        "mcp_tool_result",
        "container_upload",
    }
)
_CHAT_TYPES: Final = frozenset({"image_url", "input_audio", "video_url", "document_url", "refusal"})
_RESPONSES_TYPES: Final = frozenset({"input_text", "output_text", "input_image", "input_file"})
_VERCEL_KEYS: Final = frozenset({"image", "mediaType", "mimeType"})


# One content block, in any form.


def block_format(block: JsonObject) -> str | None:
    """The dialect or library whose block this is; None if several share its form."""
    kind = block.get("type")
    if not isinstance(kind, str):
        return None
    if (found := _BLOCK_FORMATS.get(kind)) is not None:
        return found
    if kind == "file" and "file" in block:
        return "openai_chat"
    if _is_anthropic_block(kind, block):
        return "anthropic"
    if kind in ("image", "file"):
        return None if _VERCEL_KEYS.isdisjoint(block) else "vercel"
    return "vercel" if kind in ("tool-call", "tool-result") else None


def _is_anthropic_block(kind: str, block: JsonObject) -> bool:
    if kind in ("image", "document"):
        return isinstance(block.get("source"), dict)
    if kind == "thinking":
        return isinstance(block.get("thinking"), str)
    return "tool_use_id" in block


#: The types that only one dialect or library has.
_BLOCK_FORMATS: Final = {
    **dict.fromkeys(_ANTHROPIC_TYPES, "anthropic"),
    **dict.fromkeys(_CHAT_TYPES, "openai_chat"),
    **dict.fromkeys(_RESPONSES_TYPES, "openai_responses"),
}

_DIALECT_READERS: Final[Mapping[str, Callable[[object], list[Turn]]]] = {
    "anthropic": read_anthropic,
    "openai_chat": read_chat,
    "openai_responses": read_responses,
}


def read_block(value: Any) -> tuple[Part, ...]:
    """The parts of one content block of any library."""
    block = as_object(value)
    if block is None:
        if isinstance(value, str):
            return (Text(value),) if value else ()
        return (unknown_part(value, type(value).__name__),)
    kind = as_text(block.get("type"))
    reader = _BLOCKS.get(kind)
    part = reader(block) if reader is not None else None
    if part is not None:
        return (part,)
    read = _DIALECT_READERS.get(block_format(block) or "")
    if read is not None:
        role = "user" if kind in ("image", "document") else "assistant"
        return _first_parts(read([{"role": role, "content": [block]}]))
    return (
        PART_READERS[kind](block) if kind in PART_READERS else unknown_part(block, kind or "block"),
    )


def _first_parts(turns: Iterable[Turn]) -> tuple[Part, ...]:
    return tuple(part for turn in turns for part in turn.parts)


def _block_text(block: JsonObject) -> Part | None:
    text = block.get("text")
    return Text(text) if isinstance(text, str) else None


def _block_reasoning(block: JsonObject) -> Part | None:
    text = block.get("reasoning", block.get("text", block.get("content")))
    if not isinstance(text, str):
        summary = as_list(block.get("summary")) or []
        text = "\n\n".join(as_text((as_object(each) or {}).get("text")) for each in summary)
    return Thinking(text)


def _block_media(block: JsonObject) -> Part | None:
    if isinstance(block.get("source"), dict) or "file" in block:
        return None
    mime = _text_of(block, "mime_type", "mimeType", "mediaType", "mime", "media_type")
    name = _text_of(block, "filename", "name", "file_name") or None
    given = next((block[key] for key in ("base64", "data", "image", "url", "file", "audio") if isinstance(block.get(key), str)), None)  # fmt: skip
    if given is None:
        identifier = _text_of(block, "file_id", "fileId", "id")
        return (
            Media(mime or _KINDS.get(as_text(block.get("type")), ""), name=name, file_id=identifier)
            if identifier
            else None
        )
    default = mime or _KINDS.get(as_text(block.get("type")), "application/octet-stream")
    if given.startswith(("http://", "https://", "data:", "gs://")):
        return Media(default, url=given, name=name)
    return Media(default, data=given, name=name)


_KINDS: Final = {
    "image": "image/png",
    "audio": "audio/wav",
    "video": "video/mp4",
    "file": "application/pdf",
    "text-plain": "text/plain",
}


def _block_call(block: JsonObject) -> Part | None:
    name = _text_of(block, "toolName", "tool_name", "name")
    if not name:
        return None
    arguments = next((block[key] for key in ("input", "args", "arguments") if key in block), None)
    return _call(name, arguments, _text_of(block, "toolCallId", "tool_call_id", "id"))


def _block_result(block: JsonObject) -> Part | None:
    name = _text_of(block, "toolName", "tool_name", "name")
    identifier = _text_of(block, "toolCallId", "tool_call_id", "id")
    output = block.get("output", block.get("result", block.get("content")))
    content, failed = _vercel_output(output)
    return ToolResult(
        name, content, identifier, failed or bool(block.get("isError", block.get("is_error")))
    )


_BLOCKS: Final[Mapping[str, Callable[[JsonObject], Part | None]]] = {
    "text": _block_text,
    "reasoning": _block_reasoning,
    "image": _block_media,
    "audio": _block_media,
    "video": _block_media,
    "file": _block_media,
    "text-plain": _block_media,
    "tool-call": _block_call,
    "tool_call": _block_call,
    "tool-result": _block_result,
}


def _call(name: str, arguments: object, identifier: str) -> ToolCall:
    read, raw, error = parse_arguments(arguments)
    return ToolCall(name, read, identifier, raw, error)


def _text_of(entry: Mapping[str, Any], *keys: str) -> str:
    return next((text for key in keys if (text := as_text(entry.get(key)))), "")


def _content(value: Any) -> list[Part]:
    """The parts of a content: a string, a list of blocks, one block or None."""
    if value is None or value == "":
        return []
    items = as_list(value)
    return [part for item in (items if items is not None else [value]) for part in read_block(item)]


def _result_content(value: Any) -> Any:
    """A tool's output: a string, JSON, or parts if it contains media."""
    items = as_list(value)
    if items is None or not all((as_object(item) or {}).get("type") for item in items) or not items:
        return value
    parts = _content(items)
    if all(isinstance(part, Text) for part in parts):
        return "\n".join(part.content for part in parts if isinstance(part, Text))
    if any(isinstance(part, Media) for part in parts):
        return [write_part(part) for part in parts]
    return value


# Flat messages of seed 001.


def read_flat_messages(messages: list[Any]) -> list[Turn]:
    """Flat messages as turns, with the images, sounds and files of their content."""
    return [_flat(turn) for turn in read_flat(messages)]


def _flat(turn: Turn) -> Turn:
    message: JsonObject = turn.meta["message"]
    identifier = as_text(message.get("id")) or None
    content = message.get("content")
    if isinstance(content, str) or content is None:
        return Turn(turn.role, turn.parts, identifier)
    if turn.role == "tool":
        results = [
            replace(part, content=_result_content(part.content))
            for part in turn.parts
            if isinstance(part, ToolResult)
        ]
        return Turn("tool", tuple(results), identifier)
    calls = [part for part in turn.parts if isinstance(part, ToolCall)]
    return Turn(turn.role, (*_content(content), *calls), identifier)


# LangChain.


def read_langchain(messages: list[Any]) -> list[Turn]:
    """LangChain's messages as turns."""
    return [_langchain(message) for message in messages]


def _langchain(value: Any) -> Turn:
    entry = as_object(value)
    if entry is None:
        return Turn("user", (unknown_part(value, type(value).__name__),))
    kind = as_text(entry.get("type"))
    fields = entry
    if "lc" in entry:
        names = as_list(entry.get("id")) or [""]
        kind, fields = as_text(names[-1]), as_object(entry.get("kwargs")) or {}
    elif isinstance(entry.get("data"), dict):
        fields = entry["data"]
    role = LANGCHAIN_TYPES.get(kind) or as_text(fields.get("role")) or "user"
    if kind == "chat":
        role = as_text(fields.get("role")) or "user"
    identifier = as_text(fields.get("id")) or None
    if role == "tool":
        result = ToolResult(
            as_text(fields.get("name")),
            _result_content(fields.get("content")),
            as_text(fields.get("tool_call_id")),
            fields.get("status") == "error",
        )
        return Turn("tool", (result,), identifier)
    calls = list(_langchain_calls(fields))
    known = {call.tool_call_id for call in calls if call.tool_call_id}
    parts = [
        part
        for part in _content(fields.get("content"))
        if not (isinstance(part, ToolCall) and part.tool_call_id in known)
    ]
    more = as_object(fields.get("additional_kwargs")) or {}
    thought = _text_of(more, "reasoning_content", "reasoning")
    if thought and not any(isinstance(part, Thinking) for part in parts):
        parts.insert(0, Thinking(thought))
    metadata = as_object(fields.get("response_metadata")) or {}
    model = _text_of(metadata, "model_name", "model") or None
    return Turn(role, (*parts, *calls), identifier, model=model)


def _langchain_calls(fields: JsonObject) -> Iterator[ToolCall]:
    listed = as_list(fields.get("tool_calls")) or []
    if not listed:
        more = as_object(fields.get("additional_kwargs")) or {}
        listed = as_list(more.get("tool_calls")) or []
        legacy = as_object(more.get("function_call"))
        listed = [*listed, *([{"function": legacy}] if legacy else [])]
    for value in [*listed, *(as_list(fields.get("invalid_tool_calls")) or [])]:
        call = as_object(value) or {}
        function = as_object(call.get("function")) or call
        arguments = next(
            (function[key] for key in ("args", "arguments", "input") if key in function), None
        )
        yield _call(as_text(function.get("name")), arguments, as_text(call.get("id")))


# Vercel AI.


def read_vercel(messages: list[Any]) -> list[Turn]:
    """Vercel AI's UI messages or model messages as turns."""
    return [turn for message in messages for turn in _vercel(message)]


def _vercel(value: Any) -> Iterator[Turn]:
    message = as_object(value)
    if message is None:
        yield Turn("user", (unknown_part(value, type(value).__name__),))
        return
    role = as_text(message.get("role")) or "user"
    listed = message.get("parts") if "parts" in message else message.get("content")
    parts: list[Part] = []
    results: list[Part] = []
    items = as_list(listed)
    for item in [listed] if items is None else items:
        for part in _vercel_part(item):
            (results if isinstance(part, ToolResult) else parts).append(part)
        if (as_object(item) or {}).get("type") == "step-start" and results:
            yield from _vercel_turns(role, parts, results, message)
            parts, results = [], []
    for value in as_list(message.get("toolInvocations")) or [] if "parts" not in message else []:
        invocation = as_object(value) or {}
        parts.append(_block_call(invocation) or unknown_part(invocation, "toolInvocation"))
        if "result" in invocation:
            results.append(cast(ToolResult, _block_result(invocation)))
    for value in as_list(message.get("experimental_attachments")) or []:
        attachment = as_object(value) or {}
        mime = _text_of(attachment, "contentType") or "application/octet-stream"
        parts.append(
            Media(
                mime,
                url=as_text(attachment.get("url")),
                name=as_text(attachment.get("name")) or None,
            )
        )
    yield from _vercel_turns(role, parts, results, message)


def _vercel_turns(
    role: str, parts: list[Part], results: list[Part], message: JsonObject
) -> Iterator[Turn]:
    identifier = as_text(message.get("id")) or None
    if parts or not results:
        yield Turn(role, tuple(parts), identifier)
    if results:
        yield Turn("tool", tuple(results))


def _vercel_part(item: Any) -> Iterator[Part]:
    part = as_object(item)
    kind = as_text(part.get("type")) if part is not None else ""
    if part is None or kind in ("text", "reasoning", "file", "image", "tool-call", "tool-result"):
        yield from read_block(item) if item is not None else ()
    elif kind == "step-start":
        return
    elif kind == "tool-invocation":
        invocation = as_object(part.get("toolInvocation")) or {}
        yield _block_call(invocation) or unknown_part(part, kind)
        if "result" in invocation:
            yield cast(Part, _block_result(invocation))
    elif kind.startswith("tool-") or kind == "dynamic-tool":
        name = as_text(part.get("toolName")) or kind.removeprefix("tool-")
        identifier = as_text(part.get("toolCallId"))
        yield _call(name, part.get("input", part.get("rawInput")), identifier)
        if "output" in part:
            yield ToolResult(name, part["output"], identifier)
        elif isinstance(part.get("errorText"), str):
            yield ToolResult(name, part["errorText"], identifier, True)
    elif kind == "source-url":
        url, title = as_text(part.get("url")), as_text(part.get("title"))
        yield Text(f"[source: {title + ', ' if title else ''}{url}]")
    else:
        yield unknown_part(part, kind or "part")


def _vercel_output(output: Any) -> tuple[Any, bool]:
    """A tool's output without the wrapper of model messages, and whether it is an error."""
    wrapped = as_object(output)
    kind = as_text(wrapped.get("type")) if wrapped is not None else ""
    if wrapped is None or "value" not in wrapped:
        return _result_content(output), False
    return _result_content(wrapped["value"]), kind.startswith("error")


# pydantic-ai.


def read_pydantic_ai(messages: list[Any]) -> list[Turn]:
    """pydantic-ai's messages as turns."""
    return [turn for message in messages for turn in _pydantic(message)]


def _pydantic(value: Any) -> Iterator[Turn]:
    message = as_object(value)
    if message is None:
        yield Turn("user", (unknown_part(value, type(value).__name__),))
        return
    model = as_text(message.get("model_name")) or None
    groups: list[tuple[str, list[Part]]] = []
    for item in as_list(message.get("parts")) or []:
        role, parts = _pydantic_part(as_object(item), item)
        if groups and groups[-1][0] == role:
            groups[-1][1].extend(parts)
        else:
            groups.append((role, list(parts)))
    if not groups:
        groups = [("assistant" if message.get("kind") == "response" else "user", [])]
    for role, parts in groups:
        yield Turn(role, tuple(parts), model=model if role == "assistant" else None)


def _pydantic_part(part: JsonObject | None, value: Any) -> tuple[str, Iterable[Part]]:
    """The role and the parts."""
    if part is None:
        return "user", [unknown_part(value, type(value).__name__)]
    kind = as_text(part.get("part_kind"))
    if kind == "retry-prompt" and not part.get("tool_name"):
        return "user", _content(part.get("content"))
    role, read = _PYDANTIC_PARTS.get(kind, ("assistant", None))
    return role, read(part) if read is not None else [unknown_part(part, kind or "part")]


def _pydantic_user(part: JsonObject) -> Iterable[Part]:
    content = part.get("content")
    items = as_list(content)
    return [
        each for item in ([content] if items is None else items) for each in _pydantic_content(item)
    ]


def _pydantic_return(part: JsonObject) -> Iterable[Part]:
    failed = part.get("part_kind") == "retry-prompt" or part.get("outcome") not in (None, "success")
    content = _pydantic_result(part.get("content"))
    return [
        ToolResult(
            as_text(part.get("tool_name")), content, as_text(part.get("tool_call_id")), failed
        )
    ]


def _pydantic_call(part: JsonObject) -> Iterable[Part]:
    return [
        _call(as_text(part.get("tool_name")), part.get("args"), as_text(part.get("tool_call_id")))
    ]


_PYDANTIC_PARTS: Final[Mapping[str, tuple[str, Callable[[JsonObject], Iterable[Part]]]]] = {
    "user-prompt": ("user", _pydantic_user),
    "system-prompt": ("system", lambda part: _content(part.get("content"))),
    "tool-return": ("tool", _pydantic_return),
    "retry-prompt": ("tool", _pydantic_return),
    "text": ("assistant", lambda part: _content(part.get("content"))),
    "thinking": ("assistant", lambda part: [Thinking(as_text(part.get("content")))]),
    "tool-call": ("assistant", _pydantic_call),
    "file": ("assistant", lambda part: list(_pydantic_content(part.get("content")))),
}


def _pydantic_content(item: Any) -> Iterator[Part]:
    """One element of a user prompt: a string, a URL or data."""
    entry = as_object(item)
    if entry is None:
        yield from read_block(item) if item is not None else ()
        return
    mime = _text_of(entry, "media_type")
    kind = as_text(entry.get("kind"))
    name = as_text(entry.get("identifier")) or None
    if kind == "binary" or isinstance(entry.get("data"), str):
        yield Media(mime or "application/octet-stream", data=as_text(entry.get("data")), name=name)
    elif kind.endswith("-url") or isinstance(entry.get("url"), str):
        default = _KINDS.get(kind.removesuffix("-url"), "application/octet-stream")
        yield Media(mime or default, url=as_text(entry.get("url")), name=name)
    else:
        yield from read_block(entry)


def _pydantic_result(content: Any) -> Any:
    entry = as_object(content)
    if entry is not None and entry.get("kind") == "binary":
        return [write_part(part) for part in _pydantic_content(entry)]
    return content
