"""The canonical history: its values, its reader and its writer."""

from multi_llm_chat.history.values import (
    Media,
    Origin,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)

__all__ = ["Media", "Origin", "Part", "Text", "Thinking", "ToolCall", "ToolResult", "Turn"]
