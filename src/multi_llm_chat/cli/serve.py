"""``mlc serve``: the web app."""

import contextlib
import socket
import sys
from importlib import import_module
from typing import Any

import click

from multi_llm_chat.chat.workspace import Workspace
from multi_llm_chat.cli.workspace_option import store_option
from multi_llm_chat.errors import MultiLLMChatError, UsageError
from multi_llm_chat.local import install, list_models
from multi_llm_chat.tools.approval import ApprovalCallback


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
@click.option("--open/--no-open", "opens", default=True, help="Open the page in a browser.")
def serve(**options: Any) -> None:
    """Show conversations in the browser.

    Only this machine reaches it, by the link that is shown here. For other addresses a password or a proxy that knows its
    users is needed.
    """
    try:
        serving: Any = import_module("multi_llm_chat.web.server")  # a heavy part of its own
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
    kept = serving.web_secrets(hub.workspace.folders)
    if options["set_password"]:
        access.set_password(
            kept, click.prompt("Password", hide_input=True, confirmation_prompt=True)
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
    door = serving.open_access(address, kept)
    _install_embedded(hub.workspace)
    listening = _listen(address.host, address.port)
    host = f"[{address.host}]" if ":" in address.host else address.host
    link = f"http://{host}:{listening.getsockname()[1]}/"
    if access.is_loopback(address.host) and proxy is None:
        link += f"?token={door.new_link()}"
    click.echo(f"Open {link}\nCtrl-C ends the server.")
    if options["opens"] and sys.stdout.isatty() and proxy is None:
        click.launch(link)
    with contextlib.suppress(KeyboardInterrupt):  # how it is meant to end
        serving.make_server(hub, door, address).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise UsageError(
            f"{host}:{port} cannot be listened on ({error.strerror}); choose another with --port"
        ) from error


def _install_embedded(workspace: Workspace) -> None:
    """On a fresh machine without keys the embedded model is installed first."""
    if not any(told == "local" for told in workspace.speakers):
        return
    for model in list_models():
        if model.is_chosen and not model.is_installed:
            click.echo(f"Installing the embedded model {model.title} ({model.size / 1e6:.0f} MB) …")
            install(model.name)
