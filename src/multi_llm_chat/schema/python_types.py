"""Python types as JSON Schema, and JSON in those types: tool arguments and typed answers.

Rules:
1. msgspec knows dataclasses, its own Structs, ``TypedDict`` and the standard types.
2. Models of pydantic are recognised by their methods; pydantic is never imported.
3. The schema of an answer is an object: any other type is wrapped as the field ``result`` of an object.
"""

import contextlib
import pathlib
from typing import Any, Final, Generic, TypeVar, cast

import msgspec

from multi_llm_chat.errors import OutputError, UsageError
from multi_llm_chat.history.json_values import as_object, compact_json
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.schema.cleanup import clean_schema

T = TypeVar("T")

#: The form of references to definitions.
DEFINITION: Final = "#/$defs/{name}"
_RESULT: Final = "result"
#: How many earlier cut positions of a partial text are tried.
_PARTIAL_TRIES: Final = 8


class OutputType(Generic[T]):
    """The type of an answer: has its schema and reads answers as values of the type.

    Args:
        kind: A dataclass, msgspec Struct, ``TypedDict``, pydantic model or another type that msgspec reads.

    Raises:
        UsageError: The type has no schema.
    """

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind
        foreign = ForeignSchemas()
        try:
            (schema,), components = msgspec.json.schema_components(
                [kind], schema_hook=foreign, ref_template=DEFINITION
            )
            self._decoder = msgspec.json.Decoder(kind, dec_hook=decode_foreign)
        except (TypeError, ValueError) as error:
            raise UsageError(f"{kind!r} is no type of an answer: {error}") from error
        definitions = components | foreign.definitions
        schema = _inlined(schema, definitions)
        self._is_wrapped = schema.get("type") != "object"
        if self._is_wrapped:
            schema = {
                "type": "object",
                "properties": {_RESULT: schema},
                "required": [_RESULT],
                "additionalProperties": False,
            }
        self.schema = clean_schema(schema | ({"$defs": definitions} if definitions else {}))

    def read_partial(self, text: str) -> Any:
        """The partial answer so far, as plain JSON values; None if there is nothing yet."""
        value = read_partial(text)
        known = as_object(value)
        return known.get(_RESULT) if self._is_wrapped and known is not None else value

    def read(self, text: str) -> T:
        """The answer as a value of the type.

        Raises:
            OutputError: The text is not JSON, or does not fit the type.
        """
        try:
            value: Any = msgspec.json.decode(without_fence(text).encode(errors="replace"))
            if self._is_wrapped:
                value = value[_RESULT]
            return cast("T", decode_value(self._decoder, value))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            words = f"the field {_RESULT!r} is missing" if isinstance(error, KeyError) else error
            raise OutputError(f"The answer does not fit its type: {words}", text=text) from error


def _inlined(schema: JsonObject, definitions: JsonObject) -> JsonObject:
    """The definition to which the schema refers, or the schema itself if it is not a reference."""
    reference = str(schema.get("$ref", ""))
    name = reference.removeprefix(DEFINITION.format(name=""))
    return cast("JsonObject", definitions[name]) if reference and name in definitions else schema


def schema_of(given: Any) -> JsonObject:
    """The given JSON Schema, or the schema of the given type."""
    known = as_object(given)
    return OutputType(cast("type[Any]", given)).schema if known is None else known


def read_partial(text: str) -> Any:
    """The JSON value at the beginning of an incomplete text, as far as it has arrived; None if there is nothing yet."""
    text = (
        without_fence(text)
        if text.rstrip().endswith("```")
        else text.partition("```json")[2] or text
    )
    closing: list[str] = []
    # Positions at which the text can be cut, and the brackets that close it there.
    whole: list[tuple[int, str]] = []
    in_string = is_escaped = False
    for at, character in enumerate(text):
        if in_string:
            in_string = is_escaped or character != '"'
            is_escaped = character == "\\" and not is_escaped
        elif character == '"':
            in_string = True
        elif character in "{[":
            closing.append("}" if character == "{" else "]")
            whole.append((at + 1, "".join(reversed(closing))))
        elif character in "}]" and closing:
            closing.pop()
            whole.append((at + 1, "".join(reversed(closing))))
        elif character == ",":
            whole.append((at, "".join(reversed(closing))))
    end = "".join(reversed(closing))
    open_string = text.removesuffix("\\") if is_escaped else text
    candidates = [open_string + '"' + end] if in_string else [text + end]
    candidates += [text[:at] + closed for at, closed in reversed(whole[-_PARTIAL_TRIES:])]
    for candidate in candidates:
        with contextlib.suppress(ValueError, RecursionError):
            return msgspec.json.decode(candidate.encode(errors="replace"))
    return None


def without_fence(text: str) -> str:
    """The text without the code fence that some models put around JSON."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```"):
        _, _, text = text.removesuffix("```").partition("\n")
    return text


def decode_value(decoder: "msgspec.json.Decoder[Any]", value: Any) -> Any:
    """Convert the JSON value to the decoder's type; whole numbers written as ``5.0`` count as integers."""
    try:
        return decoder.decode(compact_json(value))
    except msgspec.ValidationError:
        return decoder.decode(compact_json(_whole_numbers(value)))


def _whole_numbers(value: Any) -> Any:
    """Replace ``5.0`` by ``5``: JSON Schema accepts it as an integer, the decoder does not."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_whole_numbers(item) for item in cast("list[Any]", value)]
        case dict():
            return {key: _whole_numbers(item) for key, item in cast("JsonObject", value).items()}
        case _:
            return value


class ForeignSchemas:
    """Makes schemas of types that msgspec does not know; their definitions are moved to the root."""

    def __init__(self) -> None:
        self.definitions: JsonObject = {}
        self._prefixes: dict[str, object] = {}

    def __call__(self, kind: Any) -> JsonObject:
        """The schema of a type: msgspec's ``schema_hook``."""
        if _is_path(kind):
            return {"type": "string", "format": "path"}
        describe = getattr(kind, "model_json_schema", None)
        if not callable(describe):
            raise NotImplementedError
        prefix = self._prefix(kind)
        template = f"#/$defs/{prefix}.{{model}}"
        schema = cast("JsonObject", describe(ref_template=template))
        for name, definition in cast("JsonObject", schema.pop("$defs", {})).items():
            self.definitions[f"{prefix}.{name}"] = definition
        return schema

    def _prefix(self, kind: Any) -> str:
        """The class's name; two classes of one name get different names."""
        name: str = kind.__name__
        while self._prefixes.setdefault(name, kind) is not kind:
            name += "_"
        return name


def decode_foreign(kind: Any, value: Any) -> Any:
    """Convert a JSON value to a type that msgspec does not know: msgspec's ``dec_hook``."""
    if _is_path(kind):
        if not isinstance(value, str):
            raise ValueError("expected a path as a string")
        return kind(value)
    validate = getattr(kind, "model_validate", None)
    if callable(validate):
        return validate(value)
    raise NotImplementedError


def encode_foreign(value: Any) -> Any:
    """Convert a value of such a type to JSON: msgspec's ``enc_hook``."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, pathlib.PurePath):
        return str(value)
    raise TypeError


def _is_path(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, pathlib.PurePath)
