"""Go on with answers that were interrupted: what they need besides their journal, and when it is done.

Rules:
1. An answer is gone on with by today's settings: the speaker of that name, its key, the tools that are there.
2. It goes on from the history it was given: the turns up to the message it answers.
3. It happens in the background, with connections of its own; closing the workspace ends it, and what it had not
   finished is left for the next start.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from multi_llm_chat.durable.driving import Material
from multi_llm_chat.durable.embedded import resume_all
from multi_llm_chat.durable.holding import holder_of
from multi_llm_chat.errors import StoreError
from multi_llm_chat.history.values import JsonObject, Turn
from multi_llm_chat.service.handing import queue_of
from multi_llm_chat.service.keeping import together
from multi_llm_chat.service.planning import COUNCIL, Planner
from multi_llm_chat.service.speakers import configured_speakers
from multi_llm_chat.service.workspace import Workspace
from multi_llm_chat.store import RunInfo, Store, Taken, Transaction, get, reading
from multi_llm_chat.store.turns import placed_to
from multi_llm_chat.store.values import RunStatus
from multi_llm_chat.tools.runner import ToolRunner

#: The tools as one user's conversation has them.
Scoped: TypeAlias = Callable[[ToolRunner, Taken], ToolRunner]


def _as_they_are(tools: ToolRunner, _taken: Taken) -> ToolRunner:
    return tools


class Reviver:
    """Makes what an interrupted run needs."""

    def __init__(self, planner: Planner, scoped: Scoped = _as_they_are) -> None:
        self._planner = planner
        self._scoped = scoped

    async def __call__(self, taken: Taken, store: Store) -> Material:
        """The speaker, the history and the tools of a run.

        Raises:
            UsageError: Nobody is called so any more, or it has no key.
        """
        name = self._planner.known(taken.speaker)
        own, history = await store.arun(_before, taken.conversation, taken.base)
        meta: JsonObject = taken.spec.get("meta") or {}
        schema: Any = taken.spec.get("schema")
        if meta.get(COUNCIL):
            history = (*history, self._planner.council_turn())
        inquiry = self._planner.inquiry(
            name, history, own, base=taken.base, meta=meta, schema=schema
        )
        identity = inquiry.identity(taken.conversation, taken.fence.run_id)
        tools = self._scoped(inquiry.tools, taken)
        return Material(identity, history, tools, inquiry.settings(), inquiry.rates)


@reading
def _before(
    transaction: Transaction, conversation: str, base: str | None
) -> tuple[JsonObject, tuple[Turn, ...]]:
    """A conversation's settings, and the history up to a turn."""
    own = get(transaction, conversation).settings
    placed = [] if base is None else placed_to(transaction, conversation, base)
    return own, tuple(each.turn for each in together(placed))


async def aresume_unfinished(
    workspace: Workspace,
    *,
    on_found: Callable[[RunInfo], object] = lambda _info: None,
    scoped: Scoped = _as_they_are,
) -> dict[str, RunStatus | None]:
    """Go on with all answers that were interrupted; how each ended. The tools must have been started."""
    if queue_of(workspace.store) is not None:
        return {}  # that is the workers' business
    speakers = configured_speakers(workspace.settings, workspace.keys)
    planner = Planner(workspace.settings, speakers, workspace.tools)
    store = workspace.store
    try:
        return await resume_all(
            store, holder_of(store), Reviver(planner, scoped), on_found=on_found
        )
    finally:
        await speakers.aclose()


def resume_unfinished(
    workspace: Workspace,
    after: Callable[[], object] = lambda: None,
    *,
    on_found: Callable[[RunInfo], object] = lambda _info: None,
) -> "threading.Thread":
    """The same in the background, once ``after`` (such as waiting for the tools) has returned."""
    ready: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []
    is_ending = threading.Event()

    async def resume() -> None:
        task = asyncio.current_task()
        assert task is not None
        ready.append((asyncio.get_running_loop(), task))
        if not is_ending.is_set():
            await aresume_unfinished(workspace, on_found=on_found)

    def work() -> None:
        after()
        try:
            asyncio.run(resume())
        except (asyncio.CancelledError, StoreError):
            return  # the next start finds what is left

    thread = threading.Thread(target=work, name="multi_llm_chat resume", daemon=True)

    def end() -> None:
        is_ending.set()
        for loop, task in ready:
            if not loop.is_closed():
                loop.call_soon_threadsafe(task.cancel)
        thread.join()

    workspace.endings.append(end)
    thread.start()
    return thread
