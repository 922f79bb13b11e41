"""What each stronger repair changes in the next request."""

from typing import Any

import msgspec
import pytest

from multi_llm_chat.errors import BadRequest, StreamBroken
from multi_llm_chat.events import ToolCallEnd, ToolCallStart
from multi_llm_chat.history.values import Text, ToolCall, Turn
from multi_llm_chat.protocol._rejections import REPAIRS
from multi_llm_chat.protocol._repair_ladder import stronger
from multi_llm_chat.protocol.attempts import Attempts
from multi_llm_chat.protocol.rendered_request import render
from multi_llm_chat.protocol.request_settings import read_request
from multi_llm_chat.request import ModelRequest, Options

TOOL = {
    "name": "lookup.city",
    "description": "Finds a city",
    "inputSchema": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "pattern": "^[A-Z]", "description": "Its name"},
            "near": {"type": "array", "items": {"$ref": "#/$defs/place"}},
        },
        "required": ["city"],
        "$defs": {"place": {"type": "object", "properties": {"x": {"type": "number"}}}},
    },
}
IMAGE = {"type": "media", "mime": "image/png", "data": "iVBORw0KGgo=", "name": "map.png"}
HISTORY: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "content": "Where is it?"}, IMAGE]},
    {
        "role": "claude",
        "content": [
            {
                "type": "thinking",
                "content": "Let me look.",
                "origin": {
                    "provider": "anthropic",
                    "endpoint": "api.anthropic.com",
                    "model": "claude-sonnet-5",
                },
                "opaque": {"signature": "sig"},
            },
            {
                "type": "tool_call",
                "content": {
                    "name": "lookup.city",
                    "arguments": {"city": "Roma"},
                    "tool_call_id": "toolu_0123456789",
                },
            },
        ],
    },
    {
        "role": "tool",
        "content": [
            {
                "type": "tool_result",
                "name": "lookup.city",
                "content": "41.9 N",
                "tool_call_id": "toolu_0123456789",
            }
        ],
    },
    {"role": "gemini", "content": "I would say Italy."},
    {"role": "user", "content": "And Paris?"},
]


def request(provider: str = "anthropic", **settings: Any) -> ModelRequest:
    return read_request(HISTORY, provider, tools=(TOOL,), **settings)


def body_after(key: str, provider: str = "anthropic", **settings: Any) -> dict[str, Any]:
    changed, _ = stronger(request(provider, **settings), key)
    return render(changed).body


def test_every_repair_of_the_catalogue_is_known_and_gives_a_request() -> None:
    for key in REPAIRS:
        for provider in ("anthropic", "openai", "openai-chat", "gemini", "mistral"):
            assert body_after(key, provider)


@pytest.mark.parametrize("key", sorted(set(REPAIRS) - {"newest_turns"}))  # which leaves out turns
def test_no_repair_loses_a_word(key: str) -> None:
    body = str(body_after(key, "openai-chat"))
    words = ["Be brief.", "Where is it?", "Roma", "41.9 N", "I would say Italy.", "And Paris?"]
    assert [word for word in words if word not in body] == []


def test_an_unknown_repair_and_resending_change_nothing() -> None:
    asked = request()
    assert stronger(asked, "resend") == (asked, {})
    assert stronger(asked, "no such repair") == (asked, {})


def test_drop_thinking_sends_no_thinking() -> None:
    assert "sig" in str(render(request()).body)
    assert "sig" not in str(body_after("drop_thinking"))


def test_disable_thinking_turns_it_off_too() -> None:
    body = body_after("disable_thinking", options=Options(thinking=8000))
    assert "sig" not in str(body)
    assert body.get("thinking", {"type": "disabled"}) == {"type": "disabled"}


def test_reasoning_none_is_said_in_the_words_of_each_dialect() -> None:
    assert body_after("reasoning_none", "openai-chat")["reasoning_effort"] == "none"
    assert body_after("reasoning_none", "openai")["reasoning"] == {"effort": "none"}


def test_flatten_tools_tells_exchanges_as_text_and_still_offers_tools() -> None:
    body = body_after("flatten_tools", "openai-chat")
    assert all("tool_calls" not in message for message in body["messages"])
    assert all(message["role"] != "tool" for message in body["messages"])
    assert '[used lookup.city {"city":"Roma"}]' in str(
        body_after("flatten_tools", "openai-chat", speaker="claude")
    )
    assert len(body["tools"]) == 1


def test_drop_tools_offers_none() -> None:
    body = body_after("drop_tools", "openai-chat", options=Options(tool_choice="required"))
    assert "tools" not in body
    assert "tool_choice" not in body


