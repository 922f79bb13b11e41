"""Effects that the loop requests and the outcomes that it receives: the interface between the loop and the driver.

Rules:
1. The loop yields one effect at a time and is sent that effect's outcome.
2. Outcomes carry the seconds the run has taken so far: the loop has no clock.
3. A cancelled effect still has an outcome: everything that finished before the cancel.
4. Every turn that the run adds is reported once, as ``added`` of the effect (or the end) that follows it.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from multi_llm_chat.errors import LimitReached, ProviderError
from multi_llm_chat.events import FinishReason, Usage
from multi_llm_chat.history.values import ToolCall, ToolResult, Turn
from multi_llm_chat.request import Options


class CallModel(Struct, frozen=True):
    """Send this history to the model; ``offer_tools`` is false for the last request."""

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
    """The request failed or was not sent; ``partial`` is the turn so far, ``usage`` the tokens reported for it."""

    error: ProviderError | LimitReached
    partial: Turn | None = None
    elapsed: float = 0.0
    usage: Usage = Usage()


class ToolsRan(Struct, frozen=True):
    """The available results, in any order."""

    results: tuple[ToolResult, ...]
    elapsed: float = 0.0


class Cancelled(Struct, frozen=True):
    """The run was stopped or reached its time limit; the turn and results so far, and their usage."""

    partial: Turn | None = None
    results: tuple[ToolResult, ...] = ()
    elapsed: float = 0.0
    reason: Literal["cancelled", "time"] = "cancelled"
    usage: Usage = Usage()


Effect: TypeAlias = CallModel | RunTools
Outcome: TypeAlias = ModelAnswered | ModelFailed | ToolsRan | Cancelled
