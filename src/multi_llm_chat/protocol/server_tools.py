"""Server tools (tools that the provider runs itself) in each dialect's own form.

Rules:
1. ``Options.server_tools`` has provider-independent names. A tool that a dialect does not have is left out with a note, and
   so is a setting that it does not support.
2. The forms are those of the published types: anthropic 2025-03 to 2025-09 (accepted by every later model), OpenAI
   Responses, generateContent v1beta, OpenRouter's ``openrouter:web_search`` (ORT-07).
3. A function of the caller keeps its name: a server tool of the same name is left out.
4. Gemini accepts built-in tools together with functions from generation 3 on; before that, only the functions are offered
   (GEM-26).
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.protocol.capabilities import gemini_generation
from multi_llm_chat.protocol.request_draft import RequestDraft, without_nothing
from multi_llm_chat.request import ServerTool

#: Writes one tool; None if the dialect does not have it.
_Spelling: TypeAlias = Callable[[ServerTool], JsonObject]

#: The settings of each kind of tool.
_SETTINGS: Final[Mapping[str, frozenset[str]]] = {
    "web_search": frozenset({"allowed_domains", "blocked_domains", "max_uses"}),
    "web_fetch": frozenset({"allowed_domains", "blocked_domains", "max_uses"}),
    "code_execution": frozenset(),
    "file_search": frozenset({"stores"}),
    "mcp": frozenset({"name", "url", "authorization", "allowed_tools", "approval"}),
    "image_generation": frozenset(),
}


def read_server_tools(draft: RequestDraft) -> list[ServerTool]:
    """The server tools of the request, one of each kind; MCP servers are distinguished by name.

    Raises:
        UsageError: A tool lacks a required setting, or has a setting of another kind of tool.
    """
    tools: dict[tuple[str, str], ServerTool] = {}
    for given in draft.options.server_tools:
        tool = ServerTool(given) if isinstance(given, str) else given
        _check(tool)
        tools.setdefault((tool.type, tool.name), tool)
    return list(tools.values())


def _check(tool: ServerTool) -> None:
    for setting in ServerTool.__struct_fields__[1:]:
        if getattr(tool, setting) and setting not in _SETTINGS[tool.type]:
            raise UsageError(f"The server tool {tool.type} has no setting {setting!r}")
    if tool.type == "mcp" and not (tool.name and tool.url):
        raise UsageError("The server tool mcp needs the name and the url of the server")
    if tool.type == "file_search" and not tool.stores:
        raise UsageError(
            "The server tool file_search needs stores: the ids of the stores to search"
        )
    if tool.allowed_domains and tool.blocked_domains:
        raise UsageError(f"{tool.type} takes allowed_domains or blocked_domains, not both")


def _spell(
    draft: RequestDraft, spellings: Mapping[str, _Spelling], said: frozenset[str], rule: str
) -> list[JsonObject]:
    """The tools in a dialect's form; ``said`` are the settings that the dialect supports."""
    written: list[JsonObject] = []
    offered = {tool.name for tool in draft.tools}
    for tool in read_server_tools(draft):
        if tool.type not in spellings:
            draft.note(rule, f"there is no server tool {tool.type} here: left it out")
            continue
        if tool.type in offered:
            draft.note(rule, f"a function is called {tool.type}: left the server tool out")
            continue
        unsaid = [name for name in _SETTINGS[tool.type] if getattr(tool, name) and name not in said]
        if unsaid:
            names = ", ".join(sorted(unsaid))
            draft.note(rule, f"the server tool {tool.type} takes no {names} here: left it out")
        written.append(spellings[tool.type](tool))
    return written


# Anthropic Messages.


def write_anthropic(draft: RequestDraft) -> tuple[list[JsonObject], list[JsonObject]]:
    """The tools, and the MCP servers that the tools of the connector name (ANT-48, ANT-49)."""
    if not draft.options.server_tools:
        return [], []
    said = frozenset({"allowed_domains", "blocked_domains", "max_uses", "name", "url"})
    said |= {"authorization", "allowed_tools"}
    tools = _spell(draft, _ANTHROPIC, said, "ANT-48")
    servers = [
        without_nothing(
            type="url", url=tool.url, name=tool.name, authorization_token=tool.authorization or None
        )
        for tool in read_server_tools(draft)
        if tool.type == "mcp"
    ]
    return tools, servers


def _anthropic_web(version: str) -> _Spelling:
    def write(tool: ServerTool) -> JsonObject:
        cited = {"citations": {"enabled": True}} if tool.type == "web_fetch" else {}
        return {
            "type": f"{tool.type}_{version}",
            "name": tool.type,
            **cited,
            **without_nothing(
                max_uses=tool.max_uses,
                allowed_domains=list(tool.allowed_domains) or None,
                blocked_domains=list(tool.blocked_domains) or None,
            ),
        }

    return write


