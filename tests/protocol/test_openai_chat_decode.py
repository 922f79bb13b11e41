"""Calls in a server's error message (GRQ-04), fields that only one server sends, and odd streams."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multi_llm_chat import render
from multi_llm_chat.events import Event, Usage
from multi_llm_chat.history.citations import citations_of
from multi_llm_chat.history.values import Media, Native, Part, Text, Thinking, ToolCall, Turn
from multi_llm_chat.protocol.exchange import Exchange
from multi_llm_chat.protocol.openai_chat.chunks import Delta
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


# Fields of a single server.


def read(
    *chunks: dict[str, Any], provider: str = "openai-chat", model: str = "m"
) -> tuple[Part, ...]:
    """Return the parts of a reply: one whole reply, or the chunks of a stream."""
    is_stream = "delta" in chunks[0]["choices"][0]
    exchange = Exchange([], provider, model=model, stream=is_stream)
    if is_stream:
        exchange.begin(200, {"content-type": "text/event-stream"})
        for chunk in chunks:
            exchange.receive(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        exchange.receive(b"data: [DONE]\n\n")
    else:
        exchange.begin(200, {"content-type": "application/json"})
        exchange.receive(json.dumps(chunks[0]).encode())
    exchange.end()
    return exchange.turn.parts


def chunk(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta}]}


def reply(**message: Any) -> dict[str, Any]:
    said = {"role": "assistant"} | message
    return {"choices": [{"index": 0, "message": said, "finish_reason": "stop"}]}


def fields_of(parts: tuple[Part, ...]) -> dict[str, Any]:
    (text,) = [part for part in parts if isinstance(part, Text)]
    return {} if text.extras is None else text.extras.fields


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(
    lambda name: name not in Delta.__struct_fields__
)
VALUES = st.recursive(
    st.integers(1, 9) | st.text(min_size=1), lambda inner: st.lists(inner, min_size=1)
)


@given(st.dictionaries(NAMES, VALUES, min_size=1))
def test_a_field_that_is_not_known_is_kept(own: dict[str, Any]) -> None:
    for parts in (read(reply(content="hi", **own)), read(chunk(content="hi", **own))):
        assert fields_of(parts)["message"] == own


def test_a_field_that_is_not_known_grows_in_a_stream() -> None:
    parts = read(
        chunk(content="a", sources=[1], name="mimo", thoughts="x", state={"n": 1}),
        chunk(content="b", sources=[2], name="mimo", thoughts="y", state={"n": 2}),
    )
    own = {"sources": [1, 2], "name": "mimo", "thoughts": "xy", "state": {"n": 2}}
    assert fields_of(parts)["message"] == own


def test_labels_of_a_chunk_are_no_content() -> None:
    """Recorded: Groq's ``channel``, Together's ``token_id``, how Vercel's gateway routed a request."""
    parts = read(chunk(role="assistant", channel="final", token_id=7, provider_metadata={"a": 1}, content="a"))  # fmt: skip
    assert parts == (Text("a"),)


def test_an_answer_that_is_an_object_is_its_text() -> None:
    """Recorded: Cloudflare's Workers AI, for a schema (posit-dev/chatlas)."""
    assert read(reply(content={"title": "Apples", "n": 1})) == (Text('{"title":"Apples","n":1}'),)


@pytest.mark.parametrize("is_stream", [True, False])
def test_what_perplexity_found_is_cited(is_stream: bool) -> None:
    found = {
        "citations": ["https://a.example/", "https://b.example/"],
        "search_results": [{"title": "A", "url": "https://a.example/", "snippet": "word"}],
        "related_questions": ["Why?"],
    }
    said = [chunk(content="Par") | found, chunk(content="is") | found] if is_stream else [reply(content="Paris") | found]  # fmt: skip
    (text,) = read(*said)
    assert isinstance(text, Text)
    assert text.content == "Paris"
    assert text.extras is not None
    assert text.extras.fields == found
    cited = [(each.title, each.url) for each in citations_of(text)]
    assert cited == [("A", "https://a.example/"), ("https://b.example/", "https://b.example/")]


def test_fields_of_an_answer_without_words_stay_with_its_sound() -> None:
    """Recorded: Xiaomi's speech (maruel/genai)."""
    (sound,) = read(reply(content="", audio={"id": "x", "data": "AAAA"}, final_text_preview="hi"))
    assert isinstance(sound, Media)
    assert sound.extras is not None
    assert sound.extras.fields["message"] == {"final_text_preview": "hi"}


def test_steps_that_groq_tries_again_are_all_kept() -> None:
    """Recorded: groq/compound gives all of them the same index (maruel/genai)."""
    first = {"index": 0, "type": "python", "arguments": "print(1"}
    second = {"index": 0, "type": "python", "arguments": "print(1)"}
    (native,) = read(
        chunk(executed_tools=[{"index": 0, "type": "python"}]),
        chunk(executed_tools=[first]),
        chunk(executed_tools=[second]),
        chunk(executed_tools=[second | {"output": "1"}]),
        provider="groq",
    )
    assert isinstance(native, Native)
    assert native.raw == {"executed_tools": [first, second | {"output": "1"}]}


