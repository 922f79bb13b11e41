"""Tools that the provider runs itself, in each dialect's format (ANT-48, ANT-49, RSP-20, GEM-26, OAI-29, ORT-07)."""

from typing import Any

import pytest
from anthropic.types.beta import beta_tool_union_param
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import tool_param
from pydantic import TypeAdapter

from multi_llm_chat import Options, UsageError, render
from multi_llm_chat.agent.providers import create_provider
from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.protocol.exchange import Exchange
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.request import ServerTool
from multi_llm_chat.testing.simulator import Say, Simulator
from multi_llm_chat.testing.validators import validate

HI = [{"role": "user", "content": "hi"}]
FUNCTION: dict[str, Any] = {"name": "f", "inputSchema": {"type": "object", "properties": {}}}
MCP = ServerTool("mcp", name="docs", url="https://mcp.example/x", authorization="secret-token")
FILES = ServerTool("file_search", stores=("vs_1",))
ALL: list[Any] = ["web_search", "web_fetch", "code_execution", FILES, MCP, "image_generation"]


def body(provider: str, *tools: Any, model: str | None = None, **settings: Any) -> Any:
    rendered = render(HI, provider, model=model, options={"server_tools": tools}, **settings)
    assert validate(provider, rendered.body, model=rendered.model) == []
    return rendered


def test_anthropic() -> None:
    rendered = body("anthropic", *ALL, tools=[FUNCTION])
    assert [tool.get("type", "function") for tool in rendered.body["tools"]] == [
        "function",
        "web_search_20250305",
        "web_fetch_20250910",
        "code_execution_20250825",
        "mcp_toolset",
    ]
    server = {"type": "url", "url": "https://mcp.example/x", "name": "docs"}
    assert rendered.body["mcp_servers"] == [server | {"authorization_token": "secret-token"}]
    assert rendered.headers == {"anthropic-beta": "mcp-client-2025-11-20"}  # ANT-49
    union = TypeAdapter(beta_tool_union_param.BetaToolUnionParam)
    for tool in rendered.body["tools"]:
        union.validate_python(tool)
    assert [note.rule for note in rendered.notes] == ["ANT-48", "ANT-48"]  # the two it lacks


def test_anthropics_settings() -> None:
    search = ServerTool("web_search", allowed_domains=("a.example",), max_uses=3)
    server = ServerTool("mcp", name="docs", url="https://x.example", allowed_tools=("read",))
    tools = body("anthropic", search, server).body["tools"]
    assert tools[0]["allowed_domains"] == ["a.example"]
    assert tools[0]["max_uses"] == 3
    assert tools[1]["default_config"] == {"enabled": False}
    assert tools[1]["configs"] == {"read": {"enabled": True}}


def test_responses() -> None:
    rendered = body("openai", *ALL, tools=[FUNCTION])
    assert [tool["type"] for tool in rendered.body["tools"]] == [
        "function",
        "web_search",
        "code_interpreter",
        "file_search",
        "mcp",
        "image_generation",
    ]
    union = TypeAdapter(tool_param.ToolParam)
    for tool in rendered.body["tools"]:
        union.validate_python(tool)
    assert [note.rule for note in rendered.notes] == ["RSP-20"]  # web_fetch


def test_gemini() -> None:
    rendered = body("gemini", *ALL)
    assert rendered.body["tools"] == [
        {"googleSearch": {}},
        {"urlContext": {}},
        {"codeExecution": {}},
        {"fileSearch": {"fileSearchStoreNames": ["vs_1"]}},
        {
            "mcpServers": [
                {
                    "name": "docs",
                    "streamableHttpTransport": {
                        "url": "https://mcp.example/x",
                        "headers": {"Authorization": "Bearer secret-token"},
                    },
                }
            ]
        },
    ]
    assert "toolConfig" not in rendered.body
    assert [note.rule for note in rendered.notes] == ["GEM-26"]


def test_gem_26_beside_functions() -> None:
    newer = body("gemini", "web_search", model="gemini-3.7-flash", tools=[FUNCTION]).body
    assert newer["tools"][1] == {"googleSearch": {}}
    assert newer["toolConfig"] == {
        "includeServerSideToolInvocations": True,
        "functionCallingConfig": {"mode": "VALIDATED"},
    }
    older = body("gemini", "web_search", model="gemini-2.5-flash", tools=[FUNCTION])
    assert len(older.body["tools"]) == 1
    assert [note.rule for note in older.notes] == ["GEM-26"]
    alone = body("gemini", "web_search", model="gemini-2.5-flash").body
    assert alone["tools"] == [{"googleSearch": {}}]


