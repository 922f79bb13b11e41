"""How each compatible row words its faults where its words are not OpenAI's."""

from multi_llm_chat.testing.validators.chat.faults import COMPATIBLE, OPENAI
from multi_llm_chat.testing.validators.violation import Wording, silent

_GROQ = "'messages.{index}' : for 'role:{role}' the following must be satisfied[('messages.{index}"

GROQ = COMPATIBLE | {
    "request_key": Wording("GRQ-02", "property '{key}' is unsupported", "{key}"),
    "message_key": Wording("GRQ-01", _GROQ + "' : property '{key}' is unsupported)]"),
    "message_key_null": Wording("GRQ-03", _GROQ + ".{key}' : value must not be null)]"),
    "content_null": Wording("OAI-09", _GROQ + ".content' : value must be a string)]"),
    "part_key": Wording("GRQ-01", "'{path}' : property '{key}' is unsupported"),
    "call_key": Wording("GRQ-01", "'{path}' : property '{key}' is unsupported"),
    "tool_key": Wording("GRQ-02", "'{path}' : property '{key}' is unsupported"),
    "choice_unknown": Wording(
        "GRQ-06", "requested tool does not exist: '{name}'", "tool_choice", "tool_use_failed"
    ),
    "tools_many": Wording("GRQ-07", OPENAI["tools_many"].message, "tools"),
    "pictures_unsupported": Wording(
        "OAI-11", "messages[{index}].content must be a string", "messages[{index}].content"
    ),
    "functions_unsupported": Wording(
        "OAI-DOC", "`tool calling` is not supported with this model", "tool calling"
    ),
    "schema_unsupported": Wording(
        "OAI-DOC", "This model does not support response format `json_schema`.", "response_format"
    ),
    "schema_missing": Wording(
        "OAI-DOC",
        "code=400, message=json schema is required, type=invalid_request_error",
        "response_format",
    ),
}
del GROQ["arguments_object"]  # GRQ-08: "null" is accepted

_CEREBRAS_KEY = "property '{path}.{key}' is unsupported"
CEREBRAS = COMPATIBLE | {
    "request_key": Wording(
        "CER-01", "{key}: property '{key}' is unsupported", "{key}", "wrong_api_format"
    ),
    "message_key": Wording(
        "CER-01",
        "messages.{index}.{role}.{key}: property 'messages.{index}.{role}.{key}' is unsupported",
        "messages.{index}.{role}.{key}",
        "wrong_api_format",
    ),
    "reasoning_field": Wording(
        "ZAI-04",
        "messages.{index}.assistant.reasoning: property 'messages.{index}.assistant.reasoning' is unsupported",
        "messages.{index}.assistant.reasoning",
        "wrong_api_format",
    ),
    "part_key": Wording("CER-01", _CEREBRAS_KEY, "{path}.{key}", "wrong_api_format"),
    "call_key": Wording("CER-01", _CEREBRAS_KEY, "{path}.{key}", "wrong_api_format"),
    "tool_key": Wording("CER-01", _CEREBRAS_KEY, "{path}.{key}", "wrong_api_format"),
    "content_null": Wording(
        "CER-03", "'NoneType' object is not iterable", "messages", "wrong_api_format"
    ),
    "content_null_beside_calls": Wording(
        "CER-03", "'NoneType' object is not iterable", "messages", "wrong_api_format"
    ),
    "content_list": Wording(
        "CER-03",
        "messages.{index}.{role}.content: Input should be a valid string",
        "messages.{index}.{role}.content",
        "wrong_api_format",
    ),
    "strict_mixed": Wording(
        "CER-02",
        "Tools with mixed values for 'strict' are not allowed. Please set all tools to "
        "'strict: true' or 'strict: false'",
        "tools",
        "wrong_api_format",
        422,
    ),
}

