"""The arguments of a tool call, read from whatever a model or an old history holds.

Rules:
1. Nothing here raises: a value that is not a JSON object becomes ``{}`` with the original text and an error.
2. None, ``""`` and blank text mean a call without arguments: ``{}``, and no error.
3. The text of valid arguments is kept exactly as it was, so that a replay is the same byte for byte.
4. Only JSON that every provider reads back is valid: no NaN or infinity, no number beyond a
   double or of thousands of digits, no lone surrogate, no nesting deeper than ``MAX_DEPTH``, no more than
   ``MAX_VALUES`` values (counted before they are decoded).
5. An error is a sentence that the model which wrote the arguments can act on.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn, TypeAlias, cast

import msgspec

from multi_llm_chat.data_limits import REPLY_LIMITS, OverLimit, check_json
from multi_llm_chat.history.json_values import type_of
from multi_llm_chat.history.values import JsonObject

#: The depth at which protocol buffers, and so Gemini, stop reading.
MAX_DEPTH = 100

#: The most values of one call, and the most objects that one text is split into.
MAX_VALUES = REPLY_LIMITS.values
MAX_PIECES = 1_000

#: The arguments, their text as it was written, and what is wrong with them.
ParsedArguments: TypeAlias = tuple[JsonObject, str | None, str | None]

_JSON_NAMES: dict[type, str] = {
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    list: "an array",
    tuple: "an array",
    type(None): "null",
}


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not allowed in JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:40]} is out of range")
    return number


_OPENING = re.compile(r"\s*\{")
_decode = msgspec.json.Decoder().decode
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)


def parse_arguments(raw: object) -> ParsedArguments:
    """Read the arguments of a call.

    Args:
        raw: JSON text (``str`` or UTF-8 ``bytes``), an object, or any other value.

    Returns:
        The arguments; their exact text if they came as text; and an error text, or None.
    """
    if isinstance(raw, str):
        sound = decode_arguments(raw) if type(raw) is str else None
        return _parse_text(raw) if sound is None else (sound, raw, None)
    if raw is None:
        return {}, None, None
    # Almost always a dict, for which isinstance is much faster.
    if isinstance(raw, (dict, Mapping)):
        return copy_arguments(raw), None, None
    if isinstance(raw, bytes | bytearray):
        try:
            return _parse_text(raw.decode())
        except UnicodeDecodeError:
            return {}, raw.decode(errors="replace"), "The arguments are not valid UTF-8 text."
    return {}, _text_of(raw), _not_an_object(raw)


def copy_arguments(given: Any) -> JsonObject:
    """A copy of an object with its keys as strings."""
    if type_of(given) is dict:
        for key in given:
            if type(key) is not str:
                break
        else:
            return given.copy()
    return {key if type(key) is str else str(key): value for key, value in given.items()}


def split_arguments(text: str) -> list[str]:
    """Split concatenated JSON objects: ``{"a":1}{"b":2}``.

    Returns:
        The text of each object, or the whole text alone if it is anything else.
    """
    pieces: list[str] = []
    position = 0
    while opening := _OPENING.match(text, position):
        start = opening.end() - 1
        try:
            _, position = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            return [text]
        pieces.append(text[start:position])
        if len(pieces) > MAX_PIECES:
            return [text]
    if text[position:].strip():
        return [text]
    return pieces if len(pieces) > 1 else [text]


def _parse_text(text: str) -> ParsedArguments:
    if not text.strip():
        return {}, None, None
    try:
        if len(text) > MAX_VALUES:
            check_json(text.encode(errors="replace"), values=MAX_VALUES, depth=len(text))
        value = _DECODER.decode(text)
    except OverLimit as excess:
        return {}, text, f"The arguments hold {excess}; send fewer."
    except RecursionError:
        return {}, text, _TOO_DEEP
    except json.JSONDecodeError as error:
        return {}, text, f"The arguments are not valid JSON: {error.msg} at character {error.pos}."
    except ValueError as error:  # a number that JSON does not allow
        return {}, text, f"The arguments are not valid JSON: {_brief(error)}."
    return _judge_value(text, value)


def decode_arguments(text: str) -> JsonObject | None:
    """Decode valid arguments, fast: None for a text that is not valid, and for some that only ``parse_arguments`` accepts."""
    size = len(text)
    if size > MAX_DEPTH and (size > MAX_VALUES or text.count("{") + text.count("[") > MAX_DEPTH):
        return None
    try:
        value = _decode(text)
    except ValueError:  # the base class of msgspec's errors
        return None
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]


def _judge_value(text: str, value: object) -> ParsedArguments:
    if value == []:  # PHP and R encode an empty object as an empty list
        return {}, None, None
    if not isinstance(value, dict):
        return {}, text, _not_an_object(value)
    arguments = cast("JsonObject", value)
    fault = _depth_fault(text, arguments) or _surrogate_fault(text, arguments)
    return ({}, text, fault) if fault else (arguments, text, None)


_TOO_DEEP = f"The arguments are nested too deeply (more than {MAX_DEPTH} levels)."


def _brief(error: ValueError) -> str:
    # Python words its own limit on digits with advice about sys.set_int_max_str_digits().
    words = str(error)
    return "a number has too many digits" if "digits" in words else words


def _not_an_object(value: object) -> str:
    kind = _JSON_NAMES.get(type(value), f"a {type(value).__name__}")
    return f"The arguments must be a JSON object, not {kind}."


def _depth_fault(text: str, value: object) -> str | None:
    if text.count("{") + text.count("[") <= MAX_DEPTH:
        return None
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return None
    return _TOO_DEEP


def _children(value: object) -> list[object]:
    if isinstance(value, dict):
        values = list(cast("dict[str, object]", value).values())
    elif isinstance(value, list):
        values = cast("list[object]", value)
    else:
        return []
    return [child for child in values if isinstance(child, dict | list)]


def _surrogate_fault(text: str, value: object) -> str | None:
    try:
        text.encode()
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "The arguments contain half of a surrogate pair, which is not a character."
    return None


def _text_of(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return f"<{type(value).__name__}>"
