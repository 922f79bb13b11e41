"""A conversation with many speakers.

Rules:
1. The speakers that a message addresses answer it; a message that addresses none is answered by the only speaker, or
   the default one, or stays a memo.
2. All addressed speakers answer at the same time, from one snapshot: the history up to the message.
3. One transaction saves a message and begins its runs. A message that cannot be saved is refused with a ``StoreError``.
4. An edit, a retry or another answer becomes another branch; nothing is changed or lost. It first stops the active
   runs.
5. Every action returns an ``EventStream``, to be read with ``for`` or ``async for``: the events are the same.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Self

from msgspec.structs import replace

from multi_llm_chat.agent.limits import LoopLimits
from multi_llm_chat.chat._message_writes import save_message
from multi_llm_chat.chat._open_conversation import OpenConversation, read_shown, switch_to
from multi_llm_chat.chat._round_runner import RoundRunner
from multi_llm_chat.chat._rounds import Round, answered_again, continued, edited, removed
from multi_llm_chat.chat.branch import addressed_by
from multi_llm_chat.chat.display import display_turns
from multi_llm_chat.chat.planner import Planner
from multi_llm_chat.chat.speakers import Model, Speakers, speakers_from
from multi_llm_chat.config.settings import Settings
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.reader import read_part
from multi_llm_chat.history.values import JsonObject, Media, Turn
from multi_llm_chat.history.writer import write_part
from multi_llm_chat.runs.channel import EventSink
from multi_llm_chat.runs.event_stream import EventStream
from multi_llm_chat.runs.hooks import RunHooks
from multi_llm_chat.runs.leases import RunHost, report_unsaved
from multi_llm_chat.runs.records import STORE_PATIENCE
from multi_llm_chat.store import (
    Placed,
    QueuedMessage,
    Run,
    Store,
    edit_queued,
    list_outbox,
    move_head,
    open_store,
    queue_message,
    runs,
    set_settings,
    take_queued,
)
from multi_llm_chat.tools import ToolRegistry
from multi_llm_chat.tools.background_loop import wait_for
from multi_llm_chat.tools.tool_runner import ToolRunner


class ChatService:
    """A conversation with one or several models, saved in a store.

    Args:
        speakers: Providers, by the names under which they speak.
        store: Where conversations are saved: a ``Store``, or its path or address; in memory if not given.
        tools: The tools that the models may use.
        settings: Groups, default speaker, system prompt, prices and the like.
        conversation: The id of the conversation to continue; a new one if not given.
        host: The ``RunHost`` of this process for the store; one of its own if not given.
        store_patience: Seconds for which an answer waits for a store that refuses writes; None waits for ever.
        limits: The limits of each run; ``settings.tools.max_iterations`` if not given.
        hooks: Functions that are called around the runs' calls to models.
    """

    def __init__(
        self,
        speakers: Speakers | Mapping[str, Model] | Iterable[Model],
        *,
        store: Store | str | PathLike[str] = ":memory:",
        tools: ToolRunner | None = None,
        settings: Settings | None = None,
        conversation: str | None = None,
        host: RunHost | None = None,
        store_patience: float | None = STORE_PATIENCE,
        limits: LoopLimits | None = None,
        hooks: RunHooks | None = None,
    ) -> None:
        settings = settings or Settings()
        self.speakers = speakers_from(speakers, settings.personas)
        self._owns_store = not isinstance(store, Store)
        self.store = store if isinstance(store, Store) else open_store(store)
        self._owns_host = host is None
        self.host = host or RunHost(self.store)
        self._store_patience = store_patience
        self._planner = Planner(
            settings,
            self.speakers,
            tools or ToolRegistry(),
            limits=limits,
            hooks=hooks,
        )
        self._begin(conversation)

    def _begin(self, conversation: str | None) -> None:
        self._open = OpenConversation(conversation)
        self._runner = RoundRunner(
            self._open, self._planner, self.store, self.host, store_patience=self._store_patience
        )

    @property
    def conversation(self) -> str:
        """The id of the conversation; a new conversation may be given another id before its first message."""
        return self._open.id

    @conversation.setter
    def conversation(self, identifier: str) -> None:
        if identifier == self._open.id:
            return
        if not self._open.is_new:
            raise UsageError("The conversation is saved under its id: use open() for another one")
        self._open.id = identifier

    # State.

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The history of the shown branch, as last read from the store, with the turns that were added since."""
        return self._open.branch.turns

    @property
    def placed(self) -> list[Placed]:
        """The same turns, each with its parent and run."""
        return self._open.branch.placed

    @property
    def display_history(self) -> list[list[str | None]]:
        """Pairs of the user's and the models' texts, including unfinished answers."""
        said = [(active.speaker, active.words) for active in self._runner.active.current]
        return display_turns(self.turns, said)

    @property
    def own_settings(self) -> JsonObject:
        """The conversation's own settings; see ``configure``."""
        return dict(self._open.own)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the speakers that take part."""
        return self._planner.names(self._open.own)

    def known_speaker(self, name: str) -> str:
        """The configured spelling of a speaker's name; upper and lower case do not matter.

        Raises:
            UsageError: There is no such speaker.
        """
        return self._planner.known(name)

    def addresses(self, text: str) -> tuple[str, ...]:
        """The speakers that this text addresses."""
        return self._planner.address(text, self._open.own).speakers

    def mentions(self, text: str) -> tuple[str, ...]:
        """The speakers that a text mentions."""
        return self._planner.mentions(text, self._open.own).speakers

    @property
    def answering(self) -> tuple[str, ...]:
        """The speakers that are answering at the moment."""
        return tuple(active.speaker for active in self._runner.active.current)

    @property
    def run_ids(self) -> frozenset[str]:
        """The ids of the runs that this process drives or follows in this conversation, or is about to."""
        return frozenset(self._runner.active.ids)

    @property
    def mark(self) -> int:
        """A number that changes with every change of the shown branch."""
        return self._open.branch.version

    @property
    def total(self) -> int:
        """How many turns the conversation has on all branches, as far as this process knows."""
        return self._open.branch.total

    @property
    def is_whole(self) -> bool:
        """Whether ``turns`` is the whole shown branch, and not only its end (``arefresh``)."""
        return self._open.branch.is_whole

    @property
    def tokens_before(self) -> int:
        """About how many tokens the turns before ``turns`` have, if that is only the end of the shown branch."""
        return self._open.branch.tokens_before

    @property
    def is_saved(self) -> bool:
        """Whether the store has accepted every write of the runs that have ended."""
        return not self.host.unsaved

    # Actions.

    def process_message(
        self,
        text: str,
        *,
        media: Sequence[Media] = (),
        to: Sequence[str] | None = None,
        council: str | bool | None = None,
        verdict: bool = False,
        schema: JsonObject | None = None,
    ) -> EventStream:
        """Send a message; the addressed speakers answer.

        Args:
            text: The message; ``@name``, ``@all`` and ``@group`` anywhere in it address speakers.
            media: Pictures and files of the message.
            to: The speakers that answer; overrides the mentions in the text.
            council: The speaker that evaluates the answers afterwards; True for the configured one, False for none.
            verdict: Whether that speaker writes a structured verdict (``chat.council``); a message to ``@council:NAME`` has one.
            schema: The JSON Schema that the answers must follow.

        Reading the stream raises ``StoreError`` if the message cannot be saved; no request was sent then.
        """

        def decide() -> Round:
            message = self._planner.message(text, media, self._open.own, to)
            last_word = message.chair or self._planner.council(council, message.addressed)
            return Round(
                message.addressed,
                message.turn,
                council=last_word,
                has_verdict=verdict or message.chair is not None,
                schema=schema,
            )

        return self._stream(decide)

    # The outbox: messages that wait to be sent.

    def queue(
        self, text: str, *, media: Sequence[Media] = (), to: Sequence[str] | None = None
    ) -> QueuedMessage:
        """Save a message in the outbox, to be sent later with ``send_queued``.

        Raises:
            UsageError: The message cannot be sent, or the conversation has no message yet.
        """
        message = self._queued(text, media, to)
        self.store.run(queue_message, self.conversation, message)
        return message

    async def aqueue(
        self, text: str, *, media: Sequence[Media] = (), to: Sequence[str] | None = None
    ) -> QueuedMessage:
        """Like ``queue``, to be awaited."""
        message = self._queued(text, media, to)
        await self.store.arun(queue_message, self.conversation, message)
        return message

    def outbox(self) -> tuple[QueuedMessage, ...]:
        """The waiting messages, the next one first."""
        return () if self._open.is_new else self.store.run(list_outbox, self.conversation)

    async def aoutbox(self) -> tuple[QueuedMessage, ...]:
        """Like ``outbox``, to be awaited."""
        return () if self._open.is_new else await self.store.arun(list_outbox, self.conversation)

    def edit_queued(self, identifier: str, text: str) -> None:
        """Change the text of a message that waits.

        Raises:
            UsageError: It was sent or withdrawn.
        """
        self.store.run(edit_queued, self.conversation, identifier, text)

    def withdraw(self, identifier: str) -> None:
        """Take back a message that waits.

        Raises:
            UsageError: It was sent or withdrawn.
        """
        self.store.run(take_queued, self.conversation, identifier)

    def send_queued(self, message: QueuedMessage) -> EventStream:
        """Send a message that waits; it leaves the outbox in the transaction that saves it."""

        def decide() -> Round:
            to = message.request.get("to")
            media = [part for part in map(_read_media, message.request.get("media", ())) if part]
            planned = self._planner.message(message.text, media, self._open.own, to)
            last_word = planned.chair or self._planner.council(None, planned.addressed)
            return Round(
                planned.addressed,
                planned.turn,
                council=last_word,
                has_verdict=planned.chair is not None,
                queued=message.id,
            )

        return self._stream(decide)

    def _queued(self, text: str, media: Sequence[Media], to: Sequence[str] | None) -> QueuedMessage:
        if self._open.is_new:
            raise UsageError("The conversation has no message yet: send this one instead")
        planned = self._planner.message(
            text, media, self._open.own, to
        )  # raises now if the message cannot be sent
        request: JsonObject = {"media": [write_part(part) for part in media]}
        if to is not None:
            request["to"] = list(to)
        return QueuedMessage(planned.turn.id or "", text, request)

    def edit(self, turn: str, text: str, *, media: Sequence[Media] | None = None) -> EventStream:
        """Send another text instead of an earlier message, on another branch.

        Without a mention in the new text, the speakers that the old message addressed answer.
        """

        def decide() -> Round:
            before = next((each.turn for each in self.placed if each.turn.id == turn), None)
            kept = tuple(part for part in before.parts if isinstance(part, Media)) if before else ()
            message = self._planner.message(
                text, kept if media is None else media, self._open.own, None
            )
            names = message.addressed or (addressed_by(before) if before else ())
            meta = {key: value for key, value in message.turn.meta.items() if key != "memo"}
            said = replace(message.turn, meta=meta | {"addressed": list(names)})
            return edited(self.placed, turn, said if names else message.turn, names)

        return self._stream(decide, stops=True)

    def retry(self) -> EventStream:
        """Ask the speakers that failed to answer the last message again, or all of them if none failed.

        Interrupted runs of this conversation are resumed instead.
        """
        return EventStream(self._runner.retry, self.stop)

    def regenerate(self, turn: str) -> EventStream:
        """Ask the speaker of a turn again, on another branch; the others' answers stay."""
        return self._stream(lambda: answered_again(self.placed, turn, None), stops=True)

    def continue_answer(self, speaker: str | None = None) -> EventStream:
        """Let the last speaker, or the named one, continue its answer."""

        def decide() -> Round:
            return continued(self.placed, self._planner.known(speaker) if speaker else None)

        return self._stream(decide)

    def attach(self) -> EventStream:
        """Follow the runs that other processes drive in this conversation, until they end."""
        return EventStream(self._runner.attach)

    def follow(self, run: str, speaker: str) -> EventStream:
        """Follow one run that another process drives, from its first event to its end."""
        return EventStream(lambda sink: self._runner.follow(run, speaker, sink))

    def resume(self, conversation: str | None = None) -> EventStream:
        """Resume the runs whose process has ended, with this service's speakers and tools.

        Args:
            conversation: Only the runs of this conversation; if not given, all runs of this user in the store whose
                speaker this service has.
        """
        return EventStream(lambda sink: self._runner.resume(sink, conversation), self.stop)

    def stop(self, speaker: str | None = None, *, everywhere: bool = False) -> None:
        """Stop the answers of a speaker, or all; the text so far is kept. Any thread or task may call it.

        With ``everywhere`` it also stops runs that another process drives.
        """
        self._runner.active.stop(speaker, everywhere=everywhere)

    # Other conversations and branches.

    def load(self) -> None:
        """Read the conversation from the store again, because another process may have continued it."""
        self._open.take(self.store.run(read_shown, self.conversation, self._open.known))

    async def aload(self) -> None:
        """Like ``load``, to be awaited."""
        await self._runner.load()

    async def arefresh(self, least: int | None = None) -> bool:
        """Read the shown branch again, also while runs are active; return False if the branch changed in the meantime.

        Args:
            least: Read only the end of the branch, at least so many turns, unless all of it was read before. The next
                action reads the rest.
        """
        before = self.mark
        if before and self._open.branch.is_whole:
            least = None
        found = await self.store.arun(read_shown, self.conversation, None, least)
        if found is None or self.mark != before:
            return False
        stored = {each.turn.id for each in found.placed}
        # The newest turns of active runs may not have reached the store.
        added = [
            each
            for each in self.placed
            if each.run_id in self.run_ids and each.turn.id not in stored
        ]
        self._open.take(found, added)
        return True

    def open(self, conversation: str | None = None) -> None:
        """Switch to another conversation; to a new one if no id is given."""
        self._leave_for(conversation)
        self.load()

    async def aopen(self, conversation: str | None = None) -> None:
        """Like ``open``, to be awaited."""
        self._leave_for(conversation)
        await self.aload()

    def switch(self, turn: str) -> None:
        """Show the branch of a turn, up to its newest end."""
        self.stop()
        self.store.run(switch_to, self.conversation, turn)
        self._open.cuts = {}
        self.load()

    async def aswitch(self, turn: str, least: int | None = None) -> None:
        """Like ``switch``, to be awaited; ``least`` is that of ``arefresh``."""
        self.stop()
        await self.store.arun(switch_to, self.conversation, turn)
        self._open.cuts = {}
        self._open.take(await self.store.arun(read_shown, self.conversation, None, least))

    def branch(self, turn: str) -> None:
        """Continue from an earlier turn; later turns stay on their own branch."""
        self.stop()
        self.store.run(move_head, self.conversation, turn)
        self._open.cuts = {}
        self.load()

    async def abranch(self, turn: str) -> None:
        """Like ``branch``, to be awaited."""
        self.stop()
        await self.store.arun(move_head, self.conversation, turn)
        self._open.cuts = {}
        await self.aload()

    def remove(self, turn: str) -> str:
        """Take a message with its answers, or one answer, off the shown branch; return the id of the turn to ``switch`` back to.

        Nothing is lost: the branch that was shown stays as it is.
        """
        return wait_for(self.aremove(turn))

    async def aremove(self, turn: str) -> str:
        """Like ``remove``, to be awaited."""
        self.stop()
        await self.aload()
        round_, before = removed(self.placed, turn), self._open.branch.last or ""
        await self.store.arun(
            save_message, self.conversation, round_.stays, round_.back, self._open.own
        )
        self._open.cuts = {}
        await self.aload()
        return before

    def configure(self, **changes: Any) -> None:
        """Change the conversation's own settings, which are saved with it.

        ``system_prompt``, ``speakers`` (the names that take part), ``default_speaker``, ``foreign`` (how speakers read
        each other: ``label``, ``adopt``, ``drop``), ``compress`` (False sends everything, however long), ``server_tools``
        (tools that providers run themselves, such as ``web_search``), ``options`` (settings of requests, such as
        ``temperature``), ``models`` (speakers' models, by speaker). None removes a setting.
        """
        self._open.change(changes)
        if not self._open.is_new:
            self.store.run(set_settings, self.conversation, self._open.own)

    async def aconfigure(self, **changes: Any) -> None:
        """Like ``configure``, to be awaited."""
        self._open.change(changes)
        if not self._open.is_new:
            await self.store.arun(set_settings, self.conversation, self._open.own)

    def answers(self) -> tuple[Run, ...]:
        """All runs of the conversation: the speaker, how the run ended, and its error."""
        return () if self._open.is_new else self.store.run(runs, self.conversation)

    # Closing.

    def close(self) -> None:
        """Stop all answers, and close the speakers' connections and everything else that this service has opened.

        Raises:
            StoreError: The store accepted no writes for five seconds; the text says how many steps are not saved.
        """
        self.stop()
        wait_for(self.speakers.aclose())
        unsaved = self.host.close() if self._owns_host else 0
        if self._owns_store:
            self.store.close()
        report_unsaved(unsaved)

    async def aclose(self) -> None:
        """Like ``close``, to be awaited."""
        self.stop()
        await self.speakers.aclose()
        unsaved = await asyncio.to_thread(self.host.close) if self._owns_host else 0
        if self._owns_store:
            await asyncio.to_thread(self.store.close)
        report_unsaved(unsaved)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # Performing an action.

    def _leave_for(self, conversation: str | None) -> None:
        self.stop()
        self._begin(conversation)

    def _stream(self, decide: Callable[[], Round], *, stops: bool = False) -> EventStream:
        async def produce(sink: EventSink) -> None:
            if stops:
                self.stop()
            await self._runner.perform(decide, sink)

        return EventStream(produce, self.stop)


def _read_media(entry: object) -> Media | None:
    part = read_part(entry, None, 0)
    return part if isinstance(part, Media) else None
