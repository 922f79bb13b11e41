"""One conversation, many models, one set of tools: any history, any provider, never a 400.

- Build an agent: ``Agent("claude", tools=[function], output=Type).run_sync("…")``.
- Let several models talk: ``ChatService([create_provider("claude"), create_provider("gemini")], store="chats.db")``.
- Ask one provider: ``create_provider("claude").complete("…")``.
- Repair a history for any client: ``render(history, "anthropic").body``, ``history_from``, ``history_to``, ``MessageNormalizer``.
- Offer tools: ``ToolRegistry``; keep conversations: ``open_store``; add a service: ``register_provider``.

Names are loaded when they are first used, so that importing the package costs next to nothing. Every other public name is
in its package: ``errors``, ``events``, ``history``, ``tools``, ``store``, ``testing``.
"""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multi_llm_chat.agent.limits import LoopLimits
    from multi_llm_chat.agent.providers import (
        ChatGPTProvider,
        ClaudeProvider,
        FallbackProvider,
        GeminiProvider,
        LLMProvider,
        Reply,
        create_provider,
        register_dialect,
        register_provider,
    )
    from multi_llm_chat.chat.agent import Agent, AgentResult
    from multi_llm_chat.chat.chat_service import ChatService
    from multi_llm_chat.compat.message_normalizer import MessageNormalizer
    from multi_llm_chat.errors import (
        AuthError,
        MultiLLMChatError,
        ProviderError,
        StoreError,
        UsageError,
    )
    from multi_llm_chat.events import Event, Finish, TextDelta, ToolCallEnd, Usage
    from multi_llm_chat.history import Media, Text, Thinking, ToolCall, ToolResult, Turn
    from multi_llm_chat.protocol.conversion import history_from, history_to
    from multi_llm_chat.protocol.exchange import Exchange
    from multi_llm_chat.protocol.rendered_request import Rendered, render
    from multi_llm_chat.repair import RepairPolicy
    from multi_llm_chat.request import ModelRequest, Options, ToolDefinition
    from multi_llm_chat.runs.execute_with_tools import (
        execute_with_tools,
        execute_with_tools_stream,
        execute_with_tools_sync,
    )
    from multi_llm_chat.store import Store, open_store
    from multi_llm_chat.tools import ToolRegistry

_HOMES = {
    "agent.limits": ("LoopLimits",),
    "agent.providers": (
        "ChatGPTProvider",
        "ClaudeProvider",
        "FallbackProvider",
        "GeminiProvider",
        "LLMProvider",
        "Reply",
        "create_provider",
        "register_dialect",
        "register_provider",
    ),
    "chat.agent": ("Agent", "AgentResult"),
    "chat.chat_service": ("ChatService",),
    "compat.message_normalizer": ("MessageNormalizer",),
    "errors": (
        "AuthError",
        "MultiLLMChatError",
        "ProviderError",
        "StoreError",
        "UsageError",
    ),
    "events": (
        "Event",
        "Finish",
        "TextDelta",
        "ToolCallEnd",
        "Usage",
    ),
    "history": (
        "Media",
        "Text",
        "Thinking",
        "ToolCall",
        "ToolResult",
        "Turn",
    ),
    "protocol.conversion": (
        "history_from",
        "history_to",
    ),
    "protocol.exchange": ("Exchange",),
    "protocol.rendered_request": (
        "Rendered",
        "render",
    ),
    "repair": ("RepairPolicy",),
    "request": (
        "ModelRequest",
        "Options",
        "ToolDefinition",
    ),
    "runs.execute_with_tools": (
        "execute_with_tools",
        "execute_with_tools_stream",
        "execute_with_tools_sync",
    ),
    "store": (
        "Store",
        "open_store",
    ),
    "tools": ("ToolRegistry",),
}

#: Names that were here once: they still work, with a warning that says where they are now.
_MOVED = {
    "agent.limits": ("ThinkingBudget",),
    "agent.providers": ("ModelInfo",),
    "agent.window": (
        "Window",
        "fit",
        "get_buffer_factor",
        "window_of",
    ),
    "agent.window.run_window": ("Compression",),
    "chat.mentions": ("read_mentions",),
    "compat.assemblers": (
        "AnthropicToolCallAssembler",
        "GeminiToolCallAssembler",
        "OpenAIToolCallAssembler",
        "parse_openai_tool_call",
    ),
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
    "errors": (
        "BadRequest",
        "ConnectionFailed",
        "ContextTooLong",
        "Overloaded",
        "RateLimited",
        "Refused",
        "StreamBroken",
        "ToolError",
    ),
    "events": (
        "CompressionNote",
        "HistoryCompressed",
        "ThinkingDelta",
        "ToolCallDelta",
        "ToolCallStart",
    ),
    "history": ("Origin",),
    "http": ("Timeouts",),
    "metering": (
        "Cost",
        "Price",
        "cost_of",
        "get_token_info",
    ),
    "protocol.exchange": ("HttpRequest",),
    "protocol.retry": ("RetryPolicy",),
    "repair": ("Note",),
    "runs.agent_run": ("AgentRun", "AgenticLoopResult", "SyncAgentRun"),
    "compat.tool_formats": (
        "mcp_tools_to_anthropic_format",
        "mcp_tools_to_gemini_format",
        "mcp_tools_to_openai_format",
    ),
}

#: Names of the earlier systems' documents: they work here too, without a warning.
_SEED_NAMES = {
    "compat.message_normalizer": ("AIServiceProvider", "Message"),
    "llm_provider": ("extract_text_from_chunk",),
}

_HOME_OF = {name: home for home, names in (*_HOMES.items(), *_SEED_NAMES.items()) for name in names}
_MOVED_TO = {name: home for home, names in _MOVED.items() for name in names}

__all__ = [
    "Agent",
    "AgentResult",
    "AuthError",
    "ChatGPTProvider",
    "ChatService",
    "ClaudeProvider",
    "Event",
    "Exchange",
    "FallbackProvider",
    "Finish",
    "GeminiProvider",
    "LLMProvider",
    "LoopLimits",
    "Media",
    "MessageNormalizer",
    "ModelRequest",
    "MultiLLMChatError",
    "Options",
    "ProviderError",
    "Rendered",
    "RepairPolicy",
    "Reply",
    "Store",
    "StoreError",
    "Text",
    "TextDelta",
    "Thinking",
    "ToolCall",
    "ToolCallEnd",
    "ToolDefinition",
    "ToolRegistry",
    "ToolResult",
    "Turn",
    "Usage",
    "UsageError",
    "create_provider",
    "execute_with_tools",
    "execute_with_tools_stream",
    "execute_with_tools_sync",
    "history_from",
    "history_to",
    "open_store",
    "register_dialect",
    "register_provider",
    "render",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name) or _MOVED_TO.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    path = f"{__name__}.{home}"
    value = getattr(import_module(path), name)
    if name in _MOVED_TO:
        warnings.warn(
            f"multi_llm_chat.{name} has moved: import it from {path}",
            DeprecationWarning,
            stacklevel=2,
        )
    else:
        globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
