"""What a provider object offers besides requests."""

import inspect
from typing import Any

import pytest
from tests.agent.replies import whole_of
from tests.asking import HISTORY, Asker
from tests.servers import serving, streamed, whole

from multi_llm_chat.agent.providers import (
    ChatGPTProvider,
    ClaudeProvider,
    FallbackProvider,
    GeminiProvider,
    LLMProvider,
    Reply,
    create_provider,
)
from multi_llm_chat.errors import UsageError
from multi_llm_chat.events import Finish, Usage
from multi_llm_chat.history.values import Text, Thinking, ToolCall, Turn
from multi_llm_chat.request import Options, ToolDefinition

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def test_names_and_speakers_lead_to_the_same_provider() -> None:
    assert isinstance(create_provider("chatgpt"), ChatGPTProvider)
    assert isinstance(create_provider("openai"), ChatGPTProvider)
    assert isinstance(create_provider("claude"), ClaudeProvider)
    assert isinstance(create_provider("google"), GeminiProvider)
    assert type(create_provider("groq")) is LLMProvider
    assert repr(ClaudeProvider(model="claude-x")) == "ClaudeProvider('anthropic', model='claude-x')"
    with pytest.raises(UsageError, match="Unknown provider"):
        create_provider("acme")
    with pytest.raises(UsageError, match="Name a provider"):
        LLMProvider()


def test_format_history_shows_the_dialects_messages() -> None:
    history = [{"role": "user", "content": "Hi"}, {"role": "gemini", "content": "Hello"}]
    shown = GeminiProvider().format_history(history)
    assert shown[:2] == [
        {"role": "user", "parts": [{"text": "Hi"}]},
        {"role": "model", "parts": [{"text": "Hello"}]},
    ]
    assert ClaudeProvider().format_history(history[:1])[0]["role"] == "user"


def test_format_history_refuses_content_that_is_none() -> None:
    expected = r"History content must be a list or string \(actual type: dict\)"
    for provider in (ChatGPTProvider(), GeminiProvider(), ClaudeProvider()):
        with pytest.raises(ValueError, match=expected):
            provider.format_history([{"role": "user", "content": {"text": "x"}}])


@pytest.mark.parametrize("name", ["openai", "openai-chat", "anthropic", "gemini"])
def test_a_schema_is_asked_for_and_its_answer_read(asker: Asker, name: str) -> None:
    text = '```json\\n{\\"city\\": \\"Roma\\"}\\n```'
    bodies: dict[str, str] = {
        "openai": '{"status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"%s"}]}]}',
        "openai-chat": '{"choices":[{"message":{"content":"%s"},"finish_reason":"stop"}]}',
        "anthropic": '{"type":"message","role":"assistant","content":[{"type":"text","text":"%s"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}',
        "gemini": '{"candidates":[{"content":{"parts":[{"text":"%s"}]},"finishReason":"STOP"}]}',
    }  # fmt: skip
    with serving(whole((bodies[name] % text).encode())) as server:
        provider = create_provider(name, base_url=server.url, api_key="k")
        outcome = asker.complete(provider, schema=SCHEMA)
    assert outcome.reply is not None
    assert outcome.reply.data == {"city": "Roma"}
    assert "json" in server.requests[0].body.decode().lower()


def test_options_of_a_call_join_those_of_the_provider() -> None:
    with serving(whole_of("openai_chat")) as server:
        options = {"temperature": 0.5, "max_tokens": 7}
        made = create_provider("openai-chat", base_url=server.url, api_key="k", options=options)
        with made as provider:
            provider.complete(HISTORY)
            provider.complete(HISTORY, options={"max_tokens": 9, "stop": "x"})
            provider.complete(HISTORY, options=Options(max_tokens=3))
            with pytest.raises(UsageError, match="Unknown options: colour"):
                provider.complete(HISTORY, options={"colour": "red"})
    keys = ("temperature", "max_tokens", "stop")
    sent = [{key: request.json.get(key) for key in keys} for request in server.requests]
    assert sent == [
        {"temperature": 0.5, "max_tokens": 7, "stop": None},
        {"temperature": 0.5, "max_tokens": 9, "stop": ["x"]},
        {"temperature": None, "max_tokens": 3, "stop": None},
    ]


