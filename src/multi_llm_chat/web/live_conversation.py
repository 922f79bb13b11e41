"""An open conversation, of which all pages show the same state.

Rules:
1. Runs belong to the server: they continue when a page is closed, and every page that is opened shows them. They outlive the server
   too: their events are in the store, and a server that opens the conversation after a crash, or another server on the same store,
   follows them from there (``remote``).
2. Every change is written to ``log`` in the same step of the event loop in which it is made. So a snapshot with the log's position plus all
   later entries is the complete state.
3. One round of answers at a time. A message that arrives meanwhile waits in the outbox, also for runs of other processes; an edit, a
   regeneration or a change of branch stops all running answers, in this process and in others.
4. An approval request waits until a user decides, in this server or in another one; stopping the answer ends the wait.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from typing import Any, Final, TypeVar

from multi_llm_chat.chat.branch import addressed_by
from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.chat.council import VERDICT, VerdictReader
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
from multi_llm_chat.store import Placed, QueuedMessage
from multi_llm_chat.store.questions import Question
from multi_llm_chat.tools.approval import ApprovalRequest, Decision
from multi_llm_chat.web.answers import LiveAnswer
from multi_llm_chat.web.exchange_groups import BranchReader, PagePlace, has_artifacts, texts_of
from multi_llm_chat.web.history_view import (
    HistoryDetails,
    HistoryRenderer,
    ToolOrigin,
    format_money,
    read_history_details,
)
from multi_llm_chat.web.markdown import render_markdown
from multi_llm_chat.web.oplog import Change, OpLog
from multi_llm_chat.web.outbox import Outbox
from multi_llm_chat.web.remote_runs import POLL_SECONDS, RemoteRuns
from multi_llm_chat.web.tool_questions import ServerForms, ToolApprovals
from multi_llm_chat.web.views import (
    Footer,
    PageAnswer,
    PageExchange,
    PageSnapshot,
    hue_of,
)

#: Seconds between two updates of a page by one answer.
FLUSH_SECONDS: Final = 0.05

#: An unfinished block of this many characters doubles the delay, which grows at most by this factor.
HEAVY_TAIL: Final = 8_000
LONGEST_DELAY: Final = 6.0

_LOGGER = logging.getLogger(__name__)
T = TypeVar("T")


class LiveConversation:
    """One open conversation."""

    def __init__(
        self,
        service: ChatService,
        on_change: Callable[[], object],
        on_orphan: Callable[[], object] = lambda: None,
        origin: ToolOrigin = lambda name: ("", name),
    ) -> None:
        self.service = service
        #: When a request last asked for it, on the monotonic clock.
        self.opened_at = 0.0
        self.remote = RemoteRuns(service, self, on_orphan)
        self.log = OpLog(self.remote.start_polling)
        self.outbox = Outbox(service, self.log)
        self.forms = ServerForms(self.log, lambda: self._answers.values())
        self._origin = origin
        self.approvals = ToolApprovals(service, lambda: self._answers.values(), self._publish)
        self._on_change = on_change
        self._answers: dict[str, LiveAnswer] = {}
        self._footers: dict[str, Footer] = {}
        self._round_lock = asyncio.Lock()
        self._rounds = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._flush: asyncio.TimerHandle | None = None
        self._flushed = -FLUSH_SECONDS * LONGEST_DELAY
        self._tool_started = asyncio.Event()
        self._verdicts = VerdictReader()
        self.reader = BranchReader(service)
        self._exchange_id = ""
        self._columns: dict[str, str] = {}
        self._verdict_run = ""  # of the exchange
        self._addressed: tuple[str, ...] = ()
        self._is_closing = False
        self._handlers: dict[type, Callable[[Any], list[Change]]] = {
            MessageSaved: self._message_saved,
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
        """Whether an answer is running or waiting to start."""
        return self._rounds > 0 or self.remote.is_following

    @property
    def has_readers(self) -> bool:
        """Whether a page is open."""
        return self.log.readers > 0

    @property
    def is_idle(self) -> bool:
        """Whether no page is open and no answer is running."""
        return not self.is_busy and not self.has_readers

    # Pages.

    async def snapshot(
        self, *, before: str | None = None, after: str | None = None, around: str | None = None
    ) -> PageSnapshot:
        """The newest exchanges, or those before or after an exchange, or those around a turn."""
        place = PagePlace(before, after, around)
        await self.remote.sync()
        await self.outbox.refresh()
        while True:
            mark = self.service.mark
            read = await self.reader.read(place)
            groups = self.reader.window(read, place).groups
            if has_artifacts(groups):
                await self.reader.read_artifacts()
            details = await self._read_details(groups)
            # Rendered texts are cached: rendering them in a thread here saves the time of the event loop below.
            await asyncio.to_thread(_render_all, texts_of(groups))
            # The turns that were read belong to the branch shown at that time.
            if read is None or mark == self.service.mark:
                break
        # No await from here on: turns, answers and position must be consistent.
        self._publish(self._flush_answers())
        window = self.reader.window(read, place)
        is_end = not window.has_later
        return PageSnapshot(
            tuple(self._renderer(details).exchanges(window.groups, is_end=is_end)),
            window.has_earlier,
            window.has_later,
            self.log.position,
            self.is_busy,
            self.forms.outside_cards,
            self.outbox.view,
            window.is_found,
        )

    @property
    def waiting_count(self) -> int:
        """How many questions are open."""
        answers = sum(answer.waiting_count for answer in self._answers.values())
        return answers + len(self.forms.outside_cards)

    async def _read_details(self, groups: Sequence[Sequence[Placed]]) -> HistoryDetails:
        if not groups:
            return HistoryDetails()
        return await self.service.store.arun(
            read_history_details, self.service.conversation, groups, list(self._answers)
        )

    def _renderer(self, details: HistoryDetails) -> HistoryRenderer:
        return HistoryRenderer(
            self.service.conversation,
            self.service.names,
            details,
            live={run: answer.view for run, answer in self._answers.items()},
            footers=self._footers,
            origin=self._origin,
            artifacts=self.reader.artifacts,
        )

    # Actions.

    async def start(self, stream: EventStream, *, resets: bool) -> None:
        """Start a round of answers; return when it has started, or when it waits for the round before it.

        Raises:
            MultiLLMChatError: The round cannot start.
        """
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if resets:
            self.stop()
        # "continue" waits for the lock; messages wait in the outbox.
        queued = self.is_busy and not resets
        self._rounds += 1
        task = asyncio.create_task(self._run(stream, started, resets=resets))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if queued:
            started.add_done_callback(self._report_late_error)
            return
        await started

    async def send(self, text: str, media: Sequence[Media], to: Sequence[str] | None) -> None:
        """Send a message now, or put it into the outbox while answers are running."""
        if self.is_busy:
            await self.service.aqueue(text, media=media, to=to)
            await self.outbox.refresh()
            self.send_queued()
            return
        await self.start(self.service.process_message(text, media=media, to=to), resets=False)

    def send_now(self, identifier: str) -> None:
        """Stop the running answers, and send this message before the others."""
        self.outbox.wanted_next = identifier
        self.stop()
        self.send_queued()

    def send_queued(self) -> None:
        """Send the messages of the outbox one after the other, each when the answers before it are complete."""
        if not self.outbox.is_sending:
            self.outbox.is_sending = True
            task = asyncio.create_task(
                self.outbox.send_all(self._wait_for_answers, self._send_waiting)
            )
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _wait_for_answers(self) -> None:
        """Wait until no answer is running, in this process or in others."""
        async with self._round_lock:
            pass
        await self.remote.wait_until_settled()

    async def _send_waiting(self, message: QueuedMessage) -> BaseException | None:
        """Send a message of the outbox; return why it cannot be sent."""
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._rounds += 1
        await self._run(self.service.send_queued(message), started, resets=False)
        return started.exception()

    async def change_branch(self, action: Callable[[], Awaitable[T]]) -> T:
        """Stop all answers, then show another branch."""
        self.stop()
        async with self._round_lock:
            await self.remote.wait_until_ended()
            result = await action()
            self.log.publish({"op": "reset"})
        return result

    def stop(self, speaker: str | None = None) -> None:
        """Stop the answers of a speaker, or all, in every process."""
        self.service.stop(speaker, everywhere=True)

    async def close(self) -> None:
        """Stop the runs of this process and end all streams."""
        self._is_closing = self.outbox.is_closing = True
        await self.remote.close()
        self.service.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.log.close()

    async def _run(
        self, stream: EventStream, started: "asyncio.Future[None]", *, resets: bool
    ) -> None:
        is_branch = resets
        try:
            async with self._round_lock:
                await self.remote.wait_until_ended()
                async for events in stream.batches():
                    if resets:
                        resets = False
                        self.on_history_changed()
                    changes = self._changes(events)
                    if not started.done():
                        changes.append({"op": "busy", "value": True})
                        started.set_result(None)
                    self._publish(changes)
        except MultiLLMChatError as error:
            if started.done():
                self.log.publish({"op": "notice", "text": str(error)})
            else:
                started.set_exception(error)
        except Exception:
            _LOGGER.exception("a round of answers failed")
            self.log.publish({"op": "notice", "text": "internal error"})
            if not started.done():
                started.set_result(None)
        finally:
            self._rounds -= 1
            if is_branch and not self.is_busy:
                # Only now the store has the new answers, which the switches of the other answers count.
                self.log.publish({"op": "reset"})
            self._publish_idle()

    def _publish_idle(self) -> None:
        """Publish that no answer is running any more."""
        if not self.is_busy:
            self._answers = {}
            self.log.publish({"op": "busy", "value": False})

    def _report_late_error(self, started: "asyncio.Future[None]") -> None:
        error = started.exception()
        if error is not None:
            self.log.publish({"op": "notice", "text": str(error)})

    def on_history_changed(self) -> None:
        """Make all pages load the turns again."""
        self._begin_exchange()
        self.log.publish({"op": "reset"})

    def _begin_exchange(self) -> None:
        """Put new answers below the last message."""
        turns = [each.turn for each in self.service.placed]
        last = next((turn for turn in reversed(turns) if turn.role == "user"), None)
        self._exchange_id = (last or turns[0]).id or "" if turns else ""
        self._addressed = addressed_by(last) if last else ()
        self._columns = {run: answer.view.speaker for run, answer in self._answers.items()}
        self._verdict_run = ""

    # Runs of other processes.

    def on_follow_started(self, run: str, speaker: str) -> None:
        """Show a run of another process while it streams."""
        hue = hue_of(speaker, self.service.names)
        view = PageAnswer(run, speaker, hue, is_live=True)
        self._answers[run] = LiveAnswer(view, self._origin)

    def on_event(self, event: Event) -> None:
        """Publish what an event of another process changes."""
        self._publish(self._changes([event]))

    def on_follow_ended(self, run: str) -> None:
        """Load the saved turns of a run that ended or cannot be followed."""
        if self._answers.pop(run, None) is not None:
            self.on_history_changed()
        self._publish_idle()

    def on_questions(self, questions: Sequence[Question]) -> None:
        """Show the approval requests of other processes; a user of this server may decide."""
        self.approvals.show_remote(questions)

    def on_list_changed(self) -> None:
        """Make all pages load the list of conversations again."""
        self.log.publish({"op": "list"})

    # Events.

    def _changes(self, events: Sequence[Event]) -> list[Change]:
        """The changes of the page for these events; text is buffered until the update interval is over."""
        changes = [
            change
            for event in events
            for each in self._verdicts.read(event)
            for change in self._handlers.get(type(each), self._run_event)(each)
        ]
        return [*changes, *self._flush_if_due()]

    def _run_event(self, event: Event) -> list[Change]:
        changes = self._answers[event.run].apply(event)
        if isinstance(event, ToolStarted):
            self._tool_started.set()
            self._tool_started = asyncio.Event()
        return changes

    def _run_resumed(self, event: RunResumed) -> list[Change]:
        answer = self._answers[event.run]
        answer.reset_to_saved()
        return [{"op": "replace", "id": event.run, "html": answer.view}]

    def _run_waiting(self, event: RunWaiting) -> list[Change]:
        changes = self._run_event(event)
        if event.reason == "store":
            changes.append({"op": "notice", "text": event.text})
        return changes

    def _turn_finished(self, event: TurnFinished) -> list[Change]:
        return self._answers[event.run].end_turn()

    def _run_finished(self, event: RunFinished) -> list[Change]:
        usage = event.usage if any(event.usage.counts) else None
        cost = _format_cost(event.cost) if usage else None
        footer = Footer(usage, cost, event.seconds, str(event.stop_reason))
        return self._end_answer(event.run, footer)

    def _run_failed(self, event: RunFailed) -> list[Change]:
        usage = event.usage if any(event.usage.counts) else None
        footer = Footer(usage, _format_cost(event.cost), event.seconds, error=event.error)
        return self._end_answer(event.run, footer)

    def _message_saved(self, event: MessageSaved) -> list[Change]:
        self._exchange_id = event.turn.id or ""
        self._addressed, self._columns, self._verdict_run = event.addressed, {}, ""
        self._on_change()
        renderer = self._renderer(HistoryDetails())
        exchange = PageExchange(self._exchange_id, renderer.message(event.turn))
        changes: list[Change] = [
            {"op": "append", "to": "messages", "html": exchange},
            {"op": "list"},
        ]
        return changes

    def _run_started(self, event: RunStarted) -> list[Change]:
        answer = self._answers.get(event.run)
        if answer is not None:
            answer.set_model(event.model)
            return [{"op": "replace", "id": event.run, "html": answer.view}]
        if not self._exchange_id:
            self._begin_exchange()
        hue = hue_of(event.speaker, self.service.names)
        is_verdict = event.purpose == VERDICT
        view = PageAnswer(
            event.run, event.speaker, hue, event.model, is_live=True, is_council=is_verdict
        )
        self._answers[event.run] = LiveAnswer(view, self._origin)
        change: Change = {"op": "append", "to": f"{self._exchange_id}-answers", "html": view}
        if is_verdict:
            # A verdict is last. If it broke its schema, it is requested again on another branch, and the page shows only the new one.
            before, self._verdict_run = self._verdict_run, event.run
            return [*([{"op": "remove", "id": before}] if before else []), change]
        right = self._column_after(event.speaker)
        self._columns[event.run] = event.speaker
        return [change | {"before": right} if right else change]

    def _column_after(self, speaker: str) -> str | None:
        """The first shown answer of the exchange whose speaker is addressed after this one."""
        later = (
            self._addressed[self._addressed.index(speaker) + 1 :]
            if speaker in self._addressed
            else ()
        )
        return next(
            (run for name in later for run, each in self._columns.items() if each == name), None
        )

    def _end_answer(self, run: str, footer: Footer) -> list[Change]:
        answer = self._answers.pop(run)
        answer.end_turn()
        self._footers[run] = footer
        turns = [each.turn for each in self.service.placed if each.run_id == run]
        if turns:
            around = [each.turn for each in self.service.placed]
            view = self._renderer(HistoryDetails()).answer(run, turns, around)
        else:
            live = answer.view
            view = PageAnswer(run, live.speaker, live.hue, live.model, live.segments, footer)
        return [{"op": "replace", "id": run, "html": view}, {"op": "total"}]

    def _publish(self, changes: list[Change]) -> None:
        self.log.publish(*changes)

    def _flush_answers(self) -> list[Change]:
        return [change for answer in self._answers.values() for change in answer.flush()]

    def _flush_if_due(self) -> list[Change]:
        """The changes for the buffered text if the update interval is over; else schedule them for its end."""
        if self._flush is not None or not any(
            each.has_waiting_text for each in self._answers.values()
        ):
            return []
        # A long list or table is sent as a whole each time, so it is sent less often.
        heaviest = max(answer.tail_size for answer in self._answers.values())
        pace = FLUSH_SECONDS * min(LONGEST_DELAY, 1 + heaviest / HEAVY_TAIL)
        loop = asyncio.get_running_loop()
        if loop.time() < self._flushed + pace:
            self._flush = loop.call_at(self._flushed + pace, self._flush_now)
            return []
        self._flushed = loop.time()
        return self._flush_answers()

    def _flush_now(self) -> None:
        self._flush = None
        self._flushed = asyncio.get_running_loop().time()
        self._publish(self._flush_answers())

    # Approvals.

    async def ask_approval(self, request: ApprovalRequest) -> Decision:
        """Ask in the card of a call whether it may run, and wait for the decision."""
        return await self.approvals.ask(await self._find_answer(request.call), request)

    async def _find_answer(self, call: ToolCall) -> LiveAnswer:
        """The answer that makes the call; the answer of a resumed run arrives through the store."""
        while True:
            tool_started = self._tool_started
            for answer in self._answers.values():
                if answer.is_running(call):
                    return answer
            with contextlib.suppress(MultiLLMChatError, TimeoutError):
                await self.remote.sync()
                await asyncio.wait_for(tool_started.wait(), POLL_SECONDS)


def _render_all(texts: Sequence[str]) -> None:
    for text in texts:
        render_markdown(text)


def _format_cost(cost: Decimal | None) -> str | None:
    return None if cost is None else format_money(cost)
