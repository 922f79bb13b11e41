"""``mlc config``: the settings and where they are."""

import json

import click
import msgspec

from multi_llm_chat.config.config_file import read_settings
from multi_llm_chat.config.folders import program_folders

_EXAMPLE = """\
# The settings of multi_llm_chat. Everything may be left out.

# default_speaker = "claude"
# system_prompt = "Answer briefly."

# [speakers.claude]
# provider = "anthropic"
# model = "claude-sonnet-5"
# [speakers.claude.options]
# temperature = 0.3

# [groups]
# council = ["claude", "gemini"]

# [tools]
# approval = "ask"
# folders = ["~/notes"]
"""


@click.group()
def config() -> None:
    """Show the configuration and where it is."""


@config.command("path")
def path_command() -> None:
    """Print where configuration, data and logs are."""
    folders = program_folders()
    for name, place in (
        ("config", folders.config_file), ("mcp", folders.servers_file),
        ("conversations", folders.store_file), ("state", folders.state),
    ):  # fmt: skip
        click.echo(f"{name:14} {place}")


@config.command("show")
def show_command() -> None:
    """Print the settings as they are understood, as JSON."""
    settings = read_settings(program_folders().config_file)
    click.echo(json.dumps(msgspec.to_builtins(settings), ensure_ascii=False, indent=2))


@config.command("edit")
def edit_command() -> None:
    """Open the settings in your editor, and check them."""
    path = program_folders().config_file
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(_EXAMPLE, encoding="utf-8")
    click.edit(filename=str(path))
    read_settings(path)
