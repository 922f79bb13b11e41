"""Content blocks of Anthropic messages: their members, types and media."""

import re
from collections.abc import Iterator
from typing import Any

from multi_llm_chat.testing.validators.anthropic import wordings as say
from multi_llm_chat.testing.validators.media import is_base64
from multi_llm_chat.testing.validators.typed_views import as_array, as_object, as_string
from multi_llm_chat.testing.validators.violation import Violation

_CACHED = frozenset({"type", "cache_control"})
_SERVER_RESULT = _CACHED | {"content", "tool_use_id", "caller", "is_error"}

#: The members each block may have. Server tool results are matched by their suffix.
BLOCK_KEYS: dict[str, frozenset[str]] = {
    "text": _CACHED | {"text", "citations"},
    "image": _CACHED | {"source", "transformations"},
    "document": _CACHED | {"source", "citations", "context", "title"},
    "search_result": _CACHED | {"content", "source", "title", "citations"},
    "thinking": frozenset({"type", "thinking", "signature"}),
    "redacted_thinking": frozenset({"type", "data"}),
    "tool_use": _CACHED | {"id", "input", "name", "caller", "toolset_name"},
    "tool_result": _CACHED | {"tool_use_id", "content", "is_error", "toolset_name"},
    "server_tool_use": _CACHED | {"id", "input", "name", "caller"},
    "container_upload": _CACHED | {"file_id"},
    "mcp_tool_use": _CACHED | {"id", "input", "name", "server_name"},
    "mcp_tool_listing": _CACHED | {"mcp_server_name", "tools"},
    "compaction": _CACHED | {"content", "encrypted_content", "signature", "tool_changes"},
    "fallback": _CACHED | {"from", "to", "trigger"},
}
_REQUIRED: dict[str, tuple[tuple[str, str], ...]] = {
    "text": (("text", "string"),),
    "image": (("source", "object"),),
    "document": (("source", "object"),),
    "search_result": (("content", "array"), ("source", "string"), ("title", "string")),
    "thinking": (("signature", "string"), ("thinking", "string")),
    "redacted_thinking": (("data", "string"),),
    "tool_use": (("id", "string"), ("name", "string")),
    "tool_result": (("tool_use_id", "string"),),
    "server_tool_use": (("id", "string"), ("name", "string")),
    "container_upload": (("file_id", "string"),),
}
_KINDS = {"string": str, "array": list, "object": dict}
_ONLY_IN = {
    "tool_use": "assistant",
    "server_tool_use": "assistant",
    "mcp_tool_use": "assistant",
    "compaction": "assistant",
    "thinking": "assistant",
    "redacted_thinking": "assistant",
    "tool_result": "user",
    "image": "user",
    "document": "user",
    "search_result": "user",
}
_RESULT_KINDS = ("text", "image", "document", "search_result", "tool_reference", "browser_state")
_IDENTIFIER = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def is_server_result(kind: object) -> bool:
    """Whether a block is the result of a tool that Anthropic ran itself."""
    return isinstance(kind, str) and kind.endswith("_tool_result")


def check_block(index: int, path: str, role: str, item: object) -> Iterator[Violation]:
    """Judge one block of a user's or assistant's message."""
    block = as_object(item)
    if block is None:
        yield say.wrong_type(path, "object")
        return
    if "type" not in block:
        yield say.REQUIRED.fill(path=f"{path}.type")
        return
    kind = block["type"]
    if not isinstance(kind, str) or not (kind in BLOCK_KEYS or is_server_result(kind)):
        expected = ", ".join(f"'{name}'" for name in sorted(BLOCK_KEYS))
        yield say.BLOCK_KIND.fill(path=path, kind=kind, expected=expected)
        return
    home = "assistant" if is_server_result(kind) else _ONLY_IN.get(kind, role)
    if home != role:
        yield say.BLOCK_ROLE.fill(index=index, kind=kind, role=home)
    yield from check_members(f"{path}.{kind}", kind, block)
    yield from _check_kind(f"{path}.{kind}", kind, block)


def check_members(path: str, kind: str, block: dict[str, Any]) -> Iterator[Violation]:
    """Required members, their types, and no others."""
    for member, wanted in _REQUIRED.get(kind, ()):
        if member not in block:
            rule = "ANT-13" if member == "signature" else say.REQUIRED.rule
            yield Violation(rule, f"{path}.{member}: Field required")
        elif not isinstance(block[member], _KINDS[wanted]):
            yield say.wrong_type(f"{path}.{member}", wanted)
    known = BLOCK_KEYS.get(kind, _SERVER_RESULT)
    for key in block:
        if key not in known:
            yield say.EXTRA.fill(path=f"{path}.{key}")
    yield from _check_cache_control(path, block)


