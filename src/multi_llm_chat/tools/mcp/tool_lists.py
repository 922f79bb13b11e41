"""What a server offers, read within bounds.

Rules:
1. A list has an end: at most ``MOST_PAGES`` pages and ``MOST_ITEMS`` items, no cursor twice. What is beyond
   is left out, and said so.
2. A tool that only reads runs without asking; any other is asked for, unless the user's settings allow it:
   hints come from the server and are no more than hints.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar

import mcp_types

from multi_llm_chat.history.json_values import clean_text
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.tools.mcp.server_settings import ServerSettings
from multi_llm_chat.tools.tool import Approval, Resume, Tool, ToolContext

MOST_PAGES: Final = 50
MOST_ITEMS: Final = 1_000
_LONGEST_DESCRIPTION: Final = 8_000

_Item = TypeVar("_Item")
_Page = TypeVar("_Page", bound="_HasCursor")


class _HasCursor(Protocol):
    next_cursor: str | None


async def list_all(
    fetch: Callable[[str | None], Awaitable[_Page]], items_of: Callable[[_Page], Sequence[_Item]]
) -> tuple[list[_Item], str]:
    """All items of a list with pages, and a line about what was left out."""
    items: list[_Item] = []
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(MOST_PAGES):
        page = await fetch(cursor)
        items.extend(items_of(page))
        if len(items) > MOST_ITEMS:
            return items[:MOST_ITEMS], f"its list has more than {MOST_ITEMS} entries"
        cursor = page.next_cursor
        if cursor is None:
            return items, ""
        if cursor in seen:
            return items, "its list leads back to its own beginning"
        seen.add(cursor)
    return items, f"its list has more than {MOST_PAGES} pages"


#: Runs a tool by its own name.
Caller = Callable[[str, JsonObject, ToolContext], Awaitable[object]]


def tools_from(
    listed: Sequence[mcp_types.Tool], settings: ServerSettings, call: Caller
) -> list[Tool]:
    """The server's tools, without those the settings disable or that have no name."""
    return [
        _tool(tool, settings, call)
        for tool in listed
        if tool.name.strip() and tool.name not in settings.disabled_tools
    ]


def _tool(tool: mcp_types.Tool, settings: ServerSettings, call: Caller) -> Tool:
    original = tool.name

    async def run(arguments: JsonObject, context: ToolContext) -> object:
        return await call(original, arguments, context)

    description = clean_text(tool.description or tool.title or "")
    return Tool(
        original,
        run,
        description[:_LONGEST_DESCRIPTION],
        tool.input_schema,
        settings.name,
        settings.timeout,
        _approval(tool, settings),
        _resume(tool.annotations),
    )


def _approval(tool: mcp_types.Tool, settings: ServerSettings) -> Approval:
    hints = tool.annotations
    reads_only = hints is not None and hints.read_only_hint is True
    return "always" if reads_only or tool.name in settings.always_allow else "ask"


def _resume(hints: mcp_types.ToolAnnotations | None) -> Resume:
    if hints is not None and (hints.read_only_hint or hints.idempotent_hint):
        return "retry"
    return "ask"
