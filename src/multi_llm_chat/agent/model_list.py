"""The models that a provider offers.

Rules:
1. A list may have pages. The models of a page are under ``data``, under ``models``, or the page is a bare list; each page names the next.
2. What a provider does not report is ``None``: sizes are never guessed.
3. Abilities are read if the provider reports them: Anthropic and Mistral under ``capabilities``,
   OpenRouter under ``architecture`` and ``supported_parameters`` (openrouter.ai/docs/models).
4. Pages, their bytes and values, and the models of all pages are limited (``LISTING_LIMITS``).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast
from urllib.parse import quote

from msgspec import Struct

from multi_llm_chat.data_limits import MEGABYTE, Limits, OverLimit, check_json
from multi_llm_chat.errors import ProviderError
from multi_llm_chat.history.json_values import as_list, as_object
from multi_llm_chat.protocol.dialect_registry import DIALECTS
from multi_llm_chat.protocol.exchange import HttpRequest, hide, request_headers
from multi_llm_chat.protocol.lenient_json import read_json
from multi_llm_chat.protocol.providers import ProviderRow

#: No provider has more. The limit stops a server whose pages never end.
MAX_PAGES: Final = 50

#: The limits of each page, and of the number of models on all pages.
LISTING_LIMITS: Final = Limits(total_bytes=8 * MEGABYTE, total_values=200_000, parts=20_000)

_SIZES: Final = (
    "context_window",
    "context_length",
    "max_context_length",
    "max_model_len",
    "max_input_tokens",
    "inputTokenLimit",
)


class ModelInfo(Struct, frozen=True):
    """A model: the ``id`` that requests name, its display name, and what the provider reports about it.

    ``abilities`` are words of ``tools``, ``pictures`` and ``thinking``; None if the provider reports none.
    """

    id: str
    name: str = ""
    context_window: int | None = None
    abilities: frozenset[str] | None = None


class ModelListing:
    """The pages of one list: yields requests, receives bodies."""

    def __init__(
        self, row: ProviderRow, base_url: str, key: str | None, headers: Mapping[str, str]
    ) -> None:
        self._row = row
        self._url = f"{base_url.rstrip('/')}/models"
        self._key = key
        self._extra_headers = headers
        self._headers = request_headers(row, key, headers)
        self._page: str | None = _FIRST_PAGES.get(row.dialect, "")
        self.models: list[ModelInfo] = []

    def __repr__(self) -> str:
        return f"ModelListing({self._row.name})"

    def requests(self) -> Iterator[HttpRequest]:
        """The requests to send, one after the other; call ``receive`` with each reply before taking the next."""
        for _ in range(MAX_PAGES):
            if self._page is None:
                return
            yield HttpRequest("GET", f"{self._url}{self._page}", dict(self._headers), b"")

    def receive(self, status: int, body: bytes) -> None:
        """Read one page.

        Raises:
            ProviderError: The body is not a list of models.
        """
        if status >= 300:
            failure = DIALECTS[self._row.dialect].read_failure(
                status, {}, body, provider=self._row.name
            )
            hide(failure, [self._key or "", *self._extra_headers.values()])
            raise failure
        try:
            check_json(body, values=LISTING_LIMITS.total_values, depth=LISTING_LIMITS.depth)
        except OverLimit as excess:
            raise ProviderError(
                f"The list of models of {self._row.name} holds {excess}; it is not read.",
                provider=self._row.name,
                code="too_large",
            ) from None
        value = read_json(body)
        page = cast("dict[str, Any]", value) if isinstance(value, dict) else {"data": value}
        found = page.get("data", page.get("models"))
        if not isinstance(found, list):
            raise ProviderError(
                f"{self._row.name} gave no list of models.", provider=self._row.name, status=status
            )
        self.models.extend(_read(cast("list[object]", found)))
        full = len(self.models) >= LISTING_LIMITS.parts
        self._page = None if full else _next_page(page)


_FIRST_PAGES: Final = {"anthropic": "?limit=1000", "gemini": "?pageSize=1000"}


def _next_page(page: dict[str, Any]) -> str | None:
    token = page.get("nextPageToken")
    if isinstance(token, str) and token:
        return f"?pageSize=1000&pageToken={quote(token, safe='')}"
    last = page.get("last_id")
    if page.get("has_more") is True and isinstance(last, str):
        return f"?limit=1000&after_id={quote(last, safe='')}"
    return None


def _read(found: Iterable[object]) -> Iterator[ModelInfo]:
    for item in found:
        entry = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        identifier = entry.get("id") or entry.get("name")
        if not isinstance(identifier, str):
            continue
        name = entry.get("display_name") or entry.get("displayName") or ""
        sizes = (entry.get(key) for key in _SIZES)
        yield ModelInfo(
            identifier.removeprefix("models/"),
            name if isinstance(name, str) else "",
            next((size for size in sizes if isinstance(size, int) and size > 0), None),
            _read_abilities(entry),
        )


#: The key under ``capabilities`` that reports each ability.
_CAPABILITIES: Final = {
    "tools": ("function_calling",),
    "pictures": ("image_input", "vision"),
    "thinking": ("thinking", "reasoning"),
}


def _read_abilities(entry: dict[str, Any]) -> frozenset[str] | None:
    """The abilities that the entry reports; None if it reports none."""
    capabilities = as_object(entry.get("capabilities")) or {}
    parameters = as_list(entry.get("supported_parameters"))
    modalities = as_list((as_object(entry.get("architecture")) or {}).get("input_modalities"))
    if not capabilities and parameters is None and modalities is None:
        return None
    found = {
        ability
        for ability, keys in _CAPABILITIES.items()
        if any(_is_supported(capabilities.get(key)) for key in keys)
    }
    # Anthropic names no capability for tools: all its models take them.
    found |= {"tools"} if "image_input" in capabilities or "tools" in (parameters or ()) else set()
    found |= {"thinking"} if "reasoning" in (parameters or ()) else set()
    found |= {"pictures"} if "image" in (modalities or ()) else set()
    return frozenset(found)


def _is_supported(value: object) -> bool:
    return value is True or (as_object(value) or {}).get("supported") is True
