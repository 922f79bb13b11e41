r"""What a server that compiles schemas to a grammar can compile (llama.cpp; LCP-07).

Rules:
1. A pattern is anchored at both ends and made only of plain characters, sets, groups, alternatives and
   short repetitions: class escapes (``\d``), look-around and lazy repetition do not compile.
2. Repetitions stay below the server's limit, lower bounds below upper ones, integers within 53 bits.
3. Properties called ``$ref`` or ``$defs`` are read as keywords there, so they are not declared; other
   properties are only allowed for beside plain names, whose complement can be written as a set.
"""

import math
import re
from typing import Any, Final

from multi_llm_chat.history.values import JsonObject

MAX_REPETITIONS: Final = 1_000
_MAX_INTEGER: Final = 2**53

_PATTERN: Final = re.compile(
    r"""\^(?:
        (?: [A-Za-z0-9\ _,:;@/=<>!\#%&'~-] | \\[.()\[\]{}|*+?^$] | \.
          | \[\^?[A-Za-z0-9\ _.,:;@/=+*?!\#%&()<>$-]+\] | \((?:\?:)? | \) | \| )
        (?: [*+?] | \{[0-9]{1,3}(?:,[0-9]{0,3})?\} )?
    )+\$\Z""",
    re.VERBOSE,
)
#: Empty groups and alternatives, and repetition of something that is not there.
_HOLLOW: Final = re.compile(
    r"(?<!\\)(?:\((?:\?:)?[)|*+{]|\|[)|*+?{]|\(\?(?!:)|[*+?}][*+?{])|^\^[|*+?{]|(?<!\\)\|\$$"
)
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_]+\Z")
_KEYWORD_NAMES: Final = frozenset({"$ref", "$defs"})
_COUNTS: Final = (("minLength", "maxLength"), ("minItems", "maxItems"))
_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


def compiles(pattern: str) -> bool:
    """Tell whether the server can compile ``pattern``."""
    return _PATTERN.match(pattern) is not None and _HOLLOW.search(pattern) is None


def _small(value: Any) -> bool:
    return isinstance(value, int) and -_MAX_INTEGER <= value <= _MAX_INTEGER


def _bad_bounds(schema: JsonObject) -> set[str]:
    bad: set[str] = set()
    for low, high in _COUNTS:
        if schema.get(low, 0) > schema.get(high, MAX_REPETITIONS):
            bad |= {low, high}
        bad |= {key for key in (low, high) if schema.get(key, 0) > MAX_REPETITIONS}
    present = [key for key in _BOUNDS if key in schema]
    lowest = max(schema.get("minimum", -math.inf), schema.get("exclusiveMinimum", -math.inf) + 1)
    highest = min(schema.get("maximum", math.inf), schema.get("exclusiveMaximum", math.inf) - 1)
    if lowest > highest or not all(_small(schema[key]) for key in present):
        bad |= set(present)
    return bad


def tamed(schema: JsonObject) -> tuple[JsonObject, list[str]]:
    """Return what of ``schema`` compiles, and the keywords that were left out or changed."""
    bad = {key for key in _bad_bounds(schema) if key in schema}
    if "pattern" in schema and not compiles(schema["pattern"]):
        bad.add("pattern")
    properties = schema.get("properties", {})
    plain = {name: item for name, item in properties.items() if name not in _KEYWORD_NAMES}
    complement = all(_PLAIN_NAME.match(name) for name in plain)
    opened = schema.get("additionalProperties", False) is not False
    if len(plain) < len(properties) or (opened and not complement):
        bad |= {"additionalProperties"} & schema.keys()
    kept = {keyword: value for keyword, value in schema.items() if keyword not in bad}
    if len(plain) < len(properties):
        kept["properties"] = plain
        kept["required"] = [name for name in schema.get("required", ()) if name in plain]
        bad.add("properties")
    return kept, sorted(bad)
