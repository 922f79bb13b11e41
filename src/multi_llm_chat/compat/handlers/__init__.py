"""Payload-level handlers and event-based tools, for applications that send their own requests."""

from multi_llm_chat.compat.handlers._event_system import (
    ANSWERS,
    EventHandler,
    EventSystem,
    NoAnswer,
)
from multi_llm_chat.compat.handlers._event_tools import EventTools, serve_tools
from multi_llm_chat.compat.handlers._handler import (
    HANDLER_LIMITS,
    ClaudeHandler,
    GeminiHandler,
    GptHandler,
    StreamHandler,
)
from multi_llm_chat.compat.handlers._processor import (
    ClaudeStreamingProcessor,
    GeminiStreamingProcessor,
    GptStreamingProcessor,
    StreamingProcessor,
)
from multi_llm_chat.compat.handlers._stream_context import (
    Cancellation,
    StreamContext,
    StreamingRequest,
    StreamResult,
    ToolRound,
    review_by_events,
)

__all__ = [
    "ANSWERS",
    "HANDLER_LIMITS",
    "Cancellation",
    "ClaudeHandler",
    "ClaudeStreamingProcessor",
    "EventHandler",
    "EventSystem",
    "EventTools",
    "GeminiHandler",
    "GeminiStreamingProcessor",
    "GptHandler",
    "GptStreamingProcessor",
    "NoAnswer",
    "StreamContext",
    "StreamHandler",
    "StreamResult",
    "StreamingProcessor",
    "StreamingRequest",
    "ToolRound",
    "review_by_events",
    "serve_tools",
]
