"""``mlc completion``: completion for shells."""

import click
from click.shell_completion import get_completion_class

_PROGRAM = "mlc"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script for SHELL: eval "$(mlc completion bash)"."""
    made = get_completion_class(shell)
    assert made is not None
    root = ctx.find_root().command
    click.echo(made(root, {}, _PROGRAM, f"_{_PROGRAM.upper()}_COMPLETE").source())
