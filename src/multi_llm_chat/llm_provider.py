"""The first system's import path; the code is in ``agent`` and ``compat``."""

from multi_llm_chat.agent.providers import (
    ChatGPTProvider,
    ClaudeProvider,
    GeminiProvider,
    LLMProvider,
    create_provider,
)
from multi_llm_chat.agent.providers import extract_text as extract_text_from_chunk
from multi_llm_chat.compat.assemblers import (
    GeminiToolCallAssembler,
    OpenAIToolCallAssembler,
    parse_openai_tool_call,
)
from multi_llm_chat.compat.tool_formats import (
    mcp_tools_to_anthropic_format,
    mcp_tools_to_gemini_format,
    mcp_tools_to_openai_format,
)

__all__ = [
    "ChatGPTProvider",
    "ClaudeProvider",
    "GeminiProvider",
    "GeminiToolCallAssembler",
    "LLMProvider",
    "OpenAIToolCallAssembler",
    "create_provider",
    "extract_text_from_chunk",
    "mcp_tools_to_anthropic_format",
    "mcp_tools_to_gemini_format",
    "mcp_tools_to_openai_format",
    "parse_openai_tool_call",
]
