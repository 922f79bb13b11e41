"""The conversation as Anthropic sees it: runs of one role are one turn."""

from collections.abc import Iterator
from typing import Any

import msgspec

from multi_llm_chat.testing.validators.typed_views import as_array, as_object


class Placed(msgspec.Struct, frozen=True):
    """A block and where it stands: message index and position in that message's content."""

    index: int
    position: int
    block: dict[str, Any]

    @property
    def kind(self) -> object:
        """The block's type."""
        return self.block.get("type")


class Turn(msgspec.Struct):
    """Everything said by one role without another in between; system messages do not interrupt."""

    role: str
    index: int
    blocks: list[Placed]

    def of_kind(self, kind: str) -> Iterator[Placed]:
        """The turn's blocks of one type."""
        return (placed for placed in self.blocks if placed.kind == kind)


def read_turns(messages: object) -> list[Turn]:
    """Merge the messages into turns; whatever has no readable shape is left out."""
    turns: list[Turn] = []
    for index, item in enumerate(as_array(messages) or []):
        message = as_object(item) or {}
        role = message.get("role")
        if role not in ("user", "assistant"):
            continue
        if not turns or turns[-1].role != role:
            turns.append(Turn(role, index, []))
        turns[-1].blocks.extend(_blocks(index, message.get("content")))
    return turns


def _blocks(index: int, content: object) -> Iterator[Placed]:
    if isinstance(content, str):
        # A string is short for one block of text; an empty one is short for none.
        if content:
            yield Placed(index, 0, {"type": "text", "text": content})
        return
    for position, item in enumerate(as_array(content) or []):
        block = as_object(item)
        if block is not None:
            yield Placed(index, position, block)


def open_loop(turns: list[Turn]) -> list[Turn]:
    """The assistant's turns since the user last said something that was not only tool results.

    Empty unless the request continues a tool loop or ends with the assistant.
    """
    loop: list[Turn] = []
    for turn in reversed(turns):
        if turn.role == "assistant":
            loop.append(turn)
        elif not any(True for _ in turn.of_kind("tool_result")):
            break
    return list(reversed(loop))
