"""The vendors' own SDKs cannot distinguish the simulator from the real provider."""

import json
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from tests.testing.simulator_clients import CHAT_ROWS

from multi_llm_chat.events import Usage
from multi_llm_chat.testing.simulator import Call, ErrorInStream, Rule, Say, Simulator, Status

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # warnings in the SDKs' sources are not ours to fix
    import anthropic
    import openai
    from google import genai
    from google.genai import errors as genai_errors
    from google.genai import types
    from openai import omit

KEY = "sk-simulated-key-0001"
USAGE = Usage(input_tokens=30, output_tokens=12, cache_read_tokens=5, thinking_tokens=4)
EIGHT = [Call("get_weather", {"city": f"City {number} 東京"}) for number in range(8)]
FULL = Say("Sunny ☀️ in Rome.", thinking="Hm, Rome.", calls=EIGHT, usage=USAGE, interleave=True)
HELLO: Any = [{"role": "user", "content": "Hello"}]


def _called(names_and_texts: list[tuple[str | None, str]]) -> list[tuple[str | None, Any]]:
    return [(name, json.loads(text)) for name, text in names_and_texts]


EXPECTED_CALLS = [("get_weather", call.arguments) for call in EIGHT]


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    with Simulator(key=KEY) as running:
        yield running


def _openai(simulator: Simulator, provider: str, key: str = KEY) -> openai.OpenAI:
    return openai.OpenAI(api_key=key, base_url=simulator.sdk_url(provider), max_retries=0)


def _anthropic(simulator: Simulator, key: str = KEY) -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key=key, base_url=simulator.sdk_url("anthropic"), max_retries=0)


def _gemini(simulator: Simulator, key: str = KEY) -> genai.Client:
    options = types.HttpOptions(base_url=simulator.sdk_url("gemini"))
    return genai.Client(api_key=key, http_options=options)


@pytest.mark.parametrize("provider", CHAT_ROWS)
def test_openai_sdk_reads_a_streamed_chat_reply(simulator: Simulator, provider: str) -> None:
    simulator.script.add(FULL)
    text, calls, usage = "", dict[int, list[Any]](), None
    # Azure's SDK sends its key in another header; the plain one sends it as the others do.
    with (
        _openai(simulator, provider) as client,
        client.chat.completions.create(
            model="gpt-4.1",
            messages=HELLO,
            stream=True,
            stream_options=omit if provider == "mistral" else {"include_usage": True},
        ) as stream,
    ):
        for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                content: object = choice.delta.content
                text += content if isinstance(content, str) else ""
                for fragment in choice.delta.tool_calls or []:
                    function = fragment.function
                    assert function is not None
                    call = calls.setdefault(fragment.index, [function.name, ""])
                    call[1] += function.arguments or ""
    assert text == FULL.text
    assert _called([(name, arguments) for name, arguments in calls.values()]) == EXPECTED_CALLS
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (30, 12)


@pytest.mark.parametrize("provider", sorted(set(CHAT_ROWS) - {"mistral"}))
def test_openai_sdk_reads_a_whole_chat_reply(simulator: Simulator, provider: str) -> None:
    simulator.script.add(FULL)
    with _openai(simulator, provider) as client:
        reply = client.chat.completions.create(model="gpt-4.1", messages=HELLO)
    message = reply.choices[0].message
    assert message.content == FULL.text
    calls = [call.function for call in message.tool_calls or [] if call.type == "function"]
    assert _called([(call.name, call.arguments) for call in calls]) == EXPECTED_CALLS
    assert reply.usage is not None
    assert reply.usage.total_tokens == 42


def test_openai_sdk_accumulates_a_streamed_chat_reply(simulator: Simulator) -> None:
    simulator.script.add(Say("Hello.", calls=EIGHT[:1]))
    with (
        _openai(simulator, "openai-chat") as client,
        client.chat.completions.stream(model="gpt-4.1", messages=HELLO) as stream,
    ):
        reply = stream.get_final_completion()
    assert reply.choices[0].message.content == "Hello."
    assert reply.choices[0].finish_reason == "tool_calls"


def test_openai_sdk_reads_a_streamed_response(simulator: Simulator) -> None:
    simulator.script.add(FULL)
    with (
        _openai(simulator, "openai") as client,
        client.responses.stream(
            model="gpt-5.4", input="Hello", include=["reasoning.encrypted_content"]
        ) as stream,
    ):
        numbers = [event.sequence_number for event in stream]
        reply = stream.get_final_response()
    assert numbers == sorted(set(numbers))
    _check_response(reply)


