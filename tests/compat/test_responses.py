"""The handler reads the same reply from every kind of response object that an application may have."""

import json
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compat.applications import DIALECTS, HANDLERS, model_of, payload_for

from multi_llm_chat.compat.handlers import (
    ClaudeStreamingProcessor,
    EventSystem,
    GeminiStreamingProcessor,
    GptHandler,
    GptStreamingProcessor,
    StreamContext,
    StreamingProcessor,
    StreamingRequest,
    StreamResult,
)
from multi_llm_chat.history.values import ToolCall
from multi_llm_chat.testing.simulator import Call, Say, Simulator, encode_reply

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # warnings in the SDKs' sources are not ours to fix
    import anthropic
    import openai
    from google import genai
    from google.genai import types as genai_types

SAY = Say(
    "Let me look.\n", calls=[Call("get_weather", {"city": "Rome"}, "call_1"), Call("now", {})]
)


def reply(provider: str, say: Say = SAY, *, stream: bool = True) -> bytes:
    return encode_reply(provider, say, stream=stream, model=model_of(provider)).body


def parsed(data: bytes) -> list[Any]:
    lines = [
        line.removeprefix("data: ") for line in data.decode().splitlines() if line[:5] == "data:"
    ]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def as_objects(value: Any) -> Any:
    return json.loads(json.dumps(value), object_hook=lambda fields: SimpleNamespace(**fields))


class WithLines:
    """Lines as ``requests`` and ``httpx`` return them: without line ends."""

    status_code = 200

    def __init__(self, data: bytes) -> None:
        self._data = data

    def iter_lines(self) -> Iterator[bytes]:
        yield from self._data.split(b"\n")


class WithContent(WithLines):
    """Bytes as ``requests`` returns them."""

    closed = False

    def iter_content(self, chunk_size: int | None = 1) -> Iterator[bytes]:
        assert chunk_size is None
        yield from (self._data[:50], self._data[50:])

    def close(self) -> None:
        self.closed = True


class WithBytes(WithLines):
    """Bytes as ``httpx`` returns them."""

    def iter_bytes(self) -> Iterator[bytes]:
        yield self._data


FORMS: dict[str, Callable[[bytes], object]] = {
    "bytes": lambda data: data,
    "text": lambda data: data.decode(),
    "pieces": lambda data: [data[at : at + 7] for at in range(0, len(data), 7)],
    "lines with their ends": lambda data: data.splitlines(keepends=True),
    "lines without their ends": lambda data: data.split(b"\n"),
    "lines of text": lambda data: iter(data.decode().split("\n")),
    "iter_lines": WithLines,
    "iter_content": WithContent,
    "iter_bytes": WithBytes,
    "parsed chunks": parsed,
    "objects": lambda data: [as_objects(chunk) for chunk in parsed(data)],
}


def read(provider: str, response: object) -> StreamResult:
    def never(request: StreamingRequest) -> object:
        raise AssertionError("nothing is to be sent")

    handler = HANDLERS[provider](provider=provider)
    payload = payload_for(provider, "Weather?")
    request = StreamingRequest("request", payload)
    return handler.process_stream(
        response, request, {}, StreamContext(never, model=model_of(provider))
    )


def calls_of(result: StreamResult) -> list[tuple[str, Any]]:
    return [
        (part.name, part.arguments)
        for turn in result.turns
        for part in turn.parts
        if isinstance(part, ToolCall)
    ]


@pytest.mark.parametrize("provider", DIALECTS)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_every_form_of_a_stream_is_read(provider: str, form: Callable[[bytes], object]):
    result = read(provider, form(reply(provider)))
    assert result.success, result.error
    assert result.text == "Let me look.\n"
    assert calls_of(result) == [("get_weather", {"city": "Rome"}), ("now", {})]
    assert result.usage.output_tokens > 0


@pytest.mark.parametrize("provider", DIALECTS)
@given(data=st.data())
def test_where_a_stream_is_cut_does_not_matter(provider: str, data: st.DataObject):
    whole = reply(provider)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1), max_size=12)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert read(provider, pieces).response == read(provider, whole).response


WHOLE: dict[str, Callable[[bytes], object]] = {
    "bytes": lambda data: data,
    "parsed": json.loads,
    "in the seeds' envelope": lambda data: {"success": True, "response": json.loads(data)},
    "pieces": lambda data: [data[:9], data[9:]],
    "an object": lambda data: as_objects(json.loads(data)),
}


@pytest.mark.parametrize("provider", DIALECTS)
@pytest.mark.parametrize("form", WHOLE.values(), ids=WHOLE.keys())
def test_a_reply_that_is_not_streamed_is_read(provider: str, form: Callable[[bytes], object]):
    result = read(provider, form(reply(provider, stream=False)))
    assert result.success, result.error
    assert calls_of(result) == [("get_weather", {"city": "Rome"}), ("now", {})]


def test_geminis_array_is_a_stream_too():
    chunks = parsed(reply("gemini"))
    result = read("gemini", json.dumps(chunks))
    assert calls_of(result) == [("get_weather", {"city": "Rome"}), ("now", {})]


def test_what_one_handler_answered_is_a_response_for_another():
    result = read("openai-chat", reply("openai-chat"))
    assert calls_of(read("openai-chat", result)) == calls_of(result)


