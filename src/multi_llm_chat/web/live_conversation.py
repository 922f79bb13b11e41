"""A conversation that is open: whoever looks at it sees the same, at the same time.

Rules:
1. Answers belong to the server: they go on when a page is closed, and every page that comes finds them. They outlive
   the server too: what they tell is in the store, and whoever opens the conversation after a crash, or in another
   server on the same store, follows them from there (``elsewhere``).
2. What changes is noted in ``log`` in the same step in which it changes here, so a page made now, with the
   log's position, and all later entries are the whole truth.
3. One round of answers at a time. A message that comes meanwhile waits, also for answers that others give; an edit, another
   answer or another branch stops what is going on, here and elsewhere.
4. The user's decisions about tools are awaited until somebody looks and decides, here or in another server; a stopped answer
   awaits none.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from typing import Any, Final, TypeVar

from msgspec import Struct

from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.errors import MultiLLMChatError
from multi_llm_chat.events import (
    Event,
    MessageFinished,
    MessageSaved,
    RunFailed,
    RunFinished,
    RunResumed,
    RunStarted,
    RunWaiting,
    ToolStarted,
    TurnFinished,
)
from multi_llm_chat.history.values import Media, ToolCall
from multi_llm_chat.runs.event_stream import EventStream
from multi_llm_chat.store.questions import Question
from multi_llm_chat.tools.approval import ApprovalRequest, Decision
from multi_llm_chat.web.answers import LiveAnswer
from multi_llm_chat.web.history_view import Beside, Shower, forks, money, read_beside
from multi_llm_chat.web.oplog import Change, OpLog
from multi_llm_chat.web.remote_runs import PACE, Elsewhere
from multi_llm_chat.web.tool_questions import Decisions, Questions
from multi_llm_chat.web.views import AnswerView, Asked, Exchange, Footer, Phrase, hue_of

#: Seconds between two changes of a page by one answer.
FLUSH: Final = 0.05

#: So many characters of an open block double that time, up to so many times.
HEAVY: Final = 8_000
SLOWEST: Final = 6.0

#: How many exchanges a page has at first.
PAGE: Final = 60

_LOGGER = logging.getLogger(__name__)
T = TypeVar("T")


class Picture(Struct, frozen=True):
    """What a page shows, and the position of the log at that moment."""

    exchanges: tuple[Exchange, ...]
    more: bool
    position: str
    busy: bool
    questions: tuple[Asked, ...]


class Live:
    """One open conversation."""

    def __init__(
        self,
        service: ChatService,
        on_change: Callable[[], object],
        orphaned: Callable[[], object] = lambda: None,
    ) -> None:
        self.service = service
        self.elsewhere = Elsewhere(service, self, orphaned)
        self.log = OpLog(self.elsewhere.watch)
        self.questions = Questions(self.log)
        self.decisions = Decisions(service, lambda: self._answers.values(), self._publish)
        self._on_change = on_change
        self._answers: dict[str, LiveAnswer] = {}
        self._footers: dict[str, Footer] = {}
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._flush: asyncio.TimerHandle | None = None
        self._called = asyncio.Event()
        self._exchange = ""
        self._is_sending = False
        self._is_closing = False
        self._handlers: dict[type, Callable[[Any], list[Change]]] = {
            MessageSaved: self._message,
            MessageFinished: lambda _event: [],
            RunStarted: self._run_started,
            RunResumed: self._run_resumed,
            RunWaiting: self._run_waiting,
            TurnFinished: self._turn_finished,
            RunFinished: self._run_finished,
            RunFailed: self._run_failed,
        }

    @property
    def is_busy(self) -> bool:
        """Whether anything is going on."""
        return self._waiting > 0 or self.elsewhere.is_answering

    @property
    def is_looked_at(self) -> bool:
        """Whether anybody looks."""
        return self.log.readers > 0

    @property
    def is_idle(self) -> bool:
        """Whether nobody looks and nothing is going on."""
        return not self.is_busy and not self.is_looked_at

    # What is shown.

    async def picture(self, before: str | None = None) -> Picture:
        """The newest exchanges, or those before one."""
        await self.elsewhere.look()
        beside = await self._beside()
        # From here on nothing waits: turns, answers and position belong together.
        self._publish(self._flushed())
        shown = self._shower(beside).exchanges(self.service.placed)
        if before is not None:
            ids = [exchange.id for exchange in shown]
            shown = shown[: ids.index(before)] if before in ids else []
        return Picture(
            tuple(shown[-PAGE:]),
            len(shown) > PAGE,
            self.log.position,
            self.is_busy,
            self.questions.open,
        )

    async def _beside(self) -> Beside:
        placed = self.service.placed
        if not placed:
            return Beside()
        return await self.service.store.arun(read_beside, self.service.conversation, forks(placed))

    def _shower(self, beside: Beside) -> Shower:
        return Shower(
            self.service.conversation,
            self.service.names,
            beside,
            live={run: answer.view for run, answer in self._answers.items()},
            footers=self._footers,
        )

    # What is done.

    async def proceed(self, stream: EventStream, *, resets: bool) -> None:
        """Let something happen; return when it has begun, or when it waits for its turn.

        Raises:
            MultiLLMChatError: It cannot begin.
        """
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if resets:
            self.stop()
        queued = (
            self.is_busy and not resets
        )  # "continue" waits for its turn; messages wait in the outbox
        self._waiting += 1
        task = asyncio.create_task(self._run(stream, begun, resets=resets))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if queued:
            begun.add_done_callback(self._told_late)
            return
        await begun

    async def say(self, text: str, media: Sequence[Media], to: Sequence[str] | None) -> None:
        """Send a message now, or put it into the outbox while answers come."""
        if self.is_busy:
            await self.service.aqueue(text, media=media, to=to)
            self.send_waiting()
            return
        await self.proceed(self.service.process_message(text, media=media, to=to), resets=False)

    def send_waiting(self) -> None:
        """Send the messages of the outbox, one after the other, when the answers before them are complete."""
        if not self._is_sending:
            self._is_sending = True
            task = asyncio.create_task(self._send_waiting())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send_waiting(self) -> None:
        try:
            while not self._is_closing and (waiting := await self.service.aoutbox()):
                await self.elsewhere.settle()
                if self._is_closing:
                    return
                begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiting += 1
                await self._run(self.service.send_queued(waiting[0]), begun, resets=False)
                error = begun.exception()
                if error is not None and await self._is_waiting(waiting[0].id):
                    self.log.publish({"op": "notice", "text": str(error)})
                    return  # it stays in the outbox, to be edited or withdrawn
        except MultiLLMChatError as error:
            self.log.publish({"op": "notice", "text": str(error)})
        finally:
            self._is_sending = False

    async def _is_waiting(self, message: str) -> bool:
        """Whether a message waits still: another server may have sent it."""
        return any(each.id == message for each in await self.service.aoutbox())

    async def move(self, action: Callable[[], Awaitable[T]]) -> T:
        """Go to another branch."""
        self.stop()
        async with self._turn:
            await self.elsewhere.over()
            result = await action()
            self.log.publish({"op": "reset"})
        return result

    def stop(self, speaker: str | None = None) -> None:
        """Stop the answers of a speaker, or all, wherever they are given."""
        self.service.stop(speaker, everywhere=True)

    async def close(self) -> None:
        """Stop everything that was begun here and end all streams."""
        self._is_closing = True
        await self.elsewhere.close()
        self.service.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.log.close()

    async def _run(
        self, stream: EventStream, begun: "asyncio.Future[None]", *, resets: bool
    ) -> None:
        try:
            async with self._turn:
                await self.elsewhere.over()
                async for event in stream:
                    if resets:
                        resets = False
                        self.anew()
                    changes = self._changes(event)
                    if not begun.done():
                        changes.append({"op": "busy", "value": True})
                        begun.set_result(None)
                    self._publish(changes)
        except MultiLLMChatError as error:
            if begun.done():
                self.log.publish({"op": "notice", "text": str(error)})
            else:
                begun.set_exception(error)
        except Exception:
            _LOGGER.exception("an answer failed")
            self.log.publish({"op": "notice", "text": "internal error"})
            if not begun.done():
                begun.set_result(None)
        finally:
            self._waiting -= 1
            self._rest()

    def _rest(self) -> None:
        """Tell when nothing is going on any more."""
        if not self.is_busy:
            self._answers = {}
            self.log.publish({"op": "busy", "value": False})

    def _told_late(self, begun: "asyncio.Future[None]") -> None:
        error = begun.exception()
        if error is not None:
            self.log.publish({"op": "notice", "text": str(error)})

    def anew(self) -> None:
        """Other turns are shown from now on."""
        self._exchange = self._last_message()
        self.log.publish({"op": "reset"})

    def _last_message(self) -> str:
        turns = [each.turn for each in self.service.placed]
        last = next((turn for turn in reversed(turns) if turn.role == "user"), None)
        return (last or turns[0]).id or "" if turns else ""

    # What others do.

    def followed(self, run: str, speaker: str) -> None:
        """An answer that is given elsewhere is shown while it comes."""
        hue = hue_of(speaker, self.service.names)
        self._answers[run] = LiveAnswer(AnswerView(run, speaker, hue, is_live=True))

    def heard(self, event: Event) -> None:
        """Something happens in an answer that is given elsewhere."""
        self._publish(self._changes(event))

    def left(self, run: str) -> None:
        """An answer that is given elsewhere is over, or cannot be followed."""
        if self._answers.pop(run, None) is not None:
            self.anew()
        self._rest()

    def asked(self, questions: Sequence[Question]) -> None:
        """Those who give answers elsewhere ask about their tools: whoever looks here may decide."""
        self.decisions.asked(questions)

    def listed_anew(self) -> None:
        """The list of conversations has changed."""
        self.log.publish({"op": "list"})

    # What events change.

    def _changes(self, event: Event) -> list[Change]:
        """What an event changes on the page."""
        return self._handlers.get(type(event), self._run_event)(event)

    def _run_event(self, event: Event) -> list[Change]:
        self._flush_soon()
        changes = self._answers[event.run].take(event)
        if isinstance(event, ToolStarted):
            self._called.set()
            self._called = asyncio.Event()
        return changes

    def _run_resumed(self, event: RunResumed) -> list[Change]:
        answer = self._answers[event.run]
        answer.resumed()
        return [{"op": "replace", "id": event.run, "html": answer.view}]

    def _run_waiting(self, event: RunWaiting) -> list[Change]:
        changes = self._run_event(event)
        if event.reason == "store":
            changes.append({"op": "notice", "text": event.text})
        return changes

    def _turn_finished(self, event: TurnFinished) -> list[Change]:
        return self._answers[event.run].turn_saved()

    def _run_finished(self, event: RunFinished) -> list[Change]:
        footer = Footer(event.usage, _told(event.cost), event.seconds, str(event.stop_reason))
        return self._answer_over(event.run, footer)

    def _run_failed(self, event: RunFailed) -> list[Change]:
        footer = Footer(event.usage, _told(event.cost), event.seconds, error=event.error)
        return self._answer_over(event.run, footer)

    def _message(self, event: MessageSaved) -> list[Change]:
        self._exchange = event.turn.id or ""
        self._on_change()
        shower = self._shower(Beside())
        exchange = Exchange(self._exchange, shower.message(event.turn))
        changes: list[Change] = [
            {"op": "append", "to": "messages", "html": exchange},
            {"op": "list"},
        ]
        if not event.addressed:
            changes.append({"op": "notice", "text": Phrase("memo_hint")})
        return changes

    def _run_started(self, event: RunStarted) -> list[Change]:
        there = self._answers.get(event.run)
        if there is not None:
            there.named(event.model)
            return [{"op": "replace", "id": event.run, "html": there.view}]
        if not self._exchange:
            self._exchange = self._last_message()
        hue = hue_of(event.speaker, self.service.names)
        view = AnswerView(event.run, event.speaker, hue, event.model, is_live=True)
        self._answers[event.run] = LiveAnswer(view)
        return [{"op": "append", "to": f"{self._exchange}-answers", "html": view}]

    def _answer_over(self, run: str, footer: Footer) -> list[Change]:
        answer = self._answers.pop(run)
        answer.turn_saved()
        self._footers[run] = footer
        turns = [each.turn for each in self.service.placed if each.run_id == run]
        if turns:
            view = self._shower(Beside()).answer(run, turns)
        else:
            live = answer.view
            view = AnswerView(run, live.speaker, live.hue, live.model, live.segments, footer)
        return [{"op": "replace", "id": run, "html": view}, {"op": "total"}]

    def _publish(self, changes: list[Change]) -> None:
        self.log.publish(*changes)

    def _flushed(self) -> list[Change]:
        return [change for answer in self._answers.values() for change in answer.flush()]

    def _flush_soon(self) -> None:
        if self._flush is None:
            # A long list or table is sent as a whole each time: then more seldom.
            heaviest = max((answer.weight for answer in self._answers.values()), default=0)
            pace = FLUSH * min(SLOWEST, 1 + heaviest / HEAVY)
            self._flush = asyncio.get_running_loop().call_later(pace, self._flush_now)

    def _flush_now(self) -> None:
        self._flush = None
        self._publish(self._flushed())

    # What the user is asked.

    async def decide(self, request: ApprovalRequest) -> Decision:
        """Ask whether a tool may run, in its card, for as long as nobody decides."""
        return await self.decisions.ask(await self._asked(request.call), request)

    async def _asked(self, call: ToolCall) -> LiveAnswer:
        """The answer that makes the call; one that was resumed tells of it through the store."""
        while True:
            called = self._called
            for answer in self._answers.values():
                if answer.runs(call):
                    return answer
            with contextlib.suppress(MultiLLMChatError, TimeoutError):
                await self.elsewhere.look()
                await asyncio.wait_for(called.wait(), PACE)

    @property
    def running_tools(self) -> list[str]:
        """The names of the tools that run here."""
        return [name for answer in self._answers.values() for name in answer.running]


def _told(cost: Decimal | None) -> str | None:
    return None if cost is None else money(cost)
