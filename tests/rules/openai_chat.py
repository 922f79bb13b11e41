"""OpenAI Chat Completions (OAI)."""

from typing import Any

from tests.rules.case import (
    ABSENT,
    HI,
    NO_RESULT,
    PICTURE,
    SCHEMA,
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
from tests.testing.cases import PNG, USER, asks, assistant, chat, tool, user
from tests.testing.cases import call as native_call
from tests.testing.cases import result as native_result

from multi_llm_chat import RepairPolicy

_P = "openai-chat"
_DROP = RepairPolicy(unanswered="drop", orphans="drop", foreign="drop")
_STRICT: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": ["string", "null"]}},
    "required": ["a"],
    "additionalProperties": False,
}


def call(identifier: str = "call_1", name: str = "f", arguments: Any = "{}") -> dict[str, Any]:
    return native_call(identifier, name, arguments)


def result(identifier: str = "call_1", content: Any = "ok") -> dict[str, Any]:
    return native_result(identifier, content)


def called(*calls: dict[str, Any]) -> dict[str, Any]:
    """A call turn without words, as we send it: no content at all."""
    return {"role": "assistant", "tool_calls": list(calls or [call()])}


def _schema(schema: Any) -> dict[str, Any]:
    return {"tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]}


_MANY = [f"c{number}" for number in range(130)]

_SOUND = {"type": "media", "mime": "audio/mpeg", "data": "SUQz", "name": "a.mp3"}
_HEARD = {"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}}

CASES = [
    RuleCase("OAI-01", "orphan-becomes-text", _P, [HI, tells(gave())],
        {"messages": [USER, user("[result of f, called earlier: ok]")]},
        chat(USER, result()), ("OAI-01",)),
    RuleCase("OAI-01", "orphan-goes-where-the-policy-says-so", _P, [HI, tells(gave())],
        {"messages": [USER]}, chat(USER, result()), ("OAI-01",), policy=_DROP),
    RuleCase("OAI-01", "early-result-joins-its-call", _P, [HI, tells(gave()), speaks(wants()), says("so?")],
        {"messages": [USER, called(), result(), user("so?")]},
        chat(USER, result(), asks(call()), user("so?")), ("OAI-03",)),
    RuleCase("OAI-02", "unanswered-call-is-answered", _P, [HI, speaks(wants()), says("well?")],
        {"messages": [USER, called(), result(content=NO_RESULT), user("well?")]},
        chat(USER, asks(call()), user("well?")), ("OAI-02",)),
    RuleCase("OAI-02", "unanswered-call-goes-where-the-policy-says-so", _P, [HI, speaks(words("Let me see."), wants()), says("well?")],
        {"messages": [USER, assistant("Let me see."), user("well?")]},
        chat(USER, asks(call(), content="Let me see."), user("well?")), ("OAI-02",), policy=_DROP),
    RuleCase("OAI-03", "what-stood-between-moves-behind", _P, [HI, speaks(wants()), says("meanwhile"), tells(gave())],
        {"messages": [USER, called(), result(), user("meanwhile")]},
        chat(USER, asks(call()), user("meanwhile"), result()), ("OAI-03",), breaks="OAI-02"),
    RuleCase("OAI-04", "partial-results-are-completed", _P, [HI, speaks(wants("a"), wants("b")), tells(gave("b"))],
        {"messages": [USER, called(call("a"), call("b")), result("a", NO_RESULT), result("b")]},
        chat(USER, asks(call("a"), call("b")), result("b")), ("OAI-02",), breaks="OAI-02"),
    RuleCase("OAI-05", "no-empty-list-of-calls", _P, [HI, assistant("x") | {"tool_calls": []}, says("go on")],
        {"messages": [USER, assistant("x"), user("go on")]},
        chat(USER, assistant("x") | {"tool_calls": []}, user("go on"))),
    RuleCase("OAI-06", "no-tools-no-choice", _P, [HI],
        {"tools": ABSENT, "tool_choice": ABSENT, "parallel_tool_calls": ABSENT},
        chat(USER, tools=[], tool_choice="auto"), tools=[], options={"tool_choice": "auto"}),
    RuleCase("OAI-07", "long-id-is-replaced-on-both-sides", _P, [HI, speaks(wants("x" * 70)), tells(gave("x" * 70))],
        {"messages": [USER, called(call("call00000")), result("call00000")]},
        chat(USER, asks(call("x" * 70)), result("x" * 70)), ("OAI-07",), ids={"call00000": "x" * 70}),
    RuleCase("OAI-08", "same-spelling-in-definition-and-history", _P, [HI, speaks(wants(name="fs.read")), tells(gave(name="fs.read"))],
        {"messages": [USER, called(call(name="fs_read")), result()], "tools": [tool("fs_read")]},
        chat(USER, asks(call(name="fs.read")), result(), tools=[tool("fs.read")]),
        ("OAI-08", "OAI-08"), tools=[offer("fs.read")], names={"fs_read": "fs.read"}),
    RuleCase("OAI-08", "hallucinated-name-in-history", _P, [HI, speaks(wants(name="a b!")), tells(gave(name="a b!"))],
        {"messages": [USER, called(call(name="a_b_")), result()]},
        chat(USER, asks(call(name="a b!")), result()), ("OAI-08",), names={"a_b_": "a b!"}),
    RuleCase("OAI-08", "two-names-one-spelling", _P, [HI],
        {"tools": [tool("fs_read"), tool("fs_read_4074bc02")]},
        chat(USER, tools=[tool("fs_read"), tool("fs.read")]), ("OAI-08",), tools=[offer("fs_read"), offer("fs.read")]),
    RuleCase("OAI-08", "nameless-tool-is-skipped", _P, [HI],
        {"tools": [tool("g")]}, chat(USER, tools=[tool(""), tool("g")]), ("OAI-08",), tools=[offer(""), offer("g")]),
    RuleCase("OAI-09", "nothing-said-nothing-sent", _P, [USER, assistant(None), user("again")],
        {"messages": [USER, user("again")]},
        chat(USER, assistant(None), user("again")), ("OAI-10",), reads="openai-chat"),
    RuleCase("OAI-09", "null-result-is-said-in-words", _P, [HI, speaks(wants()), tells(gave(content=None))],
        {"messages": [USER, called(), result(content="(no output)")]},
        chat(USER, asks(call()), result(content=None)), ("OAI-09",)),
    RuleCase("OAI-10", "no-empty-content", _P, [HI, speaks(), says("again")],
        {"messages": [USER, user("again")]}, chat(USER, assistant([]), user("again")), ("OAI-10",)),
    RuleCase("OAI-10", "result-of-any-type-becomes-text", _P, [HI, speaks(wants()), tells(gave(content={"n": [1, None, "é"]}))],
        {"messages": [USER, called(), result(content='{"n":[1,null,"é"]}')]},
        chat(USER, asks(call()), result(content={"n": [1, None, "é"]}))),
    RuleCase("OAI-11", "foreign-part-is-written-as-text", _P, [user([{"type": "think", "think": "hm"}, {"type": "text", "text": "hi"}])],
        {"messages": [user('[think {"think":"hm"}]\n\nhi')]},
        chat(user([{"type": "think", "think": "hm"}, {"type": "text", "text": "hi"}])), ("OAI-11",), reads="openai-chat"),
    RuleCase("OAI-11", "foreign-thinking-is-left-out", _P, [HI, speaks(thinks("hm", "deepseek", "deepseek-reasoner"), words("Hello")), says("and?")],
        {"messages": [USER, assistant("Hello"), user("and?")]},
        chat(USER, assistant([{"type": "think", "think": "hm"}, {"type": "text", "text": "Hello"}]), user("and?")), ("OAI-11",)),
    RuleCase("OAI-12", "no-setting-of-another-dialect", _P, [HI],
        {"reasoning": ABSENT, "reasoning_effort": ABSENT, "thinking": ABSENT},
        chat(USER, reasoning={"effort": "low"}), ("OAI-12",), model="gpt-4.1", options={"thinking": "low"}),
    RuleCase("OAI-12", "keys-of-a-turn-stay-here", _P, [HI | {"id": "m1", "created_at": 7, "meta": {"a": 1}, "mine": True}],
        {"messages": [USER]}, chat(USER, meta={"a": 1})),
    RuleCase("OAI-13", "128-tools-at-most", _P, [HI],
        {"tools": [tool(f"t{number}") for number in range(128)]},
        chat(USER, tools=[tool(f"t{number}") for number in range(130)]), ("OAI-13",),
        tools=[offer(f"t{number}") for number in range(130)]),
    RuleCase("OAI-13", "128-calls-a-turn-at-most", _P, [HI, speaks(*[wants(one) for one in _MANY]), tells(*[gave(one) for one in _MANY])],
        {"messages": [
            USER,
            called(*[call(one) for one in _MANY[:128]]), *[result(one) for one in _MANY[:128]],
            called(*[call(one) for one in _MANY[128:]]), *[result(one) for one in _MANY[128:]],
        ]},
        chat(USER, asks(*[call(one) for one in _MANY]), *[result(one) for one in _MANY]), ("OAI-13", "OAI-03", "OAI-03", "OAI-03")),
    RuleCase("OAI-14", "object-gets-properties", _P, [HI], _schema({"type": "object", "properties": {}}),
        chat(USER, tools=[tool(parameters={"type": "object"})]), tools=[offer(schema={"type": "object"})]),
    RuleCase("OAI-14", "array-gets-items", _P, [HI], _schema({"type": "object", "properties": {"a": {"type": "array", "items": {}}}}),
        chat(USER, tools=[tool(parameters={"type": "object", "properties": {"a": {"type": "array"}}})]),
        tools=[offer(schema={"type": "object", "properties": {"a": {"type": "array"}}})]),
    RuleCase("OAI-14", "root-combinator-is-folded", _P, [HI], _schema({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "description": "(exactly one of: a | b)"}),
        chat(USER, tools=[tool(parameters={"type": "object", "properties": {}, "oneOf": [{}]})]),
        ("OAI-14",),
        tools=[offer(schema={"type": "object", "oneOf": [
            {"properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"properties": {"b": {"type": "integer"}}, "required": ["b"]},
        ]})]),
    RuleCase("OAI-15", "choice-of-a-tool-not-offered", _P, [HI],
        {"tools": [tool()], "tool_choice": "auto"},
        chat(USER, tools=[tool()], tool_choice={"type": "function", "function": {"name": "g"}}), ("OAI-15",),
        tools=[offer()], options={"tool_choice": "g"}),
    RuleCase("OAI-15", "choice-follows-the-spelling", _P, [HI],
        {"tools": [tool("fs_read")], "tool_choice": {"type": "function", "function": {"name": "fs_read"}}},
        chat(USER, tools=[tool("fs_read")], tool_choice={"type": "function", "function": {"name": "fs.read"}}), ("OAI-08",),
        tools=[offer("fs.read")], options={"tool_choice": "fs.read"}),
    RuleCase("OAI-15", "choice-without-tools", _P, [HI], {"tool_choice": ABSENT},
        chat(USER, tool_choice="required"), options={"tool_choice": "required"}),
    RuleCase("OAI-16", "tools-turn-reasoning-off", _P, [HI], {"reasoning_effort": "none", "tools": [tool()]},
        chat(USER, model="gpt-5.6-terra", tools=[tool()], reasoning_effort="high"), ("OAI-16",),
        model="gpt-5.6-terra", tools=[offer()], options={"thinking": "high"}),
    RuleCase("OAI-16", "no-effort-no-conflict", _P, [HI], {"reasoning_effort": ABSENT, "tools": [tool()]},
        chat(USER, model="gpt-5.4-mini", tools=[tool()], reasoning_effort="high"), model="gpt-5.4-mini", tools=[offer()]),
    RuleCase("OAI-16", "responses-needs-no-such-thing", "openai", [HI], {"reasoning": {"summary": "auto", "effort": "high"}},
        unseen="nothing is wrong there: the row of `openai` speaks Responses", tools=[offer()], options={"thinking": "high"}),
    RuleCase("OAI-17", "picture-follows-the-results", _P,
        [HI, speaks(wants("a"), wants("b")), tells(gave("a", [words("here"), PICTURE]), gave("b")), says("nice")],
        {"messages": [
            USER, called(call("a"), call("b")), result("a", "here\n[attachment: map.png, image/png]"), result("b"),
            user([{"type": "text", "text": "[attachments of the tool results above]"}, {"type": "image_url", "image_url": {"url": PNG}}]),
            user("nice"),
        ]},
        chat(USER, asks(call()), result(content=[{"type": "image_url", "image_url": {"url": PNG}}])), ("OAI-17",)),
    RuleCase("OAI-18", "every-speaker-has-a-legal-role", _P, [HI, says("ciao", "gemini"), says("hello", "chatgpt"), says("obey", "developer"), says("so")],
        {"messages": [USER, user("[gemini] ciao"), assistant("hello"), {"role": "system", "content": "obey"}, user("so")]},
        chat(USER, {"role": "gemini", "content": "ciao"}), ("OAI-18",)),
    RuleCase("OAI-18", "adopted-on-demand", _P, [HI, speaks(words("ciao"), wants(), role="gemini"), tells(gave())],
        {"messages": [USER, asks(call(), content="ciao"), result()]},
        chat(USER, {"role": "gemini", "content": "ciao"}), ("OAI-18",), policy=RepairPolicy(foreign="adopt")),
    RuleCase("OAI-18", "foreign-tool-exchange-is-summarised", _P, [HI, speaks(words("ciao"), wants(arguments={"a": 1}), role="gemini"), tells(gave())],
        {"messages": [USER, user("[gemini] ciao\n\n[gemini used f {\"a\":1}: ok]")]},
        chat(USER, {"role": "gemini", "content": "ciao"}), ("OAI-18",)),
    RuleCase("OAI-18", "call-in-a-user-turn-becomes-text", _P, [speaks(words("hi"), wants(), role="user")],
        {"messages": [user("hi\n\n[call of f {}]")]},
        chat(USER, {"role": "bot", "content": "x"}), ("OAI-18",)),
    RuleCase("OAI-19", "reasoning-models-take-no-sampling", _P, [HI],
        {"max_tokens": ABSENT, "max_completion_tokens": 9, "temperature": ABSENT, "stop": ABSENT},
        chat(USER, model="gpt-5.5", max_tokens=9, temperature=0.5, stop=["x"]), ("OAI-19", "OAI-19"),
        model="gpt-5.5", options={"max_tokens": 9, "temperature": 0.5, "stop": ["x"]}),
    RuleCase("OAI-19", "temperature-while-no-effort-is-sent", _P, [HI], {"temperature": 0.5, "reasoning_effort": ABSENT},
        chat(USER, model="gpt-5.4", temperature=0.5, reasoning_effort="low"), model="gpt-5.4", options={"temperature": 0.5}),
    RuleCase("OAI-19", "no-temperature-with-an-effort", _P, [HI], {"temperature": ABSENT, "reasoning_effort": "low"},
        chat(USER, model="gpt-5.1", temperature=0.5, reasoning_effort="low"), ("OAI-19",), model="gpt-5.1", options={"temperature": 0.5, "thinking": "low"}),
    RuleCase("OAI-19", "temperature-with-effort-none", _P, [HI], {"temperature": 0.5, "reasoning_effort": "none"},
        chat(USER, model="gpt-5.6-terra", temperature=0.5), model="gpt-5.6-terra", options={"temperature": 0.5, "thinking": False}),
    RuleCase("OAI-28", "system-text-as-the-users", _P, [says("Be kind.", "system"), HI], {"messages": [user("Be kind."), USER]},
        unseen="the kit does not know this model", notes=("OAI-28",), model="o1-mini"),
    RuleCase("OAI-30", "nearest-lower-effort", _P, [HI], {"reasoning_effort": "high"},
        unseen="the kit knows all words, not each model's", notes=("OAI-30",), model="o4-mini", options={"thinking": "xhigh"}),
    RuleCase("OAI-30", "lowest-effort", "openai", [HI], {"reasoning": {"summary": "auto", "effort": "low"}},
        unseen="the kit knows all words, not each model's", notes=("OAI-30",), model="o4-mini", options={"thinking": "minimal"}),
    RuleCase("OAI-20", "arguments-are-the-text-of-an-object", _P, [HI, speaks(wants(arguments={"a": "é"})), tells(gave())],
        {"messages": [USER, called(call(arguments='{"a":"é"}')), result()]},
        chat(USER, asks(call(arguments={"a": "é"})), result())),
    RuleCase("OAI-20", "broken-arguments-are-kept-as-text", _P, [HI, speaks(wants(arguments='{"a":')), tells(gave())],
        {"messages": [USER, called(call(arguments='{"_raw":"{\\"a\\":"}')), result()]},
        chat(USER, asks(call(arguments=None)), result()), ("OAI-20",)),
    RuleCase("OAI-21", "empty-conversation-gets-a-user-turn", _P, [], {"messages": [user("Continue.")]}, chat(), ("OAI-21",)),
    RuleCase("OAI-22", "structured-output-is-made-strict", _P, [HI],
        {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": _STRICT, "strict": True}}},
        unseen="the judge does not read the schema of response_format; the row of tools shows the rule", options={"schema": SCHEMA}),
    RuleCase("OAI-22", "tools-are-not-strict", _P, [HI], _schema(SCHEMA),
        chat(USER, tools=[tool(strict=True)]), tools=[{"type": "function", "function": {"name": "f", "parameters": SCHEMA, "strict": True}}]),
    RuleCase("OAI-23", "last-real-result-wins", _P, [HI, speaks(wants()), tells(gave(content="old")), tells(gave(content="new"))],
        {"messages": [USER, called(), result(content="new")]},
        chat(USER, asks(call()), result(content="old"), result(content="new")), ("OAI-23",)),
    RuleCase("OAI-DOC", "four-stop-sequences-at-most", _P, [HI], {"stop": list("abcd")},
        chat(USER, stop=list("abcde")), ("OAI-DOC",), options={"stop": list("abcde")}),
    RuleCase("OAI-DOC", "media-that-cannot-be-read-becomes-text", _P, [speaks(words("hi"), PICTURE | {"data": "@"}, role="user")],
        {"messages": [user("hi\n\n[attachment: map.png, image/png]")]},
        chat(user([{"type": "image_url", "image_url": {"url": "data:image/png;base64,@"}}])), ("OAI-11",)),
    RuleCase("OAI-JSON", "strings-and-numbers-are-cleaned", _P, [says("a\ud800\0"), speaks(wants(arguments={"x": float("nan")})), tells(gave(content="b\udfff"))],
        {"messages": [user("a\ufffd"), called(call(arguments='{"x":"nan"}')), result(content="b\ufffd")]},
        chat(user("a\ud800")), ("OAI-JSON", "OAI-JSON", "OAI-JSON")),
    RuleCase("OAI-25", "sound-is-described-to-a-deaf-model", _P, [speaks(words("hi"), _SOUND, role="user")], {"messages": [user("hi\n\n[attachment: a.mp3, audio/mpeg]")]},
        chat(user([{"type": "text", "text": "hi"}, _HEARD]), model="gpt-5-mini"), ("OAI-11",), model="gpt-5-mini"),
    RuleCase("OAI-25", "sound-is-sent-to-a-model-that-hears", _P, [speaks(words("hi"), _SOUND, role="user")], {"messages": [user([{"type": "text", "text": "hi"}, _HEARD])]},
        unseen="it is legal", model="gpt-audio"),
    RuleCase("AZR-04", "files-are-described", "azure", [speaks(words("hi"), {"type": "media", "mime": "application/pdf", "data": "JVBERi0=", "name": "a.pdf"}, role="user")],
        {"messages": [user("hi\n\n[attachment: a.pdf, application/pdf]")]},
        chat(user([{"type": "text", "text": "hi"}, {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0=", "filename": "a.pdf"}}]), model="gpt-4.1"), ("OAI-11",)),
]  # fmt: skip
