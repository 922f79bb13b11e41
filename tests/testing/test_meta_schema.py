"""The small meta-schema check agrees with jsonschema-rs about valid schemas."""

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multi_llm_chat.testing.validators.meta_schema import draft7_fault, draft2020_fault

_KEYWORDS = [
    "type", "properties", "items", "required", "enum", "const", "anyOf", "allOf", "oneOf", "not",
    "additionalProperties", "patternProperties", "definitions", "dependencies", "minimum",
    "multipleOf", "maxLength", "minItems", "uniqueItems", "title", "description", "default",
    "examples", "if", "then", "contains", "propertyNames", "format", "readOnly", "additionalItems",
    "exclusiveMaximum", "$comment", "x-unknown",
]  # fmt: skip
_MODERN = [
    *_KEYWORDS,
    "$defs",
    "prefixItems",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedItems",
    "minContains",
    "deprecated",
]

_scalars: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0, 2.0])
    | st.sampled_from(["string", "object", "foo", "null", "a"])
)

_empty: st.SearchStrategy[Any] = st.builds(dict[str, Any])


def _schemas(keywords: list[str]) -> st.SearchStrategy[Any]:
    def grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        values = (
            inner
            | st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["a", "b", "type"]), inner, max_size=2)
        )
        return st.dictionaries(st.sampled_from(keywords), values, max_size=4)

    return grow(st.recursive(_scalars | _empty, grow, max_leaves=12))


@given(schema=_schemas(_KEYWORDS))
def test_draft_7_agrees_with_jsonschema_rs(schema: dict[str, Any]) -> None:
    named = schema | {"$schema": "http://json-schema.org/draft-07/schema#"}
    assert (draft7_fault(named) is None) == jsonschema_rs.meta.is_valid(named)


@given(schema=_schemas(_MODERN))
def test_draft_2020_agrees_with_jsonschema_rs(schema: dict[str, Any]) -> None:
    named = schema | {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    assert (draft2020_fault(named) is None) == jsonschema_rs.meta.is_valid(named)


_WORDED: list[tuple[Any, str | None]] = [
    ({"type": "foo"}, "'foo' is not valid under any of the given schemas"),
    ({"pattern": "("}, "'(' is not a 'regex'"),
    ({"properties": {"a": 1}}, "1 is not of type 'object', 'boolean'"),
    ({"required": ["a", "a"]}, "['a', 'a'] has non-unique elements"),
    ({"anyOf": []}, "[] should be non-empty"),
    ({"minLength": -1}, "-1 is less than the minimum of 0"),
    ({"dependencies": {"a": ["b"], "c": {}}}, None),
    ({"items": [{}]}, None),
    (True, None),
]


@pytest.mark.parametrize(("schema", "fault"), _WORDED)
def test_a_draft_7_fault_is_worded_as_jsonschema_does(schema: object, fault: str | None) -> None:
    assert draft7_fault(schema) == fault
