"""Every test that takes an ``asker`` runs with and without ``async``."""

import pytest
from tests.asking import ASKERS, Asker


@pytest.fixture(params=list(ASKERS.values()), ids=list(ASKERS))
def asker(request: pytest.FixtureRequest) -> Asker:
    """Return one way of asking a provider."""
    return request.param
