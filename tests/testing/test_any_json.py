"""No body makes a validator raise, however malformed it is."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.testing.test_rules import CASES

from multi_llm_chat.testing import PROVIDERS, error_body, validate
from multi_llm_chat.testing.validators.typed_views import as_array, as_object

_WORDS = [
    "model", "messages", "role", "content", "type", "text", "user", "assistant", "tool", "system",
    "tool_calls", "tool_call_id", "id", "function", "name", "arguments", "{}", "parameters",
    "properties", "object", "array", "items", "tools", "tool_choice", "input", "call_id", "output",
    "function_call", "function_call_output", "reasoning", "summary", "tool_use", "tool_result",
    "tool_use_id", "thinking", "signature", "max_tokens", "input_schema", "source", "image",
    "image_url", "url", "base64", "data", "media_type", "contents", "parts", "functionCall",
    "functionResponse", "args", "response", "functionDeclarations", "thoughtSignature", "enum",
    "anyOf", "$ref", "required", "strict", "developer", "message", "generationConfig",
    "toolConfig", "functionCallingConfig", "thinkingConfig", "mode", "pattern", "format",
]  # fmt: skip

_words = st.sampled_from(_WORDS)
_scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | _words
_json = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(_words | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=25,
)


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
@settings(max_examples=30)
@given(body=_json)
def test_any_json_value_is_judged(provider: str, body: object) -> None:
    for violation in validate(provider, body):
        assert violation.rule
        assert violation.message
        assert error_body(provider, violation)


_VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    "",
    "x",
    [],
    [None],
    [[]],
    {},
    {"type": []},
    {"type": {}},
]


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Yield every (container, key) inside a JSON value."""
    found: list[tuple[Any, Any]] = []
    pending: list[Any] = [value]
    while pending:
        at = pending.pop()
        for key, child in _children(at):
            found.append((at, key))
            pending.append(child)
    return found


def _children(value: Any) -> list[tuple[Any, Any]]:
    mapping, listed = as_object(value), as_array(value)
    if mapping is not None:
        return list(mapping.items())
    return list(enumerate(listed or []))


@pytest.mark.parametrize("case", CASES[::9], ids=lambda case: case.identity)
def test_a_good_body_with_any_member_replaced_is_judged(case: Any) -> None:
    body = json.loads(json.dumps(case.accepted))
    for container, key in _places(body)[:40]:
        kept = container[key]
        for value in _VALUES:
            container[key] = value
            validate(case.provider, body, model=case.model)
        container[key] = kept


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_nesting_without_end_is_refused_rather_than_followed(provider: str) -> None:
    body: Any = {}
    for _ in range(20_000):
        body = {"messages": [body]}
    assert validate(provider, body)


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, b"x", {1: 2}, {"\ud800": 1}, ("a",)]
)
@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_what_has_no_json_form_is_refused_wherever_it_stands(provider: str, value: object) -> None:
    found = validate(provider, {"metadata": [value]})
    assert len(found) == 1
    assert found[0].rule == "ANT-22" or found[0].rule.endswith("-JSON")
