"""Tools of an MCP server; a person decides about each call."""

import sys

from multi_llm_chat import Agent, ToolRegistry
from multi_llm_chat.tools import Allow, ApprovalRequest, Decision, Deny
from multi_llm_chat.tools.mcp import McpServers

SERVER = {"command": sys.executable, "args": ["-m", "mcp_server_time"]}


def decide(request: ApprovalRequest) -> Decision:
    """Ask at the keyboard."""
    answer = input(f"Run {request.call.name} {request.call.arguments}? [y/n] ")
    return Allow() if answer == "y" else Deny("the user said no")


registry = ToolRegistry(approve=decide, rules={"*": "ask"})
servers = McpServers({"mcpServers": {"time": SERVER}}, registry)
with Agent("claude", tools=[servers]) as agent:
    print(agent.run_sync("What time is it in Rome?").text)
