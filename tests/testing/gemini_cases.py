"""Cases of the Gemini generateContent dialect."""

from typing import Any

from tests.testing.cases import (
    SCHEMA,
    Body,
    Case,
    content,
    declaration,
    fcall,
    fresponse,
    gemini,
    gemini_loop,
    gemini_schema,
    part,
)

_NEW = "gemini-3-pro-preview"
_OLD = "gemini-2.5-flash"
_USER = content("user")
_MODEL = content("model")
_LOOP = gemini_loop([fcall()], [fresponse()])
_TWO = [fcall(), fcall("g", None)]
_BLOB = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
_ANY = {"functionCallingConfig": {"mode": "ANY"}}
_DECLARED = [{"functionDeclarations": [declaration()]}]


def _object(**properties: Any) -> Body:
    return gemini_schema({"type": "OBJECT", "properties": properties})


CASES = [
    Case("GEM-01", "call-first", "gemini", gemini(content("model", fcall()), content("user", fresponse())), _LOOP, _NEW),
    Case("GEM-01", "call-after-model", "gemini", gemini(_USER, _MODEL, content("model", fcall()), content("user", fresponse())), gemini(_USER, _MODEL, _USER, content("model", fcall()), content("user", fresponse())), _OLD),
    Case("GEM-02", "response-without-call", "gemini", gemini(_USER, content("user", fresponse())), _LOOP, _NEW),
    Case("GEM-02", "response-after-text", "gemini", gemini(_USER, _MODEL, content("user", fresponse())), _LOOP, _NEW),
    Case("GEM-03", "one-of-two", "gemini", gemini_loop(_TWO, [fresponse()]), gemini_loop(_TWO, [fresponse(), fresponse("g")]), _NEW, text="the number of function response parts is equal"),
    Case("GEM-03", "call-without-response", "gemini", gemini(_USER, content("model", fcall()), _USER), _LOOP, _NEW),
    Case("GEM-04", "signature-missing", "gemini", gemini_loop([fcall(signature=None)], [fresponse()]), _LOOP, _NEW, text="Function call is missing a thought_signature"),
    Case("GEM-04", "not-asked-of-older-models", "gemini", gemini_loop([fcall(signature=None)], [fresponse()]), gemini_loop([fcall()], [fresponse()]), "gemini-3.7-flash"),
    Case("GEM-04", "second-step-of-the-turn", "gemini", gemini(_USER, content("model", fcall()), content("user", fresponse()), content("model", fcall(signature=None)), content("user", fresponse())), gemini(_USER, content("model", fcall(signature=None)), content("user", fresponse()), _MODEL, _USER), _NEW),
    Case("GEM-05", "signature-not-base64", "gemini", gemini_loop([fcall(signature="@@@")], [fresponse()]), gemini_loop([fcall(signature="skip_thought_signature_validator")], [fresponse()]), _NEW),
    Case("GEM-08", "no-parts", "gemini", gemini({"role": "user", "parts": []}), gemini(_USER), _NEW),
    Case("GEM-08", "no-parts-beside-empty-text", "gemini", gemini(_USER, {"role": "user", "parts": []}), gemini(_USER, content("model", part("x"), part("")), _USER), _NEW),
    Case("GEM-08", "no-contents", "gemini", gemini(), gemini(_USER), _NEW),
    Case("GEM-09", "one-turn-of-the-model", "gemini", gemini(_MODEL), gemini(_USER, _MODEL), _NEW),
    Case("GEM-10", "text-beside-response", "gemini", gemini_loop([fcall()], [fresponse(), part()]), gemini(_USER, content("model", fcall()), content("user", fresponse()), _USER), "gemini-3.7-flash"),
    Case("GEM-11", "name-in-definition", "gemini", gemini(_USER, tools=[{"functionDeclarations": [declaration("1f")]}]), gemini(_USER, tools=[{"functionDeclarations": [declaration("_f.g-h")]}]), _NEW, text="Invalid function name. Must start with a letter or an underscore."),
    Case("GEM-11", "name-in-history", "gemini", gemini_loop([fcall("a b")], [fresponse("a b")]), _LOOP, _NEW),
    Case("GEM-11", "long-name", "gemini", gemini(_USER, tools=[{"functionDeclarations": [declaration("f" * 129)]}]), gemini(_USER, tools=[{"functionDeclarations": [declaration("f" * 128)]}]), _NEW),
    Case("GEM-12", "declared-twice", "gemini", gemini(_USER, tools=[{"functionDeclarations": [declaration(), declaration()]}]), gemini(_USER, tools=[{"functionDeclarations": [declaration(), declaration("g")]}]), _NEW, text="Duplicate function declaration found: f"),
    Case("GEM-13", "additional-properties", "gemini", gemini_schema({"type": "OBJECT", "additionalProperties": False}), gemini_schema({"type": "OBJECT"}), _NEW, text="Unknown name \"additionalProperties\" at 'tools[0].function_declarations[0].parameters': Cannot find field."),
    Case("GEM-13", "nested-const", "gemini", _object(a={"anyOf": [{"const": 1}]}), _object(a={"anyOf": [{"type": "STRING"}]}), _NEW, text="parameters.properties[0].value.any_of[0]"),
    Case("GEM-13", "reference", "gemini", _object(a={"$ref": "#/$defs/x"}), _object(a={"type": "string"}), _NEW),
    Case("GEM-13", "keyword-names-as-property-names", "gemini", _object(a={"type": "string", "const": "x"}), _object(const={"type": "string"}), _NEW),
    Case("GEM-14", "type-list", "gemini", _object(a={"type": ["string", "null"]}), _object(a={"type": "string", "nullable": True}), _NEW),
    Case("GEM-15", "integer-enum", "gemini", _object(a={"type": "INTEGER", "enum": [1]}), _object(a={"type": "STRING", "enum": ["1"]}), _NEW, text="enum[0]' (TYPE_STRING), 1"),
    Case("GEM-16", "array-without-items", "gemini", _object(a={"type": "ARRAY"}), _object(a={"type": "ARRAY", "items": {"type": "STRING"}}), _NEW, text="items: missing field."),
    Case("GEM-16", "array-in-empty-properties", "gemini", gemini_schema({"type": "ARRAY"}), gemini_schema({"type": "OBJECT", "properties": {}}), _NEW),
    Case("GEM-16", "empty-enum-value", "gemini", _object(a={"type": "STRING", "enum": [""]}), _object(a={"type": "STRING", "enum": ["x"]}), _NEW),
    Case("GEM-16", "undefined-required", "gemini", gemini_schema({"type": "OBJECT", "required": ["x"]}), gemini_schema({"type": "OBJECT", "properties": {"x": {"type": "STRING"}}, "required": ["x"]}), _NEW),
    Case("GEM-17", "any-of-with-siblings", "gemini", _object(a={"type": "STRING", "anyOf": [{"type": "STRING"}]}), _object(a={"anyOf": [{"type": "STRING"}]}), _NEW),
    Case("GEM-17", "format", "gemini", _object(a={"type": "STRING", "format": "uri"}), _object(a={"type": "STRING", "format": "date-time"}), _NEW),
    Case("GEM-18", "args-is-a-list", "gemini", gemini_loop([fcall(args=[1])], [fresponse()]), _LOOP, _NEW),
    Case("GEM-18", "response-is-a-string", "gemini", gemini_loop([fcall()], [fresponse(response="x")]), _LOOP, _NEW),
    Case("GEM-19", "config-without-functions", "gemini", gemini(_USER, toolConfig=_ANY), gemini(_USER, toolConfig=_ANY, tools=_DECLARED), _NEW),
    Case("GEM-20", "other-name", "gemini", gemini_loop([fcall()], [fresponse("g")]), _LOOP, _NEW),
    Case("GEM-20", "other-id", "gemini", gemini_loop([fcall(id="a")], [fresponse(id="b")]), gemini_loop([fcall(id="a")], [fresponse(id="a")]), _NEW),
    Case("GEM-21", "assistant-role", "gemini", gemini(_USER, content("assistant"), _USER), gemini(_USER, _MODEL, _USER), _NEW, text="Please use a valid role: user, model."),
    Case("GEM-21", "system-role", "gemini", gemini(content("system"), _USER), gemini(_USER, systemInstruction={"parts": [part()]}), _NEW),
    Case("GEM-22", "both-schemas", "gemini", gemini(_USER, tools=[{"functionDeclarations": [declaration(parameters={"type": "OBJECT"}, parametersJsonSchema=SCHEMA)]}]), gemini(_USER, tools=_DECLARED), _NEW),
    Case("GEM-22", "json-schema-root", "gemini", gemini(_USER, tools=[{"functionDeclarations": [declaration(parametersJsonSchema={"properties": {}})]}]), gemini(_USER, tools=[{"functionDeclarations": [declaration(parametersJsonSchema={"type": "object", "$defs": {}, "additionalProperties": False})]}]), _NEW),
    Case("GEM-DOC", "unknown-part-field", "gemini", gemini(content("user", part() | {"bogus": 1})), gemini(content("user", part() | {"thought": False})), _NEW, text="Unknown name \"bogus\" at 'contents[0].parts[0]'"),
    Case("GEM-DOC", "unknown-request-field", "gemini", gemini(_USER, messages=[]), gemini(_USER, generation_config={"max_output_tokens": 9}), _NEW),
    Case("GEM-DOC", "empty-part", "gemini", gemini(content("user", {})), gemini(_USER), _NEW),
    Case("GEM-DOC", "two-kinds-in-one-part", "gemini", gemini(content("user", part() | _BLOB)), gemini(content("user", part(), _BLOB)), _NEW),
    Case("GEM-DOC", "broken-base64", "gemini", gemini(content("user", {"inlineData": {"mimeType": "image/png", "data": "@"}})), gemini(content("user", _BLOB)), _NEW),
    Case("GEM-DOC", "unsupported-image", "gemini", gemini(content("user", {"inlineData": {"mimeType": "image/bmp", "data": "AAAA"}})), gemini(content("user", _BLOB)), _NEW),
    Case("GEM-28", "budget-and-level", "gemini", gemini(_USER, generationConfig={"thinkingConfig": {"thinkingBudget": 1, "thinkingLevel": "LOW"}}), gemini(_USER, generationConfig={"thinkingConfig": {"thinkingLevel": "LOW"}}), _NEW),
    Case("GEM-28", "level-on-an-old-model", "gemini", gemini(_USER, generationConfig={"thinkingConfig": {"thinkingLevel": "LOW"}}), gemini(_USER, generationConfig={"thinkingConfig": {"thinkingBudget": 0}}), _OLD),
    Case("GEM-DOC", "json-beside-functions-on-an-old-model", "gemini", gemini(_USER, tools=_DECLARED, generationConfig={"responseMimeType": "application/json"}), gemini(_USER, generationConfig={"responseMimeType": "application/json"}), _OLD),
    Case("GEM-DOC", "empty-tool", "gemini", gemini(_USER, tools=[{}]), gemini(_USER, tools=[{"googleSearch": {}}]), _NEW),
    Case("GEM-DOC", "allowed-names-outside-any", "gemini", gemini(_USER, tools=_DECLARED, toolConfig={"functionCallingConfig": {"mode": "AUTO", "allowedFunctionNames": ["f"]}}), gemini(_USER, tools=_DECLARED, toolConfig={"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}}), _NEW),
    Case("GEM-JSON", "lone-surrogate", "gemini", gemini(content("user", part("\udfff"))), gemini(_USER), _NEW),
]  # fmt: skip
