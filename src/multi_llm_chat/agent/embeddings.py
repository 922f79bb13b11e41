"""Embeddings of texts: the requests of one call, and the vectors in the replies.

Rules:
1. ``protocol.providers`` lists the providers that have an embeddings endpoint, and how many texts one request may have. Any other provider
   raises ``UsageError`` before any network access.
2. Texts are sent in batches, one after the other; the vectors are in the order of the texts.
3. A reply whose vectors do not match the texts (too few, of different lengths, not numbers) raises ``ProviderError``.
4. Failures are retried and classified like those of chat requests; vectors received before a failure are not returned.
"""

import base64
import binascii
import math
import sys
from array import array
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from multi_llm_chat.agent.provider_access import ProviderAccess
from multi_llm_chat.agent.telemetry import Operation, is_observed, provider_attributes
from multi_llm_chat.data_limits import MEGABYTE, Limits, OverLimit, check_json
from multi_llm_chat.errors import ProviderError, UsageError
from multi_llm_chat.history.json_values import as_list, as_object
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.http import async_driver as drive_async
from multi_llm_chat.http import sync_driver as drive_sync
from multi_llm_chat.http.transports import Transports
from multi_llm_chat.protocol.capabilities import EmbeddingsApi
from multi_llm_chat.protocol.dialect_registry import DIALECTS
from multi_llm_chat.protocol.exchange import HttpRequest, hide, request_headers
from multi_llm_chat.protocol.lenient_json import read_json
from multi_llm_chat.protocol.providers import ProviderRow
from multi_llm_chat.protocol.retry import RetryPolicy, Wait, decide

_GEMINI: Final = "gemini"


#: Enough for a batch of the longest vectors, written with all digits.
EMBEDDING_LIMITS: Final = Limits(total_bytes=256 * MEGABYTE)
#: Numbers in one vector, several times as many as the largest models return. JSON values are counted before decoding.
MOST_DIMENSIONS: Final = 20_000


class Embeddings(Struct, frozen=True):
    """The vectors of texts, in their order; ``input_tokens`` is None if the provider does not report them."""

    vectors: tuple[tuple[float, ...], ...]
    model: str
    provider: str
    input_tokens: int | None = None


