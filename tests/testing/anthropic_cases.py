"""Cases of the Anthropic Messages dialect."""

from typing import Any

from tests.testing.cases import (
    SCHEMA,
    USER,
    Body,
    Case,
    assistant,
    claude,
    claude_loop,
    claude_tool,
    text,
    thinking,
    use,
    used,
    user,
)

_OLD = "claude-haiku-4-5"
_ON = {"type": "enabled", "budget_tokens": 1024}
_TOOLS = [claude_tool()]
_TWO = [use(), use("toolu_2")]
_BOTH = [used(), used("toolu_2")]
_IMAGE: Body = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
}
_SEARCH: Body = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
_FOUND: Body = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}


def _schema(**extra: Any) -> Body:
    return claude(USER, tools=[claude_tool(schema=SCHEMA | extra)])


def _opus(*messages: Any) -> Body:
    return claude(*messages, model="claude-opus-5")


def _strict(number: int, schema: Body) -> Body:
    tools = [claude_tool(f"f{each}", schema, strict=True) for each in range(number)]
    return claude(USER, tools=tools)


def _fields(number: int, field: Body, **extra: Any) -> Body:
    return {"type": "object", "properties": {f"p{each}": field for each in range(number)}, **extra}


_STRING: Body = {"type": "string"}
_CLOSED: Body = {"additionalProperties": False}
_NODE: Body = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, **_CLOSED}


def _image(**extra: Any) -> Body:
    return claude(user([_IMAGE | {"source": _IMAGE["source"] | extra}]))


