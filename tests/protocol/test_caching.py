"""Cache marks: they cover what a later request can reuse (ANT-44)."""

from typing import Any

import pytest

from multi_llm_chat import Rendered, render
from multi_llm_chat.history.values import Text, ToolCall, ToolResult, Turn
from multi_llm_chat.testing.validators import validate

LONG = "word " * 3000
TOOLS = [{"name": "look", "description": "looks", "inputSchema": {"type": "object"}}]
CHAT = [{"role": "user", "content": "hi"}, {"role": "claude", "content": "hello"}]


def marks(value: Any) -> list[Any]:
    """Return all cache marks of a request, in the order in which Anthropic reads them."""
    found: list[Any] = []
    if isinstance(value, dict):
        for key, each in value.items():  # type: ignore[reportUnknownVariableType]
            found += [each] if key == "cache_control" else marks(each)
    if isinstance(value, list):
        for each in value:  # type: ignore[reportUnknownVariableType]
            found += marks(each)
    return found


def anthropic(history: list[Any], **settings: Any) -> Rendered:
    rendered = render(history, "anthropic", model="claude-sonnet-5", **settings)
    assert validate("anthropic", rendered.body, model=rendered.model) == []
    return rendered


def test_a_question_that_is_asked_once_is_not_marked():
    assert marks(anthropic(CHAT[:1], system_prompt=LONG).body) == []
    assert marks(anthropic(CHAT[:1], system_prompt=LONG, conversation="chat").body) == []
    assert marks(anthropic([*CHAT, *CHAT[:1]], system_prompt=LONG).body) == []


def test_a_conversation_is_marked_from_its_second_request_on_and_a_loop_from_its_first():
    later = anthropic([*CHAT, *CHAT[:1]], system_prompt=LONG, conversation="chat").body
    assert len(marks(later["messages"][-1])) == len(marks(later["system"])) == 1
    loop = anthropic(CHAT[:1], tools=TOOLS, conversation="").body
    assert len(marks(loop["messages"][-1])) == len(marks(loop["tools"])) == 1


def test_true_and_false_decide_for_every_request():
    assert len(marks(anthropic(CHAT[:1], system_prompt="x", options={"cache": True}).body)) == 2
    refused = anthropic(
        [*CHAT, *CHAT[:1]], conversation="chat", tools=TOOLS, options={"cache": False}
    )
    assert marks(refused.body) == []


def test_ant_44_marks_of_ours_are_no_part_of_what_was_sent():
    turns: list[Turn] = [Turn("user", (Text("question"),))]
    sent = anthropic(turns, tools=TOOLS, conversation="chat", system_prompt="Be kind.")
    for number in range(5):
        turns += [Turn("claude", (Text(f"answer {number}"),)), Turn("user", (Text("more"),))]
        sent = anthropic(
            turns, tools=TOOLS, conversation="chat", system_prompt="Be kind.", previous=sent
        )
        assert len(marks(sent.body)) == 3
        assert len(marks(sent.body["messages"])) == 1


def test_ant_44_many_new_blocks_have_a_mark_near_to_what_was_cached():
    """Anthropic compares at most twenty blocks before a mark with its cache."""
    calls = tuple(ToolCall("look", {"at": at}, f"call_{at}") for at in range(30))
    results = tuple(ToolResult("look", "seen", call.tool_call_id) for call in calls)
    turns = [Turn("user", (Text("look"),))]
    first = anthropic(turns, tools=TOOLS, conversation="chat")
    turns += [Turn("claude", calls), Turn("tool", results)]
    for previous in (None, first):
        body = anthropic(turns, tools=TOOLS, conversation="chat", previous=previous).body
        blocks = [block for message in body["messages"][1:] for block in message["content"]]
        places = [at for at, block in enumerate(blocks) if "cache_control" in block]
        assert places == [18, 59]


@pytest.mark.parametrize(("minutes", "ttl"), [(1, None), (20, "1h"), (90, None)])
def test_the_mark_lasts_as_long_as_the_pauses_of_the_user(minutes: int, ttl: str | None):
    turns = [
        Turn("user", (Text("hi"),), created_at=0),
        Turn("claude", (Text("hello"),), created_at=5_000),
        Turn("user", (Text("more"),), created_at=minutes * 60_000),
    ]
    found = marks(anthropic(turns, conversation="chat", system_prompt="x", tools=TOOLS).body)
    assert {mark.get("ttl") for mark in found} == {ttl}


@pytest.mark.parametrize("provider", ["openai", "openai-chat", "mistral"])
def test_the_requests_of_a_conversation_share_a_key(provider: str):
    def key(conversation: str | None, **settings: Any) -> Any:
        body = render([*CHAT, *CHAT[:1]], provider, conversation=conversation, **settings).body
        return body.get("prompt_cache_key")

    assert key("one") == key("one") != key("two")
    assert "one" not in key("one")
    assert key(None) is key("") is None
    assert key("one", base_url="https://gateway.test/v1") is None
    assert key("one", options={"cache": False}) is None
