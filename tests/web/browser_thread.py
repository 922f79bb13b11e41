"""The thread that runs Playwright.

Rules:
1. Playwright's synchronous API keeps an event loop running in its thread from start to stop, and all its objects belong to
   that thread. So it gets its own thread, and the main thread, in which other tests run their loops, stays without one.
2. A test that uses the browser runs entirely in that thread (``pytest_pyfunc_call``), and is written like any other.
3. A fixture that uses the browser runs its part there with ``run``.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class BrowserThread:
    """One thread that runs functions until it is closed."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="browser")

    def run(self, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function in the thread, and wait for what it returns or raises."""
        __tracebackhide__ = True
        return self._executor.submit(work, *args, **kwargs).result()

    def close(self) -> None:
        """End the thread."""
        self._executor.shutdown()
