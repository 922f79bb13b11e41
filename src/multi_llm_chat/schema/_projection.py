"""Projects a valid schema to one that a dialect accepts.

Rules:
1. A schema is settled first (references, ``allOf``, the dialect's forms, alternatives), then filtered
   keyword by keyword, then completed.
2. Every step may only loosen the schema: the projection accepts all that the original accepts. The dialect forces the
   exceptions: an added type (``any_value``), strict objects, folded alternatives.
3. Each node is visited once per place where it is used, within a budget; nodes beyond the budget, and those deeper than
   ``MAX_OUTPUT_DEPTH`` that contain others, become a schema for any value. The input is never changed.
"""

import re
from collections.abc import Container, Iterable
from typing import Any, Final, TypeAlias, cast

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.schema._descriptions import SchemaPlace, described
from multi_llm_chat.schema._merge import References, both, flattened, folded, is_definition
from multi_llm_chat.schema._normal_form import (
    anything,
    completing_steps,
    is_null,
    settling_steps,
    typing_step,
    without,
)
from multi_llm_chat.schema.cleanup import Subschema, is_portable
from multi_llm_chat.schema.dialect_rules import SchemaRules

#: A level of schemas is two levels of JSON, and protobuf parsers stop at 100 levels of JSON. The limit is also
#: smaller than that of cleaning, so that a projection is never cut when it is projected again.
MAX_OUTPUT_DEPTH: Final = 20
MAX_OUTPUT_NODES: Final = 10_000

_Inside: TypeAlias = frozenset[str]

_ONE: Final = frozenset(
    {"items", "additionalItems", "unevaluatedItems", "contains", "additionalProperties", "not"}
    | {"unevaluatedProperties", "propertyNames", "if", "then", "else", "contentSchema"}
)
_MANY: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
_NESTED: Final = _ONE | _MANY | _NAMED
#: Keywords that may have a boolean value even in dialects in which ``true`` is not a schema.
_SWITCHES: Final = frozenset({"additionalProperties", "unevaluatedProperties"})
_ANNOTATIONS: Final = frozenset({"description", "title", "nullable"})
#: Keywords that are too large to repeat in every alternative of an ``anyOf``.
_STRUCTURE: Final = frozenset(
    {"properties", "required", "items", "prefixItems", "enum", "const", "additionalProperties"}
)
_UNSAFE_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]+")


def _is_leaf(schema: JsonObject) -> bool:
    """Whether a schema contains no other schema."""
    return "$ref" not in schema and not any(
        schema[keyword] and schema[keyword] is not True for keyword in _NESTED & schema.keys()
    )


def unique_name(wanted: str, taken: Container[str]) -> str:
    """Return ``wanted`` or, if it is taken, ``wanted`` with the first number that makes it unique."""
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}_{number}", number + 1
    return name


def _says(rules: SchemaRules, keyword: str, value: Any) -> bool:
    """Return whether the dialect accepts this value of a keyword that it knows."""
    if keyword == "format":
        return rules.formats is None or value in rules.formats
    return keyword != "pattern" or is_portable(value)


