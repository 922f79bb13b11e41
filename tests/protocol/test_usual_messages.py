"""The usual messages of a dialect take a shorter path, with the same result.

A key whose value is null has no meaning; only the long path handles it.
"""

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st
from tests.strategies.histories import ARGUMENTS, IDS, NAMES, VALUES, WORDS

from multi_llm_chat.history.json_values import as_list, as_object
from multi_llm_chat.protocol.anthropic.read import read_messages as read_anthropic
from multi_llm_chat.protocol.gemini.read import read_messages as read_gemini
from multi_llm_chat.protocol.openai_chat.read import read_messages as read_chat

Body = dict[str, Any]

NOTHING: dict[str, Any] = {}
ODD: st.SearchStrategy[Any] = st.sampled_from([None, 7, NOTHING])


def _text(text: str) -> Body:
    return {"type": "text", "text": text}


def _or_odd(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 15).flatmap(lambda chance: usual if chance else ODD)


def _object(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[Body]:
    return st.fixed_dictionaries(
        {key: _or_odd(value) for key, value in required.items()},
        optional={key: _or_odd(value) for key, value in optional.items()},
    )


CHAT_CALLS = _object(
    {"type": st.sampled_from(["function", "custom"]), "function": _object({"name": NAMES, "arguments": ARGUMENTS}, {})},
    {"id": IDS, "custom": _object({"name": NAMES, "input": WORDS}, {}), "tool_call_id": IDS},
)  # fmt: skip
CHAT_MESSAGES = _object(
    {"role": st.sampled_from(["user", "assistant", "system", "tool", "function", "developer", "human", ""])},
    {"content": WORDS | st.lists(st.builds(_text, WORDS), max_size=2),
     "tool_calls": st.lists(CHAT_CALLS, max_size=2), "tool_call_id": IDS, "name": NAMES},
)  # fmt: skip
GEMINI_PARTS = st.one_of(
    st.fixed_dictionaries({"text": _or_odd(WORDS)}),
    st.fixed_dictionaries(
        {"functionCall": _object({"name": NAMES}, {"id": IDS, "args": ARGUMENTS, "x": VALUES})}
    ),
    st.fixed_dictionaries(
        {
            "functionResponse": _object(
                {"name": NAMES, "response": _object({}, {"result": WORDS, "error": WORDS})},
                {"id": IDS, "willContinue": st.booleans(), "will_continue": st.booleans()},
            )
        }
    ),
    st.dictionaries(
        st.sampled_from(["text", "thought", "functionCall", "executableCode"]), VALUES, max_size=2
    ),
)


def _longer(call: Any) -> Any:
    entry = as_object(call)
    return call if entry is None else entry | {"x_field": None}


@given(CHAT_MESSAGES)
def test_a_chat_message_is_read_the_same_with_and_without_a_null_key(message: Body):
    assume(message.get("content") != "")  # a blank message of two keys is kept
    longer = message | {"x_field": None}
    calls = as_list(message.get("tool_calls"))
    if calls is not None:
        longer["tool_calls"] = [_longer(call) for call in calls]
    assert repr(read_chat([message])) == repr(read_chat([longer]))


@given(st.lists(GEMINI_PARTS, max_size=3), st.sampled_from(["user", "model", "function"]))
def test_a_content_of_gemini_is_read_the_same_with_and_without_null_keys(
    parts: list[Body], role: str
):
    longer = [part | {"xField": None} for part in parts]
    found, same = (repr(read_gemini([{"role": role, "parts": each}])) for each in (parts, longer))
    assert found == same


def _block(kind: str, fields: Body) -> Body:
    return {"type": kind, **fields}


BLOCKS = st.one_of(
    st.builds(_block, st.just("text"), _object({"text": WORDS}, {})),
    st.builds(
        _block,
        st.just("tool_use"),
        _object({"id": IDS, "name": NAMES, "input": ARGUMENTS}, {"cache_control": st.just({"type": "ephemeral"})}),
    ),
    st.builds(
        _block,
        st.just("tool_result"),
        _object({"tool_use_id": IDS, "content": WORDS}, {"is_error": st.booleans()}),
    ),
)  # fmt: skip


@given(st.lists(BLOCKS, max_size=3))
def test_blocks_of_anthropic_are_read_the_same_with_and_without_null_keys(blocks: list[Body]):
    found, same = (
        repr(read_anthropic([{"role": "user", "content": each}]))
        for each in (blocks, [block | {"x_field": None} for block in blocks])
    )
    assert found == same
