"""The next request that a handler asks the application to send: it is legal and complete, and keeps the application's own content."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compat.applications import DIALECTS, HANDLERS, model_of
from tests.strategies.native import (
    anthropic_messages,
    chat_messages,
    gemini_contents,
    responses_items,
)

from multi_llm_chat.agent.limits import LoopLimits, ThinkingBudget
from multi_llm_chat.compat.handlers import (
    StreamContext,
    StreamHandler,
    StreamingRequest,
    StreamResult,
)
from multi_llm_chat.compat.handlers._payloads import payload_of
from multi_llm_chat.history.json_values import as_list
from multi_llm_chat.testing import validate
from multi_llm_chat.testing.simulator import Call, Say, encode_reply
from multi_llm_chat.tools import ToolRegistry

Body = dict[str, Any]

MESSAGES = {
    "openai-chat": ("messages", chat_messages()),
    "openai": ("input", responses_items()),
    "anthropic": ("messages", anthropic_messages()),
    "gemini": ("contents", gemini_contents()),
}
REST: dict[str, Body] = {
    "openai-chat": {"model": model_of("openai-chat"), "stream": True},
    "openai": {"model": model_of("openai"), "stream": True, "store": False},
    "anthropic": {"model": model_of("anthropic"), "stream": True, "max_tokens": 30_000},
    "gemini": {},
}

registry = ToolRegistry()


@registry.tool
def get_weather(city: str = "") -> str:
    """Tell the weather."""
    return f"sunny in {city}"


class Recorded:
    """An application whose provider answers from a script; it records every payload."""

    def __init__(self, provider: str, *says: Say) -> None:
        self.provider = provider
        self.sent: list[Body] = []
        self._says = list(says)

    def answer(self) -> bytes:
        say = self._says.pop(0)
        return encode_reply(self.provider, say, model=model_of(self.provider)).body

    def make_request(self, request: StreamingRequest) -> bytes:
        self.sent.append(request.payload)
        return self.answer()

    def follow(self, handler: StreamHandler, payload: Body, **settings: Any) -> StreamResult:
        context = StreamContext(self.make_request, model=model_of(self.provider), **settings)
        request = StreamingRequest("request", payload)
        return handler.process_stream(self.answer(), request, {}, context)


def weather(city: str, identifier: str | None = None) -> Call:
    return Call("get_weather", {"city": city}, identifier)


TWO_ROUNDS = (
    Say("Let me look.", calls=[weather("Rome"), weather("Oslo")]),
    Say(calls=[weather("Kyiv")]),
    Say("Sunny."),
)


def continuations(provider: str, messages: list[Body]) -> tuple[Body, list[Body]]:
    """Return the payload that was prepared with these messages, and the two continuations."""
    application = Recorded(provider, *TWO_ROUNDS)
    handler = HANDLERS[provider](tools=registry, provider=provider)
    payload = copy.deepcopy(REST[provider] | {MESSAGES[provider][0]: messages})
    handler.prepare_payload(payload)
    result = application.follow(handler, payload)
    assert result.error is None
    assert result.text == "Sunny."
    return payload, application.sent


def refused(provider: str, body: Body) -> list[Any]:
    return validate(provider, json.loads(json.dumps(body)), model=model_of(provider))


def legal(provider: str) -> st.SearchStrategy[list[Body]]:
    """Draw messages that the provider accepts and that do not end with a model's turn."""
    key, messages = MESSAGES[provider]

    def accepted(found: list[Body]) -> bool:
        body = REST[provider] | {key: found, "tools": _offered(provider)}
        return not validate(provider, body, model=model_of(provider)) and not _model_speaks_last(
            found
        )

    return messages.filter(accepted)


def _offered(provider: str) -> Any:
    return HANDLERS[provider](tools=registry, provider=provider).prepare_payload(
        copy.deepcopy(REST[provider]) | {MESSAGES[provider][0]: []}
    )["tools"]


def _model_speaks_last(messages: list[Body]) -> bool:
    last = messages[-1]
    return last.get("role") in ("assistant", "model") or last.get("type") in (
        "function_call",
        "reasoning",
    )


