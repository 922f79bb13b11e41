"""Every test that takes an ``asker`` runs without ``async``, with it, and in the event loop of uvloop."""

import pytest
import uvloop
from tests.asking import ASKERS, Asker, AsyncAsker

_ASKERS = {**ASKERS, "uvloop": AsyncAsker(uvloop.new_event_loop)}


@pytest.fixture(params=list(_ASKERS.values()), ids=list(_ASKERS))
def asker(request: pytest.FixtureRequest) -> Asker:
    """One way of asking."""
    return request.param
