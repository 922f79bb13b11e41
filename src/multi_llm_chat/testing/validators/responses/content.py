"""The content of Responses items: parts by role (RSP-09) and media (RSP-13)."""

from collections.abc import Iterator
from typing import Any

from multi_llm_chat.testing.validators.media import is_web_url, parse_data_uri
from multi_llm_chat.testing.validators.responses import wordings as say
from multi_llm_chat.testing.validators.typed_views import as_array, as_object, as_string
from multi_llm_chat.testing.validators.violation import Violation

INPUT_PARTS = ("input_text", "input_image", "input_file", "scoped_content", "input_audio")
ASSISTANT_PARTS = ("output_text", "refusal")
OUTPUT_PARTS = ("input_text", "input_image", "input_file")
_ALL_PARTS = (
    "input_text",
    "input_image",
    "input_audio",
    "output_text",
    "refusal",
    "input_file",
    "computer_screenshot",
    "summary_text",
    "encrypted_content",
    "scoped_content",
)
_KEYS = {
    "input_text": frozenset({"type", "text", "prompt_cache_breakpoint"}),
    "input_image": frozenset({"type", "detail", "file_id", "image_url", "prompt_cache_breakpoint"}),
    "input_file": frozenset(
        {
            "type",
            "detail",
            "file_data",
            "file_id",
            "file_url",
            "filename",
            "prompt_cache_breakpoint",
        }
    ),
    "input_audio": frozenset({"type", "input_audio"}),
    "output_text": frozenset({"type", "text", "annotations", "logprobs"}),
    "refusal": frozenset({"type", "refusal"}),
}
_TEXTS = {"input_text": "text", "output_text": "text", "refusal": "refusal"}
_IMAGES = ("image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp")


def check_parts(path: str, value: object, allowed: tuple[str, ...]) -> Iterator[Violation]:
    """Judge a string or a list of parts."""
    if isinstance(value, str):
        return
    parts = as_array(value)
    if parts is None:
        yield say.wrong_type(path, "one of a string or array of objects", value)
        return
    if not parts:
        yield say.empty_array(path)
    for index, item in enumerate(parts):
        yield from _check_part(f"{path}[{index}]", item, allowed)


def _check_part(path: str, item: object, allowed: tuple[str, ...]) -> Iterator[Violation]:
    part = as_object(item)
    if part is None:
        yield say.wrong_type(path, "an object", item)
        return
    kind = part.get("type")
    if kind not in _ALL_PARTS:
        yield say.wrong_value(f"{path}.type", kind, _ALL_PARTS[:-1], "RSP-09")
        return
    if kind not in allowed:
        yield say.wrong_value(path, kind, allowed, "RSP-09")
        return
    for key in part:
        if key not in _KEYS.get(str(kind), frozenset(part)):
            yield say.UNKNOWN_ITEM_KEY.fill(path=f"{path}.{key}")
    yield from _check_body(path, str(kind), part)


def _check_body(path: str, kind: str, part: dict[str, Any]) -> Iterator[Violation]:
    member = _TEXTS.get(kind)
    if member is not None:
        if member not in part:
            yield say.missing(f"{path}.{member}")
        elif not isinstance(part[member], str):
            yield say.wrong_type(f"{path}.{member}", "a string", part[member])
    elif kind == "input_image":
        yield from _check_image(path, part)
    elif kind == "input_file":
        yield from _check_file(path, part)


def _check_image(path: str, part: dict[str, Any]) -> Iterator[Violation]:
    url = part.get("image_url")
    where = f"{path}.image_url"
    if url is None:
        if not as_string(part.get("file_id")):
            yield say.missing(where)
        return
    if not isinstance(url, str):
        yield say.wrong_type(where, "a string", url)
        return
    data = parse_data_uri(url)
    if data is None:
        if not is_web_url(url):
            text = (
                f"Invalid '{where}'. Expected a valid URL, but got a value with an invalid format."
            )
            yield Violation("RSP-DOC", text, param=where, code="invalid_value")
    elif data.media_type not in _IMAGES or not data.payload_is_valid:
        text = (
            f"Invalid '{where}'. Expected a base64-encoded data URL with an image MIME type (e.g. "
            "'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got unsupported MIME type "
            f"'{data.media_type}'."
        )
        yield Violation("RSP-DOC", text, param=where, code="invalid_value")


def _check_file(path: str, part: dict[str, Any]) -> Iterator[Violation]:
    data = as_string(part.get("file_data"))
    if data is not None:
        uri = parse_data_uri(data)
        if uri is None or not uri.payload_is_valid:
            where = f"{path}.file_data"
            text = f"Invalid '{where}'. Expected a base64-encoded data URL."
            yield Violation("RSP-DOC", text, param=where, code="invalid_value")
    elif not as_string(part.get("file_id")) and not as_string(part.get("file_url")):
        yield say.missing(f"{path}.file_id")
