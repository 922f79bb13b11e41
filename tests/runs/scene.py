"""A conversation with two rounds of three tools, in processes that may die; and what must hold afterwards.

Tools write into a ledger whenever they run, so that every repeated call is visible.
"""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from msgspec import Struct
from tests.runs.killing_store import Kill, open_killing
from tests.store.processes import PRELOADED, context

from multi_llm_chat.agent.providers import LLMProvider, create_provider
from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.chat.planner import Planner
from multi_llm_chat.chat.run_resolver import RunResolver
from multi_llm_chat.chat.speakers import given_speakers
from multi_llm_chat.config.settings import RateSettings, Settings
from multi_llm_chat.events import Event, RunFailed, RunFinished, RunResumed, TextDelta, TurnFinished
from multi_llm_chat.history.values import Text, ToolResult, Turn
from multi_llm_chat.protocol.retry import RetryPolicy
from multi_llm_chat.runs._replay import UNKNOWN
from multi_llm_chat.runs.follow import follow
from multi_llm_chat.runs.leases import LEASE, RunHost
from multi_llm_chat.runs.recovery import resume_runs
from multi_llm_chat.store import RecordedCall, RunInfo, Store, calls, list_runs, open_store, path
from multi_llm_chat.store.records import RunStatus
from multi_llm_chat.testing.simulator import Call as Asked
from multi_llm_chat.testing.simulator import Say, Simulator, Slow
from multi_llm_chat.testing.simulator.request_log import RecordedRequest
from multi_llm_chat.tools import ToolContext, ToolRegistry

CONVERSATION = "talk"

PRELOADED.extend(
    [
        "multi_llm_chat.http.async_transport",
        "multi_llm_chat.http.sync_transport",
        "multi_llm_chat.chat.run_resolver",
        "multi_llm_chat.runs.dbos_queue",
        "multi_llm_chat.testing.simulator",
        "genai_prices.data",
        "genai_prices.validation",
        "jsonschema_rs",
        "pytest",
        "tests.runs.worker_processes",
        "tests.runs.single_runs",
        "tests.runs.refused",
    ]
)
NAMES = ("look", "send", "sign")
#: The minimum number of the run's transactions: three for an answer, and five for each of its two rounds of three tools.
#: Streamed events may add some.
TRANSACTIONS = 3 + 2 * 5
WORDS = ("Let me look at all three. ", "Now I have to look again. ", "Everything is in order now.")


class Scene(Struct, frozen=True):
    """The addresses and files of a conversation; it is passed to other processes."""

    place: str
    url: str
    ledger: str
    tool_seconds: float = 0.0
    lease: float = LEASE
    drain: float = 5.0
    concurrency: int = 50


def rounds(request: RecordedRequest, delay: float = 0.0) -> Say:
    """Reply with two rounds of three tools, then the answer, according to the request's history alone."""
    results = [each for each in request.body["messages"] if each["role"] == "tool"]
    done = len(results) // len(NAMES)
    faults = (Slow(delay),) if delay else ()
    if done >= 2:
        return Say(WORDS[2], delta_size=4, faults=faults)
    asked = [Asked(name, {"number": done}, id=f"{name}-{done}") for name in NAMES]
    return Say(WORDS[done], calls=asked, delta_size=4, faults=faults)


@contextmanager
def simulator(rule: Callable[[RecordedRequest], Any] = rounds) -> Generator[Simulator]:
    with Simulator(rule) as server:
        yield server


def registry(ledger: str, seconds: float) -> ToolRegistry:
    tools = ToolRegistry()

    def act(name: str) -> Callable[..., Any]:
        async def tool(number: int, context: ToolContext) -> str:
            _note(ledger, f"{name} {context.idempotency_key}")
            if seconds:
                await asyncio.sleep(seconds)
            return f"{name} has done {number}"

        return tool

    tools.tool(name="look", resume="retry")(act("look"))
    tools.tool(name="send", resume="never")(act("send"))
    tools.tool(name="sign")(act("sign"))
    return tools


def _note(ledger: str, line: str) -> None:
    descriptor = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def executions(scene: Scene) -> Counter[str]:
    """Return how often each call was run, by its idempotency key."""
    file = Path(scene.ledger)
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return Counter(line.split(" ", 1)[1] for line in lines)


def provider(scene: Scene, **settings: Any) -> LLMProvider:
    return create_provider(
        "openai-chat", api_key="key", base_url=scene.url, speaker="robot",
        retry=RetryPolicy(attempts=1), **settings,
    )  # fmt: skip


def resolver(
    scene: Scene, speaker: LLMProvider, rates: Mapping[str, RateSettings] | None = None
) -> RunResolver:
    tools = registry(scene.ledger, scene.tool_seconds)
    settings = Settings(rates=dict(rates or {}))
    return RunResolver(Planner(settings, given_speakers({"robot": speaker}), tools))


async def say(scene: Scene, store: Store) -> None:
    """Send the question, and read the events to the end."""
    tools = registry(scene.ledger, scene.tool_seconds)
    host = RunHost(store, lease=scene.lease)
    service = ChatService([provider(scene)], store=store, tools=tools, host=host)
    service.conversation = CONVERSATION
    async with service:
        async for _ in service.process_message("Is everything in order?"):
            pass


