"""Convert turns to rows and back.

Rules:
1. Reading returns exactly the turn that was written: every field of every part.
2. A field that equals its default is not written.
3. ``author`` and ``model`` are columns for queries; where a column cannot hold the exact value, ``fields`` does.
4. Media data of at least ``BLOB_SIZE`` are stored once for all turns, by the hash of their bytes.
"""

import binascii
from base64 import b64decode, b64encode
from hashlib import sha256
from typing import Any

from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from multi_llm_chat.archive.document import read_ms
from multi_llm_chat.history.json_values import clean_text
from multi_llm_chat.history.values import (
    Extras,
    JsonObject,
    Media,
    Native,
    Origin,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from multi_llm_chat.store.transaction import DAMAGE, damaged_row, read_json, write_json

#: Smaller data (in characters of base64) stay in the part's own row.
BLOB_SIZE = 4096

_KINDS: dict[type[Part], str] = {
    Text: "text",
    ToolCall: "tool_call",
    ToolResult: "tool_result",
    Thinking: "thinking",
    Media: "media",
    Native: "native",
}
_CLASSES: dict[str, type[Part]] = {name: kind for kind, name in _KINDS.items()}
_LATEST = 2**62
_COLUMNS = ("id", "parts")


def _default(info: FieldInfo) -> object:
    return info.default_factory() if info.default_factory is not NODEFAULT else info.default


_DEFAULTS: dict[type[Struct], tuple[tuple[str, object], ...]] = {
    kind: tuple((info.name, _default(info)) for info in fields(kind)) for kind in (*_KINDS, Turn)
}


class PartRow(Struct, frozen=True):
    """One row of ``parts``, and the bytes of its ``blob``."""

    kind: str
    body: str
    blob: str | None = None
    data: bytes = b""


class TurnRow(Struct, frozen=True):
    """A turn's own columns."""

    author: str
    model: str | None
    fields: str


def write_turn_row(turn: Turn) -> TurnRow:
    """The turn without its parts."""
    values = _changed_fields(turn)
    author: str = clean_text(turn.role)
    model: object = turn.model  # a reader of histories may have set any type
    if author == turn.role:
        del values["role"]
    column = model if isinstance(model, str) and clean_text(model) == model else None
    if column == model:
        del values["model"]
    return TurnRow(author, column, write_json(values))


def read_turn_row(identifier: str, row: TurnRow, parts: tuple[Part, ...]) -> Turn:
    """The turn as it was."""
    try:
        values: JsonObject = {"role": row.author, "model": row.model} | read_json(row.fields)
        return Turn(id=identifier, parts=parts, **values)
    except DAMAGE:
        pass
    raise damaged_row()


def write_part_row(part: Part) -> PartRow:
    """One part as a row."""
    body, data = _changed_fields(part), b""
    if isinstance(part, Media) and part.data is not None and len(part.data) >= BLOB_SIZE:
        data = _bytes_of(part.data)
        if data:
            del body["data"]
    name = sha256(data).hexdigest() if data else None
    return PartRow(_KINDS[type(part)], write_json(body), name, data)


def read_part_row(kind: str, body: str, data: bytes | None) -> Part:
    """The part as it was; ``data`` are the bytes of its blob, if it has one."""
    try:
        values: JsonObject = read_json(body)
        if "origin" in values:
            values["origin"] = Origin(**values["origin"])
        if "extras" in values:
            extras = values["extras"]
            values["extras"] = Extras(Origin(**extras["origin"]), extras["fields"])
        if data is not None:
            values["data"] = b64encode(data).decode("ascii")
        return _CLASSES[kind](**values)
    except DAMAGE:
        pass
    raise damaged_row()


def text_of(turn: Turn) -> str:
    """The text of the turn that the search indexes."""
    return "\n".join(part.content for part in turn.parts if isinstance(part, Text))


def moment_ms(created_at: object, otherwise: int) -> int:
    """A turn's own time in milliseconds; None if it cannot be parsed."""
    moment = read_ms(created_at)
    return otherwise if moment is None else within_range(moment)


def within_range(moment: int) -> int:
    """The time, or the nearest one that a column can hold."""
    return max(-_LATEST, min(moment, _LATEST))


def _changed_fields(value: Part | Turn) -> dict[str, Any]:
    """The fields that differ from their default."""
    values: dict[str, Any] = {}
    for name, default in _DEFAULTS[type(value)]:
        field = getattr(value, name)
        if field is not default and field != default and name not in _COLUMNS:
            values[name] = field
    if isinstance(value, Turn):
        values.setdefault("role", value.role)
        values.setdefault("model", value.model)
    origin, extras = values.get("origin"), values.get("extras")
    if isinstance(origin, Origin):
        values["origin"] = _origin(origin)
    if isinstance(extras, Extras):
        values["extras"] = {"origin": _origin(extras.origin), "fields": extras.fields}
    return values


def _origin(origin: Origin) -> JsonObject:
    return {"provider": origin.provider, "endpoint": origin.endpoint, "model": origin.model}


def _bytes_of(data: str) -> bytes:
    """The decoded bytes; none if encoding them would not give the same text again."""
    try:
        decoded = b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return b""
    return decoded if b64encode(decoded).decode("ascii") == data else b""
