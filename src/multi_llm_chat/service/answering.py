"""One speaker's answer: how it is asked, and what becomes of everything it says.

Rules:
1. It is asked from a snapshot; what others say meanwhile it does not see.
2. A turn is saved when it is complete, and told only then. One that is not whole is marked as such.
3. A failure is an error record, never the model's words; what was said before it is kept.
4. Nothing here waits: steps are wishes to save and events to tell, in their order.
"""

import time
from collections.abc import Sequence
from decimal import Decimal
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
from multi_llm_chat.errors import MultiLLMChatError, ProviderError
from multi_llm_chat.events import TextDelta, Usage
from multi_llm_chat.history.values import JsonObject, Turn
from multi_llm_chat.loop.limits import LoopLimits
from multi_llm_chat.metering.prices import Cost, Price, cost_of
from multi_llm_chat.repair import RepairPolicy
from multi_llm_chat.service.events import (
    AnswerEvent,
    AnswerFailed,
    AnswerFinished,
    AnswerStarted,
    ChatEvent,
    TurnSaved,
)
from multi_llm_chat.service.keeping import Keeping, Save, new_id
from multi_llm_chat.service.saving import Said, save_end, save_start, save_turn
from multi_llm_chat.service.speakers import Speaker
from multi_llm_chat.store import ErrorRecord, Spending
from multi_llm_chat.store.values import RunStatus
from multi_llm_chat.tools.runner import ToolRunner

Step: TypeAlias = Save | ChatEvent


class Inquiry(Struct, frozen=True):
    """What a speaker is asked, and how.

    ``base`` is the turn it answers; ``meta`` is noted on its turns.
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


class Answer:
    """An answer while it comes."""

    def __init__(self, conversation: str, inquiry: Inquiry, keeping: Keeping) -> None:
        self.run = new_id()
        self.name = inquiry.speaker.name
        self.failed = False
        self.note: CompressionNote | None = None
        self._conversation = conversation
        self._inquiry = inquiry
        self._keeping = keeping
        self._words: list[str] = []
        self._meta = dict(inquiry.meta)
        self._usage = Usage()
        self._cost: Cost | None = Cost()
        self._began = time.monotonic()

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
            "tools": inquiry.tools,
            "system_prompt": inquiry.system_prompt,
            "policy": inquiry.policy,
            "limits": inquiry.limits,
            "compression": inquiry.compression,
            "conversation": self._conversation,
            "options": replace(inquiry.speaker.provider.options, schema=inquiry.schema)
            if inquiry.schema is not None
            else None,
        }

    def begin(self) -> Sequence[Step]:
        """The steps before anything is said."""
        self._began = time.monotonic()
        start = (self._conversation, self.run, self.name, self._inquiry.base)
        model = self._inquiry.speaker.provider.model or ""
        return [Save(save_start, start), AnswerStarted(self.run, self.name, model)]

    def heard(self, event: AgentEvent) -> Sequence[Step]:
        """The steps that an event leads to."""
        match event:
            case TextDelta():
                self._words.append(event.text)
            case HistoryCompressed():
                self.note = event.note
                self._meta["compressed"] = event.note.text
            case TurnFinished():
                return self._finish_turn(event)
            case _:
                pass
        return [AnswerEvent(self.run, self.name, event)]

    def ended(self, result: AgenticLoopResult) -> Sequence[Step]:
        """The steps at the end of the run."""
        if result.error is not None:
            return self.broken(result.error)
        status: RunStatus = "cancelled" if result.stop_reason == "cancelled" else "done"
        return [
            Save(save_end, (self.run, status, None)),
            AnswerFinished(
                self.run, self.name, result.stop_reason, self._usage, self._cost, self._seconds
            ),
        ]

    def broken(self, error: MultiLLMChatError) -> Sequence[Step]:
        """The steps after a failure."""
        self.failed = True
        record = error_record(error)
        return [
            Save(save_end, (self.run, "failed", record)),
            AnswerFailed(self.run, self.name, record, self._usage, self._cost, self._seconds),
        ]

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _finish_turn(self, event: TurnFinished) -> Sequence[Step]:
        meta = event.turn.meta | self._meta
        if not event.is_whole:
            meta["partial"] = True
        turn = replace(event.turn, id=new_id(), created_at=time.time_ns() // 1_000_000, meta=meta)
        self._words = []
        self._keeping.add(turn, self.run)
        spending = self._spend(turn, event.usage) if turn.role != "tool" else None
        save = Save(save_turn, (self._conversation, Said(turn, self.run), spending))
        return [save, TurnSaved(self.run, self.name, turn)]

    def _spend(self, turn: Turn, usage: Usage | None) -> Spending:
        provider = self._inquiry.speaker.provider
        model = turn.model or provider.model or ""
        cost = None
        if usage is not None and usage != Usage():
            cost = cost_of(usage, provider.priced_as, model, self._inquiry.prices)
            self._usage = added(self._usage, usage)
        self._cost = None if cost is None or self._cost is None else self._cost + cost
        total: Decimal | None = None if cost is None else cost.total
        return Spending(
            turn.id or "", self.name, model, usage, total, turn=turn.id, run_id=self.run
        )


def added(one: Usage, other: Usage) -> Usage:
    """Both together."""
    return Usage(*(getattr(one, name) + getattr(other, name) for name in Usage.__struct_fields__))


def error_record(error: MultiLLMChatError) -> ErrorRecord:
    """The error as it is kept."""
    kind = type(error).__name__
    if not isinstance(error, ProviderError):
        return ErrorRecord(kind, str(error))
    return ErrorRecord(kind, error.message, error.provider, error.status, error.code)
