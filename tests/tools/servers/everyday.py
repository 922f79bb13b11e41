"""A well-behaved server: ``python everyday.py`` (stdio) or ``python everyday.py DESCRIPTOR`` (HTTP)."""

import os
import socket
import sys
import warnings
from typing import Annotated, Any

import mcp_types
import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import BaseModel

# Logging is deprecated in the newest protocol, but servers still use it.
warnings.simplefilter("ignore", MCPDeprecationWarning)

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(8)

server = MCPServer("everyday", log_level="ERROR")


@server.tool(annotations=mcp_types.ToolAnnotations(read_only_hint=True))
def add(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


@server.tool(annotations=mcp_types.ToolAnnotations(read_only_hint=True))
def environment(name: str) -> str:
    """An environment variable of the server."""
    return os.environ.get(name, "(not set)")


@server.tool(annotations=mcp_types.ToolAnnotations(read_only_hint=True))
def folder() -> str:
    """The server's folder."""
    return os.getcwd()


@server.tool(annotations=mcp_types.ToolAnnotations(destructive_hint=True))
def erase(path: str) -> str:
    """Pretend to erase something."""
    return f"erased {path}"


@server.tool(annotations=mcp_types.ToolAnnotations(read_only_hint=True), structured_output=False)
def picture() -> list[Any]:
    """A picture with a caption."""
    return ["a picture:", Image(data=PICTURE, format="png")]


@server.tool(annotations=mcp_types.ToolAnnotations(read_only_hint=True))
def broken() -> str:
    """Always fails."""
    raise ToolError("the handle came off")


@server.tool(annotations=mcp_types.ToolAnnotations(read_only_hint=True))
async def steps(context: Context[Any, Any]) -> str:
    """Tells its progress and logs."""
    for step in range(3):
        await context.report_progress(step + 1, 3, f"step {step + 1}")
    await context.info("walked three steps")  # pyright: ignore[reportDeprecated]
    return "arrived"


@server.tool(annotations=mcp_types.ToolAnnotations(read_only_hint=True))
def key(context: Context[Any, Any]) -> str:
    """What tells this call from all others."""
    meta = context.request_context.meta or {}
    return str(meta.get("multi-llm-chat/idempotency_key"))


@server.tool(annotations=mcp_types.ToolAnnotations(read_only_hint=True))
def die() -> str:
    """Ends the whole server."""
    sys.stderr.write("goodbye, cruel world\n")
    sys.stderr.flush()
    os._exit(3)


class Choice(BaseModel):
    colour: str


async def ask_colour() -> Elicit[Choice]:
    return Elicit("Which colour?", Choice)


@server.tool(annotations=mcp_types.ToolAnnotations(read_only_hint=True))
async def paint(choice: Annotated[Choice, Resolve(ask_colour)]) -> str:
    """Asks the user for a colour."""
    return f"painted it {choice.colour}"


@server.tool(annotations=mcp_types.ToolAnnotations(read_only_hint=True))
async def grow(context: Context[Any, Any]) -> str:
    """Adds a tool to the server."""

    def grown() -> str:
        """Was not there before."""
        return "here I am"

    server.add_tool(grown, annotations=mcp_types.ToolAnnotations(read_only_hint=True))
    await context.notify_tools_changed()
    return "grown"


@server.tool(annotations=mcp_types.ToolAnnotations(read_only_hint=True), structured_output=False)
def large(size: int) -> str:
    """A long text."""
    return "x" * size


@server.resource("note://today", mime_type="text/plain")
def note() -> str:
    """Today's note."""
    return "buy milk"


@server.resource("note://{day}")
def day_note(day: str) -> str:
    """A day's note."""
    return f"nothing on {day}"


@server.prompt()
def greet(name: str) -> str:
    """Greets somebody."""
    return f"Please greet {name}."


if __name__ == "__main__":
    if len(sys.argv) > 1:
        listening = socket.socket(fileno=int(sys.argv[1]))
        settings = uvicorn.Config(server.streamable_http_app(), log_level="error")
        uvicorn.Server(settings).run(sockets=[listening])
    else:
        server.run()
