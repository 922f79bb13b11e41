"""Calls that a server refused, read from the model's words in its error (GRQ-04).

Groq checks a model's calls and answers 400 where one fails, with the model's words in ``failed_generation``. The call is
then as good as any other wrong call: the model learns what is wrong with it and tries again. Nothing is guessed: a call
is a name and the text behind it, in one of the forms models write; the text of its arguments is kept as it was written.
What is no call in any of these forms gives none, and the reply fails.
"""

import json
import re
from typing import Any, Final, NamedTuple, cast

from multi_llm_chat.history.json_values import compact_json

#: ``<function=name>{…}</function>``, also with the bracket missing or round ones around the object.
_TAGGED: Final = re.compile(
    r"<function\s*=\s*([^\s>{(<]+)\s*>?\s*\(?\s*(.*?)\s*\)?\s*>?\s*(?:</?function>|(?=<function\s*=)|\Z)",
    re.DOTALL,
)
_OPENING: Final = re.compile(r"[\[{]")
_DECODER: Final = json.JSONDecoder()
_ARGUMENTS: Final = ("arguments", "parameters", "input", "args")


class RefusedCall(NamedTuple):
    """A call that was not passed on; ``arguments`` is its text."""

    name: str
    arguments: str


def read_refused_calls(generation: str) -> list[RefusedCall]:
    """The calls in what a model wrote."""
    tagged = [RefusedCall(name, arguments) for name, arguments in _TAGGED.findall(generation)]
    return tagged or [
        call for value in _json_values(generation) for call in _calls_in(cast("object", value))
    ]


def _json_values(text: str) -> list[Any]:
    values: list[Any] = []
    position = 0
    while found := _OPENING.search(text, position):
        try:
            value, position = _DECODER.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            return values  # what follows a broken value is part of it
        values.append(value)
    return values


def _calls_in(value: object) -> list[RefusedCall]:
    if isinstance(value, list):
        return [call for member in cast("list[object]", value) for call in _calls_in(member)]
    if not isinstance(value, dict):
        return []
    entries = cast("dict[str, Any]", value)
    if "tool_calls" in entries:
        return _calls_in(entries["tool_calls"])
    function = entries.get("function")
    merged = entries | cast("dict[str, Any]", function) if isinstance(function, dict) else entries
    name = merged.get("name")
    if not isinstance(name, str) or not name:
        return []
    arguments = next((merged[key] for key in _ARGUMENTS if key in merged), None)
    return [
        RefusedCall(
            name, arguments if isinstance(arguments, str) else compact_json(arguments or {})
        )
    ]
