"""Function names: the same rule for definitions and for calls in the history."""

from collections.abc import Iterator
from typing import Any

from multi_llm_chat.testing.validators.chat.row import ChatCall
from multi_llm_chat.testing.validators.typed_views import type_name
from multi_llm_chat.testing.validators.violation import Violation


def check_name(
    call: ChatCall, fault: str, path: str, function: dict[str, Any]
) -> Iterator[Violation]:
    """Judge ``function["name"]``; ``fault`` is the stem of the faults to report."""
    name = function.get("name")
    row = call.row
    if name is None:
        yield from call.say(f"{fault}_missing", path=path)
    elif not isinstance(name, str):
        actual = type_name(name)
        yield from call.say(f"{fault}_type", path=path, expected="a string", actual=actual)
    elif not name:
        yield from call.say(f"{fault}_empty", path=path, value=name)
    elif row.name_pattern is not None and not row.name_pattern.fullmatch(name):
        pattern = row.name_pattern.pattern
        yield from call.say(f"{fault}_pattern", path=path, value=name, pattern=pattern)
    elif row.name_pattern is not None and len(name) > row.name_limit:
        yield from call.say(
            f"{fault}_long", path=path, value=name, limit=row.name_limit, length=len(name)
        )
