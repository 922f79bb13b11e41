"""One event loop in a thread, for callers without a loop.

Rules:
1. The process has one background loop, started on first use. Its objects (connections to servers) can be used from any thread and from any
   other event loop.
2. Each coroutine is submitted separately; a caller that stops waiting cancels it.
3. Code in the loop's own thread must not wait for the loop: that would never return, so it raises an error.
4. It is a daemon thread, which does not delay the end of the program. After a fork the child starts its own.
"""

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from multi_llm_chat.errors import UsageError

_Value = TypeVar("_Value")

_THREAD: Final = "multi_llm_chat loop"
_lock = threading.Lock()
_running: "dict[int, asyncio.AbstractEventLoop]" = {}


def portal_loop() -> asyncio.AbstractEventLoop:
    """The process's background event loop."""
    process = os.getpid()
    with _lock:
        loop = _running.get(process)
        if loop is None:
            loop = asyncio.new_event_loop()
            threading.Thread(target=_run, args=(loop,), name=_THREAD, daemon=True).start()
            _running.clear()
            _running[process] = loop
    return loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()


def submit(work: Coroutine[Any, Any, _Value]) -> "concurrent.futures.Future[_Value]":
    """Run the coroutine in the background loop; cancelling the future cancels it."""
    return asyncio.run_coroutine_threadsafe(work, portal_loop())


def wait_for(work: Coroutine[Any, Any, _Value]) -> _Value:
    """Run the coroutine in the background loop and wait for it, from a thread without a loop."""
    try:
        not_in_portal()
    except UsageError:
        work.close()
        raise
    future = submit(work)
    try:
        return future.result()
    except BaseException:
        future.cancel()  # Ctrl-C while waiting: cancel the coroutine
        raise


def not_in_portal() -> None:
    """Refuse to wait for the background loop in its own thread.

    Raises:
        UsageError: The caller runs in that thread.
    """
    if threading.current_thread().name == _THREAD:
        raise UsageError("this would wait for itself: use the async method here")


async def through_portal(work: Coroutine[Any, Any, _Value]) -> _Value:
    """Run the coroutine in the background loop and wait for it, from any event loop."""
    if asyncio.get_running_loop() is portal_loop():
        return await work
    return await asyncio.wrap_future(submit(work))
