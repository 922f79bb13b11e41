"""A whole reply, as a value."""

from typing import Any

import msgspec
from msgspec import Struct

from multi_llm_chat.events import Finish, FinishReason, Usage
from multi_llm_chat.history.values import JsonObject, Text, ToolCall, Turn
from multi_llm_chat.history.writer import write_turn
from multi_llm_chat.protocol.rendered_request import Rendered
from multi_llm_chat.repair.policy import Note
from multi_llm_chat.request import Transcript
from multi_llm_chat.schema.python_types import without_fence

_DECLINED = frozenset({"refusal", "safety"})


class Reply(Struct, frozen=True):
    """The answer to one request, with its usage and the reason for its end.

    Append ``turn`` to the history: it keeps what the provider needs to recognise its own thinking. ``finish.reason`` shows a refusal or a
    safety block. ``notes`` are the changes that the request needed. ``provider`` is the member of a chain that answered.
    """

    turn: Turn
    usage: Usage = Usage()
    finish: Finish = Finish("other")
    notes: tuple[Note, ...] = ()
    provider: str = ""
    _request: Rendered | None = None

    @property
    def transcript(self) -> Transcript | None:
        """What the request sent; pass it to the next request as ``previous``."""
        return None if self._request is None else self._request.transcript

    @property
    def text(self) -> str:
        """The text of the answer."""
        return "".join(part.content for part in self.turn.parts if isinstance(part, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the model; a call with an ``error`` must not run."""
        return tuple(part for part in self.turn.parts if isinstance(part, ToolCall))

    @property
    def finish_reason(self) -> FinishReason:
        """Why the reply ended."""
        return self.finish.reason

    @property
    def refusal(self) -> str | None:
        """The text of a refusal by the model or the provider's filter; ``None`` if the model answered."""
        if self.finish.reason not in _DECLINED:
            return None
        return self.text or self.finish.raw or self.finish.reason

    @property
    def data(self) -> Any:
        """The answer as JSON, for a request with ``schema``; ``None`` if the text is not JSON."""
        try:
            return msgspec.json.decode(without_fence(self.text).encode(errors="replace"))
        except msgspec.DecodeError:
            return None

    @property
    def entry(self) -> JsonObject:
        """The turn in the serialised form of a history."""
        return write_turn(self.turn)