def test_openai_sdk_reads_a_whole_response(simulator: Simulator) -> None:
    simulator.script.add(FULL)
    with _openai(simulator, "openai") as client:
        reply = client.responses.create(
            model="gpt-5.4", input="Hello", include=["reasoning.encrypted_content"]
        )
    _check_response(reply)


def _check_response(reply: Any) -> None:
    assert reply.output_text == FULL.text
    calls = [item for item in reply.output if item.type == "function_call"]
    assert _called([(call.name, call.arguments) for call in calls]) == EXPECTED_CALLS
    reasoning = next(item for item in reply.output if item.type == "reasoning")
    assert reasoning.summary[0].text == FULL.thinking
    assert reasoning.encrypted_content
    assert reply.usage.output_tokens_details.reasoning_tokens == 4
    assert reply.status == "completed"


def test_anthropic_sdk_reads_a_streamed_reply(simulator: Simulator) -> None:
    simulator.script.add(FULL)
    with (
        _anthropic(simulator) as client,
        client.messages.stream(model="claude-sonnet-5", max_tokens=99, messages=HELLO) as stream,
    ):
        text = "".join(stream.text_stream)
        _check_message(stream.get_final_message())
    assert text == FULL.text


def test_anthropic_sdk_reads_a_whole_reply(simulator: Simulator) -> None:
    simulator.script.add(FULL)
    with _anthropic(simulator) as client:
        _check_message(
            client.messages.create(model="claude-sonnet-5", max_tokens=99, messages=HELLO)
        )


def _check_message(message: Any) -> None:
    thinking, text, *calls = message.content
    assert (thinking.thinking, text.text) == (FULL.thinking, FULL.text)
    assert thinking.signature
    assert [(call.name, call.input) for call in calls] == EXPECTED_CALLS
    assert message.stop_reason == "tool_use"
    assert (message.usage.input_tokens, message.usage.cache_read_input_tokens) == (25, 5)
    assert message.usage.output_tokens == 12


def test_google_sdk_reads_a_streamed_reply(simulator: Simulator) -> None:
    simulator.script.add(FULL)
    with _gemini(simulator) as client:
        chunks = list(
            client.models.generate_content_stream(model="gemini-3.7-flash", contents="Hi")
        )
    parts = [part for chunk in chunks for part in _google_parts(chunk)]
    _check_google(parts, chunks[-1])


def test_google_sdk_reads_a_whole_reply(simulator: Simulator) -> None:
    simulator.script.add(FULL)
    with _gemini(simulator) as client:
        reply = client.models.generate_content(model="gemini-3.7-flash", contents="Hi")
    _check_google(_google_parts(reply), reply)


def _google_parts(reply: types.GenerateContentResponse) -> list[types.Part]:
    assert reply.candidates
    content = reply.candidates[0].content
    assert content
    return content.parts or []


def _check_google(parts: list[types.Part], last: types.GenerateContentResponse) -> None:
    assert "".join(part.text or "" for part in parts if part.thought) == FULL.thinking
    assert "".join(part.text or "" for part in parts if not part.thought) == FULL.text
    calls = [part.function_call for part in parts if part.function_call]
    assert [(call.name, call.args) for call in calls] == EXPECTED_CALLS
    usage = last.usage_metadata
    assert usage is not None
    assert (usage.prompt_token_count, usage.candidates_token_count) == (30, 8)
    assert usage.thoughts_token_count == 4


def test_the_sdks_list_the_models(simulator: Simulator) -> None:
    with _openai(simulator, "groq") as client:
        assert [model.id for model in client.models.list()] == ["openai/gpt-oss-120b"]
    with _anthropic(simulator) as client:
        assert [model.id for model in client.models.list()] == ["claude-sonnet-5"]
    with _gemini(simulator) as client:
        assert [model.name for model in client.models.list()] == ["models/gemini-3.7-flash"]


def test_the_sdks_count_tokens(simulator: Simulator) -> None:
    with _anthropic(simulator) as client:
        counted = client.messages.count_tokens(model="claude-sonnet-5", messages=HELLO)
        assert counted.input_tokens > 1
    with _gemini(simulator) as client:
        total = client.models.count_tokens(model="gemini-3.7-flash", contents="Hi").total_tokens
        assert total is not None


