"""Tools and tool servers: the panel in a chat, the page of the settings, and the prompts of servers."""

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from multi_llm_chat.chat.workspace import approval_rules
from multi_llm_chat.config.settings import Settings
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.values import JsonObject, Text
from multi_llm_chat.web.config_editor import (
    add_servers,
    change_settings,
    remove_server,
    replace_server,
    server_entry,
)
from multi_llm_chat.web.routes.request_context import RequestContext
from multi_llm_chat.web.routes.settings import render_page
from multi_llm_chat.web.views import address_of, id_of

if TYPE_CHECKING:
    from multi_llm_chat.web.hub import Hub


async def panel(request: Request) -> Response:
    """The panel of tools."""
    context = RequestContext(request)
    html = context.renderer.render(
        "tools.html",
        tools=context.hub.servers.groups(),
        problems=context.hub.workspace.problems,
        is_admin=context.access.is_admin(context.user),
    )
    return HTMLResponse(html)


async def page(request: Request) -> Response:
    """The servers and their tools; the address names the server that is shown."""
    context = RequestContext(request)
    hub = context.hub
    groups = hub.servers.groups()
    wanted = request.path_params.get("server")
    name = groups[0].source if wanted is None and groups else id_of(wanted or "")
    shown = next((each for each in groups if each.source == name), None)
    if wanted is not None and shown is None:
        return RedirectResponse("/settings/tools", 303)
    entry = server_entry(hub.workspace.folders, name) if name else None
    rules = hub.workspace.settings.tools.rules
    return render_page(
        context,
        "tools",
        groups=groups,
        shown=shown,
        is_new="new" in request.query_params or not groups,
        entry=msgspec.json.format(msgspec.json.encode(entry)).decode() if entry else "",
        place=_place(entry),
        log=hub.servers.log(name) if name else [],
        rules=rules,
        address=address_of,
        problems=hub.workspace.problems,
    )


def _place(entry: JsonObject | None) -> str:
    """Where a server runs: its program, or its address without what may be secret."""
    if not entry:
        return ""
    url = str(entry.get("url") or entry.get("serverUrl") or "")
    return url.partition("?")[0] or str(entry.get("command", ""))


class ToggleBody(Struct):
    """Tools to enable or disable."""

    names: list[str]
    enabled: bool


async def toggle(request: Request) -> Response:
    """Enable or disable tools, and save it in the settings."""
    context = RequestContext(request)
    context.require_admin()
    wanted = await context.read_body(ToggleBody)
    registry = context.hub.workspace.tools
    (registry.enable if wanted.enabled else registry.disable)(*wanted.names)

    def change(document: Any, settings: Settings) -> None:
        disabled = set(settings.tools.disabled) - set(wanted.names)
        disabled |= set() if wanted.enabled else set(wanted.names)
        document.setdefault("tools", {})["disabled"] = sorted(disabled)

    change_settings(context.hub.workspace.folders, change)
    context.hub.publish_to_all({"op": "tools"})
    return JSONResponse({})


class AddServersBody(Struct):
    """The ``mcpServers`` JSON of servers to add."""

    text: str


async def add(request: Request) -> Response:
    """Add servers and start them."""
    context = RequestContext(request)
    context.require_admin()
    added = await context.read_body(AddServersBody)
    names = add_servers(context.hub.workspace.folders, added.text)
    await context.hub.servers.add(added.text)
    return JSONResponse({"servers": names})


class ServerBody(Struct):
    """A server, or one of its prompts."""

    server: str
    name: str = ""
    arguments: dict[str, str] = {}


async def restart(request: Request) -> Response:
    """Restart a server, and report the result."""
    context = RequestContext(request)
    context.require_admin()
    name = (await context.read_body(ServerBody)).server
    await context.hub.servers.restart(name)
    state = next(each for each in context.hub.servers.states() if each.server == name)
    count = sum(tool.source == name for tool in context.hub.workspace.tools.listing())
    return JSONResponse({"state": state.state, "message": state.message, "tools": count})


class EntryBody(Struct):
    """The entry of a server in ``mcp.json``; values that the page does not show stay as they are."""

    server: str
    text: str


async def edit(request: Request) -> Response:
    """Change the entry of a server and restart it."""
    context = RequestContext(request)
    context.require_admin()
    body = await context.read_body(EntryBody)
    entry = replace_server(context.hub.workspace.folders, body.server, body.text)
    if context.hub.servers.has(body.server):
        await context.hub.servers.remove(body.server)
    document = msgspec.json.encode({"mcpServers": {body.server: entry}}).decode()
    await context.hub.servers.add(document)
    return JSONResponse({})


async def remove(request: Request) -> Response:
    """End a server and remove it from the settings."""
    context = RequestContext(request)
    context.require_admin()
    name = (await context.read_body(ServerBody)).server
    remove_server(context.hub.workspace.folders, name)
    if context.hub.servers.has(name):
        await context.hub.servers.remove(name)
    return JSONResponse({})


class RuleBody(Struct):
    """An approval rule: the server and the tool, or a pattern; without a policy the rule is removed."""

    pattern: str
    approval: Literal["always", "ask", "never", ""] = ""


async def rule(request: Request) -> Response:
    """Set or remove an approval rule, and save it in the settings."""
    context = RequestContext(request)
    context.require_admin()
    set_rule(context.hub, await context.read_body(RuleBody))
    return JSONResponse({})


def set_rule(hub: "Hub", wanted: RuleBody) -> None:
    """Set or remove an approval rule, here and in the settings."""

    def change(document: Any, _settings: Settings) -> None:
        rules = document.setdefault("tools", {}).setdefault("rules", {})
        if wanted.approval:
            rules[wanted.pattern] = wanted.approval
        else:
            rules.pop(wanted.pattern, None)

    hub.workspace.settings = change_settings(hub.workspace.folders, change)
    hub.workspace.tools.set_rules(approval_rules(hub.workspace.settings))
    hub.publish_to_all({"op": "tools"})


async def prompts(request: Request) -> Response:
    """The prompts of all servers."""
    found = await RequestContext(request).hub.servers.prompts()
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
    """A prompt with its arguments filled in, as text for the composer."""
    context = RequestContext(request)
    wanted = await context.read_body(ServerBody)
    turns = await context.hub.servers.prompt(wanted.server, wanted.name, wanted.arguments)
    texts = [part.content for turn in turns for part in turn.parts if isinstance(part, Text)]
    if not texts:
        raise UsageError(f"The prompt {wanted.name!r} has no text")
    return JSONResponse({"text": "\n\n".join(texts)})
