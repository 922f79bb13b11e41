"""Runs that begin without anybody to begin them, and are driven here."""

import asyncio
import os
import signal
from collections.abc import Mapping
from typing import Any

from tests.durable.acting import CONVERSATION, Scene, registry, run_process, say_in_process
from tests.durable.killing import Kill

from multi_llm_chat.client import create_provider
from multi_llm_chat.config.values import RateSettings, Settings
from multi_llm_chat.durable.driving import drive
from multi_llm_chat.durable.holding import holder_of
from multi_llm_chat.exchange.retrying import RetryPolicy
from multi_llm_chat.history.values import Text, ToolResult, Turn
from multi_llm_chat.service.planning import Planner
from multi_llm_chat.service.resuming import Reviver
from multi_llm_chat.service.speakers import given_speakers
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
from multi_llm_chat.tools.runner import ToolRunner
from multi_llm_chat.tools.values import Resume


def begun(store: Store, speaker: str = "robot", **spec: Any) -> str:
    """A run that nobody has begun to work on."""
    store.run(create, identifier=CONVERSATION)
    store.run(append, CONVERSATION, [Turn("user", (Text("Is everything in order?"),), id="q")])
    return store.run(begin_run, CONVERSATION, speaker, base="q", spec={"version": 1, **spec})


def killed(scene: Scene, number: int) -> RunInfo:
    """A run whose process was killed behind its Nth transaction."""
    assert run_process(say_in_process, scene, Kill(number, "after")) == -signal.SIGKILL
    with open_store(scene.place) as store:
        return store.run(list_runs)[0]


def only(store: Store) -> RunInfo:
    (info,) = store.run(list_runs, None)
    return info


async def driven(
    scene: Scene,
    store: Store,
    run_id: str,
    tools: ToolRunner | None = None,
    attempts: int = 1,
    rates: Mapping[str, RateSettings] | None = None,
    **settings: Any,
) -> Any:
    """Go on with a run, to its end."""
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
        return await drive(store, holder_of(store), run_id, Reviver(planner), **settings)


def results(store: Store) -> list[ToolResult]:
    """What the tools of the conversation gave."""
    turns = store.run(path, CONVERSATION)
    return [part for turn in turns for part in turn.parts if isinstance(part, ToolResult)]


def die_in_a_tool(scene: Scene, policy: Resume = "retry") -> None:
    """Go on with the run and die when its tool ``look`` is called."""
    tools = ToolRegistry()

    @tools.tool(resume=policy)
    def look(number: int) -> str:
        os.kill(os.getpid(), signal.SIGKILL)
        return str(number)

    with open_store(scene.place) as store:
        (info,) = store.run(list_runs)
        asyncio.run(driven(scene, store, info.id, tools, dead=info.owner))
