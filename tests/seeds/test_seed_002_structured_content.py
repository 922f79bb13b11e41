"""Seed 002's examples: structured content, its mapping for each provider, and its functions.

Where the product deviates from the seed, the test says so.
"""

from typing import Any
from unittest.mock import MagicMock, Mock  # noqa: TID251 - the mock is what is tested

import pytest

from multi_llm_chat import Agent, ChatService, GeminiProvider, LLMProvider, create_provider, render
from multi_llm_chat.chat_logic import logic_history_to_display
from multi_llm_chat.history_utils import content_to_text, normalize_history_turns
from multi_llm_chat.llm_provider import GeminiToolCallAssembler
from multi_llm_chat.testing import validate

HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "content": "Hello, how are you?"}]},
    {
        "role": "gemini",
        "content": [
            {"type": "text", "content": "Let me check the weather for you."},
            {"type": "tool_call", "content": {"name": "get_weather", "arguments": {"location": "Tokyo"}, "tool_call_id": "call_abc123"}},
        ],
    },
    {
        "role": "tool",
        "content": [
            {
                "type": "tool_result",
                "name": "get_weather",
                "content": '{"temperature": "25°C", "condition": "sunny"}',
                "tool_call_id": "call_abc123",
            }
        ],
    },
]  # fmt: skip


def test_the_examples_are_in_their_strict_form_already():
    assert normalize_history_turns(HISTORY) == HISTORY


def test_geminis_mapping():
    user, model, tool = render(HISTORY, "gemini", model="gemini-2.5-pro").body["contents"]
    assert user == {"role": "user", "parts": [{"text": "Hello, how are you?"}]}
    call = {"id": "call_abc123", "name": "get_weather", "args": {"location": "Tokyo"}}
    assert model == {
        "role": "model",
        "parts": [{"text": "Let me check the weather for you."}, {"functionCall": call}],
    }
    # The seed's role is ``function``; the API knows only user and model (GEM-21). REST spells in camelCase.
    assert tool == {
        "role": "user",
        "parts": [{"functionResponse": {"id": "call_abc123", "name": "get_weather", "response": {"temperature": "25°C", "condition": "sunny"}}}],
    }  # fmt: skip


def test_chatgpts_mapping():
    history = [HISTORY[0], HISTORY[1] | {"role": "chatgpt"}, HISTORY[2]]
    user, assistant, tool = render(history, "openai-chat").body["messages"]
    assert user == {"role": "user", "content": "Hello, how are you?"}
    function = {"name": "get_weather", "arguments": '{"location":"Tokyo"}'}
    assert assistant == {
        "role": "assistant",
        "content": "Let me check the weather for you.",
        "tool_calls": [{"id": "call_abc123", "type": "function", "function": function}],
    }
    assert tool == {
        "role": "tool",
        "tool_call_id": "call_abc123",
        "content": '{"temperature": "25°C", "condition": "sunny"}',
    }


def test_one_models_turns_are_told_to_the_other():
    # The seed's system drops other models' turns; here nothing that the user saw disappears.
    messages = render(HISTORY, "openai-chat").body["messages"]
    assert [message["role"] for message in messages] == ["user", "user"]
    assert "[gemini] Let me check the weather for you." in messages[1]["content"]
    assert "get_weather" in messages[1]["content"]
    assert "25°C" in messages[1]["content"]


def test_legacy_strings_are_normalised():
    legacy_history = [
        {"role": "user", "content": "Hello"},
        {"role": "gemini", "content": "Hi there"},
    ]
    assert normalize_history_turns(legacy_history) == [
        {"role": "user", "content": [{"type": "text", "content": "Hello"}]},
        {"role": "gemini", "content": [{"type": "text", "content": "Hi there"}]},
    ]


def test_content_to_text_to_the_letter():
    content = [
        {"type": "text", "content": "Let me search."},
        {"type": "tool_call", "content": {"name": "search", "arguments": {"query": "python"}}},
        {"type": "text", "content": "Here are the results."},
    ]
    assert (
        content_to_text(content, include_tool_data=False) == "Let me search. Here are the results."
    )
    assert (
        content_to_text(content, include_tool_data=True)
        == 'Let me search. search {"query":"python"} Here are the results.'
    )


def test_content_of_another_type_is_an_error():
    history = [{"role": "user", "content": {"text": "bad"}}]
    with pytest.raises(
        ValueError, match=r"History content must be a list or string \(actual type: dict\)"
    ) as caught:
        GeminiProvider(api_key="k").format_history(history)
    assert str(caught.value) == "History content must be a list or string (actual type: dict)"
    # ``render`` keeps such content as a native part (SPEC, section 1).
    assert "bad" in str(render(history, "gemini").body)


