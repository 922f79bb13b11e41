"""Every kind of store for conversations."""

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from tests.store.postgres_server import binaries, shared_server

from multi_llm_chat.store import Store, open_store

PLACES = ("sqlite file", "sqlite memory", "postgres")


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if binaries() is None:
        pytest.skip("no Postgres on this machine (initdb was not found)")
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # the folder that all workers of a test run share
    with shared_server(folder / "postgres-server") as address:
        yield address


@pytest.fixture
def postgres(postgres_server: str) -> str:
    """Return the address of an empty database (a separate schema)."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    return f"{postgres_server}&options=-csearch_path%3D{name}"


@pytest.fixture(params=[name for name in PLACES if name != "sqlite memory"])
def lasting_place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return _place(request, tmp_path)


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return _place(request, tmp_path)


def _place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("postgres")
    return ":memory:" if request.param == "sqlite memory" else str(tmp_path / "chats.db")


@pytest.fixture
def store(place: str) -> Iterator[Store]:
    with open_store(place) as opened:
        yield opened
