"""Anthropic-specific blocks, which the history has as ``Native`` parts and extras.

Rules:
1. A block of a server tool, an MCP server, a compaction or an unknown kind is a ``Native`` part: the block as received,
   and its content as readable text (RULES section 10).
2. Additional fields of a text, a call or an attachment (citations, ``caller``, cache marks, a document's title) are its
   extras.
3. The result of a server tool must follow its call. A call without a result is legal at the end of the last
   assistant message, and in a message whose client calls are answered next (ANT-24).
"""

from collections.abc import Iterable, Sequence
from typing import Any

from multi_llm_chat.history.json_values import as_list, as_object, as_text, compact_json
from multi_llm_chat.history.native_text import plain_words, remaining_fields
from multi_llm_chat.history.values import Extras, JsonObject, Native, Origin, ToolCall, Turn

#: Types of blocks that need a result.
SERVER_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})

#: The keys of blocks that our parts express.
TEXT_KEYS = frozenset({"type", "text"})
CALL_KEYS = frozenset({"type", "id", "name", "input"})


#: Values of ``anthropic-beta``, by the block, tool or edit that needs them (ANT-46, ANT-49, ANT-50, ANT-53).
_BETAS = {
    "mcp_tool_use": "mcp-client-2025-11-20",
    "mcp_tool_result": "mcp-client-2025-11-20",
    "mcp_toolset": "mcp-client-2025-11-20",
    "mcp_tool_listing": "mcp-client-2026-09-15",
    "compaction": "compact-2026-01-12",
    "compact_20260112": "compact-2026-01-12",
    "tool_addition": "mid-conversation-tool-changes-2026-07-01",
    "tool_removal": "mid-conversation-tool-changes-2026-07-01",
    "advisor_20260301": "advisor-tool-2026-03-01",
    "container_upload": "files-api-2025-04-14",
    "file": "files-api-2025-04-14",
}
_FIELD_BETAS = {
    "block_binding": "thinking-binding-controls-2026-08-01",
    "clear_at": "mid-conversation-system-clear-at-2026-08-21",
    "context_management": "context-management-2025-06-27",
}
#: The nesting depth at which a type that needs a beta may be: a source in a document in a result in a message.
_DEEPEST = 10


def needed_betas(body: JsonObject) -> list[str]:
    """The values of ``anthropic-beta`` that the body's blocks and fields need, each once."""
    found: dict[str, None] = {}
    _find_betas({key: body.get(key) for key in _BETA_PLACES if key in body}, found, _DEEPEST)
    return list(found)


_BETA_PLACES = ("messages", "tools", "thinking", "context_management", "mcp_servers")


def _find_betas(value: object, found: dict[str, None], depth: int) -> None:
    entries = as_object(value)
    if entries is not None:
        beta = _BETAS.get(as_text(entries.get("type")))
        if beta is not None:
            found[beta] = None
        for key, inner in entries.items():
            if key in _FIELD_BETAS:
                found[_FIELD_BETAS[key]] = None
            # The arguments of a call and the schema of a tool are not searched: their contents are not Anthropic's.
            if depth and key not in ("input", "input_schema"):
                _find_betas(inner, found, depth - 1)
    elif depth:
        for inner in as_list(value) or ():
            _find_betas(inner, found, depth - 1)


def is_server_result(kind: str) -> bool:
    """Whether the block is the result of a tool that ran on Anthropic's side."""
    return kind.endswith("_tool_result")


def read_native(block: JsonObject, origin: Origin) -> Native:
    """The block as a ``Native`` part."""
    kind = as_text(block.get("type")) or "block"
    return Native(kind, describe(block), origin, block)


def read_extras(block: JsonObject, known: frozenset[str], origin: Origin) -> Extras | None:
    """The fields of a block that its part does not express."""
    fields = remaining_fields(block, known)
    return Extras(origin, fields) if fields else None


def describe(block: JsonObject) -> str:
    """The readable text of the block."""
    kind = as_text(block.get("type"))
    if kind in SERVER_CALLS:
        return _describe_call(block)
    if is_server_result(kind):
        subject = kind.removesuffix("_tool_result").replace("_", " ")
        return f"result of {subject}: {_result_words(block) or 'nothing'}"
    found = f"{as_text(block.get('title'))} ({as_text(block.get('source'))})"
    words = {
        "container_upload": f"file for the container: {as_text(block.get('file_id'))}",
        "compaction": "summary of the conversation so far: " + plain_words(block.get("content")),
        "search_result": f"search result: {found}\n{plain_words(block.get('content'))}",
        "tool_addition": f"tool now available: {_tool_name(block.get('tool'))}",
        "tool_removal": f"tool no longer available: {_tool_name(block.get('tool'))}",
        "tool_reference": f"tool: {as_text(block.get('tool_name'))}",
    }.get(kind)
    if words is None:
        words = f"{kind.replace('_', ' ')}: {plain_words(block)}"
    return words.strip().removesuffix(":") or kind


