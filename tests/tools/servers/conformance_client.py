"""Our client, as MCP's conformance kit starts it: the last argument is the address of the kit's server.

The kit passes the scenario in ``MCP_CONFORMANCE_SCENARIO``, and the client's existing data (a registration) in
``MCP_CONFORMANCE_CONTEXT``.
"""

import json
import os
import sys
import urllib.request
from typing import Any

from multi_llm_chat.history.values import ToolCall
from multi_llm_chat.tools import ToolRegistry
from multi_llm_chat.tools.approval import Allow
from multi_llm_chat.tools.mcp import Elicitation, ElicitationAnswer, McpServers

#: The address of a client-id metadata document, as the kit expects it.
METADATA = "https://conformance-test.local/client-metadata.json"

ARGUMENTS: dict[str, dict[str, Any]] = {"add_numbers": {"a": 5, "b": 3}}


def elicit(question: Elicitation) -> ElicitationAnswer:
    """Act as a user who opens the address in a browser, and submits forms unchanged."""
    if question.url is not None:
        with urllib.request.urlopen(question.url, timeout=20) as page:
            page.read()
        return ElicitationAnswer("accept")
    fields: dict[str, Any] = question.schema.get("properties", {})
    defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
    return ElicitationAnswer("accept", defaults)


def main() -> int:
    """Connect, and call every tool of the server."""
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    entry: dict[str, Any] = {"url": sys.argv[-1], "trusted": True}
    if scenario == "auth/basic-cimd":
        entry["oauth"] = {"clientMetadataUrl": METADATA}
    elif "client_id" in given:
        secret = given.get("client_secret", "")
        entry["oauth"] = {"clientId": given["client_id"], "clientSecret": secret}
    registry = ToolRegistry(approve=lambda _request: Allow())
    servers = McpServers({"mcpServers": {"judge": entry}}, registry, elicit=elicit, backoff=())
    with servers:
        (state,) = servers.states()
        failed = state.state == "failed"
        sys.stderr.write(f"{scenario}: {state.state} {state.message}\n")
        for number, definition in enumerate(registry.definitions()):
            name = definition.name
            call = ToolCall(name, ARGUMENTS.get(name, {}), f"call-{number}")
            result = registry.execute_sync(call)
            sys.stderr.write(f"{name}: {result.content}\n")
            failed = failed or result.is_error
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
