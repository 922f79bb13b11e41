"""Go on with a run from its journal, to its end.

Rules:
1. ``drive`` may be called by anybody for any run at any time: who takes the run goes on with it, all others are told None.
2. What it does depends on the journal alone: nothing has to be remembered between two processes.
3. A run that ends its process again and again is given up after ``MOST_ATTEMPTS`` without any progress.
4. A run that cannot be gone on with ends with an error that says why.
5. A run that is lost is stopped at once and touched no more.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, TypeAlias

from msgspec import Struct

from multi_llm_chat.client.agent_async import AgentRun
from multi_llm_chat.client.agent_events import TurnFinished
from multi_llm_chat.durable.holding import Hands, Holder
from multi_llm_chat.durable.limiting import Gate
from multi_llm_chat.durable.recording import VERSION, Identity, Record
from multi_llm_chat.durable.replaying import Recorded, read_recorded
from multi_llm_chat.durable.saving import TROUBLE, Save
from multi_llm_chat.durable.tools import RecordedTools
from multi_llm_chat.errors import MultiLLMChatError, ProviderError, RunLost, StoreError, UsageError
from multi_llm_chat.history.values import Turn
from multi_llm_chat.store import ErrorRecord, Store, Taken, finish_run, release_run, take_run
from multi_llm_chat.store.rates import RateLimit
from multi_llm_chat.store.values import RunStatus
from multi_llm_chat.tools.runner import ToolRunner

#: How often a run may be taken without coming any further.
MOST_ATTEMPTS: Final = 5

#: Between two tries of a save that could not be made, in seconds.
PATIENCE: Final = 1.0


class Material(Struct, frozen=True):
    """What a run needs that no journal holds: who is asked, from which history, with which tools.

    ``settings`` are further arguments of ``AgentRun``, ``limits`` what may be asked of providers, by their names.
    """

    identity: Identity
    history: Sequence[Turn]
    tools: ToolRunner
    settings: dict[str, Any] = {}
    limits: Mapping[str, RateLimit] = {}


#: Makes it from what the journal says. It raises ``UsageError`` where that cannot be done.
Revive: TypeAlias = Callable[[Taken, Store], Awaitable[Material]]


async def drive(
    store: Store,
    holder: Holder,
    run_id: str,
    revive: Revive,
    *,
    dead: str | None = None,
    on_trouble: Callable[[StoreError], object] = lambda _error: None,
) -> RunStatus | None:
    """Go on with a run; how it ended, or None if it was not ours to end.

    Args:
        store: Where it is kept.
        holder: The holder of this process.
        run_id: The run.
        revive: Makes what it needs.
        dead: An owner that is known to be gone.
        on_trouble: Told each time that something cannot be saved; it is tried again until it can.

    Cancelled, it gives the run back for somebody else to go on with.
    """
    taken = await store.arun(take_run, run_id, holder.owner, holder.lease_ms, dead=dead)
    if taken is None:
        return None
    own = store.as_user(taken.user)
    try:
        _check(taken)
        material = await revive(taken, own)
        recorded = await own.arun(read_recorded, taken.conversation, run_id)
    except StoreError:
        raise  # the database's trouble, not the run's: whoever takes it next may have more luck
    except MultiLLMChatError as error:
        status: RunStatus = "cancelled" if isinstance(error, _StoppedError) else "failed"
        record = None if status == "cancelled" else error_record(error)
        await own.arun(finish_run, taken.fence, status, error=record)
        return status
    return await _Drive(own, holder, taken, material, recorded, on_trouble).run()


class _StoppedError(UsageError):
    """The run was to be stopped before it was taken."""


def _check(taken: Taken) -> None:
    if taken.stopped:
        raise _StoppedError("The run was stopped")
    if taken.attempts > MOST_ATTEMPTS:
        raise UsageError(
            f"The answer was given up: {MOST_ATTEMPTS} times in a row it was interrupted at the same place. "
            "Ask again, or take it up once more: mlc runs resume"
        )
    version = taken.spec.get("version")
    if version != VERSION:
        by = "an older" if version is None else "another"
        raise UsageError(
            f"The answer was interrupted and cannot be gone on with: it was begun by {by} version of this program. "
            "Ask again."
        )


class _Drive:
    def __init__(
        self,
        store: Store,
        holder: Holder,
        taken: Taken,
        material: Material,
        recorded: Recorded,
        on_trouble: Callable[[StoreError], object],
    ) -> None:
        self._store = store
        self._on_trouble = on_trouble
        self._taken = taken
        self._loop = asyncio.get_running_loop()
        self._is_lost = False
        self._gate = Gate(store, material.identity.provider, material.limits, patience=PATIENCE)
        self.record = Record(
            material.identity, holder, material.tools, fence=taken.fence, recorded=recorded
        )
        self._run = AgentRun(
            material.identity.provider,
            material.history,
            RecordedTools(material.tools, self.record, self._save),
            conversation=taken.conversation,
            replay=recorded.outcomes,
            admit=self._gate.admit,
            **material.settings,
        )

    async def run(self) -> RunStatus | None:
        hands = Hands(lambda: self._soon(self._lose), lambda: self._soon(self._run.cancel))
        try:
            first = self.record.resume(self._taken.sequence, hands)
            if first is not None:
                await self._save(first)
            async with aclosing(self._run):
                async for event in self._run:
                    saves = [*self.record.heard(event)]
                    if isinstance(event, TurnFinished):
                        saves += self._gate.answered(event.usage)
                    await self._save_all(saves)
            await self._save_all(self._gate.failed(self._run.result.error))
            return await self._end()
        except RunLost:
            return None
        except asyncio.CancelledError:
            self.record.let_go()
            await self._store.arun(release_run, self._taken.fence)
            raise
        except MultiLLMChatError as error:
            await self._save(self.record.end("failed", "error", error_record(error)))
            return "failed"
        finally:
            self.record.let_go()

    async def _end(self) -> RunStatus:
        result = self._run.result
        status: RunStatus = "done"
        record: ErrorRecord | None = None
        if result.error is not None:
            status, record = "failed", error_record(result.error)
        elif result.stop_reason == "cancelled":
            status = "cancelled"
        await self._save(self.record.end(status, result.stop_reason, record))
        return status

    async def _save_all(self, saves: Sequence[Save]) -> None:
        for save in saves:
            await self._save(save)

    async def _save(self, save: Save) -> None:
        """Save it, however long the disk is full or the database away: what was done must not be done twice."""
        while True:
            if self._is_lost:
                raise RunLost(self._taken.fence.run_id)
            try:
                await self._store.arun(save.operation, *save.arguments)
            except RunLost:
                raise
            except StoreError as error:
                if error.reason not in TROUBLE:
                    raise
                self._on_trouble(error)
                await asyncio.sleep(PATIENCE)
            else:
                save.landed()
                return

    def _lose(self) -> None:
        self._is_lost = True
        self._run.cancel()

    def _soon(self, action: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(action)


def error_record(error: MultiLLMChatError) -> ErrorRecord:
    """The error as it is kept."""
    kind = type(error).__name__
    if not isinstance(error, ProviderError):
        return ErrorRecord(kind, str(error))
    return ErrorRecord(kind, error.message, error.provider, error.status, error.code)
