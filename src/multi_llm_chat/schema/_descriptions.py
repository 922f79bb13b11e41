"""Writes keywords that a dialect does not support into the description of the schema.

Rules:
1. A dropped keyword that is useful to a model is appended to the description of its own schema:
   ``(format: uri; minimum: 0)``. Administrative keywords (``$id``, ``$comment``, titles) are not.
2. A note is short; a long value is cut.
3. Everything dropped is listed by its JSON pointer, whether or not it is in a description. Definitions are not listed:
   they are only moved to the places where they are used.
"""

from typing import Any, Final

from msgspec import json

from multi_llm_chat.history.values import JsonObject

_MAX_VALUE: Final = 160

#: The dropped keywords that are written into a description, and their labels.
_LABELS: Final = {
    "enum": "one of",
    "const": "always",
    "$ref": "see",
    "contentEncoding": "encoding",
    "contentMediaType": "media type",
    "examples": "for example",
    "example": "for example",
    "additionalProperties": "other properties",
    "unevaluatedProperties": "other properties",
    "patternProperties": "properties by pattern",
    "propertyNames": "property names",
    "dependentRequired": "required together",
    "prefixItems": "items in order",
    "uniqueItems": "unique items",
    **{
        keyword: keyword
        for keyword in (
            "format", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
            "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "minProperties",
            "maxProperties", "minContains", "maxContains", "contains", "default", "not", "if", "then",
            "else", "anyOf", "oneOf", "allOf", "dependentSchemas", "dependencies", "deprecated",
        )
    },
}  # fmt: skip
_LISTS: Final = frozenset({"enum", "examples"})
#: Keywords whose boolean value is usually of no interest to a model.
_QUIET_BOOLEANS: Final = frozenset(
    {"additionalProperties", "unevaluatedProperties", "uniqueItems", "deprecated"}
)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.encode(value).decode()


def note(keyword: str, value: Any) -> str:
    """Return the note for a dropped keyword; empty if it is of no use to a model."""
    label = _LABELS.get(keyword)
    if label is None:
        return ""
    if isinstance(value, bool) and keyword in _QUIET_BOOLEANS:
        return label if value and keyword in {"uniqueItems", "deprecated"} else ""
    if keyword in _LISTS and isinstance(value, list):
        text = ", ".join(map(_text, value))  # pyright: ignore[reportUnknownArgumentType]
    else:
        text = _text(value)
    return f"{label}: {text if len(text) <= _MAX_VALUE else text[:_MAX_VALUE] + '…'}"


def described(schema: JsonObject, notes: list[str]) -> JsonObject:
    """Return ``schema`` with the notes at the end of its description."""
    said = [text for text in dict.fromkeys(notes) if text]
    if not said:
        return schema
    words = f"({'; '.join(said)})"
    own = schema.get("description")
    return {**schema, "description": f"{own} {words}" if own else words}


class SchemaPlace:
    """One schema's place in the document, and what was dropped there."""

    __slots__ = ("dropped", "notes", "path")

    def __init__(self, path: tuple[str, ...], dropped: list[str]) -> None:
        self.path = path
        self.dropped = dropped
        self.notes: list[str] = []

    def below(self, *tokens: str) -> "SchemaPlace":
        """Return the place of a schema inside this one."""
        return SchemaPlace((*self.path, *tokens), self.dropped)

    def drop(self, keyword: str = "", value: Any = None) -> None:
        """Record that ``keyword`` (or, without one, the whole schema) was dropped; a ``value`` becomes a note."""
        if keyword in {"$defs", "definitions"}:
            return
        tokens = (*self.path, keyword) if keyword else self.path
        self.dropped.append(
            "".join(f"/{token.replace('~', '~0').replace('/', '~1')}" for token in tokens)
        )
        if value is not None:
            self.notes.append(note(keyword, value))
