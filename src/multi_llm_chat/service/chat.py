"""A conversation with many speakers.

Rules:
1. Whom a message addresses answers; with nobody addressed the only speaker does, or the default one, or
   nobody: then it is a memo.
2. All who are addressed answer at the same time, from one snapshot: the history up to the message.
3. The user's words are saved before anybody is asked, together with who is asked; each turn before it is told as
   complete.
4. What is edited, retried or regenerated becomes another branch; nothing is changed or lost. Answers that
   are being given are stopped first.
5. What happens is told by a ``Proceeding``, to be read with ``for`` or ``async for``: the events are the same.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Self

from msgspec.structs import replace

from multi_llm_chat.client import LLMProvider
from multi_llm_chat.config.values import Settings
from multi_llm_chat.context.notes import WHOLE, Cut
from multi_llm_chat.durable.holding import holder_of
from multi_llm_chat.durable.saving import Save
from multi_llm_chat.durable.saving import together as saved_together
from multi_llm_chat.errors import MultiLLMChatError
from multi_llm_chat.history.values import JsonObject, Media, Turn
from multi_llm_chat.service.answering import Answer, Step, spec_of
from multi_llm_chat.service.display import display_turns
from multi_llm_chat.service.events import ChatEvent, MessageFinished, MessageSaved
from multi_llm_chat.service.handing import Followed, queue_of, runs_of
from multi_llm_chat.service.keeping import Keeping, new_id
from multi_llm_chat.service.looking import NEW, Found, read_shown, switch_to
from multi_llm_chat.service.planning import COUNCIL, Planner, addressed_by
from multi_llm_chat.service.proceeding import Proceeding
from multi_llm_chat.service.rounds import Round, answered_again, continued, edited, retried
from multi_llm_chat.service.running import Given, Running
from multi_llm_chat.service.saving import Said, save_message
from multi_llm_chat.service.speakers import Speakers, speakers_from
from multi_llm_chat.store import (
    Placed,
    Run,
    RunInfo,
    Store,
    list_runs,
    move_head,
    open_store,
    runs,
    set_settings,
)
from multi_llm_chat.tools import ToolRegistry
from multi_llm_chat.tools.runner import ToolRunner


class ChatService:
    """A conversation, those who speak in it, and their tools.

    Args:
        speakers: Providers, by the names under which they speak.
        store: Where conversations are kept: a ``Store``, or its place; in memory if not given.
        tools: What the models may use.
        settings: Groups, default speaker, system prompt, prices and the like.
        conversation: The id of the conversation to go on with; a new one if not given.
    """

    def __init__(
        self,
        speakers: Speakers | Mapping[str, LLMProvider] | Iterable[LLMProvider],
        *,
        store: Store | str | PathLike[str] = ":memory:",
        tools: ToolRunner | None = None,
        settings: Settings | None = None,
        conversation: str | None = None,
    ) -> None:
        self.speakers = speakers_from(speakers)
        self._owns_store = not isinstance(store, Store)
        self.store = store if isinstance(store, Store) else open_store(store)
        self._planner = Planner(settings or Settings(), self.speakers, tools or ToolRegistry())
        self.conversation = conversation or new_id()
        self._begin(is_new=conversation is None)

    def _begin(self, *, is_new: bool) -> None:
        self._is_new = is_new
        self._own: JsonObject = {}
        self._cuts: dict[str, Cut] = {}
        self._keeping = Keeping()
        self._running = Running(self.store, self._keeping)

    # What there is.

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The history of the branch that is shown, as far as it was read or said here."""
        return self._keeping.turns

    @property
    def placed(self) -> list[Placed]:
        """The same with each turn's parent and run."""
        return self._keeping.placed

    @property
    def display_history(self) -> list[list[str | None]]:
        """Pairs of what the user and what the models said, also of what is being said."""
        said = [(answer.name, answer.words) for answer in self._running.current]
        return display_turns(self.turns, said)

    @property
    def own_settings(self) -> JsonObject:
        """The conversation's own settings; see ``configure``."""
        return dict(self._own)

    @property
    def names(self) -> tuple[str, ...]:
        """Who takes part."""
        return self._planner.names(self._own)

    def addresses(self, text: str) -> tuple[str, ...]:
        """Who would answer this."""
        return self._planner.address(text, self._own).speakers

    @property
    def answering(self) -> tuple[str, ...]:
        """Who is answering at the moment."""
        return tuple(answer.name for answer in self._running.current)

    @property
    def giving(self) -> frozenset[str]:
        """The runs of the answers that are given here, or are about to be, or are listened to."""
        return frozenset(self._running.runs)

    @property
    def mark(self) -> int:
        """Another number whenever another turn is there."""
        return self._keeping.version

    @property
    def total(self) -> int:
        """How many turns the conversation has on all branches, as far as it is known here."""
        return self._keeping.total

    @property
    def is_saved(self) -> bool:
        """Whether the store has everything that was said."""
        return self._keeping.is_saved

    # What can be done.

    def process_message(
        self,
        text: str,
        *,
        media: Sequence[Media] = (),
        to: Sequence[str] | None = None,
        council: str | bool | None = None,
        schema: JsonObject | None = None,
    ) -> Proceeding:
        """Say something; whoever is addressed answers.

        Args:
            text: The message; ``@name``, ``@all`` and ``@group`` anywhere in it address speakers.
            media: Pictures and files that go with it.
            to: Who answers, whatever the text says.
            council: Who weighs the answers afterwards; True for the configured speaker, False for nobody.
            schema: The JSON Schema that the answers are to follow.
        """

        def decide() -> Round:
            message = self._planner.message(text, media, self._own, to)
            last_word = self._planner.council(council, message.addressed)
            return Round(message.addressed, message.turn, council=last_word, schema=schema)

        return self._proceeding(decide)

    def edit(self, turn: str, text: str, *, media: Sequence[Media] | None = None) -> Proceeding:
        """Say something else in place of an earlier message, on another branch.

        Without a mention in the new text those are asked who were addressed before.
        """

        def decide() -> Round:
            before = next((each.turn for each in self.placed if each.turn.id == turn), None)
            kept = tuple(part for part in before.parts if isinstance(part, Media)) if before else ()
            message = self._planner.message(text, kept if media is None else media, self._own, None)
            names = message.addressed or (addressed_by(before) if before else ())
            said = replace(message.turn, meta=message.turn.meta | {"addressed": list(names)})
            return edited(self.placed, turn, said if names else message.turn, names)

        return self._proceeding(decide, stops=True)

    def retry(self) -> Proceeding:
        """Ask those again who failed to answer the last message, or all if nobody failed."""
        return self._proceeding(lambda: retried(self.placed, None), stops=True)

    def regenerate(self, turn: str) -> Proceeding:
        """Let the speaker of a turn answer again, on another branch; the others' answers stay."""
        return self._proceeding(lambda: answered_again(self.placed, turn, None), stops=True)

    def continue_answer(self, speaker: str | None = None) -> Proceeding:
        """Let the last speaker, or the one named, go on."""

        def decide() -> Round:
            return continued(self.placed, self._planner.known(speaker) if speaker else None)

        return self._proceeding(decide)

    def attach(self) -> Proceeding:
        """Listen to the answers that other processes are giving in this conversation, until they end."""

        def found(runs: Iterable[RunInfo]) -> list[Given]:
            known = {answer.run for answer in self._running.current}
            return [
                Followed(self.conversation, each.speaker, self._keeping, run=each.id)
                for each in runs_of(runs, self.store.user, self.conversation)
                if each.id not in known
            ]

        def attached() -> Generator[ChatEvent]:
            self.load()
            answers = found(self.store.run(list_runs))
            yield from self._running.answers(answers)
            yield self._finished(answers)

        async def attached_async() -> AsyncGenerator[ChatEvent]:
            await self.aload()
            answers = found(await self.store.arun(list_runs))
            async for event in self._running.aanswers(answers, asyncio.Lock()):
                yield event
            yield self._finished(answers)

        return Proceeding(attached, attached_async)

    def follow(self, run: str, speaker: str) -> Proceeding:
        """Listen to one answer that is given elsewhere, from its beginning to its end."""
        answer = Followed(self.conversation, speaker, self._keeping, run=run)
        return Proceeding(
            lambda: self._running.answers([answer]),
            lambda: self._running.aanswers([answer], asyncio.Lock()),
        )

    def stop(self, speaker: str | None = None, *, everywhere: bool = False) -> None:
        """Stop the answers of a speaker, or of all; what was said is kept. From any thread or task.

        Answers that were begun elsewhere, and are only listened to, are stopped if it is to be ``everywhere``.
        """
        self._running.stop(speaker, everywhere=everywhere)

    # Going elsewhere.

    def load(self) -> None:
        """Read the conversation, where somebody else may have gone on with it."""
        self._take(self.store.run(read_shown, self.conversation, self._known))

    async def aload(self) -> None:
        """Like ``load``, to be awaited."""
        self._take(await self.store.arun(read_shown, self.conversation, self._known))

    async def arefresh(self) -> bool:
        """Read everything that is shown anew, also while answers come; False where something was just being said."""
        before = self.mark
        found = await self.store.arun(read_shown, self.conversation, None)
        if found is None or self.mark != before or not self._keeping.is_saved:
            return False
        there = {each.turn.id for each in found.placed}
        # What was said a moment ago may not have reached the store.
        mine = [
            each for each in self.placed if each.run_id in self.giving and each.turn.id not in there
        ]
        self._is_new = False
        self._own = found.own
        self._keeping.take((*found.placed, *mine), found.total + len(mine))
        return True

    def open(self, conversation: str | None = None) -> None:
        """Go to another conversation; a new one if none is named."""
        self._leave_for(conversation)
        self.load()

    async def aopen(self, conversation: str | None = None) -> None:
        """Like ``open``, to be awaited."""
        self._leave_for(conversation)
        await self.aload()

    def switch(self, turn: str) -> None:
        """Show the branch that a turn is on, to its newest end."""
        self.stop()
        self.store.run(switch_to, self.conversation, turn)
        self._cuts = {}
        self.load()

    async def aswitch(self, turn: str) -> None:
        """Like ``switch``, to be awaited."""
        self.stop()
        await self.store.arun(switch_to, self.conversation, turn)
        self._cuts = {}
        await self.aload()

    def branch(self, turn: str) -> None:
        """Go on from an earlier turn; what came later stays on its own branch."""
        self.stop()
        self.store.run(move_head, self.conversation, turn)
        self._cuts = {}
        self.load()

    async def abranch(self, turn: str) -> None:
        """Like ``branch``, to be awaited."""
        self.stop()
        await self.store.arun(move_head, self.conversation, turn)
        self._cuts = {}
        await self.aload()

    def configure(self, **changes: Any) -> None:
        """Change the conversation's own settings: they are kept with it.

        ``system_prompt``, ``speakers`` (names of those who take part), ``default_speaker``, ``others`` (how speakers
        read each other: ``label``, ``adopt``, ``drop``), ``compress`` (False sends everything, however long).
        None takes a setting back.
        """
        self._change(changes)
        if not self._is_new:
            self.store.run(set_settings, self.conversation, self._own)

    async def aconfigure(self, **changes: Any) -> None:
        """Like ``configure``, to be awaited."""
        self._change(changes)
        if not self._is_new:
            await self.store.arun(set_settings, self.conversation, self._own)

    def answers(self) -> tuple[Run, ...]:
        """All answers of the conversation: who, how it ended, and what went wrong."""
        return () if self._is_new else self.store.run(runs, self.conversation)

    # Leaving.

    def close(self) -> None:
        """Stop all answers and close what this service has opened."""
        self.stop()
        self.speakers.close()
        if self._owns_store:
            self.store.close()

    async def aclose(self) -> None:
        """Like ``close``, to be awaited."""
        self.stop()
        await self.speakers.aclose()
        if self._owns_store:
            await asyncio.to_thread(self.store.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # How it is done.

    def _leave_for(self, conversation: str | None) -> None:
        self.stop()
        self.conversation = conversation or new_id()
        self._begin(is_new=conversation is None)

    def _proceeding(self, decide: Callable[[], Round], *, stops: bool = False) -> Proceeding:
        return Proceeding(
            lambda: self._proceed(decide, stops=stops), lambda: self._aproceed(decide, stops=stops)
        )

    def _proceed(self, decide: Callable[[], Round], *, stops: bool) -> Generator[ChatEvent]:
        if stops:
            self.stop()
        self.load()
        chosen = decide()
        steps, answers, trouble = self._prepare(chosen)
        yield from self._running.do(steps)
        if trouble is not None:
            raise trouble
        yield from self._running.answers(answers)
        last_word = self._last_word(chosen)
        yield from self._running.answers(last_word)
        yield self._finished([*answers, *last_word])

    async def _aproceed(
        self, decide: Callable[[], Round], *, stops: bool
    ) -> AsyncGenerator[ChatEvent]:
        if stops:
            self.stop()
        await self.aload()
        chosen = decide()
        saving = asyncio.Lock()
        steps, answers, trouble = self._prepare(chosen)
        async for event in self._running.ado(steps, saving):
            yield event
        if trouble is not None:
            raise trouble
        async for event in self._running.aanswers(answers, saving):
            yield event
        last_word = self._last_word(chosen)
        async for event in self._running.aanswers(last_word, saving):
            yield event
        yield self._finished([*answers, *last_word])

    def _prepare(
        self, chosen: Round
    ) -> tuple[Sequence[Step], list[Given], MultiLLMChatError | None]:
        """Keep what was said together with the beginning of the answers: a message is never left without them."""
        steps = self._keep(chosen)
        try:
            answers = self._answers(chosen)
        except MultiLLMChatError as error:
            return steps, [], error
        if steps and isinstance(steps[0], Save):
            save = saved_together([steps[0], *(answer.start() for answer in answers)])
            steps = [save, *steps[1:]]
        return steps, answers, None

    def _keep(self, chosen: Round) -> Sequence[Step]:
        """Go back, keep what stays and what was said."""
        if chosen.back is not None:
            self._keeping.back_to(chosen.back.turn)
            self._cuts = {}
        message = [Said(chosen.message)] if chosen.message is not None else []
        said = (*chosen.stays, *message)
        for each in said:
            self._keeping.add(each.turn, each.run)
        if chosen.back is None and not said:
            return []
        self._is_new = False
        save = Save(save_message, (self.conversation, said, chosen.back, self._own))
        if chosen.message is None:
            return [save]
        return [save, MessageSaved(self.conversation, chosen.message, chosen.ask)]

    def _answers(self, chosen: Round) -> list[Given]:
        history = self.turns
        base = self._keeping.last
        if chosen.heard is not None:
            end = next(at for at, turn in enumerate(history) if turn.id == chosen.heard)
            history, base = history[: end + 1], chosen.heard
        return [self._answer(name, history, base, schema=chosen.schema) for name in chosen.ask]

    def _last_word(self, chosen: Round) -> list[Given]:
        if chosen.council is None:
            return []
        history = (*self.turns, self._planner.council_turn())
        return [self._answer(chosen.council, history, self._keeping.last, {COUNCIL: True})]

    def _answer(
        self,
        name: str,
        history: tuple[Turn, ...],
        base: str | None,
        meta: JsonObject | None = None,
        schema: JsonObject | None = None,
    ) -> Given:
        if queue_of(self.store) is not None:
            name = self._planner.known(name)
            spec = spec_of(meta or {}, schema)
            handed = Followed(self.conversation, name, self._keeping, base=base, spec=spec)
            return self._running.expect(handed)
        cut = self._cuts.get(name, WHOLE)
        inquiry = self._planner.inquiry(
            name, history, self._own, base=base, cut=cut, meta=meta, schema=schema
        )
        answer = Answer(self.conversation, inquiry, self._keeping, holder_of(self.store))
        return self._running.expect(answer)

    def _finished(self, answers: Sequence[Given]) -> ChatEvent:
        for answer in answers:
            if answer.note is not None:
                self._cuts[answer.name] = answer.note.cut
        return MessageFinished(
            self.conversation,
            tuple(answer.name for answer in answers if not answer.failed),
            tuple(answer.name for answer in answers if answer.failed),
        )

    @property
    def _known(self) -> str | None:
        """The last turn that is known here, unless nothing needs to be read."""
        return NEW if self._is_new or not self._keeping.is_saved else self._keeping.last

    def _take(self, found: Found | None) -> None:
        if found is not None:
            self._own = found.own
            self._keeping.take(found.placed, found.total)

    def _change(self, changes: JsonObject) -> None:
        merged = self._own | changes
        self._own = {name: value for name, value in merged.items() if value is not None}
