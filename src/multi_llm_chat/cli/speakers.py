"""Who can be talked to on this machine: a speaker for every key that is set, else the embedded model."""

import os
from collections.abc import Mapping

from multi_llm_chat.client import LLMProvider, create_provider
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
        local = create_provider("local")
        return {local.speaker: local}
    return {row.speaker: create_provider(row.name) for row in keyed}
