"""Runs that are created without a service, and driven directly."""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.runs.killing_store import Kill
from tests.runs.scene import CONVERSATION, Scene, registry, run_process, say_in_process

from multi_llm_chat.agent.providers import create_provider
from multi_llm_chat.chat.planner import Planner
from multi_llm_chat.chat.run_resolver import RunResolver
from multi_llm_chat.chat.speakers import given_speakers
from multi_llm_chat.config.settings import RateSettings, Settings
from multi_llm_chat.events import Event, RunWaiting
from multi_llm_chat.history.values import Text, ToolResult, Turn
from multi_llm_chat.protocol.retry import RetryPolicy
from multi_llm_chat.runs.leases import RunHost
from multi_llm_chat.runs.recovery import drive_run
from multi_llm_chat.store import (
    RunInfo,
    Store,
    append,
    begin_run,
    create,
    list_runs,
    open_store,
    path,
)
from multi_llm_chat.tools import ToolRegistry
from multi_llm_chat.tools.tool import Resume
from multi_llm_chat.tools.tool_runner import ToolRunner


def begun(store: Store, speaker: str = "robot", **spec: Any) -> str:
    """Create a run that has no owner yet."""
    store.run(create, identifier=CONVERSATION)
    store.run(append, CONVERSATION, [Turn("user", (Text("Is everything in order?"),), id="q")])
    return store.run(begin_run, CONVERSATION, speaker, base="q", spec={"version": 1, **spec})


def killed(scene: Scene, number: int) -> RunInfo:
    """Create a run whose process was killed after its Nth transaction."""
    assert run_process(say_in_process, scene, Kill(number, "after")) == -signal.SIGKILL
    with open_store(scene.place) as store:
        return store.run(list_runs)[0]


def only(store: Store) -> RunInfo:
    (info,) = store.run(list_runs, None)
    return info


class Waits:
    """A sink that only reports when a run waits for the store."""

    in_step = False

    def __init__(self, on_trouble: Callable[[str], object]) -> None:
        self._on_trouble = on_trouble

    def put(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, RunWaiting) and event.reason == "store":
                self._on_trouble(event.text)

    async def ready(self) -> None:
        pass


async def driven(
    scene: Scene,
    store: Store,
    run_id: str,
    tools: ToolRunner | None = None,
    attempts: int = 1,
    rates: Mapping[str, RateSettings] | None = None,
    dead: str | None = None,
    on_trouble: Callable[[str], object] = lambda _text: None,
) -> Any:
    """Drive a run to its end; ``on_trouble`` gets the reasons for which it waits."""
    speaker = create_provider(
        "openai-chat", api_key="key", base_url=scene.url, speaker="robot",
        retry=RetryPolicy(attempts=attempts, first_wait=0.01),
    )  # fmt: skip
    planner = Planner(
        Settings(rates=dict(rates or {})),
        given_speakers({"robot": speaker}),
        tools or registry(scene.ledger, 0),
    )
    async with speaker:
        return await drive_run(
            RunHost(store), run_id, RunResolver(planner), dead=dead, sink=Waits(on_trouble)
        )


def results(store: Store) -> list[ToolResult]:
    """Return the tool results of the conversation."""
    turns = store.run(path, CONVERSATION)
    return [part for turn in turns for part in turn.parts if isinstance(part, ToolResult)]


def die_in_a_tool(scene: Scene, policy: Resume = "retry") -> None:
    """Resume the run, and die when its tool ``look`` is called."""
    tools = ToolRegistry()

    @tools.tool(resume=policy)
    def look(number: int) -> str:
        os.kill(os.getpid(), signal.SIGKILL)
        return str(number)

    with open_store(scene.place) as store:
        (info,) = store.run(list_runs)
        asyncio.run(driven(scene, store, info.id, tools, dead=info.owner))
