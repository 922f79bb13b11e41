"""Cleans any value to a valid JSON Schema.

Rules:
1. The result is valid under the meta-schemas of Draft 7 and of 2020-12, and is plain JSON:
   no NaN, no lone surrogates, no NUL, no integers beyond 64 bits, no Python objects.
2. At the root it describes an object: ``type`` is ``object`` and ``properties`` is there,
   because a tool is always called with named arguments.
3. A keyword with an invalid value is removed, never guessed; unknown keywords stay. Forms of older
   drafts (``items`` as a list, boolean ``exclusiveMinimum``) are rewritten.
4. Names of properties and definitions are data: a property may be called ``type`` or ``$ref``.
5. A schema that already follows these rules is returned equal. The input is never changed.
6. Work is bounded: cycles, too deep nesting and everything beyond the node budget become ``{}``.
7. The result of ``either`` accepts exactly the values that one of its arguments accepts.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias, cast
from urllib.parse import quote

from msgspec import json

from multi_llm_chat.history.json_values import clean_text
from multi_llm_chat.history.values import JsonObject

#: A schema is an object of keywords, or ``True`` (anything) or ``False`` (nothing).
Subschema: TypeAlias = JsonObject | bool

#: Deeper schemas are cut; real ones stay below twenty.
MAX_DEPTH: Final = 60
#: Deeper defaults, examples and choices are dropped.
MAX_VALUE_DEPTH: Final = 16
#: Nodes of one schema (keyword objects, list members) before the rest is cut.
MAX_NODES: Final = 20_000
#: Larger counts are not exact in the JSON parsers of most servers, and are treated as no limit.
MAX_COUNT: Final = 2**53
_INTEGER_RANGE: Final = (-(2**63), 2**64 - 1)

_INVALID: Final = object()
#: The characters of a URI that need no percent-encoding, besides letters, digits and ``_.-~`` (RFC 3986), and a percent sign.
_IN_URI: Final = "!$&'()*+,;=:@/?%"
_BARE_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ANCHOR: Final = re.compile(r"[A-Za-z_][-A-Za-z0-9._]*\Z")

_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
#: Wrong type names that tool authors write, and the unambiguous correct ones.
_TYPE_ALIASES: Final = {
    "str": "string", "int": "integer", "float": "number", "double": "number", "bool": "boolean",
    "list": "array", "dict": "object", "none": "null",
}  # fmt: skip
_DRAFTS: Final = frozenset(
    {
        "http://json-schema.org/draft-07/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    }
)

#: Regular-expression syntax of ECMAScript that Python spells differently, and doubled characters
#: for which Python only warns; both are rewritten in a copy that is compiled as a test.
_FOREIGN_SYNTAX: Final = (
    (re.compile(r"\\[pP]\{[^{}]*\}"), r"\\w"),
    (re.compile(r"\\u\{[0-9A-Fa-f]+\}"), "x"),
    (re.compile(r"\\c[A-Za-z]"), "x"),
    (re.compile(r"\(\?<(?![=!])"), "(?P<"),
    (re.compile(r"\\k<([A-Za-z_]\w*)>"), r"(?P=\1)"),
    (re.compile(r"(?<!\\)\[(\^?)\["), r"[\1\\["),
    (re.compile(r"([-&~|])\1+"), r"\1"),
)


def _text(text: str) -> str:
    # A member of a string enum is sent as its value.
    return clean_text(text if type(text) is str else str.__str__(text))


@lru_cache(maxsize=1024)
def is_regular_expression(pattern: str) -> bool:
    """Return whether ``pattern`` compiles; syntax that only ECMAScript has is accepted."""
    for foreign, ours in _FOREIGN_SYNTAX:
        pattern = foreign.sub(ours, pattern)
    return is_portable(pattern)


def is_portable(pattern: str) -> bool:
    """Return whether ``pattern`` compiles unchanged, also on servers written in Python."""
    try:
        re.compile(pattern)
    except FutureWarning:
        return True  # raised only if warnings are errors: the pattern compiles, but its meaning may change
    except (re.error, RecursionError, OverflowError):
        return False
    return True


class _Cleaner:
    """The state of one cleaning: the number of nodes it may still visit, and the nodes it is inside of."""

    __slots__ = ("inside", "remaining")

    def __init__(self) -> None:
        self.remaining = MAX_NODES
        self.inside: set[int] = set()

    def schema(self, value: Any, depth: int) -> Any:
        """Return a valid schema, or ``_INVALID`` if ``value`` is not a schema."""
        if isinstance(value, bool):
            return value
        if not isinstance(value, Mapping):
            return _INVALID
        source = cast("Mapping[Any, Any]", value)
        if depth > MAX_DEPTH or self.remaining <= 0 or id(source) in self.inside:
            return {}
        self.remaining -= 1
        self.inside.add(id(source))
        cleaned: JsonObject = {}
        for keyword, item in _named(_modern(source)):
            check = _CHECKS.get(keyword)
            result = self.json(item, 0) if check is None else check(self, item, depth)
            if result is not _INVALID:
                cleaned[keyword] = result
        self.inside.discard(id(source))
        return cleaned

    def json(self, value: Any, depth: int) -> Any:
        """Return ``value`` as plain JSON, or ``_INVALID`` if that is impossible."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return _text(value)
        if isinstance(value, int | float):
            return _number(value)
        if depth > MAX_VALUE_DEPTH or self.remaining <= 0 or id(value) in self.inside:
            return _INVALID
        return self._container(value, depth)

    def _container(self, value: Any, depth: int) -> Any:
        result: Any = _INVALID
        self.remaining -= 1
        identity = id(value)
        self.inside.add(identity)
        if isinstance(value, Mapping):
            source = cast("Mapping[Any, Any]", value)
            result = {key: self.json(item, depth + 1) for key, item in _named(source)}
            result = _INVALID if _INVALID in result.values() else result
        elif isinstance(value, list | tuple):
            members = cast("list[Any]", value)
            result = [self.json(item, depth + 1) for item in members]
            result = _INVALID if any(item is _INVALID for item in result) else result
        self.inside.discard(identity)
        return result


