"""A note has the id of the target's own rule, even if we know the rule from another provider's error message."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.test_never_a_400 import POLICIES, REQUESTS, TARGETS
from tests.strategies.histories import nasty_histories

from multi_llm_chat import Rendered, RepairPolicy, render
from multi_llm_chat.protocol._rule_ids import FAMILIES, own_rule
from multi_llm_chat.protocol.providers import EMBEDDED, ROWS

HI = {"role": "user", "content": "hi"}


def call(identifier: str, name: str = "f", arguments: Any = None) -> dict[str, Any]:
    content: dict[str, Any] = {
        "name": name,
        "arguments": arguments or {},
        "tool_call_id": identifier,
    }
    return {"type": "tool_call", "content": content}


def result(identifier: str, content: Any = "ok", name: str = "f") -> dict[str, Any]:
    return {"type": "tool_result", "name": name, "content": content, "tool_call_id": identifier}


def says(role: str, *parts: Any) -> dict[str, Any]:
    return {"role": role, "content": list(parts)}


THINKING = {
    "type": "thinking",
    "content": "hm",
    "origin": {"provider": "elsewhere", "model": "m"},
    "opaque": {"signature": "s"},
}
DAMAGED: dict[str, list[Any]] = {
    "empty": [],
    "another speaker": [HI, says("my-bot", "hello"), HI],
    "only the model": [says("assistant", "hello")],
    "a system turn late": [HI, says("assistant", "a"), says("system", "be brief"), HI],
    "no turn": [HI, None, 3],
    "nothing said": [HI, says("assistant"), says("user", " "), HI],
    "broken text": [says("user", "a\ud800\x00")],
    "foreign thinking": [HI, says("assistant", THINKING, "so"), HI],
    "thinking of the user": [says("user", THINKING, "hi")],
    "thinking twice": [HI, says("assistant", "a"), says("assistant", THINKING, "b"), HI],
    "unanswered": [HI, says("assistant", call("a")), HI],
    "orphan": [HI, says("tool", result("a")), HI],
    "late": [HI, says("assistant", call("a")), HI, says("tool", result("a"))],
    "out of order": [HI, says("assistant", call("a"), call("b")), says("tool", result("b"), result("a"))],
    "two results": [HI, says("assistant", call("a")), says("tool", result("a"), result("a", "2"))],
    "words among results": [HI, says("assistant", call("a")), says("tool", "so:", result("a")), HI],
    "then the user": [HI, says("assistant", call("a")), says("tool", result("a")), HI],
    "no output": [HI, says("assistant", call("a")), says("tool", result("a", None))],
    "unclean arguments": [HI, says("assistant", call("a", "f", {"n": float("nan")}))],
    "bad arguments": [HI, says("assistant", call("a", "f", "{oops"))],
    "bad id and name": [HI, says("assistant", call("x y" * 30, "a b!")), says("tool", result("x y" * 30, 1, "a b!"))],
    "many calls": [HI, says("assistant", *[call(f"c{n}") for n in range(130)])],
    "a call of the user": [says("user", call("a"), "hi")],
    "media": [says("user", {"type": "media", "mime": "x/y", "data": "AAAA"}, "hi")],
    "media in a result": [
        HI,
        says("assistant", call("a")),
        says("tool", result("a", [{"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}])),
    ],
}  # fmt: skip
ASKED: dict[str, Any] = {
    "tools": [
        {"name": "f", "inputSchema": {"anyOf": [{"type": "object"}], "$id": "x"}},
        {"name": "f"},
        {"name": "a b!", "inputSchema": {"properties": {"a b": {"type": "array", "pattern": "x"}}}},
        {"name": ""},
        *[{"name": f"t{number}"} for number in range(200)],
    ],
    "options": {
        "tool_choice": "never",
        "temperature": 2.0,
        "stop": ("a", "b", "c", "d", "e", "f", " "),
        "thinking": "high",
        "schema": {"type": "object"},
        "max_tokens": 1,
    },
}


def strangers(rendered: Rendered) -> list[tuple[str, str]]:
    """Return the notes whose rule is not one of the target's."""
    families = {*FAMILIES[rendered.provider]}
    if "istral" in rendered.model:
        families.add("MIS")  # a model keeps its chat template on every server
    return [
        (note.rule, note.message)
        for note in rendered.notes
        if note.rule.partition("-")[0] not in families
    ]


@pytest.mark.parametrize("history", DAMAGED.values(), ids=DAMAGED.keys())
def test_every_note_names_a_rule_of_the_target(history: list[Any]) -> None:
    for provider, model in [*TARGETS, ("openrouter", "mistralai/mistral-large")]:
        for asked in ({}, ASKED):
            rendered = render(history, provider, model=model, **asked)
            assert strangers(rendered) == [], (provider, model)


@given(history=nasty_histories, settings=REQUESTS, policy=st.none() | POLICIES)
def test_that_is_so_for_any_history(
    history: list[Any], settings: dict[str, Any], policy: RepairPolicy | None
) -> None:
    for provider, model in TARGETS:
        rendered = render(history, provider, model=model, policy=policy, **settings)
        assert strangers(rendered) == [], (provider, model)


def test_every_row_has_its_families() -> None:
    assert FAMILIES.keys() == {*ROWS, EMBEDDED.name}


def test_a_rule_of_the_target_stays_and_an_unknown_one_too() -> None:
    assert own_rule("anthropic", "ANT-21") == "ANT-21"
    assert own_rule("anthropic", "OAI-18") == "ANT-21"
    assert own_rule("groq", "OAI-18") == "OAI-18"
    assert own_rule("acme", "OAI-18") == "OAI-18"
    assert own_rule("openai", "") == ""
    assert own_rule("openai", "STR-09") == "STR-09"
