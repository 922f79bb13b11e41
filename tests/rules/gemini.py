"""Gemini generateContent (GEM)."""

from typing import Any

from tests.rules.case import (
    ABSENT,
    HI,
    NO_RESULT,
    PICTURE,
    PNG_DATA,
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
from tests.testing.cases import content, declaration, gemini, gemini_loop, gemini_schema, part

from multi_llm_chat.protocol.gemini.encode import SKIP_SIGNATURE

_P = "gemini"
_NEW, _OLD = "gemini-3.7-flash", "gemini-2.5-pro"
_USER = content("user")
_BLOB = {"inlineData": {"mimeType": "image/png", "data": PNG_DATA}}
_ALLOWED = "this is what is allowed, not what is refused"


def fcall(
    identifier: str = "call_1",
    name: str = "f",
    signature: str | None = SKIP_SIGNATURE,
    args: Any = None,
) -> dict[str, Any]:
    made: dict[str, Any] = {"functionCall": {"id": identifier, "name": name, "args": args or {}}}
    return made if signature is None else made | {"thoughtSignature": signature}


def fresponse(
    identifier: str = "call_1", name: str = "f", response: Any = None, **extra: Any
) -> dict[str, Any]:
    return {
        "functionResponse": {
            "id": identifier,
            "name": name,
            "response": response or {"result": "ok"},
            **extra,
        }
    }


def _declared(schema: Any, name: str = "f") -> dict[str, Any]:
    return {"tools": [{"functionDeclarations": [{"name": name, "parametersJsonSchema": schema}]}]}


def _property(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}}


def _thought(
    model: str = _NEW, endpoint: str = "", content: str = "", signature: str = "c2ln"
) -> dict[str, Any]:
    return thinks(content, "gemini", model, endpoint, thoughtSignature=signature)


_SENT = content("model", fcall()), content("user", fresponse())

