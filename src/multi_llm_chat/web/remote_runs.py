"""Brings the runs and turns of other processes to the pages that show a conversation.

Other servers, workers, terminals and an earlier process of this server write to the same store. Rules:
1. Pages show what other processes do without a reload: saved turns by reading them, running answers by following their committed,
   numbered events from the first to the last. So no character is lost or doubled, and the unsaved part of an answer whose process
   died is removed.
2. ``sync`` is one small read of the store. It runs once a second while a page is open (less often where hundreds of conversations
   are open), and at once when a page is opened; no delta is read this way.
3. A run that this process started is never followed: its events reach the page directly.
4. A run without a living owner is reported to ``on_orphan``, which resumes it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from multi_llm_chat.errors import MultiLLMChatError
from multi_llm_chat.events import Event
from multi_llm_chat.runs.owner import is_dead
from multi_llm_chat.store import ConversationState, UnfinishedRun, read_conversation_state
from multi_llm_chat.store.questions import Question
from multi_llm_chat.web.exchange_groups import TURNS_AROUND, TURNS_PER_PAGE

if TYPE_CHECKING:
    from multi_llm_chat.chat.chat_service import ChatService

#: Turns that are read when a conversation is opened: those of a page, and of the exchanges before it.
TURNS_AT_FIRST: Final = TURNS_PER_PAGE + TURNS_AROUND

#: Seconds between two reads of the store; and the most reads per second of all open conversations together.
POLL_SECONDS: Final = 1.0
POLLS_A_SECOND: Final = 50

_LOGGER = logging.getLogger(__name__)

#: The polls of all open conversations.
_polled: set[asyncio.Task[None]] = set()


class RunObserver(Protocol):
    """Receives changes that other processes make in a conversation."""

    @property
    def has_readers(self) -> bool:
        """Whether a page is open."""
        ...

    @property
    def is_busy(self) -> bool:
        """Whether an answer is running or waiting to start."""
        ...

    def on_follow_started(self, run: str, speaker: str) -> None:
        """Called when following a run of another process starts."""
        ...

    def on_event(self, event: Event) -> None:
        """Called for each event of a followed run."""
        ...

    def on_follow_ended(self, run: str) -> None:
        """Called when following a run has ended."""
        ...

    def on_questions(self, questions: Sequence[Question]) -> None:
        """Called with the open questions of the conversation, of all processes."""
        ...

    def on_history_changed(self) -> None:
        """Called when the turns of the shown branch have changed."""
        ...

    def on_list_changed(self) -> None:
        """Called when the list of conversations has changed."""
        ...


class RemoteRuns:
    """Follows the runs of other processes in one conversation."""

    def __init__(
        self,
        service: "ChatService",
        observer: RunObserver,
        on_orphan: Callable[[], object] = lambda: None,
    ) -> None:
        self._service = service
        self._observer = observer
        self._on_orphan = on_orphan
        self._sync_lock = asyncio.Lock()
        self._polling: asyncio.Task[None] | None = None
        self._following: dict[str, asyncio.Task[None]] = {}
        self._list_entry: tuple[object, ...] | None = None
        self._is_closing = False

    @property
    def is_following(self) -> bool:
        """Whether a run of another process is followed."""
        return bool(self._following)

    async def wait_until_ended(self) -> None:
        """Wait until no run is followed any more."""
        while self._following:
            await asyncio.wait(self._following.values())

    async def wait_until_settled(self) -> None:
        """Wait until no run of another process is running, or interrupted and not yet resumed.

        Raises:
            StoreError: The store cannot be read.
        """
        await self.sync()
        while self._following and not self._is_closing:
            await self.wait_until_ended()
            await self.sync()

    async def close(self) -> None:
        """Stop polling and following; the runs continue in their processes."""
        self._is_closing = True
        tasks = [*self._following.values(), *([self._polling] if self._polling else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def start_polling(self) -> None:
        """Sync once a second while a page is open."""
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll())
            _polled.add(self._polling)
            self._polling.add_done_callback(_polled.discard)

    async def _poll(self) -> None:
        while self._observer.has_readers:
            await asyncio.sleep(max(POLL_SECONDS, len(_polled) / POLLS_A_SECOND))
            # If the store fails now, the next poll reads it again.
            with contextlib.suppress(MultiLLMChatError):
                await self.sync()

    async def sync(self) -> None:
        """Read the state of the conversation; follow new runs and reload new turns.

        Raises:
            StoreError: The store cannot be read.
        """
        async with self._sync_lock:
            if self._is_closing:
                return
            service = self._service
            mark, known = service.mark, self._known_runs
            standing = await service.store.arun(read_conversation_state, service.conversation)
            if standing is None or service.mark != mark:
                return  # not saved yet, or this process is just writing it: the next sync reads it
            known |= self._known_runs
            new = [run for run in standing.running if run.id not in known]
            self._report_orphans_and_list(standing)
            self._observer.on_questions(
                [each for each in standing.questions if not is_dead(each.asker)]
            )
            if not new and self._is_current(standing, known):
                return
            if await service.arefresh(TURNS_AT_FIRST) and not self._is_closing:
                for run in new:
                    self._follow(run)
                self._observer.on_history_changed()

    @property
    def _known_runs(self) -> frozenset[str]:
        return self._service.run_ids | frozenset(self._following)

    def _is_current(self, standing: ConversationState, known: frozenset[str]) -> bool:
        """Whether all turns are loaded, or will arrive with the events of a local or followed run."""
        placed = self._service.placed
        if not known and not self._observer.is_busy:
            last = placed[-1].turn.id if placed else None
            return (standing.head, standing.turns) == (last, self._service.total)
        return standing.head_run in known or any(
            each.turn.id == standing.head for each in reversed(placed)
        )

    def _report_orphans_and_list(self, standing: ConversationState) -> None:
        if any(run.is_free or is_dead(run.owner or "") for run in standing.running):
            self._on_orphan()
        before, self._list_entry = self._list_entry, standing.listed
        if before not in (None, standing.listed):
            self._observer.on_list_changed()

    def _follow(self, run: UnfinishedRun) -> None:
        self._observer.on_follow_started(run.id, run.speaker)
        self._following[run.id] = asyncio.create_task(self._follow_run(run))

    async def _follow_run(self, run: UnfinishedRun) -> None:
        try:
            async for event in self._service.follow(run.id, run.speaker):
                self._observer.on_event(event)
        except MultiLLMChatError as error:
            # The conversation was deleted, or the store cannot be read: the next sync finds the run again.
            _LOGGER.info("a run is not followed any more: %s", error)
        finally:
            del self._following[run.id]
            self._observer.on_follow_ended(run.id)
