"""The folders for configuration, data and logs.

Rules:
1. They are the platform's standard folders for this program.
2. ``MULTI_LLM_CHAT_HOME`` puts all of them below one folder: for tests, portable and second installations.
3. Looking up a folder does not create it.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from platformdirs import PlatformDirs

VARIABLE = "MULTI_LLM_CHAT_HOME"


class Folders(Struct, frozen=True):
    """The folders of this program."""

    config: Path
    data: Path
    state: Path

    @property
    def config_file(self) -> Path:
        """The file with the settings, ``config.toml``."""
        return self.config / "config.toml"

    @property
    def servers_file(self) -> Path:
        """The file with the MCP servers, in the form that many programs share."""
        return self.config / "mcp.json"

    @property
    def secrets_file(self) -> Path:
        """The file with the API keys, used if there is no keyring."""
        return self.data / "secrets.json"

    @property
    def store_file(self) -> Path:
        """The database with the conversations."""
        return self.data / "conversations.db"


def program_folders(environment: Mapping[str, str] = os.environ) -> Folders:
    """The folders from the environment variable, else the platform's."""
    home = environment.get(VARIABLE, "").strip()
    if home:
        below = Path(home).expanduser().absolute()
        return Folders(below / "config", below / "data", below / "state")
    platform = PlatformDirs("multi_llm_chat", appauthor=False)
    return Folders(platform.user_config_path, platform.user_data_path, platform.user_state_path)