_Check: TypeAlias = Callable[[_Cleaner, Any, int], Any]


def _named(source: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    for key, item in source.items():
        if isinstance(key, str):
            yield _text(key), item


def _number(value: float) -> Any:
    if isinstance(value, int):
        low, high = _INTEGER_RANGE
        if low <= value <= high:
            return int(value)
        try:
            return float(value)
        except OverflowError:
            return _INVALID
    return float(value) if math.isfinite(value) else _INVALID


def _modern(source: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Rewrite the forms of Draft 4 and Draft 7 in the keywords of 2020-12."""
    items = source.get("items")
    bounds = [key for key in _BOUNDS if isinstance(source.get(key), bool)]
    if not bounds and not isinstance(items, list | tuple):
        return source
    modern = dict(source)
    if isinstance(items, list | tuple):
        modern.pop("items")
        modern["prefixItems"] = cast("list[Any]", items)
        if "additionalItems" in modern:
            modern["items"] = modern.pop("additionalItems")
    for key in bounds:
        if modern.pop(key) and _BOUNDS[key] in modern:
            modern[key] = modern.pop(_BOUNDS[key])
    return modern


_BOUNDS: Final = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


def _string(_cleaner: _Cleaner, value: Any, _depth: int) -> Any:
    return _text(value) if isinstance(value, str) else _INVALID


def _reference(_cleaner: _Cleaner, value: Any, _depth: int) -> Any:
    """A reference, with the characters that a URI may not contain in percent-encoding (RFC 3986)."""
    if not isinstance(value, str):
        return _INVALID
    document, sharp, fragment = _BARE_PERCENT.sub("%25", _text(value)).partition("#")
    return quote(document, _IN_URI) + sharp + quote(fragment, _IN_URI)


def _identifier(cleaner: _Cleaner, value: Any, depth: int) -> Any:
    named = isinstance(value, str) and "#" not in value.removesuffix("#")
    return _reference(cleaner, value, depth) if named else _INVALID


def _draft(_cleaner: _Cleaner, value: Any, _depth: int) -> Any:
    return value if isinstance(value, str) and value.removesuffix("#") in _DRAFTS else _INVALID


def _anchor(_cleaner: _Cleaner, value: Any, _depth: int) -> Any:
    return value if isinstance(value, str) and _ANCHOR.match(value) else _INVALID


def _pattern(_cleaner: _Cleaner, value: Any, _depth: int) -> Any:
    if not isinstance(value, str):
        return _INVALID
    text = _text(value)
    return text if is_regular_expression(text) else _INVALID


def _boolean(_cleaner: _Cleaner, value: Any, _depth: int) -> Any:
    return value if isinstance(value, bool) else _INVALID


def _numeric(_cleaner: _Cleaner, value: Any, _depth: int) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return _number(value) if number else _INVALID


def _divisor(cleaner: _Cleaner, value: Any, depth: int) -> Any:
    number = _numeric(cleaner, value, depth)
    return number if number is not _INVALID and number > 0 else _INVALID


def _count(cleaner: _Cleaner, value: Any, depth: int) -> Any:
    number = _numeric(cleaner, value, depth)
    whole = number is not _INVALID and 0 <= number <= MAX_COUNT and number == int(number)
    return int(number) if whole else _INVALID


def _type_name(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    name = value.lower()
    name = _TYPE_ALIASES.get(name, name)
    return name if name in _TYPES else None


def _type(_cleaner: _Cleaner, value: Any, _depth: int) -> Any:
    if isinstance(value, list | tuple):
        members = cast("list[Any]", value)
        names = [name for member in members if (name := _type_name(member)) is not None]
        return list(dict.fromkeys(names)) or _INVALID
    return _type_name(value) or _INVALID


def _names(_cleaner: _Cleaner, value: Any, _depth: int) -> Any:
    if not isinstance(value, list | tuple):
        return _INVALID
    members = cast("list[Any]", value)
    return list(dict.fromkeys(_text(name) for name in members if isinstance(name, str)))


def _choices(cleaner: _Cleaner, value: Any, _depth: int) -> Any:
    if not isinstance(value, list | tuple):
        return _INVALID
    members = cast("list[Any]", value)
    cleaned = [cleaner.json(member, 1) for member in members]
    return [member for member in cleaned if member is not _INVALID] or _INVALID


def _examples(cleaner: _Cleaner, value: Any, _depth: int) -> Any:
    return cleaner.json(value, 0) if isinstance(value, list | tuple) else _INVALID


def _schema(cleaner: _Cleaner, value: Any, depth: int) -> Any:
    return cleaner.schema(value, depth + 1)


def _schema_list(cleaner: _Cleaner, value: Any, depth: int) -> Any:
    if not isinstance(value, list | tuple):
        return _INVALID
    members = cast("list[Any]", value)
    cleaned = [cleaner.schema(member, depth + 1) for member in members]
    return [member for member in cleaned if member is not _INVALID] or _INVALID


def _schema_positions(cleaner: _Cleaner, value: Any, depth: int) -> Any:
    """A list of schemas in which an invalid member becomes ``{}``, so that the positions of the others stay."""
    if not isinstance(value, list | tuple):
        return _INVALID
    members = cast("list[Any]", value)
    cleaned = [cleaner.schema(member, depth + 1) for member in members]
    return [{} if member is _INVALID else member for member in cleaned] or _INVALID


def _mapping(value: Any, clean: Callable[[Any], Any]) -> Any:
    if not isinstance(value, Mapping):
        return _INVALID
    return {name: clean(item) for name, item in _named(cast("Mapping[Any, Any]", value))}


def _schema_map(cleaner: _Cleaner, value: Any, depth: int) -> Any:
    def entry(item: Any) -> Any:
        cleaned = cleaner.schema(item, depth + 1)
        return {} if cleaned is _INVALID else cleaned

    return _mapping(value, entry)


def _pattern_map(cleaner: _Cleaner, value: Any, depth: int) -> Any:
    cleaned = _schema_map(cleaner, value, depth)
    if cleaned is _INVALID:
        return _INVALID
    return {key: item for key, item in cleaned.items() if is_regular_expression(key)}


def _names_map(cleaner: _Cleaner, value: Any, depth: int) -> Any:
    def entry(item: Any) -> Any:
        names = _names(cleaner, item, depth)
        return [] if names is _INVALID else names

    return _mapping(value, entry)


def _dependencies(cleaner: _Cleaner, value: Any, depth: int) -> Any:
    def entry(item: Any) -> Any:
        check = _names if isinstance(item, list | tuple) else _schema
        cleaned = check(cleaner, item, depth)
        return {} if cleaned is _INVALID else cleaned

    return _mapping(value, entry)


_CHECKS: Final[dict[str, _Check]] = {
    **dict.fromkeys(("title", "description", "$comment", "format"), _string),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), _string),
    **dict.fromkeys(("$ref", "$dynamicRef", "$recursiveRef"), _reference),
    **dict.fromkeys(("$anchor", "$dynamicAnchor", "$recursiveAnchor"), _anchor),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _boolean),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _numeric),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _count),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), _count),
    **dict.fromkeys(("items", "additionalItems", "unevaluatedItems", "contains"), _schema),
    **dict.fromkeys(("additionalProperties", "unevaluatedProperties", "propertyNames"), _schema),
    **dict.fromkeys(("if", "then", "else", "not", "contentSchema"), _schema),
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), _schema_list),
    **dict.fromkeys(("properties", "$defs", "definitions", "dependentSchemas"), _schema_map),
    "$id": _identifier,
    "$schema": _draft,
    "$vocabulary": lambda _cleaner, _value, _depth: _INVALID,  # only a meta-schema has one
    "type": _type,
    "pattern": _pattern,
    "multipleOf": _divisor,
    "enum": _choices,
    "examples": _examples,
    "required": _names,
    "prefixItems": _schema_positions,
    "patternProperties": _pattern_map,
    "dependentRequired": _names_map,
    "dependencies": _dependencies,
}


def clean_schema(schema: object) -> JsonObject:
    """Return a valid schema of an object, with all of ``schema`` that is valid.

    Args:
        schema: Any value; a value that is not a schema gives the schema of a tool without arguments.
    """
    cleaned = _Cleaner().schema(schema, 0)
    if not isinstance(cleaned, dict):
        return {"type": "object", "properties": {}}
    root = cast("JsonObject", cleaned)
    types = root.get("type")
    if types is None:
        root = {"type": "object", **root}
    elif types != "object":
        root["type"] = "object"
        if "object" not in types:
            # The listed values have another type: none of them is an object.
            root.pop("enum", None)
            root.pop("const", None)
    root.setdefault("properties", {})
    return root


def clean_subschema(schema: object) -> Subschema:
    """Return a valid schema for the target of a reference, which may be any JSON value."""
    cleaned = _Cleaner().schema(schema, 0)
    return {} if cleaned is _INVALID else cleaned


# Alternatives.

_CHOICE_KEYWORDS: Final = frozenset({"const", "enum", "type", "description", "title"})


def _only_choices(schema: Subschema) -> list[Any] | None:
    """The values of a schema that only lists values (``const`` or ``enum``); None for any other schema."""
    if isinstance(schema, bool) or not schema.keys() <= _CHOICE_KEYWORDS:
        return None
    if "const" in schema:
        return [schema["const"]] if "enum" not in schema else None
    return schema.get("enum")


def either(schemas: Iterable[Subschema]) -> Subschema:
    """Return a schema for the values that one of ``schemas`` accepts."""
    by_text: dict[bytes, Subschema] = {}
    for schema in schemas:
        if schema is True or schema == {}:
            return {}
        if schema is not False:
            by_text.setdefault(json.encode(schema), schema)
    distinct = list(by_text.values())
    if len(distinct) < 2:
        return distinct[0] if distinct else False
    values: list[Any] = []
    for schema in distinct:
        choices = _only_choices(schema)
        if choices is None:
            return {"anyOf": distinct}
        values.extend(choices)
    types = {str(cast("JsonObject", schema).get("type")) for schema in distinct}
    first = cast("JsonObject", distinct[0])
    if len(types) > 1:
        return {"enum": values}
    return {"type": first["type"], "enum": values} if "type" in first else {"enum": values}
