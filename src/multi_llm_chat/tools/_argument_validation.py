"""Arguments are checked against the whole schema before anything runs.

Rules:
1. A schema is compiled once. Nothing is ever fetched for it: a reference that leads outside of it
   makes it unusable, and said so.
2. The text of a complaint names each place (``$.a[0].b``) and what was expected there; it is short
   whatever the arguments were.
"""

from collections.abc import Sequence
from typing import Any, Final

import jsonschema_rs

from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.json_values import clean_text, compact_json
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.tools.tool import NotRun

_MOST_COMPLAINTS: Final = 5
_LONGEST_COMPLAINT: Final = 400
#: Keywords whose message does not say what would have been right.
_UNTOLD: Final = frozenset({"anyOf", "oneOf", "not", "if", "contains"})


class ArgumentCheck:
    """The compiled schema of one tool."""

    def __init__(self, schema: JsonObject) -> None:
        self._schema = schema
        try:
            self._validator = jsonschema_rs.Draft202012Validator(schema, retriever=_refuse)
        except (ValueError, TypeError, RecursionError) as error:
            raise UsageError(f"the schema cannot be used: {_short(str(error))}") from error

    def require(self, name: str, arguments: JsonObject) -> None:
        """Return when the arguments fit.

        Raises:
            NotRun: They do not; the text is for the model.
        """
        if self._validator.is_valid(arguments):
            return
        complaints: list[str] = []
        for error in self._validator.iter_errors(arguments):
            if len(complaints) == _MOST_COMPLAINTS:
                complaints.append("- and more")
                break
            complaints.append(f"- {path_text(error.instance_path)}: {self._complaint(error)}")
        raise bad_arguments(name, complaints)

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
    """The place in the arguments: ``$`` is all of them."""
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
