"""Wake the followers of a run when it has new events: from Postgres, or from a commit in this process.

Rules:
1. One thread with one connection listens to Postgres for the whole process, as long as there are followers. SQLite has no notifications:
   followers poll for the rows of other processes.
2. Followers in this process receive the rows of a commit from memory, after the commit, and do not read them again.
3. A notification without rows means that there may be something to read. A follower that misses one reads the store
   after at most ``LONGEST`` seconds.

``Notifications`` owns the listening thread; a ``Subscription`` belongs to one event loop.
"""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, Self

from multi_llm_chat.runs.records import NumberedRows
from multi_llm_chat.store import Store
from multi_llm_chat.store.executor import NotificationListener
from multi_llm_chat.store.journal import CHANNEL

#: Seconds between two reads of a store without notifications.
POLL: Final = 0.05
#: Seconds after which a follower reads the store without a notification.
LONGEST: Final = 0.5
#: How many events are queued for a slow follower; beyond that it reads them from the store.
_MOST: Final = 1_000
#: After how many waits without a notification and without a follower the connection is closed.
_IDLE_WAITS: Final = 4


class Subscription:
    """What one follower of a run receives; used within one event loop, in a ``with`` block."""

    def __init__(self, notifications: "Notifications", run_id: str) -> None:
        self.run_id = run_id
        self.loop: asyncio.AbstractEventLoop | None = None
        self._notifications = notifications
        self._woken = asyncio.Event()
        self._received: list[tuple[int, str]] = []
        self._last = -1
        self._is_local = False

    def __enter__(self) -> Self:
        self.loop = asyncio.get_running_loop()
        self._notifications.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._notifications.remove(self)

    def receive(self, rows: NumberedRows) -> None:
        """Receive rows of a commit; an empty tuple means that another process may have written some."""
        self._received = [*self._received, *rows] if len(self._received) < _MOST else []
        self._woken.set()

    async def next(self, after: int) -> NumberedRows:
        """Wait for the rows after a number; an empty tuple means: read the store."""
        if after > self._last:
            self._is_local = False  # another process writes the rows of this run
        try:
            async with asyncio.timeout(LONGEST if self._is_local else self._notifications.patience):
                await self._woken.wait()
        except TimeoutError:
            return ()
        self._woken.clear()
        received, self._received = self._received, []
        new = tuple(sorted({number: text for number, text in received if number > after}.items()))
        if not new or new[0][0] != after + 1 or new[-1][0] != after + len(new):
            return ()
        self._last, self._is_local = new[-1][0], True
        return new


class Notifications:
    """The notifications of one database."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._subscriptions: dict[str, set[Subscription]] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_silent = False

    @property
    def patience(self) -> float:
        """Seconds to wait for a notification before the store is read."""
        return POLL if self._is_silent else LONGEST

    def subscribe(self, run_id: str) -> Subscription:
        """A subscription to a run, to be used in a ``with`` block."""
        return Subscription(self, run_id)

    def add(self, subscription: Subscription) -> None:
        """Register a subscription."""
        with self._lock:
            self._subscriptions.setdefault(subscription.run_id, set()).add(subscription)
            if self._thread is None and not self._is_silent:
                self._thread = threading.Thread(
                    target=self._listen, name="multi_llm_chat notifications", daemon=True
                )
                self._thread.start()

    def remove(self, subscription: Subscription) -> None:
        """Unregister a subscription."""
        with self._lock:
            others = self._subscriptions.get(subscription.run_id, set())
            others.discard(subscription)
            if not others:
                self._subscriptions.pop(subscription.run_id, None)

    def notify(self, written: Mapping[str, NumberedRows]) -> None:
        """Wake the followers of these runs, with the rows if they are known; any thread may call it."""
        waking: dict[asyncio.AbstractEventLoop, list[tuple[Subscription, NumberedRows]]]
        waking = defaultdict(list)
        with self._lock:
            for run_id, rows in written.items():
                for subscription in self._subscriptions.get(run_id, ()):
                    assert subscription.loop is not None
                    waking[subscription.loop].append((subscription, rows))
        for loop, received in waking.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(_deliver, received)

    def _listen(self) -> None:
        try:
            listening = self._store.listen(CHANNEL)
            self._is_silent = listening is None
        except ConnectionError:
            listening = None
        idle = 0
        while listening is not None:
            listening, idle = self._pass_on(listening, idle)
        with self._lock:
            self._thread = None

    def _pass_on(
        self, listening: NotificationListener, idle: int
    ) -> tuple[NotificationListener | None, int]:
        """Pass on one notification; None when the connection is lost, or was idle without followers for too long."""
        try:
            changed = listening.wait(LONGEST)
        except ConnectionError:
            listening.close()
            return None, 0
        self.notify(dict.fromkeys(changed, ()))
        with self._lock:
            idle = 0 if self._subscriptions else idle + 1
        if idle > _IDLE_WAITS:
            listening.close()
            return None, 0
        return listening, idle


def _deliver(received: Iterable[tuple[Subscription, NumberedRows]]) -> None:
    for subscription, rows in received:
        subscription.receive(rows)
