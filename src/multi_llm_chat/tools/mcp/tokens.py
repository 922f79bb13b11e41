"""Where tokens of remote servers are kept.

Rules:
1. In the system's keyring where there is one, else in a file that only its owner can read; never in both,
   never in a log.
2. The file is replaced as a whole and is never readable by others, not even for a moment.
3. Entries are kept by the server's address, so that no server ever gets another's token.
"""

import contextlib
import importlib
import os
import threading
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from multi_llm_chat.errors import StoreError
from multi_llm_chat.history.json_values import as_object

_SERVICE: Final = "multi_llm_chat-mcp"


@runtime_checkable
class TokenStore(Protocol):
    """Secrets by key."""

    def read(self, key: str) -> str | None:
        """The secret, or None."""
        ...

    def write(self, key: str, secret: str | None) -> None:
        """Keep the secret; None forgets it."""
        ...


class MemoryTokens:
    """Tokens that end with the program."""

    def __init__(self) -> None:
        self._secrets: dict[str, str] = {}

    def read(self, key: str) -> str | None:
        """The secret, or None."""
        return self._secrets.get(key)

    def write(self, key: str, secret: str | None) -> None:
        """Keep the secret; None forgets it."""
        if secret is None:
            self._secrets.pop(key, None)
        else:
            self._secrets[key] = secret


class FileTokens:
    """Tokens in one file of mode 0600."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def read(self, key: str) -> str | None:
        """The secret, or None."""
        with self._lock:
            secret = self._content().get(key)
        return secret if isinstance(secret, str) else None

    def write(self, key: str, secret: str | None) -> None:
        """Keep the secret; None forgets it."""
        with self._lock:
            content = self._content()
            content.pop(key, None)
            if secret is not None:
                content[key] = secret
            self._replace(msgspec.json.format(msgspec.json.encode(content)))

    def _content(self) -> dict[str, Any]:
        try:
            return as_object(msgspec.json.decode(self._path.read_bytes())) or {}
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            raise StoreError(f"the token file {self._path} cannot be read: {error}") from error

    def _replace(self, data: bytes) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        beside.replace(self._path)


class KeyringTokens:
    """Tokens in the system's keyring."""

    def __init__(self, keyring: Any) -> None:
        self._keyring = keyring

    def read(self, key: str) -> str | None:
        """The secret, or None."""
        return self._keyring.get_password(_SERVICE, key)

    def write(self, key: str, secret: str | None) -> None:
        """Keep the secret; None forgets it."""
        if secret is not None:
            self._keyring.set_password(_SERVICE, key, secret)
        elif self._keyring.get_password(_SERVICE, key) is not None:
            self._keyring.delete_password(_SERVICE, key)


def open_tokens(path: Path | None) -> TokenStore:
    """The keyring where one works, else the file, else (no path) memory."""
    try:
        keyring: Any = importlib.import_module("keyring")
        if keyring.get_keyring().priority >= 1:  # the fail and null backends are below
            return KeyringTokens(keyring)
    except ImportError:
        pass
    except Exception:  # noqa: BLE001, S110 - a broken keyring is as good as none
        pass
    return MemoryTokens() if path is None else FileTokens(path)
