"""Anthropic's own words.

``ANT-DOC`` marks a requirement of the published API that has no row of its own in the catalogue:
required members, types and ranges, the final block, cache breakpoints, deprecated sampling
parameters, property keys and the draft of tool schemas.
"""

from multi_llm_chat.testing.validators.violation import Violation, Wording

_DIRECTIVE = "the directive-only form (content: [] with output_config) is accepted at any position"

ORPHAN_RESULT = Wording(
    "ANT-01",
    "messages.{index}.content.{position}: unexpected `tool_use_id` found in `tool_result` blocks: "
    "{identifier}. Each `tool_result` block must have a corresponding `tool_use` block in the "
    "previous message.",
)
_UNANSWERED = (
    "messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: "
    "{identifiers}. Each `tool_use` block must have a corresponding `tool_result` block in the "
    "next message."
)
UNANSWERED_USE = Wording("ANT-02", _UNANSWERED)
LATE_RESULT = Wording("ANT-03", _UNANSWERED)
DUPLICATE_USE = Wording(
    "ANT-04", "messages.{index}.content.{position}: `tool_use` ids must be unique"
)
DUPLICATE_RESULT = Wording(
    "ANT-04",
    "messages.{index}.content.{position}: each tool_use must have a single result. Found multiple "
    "`tool_result` blocks with id: {identifier}",
)
IDENTIFIER = Wording("ANT-05", "{path}: String should match pattern '^[a-zA-Z0-9_-]+$'")
EMPTY_TEXT = Wording("ANT-06", "{place}: text content blocks must be non-empty")
BLANK_TEXT = Wording("ANT-06", "{place}: text content blocks must contain non-whitespace text")
EMPTY_USER = Wording("ANT-07", "messages.{index}: user messages must have non-empty content")
EMPTY_ASSISTANT = Wording(
    "ANT-07",
    "messages.{index}: all messages must have non-empty content except for the optional final "
    "assistant message",
)
PREFILL = Wording(
    "ANT-08",
    "This model does not support assistant message prefill. The conversation must end with a user "
    "message.",
)
TRAILING_SPACE = Wording(
    "ANT-09", "messages: final assistant content cannot end with trailing whitespace"
)
THINKING_MISSING = Wording(
    "ANT-10",
    "messages.{index}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
    "`{found}`. When `thinking` is enabled, a final `assistant` message must start with a thinking "
    "block (preceeding the lastmost set of `tool_use` and `tool_result` blocks). We recommend you "
    "include thinking blocks from previous turns. To avoid this requirement, disable `thinking`.",
)
SIGNATURE = Wording(
    "ANT-11", "messages.{index}.content.{position}: Invalid `signature` in `thinking` block"
)
FINAL_THINKING = Wording(
    "ANT-12", "messages.{index}: The final block in an assistant message cannot be `thinking`."
)
THINKING_DISABLED = Wording(
    "ANT-14",
    "messages.{index}.content.{position}: When thinking is disabled, an `assistant` message in the "
    "final position cannot contain `thinking`. To use thinking blocks, enable `thinking` in your "
    "request.",
)
FORCED_TOOL = Wording("ANT-15", "Thinking may not be enabled when tool_choice forces tool use.")
FORCED_TOOL_REFUSED = Wording(
    "ANT-34", 'tool_choice: type "tool" and "any" are not supported for this model.'
)
TOOLS_MISSING = Wording(
    "ANT-16", "Requests which include `tool_use` or `tool_result` blocks must define tools"
)
TOOL_NAME = Wording("ANT-17", "{path}: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
TOOL_NAMES_UNIQUE = Wording("ANT-17", "tools: Tool names must be unique.")
SCHEMA_ROOT = Wording(
    "ANT-18",
    "{path}: input_schema does not support oneOf, allOf, or anyOf at the top level",
)
SCHEMA_TYPE = Wording("ANT-18", "{path}.type: {reason}")
SCHEMA_KEYS = Wording(
    "ANT-DOC",
    "{path}.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$'",
)
SCHEMA_DRAFT = Wording(
    "ANT-DOC",
    "{path}: JSON schema is invalid. It must match JSON Schema draft 2020-12 "
    "(https://json-schema.org/draft/2020-12). Learn more about tool use at "
    "https://docs.claude.com/en/docs/tool-use.",
)
EXTRA = Wording("ANT-19", "{path}: Extra inputs are not permitted")
ROLE = Wording(
    "ANT-20", 'messages: Unexpected role "{role}". Allowed roles are "user" or "assistant"'
)
SYSTEM_ROLE = Wording(
    "ANT-20",
    'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter, '
    'not "system" as an input message role.',
)
SYSTEM_HEAD = Wording(
    "ANT-20",
    "messages.{index}: use the top-level 'system' parameter for the initial system prompt; "
    + _DIRECTIVE,
)
SYSTEM_PLACE = Wording(
    "ANT-20",
    "messages.{index}: role 'system' must precede an 'assistant' message or end the array; "
    + _DIRECTIVE,
)
SYSTEM_EMPTY = Wording("ANT-20", "messages.{index}: system content must contain at least one block")
SYSTEM_BLANK = Wording(
    "ANT-20", "messages.{index}: system text blocks must contain non-whitespace text"
)
SYSTEM_BLOCKS = Wording(
    "ANT-20",
    "messages.{index}: role 'system' supports text, tool_addition, and tool_removal blocks only",
)
FIRST_ROLE = Wording("ANT-21", 'messages: first message must use the "user" role')
INPUT_OBJECT = Wording("ANT-23", "{path}: Input should be an object")
ORPHAN_SERVER_RESULT = Wording(
    "ANT-24",
    "messages.{index}.content.{position}: unexpected `tool_use_id` found in `{kind}` blocks: "
    "{identifier}. Each `{kind}` block must have a corresponding `server_tool_use` block before "
    "it.",
)
SERVER_USE = Wording(
    "ANT-24",
    "messages.{index}: `{name}` tool use with id `{identifier}` was found without a corresponding "
    "`{name}_tool_result` block",
)
REQUIRED = Wording("ANT-25", "{path}: Field required")
TYPE = Wording("ANT-25", "{path}: {reason}")
EMPTY_RESULT = Wording("ANT-26", "{path}: List should have at least 1 item after validation, not 0")
BLOCK_ROLE = Wording(
    "ANT-DOC", "messages.{index}: `{kind}` blocks can only be in `{role}` messages"
)
BLOCK_KIND = Wording(
    "ANT-DOC",
    "{path}: Input tag '{kind}' found using 'type' does not match any of the expected tags: "
    "{expected}",
)
VALUE = Wording("ANT-DOC", "{path}: {reason}")
MESSAGES_EMPTY = Wording("ANT-07", "messages: at least one message is required")
DEPRECATED = Wording("ANT-35", "`{name}` is deprecated for this model.")
SAMPLING_THINKING = Wording(
    "ANT-DOC",
    "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode. Please "
    "consult our documentation at https://docs.claude.com/en/docs/build-with-claude/"
    "extended-thinking#important-considerations-when-using-extended-thinking",
)
TOP_K_THINKING = Wording("ANT-DOC", "`top_k` must be unset when thinking is enabled.")
TOP_P_THINKING = Wording(
    "ANT-DOC",
    "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled.",
)
BUDGET_LIMIT = Wording(
    "ANT-DOC",
    "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation "
    "at https://docs.claude.com/en/docs/build-with-claude/extended-thinking"
    "#max-tokens-and-context-window-size",
)
THINKING_TYPE = (
    '"thinking.type.{kind}" is not supported for this model. Use "thinking.type.adaptive" and '
    '"output_config.effort" to control thinking behavior.'
)
THINKING_ADAPTIVE_TYPE = Wording("ANT-DOC", "adaptive thinking is not supported on this model")
CACHE_BREAKPOINTS = Wording(
    "ANT-44",
    "A maximum of 4 blocks with cache_control may be provided. Found {count}.",
)
CACHE_EMPTY = Wording("ANT-DOC", "{path}: cache_control cannot be set for empty text blocks")
CHOICE_WITHOUT_TOOLS = Wording(
    "ANT-DOC", "tool_choice: tool_choice may only be specified while providing tools"
)
CHOICE_UNKNOWN = Wording("ANT-DOC", "tool_choice: Tool '{name}' not found in provided tools")


def wrong_type(path: str, kind: str) -> Violation:
    """The sentence for a member of the wrong JSON type."""
    return TYPE.fill(path=path, reason=_KINDS[kind])


_KINDS = {
    "string": "Input should be a valid string",
    "integer": "Input should be a valid integer",
    "decimal": "Input should be a valid number",
    "boolean": "Input should be a valid boolean",
    "array": "Input should be a valid array",
    "object": "Input should be an object",
    "shape": "Input does not match the expected shape.",
}


# Strict schemas.

STRICT_TOOLS = Wording(
    "ANT-42",
    "Too many strict tools ({count}). The maximum number of strict tools supported is 20.",
)
STRICT_OPTIONAL = Wording(
    "ANT-42",
    "Schemas contains too many optional parameters ({count}), which would make grammar compilation "
    "inefficient. Reduce the number of optional parameters in your tool schemas (limit: 24).",
)
STRICT_UNIONS = Wording(
    "ANT-42",
    "Schemas contains too many parameters with union types ({count} parameters with type arrays or "
    "anyOf). This causes exponential compilation cost. Reduce the number of nullable or "
    "union-typed parameters (limit: 16 parameters with unions).",
)
STRICT_COMPLEX = Wording(
    "ANT-42",
    "Schema is too complex for compilation. Try reducing the number of tools or simplifying tool "
    "schemas.",
)
STRICT_CIRCLE = Wording(
    "ANT-43",
    "{path}: Invalid schema: Circular reference detected in schema definitions: {name} -> {name}. "
    "Self-referencing or mutually-referencing definitions are not supported.",
)
STRICT_BOOLEAN = Wording(
    "ANT-43", "{path}: For 'object' type, property 'properties' is not supported"
)

# Effort.

EFFORT = Wording(
    "ANT-36",
    "This model does not support effort level '{effort}'. Supported levels: {supported}.",
)
EFFORT_UNKNOWN = Wording("ANT-36", "This model does not support the effort parameter.")
FORMAT_OPEN = Wording(
    "ANT-43",
    "{path}: For 'object' type, 'additionalProperties' must be explicitly set to false",
)