@pytest.mark.parametrize("provider", DIALECTS)
@given(data=st.data())
def test_the_applications_messages_stay_word_for_word(provider: str, data: st.DataObject):
    messages = data.draw(legal(provider))
    key = MESSAGES[provider][0]
    payload, sent = continuations(provider, messages)
    for body in sent:
        assert body[key][: len(messages)] == messages
        assert {name: value for name, value in body.items() if name != key} == {
            name: value for name, value in payload.items() if name != key
        }
        assert refused(provider, body) == []
    assert sent[1][key][: len(sent[0][key])] == sent[0][key]


@pytest.mark.parametrize("provider", DIALECTS)
@given(data=st.data())
def test_whatever_the_application_has_the_continuation_is_legal(provider: str, data: st.DataObject):
    messages = data.draw(MESSAGES[provider][1])
    broken = data.draw(_broken(provider, messages))
    before = copy.deepcopy(broken)
    _, sent = continuations(provider, broken)
    assert [refused(provider, body) for body in sent] == [[], []]
    assert broken == before


#: Messages that no careful client sends, in any dialect.
ODD: list[Body] = [
    {},
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": ""},
    {"role": "user", "content": "  "},
    {"role": "user", "parts": []},
    {"role": "model", "parts": [{"text": ""}]},
    {"role": "assistant", "content": None},
    {"role": "assistant", "content": []},
    {"role": "tool", "content": "nobody asked", "tool_call_id": "call_9"},
    {"role": "tool", "content": [{"type": "text", "text": "no id"}]},
    {"role": "bystander", "content": "Me too."},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "unsigned"}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "late"}]},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "x y", "name": "a b", "input": 7}],
    },
    {"role": "assistant", "tool_calls": [{"id": "", "function": {"name": "", "arguments": "["}}]},
    {"type": "function_call", "name": "search", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "none", "output": "late"},
    {"type": "reasoning", "summary": []},
    {"role": "model", "parts": [{"functionCall": {"name": "search"}}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "other", "response": {"a": 1}}}]},
]


def _broken(provider: str, messages: list[Body]) -> st.SearchStrategy[list[Body]]:
    """Draw some of the messages and some odd ones, in any order, some more than once.

    Claude's blocks are used with Claude only: other handlers keep unknown blocks, which may be native to their provider.
    """
    odd = [one for one in ODD if provider == "anthropic" or not _has_blocks(one)]
    return st.lists(st.sampled_from([*messages, *odd]), max_size=len(messages) + 3)


def _has_blocks(message: Body) -> bool:
    return any(block["type"] != "text" for block in as_list(message.get("content")) or [])


@pytest.mark.parametrize("provider", DIALECTS)
@pytest.mark.parametrize("messages", [None, 7, [7], {"role": "user"}, [{"content": {"a": 1}}]])
def test_messages_that_are_none_do_not_stop_a_run(provider: str, messages: Any):
    _, sent = continuations(provider, messages)
    assert [refused(provider, body) for body in sent] == [[], []]


@pytest.mark.parametrize("provider", DIALECTS)
def test_a_history_that_begins_with_the_model_is_repaired(provider: str):
    own: list[Body] = [
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Weather?"},
    ]
    if provider == "gemini":
        own = [
            {"role": "model", "parts": [{"text": "Hello."}]},
            {"role": "user", "parts": [{"text": "Weather?"}]},
        ]
    _, sent = continuations(provider, own)
    assert [refused(provider, body) for body in sent] == [[], []]
    assert "Hello." in json.dumps(sent[1])


def test_thinking_in_a_users_message_is_repaired():
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    own: list[Body] = [{"role": "user", "content": [thought, {"type": "text", "text": "Weather?"}]}]
    _, sent = continuations("anthropic", own)
    assert [refused("anthropic", body) for body in sent] == [[], []]


