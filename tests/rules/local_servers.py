"""Self-hosted servers: OLL, VLL, LCP."""

from typing import Any

from tests.rules.case import (
    ABSENT,
    HI,
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
from tests.rules.openai_chat import call, called, result
from tests.testing.cases import PNG, USER, asks, assistant, chat, tool, user

_FLAG = "a flag of the server, which no request shows"
_ID = "abcdefgh1"
_LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
_MISTRAL = "mistralai/Mistral-7B-Instruct-v0.3"
_BROKEN = [HI, speaks(wants(_ID, arguments='{"a": "x')), tells(gave(_ID))]
_KEPT = {"messages": [USER, called(call(_ID, arguments='{"_raw":"{\\"a\\": \\"x"}')), result(_ID)]}


def _function(schema: Any) -> dict[str, Any]:
    return {"tools": [tool("f", schema)]}


def _property(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}}


def _named(identifier: str = _ID, content: str = "ok") -> dict[str, Any]:
    return result(identifier, content) | {"name": "f"}


_SOUND = speaks(words("hi"), {"type": "media", "mime": "audio/wav", "data": "AAAA"}, role="user")
_UNREADABLE = speaks(
    words("hi"), {"type": "media", "mime": "image/png", "url": "nonsense"}, role="user"
)
_AS_TEXT = {"messages": [user("hi\n\n[attachment: nonsense, image/png]")]}
_NONSENSE = chat(user([{"type": "image_url", "image_url": {"url": "nonsense"}}]))
_UNCLEAN: Any = (
    [says("a\ud800")],
    {"messages": [user("a\ufffd")]},
    chat(user("a\ud800")),
)