_EXTRA = "Extra inputs are not permitted, field: "
FIREWORKS = COMPATIBLE | {
    "request_key": Wording("FWK-01", _EXTRA + "'{key}'"),
    "message_key": Wording("FWK-01", _EXTRA + "'messages[{index}].{key}'"),
    "part_key": Wording("FWK-01", _EXTRA + "'{path}.{key}'"),
    "call_key": Wording("FWK-01", _EXTRA + "'{path}.{key}'"),
    "tool_key": Wording("FWK-02", _EXTRA + "'{path}.{key}'"),
    "part_type": Wording("FWK-02", "Unsupported content part type '{value}', field: '{path}'"),
    "choice_value": Wording(
        "FWK-02", "Input should be {supported}, field: 'tool_choice', value: '{value}'"
    ),
    "tools_with_format": Wording(
        "FWK-02", "You cannot specify response format and function call at the same time"
    ),
    "thinking_with_effort": Wording(
        "FWK-02", "Only one of 'thinking' and 'reasoning_effort' can be specified"
    ),
    "schema_definitions": Wording(
        "FWK-02", "JSON Schema not supported: '$defs', field: 'tools[{index}].function.parameters'"
    ),
}

_MISTRAL_NAME = (
    "Function name was {name} but must be a-z, A-Z, 0-9, or contain underscores and dashes, with a "
    "maximum length of 64."
)
_INVALID_CALL = "3280"
_INVALID_ORDER = "3230"


def _forbidden(rule: str, location: str) -> Wording:
    return Wording(rule, "Extra inputs are not permitted", location, "extra_forbidden", 422)


MISTRAL = {
    fault: COMPATIBLE[fault]
    for fault in (
        "body_type",
        "messages_type",
        "message_type",
        "role_missing",
        "role_value",
        "content_type",
        "part_object",
        "part_type_missing",
        "part_type",
        "part_member_missing",
        "part_member_type",
        "tool_part_type",
        "image_role",
        "image_address",
        "image_base64",
        "calls_type",
        "call_type",
        "call_function_missing",
        "call_name_missing",
        "call_name_type",
        "arguments_missing",
        "arguments_type",
        "arguments_json",
        "tools_type",
        "tool_object",
        "tool_kind",
        "tool_function_missing",
        "tool_name_missing",
        "tool_name_type",
        "tool_member_type",
    )
} | {
    "model_missing": Wording("MIS-DOC", "Field required", "body.model", "missing", 422),
    "messages_missing": Wording("MIS-DOC", "Field required", "body.messages", "missing", 422),
    "messages_empty": Wording(
        "MIS-DOC", "Conversation must have at least one message", code=_INVALID_ORDER
    ),
    "request_key": _forbidden("MIS-11", "body.{key}"),
    "message_key": _forbidden("MIS-11", "body.messages.{index}.{role}.{key}"),
    "message_key_null": _forbidden("MIS-11", "body.messages.{index}.{role}.{key}"),
    "part_key": _forbidden("MIS-11", "body.{path}.{key}"),
    "call_key": _forbidden("MIS-11", "body.{path}.{key}"),
    "tool_key": _forbidden("MIS-11", "body.{path}.{key}"),
    "content_null": Wording(
        "MIS-11",
        "Input should be a valid string",
        "body.messages.{index}.{role}.content",
        "string_type",
        422,
    ),
    "first_role": Wording(
        "MIS-DOC",
        "Conversation must start with a user message or system message",
        code=_INVALID_ORDER,
    ),
    "last_role": Wording(
        "MIS-07",
        "Expected last role User or Tool (or Assistant with prefix) for serving but got {role}",
        code=_INVALID_ORDER,
    ),
    "role_order_tool": Wording(
        "MIS-04", "Unexpected role '{current}' after role '{previous}'", code=_INVALID_ORDER
    ),
    "role_order_system": Wording(
        "MIS-05", "Unexpected role '{current}' after role '{previous}'", code=_INVALID_ORDER
    ),
    "counts_differ": Wording(
        "MIS-02", "Not the same number of function calls and responses", code=_INVALID_ORDER
    ),
    "call_id_duplicate": Wording(
        "MIS-03",
        "Duplicate tool call id {identifier} in assistant message",
        code=_INVALID_ORDER,
    ),
    "result_duplicate": Wording(
        "MIS-03", "Duplicate tool call id {identifier} in tool results", code=_INVALID_ORDER
    ),
    "result_unexpected": Wording(
        "MIS-03", "Unexpected tool call id {identifier} in tool results", code=_INVALID_ORDER
    ),
    "identifier_missing": Wording("MIS-01", "Tool call id has to be defined.", code=_INVALID_CALL),
    "identifier_form": Wording(
        "MIS-01",
        "Tool call id was {identifier} but must be a-z, A-Z, 0-9, with a length of 9.",
        code=_INVALID_CALL,
    ),
    "assistant_empty": Wording(
        "MIS-08",
        "Assistant message must have either content or tool_calls, but not none.",
        code="3240",
    ),
    "assistant_both": Wording(
        "MIS-08",
        "Assistant message must have either content or tool_calls, but not both.",
        code="3240",
    ),
    "prefix_place": Wording(
        "MIS-DOC", "Assistant message with prefix True must be last message", code="3240"
    ),
    "name_form": Wording("MIS-09", _MISTRAL_NAME, code=_INVALID_CALL),
    "parameters_missing": Wording(
        "MIS-DOC", "Field required", "body.tools.{index}.function.parameters", "missing", 422
    ),
    "schema_invalid": Wording("MIS-10", "Invalid tool schema: {reason}", code="3250"),
    "audio_disabled": Wording("MIS-15", "Audio input is not enabled for this model", code="3051"),
    "images_disabled": Wording("MIS-15", "Image input is not enabled for this model", code="3051"),
    "schema_keyword": Wording(
        "MIS-13", "Invalid grammar request: '{word}' is not supported", code="3250"
    ),
    "choice_type": Wording("MIS-12", "Input should be {actual}", "body.tool_choice", "enum", 422),
    "choice_value": Wording(
        "MIS-12", "Input should be {supported}", "body.tool_choice", "enum", 422
    ),
    "choice_member_missing": Wording("MIS-12", "Field required", "body.{path}", "missing", 422),
}

