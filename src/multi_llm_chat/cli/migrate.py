"""``mlc migrate``: make or bring up to date what the program keeps its data in."""

from importlib import import_module
from typing import Any

import click

from multi_llm_chat.cli.stderr import tell
from multi_llm_chat.cli.workspace_option import open_workspace, store_option
from multi_llm_chat.errors import UsageError


@click.command()
@click.option("--engine", metavar="ADDRESS", help="The database of the workers' queue, too.")
@store_option
def migrate(engine: str | None, db: str | None) -> None:
    """Make or migrate the databases, before workers and servers start.

    The conversations are migrated by every program that opens them, too; the workers' queue only here.
    """
    with open_workspace(db) as workspace:
        workspace.store  # noqa: B018 opening migrates
    tell("The conversations are up to date.")
    if engine is not None:
        try:
            module: Any = import_module("multi_llm_chat.runs.dbos_queue")  # a heavy part of its own
        except ImportError:
            raise UsageError(
                "Workers need more packages: pip install 'multi_llm_chat[scale]'"
            ) from None
        module.migrate_engine(engine)
        tell("The engine is up to date.")
