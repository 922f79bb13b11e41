"""A whole conversation as one value, whatever store or file it comes from.

Rules:
1. Turns form a tree: ``parent`` names an earlier turn of the same document, or is None at a root.
2. A turn in a document has an id, unique within it, and stands behind its parent.
3. A head is the last turn of a branch; ``main`` is the one that is shown.
"""

from msgspec import Struct, field

from multi_llm_chat.history.values import JsonObject, Turn

#: The branch that is shown.
MAIN = "main"


class TreeTurn(Struct, frozen=True):
    """A turn, the turn it answers, and the run that made it: turns of one run belong together."""

    turn: Turn
    parent: str | None = None
    run: str | None = None


class Conversation(Struct, frozen=True):
    """A conversation with all its branches; times are milliseconds since 1970."""

    id: str
    title: str = ""
    created_ms: int = 0
    archived_ms: int | None = None
    turns: tuple[TreeTurn, ...] = ()
    heads: dict[str, str] = field(default_factory=dict)
    settings: JsonObject = field(default_factory=dict)
