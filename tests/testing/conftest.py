"""Most of the kit's and the simulator's 3,000 cases are for ``make judges``; every eighth stays in ``make test``."""

from hashlib import sha256
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
SAMPLE = 8


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(FOLDER) and not _is_sampled(item.nodeid):
            item.add_marker(pytest.mark.judge)


def _is_sampled(nodeid: str) -> bool:
    """The same cases every time, whatever else is collected."""
    return sha256(nodeid.encode()).digest()[0] % SAMPLE == 0
