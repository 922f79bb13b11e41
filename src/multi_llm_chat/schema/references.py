"""What a ``$ref`` points at.

Rules:
1. References are JSON pointers into the one document: ``#``, ``#/$defs/…``, ``#/definitions/…``,
   or to any other place, with ``~0``, ``~1`` and percent escapes. Nothing is ever fetched.
2. A definition that is missing at the root is looked for in nested ``$defs``: schemas glued
   together from several generators leave them there.
3. A circle of nothing but references points nowhere.
4. ``expand`` gives a target for copying and counts: after ``MAX_EXPANSIONS`` it gives nothing, so that
   definitions which double each other cannot make a small schema a huge one.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, cast
from urllib.parse import unquote

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.schema.cleanup import Subschema, clean_subschema

#: How often definitions are copied within one schema, and how deep into each other.
MAX_EXPANSIONS: Final = 2_000
MAX_CHAIN: Final = 24

_DEFINITION: Final = re.compile(r"#/(?:\$defs|definitions)/([^/]+)\Z")


def is_definition(reference: str) -> bool:
    """Tell whether the reference names an entry of ``$defs`` or ``definitions`` at the root."""
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
    """The reference that a schema comes down to, if it is hardly more than one."""
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
        """Return the schema that is meant, or ``None`` where there is none."""
        if reference not in self._targets:
            self._targets[reference] = self._followed(reference)
        return self._targets[reference]

    def expand(self, reference: str, inside: frozenset[str]) -> Subschema | None:
        """Return the target for copying into a place reached through the references ``inside``."""
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
        node: Any = self._root
        for token in reference[2:].split("/"):
            node = _step(node, _unescaped(token))
        definition = _DEFINITION.match(reference)
        if node is None and definition is not None:
            node = self._nested_definitions().get(_unescaped(definition[1]))
        elif definition is not None:
            return node  # the entries of $defs are clean already
        usable = isinstance(node, dict | bool)
        return clean_subschema(cast("object", node)) if usable else None

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
