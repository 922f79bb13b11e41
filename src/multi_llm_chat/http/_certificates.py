"""Whose certificates are believed."""

import ssl
from functools import lru_cache

from multi_llm_chat.errors import UsageError


@lru_cache(maxsize=8)  # reading the system's certificates takes longer than a request
def tls_context(ca_file: str | None, ca_directory: str | None) -> ssl.SSLContext:
    """The context for connections that trust these certificates, the system's if none are named."""
    try:
        return ssl.create_default_context(cafile=ca_file, capath=ca_directory)
    except OSError as error:
        named = " or ".join(path for path in (ca_file, ca_directory) if path)
        raise UsageError(
            f"The certificates in {named} cannot be read ({error.strerror or error}); "
            "check REQUESTS_CA_BUNDLE, SSL_CERT_FILE and SSL_CERT_DIR"
        ) from None
