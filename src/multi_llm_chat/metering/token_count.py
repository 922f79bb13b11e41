"""How many tokens a conversation has.

Rules:
1. Without a tokenizer, one token is 1.5 Chinese, Japanese or Korean characters, or 4 others.
2. Counting takes time linear in the text, and each turn is counted once: turns are immutable, so counts are cached.
3. Tokens that no tokenizer can count (images, framing, encrypted thinking) are estimated on the high side.
"""

import math
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from multi_llm_chat.history.json_values import clean_json, clean_text, compact_json
from multi_llm_chat.history.reader import split_result
from multi_llm_chat.history.values import (
    Media,
    Native,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from multi_llm_chat.request import ToolDefinition

#: Hangul, kana, bopomofo, ideographs, and full-width forms.
_CJK: Final = re.compile(
    "[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff]+"
)

#: The tokens of a turn, a call or a tool besides its text: role, id and separators.
_FRAME: Final = 4
_CALL_FRAME: Final = 12
_TOOL_FRAME: Final = 12
#: The tokens of an image at the largest resolution that providers use.
_PICTURE: Final = 1_600
#: Documents and sounds are estimated by size: about 32 bytes of a file are one token.
_BYTES_A_TOKEN: Final = 32
#: A counter clears its cache when it holds this many turns.
_MEMORY: Final = 100_000


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text from its characters."""
    if text.isascii():
        return -(-len(text) // 4)
    dense = sum(map(len, _CJK.findall(text)))
    return math.ceil(dense / 1.5 + (len(text) - dense) / 4)


def safety_factor(has_tools: bool = False) -> float:
    """The factor by which an estimate is multiplied for safety; larger if tools are offered."""
    return 1.5 if has_tools else 1.2


class Counter:
    """Counts tokens with a tokenizer, or by estimate, and caches the counts of turns."""

    def __init__(
        self,
        count_text: Callable[[str], int] = estimate_tokens,
        *,
        is_exact: bool = False,
        buffer_factor: Callable[[bool], float] | None = None,
    ) -> None:
        self._count = count_text
        self._buffer_factor = buffer_factor or safety_factor
        self.is_exact = is_exact
        #: Keyed by ``id()``; the turn is kept with its count, so that its ``id()`` is not reused.
        self._turns: dict[int, tuple[Turn, int]] = {}
        self._tools: dict[int, tuple[object, int]] = {}
        #: The conversation that was counted last: the next one usually begins with it.
        self._last: tuple[tuple[Turn, ...], int] = (), 0

    def factor(self, has_tools: bool) -> float:
        """The factor by which counts are multiplied for safety; 1 for exact counts."""
        return 1.0 if self.is_exact else self._buffer_factor(has_tools)

    def text(self, text: str) -> int:
        """The tokens of a text."""
        return self._count(text) if text else 0

    def turn(self, turn: Turn) -> int:
        """The tokens of a turn; 0 for an unreadable turn, which is never sent."""
        known = self._turns.get(id(turn))
        if known is not None:
            return known[1]
        if turn.unreadable is not None:
            tokens = 0
        else:
            tokens = _FRAME + sum(self._part(part) for part in turn.parts)
        if len(self._turns) >= _MEMORY:
            self._turns.clear()
        self._turns[id(turn)] = turn, tokens
        return tokens

    def turns(self, turns: Iterable[Turn]) -> int:
        """The tokens of turns."""
        turns = tuple(turns)
        known, tokens = self._last
        if turns is known:
            return tokens
        if turns[: len(known)] != known:  # usually the same objects, so the comparison is cheap
            known, tokens = (), 0
        tokens += sum(map(self.turn, turns[len(known) :]))
        self._last = turns, tokens
        return tokens

    def tools(self, tools: Iterable[Any]) -> int:
        """The tokens of tool definitions in any form."""
        return sum(map(self._tool, tools))

    def _tool(self, tool: object) -> int:
        known = self._tools.get(id(tool))
        if known is not None:
            return known[1]
        declared = tool
        if isinstance(tool, ToolDefinition):
            declared = {"name": tool.name, "description": tool.description, "parameters": tool.schema}  # fmt: skip
        tokens = _TOOL_FRAME + self.text(compact_json(clean_json(declared)))
        # Other forms are mutable, so their counts are not cached.
        if isinstance(tool, ToolDefinition):
            if len(self._tools) >= _MEMORY:
                self._tools.clear()
            self._tools[id(tool)] = tool, tokens
        return tokens

    def _part(self, part: Part) -> int:
        match part:
            case Text():
                return self.text(part.content)
            case ToolCall():
                written = part.raw_arguments or compact_json(clean_json(part.arguments))
                return _CALL_FRAME + self.text(part.name) + self.text(clean_text(written))
            case ToolResult():
                words, media = split_result(clean_json(part.content))
                return _CALL_FRAME + self.text(words) + sum(map(_media_tokens, media))
            case Thinking():
                # The length of encrypted thinking is proportional to that of its text.
                sealed = compact_json(clean_json(part.opaque)) if part.opaque else ""
                return self.text(part.content) + estimate_tokens(sealed)
            case Media():
                return _media_tokens(part)
            case Native():
                return max(
                    self.text(part.text), estimate_tokens(compact_json(clean_json(part.raw)))
                )


def _media_tokens(media: Media) -> int:
    if media.mime.startswith("image/"):
        return _PICTURE
    return max(_PICTURE, len(media.data or "") * 3 // 4 // _BYTES_A_TOKEN)
