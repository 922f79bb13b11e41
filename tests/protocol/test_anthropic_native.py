"""Anthropic's native blocks: kept unchanged, sent back unchanged, described to other providers (ANT-46, ANT-48, ANT-53, STR-19, STR-21)."""

import json
import typing
from typing import Any

import pytest
from anthropic.types.beta import beta_content_block, beta_content_block_param
from tests.protocol.corpus import CONTEXT, run

from multi_llm_chat import history_from, render
from multi_llm_chat.events import Event, Finish, NativeItem
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.history.values import Native, Part, Text, Turn
from multi_llm_chat.history.writer import write_history
from multi_llm_chat.protocol.anthropic.decode import decode_reply
from multi_llm_chat.protocol.exchange import Exchange
from multi_llm_chat.testing.validators import validate

Block = dict[str, Any]

MODEL = "claude-opus-4-8"
MARK: Block = {"type": "ephemeral"}
PNG = "iVBORw0KGgo="
QUESTION: Block = {"role": "user", "content": "hi"}
NEXT: Block = {"role": "user", "content": "and?"}


def called(name: str, **given: Any) -> Block:
    return {"type": "server_tool_use", "id": "srvtoolu_1", "name": name, "input": given}


def found(kind: str, content: Any, **more: Any) -> Block:
    return {"type": kind, "tool_use_id": "srvtoolu_1", "content": content} | more


#: Model turns by the block type that they show, with words that other providers get.
REPLIES: dict[str, tuple[list[Block], list[str]]] = {
    "text": ([{"type": "text", "text": "Warm.", "citations": [
        {"type": "web_search_result_location", "cited_text": "warm", "url": "https://w.test", "title": "Weather", "encrypted_index": "E"}]}],
        ["Warm.", "Weather", "https://w.test"]),
    "thinking": ([{"type": "thinking", "thinking": "", "signature": "c2ln"}, {"type": "text", "text": "x"}], ["x"]),
    "redacted_thinking": ([{"type": "redacted_thinking", "data": "UkVE"}, {"type": "text", "text": "x"}], ["x"]),
    "server_tool_use": ([called("web_search", query="rain"), found("web_search_tool_result", [])], ["rain"]),
    "web_search_tool_result": ([called("web_search", query="rain"), found("web_search_tool_result", [
        {"type": "web_search_result", "title": "Rain", "url": "https://w.test", "encrypted_content": "EN", "page_age": None}], caller={"type": "direct"})],
        ["rain", "Rain", "https://w.test"]),
    "web_fetch_tool_result": ([called("web_fetch", url="https://w.test"), found("web_fetch_tool_result", {
        "type": "web_fetch_result", "url": "https://w.test", "retrieved_at": "2026", "content": {
            "type": "document", "title": "Page", "source": {"type": "text", "media_type": "text/plain", "data": "the page"}}})],
        ["https://w.test", "the page", "Page"]),
    "code_execution_tool_result": ([called("code_execution", code="print(1)"), found("code_execution_tool_result", {
        "type": "code_execution_result", "stdout": "one", "stderr": "", "return_code": 0, "content": []})], ["print(1)", "one"]),
    "bash_code_execution_tool_result": ([called("bash_code_execution", command="ls"), found("bash_code_execution_tool_result", {
        "type": "bash_code_execution_result", "stdout": "a.csv", "stderr": "warned", "return_code": 1,
        "content": [{"type": "bash_code_execution_output", "file_id": "file_1"}]})], ["ls", "a.csv", "warned", "return code: 1", "file_1"]),
    "text_editor_code_execution_tool_result": ([called("text_editor_code_execution", command="view", path="/a"), found(
        "text_editor_code_execution_tool_result", {"type": "text_editor_code_execution_view_result", "file_type": "text", "content": "lines"})], ["/a", "lines"]),
    "tool_search_tool_result": ([called("tool_search_tool_bm25", query="weather"), found("tool_search_tool_result", {
        "type": "tool_search_tool_search_result", "tool_references": [{"type": "tool_reference", "tool_name": "f"}]})], ["weather", "f"]),
    "advisor_tool_result": ([called("advisor"), found("advisor_tool_result", {"type": "advisor_result", "text": "think twice"})], ["think twice"]),
    "mcp_tool_use": ([{"type": "mcp_tool_use", "id": "srvtoolu_1", "name": "ask", "server_name": "wiki", "input": {"q": "rain"}},
        found("mcp_tool_result", [{"type": "text", "text": "wet"}], is_error=False)], ["wiki", "ask", "rain", "wet"]),
    "mcp_tool_result": ([{"type": "mcp_tool_use", "id": "srvtoolu_1", "name": "ask", "server_name": "wiki", "input": {}},
        found("mcp_tool_result", [{"type": "text", "text": "wet"}], is_error=True)], ["wet"]),
    "container_upload": ([{"type": "container_upload", "file_id": "file_2"}, {"type": "text", "text": "x"}], ["file_2"]),
    "compaction": ([{"type": "compaction", "content": "They said hello."}, {"type": "text", "text": "x"}], ["They said hello."]),
    "fallback": ([{"type": "fallback", "from": {"model": "a-model"}, "to": {"model": "b-model"}}, {"type": "text", "text": "x"}], ["a-model", "b-model"]),
    "mcp_tool_listing": ([{"type": "mcp_tool_listing", "mcp_server_name": "wiki", "tools": [{"name": "ask"}]}, {"type": "text", "text": "x"}], ["wiki", "ask"]),
    "hologram": ([{"type": "hologram", "words": "not known yet"}, {"type": "text", "text": "x"}], ["not known yet"]),
}  # fmt: skip

