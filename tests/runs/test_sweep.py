"""SIGKILL before, inside and after every transaction of a run with two rounds of three parallel tools.

The quick profile covers a part of the transactions, so that before, inside and after together cover all kinds.
"""

from collections.abc import Callable

import pytest
from tests.runs.killing_store import PHASES, Kill, Phase
from tests.runs.scene import (
    TRANSACTIONS,
    Scene,
    check,
    resume_in_process,
    run_process,
    say_in_process,
    snapshot,
)
from tests.store.processes import SLOW

pytestmark = pytest.mark.fault

KILLED = -9
STEP = 1 if SLOW else 7


def test_a_run_that_is_not_killed_has_everything(new_scene: Callable[[], Scene]):
    scene = new_scene()
    assert run_process(say_in_process, scene, None) == 0
    info = check(scene, snapshot(scene))
    assert (info.epoch, info.attempts) == (1, 0)


@pytest.mark.parametrize("phase", PHASES)
def test_a_run_killed_at_any_transaction_is_resumed(new_scene: Callable[[], Scene], phase: Phase):
    number = 1 + PHASES.index(phase) % STEP
    while True:
        scene = new_scene()
        code = run_process(say_in_process, scene, Kill(number, phase))
        assert code in {KILLED, 0}
        check(scene, snapshot(scene))
        if code == 0:
            break
        number += STEP
    assert number > TRANSACTIONS, "a transaction of the run was not reached"


@pytest.mark.parametrize("phase", PHASES if SLOW else ("inside",))
def test_a_run_killed_again_while_it_is_resumed_is_finished(
    new_scene: Callable[[], Scene], phase: Phase
):
    for first in range(2, TRANSACTIONS, 2) if SLOW else (7,):
        number = 1
        while True:
            scene = new_scene()
            assert run_process(say_in_process, scene, Kill(first, "after")) == KILLED
            code = run_process(resume_in_process, scene, Kill(number, phase))
            assert code in {KILLED, 0}
            check(scene, snapshot(scene))
            if code == 0:
                break
            number += 3 if SLOW else 9
        assert number > TRANSACTIONS - first, "a transaction that was left was not reached"
