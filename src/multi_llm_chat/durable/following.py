"""Read what a run tells, in whichever process it goes on.

Rules:
1. Events come in the order of their numbers, without a gap and none twice, from any number on.
2. It ends with the run. Where the events of a run that has ended are gone, it ends without them: the turns are in the store.
3. Who follows asks again and again; what is written by this very process it is handed without asking, and a nudge (Postgres
   tells when something was written) makes it ask sooner.
"""

import time
from collections.abc import AsyncGenerator, Generator
from typing import TypeAlias

from multi_llm_chat.durable.nudges import POLL, Ear, pause_for
from multi_llm_chat.durable.stream import Ended, StreamEvent, read_stream_event
from multi_llm_chat.store import Store, Told, read_events
from multi_llm_chat.store.journal import MOST_EVENTS

Numbered: TypeAlias = tuple[int, StreamEvent]


class Following:
    """Where somebody stands in the stream of a run."""

    def __init__(self, after: int = 0) -> None:
        self.after = after
        self.is_over = False

    def take(self, told: Told) -> list[Numbered]:
        """The events that are new."""
        new: list[Numbered] = []
        for number, payload in told.events:
            self.after = number
            event = read_stream_event(payload)
            if event is not None:
                new.append((number, event))
                self.is_over = self.is_over or isinstance(event, Ended)
        # The end is told last of all: a run that has ended and tells no more was pruned, or ended by an operator.
        self.is_over = self.is_over or (told.status != "running" and not told.events)
        return new


async def follow(
    store: Store, run_id: str, after: int = 0, *, pause: Ear | None = None
) -> AsyncGenerator[Numbered]:
    """What the run tells after a number, until it ends; ``pause`` hears of it."""
    following = Following(after)
    with pause or pause_for(store, run_id) as ear:
        told = await store.arun(read_events, run_id, after)
        while True:
            for each in following.take(told):
                yield each
            if following.is_over:
                return
            # What was read is looked behind at once only if there may be more.
            heard = () if len(told.events) >= MOST_EVENTS else await ear.next(following.after)
            if heard:
                told = Told(heard, "running", None)
            else:
                told = await store.arun(read_events, run_id, following.after)


def follow_plainly(store: Store, run_id: str, after: int = 0) -> Generator[Numbered]:
    """``follow`` without ``async``."""
    following = Following(after)
    while not following.is_over:
        new = following.take(store.run(read_events, run_id, following.after))
        yield from new
        if not new and not following.is_over:
            time.sleep(POLL)