#: The blocks of a user message.
SENT: dict[str, tuple[list[Block], list[str]]] = {
    "text": ([{"type": "text", "text": "hi", "cache_control": MARK}], ["hi"]),
    "image": ([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}, "cache_control": MARK}], []),
    "image by id": ([{"type": "image", "source": {"type": "file", "file_id": "file_1"}}], ["image"]),
    "document": ([{"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}, "title": "Facts", "context": "c", "citations": {"enabled": True}}], []),
    "document by id": ([{"type": "document", "source": {"type": "file", "file_id": "file_1"}, "title": "Facts"}], ["Facts"]),
    "document of text": ([{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "some facts"}, "title": "facts.txt", "citations": {"enabled": True}}], ["facts.txt"]),
    "document of blocks": ([{"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "some facts"}]}}], ["some facts"]),
    "search_result": ([{"type": "search_result", "title": "Rain", "source": "https://w.test", "content": [{"type": "text", "text": "wet"}]}], ["Rain", "https://w.test", "wet"]),
    "container_upload": ([{"type": "container_upload", "file_id": "file_2"}], ["file_2"]),
}  # fmt: skip

#: The blocks of results, with the call's own keys.
ANSWERED: dict[str, tuple[Any, list[str]]] = {
    "tool_reference": ([{"type": "tool_reference", "tool_name": "f"}], ["f"]),
    "search_result": ([{"type": "search_result", "title": "Rain", "source": "https://w.test", "content": [{"type": "text", "text": "wet"}]}], ["Rain", "https://w.test", "wet"]),
    "marked text": ([{"type": "text", "text": "wet", "cache_control": MARK}], ["wet"]),
    "document": ([{"type": "document", "title": "Facts", "source": {"type": "text", "media_type": "text/plain", "data": "some facts"}}], ["Facts"]),
    "browser_state": ([{"type": "browser_state", "tabs": [{"title": "Rain", "url": "https://w.test"}]}], ["Rain"]),
}  # fmt: skip

TOOLS: list[Any] = [{"name": "f", "inputSchema": {"type": "object"}}]
#: The advisor's blocks are refused without its tool.
ADVISOR = {"tools": [{"name": "advisor", "type": "advisor_20260301"}]}
NATIVE_ROWS = ("openai", "openai-chat", "gemini", "mistral")


def types_of(union: Any) -> set[str]:
    """Return the types of the blocks in one of the SDK's unions."""
    found: set[str] = set()
    for member in typing.get_args(union):
        if not isinstance(member, type):
            found |= types_of(member)
            continue
        fields = getattr(member, "model_fields", None)
        hint = fields["type"].annotation if fields else typing.get_type_hints(member)["type"]
        while typing.get_origin(hint) is not typing.Literal:
            hint = typing.get_args(hint)[0]
        found.add(typing.get_args(hint)[0])
    return found


def test_every_published_block_has_a_row() -> None:
    published = types_of(beta_content_block.BetaContentBlock)
    assert published - {"tool_use"} <= set(REPLIES)
    taken = types_of(beta_content_block_param.BetaContentBlockParam)
    shown = {*REPLIES, *SENT, *ANSWERED, "tool_use", "tool_result", "tool_addition", "tool_removal"}
    assert taken <= shown


def again(messages: list[Block], **options: Any) -> list[Block]:
    history = history_from(messages, "anthropic", model=MODEL)
    stored = read_history(json.loads(json.dumps(history)))
    rendered = render(stored, "anthropic", model=MODEL, tools=TOOLS, options=options)
    known = "hologram" not in json.dumps(messages)
    assert not known or validate("anthropic", rendered.body, model=MODEL) == []
    return rendered.body["messages"]


def others(messages: list[Block], words: list[str]) -> None:
    history = history_from(messages, "anthropic", model=MODEL)
    for turn in history:
        turn["role"] = {"assistant": "claude"}.get(turn["role"], turn["role"])
    for provider in NATIVE_ROWS:
        rendered = render(history, provider, tools=TOOLS)
        said = json.dumps(rendered.body, ensure_ascii=False)
        assert [each for each in words if each not in said] == [], provider
        assert "[left out" not in said


def talk(name: str) -> list[Block]:
    return [QUESTION, {"role": "assistant", "content": REPLIES[name][0]}, NEXT]


@pytest.mark.parametrize("name", REPLIES)
def test_what_the_model_said_goes_back_as_it_came(name: str) -> None:
    advises = {"extra": ADVISOR} if name == "advisor_tool_result" else {}
    messages = talk(name)
    assert again(messages, thinking=True, **advises) == messages


@pytest.mark.parametrize("name", REPLIES)
def test_others_get_the_words(name: str) -> None:
    others(talk(name), REPLIES[name][1])


@pytest.mark.parametrize("name", SENT)
def test_what_the_user_sent_goes_back_as_it_came(name: str) -> None:
    messages = [{"role": "user", "content": SENT[name][0]}]
    assert again(messages) == messages
    others(messages, SENT[name][1])


@pytest.mark.parametrize("name", ANSWERED)
def test_what_a_tool_answered_goes_back_as_it_came(name: str) -> None:
    content, words = ANSWERED[name]
    call: Block = {
        "type": "tool_use",
        "id": "a",
        "name": "f",
        "input": {},
        "caller": {"type": "direct"},
    }
    result: Block = {
        "type": "tool_result",
        "tool_use_id": "a",
        "content": content,
        "cache_control": MARK,
    }
    messages: list[Block] = [
        QUESTION,
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    assert again(messages) == messages
    others(messages, words)


def test_an_edited_result_is_sent_as_edited() -> None:
    call: Block = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
    result: Block = {
        "type": "tool_result",
        "tool_use_id": "a",
        "content": ANSWERED["search_result"][0],
    }
    messages: list[Block] = [
        QUESTION,
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    history = history_from(messages, "anthropic", model=MODEL)
    history[2]["content"][0]["content"] = "dry"
    sent = render(history, "anthropic", model=MODEL, tools=TOOLS).body["messages"]
    assert sent[2]["content"] == [{"type": "tool_result", "tool_use_id": "a", "content": "dry"}]


def test_ant_46_a_change_of_tools_goes_back_where_the_tool_is_declared() -> None:
    reference = {"type": "tool_reference", "name": "f"}
    change = {"role": "system", "content": [{"type": "tool_addition", "tool": reference}]}
    messages = [QUESTION, change, {"role": "assistant", "content": "x"}, NEXT]
    assert again(messages) == messages
    others(messages, ["f"])


def stream_of(blocks: list[Block], stop: str) -> bytes:
    """Return the blocks as a stream sends them: inputs and citations as deltas."""
    frames: list[Block] = [{"type": "message_start", "message": {"usage": {}}}]
    for index, block in enumerate(blocks):
        deltas: list[Block] = []
        head: Block = dict(block)
        if "input" in head:
            text = json.dumps(head["input"])
            head["input"] = {}
            deltas = [
                {"type": "input_json_delta", "partial_json": part} for part in (text[:5], text[5:])
            ]
        elif block["type"] == "text":
            head = dict[str, Any](type="text", text="", citations=[])
            deltas = [{"type": "text_delta", "text": block["text"]}]
            deltas += [
                {"type": "citations_delta", "citation": each} for each in block.get("citations", ())
            ]
        elif block["type"] == "compaction":
            head = {"type": "compaction", "content": None}
            deltas = [{"type": "compaction_delta", "content": block["content"]}]
        elif block["type"] == "thinking":
            head = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "signature_delta", "signature": block["signature"]}]
        frames.append({"type": "content_block_start", "index": index, "content_block": head})
        frames += [
            {"type": "content_block_delta", "index": index, "delta": each} for each in deltas
        ]
        frames.append({"type": "content_block_stop", "index": index})
    frames.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {}})
    frames.append({"type": "message_stop"})
    return b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames)  # fmt: skip


def whole(blocks: list[Block], stop: str) -> tuple[tuple[Part, ...], list[Event]]:
    reply: Block = {"type": "message", "content": blocks, "stop_reason": stop, "usage": {}}
    return decode_reply(json.dumps(reply).encode(), CONTEXT)


@pytest.mark.parametrize("name", REPLIES)
def test_a_streamed_and_a_whole_reply_give_the_same_parts(name: str) -> None:
    blocks = REPLIES[name][0]
    streamed = run("anthropic", [stream_of(blocks, "end_turn")])
    parts, events = whole(blocks, "end_turn")
    assert streamed.parts == parts
    natives = [part for part in parts if isinstance(part, Native)]
    for given in (streamed.events, events):
        assert [event.item for event in given if isinstance(event, NativeItem)] == natives
    assert [part.raw for part in natives] == [
        block for block in blocks if block["type"] not in ("text", "thinking", "redacted_thinking")
    ]


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ("pause_turn", "paused"),
        ("compaction", "paused"),
        ("refusal", "refusal"),
        ("model_context_window_exceeded", "length"),
        ("max_tokens", "length"),
        ("stop_sequence", "stop"),
    ],
)
def test_str_21_every_published_stop_reason_has_its_word(stop: str, reason: str) -> None:
    events = run("anthropic", [stream_of([{"type": "text", "text": "x"}], stop)]).events
    finish = events[-1]
    assert isinstance(finish, Finish)
    assert (finish.reason, finish.raw) == (reason, stop)


