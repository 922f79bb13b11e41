"""Many concurrent requests over faulty connections leak nothing; ``make soak`` is the long form."""

import sys

import pytest
from tests.soak.soak import soak

pytestmark = pytest.mark.fault


@pytest.mark.skipif(sys.platform != "linux", reason="open files are counted in /proc")
def test_nothing_is_left_behind() -> None:
    report = soak(4.0)
    assert not report.faults, str(report)
    assert report.outcomes["answered"] > report.outcomes.total() / 2, str(report)
