"""Contents and parts of a Gemini request, one by one, and the reading of its protobuf messages in their JSON form.

The API takes the camel-case name and the original snake-case name of a field alike, and a null as
an absent field.
"""

import re
from collections.abc import Iterator
from typing import Any

from multi_llm_chat.testing.validators.gemini import wordings as say
from multi_llm_chat.testing.validators.media import is_url_safe_base64
from multi_llm_chat.testing.validators.typed_views import as_array, as_object, as_string
from multi_llm_chat.testing.validators.violation import Violation

# Fields.


def camel(name: str) -> str:
    """The JSON name of a field, from either spelling."""
    return re.sub(r"_([a-z0-9])", lambda found: found.group(1).upper(), name)


def snake(name: str) -> str:
    """The field's original name, as error messages spell it."""
    return re.sub(r"[A-Z]", lambda found: "_" + found.group(0).lower(), name)


def read(value: object) -> dict[str, Any]:
    """The set fields of a message by their JSON names; no fields where it is not an object."""
    found = as_object(value) or {}
    return {camel(name): field for name, field in found.items() if field is not None}


def check_known(path: str, value: dict[str, Any], known: frozenset[str]) -> Iterator[Violation]:
    """Report the fields that the message does not have."""
    for name in value:
        if camel(name) not in known:
            yield say.unknown_name(name, path)


# Contents.

NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")

_DATA = (
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
)
_PART = frozenset(_DATA) | {
    "thought",
    "thoughtSignature",
    "videoMetadata",
    "mediaResolution",
    "partMetadata",
    "audioTranscription",
    "mediaProcessing",
    "speechMetadata",
}
_CONTENT = frozenset({"role", "parts"})
_CALL = frozenset({"id", "name", "args", "partialArgs", "willContinue"})
_RESPONSE = frozenset({"id", "name", "response", "parts", "willContinue", "scheduling"})
_BLOB = frozenset({"mimeType", "data", "displayName"})
_FILE = frozenset({"mimeType", "fileUri", "displayName"})
_IMAGES = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "image/gif")


def check_contents(body: dict[str, Any]) -> Iterator[Violation]:
    """Judge the ``contents`` member."""
    items = as_array(body.get("contents"))
    if body.get("contents") is not None and items is None:
        # A single message in place of the list is read as a list of one.
        items = [body["contents"]]
    if not items:
        yield say.CONTENTS_MISSING.fill()
    for index, item in enumerate(items or []):
        yield from _check_content(f"contents[{index}]", item, needs_role=True)


def check_system_instruction(body: dict[str, Any]) -> Iterator[Violation]:
    """The system instruction is a content of its own; its role is not looked at."""
    value = body.get("systemInstruction")
    if value is None:
        return
    yield from _check_content("system_instruction", value, needs_role=False)
    for index, part in enumerate(as_array(read(value).get("parts")) or []):
        if read(part) and "text" not in read(part):
            path = f"system_instruction.parts[{index}]"
            yield say.FIELD.fill(path=path, reason="only text is supported in system_instruction")


def _check_content(path: str, item: object, *, needs_role: bool) -> Iterator[Violation]:
    content = as_object(item)
    if content is None:
        kind = "type.googleapis.com/google.ai.generativelanguage.v1beta.Content"
        yield say.INVALID.fill(path=path, kind=kind, value=say.shown(item))
        return
    yield from check_known(path, content, _CONTENT)
    fields = read(content)
    if needs_role and fields.get("role", "user") not in ("user", "model", "function"):
        yield say.ROLE.fill()
    parts = as_array(fields.get("parts"))
    if parts is None and "parts" in fields:
        parts = [fields["parts"]]
    if not parts:
        yield say.PARTS_EMPTY.fill()
    for index, part in enumerate(parts or []):
        yield from _check_part(f"{path}.parts[{index}]", part)


