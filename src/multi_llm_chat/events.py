"""What a reply is made of while it arrives.

Rules:
1. A reply is any number of deltas, then at most one ``Usage``, then exactly one ``Finish``.
2. Every ``ToolCallStart`` that is not cut off is closed by one ``ToolCallEnd`` with the same
   ``index``; only the ``ToolCallEnd`` carries a call that may be run.
3. A broken reply has no ``Finish`` and no ``ToolCallEnd`` for a call that was still open.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from multi_llm_chat.history.values import ToolCall

FinishReason: TypeAlias = Literal["stop", "tool_calls", "length", "refusal", "safety", "other"]


class TextDelta(Struct, frozen=True):
    """More words of the answer."""

    text: str


class ThinkingDelta(Struct, frozen=True):
    """More words of the model's reasoning."""

    text: str


class ToolCallStart(Struct, frozen=True):
    """A tool call begins; its arguments follow."""

    index: int
    tool_call_id: str
    name: str


class ToolCallDelta(Struct, frozen=True):
    """A piece of the JSON text of a call's arguments."""

    index: int
    arguments: str


class ToolCallEnd(Struct, frozen=True):
    """A tool call is complete."""

    index: int
    call: ToolCall


class Usage(Struct, frozen=True):
    """Tokens as the provider counted them; ``input_tokens`` includes cached ones."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    thinking_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        names = self.__struct_fields__
        return Usage(*(getattr(self, name) + getattr(other, name) for name in names))


class Finish(Struct, frozen=True):
    """The reply is complete; ``raw`` is the provider's own word for why."""

    reason: FinishReason
    raw: str = ""


Event: TypeAlias = (
    TextDelta | ThinkingDelta | ToolCallStart | ToolCallDelta | ToolCallEnd | Usage | Finish
)
