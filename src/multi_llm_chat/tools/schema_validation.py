"""Check a JSON value against its schema: the arguments of a tool before it runs, an answer before it counts.

Rules:
1. A schema is compiled once. References to other documents are never fetched: such a schema is unusable, and the error says so.
2. A complaint names each place (``$.a[0].b``) and the value expected there; it is short, however large the arguments are.
"""

from collections.abc import Sequence
from typing import Any, Final

import jsonschema_rs
import msgspec

from multi_llm_chat.errors import OutputError, UsageError
from multi_llm_chat.history.json_values import clean_text, compact_json
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.schema.python_types import without_fence
from multi_llm_chat.tools.tool import NotRun

_MOST_COMPLAINTS: Final = 5
_LONGEST_COMPLAINT: Final = 400
#: Keywords whose message does not say which values are valid.
_UNTOLD: Final = frozenset({"anyOf", "oneOf", "not", "if", "contains"})


class SchemaCheck:
    """A compiled schema."""

    def __init__(self, schema: JsonObject) -> None:
        self._schema = schema
        try:
            self._validator = jsonschema_rs.Draft202012Validator(schema, retriever=_refuse)
        except (ValueError, TypeError, RecursionError) as error:
            raise UsageError(f"the schema cannot be used: {_short(str(error))}") from error

    def require(self, name: str, arguments: JsonObject) -> None:
        """Return if the arguments fit.

        Raises:
            NotRun: They do not fit; the text is for the model.
        """
        complaints = self.complaints(arguments)
        if complaints:
            raise bad_arguments(name, complaints)

    def complaints(self, value: object) -> list[str]:
        """The errors, a line for each place; empty if the value fits."""
        if self._validator.is_valid(value):
            return []
        complaints: list[str] = []
        for error in self._validator.iter_errors(value):
            if len(complaints) == _MOST_COMPLAINTS:
                complaints.append("- and more")
                break
            complaints.append(f"- {path_text(error.instance_path)}: {self._complaint(error)}")
        return complaints

    def read_answer(self, text: str) -> Any:
        """The JSON value of an answer that fits the schema.

        Raises:
            OutputError: The answer is not JSON, or does not fit the schema.
        """
        try:
            value: Any = msgspec.json.decode(without_fence(text).encode(errors="replace"))
        except (ValueError, RecursionError) as error:
            raise OutputError(f"The answer is no JSON: {_short(str(error))}", text=text) from None
        complaints = self.complaints(value)
        if complaints:
            lines = "\n".join(complaints)
            raise OutputError(f"The answer does not fit its schema:\n{lines}", text=text)
        return value

    def _complaint(self, error: jsonschema_rs.ValidationError) -> str:
        text = _short(error.message)
        keyword = error.schema_path[-1] if error.schema_path else None
        if keyword in _UNTOLD:
            wanted = self._at(error.schema_path)
            if wanted is not None:
                text += f"; expected {keyword} {_short(compact_json(wanted))}"
        return text

    def _at(self, path: Sequence[str | int]) -> Any:
        place: Any = self._schema
        for step in path:
            try:
                place = place[step]
            except (KeyError, IndexError, TypeError):
                return None  # the path leads through a reference
        return place


def bad_arguments(name: str, complaints: Sequence[str]) -> NotRun:
    """The message to the model about arguments that do not fit."""
    return NotRun(
        f"The arguments of {name!r} do not fit its schema, so it was not run:\n"
        + "\n".join(complaints)
        + "\nCall it again with arguments that fit."
    )


def path_text(path: Sequence[str | int]) -> str:
    """The path to a value in the arguments; ``$`` is the whole object."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return _short("$" + "".join(steps))


def _short(text: str) -> str:
    text = clean_text(text)
    if len(text) <= _LONGEST_COMPLAINT:
        return text
    half = _LONGEST_COMPLAINT // 2
    return f"{text[:half]} … {text[-half:]}"


def _refuse(uri: str) -> Any:
    message = f"schemas of tools may not refer to other documents ({uri})"
    raise ValueError(message)