_SERDE = "Failed to deserialize the JSON body into the target type: "
DEEPSEEK = COMPATIBLE | {
    "calls_empty": Wording("DSK-03", OPENAI["calls_empty"].message, "{path}", "empty_array"),
    "tools_empty": Wording("DSK-03", OPENAI["tools_empty"].message, "{path}", "empty_array"),
    "result_orphan": Wording(
        "DSK-04",
        "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
    ),
    "call_unanswered": Wording(
        "DSK-04",
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        "each 'tool_call_id'. (insufficient tool messages following tool_calls message)",
    ),
    "reasoning_missing": Wording(
        "DSK-01",
        "Missing `reasoning_content` field in the assistant message at message index {index}. The "
        "`reasoning_content` in the thinking mode must be passed back to the API.",
    ),
    "turns_successive": Wording(
        "DSK-05",
        "deepseek-reasoner does not support successive user or assistant messages "
        "(messages[{first}] and messages[{second}] in your input). You should interleave the "
        "user/assistant messages in the message sequence.",
    ),
    "tool_kind": Wording(
        "DSK-06", _SERDE + "{path}: unknown variant `{value}`, expected `function`"
    ),
    "call_kind": Wording(
        "DSK-06", _SERDE + "{path}: unknown variant `{value}`, expected `function`"
    ),
    "role_value": Wording(
        "OAI-18", _SERDE + "{path}: unknown variant `{value}`, expected one of {supported}"
    ),
    "part_type": Wording(
        "DSK-09", _SERDE + "messages[{index}]: unknown variant `{value}`, expected `text`"
    ),
    "tool_part_type": Wording(
        "DSK-09", _SERDE + "messages[{index}]: unknown variant `{value}`, expected `text`"
    ),
    "image_role": Wording(
        "DSK-09", _SERDE + "messages[{index}]: unknown variant `{value}`, expected `text`"
    ),
    "choice_while_thinking": Wording(
        "DSK-08", "Thinking mode does not support this tool_choice", code="invalid_request_error"
    ),
    "call_name_pattern": Wording("DSK-07", OPENAI["call_name_pattern"].message, "{path}"),
    "tool_name_pattern": Wording("DSK-07", OPENAI["tool_name_pattern"].message, "{path}"),
}

