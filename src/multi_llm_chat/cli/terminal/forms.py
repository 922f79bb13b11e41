"""The form of a server, field by field.

Rules:
1. A field takes only what its schema allows; what is wrong is said while it is typed, and how many choices there are.
2. An empty answer leaves an optional field out. A default is there to be edited.
3. Nothing is sent before the whole has been seen. Ctrl-C cancels, Ctrl-D declines.
"""

import json
from collections.abc import Callable
from typing import Any, Final

import jsonschema_rs
from msgspec import Struct
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.validation import ValidationError, Validator

from multi_llm_chat.cli.terminal.key_choice import Teletype
from multi_llm_chat.cli.terminal.safety import one_line
from multi_llm_chat.history.json_values import as_list, as_object, as_text
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.tools.mcp.server_messages import Elicitation, ElicitationAnswer

CANCELLED: Final = ElicitationAnswer("cancel")
_DECLINED: Final = ElicitationAnswer("decline")
_TRUE: Final = frozenset({"y", "yes", "true", "1"})
_FALSE: Final = frozenset({"n", "no", "false", "0"})


class Field(Struct, frozen=True):
    """A blank in a form; ``choices`` are values by what they are called."""

    name: str
    schema: JsonObject
    required: bool
    choices: dict[str, Any]
    several: bool = False

    @property
    def title(self) -> str:
        """What the field is called."""
        return one_line(as_text(self.schema.get("title")) or self.name)

    @property
    def hint(self) -> str:
        """What may be written there."""
        said = [one_line(as_text(self.schema.get("description")))]
        if self.choices:
            said.append(("any of: " if self.several else "one of: ") + ", ".join(self.choices))
        elif self.schema.get("type") == "boolean":
            said.append("yes or no")
        said.append("required" if self.required else "may be left empty")
        return " · ".join(word for word in said if word)

    @property
    def default(self) -> str:
        """What is written there already."""
        value = self.schema.get("default")
        if value is None:
            return ""
        if isinstance(value, bool):
            return "yes" if value else "no"
        listed = as_list(value)
        return ", ".join(map(self._called, [value] if listed is None else listed))

    def _called(self, value: Any) -> str:
        names = (name for name, choice in self.choices.items() if choice == value)
        return next(names, None) or one_line(str(value))

    def read(self, text: str) -> Any:
        """The value of what was written; None for nothing.

        Raises:
            ValueError: It is not what the schema asks for; the text is for the writer.
        """
        text = text.strip()
        if not text:
            if self.required:
                raise ValueError("This field is required.")
            return None
        value = self._value(text)
        for error in jsonschema_rs.validator_for(self.schema, validate_formats=True).iter_errors(
            value
        ):
            raise ValueError(one_line(error.message))
        return value

    def _value(self, text: str) -> Any:
        if self.several:
            return [self._choice(part.strip()) for part in text.split(",") if part.strip()]
        if self.choices:
            return self._choice(text)
        read = _READERS.get(as_text(self.schema.get("type")))
        return read(text) if read else text

    def _choice(self, text: str) -> Any:
        for name, value in self.choices.items():
            if text.casefold() in {name.casefold(), str(value).casefold()}:
                return value
        raise ValueError(
            f"Choose {'from' if self.several else 'one of'}: {', '.join(self.choices)}."
        )


def fields_of(schema: JsonObject) -> list[Field]:
    """The blanks of a form."""
    required = as_list(schema.get("required")) or []
    fields: list[Field] = []
    for name, value in (as_object(schema.get("properties")) or {}).items():
        described = as_object(value) or {}
        items = as_object(described.get("items"))
        choices = _choices(described if items is None else items)
        fields.append(Field(name, described, name in required, choices, items is not None))
    return fields


def ask_form(teletype: Teletype, question: Elicitation) -> ElicitationAnswer:
    """Have the form filled in."""
    fields = fields_of(question.schema)
    content: JsonObject = {}
    while True:
        try:
            content = {
                field.name: value
                for field in fields
                if (value := _ask(teletype, field, content.get(field.name))) is not None
            }
        except KeyboardInterrupt:
            return CANCELLED
        except EOFError:
            return _DECLINED
        options = {
            "y": f"send to {one_line(question.server)}",
            "e": "edit",
            "n": "decline",
            "c": "cancel",
        }
        key = teletype.choose(options, back="c")
        if key != "e":
            answers = {"y": ElicitationAnswer("accept", content), "n": _DECLINED}
            return answers.get(key, CANCELLED)


class _Typed(Validator):
    def __init__(self, field: Field) -> None:
        self._field = field

    def validate(self, document: Document) -> None:
        """Say what is wrong."""
        try:
            self._field.read(document.text)
        except ValueError as error:
            raise ValidationError(len(document.text), str(error)) from None


def _ask(teletype: Teletype, field: Field, before: Any) -> Any:
    shown = field.default if before is None else field.title and _again(field, before)
    text = teletype.session().prompt(
        f"  {field.title}: ",
        default=shown,
        validator=_Typed(field),
        validate_while_typing=False,
        completer=WordCompleter(list(field.choices), ignore_case=True) if field.choices else None,
        bottom_toolbar=field.hint,
    )
    return field.read(text)


def _again(field: Field, value: Any) -> str:
    return Field(field.name, {"default": value}, False, field.choices, field.several).default


def _choices(schema: JsonObject) -> dict[str, Any]:
    titled = as_list(schema.get("oneOf")) or as_list(schema.get("anyOf")) or []
    options = [option for item in titled if (option := as_object(item)) and "const" in option]
    if options:
        return {one_line(str(item.get("title", item["const"]))): item["const"] for item in options}
    values = as_list(schema.get("enum")) or []
    names = as_list(schema.get("enumNames")) or []
    if len(names) != len(values):
        names = values
    return {one_line(str(name)): value for name, value in zip(names, values, strict=True)}


def _boolean(text: str) -> bool:
    word = text.casefold()
    if word not in _TRUE | _FALSE:
        raise ValueError("Answer yes or no.")
    return word in _TRUE


def _number(text: str) -> float | int:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError("This is not a number.")
    return value


_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "boolean": _boolean,
    "integer": _number,
    "number": _number,
}
