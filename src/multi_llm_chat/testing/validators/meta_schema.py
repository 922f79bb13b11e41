"""Whether a value is a valid JSON Schema, judged by the draft's own meta-schema.

Two drafts are known: Draft 7, which Mistral asks for, and 2020-12, which Anthropic asks for. The
check walks the schema with an explicit stack. The message follows the wording of Python's
``jsonschema``, which Mistral's servers pass on.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from multi_llm_chat.testing.validators.typed_views import as_array, as_object

_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")

_Pending = list[object]


def draft7_fault(schema: object) -> str | None:
    """The first reason why the value is not a Draft 7 schema, or None."""
    return next(_faults(schema, _DRAFT_7), None)


def draft2020_fault(schema: object) -> str | None:
    """The first reason why the value is not a 2020-12 schema, or None."""
    return next(_faults(schema, _DRAFT_2020), None)


def _faults(schema: object, rules: "dict[str, _Rule]") -> Iterator[str]:
    pending: _Pending = [schema]
    while pending:
        value = pending.pop()
        if isinstance(value, bool):
            continue
        found = as_object(value)
        if found is None:
            yield f"{value!r} is not of type 'object', 'boolean'"
            continue
        for word, rule in rules.items():
            if word in found:
                yield from rule(found[word], pending)


def _string(value: object, pending: _Pending) -> Iterator[str]:  # noqa: ARG001 (one signature)
    if not isinstance(value, str):
        yield f"{value!r} is not of type 'string'"


def _regex(value: object, pending: _Pending) -> Iterator[str]:
    yield from _string(value, pending)
    if isinstance(value, str) and not _compiles(value):
        yield f"{value!r} is not a 'regex'"


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _boolean(value: object, pending: _Pending) -> Iterator[str]:  # noqa: ARG001 (one signature)
    if not isinstance(value, bool):
        yield f"{value!r} is not of type 'boolean'"


def _number(value: object, pending: _Pending) -> Iterator[str]:  # noqa: ARG001 (one signature)
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield f"{value!r} is not of type 'number'"


def _positive(value: object, pending: _Pending) -> Iterator[str]:
    yield from _number(value, pending)
    if isinstance(value, int | float) and not isinstance(value, bool) and value <= 0:
        yield f"{value!r} is less than or equal to the minimum of 0"


def _count(value: object, pending: _Pending) -> Iterator[str]:  # noqa: ARG001 (one signature)
    # A float without a fraction is an integer to JSON Schema.
    whole = isinstance(value, float) and value.is_integer()
    if isinstance(value, bool) or not (isinstance(value, int) or whole):
        yield f"{value!r} is not of type 'integer'"
    elif isinstance(value, int | float) and value < 0:
        yield f"{value!r} is less than the minimum of 0"


def _any_array(value: object, pending: _Pending) -> Iterator[str]:  # noqa: ARG001 (one signature)
    if as_array(value) is None:
        yield f"{value!r} is not of type 'array'"


def _names(value: object, pending: _Pending) -> Iterator[str]:
    yield from _any_array(value, pending)
    names = as_array(value) or []
    yield from (f"{name!r} is not of type 'string'" for name in names if not isinstance(name, str))
    texts = [name for name in names if isinstance(name, str)]
    if len(set(texts)) != len(texts):
        yield f"{value!r} has non-unique elements"


def _type(value: object, pending: _Pending) -> Iterator[str]:  # noqa: ARG001 (one signature)
    kinds = as_array(value)
    if kinds is None:
        if value not in _TYPES:
            yield f"{value!r} is not valid under any of the given schemas"
    elif not kinds or any(kind not in _TYPES for kind in kinds) or len(set(kinds)) != len(kinds):
        yield f"{value!r} is not valid under any of the given schemas"


def _schema(value: object, pending: _Pending) -> Iterator[str]:
    pending.append(value)
    yield from ()


def _schema_array(value: object, pending: _Pending) -> Iterator[str]:
    items = as_array(value)
    if items is None:
        yield f"{value!r} is not of type 'array'"
    elif not items:
        yield "[] should be non-empty"
    else:
        pending.extend(items)


def _schema_or_array(value: object, pending: _Pending) -> Iterator[str]:
    if as_array(value) is not None:
        yield from _schema_array(value, pending)
    elif isinstance(value, bool) or as_object(value) is not None:
        pending.append(value)
    else:
        yield f"{value!r} is not valid under any of the given schemas"


def _schema_map(value: object, pending: _Pending) -> Iterator[str]:
    named = as_object(value)
    if named is None:
        yield f"{value!r} is not of type 'object'"
    else:
        pending.extend(named.values())


def _pattern_map(value: object, pending: _Pending) -> Iterator[str]:
    yield from _schema_map(value, pending)
    for pattern in as_object(value) or {}:
        yield from _regex(pattern, pending)


def _any_object(value: object, pending: _Pending) -> Iterator[str]:  # noqa: ARG001 (one signature)
    if as_object(value) is None:
        yield f"{value!r} is not of type 'object'"


def _names_map(value: object, pending: _Pending) -> Iterator[str]:
    yield from _any_object(value, pending)
    for names in (as_object(value) or {}).values():
        yield from _names(names, pending)


def _dependencies(value: object, pending: _Pending) -> Iterator[str]:
    named = as_object(value)
    if named is None:
        yield f"{value!r} is not of type 'object'"
        return
    for dependency in named.values():
        if as_array(dependency) is not None:
            yield from _names(dependency, pending)
        else:
            pending.append(dependency)


_Rule = Callable[[Any, _Pending], Iterator[str]]

_DRAFT_7: dict[str, _Rule] = {
    "$id": _string,
    "$schema": _string,
    "$ref": _string,
    "$comment": _string,
    "title": _string,
    "description": _string,
    "readOnly": _boolean,
    "writeOnly": _boolean,
    "examples": _any_array,
    "multipleOf": _positive,
    "maximum": _number,
    "exclusiveMaximum": _number,
    "minimum": _number,
    "exclusiveMinimum": _number,
    "maxLength": _count,
    "minLength": _count,
    "pattern": _regex,
    "additionalItems": _schema,
    "items": _schema_or_array,
    "maxItems": _count,
    "minItems": _count,
    "uniqueItems": _boolean,
    "contains": _schema,
    "maxProperties": _count,
    "minProperties": _count,
    "required": _names,
    "additionalProperties": _schema,
    "definitions": _schema_map,
    "properties": _schema_map,
    "patternProperties": _pattern_map,
    "dependencies": _dependencies,
    "propertyNames": _schema,
    "enum": _any_array,
    "type": _type,
    "format": _string,
    "contentMediaType": _string,
    "contentEncoding": _string,
    "if": _schema,
    "then": _schema,
    "else": _schema,
    "allOf": _schema_array,
    "anyOf": _schema_array,
    "oneOf": _schema_array,
    "not": _schema,
}

# ``additionalItems`` is gone from 2020-12 and says nothing there.
_DRAFT_2020: dict[str, _Rule] = {
    word: rule for word, rule in _DRAFT_7.items() if word != "additionalItems"
} | {
    "items": _schema,
    "prefixItems": _schema_array,
    "$defs": _schema_map,
    "$anchor": _string,
    "$dynamicRef": _string,
    "$dynamicAnchor": _string,
    "$vocabulary": _any_object,
    "dependentSchemas": _schema_map,
    "dependentRequired": _names_map,
    "unevaluatedItems": _schema,
    "unevaluatedProperties": _schema,
    "maxContains": _count,
    "minContains": _count,
    "contentSchema": _schema,
    "deprecated": _boolean,
}
