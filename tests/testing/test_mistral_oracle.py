"""Mistral's own request validator and ours agree on generated histories."""

from itertools import chain
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mistral_common.exceptions import MistralCommonException
from mistral_common.protocol.instruct import request as request_module
from mistral_common.protocol.instruct import validator as oracle
from mistral_common.tokens.tokenizers.base import TokenizerVersion
from pydantic import ValidationError
from tests.testing.cases import asks, assistant, call, chat, result, tool, user

from multi_llm_chat.testing import validate

_IDENTIFIERS = st.sampled_from(["abcdefgh1", "abcdefgh2", "abcdefgh3", "short", "call_abc123"])
_LEGAL = st.sampled_from(["abcdefgh1", "abcdefgh2", "abcdefgh3"])
_NAMES = st.sampled_from(["f", "g", "fs_read", "fs.read"])

#: The validator's versions, and for each a model name for which our validator applies the same rules.
_VERSIONS = {
    TokenizerVersion.v3: "open-mistral-7b",
    TokenizerVersion.v11: "mistral-large-latest",
    TokenizerVersion.v13: "mistral-medium-latest",
}


def _messages(identifiers: st.SearchStrategy[str]) -> st.SearchStrategy[list[Any]]:
    calls = st.builds(call, identifiers, _NAMES)
    message = st.one_of(
        st.just(user("hi")),
        st.just({"role": "system", "content": "be brief"}),
        st.just(assistant("hello")),
        st.just(assistant("so") | {"prefix": True}),
        st.lists(calls, min_size=1, max_size=2).map(lambda made: asks(*made)),
        st.lists(calls, min_size=1, max_size=2).map(lambda made: asks(*made, content="text")),
        st.builds(result, identifiers),
    )
    return st.lists(message, min_size=1, max_size=7)


def _paired(identifiers: st.SearchStrategy[str]) -> st.SearchStrategy[list[Any]]:
    """Draw histories that are mostly valid, so that both sides often accept."""

    def exchange(identifier: str) -> list[Any]:
        return [user("hi"), asks(call(identifier)), result(identifier), assistant("done")]

    rounds = st.lists(identifiers.map(exchange), max_size=3)
    return rounds.map(lambda made: [*chain.from_iterable(made), user("end")])


# The library does not parametrise its generics, which a strict type checker cannot follow.
_REQUEST: Any = getattr(request_module, "ChatCompletionRequest")  # noqa: B009


def _judge(version: TokenizerVersion) -> Any:
    make: Any = getattr(oracle, "get_validator")  # noqa: B009
    return make(version, oracle.ValidationMode.serving)


def _oracle_accepts(body: dict[str, Any], version: TokenizerVersion) -> bool:
    try:
        request: Any = _REQUEST.model_validate(body)
        _judge(version).validate_request(request)
    except (MistralCommonException, ValidationError):
        return False
    return True


def _opens_with_tools(messages: list[Any]) -> bool:
    """The library ignores calls and results in the first message; recordings show that the hosted API does not (MIS-18)."""
    return "tool_calls" in messages[0] or messages[0]["role"] == "tool"


@pytest.mark.parametrize("version", [TokenizerVersion.v3, TokenizerVersion.v11])
@given(messages=_messages(_IDENTIFIERS) | _paired(_IDENTIFIERS))
def test_histories_are_validated_as_by_mistral_common(
    version: TokenizerVersion, messages: list[Any]
) -> None:
    assume(version is TokenizerVersion.v3 or not _opens_with_tools(messages))
    body = chat(*messages, model=_VERSIONS[version])
    assert (validate("mistral", body) == []) == _oracle_accepts(body, version)


@given(messages=_messages(_LEGAL) | _paired(_LEGAL))
def test_newer_tokenizers_differ_only_in_taking_any_id(messages: list[Any]) -> None:
    assume(not _opens_with_tools(messages))
    body = chat(*messages, model=_VERSIONS[TokenizerVersion.v13])
    assert (validate("mistral", body) == []) == _oracle_accepts(body, TokenizerVersion.v13)


@given(
    name=_NAMES | st.just("x" * 65),
    parameters=st.sampled_from(
        [
            {},
            {"type": "object"},
            {"type": "foo"},
            {"properties": {"a": 7}},
            {"items": [{}]},
            {"enum": 1},
        ]
    ),
)
def test_tools_are_judged_as_mistral_common_does(name: str, parameters: dict[str, Any]) -> None:
    body = chat(user("hi"), tools=[tool(name, parameters)])
    assert (validate("mistral", body) == []) == _oracle_accepts(body, TokenizerVersion.v11)


@pytest.mark.parametrize(
    "extra",
    [
        {"seed": 1},
        {"tool_choice": "bogus"},
        {"tool_choice": "any"},
        {"random_seed": 3},
        {"tools": "x"},
    ],
    ids=str,
)
def test_request_members_are_judged_as_mistral_common_does(extra: dict[str, Any]) -> None:
    body = chat(user("hi")) | {"tools": [tool()]} | extra
    assert (validate("mistral", body) == []) == _oracle_accepts(body, TokenizerVersion.v11)


def test_the_hosted_api_is_stricter_than_the_library_about_ids() -> None:
    body = chat(user("hi"), asks(call("call_abc123")), result("call_abc123"))
    assert _oracle_accepts(body, TokenizerVersion.v13)
    assert [found.rule for found in validate("mistral", body)] == ["MIS-01", "MIS-01"]