def test_openai_sdk_raises_its_own_errors(simulator: Simulator) -> None:
    simulator.script.add(Status(429), Status(500), Say("Half", faults=[ErrorInStream(3)]))
    create: Any
    with _openai(simulator, "openai-chat") as client:
        create = client.chat.completions.create
        bad: Any = [{"role": "tool", "tool_call_id": "x", "content": "y"}]
        with pytest.raises(openai.BadRequestError, match="must be a response to a preceeding"):
            create(model="gpt-4.1", messages=bad)
        with pytest.raises(openai.RateLimitError, match="Rate limit reached"):
            create(model="gpt-4.1", messages=HELLO)
        with pytest.raises(openai.InternalServerError):
            create(model="gpt-4.1", messages=HELLO)
        with (
            create(model="gpt-4.1", messages=HELLO, stream=True) as stream,
            pytest.raises(openai.APIError, match="overloaded"),
        ):
            list(stream)
    with _openai(simulator, "openai", "sk-wrong-key-0002") as client:
        with pytest.raises(openai.AuthenticationError, match=r"sk-\*\*\*0002"):
            client.responses.create(model="gpt-5.4", input="Hello")
        with pytest.raises(openai.NotFoundError):
            client.moderations.create(input="x")  # which the simulator does not have


def test_openai_sdk_raises_errors_of_responses(simulator: Simulator) -> None:
    simulator.script.add(Say("Half", faults=[ErrorInStream(4, 500)]))
    output: Any = [{"type": "function_call_output", "call_id": "x", "output": "y"}]
    with _openai(simulator, "openai") as client:
        with pytest.raises(openai.BadRequestError, match="No tool call found"):
            client.responses.create(model="gpt-5.4", input=output)
        with client.responses.create(model="gpt-5.4", input="Hello", stream=True) as stream:
            *_, last = stream
    assert last.type == "error"
    assert last.message.startswith("The server had an error")
    assert last.sequence_number == 4


def test_anthropic_sdk_raises_its_own_errors(simulator: Simulator) -> None:
    simulator.script.add(Status(429), Status(529), Say("Half", faults=[ErrorInStream(3, 529)]))
    with _anthropic(simulator) as client:
        create: Any = client.messages.create
        with pytest.raises(anthropic.BadRequestError, match="at least one message is required"):
            create(model="claude-sonnet-5", max_tokens=9, messages=[])
        with pytest.raises(anthropic.RateLimitError, match="rate_limit_error"):
            create(model="claude-sonnet-5", max_tokens=9, messages=HELLO)
        with pytest.raises(anthropic.InternalServerError, match="overloaded_error"):
            create(model="claude-sonnet-5", max_tokens=9, messages=HELLO)
        with (
            create(model="claude-sonnet-5", max_tokens=9, messages=HELLO, stream=True) as stream,
            pytest.raises(anthropic.APIStatusError, match="overloaded_error"),
        ):
            list(stream)
    with (
        _anthropic(simulator, "wrong") as client,
        pytest.raises(anthropic.AuthenticationError, match="invalid x-api-key"),
    ):
        client.messages.create(model="claude-sonnet-5", max_tokens=9, messages=HELLO)


def test_google_sdk_raises_its_own_errors(simulator: Simulator) -> None:
    simulator.script.add(Status(429, retry_delay=2))
    call = types.Part.from_function_response(name="f", response={"a": 1})
    contents = [types.Content(role="user", parts=[call])]
    with _gemini(simulator) as client:
        with pytest.raises(genai_errors.ClientError, match="INVALID_ARGUMENT"):
            client.models.generate_content(model="gemini-3.7-flash", contents=contents)
        with pytest.raises(genai_errors.ClientError, match="RESOURCE_EXHAUSTED"):
            client.models.generate_content(model="gemini-3.7-flash", contents="Hi")
    with (
        _gemini(simulator, "wrong") as client,
        pytest.raises(genai_errors.ClientError, match="API key not valid"),
    ):
        client.models.generate_content(model="gemini-3.7-flash", contents="Hi")


def test_the_sdks_retry_after_a_refusal() -> None:
    steps: list[Any] = [Status(429, headers={"retry-after-ms": "1"}), Say("Now.")]
    with Simulator(steps) as simulator:
        with openai.OpenAI(api_key=KEY, base_url=simulator.base_url("openai-chat")) as client:
            reply = client.chat.completions.create(model="gpt-4.1", messages=HELLO)
        assert reply.choices[0].message.content == "Now."
        assert [request.status for request in simulator.requests] == [429, 200]


def test_a_rule_sees_what_the_sdk_asked() -> None:
    rule: Rule = lambda request: Say(f"{request.model}: {request.conversation.question}")  # noqa: E731
    with Simulator(rule) as simulator:
        with _openai(simulator, "openai-chat") as client:
            reply = client.chat.completions.create(model="gpt-4.1", messages=HELLO)
        assert reply.choices[0].message.content == "gpt-4.1: Hello"
