"""What a simulated model says, in no provider's words.

Rules:
1. Everything is said in this order: thinking, text, media, calls.
2. What a provider has no way to say is left out of its reply (thinking on ``openai-chat``,
   pictures on Anthropic); the rest of the reply stays.
3. The same ``Say`` for the same request is the same bytes, ids included.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from multi_llm_chat.events import FinishReason, Usage
from multi_llm_chat.history.values import JsonObject, Media
from multi_llm_chat.testing.simulator.faults import Fault


class Call(Struct, frozen=True):
    """A tool call; ``arguments`` given as a string is sent as it is, valid JSON or not.

    Without an ``id`` the call gets one in the shape the provider uses.
    """

    name: str
    arguments: JsonObject | str = {}
    id: str | None = None

    @property
    def text(self) -> str:
        """The arguments as JSON text."""
        if isinstance(self.arguments, str):
            return self.arguments
        return json.dumps(self.arguments, ensure_ascii=False, separators=(",", ":"))

    @property
    def value(self) -> Any:
        """The arguments as a JSON value; an empty object where they are not JSON."""
        if not isinstance(self.arguments, str):
            return self.arguments
        try:
            return json.loads(self.arguments)
        except ValueError:
            return {}


class Say(Struct, frozen=True):
    """One reply.

    Args:
        text: The answer.
        thinking: The reasoning before it.
        calls: Tools to be called after it.
        media: Pictures, where the provider can answer with them.
        usage: The tokens to report; counted roughly from request and reply otherwise.
        finish: Why it ends; ``tool_calls`` or ``stop`` otherwise, according to the parts.
        raw_finish: The provider's own word for it, instead of the usual one.
        signature: What signs the thinking (Anthropic, Gemini) or is its encrypted content
            (Responses); made up otherwise, none if empty.
        delta_size: Characters in each streamed piece.
        interleave: Stream the arguments of all calls in turn instead of one after the other.
        faults: What goes wrong on the way, applied in this order.
    """

    text: str = ""
    thinking: str = ""
    calls: Sequence[Call] = ()
    media: Sequence[Media] = ()
    usage: Usage | None = None
    finish: FinishReason | None = None
    raw_finish: str | None = None
    signature: str | None = None
    delta_size: int = 8
    interleave: bool = False
    faults: Sequence[Fault] = ()

    @property
    def reason(self) -> FinishReason:
        """Why the reply ends."""
        if self.finish is not None:
            return self.finish
        return "tool_calls" if self.calls else "stop"

    def having(self, **changes: Any) -> Say:
        """The same with some fields changed."""
        return msgspec.structs.replace(self, **changes)


def pieces(text: str, size: int) -> list[str]:
    """The text in pieces of ``size`` characters; none where there is no text."""
    step = max(size, 1)
    return [text[start : start + step] for start in range(0, len(text), step)]


def counted(say: Say, request_bytes: int) -> Usage:
    """The usage to report: what the script says, or a rough count."""
    if say.usage is not None:
        return say.usage
    calls = sum(len(call.name) + len(call.text) for call in say.calls)
    thinking = -(-len(say.thinking) // 4)
    return Usage(
        input_tokens=1 + request_bytes // 4,
        output_tokens=1 + thinking + (len(say.text) + calls) // 4,
        thinking_tokens=thinking,
    )
