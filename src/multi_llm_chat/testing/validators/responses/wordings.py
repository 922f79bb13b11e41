"""OpenAI's words for faults of a Responses request.

``RSP-DOC`` marks a requirement of the published API schema that has no row of its own in the
catalogue. Rules that both OpenAI dialects share keep their ``OAI`` ids.
"""

from multi_llm_chat.testing.validators.typed_views import type_name
from multi_llm_chat.testing.validators.violation import Violation, Wording, listed

UNANSWERED = Wording("RSP-01", "No tool output found for function call {identifier}.", "input")
ORPHAN = Wording(
    "RSP-02",
    "No tool call found for function call output with call_id {identifier}.",
    "input",
)
DUPLICATE = Wording(
    "OAI-23", "Duplicate function call output found with call_id {identifier}.", "input"
)
REASONING_ALONE = Wording(
    "RSP-03",
    "Item '{identifier}' of type 'reasoning' was provided without its required following item.",
    "input",
)
ENCRYPTED = Wording(
    "RSP-05",
    "The encrypted content {value} could not be verified.",
    code="invalid_encrypted_content",
)
NOT_STORED = Wording(
    "RSP-06",
    "Item with id '{identifier}' not found. Items are not persisted when `store` is set to false. "
    "Try again with `store` set to true, or remove this item from your input.",
    "input",
)
IDENTIFIER_PREFIX = Wording(
    "RSP-DOC",
    "Invalid '{path}': '{value}'. Expected an ID that begins with '{prefix}'.",
    "{path}",
    "invalid_value",
)
UNKNOWN_ITEM_KEY = Wording("RSP-08", "Unknown parameter: '{path}'.", "{path}", "unknown_parameter")
UNKNOWN_KEY = Wording("RSP-12", "Unknown parameter: '{path}'.", "{path}", "unknown_parameter")
MOVED_KEY = Wording(
    "RSP-12",
    "Unsupported parameter: '{name}'. In the Responses API, this parameter has moved to "
    "'{place}'. Try again with the new parameter. See the API documentation for more information: "
    "https://platform.openai.com/docs/api-reference/responses/create.",
    code="unsupported_parameter",
)
INPUT_EMPTY = Wording(
    "RSP-11",
    "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation' must be provided.",
    code="missing_required_parameter",
)
CHOICE_UNKNOWN = Wording(
    "OAI-15", "Tool choice 'function' not found in 'tools' parameter.", "tool_choice"
)
CHOICE_WITHOUT_TOOLS = Wording(
    "OAI-15",
    "Tool choice '{value}' must be specified with 'tools' parameter.",
    "tool_choice",
)
UNSUPPORTED = Wording(
    "OAI-19", "Unsupported parameter: '{path}' is not supported with this model.", "{path}"
)
LOGPROBS = Wording(
    "OAI-19",
    "logprobs are not supported with reasoning models.",
    "{path}",
    "unsupported_parameter",
)
ENCRYPTED_UNSUPPORTED = Wording(
    "RSP-26", "Encrypted content is not supported with this model.", "include"
)


def missing(path: str, rule: str = "RSP-DOC") -> Violation:
    """A required member is not there."""
    text = f"Missing required parameter: '{path}'."
    return Violation(rule, text, param=path, code="missing_required_parameter")


def wrong_type(path: str, expected: str, value: object, rule: str = "RSP-DOC") -> Violation:
    """A member has the wrong JSON type."""
    actual = type_name(value)
    text = f"Invalid type for '{path}': expected {expected}, but got {actual} instead."
    return Violation(rule, text, param=path, code="invalid_type")


def wrong_value(
    path: str, value: object, supported: tuple[str, ...], rule: str = "RSP-DOC"
) -> Violation:
    """A member has none of the values it may have."""
    shown = value if isinstance(value, str) else ""
    text = f"Invalid value: '{shown}'. Supported values are: {listed(supported)}."
    return Violation(rule, text, param=path, code="invalid_value")


def too_long(path: str, limit: int, length: int) -> Violation:
    """A string is longer than it may be (RSP-07)."""
    text = (
        f"Invalid '{path}': string too long. Expected a string with maximum length {limit}, but "
        f"got a string with length {length} instead."
    )
    return Violation("RSP-07", text, param=path, code="string_above_max_length")


def empty_string(path: str) -> Violation:
    """A string is empty that may not be (RSP-07)."""
    text = (
        f"Invalid '{path}': empty string. Expected a string with minimum length 1, but got an "
        "empty string instead."
    )
    return Violation("RSP-07", text, param=path, code="empty_string")


def empty_array(path: str) -> Violation:
    """An array is empty that may not be."""
    text = (
        f"Invalid '{path}': empty array. Expected an array with minimum length 1, but got an empty "
        "array instead."
    )
    return Violation("RSP-DOC", text, param=path, code="empty_array")


def wrong_pattern(path: str) -> Violation:
    """A name has characters it may not have (RSP-07)."""
    text = (
        f"Invalid '{path}': string does not match pattern. Expected a string that matches the "
        "pattern '^[a-zA-Z0-9_-]+$'."
    )
    return Violation("RSP-07", text, param=path, code="invalid_value")


EFFORT = Wording(
    "OAI-30",
    "Unsupported value: '{value}' is not supported with the '{model}' model. Supported values are: "
    "{supported}.",
    "reasoning.effort",
    "unsupported_value",
)
FILE_KIND = Wording(
    "RSP-24",
    "Invalid file data: '{path}.file_data'. Expected a base64-encoded data URL with a valid file MIME "
    "type (e.g. 'data:text/plain;base64,SGVsbG8sIFdvcmxkIQ=='), but got unsupported MIME type '{kind}'.",
    "{path}.file_data",
    "invalid_value",
)
FILE_ADDRESS = Wording(
    "RSP-24",
    "The file type you uploaded is not supported. Please try again with a pdf",
    "input",
    "unsupported_file",
)
CUSTOM_UNANSWERED = Wording(
    "RSP-16", "No tool output found for custom tool call {identifier}.", "input"
)
SEARCH_UNANSWERED = Wording(
    "RSP-17", "No tool output found for tool search call {identifier}.", "input"
)
