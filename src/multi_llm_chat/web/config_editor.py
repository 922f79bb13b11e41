"""Edits the user's files: the settings and the list of MCP servers.

Rules:
1. A file is edited in place: comments and unknown keys stay.
2. A change that would make the file invalid is refused.
3. A file is replaced atomically, so that no reader sees half of it.
4. Values of variables and headers of a server may be secret: they are shown as ``HIDDEN``. A value that is still ``HIDDEN`` in an edited
   entry keeps its value in the file.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from multi_llm_chat.config.config_file import parse_settings
from multi_llm_chat.config.folders import Folders
from multi_llm_chat.config.settings import Settings
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.json_values import as_object
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.tools.mcp.server_settings import read_servers


def change_settings(folders: Folders, change: Callable[[Any, Settings], None]) -> Settings:
    """Change the settings; ``change`` receives the document and the current settings.

    Raises:
        UsageError: They cannot be read, or would be invalid.
    """
    # Only editing needs this dependency.
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
    names, entries = _checked(document)
    content = _server_file(folders)
    servers = as_object(content.get("mcpServers")) or {}
    if taken := [name for name in names if name in servers]:
        raise UsageError(f"There is a server {taken[0]!r} already")
    content["mcpServers"] = servers | {name: entries[name] for name in names}
    _write_servers(folders, content)
    return names


#: Replaces a value that is not shown.
HIDDEN: Final = "••••••"


def server_entry(folders: Folders, name: str) -> JsonObject | None:
    """The entry of a server without its secrets; None if the file has none of that name."""
    entry = as_object((as_object(_server_file(folders).get("mcpServers")) or {}).get(name))
    if entry is None:
        return None
    return {
        key: dict.fromkeys(cast("JsonObject", value), HIDDEN)
        if key in _SECRET_KEYS and isinstance(value, dict)
        else HIDDEN
        if key in _SECRET_KEYS
        else value
        for key, value in entry.items()
    }


_SECRET_KEYS: Final = frozenset({"env", "headers", "oauth"})


def replace_server(folders: Folders, name: str, text: str) -> JsonObject:
    """Change the entry of a server; return the entry of the file, with its secrets.

    Raises:
        UsageError: There is no such server, or the entry cannot be used.
    """
    content = _server_file(folders)
    servers = as_object(content.get("mcpServers")) or {}
    before = as_object(servers.get(name))
    if before is None:
        raise UsageError(f"There is no server {name!r} in {folders.servers_file.name}")
    try:
        wanted = as_object(msgspec.json.decode(text))
    except msgspec.DecodeError as error:
        raise UsageError(f"The entry is not JSON: {error}") from error
    entry = {key: _restored(value, before.get(key)) for key, value in (wanted or {}).items()}
    _checked(msgspec.json.encode({"mcpServers": {name: entry}}).decode())
    content["mcpServers"] = servers | {name: entry}
    _write_servers(folders, content)
    return entry


def _restored(value: object, before: object) -> object:
    """An edited value, with the hidden values restored."""
    if value == HIDDEN:
        return before
    if isinstance(value, dict):
        old = as_object(before) or {}
        return {
            key: _restored(each, old.get(key)) for key, each in cast("JsonObject", value).items()
        }
    return value


def remove_server(folders: Folders, name: str) -> None:
    """Remove a server from ``mcp.json``.

    Raises:
        UsageError: The file has no server of that name.
    """
    content = _server_file(folders)
    servers = as_object(content.get("mcpServers")) or {}
    if name not in servers:
        raise UsageError(f"There is no server {name!r} in {folders.servers_file.name}")
    content["mcpServers"] = {each: entry for each, entry in servers.items() if each != name}
    _write_servers(folders, content)


def _checked(document: str) -> tuple[list[str], JsonObject]:
    """The names and entries of the servers in a document; raises if one is unusable."""
    read = read_servers(document)
    if read.problems or not read.servers:
        raise UsageError("; ".join(read.problems) or "The document contains no servers")
    added = as_object(msgspec.json.decode(document)) or {}
    section = next(
        (as_object(added[key]) for key in ("mcpServers", "mcp_servers", "servers") if key in added),
        None,
    )
    return [server.name for server in read.servers], section if section is not None else added


def _server_file(folders: Folders) -> JsonObject:
    path = folders.servers_file
    try:
        return as_object(msgspec.json.decode(_text(path) or "{}")) or {}
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} cannot be changed: {error}") from error


def _write_servers(folders: Folders, content: JsonObject) -> None:
    text = msgspec.json.format(msgspec.json.encode(content)).decode() + "\n"
    _replace(folders.servers_file, text)


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
