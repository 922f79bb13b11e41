"""Killed writers and many writers, in a short form; ``make faults`` is the long form."""

import pytest
from tests.store.faults import kill_writers, write_at_once

pytestmark = pytest.mark.fault


def test_a_killed_writer_loses_nothing_that_it_announced(lasting_place: str):
    report = kill_writers(lasting_place, 5, seed=0)
    assert not report.faults, report
    assert report.announced > 0


def test_many_writers_lose_nothing_and_none_is_turned_away(lasting_place: str):
    crowd = write_at_once(lasting_place, 4, 25)
    assert not crowd.faults, crowd
    assert crowd.turns_of_each == [25] * 4
