"""Anthropic Messages (ANT)."""

import json
from typing import Any

from tests.rules.case import (
    ABSENT,
    HI,
    NO_RESULT,
    PICTURE,
    PNG_DATA,
    RuleCase,
    gave,
    offer,
    says,
    speaks,
    tells,
    thinks,
    wants,
    words,
)
from tests.testing.cases import (
    USER,
    Body,
    assistant,
    claude,
    claude_tool,
    text,
    tool,
    use,
    used,
    user,
)

_P = "anthropic"
_NEW, _OLD, _OLDEST = "claude-sonnet-5", "claude-haiku-4-5", "claude-opus-4-1"
_BOUND = "claude-opus-5-5"
_ON = {"type": "enabled", "budget_tokens": 8192}
_TOOLS = [claude_tool()]
_OFFER = [offer()]
_STUBS: list[Any] = [{"name": "f", "input_schema": {"type": "object", "properties": {}}}]
_IMAGE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": PNG_DATA},
}
_BLOCK = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
_SEARCH: dict[str, Any] = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {"query": "rain"},
}
_FOUND: dict[str, Any] = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", "title": "Rain", "url": "https://w.test"}],
}


def _thought(model: str = _OLD, **opaque: Any) -> dict[str, Any]:
    return thinks("hm", "anthropic", model, **(opaque or {"signature": "c2ln"}))


def _tool_body(schema: Any) -> dict[str, Any]:
    return claude(USER, tools=[claude_tool(schema=schema)])


_COMPACTED: Body = {"type": "compaction", "content": "They said hi."}


def _compacted() -> Body:
    origin = {"provider": "anthropic", "model": _OLD}
    return {
        "type": "native",
        "kind": "compaction",
        "text": "They said hi.",
        "origin": origin,
        "raw": _COMPACTED,
    }


def _asked(*blocks: Any) -> dict[str, Any]:
    return assistant(list(blocks or [use("call_1")]))


def _answered(*blocks: Any) -> dict[str, Any]:
    return user(list(blocks or [used("call_1")]))


_MANY: Body = {"type": "object", "properties": {f"p{n}": {"type": ["string", "null"]} for n in range(16)}, "required": [f"p{n}" for n in range(16)], "additionalProperties": False}  # fmt: skip
_NODE: Body = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["next"], "additionalProperties": False}  # fmt: skip
_LINKED: Body = _NODE | {"$defs": {"Node": _NODE}}
_PLAIN: Body = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}  # fmt: skip


def _asked_for(schema: Body) -> str:
    shown = json.dumps(schema, separators=(",", ":"))
    return f"[Answer with one JSON value that fits this schema, and nothing else: {shown}]"