def test_chat_completions() -> None:
    searching = body("openai-chat", "web_search", model="gpt-4o-search-preview").body
    assert searching["web_search_options"] == {}
    other = body("openai-chat", "web_search", model="gpt-4.1")
    assert "web_search_options" not in other.body
    assert [note.rule for note in other.notes] == ["OAI-29"]
    search = ServerTool("web_search", blocked_domains=("b.example",))
    routed = body("openrouter", search, tools=[FUNCTION]).body
    assert routed["tools"][1] == {
        "type": "openrouter:web_search",
        "parameters": {"excluded_domains": ["b.example"]},
    }


def test_a_function_keeps_its_name() -> None:
    rendered = body("anthropic", "web_search", tools=[FUNCTION | {"name": "web_search"}])
    assert len(rendered.body["tools"]) == 1
    assert [note.rule for note in rendered.notes] == ["ANT-48"]


@given(
    tools=st.lists(st.sampled_from(ALL), max_size=8),
    functions=st.sampled_from([[], [FUNCTION]]),
    provider=st.sampled_from(sorted(ROWS)),
)
def test_every_row_accepts_or_notes_every_tool(
    tools: list[Any], functions: list[Any], provider: str
) -> None:
    rendered = body(provider, *tools, tools=functions)
    asked = {tool if isinstance(tool, str) else tool.type for tool in tools}
    said = str(rendered.body.get("tools", [])) + str(rendered.body)
    noted = " ".join(note.message for note in rendered.notes)
    spelled = {
        "web_search": ("web_search_20250305", "'web_search'", "googleSearch", ":web_search"),
        "web_fetch": ("web_fetch_20250910", "urlContext"),
        "code_execution": ("code_execution_2", "code_interpreter", "codeExecution"),
        "file_search": ("vs_1",),
        "mcp": ("mcp.example",),
        "image_generation": ("image_generation",),
    }
    for word in asked:
        assert any(form in said for form in spelled[word]) or word in noted


@pytest.mark.parametrize(
    "options",
    [
        {"server_tools": ["telepathy"]},
        {"server_tools": [{"type": "mcp", "name": "x"}]},
        {"server_tools": ["file_search"]},
        {"server_tools": [{"type": "web_search", "url": "https://x.example"}]},
        {"server_tools": [{"type": "web_fetch", "allowed_domains": ["a"], "blocked_domains": ["b"]}]},
        {"server_tools": [{"type": "web_search", "speed": 9}]},
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_before_any_network(options: Any) -> None:
    with pytest.raises(UsageError):
        render(HI, "anthropic", options=options)


def test_every_form_of_the_option_is_the_same() -> None:
    forms: list[Any] = [
        {"server_tools": "web_search"},
        {"server_tools": ["web_search"]},
        {"server_tools": [{"type": "web_search"}]},
        Options(server_tools=("web_search",)),
        Options(server_tools=(ServerTool("web_search"),)),
    ]
    bodies = [render(HI, "anthropic", options=form).body for form in forms]
    assert all(each == bodies[0] for each in bodies)


def test_a_token_is_in_no_repr_and_no_error() -> None:
    options = Options(server_tools=(MCP,))
    assert "secret-token" not in repr(options)
    exchange = Exchange(HI, "anthropic", options=options)
    assert "secret-token" not in repr(exchange)
    exchange.begin(400, {"content-type": "application/json"})
    exchange.receive(b'{"error": {"message": "bad token secret-token"}}')
    with pytest.raises(Exception, match="hidden") as caught:
        exchange.end()
    assert "secret-token" not in str(caught.value)


def test_a_conversation_has_server_tools() -> None:
    with Simulator([Say("one"), Say("two")]) as simulator:
        url = simulator.base_url("anthropic")
        claude = create_provider("anthropic", api_key="k", base_url=url)
        service = ChatService([claude], store=":memory:")
        service.configure(server_tools=["web_search"])
        list(service.process_message("hi"))
        service.configure(server_tools=None)
        list(service.process_message("and?"))
        service.close()
        first, second = (request.body.get("tools") for request in simulator.requests)
    assert first is not None
    assert first[0]["type"] == "web_search_20250305"
    assert second is None
