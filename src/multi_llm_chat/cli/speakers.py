"""Who can be talked to on this machine: a speaker for every key that is set, else the embedded model."""

import os
from collections.abc import Mapping

import click

from multi_llm_chat.client import LLMProvider, create_provider
from multi_llm_chat.errors import MultiLLMChatError
from multi_llm_chat.local import install, list_models
from multi_llm_chat.providers import ROWS

#: Rows that share another row's key and are asked for by name only.
_SECOND_CHOICES = frozenset({"openai-chat"})


def available_speakers(environment: Mapping[str, str] = os.environ) -> dict[str, LLMProvider]:
    """Providers by the name under which they speak."""
    keyed = [
        row
        for row in ROWS.values()
        if row.key_variable
        and environment.get(row.key_variable)
        and row.name not in _SECOND_CHOICES
    ]
    if not keyed:
        return {"local": _embedded()}
    return {row.speaker: create_provider(row.name) for row in keyed}


def _embedded() -> LLMProvider:
    """The embedded model; on a fresh machine it is installed first."""
    missing = [model for model in list_models() if model.is_chosen and not model.is_installed]
    for model in missing:
        size = f"{model.size / 1e6:.0f} MB"
        click.echo(
            f"No key is set: installing the embedded model {model.title} ({size}) …", err=True
        )
        try:
            install(model.name)
        except MultiLLMChatError as error:
            raise click.ClickException(str(error)) from None
    return create_provider("local")
