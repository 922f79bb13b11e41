"""Merges schemas, and resolves references (``$ref``).

Rules:
1. References are JSON pointers into the same document: ``#``, ``#/$defs/…``, ``#/definitions/…``,
   or to any other place, with ``~0``, ``~1`` and percent escapes. Nothing is ever fetched.
2. A definition that is missing at the root is looked up in nested ``$defs``: schemas that were combined
   from several generators have them there. A cycle that consists only of references has no target.
3. ``expand`` returns a target for copying and counts the copies: after ``MAX_EXPANSIONS`` it returns None, so that
   definitions which double each other cannot turn a small schema into a huge one.
4. The result of ``both`` accepts every value that both of its arguments accept; it may accept more, never fewer.
   If the two values of a keyword cannot be combined, the left one is kept.
5. ``flattened`` merges a schema's own ``$ref`` and ``allOf`` into it, so that neither is left.
6. ``folded`` merges the alternatives of an object schema into its properties. A property that only some
   alternatives declare keeps its schema. That is stricter than JSON Schema if another alternative allows
   additional properties, but it is what the author of the schema meant.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias, cast
from urllib.parse import unquote

from msgspec import json

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.schema.cleanup import Subschema, clean_subschema, either

#: The most copies of definitions within one schema, and the depth of copies within copies.
MAX_EXPANSIONS: Final = 2_000
MAX_CHAIN: Final = 24

_DEFINITION: Final = re.compile(r"#/(?:\$defs|definitions)/([^/]+)\Z")


def is_definition(reference: str) -> bool:
    """Return whether the reference names an entry of ``$defs`` or ``definitions`` at the root."""
    return _DEFINITION.match(reference) is not None


def _unescaped(token: str) -> str:
    return unquote(token).replace("~1", "/").replace("~0", "~")


def _step(node: Any, token: str) -> Any:
    if isinstance(node, dict):
        return cast("JsonObject", node).get(token)
    if isinstance(node, list) and token.isascii() and token.isdigit() and len(token) < 6:
        members = cast("list[Any]", node)
        return members[int(token)] if int(token) < len(members) else None
    return None


def _following(found: Subschema | None) -> str | None:
    """The schema's own ``$ref``, or that of its only alternative; None if there is none."""
    if found is None or isinstance(found, bool):
        return None
    for keyword in ("allOf", "anyOf", "oneOf"):
        branches = [branch for branch in found.get(keyword, ()) if branch is not False]
        if "$ref" not in found and len(branches) == 1 and isinstance(branches[0], dict):
            found = cast("JsonObject", branches[0])
    return found.get("$ref")


def _containers(root: JsonObject) -> Iterator[JsonObject]:
    """Every object in the document, outermost first."""
    waiting: list[Any] = [root]
    for node in waiting:
        if isinstance(node, dict):
            entry = cast("JsonObject", node)
            yield entry
            waiting.extend(entry.values())
        elif isinstance(node, list):
            waiting.extend(cast("list[Any]", node))


