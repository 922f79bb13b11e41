"""What is asked of a model: everything an ``Exchange`` is made from, as one value."""

from typing import Any

from msgspec import Struct, field

from multi_llm_chat.errors import ProviderError
from multi_llm_chat.events import Event, ToolCallEnd, ToolCallStart
from multi_llm_chat.exchange.exchange import Exchange
from multi_llm_chat.history.values import Part, ToolCall, Turn
from multi_llm_chat.repair import RepairPolicy
from multi_llm_chat.request import Options


class Question(Struct, frozen=True):
    """One request before it is rendered.

    ``names`` leads from the names under which tools are offered back to the caller's, where a
    stronger repair has renamed them. The key is not part of the question.
    """

    turns: tuple[Turn, ...]
    provider: str
    model: str | None = None
    system_prompt: str | None = None
    tools: tuple[Any, ...] = ()
    policy: RepairPolicy | None = None
    options: Options = Options()
    stream: bool = True
    speaker: str | None = None
    base_url: str | None = None
    names: dict[str, str] = field(default_factory=dict[str, str])

    def exchange(self, api_key: str | None) -> Exchange:
        """The exchange that asks this question."""
        return Exchange(
            self.turns,
            self.provider,
            model=self.model,
            system_prompt=self.system_prompt,
            tools=self.tools or None,
            policy=self.policy,
            options=self.options,
            stream=self.stream,
            speaker=self.speaker,
            base_url=self.base_url,
            api_key=api_key,
        )

    def original_events(self, events: list[Event]) -> list[Event]:
        """The events under the caller's own tool names."""
        return [self._original_event(event) for event in events] if self.names else events

    def original_turn(self, turn: Turn) -> Turn:
        """The turn under the caller's own tool names."""
        if not self.names:
            return turn
        parts = tuple(self._original_part(part) for part in turn.parts)
        return Turn(turn.role, parts, model=turn.model, meta=turn.meta)

    def original_failure(self, failure: ProviderError) -> ProviderError:
        """The failure, its partial turn under the caller's own tool names."""
        if isinstance(failure.partial, Turn):
            failure.partial = self.original_turn(failure.partial)
        return failure

    def _original_event(self, event: Event) -> Event:
        if isinstance(event, ToolCallStart):
            name = self.names.get(event.name, event.name)
            return ToolCallStart(event.index, event.tool_call_id, name)
        if isinstance(event, ToolCallEnd):
            return ToolCallEnd(event.index, self._original_call(event.call))
        return event

    def _original_part(self, part: Part) -> Part:
        return self._original_call(part) if isinstance(part, ToolCall) else part

    def _original_call(self, call: ToolCall) -> ToolCall:
        name = self.names.get(call.name, call.name)
        return ToolCall(name, call.arguments, call.tool_call_id, call.raw_arguments, call.error)
