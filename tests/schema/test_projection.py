"""Properties of the projection to every dialect."""

import copy
import json
from typing import Any, cast

import jsonschema_rs
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tests.strategies.schemas import nasty_schemas, scalars, valid_object_schemas, values

from multi_llm_chat.schema import dialect_rules
from multi_llm_chat.schema.cleanup import clean_schema
from multi_llm_chat.schema.dialect_rules import SchemaRules
from multi_llm_chat.schema.tool_schema import Projected, project_schema

RULES: dict[str, SchemaRules] = {
    name: value for name, value in vars(dialect_rules).items() if isinstance(value, SchemaRules)
}
META_SCHEMAS = (
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2020-12/schema",
)

#: One example goes through every dialect, so half of the examples are enough.
FEWER = settings(max_examples=max(settings().max_examples // 2, 15))

PLAIN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "location": {"type": "string", "description": "The city and state"},
        "unit": {"type": "string", "enum": ["c", "f"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "options": {"type": "object", "properties": {"verbose": {"type": "boolean"}}},
    },
    "required": ["location"],
}


#: A schema whose free values are at the deepest level.
RECURSIVE: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {}, "b": {"anyOf": [{"$comment": "x"}, {"$ref": "#"}], "properties": {}}},
}


@FEWER
@example(RECURSIVE)
@given(schema=nasty_schemas())
def test_any_value_is_projected_once_and_for_all(schema: Any) -> None:
    for name, rules in RULES.items():
        projected = project_schema(schema, rules)
        for meta_schema in META_SCHEMAS:
            jsonschema_rs.meta.validate({**projected.schema, "$schema": meta_schema})
        json.dumps(projected.schema, allow_nan=False, ensure_ascii=False).encode()
        again = project_schema(projected.schema, rules)
        assert again.schema == projected.schema, name
        assert again.dropped == (), name
        assert dict(again.renamed) == {}, name
        assert project_schema(schema, rules) == projected, name


@FEWER
@given(schema=valid_object_schemas())
def test_the_given_schema_is_never_changed(schema: dict[str, Any]) -> None:
    before = copy.deepcopy(schema)
    for rules in RULES.values():
        project_schema(schema, rules)
        assert schema == before


@pytest.mark.parametrize("name", RULES)
def test_writing_into_a_projection_is_not_noticed_by_the_next(name: str) -> None:
    schema = {"properties": {"any": True, "list": {"type": "array"}}}
    expected = copy.deepcopy(project_schema(schema, RULES[name]).schema)
    _scribble(project_schema(schema, RULES[name]).schema)
    assert project_schema(schema, RULES[name]).schema == expected


def _scribble(node: Any) -> None:
    """Overwrite everything that is mutable."""
    inner: list[Any] = cast("list[Any]", node) if isinstance(node, list) else [*node.values()]
    for item in inner:
        if isinstance(item, dict | list):
            _scribble(item)
    node.clear()


@pytest.mark.parametrize("name", [name for name in RULES if name != "OPENAI_STRICT"])
def test_a_plain_schema_passes_unchanged(name: str) -> None:
    projected = project_schema(PLAIN, RULES[name])
    assert projected.schema == PLAIN
    assert projected.dropped == ()


# --- loosening: what the original accepts, the projection accepts ---

SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": st.sampled_from(["", "a", "aaa", "foo", "b", "abc", "2026-11-15T10:00:00Z"]),
    "integer": st.integers(-4, 4),
    "number": st.integers(-4, 4) | st.sampled_from([0.5, 1.5, -2.5]),
    "boolean": st.booleans(),
    "null": st.none(),
}


def instance(data: st.DataObject, schema: Any, depth: int = 0) -> Any:
    """Draw a value that is likely to be valid."""
    if isinstance(schema, bool) or depth > 5:
        return data.draw(values)
    chosen = [schema[keyword] for keyword in ("anyOf", "oneOf", "allOf") if keyword in schema]
    if chosen and data.draw(st.booleans()):
        return instance(data, data.draw(st.sampled_from(chosen[0])), depth + 1)
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if choices and data.draw(st.booleans()):
        return data.draw(st.sampled_from(choices))
    types = schema.get("type", "object" if "properties" in schema else "any")
    name = types if isinstance(types, str) else data.draw(st.sampled_from(types))
    draw = {"object": _object, "array": _array}.get(name)
    return draw(data, schema, depth) if draw else data.draw(SCALARS.get(name, values))


def _array(data: st.DataObject, schema: dict[str, Any], depth: int) -> Any:
    items = [instance(data, item, depth + 1) for item in schema.get("prefixItems", ())]
    more = data.draw(st.integers(0, 2))
    return items + [instance(data, schema.get("items", True), depth + 1) for _ in range(more)]


