"""One speaker's answer: how it is asked, and what becomes of everything it says.

Rules:
1. It is asked from a snapshot; what others say meanwhile it does not see.
2. A turn is saved when it is complete, and told only then. One that is not whole is marked as such.
3. A failure is an error record, never the model's words; what was said before it is kept.
4. Nothing here waits: steps are wishes to save and events to tell, in their order.
5. Everything is in the journal before it happens: who finds it there later can go on with it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from multi_llm_chat.client.agent_context import Compression
from multi_llm_chat.client.agent_events import (
    AgentEvent,
    AgenticLoopResult,
    HistoryCompressed,
    TurnFinished,
)
from multi_llm_chat.context.notes import CompressionNote
from multi_llm_chat.durable.driving import error_record
from multi_llm_chat.durable.holding import Hands, Holder
from multi_llm_chat.durable.limiting import Gate
from multi_llm_chat.durable.recording import Identity, Record
from multi_llm_chat.durable.saving import Save
from multi_llm_chat.durable.tools import RecordedTools
from multi_llm_chat.errors import MultiLLMChatError, RunLost
from multi_llm_chat.events import TextDelta
from multi_llm_chat.history.values import JsonObject, Turn
from multi_llm_chat.loop.limits import LoopLimits
from multi_llm_chat.metering.prices import Price
from multi_llm_chat.repair import RepairPolicy
from multi_llm_chat.service.events import (
    AnswerEvent,
    AnswerFailed,
    AnswerFinished,
    AnswerStarted,
    ChatEvent,
    TurnSaved,
)
from multi_llm_chat.service.keeping import Keeping, new_id
from multi_llm_chat.service.speakers import Speaker
from multi_llm_chat.store import ErrorRecord
from multi_llm_chat.store.rates import RateLimit
from multi_llm_chat.store.values import RunStatus
from multi_llm_chat.tools.runner import ToolRunner

Step: TypeAlias = Save | ChatEvent


class Inquiry(Struct, frozen=True):
    """What a speaker is asked, and how.

    ``base`` is the turn it answers; ``meta`` is noted on its turns; ``rates`` are what may be asked of providers.
    """

    speaker: Speaker
    history: tuple[Turn, ...]
    tools: ToolRunner
    system_prompt: str | None = None
    policy: RepairPolicy | None = None
    limits: LoopLimits = LoopLimits()
    compression: Compression | None = Compression()
    prices: dict[str, Price] = {}
    base: str | None = None
    meta: JsonObject = {}
    schema: JsonObject | None = None
    rates: Mapping[str, RateLimit] = {}

    def identity(self, conversation: str, run: str) -> Identity:
        """Whose run it is."""
        speaker = self.speaker
        return Identity(
            conversation, run, speaker.name, speaker.provider, self.base, self.meta, self.prices
        )

    def settings(self) -> dict[str, Any]:
        """How the run of model and tools is made, besides who is asked, from which history, with which tools."""
        options = self.speaker.provider.options
        return {
            "system_prompt": self.system_prompt,
            "policy": self.policy,
            "limits": self.limits,
            "compression": self.compression,
            "options": replace(options, schema=self.schema) if self.schema is not None else None,
        }

    def spec(self) -> JsonObject:
        """What somebody else needs to know in order to go on with the run."""
        return spec_of(self.meta, self.schema)


def spec_of(meta: JsonObject, schema: JsonObject | None) -> JsonObject:
    """What is kept of how a speaker was asked; the rest follows from the conversation and the settings."""
    told: JsonObject = {"meta": meta} if meta else {}
    return told | ({"schema": schema} if schema is not None else {})


class Answer:
    """An answer while it comes."""

    def __init__(
        self, conversation: str, inquiry: Inquiry, keeping: Keeping, holder: Holder
    ) -> None:
        self.run = new_id()
        self.name = inquiry.speaker.name
        self.failed = False
        self.note: CompressionNote | None = None
        self._conversation = conversation
        self._inquiry = inquiry
        self._keeping = keeping
        self._holder = holder
        self._words: list[str] = []
        self._start: Save | None = None
        self._record = Record(inquiry.identity(conversation, self.run), holder, inquiry.tools)
        self._gate = Gate(holder.store, inquiry.speaker.provider, inquiry.rates)

    @property
    def words(self) -> str:
        """What was said since the last complete turn."""
        return "".join(self._words)

    def arguments(self) -> dict[str, Any]:
        """How the run of model and tools is made."""
        inquiry = self._inquiry
        return {
            "provider": inquiry.speaker.provider,
            "history": inquiry.history,
            "tools": RecordedTools(inquiry.tools, self._record),
            "conversation": self._conversation,
            "admit": self._gate.admit,
            **inquiry.settings(),
        }

    def handed(self, cancel: Callable[[], None]) -> None:
        """How it is stopped, from wherever: when it is lost, or somebody wants it ended."""
        self._holder.handed(self.run, Hands(cancel, cancel))

    def begin(self) -> Sequence[Step]:
        """The steps before anything is said."""
        started = AnswerStarted(self.run, self.name, self._inquiry.speaker.provider.model or "")
        return [started] if self._start is not None else [self.start(), started]

    def start(self) -> Save:
        """How it is kept that the answer begins; it may be saved together with the message that it answers."""
        self._start = self._record.start(self._inquiry.spec())
        return self._start

    def heard(self, event: AgentEvent) -> Sequence[Step]:
        """The steps that an event leads to."""
        match event:
            case TurnFinished():
                return self._finish_turn(event)
            case TextDelta():
                self._words.append(event.text)
            case HistoryCompressed():
                self.note = event.note
            case _:
                pass
        return [*self._record.heard(event), AnswerEvent(self.run, self.name, event)]

    def ended(self, result: AgenticLoopResult) -> Sequence[Step]:
        """The steps at the end of the run."""
        if result.error is not None:
            return self.broken(result.error)
        record = self._record
        status: RunStatus = "cancelled" if result.stop_reason == "cancelled" else "done"
        return [
            record.end(status, result.stop_reason, None),
            AnswerFinished(
                self.run, self.name, result.stop_reason, record.usage, record.cost, record.seconds
            ),
        ]

    def broken(self, error: MultiLLMChatError) -> Sequence[Step]:
        """The steps after a failure."""
        kept = error_record(error)
        return [
            *self._gate.failed(error),
            self._record.end("failed", "error", kept),
            self._failed(kept),
        ]

    def lost(self, error: RunLost) -> Sequence[Step]:
        """The steps when another process goes on with the run: here it is over."""
        self._record.let_go()
        return [self._failed(error_record(error))]

    def _failed(self, kept: ErrorRecord) -> AnswerFailed:
        self.failed = True
        record = self._record
        return AnswerFailed(self.run, self.name, kept, record.usage, record.cost, record.seconds)

    def _finish_turn(self, event: TurnFinished) -> Sequence[Step]:
        self._words = []
        turn, saves = self._record.finish_turn(event)
        self._keeping.add(turn, self.run)
        return [*saves, *self._gate.answered(event.usage), TurnSaved(self.run, self.name, turn)]
