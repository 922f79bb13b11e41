"""Read the tools of a server within limits, and its results as tool output.

Rules:
1. A list has at most ``MOST_PAGES`` pages and ``MOST_ITEMS`` items, and no cursor twice. The rest is left out and reported.
2. Every tool needs an approval, unless the user's settings allow it. Hints come from the server: only for a server that the user marked
   ``trusted`` do they let a read-only tool run without asking, or an interrupted call be repeated.
3. A tool whose schema exceeds ``SCHEMA_LIMITS`` is left out and reported.
4. A result has at most ``RESULT_LIMITS.parts`` blocks; the rest is left out, with a note. Texts are joined once.
5. The texts of a result are joined by newlines; a resource is its text, or ``[Resource: uri (mime)]``; pictures and
   sounds are media. ``isError`` is kept.
6. ``structuredContent`` is used only if there is no text and no media, because servers repeat it as text.
7. Data of a server is checked: it may not be base64, not short, and not of the declared type.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar

import mcp_types
import msgspec

from multi_llm_chat.data_limits import (
    MEGABYTE,
    RESULT_LIMITS,
    Limits,
    OverLimit,
    check_json,
    in_megabytes,
)
from multi_llm_chat.history.json_values import clean_text
from multi_llm_chat.history.values import JsonObject, Media, Text
from multi_llm_chat.tools.mcp.server_settings import ServerSettings
from multi_llm_chat.tools.tool import Approval, Resume, Tool, ToolContext, ToolHint, ToolOutput

# Lists.

MOST_PAGES: Final = 50
MOST_ITEMS: Final = 1_000
_LONGEST_DESCRIPTION: Final = 8_000
#: The limits of one tool's schema, and the bytes of all schemas of one server.
SCHEMA_LIMITS: Final = Limits(
    total_bytes=8 * MEGABYTE, item_bytes=MEGABYTE // 4, values=10_000, depth=64
)

_Item = TypeVar("_Item")
_Page = TypeVar("_Page", bound="_HasCursor")


class _HasCursor(Protocol):
    next_cursor: str | None


async def list_all(
    fetch: Callable[[str | None], Awaitable[_Page]], items_of: Callable[[_Page], Sequence[_Item]]
) -> tuple[list[_Item], str]:
    """All items of a paged list, and a line about what was left out."""
    items: list[_Item] = []
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(MOST_PAGES):
        page = await fetch(cursor)
        items.extend(items_of(page))
        if len(items) > MOST_ITEMS:
            return items[:MOST_ITEMS], f"its list has more than {MOST_ITEMS} entries"
        cursor = page.next_cursor
        if cursor is None:
            return items, ""
        if cursor in seen:
            return items, "its list leads back to its own beginning"
        seen.add(cursor)
    return items, f"its list has more than {MOST_PAGES} pages"


#: Runs a tool by the name that the server uses.
Caller = Callable[[str, JsonObject, ToolContext], Awaitable[object]]


def tools_from(
    listed: Sequence[mcp_types.Tool],
    settings: ServerSettings,
    call: Caller,
    warn: Callable[[str], None],
) -> list[Tool]:
    """The server's tools, without those that the settings disable, without a name, or with too large a schema."""
    tools: list[Tool] = []
    left = SCHEMA_LIMITS.total_bytes
    for tool in listed:
        if not tool.name.strip() or tool.name in settings.disabled_tools:
            continue
        try:
            left -= _schema_size(tool)
            if left < 0:
                raise OverLimit(f"schemas of more than {in_megabytes(SCHEMA_LIMITS.total_bytes)}")
        except OverLimit as excess:
            warn(f"its tool {tool.name[:80]!r} is not offered: there are {excess}")
            continue
        tools.append(_tool(tool, settings, call))
    return tools


def _schema_size(tool: mcp_types.Tool) -> int:
    try:
        text = msgspec.json.encode(tool.input_schema)
    except (RecursionError, ValueError):
        raise OverLimit("schemas that cannot be written as JSON") from None
    if len(text) > SCHEMA_LIMITS.item_bytes:
        raise OverLimit(f"more than {in_megabytes(SCHEMA_LIMITS.item_bytes)} in its schema")
    check_json(text, values=SCHEMA_LIMITS.values, depth=SCHEMA_LIMITS.depth)
    return len(text)


