"""The API keys of providers, from the environment, the keyring or a file.

Rules:
1. The first place that has a key decides: the environment, the keyring (or the file of secrets), ``.env`` in the
   configuration folder, ``.env`` in the working folder.
2. Only keys are read from ``.env``: another project's file cannot redirect this program to another address.
3. Places are read at each lookup, so that a key set later is found.
4. Keys are never shown, only the place of a key and its last characters.
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

#: Only longer keys show their last characters, which would be too large a part of a shorter key.
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
        """The last characters of the key: enough to tell keys apart, too few to use one."""
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
        """The key of the first of these variables that has one."""
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
        """The keys of those variables that have one."""
        found = (self.find(variable) for variable in dict.fromkeys(variables))
        return [key for key in found if key is not None]

    def set(self, variable: str, value: str) -> None:
        """Save a key in the keyring (or the file of secrets).

        Raises:
            UsageError: The value cannot be a key.
        """
        key = value.strip()
        if not key or not key.isascii() or not key.isprintable() or " " in key:
            raise UsageError(
                f"{variable}: a key has no spaces or special characters; copy it again, without quotes"
            )
        self._secrets.write(variable, key)

    def remove(self, variable: str) -> bool:
        """Remove a key from the keyring (or the file of secrets); return whether there was one.

        A key in the environment or a ``.env`` file is not touched.
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
    from dotenv import dotenv_values  # noqa: PLC0415  loaded only if there is such a file

    try:
        return (dotenv_values(path, interpolate=False).get(variable) or "").strip()
    except (OSError, UnicodeError):
        return ""
