"""The texts by which providers reject a request, and the stronger repair that answers each.

Rules:
1. A row is a pattern, the id of the rule it betrays, and the repair that makes a second try legal.
2. The first row that matches decides: rows about thinking stand before rows about tools, because
   their texts often speak of both.
3. A text that no row knows gets no repair: the request is not sent again.

Repairs:
    drop_thinking      send no thinking, signature, reasoning text or encrypted reasoning at all
    disable_thinking   as above, and turn the model's thinking off for this request
    reasoning_none     send ``reasoning_effort: "none"`` (tools and reasoning exclude each other)
    flatten_tools      write all tool exchanges of the history as text, so that nothing needs a pair
    drop_tools         as above, and offer no tools: the server cannot take any
    shorten_ids        give every call a new id of nine letters and digits
    rename_tools       give every tool, offered or in the history, a plain name
    plain_schemas      send only types, properties and descriptions of the tools' schemas
    alternate          merge and fill turns: strictly user and model in turn, user first and last
    drop_options       leave out every optional setting, and let the model choose its tool
    drop_media         replace pictures, sounds and files by a note
    resend             send the same again: the model's own output failed, not the request
"""

import re
from typing import Final, NamedTuple


class Rejection(NamedTuple):
    """A known reason for which a request was rejected."""

    rule: str
    repair: str


