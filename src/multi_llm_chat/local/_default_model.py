"""Which model answers as ``local`` when none is named.

Rules:
1. A configured model comes first: the environment, then ``use``.
2. A running Ollama with at least one model comes next, for it is better than the default. Only this machine, or
   the address in ``OLLAMA_HOST``, is asked, with a short timeout and without a proxy; any failure means that there is none.
3. Otherwise the embedded default answers.
"""

import http.client
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from multi_llm_chat.history.json_values import as_list, as_object, as_text
from multi_llm_chat.local.catalogue import DEFAULT_MODEL
from multi_llm_chat.local.locations import configured_model


class LocalChoice(Struct, frozen=True):
    """The provider to ask and its model: ``ollama`` over HTTP, ``local`` in this process."""

    provider: Literal["local", "ollama"]
    model: str


def choose_local(
    *, folder: Path | None = None, environment: Mapping[str, str] = os.environ
) -> LocalChoice:
    """The provider and model behind the name ``local``."""
    configured = configured_model(folder=folder, environment=environment)
    if configured:
        return LocalChoice("local", configured)
    offered = running_ollama(environment)
    return LocalChoice("ollama", offered[0]) if offered else LocalChoice("local", DEFAULT_MODEL)


# A running Ollama.

_DEFAULT = "http://127.0.0.1:11434"
_TIMEOUT = 0.5


def running_ollama(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The names of the models that a running Ollama offers; none if it does not run."""
    host = environment.get("OLLAMA_HOST", "").strip() or _DEFAULT
    parts = urlsplit(host if "//" in host else f"//{host}")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    try:
        connection = kind(parts.hostname or "127.0.0.1", parts.port or 11434, timeout=_TIMEOUT)
        try:
            connection.request("GET", "/api/tags")
            reply = json.loads(connection.getresponse().read())
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, ValueError):
        return ()
    listed = as_list((as_object(reply) or {}).get("models")) or ()
    names = (as_text((as_object(model) or {}).get("name")) for model in listed)
    return tuple(name for name in names if name)
