"""Run several answers at the same time and give their events in one stream.

Rules:
1. Decisions are those of ``Answer``; here are only saving, running and waiting. Answers that workers give are followed.
2. One failing does not stop the others: whatever goes wrong in an answer ends that answer.
3. Leaving the stream stops all answers that were begun here; each still ends in good order, and what was said is kept.
4. ``stop`` may be called from anywhere; without a name it stops all.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from queue import SimpleQueue
from typing import TypeAlias

from multi_llm_chat.client.agent_async import AgentRun
from multi_llm_chat.client.agent_sync import SyncAgentRun
from multi_llm_chat.durable.saving import Save
from multi_llm_chat.errors import MultiLLMChatError, RunLost, StoreError
from multi_llm_chat.service.answering import Answer, Step
from multi_llm_chat.service.events import ChatEvent, NotSaved, TurnSaved
from multi_llm_chat.service.handing import Followed
from multi_llm_chat.service.keeping import Keeping
from multi_llm_chat.store import Store, stop_run

Given: TypeAlias = Answer | Followed


class Running:
    """The answers that are being given in one conversation."""

    def __init__(self, store: Store, keeping: Keeping) -> None:
        self._store = store
        self._keeping = keeping
        self._answers: dict[str, Given] = {}
        #: The runs of all answers from the moment they are wanted.
        self.runs: set[str] = set()
        self._cancels: dict[str, Callable[[], None]] = {}
        self._stopped: set[str] = set()
        self._told_trouble = False

    @property
    def current(self) -> tuple[Given, ...]:
        """The answers that are being given."""
        return tuple(self._answers.values())

    def expect(self, answer: Given) -> Given:
        """The answer will be given here."""
        self.runs.add(answer.run)
        return answer

    def stop(self, speaker: str | None = None, *, everywhere: bool = False) -> None:
        """Stop the answers of a speaker, or of all; those begun elsewhere only if it is to be everywhere."""
        for answer in self.current:
            if speaker in (None, answer.name) and (everywhere or not _is_attached(answer)):
                self._stopped.add(answer.run)
                cancel = self._cancels.get(answer.run)
                if cancel is not None:
                    cancel()

    # Without ``async``.

    def do(self, steps: Sequence[Step]) -> Generator[ChatEvent]:
        """Fulfil the wishes to save, tell the rest."""
        for step in steps:
            if isinstance(step, Save):
                yield from self._trouble(self._keeping.save(self._store, step))
            else:
                yield self._settled(step)

    def answers(self, answers: Sequence[Given]) -> Generator[ChatEvent]:
        """Let all answer at the same time."""
        told: SimpleQueue[ChatEvent | BaseException | None] = SimpleQueue()
        self._answers |= {self.expect(answer).run: answer for answer in answers}
        threads = [
            threading.Thread(target=self._into, args=(told, answer), name=f"answer-{answer.name}")
            for answer in answers
        ]
        for thread in threads:
            thread.start()
        waiting = len(threads)
        try:
            while waiting:
                event = told.get()
                waiting -= event is None
                if isinstance(event, BaseException):
                    raise event
                if event is not None:
                    yield event
        finally:
            if waiting:
                self.stop()
            for thread in threads:
                thread.join()

    def _into(self, told: "SimpleQueue[ChatEvent | BaseException | None]", answer: Given) -> None:
        try:
            for event in self._answer(answer):
                told.put(event)
        except BaseException as error:  # noqa: BLE001  it is raised where the events are read
            told.put(error)
        finally:
            self._forget(answer)
            told.put(None)

    def _answer(self, answer: Given) -> Generator[ChatEvent]:
        if isinstance(answer, Followed):
            yield from self.do(answer.begin())
            self._note(answer, self._stopping(answer))
            yield from answer.listen(self._store)
            return
        try:
            yield from self._given(answer)
        except RunLost as error:
            yield from self.do(answer.lost(error))

    def _given(self, answer: Answer) -> Generator[ChatEvent]:
        yield from self.do(answer.begin())
        try:
            run = SyncAgentRun(**answer.arguments())
            self._note(answer, run.cancel)
            for event in run:
                yield from self.do(answer.heard(event))
        except RunLost:
            raise
        except MultiLLMChatError as error:
            yield from self.do(answer.broken(error))
            return
        yield from self.do(answer.ended(run.result))

    # With ``async``.

    async def ado(self, steps: Sequence[Step], saving: asyncio.Lock) -> AsyncGenerator[ChatEvent]:
        """Like ``do``; ``saving`` keeps the saves of several answers in order."""
        for step in steps:
            if isinstance(step, Save):
                async with saving:
                    trouble = await self._keeping.asave(self._store, step)
                for event in self._trouble(trouble):
                    yield event
            else:
                yield self._settled(step)

    async def aanswers(
        self, answers: Sequence[Given], saving: asyncio.Lock
    ) -> AsyncGenerator[ChatEvent]:
        """Like ``answers``, with ``async``."""
        told: asyncio.Queue[ChatEvent | None] = asyncio.Queue()
        self._answers |= {self.expect(answer).run: answer for answer in answers}

        async def into(answer: Given) -> None:
            try:
                async for event in self._aanswer(answer, saving):
                    told.put_nowait(event)
            finally:
                self._forget(answer)
                told.put_nowait(None)

        tasks = [asyncio.ensure_future(into(answer)) for answer in answers]
        waiting = len(tasks)
        try:
            while waiting:
                event = await told.get()
                waiting -= event is None
                if event is not None:
                    yield event
        finally:
            if waiting:
                self.stop()
                for answer, task in zip(answers, tasks, strict=True):
                    if _is_attached(answer):  # it goes on elsewhere; nobody listens any more
                        task.cancel()
            for ended in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(ended, Exception):
                    raise ended

    async def _aanswer(self, answer: Given, saving: asyncio.Lock) -> AsyncGenerator[ChatEvent]:
        if isinstance(answer, Followed):
            async for event in self.ado(answer.begin(), saving):
                yield event
            self._note(answer, self._stopping(answer))
            async for event in answer.alisten(self._store):
                yield event
            return
        try:
            async for event in self._agiven(answer, saving):
                yield event
        except RunLost as error:
            async for event in self.ado(answer.lost(error), saving):
                yield event

    async def _agiven(self, answer: Answer, saving: asyncio.Lock) -> AsyncGenerator[ChatEvent]:
        async for event in self.ado(answer.begin(), saving):
            yield event
        try:
            run = AgentRun(**answer.arguments())
            self._note(answer, in_loop(run.cancel))
            async for heard in run:
                async for event in self.ado(answer.heard(heard), saving):
                    yield event
        except RunLost:
            raise
        except MultiLLMChatError as error:
            async for event in self.ado(answer.broken(error), saving):
                yield event
            return
        async for event in self.ado(answer.ended(run.result), saving):
            yield event

    # Both.

    def _note(self, answer: Given, cancel: Callable[[], None]) -> None:
        self._cancels[answer.run] = cancel
        if isinstance(answer, Answer):
            answer.handed(cancel)
        if answer.run in self._stopped:  # before it had begun
            cancel()

    def _stopping(self, answer: Followed) -> Callable[[], None]:
        """How an answer is stopped that is given elsewhere; without waiting for the store."""

        def ask() -> None:
            with contextlib.suppress(StoreError):
                self._store.run(stop_run, answer.run)

        return lambda: threading.Thread(target=ask, name="stop answer", daemon=True).start()

    def _forget(self, answer: Given) -> None:
        self._answers.pop(answer.run, None)
        self._cancels.pop(answer.run, None)
        self._stopped.discard(answer.run)
        self.runs.discard(answer.run)

    def _trouble(self, error: StoreError | None) -> Iterable[ChatEvent]:
        """Tell once that saving fails, until it works again."""
        news = error is not None and not self._told_trouble
        self._told_trouble = error is not None
        return [NotSaved(str(error))] if news else []

    def _settled(self, event: ChatEvent) -> ChatEvent:
        if isinstance(event, TurnSaved) and not self._keeping.is_saved:
            return TurnSaved(event.run, event.speaker, event.turn, is_saved=False)
        return event


def _is_attached(answer: Given) -> bool:
    return isinstance(answer, Followed) and answer.is_attached


def in_loop(call: Callable[[], None]) -> Callable[[], None]:
    """The call made in the loop that runs now, from wherever it is asked for."""
    loop = asyncio.get_running_loop()

    def ask() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and all its runs with it
            loop.call_soon_threadsafe(call)

    return ask
