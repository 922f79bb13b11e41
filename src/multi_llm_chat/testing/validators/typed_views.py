"""Typed views of JSON values: each returns the value as its type, or None."""

from typing import Any, cast


def as_object(value: object) -> dict[str, Any] | None:
    """The value as a JSON object."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def as_array(value: object) -> list[Any] | None:
    """The value as a JSON array."""
    return cast("list[Any]", value) if isinstance(value, list) else None


def as_string(value: object) -> str | None:
    """The value as a JSON string."""
    return value if isinstance(value, str) else None


def as_integer(value: object) -> int | None:
    """The value as a JSON integer; a boolean is not one."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_number(value: object) -> float | None:
    """The value as a JSON number; a boolean is not one."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def objects(value: object) -> list[dict[str, Any]]:
    """The objects in an array; anything else counts as none."""
    items = as_array(value) or []
    return [item for item in map(as_object, items) if item is not None]


def members(value: object) -> dict[str, Any]:
    """The members of an object; anything else has none."""
    return as_object(value) or {}


def is_of_kind(value: object, kind: str) -> bool:
    """Whether a value is a string, integer, decimal (any number), boolean, array or object."""
    match kind:
        case "string":
            return isinstance(value, str)
        case "integer":
            return as_integer(value) is not None
        case "decimal":
            return as_number(value) is not None
        case "boolean":
            return isinstance(value, bool)
        case "array":
            return isinstance(value, list)
        case _:
            return isinstance(value, dict)


def type_name(value: object) -> str:
    """The JSON type with its article, as OpenAI's messages name it."""
    if value is None:
        return "null"
    for kind, name in _TYPE_NAMES:
        if isinstance(value, kind):
            return name
    return "an object"


# bool before int: in Python a bool is an int.
_TYPE_NAMES: tuple[tuple[type, str], ...] = (
    (bool, "a boolean"),
    (int, "an integer"),
    (float, "a decimal number"),
    (str, "a string"),
    (list, "an array"),
)