def test_a_stored_native_part_is_the_same() -> None:
    history = history_from(talk("mcp_tool_use"), "anthropic", model=MODEL)
    assert write_history(read_history(history)) == history


@pytest.mark.parametrize(
    ("kind", "beta"),
    [
        ("mcp_tool_use", "mcp-client-2025-11-20"),  # ANT-49
        ("mcp_tool_result", "mcp-client-2025-11-20"),
        ("compaction", "compact-2026-01-12"),  # ANT-50
        ("web_search_tool_result", None),
        ("text", None),
    ],
)
def test_ant_53_blocks_of_a_beta_come_with_its_header(kind: str, beta: str | None) -> None:
    history = history_from(talk(kind), "anthropic", model=MODEL)
    headers = {"Anthropic-Beta": f"mine-2026-01-01, {beta}"} if beta else {"Anthropic-Beta": "mine"}
    assert render(history, "anthropic", model=MODEL).headers == (
        {"anthropic-beta": beta} if beta else {}
    )
    assert render(history, "openai", model="gpt-5.6-terra").headers == {}
    sent = Exchange(history, "anthropic", model=MODEL, headers=headers).request().headers
    values = sent["Anthropic-Beta"].split(",")
    assert values == (["mine-2026-01-01", beta] if beta else ["mine"])


