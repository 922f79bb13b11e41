"""``mlc serve``, ``mlc worker``, ``mlc migrate`` and ``mlc simulate``: the web app, workers, their databases, the simulator.

The web app, the queue and the simulator are imported by the command that runs them.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from importlib import import_module
from typing import Any

import click

from multi_llm_chat.chat.approvals import deciding_in
from multi_llm_chat.chat.planner import Planner
from multi_llm_chat.chat.run_resolver import RunResolver
from multi_llm_chat.chat.speaker_names import EMBEDDED
from multi_llm_chat.chat.tool_scope import scoped
from multi_llm_chat.chat.workspace import Workspace
from multi_llm_chat.cli.local import prepare_embedded
from multi_llm_chat.cli.messages import print_message
from multi_llm_chat.cli.workspace_option import astart_tools, open_workspace, store_option
from multi_llm_chat.errors import MultiLLMChatError, UsageError
from multi_llm_chat.runs.health import serve_health
from multi_llm_chat.runs.leases import LEASE
from multi_llm_chat.tools.approval import ApprovalCallback

# The web app.


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=8765, show_default=True, help="The port; 0 takes a free one.")
@click.option("--allow-host", multiple=True, help="A name by which browsers call this server.")
@click.option("--auth-header", help="The header in which your proxy names the user.")
@click.option("--proxy", multiple=True, help="The proxy's address; this machine if not given.")
@click.option("--admin", multiple=True, help="A user of the proxy who may change settings.")
@click.option("--https", is_flag=True, help="Browsers reach this server by https.")
@click.option(
    "--metrics-token",
    envvar="MULTI_LLM_CHAT_METRICS_TOKEN",
    show_envvar=True,
    help="What other machines show to read /metrics.",
)
@click.option("--set-password", is_flag=True, help="Ask for a password, keep its hash, and end.")
@click.option(
    "--engine", metavar="ADDRESS", help="Let workers answer: the database of their queue."
)
@store_option
@click.option(
    "--install-model", is_flag=True, help="Where no key is set, install the embedded model unasked."
)
@click.option("--open/--no-open", "opens", default=True, help="Open the page in a browser.")
def serve(**options: Any) -> None:
    """Show conversations in the browser.

    Only this machine reaches it, by the link that is shown here. For other addresses a password or a proxy that knows its
    users is needed.
    """
    try:
        serving: Any = import_module("multi_llm_chat.web.server")  # a large package
        access: Any = import_module("multi_llm_chat.web.access")
    except ImportError as error:
        raise click.ClickException(
            f"The web app needs more packages ({error.name}): pip install 'multi_llm_chat[web]'"
        ) from None
    try:
        _serve(serving, access, options)
    except MultiLLMChatError as error:
        raise click.ClickException(str(error)) from None


def _serve(serving: Any, access: Any, options: dict[str, Any]) -> None:
    hub_module: Any = import_module("multi_llm_chat.web.hub")

    def opening(approve: ApprovalCallback) -> Workspace:
        workspace = Workspace(place=options["db"], approve=approve)
        if options["engine"]:
            workspace.use_queue(options["engine"])
        return workspace

    hub = hub_module.Hub(opening)
    secrets = serving.web_secrets(hub.workspace.folders)
    if options["set_password"]:
        access.set_password(
            secrets, click.prompt("Password", hide_input=True, confirmation_prompt=True)
        )
        click.echo("The password is set.")
        return
    proxy = None
    if options["auth_header"]:
        addresses = tuple(options["proxy"]) or ("127.0.0.1", "::1")
        proxy = access.Proxy(options["auth_header"], addresses, tuple(options["admin"]))
    address = serving.ServerOptions(
        options["host"],
        options["port"],
        tuple(options["allow_host"]),
        proxy,
        options["https"],
        options["metrics_token"] or "",
    )
    door = serving.open_access(address, secrets)
    _prepare_embedded(hub.workspace, is_agreed=options["install_model"])
    listening = _listen(address.host, address.port)
    host = f"[{address.host}]" if ":" in address.host else address.host
    link = f"http://{host}:{listening.getsockname()[1]}/"
    if access.is_loopback(address.host) and proxy is None:
        link += f"?token={door.new_link()}"
    click.echo(f"Open {link}\nCtrl-C ends the server.")
    if options["opens"] and sys.stdout.isatty() and proxy is None:
        click.launch(link)
    with contextlib.suppress(KeyboardInterrupt):  # the normal way to stop the server
        serving.make_server(hub, door, address).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise UsageError(
            f"{host}:{port} cannot be listened on ({error.strerror}); choose another with --port"
        ) from error


def _prepare_embedded(workspace: Workspace, *, is_agreed: bool) -> None:
    """On a new machine without keys, prepare the embedded model; the server also starts without it."""
    names = tuple(workspace.speakers)
    try:
        if names == (EMBEDDED,):
            prepare_embedded(names, is_agreed=is_agreed)
    except click.ClickException as error:
        print_message(error.message)


# A worker.


@click.command()
@click.option("--engine", metavar="ADDRESS", required=True, help="The database of the queue.")
@click.option("--concurrency", default=50, show_default=True, help="Answers at the same time.")
@click.option(
    "--drain", default=30.0, show_default=True, help="Seconds to finish answers at the end."
)
@click.option("--lease", default=LEASE, show_default=True, help="Seconds until others take over.")
@click.option(
    "--health", metavar="PORT", type=int, help="Serve /healthz, /readyz and /metrics there."
)
@store_option
def worker(
    engine: str, concurrency: int, drain: float, lease: float, health: int | None, db: str | None
) -> None:
    """Run answers from the queue, until SIGTERM.

    Then it takes no more; it releases those that are not finished in time, and another worker resumes them.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    try:
        module: Any = import_module("multi_llm_chat.runs.dbos_queue")  # a large package
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
    # Works also while an MCP server takes a minute to start.
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait({startup, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not startup.done():
        startup.cancel()
        return
    startup.result()
    server = await serve_health(workspace.store, health) if health is not None else None
    print_message("Working; Ctrl-C or SIGTERM ends.")
    try:
        await made.run(stop, drain=drain)
    finally:
        if server is not None:
            server.close()
        await workspace.speakers.aclose()


# The databases.


@click.command()
@click.option("--engine", metavar="ADDRESS", help="The database of the workers' queue, too.")
@store_option
def migrate(engine: str | None, db: str | None) -> None:
    """Make or migrate the databases, before workers and servers start.

    The conversations are migrated by every program that opens them, too; the workers' queue only here.
    """
    with open_workspace(db) as workspace:
        workspace.store  # noqa: B018 opening migrates
    print_message("The conversations are up to date.")
    if engine is not None:
        try:
            module: Any = import_module("multi_llm_chat.runs.dbos_queue")  # a large package
        except ImportError:
            raise UsageError(
                "Workers need more packages: pip install 'multi_llm_chat[scale]'"
            ) from None
        module.migrate_engine(engine)
        print_message("The engine is up to date.")


# The simulator.


@click.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def simulate(arguments: tuple[str, ...]) -> None:
    """Run a server that speaks every provider's format, streamed and not, until Ctrl-C.

    The options are those of ``python -m multi_llm_chat.testing.simulator``.
    """
    simulator: Any = import_module("multi_llm_chat.testing.simulator.__main__")
    sys.exit(simulator.main(list(arguments)))
