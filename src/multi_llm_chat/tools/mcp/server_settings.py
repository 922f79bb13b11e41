"""Reads the ``mcpServers`` JSON, a format that many programs share.

Rules:
1. A wrong entry does not affect the others; each unusable entry is listed in ``problems``.
2. ``${NAME}`` and ``${NAME:-default}`` are replaced in every string of an entry; an unset name without a default makes the entry unusable,
   so that a server never gets an incomplete secret.
3. An entry has a ``command`` (a program of this machine) or a ``url`` (streamable HTTP), not both.
4. Only the user sets ``trusted``: without it, the hints of a server never lower an approval policy.
5. Unknown keys belong to other programs and are ignored. This module starts and contacts nothing.
"""

import os
import re
from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field

from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.json_values import as_object

#: Seconds; the first start of a server may download its package (``npx``, ``uvx``).
STARTUP_TIMEOUT: Final = 60.0
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_SECTIONS: Final = ("mcpServers", "mcp_servers", "servers")
_HTTP_TYPES: Final = frozenset({"http", "streamable-http", "streamable_http", "streamableHttp"})


class OAuthClient(Struct, frozen=True, rename="camel"):
    """A registration of this program with an authorization server.

    ``client_id`` (with or without ``client_secret``) comes from the server's owner; ``client_metadata_url`` is the https address of a
    document that describes the program, used instead of an id if the server supports that.
    """

    client_id: str = ""
    client_secret: str = ""
    client_metadata_url: str = ""
    scope: str = ""

    def __repr__(self) -> str:
        return f"OAuthClient({self.client_id or self.client_metadata_url!r})"


