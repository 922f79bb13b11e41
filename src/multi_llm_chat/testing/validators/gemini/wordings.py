"""Google's own words.

``GEM-DOC`` marks a requirement of the published API that has no row of its own in the catalogue:
unknown fields outside schemas, required fields, the type of fields, and limits of settings.
"""

import json

from multi_llm_chat.testing.validators.violation import Violation, Wording

_UNABLE = "Unable to submit request because "

CALL_PLACE = Wording(
    "GEM-01",
    "Please ensure that function call turn comes immediately after a user turn or after a function "
    "response turn.",
)
RESPONSE_PLACE = Wording(
    "GEM-02",
    "Please ensure that function response turn comes immediately after a function call turn.",
)
RESPONSE_COUNT = Wording(
    "GEM-03",
    "Please ensure that the number of function response parts is equal to the number of function "
    "call parts of the function call turn.",
)
SIGNATURE_MISSING = Wording(
    "GEM-04",
    "Function call is missing a thought_signature in functionCall parts. This is required for "
    "tools to work correctly, and missing thought_signature may lead to degraded model "
    "performance. Additional data, function call `default_api:{name}` , position {position}. "
    "Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details.",
)
SIGNATURE_BYTES = Wording(
    "GEM-05",
    "Invalid value at '{path}.thought_signature' (TYPE_BYTES), Base64 decoding failed for {value}",
)
PARTS_EMPTY = Wording(
    "GEM-08",
    _UNABLE + "it must include at least one parts field, which describes the prompt input.",
)
TEXT_EMPTY = Wording(
    "GEM-08",
    _UNABLE + "it has an empty text parameter. Add a value to the parameter and try again.",
)
LAST_ROLE = Wording(
    "GEM-09",
    "Please ensure that single turn requests end with a user role or the role field is empty.",
)
RESPONSE_ALONE = Wording(
    "GEM-10",
    "Please ensure that function response turn contains only function response parts "
    "(contents[{index}]).",
)
NAME = Wording(
    "GEM-11",
    "* GenerateContentRequest.{path}: Invalid function name. Must start with a letter or an "
    "underscore. Must be alphameric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or "
    "dashes (-), with a maximum length of 128.",
)
DUPLICATE = Wording("GEM-12", "Duplicate function declaration found: {name}")
TYPE_LIST = Wording(
    "GEM-14",
    "Invalid JSON payload received. Unknown name \"type\" at '{path}': Proto field is not "
    "repeating, cannot start list.",
)
ENUM_STRING = Wording("GEM-15", "Invalid value at '{path}' (TYPE_STRING), {value}")
SCHEMA_FIELD = Wording("GEM-16", "* GenerateContentRequest.{path}: {reason}")
ANY_OF_ALONE = Wording(
    "GEM-17",
    _UNABLE + "`{path}` schema specified other fields alongside any_of. When using any_of, it must "
    "be the only field set.",
)
FORMAT = Wording("GEM-17", "* GenerateContentRequest.{path}.format: {reason}")
STRUCT = Wording(
    "GEM-18",
    "Invalid value at '{path}' (type.googleapis.com/google.protobuf.Struct), {value}",
)
CONFIG_WITHOUT_TOOLS = Wording(
    "GEM-19", "Function calling config is set without function_declarations."
)
RESPONSE_NAME = Wording(
    "GEM-20",
    "* GenerateContentRequest.{path}.name: function response name `{name}` does not match any "
    "function call of the function call turn",
)
RESPONSE_IDENTIFIER = Wording(
    "GEM-20",
    "* GenerateContentRequest.{path}.id: function response id `{identifier}` does not match any "
    "function call of the function call turn",
)
ROLE = Wording("GEM-21", "Please use a valid role: user, model.")
BOTH_SCHEMAS = Wording(
    "GEM-22",
    "* GenerateContentRequest.{path}: only one of parameters and parameters_json_schema can be set",
)
JSON_SCHEMA_ROOT = Wording(
    "GEM-22",
    "* GenerateContentRequest.{path}.parameters_json_schema: schema must be of type object",
)
CONTENTS_MISSING = Wording("GEM-08", "* GenerateContentRequest.contents: contents is not specified")
FIELD = Wording("GEM-DOC", "* GenerateContentRequest.{path}: {reason}")
INVALID = Wording("GEM-DOC", "Invalid value at '{path}' ({kind}), {value}")
ONE_OF = Wording(
    "GEM-DOC",
    "Invalid value at '{path}' (oneof), oneof field 'data' is already set. Cannot set '{name}'",
)
PLAIN = Wording("GEM-DOC", "{reason}")
LEVEL = Wording("GEM-28", "{reason}")


def unknown_name(name: str, path: str) -> Violation:
    """A field that the message does not have; inside a schema this is GEM-13."""
    place = f" at '{path}'" if path else ""
    text = f'Invalid JSON payload received. Unknown name "{name}"{place}: Cannot find field.'
    in_schema = ".parameters" in path or "_schema" in path
    return Violation("GEM-13" if in_schema else "GEM-DOC", text)


def shown(value: object) -> str:
    """A value as the error messages quote it, cut to a readable length."""
    return json.dumps(value, ensure_ascii=False, default=str)[:200]


TEMPERATURE = Wording(
    "GEM-32",
    "Unable to submit request because it has a temperature value of {value} but the supported range is "
    "from 0 (inclusive) to 2.0001 (exclusive). Update the value and try again.",
)

CACHED = Wording(
    "GEM-31",
    "CachedContent can not be used with GenerateContent request setting system_instruction, tools or tool_config. "
    "Proposed fix: move those values to CachedContent from GenerateContent request.",
)
