"""``mlc local``, and the embedded model for users without a key.

``mlc chat`` imports this module before its prompt is shown, so it takes the names of
``multi_llm_chat.local`` from the package when a function runs: each name loads its module.
"""

import sys
from collections.abc import Sequence

import click

from multi_llm_chat import local as models
from multi_llm_chat.chat.speaker_names import EMBEDDED
from multi_llm_chat.cli.messages import print_message
from multi_llm_chat.errors import MultiLLMChatError
from multi_llm_chat.local.catalogue import DEFAULT_MODEL, notice_of
from multi_llm_chat.local.locations import locate

# The commands.


@click.group()
def local() -> None:
    """Install, choose and list embedded models."""


@local.command("install")
@click.argument("name", default=DEFAULT_MODEL)
def install_command(name: str) -> None:
    """Install the model NAME (a small one if none is named)."""
    try:
        path = models.install(name, progress=_show)
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
        chosen = models.use(model)
    except MultiLLMChatError as error:
        raise click.ClickException(str(error)) from None
    click.echo(chosen.path)


@local.command("list")
def list_command() -> None:
    """List the known models; the chosen one is marked."""
    for model in models.list_models():
        mark = "*" if model.is_chosen else " "
        state = "installed" if model.is_installed else f"{model.size / 1e6:,.0f} MB to install"
        click.echo(f"{mark} {model.name:24} {state:22} {model.licence:12} {model.title}")


def _show(progress: "models.Progress") -> None:
    if sys.stderr.isatty():
        share = progress.done / progress.total if progress.total else 0
        click.echo(f"\r{progress.step} {share:4.0%} ", nl=False, err=True)


# The model of a machine without keys.


def prepare_embedded(names: Sequence[str]) -> None:
    """Where only the embedded model speaks: install it if it is missing, and say in one line what it is."""
    if tuple(names) != (EMBEDDED,):
        return
    located = locate()
    if not located.path.is_file():
        choice = models.choose_local()
        if choice.provider == "ollama":
            print_message(f"No key is set; {choice.model} of the Ollama on this machine answers.")
            return
        size = f"{located.row.size / 1e6:.0f} MB"
        print_message(
            f"No key is set: installing the embedded model {located.row.title} ({size}) …"
        )
        try:
            models.install(located.row.name)
        except MultiLLMChatError as error:
            raise click.ClickException(str(error)) from None
    print_message(f"No key is set; the embedded model answers. {notice_of(located.row)}")
