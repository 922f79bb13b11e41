"""Storage of secrets: API keys of providers, tokens of remote servers.

Rules:
1. Secrets are stored in the system's keyring if there is one, else in a file that only its owner can read; never in both,
   never in a log or a repr.
2. The file is replaced as a whole and is never readable by others, not even for a moment.
3. Two kinds of secrets are never mixed: each has its own file, and its own service name in the keyring.
"""

import contextlib
import importlib
import os
import threading
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

import msgspec

from multi_llm_chat.errors import StoreError


@runtime_checkable
class SecretStore(Protocol):
    """Secrets by key."""

    def read(self, key: str) -> str | None:
        """The secret, or None."""
        ...

    def write(self, key: str, secret: str | None) -> None:
        """Keep the secret; None forgets it."""
        ...


class MemorySecrets:
    """Secrets in memory; they are lost when the program ends."""

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


class FileSecrets:
    """Secrets in one file of mode 0600."""

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
            content = msgspec.json.decode(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            raise StoreError(f"the file of secrets {self._path} cannot be read: {error}") from error
        return cast("dict[str, Any]", content) if isinstance(content, dict) else {}

    def _replace(self, data: bytes) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        with contextlib.suppress(FileNotFoundError):
            draft.unlink()
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        draft.replace(self._path)


class KeyringSecrets:
    """Secrets in the system's keyring."""

    def __init__(self, keyring: Any, service: str) -> None:
        self._keyring = keyring
        self._service = service

    def read(self, key: str) -> str | None:
        """The secret, or None."""
        return self._keyring.get_password(self._service, key)

    def write(self, key: str, secret: str | None) -> None:
        """Keep the secret; None forgets it."""
        if secret is not None:
            self._keyring.set_password(self._service, key, secret)
        elif self._keyring.get_password(self._service, key) is not None:
            self._keyring.delete_password(self._service, key)


def open_secrets(path: Path | None, service: str) -> SecretStore:
    """Open the keyring if one works, else the file, else (without a path) memory.

    Args:
        path: The file.
        service: The service name in the keyring: one for each kind of secrets.
    """
    try:
        keyring: Any = importlib.import_module("keyring")
        if keyring.get_keyring().priority >= 1:  # the fail and null backends are below
            return KeyringSecrets(keyring, service)
    except ImportError:
        pass
    except Exception:  # noqa: BLE001, S110 - a broken keyring is as good as none
        pass
    return MemorySecrets() if path is None else FileSecrets(path)
