"""Run one call of a tool within its time limit.

Rules:
1. ``run_tool`` returns at the latest when the time is up. Then a coroutine is cancelled; a thread, or a coroutine that ignores its
   cancellation, keeps running in the background, and the text says so.
2. A result that arrives later is discarded.
3. An exception of the tool becomes a result; only the cancellation of the caller is raised.
"""

import asyncio
from typing import Any, Final

from multi_llm_chat.errors import ToolError
from multi_llm_chat.history.json_values import clean_text
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.tools.tool import CallClock, NotRun, Tool, ToolContext, ToolOutput
from multi_llm_chat.tools.tool_output import content_of, cut

#: Seconds that a cancelled coroutine has for its ``finally`` blocks.
GRACE: Final = 1.0
_LONGEST_ERROR: Final = 4_000

#: Cancelled tasks, referenced until they end so that the garbage collector does not remove them.
_left_behind: set["asyncio.Task[object]"] = set()


async def run_tool(
    tool: Tool, arguments: JsonObject, context: ToolContext[Any], seconds: float, limit: int
) -> ToolOutput:
    """Run the tool and return its output, in the form of a result.

    Raises:
        NotRun: The tool gave no output: time is up, it was cancelled, or its arguments do not fit.
    """
    clock = CallClock(asyncio.get_running_loop(), seconds)
    context.limited_by(clock)
    task = asyncio.create_task(_guarded(tool, arguments, context, clock))
    try:
        in_time = (
            await clock.ended
        )  # awaiting the task itself would delay the cancellation of the caller
    except asyncio.CancelledError:
        await _stop(task)
        raise
    finally:
        clock.stop()
    if not in_time:
        await _stop(task)
        raise NotRun(_late(context.call.name, seconds, stopped=tool.stoppable and task.done()))
    if task.cancelled():
        raise NotRun(f"The tool {context.call.name!r} was cancelled before it had finished.")
    return _output(task.result(), limit)


async def _guarded(
    tool: Tool,
    arguments: JsonObject,
    context: ToolContext[Any],
    clock: CallClock,
) -> object:
    name = context.call.name
    try:
        return await tool.run(arguments, context)
    except NotRun:
        raise
    except ToolError as error:
        text = f"The tool {name!r} failed: {error}"
    except (Exception, SystemExit) as error:  # noqa: BLE001 - any failure is reported to the model
        text = f"The tool {name!r} failed: {_describe(error)}"
    finally:
        clock.end(in_time=True)
    return ToolOutput(cut(clean_text(text), _LONGEST_ERROR), is_error=True)


def _describe(error: BaseException) -> str:
    kind = type(error).__name__
    try:
        words = str(error)
    except Exception:  # noqa: BLE001 - an exception that cannot even say what it is
        return kind
    return f"{kind}: {words}" if words else kind


async def _stop(task: "asyncio.Task[object]") -> None:
    """Cancel the task and wait ``GRACE`` seconds for it; if it keeps running, ``_left_behind`` holds it."""
    task.cancel()
    _left_behind.add(task)
    task.add_done_callback(_forget)
    await asyncio.wait({task}, timeout=GRACE)


def _forget(task: "asyncio.Task[object]") -> None:
    _left_behind.discard(task)
    if not task.cancelled():
        task.exception()  # retrieve it, so that asyncio does not warn about it


def _late(name: str, seconds: float, *, stopped: bool) -> str:
    after = "and was stopped" if stopped else "; it could not be stopped and may still be running"
    return (
        f"The tool {name!r} did not finish within {seconds:g} seconds"
        f"{' ' if stopped else ''}{after}. Try something smaller, or do without it."
    )


def _output(value: object, limit: int) -> ToolOutput:
    output = value if isinstance(value, ToolOutput) else ToolOutput(value)
    content: Any = content_of(output.content, limit)
    return ToolOutput(content, output.is_error)
