"""Providers: a dialect, a place and its peculiarities, as rows of data."""

from multi_llm_chat.errors import UsageError
from multi_llm_chat.protocol.model_families import row_for_model
from multi_llm_chat.protocol.provider_rows import EMBEDDED, ROWS, ProviderRow

__all__ = ["EMBEDDED", "ROWS", "ProviderRow", "provider_row", "row_for_model"]

#: Names people use for a provider besides its own.
_ALIASES = {"chatgpt": "openai", "claude": "anthropic", "google": "gemini", "grok": "xai"}


def provider_row(name: object) -> ProviderRow:
    """The row of a provider, by its name or its speaker's (an enum's value will do)."""
    value = getattr(name, "value", name)
    key = str(value).strip().lower()
    row = EMBEDDED if key == EMBEDDED.name else ROWS.get(_ALIASES.get(key, key))
    if row is None:
        raise UsageError(f"Unknown provider {value!r}; known are: {', '.join(sorted(ROWS))}")
    return row
