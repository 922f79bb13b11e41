"""The schema of a tool's arguments, in the form that each dialect accepts.

Rules:
1. ``clean_schema`` turns any value into a valid schema of an object; ``project_schema`` turns that into one that a
   dialect accepts. Both accept any input, are deterministic and idempotent, and do not change their input.
2. The root stays an object with ``properties``: alternatives and references at the root are folded
   into it if the dialect does not allow them there.
3. ``renamed`` maps argument names that had to change to the names that the tool knows.
4. ``recall_projection`` caches projections, because request after request offers the same tools.
   The key is the schema's JSON text, so that a changed schema is another schema; every caller gets a
   fresh value; the cache is bounded; a schema that cannot be written as JSON is projected each time.
"""

import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.schema._descriptions import described, note
from multi_llm_chat.schema._merge import References, flattened, folded
from multi_llm_chat.schema._projection import Projection, unique_name
from multi_llm_chat.schema.cleanup import clean_schema
from multi_llm_chat.schema.dialect_rules import SchemaRules

#: Keywords at the root that refer to properties by name, besides ``properties`` and ``required``.
_NAMING: Final = frozenset(
    {"dependentRequired", "dependentSchemas", "dependencies", "propertyNames", "patternProperties"}
    | {"if", "then", "else", "not", "propertyOrdering"}
)
_NAME_CHARACTERS: Final = re.compile(r"[^a-zA-Z0-9_.-]")
_MAX_NAME: Final = 64


class Projected(Struct, frozen=True):
    """A schema for one dialect.

    Attributes:
        schema: The schema to send.
        dropped: JSON pointers to the keywords that the dialect does not support; most of them are in a description.
        renamed: Maps each argument name that had to change to the name that the tool knows.
    """

    schema: JsonObject
    dropped: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])


class _Root(Struct):
    """The root of a schema while it is projected: its current form, the notes for its description, and what was dropped."""

    schema: JsonObject
    references: References
    inside: frozenset[str] = frozenset()
    notes: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict[str, str])

    def drop(self, keyword: str, *, spoken: bool = False) -> None:
        """Record that ``keyword`` is removed from the root; with ``spoken``, also in the description."""
        self.dropped.append(f"/{keyword}")
        if spoken:
            self.notes.append(note(keyword, self.schema[keyword]))


def _fold(root: _Root, refused: frozenset[str]) -> None:
    """Merge the refused keywords of the root into its properties."""
    before = root.schema
    if refused & {"$ref", "allOf"} & before.keys():
        # MISTRAL and others accept allOf at the root, so it stays there while a reference is merged in.
        kept = {"allOf"} - refused
        whole = {keyword: before[keyword] for keyword in before if keyword not in kept}
        used: set[str] = set()
        flat = flattened(whole, root.references, frozenset(), used)
        root.dropped.extend(f"/{keyword}" for keyword in ("$ref", "allOf") if keyword in whole)
        root.inside = frozenset(used)
        if isinstance(flat, bool):
            flat = {
                keyword: whole[keyword] for keyword in whole if keyword not in {"$ref", "allOf"}
            }
        root.schema = {
            **flat,
            **{keyword: before[keyword] for keyword in kept if keyword in before},
        }
    for keyword in ("anyOf", "oneOf"):
        if keyword in refused and keyword in root.schema:
            root.drop(keyword)
            root.schema, text = folded(root.schema, keyword, root.references, root.inside)
            root.notes.append(text)
    for keyword in ("enum", "const", "not", "nullable"):
        if keyword in refused and keyword in root.schema:
            root.drop(keyword, spoken=True)
            root.schema = {k: item for k, item in root.schema.items() if k != keyword}
    if root.schema is not before:
        # Merging has moved properties, so ``unevaluatedProperties`` would apply to others than before.
        root.schema = {k: v for k, v in root.schema.items() if k != "unevaluatedProperties"}


def _rename(root: _Root, pattern: str) -> None:
    """Rename the root's properties whose names the dialect refuses."""
    legal = re.compile(pattern)
    properties: JsonObject = root.schema["properties"]
    names = {name: name for name in properties if legal.fullmatch(name)}
    if len(names) == len(properties):
        return
    taken = set(names)
    for name in properties:
        if name not in names:
            # Leaves room for the number that ``unique_name`` may append.
            plain = _NAME_CHARACTERS.sub("_", name)[: _MAX_NAME - 8] or "_"
            names[name] = unique_name(plain, taken)
            taken.add(names[name])
            root.renamed[names[name]] = name
    for keyword in _NAMING & root.schema.keys():
        root.drop(keyword, spoken=True)
    root.schema = {k: item for k, item in root.schema.items() if k not in _NAMING}
    root.schema["properties"] = {
        names[name]: _called(item, name) if names[name] in root.renamed else item
        for name, item in properties.items()
    }
    required = root.schema.get("required", ())
    root.schema["required"] = [names.get(name, name) for name in required]
    if "required" not in root.schema or not required:
        root.schema.pop("required")


def _called(schema: Any, name: str) -> Any:
    text = f"argument {name}" if len(name) <= _MAX_NAME else f"argument {name[:_MAX_NAME]}…"
    return schema if isinstance(schema, bool) else described(schema, [text])


def project_schema(schema: object, rules: SchemaRules) -> Projected:
    """Return the schema of a tool's arguments in the form that a dialect accepts.

    Args:
        schema: Any value; it is cleaned first.
        rules: The dialect's rules, such as ``OPENAI``.
    """
    clean = clean_schema(schema)
    root = _Root(clean, References(clean))
    _fold(root, rules.root_refused)
    if rules.root_names is not None:
        _rename(root, rules.root_names)
    projection = Projection(rules, root.references, moved=root.schema is not clean)
    projected = projection.root(root.schema, root.inside)
    projected = described(projected, root.notes)
    projected["type"] = "object"
    if rules.empty_properties:
        projected.setdefault("properties", {})
    definitions = projection.definitions()
    if definitions:
        projected["$defs"] = {**projected.get("$defs", {}), **definitions}
    return Projected(projected, (*root.dropped, *projection.dropped), root.renamed)


_MOST = 1024
_UNWRITABLE = (TypeError, ValueError, OverflowError, RecursionError)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict).decode

#: Rules are compared by identity (they are constants), so each entry also keeps them alive.
_remembered: OrderedDict[tuple[int, bytes], tuple[SchemaRules, Projected, bytes]] = OrderedDict()


def recall_projection(schema: JsonObject, rules: SchemaRules) -> Projected:
    """Like ``project_schema``, with a cache."""
    try:
        key = (id(rules), _encode(schema))
    except _UNWRITABLE:
        return project_schema(schema, rules)
    found = _remembered.get(key)
    if found is not None and found[0] is rules:
        _, projected, text = found
        return Projected(_decode(text), projected.dropped, projected.renamed)
    projected = project_schema(schema, rules)
    _remembered[key] = (rules, projected, _encode(projected.schema))
    if len(_remembered) > _MOST:
        # If two threads race, one projection may be made twice, but none is wrong.
        _remembered.popitem(last=False)
    return projected
