"""A Postgres server for the tests of a session, and a schema of it for each test."""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a server: that of DPSTATS_POSTGRES, or one that is started for the tests of this process."""
    if "DPSTATS_POSTGRES" in os.environ:
        yield os.environ["DPSTATS_POSTGRES"]
        return
    pytest.importorskip("psycopg", reason="Postgres needs psycopg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where it keeps its lock
        pgserver = pytest.importorskip("pgserver", reason="pgserver has no wheel for this Python")
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            made = pgserver.get_server(f"{folder}/data", cleanup_mode="stop")
            yield made.get_uri()
            made.cleanup()


@pytest.fixture
def address(server: str) -> Iterator[str]:
    """The address of a new schema."""
    import psycopg

    name = f"test_{os.getpid()}_{next(_NUMBERS)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
        yield f"{server}&options=-csearch_path%3D{name}"
        # The trace of a failed test keeps its transactions, and their locks.
        connection.execute("SET lock_timeout = '2s'")
        with contextlib.suppress(psycopg.errors.LockNotAvailable):
            connection.execute(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture
def postgres(address: str) -> Iterator[Any]:
    """A connection to a new schema."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        yield connection
