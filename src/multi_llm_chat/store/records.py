"""The argument and result types of operations."""

from decimal import Decimal
from typing import Literal, TypeAlias

from msgspec import Struct, field

from multi_llm_chat.events import ErrorRecord, Usage
from multi_llm_chat.history.values import JsonObject, Turn


class Summary(Struct, frozen=True):
    """A conversation in a list; times are milliseconds since 1970."""

    id: str
    title: str
    created_ms: int
    changed_ms: int
    archived_ms: int | None
    deleted_ms: int | None
    settings: JsonObject


class Listing(Struct, frozen=True):
    """One page of a list; pass ``after`` to get the next one; None on the last page."""

    conversations: tuple[Summary, ...]
    after: tuple[int, int] | None


class Placed(Struct, frozen=True):
    """A turn with its position in the tree."""

    turn: Turn
    parent: str | None
    run_id: str | None
    created_ms: int


class Page(Struct, frozen=True):
    """Consecutive turns of one branch, oldest first; ``more`` if there are older ones."""

    turns: tuple[Placed, ...]
    more: bool


class BranchEnd(Struct, frozen=True):
    """The last turns of a branch; whether there are earlier ones, and about how many tokens those have."""

    turns: tuple[Placed, ...]
    more: bool
    tokens_before: int = 0


class Appended(Struct, frozen=True):
    """The turns are saved; each has an id and a time now. ``head`` is where the branch ends."""

    turns: tuple[Turn, ...]
    head: str


class Conflict(Struct, frozen=True):
    """Nothing was saved, because the branch does not end where the caller expected, but at ``head``."""

    head: str | None


RunStatus: TypeAlias = Literal["running", "done", "failed", "cancelled"]
CallState: TypeAlias = Literal["started", "done", "failed", "unknown"]


class Run(Struct, frozen=True):
    """One speaker's answer to ``base``, the turn at which it began."""

    id: str
    base: str | None
    speaker: str
    status: RunStatus
    spec: JsonObject
    error: ErrorRecord | None
    began_ms: int
    ended_ms: int | None


class RecordedCall(Struct, frozen=True):
    """One call of a model or a tool within a run."""

    number: int
    kind: str
    name: str
    state: CallState
    attempts: int
    idempotency_key: str | None
    turn: str | None
    result: object


class Spending(Struct, frozen=True):
    """The cost of one answer. Tokens or cost are None if unknown.

    ``id`` is unique within its conversation; recording the same id again replaces the record, for instance when the provider's own count
    arrives after our estimate.
    """

    id: str
    speaker: str
    model: str = ""
    tokens: Usage | None = None
    cost: Decimal | None = None
    currency: str = "USD"
    estimate: bool = False
    turn: str | None = None
    run_id: str | None = None


class Total(Struct, frozen=True):
    """The sum of several records: the known values, and how many are unknown."""

    count: int = 0
    tokens: Usage = Usage()
    costs: dict[str, Decimal] = field(default_factory=dict)
    unknown_tokens: int = 0
    unknown_costs: int = 0
    estimates: int = 0


class Hit(Struct, frozen=True):
    """A message that was found; ``marks`` are the positions of the words in ``snippet``.

    ``number`` grows with each saved message; a search with ``before=number`` returns the next hits.
    """

    conversation: str
    title: str
    turn: str
    author: str
    created_ms: int
    snippet: str
    marks: tuple[tuple[int, int], ...]
    number: int
