"""OpenAI's own words for every fault of a Chat Completions request.

``OAI-DOC`` marks a requirement of the published API schema that has no row of its own in the
catalogue: required members, JSON types, ranges and enumerations.
"""

from multi_llm_chat.testing.validators.violation import Wording

_MISSING = "Missing required parameter: '{path}'."
_TYPE = "Invalid type for '{path}': expected {expected}, but got {actual} instead."
_VALUE = "Invalid value: '{value}'. Supported values are: {supported}."
_EMPTY_ARRAY = (
    "Invalid '{path}': empty array. Expected an array with minimum length 1, "
    "but got an empty array instead."
)
_EMPTY_STRING = (
    "Invalid '{path}': empty string. Expected a string with minimum length 1, "
    "but got an empty string instead."
)
_LONG_STRING = (
    "Invalid '{path}': string too long. Expected a string with maximum length {limit}, "
    "but got a string with length {length} instead."
)
_LONG_ARRAY = (
    "Invalid '{path}': array too long. Expected an array with maximum length {limit}, "
    "but got an array with length {length} instead."
)
_PATTERN = (
    "Invalid '{path}': string does not match pattern. Expected a string that matches the pattern "
    "'{pattern}'."
)
_CONTENT = "Invalid value for 'content': expected a string, got null."
_SCHEMA = "Invalid schema for function '{name}': {reason}"


def _missing(rule: str) -> Wording:
    return Wording(rule, _MISSING, "{path}", "missing_required_parameter")


def _type(rule: str) -> Wording:
    return Wording(rule, _TYPE, "{path}", "invalid_type")


def _value(rule: str) -> Wording:
    return Wording(rule, _VALUE, "{path}", "invalid_value")


