"""Profiles of the property tests: ``HYPOTHESIS_PROFILE=slow`` for the long run.

The promise itself (``test_never_a_400``) is tried five times as often: 500 and 10,000 histories.
"""

import os
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, settings

# Generated histories are large, and a shared machine is slow at times: neither is a fault of the code.
_PATIENT = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

# The same examples every time: a change is judged by itself. Searching on is the slow profile's work.
settings.register_profile(
    "quick", max_examples=100, deadline=None, derandomize=True, suppress_health_check=_PATIENT
)
# For a quick look while working: few examples, shown as they are found.
settings.register_profile(
    "smoke",
    max_examples=60,
    deadline=None,
    suppress_health_check=_PATIENT,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
settings.register_profile("slow", max_examples=2_000, deadline=None, suppress_health_check=_PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

#: Folders whose tests share something that takes long to start: each is one worker's (``--dist loadgroup``).
_TOGETHER: Final = {"local": "the embedded model", "web": "a browser"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep together what shares a costly part."""
    here = Path(__file__).parent
    for item in items:
        group = _TOGETHER.get(item.path.relative_to(here).parts[0])
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))
