"""Run a blocking function in a thread and wait for it in an event loop.

Rules:
1. Each function runs in a daemon thread of its own: one that hangs delays neither other functions nor the end of the program.
2. The caller may stop waiting; a later result of the function is discarded.
3. The function sees the context variables of the caller.
"""

import asyncio
import concurrent.futures
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

_Value = TypeVar("_Value")
_NOT_CARRIED = (StopIteration, KeyboardInterrupt, GeneratorExit)


async def in_thread(function: Callable[[], _Value], name: str) -> _Value:
    """Call the function in a new thread; return its result or raise its exception."""
    outcome: concurrent.futures.Future[_Value] = concurrent.futures.Future()
    outcome.set_running_or_notify_cancel()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            value = context.run(function)
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            outcome.set_exception(_raisable(error))
        else:
            outcome.set_result(value)

    threading.Thread(target=work, name=name, daemon=True).start()
    return await asyncio.wrap_future(outcome)


def in_loop(call: Callable[[], object]) -> Callable[[], None]:
    """A function that any thread may call: it calls the given function in the event loop that runs now, without waiting for it."""
    loop = asyncio.get_running_loop()

    def schedule() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(call)

    return schedule


def _raisable(error: BaseException) -> BaseException:
    """Replace an exception that would stop the caller's loop, or cannot be raised in it, by a ``RuntimeError``."""
    if isinstance(error, _NOT_CARRIED):
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
