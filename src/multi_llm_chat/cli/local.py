"""``mlc local``: the embedded models."""

import sys

import click

from multi_llm_chat.errors import MultiLLMChatError
from multi_llm_chat.local import DEFAULT_MODEL, Progress, install, list_models, use


@click.group()
def local() -> None:
    """Install, choose and list embedded models."""


@local.command("install")
@click.argument("name", default=DEFAULT_MODEL)
def install_command(name: str) -> None:
    """Install the model NAME (a small one if none is named)."""
    try:
        path = install(name, progress=_show)
    except MultiLLMChatError as error:
        raise click.ClickException(str(error)) from None
    if sys.stderr.isatty():
        click.echo(err=True)
    click.echo(path)


@local.command("use")
@click.argument("model")
def use_command(model: str) -> None:
    """Choose MODEL, an installed one's name or the path of a GGUF file."""
    try:
        chosen = use(model)
    except MultiLLMChatError as error:
        raise click.ClickException(str(error)) from None
    click.echo(chosen.path)


@local.command("list")
def list_command() -> None:
    """List the known models; the chosen one is marked."""
    for model in list_models():
        mark = "*" if model.is_chosen else " "
        state = "installed" if model.is_installed else f"{model.size / 1e6:,.0f} MB to install"
        click.echo(f"{mark} {model.name:24} {state:22} {model.licence:12} {model.title}")


def _show(progress: Progress) -> None:
    if sys.stderr.isatty():
        share = progress.done / progress.total if progress.total else 0
        click.echo(f"\r{progress.step} {share:4.0%} ", nl=False, err=True)
