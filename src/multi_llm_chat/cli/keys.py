"""``mlc keys``: the keys of providers, kept in the keyring or a file that only its owner can read."""

import sys

import click

from multi_llm_chat.cli.stderr import tell
from multi_llm_chat.config.keys import Keys
from multi_llm_chat.errors import UsageError
from multi_llm_chat.protocol.providers import ROWS, provider_row


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
    tell(f"{variable} is kept.")


@keys.command("list")
def list_command() -> None:
    """List the keys that are set: where they are, and how they end."""
    variables = [row.key_variable for row in ROWS.values() if row.key_variable]
    for found in Keys().list(variables):
        click.echo(f"{found.variable:24} {found.hint:8} {found.place}")


@keys.command("remove")
@click.argument("provider")
def remove_command(provider: str) -> None:
    """Forget the key of PROVIDER."""
    variable = _variable(provider)
    kept = Keys()
    if kept.remove(variable):
        tell(f"{variable} is forgotten.")
        return
    found = kept.find(variable)
    if found is None:
        raise UsageError(f"{variable} is not set")
    raise UsageError(f"{variable} is set in the {found.place}; remove it there")


def _variable(provider: str) -> str:
    row = provider_row(provider)
    if row.key_variable is None:
        raise UsageError(f"{row.name} needs no key")
    return row.key_variable
