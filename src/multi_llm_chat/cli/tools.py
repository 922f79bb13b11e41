"""``mlc tools``: what the models may use."""

import json

import click

from multi_llm_chat.cli.stderr import tell
from multi_llm_chat.cli.terminal.safety import one_line
from multi_llm_chat.cli.tool_startup import start_tools
from multi_llm_chat.cli.workspace_option import open_workspace


@click.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def tools(as_json: bool) -> None:
    """List the tools of all MCP servers: whether they are offered, and whether they need approval."""
    with open_workspace() as workspace:
        start_tools(workspace)
        listing = workspace.tools.listing()
    if as_json:
        rows = [{name: getattr(each, name) for name in each.__struct_fields__} for each in listing]
        click.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    for tool in listing:
        state = tool.approval if tool.enabled else "off"
        click.echo(f"{tool.name:32} {state:7} {tool.source:12} {one_line(tool.description)[:80]}")
    if not listing:
        tell(
            "There are no tools. Add a server: mcp add, or set [tools] folders in the configuration."
        )