def test_what_groq_searched_is_described_with_titles_and_addresses() -> None:
    results = {"results": [{"title": "A | B", "url": "https://a.example/", "content": "words"}]}
    step = {"index": 0, "name": "browser.search", "arguments": "{}", "output": "1 result", "search_results": results}  # fmt: skip
    (native, _) = read(reply(content="ok", executed_tools=[step]), provider="groq")[::-1]
    assert isinstance(native, Native)
    for word in ("browser.search", "1 result", "A | B", "https://a.example/", "words"):
        assert word in native.text


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_goes_back_to_hugging_face_in_the_field_it_came_in(field: str) -> None:
    parts = read(reply(content="ok", **{field: "hm"}), provider="huggingface", model="x")
    assert isinstance(parts[0], Thinking)
    history = [Turn("user", (Text("hi"),)), Turn("huggingface", parts), Turn("user", (Text("go"),))]
    answer = render(history, "huggingface", model="x").body["messages"][1]
    assert answer == {"role": "assistant", "content": "ok", field: "hm"}


# Odd streams.


@given(st.lists(st.integers(0, 99), min_size=2, max_size=6), st.sampled_from([0, None]))
def test_str_03_calls_that_are_numbered_anew_in_each_chunk_stay_apart(
    numbers: list[int], index: int | None
) -> None:
    """STR-03: one call in each chunk, each with the first index or none, as Gemini's compatible form sends them."""
    chunks = [
        chunk(tool_calls=[{"index": index, "id": f"c{place}", "function": {"name": "f", "arguments": json.dumps({"n": number})}}])
        for place, number in enumerate(numbers)
    ]  # fmt: skip
    calls = [part for part in read(*chunks) if isinstance(part, ToolCall)]
    assert [call.arguments for call in calls] == [{"n": number} for number in numbers]
    assert [call.tool_call_id for call in calls] == [f"c{place}" for place in range(len(numbers))]


ASIDES: list[dict[str, Any]] = [
    {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}},
    {"choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}]},
    {"choices": None},
    {"object": "chat.completion.chunk"},
]


@given(st.lists(st.sampled_from(ASIDES), max_size=4), st.lists(st.sampled_from(ASIDES), max_size=4))
def test_str_07_a_chunk_without_choices_says_nothing(
    before: list[dict[str, Any]], behind: list[dict[str, Any]]
) -> None:
    """STR-07: usage behind the answer (OpenAI, xAI), a filter's report before it (Azure)."""
    exchange = Exchange([], "azure", model="m")
    exchange.begin(200, {"content-type": "text/event-stream"})
    events: list[Event] = []
    for each in [*before, chunk(content="Hel"), *behind, chunk(content="lo"), *behind]:
        events += exchange.receive(b"data: " + json.dumps(each).encode() + b"\n\n")
    events += exchange.receive(b"data: [DONE]\n\n")
    events += exchange.end()
    assert exchange.turn.parts == (Text("Hello"),)
    counted = [event for event in events if isinstance(event, Usage)]
    is_counted = ASIDES[0] in [*before, *behind]
    assert [event.output_tokens for event in counted] == ([4] if is_counted else [])


@given(st.lists(st.sampled_from(["", '{"a"', ": 1", "}"]), max_size=8))
def test_str_11_empty_pieces_of_arguments_are_accepted(pieces: list[str]) -> None:
    """STR-11: in both of OpenAI's dialects; the other pieces make up the arguments."""
    whole = [piece for piece in pieces if not piece] + ['{"a"', "", ": 1", "", "}"]
    calls = read(
        chunk(tool_calls=[{"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}]),
        *[chunk(tool_calls=[{"index": 0, "function": {"arguments": piece}}]) for piece in whole],
    )
    item = {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": ""}
    frames: list[dict[str, Any]] = [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        *[
            {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc", "delta": piece}
            for piece in whole
        ],
        {"type": "response.output_item.done", "output_index": 0, "item": item | {"arguments": '{"a": 1}'}},
        {"type": "response.completed", "response": {"status": "completed", "output": []}},
    ]  # fmt: skip
    exchange = Exchange([], "openai", model="m")
    exchange.begin(200, {"content-type": "text/event-stream"})
    for frame in frames:
        exchange.receive(b"data: " + json.dumps(frame).encode() + b"\n\n")
    exchange.end()
    for parts in (calls, exchange.turn.parts):
        (call,) = parts
        assert isinstance(call, ToolCall)
        assert (call.arguments, call.raw_arguments, call.error) == ({"a": 1}, '{"a": 1}', None)
