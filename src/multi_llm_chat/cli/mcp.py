"""``mlc mcp`` and ``mlc tools``: the servers in ``mcp.json``, and the tools they offer.

Rules:
1. The file is the shared ``mcpServers`` JSON; keys of other programs in it are kept.
2. The file is replaced atomically. A file that cannot be read is not overwritten.
"""

import json
import os
from pathlib import Path
from typing import Any

import click

from multi_llm_chat.cli.messages import one_line, print_json, print_message
from multi_llm_chat.cli.workspace_option import open_workspace, print_waiting, start_tools
from multi_llm_chat.config.folders import program_folders
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.json_values import as_object
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.tools import ToolRegistry
from multi_llm_chat.tools.mcp.server_settings import ReadServers, read_servers

# MCP servers.


@click.group()
def mcp() -> None:
    """List, add, remove and test MCP servers."""


@mcp.command("list")
def list_command() -> None:
    """List the configured servers."""
    with open_workspace() as workspace:
        found = workspace.configured_servers()
    for server in found.servers:
        state = "off" if server.disabled else "on"
        place = server.url or " ".join([server.command, *server.args])
        click.echo(f"{server.name:16} {state:4} {one_line(place)}")
    for problem in found.problems:
        print_message(problem)


@mcp.command("add", context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("-e", "--env", multiple=True, metavar="NAME=VALUE", help="A variable for the server.")
@click.option(
    "-H",
    "--header",
    multiple=True,
    metavar="NAME: VALUE",
    help="An HTTP header for a server with a URL.",
)
@click.option(
    "--trusted", is_flag=True, help="Run tools that the server calls read-only without asking."
)
def add_command(
    name: str,
    command: tuple[str, ...],
    env: tuple[str, ...],
    header: tuple[str, ...],
    trusted: bool,
) -> None:
    """Add the server NAME: a COMMAND with its arguments, a URL, or its JSON.

    A value such as ${TOKEN} is read from the environment when the server starts, and not written into the file.
    """
    entry = _entry(command, env, header)
    if trusted:
        entry["trusted"] = True
    checked = read_servers({"mcpServers": {name: entry}}, environment=_Anything())
    if checked.problems:
        raise UsageError(checked.problems[0])
    content, servers = _content()
    servers[name] = entry
    _write(content)
    print_message(f"{name} is added. Try it: mlc mcp test {name}")


@mcp.command("remove")
@click.argument("name")
def remove_command(name: str) -> None:
    """Remove the server NAME."""
    content, servers = _content()
    if servers.pop(name, None) is None:
        raise UsageError(f"There is no server {name!r}; see: mlc mcp list")
    _write(content)
    print_message(f"{name} is removed.")


@mcp.command("test")
@click.argument("names", nargs=-1)
def test_command(names: tuple[str, ...]) -> None:
    """Start the servers NAMES (all if none is named) and list their tools."""
    from multi_llm_chat.tools.mcp import McpServers  # noqa: PLC0415  heavy, and an extra

    with open_workspace() as workspace:
        found = workspace.configured_servers()
        chosen = tuple(each for each in found.servers if not names or each.name in names)
        if missing := set(names) - {each.name for each in chosen}:
            raise UsageError(f"There is no server {missing.pop()!r}; see: mlc mcp list")
        registry = ToolRegistry()
        failed = False
        with McpServers(ReadServers(chosen), registry, on_waiting=print_waiting) as servers:
            for state in servers.states():
                count = sum(each.source == state.server for each in registry.listing())
                detail = f"{count} tools" if state.state == "ready" else one_line(state.message)
                click.echo(f"{state.server:16} {state.state:10} {detail}")
                failed |= state.state != "ready"
            for tool in registry.listing():
                click.echo(f"    {tool.name:32} {one_line(tool.description)[:80]}")
    if failed:
        raise click.exceptions.Exit(1)


def _entry(command: tuple[str, ...], env: tuple[str, ...], header: tuple[str, ...]) -> JsonObject:
    first = command[0]
    if first.startswith("-"):
        raise UsageError(
            f"There is no option {first!r}. Name the server's program or its address: "
            "mlc mcp add NAME COMMAND …, or mlc mcp add NAME https://…"
        )
    is_remote = first.startswith(("http://", "https://"))
    if header and not is_remote:
        raise UsageError("Headers are for servers with a URL; --env is for those with a command")
    if env and is_remote:
        raise UsageError(
            "Variables are for servers with a command; --header is for those with a URL"
        )
    if first.lstrip().startswith("{"):
        try:
            return as_object(json.loads(first)) or {}
        except ValueError as error:
            raise UsageError(f"The server's JSON cannot be read: {error}") from None
    if is_remote:
        headers = [each.partition(":") for each in header]
        if any(not separator or not name.strip() for name, separator, _ in headers):
            raise UsageError("A header is given as 'NAME: VALUE'")
        sent = {name.strip(): value.strip() for name, _, value in headers}
        return {"url": first, "headers": sent} if sent else {"url": first}
    entry: JsonObject = {"command": first, "args": list(command[1:])}
    pairs = [each.partition("=") for each in env]
    if any(not separator for _, separator, _ in pairs):
        raise UsageError("A variable is given as NAME=VALUE")
    if pairs:
        entry["env"] = {name: value for name, _, value in pairs}
    return entry


def _content() -> tuple[JsonObject, JsonObject]:
    """The content of the file, and its part with the servers."""
    path = program_folders().servers_file
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        content = {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}. Repair it first") from None
    whole = as_object(content)
    servers = None if whole is None else as_object(whole.setdefault("mcpServers", {}))
    if whole is None or servers is None:
        raise UsageError(f'{path} is no MCP configuration: expected {{"mcpServers": {{…}}}}')
    return whole, servers


def _write(content: JsonObject) -> None:
    path: Path = program_folders().servers_file
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    draft.chmod(0o600)  # the file may contain secrets
    draft.replace(path)


class _Anything(dict[str, str]):
    """An environment in which every variable is set, to check only the form of an entry."""

    def get(self, key: str, default: Any = None) -> Any:
        del default
        return f"${key}"


# Tools.


@click.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def tools(as_json: bool) -> None:
    """List the tools of all MCP servers: whether they are offered, and whether they need approval."""
    with open_workspace() as workspace:
        start_tools(workspace)
        listing = workspace.tools.listing()
    if as_json:
        rows = [{name: getattr(each, name) for name in each.__struct_fields__} for each in listing]
        print_json(rows)
        return
    for tool in listing:
        state = tool.approval if tool.enabled else "off"
        click.echo(f"{tool.name:32} {state:7} {tool.source:12} {one_line(tool.description)[:80]}")
    if not listing:
        print_message(
            "There are no tools. Add a server: mcp add, or set [tools] folders in the configuration."
        )
