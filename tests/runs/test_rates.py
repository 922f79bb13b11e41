"""Rate limits also apply to answers that a user is watching."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.chat.stage import Read, read_async, read_plainly
from tests.runs.disks import files_no_larger_than
from tests.runs.scene import Scene, provider
from tests.runs.worker_processes import stay_within

from multi_llm_chat.agent.effects import CallModel
from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.config.settings import RateSettings, Settings
from multi_llm_chat.events import Event, RunFailed, RunFinished, RunWaiting, Usage
from multi_llm_chat.request import Options
from multi_llm_chat.runs.rates import rate_gate
from multi_llm_chat.store import Store, open_store
from multi_llm_chat.store.rates import RateLimit, admit, close_rate
from multi_llm_chat.testing.simulator import Say, Simulator, Status, always

#: A request every 100 ms, bursts of five.
RATE = RateSettings(requests=600, burst=0.5)
#: Longer than any test waits, in milliseconds.
LONG_MS = 600_000


@pytest.fixture(params=[read_plainly, read_async], ids=["plain", "async"])
def read(request: pytest.FixtureRequest) -> Read:
    return request.param


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "c.db") as opened:
        yield opened


def service_of(server: Simulator, store: Store) -> ChatService:
    scene = Scene("", server.base_url("openai-chat"), "")
    return ChatService([provider(scene)], store=store, settings=Settings(rates={"openai-chat": RATE}))  # fmt: skip


def account(server: Simulator) -> str:
    with provider(Scene("", server.base_url("openai-chat"), "")) as speaker:
        return speaker.account


def delays(events: list[Event]) -> list[RunWaiting]:
    return [event for event in events if isinstance(event, RunWaiting) and event.reason == "rate"]


def stop_plainly(service: ChatService) -> list[Event]:
    """Send a message, and stop the answer when an event says that it waits."""
    events: list[Event] = []
    for event in service.process_message("Hello?"):
        events.append(event)
        if delays([event]):
            service.stop()
    return events


async def _stop(service: ChatService) -> list[Event]:
    events: list[Event] = []
    async for event in service.process_message("Hello?"):
        events.append(event)
        if delays([event]):
            service.stop()
    return events


def stop_async(service: ChatService) -> list[Event]:
    return asyncio.run(_stop(service))


@pytest.mark.parametrize("stop", [stop_plainly, stop_async], ids=["plain", "async"])
def test_an_answer_that_waits_for_its_turn_says_so_and_can_be_stopped(
    store: Store, stop: Callable[[ChatService], list[Event]]
):
    with Simulator(always(Say("Hello."))) as server:
        key = account(server)
        store.run(admit, key, RateLimit(600), 1)
        store.run(close_rate, key, LONG_MS)
        with service_of(server, store) as service:
            events = stop(service)
        assert len(server.requests) == 0
    (delayed,) = delays(events)
    assert "the limit of openai-chat is used up" in delayed.text
    assert LONG_MS / 2000 < (delayed.until or 0) - time.time() <= LONG_MS / 1000 + 1
    assert isinstance(events[-2], RunFinished)
    assert events[-2].stop_reason == "cancelled"


def test_a_provider_that_wants_everybody_to_wait_is_left_alone_by_the_next_answer(store: Store):
    later = Status(429, headers={"retry-after": str(LONG_MS // 1000)})
    with Simulator([later, Say("x")]) as server:
        with service_of(server, store) as first:
            assert any(isinstance(each, RunFailed) for each in first.process_message("Hello?"))
        with service_of(server, store) as second:
            (delayed,) = delays(stop_plainly(second))
        assert (delayed.until or 0) - time.time() > LONG_MS / 2000
        assert len(server.requests) == 1


def test_tokens_are_set_right_when_the_provider_has_counted_them(store: Store, read: Read):
    with Simulator(always(Say("Hello.", usage=Usage(1_000, 4_000)))) as server:
        with service_of(server, store) as service:
            read(service.process_message("Hello?"))
        key = account(server)
        ((tokens,),) = store.run(lambda transaction: transaction.rows("SELECT tokens FROM rates WHERE key = ?", key))  # fmt: skip
    assert tokens == RateLimit().most_tokens - 5_000


def test_several_answers_on_one_key_stay_within_its_limit(store: Store):
    asked: list[float] = []

    def noted(_request: object) -> Say:
        asked.append(time.monotonic())
        return Say("Hello.")

    def ask(server: Simulator) -> None:
        with service_of(server, store) as service:
            list(service.process_message("Hello?"))

    with Simulator(noted) as server:
        threads = [threading.Thread(target=ask, args=(server,)) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(asked) == len(threads)
    stay_within(asked, RATE)


def test_an_answer_continues_if_nothing_can_be_counted_and_a_worker_waits(store: Store):
    question = CallModel((), offer_tools=False, options=Options(), iteration=0)
    limits = {"openai-chat": RateLimit(600)}
    with provider(Scene("", "http://127.0.0.1:1", "")) as speaker:
        live = rate_gate(store, speaker, limits)
        working = rate_gate(store, speaker, limits, patience=3.0)
        assert live is not None
        assert working is not None
        with files_no_larger_than(1024):
            assert asyncio.run(live.admit(question)) == 0.0
            assert asyncio.run(working.admit(question)) == 3.0
        assert rate_gate(store, speaker, {}) is None