CASES = [
    Case("ANT-01", "result-without-use", "anthropic", claude(user([used()]), tools=_TOOLS), claude_loop(), text="messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1."),
    Case("ANT-01", "result-of-an-earlier-turn", "anthropic", claude(USER, assistant([use()]), user([used()]), assistant("x"), user([used()]), tools=_TOOLS), claude(USER, assistant([use()]), user([used()]), assistant("x"), USER, tools=_TOOLS)),
    Case("ANT-02", "use-without-result", "anthropic", claude(USER, assistant([use()]), USER, tools=_TOOLS), claude_loop(), text="messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1."),
    Case("ANT-02", "one-of-two-results", "anthropic", claude(USER, assistant(_TWO), user([used()]), tools=_TOOLS), claude(USER, assistant(_TWO), user(_BOTH), tools=_TOOLS), text="toolu_2"),
    Case("ANT-02", "use-at-the-end", "anthropic", claude(USER, assistant([use()]), model=_OLD, tools=_TOOLS), claude_loop()),
    Case("ANT-03", "text-before-result", "anthropic", claude(USER, assistant([use()]), user([text(), used()]), tools=_TOOLS), claude(USER, assistant([use()]), user([used(), text()]), tools=_TOOLS)),
    Case("ANT-04", "same-id-twice", "anthropic", claude(USER, assistant([use(), use()]), user([used()]), tools=_TOOLS), claude(USER, assistant(_TWO), user(_BOTH), tools=_TOOLS), text="`tool_use` ids must be unique"),
    Case("ANT-04", "two-results", "anthropic", claude(USER, assistant([use()]), user([used(), used()]), tools=_TOOLS), claude_loop(), text="Found multiple `tool_result` blocks with id: toolu_1"),
    Case("ANT-05", "id-charset", "anthropic", claude(USER, assistant([use("Bash:0")]), user([used("Bash:0")]), tools=_TOOLS), claude_loop(), text="messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"),
    Case("ANT-05", "empty-id", "anthropic", claude(USER, assistant([use("")]), user([used("")]), tools=_TOOLS), claude_loop()),
    Case("ANT-06", "empty-text", "anthropic", claude(user([text("")])), claude(user([text()]))),
    Case("ANT-06", "blank-text", "anthropic", claude(user([text(" \n")])), claude(user([text(" x")]))),
    Case("ANT-06", "blank-string", "anthropic", claude(user(" ")), claude(USER)),
    Case("ANT-06", "empty-text-in-result", "anthropic", claude(USER, assistant([use()]), user([used(content=[text("")])]), tools=_TOOLS), claude(USER, assistant([use()]), user([used(content=[text()])]), tools=_TOOLS)),
    Case("ANT-06", "empty-system-text", "anthropic", claude(USER, system=[text("")]), claude(USER, system=[text()])),
    Case("ANT-07", "empty-user-turn", "anthropic", claude(user([])), claude(user([]), USER), text="messages.0: user messages must have non-empty content"),
    Case("ANT-07", "empty-string", "anthropic", claude(user("")), claude(USER)),
    Case("ANT-07", "empty-assistant-inside", "anthropic", claude(USER, assistant([]), USER), claude(USER, assistant([]))),
    Case("ANT-07", "no-messages", "anthropic", claude(), claude(USER)),
    Case("ANT-08", "prefill", "anthropic", claude(USER, assistant("Sure")), claude(USER, assistant("Sure"), model=_OLD)),
    Case("ANT-09", "trailing-space", "anthropic", claude(USER, assistant("Sure "), model=_OLD), claude(USER, assistant("Sure"), model=_OLD)),
    Case("ANT-10", "loop-without-thinking", "anthropic", claude_loop(model=_OLD, thinking=_ON), claude_loop(thinking(), use(), model=_OLD, thinking=_ON), text="Expected `thinking` or `redacted_thinking`, but found `tool_use`"),
    Case("ANT-10", "adaptive-does-not-ask", "anthropic", claude_loop(model="claude-opus-4-6", thinking=_ON), claude_loop(model="claude-opus-4-6", thinking={"type": "adaptive"})),
    Case("ANT-11", "empty-signature", "anthropic", claude_loop(thinking(""), use()), claude_loop(thinking(), use())),
    Case("ANT-12", "final-thinking", "anthropic", claude(USER, assistant([text(), thinking()]), USER), claude(USER, assistant([thinking(), text()]), USER)),
    Case("ANT-13", "no-signature", "anthropic", claude_loop({"type": "thinking", "thinking": "x"}, use()), claude_loop({"type": "redacted_thinking", "data": "x"}, use()), text="messages.1.content.0.thinking.signature: Field required"),
    Case("ANT-14", "thinking-disabled", "anthropic", claude_loop(thinking(), use(), thinking={"type": "disabled"}), claude_loop(use(), thinking={"type": "disabled"})),
    Case("ANT-14", "thinking-off-by-default", "anthropic", claude_loop(thinking(), use(), model=_OLD), claude(USER, assistant([thinking(), text()]), USER, model=_OLD)),
    Case("ANT-15", "forced-tool", "anthropic", claude_loop(thinking(), use(), model=_OLD, thinking=_ON, tool_choice={"type": "any"}), claude_loop(thinking={"type": "adaptive"}, tool_choice={"type": "any"})),
    Case("ANT-34", "forced-tool", "anthropic", claude_loop(model="claude-opus-5-5", tool_choice={"type": "any"}), claude_loop(model="claude-opus-5-5", tool_choice={"type": "auto"})),
    Case("ANT-32", "thinking-off", "anthropic", claude(USER, model="claude-fable-5", thinking={"type": "disabled"}), claude(USER, model="claude-opus-5", thinking={"type": "disabled"})),
    Case("ANT-16", "tools-missing", "anthropic", claude(USER, assistant([use()]), user([used()]), model="claude-opus-4-1"), claude(USER, assistant([use()]), user([used()]))),
    Case("ANT-17", "tool-name", "anthropic", claude(USER, tools=[claude_tool("fs.read")]), claude(USER, tools=[claude_tool("fs-read")]), text="tools.0.custom.name: String should match pattern"),
    Case("ANT-17", "name-in-history", "anthropic", claude_loop(use(name="fs.read")), claude_loop(use(name="fs_read"))),
    Case("ANT-17", "names-unique", "anthropic", claude(USER, tools=[claude_tool(), claude_tool()]), claude(USER, tools=[claude_tool(), claude_tool("g")])),
    Case("ANT-18", "root-combinator", "anthropic", _schema(oneOf=[{}]), _schema(), text="input_schema does not support oneOf, allOf, or anyOf at the top level"),
    Case("ANT-18", "root-type", "anthropic", _schema(type="string"), _schema()),
    Case("ANT-18", "no-root-type", "anthropic", claude(USER, tools=[claude_tool(schema={"properties": {}})]), claude(USER, tools=[claude_tool(schema={"type": "object"})])),
    Case("ANT-19", "message-key", "anthropic", claude(USER | {"bogus": 1}), claude(USER), text="messages.0.bogus: Extra inputs are not permitted"),
    Case("ANT-19", "top-level-key", "anthropic", claude(USER, n=1), claude(USER)),
    Case("ANT-19", "block-key", "anthropic", claude(user([text() | {"id": "x"}])), claude(user([text() | {"cache_control": {"type": "ephemeral"}}]))),
    Case("ANT-19", "tool-key", "anthropic", claude(USER, tools=[claude_tool(parameters={})]), claude(USER, tools=[claude_tool(strict=True)])),
    Case("ANT-19", "metadata-key", "anthropic", claude(USER, metadata={"x": "y"}), claude(USER, metadata={"user_id": "u"})),
    Case("ANT-19", "cached-thinking", "anthropic", claude_loop(thinking() | {"cache_control": {"type": "ephemeral"}}, use()), claude_loop(thinking(), use())),
    Case("ANT-20", "developer", "anthropic", claude({"role": "developer", "content": "x"}, USER), claude(USER), text='Unexpected role "developer"'),
    Case("ANT-20", "system-at-the-head", "anthropic", _opus({"role": "system", "content": "x"}, USER), _opus(USER, {"role": "system", "content": "x"})),
    Case("ANT-20", "system-before-user", "anthropic", _opus(USER, {"role": "system", "content": "x"}, USER), _opus(USER, {"role": "system", "content": "x"}, assistant("y"), USER), text="messages.1: role 'system' must precede"),
    Case("ANT-20", "blank-system", "anthropic", _opus(USER, {"role": "system", "content": " "}), _opus(USER, {"role": "system", "content": "x"})),
    Case("ANT-20", "empty-system", "anthropic", _opus(USER, {"role": "system", "content": []}), _opus(USER, {"role": "system", "content": [text()]})),
    Case("ANT-20", "image-in-system", "anthropic", _opus(USER, {"role": "system", "content": [_IMAGE]}), _opus(USER, {"role": "system", "content": [text()]})),
    Case("ANT-20", "system-on-an-old-model", "anthropic", claude(USER, {"role": "system", "content": "x"}, model=_OLD), claude(USER, system="x", model=_OLD)),
    Case("ANT-21", "assistant-first", "anthropic", claude(assistant("x"), USER, model="claude-opus-4-1"), claude(assistant("x"), USER)),
    Case("ANT-22", "lone-surrogate", "anthropic", claude(user("a\ud83d")), claude(user("a\U0001f600")), text="The request body is not valid JSON: no low surrogate in string: line 1 column"),
    Case("ANT-22", "infinity", "anthropic", claude(USER, top_p=float("inf"), model=_OLD), claude(USER, top_p=1, model=_OLD)),
    Case("ANT-23", "input-is-a-list", "anthropic", claude_loop(use(arguments=[1])), claude_loop(use(arguments={"a": 1}))),
    Case("ANT-24", "server-result-alone", "anthropic", claude(USER, assistant([_FOUND, text()]), USER), claude(USER, assistant([_SEARCH, _FOUND, text()]), USER), text="must have a corresponding `server_tool_use` block before it"),
    Case("ANT-24", "server-use-alone", "anthropic", claude(USER, assistant([_SEARCH, text()]), USER), claude(USER, assistant([_SEARCH, _FOUND, text()]), USER)),
    Case("ANT-25", "null-tools", "anthropic", claude(USER, tools=None), claude(USER, tools=_TOOLS), text="tools: Input should be a valid array"),
    Case("ANT-25", "null-choice", "anthropic", claude(USER, tools=_TOOLS, tool_choice=None), claude(USER, tools=_TOOLS, tool_choice={"type": "auto"}), text="tool_choice: Input should be an object"),
    Case("ANT-25", "null-content", "anthropic", claude(user(None)), claude(USER), text="messages.0.content: Input should be a valid array"),
    Case("ANT-25", "no-limit", "anthropic", {"model": "claude-sonnet-5", "messages": [USER]}, claude(USER), text="max_tokens: Field required"),
    Case("ANT-25", "null-system", "anthropic", claude(USER, system=None), claude(USER, system="x")),
    Case("ANT-26", "empty-result-list", "anthropic", claude(USER, assistant([use()]), user([used(content=[])]), tools=_TOOLS), claude(USER, assistant([use()]), user([{"type": "tool_result", "tool_use_id": "toolu_1"}]), tools=_TOOLS)),
    Case("ANT-DOC", "property-keys", "anthropic", _schema(properties={"a b": {}}), _schema(properties={"a.b": {}}), text="Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"),
    Case("ANT-DOC", "schema-draft", "anthropic", _schema(properties={"a": {"type": "strin"}}), _schema(properties={"a": {"type": ["string", "null"]}}), text="It must match JSON Schema draft 2020-12"),
    Case("ANT-DOC", "tuple-items", "anthropic", _schema(properties={"a": {"items": [{}]}}), _schema(properties={"a": {"prefixItems": [{}]}})),
    Case("ANT-33", "fixed-budget-on-new-model", "anthropic", claude(USER, thinking=_ON), claude(USER, thinking={"type": "adaptive"}), text='"thinking.type.enabled" is not supported for this model.'),
    Case("ANT-33", "fixed-budget-on-opus-4-7", "anthropic", claude(USER, model="claude-opus-4-7", thinking=_ON), claude(USER, model="claude-opus-4-6", thinking=_ON)),
    Case("ANT-DOC", "adaptive-on-old-model", "anthropic", claude(USER, model=_OLD, thinking={"type": "adaptive"}), claude(USER, model=_OLD, thinking=_ON)),
    Case("ANT-DOC", "small-budget", "anthropic", claude(USER, model=_OLD, thinking=_ON | {"budget_tokens": 1023}), claude(USER, model=_OLD, thinking=_ON)),
    Case("ANT-DOC", "budget-above-limit", "anthropic", claude(USER, model=_OLD, thinking=_ON | {"budget_tokens": 4096}), claude(USER, model=_OLD, thinking=_ON), text="`max_tokens` must be greater than `thinking.budget_tokens`"),
    Case("ANT-DOC", "temperature-with-thinking", "anthropic", claude(USER, model=_OLD, thinking=_ON, temperature=0.5), claude(USER, model=_OLD, thinking=_ON, temperature=1)),
    Case("ANT-35", "temperature-on-new-model", "anthropic", claude(USER, temperature=0), claude(USER, temperature=0, model=_OLD), text="`temperature` is deprecated for this model."),
    Case("ANT-DOC", "temperature-range", "anthropic", claude(USER, temperature=1.5, model=_OLD), claude(USER, temperature=1, model=_OLD), text="temperature: range: 0..1"),
    Case("ANT-DOC", "media-type", "anthropic", _image(media_type="image/tiff"), _image()),
    Case("ANT-DOC", "broken-base64", "anthropic", _image(data="@"), _image()),
    Case("ANT-DOC", "image-of-assistant", "anthropic", claude(USER, assistant([_IMAGE]), USER), claude(user([_IMAGE]))),
    Case("ANT-DOC", "use-of-user", "anthropic", claude(user([use()]), tools=_TOOLS), claude_loop()),
    Case("ANT-DOC", "unknown-block", "anthropic", claude(user([{"type": "think"}])), claude(user([text()]))),
    Case("ANT-DOC", "choice-without-tools", "anthropic", claude(USER, tool_choice={"type": "auto"}), claude(USER, tools=_TOOLS, tool_choice={"type": "auto"})),
    Case("ANT-DOC", "choice-of-unknown-tool", "anthropic", claude(USER, tools=_TOOLS, tool_choice={"type": "tool", "name": "g"}), claude(USER, tools=_TOOLS, tool_choice={"type": "tool", "name": "f"})),
    Case("ANT-44", "too-many-breakpoints", "anthropic", claude(user([text() | {"cache_control": {"type": "ephemeral"}}] * 5)), claude(user([text() | {"cache_control": {"type": "ephemeral"}}] * 4))),
    Case("ANT-36", "effort-word", "anthropic", claude(USER, model="claude-opus-4-6", output_config={"effort": "xhigh"}), claude(USER, model="claude-opus-4-6", output_config={"effort": "max"}), text="This model does not support effort level 'xhigh'. Supported levels: high, low, max, medium."),
    Case("ANT-36", "no-effort-at-all", "anthropic", claude(USER, model=_OLD, output_config={"effort": "low"}), claude(USER, model=_OLD), text="This model does not support the effort parameter."),
    Case("ANT-25", "schema-one-level-too-deep", "anthropic", claude(USER, output_config={"format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}}), claude(USER, output_config={"format": {"type": "json_schema", "schema": {"type": "object", "additionalProperties": False}}}), text="output_config.format.schema: Field required"),
    Case("ANT-43", "open-schema-of-the-answer", "anthropic", claude(USER, output_config={"format": {"type": "json_schema", "schema": {"type": "object"}}}), claude(USER, output_config={"format": {"type": "json_schema", "schema": {"type": "object", "additionalProperties": False}}}), text="'additionalProperties' must be explicitly set to false"),
    Case("ANT-42", "strict-tools", "anthropic", _strict(21, _fields(0, _STRING, **_CLOSED)), _strict(20, _fields(0, _STRING, **_CLOSED)), text="Too many strict tools (21)."),
    Case("ANT-42", "optional-parameters", "anthropic", _strict(5, _fields(5, _STRING, **_CLOSED)), _strict(4, _fields(6, _STRING, **_CLOSED)), text="too many optional parameters (25)"),
    Case("ANT-42", "union-parameters", "anthropic", _strict(17, _fields(1, {"type": ["string", "null"]}, required=["p0"], **_CLOSED)), _strict(16, _fields(1, {"type": ["string", "null"]}, required=["p0"], **_CLOSED)), text="too many parameters with union types (17"),
    Case("ANT-42", "one-schema-with-many-unions", "anthropic", _strict(1, _fields(16, {"type": ["string", "null"]}, required=[f"p{n}" for n in range(16)], **_CLOSED)), _strict(1, _fields(15, {"type": ["string", "null"]}, required=[f"p{n}" for n in range(15)], **_CLOSED)), text="Schema is too complex"),
    Case("ANT-43", "circle", "anthropic", _strict(1, _NODE | {"required": ["next"], "$defs": {"Node": _NODE | {"required": ["next"]}}}), _strict(1, _fields(1, _STRING, required=["p0"], **_CLOSED)), text="Circular reference detected in schema definitions: Node"),
    Case("ANT-43", "boolean-schema", "anthropic", _strict(1, {"type": "object", "properties": {"a": True}, "required": ["a"], **_CLOSED}), _strict(1, _fields(1, _STRING, required=["p0"], **_CLOSED))),
]  # fmt: skip