class Projection:
    """Projects one schema to one dialect; ``dropped`` lists what was removed."""

    def __init__(self, rules: SchemaRules, references: References, *, moved: bool) -> None:
        self.rules = rules
        self.references = references
        self.dropped: list[str] = []
        self._root = references.target("#")
        # Whether the root has changed its shape: then pointers into it have no target.
        self._moved = moved
        self._remaining = MAX_OUTPUT_NODES
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()
        self._pending: list[tuple[str, Subschema]] = []
        self._settling = settling_steps(rules)
        self._completing = completing_steps(rules)
        self._typing = typing_step(rules)

    def root(self, schema: JsonObject, inside: _Inside) -> JsonObject:
        """Return the projected root, which was reached through the references ``inside``."""
        if self.rules.references == "keep":
            self._taken.update(schema.get("$defs", ()))
        return cast("JsonObject", self._project(schema, SchemaPlace((), self.dropped), 0, inside))

    def definitions(self) -> dict[str, Subschema]:
        """Return the projected definitions that ``root`` has collected."""
        finished: dict[str, Subschema] = {}
        while self._pending:
            name, target = self._pending.pop()
            place = SchemaPlace(("$defs", name), self.dropped)
            finished[name] = self._project(target, place, 2, frozenset())
        return finished

    # --- one schema ---

    def _project(
        self, schema: Subschema, place: SchemaPlace, depth: int, inside: _Inside
    ) -> Subschema:
        if isinstance(schema, bool):
            return self._boolean(schema, place)
        if (depth > MAX_OUTPUT_DEPTH and not _is_leaf(schema)) or self._remaining <= 0:
            free = anything(self.rules, {})
            if schema != free:
                place.drop()
            return free
        self._remaining -= 1
        if "allOf" in schema and not self.rules.takes("allOf"):
            schema, inside = self._without_all_of(schema, inside)
        if "$ref" in schema:
            resolved, inside, final = self._reference(schema, place, inside)
            if final:
                return resolved
            if isinstance(resolved, bool):
                return self._boolean(resolved, place)
            schema = resolved
        return self._settled(schema, place, depth, inside)

    def _settled(
        self, schema: JsonObject, place: SchemaPlace, depth: int, inside: _Inside
    ) -> Subschema:
        for settle in self._settling:
            schema = settle(schema, place)
        if "anyOf" in schema and self.rules.lonely_any_of:
            final, schema = self._alternatives(schema, place, depth, inside)
            if final is not None:
                return final
        return self._completed(self._filtered(schema, place, depth, inside), place)

    def _filtered(
        self, schema: JsonObject, place: SchemaPlace, depth: int, inside: _Inside
    ) -> JsonObject:
        rules = self.rules
        result: JsonObject = {}
        patterned = "patternProperties" in schema
        portable = patterned and all(map(is_portable, schema["patternProperties"]))
        # Without its patterns, ``additionalProperties: false`` would forbid the properties that they allow.
        opened = patterned and not (portable and rules.takes("patternProperties"))
        gone = {*_SWITCHES, "patternProperties"} if opened else set[str]()
        for keyword, value in schema.items():
            if not rules.takes(keyword) or keyword in gone or not _says(rules, keyword, value):
                place.drop(keyword, value)
            elif keyword in _NESTED:
                result[keyword] = self._nested(keyword, value, place, depth + 1, inside)
            else:
                result[keyword] = value
        return result

    def _nested(
        self, keyword: str, value: Any, place: SchemaPlace, depth: int, inside: _Inside
    ) -> Any:
        if keyword in _ONE:
            if isinstance(value, bool) and keyword in _SWITCHES:
                return value
            return self._project(value, place.below(keyword), depth, inside)
        if keyword in _MANY:
            return [
                self._project(item, place.below(keyword, str(index)), depth, inside)
                for index, item in enumerate(value)
            ]
        entries: JsonObject = {}
        for name, item in value.items():
            # An entry of ``dependencies`` may be a list of names.
            listed = isinstance(item, list)
            inner = place.below(keyword, name)
            entries[name] = item if listed else self._project(item, inner, depth, inside)
        return entries

    def _completed(self, schema: JsonObject, place: SchemaPlace) -> JsonObject:
        for complete in self._completing:
            schema = complete(schema, place)
        schema = described(schema, place.notes)
        return schema if self._typing is None else self._typing(schema, place)

    def _boolean(self, schema: bool, place: SchemaPlace) -> Subschema:
        if self.rules.boolean_schemas:
            return schema
        if not schema:
            place.drop()
        return anything(self.rules, {} if schema else {"description": "(not allowed)"})

    # --- references ---

    def _without_all_of(self, schema: JsonObject, inside: _Inside) -> tuple[JsonObject, _Inside]:
        rest = without(schema, "allOf")
        only: Subschema = schema["allOf"][0] if len(schema["allOf"]) == 1 else False
        bare = self.rules.references == "collect" and rest.keys() <= _ANNOTATIONS
        if bare and not isinstance(only, bool) and "$ref" in only and "allOf" not in only:
            # An ``allOf`` with one reference is the older way to give a reference a description: keep the reference.
            return cast("JsonObject", both(rest, only)), inside
        used: set[str] = set()
        flat = flattened(schema, self.references, inside, used)
        return ({"not": {}} if isinstance(flat, bool) else flat), inside | used

    def _reference(
        self, schema: JsonObject, place: SchemaPlace, inside: _Inside
    ) -> tuple[Subschema, _Inside, bool]:
        """Return the schema to continue with and ``False``, or the finished schema and ``True``."""
        rest = without(schema, "$ref")
        reference: str = schema["$ref"]
        if self.rules.references == "inline":
            return (*self._inlined(rest, reference, place, inside), False)
        target = self.references.target(reference)
        if target is None:
            place.drop("$ref", reference)
            return rest, inside, False
        if target is self._root and (not self.rules.root_reference or self._moved):
            place.drop("$ref")
            return both(rest, {"type": "object"}), inside, False
        if self.rules.references == "collect":
            return self._collected(rest, reference, target, place), inside, True
        is_lost = self._moved and not is_definition(reference)
        if is_lost or not self.references.is_in_place(reference):
            reference = self._defined(reference, target)
        return {**schema, "$ref": reference}, inside, False

    def _inlined(
        self, rest: Subschema, reference: str, place: SchemaPlace, inside: _Inside
    ) -> tuple[Subschema, _Inside]:
        target = self.references.expand(reference, inside)
        if target is not None:
            used = {reference}
            merged = flattened(both(rest, target), self.references, inside | used, used)
            return merged, inside | used
        known = self.references.target(reference)
        if known is None:
            place.drop("$ref", reference)
            return rest, inside
        # The schema contains itself: keep only its type.
        place.drop("$ref")
        kind = "object" if isinstance(known, bool) else known.get("type", "object")
        return both(rest, {"type": kind}), inside

    def _collected(
        self, rest: JsonObject, reference: str, target: Subschema, place: SchemaPlace
    ) -> JsonObject:
        result: JsonObject = {"$ref": self._defined(reference, target)}
        kept: JsonObject = {}
        for keyword, value in rest.items():
            if keyword in _ANNOTATIONS and self.rules.takes(keyword):
                kept[keyword] = value
            else:
                place.drop(keyword, value)
        kept = described(kept, place.notes)
        if kept and self.rules.lonely_reference:
            return {"anyOf": [result], **kept}
        return {**result, **kept}

    def _defined(self, reference: str, target: Subschema) -> str:
        """Return the reference to ``target`` among the collected definitions."""
        if reference == "#":
            return reference
        name = self._names.get(reference)
        if name is None:
            wanted = _UNSAFE_NAME.sub("_", reference.rpartition("/")[2]) or "definition"
            name = self._names[reference] = unique_name(wanted, self._taken)
            self._taken.add(name)
            self._pending.append((name, target))
        return f"#/$defs/{name}"

    # --- anyOf in dialects that allow no other keyword next to it ---

    def _alternatives(
        self, schema: JsonObject, place: SchemaPlace, depth: int, inside: _Inside
    ) -> tuple[Subschema | None, JsonObject]:
        """Return a finished schema with ``anyOf`` as its only keyword, or None and a schema without ``anyOf`` to continue with."""
        rest = without(schema, "anyOf")
        branches: list[Any] = [branch for branch in schema["anyOf"] if branch is not False]
        if self.rules.nullable:
            kept = [branch for branch in branches if not is_null(branch)]
            if len(kept) < len(branches):
                rest["nullable"] = True
                branches = kept
        if not branches or any(branch is True or branch == {} for branch in branches):
            return None, rest
        if len(branches) == 1:
            merged = both(described(rest, place.notes), branches[0])
            return self._project(merged, place.below(), depth, inside), rest
        if not _STRUCTURE.isdisjoint(rest):
            place.drop("anyOf")
            plain, text = folded({**rest, "anyOf": branches}, "anyOf", self.references, inside)
            place.notes.append(text)
            return None, plain
        return self._only_any_of(rest, branches, place, depth, inside), rest

    def _only_any_of(
        self,
        rest: JsonObject,
        branches: Iterable[Any],
        place: SchemaPlace,
        depth: int,
        inside: _Inside,
    ) -> JsonObject:
        shared: JsonObject = {}
        for keyword, value in rest.items():
            if not self.rules.takes(keyword):
                place.drop(keyword, value)
            elif keyword not in _ANNOTATIONS:
                shared[keyword] = value
        projected: list[JsonObject] = []
        for index, branch in enumerate(branches):
            inner = place.below("anyOf", str(index))
            result = self._project(both(branch, shared), inner, depth + 1, inside)
            alternative = cast("JsonObject", result)
            projected.extend(
                alternative["anyOf"] if alternative.keys() == {"anyOf"} else [alternative]
            )
        # Nothing may be next to anyOf: the first alternative gets the description of all.
        annotations = described({k: rest[k] for k in _ANNOTATIONS if k in rest}, place.notes)
        first = {**projected[0], **annotations}
        words = (annotations.get("description"), projected[0].get("description"))
        if all(words):
            first["description"] = " ".join(cast("tuple[str, str]", words))
        return {"anyOf": [first, *projected[1:]]}