class EmbeddingRequests:
    """The requests of one call: yields requests, receives replies.

    Args:
        row: The provider.
        texts: The texts.
        base_url: Its address.
        key: Its key.
        headers: Extra HTTP headers.
        model: The model; the provider's usual one if None.
        dimensions: The length of the vectors; the model's default if None.
        extra: Further fields of the requests, under the provider's own names.
        retry: How failed requests are retried.

    Raises:
        UsageError: The provider has no such endpoint or no such setting, or a text is empty.
    """

    def __init__(
        self,
        row: ProviderRow,
        texts: str | Iterable[str],
        *,
        base_url: str,
        key: str | None,
        headers: Mapping[str, str],
        model: str | None,
        dimensions: int | None,
        extra: Mapping[str, Any],
        retry: RetryPolicy,
    ) -> None:
        self._row = row
        self._api = _api_of(row, dimensions)
        self._texts = [texts] if isinstance(texts, str) else list(texts)
        for at, text in enumerate(cast("list[object]", self._texts)):
            if not isinstance(text, str) or not text:
                what = "is empty" if isinstance(text, str) else "is no text"
                raise UsageError(f"Text {at} {what}: only texts can be embedded")
        self._model = model or self._api.default_model
        self._dimensions = dimensions
        self._extra = dict(extra)
        self._base_url = base_url.rstrip("/")
        self._secrets = [key or "", *headers.values()]
        self._headers = request_headers(row, key, headers, content_type="application/json")
        self._retry = retry
        self._attempt = 1
        self._vectors: list[tuple[float, ...]] = []
        self._tokens: int | None = None
        self._operation: Operation | None = None

    def __repr__(self) -> str:
        return f"EmbeddingRequests({self._row.name}, {len(self._texts)} texts)"

    def requests(self) -> Generator[HttpRequest]:
        """The requests to send; call ``receive`` with each reply before taking the next one. A failed request comes again."""
        if is_observed():
            known = provider_attributes(self._row.name, self._model, self._base_url)
            self._operation = Operation("embeddings", self._model, known, kind="CLIENT")
        try:
            while len(self._vectors) < len(self._texts):
                at = len(self._vectors)
                batch = self._texts[at : at + self._api.most_texts]
                body = msgspec.json.encode(self._body(batch))
                yield HttpRequest("POST", self._url, dict(self._headers), body)
        finally:
            if self._operation is not None:
                self._operation.end(error="interrupted")

    def receive(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Read a reply.

        Raises:
            ProviderError: The reply is a failure, or does not match the request.
        """
        name = self._row.name
        if status >= 300:
            read = DIALECTS[self._row.dialect].read_failure
            raise read(status, dict(headers), body, provider=name)
        wanted = min(self._api.most_texts, len(self._texts) - len(self._vectors))
        try:
            check_json(body, values=(wanted + 1) * MOST_DIMENSIONS, depth=len(body))
        except OverLimit as excess:
            raise self._wrong(f"{excess} for {wanted} texts", status) from None
        reply = as_object(read_json(body)) or {}
        vectors = self._read(reply)
        if len(vectors) != wanted:
            raise self._wrong(f"{len(vectors)} vectors for {wanted} texts", status)
        if any(len(vector) != len((self._vectors or vectors)[0]) for vector in vectors):
            raise self._wrong("vectors of different lengths", status)
        self._vectors += vectors
        self._count(reply)
        self._attempt = 1
        if len(self._vectors) == len(self._texts) and self._operation is not None:
            found = {"gen_ai.embeddings.dimension.count": len(vectors[0])}
            if self._tokens is not None:
                found["gen_ai.usage.input_tokens"] = self._tokens
            self._operation.end(found)

    def failed(self, failure: ProviderError, *, jitter: float) -> float:
        """The seconds to wait before the request is retried.

        Raises:
            ProviderError: This failure, if the request is not retried.
        """
        failure.provider = failure.provider or self._row.name
        hide(failure, self._secrets)
        decision = decide(self._attempt, failure, policy=self._retry, streamed=False, jitter=jitter)
        if isinstance(decision, Wait):
            self._attempt += 1
            return decision.seconds
        if self._operation is not None:
            self._operation.failed(failure)
        raise failure

    @property
    def embeddings(self) -> Embeddings:
        """All vectors, once every reply is there."""
        return Embeddings(tuple(self._vectors), self._model, self._row.name, self._tokens)

    @property
    def _url(self) -> str:
        if self._row.dialect == _GEMINI:
            model = self._model.removeprefix("models/")
            return f"{self._base_url}/models/{model}:batchEmbedContents"
        return f"{self._base_url}/embeddings"

    def _body(self, texts: Sequence[str]) -> JsonObject:
        size: JsonObject = {}
        if self._dimensions is not None:
            size = {self._api.dimensions_key: self._dimensions}
        if self._row.dialect == _GEMINI:
            model = f"models/{self._model.removeprefix('models/')}"
            return {
                "requests": [
                    {"model": model, "content": {"parts": [{"text": text}]}, **size, **self._extra}
                    for text in texts
                ]
            }
        return {"model": self._model, "input": list(texts), **size, **self._extra}

    def _read(self, reply: JsonObject) -> list[tuple[float, ...]]:
        if self._row.dialect == _GEMINI:
            found = as_list(reply.get("embeddings")) or []
            return [self._vector((as_object(each) or {}).get("values")) for each in found]
        entries = [as_object(each) or {} for each in as_list(reply.get("data")) or []]
        numbers = [entry.get("index") for entry in entries]
        if all(isinstance(number, int) for number in numbers):
            entries.sort(key=lambda entry: cast("int", entry["index"]))
            if numbers and sorted(cast("list[int]", numbers)) != list(range(len(entries))):
                raise self._wrong("vectors that do not say which text they belong to")
        return [self._vector(entry.get("embedding")) for entry in entries]

    def _vector(self, value: object) -> tuple[float, ...]:
        if isinstance(value, str):
            return self._decoded(value)
        numbers = as_list(value)
        if not numbers or not all(
            isinstance(number, int | float) and math.isfinite(number) for number in numbers
        ):
            raise self._wrong("a vector that is none")
        return tuple(map(float, cast("list[float]", numbers)))

    def _decoded(self, text: str) -> tuple[float, ...]:
        """A vector as base64 of little-endian floats, if the caller has asked for ``encoding_format: base64``."""
        numbers = array("f")
        try:
            numbers.frombytes(base64.b64decode(text, validate=True))
        except (ValueError, binascii.Error):
            raise self._wrong("a vector that is none") from None
        if sys.byteorder == "big":
            numbers.byteswap()
        return tuple(numbers)

    def _count(self, reply: JsonObject) -> None:
        usage = as_object(reply.get("usage")) or as_object(reply.get("usageMetadata")) or {}
        tokens = usage.get("prompt_tokens", usage.get("promptTokenCount"))
        if isinstance(tokens, int):
            self._tokens = tokens + (self._tokens or 0)

    def _wrong(self, what: str, status: int = 200) -> ProviderError:
        name = self._row.name
        return ProviderError(f"{name} sent {what}.", provider=name, status=status)


def _api_of(row: ProviderRow, dimensions: int | None) -> EmbeddingsApi:
    api = row.embeddings
    if api is None:
        raise UsageError(f"{row.name} makes no embeddings: it has no endpoint for them")
    if dimensions is not None and not api.dimensions_key:
        raise UsageError(f"{row.name} does not let the length of vectors be chosen: leave it out")
    return api


class EmbeddingMethods:
    """The methods of ``LLMProvider`` that make embeddings."""

    row: ProviderRow
    _access: ProviderAccess
    _transports: Transports
    _retry: RetryPolicy

    def embed(
        self,
        texts: str | Iterable[str],
        *,
        model: str | None = None,
        dimensions: int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> Embeddings:
        """Return the vectors of texts, requested in batches as large as the provider accepts.

        Args:
            texts: The texts; a single string counts as a list of one.
            model: The model; the provider's usual one for embeddings if not given.
            dimensions: The length of the vectors, if the provider lets the caller choose it.
            extra: Further fields of the requests, under the provider's own names.

        Raises:
            UsageError: The provider has no embeddings or no such setting, or a text is empty.
            ProviderError: The provider refused or failed.
        """
        requests = self._embedding_requests(texts, model, dimensions, extra)
        drive_sync.fetch_all(
            requests, self._transports.for_sync(), self._transports.health, EMBEDDING_LIMITS
        )
        return requests.embeddings

    async def aembed(
        self,
        texts: str | Iterable[str],
        *,
        model: str | None = None,
        dimensions: int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> Embeddings:
        """Like ``embed``, to be awaited."""
        requests = self._embedding_requests(texts, model, dimensions, extra)
        await drive_async.fetch_all(
            requests, self._transports.for_async(), self._transports.health, EMBEDDING_LIMITS
        )
        return requests.embeddings

    def _embedding_requests(
        self,
        texts: str | Iterable[str],
        model: str | None,
        dimensions: int | None,
        extra: Mapping[str, Any] | None,
    ) -> EmbeddingRequests:
        access = self._access
        return EmbeddingRequests(
            self.row,
            texts,
            base_url=access.base_url(),
            key=access.key() if self.row.embeddings is not None else None,
            headers=access.headers,
            model=model,
            dimensions=dimensions,
            extra=extra or {},
            retry=self._retry,
        )
