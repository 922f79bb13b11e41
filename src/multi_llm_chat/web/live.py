"""A conversation that is open: whoever looks at it sees the same, at the same time.

Rules:
1. Answers belong to the server: they go on when a page is closed, and every page that comes finds them.
2. What changes is noted in ``log`` in the same step in which it changes here, so a page made now, with the
   log's position, and all later entries are the whole truth.
3. One round of answers at a time. A message that comes meanwhile waits; an edit, another answer or another branch
   stops what is going on.
4. The user's decisions about tools are awaited here; a stopped answer awaits none.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from msgspec import Struct

from multi_llm_chat.client.agent_events import ToolFinished
from multi_llm_chat.errors import MultiLLMChatError
from multi_llm_chat.history.values import ToolCall
from multi_llm_chat.metering.prices import Cost
from multi_llm_chat.service.chat import ChatService, Proceeding
from multi_llm_chat.service.events import (
    AnswerEvent,
    AnswerFailed,
    AnswerFinished,
    AnswerResumed,
    AnswerStarted,
    ChatEvent,
    MessageSaved,
    NotSaved,
    TurnSaved,
)
from multi_llm_chat.service.keeping import new_id
from multi_llm_chat.tools.approval import Allow, ApprovalRequest, Decision, Deny
from multi_llm_chat.tools.mcp import Elicitation
from multi_llm_chat.web.answers import LiveAnswer
from multi_llm_chat.web.drawing import Drawing
from multi_llm_chat.web.oplog import Change, OpLog
from multi_llm_chat.web.questions import Questions
from multi_llm_chat.web.showing import Beside, Shower, forks, money, read_beside
from multi_llm_chat.web.views import AnswerView, Exchange, Footer, hue_of

#: Seconds between two changes of a page by one answer.
PACE: Final = 0.05

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
    questions: tuple[tuple[str, Elicitation], ...]


class Live:
    """One open conversation."""

    def __init__(
        self, service: ChatService, drawing: Drawing, on_change: Callable[[], object]
    ) -> None:
        self.service = service
        self.log = OpLog()
        self.questions = Questions(self.log, drawing)
        self._drawing = drawing
        self._on_change = on_change
        self._answers: dict[str, LiveAnswer] = {}
        self._footers: dict[str, Footer] = {}
        self._seconds: dict[str, float] = {}
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._flush: asyncio.TimerHandle | None = None
        self._decisions: dict[str, asyncio.Future[Decision]] = {}
        self._exchange = ""
        self._handlers: dict[type, Callable[[Any], list[Change]]] = {
            MessageSaved: self._message,
            AnswerStarted: self._answer_started,
            AnswerEvent: self._answer_event,
            AnswerResumed: self._answer_resumed,
            TurnSaved: self._turn_saved,
            AnswerFinished: self._answer_finished,
            AnswerFailed: self._answer_failed,
            NotSaved: self._not_saved,
        }

    @property
    def is_busy(self) -> bool:
        """Whether anything is going on."""
        return self._waiting > 0

    @property
    def is_idle(self) -> bool:
        """Whether nobody looks and nothing is going on."""
        return not self.is_busy and self.log.readers == 0

    # What is shown.

    async def picture(self, before: str | None = None) -> Picture:
        """The newest exchanges, or those before one."""
        if not self.is_busy:
            async with self._turn:  # nobody may add turns while they are read
                await self.service.aload()
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
            seconds=self._seconds,
        )

    # What is done.

    async def proceed(self, proceeding: Proceeding, *, resets: bool) -> None:
        """Let something happen; return when it has begun, or when it waits for its turn.

        Raises:
            MultiLLMChatError: It cannot begin.
        """
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if resets:
            self.service.stop()
        queued = self.is_busy and not resets
        self._waiting += 1
        task = asyncio.create_task(self._run(proceeding, begun, resets=resets))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if queued:
            begun.add_done_callback(self._told_late)
            return
        await begun

    async def move(self, action: Callable[[], Awaitable[T]]) -> T:
        """Go to another branch."""
        self.service.stop()
        async with self._turn:
            result = await action()
            self.log.publish({"op": "reset"})
        return result

    def stop(self, speaker: str | None = None) -> None:
        """Stop the answers of a speaker, or all."""
        self.service.stop(speaker)

    async def close(self) -> None:
        """Stop everything and end all streams."""
        self.service.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.log.close()

    async def _run(
        self, proceeding: Proceeding, begun: "asyncio.Future[None]", *, resets: bool
    ) -> None:
        try:
            async with self._turn:
                async for event in proceeding:
                    if resets:
                        resets = False
                        self._begin_again()
                    changes = self._heard(event)
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
            if not self.is_busy:
                self._answers = {}
                self.log.publish({"op": "busy", "value": False})

    def _told_late(self, begun: "asyncio.Future[None]") -> None:
        error = begun.exception()
        if error is not None:
            self.log.publish({"op": "notice", "text": str(error)})

    def _begin_again(self) -> None:
        """Another branch is shown from now on."""
        self._exchange = self._last_message()
        self.log.publish({"op": "reset"})

    def _last_message(self) -> str:
        turns = [each.turn for each in self.service.placed]
        last = next((turn for turn in reversed(turns) if turn.role == "user"), None)
        return (last or turns[0]).id or "" if turns else ""

    # What is heard.

    def _heard(self, event: ChatEvent) -> list[Change]:
        """What an event changes; the end of a round changes nothing by itself."""
        handler = self._handlers.get(type(event))
        return [] if handler is None else handler(event)

    def _answer_event(self, event: AnswerEvent) -> list[Change]:
        if isinstance(event.event, ToolFinished):
            self._seconds[event.event.call.tool_call_id] = event.event.seconds
        self._flush_soon()
        return self._answers[event.run].heard(event.event)

    def _answer_resumed(self, event: AnswerResumed) -> list[Change]:
        answer = self._answers[event.run]
        answer.resumed()
        return [{"op": "replace", "id": event.run, "html": self._drawing.answer(answer.view)}]

    def _turn_saved(self, event: TurnSaved) -> list[Change]:
        return self._answers[event.run].turn_saved()

    def _answer_finished(self, event: AnswerFinished) -> list[Change]:
        footer = Footer(event.usage, _told(event.cost), event.seconds, str(event.stop_reason))
        return self._answer_over(event.run, footer)

    def _answer_failed(self, event: AnswerFailed) -> list[Change]:
        footer = Footer(event.usage, _told(event.cost), event.seconds, error=event.error)
        return self._answer_over(event.run, footer)

    def _not_saved(self, event: NotSaved) -> list[Change]:
        return [{"op": "notice", "text": event.error}]

    def _message(self, event: MessageSaved) -> list[Change]:
        self._exchange = event.turn.id or ""
        self._on_change()
        shower = self._shower(Beside())
        exchange = Exchange(self._exchange, shower.message(event.turn))
        html = self._drawing.exchange(exchange)
        changes: list[Change] = [
            {"op": "append", "to": "messages", "html": html},
            {"op": "list"},
        ]
        if not event.addressed:
            changes.append({"op": "notice", "text": self._drawing.words.text("memo_hint")})
        return changes

    def _answer_started(self, event: AnswerStarted) -> list[Change]:
        if not self._exchange:
            self._exchange = self._last_message()
        hue = hue_of(event.speaker, self.service.names)
        view = AnswerView(event.run, event.speaker, hue, event.model, is_live=True)
        self._answers[event.run] = LiveAnswer(view, self._drawing.segment)
        html = self._drawing.answer(view)
        return [{"op": "append", "to": f"{self._exchange}-answers", "html": html}]

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
        return [{"op": "replace", "id": run, "html": self._drawing.answer(view)}, {"op": "total"}]

    def _publish(self, changes: list[Change]) -> None:
        self.log.publish(*changes)

    def _flushed(self) -> list[Change]:
        return [change for answer in self._answers.values() for change in answer.flush()]

    def _flush_soon(self) -> None:
        if self._flush is None:
            # A long list or table is sent as a whole each time: then more seldom.
            heaviest = max((answer.weight for answer in self._answers.values()), default=0)
            pace = PACE * min(SLOWEST, 1 + heaviest / HEAVY)
            self._flush = asyncio.get_running_loop().call_later(pace, self._flush_now)

    def _flush_now(self) -> None:
        self._flush = None
        self._publish(self._flushed())

    # What the user is asked.

    def runs(self, call: ToolCall) -> bool:
        """Whether the call is one of those that run here."""
        return any(answer.runs(call) for answer in self._answers.values())

    async def decide(self, request: ApprovalRequest) -> Decision:
        """Ask whether a tool may run, in its card."""
        key = new_id()
        self._decisions[key] = asyncio.get_running_loop().create_future()
        try:
            asked = next(each for each in self._answers.values() if each.runs(request.call))
            self._publish(asked.ask(request.call, key, request.source))
            return await self._decisions[key]
        finally:
            del self._decisions[key]
            for answer in self._answers.values():
                self._publish(answer.decided(key))

    def decided(self, key: str, decision: Decision) -> bool:
        """The user's decision; tells whether it was awaited."""
        awaited = self._decisions.get(key)
        if awaited is None or awaited.done():
            return False
        awaited.set_result(decision)
        return True

    @property
    def running_tools(self) -> list[str]:
        """The names of the tools that run here."""
        return [name for answer in self._answers.values() for name in answer.running]


#: What each button of a card means.
DECISIONS: Final[dict[str, Decision]] = {
    "once": Allow(),
    "chat": Allow("conversation"),
    "deny": Deny(),
}


def _told(cost: Cost | None) -> str | None:
    return None if cost is None else money(cost.total)
