"""Whatever a model does and whenever the user stops it: the run ends cleanly, and both drivers agree.

The models are scripted and answer over real HTTP; the tools are real functions.
"""

import asyncio
import re
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace
from tests.http.test_parity import placeless as without_keys

from multi_llm_chat import render
from multi_llm_chat.agent.limits import LoopLimits
from multi_llm_chat.agent.providers import LLMProvider, create_provider
from multi_llm_chat.events import (
    Finish,
    RunFailed,
    RunFinished,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from multi_llm_chat.history.values import Part, Thinking, ToolCall, ToolResult, Turn
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.protocol.retry import ONCE
from multi_llm_chat.runs.agent_run import AgenticLoopResult, AgentRun, SyncAgentRun
from multi_llm_chat.testing import validate
from multi_llm_chat.testing.simulator import (
    Call,
    Disconnect,
    ErrorInStream,
    Garbage,
    Reply,
    Say,
    Simulator,
    Status,
)
from multi_llm_chat.tools import ToolRegistry

PROVIDERS = ["openai", "openai-chat", "anthropic", "gemini"]
ASKED = [{"role": "user", "content": "Do it."}]


def _registry() -> ToolRegistry:
    tools = ToolRegistry()

    @tools.tool
    async def soon(word: str, turns: int = 0) -> str:
        """Answer after some turns of the event loop."""
        for _ in range(turns):
            await asyncio.sleep(0)
        return f"{word}!"

    @tools.tool
    def in_a_thread(word: str) -> dict[str, str]:
        return {"word": word}

    @tools.tool
    def raises() -> str:
        raise RuntimeError("no luck")

    @tools.tool
    async def cancels() -> str:
        raise asyncio.CancelledError

    @tools.tool
    def switched_off() -> str:
        return "never"

    @tools.tool(approval="ask")
    def denied() -> str:
        return "never"

    tools.disable("switched_off")
    return tools


TOOLS = _registry()
WORDS = st.sampled_from(["one", "two", "три", ""])


def _soon(word: str, turns: int) -> Call:
    return Call("soon", {"word": word, "turns": turns})


def _in_a_thread(word: str) -> Call:
    return Call("in_a_thread", {"word": word})


CALLS = st.one_of(
    st.builds(_soon, WORDS, st.integers(0, 3)),
    st.builds(_in_a_thread, WORDS),
    st.sampled_from([
        Call("soon", {"word": "same"}, "call_1"),
        Call("raises"),
        Call("cancels"),
        Call("switched_off"),
        Call("denied"),
        Call("unknown", {"x": 1}),
        Call("soon", {"word": 7}),
        Call("soon", '{"word": "ha'),
        Call("soon", "[]"),
    ]),
)  # fmt: skip
ROUNDS = st.builds(
    Say,
    text=st.sampled_from(["", "Let me look."]),
    thinking=st.sampled_from(["", "Hm.", "Rome, or Oslo?"]),
    calls=st.lists(CALLS, min_size=1, max_size=4),
    delta_size=st.sampled_from([4, 50]),
)
LAST: st.SearchStrategy[Reply] = st.sampled_from([
    Say("That is all."),
    Say("That is all.", thinking="Done."),
    Say("That is", finish="length"),
    Say("No.", finish="refusal"),
    Say(""),
    Say("It breaks here", faults=[Disconnect(after_frames=3)]),
    Say("It breaks here", delta_size=2, faults=[ErrorInStream(after_frames=4)]),
    Status(400),
    Status(503),
    Garbage(),
])  # fmt: skip


class Case(Struct, frozen=True):
    """A model's script, and the limits of the run."""

    provider: str
    replies: tuple[Reply, ...]
    iterations: int
    cancel_at: int | None


def _script(rounds: list[Say], last: Reply) -> tuple[Reply, ...]:
    return (*rounds, last)


CASES = st.builds(
    Case,
    st.sampled_from(PROVIDERS),
    st.builds(_script, st.lists(ROUNDS, max_size=3), LAST),
    st.integers(1, 4),
    st.none() | st.integers(0, 25),
)


class Outcome(Struct):
    """The events that a driver emitted, and how it ended."""

    events: list[Any]
    finished: list[tuple[ToolCall, ToolResult]]
    result: AgenticLoopResult


@contextmanager
def playing(case: Case) -> Generator[LLMProvider]:
    """Start the model for one run, so that the same script gives the same ids."""
    replies = deque(case.replies)
    with Simulator(lambda request: replies.popleft() if replies else Say("Nothing more.")) as model:
        url = model.base_url(case.provider)
        with create_provider(case.provider, api_key="k", base_url=url, retry=ONCE) as provider:
            yield provider
    for request in model.requests:
        assert request.violations == ()
    assert len(model.requests) <= case.iterations + 1


class Listener:
    """Receives events and decides when to cancel: after an event whose position does not depend on time."""

    def __init__(self, case: Case, *, count_finished: bool = False) -> None:
        self._case = case
        self._count_finished = count_finished
        self._seen = 0
        self.events: list[Any] = []
        self.finished: list[tuple[ToolCall, ToolResult]] = []

    def take(self, event: Any) -> bool:
        """Record the event; return whether to cancel now."""
        is_finished = isinstance(event, ToolFinished)
        if isinstance(event, RunFinished | RunFailed):
            # Without its duration; the token count of a stopped reply depends on how much of it had arrived.
            is_stopped = isinstance(event, RunFinished) and event.stop_reason == "cancelled"
            event = (type(event), None if is_stopped else event.usage)
        if is_finished:
            self.finished.append((event.call, event.result))
        elif isinstance(event, TurnFinished):
            self.events.extend(_placeless([event.turn]))
        else:
            self.events.append(event)
        if is_finished is not self._count_finished:
            return False
        self._seen += 1
        return self._seen - 1 == self._case.cancel_at

    def outcome(self, result: AgenticLoopResult) -> Outcome:
        self.finished.sort(key=lambda pair: pair[0].tool_call_id)
        return Outcome(self.events, self.finished, result)


def run_sync(
    case: Case, kind: type[Listener] = Listener, tools: ToolRegistry = TOOLS, **listening: Any
) -> Outcome:
    listener = kind(case, **listening)
    with playing(case) as provider:
        run = SyncAgentRun(provider, ASKED, tools, limits=LoopLimits(iterations=case.iterations))
        for event in run:
            if listener.take(event):
                run.cancel()
    return listener.outcome(run.result)


def run_async(
    case: Case, kind: type[Listener] = Listener, tools: ToolRegistry = TOOLS, **listening: Any
) -> Outcome:
    listener = kind(case, **listening)

    async def listen(provider: LLMProvider) -> AgenticLoopResult:
        async with provider:
            run = AgentRun(provider, ASKED, tools, limits=LoopLimits(iterations=case.iterations))
            async for event in run:
                if listener.take(event):
                    run.cancel()
            return run.result

    with playing(case) as provider:
        return listener.outcome(asyncio.run(listen(provider)))


def assert_every_call_has_one_result(turns: Iterable[Turn]) -> None:
    waiting: list[str] = []
    for turn in turns:
        if waiting:
            assert turn.role == "tool"
            assert waiting == [
                part.tool_call_id for part in turn.parts if isinstance(part, ToolResult)
            ]
        else:
            assert turn.role != "tool"
        waiting = [part.tool_call_id for part in turn.parts if isinstance(part, ToolCall)]
    assert waiting == []


def assert_any_provider_can_go_on(turns: tuple[Turn, ...]) -> None:
    history = [*ASKED, *turns, {"role": "user", "content": "Go on."}]
    for name in ROWS:
        rendered = render(history, name, tools=TOOLS.definitions())
        assert validate(name, rendered.body, model=rendered.model) == []


@given(case=CASES)
def test_a_run_ends_cleanly_and_both_drivers_agree(case: Case):
    one, other = run_sync(case), run_async(case)
    assert _bare(one.events) == _bare(other.events)
    assert _bare(one.finished) == _bare(other.finished)
    assert _bare(one.result.history_delta) == _bare(other.result.history_delta)
    assert _bare(_outcome_of(one.result)) == _bare(_outcome_of(other.result))
    assert one.result.iterations_used <= case.iterations
    assert_every_call_has_one_result(one.result.history_delta)
    assert_any_provider_can_go_on(one.result.history_delta)


def _bare(value: Any) -> Any:
    return without_keys(value, ("origin", "extras", "opaque"))


def _placeless(turns: Sequence[Turn]) -> list[Turn]:
    """Return the turns without the server's address, which differs for each run."""

    def placeless(part: Part) -> Part:
        if not isinstance(part, Thinking):
            return part
        return replace(part, origin=replace(part.origin, endpoint=""))

    return [replace(turn, parts=tuple(map(placeless, turn.parts))) for turn in turns]


def _outcome_of(result: AgenticLoopResult) -> Any:
    texts = [chunk for chunk in result.chunks if chunk["type"] != "tool_result"]
    return (
        texts,
        result.final_text,
        result.iterations_used,
        result.timed_out,
        type(result.error),
        re.sub(r"127\.0\.0\.1:\d+", "", str(result.error)),
        result.stop_reason,
        None if result.stop_reason == "cancelled" else result.usage,
    )


@pytest.mark.parametrize("run", [run_sync, run_async])
@given(case=CASES)
def test_a_cancel_between_results_keeps_those_that_are_there(run: Any, case: Case):
    outcome = run(case, count_finished=True)
    delta = outcome.result.history_delta
    assert_every_call_has_one_result(delta)
    assert_any_provider_can_go_on(delta)
    results = [part for turn in delta for part in turn.parts if isinstance(part, ToolResult)]
    for _, result in outcome.finished:
        # A repeated result has a remark to the model at its end.
        assert any(
            part.tool_call_id == result.tool_call_id
            and str(part.content).startswith(str(result.content))
            for part in results
        )


class OnFinish(Listener):
    """Cancels after the last event of the model's first reply."""

    def take(self, event: Any) -> bool:
        super().take(event)
        return isinstance(event, Finish)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("run", [run_sync, run_async])
def test_a_reply_that_is_complete_is_kept_whole_when_the_cancel_comes_behind_it(
    run: Any, provider: str
):
    looks = Say("Look:", thinking="Hm.", calls=[Call("soon", {"word": "one"})])
    outcome = run(Case(provider, (looks,), 4, None), kind=OnFinish)
    said, answered = outcome.result.history_delta
    assert [part.name for part in said.parts if isinstance(part, ToolCall)] == ["soon"]
    assert ["cancelled" in str(part.content) for part in answered.parts] == [True]
    assert outcome.result.stop_reason == "cancelled"
    outcome = run(Case(provider, (Say("That is all."),), 4, None), kind=OnFinish)
    assert outcome.result.final_text == "That is all."
    assert outcome.result.stop_reason == "answered"
    assert outcome.result.history_delta[0].model


class OnStart(Listener):
    """Cancels when the first tool is about to run."""

    def take(self, event: Any) -> bool:
        super().take(event)
        return isinstance(event, ToolStarted)


@pytest.mark.parametrize("run", [run_sync, run_async])
def test_no_tool_runs_after_a_cancel(run: Any):
    ran: list[int] = []
    tools = ToolRegistry()

    @tools.tool
    def counts(number: int) -> int:
        ran.append(number)
        return number

    calls = [Call("counts", {"number": number}) for number in range(3)]
    outcome = run(Case("anthropic", (Say(calls=calls),), 4, None), kind=OnStart, tools=tools)
    assert outcome.result.stop_reason == "cancelled"
    assert_every_call_has_one_result(outcome.result.history_delta)
    assert ran == []