KIMI = COMPATIBLE | {
    "reasoning_missing": Wording(
        "KMI-01",
        "thinking is enabled but reasoning_content is missing in assistant tool call message at "
        "index {index}",
    ),
    "choice_while_thinking": Wording(
        "KMI-02", "tool_choice specified is incompatible with thinking enabled"
    ),
    "effort_refused": Wording("KMI-03", "invalid reasoning_effort: none"),
}
QWEN = COMPATIBLE | {
    "choice_while_thinking": Wording(
        "QWN-01",
        "<400> InternalError.Algo.InvalidParameter: The tool_choice parameter does not support "
        "being set to required or object in thinking mode",
    ),
    "thinking_unstreamed": Wording(
        "QWN-02", "parameter.enable_thinking must be set to false for non-streaming calls"
    ),
    "part_type": Wording("QWN-03", COMPATIBLE["part_type"].message, "{path}", "invalid_value"),
}
GLM = COMPATIBLE | {
    "thinking_refused": Wording(
        "ZAI-01", "thinking cannot be set so: please use low, high, or max"
    ),
    "tokens_range": Wording("ZAI-03", "max_tokens must be in the range [1, 131072]"),
}

XAI = COMPATIBLE | {
    "content_absent": Wording(
        "XAI-01", "Invalid request content: Each message must have at least one content element."
    ),
    "message_key": Wording("XAI-02", "messages[{index}]: unknown field `{key}`"),
    "tool_key": Wording("XAI-02", "{path}: unknown field `{key}`"),
    "parameter_refused": Wording("XAI-02", "Argument not supported on this model: {name}"),
    "effort_refused": Wording(
        "XAI-03", "This model does not support `reasoning_effort` value `none`."
    ),
}
# XAI-01 speaks for every form of missing content.
for _fault in ("content_null", "content_empty", "content_developer_missing"):
    del XAI[_fault]

AZURE = OPENAI | {
    "part_type": Wording("AZR-04", OPENAI["part_type"].message, "{path}", "invalid_value"),
    "call_id_long": Wording(
        "AZR-01", OPENAI["call_id_long"].message, "{path}", "string_above_max_length"
    ),
    "arguments_type": Wording("AZR-01", OPENAI["arguments_type"].message, "{path}", "invalid_type"),
    "tool_schema": Wording(
        "AZR-01", OPENAI["tool_schema"].message, "{path}", "invalid_function_parameters"
    ),
    "azure_mistral_tokens": Wording(
        "AZR-03",
        "Extra inputs are not permitted",
        "body.max_completion_tokens",
        "extra_forbidden",
        422,
    ),
    "azure_mistral_order": Wording(
        "MIS-06", "Unexpected role 'user' after role 'tool'", code=_INVALID_ORDER
    ),
}

#: Upstreams that take no strict schemas get them without; ids of upstreams come in their own lengths.
OPENROUTER = {
    fault: wording for fault, wording in COMPATIBLE.items() if fault != "tool_strict_schema"
}

del AZURE["model_missing"]

