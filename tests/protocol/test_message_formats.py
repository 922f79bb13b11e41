"""Messages of other libraries are recognised, and read without loss."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies.histories import TURNS

from multi_llm_chat import render
from multi_llm_chat.history import Media, Text, Thinking, ToolCall, ToolResult, Turn
from multi_llm_chat.history.reader import read_each, read_history, read_own_form
from multi_llm_chat.protocol.conversion import history_from, turns_from
from multi_llm_chat.protocol.message_formats import OURS as OWN_FORM
from multi_llm_chat.protocol.message_formats import detect_format, read_any
from multi_llm_chat.protocol.providers import ROWS

CALL = ToolCall("get_weather", {"city": "Oslo"}, "call_1")
RESULT = ToolResult("get_weather", "Rain.", "call_1")

LANGCHAIN = [
    {"type": "system", "data": {"content": "Be brief.", "type": "system"}},
    {"type": "human", "data": {"content": "Weather in Oslo?", "type": "human", "id": "m1"}},
    {
        "type": "ai",
        "data": {
            "content": [
                {"type": "text", "text": "Let me see."},
                {
                    "type": "tool_use",
                    "id": "call_1",
                    "name": "get_weather",
                    "input": {"city": "Oslo"},
                },
            ],
            "tool_calls": [
                {
                    "name": "get_weather",
                    "args": {"city": "Oslo"},
                    "id": "call_1",
                    "type": "tool_call",
                }
            ],
            "response_metadata": {"model_name": "claude-sonnet-5"},
        },
    },
    {
        "type": "tool",
        "data": {
            "content": "Rain.",
            "name": "get_weather",
            "tool_call_id": "call_1",
            "status": "success",
        },
    },
]

LANGCHAIN_DUMPS: list[dict[str, Any]] = [
    {"content": "Be brief.", "additional_kwargs": {}, "response_metadata": {}, "type": "system"},
    {"content": "Weather in Oslo?", "additional_kwargs": {}, "type": "human", "id": "m1"},
    {
        "content": "Let me see.",
        "type": "ai",
        "tool_calls": [{"name": "get_weather", "args": {"city": "Oslo"}, "id": "call_1"}],
        "response_metadata": {"model_name": "claude-sonnet-5"},
    },
    {"content": "Rain.", "type": "tool", "name": "get_weather", "tool_call_id": "call_1"},
]

LANGCHAIN_CONSTRUCTORS: list[dict[str, Any]] = [
    {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", kind],
        "kwargs": message,
    }
    for kind, message in zip(
        ("SystemMessage", "HumanMessage", "AIMessage", "ToolMessage"), LANGCHAIN_DUMPS, strict=True
    )
]

VERCEL_UI = [
    {"id": "m0", "role": "system", "parts": [{"type": "text", "text": "Be brief."}]},
    {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Weather in Oslo?"}]},
    {
        "id": "m2",
        "role": "assistant",
        "parts": [
            {"type": "step-start"},
            {"type": "text", "text": "Let me see.", "state": "done"},
            {
                "type": "tool-get_weather",
                "toolCallId": "call_1",
                "state": "output-available",
                "input": {"city": "Oslo"},
                "output": "Rain.",
            },
        ],
    },
]

VERCEL_OLD = [
    {"id": "m0", "role": "system", "content": "Be brief."},
    {"id": "m1", "role": "user", "content": "Weather in Oslo?"},
    {
        "id": "m2",
        "role": "assistant",
        "content": "Let me see.",
        "toolInvocations": [
            {
                "state": "result",
                "toolCallId": "call_1",
                "toolName": "get_weather",
                "args": {"city": "Oslo"},
                "result": "Rain.",
            }
        ],
    },
]

VERCEL_MODEL = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Weather in Oslo?"}]},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Let me see."},
            {
                "type": "tool-call",
                "toolCallId": "call_1",
                "toolName": "get_weather",
                "input": {"city": "Oslo"},
            },
        ],
    },
    {
        "role": "tool",
        "content": [
            {
                "type": "tool-result",
                "toolCallId": "call_1",
                "toolName": "get_weather",
                "output": {"type": "text", "value": "Rain."},
            }
        ],
    },
]

PYDANTIC_AI = [
    {
        "kind": "request",
        "parts": [
            {"part_kind": "system-prompt", "content": "Be brief."},
            {"part_kind": "user-prompt", "content": "Weather in Oslo?"},
        ],
    },
    {
        "kind": "response",
        "model_name": "claude-sonnet-5",
        "parts": [
            {"part_kind": "text", "content": "Let me see."},
            {
                "part_kind": "tool-call",
                "tool_name": "get_weather",
                "args": '{"city": "Oslo"}',
                "tool_call_id": "call_1",
            },
        ],
    },
    {
        "kind": "request",
        "parts": [
            {
                "part_kind": "tool-return",
                "tool_name": "get_weather",
                "content": "Rain.",
                "tool_call_id": "call_1",
            }
        ],
    },
]

OPENAI_AGENTS = [
    {"role": "system", "content": "Be brief.", "type": "message"},
    {"role": "user", "content": "Weather in Oslo?", "type": "message"},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Let me see."}],
    },
    {
        "type": "function_call",
        "call_id": "call_1",
        "name": "get_weather",
        "arguments": '{"city":"Oslo"}',
    },
    {"type": "function_call_output", "call_id": "call_1", "output": "Rain."},
]

CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather in Oslo?"},
    {
        "role": "assistant",
        "content": "Let me see.",
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "get_weather", "arguments": '{"city":"Oslo"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "Rain."},
]

ANTHROPIC = [
    {"role": "user", "content": "Weather in Oslo?"},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Let me see."},
            {"type": "tool_use", "id": "call_1", "name": "get_weather", "input": {"city": "Oslo"}},
        ],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "Rain."}],
    },
]

GEMINI = [
    {"role": "user", "parts": [{"text": "Weather in Oslo?"}]},
    {
        "role": "model",
        "parts": [
            {"text": "Let me see."},
            {"functionCall": {"id": "call_1", "name": "get_weather", "args": {"city": "Oslo"}}},
        ],
    },
    {
        "role": "user",
        "parts": [
            {
                "functionResponse": {
                    "id": "call_1",
                    "name": "get_weather",
                    "response": {"result": "Rain."},
                }
            }
        ],
    },
]

OURS = [
    {"role": "user", "content": "Weather in Oslo?"},
    {
        "role": "claude",
        "content": [
            {"type": "text", "content": "Let me see."},
            {
                "type": "tool_call",
                "content": {
                    "name": "get_weather",
                    "arguments": {"city": "Oslo"},
                    "tool_call_id": "call_1",
                },
            },
        ],
    },
    {
        "role": "tool",
        "content": [
            {
                "type": "tool_result",
                "name": "get_weather",
                "content": "Rain.",
                "tool_call_id": "call_1",
            }
        ],
    },
]

SAMPLES: dict[str, tuple[str, list[Any]]] = {
    "langchain messages_to_dict": ("langchain", LANGCHAIN),
    "langchain model_dump": ("langchain", LANGCHAIN_DUMPS),
    "langchain dumpd": ("langchain", LANGCHAIN_CONSTRUCTORS),
    "vercel ui": ("vercel", VERCEL_UI),
    "vercel ui 4": ("vercel", VERCEL_OLD),
    "vercel model": ("vercel", VERCEL_MODEL),
    "pydantic-ai": ("pydantic-ai", PYDANTIC_AI),
    "openai-agents": ("openai_responses", OPENAI_AGENTS),
    "openai chat": ("openai_chat", CHAT),
    "anthropic": ("anthropic", ANTHROPIC),
    "gemini": ("gemini", GEMINI),
    "ours": ("ours", OURS),
}


@pytest.mark.parametrize(("name", "messages"), SAMPLES.values(), ids=SAMPLES.keys())
def test_the_format_is_recognised(name: str, messages: list[Any]):
    assert detect_format(messages) == name


@pytest.mark.parametrize(("name", "messages"), SAMPLES.values(), ids=SAMPLES.keys())
def test_words_calls_and_results_are_read(name: str, messages: list[Any]):
    del name
    before = json.dumps(messages)
    turns = [turn for turn in turns_from(messages) if turn.role != "system"]
    parts = [part for turn in turns for part in turn.parts]
    assert parts[0] == Text("Weather in Oslo?")
    assert "Let me see." in [part.content for part in parts if isinstance(part, Text)]
    (call,) = [part for part in parts if isinstance(part, ToolCall)]
    assert (call.name, call.arguments, call.tool_call_id) == (
        "get_weather",
        {"city": "Oslo"},
        "call_1",
    )
    (result,) = [part for part in parts if isinstance(part, ToolResult)]
    assert result.tool_call_id == "call_1"
    assert "Rain." in json.dumps(result.content)
    assert [turn.role for turn in turns][-1] == "tool"
    assert json.dumps(messages) == before


@pytest.mark.parametrize("provider", ["anthropic", "openai", "gemini", "groq"])
@pytest.mark.parametrize(("name", "messages"), SAMPLES.values(), ids=SAMPLES.keys())
def test_render_takes_them_as_they_are(name: str, messages: list[Any], provider: str):
    del name
    made = render(messages, provider)
    written = json.dumps(made.body)
    for words in ("Weather in Oslo?", "Let me see.", "get_weather", "Oslo", "Rain."):
        assert words in written
    assert "no result" not in written


def test_a_string_is_the_users_message():
    assert render("hi", "anthropic").body["messages"] == [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(("name", "messages"), SAMPLES.values(), ids=SAMPLES.keys())
def test_a_string_in_a_list_is_the_users_message_too(name: str, messages: list[Any]):
    del name
    alone = read_any(messages)
    assert read_any([*messages, "And then?"]) == (*alone, Turn("user", (Text("And then?"),)))


def test_media_and_reasoning_of_other_libraries_are_read():
    messages = [
        {"role": "user", "content": [{"type": "image", "image": "aGk=", "mediaType": "image/png"}]},
        {"role": "assistant", "content": [{"type": "reasoning", "text": "Hm."}, {"type": "text", "text": "A."}]},
        {"role": "user", "content": [{"type": "file", "data": "aGk=", "mediaType": "application/pdf", "filename": "a.pdf"}]},
    ]  # fmt: skip
    first, answer, last = turns_from(messages, "vercel")
    assert first == Turn("user", (Media("image/png", "aGk="),))
    assert answer.parts == (Thinking("Hm."), Text("A."))
    assert last == Turn("user", (Media("application/pdf", "aGk=", None, "a.pdf"),))


def test_pydantic_ai_prompts_may_hold_media_and_retries():
    messages = [
        {
            "kind": "request",
            "parts": [
                {
                    "part_kind": "user-prompt",
                    "content": [
                        "Look.",
                        {"kind": "binary", "data": "aGk=", "media_type": "image/png"},
                        {"kind": "image-url", "url": "https://example.org/a.png"},
                    ],
                },
                {
                    "part_kind": "retry-prompt",
                    "content": "Again.",
                    "tool_name": "f",
                    "tool_call_id": "c",
                },
            ],
        }
    ]
    user, tool = turns_from(messages)
    assert user.parts == (
        Text("Look."),
        Media("image/png", "aGk="),
        Media("image/png", None, "https://example.org/a.png"),
    )
    assert tool.parts == (ToolResult("f", "Again.", "c", True),)


def test_exports_are_read():
    claude = {
        "uuid": "1",
        "name": "Weather",
        "chat_messages": [
            {"uuid": "a", "sender": "human", "text": "Hi.", "content": [{"type": "text", "text": "Hi."}]},
            {"uuid": "b", "sender": "assistant", "text": "Hello.", "content": [{"type": "text", "text": "Hello."}]},
        ],
    }  # fmt: skip
    for document in (claude, [claude]):
        turns = turns_from(document)
        assert [part for turn in turns for part in turn.parts] == [Text("Hi."), Text("Hello.")]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "role", "content", "parts", "kind", "tool_calls", "data", "id", "text"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(messages=st.lists(json_values, max_size=4), provider=st.sampled_from(sorted(ROWS)))
def test_no_element_fails_a_history(messages: list[Any], provider: str):
    assert isinstance(history_from(messages), list)
    assert render(messages, provider).body


@given(
    index=st.integers(0, 3),
    value=json_values,
    sample=st.sampled_from(sorted(set(SAMPLES) - {"vercel ui 4"})),
)
def test_one_bad_element_leaves_the_others_as_they_are(index: int, value: Any, sample: str):
    messages = SAMPLES[sample][1]
    spoiled = [*messages[:index], value, *messages[index:]]
    written = json.dumps(history_from(spoiled, SAMPLES[sample][0].replace("_", "-")))
    assert "Weather in Oslo?" in written
    assert "Rain." in written


@given(st.lists(TURNS, max_size=3))
def test_what_is_read_without_a_look_at_its_format_is_ours(history: list[Any]):
    own = read_own_form(history)
    if own is not None:
        assert detect_format(history) == OWN_FORM
        assert own == read_each(history)
        assert read_history(own) is own
