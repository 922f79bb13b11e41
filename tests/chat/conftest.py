"""Every conversation is tested with and without ``async``."""

import pytest
from tests.chat.stage import Read, read_async, read_plainly


@pytest.fixture(params=[read_plainly, read_async], ids=["plain", "async"])
def read(request: pytest.FixtureRequest) -> Read:
    return request.param
