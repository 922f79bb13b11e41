"""The tools' panel: what there is, and its switches."""

from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from multi_llm_chat.config.settings import Settings
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.values import Text
from multi_llm_chat.web.config_editor import change_settings, keep_servers
from multi_llm_chat.web.routes.request_body import asking


async def panel(request: Request) -> Response:
    """The panel."""
    told = asking(request)
    html = told.drawing.draw(
        "tools.html",
        tools=told.hub.servers.groups(),
        problems=told.hub.workspace.problems,
        may_change=told.access.may_change(told.user),
    )
    return HTMLResponse(html)


class Toggle(Struct):
    """A switch."""

    names: list[str]
    enabled: bool


async def toggle(request: Request) -> Response:
    """Switch tools on or off, now and from now on."""
    told = asking(request)
    told.require_admin()
    wanted = await told.body(Toggle)
    registry = told.hub.workspace.tools
    (registry.enable if wanted.enabled else registry.disable)(*wanted.names)

    def change(document: Any, settings: Settings) -> None:
        disabled = set(settings.tools.disabled) - set(wanted.names)
        disabled |= set() if wanted.enabled else set(wanted.names)
        document.setdefault("tools", {})["disabled"] = sorted(disabled)

    change_settings(told.hub.workspace.folders, change)
    told.hub.tell_all({"op": "tools"})
    return JSONResponse({})


class Added(Struct):
    """The ``mcpServers`` JSON of servers to add."""

    text: str


async def add(request: Request) -> Response:
    """Add servers, and start them."""
    told = asking(request)
    told.require_admin()
    added = await told.body(Added)
    names = keep_servers(told.hub.workspace.folders, added.text)
    told.hub.servers.add(added.text)
    return JSONResponse({"servers": names})


class Server(Struct):
    """One of the servers, or one of its prompts."""

    server: str
    name: str = ""
    arguments: dict[str, str] = {}


async def restart(request: Request) -> Response:
    """Start a server again that was given up."""
    told = asking(request)
    told.require_admin()
    await told.hub.servers.restart((await told.body(Server)).server)
    return JSONResponse({})


async def prompts(request: Request) -> Response:
    """The prompts that servers offer."""
    found = await asking(request).hub.servers.prompts()
    return JSONResponse(
        [
            {
                "server": each.server,
                "name": each.name,
                "description": each.description,
                "arguments": [argument.name for argument in each.arguments],
            }
            for each in found
        ]
    )


async def prompt(request: Request) -> Response:
    """A prompt, filled in, as text for the composer."""
    told = asking(request)
    wanted = await told.body(Server)
    turns = await told.hub.servers.prompt(wanted.server, wanted.name, wanted.arguments)
    words = [part.content for turn in turns for part in turn.parts if isinstance(part, Text)]
    if not words:
        raise UsageError(f"The prompt {wanted.name!r} has no words")
    return JSONResponse({"text": "\n\n".join(words)})
