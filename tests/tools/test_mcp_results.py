"""MCP servers' results become parts that every provider accepts."""

from typing import Any

import pytest
from mcp_types import CallToolResult

from multi_llm_chat.tools.mcp._tool_lists import output_of
from multi_llm_chat.tools.tool_output import NOTHING, content_of

TEXT = {"type": "text", "text": "one"}
PICTURE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
SOUND = {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/plain"}
NOTE = {"type": "resource", "resource": {"uri": "note://a", "text": "a note"}}
BLOB = {"type": "resource", "resource": {"uri": "x://b", "blob": "aGk=", "mimeType": "a/b"}}
BARE = {"type": "resource", "resource": {"uri": "x://b", "blob": "aGk="}}
PHOTO = {"type": "resource", "resource": {"uri": "x://p", "blob": "aGk=", "mimeType": "image/gif"}}


@pytest.mark.parametrize(
    ("blocks", "structured", "expected"),
    [
        ([TEXT, TEXT], None, "one\none"),
        ([TEXT, NOTE, LINK], None, "one\na note\n[Resource: file:///a (text/plain)]"),
        ([BLOB], None, "[Resource: x://b (a/b)]"),
        ([BARE], None, "[Resource: x://b (unknown type)]"),
        ([TEXT], {"a": 1}, "one"),
        ([], {"a": 1}, {"a": 1}),
        ([], None, NOTHING),
        ([TEXT, PICTURE, TEXT, TEXT], None, [
            {"type": "text", "content": "one"},
            {"type": "media", "mime": "image/png", "data": "aGk="},
            {"type": "text", "content": "one\none"},
        ]),
        ([SOUND], {"a": 1}, [{"type": "media", "mime": "audio/wav", "data": "aGk="}]),
        ([PHOTO], None, [
            {"type": "media", "mime": "image/gif", "data": "aGk=", "name": "x://p"},
        ]),
        ([PICTURE | {"data": "§"}], None, "[image/png: the server sent it damaged]"),
    ],
)  # fmt: skip
def test_blocks_become_parts(blocks: list[Any], structured: Any, expected: Any) -> None:
    for is_error in (False, True):
        result = CallToolResult.model_validate(
            {"content": blocks, "structuredContent": structured, "isError": is_error}
        )
        output = output_of(result)
        assert content_of(output.content, 1_000) == expected
        assert output.is_error is is_error
