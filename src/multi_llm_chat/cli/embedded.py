"""The embedded model for whoever has no key yet."""

from collections.abc import Sequence
from importlib import import_module

import click

from multi_llm_chat.chat.speaker_names import EMBEDDED
from multi_llm_chat.cli.stderr import tell
from multi_llm_chat.errors import MultiLLMChatError
from multi_llm_chat.local.catalogue import notice_of
from multi_llm_chat.local.locations import locate


def prepare_embedded(names: Sequence[str]) -> None:
    """Where only the embedded model speaks: install it if it is missing, and say in one line what it is."""
    if tuple(names) != (EMBEDDED,):
        return
    located = locate()
    if not located.path.is_file():
        choice = import_module("multi_llm_chat.local.default_model").choose_local()
        if choice.provider == "ollama":
            tell(f"No key is set; {choice.model} of the Ollama on this machine answers.")
            return
        size = f"{located.row.size / 1e6:.0f} MB"
        tell(f"No key is set: installing the embedded model {located.row.title} ({size}) …")
        # What fetches is loaded only where something is to be fetched.
        installing = import_module("multi_llm_chat.local.installation")
        try:
            installing.install(located.row.name)
        except MultiLLMChatError as error:
            raise click.ClickException(str(error)) from None
    tell(f"No key is set; the embedded model answers. {notice_of(located.row)}")
