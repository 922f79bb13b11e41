"""Profiles of the property tests (``HYPOTHESIS_PROFILE=slow`` for the long run), the sample of cases, and the distribution over workers.

The central property (``test_never_a_400``) is tested more often: with 60, 500 and 10,000 histories.
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

# Generated histories are large, and a shared machine is sometimes slow: neither is a fault of the code.
_PATIENT = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

# The same examples every time, so that only a change of the code changes the result. The slow profile searches further.
settings.register_profile(
    "quick", max_examples=30, deadline=None, derandomize=True, suppress_health_check=_PATIENT
)
# The same with more examples: for CI's tests that validate our requests (make judges).
settings.register_profile(
    "thorough", max_examples=100, deadline=None, derandomize=True, suppress_health_check=_PATIENT
)
# For a quick check while working: few examples, without shrinking.
settings.register_profile(
    "smoke",
    max_examples=60,
    deadline=None,
    suppress_health_check=_PATIENT,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
# One round of make fuzz: different examples each time.
settings.register_profile("fuzz", max_examples=200, deadline=None, suppress_health_check=_PATIENT)
settings.register_profile("slow", max_examples=2_000, deadline=None, suppress_health_check=_PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# Tests that run in the background may ignore Ctrl-C, and so would every program that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

#: CI limits the time of long profiles: tests that have not started after this many seconds are skipped.
_END: Final = time.monotonic() + float(os.environ.get("TEST_SECONDS", "inf"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip all further tests when the time is over."""
    if time.monotonic() > _END:
        pytest.skip("no time left: TEST_SECONDS")


# mistral_common imports jsonschema, which imports a checker of international addresses that builds 38 grammars. No tool
# schema uses that format, and jsonschema works without it.
sys.modules["rfc3987_syntax"] = None  # pyright: ignore[reportArgumentType]

# Collecting tests creates a million long-lived objects, which the garbage collector would scan again and again.
gc.disable()


def pytest_collection_finish() -> None:
    """Enable garbage collection from here on, but only for objects that the tests create."""
    gc.freeze()
    gc.enable()


#: The lower half of the tests: one check runs for hundreds of rows, recorded streams and bodies.
_SAMPLED: Final = (
    "bench", "compat", "history", "http", "oracles", "protocol", "repair", "rules", "schema", "testing",
)  # fmt: skip
#: How many cases of one such test ``make test`` runs, unless its mark ``sample`` sets another number.
_CASES: Final = 16


def _sample_size(item: pytest.Item) -> int | None:
    mark = item.get_closest_marker("sample")
    if mark is not None:
        return int(mark.args[0])
    folder = item.nodeid.removeprefix("tests/").partition("/")[0]
    return _CASES if folder in _SAMPLED else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep a sample of each test's cases, and leave the rest to ``make judges``.

    The hash of a case's name decides: the sample is the same every time, spread over all rows, and adding a
    case replaces at most one other. A case given by name on the command line always runs.
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


#: The folder whose tests share a model that takes long to learn its tools: one worker runs the whole folder.
_TOGETHER: Final = "tests/local/"


class Together(LoadScopeScheduling):
    """Distributes files, those with many tests first, and keeps a shared folder on one worker.

    A server that a module's tests share starts once. Files that wait for a web page run at the same time as files that
    compute; distributing single tests in the order of the folders would make all workers wait for pages together.
    """

    def _split_scope(self, nodeid: str) -> str:
        return _TOGETHER if nodeid.startswith(_TOGETHER) else nodeid.partition("::")[0]

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Forget finished tests: after every test the base class counts all tests that a worker was ever assigned."""
        super().mark_test_complete(node, item_index, duration)
        given: dict[str, dict[str, bool]] = self.assigned_work[node]
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(given[scope].values()):
            del given[scope]


def pytest_xdist_auto_num_workers() -> int:
    """Return two workers per core: half of the time a test waits for a process, a browser or a time limit."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 2
    return 2 * cores


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    """Return the scheduler that distributes the tests."""
    return Together(config, log)