def test_a_compatible_server_has_its_own_rules():
    """Mistral accepts only ids of nine letters and digits."""
    application = Recorded("mistral", Say(calls=[weather("Rome", "abcdefghi")]), Say("Sunny."))
    handler = HANDLERS["openai-chat"](tools=registry, provider="mistral")
    payload: Body = {
        "model": model_of("mistral"),
        "messages": [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "tool_calls": [
                {"id": "an-id-of-another-server", "type": "function",
                 "function": {"name": "get_weather", "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": "an-id-of-another-server", "content": "rain"},
            {"role": "assistant", "content": "Rain."},
            {"role": "user", "content": "And in Rome?"},
        ],
    }  # fmt: skip
    handler.prepare_payload(payload)
    assert refused("mistral", payload)
    assert application.follow(handler, payload).text == "Sunny."
    assert refused("mistral", application.sent[0]) == []


def test_what_only_the_provider_understands_is_kept():
    own = [
        {"role": "user", "content": [
            {"type": "text", "text": "A long text.", "cache_control": {"type": "ephemeral"}},
        ]},
    ]  # fmt: skip
    _, sent = continuations("anthropic", own)
    assert sent[1]["messages"][0] == own[0]
    searched: list[Body] = [
        {"role": "user", "content": "Search."},
        {"role": "assistant", "content": [
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
            {"type": "text", "text": "Nothing."},
        ]},
        {"role": "user", "content": "And the weather?"},
    ]  # fmt: skip
    _, sent = continuations("anthropic", searched)
    assert sent[1]["messages"][:3] == searched


@pytest.mark.parametrize("provider", DIALECTS)
def test_own_tools_stay_beside_those_of_the_registry(provider: str):
    function: Body = {"name": "own", "description": "Mine.", "parameters": {"type": "object", "properties": {}}}  # fmt: skip
    own: dict[str, Any] = {
        "openai-chat": {"type": "function", "function": function},
        "openai": {"type": "function", **function, "strict": False},
        "anthropic": {"name": "own", "input_schema": {"type": "object"}},
        "gemini": {"functionDeclarations": [function]},
    }
    handler = HANDLERS[provider](tools=registry, provider=provider)
    prepared = handler.prepare_payload({**REST[provider], "tools": [own[provider]]})["tools"]
    if provider == "gemini":
        (prepared,) = [entry["functionDeclarations"] for entry in prepared]
        own[provider] = function
    assert prepared[0] == own[provider]
    assert len(prepared) == 2


@pytest.mark.parametrize("provider", DIALECTS)
def test_the_last_word_is_asked_for_without_tools(provider: str):
    limits = LoopLimits(iterations=1)
    handler = HANDLERS[provider](tools=registry, provider=provider, limits=limits)
    payload = handler.prepare_payload(_asking(provider))
    application = Recorded(provider, Say(calls=[weather("Rome")]), Say("Sunny."))
    result = application.follow(handler, payload)
    assert (result.text, result.stop_reason) == ("Sunny.", "iterations")
    (last,) = application.sent
    assert "Tell the weather." not in json.dumps(last)
    assert refused(provider, last) == []
    assert "tools" in payload


def _asking(provider: str, text: str = "Weather?") -> Body:
    key = MESSAGES[provider][0]
    if provider == "gemini":
        return {key: [{"role": "user", "parts": [{"text": text}]}]}
    return copy.deepcopy(REST[provider]) | {key: [{"role": "user", "content": text}]}


def test_claudes_thinking_goes_back_with_its_signature():
    payload = _asking("anthropic") | {
        "model": "claude-sonnet-4-5",
        "thinking": {"type": "enabled", "budget_tokens": 5000},
    }
    handler = HANDLERS["anthropic"](tools=registry)
    handler.prepare_payload(payload)
    looks = Say(thinking="Rome, then.", signature="c2lnbmVk", calls=[weather("Rome")])
    application = Recorded("anthropic", looks, Say("Sunny."))
    application.follow(handler, payload)
    (sent,) = application.sent
    thought = sent["messages"][1]["content"][0]
    assert thought == {"type": "thinking", "thinking": "Rome, then.", "signature": "c2lnbmVk"}
    assert sent["thinking"] == payload["thinking"]
    assert validate("anthropic", sent) == []


THOUGHTS: dict[str, Callable[[Body], object]] = {
    "openai": lambda body: body.get("reasoning"),
    "anthropic": lambda body: body.get("thinking"),
    "gemini": lambda body: body["generationConfig"]["thinkingConfig"],
}


@pytest.mark.parametrize("provider", THOUGHTS)
def test_the_thinking_budget_holds_over_the_calls_of_a_run(provider: str):
    settings: dict[str, Body] = {
        "openai": {"reasoning": {"effort": "high", "summary": "auto"}},
        "anthropic": {
            "model": "claude-sonnet-4-5",
            "thinking": {"type": "enabled", "budget_tokens": 5000},
        },
        "gemini": {"generationConfig": {"thinkingConfig": {"thinkingLevel": "high"}}},
    }
    limits = LoopLimits(thinking=ThinkingBudget(calls=1))
    handler = HANDLERS[provider](tools=registry, provider=provider, limits=limits)
    assert handler.supports_thinking()
    payload = handler.prepare_payload(_asking(provider) | settings[provider])
    looks = Say(thinking="Rome, then.", calls=[weather("Rome")])
    application = Recorded(provider, looks, Say("Sunny."))
    assert application.follow(handler, payload).text == "Sunny."
    (sent,) = application.sent
    assert THOUGHTS[provider](sent) != THOUGHTS[provider](payload)
    model = sent.get("model") or model_of(provider)
    assert validate(provider, sent, model=model) == []


def test_a_system_message_among_claudes_messages_joins_the_system_text():
    handler = HANDLERS["anthropic"](tools=registry)
    payload = _asking("anthropic") | {"system": [{"type": "text", "text": "Be brief."}]}
    payload["messages"].insert(0, {"role": "system", "content": "Be kind."})
    handler.prepare_payload(payload)
    application = Recorded("anthropic", Say(calls=[weather("Rome")]), Say("Sunny."))
    application.follow(handler, payload)
    (sent,) = application.sent
    assert validate("anthropic", sent) == []
    assert "Be brief." in json.dumps(sent["system"])
    assert "Be kind." in json.dumps(sent)


@pytest.mark.parametrize(
    ("provider", "setting", "meant"),
    [
        ("openai-chat", {"reasoning_effort": "none"}, False),
        ("openai-chat", {"reasoning_effort": "low"}, "low"),
        ("openai", {"reasoning": {"effort": "none"}}, False),
        ("openai", {"reasoning": {"summary": "auto"}}, True),
        ("anthropic", {"thinking": {"type": "disabled"}}, False),
        ("anthropic", {"thinking": {"type": "adaptive"}}, True),
        ("anthropic", {"thinking": {"type": "enabled", "budget_tokens": 2000}}, 2000),
        ("gemini", {"generationConfig": {"thinkingConfig": {"thinkingBudget": -1}}}, True),
        ("gemini", {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}}, False),
        ("gemini", {"generationConfig": {"thinkingConfig": {"thinkingLevel": "LOW"}}}, "low"),
        ("gemini", {"generationConfig": {"thinkingConfig": {}}}, True),
        ("gemini", {}, None),
    ],
)
def test_what_a_payload_says_about_thinking(provider: str, setting: Body, meant: object):
    assert payload_of(setting, provider).thinking == meant


@pytest.mark.parametrize("provider", DIALECTS)
def test_thinking_that_is_off_stays_off(provider: str):
    off: dict[str, Body] = {
        "openai-chat": {"model": "o3", "reasoning_effort": "low"},
        "openai": {"reasoning": {"effort": "none"}},
        "anthropic": {"thinking": {"type": "disabled"}},
        "gemini": {"generationConfig": {"thinkingConfig": {"thinkingLevel": "low"}}},
    }
    handler = HANDLERS[provider](tools=registry, provider=provider)
    payload = handler.prepare_payload(_asking(provider) | off[provider])
    application = Recorded(provider, Say(calls=[weather("Rome")]), Say("Sunny."))
    application.follow(handler, payload)
    (sent,) = application.sent
    assert {key: sent[key] for key in off[provider]} == off[provider]
