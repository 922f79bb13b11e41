"""MCP servers as tools; the official package is imported on first use of ``McpServers``."""

from typing import TYPE_CHECKING, Any

from multi_llm_chat.tools.mcp.server_messages import (
    Elicitation,
    ElicitationAnswer,
    ElicitationCallback,
    EventCallback,
    ListChanged,
    Prompt,
    PromptArgument,
    Resource,
    SamplingAnswer,
    SamplingCallback,
    SamplingRequest,
    ServerEvent,
    ServerLogged,
    StateChanged,
    WaitingCallback,
)
from multi_llm_chat.tools.mcp.server_settings import ReadServers, ServerSettings, read_servers

if TYPE_CHECKING:
    from multi_llm_chat.tools.mcp.servers import McpServers

__all__ = [
    "Elicitation",
    "ElicitationAnswer",
    "ElicitationCallback",
    "EventCallback",
    "ListChanged",
    "McpServers",
    "Prompt",
    "PromptArgument",
    "ReadServers",
    "Resource",
    "SamplingAnswer",
    "SamplingCallback",
    "SamplingRequest",
    "ServerEvent",
    "ServerLogged",
    "ServerSettings",
    "StateChanged",
    "WaitingCallback",
    "read_servers",
]


def __getattr__(name: str) -> Any:
    if name != "McpServers":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imported lazily: the dependency is optional, and takes a second to import.
    try:
        from multi_llm_chat.tools.mcp.servers import McpServers  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name not in {"mcp", "mcp_types"}:
            raise
        from multi_llm_chat.errors import UsageError  # noqa: PLC0415

        raise UsageError(
            "MCP servers need the official package: pip install 'multi_llm_chat[mcp]'"
        ) from error
    return McpServers