_ROWS: Final[tuple[tuple[str, str, str], ...]] = (
    # The model's own call was refused by the server: not a fault of the history.
    (r"failed to call a function|tool_use_failed|failed_generation", "GRQ-04", "resend"),
    (r"tool call validation failed|did not match schema: errors", "GRQ-04", "resend"),
    # Thinking that is missing, foreign or changed.
    (r"expected `?(redacted_)?thinking`?.{0,40}but found", "ANT-10", "disable_thinking"),
    (r"must be passed back to the api", "DSK-01", "disable_thinking"),
    (r"missing `?reasoning_content`? field", "DSK-01", "disable_thinking"),
    (r"thinking may not be enabled when tool_choice", "ANT-15", "drop_options"),
    (r"invalid `?signature`? in `?thinking`?", "ANT-11", "drop_thinking"),
    (r"thinking`? (or `?redacted_thinking`? )?blocks.{0,60}cannot be modified", "ANT-12", "drop_thinking"),
    (r"thinking\.signature: field required", "ANT-13", "drop_thinking"),
    (r"when thinking is disabled.{0,60}cannot contain thinking", "ANT-14", "drop_thinking"),
    (r"thought[_ ]signature", "GEM-06", "drop_thinking"),
    (r"required following item", "RSP-03", "drop_thinking"),
    (r"without its required 'reasoning' item", "RSP-04", "drop_thinking"),
    (r"encrypted[_ ]content", "RSP-05", "drop_thinking"),
    (r"item with id '?\w+'? not found|not persisted when", "RSP-06", "drop_thinking"),
    (r"reasoning_content'? is unsupported|reasoning_content.{0,40}(not permitted|unsupported)", "GRQ-01", "drop_thinking"),
    (r"(reasoning|thinking_blocks|reasoning_details)'? is unsupported", "GRQ-01", "drop_thinking"),
    (r"invalid value: '(think|thinking|reasoning|redacted_thinking)'", "OAI-11", "drop_thinking"),
    (r"function tools with reasoning_effort are not supported", "OAI-16", "reasoning_none"),
    # The server cannot take tools at all.
    (r"enable-auto-tool-choice|tool-call-parser", "VLL-04", "drop_tools"),
    (r"tools param requires --jinja", "LCP-05", "drop_tools"),
    (r"(does not|doesn't|do not) support (tools|tool use|function call)", "OLL-09", "drop_tools"),
    (r"no endpoints found that support tool use", "ORT-05", "drop_tools"),
    (r"(tools|tool_calls)': array too long", "OAI-13", "drop_tools"),
    # Ids and names.
    (r"tool_calls\[\d+\]\.id'?: string too long", "OAI-07", "shorten_ids"),
    (r"tool call ids? (was|should be)", "MIS-01", "shorten_ids"),
    (r"tool_use\.id: string should match", "ANT-05", "shorten_ids"),
    (r"duplicate tool call id|tool_use`? ids must be unique", "ANT-04", "shorten_ids"),
    (r"have a single result\. found multiple", "ANT-04", "shorten_ids"),
    (r"call_id'?: string too long", "RSP-07", "shorten_ids"),
    (r"\.name: string should match pattern|tool names must be unique", "ANT-17", "rename_tools"),
    (r"name'?: (string|empty string).{0,40}(pattern|too long|minimum length)", "OAI-08", "rename_tools"),
    (r"invalid function name|duplicate function declaration", "GEM-11", "rename_tools"),
    (r"function name was .{0,300}but must be", "MIS-09", "rename_tools"),
    # Schemas.
    (r"invalid schema for function|invalid tool schema|input_schema", "OAI-14", "plain_schemas"),
    (r"unknown name .{0,80} at 'tools|function_declarations", "GEM-13", "plain_schemas"),
    (r"proto field is not repeating|items: missing field|non-empty for object type", "GEM-14", "plain_schemas"),
    (r"mixed values for 'strict'|strict=true are not supported", "CER-02", "plain_schemas"),
    (r"json schema conversion failed|failed to parse grammar", "LCP-07", "plain_schemas"),
    # Calls and results that do not pair, or whose arguments cannot be read.
    (r"must be a response to a prece?eding message|messages? with role 'tool'", "OAI-01", "flatten_tools"),
    (r"must be followed by tool messages|insufficient tool messages", "OAI-02", "flatten_tools"),
    (r"no tool output found for function call", "RSP-01", "flatten_tools"),
    (r"no tool call found for function call output", "RSP-02", "flatten_tools"),
    (r"unexpected `?tool_use_id`? found", "ANT-01", "flatten_tools"),
    (r"were found without `?tool_result`? blocks", "ANT-02", "flatten_tools"),
    (r"toolconfig field must be defined|requires `?tools`? when messages", "ANT-16", "flatten_tools"),
    (r"function response turn comes immediately after", "GEM-02", "flatten_tools"),
    (r"number of function response parts is equal", "GEM-03", "flatten_tools"),
    (r"not the same number of function calls|unexpected tool call id", "MIS-02", "flatten_tools"),
    (r"failed to parse tool call arguments|invalid tool call arguments", "LCP-01", "flatten_tools"),
    (r"only supports single tool-calls at once", "VLL-06", "flatten_tools"),
    (r"tool message outside of assistant|no previous assistant message with a tool call", "LCP-06", "flatten_tools"),
    (r"unexpected role 'tool'", "MIS-04", "flatten_tools"),
    (r"(unterminated string starting at|expecting value): line \d+ column", "VLL-01", "flatten_tools"),
    # The order of the turns.
    (r"function call turn comes immediately after", "GEM-01", "alternate"),
    (r"(assistant message prefill|must end with a user message)", "ANT-08", "alternate"),
    (r"requests end with a user role|expected last role user", "GEM-09", "alternate"),
    (r"roles must alternate|successive user or assistant messages", "VLL-06", "alternate"),
    (r"unexpected role '?\w+'? after role", "MIS-06", "alternate"),
    (r"(2|two) or more assistant messages at the end", "LCP-04", "alternate"),
    (r"system message must be at the beginning|no user query found", "LCP-06", "alternate"),
    # Settings and media.
    (r"tool_choice`?.{0,40}(tools`? must be set|does not match)|requested tool does not exist", "VLL-03", "drop_options"),
    (r"no function named '.{0,80}' was specified", "OAI-15", "drop_options"),
    (r"unsupported (parameter|value): '", "OAI-19", "drop_options"),
    (r"(unknown|unrecognized) (parameter|request argument)", "OAI-12", "drop_options"),
    (r"property '[\w.]+' is unsupported", "GRQ-02", "drop_options"),
    (r"extra inputs are not permitted|extra_forbidden", "MIS-11", "drop_options"),
    (r"image input is not supported|image urls are not currently supported|invalid image input", "LCP-08", "drop_media"),
    (r"unsupported content\[\]\.type|does not support (image|vision|audio|video)", "LCP-03", "drop_media"),
)  # fmt: skip

_CATALOGUE: Final = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), Rejection(rule, repair))
    for pattern, rule, repair in _ROWS
)

#: Every repair that a row may name.
REPAIRS: Final = frozenset(repair for _, _, repair in _ROWS)


def find_rejection(text: str) -> Rejection | None:
    """Look a provider's error text up; ``None`` if no row knows it."""
    for pattern, rejection in _CATALOGUE:
        if pattern.search(text):
            return rejection
    return None
