"""Tool definitions in each provider's own form, for callers that send requests themselves.

Rules:
1. Any form that ``read_tools`` reads is accepted. The result is ``None`` without a usable tool, because every provider refuses an empty
   list (OAI-06).
2. A tool that cannot be offered is skipped, with a ``ToolSkippedWarning`` and, as in seed 000, a warning in the log.
3. Schemas are projected; a simple valid one passes unchanged, a missing one becomes ``{"type": "object", "properties": {}}``.
4. ``strict`` is never set: providers that know it refuse a mixture, others refuse the key (CER-02, FWK-02, XAI-02).
"""

import logging
import warnings
from typing import Any

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.request import ToolDefinition
from multi_llm_chat.schema.dialect_rules import ANTHROPIC, GEMINI_PARAMETERS, OPENAI, SchemaRules
from multi_llm_chat.schema.tool_definitions import read_tools
from multi_llm_chat.schema.tool_schema import project_schema

_LOGGER = logging.getLogger(__name__)


class ToolSkippedWarning(UserWarning):
    """A tool was left out because it cannot be offered."""


def _read(tools: object) -> tuple[ToolDefinition, ...]:
    read = read_tools(tools)
    for reason in read.skipped:
        # Three levels up: the caller of the function that called this one.
        warnings.warn(f"Skipping {reason}", ToolSkippedWarning, stacklevel=3)
        _LOGGER.warning("Skipping MCP %s", reason)
    return read.definitions


def _declaration(tool: ToolDefinition, key: str, rules: SchemaRules) -> JsonObject:
    schema = project_schema(tool.schema, rules).schema
    schema.setdefault("properties", {})
    return {"name": tool.name, "description": tool.description, key: schema}


def mcp_tools_to_openai_format(mcp_tools: object) -> list[JsonObject] | None:
    """Return tools for the ``tools`` of a Chat Completions request.

    Args:
        mcp_tools: Definitions of any form, MCP's among them.
    """
    declarations = [_declaration(tool, "parameters", OPENAI) for tool in _read(mcp_tools)]
    return [{"type": "function", "function": function} for function in declarations] or None


def mcp_tools_to_anthropic_format(mcp_tools: object) -> list[JsonObject] | None:
    """Return tools for the ``tools`` of a Messages request.

    An argument whose name Anthropic refuses is sent under another name; its description has the original one.

    Args:
        mcp_tools: Definitions of any form, MCP's among them.
    """
    return [_declaration(tool, "input_schema", ANTHROPIC) for tool in _read(mcp_tools)] or None


def mcp_tools_to_gemini_format(mcp_tools: object) -> list[JsonObject] | None:
    """Return tools for the ``tools`` of a generateContent request.

    One entry holds all declarations, as Google's own examples do. The keys are those that both the
    REST interface and the ``google-genai`` library read, and the schema is in ``parameters``: the
    older field, which every version and Vertex AI know, while ``parametersJsonSchema`` does not
    exist on v1. An empty ``properties`` map is the same as none in that protocol (GEM-16).

    Args:
        mcp_tools: Definitions of any form, MCP's among them.
    """
    declarations: list[Any] = [
        _declaration(tool, "parameters", GEMINI_PARAMETERS) for tool in _read(mcp_tools)
    ]
    return [{"function_declarations": declarations}] if declarations else None
