"""An MCP server that records the key of each call; on its first call it kills the program that uses it.

``python keyed_server.py LEDGER``
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import mcp_types
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("keyed", log_level="ERROR")


@server.tool(annotations=mcp_types.ToolAnnotations(idempotent_hint=True))
def look(number: int, context: Context[Any, Any]) -> str:
    """Look at something."""
    return _note(f"looked at {number}", context)


@server.tool()
def send(number: int, context: Context[Any, Any]) -> str:
    """Send something; twice is not the same as once."""
    return _note(f"sent {number}", context)


def _note(reply: str, context: Context[Any, Any]) -> str:
    ledger = Path(sys.argv[1])
    is_first = not ledger.exists()
    meta = context.request_context.meta or {}
    with ledger.open("a", encoding="utf-8") as file:
        file.write(f"{meta.get('multi-llm-chat/idempotency_key')}\n")
    if is_first:
        os.kill(os.getppid(), signal.SIGKILL)
    return reply


if __name__ == "__main__":
    server.run()
