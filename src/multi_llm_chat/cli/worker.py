"""``mlc worker``: give answers that others have asked for, from the queue."""

import asyncio
import logging
import signal
from importlib import import_module
from typing import Any

import click

from multi_llm_chat.chat.approvals import deciding_in
from multi_llm_chat.chat.planner import Planner
from multi_llm_chat.chat.run_resolver import RunResolver
from multi_llm_chat.chat.tool_scope import scoped
from multi_llm_chat.chat.workspace import Workspace
from multi_llm_chat.cli.stderr import tell
from multi_llm_chat.cli.tool_startup import astart_tools
from multi_llm_chat.cli.workspace_option import open_workspace, store_option
from multi_llm_chat.errors import UsageError
from multi_llm_chat.runs.health import serve_health
from multi_llm_chat.runs.leases import LEASE


@click.command()
@click.option("--engine", metavar="ADDRESS", required=True, help="The database of the queue.")
@click.option("--concurrency", default=50, show_default=True, help="Answers at the same time.")
@click.option(
    "--drain", default=30.0, show_default=True, help="Seconds to finish answers at the end."
)
@click.option("--lease", default=LEASE, show_default=True, help="Seconds until others take over.")
@click.option(
    "--health", metavar="PORT", type=int, help="Tell /healthz, /readyz and /metrics there."
)
@store_option
def worker(
    engine: str, concurrency: int, drain: float, lease: float, health: int | None, db: str | None
) -> None:
    """Give answers from the queue, until SIGTERM.

    Then no more are taken; those that are not finished in time are given back, and another worker goes on with them.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    try:
        module: Any = import_module("multi_llm_chat.runs.dbos_queue")  # a heavy part of its own
    except ImportError:
        raise UsageError(
            "Workers need more packages: pip install 'multi_llm_chat[scale]'"
        ) from None
    with open_workspace(db, deciding_in(lambda: workspace.host), lease=lease) as workspace:
        if workspace.store.file is not None:
            raise UsageError("Workers need a database that all reach: --db postgresql://…")
        planner = Planner(workspace.settings, workspace.speakers, workspace.tools)
        made = module.Worker(
            workspace.host, engine, RunResolver(planner, scoped), concurrency=concurrency
        )
        asyncio.run(_work(workspace, made, drain, health))


async def _work(workspace: Workspace, made: Any, drain: float, health: int | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    startup = asyncio.ensure_future(astart_tools(workspace))
    stopping = asyncio.ensure_future(stop.wait())  # also while a server takes a minute to start
    await asyncio.wait({startup, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not startup.done():
        startup.cancel()
        return
    startup.result()
    server = await serve_health(workspace.store, health) if health is not None else None
    tell("Working; Ctrl-C or SIGTERM ends.")
    try:
        await made.run(stop, drain=drain)
    finally:
        if server is not None:
            server.close()
        await workspace.speakers.aclose()
