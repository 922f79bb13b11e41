"""What is said beside the answers, and what was piped in."""

import sys

import click


def tell(text: str) -> None:
    """Say something that is no part of the answer."""
    click.echo(text, err=True)


def read_input() -> str:
    """What was piped in, if anything was."""
    return "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read()
