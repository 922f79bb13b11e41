"""``MessageNormalizer`` on flat messages of any kind."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.strategies.histories import ARGUMENTS, IDS, NAMES, WORDS

from multi_llm_chat import MessageNormalizer
from multi_llm_chat.history.json_values import clean_text
from multi_llm_chat.providers import ROWS
from multi_llm_chat.testing.validators import validate

CALLS = st.builds(
    lambda identifier, name, arguments: {
        "id": identifier, "type": "function", "function": {"name": name, "arguments": arguments},
    },
    IDS, NAMES, ARGUMENTS,
)  # fmt: skip
LEGACY = st.builds(
    lambda identifier, name, arguments: {"id": identifier, "name": name, "input": arguments},
    IDS, NAMES, ARGUMENTS,
)  # fmt: skip
CONTENT = st.one_of(
    WORDS,
    st.none(),
    st.just([]),
    st.lists(st.builds(lambda text: {"type": "text", "text": text}, WORDS), max_size=2),
)

MESSAGES = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "system"]), "content": CONTENT}, optional={"id": IDS, "mine": st.just({"x": 1})}),
    st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": CONTENT},
        optional={
            "id": IDS, "tool_calls": st.one_of(st.none(), st.lists(CALLS, max_size=3)), "tool_use": st.one_of(st.none(), LEGACY),
            "thinking": WORDS, "mine": st.just([1]),
        },
    ),
    st.fixed_dictionaries({"role": st.just("tool"), "content": CONTENT}, optional={"id": IDS, "tool_call_id": IDS, "name": NAMES}),
)  # fmt: skip

_KNOWN = {"role", "content", "tool_calls", "tool_call_id"}


def texts(message: dict[str, Any]) -> list[str]:
    content = message.get("content")
    parts = [content] if isinstance(content, str) else [part["text"] for part in content or []]
    return [text for text in map(clean_text, parts) if text.strip()]


@given(st.lists(MESSAGES, max_size=10))
def test_flat_messages_come_back_legal_and_complete(messages: list[dict[str, Any]]):
    before = repr(messages)
    for provider in sorted(ROWS):
        result = MessageNormalizer.sanitize_messages_for_provider(messages, provider)
        assert repr(messages) == before, "the input was changed"
        again = MessageNormalizer.sanitize_messages_for_provider(copy.deepcopy(result), provider)
        assert again == result, provider
        said = "\n".join(str(message["content"]) for message in result)
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
