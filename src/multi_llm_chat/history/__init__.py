"""The canonical history: its values, its reader and its writer."""

from multi_llm_chat.history.values import (
    Extras,
    Media,
    Native,
    Origin,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)

__all__ = [
    "Extras",
    "Media",
    "Native",
    "Origin",
    "Part",
    "Text",
    "Thinking",
    "ToolCall",
    "ToolResult",
    "Turn",
]