class ServerSettings(Struct, frozen=True):
    """One server.

    Attributes:
        name: The name in the user's settings.
        command: The program; empty for a remote server.
        args: Its arguments.
        env: Environment variables for it; of our own it gets only harmless ones such as ``PATH``.
        cwd: The folder it runs in.
        url: The address of a remote server.
        headers: Sent with each request to a remote server.
        disabled: Whether it is not started.
        disabled_tools: Tools that are not offered.
        always_allow: Tools that run without asking.
        timeout: Seconds that a call may take; the registry's limit if ``None``.
        startup_timeout: Seconds within which it must have answered and listed its tools.
        sampling: Whether it may send requests to a model, if the program allows that.
        oauth: Whether to sign in if the server requires it.
        client: The registration of this program with the authorization server, if it does not register itself.
        trusted: Whether its hints are believed: tools that it calls read-only run without asking.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    cwd: str | None = None
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    disabled: bool = False
    disabled_tools: frozenset[str] = frozenset()
    always_allow: frozenset[str] = frozenset()
    timeout: float | None = None
    startup_timeout: float = STARTUP_TIMEOUT
    sampling: bool = False
    oauth: bool = True
    trusted: bool = False
    client: "OAuthClient | None" = None


class ReadServers(Struct, frozen=True):
    """The servers that can be started, and a line about each that cannot."""

    servers: tuple[ServerSettings, ...] = ()
    problems: tuple[str, ...] = ()


class _Entry(Struct, rename="camel"):
    """An entry in the common form; spellings of other programs are translated before."""

    type: str | None = None
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str | int | float | bool] = field(default_factory=dict)
    cwd: str | None = None
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    disabled: bool = False
    disabled_tools: frozenset[str] = frozenset()
    always_allow: frozenset[str] = frozenset()
    timeout: float | None = None
    startup_timeout: float = STARTUP_TIMEOUT
    sampling: bool = False
    oauth: Any = True
    trusted: bool = False


#: The names that other programs use for our keys.
_SPELLINGS: Final = {
    "disabled_tools": "disabledTools",
    "serverUrl": "url",
    "httpUrl": "url",
    "transport": "type",
    "autoApprove": "alwaysAllow",
    "always_allow": "alwaysAllow",
    "startup_timeout": "startupTimeout",
}


def read_servers(
    document: str | bytes | Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> ReadServers:
    """Read a configuration.

    Args:
        document: The JSON text, or its content; the servers stand under ``mcpServers``.
        environment: Where ``${NAME}`` is looked up; the process's environment if not given.

    Raises:
        UsageError: The document is not a configuration of servers.
    """
    variables = os.environ if environment is None else environment
    servers: list[ServerSettings] = []
    problems: list[str] = []
    for name, entry in _section(document).items():
        try:
            servers.append(_read(name, entry, variables))
        except (UsageError, msgspec.ValidationError) as error:
            problems.append(f"MCP server {name!r} cannot be used: {error}")
    return ReadServers(tuple(servers), tuple(problems))


def _section(document: str | bytes | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(document, str | bytes):
        try:
            content = as_object(msgspec.json.decode(document))
        except (msgspec.DecodeError, UnicodeError) as error:
            raise UsageError(f"the MCP configuration is not JSON: {error}") from error
    else:
        content = dict(document)
    for key in _SECTIONS:
        section = as_object((content or {}).get(key))
        if section is not None:
            return section
    raise UsageError('the MCP configuration has no servers: expected {"mcpServers": {"name": {…}}}')


def _read(name: str, entry: object, variables: Mapping[str, str]) -> ServerSettings:
    fields = as_object(entry)
    if fields is None:
        raise UsageError("expected an object with a command or a url")
    expanded = {
        _SPELLINGS.get(key, key): _expand(value, variables) for key, value in fields.items()
    }
    read = msgspec.convert(expanded, _Entry)
    _require_one_way(read)
    return ServerSettings(
        name,
        _home(read.command),
        read.args,
        {key: _as_variable(value) for key, value in read.env.items()},
        None if read.cwd is None else _home(read.cwd),
        read.url,
        read.headers,
        read.disabled,
        read.disabled_tools,
        read.always_allow,
        read.timeout,
        read.startup_timeout,
        read.sampling,
        read.oauth is not False,
        read.trusted,
        _client(read.oauth),
    )


def _client(oauth: Any) -> OAuthClient | None:
    if not isinstance(oauth, dict):
        return None
    client = msgspec.convert(oauth, OAuthClient)
    address = client.client_metadata_url
    if address and (urlsplit(address).scheme != "https" or not urlsplit(address).path.strip("/")):
        raise UsageError("its clientMetadataUrl is no https address of a document")
    if client.client_secret and not client.client_id:
        raise UsageError("its clientSecret has no clientId")
    return client


def _require_one_way(entry: _Entry) -> None:
    if entry.type == "sse":
        raise UsageError("the old SSE transport is not supported; use the server's HTTP address")
    if bool(entry.command) == bool(entry.url):
        raise UsageError("expected either a command or a url")
    if entry.url and urlsplit(entry.url).scheme not in {"http", "https"}:
        raise UsageError("its url is not an http or https address")
    if entry.command and entry.type in _HTTP_TYPES:
        raise UsageError(f"its type is {entry.type!r}, but it has a command")


def _expand(value: Any, variables: Mapping[str, str]) -> Any:
    match value:
        case str():
            return _VARIABLE.sub(lambda match: _look_up(match, variables), value)
        case list():
            return [_expand(item, variables) for item in cast("list[Any]", value)]
        case dict():
            items = cast("dict[str, Any]", value).items()
            return {key: _expand(item, variables) for key, item in items}
        case _:
            return value


def _look_up(match: re.Match[str], variables: Mapping[str, str]) -> str:
    name, default = match[1], match[2]
    value = variables.get(name)
    if value or (value is not None and default is None):
        return value
    if default is None:
        raise UsageError(f"the environment variable {name} is not set")
    return default


def _as_variable(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _home(path: str) -> str:
    return os.path.expanduser(path) if path.startswith("~") else path