def _check_part(path: str, item: object) -> Iterator[Violation]:
    part = as_object(item)
    if part is None:
        kind = "type.googleapis.com/google.ai.generativelanguage.v1beta.Part"
        yield say.INVALID.fill(path=path, kind=kind, value=say.shown(item))
        return
    yield from check_known(path, part, _PART)
    fields = read(part)
    data = [name for name in fields if name in _DATA]
    if not data and not fields.keys() & {"thoughtSignature", "videoMetadata"}:
        reason = "required oneof field 'data' must have one initialized field"
        yield say.FIELD.fill(path=f"{path}.data", reason=reason)
    if len(data) > 1:
        yield say.ONE_OF.fill(path=path, name=data[1])
    yield from _check_signature(path, fields)
    yield from _check_data(path, fields)


def _check_signature(path: str, fields: dict[str, Any]) -> Iterator[Violation]:
    signature = fields.get("thoughtSignature", "")
    if signature == "":
        return
    if not isinstance(signature, str) or not is_url_safe_base64(signature):
        yield say.SIGNATURE_BYTES.fill(path=path, value=say.shown(signature))


def _check_data(path: str, fields: dict[str, Any]) -> Iterator[Violation]:
    text = fields.get("text")
    if text is not None and not isinstance(text, str):
        yield say.INVALID.fill(path=f"{path}.text", kind="TYPE_STRING", value=say.shown(text))
    for name, check in _CHECKS.items():
        if name in fields:
            where = f"{path}.{snake(name)}"
            value = as_object(fields[name])
            if value is None:
                yield say.INVALID.fill(path=where, kind="message", value=say.shown(fields[name]))
            else:
                yield from check(where, value)


def _check_name(path: str, fields: dict[str, Any]) -> Iterator[Violation]:
    name = fields.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        yield say.NAME.fill(path=f"{path}.name")


def _check_call(path: str, value: dict[str, Any]) -> Iterator[Violation]:
    yield from check_known(path, value, _CALL)
    fields = read(value)
    yield from _check_name(path, fields)
    yield from _check_identifier(path, fields)
    if "args" in fields and as_object(fields["args"]) is None:
        yield say.STRUCT.fill(path=f"{path}.args", value=say.shown(fields["args"]))


def _check_response(path: str, value: dict[str, Any]) -> Iterator[Violation]:
    yield from check_known(path, value, _RESPONSE)
    fields = read(value)
    yield from _check_name(path, fields)
    yield from _check_identifier(path, fields)
    # A response may be absent (recorded for gemini-3.5-flash: google/adk-go, testdata/TestDelegation_09).
    if "response" in fields and as_object(fields["response"]) is None:
        yield say.STRUCT.fill(path=f"{path}.response", value=say.shown(fields["response"]))
    for index, part in enumerate(as_array(fields.get("parts")) or []):
        blob = as_object(read(part).get("inlineData"))
        if blob is not None:
            yield from _check_blob(f"{path}.parts[{index}].inline_data", blob)


def _check_identifier(path: str, fields: dict[str, Any]) -> Iterator[Violation]:
    if "id" in fields and not isinstance(fields["id"], str):
        shown = say.shown(fields["id"])
        yield say.INVALID.fill(path=f"{path}.id", kind="TYPE_STRING", value=shown)


def _check_blob(path: str, value: dict[str, Any]) -> Iterator[Violation]:
    yield from check_known(path, value, _BLOB)
    fields = read(value)
    data, media = as_string(fields.get("data")), as_string(fields.get("mimeType"))
    if not data or not is_url_safe_base64(data):
        shown = say.shown(fields.get("data"))[:60]
        reason = f"Base64 decoding failed for {shown}"
        yield say.INVALID.fill(path=f"{path}.data", kind="TYPE_BYTES", value=reason)
    if not media:
        yield say.FIELD.fill(path=f"{path}.mime_type", reason="must be set")
    elif media.startswith("image/") and media not in _IMAGES:
        yield say.PLAIN.fill(reason=f"Unsupported MIME type: {media}")


def _check_file(path: str, value: dict[str, Any]) -> Iterator[Violation]:
    yield from check_known(path, value, _FILE)
    if not as_string(read(value).get("fileUri")):
        yield say.FIELD.fill(path=f"{path}.file_uri", reason="must be set")


_CHECKS = {
    "functionCall": _check_call,
    "functionResponse": _check_response,
    "inlineData": _check_blob,
    "fileData": _check_file,
}
