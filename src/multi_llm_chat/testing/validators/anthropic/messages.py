"""Anthropic messages: the shape of each, and of the conversation they make.

1. Each message has a role, content, and nothing else.
2. For older models the first turn is the user's; a system message stands before an assistant's or at the end.
3. Turns say something; only the final assistant's may be empty.
4. The request ends with the user's turn, unless the model continues a prefill.
"""

from collections.abc import Iterator
from typing import Any

from multi_llm_chat.testing.validators.anthropic import wordings as say
from multi_llm_chat.testing.validators.anthropic.blocks import (
    check_block,
    check_text,
    is_server_result,
)
from multi_llm_chat.testing.validators.anthropic.thinking import ClaudeModel
from multi_llm_chat.testing.validators.anthropic.turns import MergedTurn, PlacedBlock, read_turns
from multi_llm_chat.testing.validators.typed_views import as_array, as_object, objects
from multi_llm_chat.testing.validators.violation import Violation

_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_SYSTEM_BLOCKS = ("text", "tool_addition", "tool_removal")


def check_messages(body: dict[str, Any]) -> Iterator[Violation]:
    """Rule 1: types, members and blocks, as the schema sees them."""
    if "messages" not in body:
        yield say.REQUIRED.fill(path="messages")
        return
    items = as_array(body["messages"])
    if items is None:
        yield say.wrong_type("messages", "array")
        return
    if not items:
        yield say.MESSAGES_EMPTY.fill()
    for index, item in enumerate(items):
        message = as_object(item)
        if message is None:
            yield say.wrong_type(f"messages.{index}", "object")
        else:
            yield from _check_message(index, message)


def _check_message(index: int, message: dict[str, Any]) -> Iterator[Violation]:
    path = f"messages.{index}"
    role = message.get("role")
    if "role" not in message:
        yield say.REQUIRED.fill(path=f"{path}.role")
    elif role not in ("user", "assistant", "system"):
        yield say.ROLE.fill(role=role)
    if "content" not in message:
        yield say.REQUIRED.fill(path=f"{path}.content")
    else:
        yield from _check_content(index, f"{path}.content", role, message["content"])
    for key in message:
        if key not in (
            {"role", "content", "clear_at"} if role == "system" else {"role", "content"}
        ):
            yield say.EXTRA.fill(path=f"{path}.{key}")


def _check_content(index: int, path: str, role: object, content: object) -> Iterator[Violation]:
    if isinstance(content, str):
        return
    blocks = as_array(content)
    if blocks is None:
        yield say.wrong_type(path, "array")
        return
    for position, block in enumerate(blocks):
        where = f"{path}.{position}"
        if role in ("user", "assistant"):
            yield from check_block(index, where, str(role), block)
        elif as_object(block) is None:
            yield say.wrong_type(where, "object")
        elif "type" not in block:
            yield say.REQUIRED.fill(path=f"{where}.type")


def check_conversation(body: dict[str, Any], model: ClaudeModel) -> Iterator[Violation]:
    """Rules 2 to 4."""
    messages = objects(body.get("messages"))
    yield from _check_system(messages, model)
    turns = read_turns(body.get("messages"))
    if turns and turns[0].role != "user" and model.wants_user_first:
        yield say.FIRST_ROLE.fill()
    yield from _check_empty(turns)
    for turn in turns:
        # Blank texts were recorded to be accepted where Claude calls tools, its own or the server's (ANT-06).
        if turn.role == "assistant" and any(map(_is_step, turn.blocks)):
            continue
        for placed in turn.of_kind("text"):
            yield from check_text("messages", placed.block.get("text"))
    if turns and turns[-1].role == "assistant" and turns[-1].blocks:
        yield from _check_prefill(turns[-1], model)


def _is_step(placed: PlacedBlock) -> bool:
    return placed.kind in _CALLS or is_server_result(placed.kind)


def _check_empty(turns: list[MergedTurn]) -> Iterator[Violation]:
    for turn in turns:
        if turn.blocks:
            continue
        if turn.role == "user":
            yield say.EMPTY_USER.fill(index=turn.index)
        elif turn is not turns[-1]:
            yield say.EMPTY_ASSISTANT.fill(index=turn.index)


#: A turn that ends with one of these was paused by the server, which continues it: it is no prefill (ANT-47).
_PAUSED = ("server_tool_use", "mcp_tool_use", "compaction")


def _check_prefill(turn: MergedTurn, model: ClaudeModel) -> Iterator[Violation]:
    last = turn.blocks[-1].block
    if last.get("type") in _PAUSED:
        return
    if not model.takes_prefill:
        yield say.PREFILL.fill()
    text = last.get("text")
    if last.get("type") == "text" and isinstance(text, str) and text != text.rstrip():
        yield say.TRAILING_SPACE.fill()


def _check_system(messages: list[dict[str, Any]], model: ClaudeModel) -> Iterator[Violation]:
    for index, message in enumerate(messages):
        if message.get("role") != "system":
            continue
        if not model.takes_system_messages:
            yield say.SYSTEM_ROLE.fill()
            continue
        following = messages[index + 1].get("role") if index + 1 < len(messages) else None
        yield from _check_system_message(index, message, following)


def _check_system_message(
    index: int, message: dict[str, Any], following: object
) -> Iterator[Violation]:
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)
    if not blocks:
        yield say.SYSTEM_EMPTY.fill(index=index)
    if any(block.get("type") not in _SYSTEM_BLOCKS for block in blocks):
        yield say.SYSTEM_BLOCKS.fill(index=index)
    if index == 0:
        yield say.SYSTEM_HEAD.fill(index=index)
    elif following not in (None, "assistant", "system"):
        # Only where a run of system messages ends is constrained, so its last one is at fault.
        yield say.SYSTEM_PLACE.fill(index=index)
    texts = [block.get("text") for block in blocks if block.get("type") == "text"]
    if any(isinstance(text, str) and not text.strip() for text in texts):
        yield say.SYSTEM_BLANK.fill(index=index)


def check_system(body: dict[str, Any]) -> Iterator[Violation]:
    """The top-level ``system`` member: a string or text blocks that say something."""
    if "system" not in body or isinstance(body["system"], str):
        return
    blocks = as_array(body["system"])
    if blocks is None:
        yield say.wrong_type("system", "array")
        return
    for position, item in enumerate(blocks):
        block = as_object(item)
        if block is None:
            yield say.wrong_type(f"system.{position}", "shape")
        elif block.get("type") != "text":
            reason = "Input should be 'text'"
            yield say.VALUE.fill(path=f"system.{position}.type", reason=reason)
        else:
            yield from check_block(position, f"system.{position}", "user", block)
            yield from check_text("system", block.get("text"))
