"""The seeds' names for our functions: each works as its document says."""

import inspect
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock  # noqa: TID251 - the mock is what is tested

import pytest

import multi_llm_chat
from multi_llm_chat import (
    ChatGPTProvider,
    GeminiProvider,
    LLMProvider,
    MessageNormalizer,
    render,
)
from multi_llm_chat.compat.handlers import GptHandler, StreamingRequest
from multi_llm_chat.compat.message_normalizer import (
    AIServiceProvider,
    FunctionCall,
    Message,
    MessageToolCall,
)
from multi_llm_chat.errors import ToolError, UsageError
from multi_llm_chat.history_utils import content_to_text, normalize_history_turns
from multi_llm_chat.llm_provider import (
    GeminiToolCallAssembler,
    OpenAIToolCallAssembler,
    extract_text_from_chunk,
    mcp_tools_to_openai_format,
    parse_openai_tool_call,
)
from multi_llm_chat.request import Options
from multi_llm_chat.testing import validate
from multi_llm_chat.tools import ToolRegistry

USER = {"role": "user", "content": "What is the weather?"}
WEATHER = {"name": "get_weather", "description": "", "inputSchema": {"type": "object"}}
NAMED = {"type": "function", "function": {"name": "get_weather"}}


@pytest.mark.parametrize("provider", ["openai", "openai-chat", "anthropic", "gemini"])
@pytest.mark.parametrize(
    "choice",
    [NAMED, {"type": "tool", "name": "get_weather"}, {"type": "function", "name": "get_weather"}],
    ids=["OpenAI Chat", "Anthropic", "OpenAI Responses"],
)
def test_tool_choice_may_be_an_object(provider: str, choice: dict[str, Any]):
    """Seed 000: ``"auto" | "none" | {"type": "function", "function": {"name": "..."}}``."""
    plain = render([USER], provider, tools=[WEATHER], options={"tool_choice": "get_weather"})
    assert render([USER], provider, tools=[WEATHER], options={"tool_choice": choice}) == plain
    given: Any = choice
    assert render([USER], provider, tools=[WEATHER], options=Options(tool_choice=given)) == plain
    assert validate(provider, plain.body, model=plain.model) == []


def test_a_tool_choice_of_no_known_form_is_named():
    assert (
        render(
            [USER], "openai-chat", tools=[WEATHER], options={"tool_choice": {"type": "any"}}
        ).body["tool_choice"]
        == "required"
    )
    with pytest.raises(UsageError, match="tool_choice"):
        render([USER], "openai-chat", tools=[WEATHER], options={"tool_choice": {"type": "odd"}})


def test_a_registry_executes_a_tool_by_name():
    """Seeds 003 and 004: ``tool_registry.execute_tool(function_name, arguments)``; a failure raises."""
    registry = ToolRegistry()

    @registry.tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    assert str(registry.execute_tool("add", {"a": 2, "b": 3})) == "5"
    assert str(registry.execute_tool("add", '{"a": 2, "b": 3}')) == "5"
    for name, arguments in [("add", {"a": "x"}), ("add", "{"), ("none", {})]:
        with pytest.raises(ToolError):
            registry.execute_tool(name, arguments)


def mock_of_a_gemini_chunk() -> Any:
    """Seed 002's own lines."""
    mock_part = MagicMock(spec=["text"])
    mock_part.text = "Hi"
    mock_chunk = MagicMock()
    mock_chunk.parts = [mock_part]
    return mock_chunk


def mock_of_an_openai_chunk() -> Any:
    mock_chunk = MagicMock()
    mock_chunk.choices[0].delta.content = "Hi"
    return mock_chunk


def parts(*texts: str) -> SimpleNamespace:
    return SimpleNamespace(parts=[SimpleNamespace(text=text) for text in texts])


