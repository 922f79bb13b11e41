"""``mlc config``, ``mlc keys`` and ``mlc doctor``: settings, keys, and whether they work.

Keys are saved in the keyring, or in a file that only its owner can read.
"""

import asyncio
import sys
from importlib import import_module
from typing import Any

import click
import msgspec

from multi_llm_chat.cli.messages import one_line, print_json, print_message
from multi_llm_chat.config.config_file import read_settings
from multi_llm_chat.config.folders import program_folders
from multi_llm_chat.config.keys import Keys
from multi_llm_chat.errors import UsageError
from multi_llm_chat.event_codec import write_value
from multi_llm_chat.protocol.providers import ROWS, provider_row

# Settings.

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
    print_json(msgspec.to_builtins(settings))


@config.command("edit")
def edit_command() -> None:
    """Open the settings in your editor, and check them."""
    path = program_folders().config_file
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(_EXAMPLE, encoding="utf-8")
    click.edit(filename=str(path))
    read_settings(path)


# Keys.


@click.group()
def keys() -> None:
    """Set, list and remove the keys of providers."""


@keys.command("set")
@click.argument("provider")
def set_command(provider: str) -> None:
    """Keep the key of PROVIDER; it is asked for, or read from standard input, never from the command line."""
    variable = _variable(provider)
    if sys.stdin.isatty():
        value = str(click.prompt(f"{variable}", hide_input=True, err=True))
    else:
        value = sys.stdin.readline()
    Keys().set(variable, value)
    print_message(f"{variable} is saved.")


@keys.command("list")
def list_command() -> None:
    """List the keys that are set: where they are, and how they end."""
    variables = [variable for row in ROWS.values() for variable in row.key_variables]
    for found in Keys().list(variables):
        click.echo(f"{found.variable:24} {found.hint:8} {found.place}")


@keys.command("remove")
@click.argument("provider")
def remove_command(provider: str) -> None:
    """Forget the key of PROVIDER."""
    variable = _variable(provider)
    keys_store = Keys()
    if keys_store.remove(variable):
        print_message(f"{variable} is forgotten.")
        return
    found = keys_store.find(variable)
    if found is None:
        raise UsageError(f"{variable} is not set")
    raise UsageError(f"{variable} is set in the {found.place}; remove it there")


def _variable(provider: str) -> str:
    row = provider_row(provider)
    if row.key_variable is None:
        raise UsageError(f"{row.name} needs no key")
    return row.key_variable


# The doctor.

_SIGNS = {"ok": ("✓", "green"), "missing": ("·", "bright_black"), "wrong": ("✗", "red")}


@click.command()
@click.option("--online", is_flag=True, help="Try the keys: asks each provider for its models.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def doctor(online: bool, as_json: bool) -> None:
    """Show what is configured, what is missing and what works; exits with 1 if something is wrong."""
    checks: Any = import_module(
        "multi_llm_chat.chat.doctor"
    )  # imports the whole chat package, which the other commands do not need
    found = asyncio.run(checks.diagnose(ask_providers=online))
    if as_json:
        print_json(write_value(found.findings))
    area = ""
    for finding in () if as_json else found.findings:
        if finding.area != area:
            area = finding.area
            click.secho(area, bold=True)
        sign, colour = _SIGNS[finding.state]
        click.secho(f"  {sign} ", fg=colour, nl=False)
        click.echo(one_line(f"{finding.name}  {finding.detail}"))
        if finding.advice:
            click.secho(f"      {one_line(finding.advice)}", fg="bright_black")
    if not found.is_well:
        raise click.exceptions.Exit(1)