OLLAMA = {
    "body_type": Wording(
        "OLL-DOC", "json: cannot unmarshal into Go value of type openai.ChatCompletionRequest"
    ),
    "model_missing": Wording("OLL-DOC", "model is required"),
    "messages_missing": Wording("OLL-DOC", "[] is too short - 'messages'"),
    "messages_empty": Wording("OLL-DOC", "[] is too short - 'messages'"),
    "messages_type": Wording(
        "OLL-DOC", "json: cannot unmarshal into Go struct field .messages of type []openai.Message"
    ),
    "message_type": Wording(
        "OLL-DOC", "json: cannot unmarshal into Go struct field .messages of type openai.Message"
    ),
    "content_kind": Wording("OLL-01", "invalid message content type: {go_type}"),
    "part_object": Wording("OLL-DOC", "invalid message format"),
    "part_type_missing": Wording("OLL-DOC", "invalid message format"),
    "part_type": Wording("OLL-DOC", "invalid message format"),
    "part_member_missing": Wording("OLL-DOC", "invalid message format"),
    "part_member_type": Wording("OLL-DOC", "invalid message format"),
    "arguments_type": Wording(
        "OLL-02",
        "json: cannot unmarshal {actual} into Go struct field "
        ".messages.tool_calls.function.arguments of type string",
    ),
    "arguments_missing": Wording("OLL-02", "invalid tool call arguments"),
    "arguments_blank": Wording("OLL-02", "invalid tool call arguments"),
    "arguments_json": Wording("OLL-02", "invalid tool call arguments"),
    "arguments_object": Wording("OLL-02", "invalid tool call arguments"),
    "image_remote": Wording(
        "OLL-05",
        "image URLs are not currently supported, please use base64 encoded data instead",
    ),
    "image_address": Wording("OLL-05", "invalid image input"),
    "image_media_type": Wording("OLL-05", "invalid image input"),
    "image_base64": Wording("OLL-05", "invalid image input"),
    "tools_type": Wording(
        "OLL-06", "json: cannot unmarshal into Go struct field .tools of type api.Tools"
    ),
    "tool_object": Wording(
        "OLL-06", "json: cannot unmarshal into Go struct field .tools of type api.Tool"
    ),
    "schema_decode": Wording(
        "OLL-06",
        "json: cannot unmarshal {json_type} into Go struct field .tools.function.{field} of type "
        "{wanted}",
    ),
    "tool_list": silent(
        "OLL-03",
        "messages[{index}]: a tool message with a list of parts is split and loses its "
        "tool_call_id",
    ),
    "calls_moved": silent(
        "OLL-04", "messages[{index}]: calls beside an empty list join the previous message"
    ),
    "identifier_reused": silent(
        "OLL-08", "messages[{index}]: results of {identifier} are named after the last call"
    ),
}

_TEMPLATE_TURNS = "Conversation roles must alternate user/assistant/user/assistant/..."
VLLM = {
    "body_type": Wording("VLL-DOC", "Input should be a valid dictionary"),
    "messages_missing": Wording("VLL-DOC", "Field required", "messages"),
    "messages_type": Wording("VLL-DOC", "Input should be a valid list", "messages"),
    "message_type": Wording("VLL-DOC", "Input should be a valid dictionary", "messages"),
    "role_missing": Wording("VLL-DOC", "Field required", "{path}"),
    "part_object": Wording("VLL-DOC", "Input should be a valid dictionary", "{path}"),
    "part_type": Wording("VLL-DOC", "Unknown part type: {value}"),
    "tool_part_type": Wording("VLL-DOC", "Unknown part type: {value}"),
    "image_base64": Wording("VLL-DOC", "Invalid base64-encoded string"),
    "image_address": Wording("VLL-DOC", "The URL must be either a HTTP, data or file URL."),
    "calls_type": Wording("VLL-DOC", "Input should be a valid list", "{path}"),
    "call_kind": Wording(
        "VLL-05", "chat completions only support assistant tool_calls of type 'function'."
    ),
    "call_function_missing": Wording("VLL-DOC", "Field required", "{path}"),
    "call_name_missing": Wording("VLL-DOC", "Field required", "{path}"),
    "arguments_type": Wording("VLL-01", "Input should be a valid string", "{path}"),
    "arguments_json": Wording("VLL-01", "{reason}"),
    "tools_empty": Wording(
        "VLL-02",
        "`tools` must not be an empty array. Either provide at least one tool or omit the field "
        "entirely.",
    ),
    "tools_type": Wording("VLL-DOC", "Input should be a valid list", "tools"),
    "tool_function_missing": Wording("VLL-DOC", "Field required", "{path}"),
    "tool_name_missing": Wording("VLL-DOC", "Field required", "{path}"),
    "choice_without_tools": Wording("VLL-03", "When using `tool_choice`, `tools` must be set."),
    "choice_value": Wording(
        "VLL-03",
        'Invalid value for `tool_choice`: {value}! Only named tools, "none", "auto" or '
        '"required" are supported.',
    ),
    "choice_unknown": Wording(
        "VLL-03",
        "The tool specified in `tool_choice` does not match any of the specified `tools`",
    ),
    "template_system": Wording("VLL-06", "System message must be at the beginning."),
    "template_no_user": Wording("VLL-06", "No user query found in messages."),
    "template_tool": Wording("VLL-06", "Tool message outside of assistant"),
    "template_turns": Wording("VLL-06", _TEMPLATE_TURNS),
    "template_identifier": Wording(
        "VLL-06", "Tool call IDs should be alphanumeric strings with length >= 9!"
    ),
    "template_single_call": Wording(
        "VLL-06", "This model only supports single tool-calls at once!"
    ),
    "template_tools_place": Wording(
        "VLL-06",
        "Cannot put tools in the first user message when there's no first user message!",
    ),
    "identifier_collides": silent(
        "VLL-07", "tool call id {identifier} is cut to its last 9 characters and collides"
    ),
    "reasoning_lost": silent(
        "VLL-08", "messages[{index}]: reasoning_content is not read; the key is reasoning"
    ),
}