CHUNKS: dict[str, tuple[Any, str]] = {
    "ours": ({"type": "text", "content": "Hi"}, "Hi"),
    "a call of ours": ({"type": "tool_call", "content": {"name": "f", "arguments": {}}}, ""),
    "OpenAI Chat": ({"choices": [{"delta": {"content": "Hi"}}]}, "Hi"),
    "OpenAI's object": (SimpleNamespace(choices=[SimpleNamespace(delta=SimpleNamespace(content="Hi"))]), "Hi"),
    "OpenAI without content": ({"choices": [{"delta": {"content": None}}]}, ""),
    "OpenAI without choices": ({"choices": []}, ""),
    "OpenAI Responses": ({"type": "response.output_text.delta", "delta": "Hi"}, "Hi"),
    "Anthropic": ({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hi"}}, "Hi"),
    "Gemini": ({"candidates": [{"content": {"parts": [{"text": "H"}, {"text": "i"}]}}]}, "Hi"),
    "Gemini's object": (parts("H", "i"), "Hi"),
    "Gemini's thoughts": ({"candidates": [{"content": {"parts": [{"text": "hm", "thought": True}, {"text": "Hi"}]}}]}, "Hi"),
    "a mock of Gemini's": (mock_of_a_gemini_chunk(), "Hi"),
    "a mock of OpenAI's": (mock_of_an_openai_chunk(), "Hi"),
    "a mock of neither": (MagicMock(), ""),
    "arguments of a call": ({"type": "response.function_call_arguments.delta", "delta": "{}"}, ""),
    "Anthropic's arguments": ({"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "{}"}}, ""),
    "nothing": (None, ""),
}  # fmt: skip


@pytest.mark.parametrize(("chunk", "text"), CHUNKS.values(), ids=CHUNKS)
def test_the_text_of_a_chunk(chunk: object, text: str):
    """Seed 000: ``self.extract_text_from_chunk(chunk)``."""
    assert extract_text_from_chunk(chunk) == text
    assert GeminiProvider().extract_text_from_chunk(chunk) == text
    assert ChatGPTProvider().extract_text_from_chunk(chunk) == text


def test_parts_and_deltas_may_be_mocks():
    """Seeds 000 and 002: tests give mocks of the SDKs' objects to the assemblers."""
    part = MagicMock()
    part.function_call.name = "search"
    part.function_call.args = {"q": "x"}
    called = GeminiToolCallAssembler().process_function_call(part)
    assert called is not None
    assert (called["name"], called["arguments"]) == ("search", {"q": "x"})
    assert GeminiToolCallAssembler().process_function_call(mock_of_a_gemini_chunk().parts[0]) is None  # fmt: skip
    delta = MagicMock(index=0, id="call_1")
    delta.function.name = "search"
    delta.function.arguments = '{"q": "x"}'
    assembler = OpenAIToolCallAssembler()
    assert assembler.process_tool_call(delta) is None
    assert assembler.finalize() == [
        {"name": "search", "arguments": {"q": "x"}, "tool_call_id": "call_1"}
    ]
    assert parse_openai_tool_call(delta)["arguments"] == {"q": "x"}


def test_methods_keep_the_seeds_parameters():
    """Seeds 000 and 003: the names, their order and their defaults."""
    handler: Any = GptHandler
    signatures: list[tuple[Callable[..., Any], str]] = [
        (LLMProvider.call_api, "self, history, system_prompt=None, tools=None"),
        (LLMProvider.get_token_info, "self, text, history=None, model_name=None, has_tools=False"),
        (mcp_tools_to_openai_format, "mcp_tools"),
        (parse_openai_tool_call, "tool_call"),
        (OpenAIToolCallAssembler.process_tool_call, "self, tool_call_delta"),
        (content_to_text, "content, include_tool_data=False"),
        (normalize_history_turns, "turns"),
        (GptHandler.process_stream, "self, response, request, standard_response, context"),
        (handler._handle_tool_calls, "self, tool_calls, standard_response, context"),
        (handler._execute_tools, "self, tool_calls, context"),
        (handler._build_continuation_payload, "self, original_payload, assistant_response, tool_results"),
        (handler._convert_tool_definition, "self, anthropic_tool"),
        (StreamingRequest, "request_id, payload, progress_callback=None"),
    ]  # fmt: skip
    for function, wanted in signatures:
        plain = [
            name if each.default is each.empty else f"{name}={each.default}"
            for name, each in inspect.signature(function).parameters.items()
            if each.kind is each.POSITIONAL_OR_KEYWORD
        ]
        assert ", ".join(plain) == wanted


def test_the_types_of_seed_001_have_its_fields():
    assert set(Message.__annotations__) == {"id", "role", "content", "tool_calls", "tool_call_id", "tool_use"}  # fmt: skip
    assert set(MessageToolCall.__annotations__) == {"id", "type", "function"}
    assert set(FunctionCall.__annotations__) == {"name", "arguments"}
    assert {each.name for each in AIServiceProvider} == {"OpenAI", "Groq", "Cerebras", "Fireworks", "Anthropic", "Gemini", "Ollama"}  # fmt: skip


@pytest.mark.parametrize("provider", list(AIServiceProvider))
def test_the_providers_of_seed_001_are_an_enumeration(provider: AIServiceProvider):
    message: Message = {"id": "1", "role": "tool", "content": "orphan", "tool_call_id": "call_999"}
    assert MessageNormalizer.sanitize_messages_for_provider([message], provider) == []
    assert render([USER], provider).body
    assert json.loads(json.dumps(provider)) == provider.value


def test_they_are_also_at_the_top():
    assert multi_llm_chat.AIServiceProvider is AIServiceProvider
    assert multi_llm_chat.Message is Message
    assert multi_llm_chat.extract_text_from_chunk is extract_text_from_chunk
