"""``mlc simulate``: every provider on this machine, for demonstrations, teaching and tests."""

import sys

import click

from multi_llm_chat.testing.simulator.__main__ import main as run_simulator


@click.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def simulate(arguments: tuple[str, ...]) -> None:
    """Run a server that speaks every provider's format, streamed and not, until Ctrl-C.

    The options are those of ``python -m multi_llm_chat.testing.simulator``.
    """
    sys.exit(run_simulator(list(arguments)))
