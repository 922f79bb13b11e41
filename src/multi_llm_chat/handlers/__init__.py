"""For applications that make their own requests: payload-level handlers and event-based tools."""

from multi_llm_chat.handlers.event_review import review_by_events
from multi_llm_chat.handlers.event_tools import EventTools, serve_tools
from multi_llm_chat.handlers.events import ANSWERS, EventHandler, EventSystem, NoAnswer
from multi_llm_chat.handlers.handler import (
    HANDLER_LIMITS,
    ClaudeHandler,
    GeminiHandler,
    GptHandler,
    StreamHandler,
)
from multi_llm_chat.handlers.processor import (
    ClaudeStreamingProcessor,
    GeminiStreamingProcessor,
    GptStreamingProcessor,
    StreamingProcessor,
)
from multi_llm_chat.handlers.review import ToolRound
from multi_llm_chat.handlers.values import StreamContext, StreamingRequest, StreamResult

__all__ = [
    "ANSWERS",
    "HANDLER_LIMITS",
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