def _tool(tool: mcp_types.Tool, settings: ServerSettings, call: Caller) -> Tool:
    original = tool.name

    async def run(arguments: JsonObject, context: ToolContext) -> object:
        return await call(original, arguments, context)

    description = clean_text(tool.description or tool.title or "")
    return Tool(
        original,
        run,
        description[:_LONGEST_DESCRIPTION],
        tool.input_schema,
        settings.name,
        settings.timeout,
        _approval(tool, settings),
        _resume(tool.annotations, settings),
        hints=_hints(tool.annotations, settings),
    )


def _approval(tool: mcp_types.Tool, settings: ServerSettings) -> Approval:
    hints = tool.annotations
    reads_only = settings.trusted and hints is not None and hints.read_only_hint is True
    return "always" if reads_only or tool.name in settings.always_allow else "ask"


def _hints(
    hints: mcp_types.ToolAnnotations | None, settings: ServerSettings
) -> tuple[ToolHint, ...]:
    """The hints that a person sees for a tool. Every server may warn about its tool; only a trusted one may call it harmless."""
    if hints is None:
        return ()
    writes = hints.read_only_hint is False or hints.destructive_hint is not None
    said: dict[ToolHint, bool] = {
        "reads": hints.read_only_hint is True and settings.trusted,
        "writes": hints.read_only_hint is not True and writes and not hints.destructive_hint,
        "deletes": hints.read_only_hint is not True and hints.destructive_hint is True,
        "internet": hints.open_world_hint is True,
    }
    return tuple(hint for hint, holds in said.items() if holds)


def _resume(hints: mcp_types.ToolAnnotations | None, settings: ServerSettings) -> Resume:
    if hints is None or not settings.trusted:
        return "ask"
    if hints.read_only_hint or hints.idempotent_hint:
        return "retry"
    return "ask"


# Results.


def output_of(result: mcp_types.CallToolResult) -> ToolOutput:
    """The result of a call."""
    parts = content_parts(result.content)
    texts = [part for part in parts if isinstance(part, Text) and part.content]
    if len(texts) == len(parts):
        joined = "\n".join(part.content for part in texts)
        return ToolOutput(joined or result.structured_content, result.is_error)
    return ToolOutput(parts, result.is_error)


def content_parts(blocks: Sequence[mcp_types.ContentBlock]) -> list[Text | Media]:
    """The blocks as text and media, neighbouring texts joined."""
    parts: list[Text | Media] = []
    texts: list[str] = []
    for block in blocks[: RESULT_LIMITS.parts]:
        part = _part(block)
        if isinstance(part, Text):
            texts.append(part.content)
            continue
        if texts:
            parts.append(Text("\n".join(texts)))
            texts = []
        parts.append(part)
    if len(blocks) > RESULT_LIMITS.parts:
        texts.append(f"[{len(blocks) - RESULT_LIMITS.parts:,} more parts are left out]")
    if texts:
        parts.append(Text("\n".join(texts)))
    return parts


def _part(block: mcp_types.ContentBlock) -> Text | Media:
    match block:
        case mcp_types.TextContent():
            return Text(block.text)
        case mcp_types.ImageContent() | mcp_types.AudioContent():
            return _media(block.mime_type, block.data, None)
        case mcp_types.ResourceLink():
            return _mention(block.uri, block.mime_type)
        case mcp_types.EmbeddedResource():
            return resource_part(block.resource)


def resource_part(
    resource: mcp_types.TextResourceContents | mcp_types.BlobResourceContents,
) -> Text | Media:
    """A resource's content: its text, its picture, or a note that it exists."""
    if isinstance(resource, mcp_types.TextResourceContents):
        return Text(resource.text)
    if (resource.mime_type or "").startswith("image/"):
        return _media(resource.mime_type or "", resource.blob, resource.uri)
    return _mention(resource.uri, resource.mime_type)


def _mention(uri: str, mime: str | None) -> Text:
    return Text(f"[Resource: {uri} ({mime or 'unknown type'})]")


def _media(mime: str, data: str, name: str | None) -> Text | Media:
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return Text(f"[{mime}: the server sent it damaged]")
    return Media(mime, data, name=name)
