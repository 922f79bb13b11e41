"""The configuration format of MCP servers that many programs share."""

from typing import Any

import pytest

from multi_llm_chat.errors import UsageError
from multi_llm_chat.tools.mcp import ReadServers, ServerSettings, read_servers


def read(entry: Any, **environment: str) -> ReadServers:
    return read_servers({"mcpServers": {"it": entry}}, environment)


def test_a_program_is_read_with_all_its_settings() -> None:
    text = """{"mcpServers": {"git": {
        "command": "uvx", "args": ["mcp-server-git", "--repository", "${REPO}"],
        "env": {"TOKEN": "${TOKEN:-none}", "DEBUG": true, "LEVEL": 3}, "cwd": "/srv",
        "disabledTools": ["git_push"], "autoApprove": ["git_log"], "timeout": 5, "icon": "x"
    }}}"""
    assert read_servers(text, {"REPO": "/r"}) == ReadServers(
        (
            ServerSettings(
                "git",
                "uvx",
                ("mcp-server-git", "--repository", "/r"),
                {"TOKEN": "none", "DEBUG": "true", "LEVEL": "3"},
                "/srv",
                disabled_tools=frozenset({"git_push"}),
                always_allow=frozenset({"git_log"}),
                timeout=5,
            ),
        )
    )


@pytest.mark.parametrize("kind", [{}, {"type": "http"}, {"transport": "streamable-http"}])
def test_a_remote_server_is_read(kind: dict[str, str]) -> None:
    entry = {"url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${KEY}"}, **kind}
    (server,) = read(entry, HOST="mcp.example", KEY="k").servers
    assert (server.url, server.headers) == (
        "https://mcp.example/mcp",
        {"Authorization": "Bearer k"},
    )


@pytest.mark.parametrize(
    ("template", "environment", "expected"),
    [
        ("${A}", {"A": "x"}, "x"),
        ("${A}", {"A": ""}, ""),
        ("${A:-d}", {}, "d"),
        ("${A:-d}", {"A": ""}, "d"),
        ("${A:-}", {}, ""),
        ("${A}${B:-b}-$A", {"A": "x"}, "xb-$A"),
        ("${A}", {"A": "${B}", "B": "y"}, "${B}"),
    ],
)
def test_variables_are_replaced(template: str, environment: dict[str, str], expected: str) -> None:
    (server,) = read({"command": "c", "args": [template]}, **environment).servers
    assert server.args == (expected,)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"command": "c", "env": {"K": "${KEY}"}}, "KEY is not set"),
        ({}, "either a command or a url"),
        ({"command": "c", "url": "http://x"}, "either a command or a url"),
        ({"url": "file:///etc/passwd"}, "not an http or https address"),
        ({"url": "http://x", "type": "sse"}, "old SSE transport"),
        ({"command": "c", "type": "http"}, "but it has a command"),
        ({"command": 5}, "Expected `str`"),
        ({"command": "c", "args": "x"}, "Expected `array`"),
        ("c", "expected an object"),
    ],
)
def test_an_invalid_entry_affects_only_itself(entry: Any, words: str) -> None:
    found = read_servers({"mcpServers": {"bad": entry, "good": {"command": "c"}}}, {})
    assert [server.name for server in found.servers] == ["good"]
    assert len(found.problems) == 1
    assert words in found.problems[0]
    assert "'bad'" in found.problems[0]


@pytest.mark.parametrize("document", ["nonsense", "[]", "{}", {"mcpServers": []}, b"\xff"])
def test_what_is_no_configuration_at_all_is_refused(document: Any) -> None:
    with pytest.raises(UsageError, match="MCP configuration"):
        read_servers(document, {})


@pytest.mark.parametrize(
    ("oauth", "words"),
    [
        ({"clientSecret": "s"}, "no clientId"),
        ({"clientMetadataUrl": "http://x.example/client.json"}, "no https address"),
        ({"clientMetadataUrl": "https://x.example/"}, "no https address"),
        ({"clientId": 5}, "Expected `str`"),
    ],
)
def test_an_unusable_registration_affects_only_its_server(oauth: Any, words: str) -> None:
    found = read({"url": "https://x.example/mcp", "oauth": oauth})
    assert found.servers == ()
    assert words in found.problems[0]


def test_no_repr_shows_the_secret_of_a_registration() -> None:
    entry = {"url": "https://x.example/mcp", "oauth": {"clientId": "c", "clientSecret": "hidden"}}
    (server,) = read(entry).servers
    assert server.client is not None
    assert server.client.client_secret == "hidden"
    assert "hidden" not in repr(server)
