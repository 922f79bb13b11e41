"""What a conversation tells while a message is answered.

Rules:
1. First the message is saved, then the answers come, of several speakers in any order among each other;
   ``MessageFinished`` is the last event.
2. An answer is ``AnswerStarted``, its ``AnswerEvent``s and saved turns, and then one of ``AnswerFinished`` or
   ``AnswerFailed``, all with the same ``run``.
3. ``TurnSaved`` tells that a turn is in the store for good. Where it could not be saved, ``NotSaved`` tells so before
   it: the conversation goes on in memory and is saved as soon as that is possible.
"""

from typing import TypeAlias

from msgspec import Struct

from multi_llm_chat.client.agent_events import AgentEvent
from multi_llm_chat.events import Usage
from multi_llm_chat.history.values import Turn
from multi_llm_chat.loop.limits import StopReason
from multi_llm_chat.metering.prices import Cost
from multi_llm_chat.store.values import ErrorRecord


class MessageSaved(Struct, frozen=True):
    """The user's words are kept; nobody is ``addressed`` by a memo."""

    conversation: str
    turn: Turn
    addressed: tuple[str, ...] = ()


class AnswerStarted(Struct, frozen=True):
    """A speaker begins to answer."""

    run: str
    speaker: str
    model: str


class AnswerEvent(Struct, frozen=True):
    """Something happens in an answer: words, thoughts, tools."""

    run: str
    speaker: str
    event: AgentEvent


class AnswerResumed(Struct, frozen=True):
    """An answer goes on after its process has died: what was said since its last saved turn is no more."""

    run: str
    speaker: str
    attempt: int


class TurnSaved(Struct, frozen=True):
    """A turn of the answer is complete and kept; ``is_saved`` tells whether in the store or only in memory."""

    run: str
    speaker: str
    turn: Turn
    is_saved: bool = True


class NotSaved(Struct, frozen=True):
    """The conversation cannot be saved at present; it goes on in memory."""

    error: str


class AnswerFinished(Struct, frozen=True):
    """A speaker has answered; ``cost`` is None where the price is not known."""

    run: str
    speaker: str
    stop_reason: StopReason
    usage: Usage
    cost: Cost | None
    seconds: float


class AnswerFailed(Struct, frozen=True):
    """A speaker gave no whole answer; what it said until then is kept."""

    run: str
    speaker: str
    error: ErrorRecord
    usage: Usage
    cost: Cost | None
    seconds: float


class MessageFinished(Struct, frozen=True):
    """All who were addressed are done."""

    conversation: str
    answered: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


ChatEvent: TypeAlias = (
    MessageSaved
    | AnswerStarted
    | AnswerEvent
    | AnswerResumed
    | TurnSaved
    | NotSaved
    | AnswerFinished
    | AnswerFailed
    | MessageFinished
)