_PARSE = "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] {reason}"
LLAMACPP = {
    "body_type": Wording("LCP-DOC", "Expected the request body to be an object"),
    "messages_missing": Wording("LCP-DOC", "'messages' is required"),
    "messages_type": Wording("LCP-DOC", "Expected 'messages' to be an array"),
    "message_type": Wording("LCP-DOC", "Expected 'message' to be an object"),
    "role_missing": Wording("LCP-DOC", "Missing 'role' in message"),
    "content_type": Wording("LCP-DOC", "Expected 'content' to be a string or an array"),
    "content_missing": Wording("LCP-02", "All non-assistant messages must contain 'content'"),
    "assistant_empty": Wording(
        "LCP-02", "Assistant message must contain either 'content' or 'tool_calls'!"
    ),
    "call_kind_missing": Wording("LCP-02", "Missing tool call type: {path}"),
    "call_kind": Wording("LCP-02", "Unsupported tool call type: {value}"),
    "call_function_missing": Wording("LCP-02", "Missing tool call function: {path}"),
    "call_name_missing": Wording("LCP-02", "Missing tool call name"),
    "calls_type": Wording("LCP-DOC", "Expected 'tool_calls' to be an array"),
    "part_type": Wording("LCP-03", "unsupported content[].type"),
    "part_type_missing": Wording("LCP-03", "unsupported content[].type"),
    "tool_part_type": Wording("LCP-03", "unsupported content[].type"),
    "image_role": Wording("LCP-03", "unsupported content[].type"),
    "image_address": Wording("LCP-DOC", "Invalid url value: expected http, https or data"),
    "image_base64": Wording("LCP-DOC", "Invalid base64 data"),
    "arguments_missing": Wording("LCP-02", "Missing tool call arguments"),
    "arguments_blank": Wording("LCP-01", _PARSE, status=500),
    "arguments_json": Wording("LCP-01", _PARSE, status=500),
    "assistants_last": Wording(
        "LCP-04", "Cannot have 2 or more assistant messages at the end of the list."
    ),
    "tools_type": Wording("LCP-DOC", "Expected 'tools' to be an array"),
    "tool_kind": Wording("LCP-DOC", "Unsupported tool type: {value}"),
    "tool_function_missing": Wording("LCP-DOC", "Missing tool function: {path}"),
    "choice_value": Wording("LCP-DOC", "Invalid tool_choice: {value}"),
    "number_type": Wording(
        "LCP-10",
        "Field '{name}': [json.exception.type_error.302] type must be number, but is {actual}",
    ),
    "grammar_with_schema": Wording("LCP-11", "Cannot use both json_schema and grammar", status=500),
    "grammar_with_tools": Wording("LCP-07", "Cannot use custom grammar constraints with tools."),
    "schema_conversion": Wording("LCP-07", "JSON schema conversion failed:\n{reason}"),
    "template_system": Wording("LCP-06", "System message must be at the beginning.", status=500),
    "template_no_user": Wording("LCP-06", "No user query found in messages.", status=500),
    "template_tool": Wording(
        "LCP-06",
        "Message has tool role, but there was no previous assistant message with a tool call!",
        status=500,
    ),
    "template_turns": Wording("LCP-06", _TEMPLATE_TURNS, status=500),
    "template_identifier": Wording(
        "LCP-06", "Tool call IDs should be alphanumeric strings with length 9!", status=500
    ),
    "template_single_call": Wording(
        "LCP-06", "This model only supports single tool-calls at once!", status=500
    ),
    "template_tools_place": Wording(
        "LCP-06",
        "Cannot put tools in the first user message when there's no first user message!",
        status=500,
    ),
}