def _anthropic_code(_tool: ServerTool) -> JsonObject:
    return {"type": "code_execution_20250825", "name": "code_execution"}


def _anthropic_mcp(tool: ServerTool) -> JsonObject:
    toolset: JsonObject = {"type": "mcp_toolset", "mcp_server_name": tool.name}
    if tool.allowed_tools:
        toolset["default_config"] = {"enabled": False}
        toolset["configs"] = {name: {"enabled": True} for name in tool.allowed_tools}
    return toolset


_ANTHROPIC: Final[Mapping[str, _Spelling]] = {
    "web_search": _anthropic_web("20250305"),
    "web_fetch": _anthropic_web("20250910"),
    "code_execution": _anthropic_code,
    "mcp": _anthropic_mcp,
}


# OpenAI Responses.


def write_responses(draft: RequestDraft) -> list[JsonObject]:
    """The tools (RSP-20)."""
    said = frozenset({"allowed_domains", "stores"}) | _SETTINGS["mcp"]
    return _spell(draft, _RESPONSES, said, "RSP-20") if draft.options.server_tools else []


def _responses_search(tool: ServerTool) -> JsonObject:
    written: JsonObject = {"type": "web_search"}
    if tool.allowed_domains:
        written["filters"] = {"allowed_domains": list(tool.allowed_domains)}
    return written


def _responses_code(_tool: ServerTool) -> JsonObject:
    return {"type": "code_interpreter", "container": {"type": "auto"}}


def _responses_files(tool: ServerTool) -> JsonObject:
    return {"type": "file_search", "vector_store_ids": list(tool.stores)}


def _responses_mcp(tool: ServerTool) -> JsonObject:
    return {
        "type": "mcp",
        "server_label": tool.name,
        "server_url": tool.url,
        "require_approval": "always" if tool.approval else "never",
    } | without_nothing(
        authorization=tool.authorization or None, allowed_tools=list(tool.allowed_tools) or None
    )


def _responses_images(_tool: ServerTool) -> JsonObject:
    return {"type": "image_generation"}


_RESPONSES: Final[Mapping[str, _Spelling]] = {
    "web_search": _responses_search,
    "code_execution": _responses_code,
    "file_search": _responses_files,
    "mcp": _responses_mcp,
    "image_generation": _responses_images,
}


# Gemini.


def write_gemini(draft: RequestDraft) -> list[JsonObject]:
    """The tools; none together with functions before generation 3 (GEM-26)."""
    if not draft.options.server_tools:
        return []
    if draft.tools and gemini_generation(draft.model) < 3:
        read_server_tools(draft)
        draft.note("GEM-26", "this model takes functions or server tools: left the latter out")
        return []
    said = frozenset({"stores", "name", "url", "authorization"})
    return _spell(draft, _GEMINI, said, "GEM-26")


def _gemini_mcp(tool: ServerTool) -> JsonObject:
    transport: JsonObject = {"url": tool.url}
    if tool.authorization:
        transport["headers"] = {"Authorization": f"Bearer {tool.authorization}"}
    return {"mcpServers": [{"name": tool.name, "streamableHttpTransport": transport}]}


_GEMINI: Final[Mapping[str, _Spelling]] = {
    "web_search": lambda _tool: {"googleSearch": {}},
    "web_fetch": lambda _tool: {"urlContext": {}},
    "code_execution": lambda _tool: {"codeExecution": {}},
    "file_search": lambda tool: {"fileSearch": {"fileSearchStoreNames": list(tool.stores)}},
    "mcp": _gemini_mcp,
}


# Chat Completions.


def write_chat(draft: RequestDraft, dialect: str | None) -> tuple[list[JsonObject], JsonObject]:
    """The tools and settings; ``dialect`` is the server's form of web search, if it has any (OAI-29, ORT-07)."""
    if not draft.options.server_tools:
        return [], {}
    if dialect == "openrouter":
        said = frozenset({"allowed_domains", "blocked_domains", "max_uses"})
        return _spell(draft, {"web_search": _openrouter_search}, said, "ORT-07"), {}
    is_search_model = dialect == "web_search_options" and "-search" in draft.model
    spellings: dict[str, _Spelling] = {"web_search": lambda _tool: {}} if is_search_model else {}
    found = _spell(draft, spellings, frozenset(), "OAI-29")
    return [], {"web_search_options": {}} if found else {}


def _openrouter_search(tool: ServerTool) -> JsonObject:
    settings = without_nothing(
        allowed_domains=list(tool.allowed_domains) or None,
        excluded_domains=list(tool.blocked_domains) or None,
        max_uses=tool.max_uses,
    )
    return {"type": "openrouter:web_search"} | ({"parameters": settings} if settings else {})
