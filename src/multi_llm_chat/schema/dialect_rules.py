"""What each dialect accepts in the schema of a tool's arguments, as data.

Rules:
1. A keyword is accepted if ``keywords`` names it (``None``: all) and ``refused`` does not.
2. All other fields describe the *form* of a schema; ``schema._projection`` rewrites a schema into this form.
3. A dialect that has no ``SchemaRules`` here uses ``OPENAI``.

The ids in comments are those of the catalogue of provider rules (``protocol.rules``).
"""

from typing import Any, Final, Literal

from msgspec import Struct

from multi_llm_chat.history.values import JsonObject

_NOTHING: Final[frozenset[str]] = frozenset()
_COMBINATORS: Final = frozenset({"anyOf", "oneOf", "allOf"})


class SchemaRules(Struct, frozen=True):
    """The schemas a dialect accepts.

    Attributes:
        keywords: Keywords it knows; ``None`` for all.
        refused: Keywords it refuses although ``keywords`` would allow them.
        root_refused: Keywords it refuses at the root; combinators are folded.
        formats: Values of ``format`` it knows; ``None`` for all.
        references: ``keep`` them where they are, ``collect`` their targets in ``$defs``
            (unreferenced definitions are removed), or ``inline`` them.
        root_reference: Whether a reference to ``#`` is allowed.
        lonely_reference: Whether ``$ref`` must be the only keyword of its schema.
        lonely_any_of: Whether ``anyOf`` must be the only keyword of its schema.
        boolean_schemas: Whether ``true`` and ``false`` are schemas.
        type_lists: Whether ``type`` may be a list.
        nullable: Whether null is written as ``nullable: true`` instead of as a type.
        enum_values: Which values an ``enum`` may have.
        array_items: Whether an array must have ``items``.
        empty_properties: Whether ``properties`` may be empty below the root.
        declared_required: Whether ``required`` may only name declared properties.
        any_value: The schema for "any value" if a type is required; ``None`` if it is not.
        strict: Whether every property is required and no other allowed.
        grammar: Whether the server compiles the schema to a grammar.
        root_names: Pattern of the names of the root's properties.
    """

    keywords: frozenset[str] | None = None
    refused: frozenset[str] = _NOTHING
    root_refused: frozenset[str] = _NOTHING
    formats: frozenset[str] | None = None
    references: Literal["keep", "collect", "inline"] = "keep"
    root_reference: bool = True
    lonely_reference: bool = False
    lonely_any_of: bool = False
    boolean_schemas: bool = True
    type_lists: bool = True
    nullable: bool = False
    enum_values: Literal["any", "scalar", "string"] = "any"
    array_items: bool = False
    empty_properties: bool = True
    declared_required: bool = False
    any_value: JsonObject | None = None
    strict: bool = False
    grammar: bool = False
    root_names: str | None = None

    def takes(self, keyword: str) -> bool:
        """Return whether the dialect knows ``keyword``."""
        known = self.keywords is None or keyword in self.keywords
        return known and keyword not in self.refused


_SHAPE: Final = frozenset(
    {"type", "description", "enum", "properties", "required", "items", "anyOf"}
)
_SIZES: Final = frozenset(
    {"minItems", "maxItems", "minLength", "maxLength", "pattern", "minimum", "maximum"}
)
_SCALARS: Final = ("string", "number", "boolean")


def _union(*types: str) -> list[Any]:
    return [{"type": name} for name in types]


# OAI-14: an object without properties, an array without items, and anything but a plain object
# at the root are refused ("must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/
# 'not' at the top level").
OPENAI: Final = SchemaRules(
    root_refused=_COMBINATORS | {"enum", "not", "$ref"},
    array_items=True,
)

# OAI-22: structured output and strict tools.
OPENAI_STRICT: Final = SchemaRules(
    keywords=_SHAPE
    | {
        "title",
        "const",
        "format",
        "pattern",
        "minItems",
        "maxItems",
        "$ref",
        "additionalProperties",
    }
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    root_refused=_COMBINATORS | {"enum", "const", "$ref"},
    formats=frozenset(
        {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
    ),
    references="collect",
    lonely_reference=True,
    boolean_schemas=False,
    enum_values="scalar",
    array_items=True,
    any_value={"type": [*_SCALARS, "null"]},
    strict=True,
)

# ANT-18, and "property keys should match pattern" at the root.
ANTHROPIC: Final = SchemaRules(
    root_refused=_COMBINATORS | {"$ref"},
    root_names=r"[a-zA-Z0-9_.-]{1,64}",
)

# GEM-13 to GEM-17: the proto message ``Schema``, which is not JSON Schema. ``any_value`` cannot contain an array of any
# values, because every array must declare its items.
GEMINI_PARAMETERS: Final = SchemaRules(
    keywords=_SHAPE
    | _SIZES
    | {"title", "format", "nullable", "minProperties", "maxProperties", "propertyOrdering"},
    root_refused=_COMBINATORS | {"$ref", "enum", "const", "nullable"},
    formats=frozenset({"enum", "date-time"}),
    references="inline",
    lonely_any_of=True,
    boolean_schemas=False,
    type_lists=False,
    nullable=True,
    enum_values="string",
    array_items=True,
    empty_properties=False,
    declared_required=True,
    any_value={"anyOf": _union(*_SCALARS, "object")},
)

# GEM-22: the keywords that Google documents for JSON Schema; ``format`` only ever worked as text.
GEMINI_JSON_SCHEMA: Final = SchemaRules(
    keywords=_SHAPE
    | {"title", "prefixItems", "minItems", "maxItems", "minimum", "maximum", "propertyOrdering"}
    | {"additionalProperties", "$ref"},
    root_refused=frozenset({"$ref"}),
    references="collect",
    root_reference=False,
    lonely_reference=True,
    boolean_schemas=False,
    enum_values="scalar",
)

# MIS-10, MIS-13. Tuples are written without ``prefixItems``, which Draft 7 does not have.
MISTRAL: Final = SchemaRules(
    refused=frozenset({"$id", "$schema", "prefixItems"}),
    root_refused=frozenset({"$ref"}),
)

# OLL-06: the server decodes schemas into Go structs; keywords without a field would be silently lost.
OLLAMA: Final = SchemaRules(
    keywords=_SHAPE,
    root_refused=_COMBINATORS | {"$ref", "enum", "const"},
    references="inline",
    boolean_schemas=False,
)

# FWK-02.
FIREWORKS: Final = SchemaRules(
    refused=frozenset({"$defs", "definitions"}),
    root_refused=OPENAI.root_refused,
    references="inline",
    array_items=True,
)

# LCP-07: what the server's grammar builder converts; it reads an empty schema as "object".
LLAMACPP: Final = SchemaRules(
    keywords=_SHAPE
    | _SIZES
    | {"title", "const", "format", "prefixItems", "additionalProperties", "$ref"}
    | {"exclusiveMinimum", "exclusiveMaximum"},
    root_refused=_COMBINATORS | {"$ref", "enum", "const"},
    references="collect",
    root_reference=False,
    lonely_any_of=True,
    boolean_schemas=False,
    enum_values="scalar",
    any_value={"type": [*_SCALARS, "object", "array", "null"]},
    grammar=True,
)
