"""A Postgres server for the tests of a session, and a schema of it for each test."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a server: the one in DPSTATS_POSTGRES, or one that is started for the tests of this process."""
    if "DPSTATS_POSTGRES" in os.environ:
        yield os.environ["DPSTATS_POSTGRES"]
        return
    pytest.importorskip("psycopg", reason="Postgres needs psycopg")
    found = importlib.util.find_spec("pgserver")
    if found is None or not found.submodule_search_locations:
        pytest.skip("pgserver has no wheel for this Python")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, contextlib.ExitStack() as stack:
        yield _start(Path(folder), Path(found.submodule_search_locations[0]), stack)


def _start(folder: Path, package: Path, stack: contextlib.ExitStack) -> str:
    """Start the programs of a package in a folder, and return the address.

    Postgres refuses root, for whom pgserver would make a user and open folders of the machine to all. So root
    starts a copy as nobody.
    """
    import psycopg

    who: dict[str, Any] = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if os.getuid() == 0:
        nobody = pwd.getpwnam("nobody")
        who |= {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        # The programs look for their libraries next to the package.
        for part in package.parent.glob(f"{package.name}*"):
            if part.is_dir():
                shutil.copytree(part, folder / "programs" / part.name)
        package = folder / "programs" / package.name
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    programs, data = package / "pginstall" / "bin", folder / "data"
    made = [programs / "initdb", "-A", "trust", "-E", "UTF8", "-U", "postgres", "-D", data]
    subprocess.run(made, check=True, **who)
    command = [programs / "postgres", "-D", data, "-k", folder, "-h", ""]
    process = stack.enter_context(subprocess.Popen(command, **who))
    stack.callback(process.send_signal, signal.SIGINT)  # disconnects everybody, and stops
    address = f"postgresql://postgres:@/postgres?host={folder}"
    for _ in range(200):
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(address):
            return address
        time.sleep(0.05)
    raise RuntimeError("The server of the tests did not answer in 10 seconds. Set DPSTATS_POSTGRES to another one.")


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