CASES = [
    RuleCase("GEM-01", "history-starts-with-a-call", _P, [speaks(wants()), tells(gave())],
        {"contents": [content("user", part("(the conversation so far)")), *_SENT]}, gemini(*_SENT), ("GEM-01",), model=_NEW),
    RuleCase("GEM-01", "model-turns-are-merged", _P, [HI, says("Let me see.", "gemini"), speaks(wants()), tells(gave())],
        {"contents": [_USER, content("model", part("Let me see."), fcall()), content("user", fresponse())]},
        notes=(), unseen="from Gemini 3 on neighbouring contents of one step are accepted", model=_NEW),
    RuleCase("GEM-02", "response-moves-behind-its-call", _P, [HI, speaks(wants()), says("meanwhile"), tells(gave())],
        {"contents": [_USER, *_SENT, content("user", part("meanwhile"))]},
        gemini(_USER, content("model", part("x")), content("user", fresponse())), ("GEM-02",), model=_NEW),
    RuleCase("GEM-03", "one-response-for-each-call", _P, [HI, speaks(wants("a"), wants("b", "g")), tells(gave("b", name="g"))],
        {"contents": [_USER, content("model", fcall("a"), fcall("b", "g", None)), content("user", fresponse("a", response={"error": NO_RESULT}), fresponse("b", "g"))]},
        gemini_loop([fcall("a"), fcall("b", "g", None)], [fresponse("b", "g")]), ("GEM-03",), model=_NEW),
    RuleCase("GEM-03", "responses-in-call-order-in-one-content", _P, [HI, speaks(wants("a"), wants("b")), tells(gave("b", "2")), tells(gave("a", "1"))],
        {"contents": [_USER, content("model", fcall("a"), fcall("b", signature=None)), content("user", fresponse("a", response={"result": "1"}), fresponse("b", response={"result": "2"}))]},
        gemini(_USER, content("model", fcall("a"), fcall("b", signature=None)), content("user", fresponse("a"))), ("GEM-02",), model=_NEW),
    RuleCase("GEM-04", "foreign-call-bears-the-skip-value", _P, [HI, speaks(wants("a"), wants("b")), tells(gave("a"), gave("b")), speaks(wants("c")), tells(gave("c"))],
        {"contents": [_USER, content("model", fcall("a"), fcall("b", signature=None)), content("user", fresponse("a"), fresponse("b")), content("model", fcall("c")), content("user", fresponse("c"))]},
        gemini_loop([fcall(signature=None)], [fresponse()]), model=_NEW),
    RuleCase("GEM-04", "own-signature-goes-back-on-its-part", _P, [HI, speaks(_thought(), wants("a"), wants("b")), tells(gave("a"), gave("b"))],
        {"contents": [_USER, content("model", fcall("a", signature="c2ln"), fcall("b", signature=None)), content("user", fresponse("a"), fresponse("b"))]},
        gemini_loop([fcall("a", signature=None)], [fresponse("a")]), model=_NEW),
    RuleCase("GEM-05", "older-generations-need-none", _P, [HI, speaks(wants()), tells(gave())],
        {"contents": [_USER, content("model", fcall(signature=None)), content("user", fresponse())]},
        gemini_loop([fcall(signature="@@@")], [fresponse()]), model=_OLD),
    RuleCase("GEM-06", "signature-of-another-endpoint", _P, [HI, speaks(_thought(endpoint="aiplatform.googleapis.com"), wants()), tells(gave())],
        {"contents": [_USER, *_SENT]}, notes=("GEM-06",), model=_NEW, unseen="whether a signature is genuine, only Google can tell"),
    RuleCase("GEM-06", "signature-of-another-model", _P, [HI, speaks(_thought(_OLD), wants()), tells(gave())],
        {"contents": [_USER, *_SENT]}, notes=("GEM-06",), model=_NEW, unseen="whether a signature is genuine, only Google can tell"),
    RuleCase("GEM-07", "signed-parts-are-not-merged", _P,
        [HI, speaks(_thought(signature="MQ=="), words("a"), words("b"), _thought(signature="Mg==")), says("and?")],
        {"contents": [_USER, content("model", part("a") | {"thoughtSignature": "MQ=="}, part("b"), part("") | {"thoughtSignature": "Mg=="}), content("user", part("and?"))]},
        model=_NEW, unseen="which parts were once one, the body does not show"),
    RuleCase("GEM-08", "no-content-without-parts", _P, [HI, speaks(), says(" "), says("and?")],
        {"contents": [content("user", part(), part("and?"))]}, gemini(_USER, {"role": "user", "parts": []}, content("user", part("and?"))), ("GEM-08", "GEM-08", "GEM-08"), model=_NEW),
    RuleCase("GEM-08", "no-contents", _P, [], {"contents": [content("user", part("Continue."))]}, gemini(), ("GEM-09",), model=_NEW),
    RuleCase("GEM-09", "the-user-spoke", _P, [HI, says("Hello", "gemini")], {"contents": [_USER, content("model", part("Hello"))]},
        model=_NEW, unseen="contents that end with the model were recorded to be accepted behind the user's"),
    RuleCase("GEM-09", "one-turn-of-the-model-alone", _P, [says("Hello", "gemini")],
        {"contents": [content("model", part("Hello")), content("user", part("Continue."))]},
        gemini(content("model", part("Hello"))), ("GEM-09",), model=_NEW),
    RuleCase("GEM-10", "responses-stand-alone", _P, [HI, speaks(wants()), speaks(gave(), words("and?"), role="user")],
        {"contents": [_USER, *_SENT, content("user", part("and?"))]},
        gemini_loop([fcall()], [fresponse(), part("and?")]), ("GEM-10",), model=_NEW),
    RuleCase("GEM-11", "name", _P, [HI, speaks(wants(name="1 f")), tells(gave(name="1 f"))],
        _declared(SCHEMA, "_1_f") | {"contents": [_USER, content("model", fcall(name="_1_f")), content("user", fresponse(name="_1_f"))]},
        gemini_loop([fcall(name="1 f")], [fresponse(name="1 f")]), ("GEM-11", "GEM-11"), model=_NEW, tools=[offer("1 f")], names={"_1_f": "1 f"}),
    RuleCase("GEM-11", "a-dot-is-legal-here", _P, [HI], _declared(SCHEMA, "fs.read"),
        gemini(_USER, tools=[{"functionDeclarations": [declaration("1f")]}]), tools=[offer("fs.read")], model=_NEW),
    RuleCase("GEM-12", "declared-once", _P, [HI], _declared(SCHEMA),
        gemini(_USER, tools=[{"functionDeclarations": [declaration(), declaration()]}]), ("GEM-12",), tools=[offer(), offer()], model=_NEW),
    RuleCase("GEM-13", "unknown-keywords-go-to-the-description", _P, [HI],
        _declared(_property({"type": "string", "description": "(pattern: ^a$)"})),
        gemini_schema(_property({"type": "string", "pattern": "^a$", "propertyNames": {}})), ("GEM-13",),
        tools=[offer(schema=_property({"type": "string", "pattern": "^a$"}))], model=_NEW),
    RuleCase("GEM-14", "json-schema-takes-type-lists", _P, [HI], _declared(_property({"type": ["string", "null"]})),
        gemini_schema(_property({"type": ["string", "null"]})), tools=[offer(schema=_property({"type": ["string", "null"]}))], model=_NEW),
    RuleCase("GEM-15", "json-schema-takes-numbers-in-an-enum", _P, [HI], _declared(_property({"type": "integer", "enum": [1, 2]})),
        gemini_schema(_property({"type": "integer", "enum": [1, 2]})), tools=[offer(schema=_property({"type": "integer", "enum": [1, 2]}))], model=_NEW),
    RuleCase("GEM-16", "json-schema-takes-arrays-of-anything", _P, [HI], _declared(_property({"type": "array"})),
        gemini_schema(_property({"type": "array"})), tools=[offer(schema=_property({"type": "array"}))], model=_NEW),
    RuleCase("GEM-17", "reference-stands-alone", _P, [HI],
        _declared(_property({"anyOf": [{"$ref": "#/$defs/x"}], "title": "t"}) | {"$defs": {"x": {"type": "string"}}}),
        gemini_schema(_property({"type": "string", "anyOf": [{"type": "string"}]})),
        tools=[offer(schema=_property({"$ref": "#/$defs/x", "title": "t"}) | {"$defs": {"x": {"type": "string"}}})], model=_NEW),
    RuleCase("GEM-18", "arguments-and-responses-are-objects", _P, [HI, speaks(wants(arguments="[1]")), tells(gave(content=[1, 2]))],
        {"contents": [_USER, content("model", fcall(args={"_raw": "[1]"})), content("user", fresponse(response={"result": [1, 2]}))]},
        gemini_loop([fcall(args=[1])], [fresponse()]), ("GEM-18",), model=_NEW),
    RuleCase("GEM-18", "json-text-is-sent-as-the-object-it-is", _P, [HI, speaks(wants()), tells(gave(content='{"t": 25}'))],
        {"contents": [_USER, content("model", fcall()), content("user", fresponse(response={"t": 25}))]},
        gemini_loop([fcall()], [{"functionResponse": {"id": "call_1", "name": "f", "response": '{"t": 25}'}}]), model=_NEW),
    RuleCase("GEM-19", "no-config-without-functions", _P, [HI], {"toolConfig": ABSENT, "tools": ABSENT},
        gemini(_USER, toolConfig={"functionCallingConfig": {"mode": "ANY"}}), model=_NEW, options={"tool_choice": "required"}),
    RuleCase("GEM-20", "response-bears-the-calls-name-and-id", _P, [HI, speaks(wants("a b", "f")), tells(gave("a b", name="other"))],
        {"contents": [_USER, content("model", fcall("call00000")), content("user", fresponse("call00000"))]},
        gemini_loop([fcall("a")], [fresponse("a", "other")]), ("GEM-20",), model=_NEW),
    RuleCase("GEM-21", "roles-and-system-text", _P, [says("Be kind.", "system"), HI, says("Hello", "assistant"), says("and?")],
        {"systemInstruction": {"parts": [part("Be kind.")]}, "contents": [_USER, content("model", part("Hello")), content("user", part("and?"))]},
        gemini(content("system", part("Be kind.")), _USER), model=_NEW),
    RuleCase("GEM-22", "real-json-schema-in-its-own-field", _P, [HI], _declared(SCHEMA | {"additionalProperties": False}),
        gemini(_USER, tools=[{"functionDeclarations": [declaration(parameters={"type": "OBJECT"}, parametersJsonSchema=SCHEMA)]}]),
        tools=[offer(schema=SCHEMA | {"additionalProperties": False})], model=_NEW),
    RuleCase("GEM-DOC", "picture-in-a-response-from-3-on", _P, [HI, speaks(wants()), tells(gave(content=[words("here"), PICTURE]))],
        {"contents": [_USER, content("model", fcall()), content("user", fresponse(response={"result": "here\n[attachment: map.png, image/png]"}, parts=[_BLOB]))]},
        unseen=_ALLOWED, model=_NEW),
    RuleCase("GEM-DOC", "picture-behind-the-responses-before-3", _P, [HI, speaks(wants()), tells(gave(content=[words("here"), PICTURE]))],
        {"contents": [_USER, content("model", fcall(signature=None)), content("user", fresponse(response={"result": "here\n[attachment: map.png, image/png]"})), content("user", _BLOB)]},
        unseen="gemini-2.5-flash was seen to accept both in one content", model=_OLD),
    RuleCase("GEM-DOC", "unsupported-picture-becomes-text", _P, [speaks(words("hi"), {"type": "media", "mime": "image/bmp", "data": "R0lG"}, role="user")],
        {"contents": [content("user", part(), part("[attachment: image/bmp]"))]},
        gemini(content("user", part(), {"inlineData": {"mimeType": "image/bmp", "data": "R0lG"}})), ("GEM-DOC",), model=_NEW),
    RuleCase("GEM-JSON", "strings-are-cleaned", _P, [says("a\ud800")], {"contents": [content("user", part("a\ufffd"))]},
        gemini(content("user", part("a\ud800"))), ("GEM-JSON",), model=_NEW),
    RuleCase("GEM-DOC", "five-stop-sequences-at-most", _P, [HI], {"generationConfig": {"stopSequences": list("abcde")}},
        gemini(_USER, generationConfig={"stopSequences": list("abcdef")}), ("GEM-DOC",), model=_NEW, options={"stop": list("abcdef")}),
    RuleCase("GEM-28", "nearest-lower-level", _P, [HI], {"generationConfig": {"thinkingConfig": {"includeThoughts": True, "thinkingLevel": "low"}}},
        gemini(_USER, generationConfig={"thinkingConfig": {"thinkingLevel": "medium"}}), ("GEM-28",), model="gemini-3-pro-preview", options={"thinking": "medium"}),
    RuleCase("GEM-28", "off-is-the-lowest-level", _P, [HI], {"generationConfig": {"thinkingConfig": {"thinkingLevel": "low"}}},
        gemini(_USER, generationConfig={"thinkingConfig": {"thinkingLevel": "minimal"}}), ("GEM-28",), model=_NEW, options={"thinking": False}),
    RuleCase("GEM-28", "minimal-where-it-is-known", _P, [HI], {"generationConfig": {"thinkingConfig": {"includeThoughts": True, "thinkingLevel": "minimal"}}},
        gemini(_USER, generationConfig={"thinkingConfig": {"thinkingLevel": "none"}}), model="gemini-3.5-flash", options={"thinking": "minimal"}),
    RuleCase("GEM-28", "pro-cannot-be-off", _P, [HI], {"generationConfig": {"thinkingConfig": {"thinkingBudget": 128}}},
        gemini(_USER, generationConfig={"thinkingConfig": {"thinkingBudget": 0}}), ("GEM-28",), model=_OLD, options={"thinking": False}),
    RuleCase("GEM-28", "budget-within-the-limits", _P, [HI], {"generationConfig": {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": 24576}}},
        gemini(_USER, generationConfig={"thinkingConfig": {"thinkingBudget": 30000}}), ("GEM-28",), model="gemini-2.5-flash", options={"thinking": 30000}),
    RuleCase("GEM-28", "flash-can-be-off", _P, [HI], {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}},
        gemini(_USER, generationConfig={"thinkingConfig": {"thinkingBudget": 0, "thinkingLevel": "low"}}), model="gemini-2.5-flash", options={"thinking": False}),
    RuleCase("GEM-28", "never-both", _P, [HI], {"generationConfig": {"thinkingConfig": {"includeThoughts": True, "thinkingLevel": "high"}}},
        gemini(_USER, generationConfig={"thinkingConfig": {"thinkingLevel": "high", "thinkingBudget": 9}}), model=_NEW, options={"thinking": "high"}),
    RuleCase("GEM-31", "a-cached-content-has-the-system-text", _P, [HI], {"contents": [_USER], "cachedContent": "cachedContents/1"},
        gemini(_USER, systemInstruction={"parts": [{"text": "Be brief."}]}, cachedContent="cachedContents/1"), ("GEM-31",), model=_NEW, system_prompt="Be brief.", options={"extra": {"cachedContent": "cachedContents/1"}}),
    RuleCase("GEM-32", "temperature-within-its-range", _P, [HI], {"generationConfig": {"temperature": 2.0}}, gemini(_USER, generationConfig={"temperature": 1000}), ("GEM-32",), model=_NEW, options={"temperature": 1000}),
]  # fmt: skip
