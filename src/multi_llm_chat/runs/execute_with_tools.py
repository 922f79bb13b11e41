"""Run a model with tools to the end, in one call: ``execute_with_tools`` and its two variants."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any, TypedDict, Unpack

import msgspec

from multi_llm_chat.agent.limits import LoopLimits
from multi_llm_chat.agent.provider import LLMProvider
from multi_llm_chat.agent.window.run_window import Compression
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.repair import RepairPolicy
from multi_llm_chat.request import Options
from multi_llm_chat.runs.agent_run import AgenticLoopResult, AgentRun, SyncAgentRun, chunks_of
from multi_llm_chat.tools.tool_runner import ToolRunner


class RunSettings(TypedDict, total=False):
    """The further arguments of a run; see ``AgentRun``."""

    options: Options | None
    """Settings of every request."""
    conversation: str | None
    """The scope in which approvals hold and requests are cached."""
    compression: Compression | None
    """How requests are kept inside the model's context window."""
    policy: RepairPolicy | None
    """How the history is repaired."""


def _limits(
    limits: LoopLimits | None, max_iterations: int | None, timeout: float | None
) -> LoopLimits:
    chosen = limits or LoopLimits()
    if max_iterations is not None:
        chosen = msgspec.structs.replace(chosen, iterations=max_iterations)
    if timeout is not None:
        chosen = msgspec.structs.replace(chosen, seconds=timeout)
    return chosen


async def execute_with_tools_stream(
    provider: LLMProvider,
    history: Iterable[Any],
    tools: ToolRunner | Iterable[Any],
    *,
    system_prompt: str | None = None,
    max_iterations: int | None = None,
    timeout: float | None = None,  # noqa: ASYNC109  it ends the run, with a result; it raises nothing
    limits: LoopLimits | None = None,
    **settings: Unpack[RunSettings],
) -> AsyncGenerator[JsonObject | AgenticLoopResult]:
    """Yield texts, calls and results as plain dicts while they arrive, then the ``AgenticLoopResult``.

    A failed run ends with a result, too: call its ``raise_for_error()``.

    Args:
        provider: The provider that answers.
        history: The conversation so far, in any form that ``render`` reads; not changed. A string is a message.
        tools: A ``ToolRegistry`` or another ``ToolRunner``, or a list of functions.
        system_prompt: Sent before the history.
        max_iterations: How often the model may ask for tools; 10 if not given.
        timeout: Seconds after which the run ends with the text so far, also while the model streams or a tool runs.
        limits: All limits at once.
        settings: The further arguments of ``AgentRun``.
    """
    run = AgentRun(
        provider,
        history,
        tools,
        system_prompt=system_prompt,
        limits=_limits(limits, max_iterations, timeout),
        **settings,
    )
    async with aclosing(run):
        async for event in run:
            for chunk in chunks_of([event]):
                yield chunk
    yield run.result


async def execute_with_tools(
    provider: LLMProvider,
    history: Iterable[Any],
    tools: ToolRunner | Iterable[Any],
    *,
    system_prompt: str | None = None,
    max_iterations: int | None = None,
    timeout: float | None = None,  # noqa: ASYNC109  it ends the run, with a result; it raises nothing
    limits: LoopLimits | None = None,
    **settings: Unpack[RunSettings],
) -> AgenticLoopResult:
    """Run a model with tools to its answer; the arguments are those of ``execute_with_tools_stream``.

    Raises:
        ProviderError: The run failed; ``error.result`` is its result up to the failure.
    """
    run = AgentRun(
        provider,
        history,
        tools,
        system_prompt=system_prompt,
        limits=_limits(limits, max_iterations, timeout),
        in_step=False,
        **settings,
    )
    return (await run.finish()).raise_for_error()


def execute_with_tools_sync(
    provider: LLMProvider,
    history: Iterable[Any],
    tools: ToolRunner | Iterable[Any],
    *,
    system_prompt: str | None = None,
    max_iterations: int | None = None,
    timeout: float | None = None,
    limits: LoopLimits | None = None,
    **settings: Unpack[RunSettings],
) -> AgenticLoopResult:
    """Like ``execute_with_tools``, without ``async``."""
    run = SyncAgentRun(
        provider,
        history,
        tools,
        system_prompt=system_prompt,
        limits=_limits(limits, max_iterations, timeout),
        in_step=False,
        **settings,
    )
    for _ in run:
        pass
    return run.result.raise_for_error()
