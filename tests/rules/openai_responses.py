"""OpenAI Responses (RSP)."""

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
from tests.testing.cases import PNG, fc, fco, reasoning, responses, rtool, tool

_P = "openai"
_MODEL = "gpt-5.6-terra"
_THOUGHT = thinks(
    "hm",
    "openai",
    _MODEL,
    encrypted_content="gAAA",
    summary=[{"type": "summary_text", "text": "hm"}],
)
_OTHER = thinks("hm", "openai", "gpt-5.1", encrypted_content="gAAA")
_SENT = {
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "gAAA",
}
_CUT = "\n[cut: the text is longer than this server takes]"
_STORED = "which reasoning an item came with, only the server that stored it knows"


def user(content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": content} | fields


def assistant(text: Any, **fields: Any) -> dict[str, Any]:
    """Return an answer in the form that llama.cpp accepts too (LCP-14)."""
    content = [{"type": "output_text", "text": text}] if isinstance(text, str) else text
    return {"type": "message", "role": "assistant", "content": content} | fields


USER = user("hi")


def _rtool(name: str = "f", schema: Any = SCHEMA) -> dict[str, Any]:
    return rtool(name, schema, strict=False)


CASES = [
    RuleCase("RSP-01", "unanswered-call-is-answered", _P, [HI, speaks(wants()), says("well?")],
        {"input": [USER, fc(), fco(output=NO_RESULT), user("well?")]}, responses(USER, fc(), user("well?")), ("RSP-01",)),
    RuleCase("RSP-02", "late-output-moves-up", _P, [HI, says("meanwhile"), tells(gave()), speaks(wants())],
        {"input": [USER, user("meanwhile"), fc(), fco()]}, responses(USER, user("meanwhile"), fco()), ("RSP-02",)),
    RuleCase("RSP-02", "orphan-becomes-text", _P, [HI, tells(gave(name="f"))],
        {"input": [USER, user("[result of f, called earlier: ok]")]}, responses(USER, fco()), ("RSP-02",)),
    RuleCase("RSP-03", "own-reasoning-stands-before-its-item", _P, [HI, speaks(_THOUGHT, wants()), tells(gave())],
        {"input": [USER, _SENT, fc(), fco()], "store": False, "include": ["reasoning.encrypted_content"]},
        responses(USER, fc(), fco(), reasoning()), model=_MODEL),
    RuleCase("RSP-03", "reasoning-without-follower-goes", _P, [HI, speaks(words("Hello"), _THOUGHT), says("and?")],
        {"input": [USER, assistant("Hello"), user("and?")]},
        responses(USER, assistant("Hello"), reasoning(), user("and?")), ("RSP-03",), model=_MODEL),
    RuleCase("RSP-03", "reasoning-of-a-dropped-call-goes", _P, [HI, speaks(_THOUGHT), says("and?")],
        {"input": [USER, user("and?")]}, responses(USER, reasoning(), user("and?")), ("RSP-DOC",), model=_MODEL),
    RuleCase("RSP-04", "items-bear-their-ids-with-all-reasoning", _P,
        [USER, reasoning(), fc(id="fc_1"), fco(), assistant("x", id="msg_1", status="completed"), user("and?")],
        {"input": [USER, reasoning(), fc(id="fc_1"), fco(), assistant("x", id="msg_1", status="completed"), user("and?")]},
        unseen=_STORED, model=_MODEL, reads="openai-responses"),
    RuleCase("RSP-04", "no-item-bears-an-id-without-its-reasoning", _P,
        [USER, reasoning(encrypted_content=None), fc(id="fc_1"), fco(), user("and?")],
        {"input": [USER, fc(), fco(), user("and?")]}, unseen=_STORED, notes=("RSP-03",), model=_MODEL, reads="openai-responses"),
    RuleCase("RSP-04", "no-message-bears-an-id-without-its-reasoning", _P,
        [USER, reasoning(encrypted_content=None), assistant("x", id="msg_1", status="completed", phase="commentary"), user("and?")],
        {"input": [USER, assistant("x", phase="commentary"), user("and?")]}, unseen=_STORED, notes=("RSP-03",), model=_MODEL, reads="openai-responses"),
    RuleCase("RSP-04", "foreign-reasoning-goes-without-trace", _P, [HI, speaks(_OTHER, wants()), tells(gave())],
        {"input": [USER, fc(), fco()]}, unseen=_STORED, notes=("RSP-05",), model=_MODEL),
    RuleCase("RSP-05", "encrypted-content-of-another-place", _P,
        [HI, speaks(thinks("hm", "openai", _MODEL, "eu.gateway.example", encrypted_content="gAAA"), words("x")), says("and?")],
        {"input": [USER, assistant("x"), user("and?")]},
        responses(USER, reasoning(encrypted_content=""), assistant("x"), user("and?")), ("RSP-05",), model=_MODEL),
    RuleCase("RSP-05", "empty-encrypted-content", _P, [HI, speaks(thinks("hm", "openai", _MODEL, encrypted_content=""), words("x")), says("and?")],
        {"input": [USER, assistant("x"), user("and?")]},
        responses(USER, reasoning(encrypted_content=""), assistant("x"), user("and?")), ("RSP-03",), model=_MODEL),
    RuleCase("RSP-06", "nothing-relies-on-the-store", _P, [HI, speaks(thinks("hm", "openai", _MODEL), words("x")), says("and?")],
        {"input": [USER, assistant("x"), user("and?")], "store": False, "previous_response_id": ABSENT},
        responses(USER, reasoning(encrypted_content=None), assistant("x") | {"id": "msg_1"}, user("and?"), store=False), ("RSP-03",), model=_MODEL),
    RuleCase("RSP-07", "call-id", _P, [HI, speaks(wants("x" * 65)), tells(gave("x" * 65))],
        {"input": [USER, fc("call00000"), fco("call00000")]}, responses(USER, fc("x" * 65), fco("x" * 65)), ("RSP-07",), ids={"call00000": "x" * 65}),
    RuleCase("RSP-07", "name", _P, [HI, speaks(wants(name="fs.read")), tells(gave(name="fs.read"))],
        {"input": [USER, fc(name="fs_read"), fco()], "tools": [_rtool("fs_read")]},
        responses(USER, fc(name="fs.read"), fco(), tools=[rtool("fs.read")]), ("RSP-07", "RSP-07"), tools=[offer("fs.read")], names={"fs_read": "fs.read"}),
    RuleCase("RSP-07", "output-is-cut", _P, [HI, speaks(wants()), tells(gave(content="x" * 10_485_761))],
        {"input": [USER, fc(), fco(output=("x" * 10_485_760)[: -len(_CUT)] + _CUT)]}, responses(USER, fc(), fco(output="x" * 10_485_761)), ("OAI-24",)),
    RuleCase("RSP-08", "only-known-keys", _P, [HI | {"id": "m1", "meta": {"a": 1}, "model": "x"}],
        {"input": [USER]}, responses(USER | {"meta": {"a": 1}})),
    RuleCase("RSP-09", "part-types-follow-the-role", _P, [speaks(words("a"), words("b"), role="user"), speaks(words("c"), words("d")), says("e")],
        {"input": [user([{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]), assistant("c"), assistant("d"), user("e")]},
        responses(USER, assistant([{"type": "input_text", "text": "x"}]))),
    RuleCase("RSP-10", "tools-are-flat", _P, [HI], {"tools": [_rtool()]}, responses(USER, tools=[tool()]), tools=[tool()]),
    RuleCase("RSP-11", "empty-input-gets-a-user-turn", _P, [], {"input": [user("Continue.")]}, responses(), ("RSP-11",)),
    RuleCase("RSP-12", "chat-settings-are-translated-or-left-out", _P, [HI],
        {"max_output_tokens": 99, "max_tokens": ABSENT, "stop": ABSENT},
        responses(USER, stop=["x"], max_tokens=99), ("RSP-12",), options={"stop": ["x"], "max_tokens": 99}),
    RuleCase("RSP-13", "picture-in-a-result", _P, [HI, speaks(wants()), tells(gave(content=[words("here"), PICTURE]))],
        {"input": [USER, fc(), fco(output=[{"type": "input_text", "text": "here"}, {"type": "input_image", "image_url": PNG, "detail": "auto"}])]},
        unseen="this is what is allowed, not what is refused"),
    RuleCase("RSP-14", "result-without-id-finds-its-call", _P, [HI, speaks({"type": "tool_call", "name": "f", "arguments": {}}), tells({"type": "tool_result", "name": "f", "result": "ok"})],
        {"input": [USER, fc("call_1_0"), fco("call_1_0")]}, responses(USER, {"type": "function_call_output", "output": "x"})),
    RuleCase("OAI-13", "128-tools-at-most", _P, [HI], {"tools": [_rtool(f"t{n}") for n in range(128)]},
        responses(USER, tools=[rtool(f"t{n}") for n in range(129)]), ("OAI-13",), tools=[offer(f"t{n}") for n in range(129)]),
    RuleCase("OAI-14", "object-gets-properties", _P, [HI], {"tools": [_rtool(schema={"type": "object", "properties": {}})]},
        responses(USER, tools=[rtool(parameters={"type": "object"})]), tools=[{"name": "f"}]),
    RuleCase("OAI-15", "choice-of-a-tool-not-offered", _P, [HI], {"tool_choice": "auto"},
        responses(USER, tools=[rtool()], tool_choice={"type": "function", "name": "g"}), ("OAI-15",), tools=[offer()], options={"tool_choice": "g"}),
    RuleCase("OAI-19", "no-temperature", _P, [HI], {"temperature": ABSENT},
        responses(USER, temperature=0.5), ("OAI-19",), model=_MODEL, options={"temperature": 0.5}),
    RuleCase("OAI-22", "not-strict-unless-rewritten", _P, [HI], {"tools": [_rtool()]},
        responses(USER, tools=[rtool(strict=True)]), tools=[offer()]),
    RuleCase("RSP-DOC", "smallest-limit", _P, [HI], {"max_output_tokens": 16}, responses(USER, max_output_tokens=1), ("RSP-DOC",), options={"max_tokens": 1}),
    RuleCase("RSP-25", "no-stored-response-is-named", _P, [HI], {"previous_response_id": ABSENT, "input": [USER]}, unseen="whether a response is stored is not seen in a body"),
    RuleCase("RSP-26", "encrypted-reasoning-only-where-it-reasons", _P, [HI], {"include": ABSENT}, responses(USER, include=["reasoning.encrypted_content"], model="gpt-4.1"), model="gpt-4.1"),
    RuleCase("RSP-27", "the-choice-is-flat", _P, [HI], {"tool_choice": {"type": "function", "name": "f"}},
        responses(USER, tools=[rtool()], tool_choice={"type": "function", "function": {"name": "f"}}), breaks="OAI-15", tools=[offer()], options={"tool_choice": "f"}),
    RuleCase("OAI-31", "temperature-within-its-range", _P, [HI], {"temperature": 2.0}, responses(USER, temperature=99.0, model="gpt-4.1"), ("OAI-31",), breaks="RSP-DOC", model="gpt-4.1", options={"temperature": 99.0}),
]  # fmt: skip
