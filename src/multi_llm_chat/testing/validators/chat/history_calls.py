"""The tool calls that an assistant made earlier: ids, names, arguments, and the results that answer them.

1. A function's name follows the same rule in definitions and in calls of the history.
2. A tool message answers a call of the assistant message that it follows, with nothing but other
   tool messages in between.
3. Every call of that assistant message is answered before anything else is said.
4. No call is answered twice.
"""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from multi_llm_chat.testing.validators.chat.row import ChatCall, calls_of
from multi_llm_chat.testing.validators.typed_views import as_array, as_object, as_string, type_name
from multi_llm_chat.testing.validators.violation import Violation, listed


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


# Earlier calls.

MAXIMUM_CALLS = 128


def check_calls(
    call: ChatCall, index: int, path: str, message: dict[str, Any]
) -> Iterator[Violation]:
    """Judge the ``tool_calls`` of one assistant message."""
    if message.get("tool_calls") is None:
        return
    where = f"{path}.tool_calls"
    items = as_array(message["tool_calls"])
    if items is None:
        actual = type_name(message["tool_calls"])
        yield from call.say("calls_type", path=where, expected="an array of objects", actual=actual)
        return
    if not items:
        yield from call.say("calls_empty", path=where, index=index)
    if len(items) > MAXIMUM_CALLS:
        yield from call.say("calls_many", path=where, limit=MAXIMUM_CALLS, length=len(items))
    for position, item in enumerate(items):
        made = as_object(item)
        place = f"{where}[{position}]"
        if made is None:
            actual = type_name(item)
            yield from call.say("call_type", path=place, expected="an object", actual=actual)
        else:
            yield from _check_call(call, index, place, made)


def _check_call(call: ChatCall, index: int, path: str, made: dict[str, Any]) -> Iterator[Violation]:
    if call.row.call_keys is not None:
        for key in made:
            if key not in call.row.call_keys:
                yield from call.say("call_key", path=path, index=index, key=key)
    yield from _check_identifier(call, f"{path}.id", made)
    yield from _check_kind(call, path, made)
    if made.get("type") == "custom":
        return
    function = as_object(made.get("function"))
    if function is None:
        yield from call.say("call_function_missing", path=f"{path}.function", index=index)
        return
    yield from check_name(call, "call_name", f"{path}.function.name", function)
    yield from _check_arguments(call, f"{path}.function.arguments", function)


def _check_identifier(call: ChatCall, path: str, made: dict[str, Any]) -> Iterator[Violation]:
    identifier = made.get("id")
    if identifier is None:
        yield from call.say("call_id_missing", path=path)
    elif not isinstance(identifier, str):
        actual = type_name(identifier)
        yield from call.say("call_id_type", path=path, expected="a string", actual=actual)
    elif not identifier:
        yield from call.say("call_id_empty", path=path)
    elif call.row.identifier_limit is not None and len(identifier) > call.row.identifier_limit:
        length = len(identifier)
        yield from call.say(
            "call_id_long", path=path, limit=call.row.identifier_limit, length=length
        )


def _check_kind(call: ChatCall, path: str, made: dict[str, Any]) -> Iterator[Violation]:
    kind = made.get("type")
    if kind is None:
        yield from call.say("call_kind_missing", path=f"{path}.type")
    elif kind not in call.row.tool_types:
        supported = listed(call.row.tool_types)
        yield from call.say("call_kind", path=f"{path}.type", value=kind, supported=supported)


def _check_arguments(call: ChatCall, path: str, function: dict[str, Any]) -> Iterator[Violation]:
    arguments = function.get("arguments")
    if arguments is None:
        yield from call.say("arguments_missing", path=path)
        return
    if not isinstance(arguments, str):
        actual = type_name(arguments)
        yield from call.say("arguments_type", path=path, expected="a string", actual=actual)
        return
    shown = arguments[:80]
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        fault = "arguments_json" if arguments else "arguments_blank"
        yield from call.say(fault, path=path, value=shown, reason=str(error))
        return
    if not isinstance(parsed, dict):
        yield from call.say("arguments_object", path=path, value=shown)


# Calls and results.


class _OpenTurn(msgspec.Struct):
    """The assistant message whose results are being read."""

    index: int
    expected: dict[str, None]
    answered: set[str]

    def missing(self) -> list[str]:
        return [identifier for identifier in self.expected if identifier not in self.answered]


def check_pairing(call: ChatCall) -> Iterator[Violation]:
    """Report orphans, duplicates and unanswered calls in the order of the messages."""
    turn: _OpenTurn | None = None
    index = -1
    for index, message in call.messages():
        if message.get("role") == "tool":
            yield from _check_result(call, index, turn, message.get("tool_call_id"))
            continue
        yield from _close(call, turn, index)
        identifiers = [as_string(made.get("id")) for made in calls_of(message)]
        expected = {found: None for found in identifiers if found}
        turn = _OpenTurn(index, expected, set()) if expected else None
    yield from _close(call, turn, index + 1)


def _check_result(
    call: ChatCall, index: int, turn: _OpenTurn | None, identifier: object
) -> Iterator[Violation]:
    if not isinstance(identifier, str) or not identifier:
        yield from call.say(
            "result_id_missing", path=f"messages[{index}].tool_call_id", index=index
        )
        if turn is None:
            yield from call.say("result_orphan", index=index, identifier=identifier)
        return
    if turn is None or identifier not in turn.expected:
        yield from call.say("result_orphan", index=index, identifier=identifier)
    elif identifier in turn.answered:
        yield from call.say("result_duplicate", index=index, identifier=identifier)
    else:
        turn.answered.add(identifier)


def _close(call: ChatCall, turn: _OpenTurn | None, next_index: int) -> Iterator[Violation]:
    missing = turn.missing() if turn is not None else []
    if turn is not None and missing:
        yield from call.say(
            "call_unanswered",
            index=turn.index,
            next_index=next_index,
            identifiers=", ".join(missing),
        )
