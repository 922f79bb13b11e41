"""The address, the key and the headers of a provider's requests.

Rules:
1. An argument wins over the environment, the environment over the provider's own address.
2. Address: ``<NAME>_BASE_URL``, such as ``OPENAI_BASE_URL`` or ``OPENAI_CHAT_BASE_URL``. An address without a path gets the path of the
   provider's own address (``http://localhost:8000`` means ``…/v1``). ``ANTHROPIC_BASE_URL`` may omit ``/v1``, as in Anthropic's own SDK.
3. Key: the variables of the provider's row. Model: its ``model_variable``. A provider whose row names no variable needs no key. If a key is
   missing or malformed, nothing is sent.
4. The environment is read for each call, so that a key set after the start takes effect.
5. Neither a repr nor an error shows a key or the value of a header.
6. ``ProviderSettings`` are all keyword arguments that create a provider object.
"""

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypedDict
from urllib.parse import urlsplit

from multi_llm_chat.data_limits import Limits
from multi_llm_chat.errors import MissingKey, UsageError, check_type
from multi_llm_chat.http import Timeouts
from multi_llm_chat.http.transports import Breaker
from multi_llm_chat.protocol.exchange import read_headers
from multi_llm_chat.protocol.providers import ProviderRow
from multi_llm_chat.protocol.retry import RetryPolicy
from multi_llm_chat.repair.policy import RepairPolicy
from multi_llm_chat.request import Options

_KEY = re.compile(r"[!-~]+")


class ProviderSettings(TypedDict, total=False):
    """The keyword arguments of ``LLMProvider``, of ``create_provider`` and of a provider's factory."""

    model: str | None
    """The model; the provider's default if not given."""
    api_key: str | None
    """The key; the provider's environment variable if not given."""
    base_url: str | None
    """The address; ``<NAME>_BASE_URL`` or the provider's own if not given."""
    options: Options | Mapping[str, Any] | None
    """Settings for every call, in the vocabulary of ``Options``."""
    policy: RepairPolicy | None
    """How histories are repaired."""
    retry: RetryPolicy | None
    """How failed requests are retried."""
    speaker: str | None
    """The role of this model's turns; the provider's default if not given."""
    headers: Mapping[str, str] | None
    """Extra HTTP headers of every request."""
    timeouts: Timeouts | None
    """Time limits of a request."""
    connections_per_host: int | None
    """How many requests may be in flight at once."""
    breaker: Breaker | None
    """When requests to a failing endpoint are suspended for a while."""
    limits: Limits
    """How much of a reply is read."""


class ProviderAccess:
    """The headers of one provider, and its address and key, which are looked up with each request."""

    def __init__(
        self,
        row: ProviderRow,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        check_type(api_key, str, "api_key=…", "the key, a text")
        check_type(base_url, str, "base_url=…", "an address such as 'http://localhost:8000/v1'")
        check_type(headers, Mapping, "headers=…", "a dict such as {'x-team': 'search'}")
        self._row = row
        self._key = api_key
        self._base_url = base_url
        self.headers = read_headers(headers)
        self._environment = environment

    def __repr__(self) -> str:
        return f"ProviderAccess({self._row.name})"

    def key(self) -> str | None:
        """The key.

        Raises:
            MissingKey: The key is not set.
            UsageError: The key is malformed.
        """
        variable = self._row.key_variable
        key = self._given_key()
        if not key:
            if variable is None:
                return None
            also = "".join(f" (nor is {name})" for name in self._row.other_key_variables)
            raise MissingKey(f"{variable} is not set{also}", provider=self._row.name)
        if not _KEY.fullmatch(key):
            raise UsageError(
                f"{variable or 'The key'} contains characters that no key has; "
                "copy it again, without quotes or spaces"
            )
        return key

    def secrets(self) -> dict[str, str]:
        """The key, if there is one, and the values of the headers: no error may contain them."""
        key = self._given_key()
        return {**self.headers, "": key} if key else dict(self.headers)

    def model(self) -> str:
        """The model that the environment names; the provider's default otherwise."""
        variable = self._row.model_variable
        named = self._environment.get(variable, "").strip() if variable else ""
        return named or self._row.default_model

    def _given_key(self) -> str:
        found = (self._environment.get(name, "").strip() for name in self._row.key_variables)
        return (self._key or "").strip() or next(filter(None, found), "")

    def base_url(self) -> str:
        """The base URL of the provider's paths.

        Raises:
            UsageError: The address is invalid or missing.
        """
        if self._base_url:
            return _settled(self._base_url.strip(), self._row.base_url)
        variable = f"{self._row.name.upper().replace('-', '_')}_BASE_URL"
        given = self._environment.get(variable)
        if given and self._row.name == "anthropic":
            given = f"{given.strip().removesuffix('/').removesuffix('/v1')}/v1"
        if given is None and "YOUR-" in self._row.base_url:
            raise UsageError(f"{self._row.name} needs the address of your own: set {variable}")
        return self._row.base_url if given is None else _settled(given.strip(), self._row.base_url)


@lru_cache(maxsize=64)  # every call uses the same few addresses
def _settled(url: str, own: str) -> str:
    """The given address; if it has no path, with the path of the provider's own address."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise UsageError("The base URL is no address") from None
    if not usable:
        raise UsageError(f"The base URL must be like {own}")
    if parts.username is not None:
        raise UsageError("The base URL must not contain a name or password")
    return url if parts.path else f"{parts.scheme}://{parts.netloc}{urlsplit(own).path}"
