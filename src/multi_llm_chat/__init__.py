"""One conversation, many models, one set of tools: any history, any provider, never a 400.

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multi_llm_chat.agent.limits import LoopLimits, ThinkingBudget
    from multi_llm_chat.agent.providers import (
        ChatGPTProvider,
        ClaudeProvider,
        FallbackProvider,
        GeminiProvider,
        LLMProvider,
        ModelInfo,
        Reply,
        create_provider,
        register_provider,
    )
    from multi_llm_chat.agent.window import (
        CompressionNote,
        Window,
        fit,
        get_buffer_factor,
        window_of,
    )
    from multi_llm_chat.agent.window.run_window import Compression
    from multi_llm_chat.chat.chat_service import ChatService
    from multi_llm_chat.chat.mentions import read_mentions
    from multi_llm_chat.compat.anthropic_assembler import AnthropicToolCallAssembler
    from multi_llm_chat.compat.gemini_assembler import GeminiToolCallAssembler
    from multi_llm_chat.compat.handlers import (
        ClaudeHandler,
        ClaudeStreamingProcessor,
        EventSystem,
        EventTools,
        GeminiHandler,
        GeminiStreamingProcessor,
        GptHandler,
        GptStreamingProcessor,
        StreamContext,
        StreamingRequest,
        StreamResult,
        ToolRound,
        review_by_events,
        serve_tools,
    )
    from multi_llm_chat.compat.history_text import (
        content_to_text,
        history_contains_tools,
        normalize_history_turns,
        validate_history_entry,
    )
    from multi_llm_chat.compat.message_normalizer import MessageNormalizer
    from multi_llm_chat.compat.openai_assembler import (
        OpenAIToolCallAssembler,
        parse_openai_tool_call,
    )
    from multi_llm_chat.errors import (
        AuthError,
        BadRequest,
        ConnectionFailed,
        ContextTooLong,
        MultiLLMChatError,
        Overloaded,
        ProviderError,
        RateLimited,
        Refused,
        StoreError,
        StreamBroken,
        ToolError,
        UsageError,
    )
    from multi_llm_chat.events import (
        Finish,
        HistoryCompressed,
        TextDelta,
        ThinkingDelta,
        ToolCallDelta,
        ToolCallEnd,
        ToolCallStart,
        Usage,
    )
    from multi_llm_chat.history.values import (
        Media,
        Origin,
        Text,
        Thinking,
        ToolCall,
        ToolResult,
        Turn,
    )
    from multi_llm_chat.http import Timeouts
    from multi_llm_chat.metering import Cost, Price, cost_of, get_token_info
    from multi_llm_chat.protocol.conversion import history_from, history_to
    from multi_llm_chat.protocol.exchange import Exchange, HttpRequest
    from multi_llm_chat.protocol.rendered_request import Rendered, render
    from multi_llm_chat.protocol.retry import RetryPolicy
    from multi_llm_chat.repair.policy import Note, RepairPolicy
    from multi_llm_chat.request import ModelRequest, Options, ToolDefinition
    from multi_llm_chat.runs.agent_run import AgenticLoopResult, AgentRun, SyncAgentRun
    from multi_llm_chat.runs.execute_with_tools import (
        execute_with_tools,
        execute_with_tools_stream,
        execute_with_tools_sync,
    )
    from multi_llm_chat.schema.tool_formats import (
        mcp_tools_to_anthropic_format,
        mcp_tools_to_gemini_format,
        mcp_tools_to_openai_format,
    )
    from multi_llm_chat.store import Store, open_store
    from multi_llm_chat.tools import ToolRegistry

__version__ = "0.1.0"

_HOMES = {
    "agent.providers": (
        "ChatGPTProvider",
        "ClaudeProvider",
        "FallbackProvider",
        "GeminiProvider",
        "LLMProvider",
        "ModelInfo",
        "Reply",
        "create_provider",
        "register_provider",
    ),
    "agent.window.run_window": ("Compression",),
    "runs.agent_run": ("AgentRun", "AgenticLoopResult", "SyncAgentRun"),
    "runs.execute_with_tools": (
        "execute_with_tools",
        "execute_with_tools_stream",
        "execute_with_tools_sync",
    ),
    "protocol.retry": ("RetryPolicy",),
    "agent.limits": (
        "LoopLimits",
        "ThinkingBudget",
    ),
    "agent.window": ("CompressionNote", "Window", "fit", "get_buffer_factor", "window_of"),
    "chat.mentions": ("read_mentions",),
    "metering": ("Cost", "Price", "cost_of", "get_token_info"),
    "store": ("Store", "open_store"),
    "chat.chat_service": ("ChatService",),
    "tools": ("ToolRegistry",),
    "http": ("Timeouts",),
    "events": (
        "Finish",
        "HistoryCompressed",
        "TextDelta",
        "ThinkingDelta",
        "ToolCallDelta",
        "ToolCallEnd",
        "ToolCallStart",
        "Usage",
    ),
    "compat.anthropic_assembler": ("AnthropicToolCallAssembler",),
    "compat.gemini_assembler": ("GeminiToolCallAssembler",),
    "compat.openai_assembler": ("OpenAIToolCallAssembler", "parse_openai_tool_call"),
    "errors": (
        "AuthError",
        "BadRequest",
        "ConnectionFailed",
        "ContextTooLong",
        "MultiLLMChatError",
        "Overloaded",
        "ProviderError",
        "RateLimited",
        "Refused",
        "StoreError",
        "StreamBroken",
        "ToolError",
        "UsageError",
    ),
    "protocol.conversion": ("history_from", "history_to"),
    "protocol.exchange": ("Exchange", "HttpRequest"),
    "compat.message_normalizer": ("MessageNormalizer",),
    "protocol.rendered_request": ("Rendered", "render"),
    "compat.handlers": (
        "ClaudeHandler",
        "ClaudeStreamingProcessor",
        "EventSystem",
        "EventTools",
        "GeminiHandler",
        "GeminiStreamingProcessor",
        "GptHandler",
        "GptStreamingProcessor",
        "StreamContext",
        "StreamResult",
        "StreamingRequest",
        "ToolRound",
        "review_by_events",
        "serve_tools",
    ),
    "compat.history_text": (
        "content_to_text",
        "history_contains_tools",
        "normalize_history_turns",
        "validate_history_entry",
    ),
    "history.values": ("Media", "Origin", "Text", "Thinking", "ToolCall", "ToolResult", "Turn"),
    "repair.policy": ("Note", "RepairPolicy"),
    "request": ("ModelRequest", "Options", "ToolDefinition"),
    "schema.tool_formats": (
        "mcp_tools_to_anthropic_format",
        "mcp_tools_to_gemini_format",
        "mcp_tools_to_openai_format",
    ),
}

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AgentRun",
    "AgenticLoopResult",
    "AnthropicToolCallAssembler",
    "AuthError",
    "BadRequest",
    "ChatGPTProvider",
    "ChatService",
    "ClaudeHandler",
    "ClaudeProvider",
    "ClaudeStreamingProcessor",
    "Compression",
    "CompressionNote",
    "ConnectionFailed",
    "ContextTooLong",
    "Cost",
    "EventSystem",
    "EventTools",
    "Exchange",
    "FallbackProvider",
    "Finish",
    "GeminiHandler",
    "GeminiProvider",
    "GeminiStreamingProcessor",
    "GeminiToolCallAssembler",
    "GptHandler",
    "GptStreamingProcessor",
    "HistoryCompressed",
    "HttpRequest",
    "LLMProvider",
    "LoopLimits",
    "Media",
    "MessageNormalizer",
    "ModelInfo",
    "ModelRequest",
    "MultiLLMChatError",
    "Note",
    "OpenAIToolCallAssembler",
    "Options",
    "Origin",
    "Overloaded",
    "Price",
    "ProviderError",
    "RateLimited",
    "Refused",
    "Rendered",
    "RepairPolicy",
    "Reply",
    "RetryPolicy",
    "Store",
    "StoreError",
    "StreamBroken",
    "StreamContext",
    "StreamResult",
    "StreamingRequest",
    "SyncAgentRun",
    "Text",
    "TextDelta",
    "Thinking",
    "ThinkingBudget",
    "ThinkingDelta",
    "Timeouts",
    "ToolCall",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallStart",
    "ToolDefinition",
    "ToolError",
    "ToolRegistry",
    "ToolResult",
    "ToolRound",
    "Turn",
    "Usage",
    "UsageError",
    "Window",
    "content_to_text",
    "cost_of",
    "create_provider",
    "execute_with_tools",
    "execute_with_tools_stream",
    "execute_with_tools_sync",
    "fit",
    "get_buffer_factor",
    "get_token_info",
    "history_contains_tools",
    "history_from",
    "history_to",
    "mcp_tools_to_anthropic_format",
    "mcp_tools_to_gemini_format",
    "mcp_tools_to_openai_format",
    "normalize_history_turns",
    "open_store",
    "parse_openai_tool_call",
    "read_mentions",
    "register_provider",
    "render",
    "review_by_events",
    "serve_tools",
    "validate_history_entry",
    "window_of",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
