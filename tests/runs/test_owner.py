"""A process is known by its machine, its number and its start time."""

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multi_llm_chat.runs.owner import is_alive_here, is_dead, machine_name, new_owner, process_name

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="start times are read from /proc")


def test_this_process_lives_under_every_name_it_gives_itself():
    assert new_owner() != new_owner()
    assert is_alive_here(new_owner())
    assert not is_dead(new_owner())


@given(
    st.text(st.characters(exclude_characters=":", codec="utf-8"), max_size=40),
    st.integers(1, 2**22),
)
def test_nothing_is_known_of_processes_of_another_machine(machine: str, process: int):
    """Two containers with one host name and the same process numbers do not take each other's runs."""
    owner = f"{machine}x:{process}-1:abc"
    assert not is_dead(owner)
    assert not is_alive_here(owner)


@LINUX
def test_a_process_that_took_over_a_number_is_another_process():
    number = os.getpid()
    assert is_dead(f"{machine_name()}:{number}-1:abc")
    assert not is_dead(f"{process_name(number)}:abc")


def test_an_owner_of_an_earlier_version_is_left_to_its_lease():
    ended = subprocess.run([sys.executable, "-c", ""], check=True)
    assert ended.returncode == 0
    assert not is_dead(f"some-host:{os.getpid()}:0123456789ab")


@LINUX
def test_another_pid_namespace_is_another_machine():
    program = "from multi_llm_chat.runs.owner import machine_name; print(machine_name())"
    command = [
        "unshare",
        "--user",
        "--map-root-user",
        "--pid",
        "--fork",
        "--mount-proc",
        sys.executable,
    ]
    try:
        inner = subprocess.run(
            [*command, "-c", program], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("namespaces cannot be made here")
    assert inner.stdout.strip() != machine_name()