OPENAI: dict[str, Wording] = {
    # The request.
    "body_type": Wording("OAI-DOC", "Invalid type for request body: expected an object."),
    "model_missing": Wording("OAI-DOC", "you must provide a model parameter"),
    "parameter_missing": _missing("OAI-DOC"),
    "parameter_type": _type("OAI-DOC"),
    "parameter_value": _value("OAI-DOC"),
    "parameter_low": Wording(
        "OAI-31",
        "Invalid '{path}': {kind} below minimum value. Expected a value >= {limit}, "
        "but got {value} instead.",
        "{path}",
        "{kind}_below_min_value",
    ),
    "parameter_high": Wording(
        "OAI-31",
        "Invalid '{path}': {kind} above maximum value. Expected a value <= {limit}, "
        "but got {value} instead.",
        "{path}",
        "{kind}_above_max_value",
    ),
    "request_key": Wording("OAI-12", "Unknown parameter: '{key}'.", "{key}", "unknown_parameter"),
    # Messages.
    "messages_missing": _missing("OAI-21"),
    "messages_type": _type("OAI-DOC"),
    "messages_empty": Wording("OAI-21", _EMPTY_ARRAY, "{path}", "empty_array"),
    "message_type": _type("OAI-DOC"),
    "role_missing": _missing("OAI-18"),
    "role_value": _value("OAI-18"),
    "content_type": _type("OAI-10"),
    "content_empty": Wording("OAI-10", _EMPTY_ARRAY, "{path}", "empty_array"),
    "content_null": Wording("OAI-09", _CONTENT, "messages.[{index}].content"),
    "content_developer_missing": _missing("OAI-09"),
    "content_developer_null": _type("OAI-09"),
    "part_object": _type("OAI-10"),
    "part_type_missing": _missing("OAI-11"),
    "part_type": _value("OAI-11"),
    "part_member_missing": _missing("OAI-DOC"),
    "part_member_type": _type("OAI-DOC"),
    "tool_part_type": _value("OAI-17"),
    "image_role": Wording(
        "OAI-17",
        "Invalid 'messages[{index}]'. Image URLs are only allowed for messages with role 'user', "
        "but this message with role '{role}' contains an image URL.",
        "messages[{index}]",
        "invalid_value",
    ),
    "image_media_type": Wording(
        "OAI-DOC",
        "Invalid '{path}'. Expected a base64-encoded data URL with an image MIME type (e.g. "
        "'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got unsupported MIME type "
        "'{media_type}'.",
        "{path}",
        "invalid_value",
    ),
    "image_base64": Wording(
        "OAI-DOC", "Invalid base64 image_url.", "{path}", "invalid_base64_image_url"
    ),
    "image_address": Wording(
        "OAI-DOC",
        "Invalid '{path}'. Expected a valid URL, but got a value with an invalid format.",
        "{path}",
        "invalid_value",
    ),
    "media_base64": Wording(
        "OAI-DOC",
        "Invalid '{path}'. Expected a base64-encoded string.",
        "{path}",
        "invalid_value",
    ),
    # Tool calls in the history.
    "calls_type": _type("OAI-DOC"),
    "calls_empty": Wording("OAI-05", _EMPTY_ARRAY, "{path}", "empty_array"),
    "calls_many": Wording("OAI-13", _LONG_ARRAY, "{path}", "array_above_max_length"),
    "call_type": _type("OAI-DOC"),
    "call_id_missing": _missing("OAI-07"),
    "call_id_type": _type("OAI-07"),
    "call_id_empty": Wording("OAI-07", _EMPTY_STRING, "{path}", "empty_string"),
    "call_id_long": Wording("OAI-07", _LONG_STRING, "{path}", "string_above_max_length"),
    "call_kind": _value("OAI-DOC"),
    "call_kind_missing": _missing("OAI-DOC"),
    "call_function_missing": _missing("OAI-DOC"),
    "call_name_missing": _missing("OAI-08"),
    "call_name_type": _type("OAI-08"),
    "call_name_empty": Wording("OAI-08", _EMPTY_STRING, "{path}", "empty_string"),
    "call_name_long": Wording("OAI-08", _LONG_STRING, "{path}", "string_above_max_length"),
    "call_name_pattern": Wording("OAI-08", _PATTERN, "{path}", "invalid_value"),
    "arguments_missing": _missing("OAI-20"),
    "arguments_type": _type("OAI-20"),
    # Pairing.
    "result_id_missing": _missing("OAI-01"),
    "result_orphan": Wording(
        "OAI-01",
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
        "with 'tool_calls'.",
        "messages.[{index}].role",
    ),
    "result_duplicate": Wording(
        "OAI-23",
        "Invalid parameter: more than one message with role 'tool' responds to tool_call_id "
        "'{identifier}'.",
        "messages.[{index}].role",
    ),
    "call_unanswered": Wording(
        "OAI-02",
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        "each 'tool_call_id'. The following tool_call_ids did not have response messages: "
        "{identifiers}",
        "messages.[{next_index}].role",
    ),
    # Tools.
    "tools_type": _type("OAI-DOC"),
    "tools_empty": Wording("OAI-06", _EMPTY_ARRAY, "{path}", "empty_array"),
    "tools_many": Wording("OAI-13", _LONG_ARRAY, "{path}", "array_above_max_length"),
    "tool_object": _type("OAI-DOC"),
    "tool_kind": _value("OAI-DOC"),
    "tool_kind_missing": _missing("OAI-DOC"),
    "tool_function_missing": _missing("OAI-DOC"),
    "tool_member_type": _type("OAI-DOC"),
    "tool_name_missing": _missing("OAI-08"),
    "tool_name_type": _type("OAI-08"),
    "tool_name_empty": Wording("OAI-08", _EMPTY_STRING, "{path}", "empty_string"),
    "tool_name_long": Wording("OAI-08", _LONG_STRING, "{path}", "string_above_max_length"),
    "tool_name_pattern": Wording("OAI-08", _PATTERN, "{path}", "invalid_value"),
    "tool_schema": Wording("OAI-14", _SCHEMA, "{path}", "invalid_function_parameters"),
    "tool_strict_schema": Wording("OAI-22", _SCHEMA, "{path}", "invalid_function_parameters"),
    "choice_type": Wording(
        "OAI-15",
        "Invalid type for 'tool_choice': expected one of one of 'none', 'auto', or 'required' or "
        "object, but got {actual} instead.",
        "tool_choice",
        "invalid_type",
    ),
    "choice_value": _value("OAI-15"),
    "choice_member_missing": _missing("OAI-15"),
    "choice_without_tools": Wording(
        "OAI-15",
        "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are "
        "specified.",
        "tool_choice",
    ),
    "choice_unknown": Wording(
        "OAI-15",
        "Invalid value for 'function_call': no function named '{name}' was specified in the "
        "'functions' parameter.",
        "function_call",
    ),
    # What the model itself refuses.
    "tools_while_reasoning": Wording(
        "OAI-16",
        "Function tools with reasoning_effort are not supported for {model} in "
        "/v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort "
        "to 'none'.",
        "reasoning_effort",
    ),
    "effort_unsupported": Wording(
        "OAI-30",
        "Unsupported value: '{value}' is not supported with the '{model}' model. Supported values "
        "are: {supported}.",
        "reasoning_effort",
        "unsupported_value",
    ),
    "role_unsupported": Wording(
        "OAI-28",
        "Unsupported value: 'messages[{index}].role' does not support '{role}' with this model.",
        "messages[{index}].role",
        "unsupported_value",
    ),
    "pictures_unsupported": Wording("OAI-11", "This model does not support image_url content."),
    "format_unsupported": Wording(
        "OAI-DOC",
        "Invalid parameter: 'response_format' of type '{kind}' is not supported with this model.",
        "response_format",
    ),
    "logprobs_unsupported": Wording(
        "OAI-DOC", "This model does not support the 'logprobs' parameter.", "logprobs"
    ),
    "file_type": Wording(
        "OAI-33",
        "Invalid file data: '{path}'. Expected a base64-encoded data URL with an application/pdf MIME type "
        "(e.g. 'data:application/pdf;base64,SGVsbG8sIFdvcmxkIQ=='), but got unsupported MIME type '{kind}'.",
        "{path}",
        "invalid_value",
    ),
    "audio_unsupported": Wording(
        "OAI-25",
        "Invalid 'messages[{index}]'. Content blocks are expected to be either text or image_url "
        "type.",
        "messages[{index}]",
        "invalid_value",
    ),
    "search_unsupported": Wording(
        "OAI-29", "Web search options not supported with this model.", "web_search_options"
    ),
    "image_bytes": Wording(
        "OAI-26",
        "You uploaded an unsupported image. Please make sure your image has of one the following "
        "formats: ['png', 'jpeg', 'gif', 'webp'].",
        code="invalid_image_format",
    ),
    "max_tokens_unsupported": Wording(
        "OAI-19",
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
        "'max_completion_tokens' instead.",
        "max_tokens",
        "unsupported_parameter",
    ),
    "parameter_unsupported": Wording(
        "OAI-19",
        "Unsupported parameter: '{path}' is not supported with this model.",
        "{path}",
        "unsupported_parameter",
    ),
    "temperature_unsupported": Wording(
        "OAI-19",
        "Unsupported value: '{path}' does not support {value} with this model. Only the default "
        "(1) value is supported.",
        "{path}",
        "unsupported_value",
    ),
}

#: The published schema leaves the arguments a free string; compatible servers parse it.
PARSED_ARGUMENTS: dict[str, Wording] = {
    "arguments_json": Wording(
        "OAI-20",
        "Invalid '{path}': expected a string containing valid JSON, but got '{value}'.",
        "{path}",
        "invalid_value",
    ),
    "arguments_object": Wording(
        "OAI-20",
        "Invalid '{path}': expected a JSON object, but got '{value}'.",
        "{path}",
        "invalid_value",
    ),
}

#: What a compatible server still answers in OpenAI's words. OpenAI's own model rules are not its.
_ONLY_OPENAI = {
    "tools_while_reasoning",
    "effort_unsupported",
    "role_unsupported",
    "format_unsupported",
    "logprobs_unsupported",
    "file_type",
    "audio_unsupported",
    "search_unsupported",
    "image_bytes",
    "max_tokens_unsupported",
    "parameter_unsupported",
    "temperature_unsupported",
    "request_key",
}
COMPATIBLE: dict[str, Wording] = {
    fault: wording for fault, wording in OPENAI.items() if fault not in _ONLY_OPENAI
} | PARSED_ARGUMENTS
