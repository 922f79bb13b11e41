"""Requests that continue earlier ones, with Claude's own blocks: calls of server tools, and cache marks of the client."""

from typing import Any

import pytest
from tests.protocol.test_append_only import answers, cuts, says, tool, written

from multi_llm_chat.history.values import Extras, Native, Origin, Text, ToolCall, Turn

ORIGIN = Origin("anthropic", "api.anthropic.com", "")
CALL: dict[str, Any] = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {},
}
RESULT: dict[str, Any] = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [],
}
SEARCH = Native("server_tool_use", "searched", ORIGIN, CALL)
FOUND = Native("web_search_tool_result", "found", ORIGIN, RESULT)


def marked(text: str) -> Text:
    return Text(text, Extras(ORIGIN, {"cache_control": {"type": "ephemeral"}}))


def searches(identifier: str) -> list[Turn]:
    """Return turns in which Claude searches and calls a tool, and the tool's result arrives first."""
    call = ToolCall("look", {"at": identifier}, identifier)
    return [Turn("claude", (SEARCH, call)), answers("look", identifier, "seen")]


@pytest.mark.parametrize("is_answered", [True, False])
@pytest.mark.parametrize("speaks", [True, False])
def test_ant_24_a_server_tools_call_waits_for_the_next_answer(is_answered: bool, speaks: bool):
    turns = [says("user", "one"), *searches("c1")]
    turns += [says("user", "two")] if speaks else []
    first = written(turns, "anthropic", tools=[tool("look")])
    turns += [Turn("claude", (*((FOUND,) if is_answered else ()), Text("three")))]
    turns += [says("user", "four")]
    second = written(turns, "anthropic", tools=[tool("look")], previous=first)
    continues = is_answered and not speaks
    assert (cuts(second) == []) == continues
    assert ("srvtoolu_1" in str(second.body["messages"])) == continues


def test_ant_24_a_server_tools_call_under_an_id_that_was_sent_is_text():
    turns = [says("user", "one"), *searches("c1")]
    first = written(turns, "anthropic", tools=[tool("look")])
    turns += searches("c2")
    second = written(turns, "anthropic", tools=[tool("look")], previous=first)
    assert str(second.body["messages"]).count("srvtoolu_1") <= 1


def test_a_change_is_noted_also_where_the_client_sets_cache_marks():
    model = "claude-opus-4-8"
    turns = [Turn("user", (marked("one"),)), says("claude", "two"), says("user", "three")]
    turns.append(says("system", "Be brief."))  # a system message as long as no user turn follows
    first = written(turns, "anthropic", model=model)
    second = written([*turns, says("user", "four")], "anthropic", model=model, previous=first)
    reasons = [each.split(": ")[1] for each in cuts(second)]
    assert reasons == ["a message that was sent would change"]


def test_ant_44_the_cache_mark_of_a_blank_text_is_left_out():
    answer = Turn("claude", (SEARCH, FOUND, marked(" ")))
    request = written([says("user", "one"), answer, says("user", "two")], "anthropic")
    assert "cache_control" not in str(request.body["messages"])
    assert [note.rule for note in request.notes] == ["ANT-44"]
