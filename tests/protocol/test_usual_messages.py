"""The usual messages of a dialect take a shorter path, with the same result.

A key whose value is null has no meaning; only the long path handles it. A list of only usual messages takes a still shorter
path, which keeps the contents of the turns.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.strategies.histories import ARGUMENTS, IDS, NAMES, VALUES, WORDS

from multi_llm_chat.history.json_values import as_list, as_object
from multi_llm_chat.history.reader import ReadHistory, read_history, read_own_form
from multi_llm_chat.history.values import Part, Text, ToolCall, ToolResult, Turn
from multi_llm_chat.protocol.anthropic.read import read_messages as read_anthropic
from multi_llm_chat.protocol.anthropic.read import read_usual_messages as read_usual_anthropic
from multi_llm_chat.protocol.gemini.read import read_messages as read_gemini
from multi_llm_chat.protocol.gemini.read import read_usual_messages as read_usual_gemini
from multi_llm_chat.protocol.message_formats import OURS, detect_format
from multi_llm_chat.protocol.openai_chat.read import read_messages as read_chat
from multi_llm_chat.protocol.openai_chat.read import read_usual_messages as read_usual_chat

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


# Whole lists. Most of their messages are usual: one unusual message makes the list take the long path.

ARGUMENT_TEXTS = st.sampled_from(['{"a": 1}', "{}", '{"city":"東京","b":[1,{"c":null}]}'])
FEW_WORDS = st.sampled_from(["Hello", "東京の天気は？", "a\0b", "{}"])
FEW_IDS = st.sampled_from(["call_0", "call_1", "abcdefgh9"])
FEW_ARGUMENTS = st.dictionaries(st.sampled_from(["a", "b"]), VALUES, max_size=2)


def _object_of(**values: st.SearchStrategy[Any]) -> st.SearchStrategy[Body]:
    return st.fixed_dictionaries(values)


def _mostly(
    usual: st.SearchStrategy[Body], unusual: st.SearchStrategy[Body]
) -> st.SearchStrategy[list[Body]]:
    return st.lists(
        st.integers(0, 30).flatmap(lambda chance: usual if chance else unusual), max_size=6
    )


PLAIN = _object_of(role=st.sampled_from(["user", "assistant", "system", "claude"]), content=FEW_WORDS)  # fmt: skip
ASKED = st.lists(
    _object_of(
        id=FEW_IDS,
        type=st.just("function"),
        function=_object_of(name=NAMES, arguments=ARGUMENT_TEXTS),
    ),
    max_size=2,
)
CHAT_HISTORIES = _mostly(
    PLAIN
    | _object_of(role=st.just("assistant"), tool_calls=ASKED, content=FEW_WORDS | st.just(None))
    | _object_of(role=st.just("tool"), tool_call_id=FEW_IDS, content=WORDS),
    CHAT_MESSAGES,
)
ANTHROPIC_HISTORIES = _mostly(
    PLAIN
    | _object_of(
        role=st.sampled_from(["user", "assistant"]),
        content=st.lists(
            _object_of(type=st.just("text"), text=WORDS)
            | _object_of(type=st.just("tool_use"), id=FEW_IDS, name=NAMES, input=FEW_ARGUMENTS)
            | _object_of(type=st.just("tool_result"), tool_use_id=FEW_IDS, content=WORDS),
            max_size=3,
        ),
    ),
    _object_of(role=st.sampled_from(["user", "assistant"]), content=st.lists(BLOCKS, max_size=2)),
)
GEMINI_HISTORIES = _mostly(
    _object_of(
        role=st.sampled_from(["user", "model"]),
        parts=st.lists(
            _object_of(text=WORDS)
            | _object_of(functionCall=_object_of(name=NAMES, id=FEW_IDS, args=FEW_ARGUMENTS))
            | _object_of(functionResponse=_object_of(name=NAMES, id=FEW_IDS, response=st.just({"result": "x"}) | FEW_ARGUMENTS)),
            max_size=3,
        ),
    ),
    _object_of(role=st.sampled_from(["user", "model"]), parts=st.lists(GEMINI_PARTS, max_size=2)),
)  # fmt: skip
OWN_HISTORIES = _mostly(
    PLAIN
    | _object_of(role=st.just("tool"), content=st.lists(
        _object_of(type=st.just("tool_result"), name=NAMES, content=VALUES, tool_call_id=IDS), max_size=2,
    ))
    | _object_of(role=st.sampled_from(["user", "claude", "human", "function"]), content=st.lists(
        _object_of(type=st.just("text"), content=WORDS)
        | _object_of(type=st.just("tool_call"), content=_object_of(name=NAMES, arguments=FEW_ARGUMENTS, tool_call_id=FEW_IDS)),
        max_size=3,
    )),
    CHAT_MESSAGES,
)  # fmt: skip
READERS: list[Any] = [
    (OURS, OWN_HISTORIES, read_own_form, read_history),
    ("openai_chat", CHAT_HISTORIES, read_usual_chat, read_chat),
    ("anthropic", ANTHROPIC_HISTORIES, read_usual_anthropic, read_anthropic),
    ("gemini", GEMINI_HISTORIES, read_usual_gemini, read_gemini),
]


@pytest.mark.parametrize(("name", "histories", "read_usual", "read"), READERS)
@given(data=st.data())
def test_a_usual_list_is_read_as_message_by_message(
    data: st.DataObject,
    name: str,
    histories: st.SearchStrategy[list[Body]],
    read_usual: Callable[[Any], ReadHistory | None],
    read: Callable[[Any], list[Turn]],
):
    messages = data.draw(histories)
    before = repr(messages)
    turns = read_usual(messages)
    assert repr(messages) == before
    if turns:
        assert detect_format(messages) == name
        assert repr([*turns]) == repr(
            [*read_history(read([message | {"x": None} for message in messages]))]
        )
        _check_contents(turns)  # fmt: skip


def _check_contents(turns: ReadHistory) -> None:
    parts = [part for turn in turns for part in turn.parts]
    contents = turns.contents
    assert contents is not None
    assert contents.texts == [part.content for part in parts if isinstance(part, Text)]
    assert repr(contents.calls) == repr([part for part in parts if isinstance(part, ToolCall)])
    assert repr(contents.results) == repr([part for part in parts if isinstance(part, ToolResult)])
    lists = [at for at, turn in enumerate(turns) if [*map(type, turn.parts)] != [Text]]
    assert set(contents.lists) >= set(lists)
    for turn in turns:
        assert turn.parts
        assert all(map(_is_usual, turn.parts))
        assert Turn(turn.role, turn.parts) == turn or "nan" in repr(turn)
        results = [isinstance(part, ToolResult) for part in turn.parts]
        assert set(results) == {turn.role == "tool"}


def _is_usual(part: Part) -> bool:
    if isinstance(part, ToolCall):
        return bool(part.tool_call_id) and part.error is None and part.extras is None
    return isinstance(part, (Text, ToolResult)) and part.extras is None


USUAL_LISTS: list[Any] = [
    ([{"role": "system", "content": "x"}, {"role": "claude", "content": [{"type": "text", "content": "y"}]}], read_own_form),
    ([{"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
     {"role": "tool", "tool_call_id": "1", "content": "x"}], read_usual_chat),
    ([{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]},
     {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "x"}, {"type": "text", "text": "y"}]}], read_usual_anthropic),
    ([{"role": "user", "parts": [{"text": "x"}]}, {"role": "model", "parts": [{"functionCall": {"id": "1", "name": "f", "args": {}}}]}], read_usual_gemini),
]  # fmt: skip


@pytest.mark.parametrize(("messages", "read_usual"), USUAL_LISTS)
def test_usual_lists_take_the_shorter_path(
    messages: list[Body], read_usual: Callable[[Any], ReadHistory | None]
):
    assert read_usual(messages) is not None