class References:
    """The targets of one document's references."""

    __slots__ = ("_expansions", "_nested", "_root", "_targets")

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._targets: dict[str, Subschema | None] = {}
        self._nested: JsonObject | None = None
        self._expansions = 0

    def target(self, reference: str) -> Subschema | None:
        """Return the schema to which the reference points, or ``None`` if there is none."""
        if reference not in self._targets:
            self._targets[reference] = self._followed(reference)
        return self._targets[reference]

    def expand(self, reference: str, inside: frozenset[str]) -> Subschema | None:
        """Return the target for copying into a place that was reached through the references ``inside``.

        ``None`` for a reference in ``inside`` (a cycle), and above the limits.
        """
        self._expansions += 1
        too_much = self._expansions > MAX_EXPANSIONS or len(inside) >= MAX_CHAIN
        return None if too_much or reference in inside else self.target(reference)

    def _followed(self, reference: str) -> Subschema | None:
        first = self._found(reference)
        passed, found = {reference}, first
        while (following := _following(found)) is not None:
            if following in passed:
                return None
            passed.add(following)
            found = self._found(following)
        return first

    def _found(self, reference: str) -> Subschema | None:
        if reference in {"#", "#/"}:
            return self._root
        if not reference.startswith("#/"):
            return None
        node = self._at(reference)
        definition = _DEFINITION.match(reference)
        if node is None and definition is not None:
            node = self._nested_definitions().get(_unescaped(definition[1]))
        elif definition is not None:
            return node  # the entries of $defs are clean already
        usable = isinstance(node, dict | bool)
        return clean_subschema(cast("object", node)) if usable else None

    def is_in_place(self, reference: str) -> bool:
        """Return whether the pointer itself has a target, rather than a nested definition of the same name."""
        return reference in {"#", "#/"} or self._at(reference) is not None

    def _at(self, reference: str) -> Any:
        node: Any = self._root
        for token in reference[2:].split("/"):
            node = _step(node, _unescaped(token))
        return node

    def _nested_definitions(self) -> JsonObject:
        if self._nested is None:
            nested: JsonObject = {}
            for node in _containers(self._root):
                for key in ("$defs", "definitions"):
                    if isinstance(node.get(key), dict):
                        for name, schema in node[key].items():
                            nested.setdefault(name, schema)
            self._nested = nested
        return self._nested


# Merging.

#: Groups of keywords that only have a meaning together: if the left schema has one, all are taken from it.
_GROUPS: Final = (
    frozenset({"prefixItems", "items", "additionalItems", "unevaluatedItems"}),
    frozenset({"contains", "minContains", "maxContains"}),
    frozenset({"if", "then", "else"}),
)
_GROUP_OF: Final = {keyword: group for group in _GROUPS for keyword in group}
_ALTERNATIVES: Final = ("anyOf", "oneOf")
_MAX_FOLDING_DEPTH: Final = 8
_MAX_ALTERNATIVES_TEXT: Final = 300

_Combine: TypeAlias = Callable[[Any, Any], Any]


def _as_list(types: Any) -> list[str]:
    return [types] if isinstance(types, str) else types


def _types(left: Any, right: Any) -> Any:
    allowed = set(_as_list(right))
    if "number" in allowed:
        allowed.add("integer")
    shared = [name for name in _as_list(left) if name in allowed]
    if "number" in _as_list(left) and "integer" in allowed and "number" not in allowed:
        shared.append("integer")
    if not shared:
        return left
    return shared[0] if len(shared) == 1 else list(dict.fromkeys(shared))


def _union(left: list[Any], right: list[Any]) -> list[Any]:
    return list(dict.fromkeys((*left, *right)))


