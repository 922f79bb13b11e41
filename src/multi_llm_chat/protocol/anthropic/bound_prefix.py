"""Records what Claude's thinking is bound to, so that it is replayed only where it is still valid (ANT-28, ANT-29).

Rules:
1. The turn of an answer records in ``meta["binding"]`` a hash of everything that its request sent before it, and the first
   turn whose thinking that request replayed.
2. If the next request sends the same before that turn, all thinking that was replayed then is still valid, and so is
   the turn's own. Otherwise none of it is replayed: a request without any thinking is always accepted.
3. Thinking without a record, such as that of an imported history, is sent back unchanged.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec

from multi_llm_chat.history.json_values import as_list, as_object
from multi_llm_chat.history.values import JsonObject, Thinking, Turn


def find_binding(turns: Sequence[Turn]) -> tuple[int, JsonObject] | None:
    """The index of the last turn with thinking, and what the request that it answered has recorded about its prefix, if known."""
    for at in range(len(turns) - 1, -1, -1):
        if any(type(part) is Thinking for part in turns[at].parts):
            binding = as_object(turns[at].meta.get("binding"))
            return (at, binding) if binding is not None and "prefix" in binding else None
    return None


def head_hash(body: JsonObject) -> str:
    """A hash of the system prompt and the tools, without cache marks (ANT-29) and tools that a message has added (ANT-46)."""
    tools: list[JsonObject] | None = body.get("tools")
    if tools is not None:
        tools = [tool for tool in tools if not tool.get("defer_loading")]
    return _hash("", [_plain_blocks(body.get("system", "")), _unmarked(tools)])


def prefix_hash(before: str, messages: Sequence[JsonObject]) -> str:
    """A hash of everything that thinking after these messages is bound to; ``before`` is the hash of what precedes them.

    It is computed message by message, so that a request that continues an earlier one only hashes its new messages.
    """
    for message in messages:
        before = _hash(before, [message["role"], _plain_blocks(message["content"])])
    return before


def _hash(before: str, value: Any) -> str:
    text = before.encode() + msgspec.json.encode(value, order="sorted")
    return sha256(text).hexdigest()[:32]


def _plain_blocks(said: str | list[JsonObject]) -> Any:
    return [{"type": "text", "text": said}] if isinstance(said, str) else _unmarked(said)


def _unmarked(value: Any) -> Any:
    """The blocks without cache marks."""
    blocks: list[JsonObject] | None = as_list(value)
    if blocks is None:
        return value
    return [
        {
            key: _unmarked(inner) if key == "content" else inner
            for key, inner in block.items()
            if key != "cache_control"
        }
        for block in blocks
    ]


def last_cut(turns: Sequence[Turn]) -> int:
    """The index of the last turn that ends with thinking, as no message may; -1 if there is none."""
    ends = (
        at
        for at in range(len(turns) - 1, -1, -1)
        if turns[at].parts and type(turns[at].parts[-1]) is Thinking
    )
    return next(ends, -1)
