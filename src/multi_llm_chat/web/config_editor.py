"""Changes of the user's files: the settings and the list of MCP servers.

Rules:
1. A file is changed in place: comments and what we do not know stay.
2. What would not be valid afterwards is not written.
3. A file is replaced as a whole, so that nobody ever reads half of it.
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
    """Change the settings; ``change`` is given the document and what it says now.

    Raises:
        UsageError: They cannot be read, or would make no sense.
    """
    # The door to a dependency that only changes need.
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


def keep_servers(folders: Folders, document: str) -> list[str]:
    """Add servers to ``mcp.json``; their names.

    Raises:
        UsageError: It is no list of servers, or none of them can be used.
    """
    read = read_servers(document)
    if read.problems or not read.servers:
        raise UsageError("; ".join(read.problems) or "There are no servers in it")
    path = folders.servers_file
    try:
        kept = as_object(msgspec.json.decode(_text(path) or "{}"))
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} cannot be changed: {error}") from error
    before = kept or {}
    told = as_object(msgspec.json.decode(document)) or {}
    section = next(
        (as_object(told[key]) for key in ("mcpServers", "mcp_servers", "servers") if key in told),
        None,
    )
    entries = section if section is not None else told
    servers = as_object(before.get("mcpServers")) or {}
    names = [server.name for server in read.servers]
    if taken := [name for name in names if name in servers]:
        raise UsageError(f"There is a server {taken[0]!r} already")
    before["mcpServers"] = servers | {name: entries[name] for name in names}
    _replace(path, msgspec.json.format(msgspec.json.encode(before)).decode() + "\n")
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
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        # Servers' entries may hold tokens: nobody else may read them.
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        beside.replace(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
