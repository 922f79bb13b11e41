"""The conversation as Anthropic sees it: runs of one role are one turn, and tool uses have their results.

1. The user's turn after a tool use opens with the results of all uses of that turn.
2. Ids of tool uses are unique within a turn; a use has one result. A later turn may use an id again (ANT-04).
3. The result of a server tool follows its use, with no word of the user between. A use may be open at the end of the
   request, and while the client's own calls of its turn are answered.
4. A request whose history uses tools offers tools, where the model is an older one.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from multi_llm_chat.testing.validators.anthropic import wordings as say
from multi_llm_chat.testing.validators.anthropic.blocks import is_server_result
from multi_llm_chat.testing.validators.typed_views import as_array, as_object, as_string
from multi_llm_chat.testing.validators.violation import Violation


class PlacedBlock(msgspec.Struct, frozen=True):
    """A block and where it stands: message index and position in that message's content."""

    index: int
    position: int
    block: dict[str, Any]

    @property
    def kind(self) -> object:
        """The block's type."""
        return self.block.get("type")


class MergedTurn(msgspec.Struct):
    """Everything said by one role without another in between; system messages do not interrupt."""

    role: str
    index: int
    blocks: list[PlacedBlock]

    def of_kind(self, kind: str) -> Iterator[PlacedBlock]:
        """The turn's blocks of one type."""
        return (placed for placed in self.blocks if placed.kind == kind)


def read_turns(messages: object) -> list[MergedTurn]:
    """Merge the messages into turns; whatever has no readable shape is left out."""
    turns: list[MergedTurn] = []
    for index, item in enumerate(as_array(messages) or []):
        message = as_object(item) or {}
        role = message.get("role")
        if role not in ("user", "assistant"):
            continue
        if not turns or turns[-1].role != role:
            turns.append(MergedTurn(role, index, []))
        turns[-1].blocks.extend(_blocks(index, message.get("content")))
    return turns


def _blocks(index: int, content: object) -> Iterator[PlacedBlock]:
    if isinstance(content, str):
        # A string is short for one block of text; an empty one is short for none.
        if content:
            yield PlacedBlock(index, 0, {"type": "text", "text": content})
        return
    for position, item in enumerate(as_array(content) or []):
        block = as_object(item)
        if block is not None:
            yield PlacedBlock(index, position, block)


def open_loop(turns: list[MergedTurn]) -> list[MergedTurn]:
    """The assistant's turns since the user last said something that was not only tool results.

    Empty unless the request continues a tool loop or ends with the assistant.
    """
    loop: list[MergedTurn] = []
    for turn in reversed(turns):
        if turn.role == "assistant":
            loop.append(turn)
        elif not any(True for _ in turn.of_kind("tool_result")):
            break
    return list(reversed(loop))


# Tool uses and their results.


def check_pairing(
    body: dict[str, Any], *, wants_tools: bool, compares_ids: bool = True
) -> Iterator[Violation]:
    """Hold the whole conversation against the rules above; ``compares_ids``: a result names a use before it."""
    turns = read_turns(body.get("messages"))
    previous: MergedTurn | None = None
    for turn in turns if compares_ids else ():
        if turn.role == "assistant":
            yield from _check_unique(turn, set())
            yield from _check_words(turn)
        else:
            yield from _check_results(turn, previous)
        previous = turn
    if previous is not None and previous.role == "assistant":
        yield from _say_unanswered(previous, set())
    yield from _check_server_tools(turns)
    if wants_tools and not body.get("tools") and any(_uses_tools(turn) for turn in turns):
        yield say.TOOLS_MISSING.fill()


def _uses_tools(turn: MergedTurn) -> bool:
    return any(placed.kind in ("tool_use", "tool_result") for placed in turn.blocks)


def _identifiers(turn: MergedTurn | None) -> list[str]:
    if turn is None or turn.role != "assistant":
        return []
    found = [as_string(placed.block.get("id")) for placed in turn.of_kind("tool_use")]
    return [identifier for identifier in found if identifier is not None]


