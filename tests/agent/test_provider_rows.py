"""Every provider of the table, streamed and not, with and without ``async``."""

import pytest
from tests.agent.replies import CALL, TEXT, stream_of, whole_of
from tests.asking import HISTORY, Asker
from tests.servers import ScriptedServer, serving

from multi_llm_chat.agent.providers import LLMProvider, create_provider
from multi_llm_chat.events import Finish, TextDelta, ToolCallEnd, Usage
from multi_llm_chat.protocol.providers import ROWS, ProviderRow

ROW_LIST = list(ROWS.values())
TOOLS = [
    {
        "name": "get_weather",
        "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
]


@pytest.fixture(params=ROW_LIST, ids=[row.name for row in ROW_LIST])
def row(request: pytest.FixtureRequest) -> ProviderRow:
    return request.param


def provider(row: ProviderRow, server: ScriptedServer) -> LLMProvider:
    return create_provider(row.name, base_url=server.url, api_key="k-123")


def test_it_answers_streamed(asker: Asker, row: ProviderRow) -> None:
    with serving(stream_of(row.dialect)) as server:
        outcome = asker.stream(provider(row, server), tools=TOOLS)
    assert outcome.failure is None
    assert outcome.reply is not None
    assert [event.text for event in outcome.events if isinstance(event, TextDelta)] == [
        "Hello, ",
        "世界",
    ]
    calls = [event.call for event in outcome.events if isinstance(event, ToolCallEnd)]
    assert [(call.name, call.arguments) for call in calls] == [
        (CALL["name"], CALL["arguments"]),
    ]
    assert isinstance(outcome.events[-1], Finish)
    assert outcome.reply.tool_calls == tuple(calls)
    assert outcome.reply.turn.role == row.speaker
    assert outcome.reply.usage == Usage(input_tokens=7, output_tokens=5)
    assert outcome.reply.finish_reason == "tool_calls"
    sent = server.requests[0]
    value = sent.headers[row.key_header.lower()]
    assert value == ("Bearer k-123" if row.key_header == "Authorization" else "k-123")
    assert row.headers.items() <= sent.headers.items()
    if row.dialect != "gemini":
        assert sent.json["stream"] is True


def test_it_answers_at_once(asker: Asker, row: ProviderRow) -> None:
    with serving(whole_of(row.dialect)) as server:
        outcome = asker.complete(provider(row, server), tools=TOOLS)
    assert outcome.failure is None
    assert outcome.reply is not None
    assert outcome.reply.text == TEXT
    assert [(call.name, call.arguments) for call in outcome.reply.tool_calls] == [
        (CALL["name"], CALL["arguments"])
    ]
    assert outcome.reply.usage == Usage(input_tokens=7, output_tokens=5)
    assert outcome.reply.provider == row.name
    assert "stream" not in server.requests[0].json or not server.requests[0].json["stream"]


def test_the_seeds_generator_gives_texts_and_calls(asker: Asker, row: ProviderRow) -> None:
    with serving(stream_of(row.dialect)) as server:
        chunks = asker.call_api(provider(row, server), tools=TOOLS)
    assert chunks[:2] == [
        {"type": "text", "content": "Hello, "},
        {"type": "text", "content": "世界"},
    ]
    assert chunks[2]["type"] == "tool_call"
    content = chunks[2]["content"]
    assert {name: content[name] for name in ("name", "arguments")} == {
        name: CALL[name] for name in ("name", "arguments")
    }
    assert content["tool_call_id"]
    assert len(chunks) == 3


def test_its_path_lies_below_the_base_url(row: ProviderRow) -> None:
    with serving(whole_of(row.dialect)) as server:
        asked = create_provider(row.name, base_url=f"{server.url}/some/where/", api_key="k")
        with asked:
            asked.complete(HISTORY)
    assert server.requests[0].target.startswith("/some/where/")
    assert "//" not in server.requests[0].target
