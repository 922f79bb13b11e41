"""A store that refuses at each write of a run with two rounds of three parallel tools, and then accepts again or is gone.

The quick profile takes a part of the writes, so that all phases, endings and readers meet all kinds together.
"""

import random
from collections.abc import Callable
from itertools import product

import pytest
from tests.runs.killing_store import PHASES
from tests.runs.refused import (
    WAITED,
    WAYS,
    Way,
    ask_while_refused,
    check_notes,
    notes_of,
    resume_while_refused,
)
from tests.runs.refusing import Refusal
from tests.runs.scene import Scene, check, run_process, snapshot
from tests.store.processes import SLOW

pytestmark = pytest.mark.fault

KILLED = -9
STEP = 1 if SLOW else 5
#: Writes of a run at least, the message among them.
WRITES = 15


def _seconds(chance: random.Random) -> float:
    """How long the store refuses: mostly a moment, sometimes long."""
    return chance.choice([0.1, 0.1, 0.1, 0.3, 0.3, 1.0, 3.0, 10.0] if SLOW else [0.1, 0.2])


def _refusals(number: int) -> list[tuple[Refusal, Way]]:
    """The ways in which a write is refused: all of them, or the next one in turn."""
    chance = random.Random(number)
    every: list[tuple[Refusal, Way]] = [
        (Refusal(number, phase, _seconds(chance), kills), way)
        for way, kills, phase in product(WAYS, (False, True), PHASES)
    ]
    return every if SLOW else [every[number // STEP * 5 % len(every)]]


def test_a_store_that_refuses_any_write_of_a_run_costs_nothing(new_scene: Callable[[], Scene]):
    number, met, waited, killed = 1, True, 0, 0
    while met:
        met = False
        for refusal, way in _refusals(number):
            scene = new_scene()
            code = run_process(ask_while_refused, scene, refusal, way)
            assert code == 0 or (code == KILLED and refusal.kills), (refusal, way)
            met = met or code == KILLED or "met" in notes_of(scene)
            waited += WAITED in notes_of(scene)
            killed += code == KILLED
            check_notes(scene)
            check(scene, snapshot(scene))
        number += STEP
    assert number > WRITES
    assert waited
    assert killed


def test_a_store_that_refuses_any_write_of_a_resumed_run_costs_nothing(
    new_scene: Callable[[], Scene],
):
    number, met, first = 1, True, 7
    while met:
        met = False
        for refusal, way in _refusals(number):
            scene = new_scene()
            begun = Refusal(first, "after", 0.0, kills=True)
            assert run_process(ask_while_refused, scene, begun, way) == KILLED
            code = run_process(resume_while_refused, scene, refusal, way)
            assert code == 0 or (code == KILLED and refusal.kills), (refusal, way)
            met = met or code == KILLED or "met" in notes_of(scene)
            check_notes(scene)
            check(scene, snapshot(scene))
        number += STEP
    assert number > WRITES // 2