async def resume(
    scene: Scene, store: Store, host: RunHost | None = None
) -> dict[str, RunStatus | None]:
    """Resume the interrupted runs."""
    async with provider(scene) as speaker:
        return await resume_runs(host or RunHost(store), resolver(scene, speaker))


def say_in_process(scene: Scene, kill: Kill | None) -> None:
    """Send the question; the first process, which is killed, runs this."""
    with open_killing(scene.place, kill) as store:
        asyncio.run(say(scene, store))


def resume_in_process(scene: Scene, kill: Kill | None) -> None:
    """Resume the interrupted runs; the later processes run this."""
    with open_killing(scene.place, kill) as store:
        asyncio.run(resume(scene, store))


def run_process(target: Callable[..., None], *arguments: Any) -> int:
    """Run a function in a process; return its exit code, below zero if it was killed."""
    process = context().Process(target=target, args=arguments)
    process.start()
    return ended(process)


def ended(process: BaseProcess) -> int:
    """Wait for the end of a process; return its exit code, below zero if it was killed."""
    process.join()
    code = process.exitcode
    process.close()
    assert code is not None
    return code


class Snapshot(Struct, frozen=True):
    """The journal's finished calls at one moment, and how often each call had been run."""

    done: frozenset[str]
    executed: Counter[str]


def snapshot(scene: Scene) -> Snapshot:
    with open_store(scene.place) as store:
        done = [
            call.idempotency_key or ""
            for info in store.run(list_runs, None)
            for call in store.run(calls, info.id)
            if call.state in {"done", "unknown"} and call.kind == "tool"
        ]
    return Snapshot(frozenset(done), executions(scene))


def finish(scene: Scene) -> RunInfo:
    """Resume until the run is over, if it had begun at all; return the run."""
    with open_store(scene.place) as store:
        asyncio.run(resume(scene, store))
        if not store.run(list_runs, None):
            # It was killed before the question was saved: nothing was lost that was reported as saved.
            asyncio.run(say(scene, store))
        (info,) = store.run(list_runs, None)
        return info


async def stream_of(store: Store, run_id: str) -> list[Event]:
    """Return the events of a run, from its first to its last."""
    return [event async for _, event in follow(RunHost(store), run_id)]


def words_by_turn(events: Iterable[Event]) -> dict[str, str]:
    """Return the text of each turn, by its id, as a follower receives it."""
    words: dict[str, str] = {}
    said: list[str] = []
    for event in events:
        match event:
            case TextDelta():
                said.append(event.text)
            case RunResumed():
                said = []
            case TurnFinished():
                words[event.turn.id or ""] = "".join(said)
                said = []
            case _:
                pass
    return words


def check(scene: Scene, before: Snapshot) -> RunInfo:
    """Check everything that must hold, whatever happened; return the run."""
    info = finish(scene)
    after = executions(scene)
    assert info.status == "done", info
    with open_store(scene.place) as store:
        turns = store.run(path, CONVERSATION)
        journal = store.run(calls, info.id)
        events = asyncio.run(stream_of(store, info.id))
    assert [turn.role for turn in turns] == ["user", "robot", "tool", "robot", "tool", "robot"]
    assert [text_of(turn) for turn in turns if turn.role == "robot"] == list(WORDS)
    for key in before.done:
        assert after[key] == before.executed[key], "a recorded call was run again"
    _check_tools(turns, journal, after)
    streamed = words_by_turn(events)
    assert {key: words for key, words in streamed.items() if not key.endswith(".tools")} == {
        turn.id: text_of(turn) for turn in turns if turn.role == "robot"
    }
    assert [isinstance(event, RunFinished | RunFailed) for event in events] == [False] * (
        len(events) - 1
    ) + [True], events
    marks = [event for event in events if isinstance(event, RunResumed)]
    assert len(marks) <= info.epoch - 1
    return info


def _check_tools(turns: list[Turn], journal: tuple[RecordedCall, ...], ran: Counter[str]) -> None:
    results = [part for turn in turns for part in turn.parts if isinstance(part, ToolResult)]
    kept = [call for call in journal if call.kind == "tool"]
    assert [call.name for call in kept] == [*NAMES, *NAMES]
    assert all(call.state == "done" for call in journal if call.kind == "model")
    for result, call in zip(results, kept, strict=True):
        key = call.idempotency_key or ""
        assert ran[key] <= call.attempts, "a repeated call is not marked"
        if call.name == "look":
            assert ran[key] >= 1
        else:
            assert ran[key] <= 1, "a tool was run twice that must not be"
        is_unknown = result.content == UNKNOWN
        assert is_unknown == (call.state == "unknown")
        assert is_unknown or ran[key] >= 1
        assert is_unknown or json.dumps(result.content).startswith(f'"{call.name} has done')


def text_of(turn: Turn) -> str:
    return "".join(part.content for part in turn.parts if isinstance(part, Text))
