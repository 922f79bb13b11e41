"""Google's ``Schema`` message: a subset of OpenAPI 3.0 (GEM-13 to GEM-17, catalogue §5)."""

from collections.abc import Iterator
from typing import Any

from multi_llm_chat.testing.validators.gemini import wordings as say
from multi_llm_chat.testing.validators.gemini.contents import check_known, read
from multi_llm_chat.testing.validators.typed_views import as_array, as_object
from multi_llm_chat.testing.validators.violation import Violation

_KNOWN = frozenset(
    {
        "type",
        "format",
        "title",
        "description",
        "nullable",
        "enum",
        "items",
        "maxItems",
        "minItems",
        "properties",
        "required",
        "minProperties",
        "maxProperties",
        "minLength",
        "maxLength",
        "pattern",
        "example",
        "anyOf",
        "propertyOrdering",
        "default",
        "minimum",
        "maximum",
    }
)
_TYPES = ("STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL")
#: JSON of protocol buffers takes the numbers of an enum's values for their names.
_NUMBERS = range(len(_TYPES) + 1)
_FORMATS = {
    "STRING": ("enum", "date-time"),
    "NUMBER": ("float", "double"),
    "INTEGER": ("int32", "int64"),
}
_SCHEMA = "type.googleapis.com/google.ai.generativelanguage.v1beta.Schema"
_TYPE = "type.googleapis.com/google.ai.generativelanguage.v1beta.Type"
#: Next to ``anyOf`` these say nothing about the value itself.
_BESIDE_ANY_OF = frozenset({"anyOf", "description", "title", "nullable", "default"})

_Pending = list[tuple[str, object]]


def check_schema(path: str, root: object) -> Iterator[Violation]:
    """Judge a schema and everything below it."""
    pending: _Pending = [(path, root)]
    while pending:
        where, value = pending.pop()
        schema = as_object(value)
        if schema is None:
            yield say.INVALID.fill(path=where, kind=_SCHEMA, value=say.shown(value))
            continue
        yield from check_known(where, schema, _KNOWN)
        fields = read(schema)
        kind = fields.get("type")
        yield from _check_type(where, kind)
        upper = kind.upper() if isinstance(kind, str) else None
        yield from _check_enum(where, fields.get("enum"))
        yield from _check_shape(where, upper, fields)
        yield from _check_format(where, upper, fields.get("format"))
        yield from _check_required(where, fields)
        pending.extend(reversed(list(_children(where, fields))))


def _children(path: str, fields: dict[str, Any]) -> Iterator[tuple[str, object]]:
    for index, child in enumerate((as_object(fields.get("properties")) or {}).values()):
        yield f"{path}.properties[{index}].value", child
    if "items" in fields:
        yield f"{path}.items", fields["items"]
    for index, child in enumerate(as_array(fields.get("anyOf")) or []):
        yield f"{path}.any_of[{index}]", child


def _check_type(path: str, kind: object) -> Iterator[Violation]:
    if isinstance(kind, list):
        yield say.TYPE_LIST.fill(path=path)
    elif isinstance(kind, str):
        if kind.upper() not in _TYPES:
            yield say.INVALID.fill(path=f"{path}.type", kind=_TYPE, value=say.shown(kind))
    elif kind is not None and kind not in _NUMBERS:
        yield say.INVALID.fill(path=f"{path}.type", kind=_TYPE, value=say.shown(kind))


def _check_enum(path: str, enum: object) -> Iterator[Violation]:
    for index, value in enumerate(as_array(enum) or []):
        where = f"{path}.enum[{index}]"
        if not isinstance(value, str):
            yield say.ENUM_STRING.fill(path=where, value=say.shown(value))
        elif not value:
            yield say.SCHEMA_FIELD.fill(path=where, reason="cannot be empty")


def _check_shape(path: str, kind: str | None, fields: dict[str, Any]) -> Iterator[Violation]:
    if kind == "ARRAY" and "items" not in fields:
        yield say.SCHEMA_FIELD.fill(path=f"{path}.items", reason="missing field.")
    properties = fields.get("properties")
    if properties is not None and as_object(properties) is None:
        yield say.INVALID.fill(path=f"{path}.properties", kind="map", value=say.shown(properties))
    if "anyOf" in fields and not set(fields) <= _BESIDE_ANY_OF:
        yield say.ANY_OF_ALONE.fill(path=path)


def _check_format(path: str, kind: str | None, form: object) -> Iterator[Violation]:
    allowed = _FORMATS.get(kind or "")
    if allowed is not None and form is not None and form not in allowed:
        names = " and ".join(f"'{name}'" for name in allowed)
        yield say.FORMAT.fill(path=path, reason=f"only {names} are supported for {kind} type")


def _check_required(path: str, fields: dict[str, Any]) -> Iterator[Violation]:
    known = as_object(fields.get("properties")) or {}
    for index, name in enumerate(as_array(fields.get("required")) or []):
        if not isinstance(name, str) or name not in known:
            where = f"{path}.required[{index}]"
            yield say.SCHEMA_FIELD.fill(path=where, reason="property is not defined")