CASES = [
    RuleCase("ANT-01", "orphan-becomes-text", _P, [HI, tells(gave())],
        {"messages": [user([text(), text("[result of f, called earlier: ok]")])]},
        claude(USER, _answered(), tools=_TOOLS), ("ANT-01",), tools=_OFFER),
    RuleCase("ANT-01", "late-result-goes-to-the-next-message", _P, [HI, speaks(wants()), says("well?"), says("x", "claude"), tells(gave())],
        {"messages": [USER, _asked(), _answered(used("call_1"), text("well?")), assistant("x"), user("Continue.")]},
        claude(USER, _asked(), user("well?"), assistant("x"), _answered(), tools=_TOOLS), ("ANT-01", "ANT-01", "ANT-08"), tools=_OFFER, breaks="ANT-02"),
    RuleCase("ANT-02", "unanswered-call-gets-an-error", _P, [HI, speaks(wants("a"), wants("b")), tells(gave("b")), says("well?")],
        {"messages": [USER, _asked(use("a"), use("b")), user([used("a", NO_RESULT, is_error=True), used("b"), text("well?")])]},
        claude(USER, _asked(use("a"), use("b")), user([used("b"), text("well?")]), tools=_TOOLS), ("ANT-02",), tools=_OFFER),
    RuleCase("ANT-03", "results-open-the-message", _P, [HI, speaks(wants()), speaks(words("and"), gave(), PICTURE, role="user")],
        {"messages": [USER, _asked(), user([used("call_1"), text("and"), _IMAGE])]},
        claude(USER, _asked(), user([text("and"), used("call_1"), _IMAGE]), tools=_TOOLS), ("ANT-03",), tools=_OFFER),
    RuleCase("ANT-04", "same-id-in-one-turn", _P, [HI, speaks(wants("a"), wants("a")), tells(gave("a", "1"), gave("a", "2"))],
        {"messages": [USER, _asked(use("a"), use("call00001")), user([used("a", "1"), used("call00001", "2")])]},
        claude(USER, _asked(use("a"), use("a")), user([used("a"), used("a")]), tools=_TOOLS), ("ANT-05",), tools=_OFFER, ids={"a": "a", "call00001": "a"}),
    RuleCase("ANT-04", "id-reused-in-a-later-turn", _P, [HI, speaks(wants("a")), tells(gave("a", "1")), speaks(wants("a")), tells(gave("a", "2"))],
        {"messages": [USER, _asked(use("a")), user([used("a", "1")]), _asked(use("call00001")), user([used("call00001", "2")])]},
        notes=("ANT-05",), tools=_OFFER, unseen="claude-sonnet-4-5 was seen to accept it; within one turn it is refused"),
    RuleCase("ANT-04", "two-results", _P, [HI, speaks(wants()), tells(gave(content="1"), gave(content="2"))],
        {"messages": [USER, _asked(), _answered(used("call_1", "2"))]},
        claude(USER, _asked(), _answered(used("call_1"), used("call_1")), tools=_TOOLS), ("ANT-04", "ANT-03"), tools=_OFFER),
    RuleCase("ANT-05", "ids-that-look-alike-stay-apart", _P, [HI, speaks(wants("f:0"), wants("f.0")), tells(gave("f.0", "dot"), gave("f:0", "colon"))],
        {"messages": [USER, _asked(use("call00000"), use("call00001")), user([used("call00001", "dot"), used("call00000", "colon")])]},
        claude(USER, _asked(use("f:0"), use("f.0")), user([used("f:0"), used("f.0")]), tools=_TOOLS), ("ANT-05", "ANT-05"),
        tools=_OFFER, ids={"call00000": "f:0", "call00001": "f.0"}),
    RuleCase("ANT-05", "missing-id-is-made-from-the-place", _P, [HI, speaks(wants("")), tells(gave(""))],
        {"messages": [USER, _asked(use("call_1_0")), _answered(used("call_1_0"))]},
        claude(USER, _asked(use("")), _answered(used("")), tools=_TOOLS), tools=_OFFER),
    RuleCase("ANT-06", "blank-text-goes", _P, [speaks(words(""), words(" \n"), words("hi"), role="user")],
        {"messages": [USER]}, claude(user([text(""), text(" \n"), text()])), ("ANT-06", "ANT-06")),
    RuleCase("ANT-07", "empty-turn-goes", _P, [HI, speaks(), says("and?")],
        {"messages": [user([text(), text("and?")])]}, claude(USER, assistant([]), user("and?")), ("ANT-07",)),
    RuleCase("ANT-07", "nothing-at-all", _P, [says("")], {"messages": [user("Continue.")]}, claude(user("")), ("ANT-07", "ANT-08")),
    RuleCase("ANT-08", "no-prefill", _P, [HI, says("Sure", "claude")],
        {"messages": [USER, assistant("Sure"), user("Continue.")]}, claude(USER, assistant("Sure")), ("ANT-08",)),
    RuleCase("ANT-08", "prefill-where-it-is-taken", _P, [HI, says("Sure", "claude")], {"messages": [USER, assistant("Sure")]},
        model=_OLD, unseen="claude-haiku-4-5 was recorded to accept it"),
    RuleCase("ANT-08", "no-prefill-while-thinking", _P, [HI, says("Sure", "claude")], {"messages": [USER, assistant("Sure"), user("Continue.")]},
        notes=("ANT-08", "ANT-25"), model=_OLD, options={"thinking": True}, unseen="the documents say so, no refusal was captured"),
    RuleCase("ANT-09", "final-assistant-does-not-end-in-space", _P, [HI, says("Sure ", "claude")],
        {"messages": [USER, assistant("Sure")]}, claude(USER, assistant("Sure "), model=_OLD), ("ANT-09",), model=_OLD),
    RuleCase("ANT-10", "loop-without-thinking-turns-it-off", _P, [HI, speaks(wants()), tells(gave())],
        {"thinking": {"type": "disabled"}, "messages": [USER, _asked(), _answered()]},
        claude(USER, _asked(), _answered(), tools=_TOOLS, model=_OLD, thinking=_ON | {"budget_tokens": 1024}), ("ANT-10",),
        model=_OLD, tools=_OFFER, options={"thinking": True}),
    RuleCase("ANT-10", "loop-with-thinking-goes-on", _P, [HI, speaks(_thought(), wants()), tells(gave())],
        {"thinking": _ON, "max_tokens": 16384, "messages": [USER, _asked(_BLOCK, use("call_1")), _answered()]},
        claude(USER, _asked(), _answered(), tools=_TOOLS, model=_OLD, thinking=_ON | {"budget_tokens": 1024}), ("ANT-25",),
        model=_OLD, tools=_OFFER, options={"thinking": True}),
    RuleCase("ANT-10", "a-loop-that-began-with-thinking-goes-on", _P,
        [HI, speaks(_thought(), wants()), tells(gave()), speaks(wants("call_2")), tells(gave("call_2"))],
        {"thinking": _ON, "messages": [USER, _asked(_BLOCK, use("call_1")), _answered(), _asked(use("call_2")), _answered(used("call_2"))]},
        claude(USER, _asked(), _answered(), tools=_TOOLS, model=_OLD, thinking=_ON | {"budget_tokens": 1024}), ("ANT-25",),
        model=_OLD, tools=_OFFER, options={"thinking": True}),
    RuleCase("ANT-10", "a-loop-that-began-without-thinking-turns-it-off", _P,
        [HI, speaks(wants()), tells(gave()), speaks(_thought(), wants("call_2")), tells(gave("call_2"))],
        {"thinking": {"type": "disabled"}, "messages": [USER, _asked(), _answered(), _asked(use("call_2")), _answered(used("call_2"))]},
        claude(USER, _asked(), _answered(), _asked(_BLOCK, use("call_2")), _answered(used("call_2")), tools=_TOOLS, model=_OLD, thinking=_ON | {"budget_tokens": 1024}),
        ("ANT-10", "ANT-14"), model=_OLD, tools=_OFFER, options={"thinking": True}),
    RuleCase("ANT-10", "a-closed-loop-does-not-matter", _P, [HI, speaks(wants()), tells(gave()), says("done", "claude"), says("more")],
        {"thinking": _ON}, claude(USER, _asked(), _answered(), tools=_TOOLS, model=_OLD, thinking=_ON | {"budget_tokens": 1024}), ("ANT-25",),
        model=_OLD, tools=_OFFER, options={"thinking": True}),
    RuleCase("ANT-11", "thinking-of-another-model-goes", _P, [HI, speaks(_thought("claude-opus-4-6"), words("x")), says("and?")],
        {"messages": [USER, assistant("x"), user("and?")]},
        claude(USER, assistant([_BLOCK | {"signature": ""}, text("x")]), user("and?")), ("ANT-11",), model=_NEW),
    RuleCase("ANT-12", "a-thinking-turn-is-not-glued-to-another", _P, [HI, says("one", "claude"), speaks(_thought(), words("two")), says("and?")],
        {"messages": [USER, assistant("one"), user("Continue."), assistant([_BLOCK, text("two")]), user("and?")]},
        claude(USER, assistant([text("one"), text("two"), _BLOCK]), user("and?"), model=_OLD, thinking=_ON | {"budget_tokens": 1024}), ("ANT-12", "ANT-25"),
        model=_OLD, options={"thinking": True}),
    RuleCase("ANT-12", "thinking-before-a-blank-text-that-is-left-out", _P,
        [HI, speaks(_compacted(), _thought(), words(" ")), says("and?")],
        {"messages": [USER, assistant([_COMPACTED]), user("and?")]},
        claude(USER, assistant([text("Sure."), _BLOCK]), user("and?"), model=_OLD, thinking=_ON | {"budget_tokens": 1024}), ("ANT-25", "ANT-12"),
        model=_OLD, options={"thinking": True}),
    RuleCase("ANT-12", "blocks-keep-their-place", _P, [HI, speaks(_thought(), words("one"), _thought(redacted="UkVE"), wants()), tells(gave())],
        {"messages": [USER, assistant([_BLOCK, text("one"), {"type": "redacted_thinking", "data": "UkVE"}, use("call_1")]), _answered()]},
        claude(USER, assistant([text("one"), _BLOCK]), USER, model=_OLD, thinking=_ON | {"budget_tokens": 1024}), ("ANT-25",),
        model=_OLD, tools=_OFFER, options={"thinking": True}),
    RuleCase("ANT-13", "unsigned-thinking-goes", _P, [HI, speaks(thinks("hm", "anthropic", _OLD), words("x")), says("and?")],
        {"messages": [USER, assistant("x"), user("and?")]},
        claude(USER, assistant([{"type": "thinking", "thinking": "hm"}, text("x")]), user("and?"), model=_OLD, thinking=_ON | {"budget_tokens": 1024}),
        ("ANT-25", "ANT-13"), model=_OLD, options={"thinking": True}),
    RuleCase("ANT-14", "no-thinking-while-it-is-off", _P, [HI, speaks(_thought(), wants()), tells(gave())],
        {"thinking": {"type": "disabled"}, "messages": [USER, _asked(), _answered()]},
        claude(USER, _asked(_BLOCK, use("call_1")), _answered(), tools=_TOOLS, model=_OLD, thinking={"type": "disabled"}), ("ANT-14",),
        model=_OLD, tools=_OFFER, options={"thinking": False}),
    RuleCase("ANT-14", "thinking-in-a-user-turn-goes", _P, [speaks(words("hi"), _thought(), role="user")],
        {"messages": [USER]}, claude(USER, _asked(_BLOCK, use("call_1")), _answered(), tools=_TOOLS, thinking={"type": "disabled"}), ("ANT-14",)),
    RuleCase("ANT-15", "no-forced-tool-while-thinking-with-a-budget", _P, [HI],
        {"thinking": _ON, "tool_choice": {"type": "auto"}},
        claude(USER, tools=_TOOLS, model=_OLD, thinking=_ON | {"budget_tokens": 1024}, max_tokens=2048, tool_choice={"type": "any"}), ("ANT-25", "ANT-15"),
        model=_OLD, tools=_OFFER, options={"thinking": True, "tool_choice": "required"}),
    RuleCase("ANT-15", "adaptive-thinking-takes-a-forced-tool", _P, [HI],
        {"thinking": {"type": "adaptive"}, "tool_choice": {"type": "any"}},
        unseen="this is what is allowed, not what is refused", model=_NEW, tools=_OFFER, options={"thinking": True, "tool_choice": "required"}),
    RuleCase("ANT-16", "tools-of-earlier-calls-are-declared", _P, [HI, speaks(wants()), tells(gave())],
        {"tools": _STUBS, "tool_choice": {"type": "none"}}, claude(USER, _asked(), _answered(), model=_OLDEST), ("ANT-16",), model=_OLDEST),
    RuleCase("ANT-16", "current-models-need-no-stubs", _P, [HI, speaks(wants()), tells(gave())],
        {"tools": ABSENT, "tool_choice": ABSENT}, unseen="this is what is allowed, not what is refused", model=_OLD),
    RuleCase("ANT-17", "names-everywhere-alike", _P, [HI, speaks(wants(name="fs.read")), tells(gave(name="fs.read"))],
        {"tools": [claude_tool("fs_read")], "messages": [USER, _asked(use("call_1", "fs_read")), _answered()]},
        claude(USER, _asked(use("call_1", "fs.read")), _answered(), tools=[claude_tool("fs.read")]), ("ANT-17", "ANT-17"), tools=[offer("fs.read")]),
    RuleCase("ANT-17", "one-of-each-name", _P, [HI], {"tools": _TOOLS},
        claude(USER, tools=[*_TOOLS, *_TOOLS]), ("ANT-17",), tools=[offer(), offer(schema={"type": "object"})]),
    RuleCase("ANT-18", "root-combinator-is-folded", _P, [HI],
        {"tools": [claude_tool(schema={"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "description": "(at least one of: a | b)"})]},
        _tool_body({"type": "object", "anyOf": [{}]}), ("ANT-18",),
        tools=[offer(schema={"anyOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"properties": {"b": {"type": "integer"}}, "required": ["b"]}]})]),
    RuleCase("ANT-18", "root-type-is-object", _P, [HI], {"tools": [claude_tool(schema={"properties": {}, "type": "object"})]},
        _tool_body({"properties": {}}), tools=[offer(schema={"properties": {}})]),
    RuleCase("ANT-19", "only-known-keys", _P, [HI | {"id": "m1", "meta": {"a": 1}}], {"messages": [USER]}, claude(USER | {"id": "m1"})),
    RuleCase("ANT-20", "system-text-at-the-head", _P, [says("Be kind.", "system"), HI],
        {"system": [text("You are Claude."), text("Be kind.")], "messages": [USER]},
        claude({"role": "system", "content": "Be kind."}, USER), system_prompt="You are Claude."),
    RuleCase("ANT-20", "system-text-in-mid-conversation", _P, [HI, says("Be brief.", "system"), says("and?")],
        {"system": ABSENT, "messages": [user([text(), text("[system] Be brief."), text("and?")])]},
        claude(USER, {"role": "system", "content": "Be brief."}, user("and?")), ("ANT-20",)),
    RuleCase("ANT-20", "picture-in-a-system-turn", _P, [HI, speaks(PICTURE, role="system")],
        {"messages": [user([text(), _IMAGE])]}, claude(USER, {"role": "system", "content": [_IMAGE]}, model="claude-opus-4-8"), ("ANT-20",), model="claude-opus-4-8"),
    RuleCase("ANT-20", "system-text-before-a-picture-in-a-system-turn", _P, [HI, says("Be brief.", "system"), speaks(PICTURE, role="system")],
        {"messages": [user([text(), text("[system] Be brief."), _IMAGE])]},
        claude(USER, {"role": "system", "content": "Be brief."}, user([_IMAGE]), model="claude-opus-4-8"),
        ("ANT-20", "ANT-20"), model="claude-opus-4-8"),
    RuleCase("ANT-20", "developer-is-system", _P, [says("Be kind.", "developer"), HI],
        {"system": "Be kind.", "messages": [USER]}, claude({"role": "developer", "content": "Be kind."}, USER)),
    RuleCase("ANT-21", "the-model-may-come-first", _P, [says("Hello", "claude"), HI], {"messages": [assistant("Hello"), USER]},
        unseen="Sonnet 4.5 and later were recorded to accept it"),
    RuleCase("ANT-21", "user-comes-first-for-older-models", _P, [says("Hello", "claude"), HI],
        {"messages": [user("(the conversation so far)"), assistant("Hello"), USER]},
        claude(assistant("Hello"), USER, model=_OLDEST), ("ANT-21",), model=_OLDEST),
    RuleCase("ANT-21", "neighbours-are-merged", _P, [HI, says("ciao", "gemini"), says("x", "claude"), says("y", "claude"), says("and?")],
        {"messages": [user([text(), text("[gemini] ciao")]), assistant([text("x"), text("y")]), user("and?")]},
        notes=("ANT-21",), unseen="neighbours are accepted and merged by the API"),
    RuleCase("ANT-22", "halves-of-characters", _P, [says("a\ud83d"), speaks(wants(arguments={"x": "\udc00"})), tells(gave(content={"n": float("inf")}))],
        {"messages": [user("a\ufffd"), _asked(use("call_1", arguments={"x": "\ufffd"})), _answered(used("call_1", '{"n":"inf"}'))]},
        claude(user("a\ud83d")), ("ANT-22", "ANT-22", "ANT-22"), tools=_OFFER),
    RuleCase("ANT-23", "arguments-that-are-no-object", _P, [HI, speaks(wants(arguments=[1, 2])), tells(gave())],
        {"messages": [USER, _asked(use("call_1", arguments={"_raw": "[1,2]"})), _answered()]},
        claude(USER, _asked(use("call_1", arguments=[1, 2])), _answered(), tools=_TOOLS), ("ANT-23",), tools=_OFFER),
    RuleCase("ANT-24", "a-result-without-its-call", _P, [USER, assistant([_FOUND, text("x")]), user("and?")],
        {"messages": [USER, assistant([text("[result of web search: Rain (https://w.test)]"), text("x")]), user("and?")]},
        claude(USER, assistant([_FOUND, text("x")]), user("and?")), ("ANT-24",), reads="anthropic"),
    RuleCase("ANT-24", "a-call-without-its-result", _P, [USER, assistant([_SEARCH, text("x")]), user("and?")],
        {"messages": [USER, assistant([text("[searched the web for: rain]"), text("x")]), user("and?")]},
        claude(USER, assistant([_SEARCH, text("x")]), user("and?")), ("ANT-24",), reads="anthropic"),
    RuleCase("ANT-24", "a-pair-stays-as-it-is", _P, [USER, assistant([_SEARCH, _FOUND, text("x")]), user("and?")],
        {"messages": [USER, assistant([_SEARCH, _FOUND, text("x")]), user("and?")]},
        unseen="this is what is allowed, not what is refused", reads="anthropic"),
    RuleCase("ANT-24", "a-call-stays-open-while-a-client-tool-is-answered", _P, [USER, assistant([_SEARCH, use("call_1")]), user([used("call_1")])],
        {"messages": [USER, assistant([_SEARCH, use("call_1")]), user([used("call_1")])]},
        unseen="this is what is allowed, not what is refused", reads="anthropic", tools=_OFFER),
    RuleCase("ANT-47", "a-paused-turn-ends-the-request", _P, [USER, assistant([text("x"), _SEARCH])],
        {"messages": [USER, assistant([text("x"), _SEARCH])]}, unseen="this is what is allowed, not what is refused", reads="anthropic"),
    RuleCase("ANT-47", "a-paused-turn-and-its-continuation-are-one", _P,
        [USER, assistant([_BLOCK, _SEARCH]), assistant([_BLOCK, _FOUND, text("x")]), user("and?")],
        {"messages": [USER, assistant([_BLOCK, _SEARCH, _BLOCK, _FOUND, text("x")]), user("and?")]},
        unseen="this is what is allowed, not what is refused", reads="anthropic", model=_BOUND),
    RuleCase("ANT-48", "a-step-of-an-undeclared-advisor", _P, [USER, assistant([_SEARCH | {"name": "advisor"}, _FOUND | {"type": "advisor_tool_result"}, text("x")]), user("and?")],
        {"messages": [USER, assistant([text('[used advisor {"query":"rain"}]'), text("[result of advisor: Rain (https://w.test)]"), text("x")]), user("and?")]},
        notes=("ANT-24", "ANT-24"), unseen="the judge does not know which server tools the account has", reads="anthropic"),
    RuleCase("ANT-46", "a-reference-to-an-undeclared-tool", _P, [USER, _asked(), user([used("call_1", [{"type": "tool_reference", "tool_name": "gone"}])])],
        {"messages": [USER, _asked(), user([used("call_1", "tool: gone")])]},
        unseen="the judge does not follow references", reads="anthropic", tools=_OFFER),
    RuleCase("ANT-46", "a-reference-to-a-declared-tool", _P, [USER, _asked(), user([used("call_1", [{"type": "tool_reference", "tool_name": "f"}])])],
        {"messages": [USER, _asked(), user([used("call_1", [{"type": "tool_reference", "tool_name": "f"}])])]},
        unseen="this is what is allowed, not what is refused", reads="anthropic", tools=_OFFER),
    RuleCase("ANT-28", "empty-blocks-are-replayed-without-asking", _P, [HI, speaks(_thought(_BOUND), wants()), tells(gave()), speaks(thinks("", "anthropic", _BOUND, signature="ZQ=="), words("x")), says("and?")],
        {"thinking": ABSENT, "messages": [USER, _asked(_BLOCK, use("call_1")), _answered(), assistant([{"type": "thinking", "thinking": "", "signature": "ZQ=="}, text("x")]), user("and?")]},
        unseen="a judge of one body sees no earlier prefix", model=_BOUND, tools=_OFFER),
    RuleCase("ANT-29", "none-before-a-block-that-cannot-be-sent", _P, [HI, speaks(_thought(_BOUND), words("x"), _thought(_BOUND)), says("and?"), speaks(_thought(_BOUND), words("y")), says("so?")],
        {"messages": [USER, assistant("x"), user("and?"), assistant([_BLOCK, text("y")]), user("so?")]},
        claude(USER, assistant([_BLOCK, text("x"), _BLOCK]), user("and?"), model=_BOUND), ("ANT-12",), model=_BOUND, breaks="ANT-12"),
    RuleCase("ANT-32", "thinking-that-cannot-be-off", _P, [HI], {"thinking": ABSENT, "output_config": {"effort": "low"}},
        claude(USER, model=_BOUND, thinking={"type": "disabled"}), ("ANT-32",), model=_BOUND, options={"thinking": False}),
    RuleCase("ANT-32", "off-is-between-tools", _P, [HI], {"thinking": {"type": "between_tools"}},
        claude(USER, model="claude-sonnet-5-5", thinking={"type": "disabled"}), model="claude-sonnet-5-5", options={"thinking": False}),
    RuleCase("ANT-33", "no-budget", _P, [HI], {"thinking": {"type": "adaptive"}, "output_config": {"effort": "medium"}},
        claude(USER, model="claude-opus-4-7", thinking=_ON | {"budget_tokens": 1024}), model="claude-opus-4-7", options={"thinking": 8000}),
    RuleCase("ANT-34", "a-tool-is-asked-for-in-words", _P, [HI],
        {"tool_choice": {"type": "auto"}, "messages": [user([text(), text("[Call the tool f now.]")])]},
        claude(USER, model=_BOUND, tools=_TOOLS, tool_choice={"type": "tool", "name": "f"}), ("ANT-34",), model=_BOUND, tools=_OFFER, options={"tool_choice": "f"}),
    RuleCase("ANT-35", "temperature-on-a-new-model", _P, [HI], {"temperature": ABSENT}, claude(USER, temperature=0.5), ("ANT-35",), model=_NEW, options={"temperature": 0.5}),
    RuleCase("ANT-36", "the-nearest-lower-effort", _P, [HI], {"output_config": {"effort": "high"}}, notes=("ANT-36",),
        unseen="the judge does not know the words", model="claude-opus-4-6", options={"thinking": "xhigh"}),
    RuleCase("ANT-44", "marks-of-the-client-stay", _P, [user([text() | {"cache_control": {"type": "ephemeral", "ttl": "1h"}}])],
        {"messages": [user([text() | {"cache_control": {"type": "ephemeral", "ttl": "1h"}}])], "tools": [claude_tool() | {"cache_control": {"type": "ephemeral", "ttl": "1h"}}]},
        unseen="this is what is allowed, not what is refused", reads="anthropic", tools=_OFFER, options={"cache": True}),
    RuleCase("ANT-44", "four-marks-at-most", _P, [user([text(word) | {"cache_control": {"type": "ephemeral"}} for word in "abcde"])],
        {"messages": [user([text("a"), *[text(word) | {"cache_control": {"type": "ephemeral"}} for word in "bcde"]])]},
        claude(user([text(word) | {"cache_control": {"type": "ephemeral"}} for word in "abcde"])), ("ANT-44",), reads="anthropic"),
    RuleCase("ANT-45", "a-later-system-message", _P, [HI, says("Be brief.", "system"), says("x", "claude"), says("and?")],
        {"messages": [USER, {"role": "system", "content": "Be brief."}, assistant("x"), user("and?")]},
        unseen="this is what is allowed, not what is refused", model="claude-opus-4-8"),
    RuleCase("ANT-45", "a-system-message-at-the-end", _P, [HI, says("Be brief.", "system")],
        {"messages": [USER, {"role": "system", "content": "Be brief."}]},
        unseen="this is what is allowed, not what is refused", model="claude-opus-4-8"),
    RuleCase("ANT-52", "a-text-file", _P, [speaks(words("read"), {"type": "media", "mime": "text/plain", "data": "aGk=", "name": "a.txt"}, role="user")],
        {"messages": [user([text("read"), {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hi"}, "title": "a.txt"}])]},
        unseen="this is what is allowed, not what is refused"),
    RuleCase("ANT-25", "no-nulls-and-a-limit", _P, [HI], {"tools": ABSENT, "tool_choice": ABSENT, "system": ABSENT, "max_tokens": 8192},
        {"model": _NEW, "messages": [USER], "tools": None, "tool_choice": None, "system": None}),
    RuleCase("ANT-26", "empty-result-is-said-in-words", _P, [HI, speaks(wants()), tells(gave(content=[]))],
        {"messages": [USER, _asked(), _answered(used("call_1", "(no output)"))]},
        claude(USER, _asked(), _answered(used("call_1", [])), tools=_TOOLS), ("ANT-26",), tools=_OFFER),
    RuleCase("ANT-DOC", "picture-in-a-result", _P, [HI, speaks(wants()), tells(gave(content=[PICTURE, words("here")]))],
        {"messages": [USER, _asked(), _answered(used("call_1", [text("here"), _IMAGE]))]},
        notes=("ANT-DOC",), unseen="this is what is allowed, not what is refused", tools=_OFFER),
    RuleCase("ANT-DOC", "the-models-own-picture-becomes-text", _P, [HI, speaks(words("here"), PICTURE), says("and?")],
        {"messages": [USER, assistant([text("here"), text("[attachment: map.png, image/png]")]), user("and?")]},
        claude(USER, assistant([text("here"), _IMAGE]), user("and?")), ("ANT-DOC",)),
    RuleCase("ANT-DOC", "temperature-in-range", _P, [HI], {"temperature": 1.0}, claude(USER, temperature=1.7, model=_OLD), ("ANT-DOC",), model=_OLD, options={"temperature": 1.7}),
    RuleCase("ANT-DOC", "argument-names", _P, [HI],
        {"tools": [claude_tool(schema={"type": "object", "properties": {"a_b": {"type": "string", "description": "(argument a b)"}}})]},
        _tool_body({"type": "object", "properties": {"a b": {"type": "string"}}}), ("ANT-DOC",), tools=[offer(schema={"type": "object", "properties": {"a b": {"type": "string"}}})]),
    RuleCase("ANT-42", "schema-with-many-unions-is-asked-for-in-words", _P, [HI], {"output_config": ABSENT, "messages": [user([text(), text(_asked_for(_MANY))])]},
        claude(USER, output_config={"format": {"type": "json_schema", "schema": _MANY}}), ("ANT-42",), options={"schema": _MANY}),
    RuleCase("ANT-42", "tools-are-never-strict", _P, [HI], {"tools": [claude_tool()]}, unseen="`strict` is never written", tools=[tool(strict=True)]),
    RuleCase("ANT-43", "schema-with-a-circle-is-asked-for-in-words", _P, [HI], {"output_config": ABSENT, "messages": [user([text(), text(_asked_for(_LINKED))])]},
        claude(USER, tools=[claude_tool(schema=_LINKED, strict=True)]), ("ANT-42",), options={"schema": _LINKED}),
    RuleCase("ANT-43", "schema-without-a-circle-is-sent", _P, [HI], {"output_config": {"format": {"type": "json_schema", "schema": _PLAIN}}}, unseen="it is legal", options={"schema": _PLAIN}),
    RuleCase("ANT-31", "thinking-of-another-model-is-left-out", _P, [HI, speaks(_thought("claude-opus-5"), words("x")), says("and?")],
        {"messages": [USER, assistant("x"), user("and?")]}, notes=("ANT-11",), unseen="it is dropped without an error", model=_BOUND),
]  # fmt: skip
