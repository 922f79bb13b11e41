"""Reading protobuf messages in their JSON form.

The API takes the camel-case name and the original snake-case name of a field alike, and a null as
an absent field.
"""

import re
from collections.abc import Iterator
from typing import Any

from multi_llm_chat.testing.validators.gemini import wordings as say
from multi_llm_chat.testing.validators.typed_views import as_object
from multi_llm_chat.testing.validators.violation import Violation


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