CASES = [
    RuleCase("OLL-01", "no-null-content", "ollama", [USER, assistant(None), user("and?")], {"messages": [user("hi\n\nand?")]},
        chat(USER, assistant(None), user("and?")), ("OLL-01",), reads="openai-chat"),
    RuleCase("OLL-02", "arguments-are-an-object", "ollama", [HI, speaks(wants(arguments="")), tells(gave())],
        {"messages": [USER, called(), result()]}, chat(USER, asks(call(arguments="")), result())),
    RuleCase("OLL-02", "arguments-that-are-none", "ollama", [HI, speaks(wants(arguments="[1]")), tells(gave())],
        {"messages": [USER, called(call(arguments='{"_raw":"[1]"}')), result()]}, chat(USER, asks(call(arguments="[1]")), result()), ("OLL-02",)),
    RuleCase("OLL-03", "result-is-one-string", "ollama", [HI, speaks(wants()), tells(gave(content=[words("a"), words("b")]))],
        {"messages": [USER, called(), result(content="a\nb")]},
        chat(USER, asks(call()), result(content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]))),
    RuleCase("OLL-04", "no-empty-list-beside-calls", "ollama", [HI, {"role": "assistant", "content": [], "tool_calls": [call()]}, tells(gave())],
        {"messages": [USER, called(), result()]}, chat(USER, asks(call(), content=[]), result())),
    RuleCase("OLL-05", "a-picture-at-an-address-becomes-text", "ollama", [speaks(words("hi"), {"type": "media", "mime": "image/png", "url": "https://example.com/a.png"}, role="user")],
        {"messages": [user("hi\n\n[attachment: https://example.com/a.png, image/png]")]},
        chat(user([{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}])), ("OLL-05",)),
    RuleCase("OLL-05", "a-picture-at-hand-is-sent", "ollama", [speaks(words("hi"), PICTURE, role="user")],
        {"messages": [user([{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": PNG}}])]},
        chat(user([{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]))),
    RuleCase("OLL-06", "no-boolean-schema", "ollama", [HI], _function(_property({})),
        chat(USER, tools=[tool(parameters=_property(True))]), tools=[offer(schema=_property(True))]),
    RuleCase("OLL-06", "root-type-is-a-string", "ollama", [HI], _function(SCHEMA),
        chat(USER, tools=[tool(parameters=SCHEMA | {"type": ["object"]})]), tools=[offer(schema=SCHEMA | {"type": ["object"]})]),
    RuleCase("OLL-08", "ids-are-unique", "ollama", [HI, speaks(wants("a")), tells(gave("a")), speaks(wants("a", "g")), tells(gave("a", name="g"))],
        {"messages": [USER, called(call("a")), result("a"), called(call("call00001", "g")), result("call00001")]},
        chat(USER, asks(call("a")), result("a"), asks(call("a", "g")), result("a")), ("OLL-08",)),
    RuleCase("VLL-01", "broken-arguments-are-kept-as-text", "vllm", _BROKEN, _KEPT,
        chat(USER, asks(call(_ID, arguments='{"a": "x')), result(_ID)), ("VLL-01",)),
    RuleCase("VLL-02", "no-empty-tools", "vllm", [HI], {"tools": ABSENT}, chat(USER, tools=[]), tools=[]),
    RuleCase("VLL-03", "choice-needs-tools", "vllm", [HI], {"tool_choice": ABSENT}, chat(USER, tool_choice="auto"), options={"tool_choice": "auto"}),
    RuleCase("VLL-03", "choice-of-a-tool-not-offered", "vllm", [HI], {"tool_choice": "auto"},
        chat(USER, tools=[tool()], tool_choice={"type": "function", "function": {"name": "g"}}), ("VLL-03",), tools=[offer()], options={"tool_choice": "g"}),
    RuleCase("VLL-05", "every-call-is-a-function", "vllm", [USER, asks({"id": _ID, "type": "custom", "custom": {"name": "f", "input": "x"}}), result(_ID)],
        {"messages": [USER, called(call(_ID, arguments='{"input":"x"}')), result(_ID)]},
        chat(USER, asks({"id": _ID, "type": "custom", "custom": {"name": "f", "input": "x"}}), result(_ID)), reads="openai-chat"),
    RuleCase("VLL-06", "roles-alternate", "vllm", [HI, says("ciao", "gemini"), says("x", "vllm"), says("y", "vllm"), says("and?")],
        {"messages": [user("hi\n\n[gemini] ciao"), assistant("x\n\ny"), user("and?")]}, chat(USER, user("and?")), ("OAI-18",)),
    RuleCase("VLL-06", "system-text-first", "vllm", [HI, says("Be brief.", "system"), says("and?")],
        {"messages": [{"role": "system", "content": "Be kind."}, user("hi\n\n[system] Be brief.\n\nand?")]},
        chat(USER, {"role": "system", "content": "Be brief."}, user("and?")), ("VLL-06",), system_prompt="Be kind."),
    RuleCase("VLL-06", "single-calls-for-llama", "vllm", [HI, speaks(words("Both."), wants("abcdefgh1"), wants("abcdefgh2")), tells(gave("abcdefgh1", "1"), gave("abcdefgh2", "2"))],
        {"messages": [USER, asks(call("abcdefgh1"), content="Both."), result("abcdefgh1", "1"), called(call("abcdefgh2")), result("abcdefgh2", "2")]},
        chat(USER, asks(call("abcdefgh1"), call("abcdefgh2")), result("abcdefgh1"), result("abcdefgh2"), model=_LLAMA), ("VLL-06", "OAI-03", "OAI-03", "OAI-03"), model=_LLAMA),
    RuleCase("VLL-06", "mistral-template", "vllm", [HI, speaks(wants("call_1")), tells(gave()), says("and?")],
        {"messages": [USER, called(call("call00000")), result("call00000"), assistant("OK."), user("and?")]},
        chat(USER, asks(call()), result(), user("and?"), model=_MISTRAL), ("VLL-07", "VLL-06"), model=_MISTRAL),
    RuleCase("VLL-07", "ids-that-end-alike", "vllm", [HI, speaks(wants("xabcdefgh1"), wants("yabcdefgh1")), tells(gave("xabcdefgh1", "x"), gave("yabcdefgh1", "y"))],
        {"messages": [USER, called(call("call00000"), call("call00001")), result("call00000", "x"), result("call00001", "y")]},
        chat(USER, asks(call("xabcdefgh1"), call("yabcdefgh1")), result("xabcdefgh1"), result("yabcdefgh1"), model=_MISTRAL), ("VLL-07", "VLL-07"), model=_MISTRAL),
    RuleCase("VLL-08", "own-reasoning-under-its-own-key", "vllm", [HI, speaks(thinks("hm", "vllm", "default", field="reasoning_content"), words("x")), says("and?")],
        {"messages": [USER, assistant("x") | {"reasoning": "hm"}, user("and?")]},
        chat(USER, assistant("x") | {"reasoning_content": "hm"}, user("and?")), model="default"),
    RuleCase("LCP-01", "broken-arguments-are-kept-as-text", "llamacpp", _BROKEN,
        {"messages": [*_KEPT["messages"][:2], _named()]},
        chat(USER, asks(call(_ID, arguments='{"a": "x')), result(_ID)), ("LCP-01",)),
    RuleCase("LCP-02", "every-message-has-content", "llamacpp", [USER, {"role": "assistant"}, user("and?"), asks(call(_ID), content=None), {"role": "tool", "tool_call_id": _ID}],
        {"messages": [user("hi\n\nand?"), called(call(_ID)), _named(content="(no output)")]},
        chat(USER, asks(call(_ID)), {"role": "tool", "tool_call_id": _ID}), ("LCP-02", "LCP-02"), reads="openai-chat"),
    RuleCase("LCP-03", "files-are-written-as-text", "llamacpp", [user([{"type": "text", "text": "hi"}, {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0=", "filename": "a.pdf"}}])],
        {"messages": [user("hi\n\n[attachment: a.pdf, application/pdf]")]},
        chat(user([{"type": "text", "text": "hi"}, {"type": "file", "file": {}}])), ("LCP-08",), reads="openai-chat"),
    RuleCase("LCP-04", "no-two-assistants-at-the-end", "llamacpp", [HI, says("x", "llamacpp"), says("y", "llamacpp")],
        {"messages": [USER, assistant("x\n\ny"), user("Continue.")]}, chat(USER, assistant("x"), assistant("y")), ("LCP-04",)),
    RuleCase("LCP-05", "tools-are-offered-nevertheless", "llamacpp", [HI], {"tools": [tool()]}, unseen=_FLAG, tools=[offer()]),
    RuleCase("LCP-06", "canonical-form", "llamacpp", [HI, says("Be brief.", "system"), speaks(wants("call_1")), tells(gave())],
        {"messages": [user("hi\n\n[system] Be brief."), called(call("call00000")), _named("call00000")]},
        chat(USER, {"role": "system", "content": "Be brief."}), ("LCP-06", "LCP-06")),
    RuleCase("LCP-06", "a-user-query", "llamacpp", [says("Be kind.", "system")],
        {"messages": [{"role": "system", "content": "Be kind."}, user("Continue.")]}, chat({"role": "system", "content": "Be kind."}), ("LCP-04",)),
    RuleCase("LCP-07", "pattern-is-anchored", "llamacpp", [HI], _function(_property({"type": "string", "description": "(pattern: x)"})),
        chat(USER, tools=[tool(parameters=_property({"type": "string", "pattern": "x"}))]), ("LCP-07",), tools=[offer(schema=_property({"type": "string", "pattern": "x"}))]),
    RuleCase("LCP-08", "picture-is-written-as-text", "llamacpp", [speaks(words("hi"), PICTURE, role="user")],
        {"messages": [user("hi\n\n[attachment: map.png, image/png]")]}, unseen=_FLAG, notes=("LCP-08",)),
    RuleCase("OLL-DOC", "sounds-are-written-as-text", "ollama", [_SOUND], {"messages": [user("hi\n\n[attachment: audio/wav]")]},
        chat(user([{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}])), ("OLL-05",)),
    RuleCase("VLL-DOC", "media-that-cannot-be-read-becomes-text", "vllm", [_UNREADABLE], _AS_TEXT, _NONSENSE, ("OAI-11",)),
    RuleCase("LCP-DOC", "media-that-cannot-be-read-becomes-text", "llamacpp", [_UNREADABLE], _AS_TEXT, _NONSENSE, ("LCP-08",)),
    RuleCase("OLL-JSON", "strings-are-cleaned", "ollama", *_UNCLEAN, notes=("OLL-JSON",)),
    RuleCase("VLL-JSON", "strings-are-cleaned", "vllm", *_UNCLEAN, notes=("VLL-JSON",)),
    RuleCase("LCP-JSON", "strings-are-cleaned", "llamacpp", *_UNCLEAN, notes=("LCP-JSON",)),
    RuleCase("VLL-04", "tools-are-offered-nevertheless", "vllm", [HI], {"tools": [tool()]}, unseen=_FLAG, tools=[offer()]),
    RuleCase("OLL-10", "pictures-follow-the-result", "ollama", [HI, speaks(wants()), tells(gave(content=[words("here"), PICTURE]))],
        {"messages": [USER, called(), result("call_1", "here\n[attachment: map.png, image/png]"), user([{"type": "text", "text": "[attachments of the tool results above]"}, {"type": "image_url", "image_url": {"url": PNG}}])]},
        unseen="the list is accepted, and split", notes=("OLL-03",), tools=[offer()]),
    RuleCase("LCP-10", "numbers-are-numbers", "llamacpp", [HI], {"temperature": 0.5}, chat(USER, temperature="0.5"), options={"temperature": 0.5}),
    RuleCase("LCP-11", "a-schema-and-no-grammar", "llamacpp", [HI], {"grammar": ABSENT}, chat(USER, grammar="root ::= x", json_schema={"type": "object"}), options={"schema": SCHEMA}),
]  # fmt: skip
