"""Reads JSON into typed values fast, and tolerates values of wrong types.

Rules:
1. Text that fits its type is decoded directly by msgspec.
2. Text that does not fit is read again field by field: a value of the wrong type is treated as
   missing, and all other values are kept.
3. Lone surrogates and bytes that are not UTF-8 become U+FFFD; NaN and infinity become ``null``.
4. Text that is not a JSON object gives ``None``, never an exception.
5. ``ObjectEnd`` tells whether an object that arrives in pieces has ended. Each piece is scanned once, and
   only if the result is needed: the cost is linear. Only brackets and strings are examined. Balanced text that
   is not JSON has ended, too: no further text could make it valid.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Generic, TypeVar, cast, get_args, get_origin

import msgspec

_Value = TypeVar("_Value", bound=msgspec.Struct)

#: Types whose values have no fields.
_PLAIN = (str, bytes, int, float, list, type(None))

#: The exceptions of decoding text that is not JSON of the right type.
FAULTS = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


class LenientDecoder(Generic[_Value]):
    """Decodes JSON objects into one type of value."""

    def __init__(self, type_: type[_Value]) -> None:
        self._type = type_
        self._decoder = msgspec.json.Decoder(type_)
        #: Strict and fast; raises one of ``FAULTS``.
        self.decode = self._decoder.decode

    def recover(self, data: bytes) -> _Value | None:
        """Read leniently what the strict decoder refused; ``None`` if it is not a JSON object."""
        value = read_json(data)
        return _fit_struct(cast("object", value), self._type) if isinstance(value, dict) else None

    def fit(self, value: object) -> _Value:
        """Convert a mapping, or any object by its attributes; values that do not fit are left out."""
        found, fitting = _fit(value, self._type)
        return fitting if found else self._type()

    def read(self, data: bytes) -> _Value | None:
        """Read strictly if possible, leniently if not."""
        try:
            return self._decoder.decode(data)
        except FAULTS:
            return self.recover(data)


def read_json(data: bytes) -> object:
    """Read any JSON text; ``None`` if it is not JSON."""
    try:
        return msgspec.json.decode(data)
    except FAULTS:
        pass
    try:
        return _clean(json.loads(data.decode(errors="replace"), parse_constant=lambda _: None))
    except (ValueError, RecursionError):
        return None


def clean_text(text: str) -> str:
    """Replace lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _clean(value: object) -> object:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_clean(item) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        entries = cast("dict[str, object]", value)
        return {clean_text(key): _clean(item) for key, item in entries.items()}
    return value


def _is_struct(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, msgspec.Struct)


def _fit_struct(value: object, type_: type[_Value]) -> _Value:
    fitting: dict[str, Any] = {}
    for field in msgspec.structs.fields(type_):
        if isinstance(value, Mapping):
            given = cast("Mapping[str, object]", value).get(field.encode_name)
        else:
            given = getattr(value, field.name, None)
        found, item = _fit(given, field.type)
        if found and given is not None:
            fitting[field.name] = item
    return type_(**fitting)


def _fit(value: object, type_: Any) -> tuple[bool, Any]:
    """Convert a value to a type; also return whether any part of it fits."""
    try:
        return True, msgspec.convert(value, type_, strict=False, from_attributes=True)
    except (msgspec.ValidationError, RecursionError):
        pass
    choices = get_args(type_) if get_origin(type_) is not list else (type_,)
    for choice in choices or (type_,):
        if _is_struct(choice) and not isinstance(value, _PLAIN):
            return True, _fit_struct(value, choice)
        if isinstance(value, list) and get_origin(choice) is list:
            fits = [_fit(item, get_args(choice)[0]) for item in cast("list[object]", value)]
            return True, [item for found, item in fits if found]
    return False, None


# An object that arrives in pieces.

_MARKS = re.compile(r'["\\{}\[\]]')
#: Checks that a text is a JSON object, without decoding its values.
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class ObjectEnd:
    """Follows the brackets of one text."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._opened = False
        self._last = ""  # the last character that is not space

    def add(self, piece: str) -> None:
        """Add a piece of the text."""
        self._pieces.append(piece)

    def reached(self) -> bool:
        """Return whether the text so far is a complete object, to which nothing can be added."""
        if self._pieces:
            text = "".join(self._pieces)
            self._pieces = []
            # The usual case, with the same result as the scan.
            if not self._last and _is_object(text):
                self._opened, self._last = True, "}"
            else:
                self._scan(text)
        return self._opened and self._last == "}" and self._depth == 0 and not self._in_string

    def _scan(self, text: str) -> None:
        stripped = text.strip()
        if stripped:
            self._opened = self._opened or (not self._last and stripped[0] == "{")
            self._last = stripped[-1]
        if "\\" not in text and not self._escaped:
            pieces = text.split('"')
            outside = "".join(pieces[1 if self._in_string else 0 :: 2])
            self._depth += outside.count("{") + outside.count("[")
            self._depth -= outside.count("}") + outside.count("]")
            self._in_string ^= len(pieces) % 2 == 0
            return
        position = 1 if self._escaped else 0
        self._escaped = False
        while mark := _MARKS.search(text, position):
            position = mark.end()
            if self._in_string:
                position = self._scan_string(mark[0], position, len(text))
            elif mark[0] == '"':
                self._in_string = True
            elif mark[0] != "\\":
                self._depth += 1 if mark[0] in "{[" else -1

    def _scan_string(self, mark: str, position: int, length: int) -> int:
        if mark == '"':
            self._in_string = False
        elif mark == "\\":
            self._escaped = position == length
            return position + 1
        return position


def _is_object(text: str) -> bool:
    try:
        _decode_object(text)
    except (ValueError, RecursionError):  # the base class of msgspec's errors
        return False
    return True
