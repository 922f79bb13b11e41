"""Calls that a server refused and showed in its error (GRQ-04)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multi_llm_chat.protocol.openai_chat.decode import RefusedCall, read_refused_calls

ROME = RefusedCall("get_weather", '{"city":"Rome"}')


@pytest.mark.parametrize(
    "generation",
    [
        '<function=get_weather>{"city":"Rome"}</function>',
        '<function=get_weather>{"city":"Rome"}<function>',
        '<function=get_weather{"city":"Rome"}</function>',
        '<function=get_weather({"city":"Rome"})></function>',
        '<function=get_weather> {"city":"Rome"} ',
        '{"name": "get_weather", "arguments": {"city": "Rome"}}',
        '[{"name": "get_weather", "parameters": {"city": "Rome"}}]',
        '{"name": "get_weather", "arguments": "{\\"city\\":\\"Rome\\"}"}',
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>',
        '<tool-use>{"tool_calls":[{"id":"pending","type":"function","function":{"name":"get_weather"},'
        '"parameters":{"city":"Rome"}}]}</tool-use>',
        '{"type":"function","function":{"name":"get_weather","arguments":{"city":"Rome"}}}',
    ],
)
def test_grq_04_a_call_is_read_in_every_form_models_write(generation: str) -> None:
    assert read_refused_calls(generation) == [ROME]


def test_grq_04_several_calls_are_read_in_their_order() -> None:
    tagged = '<function=f>{"a":1}</function>\n<function=g>{}</function>'
    plain = '{"name":"f","arguments":{"a":1}}; {"name":"g","arguments":{}}'
    for generation in (tagged, plain):
        assert read_refused_calls(generation) == [
            RefusedCall("f", '{"a":1}'),
            RefusedCall("g", "{}"),
        ]


def test_grq_04_arguments_that_were_cut_are_kept_as_they_are() -> None:
    assert read_refused_calls('<function=f>{"a": "Ro') == [RefusedCall("f", '{"a": "Ro')]


@pytest.mark.parametrize(
    "generation", ["", "It is sunny.", "{}", '{"city": "Rome"}', "[1, 2", "<function>"]
)
def test_grq_04_words_are_no_call(generation: str) -> None:
    assert read_refused_calls(generation) == []


@given(st.text())
def test_grq_04_anything_can_be_read(generation: str) -> None:
    assert all(call.name for call in read_refused_calls(generation))


@given(
    st.from_regex(r"[a-zA-Z0-9_-]{1,64}", fullmatch=True), st.dictionaries(st.text(), st.integers())
)
def test_grq_04_a_written_call_is_read_back(name: str, arguments: dict[str, int]) -> None:
    text = json.dumps(arguments)
    call = read_refused_calls(json.dumps({"name": name, "arguments": text}))
    assert call == [RefusedCall(name, text)]
