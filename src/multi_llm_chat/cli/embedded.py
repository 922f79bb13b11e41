"""The embedded model for whoever has no key yet."""

from collections.abc import Sequence

import click

from multi_llm_chat.cli.telling import tell
from multi_llm_chat.errors import MultiLLMChatError
from multi_llm_chat.local import install, list_models
from multi_llm_chat.local.catalogue import KNOWN_MODELS, notice_of
from multi_llm_chat.service.naming import EMBEDDED


def prepare_embedded(names: Sequence[str]) -> None:
    """Where only the embedded model speaks: install it if it is missing, and say in one line what it is."""
    if tuple(names) != (EMBEDDED,):
        return
    chosen = next((model for model in list_models() if model.is_chosen), None)
    if chosen is None:
        return
    if not chosen.is_installed:
        size = f"{chosen.size / 1e6:.0f} MB"
        tell(f"No key is set: installing the embedded model {chosen.title} ({size}) …")
        try:
            install(chosen.name)
        except MultiLLMChatError as error:
            raise click.ClickException(str(error)) from None
    row = KNOWN_MODELS.get(chosen.name)
    if row is not None:
        tell(f"No key is set; the embedded model answers. {notice_of(row)}")