@pytest.mark.parametrize(
    ("content", "response"),
    [
        pytest.param({"temperature": 25}, {"temperature": 25}, id="a dict as it is"),
        pytest.param('{"temperature": 25}', {"temperature": 25}, id="JSON text parsed"),
        pytest.param("[1, 2]", {"result": [1, 2]}, id="JSON text of a list parsed"),
        pytest.param("[1, 2", {"result": "[1, 2"}, id="half a list is text"),
        pytest.param("sunny", {"result": "sunny"}, id="other text wrapped"),
        pytest.param([1, 2], {"result": [1, 2]}, id="a list wrapped"),
        pytest.param(42, {"result": 42}, id="a number wrapped"),
        # The seed turns an empty result into an empty object; a text is clearer for the model.
        pytest.param(None, {"result": "(no output)"}, id="nothing"),
    ],
)
def test_tool_results_become_objects_for_gemini(content: Any, response: dict[str, Any]):
    result = HISTORY[2]["content"][0] | {"content": content}
    contents = render([*HISTORY[:2], {"role": "tool", "content": [result]}], "gemini").body[
        "contents"
    ]
    assert contents[2]["parts"][0]["functionResponse"]["response"] == response


def test_a_name_and_its_arguments_may_come_apart():
    assembler = GeminiToolCallAssembler()
    parts = [{"function_call": {"name": "search"}}, {"function_call": {"args": {"q": "x"}}}]
    given = [assembler.process_function_call(part) for part in parts]
    calls = [call for call in given if call] + assembler.finalize()
    assert [(call["name"], call["arguments"]) for call in calls] == [("search", {"q": "x"})]


def test_a_call_without_arguments_is_a_call():
    # The seed waits for arguments that never come and loses the call.
    assembler = GeminiToolCallAssembler()
    first = assembler.process_function_call({"name": "now", "args": {}})
    calls = [call for call in [first] if call] + assembler.finalize()
    assert [(call["name"], call["arguments"]) for call in calls] == [("now", {})]


@pytest.mark.parametrize("provider", ["openai", "openai-chat", "gemini", "anthropic"])
def test_a_users_words_alone_are_a_history(provider: str):
    words = create_provider(provider, api_key="k").format_history("Hello")
    assert words == create_provider(provider, api_key="k").format_history(
        [{"role": "user", "content": "Hello"}]
    )
    assert "Hello" in str(words)


MOCKS: dict[str, Any] = {
    "MagicMock": MagicMock,
    "Mock": Mock,
    "of the class": lambda: MagicMock(spec=LLMProvider),
    "of the method": lambda: Mock(spec=["call_api"]),
}


@pytest.mark.parametrize("made", MOCKS.values(), ids=MOCKS)
def test_a_mock_whose_call_api_returns_chunks_is_a_provider(made: Any):
    """Test patterns: a mock of a provider answers with the chunks of its ``call_api``."""
    mock_provider = made()
    chunks: list[dict[str, Any]] = [
        {"type": "text", "content": "Hello"},
        {"type": "text", "content": " there"},
    ]
    mock_provider.call_api.return_value = iter(chunks)
    service = ChatService({"gemini": mock_provider})
    list(service.process_message("@gemini Hi"))
    assert service.display_history == [["Hi", "Hello there"]]
    mock_provider.call_api.return_value = iter(chunks)
    assert Agent(mock_provider).run_sync("Hi").text == "Hello there"
    history = mock_provider.call_api.call_args.args[0]
    assert history[-1]["content"] == [{"type": "text", "content": "Hi"}]


def test_calls_are_marked_in_the_shown_history():
    """Display: ``[Tool Call: name]`` while it streams and after loading; a call without a name is ``unknown_tool``."""
    calls: list[dict[str, Any]] = [
        {"type": "text", "content": "Let me look. "},
        {"type": "tool_call", "content": {"name": "search", "arguments": {}}},
        {"type": "tool_call", "content": {"arguments": {}}},
    ]
    history = [{"role": "user", "content": "Hi"}, {"role": "gemini", "content": calls}]
    ((user, shown),) = logic_history_to_display(history)
    assert user == "Hi"
    assert shown is not None
    assert shown.startswith("Let me look.")
    assert "[Tool Call: search]" in shown
    assert "[Tool Call: unknown_tool]" in shown


@pytest.mark.parametrize("optional", ["tool_call_id", "arguments"])
def test_an_id_or_arguments_may_be_missing(optional: str):
    """Parts: the id is optional; every provider accepts what is sent in its place."""
    call: dict[str, Any] = {"name": "get_weather", "arguments": {"location": "Tokyo"}, "tool_call_id": "call_1"}  # fmt: skip
    del call[optional]
    result = {"type": "tool_result", "name": "get_weather", "content": "sunny"}
    for speaker, provider in {"chatgpt": "openai-chat", "gemini": "gemini", "claude": "anthropic"}.items():  # fmt: skip
        history = [
            {"role": "user", "content": "Weather?"},
            {"role": speaker, "content": [{"type": "tool_call", "content": call}]},
            {"role": "tool", "content": [result]},
        ]
        rendered = render(history, provider)
        assert "sunny" in str(rendered.body)
        assert validate(provider, rendered.body, model=rendered.model) == []
        assert not [note for note in rendered.notes if note.rule in ("OAI-01", "OAI-02")]
