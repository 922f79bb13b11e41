"""``MessageNormalizer`` on flat messages of any kind."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies.histories import ARGUMENTS, IDS, NAMES, WORDS

from multi_llm_chat import MessageNormalizer
from multi_llm_chat.history.json_values import as_list, clean_text
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.testing.validators import validate

Anything = st.SearchStrategy[Any]


def _call(identifier: str, name: str, arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": identifier, "type": "function", "function": function}


def _legacy(identifier: str, name: str, arguments: Any) -> dict[str, Any]:
    return {"id": identifier, "name": name, "input": arguments}


def _part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


CALLS: Anything = st.builds(_call, IDS, NAMES, ARGUMENTS)
LEGACY: Anything = st.builds(_legacy, IDS, NAMES, ARGUMENTS)
CONTENT: Anything = st.one_of(
    WORDS, st.none(), st.just([]), st.lists(st.builds(_part, WORDS), max_size=2)
)


def _message(roles: list[str], **optional: Anything) -> Anything:
    required: dict[str, Anything] = {"role": st.sampled_from(roles), "content": CONTENT}
    return st.fixed_dictionaries(required, optional={"id": IDS, **optional})


MESSAGES: Anything = st.one_of(
    _message(["user", "system"], mine=st.just({"x": 1})),
    _message(
        ["assistant"],
        tool_calls=st.one_of(st.none(), st.lists(CALLS, max_size=3)),
        tool_use=st.one_of(st.none(), LEGACY),
        thinking=WORDS,
        mine=st.just([1]),
    ),
    _message(["tool"], tool_call_id=IDS, name=NAMES),
)

_KNOWN = {"role", "content", "tool_calls", "tool_call_id"}


def texts(message: dict[str, Any]) -> list[str]:
    content = message.get("content")
    parts = as_list(content) or []
    found = [content] if isinstance(content, str) else [part["text"] for part in parts]
    return [text for text in map(clean_text, found) if text.strip()]


@given(st.lists(MESSAGES, max_size=10))
def test_flat_messages_come_back_legal_and_complete(messages: list[dict[str, Any]]):
    before = repr(messages)
    for provider in sorted(ROWS):
        result = MessageNormalizer.sanitize_messages_for_provider(messages, provider)
        assert repr(messages) == before, "the input was changed"
        again = MessageNormalizer.sanitize_messages_for_provider(copy.deepcopy(result), provider)
        assert again == result, provider
        said = "\n".join(text for message in result for text in texts(message))
        for message in messages:
            if message["role"] != "tool":
                assert all(text in said for text in texts(message)), provider


@given(st.lists(MESSAGES, max_size=10))
def test_what_comes_back_is_accepted_by_chat_completions(messages: list[dict[str, Any]]):
    result = MessageNormalizer.sanitize_messages_for_provider(messages, "openai-chat")
    if not result:
        return
    sent = [{key: value for key, value in message.items() if key in _KNOWN} for message in result]
    assert validate("openai-chat", {"model": "gpt-4.1", "messages": sent}) == []


@given(st.lists(MESSAGES, max_size=10))
def test_ids_and_unknown_keys_are_kept(messages: list[dict[str, Any]]):
    marked = [message | {"id": str(index), "mine": index} for index, message in enumerate(messages)]
    result = MessageNormalizer.sanitize_messages_for_provider(marked, "openai")
    for message in result:
        assert message["mine"] == int(message["id"])
        assert message["role"] == marked[message["mine"]]["role"]


def test_what_the_repair_does_is_logged_as_the_seed_asks(caplog: pytest.LogCaptureFixture):
    """Seed 001: removed calls are a warning, orphans debug, totals info; an unknown provider is a warning."""
    messages = [
        {
            "id": "m1",
            "role": "assistant",
            "content": "secret words",
            "tool_calls": [_call("c1", "f", "{}"), _call("c2", "f", "{}"), _call("c3", "g", "{}")],
        },
        {"id": "m2", "role": "tool", "content": "x", "tool_call_id": "c9"},
        {"id": "m4", "role": "tool", "content": "y", "tool_call_id": "c2"},
        {"id": "m3", "role": "user", "content": "hi"},
    ]
    with caplog.at_level("DEBUG", logger="multi_llm_chat.compat.message_normalizer"):
        MessageNormalizer.sanitize_messages_for_provider(messages, "no-such-provider")
    levels = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in levels] == ["WARNING", "WARNING", "DEBUG", "INFO"]
    assert "no-such-provider" in levels[0][1]
    assert levels[1][1].startswith("Removing incomplete tool_calls from assistant message for")
    assert [shown in levels[1][1] for shown in ("'m1'", "'c1'", "'c2'", "'c3'")] == [True, True, False, True]  # fmt: skip
    assert levels[2][1].startswith("Skipping orphaned tool message for")
    assert "'m2'" in levels[2][1]
    assert levels[3][1].startswith("Tool call pairing validation completed")
    assert "4 messages in, 3 out; 3 calls in, 1 out" in levels[3][1]
    assert not any("secret words" in text for _, text in levels)