def _key(value: Any) -> Any:
    """A key that compares values as JSON does: 1 equals 1.0, but not true."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if number else json.encode(value)


def _shared_values(left: list[Any], right: list[Any]) -> list[Any]:
    wanted = {_key(value) for value in right}
    return [value for value in left if _key(value) in wanted] or left


def _maps(left: JsonObject, right: JsonObject) -> JsonObject:
    merged = dict(left)
    for name, schema in right.items():
        merged[name] = both(merged[name], schema) if name in merged else schema
    return merged


def _first_definitions(left: JsonObject, right: JsonObject) -> JsonObject:
    return {**right, **left}


_COMBINE: Final[dict[str, _Combine]] = {
    "type": _types,
    "required": _union,
    "enum": _shared_values,
    "properties": _maps,
    "patternProperties": _maps,
    "$defs": _first_definitions,
    "definitions": _first_definitions,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems"), max),
    **dict.fromkeys(("minProperties",), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems"), min),
    **dict.fromkeys(("maxProperties",), min),
}


def both(left: Subschema, right: Subschema) -> Subschema:
    """Return a schema for the values that ``left`` and ``right`` accept."""
    if left is True or right is False:
        return right
    if right is True or left is False:
        return left
    merged = dict(left)
    for keyword, value in right.items():
        group = _GROUP_OF.get(keyword)
        if group is not None and not group.isdisjoint(left):
            if keyword == "items" and _only_items(left, right):
                merged["items"] = both(merged["items"], value)
        elif keyword not in merged:
            merged[keyword] = value
        elif keyword in _COMBINE:
            merged[keyword] = _COMBINE[keyword](merged[keyword], value)
    return merged


def _only_items(left: Any, right: Any) -> bool:
    return "items" in left and "prefixItems" not in left and "prefixItems" not in right


def flattened(
    schema: Subschema, references: References, inside: frozenset[str], used: set[str]
) -> Subschema:
    """Return ``schema`` merged with the target of its ``$ref`` and with all of ``allOf``.

    Args:
        schema: The schema.
        references: The document's references.
        inside: References through which this place was reached; they are not followed again.
        used: A set to which the followed references are added.
    """
    if isinstance(schema, bool) or ("$ref" not in schema and "allOf" not in schema):
        return schema
    merged: Subschema = {
        keyword: value for keyword, value in schema.items() if keyword not in {"$ref", "allOf"}
    }
    if "$ref" in schema:
        reference = schema["$ref"]
        target = references.expand(reference, inside)
        inside |= {reference}
        used.add(reference)
        if target is not None:
            merged = both(merged, flattened(target, references, inside, used))
    for branch in schema.get("allOf", ()):
        merged = both(merged, flattened(branch, references, inside, used))
    return merged


def _object_branches(
    branches: list[Subschema], references: References, inside: frozenset[str], depth: int
) -> list[JsonObject] | None:
    """Return the alternatives that an object can satisfy, or ``None`` if one of them accepts anything."""
    objects: list[JsonObject] = []
    for branch in branches:
        plain = flattened(branch, references, inside, set())
        if plain is True or plain == {}:
            return None
        if plain is False or "object" not in _as_list(plain.get("type", "object")):
            continue
        for keyword in _ALTERNATIVES:
            if keyword in plain:
                plain, _ = folded(plain, keyword, references, inside, depth + 1)
        objects.append(plain)
    return objects


def _alternatives_text(keyword: str, objects: list[JsonObject]) -> str:
    texts: list[str] = []
    for branch in objects:
        names = branch.get("required") or list(branch.get("properties", ()))
        title = branch.get("title", "")
        listed = ", ".join(names)
        texts.append(f"{title}: {listed}" if title and listed else title or listed)
    texts = [text for text in dict.fromkeys(texts) if text]
    if len(texts) < 2:
        return ""
    opening = "exactly one of" if keyword == "oneOf" else "at least one of"
    text = f"{opening}: {' | '.join(texts)}"
    return text if len(text) <= _MAX_ALTERNATIVES_TEXT else f"{text[:_MAX_ALTERNATIVES_TEXT]}…"


def folded(
    schema: JsonObject,
    keyword: str,
    references: References,
    inside: frozenset[str],
    depth: int = 0,
) -> tuple[JsonObject, str]:
    """Return ``schema`` with the alternatives of ``keyword`` merged into its properties, and a text that describes them."""
    rest = {name: value for name, value in schema.items() if name != keyword}
    if depth > _MAX_FOLDING_DEPTH:
        return rest, ""
    objects = _object_branches(schema[keyword], references, inside, depth)
    if not objects:
        return rest, ""
    declared: dict[str, list[Subschema]] = {}
    for branch in objects:
        for name, item in branch.get("properties", {}).items():
            declared.setdefault(name, []).append(item)
    common: dict[str, None] = dict.fromkeys(objects[0].get("required", ()))
    for branch in objects[1:]:
        needed = set(branch.get("required", ()))
        common = {name: None for name in common if name in needed}
    addition: JsonObject = {}
    if declared:
        addition["properties"] = {name: either(items) for name, items in declared.items()}
    if common:
        addition["required"] = list(common)
    merged = cast("JsonObject", both(rest, addition))
    return merged, _alternatives_text(keyword, objects)
