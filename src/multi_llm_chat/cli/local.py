"""``mlc local``, and the embedded model for users without a key.

``mlc chat`` imports this module before its prompt is shown. So functions look names up in ``multi_llm_chat.local`` when they run, because
each name imports its module.
"""

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

import click

from multi_llm_chat import local as models
from multi_llm_chat.chat.speaker_names import EMBEDDED
from multi_llm_chat.cli.messages import print_message
from multi_llm_chat.errors import MultiLLMChatError
from multi_llm_chat.local.catalogue import DEFAULT_MODEL, notice_of
from multi_llm_chat.local.locations import locate

#: The package that runs the embedded model.
_RUNTIME: Final = "xllamacpp"

# The commands.


@click.group()
def local() -> None:
    """Install, choose and list embedded models."""


@local.command("install")
@click.argument("name", default=DEFAULT_MODEL)
def install_command(name: str) -> None:
    """Install the model NAME (a small one if none is named)."""
    _require_runtime()
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

_COMMAND: Final = "mlc local install"


def prepare_embedded(
    names: Sequence[str], *, has_keys: bool = False, is_agreed: bool = False
) -> None:
    """If the embedded model will answer, install it if the user agrees, and describe it in one line.

    Args:
        names: The speakers that will answer.
        has_keys: Whether other speakers could answer.
        is_agreed: Whether the user has agreed to the download already.

    Raises:
        ClickException: The model is not installed, and the user does not agree, or there is no terminal to ask.
    """
    if EMBEDDED not in names:
        return
    located = locate()
    why = f"@{EMBEDDED} is asked" if has_keys else "No key is set"
    if not located.path.is_file():
        choice = models.choose_local()
        if choice.provider == "ollama":
            print_message(f"{why}; {choice.model} of the Ollama on this machine answers.")
            return
        _require_runtime()
        size = f"{located.row.size / 1e6:.0f} MB"
        what = f"the embedded model {located.row.title} ({size})"
        if not is_agreed:
            _ask_for_download(f"{why}. Download {what}?", f"{why}, and {what} is not installed.")
        print_message(f"{why}: installing {what} …")
        try:
            models.install(located.row.name, progress=_show)
        except MultiLLMChatError as error:
            raise click.ClickException(str(error)) from None
    print_message(f"{why}; the embedded model answers. {notice_of(located.row)}")


def _ask_for_download(question: str, refusal: str) -> None:
    """Return if the user agrees."""
    advice = f"Install it: {_COMMAND}. Or set a key of a provider: mlc keys set, see mlc doctor."
    is_there = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    if not is_there or not click.confirm(question, default=True, err=True):
        raise click.ClickException(f"{refusal} {advice}")


def _require_runtime() -> None:
    """Check the extra before anything is downloaded."""
    if find_spec(_RUNTIME) is None:
        raise click.ClickException(
            "The embedded model needs a runtime that is not installed: pip install 'multi_llm_chat[local]'. "
            "Or set a key of a provider: mlc keys set, see mlc doctor."
        )
