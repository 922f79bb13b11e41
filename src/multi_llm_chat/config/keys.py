"""The keys of providers, wherever the user keeps them.

Rules:
1. The first place that has a key decides: the environment, the keyring (or the file of secrets), ``.env`` in the
   configuration folder, ``.env`` in the working folder.
2. Only keys are taken from ``.env``: a foreign project's file cannot lead ours to another address.
3. Places are looked at when a key is asked for, so that one set later is found.
4. Keys are never shown: only where one is, and its last characters.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from multi_llm_chat.config.folders import Folders, program_folders
from multi_llm_chat.config.secrets import SecretStore, open_secrets
from multi_llm_chat.errors import StoreError, UsageError

Place: TypeAlias = Literal["environment", "secrets", "config .env", "folder .env"]

_SERVICE: Final = "multi_llm_chat-keys"

#: The end of a shorter key would be half of it.
_LONG_ENOUGH: Final = 16


class FoundKey(Struct, frozen=True):
    """A key and where it was found; its value is not shown."""

    variable: str
    place: Place
    value: str

    def __repr__(self) -> str:
        return f"FoundKey({self.variable}, {self.place}, {self.hint})"

    @property
    def hint(self) -> str:
        """Enough to tell one key from another, too little to use it."""
        return f"…{self.value[-4:]}" if len(self.value) >= _LONG_ENOUGH else "…"


class Keys:
    """Finds keys by the name of their environment variable."""

    def __init__(
        self,
        *,
        folders: Folders | None = None,
        environment: Mapping[str, str] = os.environ,
        secrets: SecretStore | None = None,
        working_folder: Path | None = None,
    ) -> None:
        places = folders or program_folders(environment)
        self._environment = environment
        self._secrets = secrets or open_secrets(places.secrets_file, _SERVICE)
        self._files: tuple[tuple[Place, Path], ...] = (
            ("config .env", places.config / ".env"),
            ("folder .env", (working_folder or Path.cwd()) / ".env"),
        )

    def find_first(self, variables: Iterable[str]) -> FoundKey | None:
        """The key that one of these variables holds; the first one that does."""
        return next((found for each in variables if (found := self.find(each))), None)

    def find(self, variable: str) -> FoundKey | None:
        """The key, if there is one."""
        value = self._environment.get(variable, "").strip()
        if value:
            return FoundKey(variable, "environment", value)
        kept = self._kept(variable)
        if kept:
            return FoundKey(variable, "secrets", kept)
        for place, path in self._files:
            written = _written(path, variable)
            if written:
                return FoundKey(variable, place, written)
        return None

    def value(self, variable: str) -> str | None:
        """The key's value, if there is one."""
        found = self.find(variable)
        return found.value if found else None

    def list(self, variables: Iterable[str]) -> list[FoundKey]:
        """Those of the keys that are set."""
        found = (self.find(variable) for variable in dict.fromkeys(variables))
        return [key for key in found if key is not None]

    def set(self, variable: str, value: str) -> None:
        """Keep a key.

        Raises:
            UsageError: No key looks like this.
        """
        key = value.strip()
        if not key or not key.isascii() or not key.isprintable() or " " in key:
            raise UsageError(
                f"{variable}: a key has no spaces or special characters; copy it again, without quotes"
            )
        self._secrets.write(variable, key)

    def remove(self, variable: str) -> bool:
        """Remove a key that was set; whether there was one.

        A key in the environment or a ``.env`` file is the user's to remove.
        """
        there = self._secrets.read(variable) is not None
        if there:
            self._secrets.write(variable, None)
        return there

    def _kept(self, variable: str) -> str | None:
        try:
            return self._secrets.read(variable)
        except StoreError:  # a damaged file must not hide the keys in other places
            return None


def _written(path: Path, variable: str) -> str:
    if not path.is_file():
        return ""
    from dotenv import dotenv_values  # noqa: PLC0415  most have no such file, and need not load its reader

    try:
        return (dotenv_values(path, interpolate=False).get(variable) or "").strip()
    except (OSError, UnicodeError):
        return ""