def _object(data: st.DataObject, schema: dict[str, Any], depth: int) -> Any:
    required = schema.get("required", ())
    drawn: dict[str, Any] = {}
    for name, item in schema.get("properties", {}).items():
        if name in required or data.draw(st.booleans()):
            drawn[name] = instance(data, item, depth + 1)
    for name in required:
        drawn.setdefault(name, data.draw(values))
    if data.draw(st.booleans()):
        drawn.setdefault(data.draw(st.sampled_from(["a", "zz", "foo"])), data.draw(values))
    return drawn


def as_json_schema(schema: Any) -> Any:
    """Express Gemini's ``nullable`` in JSON Schema."""
    if isinstance(schema, list):
        return [as_json_schema(item) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    entries = cast("dict[str, Any]", schema).items()
    result = {keyword: as_json_schema(item) for keyword, item in entries}
    return {"anyOf": [result, {"type": "null"}]} if result.pop("nullable", None) is True else result


def assert_loosened(data: st.DataObject, schema: dict[str, Any], *names: str) -> None:
    original = clean_schema(schema)
    judge = jsonschema_rs.Draft202012Validator(original)
    valid = [value for _ in range(3) if judge.is_valid(value := instance(data, original))]
    for name in names:
        projected = project_schema(schema, RULES[name])
        looser = jsonschema_rs.Draft202012Validator(as_json_schema(projected.schema))
        for value in valid:
            named = {_new_name(projected, key): item for key, item in value.items()}
            assert looser.is_valid(named), (name, projected.schema, value)


def _new_name(projected: Projected, name: str) -> str:
    return next((new for new, old in projected.renamed.items() if old == name), name)


@FEWER
@given(schema=valid_object_schemas(), data=st.data())
def test_the_projection_only_loosens(schema: dict[str, Any], data: st.DataObject) -> None:
    # Alternatives at the root are folded, which types a name for all of them; see below.
    assume(not {"anyOf", "oneOf"} & schema.keys())
    names = ("OPENAI", "ANTHROPIC", "MISTRAL", "FIREWORKS", "OLLAMA", "GEMINI_JSON_SCHEMA")
    assert_loosened(data, schema, *names)


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "properties": st.dictionaries(st.sampled_from(["a", "b", "c d"]), inner, max_size=3),
            "required": st.lists(st.sampled_from(["a", "b"]), unique=True),
            "additionalProperties": st.booleans() | inner,
            "patternProperties": st.dictionaries(st.just("^z"), inner),
        },
    )


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    branches = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.fixed_dictionaries({"anyOf": branches}),
        st.fixed_dictionaries({"oneOf": branches}),
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries(
            {"type": st.just("array"), "prefixItems": branches, "items": inner | st.just(False)}
        ),
        objects(inner),
        st.fixed_dictionaries(
            {"type": st.just("object"), "allOf": st.lists(objects(inner), min_size=1, max_size=2)}
        ),
    )


def typed_schemas() -> st.SearchStrategy[Any]:
    """Draw schemas that name their types, with alternatives on their own."""
    strings = st.fixed_dictionaries(
        {"type": st.sampled_from(["string", ["string", "null"]])},
        optional={"format": st.just("uri"), "minLength": st.integers(0, 3), "default": values},
    )
    numbers = st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number", ["integer", "string", "null"]])},
        optional={"exclusiveMinimum": st.integers(-3, 3), "maximum": st.integers(-3, 3)},
    )
    choices = st.fixed_dictionaries({"enum": st.lists(scalars, min_size=1, max_size=3)})
    constants = st.fixed_dictionaries({"const": scalars})
    return st.recursive(strings | numbers | choices | constants, _containers, max_leaves=8)


@FEWER
@given(schema=objects(typed_schemas()), data=st.data())
def test_the_projection_of_typed_schemas_only_loosens(
    schema: dict[str, Any], data: st.DataObject
) -> None:
    assert_loosened(data, schema, "GEMINI_PARAMETERS", "LLAMACPP", "OLLAMA", "GEMINI_JSON_SCHEMA")


def closed_objects() -> st.SearchStrategy[Any]:
    return objects(typed_schemas()).map(
        lambda schema: {
            **{key: item for key, item in schema.items() if key != "patternProperties"},
            "additionalProperties": False,
        }
    )


@FEWER
@given(
    branches=st.lists(closed_objects(), min_size=1, max_size=3),
    keyword=st.sampled_from(["anyOf", "oneOf"]),
    data=st.data(),
)
def test_folding_closed_alternatives_only_loosens(
    branches: list[Any], keyword: str, data: st.DataObject
) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}, keyword: branches}
    assert_loosened(data, schema, "OPENAI", "ANTHROPIC", "GEMINI_PARAMETERS", "OLLAMA", "LLAMACPP")


def test_a_reference_to_a_definition_under_the_other_name_stays_usable():
    schema = {
        "type": "object",
        "properties": {"place": {"$ref": "#/$defs/Place"}},
        "$defs": {},
        "definitions": {"Place": {"type": "string"}},
    }
    for name, rules in RULES.items():
        sent = project_schema(schema, rules).schema
        validator = jsonschema_rs.validator_for(sent)
        assert validator.is_valid({"place": "Kyoto"}), name