def test_ant_53_arguments_and_schemas_need_no_header() -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"type": "file"}}
    result = {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": "x",
        "cache_control": MARK,
    }
    messages: list[Block] = [
        QUESTION,
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    history = history_from(messages, "anthropic", model=MODEL)
    tool: Block = {"name": "f", "inputSchema": {"type": "object", "properties": {"clear_at": {}}}}
    assert render(history, "anthropic", model=MODEL, tools=[tool]).headers == {}


def test_ant_06_blank_texts_between_steps_of_server_tools_go_back_as_they_came() -> None:
    blank = {"type": "text", "text": "\n\n"}
    steps = [called("web_search", query="rain"), found("web_search_tool_result", [])]
    messages: list[Block] = [
        QUESTION,
        {
            "role": "assistant",
            "content": [steps[0], steps[1], blank, {"type": "text", "text": "x"}],
        },
        NEXT,
    ]
    history = history_from(messages, "anthropic", model=MODEL)
    rendered = render(history, "anthropic", model=MODEL)
    assert rendered.body["messages"] == messages
    assert rendered.notes == ()
    assert validate("anthropic", rendered.body, model=MODEL) == []
    for provider in ("openai", "gemini", "openai-chat"):
        other = render(history, provider)
        assert validate(provider, other.body, model=other.model) == []
    alone = [
        QUESTION,
        {"role": "assistant", "content": [blank, {"type": "text", "text": "x"}]},
        NEXT,
    ]
    rendered = render(history_from(alone, "anthropic", model=MODEL), "anthropic", model=MODEL)
    assert rendered.body["messages"][1]["content"] == "x"


@pytest.mark.parametrize("provider", ["openai", "openai-chat", "gemini", "mistral", "anthropic"])
def test_sources_of_a_turn_of_ones_own_that_another_provider_cited_are_written(
    provider: str,
) -> None:
    citation = {"type": "url_citation", "title": "Weather", "url": "https://w.test"}
    origin = {"provider": "xai", "endpoint": "api.x.ai", "model": "grok-4.5"}
    extras = {"origin": origin, "fields": {"annotations": [citation]}}
    text = {"type": "text", "content": "Warm.", "extras": extras}
    history = [QUESTION, {"role": "assistant", "content": [text]}, NEXT]
    rendered = render(history, provider)
    assert "Weather (https://w.test)" in json.dumps(rendered.body)
    assert validate(provider, rendered.body, model=rendered.model) == []


# The container that code runs in (ANT-48).

CONTAINER: Block = {"id": "container_1", "expires_at": "2026-11-16T12:00:00Z"}
CODE_TOOLS: Block = {"server_tools": ["code_execution"]}
RAN = [*REPLIES["code_execution_tool_result"][0], {"type": "text", "text": "One."}]


def answer_in(container: Block | None, *, stream: bool, base_url: str | None = None) -> Turn:
    """Return an answer whose code ran in this container."""
    exchange = Exchange([QUESTION], "anthropic", model=MODEL, stream=stream, base_url=base_url)
    exchange.begin(200, {} if stream else {"content-type": "application/json"})
    whole = {"type": "message", "content": RAN, "stop_reason": "end_turn", "container": container}
    frames: list[Block] = [{"type": "message_start", "message": {}}]
    for index, block in enumerate(RAN):
        frames.append({"type": "content_block_start", "index": index, "content_block": block})
        frames.append({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": "end_turn", "container": container}
    frames += [{"type": "message_delta", "delta": ended}, {"type": "message_stop"}]
    written = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in frames)
    exchange.receive(written.encode() if stream else json.dumps(whole).encode())
    exchange.end()
    return exchange.turn


@pytest.mark.parametrize("stream", [True, False])
def test_code_runs_in_the_container_of_the_conversation(stream: bool) -> None:
    history = write_history([Turn("user", (Text("hi"),)), answer_in(CONTAINER, stream=stream)])
    history = read_history([*history, {"role": "user", "content": "and?"}])
    body = render(history, "anthropic", model=MODEL, options=CODE_TOOLS).body
    assert body["container"] == "container_1"
    assert validate("anthropic", body, model=MODEL) == []
    assert "container" not in render(history, "anthropic", model=MODEL).body  # no code can run
    chosen = CODE_TOOLS | {"extra": {"container": "container_9"}}
    assert (
        render(history, "anthropic", model=MODEL, options=chosen).body["container"] == "container_9"
    )


def test_a_container_goes_back_to_its_own_endpoint_and_to_no_other_provider() -> None:
    answer = answer_in(CONTAINER, stream=False, base_url="https://gateway.example/v1")
    history = [Turn("user", (Text("hi"),)), answer, Turn("user", (Text("and?"),))]
    assert "container" not in render(history, "anthropic", model=MODEL, options=CODE_TOOLS).body
    assert "container" not in render(history, "openai", options=CODE_TOOLS).body


def test_the_newest_container_is_sent_and_a_continued_request_knows_it() -> None:
    newer = CONTAINER | {"id": "container_2"}
    turns = [
        Turn("user", (Text("hi"),)),
        answer_in(CONTAINER, stream=True),
        Turn("user", (Text("and?"),)),
        answer_in(newer, stream=True),
        Turn("user", (Text("so?"),)),
        answer_in(None, stream=True),
        Turn("user", (Text("then?"),)),
    ]
    sent = None
    for end in (3, 5, 7):
        sent = render(turns[:end], "anthropic", model=MODEL, options=CODE_TOOLS, previous=sent)
        assert sent.body["container"] == ("container_1" if end == 3 else "container_2")