def test_tools_may_be_one_or_many_and_an_iterator() -> None:
    one: dict[str, Any] = {"name": "f", "inputSchema": {"type": "object"}}
    with serving(whole_of("openai_chat")) as server:
        with create_provider("openai-chat", base_url=server.url, api_key="k") as provider:
            for tools in (one, [one], iter([one]), ToolDefinition("f")):
                provider.complete(iter(HISTORY), "Be brief.", tools)
        assert [len(request.json["tools"]) for request in server.requests] == [1] * 4
        assert server.requests[0].json["messages"][0] == {"role": "system", "content": "Be brief."}


def test_a_safety_block_is_an_answer(asker: Asker) -> None:
    stop = (
        b'data: {"candidates":[{"content":{"parts":[{"text":"I c"}]},"finishReason":"SAFETY"}]}\n\n'
    )
    with serving(streamed([stop])) as server:
        outcome = asker.stream(create_provider("gemini", base_url=server.url, api_key="k"))
    assert outcome.failure is None
    assert outcome.reply is not None
    assert outcome.reply.finish_reason == "safety"
    assert outcome.reply.refusal == "I c"


def test_a_bad_call_is_given_with_its_error(asker: Asker) -> None:
    call = b'{"index":0,"id":"c","function":{"name":"f","arguments":"{oops"}}'
    pieces = [
        b'data: {"choices":[{"index":0,"delta":{"tool_calls":[%s]}}]}\n\n' % call,
        b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n',
    ]
    with serving(streamed(pieces)) as server:
        [chunk] = asker.call_api(create_provider("groq", base_url=server.url, api_key="k"))
    assert chunk["content"]["arguments"] == {}
    assert chunk["content"]["raw_arguments"] == "{oops"
    assert chunk["content"]["error"]


def test_a_reply_knows_its_parts() -> None:
    call = ToolCall("f", {}, "id")
    turn = Turn("claude", (Thinking("hm"), Text("A"), Text("B"), call))
    reply = Reply(turn, Usage(1, 2), Finish("tool_calls", "tool_use"))
    assert (reply.text, reply.tool_calls, reply.refusal, reply.data) == ("AB", (call,), None, None)
    assert Reply(Turn("claude"), finish=Finish("refusal", "cyber")).refusal == "cyber"
    assert reply.entry["content"][1] == {"type": "text", "content": "A"}


@pytest.mark.parametrize(
    ("plain", "twin"),
    [("call_api", "acall_api"), ("stream", "astream"), ("complete", "acomplete"), ("list_models", "alist_models")],
)  # fmt: skip
def test_both_ways_of_asking_take_the_same_arguments(plain: str, twin: str) -> None:
    one, other = (inspect.signature(getattr(LLMProvider, name)) for name in (plain, twin))
    assert one.parameters == other.parameters


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"temperature": 1}, r"pass options=\{'temperature': …\}"),
        ({"timeout": 5}, r"create_provider\(…, timeouts=Timeouts\(total=…\)\)"),
        ({"modle": "x"}, "known are: model, api_key"),
    ],
)
def test_a_misplaced_setting_of_a_provider_says_where_it_belongs(
    settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(TypeError, match=words):
        create_provider("claude", **settings)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model": 5}, "the model's name, a text, not int"),
        ({"timeouts": 5}, r"Timeouts\(total=…\)"),
        ({"policy": {}}, "a RepairPolicy, not dict"),
        ({"retry": 3}, "a RetryPolicy, not int"),
        ({"options": 5}, "not int"),
    ],
)
def test_a_setting_of_another_type_says_what_to_write(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        create_provider("claude", **settings)


def test_names_are_no_members_of_a_chain() -> None:
    names: Any = ["claude", "gemini"]
    with pytest.raises(UsageError, match="makes a chain from names"):
        FallbackProvider(names)
