"""What of a conversation is in the store and not yet here.

The store is where everybody meets: other servers, workers, a terminal, and the life of this server before the last
crash. Rules:
1. Whatever is said in the conversation by others comes to the pages that show it here, without a reload: turns by reading them,
   answers that are being given by their persisted, numbered events, from the first to the last. So it is seen as if it
   happened here: no character is lost or doubled, and half an answer whose process died is taken back.
2. Looking is one small read, once each second, and only while somebody looks; nothing is read for a word. A page that is opened looks at
   once.
3. What was begun here is told here and is never followed.
4. An answer that nobody gives any more is told to ``orphaned``: somebody should go on with it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from multi_llm_chat.errors import MultiLLMChatError
from multi_llm_chat.events import Event
from multi_llm_chat.runs.owner import is_dead
from multi_llm_chat.store import Standing, UnderWay, read_standing
from multi_llm_chat.store.questions import Question

if TYPE_CHECKING:
    from multi_llm_chat.chat.chat_service import ChatService

#: Seconds between two looks.
PACE: Final = 1.0

_LOGGER = logging.getLogger(__name__)


class Shown(Protocol):
    """Who shows the conversation."""

    @property
    def is_looked_at(self) -> bool:
        """Whether anybody looks."""
        ...

    @property
    def is_busy(self) -> bool:
        """Whether anything is going on."""
        ...

    def followed(self, run: str, speaker: str) -> None:
        """An answer is followed from now on."""
        ...

    def heard(self, event: Event) -> None:
        """Something happens in an answer that is followed."""
        ...

    def left(self, run: str) -> None:
        """An answer is followed no more."""
        ...

    def asked(self, questions: Sequence[Question]) -> None:
        """What is asked in the conversation, here too."""
        ...

    def anew(self) -> None:
        """The turns are others than before."""
        ...

    def listed_anew(self) -> None:
        """The list of conversations has changed."""
        ...


class Elsewhere:
    """Brings what others do in a conversation to those who look at it here."""

    def __init__(
        self, service: "ChatService", shown: Shown, orphaned: Callable[[], object] = lambda: None
    ) -> None:
        self._service = service
        self._shown = shown
        self._orphaned = orphaned
        self._looking = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None
        self._following: dict[str, asyncio.Task[None]] = {}
        self._listed: tuple[object, ...] | None = None
        self._is_closing = False

    @property
    def is_answering(self) -> bool:
        """Whether answers are followed."""
        return bool(self._following)

    async def over(self) -> None:
        """Wait until no answer is followed any more."""
        while self._following:
            await asyncio.wait(self._following.values())

    async def settle(self) -> None:
        """Wait until no answer is under way in another process, nor interrupted and still to be resumed.

        Raises:
            StoreError: The store cannot be read.
        """
        await self.look()
        while self._following and not self._is_closing:
            await self.over()
            await self.look()

    async def close(self) -> None:
        """Look no more, and leave the answers to those who give them."""
        self._is_closing = True
        tasks = [*self._following.values(), *([self._watching] if self._watching else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def watch(self) -> None:
        """Look again and again, as long as anybody looks."""
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while self._shown.is_looked_at:
            await asyncio.sleep(PACE)
            # A store that is away comes back, and nothing is forgotten meanwhile.
            with contextlib.suppress(MultiLLMChatError):
                await self.look()

    async def look(self) -> None:
        """Bring here what is not here yet.

        Raises:
            StoreError: The store cannot be read.
        """
        async with self._looking:
            if self._is_closing:
                return
            service = self._service
            mark, here = service.mark, self._here
            standing = await service.store.arun(read_standing, service.conversation)
            if standing is None or service.mark != mark:
                return  # it is not saved yet, or something is just being said: the next look sees it
            here |= self._here
            new = [run for run in standing.running if run.id not in here]
            self._tell_beside(standing)
            self._shown.asked([each for each in standing.questions if not is_dead(each.asker)])
            if not new and self._knows(standing, here):
                return
            if await service.arefresh() and not self._is_closing:
                for run in new:
                    self._follow(run)
                self._shown.anew()

    @property
    def _here(self) -> frozenset[str]:
        return self._service.run_ids | frozenset(self._following)

    def _knows(self, standing: Standing, here: frozenset[str]) -> bool:
        """Whether everything that is said is here, or will be told by an answer that is here."""
        placed = self._service.placed
        if not here and not self._shown.is_busy:
            last = placed[-1].turn.id if placed else None
            return (standing.head, standing.turns) == (last, self._service.total)
        return standing.head_run in here or any(
            each.turn.id == standing.head for each in reversed(placed)
        )

    def _tell_beside(self, standing: Standing) -> None:
        if any(run.is_free or is_dead(run.owner or "") for run in standing.running):
            self._orphaned()
        before, self._listed = self._listed, standing.listed
        if before not in (None, standing.listed):
            self._shown.listed_anew()

    def _follow(self, run: UnderWay) -> None:
        self._shown.followed(run.id, run.speaker)
        self._following[run.id] = asyncio.create_task(self._listen(run))

    async def _listen(self, run: UnderWay) -> None:
        try:
            async for event in self._service.follow(run.id, run.speaker):
                self._shown.heard(event)
        except MultiLLMChatError as error:
            # Its conversation was deleted, or the store is away: then the next look finds it again.
            _LOGGER.info("an answer is not followed any more: %s", error)
        finally:
            del self._following[run.id]
            self._shown.left(run.id)