def _check_unique(turn: MergedTurn, seen: set[str]) -> Iterator[Violation]:
    for placed in turn.of_kind("tool_use"):
        identifier = as_string(placed.block.get("id"))
        if identifier in seen:
            yield say.DUPLICATE_USE.fill(index=placed.index, position=placed.position)
        if identifier is not None:
            seen.add(identifier)


def _check_words(turn: MergedTurn) -> Iterator[Violation]:
    """Words behind a use part it from its result (recorded: anomalyco/opencode, rejects-malformed-assistant-tool-order)."""
    uses: list[str] = []
    for placed in turn.blocks:
        if placed.kind == "tool_use":
            uses.append(as_string(placed.block.get("id")) or "")
        elif placed.kind == "text" and uses:
            yield say.UNANSWERED_USE.fill(index=turn.index, identifiers=", ".join(uses))
            return


def _check_results(turn: MergedTurn, previous: MergedTurn | None) -> Iterator[Violation]:
    expected = set(_identifiers(previous))
    answered: set[str] = set()
    late: list[str] = []
    opening = True
    for placed in turn.blocks:
        if placed.kind != "tool_result":
            opening = False
            continue
        identifier = as_string(placed.block.get("tool_use_id")) or ""
        yield from _check_result(placed, identifier, expected, answered)
        answered.add(identifier)
        if not opening and identifier in expected:
            late.append(identifier)
    if previous is not None:
        yield from _say_unanswered(previous, answered)
        if late:
            index = previous.index
            yield say.LATE_RESULT.fill(index=index, identifiers=", ".join(late))


def _check_result(
    placed: PlacedBlock, identifier: str, expected: set[str], answered: set[str]
) -> Iterator[Violation]:
    place = {"index": placed.index, "position": placed.position, "identifier": identifier}
    if identifier not in expected:
        yield say.ORPHAN_RESULT.fill(**place)
    elif identifier in answered:
        yield say.DUPLICATE_RESULT.fill(**place)


def _say_unanswered(turn: MergedTurn, answered: set[str]) -> Iterator[Violation]:
    missing = [identifier for identifier in _identifiers(turn) if identifier not in answered]
    if missing:
        yield say.UNANSWERED_USE.fill(
            index=turn.index, identifiers=", ".join(dict.fromkeys(missing))
        )


_SERVER_USES = ("server_tool_use", "mcp_tool_use")


def _check_server_tools(turns: list[MergedTurn]) -> Iterator[Violation]:
    pending: dict[str, PlacedBlock] = {}
    for turn in turns:
        results = [placed.kind == "tool_result" for placed in turn.blocks]
        speaks = turn.role == "user" and not (results and all(results))
        if speaks and (turn is not turns[-1] or not any(results)):
            yield from _say_open(pending)
            pending = {}
        for placed in turn.blocks:
            identifier = as_string(placed.block.get("id")) or ""
            answered = as_string(placed.block.get("tool_use_id")) or ""
            if placed.kind in _SERVER_USES:
                pending[identifier] = placed
            elif is_server_result(placed.kind) and pending.pop(answered, None) is None:
                yield say.ORPHAN_SERVER_RESULT.fill(
                    index=placed.index,
                    position=placed.position,
                    kind=placed.kind,
                    identifier=answered,
                )
    last = next((turn for turn in reversed(turns) if turn.role == "assistant"), None)
    if last is None:
        return
    is_answered = last is turns[-1] or any(True for _ in last.of_kind("tool_use"))
    early = {name: placed for name, placed in pending.items() if placed not in last.blocks}
    yield from _say_open(early if is_answered else pending)


def _say_open(pending: dict[str, PlacedBlock]) -> Iterator[Violation]:
    for identifier, placed in pending.items():
        name = placed.block.get("name")
        yield say.SERVER_USE.fill(index=placed.index, name=name, identifier=identifier)
