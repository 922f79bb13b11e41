"""Which provider and which operation a path means.

Rules:
1. ``/<provider>`` before a path chooses the provider; what follows is that provider's real path.
2. Without it the path decides: ``/v1/messages`` is Anthropic's, ``/v1/responses`` OpenAI's.
3. A path that the provider does not have is not found, as with the provider itself.
"""

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from multi_llm_chat.protocol.providers import ROWS

Dialect: TypeAlias = Literal["openai_chat", "openai_responses", "anthropic", "gemini"]
Operation: TypeAlias = Literal["generate", "models", "count", "embed", "unknown"]


class Route(Struct, frozen=True):
    """What a request asks for."""

    provider: str
    dialect: str
    operation: Operation = "generate"
    model: str | None = None
    streamed: bool = False
    array: bool = False


_GEMINI_MODEL = re.compile(r"/models/([^/:]+(?:/[^/:]+)*):(\w+)")
_GEMINI_METHODS: dict[str, tuple[Operation, bool]] = {
    "generateContent": ("generate", False),
    "streamGenerateContent": ("generate", True),
    "countTokens": ("count", False),
    "batchEmbedContents": ("embed", False),
}
_GEMINI_BASES = ("/v1beta", "/v1", "/v1alpha")
_AZURE_DEPLOYMENT = re.compile(r"/openai/deployments/([^/]+)/chat/completions")

#: Other paths at which a server has the same thing.
_OTHER_BASES: dict[str, tuple[str, ...]] = {"deepseek": ("/v1", "/beta"), "cerebras": ("",)}

_OPERATIONS: dict[str, tuple[Dialect, Operation]] = {
    "/chat/completions": ("openai_chat", "generate"),
    "/responses": ("openai_responses", "generate"),
    "/messages": ("anthropic", "generate"),
    "/messages/count_tokens": ("anthropic", "count"),
    "/models": ("openai_chat", "models"),
    "/embeddings": ("openai_chat", "embed"),
}

#: The providers that make no embeddings.
_WITHOUT_EMBEDDINGS = frozenset(
    {"anthropic", "groq", "cerebras", "deepseek", "kimi", "zai", "xai", "huggingface"}
)

#: Rows that share one server, distinguished by the request.
_SIBLINGS = {
    ("openai", "openai_chat"): "openai-chat",
    ("openai-chat", "openai_responses"): "openai",
}


def base_path(provider: str) -> str:
    """The path of a provider's base URL, such as ``/openai/v1`` for Groq."""
    return urlsplit(ROWS[provider].base_url).path


def find_route(path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Route | None:
    """The route of a path; None where no provider has it."""
    first, _, rest = path.lstrip("/").partition("/")
    if first in ROWS:
        return _provider_route(first, f"/{rest}", query)
    return _bare_route(path, query, headers)


def _bare_route(path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Route | None:
    for provider in _candidates(headers):
        route = _provider_route(provider, path, query)
        if route is not None:
            return route
    return None


def _candidates(headers: Mapping[str, str]) -> tuple[str, ...]:
    if "anthropic-version" in headers:
        return ("anthropic",)
    if "x-goog-api-key" in headers:
        return ("gemini",)
    return ("openai-chat", "anthropic", "gemini")


def _provider_route(provider: str, path: str, query: Mapping[str, str]) -> Route | None:
    row = ROWS[provider]
    if row.dialect == "gemini":
        return _gemini_route(path, query)
    deployment = _AZURE_DEPLOYMENT.fullmatch(path)
    if provider == "azure" and deployment:
        return Route(provider, "openai_chat", model=deployment[1])
    for base in (base_path(provider), *_OTHER_BASES.get(provider, ())):
        if path.startswith(base):
            found = _OPERATIONS.get(path[len(base) :])
            if found is not None:
                return _checked(provider, *found)
    return None


def _checked(provider: str, dialect: Dialect, operation: Operation) -> Route | None:
    own = ROWS[provider].dialect
    if operation == "embed" and provider in _WITHOUT_EMBEDDINGS:
        return None
    if operation in ("models", "embed"):
        return Route(provider, own, operation)
    provider = _SIBLINGS.get((provider, dialect), provider)
    if ROWS[provider].dialect != dialect:
        return None
    return Route(provider, dialect, operation)


def _gemini_route(path: str, query: Mapping[str, str]) -> Route | None:
    base = next((base for base in _GEMINI_BASES if path.startswith(f"{base}/")), None)
    if base is None:
        return None
    rest = path[len(base) :]
    if rest == "/models":
        return Route("gemini", "gemini", "models")
    match = _GEMINI_MODEL.fullmatch(rest)
    if match is None or match[2] not in _GEMINI_METHODS or match[1].startswith("models/"):
        return None  # a name that begins with models/ makes an address that Google does not have
    operation, streamed = _GEMINI_METHODS[match[2]]
    array = streamed and query.get("alt") != "sse"
    return Route("gemini", "gemini", operation, match[1], streamed, array)