def _describe_call(block: JsonObject) -> str:
    name = as_text(block.get("name")) or "a tool"
    given = as_object(block.get("input")) or {}
    if name == "web_search" and isinstance(given.get("query"), str):
        return f"searched the web for: {given['query']}"
    if name == "web_fetch" and isinstance(given.get("url"), str):
        return f"fetched {given['url']}"
    code = given.get("code") or given.get("command")
    if name.endswith("code_execution") and isinstance(code, str) and "path" not in given:
        return f"ran code:\n{code}"
    server = as_text(block.get("server_name"))
    return f"used {name}{' of ' + server if server else ''} {compact_json(given)}"


def _tool_name(tool: Any) -> str:
    reference = as_object(tool) or {}
    return as_text(reference.get("name")) or as_text(reference.get("tool_name"))


def _result_words(block: JsonObject) -> str:
    return plain_words(
        {key: value for key, value in block.items() if key not in ("type", "is_error")}
    )


def referenced_tool(block: JsonObject) -> str:
    """The tool that the block adds, removes or refers to; empty if it names none."""
    kind = as_text(block.get("type"))
    if kind in ("tool_addition", "tool_removal"):
        return _tool_name(block.get("tool"))
    return as_text(block.get("tool_name")) if kind == "tool_reference" else ""


# Calls of server tools and their results.

#: The place of a call that an earlier request has sent.
SENT = (-1, -1)


class ServerPairs:
    """Pairs calls of server tools with their results, in the order of the turns; a place is the indexes of a turn and its part.

    ``sent`` are the ids of calls that an earlier request has sent, ``waiting`` those of them that have no result yet, and
    ``left`` those that can have none any more.
    """

    def __init__(
        self, sent: Iterable[str] = (), waiting: Iterable[str] = (), left: Iterable[str] = ()
    ) -> None:
        self.ids: set[str] = set(sent)
        self._open: dict[str, tuple[int, int]] = dict.fromkeys(waiting, SENT)
        self._left: list[tuple[str, tuple[int, int]]] = [(each, SENT) for each in left]

    def interrupt(self) -> None:
        """Handle a user turn: no result after it can belong to a call before it."""
        self._left += self._open.items()
        self._open = {}

    def add(self, part: Native, place: tuple[int, int]) -> str:
        """Add the next block; return the reason if it is not allowed there."""
        kind = as_text(part.raw.get("type"))
        if kind in SERVER_CALLS:
            identifier = as_text(part.raw.get("id"))
            if not identifier or identifier in self.ids:
                return "a call of a server tool without an id of its own"
            self.ids.add(identifier)
            self._open[identifier] = place
        elif is_server_result(kind) and (
            self._open.pop(as_text(part.raw.get("tool_use_id")), None) is None
        ):
            return "a result of a server tool without its call"
        return ""

    def open_calls(self) -> list[tuple[str, tuple[int, int]]]:
        """The calls without a result, and their places."""
        return [*self._left, *self._open.items()]

    def close(self, identifier: str) -> None:
        """Handle that a call is not sent as one."""
        self.ids.discard(identifier)
        self._open.pop(identifier, None)
        self._left = [call for call in self._left if call[0] != identifier]

    @property
    def waiting(self) -> list[str]:
        """The calls that a later result may answer."""
        return list(self._open)

    @property
    def left(self) -> list[str]:
        """The calls that no result can answer any more."""
        return [identifier for identifier, _ in self._left]


def is_server_block(block: JsonObject) -> bool:
    """Whether the block is a call or a result of a tool that runs on Anthropic's side."""
    kind = as_text(block.get("type"))
    return kind in SERVER_CALLS or is_server_result(kind)


def may_stay_open(turns: Sequence[Turn], at: int) -> bool:
    """Whether a server call of this turn may be sent without a result."""
    following = [turn.role for turn in turns[at + 1 :]]
    if not following:
        return True
    calls = any(type(part) is ToolCall for part in turns[at].parts)
    return calls and following[0] == "tool" and set(following) <= {"tool", "user", "system"}
