"""What an MCP server answered becomes a tool's output.

Rules:
1. Texts are joined by newlines; a resource is its text, or ``[Resource: uri (mime)]``; pictures and
   sounds are media. ``isError`` is kept.
2. ``structuredContent`` is used when there is no text and no media: servers repeat it as text.
3. Nothing a server sends is trusted to be base64, short, or of the type it says.
"""

import base64
import binascii
from collections.abc import Sequence

import mcp_types

from multi_llm_chat.history.values import Media, Text
from multi_llm_chat.tools.tool import ToolOutput


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
    for block in blocks:
        part = _part(block)
        last = parts[-1] if parts else None
        if isinstance(part, Text) and isinstance(last, Text):
            parts[-1] = Text(f"{last.content}\n{part.content}")
        else:
            parts.append(part)
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
    """A resource's content: its text, its picture, or that it is there."""
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
