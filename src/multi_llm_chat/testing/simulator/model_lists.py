"""The lists of models, and the counting of tokens, in each provider's form."""

from collections.abc import Mapping

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.testing.simulator.encoders.events import CREATED


def list_models(provider: str, models: Mapping[str, list[str]]) -> JsonObject:
    """The provider's list; its default model where the test names none."""
    names = models.get(provider) or [ROWS[provider].default_model]
    if provider == "anthropic":
        return _anthropic_list(names)
    if provider == "gemini":
        return {"models": [_gemini_model(name) for name in names]}
    entries = [
        {"id": name, "object": "model", "created": CREATED, "owned_by": provider} for name in names
    ]
    return {"object": "list", "data": entries}


def _anthropic_list(names: list[str]) -> JsonObject:
    entries = [
        {
            "type": "model",
            "id": name,
            "display_name": name.replace("-", " ").title(),
            "created_at": "2026-11-15T00:00:00Z",
        }
        for name in names
    ]
    return {"data": entries, "has_more": False, "first_id": names[0], "last_id": names[-1]}


def _gemini_model(name: str) -> JsonObject:
    return {
        "name": f"models/{name}",
        "version": "001",
        "displayName": name.replace("-", " ").title(),
        "inputTokenLimit": 1048576,
        "outputTokenLimit": 65536,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    }


def count_tokens(provider: str, size: int) -> JsonObject:
    """A rough count of a request's tokens."""
    count = 1 + size // 4
    return {"totalTokens": count} if provider == "gemini" else {"input_tokens": count}