def _check_cache_control(path: str, block: dict[str, Any]) -> Iterator[Violation]:
    marker = block.get("cache_control")
    if marker is None:
        return
    control = as_object(marker)
    where = f"{path}.cache_control"
    if control is None:
        yield say.wrong_type(where, "object")
    elif control.get("type") != "ephemeral":
        yield say.VALUE.fill(path=f"{where}.type", reason="Input should be 'ephemeral'")
    elif control.get("ttl", "5m") not in ("5m", "1h"):
        yield say.VALUE.fill(path=f"{where}.ttl", reason="Input should be '5m' or '1h'")
    if block.get("text") == "":
        yield say.CACHE_EMPTY.fill(path=path)


def _check_kind(path: str, kind: str, block: dict[str, Any]) -> Iterator[Violation]:
    match kind:
        case "tool_use" | "server_tool_use":
            yield from _check_use(path, block)
        case "tool_result":
            yield from _check_result(path, block)
        case "image" | "document":
            yield from _check_source(path, kind, as_object(block.get("source")) or {})
        case _:
            return


def _check_use(path: str, block: dict[str, Any]) -> Iterator[Violation]:
    identifier, name = block.get("id"), block.get("name")
    if isinstance(identifier, str) and not _IDENTIFIER.fullmatch(identifier):
        yield say.IDENTIFIER.fill(path=f"{path}.id")
    if isinstance(name, str) and not _NAME.fullmatch(name):
        yield say.TOOL_NAME.fill(path=f"{path}.name")
    if "input" not in block:
        yield say.REQUIRED.fill(path=f"{path}.input")
    elif not isinstance(block["input"], dict):
        yield say.INPUT_OBJECT.fill(path=f"{path}.input")


def _check_result(path: str, block: dict[str, Any]) -> Iterator[Violation]:
    identifier = block.get("tool_use_id")
    if isinstance(identifier, str) and not _IDENTIFIER.fullmatch(identifier):
        yield say.IDENTIFIER.fill(path=f"{path}.tool_use_id")
    if "is_error" in block and not isinstance(block["is_error"], bool):
        yield say.wrong_type(f"{path}.is_error", "boolean")
    content = block.get("content", "")
    if isinstance(content, str):
        return
    parts = as_array(content)
    if parts is None:
        yield say.wrong_type(f"{path}.content", "array")
    elif not parts:
        yield say.EMPTY_RESULT.fill(path=f"{path}.content")
    for position, part in enumerate(parts or []):
        yield from _check_result_part(f"{path}.content.{position}", part)


def _check_result_part(path: str, item: object) -> Iterator[Violation]:
    part = as_object(item)
    if part is None:
        yield say.wrong_type(path, "object")
        return
    kind = part.get("type")
    if kind is None:
        yield say.REQUIRED.fill(path=f"{path}.type")
    elif kind not in _RESULT_KINDS:
        expected = ", ".join(f"'{name}'" for name in _RESULT_KINDS)
        yield say.BLOCK_KIND.fill(path=path, kind=kind, expected=expected)
    elif kind in BLOCK_KEYS:
        yield from check_members(f"{path}.{kind}", kind, part)
        yield from _check_kind(f"{path}.{kind}", kind, part)
        if kind == "text":
            yield from check_text("messages", part.get("text"))


def check_text(place: str, text: object) -> Iterator[Violation]:
    """A text block says something."""
    if text == "":
        yield say.EMPTY_TEXT.fill(place=place)
    elif isinstance(text, str) and not text.strip():
        yield say.BLANK_TEXT.fill(place=place)


def _check_source(path: str, kind: str, source: dict[str, Any]) -> Iterator[Violation]:
    form = source.get("type")
    where = f"{path}.source.{form}"
    match form:
        case "base64":
            allowed = _IMAGE_TYPES if kind == "image" else ("application/pdf",)
            yield from _check_media_type(where, source, allowed)
            if not is_base64(as_string(source.get("data")) or ""):
                yield say.VALUE.fill(path=f"{where}.data", reason="invalid base64 data")
        case "url":
            if not (as_string(source.get("url")) or "").startswith("https://"):
                yield say.VALUE.fill(path=f"{where}.url", reason="Only HTTPS URLs are supported.")
        case "text" if kind == "document":
            yield from _check_media_type(where, source, ("text/plain",))
        case "file" | "content":
            return
        case _:
            yield say.BLOCK_KIND.fill(
                path=f"{path}.source", kind=form, expected="'base64', 'url', 'file'"
            )


def _check_media_type(
    path: str, source: dict[str, Any], allowed: tuple[str, ...]
) -> Iterator[Violation]:
    if source.get("media_type") not in allowed:
        *first, last = [f"'{name}'" for name in allowed]
        names = f"{', '.join(first)} or {last}" if first else last
        yield say.VALUE.fill(path=f"{path}.media_type", reason=f"Input should be {names}")
