"""Is a better model already running here?

Rules:
1. Only this machine, or the address in ``OLLAMA_HOST``, is asked, shortly, and without a proxy.
2. Whatever goes wrong means that there is none.
"""

import http.client
import json
import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from multi_llm_chat.history.json_values import as_list, as_object, as_text

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
