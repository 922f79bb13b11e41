"""Convert a tool's return value to the content of a result.

Rules:
1. Every value is converted: to a string, JSON, or a list of text and media parts in the form of the history. A value that is not JSON is
   written as JSON if possible, else as its text.
2. Text has at most ``limit`` characters; if it is longer, beginning and end are kept, and a mark between them says how much is missing.
3. Media that are too large are replaced by a line that says so.
4. The result of a call whose arguments a person changed begins with a note of the arguments with which it ran.
"""

import base64
from collections.abc import Iterable
from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace

from multi_llm_chat.history.json_values import clean_json, clean_text, compact_json
from multi_llm_chat.history.reader import split_result
from multi_llm_chat.history.values import JsonObject, Media, Text, ToolResult
from multi_llm_chat.history.writer import write_part

#: Characters of base64 in one result: providers accept about five megabytes per picture.
MEDIA_LIMIT: Final = 20_000_000
#: Characters of the arguments in the note about a change.
_LONGEST_NOTE: Final = 4_000
_NOTE: Final = "[The user changed the arguments of this call before allowing it."
NOTHING: Final = "[the tool finished and returned nothing]"

#: The first bytes of the picture formats that models accept.
_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)


def content_of(value: object, limit: int) -> Any:
    """The value as the content of a tool result."""
    if value is None:
        return NOTHING
    parts = _parts(value)
    if parts is not None:
        return _limited_parts(parts, limit)
    if isinstance(value, str):
        return cut(clean_text(value), limit)
    plain = _plain(value)
    text = compact_json(plain)
    return plain if len(text) <= limit else cut(text, limit)


def note_edit(result: ToolResult, arguments: JsonObject) -> ToolResult:
    """Add a note for the model to the result of a call that ran with other arguments than the model wrote."""
    ran = compact_json(arguments)  # in one line: ``without_note`` finds its end
    if len(ran) > _LONGEST_NOTE:
        ran = f"{ran[:_LONGEST_NOTE]} … ({len(ran):,} characters in all)"
    note = f"{_NOTE} It ran with: {ran}]"
    text, media = split_result(result.content)
    if media:
        return replace(result, content=[write_part(Text(note)), *result.content])
    return replace(result, content=f"{note}\n\n{text}")


def without_note(text: str) -> str:
    """The text of a result without the note about changed arguments."""
    note, _, rest = text.partition("\n\n")
    return rest if note.startswith(_NOTE) else text


def cut(text: str, limit: int) -> str:
    """The text, or its beginning and end with a mark between them."""
    if len(text) <= limit:
        return text
    head = limit * 3 // 4
    tail = limit - head
    mark = (
        f"\n\n[… {len(text) - limit:,} of {len(text):,} characters are left out here; "
        "ask for a smaller part …]\n\n"
    )
    return f"{text[:head]}{mark}{text[len(text) - tail :]}"


def _parts(value: object) -> list[Text | Media] | None:
    """The value as text and media, if it has media (or parts); else None."""
    match value:
        case Media() | Text():
            return [value]
        case bytes() | bytearray() | memoryview():
            return [_from_bytes(bytes(cast("bytes", value)))]
        case list() | tuple():
            items = cast("Iterable[object]", value)
            if not any(isinstance(item, Media | Text | bytes) for item in items):
                return None
            return [part for item in items for part in _parts(item) or [_as_text(item)]]
        case _:
            return None


def _as_text(value: object) -> Text:
    return Text(value if isinstance(value, str) else compact_json(_plain(value)))


def _from_bytes(data: bytes) -> Text | Media:
    for signature, mime in _SIGNATURES:
        if data.startswith(signature):
            return Media(mime, base64.b64encode(data).decode())
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return Media("image/webp", base64.b64encode(data).decode())
    try:
        return Text(data.decode())
    except UnicodeDecodeError:
        return Text(f"[{len(data):,} bytes that are neither text nor a known kind of picture]")


def _limited_parts(parts: list[Text | Media], limit: int) -> Any:
    limited: list[Text | Media] = []
    texts, media = limit, MEDIA_LIMIT
    for part in parts:
        if isinstance(part, Media):
            size = len(part.data or "") + len(part.url or "")
            if size <= media:
                media -= size
                limited.append(part)
            else:
                limited.append(
                    Text(f"[{part.mime} left out: it is too large, {size:,} characters]")
                )
        elif texts > 0 or not part.content:
            words = cut(clean_text(part.content), texts)
            texts -= len(words)
            limited.append(Text(words))
    if not any(isinstance(part, Media) for part in limited):
        return cut("\n".join(part.content for part in limited if isinstance(part, Text)), limit)
    return [write_part(part) for part in limited]


def _plain(value: object) -> Any:
    try:
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_encode_unknown)
    except (TypeError, ValueError, RecursionError, UnicodeError):
        plain = value
    return clean_json(plain)


def _encode_unknown(value: Any) -> Any:
    """Return the fields of a pydantic model; the text of anything else."""
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json")
    return str(value)
