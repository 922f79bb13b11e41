"""Edits the user's files: the settings and the list of MCP servers.

Rules:
1. A file is edited in place: comments and unknown keys stay.
2. A change that would make the file invalid is refused.
3. A file is replaced atomically, so that no reader sees half of it.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from multi_llm_chat.config.config_file import parse_settings
from multi_llm_chat.config.folders import Folders
from multi_llm_chat.config.settings import Settings
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.json_values import as_object
from multi_llm_chat.tools.mcp.server_settings import read_servers


def change_settings(folders: Folders, change: Callable[[Any, Settings], None]) -> Settings:
    """Change the settings; ``change`` receives the document and the current settings.

    Raises:
        UsageError: They cannot be read, or would be invalid.
    """
    # A dependency that only edits need.
    import tomlkit  # noqa: PLC0415
    from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415

    path = folders.config_file
    text = _text(path)
    settings = parse_settings(text, str(path))
    try:
        document: Any = tomlkit.parse(text)
    except TOMLKitError as error:
        raise UsageError(f"{path} cannot be changed: {error}") from error
    change(document, settings)
    changed = tomlkit.dumps(document)
    result = parse_settings(changed, path.name)
    _replace(path, changed)
    return result


def add_servers(folders: Folders, document: str) -> list[str]:
    """Add servers to ``mcp.json``; return their names.

    Raises:
        UsageError: The document is no list of servers, or a server in it cannot be used.
    """
    read = read_servers(document)
    if read.problems or not read.servers:
        raise UsageError("; ".join(read.problems) or "The document contains no servers")
    path = folders.servers_file
    try:
        kept = as_object(msgspec.json.decode(_text(path) or "{}"))
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} cannot be changed: {error}") from error
    content = kept or {}
    added = as_object(msgspec.json.decode(document)) or {}
    section = next(
        (as_object(added[key]) for key in ("mcpServers", "mcp_servers", "servers") if key in added),
        None,
    )
    entries = section if section is not None else added
    servers = as_object(content.get("mcpServers")) or {}
    names = [server.name for server in read.servers]
    if taken := [name for name in names if name in servers]:
        raise UsageError(f"There is a server {taken[0]!r} already")
    content["mcpServers"] = servers | {name: entries[name] for name in names}
    _replace(path, msgspec.json.format(msgspec.json.encode(content)).decode() + "\n")
    return names


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{path} cannot be read") from error


def _replace(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        # Entries of servers may hold tokens: only the user may read the file.
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
