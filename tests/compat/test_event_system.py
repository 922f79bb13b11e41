"""Requests and answers as events: each request ends with its own answer and no other."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from multi_llm_chat.compat.handlers import EventSystem, NoAnswer
from multi_llm_chat.errors import UsageError

Payload = dict[str, Any]


@pytest.fixture
def events() -> EventSystem:
    return EventSystem()


def asking(events: EventSystem) -> dict[str, Callable[[Payload], Payload]]:
    """Return both ways to send a request."""
    return {
        "sync": lambda payload: events.request("ask", payload, "answer"),
        "async": lambda payload: asyncio.run(events.arequest("ask", payload, "answer")),
    }


WAYS = pytest.mark.parametrize("way", ["sync", "async"])


@WAYS
def test_a_request_is_answered_under_its_own_id(events: EventSystem, way: str):
    seen: list[Payload] = []

    def answer(asked: Payload) -> None:
        seen.append(asked)
        events.emit("answer", {"request_id": asked["request_id"], "sum": asked["a"] + 1})

    events.subscribe("ask", answer)
    answered = asking(events)[way]({"a": 1})
    assert answered == {"request_id": seen[0]["request_id"], "sum": 2}


@WAYS
def test_an_async_handler_answers_too(events: EventSystem, way: str):
    async def answer(asked: Payload) -> None:
        await asyncio.sleep(0)
        events.emit("answer", {"value": asked["a"]})

    events.subscribe("ask", answer)
    assert asking(events)[way]({"a": 7})["value"] == 7


@WAYS
def test_an_exception_in_a_handler_is_an_error_answer(events: EventSystem, way: str):
    def fail(asked: Payload) -> None:
        raise RuntimeError("no luck")

    async def fail_later(asked: Payload) -> None:
        raise RuntimeError("no luck later")

    def leave(asked: Payload) -> None:
        raise SystemExit("no more")

    async def give_up(asked: Payload) -> None:
        raise asyncio.CancelledError("given up")

    handlers: dict[str, Any] = {
        "no luck": fail,
        "no luck later": fail_later,
        "no more": leave,
        "given up": give_up,
    }
    for text, handler in handlers.items():
        stop = events.subscribe("ask", handler)
        answered = asking(events)[way]({})
        assert answered["success"] is False
        assert text in answered["error"]
        stop()


@WAYS
def test_without_a_handler_the_answer_is_an_error_at_once(events: EventSystem, way: str):
    answered = asking(events)[way]({})
    assert answered["success"] is False
    assert "ask" in answered["error"]


def test_a_late_answer_is_discarded_and_never_reaches_a_later_request(events: EventSystem):
    release, emitted = threading.Event(), threading.Event()
    seen: list[Payload] = []
    abandoned: list[Payload] = []

    def answer(asked: Payload) -> None:
        if asked["name"] == "slow":
            release.wait()
            events.emit("answer", {"request_id": asked["request_id"], "name": "slow"})
            emitted.set()
        else:
            release.set()  # the late answer arrives while the later request waits
            emitted.wait()
            events.emit("answer", {"request_id": asked["request_id"], "name": "quick"})

    events.subscribe("ask", answer)
    events.subscribe("answer", seen.append)
    events.subscribe("request_abandoned", abandoned.append)
    with pytest.raises(NoAnswer, match=r"'ask' within 0\.01 seconds"):
        events.request("ask", {"name": "slow"}, "answer", timeout=0.01)
    assert [event["name"] for event in abandoned] == ["ask"]
    assert events.request("ask", {"name": "quick"}, "answer")["name"] == "quick"
    assert [event["name"] for event in seen] == ["quick"]


def test_a_second_answer_is_discarded(events: EventSystem):
    seen: list[Payload] = []
    done = threading.Event()

    def answer(asked: Payload) -> None:
        events.emit("answer", {"number": 1})
        events.emit("answer", {"number": 2})
        done.set()

    events.subscribe("answer", seen.append)
    events.subscribe("ask", answer)
    assert events.request("ask", {}, "answer")["number"] == 1
    done.wait()
    assert [event["number"] for event in seen] == [1]


def test_an_answer_under_another_name_is_none(events: EventSystem):
    def answer(asked: Payload) -> None:
        events.emit("tool_execution_response", {"request_id": asked["request_id"], "wrong": True})
        events.emit("answer", {"right": True})

    events.subscribe("ask", answer)
    assert events.request("ask", {}, "answer")["right"]


def test_many_requests_at_once_get_their_own_answers_in_any_order(events: EventSystem):
    waiting: list[Payload] = []
    everybody = threading.Barrier(20)

    def answer(asked: Payload) -> None:
        waiting.append(asked)
        if everybody.wait() == 0:
            for other in reversed(waiting):
                answer = {"request_id": other["request_id"], "number": other["number"]}
                events.emit("answer", answer)

    events.subscribe("ask", answer)

    def ask(number: int) -> int:
        return events.request("ask", {"number": number}, "answer")["number"]

    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(ask, range(20))) == list(range(20))


def test_a_cancelled_request_is_abandoned(events: EventSystem):
    abandoned = threading.Event()
    events.subscribe("ask", lambda asked: None)
    events.subscribe("request_abandoned", lambda _event: abandoned.set())

    async def run() -> None:
        task = asyncio.create_task(events.arequest("ask", {}, "answer"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert abandoned.is_set()


def test_a_failing_listener_stops_no_other(events: EventSystem):
    seen: list[Payload] = []

    def fail(event: Payload) -> None:
        event["changed"] = True
        raise RuntimeError("no luck")

    events.subscribe("tool_start", fail)
    stop = events.subscribe("tool_start", seen.append)
    events.emit("tool_start", {"tool_name": "look"})
    assert seen == [{"tool_name": "look"}]
    stop()
    events.emit("tool_start")
    assert len(seen) == 1


def test_ids_are_the_systems_own(events: EventSystem):
    with pytest.raises(UsageError, match="request_id"):
        events.request("ask", {"request_id": "mine"}, "answer")
    with pytest.raises(UsageError, match="answer_name"):
        events.request("ask")
