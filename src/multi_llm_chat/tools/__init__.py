"""Tools: Python functions and MCP servers, run safely, one result for each call."""

from multi_llm_chat.tools._signatures import function_tool
from multi_llm_chat.tools.approval import Allow, ApprovalCallback, ApprovalRequest, Decision, Deny
from multi_llm_chat.tools.background_loop import wait_for
from multi_llm_chat.tools.registry import ToolListing, ToolRegistry
from multi_llm_chat.tools.tool import (
    Approval,
    ProgressCallback,
    Resume,
    Tool,
    ToolContext,
    ToolOutput,
    ToolProgress,
)

__all__ = [
    "Allow",
    "Approval",
    "ApprovalCallback",
    "ApprovalRequest",
    "Decision",
    "Deny",
    "ProgressCallback",
    "Resume",
    "Tool",
    "ToolContext",
    "ToolListing",
    "ToolOutput",
    "ToolProgress",
    "ToolRegistry",
    "function_tool",
    "wait_for",
]
