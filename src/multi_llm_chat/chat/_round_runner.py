"""Performs the rounds of the open conversation, and resumes or follows its runs.

Rules:
1. One transaction saves the message of a round and the start of its runs; then this process drives the runs, or
   follows them where workers drive them.
2. A message that cannot be saved is refused, and no run starts. A message whose runs cannot be planned is saved.
3. All runs of a round get the history up to the message; the council's run follows them and gets their answers too.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from multi_llm_chat.agent.window.compression_notes import WHOLE
from multi_llm_chat.chat._active_runs import ActiveRun, ActiveRuns, ObservingSink
from multi_llm_chat.chat._message_writes import Back, Said, save_round
from multi_llm_chat.chat._open_conversation import OpenConversation, read_shown
from multi_llm_chat.chat._rounds import Round, missing_verdict, retried
from multi_llm_chat.chat.branch import COUNCIL, Branch, new_id
from multi_llm_chat.chat.council import (
    VERDICT,
    VERDICT_RETRIES,
    chair_history,
    check_verdict,
    member_answers,
    verdict_schema,
)
from multi_llm_chat.chat.run_resolver import RunResolver
from multi_llm_chat.errors import MultiLLMChatError
from multi_llm_chat.events import Cut, MessageFinished, MessageSaved
from multi_llm_chat.history.values import JsonObject, Turn
from multi_llm_chat.runs.channel import EventSink
from multi_llm_chat.runs.driver import RunDriver
from multi_llm_chat.runs.follow import is_interrupted
from multi_llm_chat.runs.journal import Journal
from multi_llm_chat.runs.leases import RunHost
from multi_llm_chat.runs.records import Write, queue_run
from multi_llm_chat.runs.recovery import resume_runs
from multi_llm_chat.runs.spec import recorded_spec
from multi_llm_chat.store import RunInfo, Store, list_runs
from multi_llm_chat.tools.threads import in_loop

if TYPE_CHECKING:
    from multi_llm_chat.chat.planner import Planner


class RoundRunner:
    """Performs the rounds of one conversation.

    Args:
        conversation: The conversation.
        planner: Plans its runs.
        store: Where it is saved.
        host: The ``RunHost`` of this process.
        store_patience: Seconds for which a run waits for a store that refuses writes; None waits for ever.
    """

    def __init__(
        self,
        conversation: OpenConversation,
        planner: "Planner",
        store: Store,
        host: RunHost,
        *,
        store_patience: float | None,
    ) -> None:
        self._open = conversation
        self._planner = planner
        self._store = store
        self._host = host
        self._store_patience = store_patience
        self.active = ActiveRuns(host, store, conversation.branch, store_patience=store_patience)

    async def load(self) -> None:
        """Read the shown branch again, because another process may have continued it."""
        conversation = self._open
        found = await self._store.arun(read_shown, conversation.id, conversation.known)
        conversation.take(found)

    async def perform(self, decide: Callable[[], Round], sink: EventSink) -> None:
        """Save the round, then drive or follow its runs to their end."""
        with self.active.preparation() as stopped:
            await self.load()
            chosen = decide()
            planned, trouble = self._plan(chosen)
            self.active.stop_prepared(planned, stopped)
        try:
            await self._save(chosen, planned)
        except MultiLLMChatError:
            self.active.forget(planned)
            raise
        if chosen.message is not None:
            sink.put([MessageSaved(self._open.id, chosen.message, chosen.ask)])
        if trouble is not None:
            raise trouble
        await self.active.perform(planned, sink)
        if chosen.has_verdict:
            last_word = await self._verdict(chosen, planned, sink)
        else:
            last_word = await self._last_word(chosen)
            await self.active.perform(last_word, sink)
        sink.put([self.finished([*planned, *last_word])])

    async def retry(self, sink: EventSink) -> None:
        """Resume the interrupted runs of the conversation; if there are none, ask the speakers again."""
        self.active.stop()
        if await self._interrupted():
            await self.resume(sink, self._open.id)
        else:
            await self.perform(lambda: retried(self._open.branch.placed, None), sink)

    async def attach(self, sink: EventSink) -> None:
        """Follow the runs that other processes drive in the conversation, until they end."""
        await self.load()
        found = [
            ActiveRun(info.id, info.speaker, is_attached=True)
            for info in await self._store.arun(list_runs)
            if self._is_followed(info)
        ]
        await self.active.perform(found, sink)
        sink.put([self.finished(found)])

    async def follow(self, run: str, speaker: str, sink: EventSink) -> None:
        """Follow one run that another process drives, from its first event to its end."""
        if self._open.branch.last is None:  # the conversation was not read yet
            await self.load()
        active = ActiveRun(run, speaker, is_attached=True)
        await self.active.perform([active], sink)
        self._remember_cuts([active])

    def _is_followed(self, info: RunInfo) -> bool:
        is_ours = (info.user, info.conversation) == (self._store.user, self._open.id)
        is_driven = self._host.queue is not None or not is_interrupted(info)
        return is_ours and is_driven and info.id not in self.active.ids

    async def resume(self, sink: EventSink, conversation: str | None) -> None:
        """Resume the interrupted runs of this conversation, or of all conversations of this user if None."""
        resumed: dict[str, ActiveRun] = {}
        here: dict[str, ActiveRun] = {}

        def control(driver: RunDriver) -> None:
            spec = driver.spec
            active = resumed[spec.run] = ActiveRun(spec.run, spec.speaker)
            if spec.conversation == self._open.id:
                here[spec.run] = active
            self.active.add(active, in_loop(driver.cancel))

        try:
            ended = await resume_runs(
                self._host,
                RunResolver(self._planner),
                wanted=lambda info: self._is_resumable(info, conversation),
                sink=ObservingSink(here, sink),
                store_patience=self._store_patience,
                on_driver=control,
                wait=self._host.lease_ms / 1000,
            )
        finally:
            self.active.forget(list(resumed.values()))
        for run, active in resumed.items():
            active.failed = ended.get(run) not in {"done", "cancelled"}
        await self.load()
        performed = list(resumed.values())
        chosen = missing_verdict(self._open.branch.placed) if here else None
        if chosen is not None:
            performed += await self._verdict(chosen, (), sink)
        sink.put([self.finished(performed)])

    def _plan(self, chosen: Round) -> tuple[list[ActiveRun], MultiLLMChatError | None]:
        """The runs of a round, or the error if they cannot be planned. The message is saved in either case."""
        branch = self._open.branch.copy()
        _apply(chosen, branch)
        history, base = branch.turns, branch.last
        if chosen.base is not None:
            end = next(at for at, turn in enumerate(history) if turn.id == chosen.base)
            history, base = history[: end + 1], chosen.base
        cuts = {} if chosen.back is not None else self._open.cuts
        planned: list[ActiveRun] = []
        try:
            planned.extend(
                self._plan_run(name, history, base, cuts, schema=chosen.schema)
                for name in chosen.ask
            )
        except MultiLLMChatError as error:
            self.active.forget(planned)
            return [], error
        return planned, None

    async def _save(self, chosen: Round, planned: Sequence[ActiveRun]) -> None:
        """Save the message and the start of its runs in one transaction."""
        said = _said(chosen)
        message = None
        if chosen.back is not None or said:
            message = (said, chosen.back, self._open.own)
        starts = [self._start(active, chosen.schema) for active in planned]
        if message is not None or starts:
            await self._store.arun(save_round, self._open.id, message, starts, chosen.queued)
        if message is not None:
            self._open.is_new = False
        _apply(chosen, self._open.branch)
        if chosen.back is not None:
            self._open.cuts = {}
        for start in starts:
            start.landed()

    def _start(self, active: ActiveRun, schema: JsonObject | None, **meta: bool) -> Write:
        """The write that records the start of a run."""
        if active.journal is not None:
            return active.journal.start()
        spec = recorded_spec(meta, schema)
        arguments = (self._open.id, active.run, active.speaker, active.base, spec)
        return Write(queue_run, arguments)

    async def _last_word(self, chosen: Round) -> list[ActiveRun]:
        """Start the council's run, which evaluates the answers of the others."""
        if chosen.council is None:
            return []
        history = (*self._open.branch.turns, self._planner.council_turn())
        last = self._plan_run(
            chosen.council, history, self._open.branch.last, self._open.cuts, meta={COUNCIL: True}
        )
        start = self._start(last, None, **{COUNCIL: True})
        await self._store.arun(save_round, self._open.id, None, [start])
        start.landed()
        return [last]

    async def _verdict(
        self, chosen: Round, members: Sequence[ActiveRun], sink: EventSink
    ) -> list[ActiveRun]:
        """Let the chair write a verdict about the answers; if it breaks its schema, ask for it again."""
        base = self._open.branch.last
        turns = self._open.branch.turns
        answers = member_answers(turns)
        is_silent = bool(members) and all(each.failed for each in members)
        if chosen.council is None or is_silent or not answers:
            return []
        schema, complaint, tries = verdict_schema(answers), "", 1 + VERDICT_RETRIES
        meta: dict[str, bool] = {COUNCIL: True, VERDICT: True}
        while True:
            last = self._plan_run(
                chosen.council,
                chair_history(turns, complaint),
                base,
                {},
                meta=dict(meta),
                schema=schema,
            )
            start = self._start(last, schema, **meta)
            # Another verdict is another branch: the first one stays, and is not shown.
            message = ((), Back(base), self._open.own) if complaint else None
            await self._store.arun(save_round, self._open.id, message, [start])
            start.landed()
            if complaint:
                self._open.branch.back_to(base)
            await self.active.perform([last], sink)
            written = [each.turn for each in self._open.branch.placed if each.run_id == last.run]
            complaint = check_verdict(written[-1], schema) if written else ""
            tries -= 1
            if last.failed or not complaint or not tries:
                last.failed |= bool(complaint)
                return [last]

    def _plan_run(
        self,
        name: str,
        history: tuple[Turn, ...],
        base: str | None,
        cuts: Mapping[str, Cut],
        *,
        meta: JsonObject | None = None,
        schema: JsonObject | None = None,
    ) -> ActiveRun:
        run = new_id()
        if self._host.queue is not None:
            return self.active.expect(ActiveRun(run, self._planner.known(name), base=base))
        spec = self._planner.spec(
            name,
            history,
            self._open.own,
            conversation=self._open.id,
            run=run,
            base=base,
            cut=cuts.get(name, WHOLE),
            meta=meta,
            schema=schema,
        )
        journal = Journal(spec, self._store, self._host)
        return self.active.expect(ActiveRun(run, name, base=base, journal=journal))

    async def _interrupted(self) -> list[RunInfo]:
        return [
            info
            for info in await self._store.arun(list_runs)
            if self._is_resumable(info, self._open.id) and is_interrupted(info)
        ]

    def _is_resumable(self, info: RunInfo, conversation: str | None) -> bool:
        is_known = info.user == self._store.user and self._planner.has(info.speaker)
        return is_known and conversation in (None, info.conversation)

    def _remember_cuts(self, performed: Sequence[ActiveRun]) -> None:
        for active in performed:
            if active.note is not None:
                self._open.cuts[active.speaker] = active.note.cut

    def finished(self, performed: Sequence[ActiveRun]) -> MessageFinished:
        """The event that ends an action with these runs."""
        self._remember_cuts(performed)
        return MessageFinished(
            self._open.id,
            tuple(active.speaker for active in performed if not active.failed),
            tuple(active.speaker for active in performed if active.failed),
        )


def _said(chosen: Round) -> tuple[Said, ...]:
    """The turns that a round adds to the branch."""
    message = [Said(chosen.message)] if chosen.message is not None else []
    return (*chosen.stays, *message)


def _apply(chosen: Round, branch: Branch) -> None:
    """Apply a round to a branch: go back, then add the turns that stay and the message."""
    if chosen.back is not None:
        branch.back_to(chosen.back.turn)
    for each in _said(chosen):
        branch.add(each.turn, each.run)
