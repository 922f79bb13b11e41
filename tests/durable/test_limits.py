"""What may be asked of a provider holds for answers that somebody is looking at, too."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.durable.acting import Scene, provider
from tests.durable.disks import files_no_larger_than
from tests.durable.working import stay_within
from tests.service.talking import Read, read_async, read_plainly

from multi_llm_chat.client.agent_events import Delayed
from multi_llm_chat.config.values import RateSettings, Settings
from multi_llm_chat.durable.limiting import Gate
from multi_llm_chat.events import Usage
from multi_llm_chat.loop.effects import CallModel
from multi_llm_chat.request import Options
from multi_llm_chat.service.chat import ChatService
from multi_llm_chat.service.events import AnswerEvent, AnswerFailed, AnswerFinished, ChatEvent
from multi_llm_chat.store import Store, open_store
from multi_llm_chat.store.rates import RateLimit, admit, close_rate
from multi_llm_chat.testing.simulator import Say, Simulator, Status, always

#: A request each 100 ms, five at once.
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


def delays(events: list[ChatEvent]) -> list[Delayed]:
    told = [each.event for each in events if isinstance(each, AnswerEvent)]
    return [event for event in told if isinstance(event, Delayed)]


def stop_plainly(service: ChatService) -> list[ChatEvent]:
    """Ask, and stop the answer when it tells that it waits."""
    told: list[ChatEvent] = []
    for event in service.process_message("Hello?"):
        told.append(event)
        if delays([event]):
            service.stop()
    return told


async def _stop(service: ChatService) -> list[ChatEvent]:
    told: list[ChatEvent] = []
    async for event in service.process_message("Hello?"):
        told.append(event)
        if delays([event]):
            service.stop()
    return told


def stop_async(service: ChatService) -> list[ChatEvent]:
    return asyncio.run(_stop(service))


@pytest.mark.parametrize("stop", [stop_plainly, stop_async], ids=["plain", "async"])
def test_an_answer_that_waits_for_its_turn_tells_so_and_can_be_stopped(
    store: Store, stop: Callable[[ChatService], list[ChatEvent]]
):
    with Simulator(always(Say("Hello."))) as server:
        key = account(server)
        store.run(admit, key, RateLimit(600), 1)
        store.run(close_rate, key, LONG_MS)
        with service_of(server, store) as service:
            told = stop(service)
        assert len(server.requests) == 0
    (delayed,) = delays(told)
    assert delayed.provider == "openai-chat"
    assert LONG_MS / 2000 < delayed.seconds <= LONG_MS / 1000 + 1
    assert f"{delayed.seconds:.0f} s" in delayed.text
    assert isinstance(told[-2], AnswerFinished)
    assert told[-2].stop_reason == "cancelled"


def test_a_provider_that_wants_everybody_to_wait_is_left_alone_by_the_next_answer(store: Store):
    later = Status(429, headers={"retry-after": str(LONG_MS // 1000)})
    with Simulator([later, Say("x")]) as server:
        with service_of(server, store) as first:
            assert any(isinstance(each, AnswerFailed) for each in first.process_message("Hello?"))
        with service_of(server, store) as second:
            (delayed,) = delays(stop_plainly(second))
        assert delayed.seconds > LONG_MS / 2000
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


def test_an_answer_goes_on_where_nothing_can_be_counted_and_a_worker_waits(store: Store):
    question = CallModel((), offer_tools=False, options=Options(), iteration=0)
    limits = {"openai-chat": RateLimit(600)}
    with provider(Scene("", "http://127.0.0.1:1", "")) as speaker:
        live = Gate(store, speaker, limits).admit
        working = Gate(store, speaker, limits, patience=3.0).admit
        assert live is not None
        assert working is not None
        with files_no_larger_than(1024):
            assert live(question).result() == 0.0
            assert working(question).result() == 3.0
        assert Gate(store, speaker, {}).admit is None
