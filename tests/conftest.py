"""Profiles of the property tests: ``HYPOTHESIS_PROFILE=slow`` for the long run.

The promise itself (``test_never_a_400``) is tried more often: with 60, 500 and 10,000 histories.
"""

import gc
import os
import signal
import sys
import time
from collections import defaultdict
from hashlib import sha256
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from xdist.scheduler import LoadScopeScheduling  # pyright: ignore[reportMissingTypeStubs]

# Generated histories are large, and a shared machine is slow at times: neither is a fault of the code.
_PATIENT = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

# The same examples every time: a change is judged by itself. Searching on is the slow profile's work.
settings.register_profile(
    "quick", max_examples=30, deadline=None, derandomize=True, suppress_health_check=_PATIENT
)
# The same, more often: CI's, for what judges our requests (make judges).
settings.register_profile(
    "thorough", max_examples=100, deadline=None, derandomize=True, suppress_health_check=_PATIENT
)
# For a quick look while working: few examples, shown as they are found.
settings.register_profile(
    "smoke",
    max_examples=60,
    deadline=None,
    suppress_health_check=_PATIENT,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
# One round of make fuzz: other examples each time.
settings.register_profile("fuzz", max_examples=200, deadline=None, suppress_health_check=_PATIENT)
settings.register_profile("slow", max_examples=2_000, deadline=None, suppress_health_check=_PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# Who runs the tests in the background may have them ignore Ctrl-C, and with them every program they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

#: CI limits the time of long profiles: what has not begun after so many seconds is skipped, and counted as skipped.
_END: Final = time.monotonic() + float(os.environ.get("TEST_SECONDS", "inf"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin no further test when the time is over."""
    if time.monotonic() > _END:
        pytest.skip("no time left: TEST_SECONDS")


# mistral_common loads jsonschema, which loads a checker of international addresses that builds 38 grammars; no schema
# of a tool names that format, and jsonschema does without.
sys.modules["rfc3987_syntax"] = None  # pyright: ignore[reportArgumentType]

# Collecting makes a million values that stay: the garbage collector would visit them again and again.
gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage from here on, and only among what the tests make."""
    gc.freeze()
    gc.enable()


#: The lower half: one check is made for hundreds of rows, recorded streams and bodies.
_SAMPLED: Final = (
    "bench", "compat", "history", "http", "oracles", "protocol", "repair", "rules", "schema", "testing",
)  # fmt: skip
#: How many cases of one such test ``make test`` runs, unless its own mark ``sample`` says another number.
_CASES: Final = 16


def _sample_size(item: pytest.Item) -> int | None:
    mark = item.get_closest_marker("sample")
    if mark is not None:
        return int(mark.args[0])
    folder = item.nodeid.removeprefix("tests/").partition("/")[0]
    return _CASES if folder in _SAMPLED else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave all but a sample of a test's cases to ``make judges``.

    The hash of its name decides about a case: the sample is the same every time, spread over all rows, and adding a
    case replaces one other at most. A case that is given by its name is the only one, and runs.
    """
    cases: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if not any(item.iter_markers("judge")) and not any(item.iter_markers("fault")):
            cases[item.nodeid.partition("[")[0]].append(item)
    for found in cases.values():
        size = _sample_size(found[0])
        if size is not None and len(found) > size:
            found.sort(key=lambda item: sha256(item.nodeid.encode()).digest())
            for item in found[size:]:
                item.add_marker(pytest.mark.judge)


#: A folder whose tests share something that takes long to start, a model that learns its tools: it is one worker's.
_TOGETHER: Final = "tests/local/"


class Together(LoadScopeScheduling):
    """Hands out files, those with many tests first, and a folder together.

    A server that a module's tests share starts once. Files that wait for a page run at the same time as files that
    compute; one test at a time, in the order of the folders, all workers would wait for pages together.
    """

    def _split_scope(self, nodeid: str) -> str:
        return _TOGETHER if nodeid.startswith(_TOGETHER) else nodeid.partition("::")[0]

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Forget what is done: after every test the base class counts all that a worker has ever been given."""
        super().mark_test_complete(node, item_index, duration)
        given: dict[str, dict[str, bool]] = self.assigned_work[node]
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(given[scope].values()):
            del given[scope]


def pytest_xdist_auto_num_workers() -> int:
    """Two workers a core: for half of the time a test waits for a process, a browser or a time limit."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 2
    return 2 * cores


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    """Who decides which worker runs what."""
    return Together(config, log)
