"""Calls and results of a Chat Completions history belong together.

1. A tool message answers a call of the assistant message that it follows, with nothing but other
   tool messages in between.
2. Every call of that assistant message is answered before anything else is said.
3. No call is answered twice.
"""

from collections.abc import Iterator

import msgspec

from multi_llm_chat.testing.validators.chat.row import ChatCall, calls_of
from multi_llm_chat.testing.validators.typed_views import as_string
from multi_llm_chat.testing.validators.violation import Violation


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
