"""Every store for runs, and a model that needs two rounds of three tools."""

from collections.abc import Callable, Iterator
from itertools import count
from multiprocessing import forkserver
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from tests.runs.scene import Scene, context, simulator
from tests.store.conftest import postgres, postgres_server
from tests.store.processes import SLOW

from multi_llm_chat.testing.simulator import Simulator

__all__ = ["postgres", "postgres_server"]

PLACES = ("sqlite", "postgres")
#: The databases of the quick profile; the sweep and the kills test both.
FEWER = PLACES if SLOW else PLACES[:1]


@pytest.fixture(scope="session", autouse=True)
def forking() -> None:
    """Start the fork server, which loads its modules while the first tests run."""
    context()
    forkserver.ensure_running()


@pytest.fixture(scope="session")
def model() -> Iterator[Simulator]:
    with simulator() as server:
        yield server


@pytest.fixture(params=PLACES)
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Return a function that creates empty stores of one kind."""
    return places(request, tmp_path)


def places(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Return a function that creates empty stores of the given kind."""
    numbers = count()
    if request.param == "sqlite":
        return lambda: str(tmp_path / f"{next(numbers)}.db")
    server: str = request.getfixturevalue("postgres_server")

    def make() -> str:
        name = f"test_{uuid4().hex}"
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return f"{server}&options=-csearch_path%3D{name}"

    return make


@pytest.fixture
def new_scene(
    new_place: Callable[[], str], model: Simulator, tmp_path: Path
) -> Callable[..., Scene]:
    """Return a function that creates conversations that have not begun."""

    def make(**settings: Any) -> Scene:
        ledger = tmp_path / f"ledger-{uuid4().hex}"
        return Scene(new_place(), model.base_url("openai-chat"), str(ledger), **settings)

    return make
