"""Find the speaker, the history and the tools of an interrupted run, which its journal does not hold.

Rules:
1. A run is resumed with the present settings: the speaker of that name, its key, the tools that exist now.
2. It is resumed from the history it started with: the turns up to the message it answers.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from multi_llm_chat.chat.branch import COUNCIL, by_run
from multi_llm_chat.chat.council import VERDICT, chair_history
from multi_llm_chat.history.values import JsonObject, Turn
from multi_llm_chat.runs.spec import RunSpec
from multi_llm_chat.store import Store, Taken, Transaction, get, reading
from multi_llm_chat.store.turns import placed_to
from multi_llm_chat.tools.tool_runner import ToolRunner

if TYPE_CHECKING:
    from multi_llm_chat.chat.planner import Planner

#: Restricts the tools to one user's conversation.
Scoped: TypeAlias = Callable[[ToolRunner, Taken], ToolRunner]


def as_they_are(tools: ToolRunner, _taken: Taken) -> ToolRunner:
    """Return the tools unchanged, for every conversation."""
    return tools


class RunResolver:
    """Finds the speaker, the history and the tools of a run."""

    def __init__(self, planner: "Planner", scoped: Scoped = as_they_are) -> None:
        self._planner = planner
        self._scoped = scoped

    async def __call__(self, taken: Taken, store: Store) -> RunSpec:
        """The description of a run.

        Raises:
            UsageError: The speaker does not exist any more, or has no key.
        """
        name = self._planner.known(taken.speaker)
        own, history = await store.arun(_before, taken.conversation, taken.base)
        meta: JsonObject = taken.spec.get("meta") or {}
        schema: Any = taken.spec.get("schema")
        if meta.get(VERDICT):
            history = chair_history(history)
        elif meta.get(COUNCIL):
            history = (*history, self._planner.council_turn())
        spec = self._planner.spec(
            name,
            history,
            own,
            conversation=taken.conversation,
            run=taken.fence.run_id,
            base=taken.base,
            meta=meta,
            schema=schema,
        )
        return replace(spec, tools=self._scoped(spec.tools, taken))


@reading
def _before(
    transaction: Transaction, conversation: str, base: str | None
) -> tuple[JsonObject, tuple[Turn, ...]]:
    """A conversation's settings, and the history up to a turn."""
    own = get(transaction, conversation).settings
    placed = [] if base is None else placed_to(transaction, conversation, base)
    return own, tuple(each.turn for each in by_run(placed))