@pytest.mark.parametrize("provider", DIALECTS)
def test_the_response_of_a_stream_is_what_the_provider_says_without_one(provider: str):
    """``standard_response`` has the form of the provider's own whole reply."""
    streamed = read(provider, reply(provider))
    again = read(provider, streamed.response)
    assert calls_of(again) == [("get_weather", {"city": "Rome"}), ("now", {})]
    assert again.text == streamed.text == "Let me look.\n"
    assert again.usage.output_tokens == streamed.usage.output_tokens


def test_a_response_is_let_go_when_it_was_read():
    response = WithContent(reply("openai-chat"))
    read("openai-chat", response)
    assert response.closed


def sdk_stream(provider: str, simulator: Simulator) -> Iterator[Any]:
    """Return the chunks as the vendor's own library yields them."""
    payload: Any = payload_for(provider, "Weather?")
    url = simulator.sdk_url(provider)
    match provider:
        case "openai-chat":
            with openai.OpenAI(api_key="k", base_url=url) as client:
                yield from client.chat.completions.create(**payload)
        case "openai":
            with openai.OpenAI(api_key="k", base_url=url) as client:
                yield from client.responses.create(**payload)
        case "anthropic":
            with anthropic.Anthropic(api_key="k", base_url=url) as client:
                yield from client.messages.create(**payload)
        case _:
            options = genai_types.HttpOptions(base_url=url)
            with genai.Client(api_key="k", http_options=options) as client:
                yield from client.models.generate_content_stream(
                    model=model_of(provider), contents="Weather?"
                )


@pytest.mark.parametrize("provider", DIALECTS)
def test_the_vendors_own_streams_are_read(provider: str):
    with Simulator([SAY]) as simulator:
        result = read(provider, sdk_stream(provider, simulator))
    assert result.error is None
    assert calls_of(result) == [("get_weather", {"city": "Rome"}), ("now", {})]


PROCESSORS: dict[str, type[StreamingProcessor]] = {
    "openai-chat": GptStreamingProcessor,
    "anthropic": ClaudeStreamingProcessor,
    "gemini": GeminiStreamingProcessor,
}


@pytest.mark.parametrize("provider", PROCESSORS)
def test_a_processor_reads_on_its_own(provider: str):
    events = EventSystem()
    started: list[dict[str, Any]] = []
    events.subscribe("tool_start", started.append)
    processor = PROCESSORS[provider](events)
    assert not processor.has_tool_calls()
    processor.process(reply(provider))
    assert processor.has_tool_calls()
    assert [event["tool_name"] for event in started] == ["get_weather", "now"]
    response: dict[str, Any] = {"kept": True}
    processor.update_response(response)
    assert response["kept"]
    assert [json.dumps(call) in json.dumps(response) for call in _named(processor)] == [True, True]
    processor.cleanup()
    assert not processor.has_tool_calls()
    processor.process(reply(provider, Say("Hello.")))
    assert processor.get_tool_calls() == []


def _named(processor: StreamingProcessor) -> list[Any]:
    return [call.name for call in processor.calls]


def test_gpts_calls_have_the_seeds_form():
    processor = GptStreamingProcessor()
    processor.process(reply("openai-chat"))
    first = processor.get_tool_calls()[0]
    assert first == {
        "id": "call_1",
        "type": "function",
        "function": {"name": "get_weather", "arguments": '{"city":"Rome"}'},
    }
    response: dict[str, Any] = {}
    processor.update_response(response)
    message = response["choices"][0]["message"]
    assert message["tool_calls"] == processor.get_tool_calls()
    assert message["content"] == "Let me look.\n"


class Refusing(WithBytes):
    """A response with status 429, too many requests."""

    status_code = 429
    headers: ClassVar = {"Retry-After": "3"}


BROKEN: dict[str, object] = {
    "nothing": b"",
    "no response at all": None,
    "a number": 7,
    "half a stream": reply("openai-chat")[:200],
    "no JSON": b"data: {not json\n\n",
    "a page": b"<html>502 Bad Gateway</html>",
    "an error in a 200": b'data: {"error": {"message": "overloaded", "code": 503}}\n\n',
    "an error object": {"error": {"message": "bad key", "type": "invalid_request_error"}},
    "no success": {"success": False, "error": "the network is down"},
    "an array that is none": b"[{",
    "an error status": Refusing(b"{}"),
    "an empty list": [],
    "odd things": [object(), 7, None],
}


@pytest.mark.parametrize("response", BROKEN.values(), ids=BROKEN.keys())
def test_whatever_is_wrong_the_result_says_so(response: object):
    result = read("openai-chat", response)
    assert not result.success
    assert result.stop_reason == "error"
    assert result.error is not None
    assert str(result.error)


def test_a_response_that_raises_keeps_what_was_said():
    def breaks() -> Iterator[bytes]:
        yield reply("openai-chat", Say("It is sunny and warm", delta_size=3))[:900]
        raise ConnectionResetError("gone, with https://host/?key=secret")

    result = read("openai-chat", breaks())
    assert not result.success
    assert "secret" not in f"{result.error!r} {result.error}"
    assert result.text
    assert "It is sunny and warm".startswith(result.text)
    assert result.response["choices"][0]["message"]["content"] == result.text


def test_handlers_need_no_request_to_be_legal():
    handler = GptHandler()
    request = StreamingRequest("request", {})
    result = handler.process_stream(
        reply("openai-chat"), request, {}, StreamContext(lambda request: None)
    )
    assert result.success
