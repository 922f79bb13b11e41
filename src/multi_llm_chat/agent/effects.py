"""Effects that the loop requests and the outcomes it receives: the whole interface between deciding and doing.

Rules:
1. The loop yields one effect at a time and is sent that effect's outcome.
2. Outcomes carry the seconds the run has taken so far: the loop has no clock.
3. A cancelled effect still has an outcome: what was finished before the cancel.
4. Every turn that the run adds is reported once, as ``added`` of the effect (or the end) that follows it.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from multi_llm_chat.errors import LimitReached, ProviderError
from multi_llm_chat.events import FinishReason, Usage
from multi_llm_chat.history.values import ToolCall, ToolResult, Turn
from multi_llm_chat.request import Options


class CallModel(Struct, frozen=True):
    """Ask the model to continue this history; ``offer_tools`` is off for the last answer."""

    history: tuple[Turn, ...]
    offer_tools: bool
    options: Options
    iteration: int
    added: tuple[Turn, ...] = ()


class RunTools(Struct, frozen=True):
    """Run these calls, all at the same time; each must get one result."""

    calls: tuple[ToolCall, ...]
    iteration: int
    added: tuple[Turn, ...] = ()


class ModelAnswered(Struct, frozen=True):
    """The model's turn is complete."""

    turn: Turn
    finish: FinishReason
    usage: Usage = Usage()
    elapsed: float = 0.0


class ModelFailed(Struct, frozen=True):
    """The model gave no complete answer, or was not asked; ``partial`` is what it said, ``usage`` what was counted of it."""

    error: ProviderError | LimitReached
    partial: Turn | None = None
    elapsed: float = 0.0
    usage: Usage = Usage()


class ToolsRan(Struct, frozen=True):
    """The results there are, in any order."""

    results: tuple[ToolResult, ...]
    elapsed: float = 0.0


class Cancelled(Struct, frozen=True):
    """The run was stopped, or its time is up; what was received until then, and what was counted of it."""

    partial: Turn | None = None
    results: tuple[ToolResult, ...] = ()
    elapsed: float = 0.0
    reason: Literal["cancelled", "time"] = "cancelled"
    usage: Usage = Usage()


Effect: TypeAlias = CallModel | RunTools
Outcome: TypeAlias = ModelAnswered | ModelFailed | ToolsRan | Cancelled