def test_shorten_ids_gives_every_call_an_id_that_all_accept() -> None:
    body = body_after("shorten_ids")
    uses = [
        block["id"]
        for message in body["messages"]
        for block in message["content"]
        if block["type"] == "tool_use"
    ]
    results = [
        block["tool_use_id"]
        for message in body["messages"]
        for block in message["content"]
        if block["type"] == "tool_result"
    ]
    assert uses == results
    assert all(len(identifier) == 9 and identifier.isalnum() for identifier in uses)


def test_rename_tools_gives_plain_names_and_finds_the_way_back() -> None:
    asked, names = stronger(request(options=Options(tool_choice="lookup.city")), "rename_tools")
    body = render(asked).body
    assert [tool["name"] for tool in body["tools"]] == ["tool_1"]
    assert "lookup.city" not in str(body["messages"])
    assert asked.options.tool_choice == "tool_1"
    assert names == {"tool_1": "lookup.city"}


def test_after_a_renaming_events_and_failures_have_the_callers_tool_names() -> None:
    attempts = Attempts(request())
    attempts.next()
    rejected = BadRequest("tools.0.name: bad name", repair="rename_tools")
    assert attempts.failed(rejected, jitter=0.0) == 0.0
    attempts.next()
    call = ToolCall("tool_1", {"city": "Roma"}, "id")
    original = ToolCall("lookup.city", {"city": "Roma"}, "id")
    start, end = attempts.read([ToolCallStart(0, "id", "tool_1"), ToolCallEnd(0, call)])
    assert (start, end) == (ToolCallStart(0, "id", "lookup.city"), ToolCallEnd(0, original))
    broken = StreamBroken("cut", partial=Turn("claude", (Text("So:"), call)))
    with pytest.raises(StreamBroken) as raised:
        attempts.failed(broken, jitter=0.0)
    assert raised.value.partial.parts == (Text("So:"), original)


def test_plain_schemas_keep_types_properties_and_descriptions() -> None:
    [tool] = body_after("plain_schemas", "openai-chat")["tools"]
    assert tool["function"]["parameters"] == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Its name"},
            "near": {"type": "array", "items": {"type": "string"}},
        },
    }


def test_alternate_leaves_no_two_neighbours_of_one_side() -> None:
    body = body_after("alternate", "openai-chat", speaker="claude")
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]


def test_drop_options_keeps_the_schema_only() -> None:
    options = Options(max_tokens=5, temperature=0.5, stop=("x",), schema={"type": "object"})
    body = body_after("drop_options", "openai-chat", options=options)
    assert "response_format" in body
    assert {"max_tokens", "max_completion_tokens", "temperature", "stop"}.isdisjoint(body)


@pytest.mark.parametrize(
    ("message", "left"),
    [
        ("Unknown parameter: 'top_k'.", ("min_p", "temperature")),
        ("Unrecognized request argument supplied: min_p", ("top_k", "temperature")),
        ("Unsupported value: 'temperature' does not support 0.5 with this model.", ("min_p", "top_k")),
        ("property 'min_p' is unsupported, did you mean 'top_p'?", ("top_k", "temperature")),
        ("Unknown parameter: 'something_else'.", ()),
    ],
)  # fmt: skip
def test_a_refused_option_does_not_drop_the_others(message: str, left: tuple[str, ...]) -> None:
    options = Options(temperature=0.5, extra={"top_k": 5, "min_p": 0.1})
    attempts = Attempts(request("openai-chat", options=options))
    attempts.next()
    assert attempts.failed(BadRequest(message, repair="drop_options"), jitter=0.0) == 0.0
    body = render(attempts.request).body
    assert {"top_k", "min_p", "temperature"} & set(body) == set(left)


def test_refused_options_are_dropped_one_by_one_and_remembered() -> None:
    options = Options(temperature=0.5, extra={"top_k": 5, "min_p": 0.1, "typical_p": 0.2})
    asked = request("openai-chat", options=options)
    attempts = Attempts(asked)
    attempts.next()
    for name in ("top_k", "min_p"):
        failure = BadRequest(f"Unknown parameter: '{name}'.", repair="drop_options")
        attempts.failed(failure, jitter=0.0)
        attempts.next()
    assert attempts.request.options.extra == {"typical_p": 0.2}
    answer = Turn("assistant", (Text("Yes."),), meta=attempts.turn.meta)
    later = Attempts(msgspec.structs.replace(asked, turns=(*asked.turns, answer)))
    assert later.request.options == Options(temperature=0.5, extra={"typical_p": 0.2})


def test_drop_media_says_what_is_missing() -> None:
    body = str(body_after("drop_media"))
    assert "iVBORw0KGgo=" not in body
    assert "[attachment: map.png, image/png]" in body
