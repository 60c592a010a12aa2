"""Which tests are slow: `make test` leaves them to `make test-slow`, and a plain pytest runs all."""

from __future__ import annotations

from pathlib import Path

import pytest

LIST = Path(__file__).with_name("slow.txt")
"""Tests of seconds, by name: long simulations, of which shorter ones of the same kind are in `make test`."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    slow = set(LIST.read_text(encoding="utf-8").splitlines())
    for item in items:
        if item.nodeid in slow:
            item.add_marker(pytest.mark.slow)
            slow.remove(item.nodeid)
    # Of a run of everything the list must not name what is gone.
    if slow and config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        raise pytest.UsageError(f"{LIST.name} names tests that there are not: {', '.join(sorted(slow))}")
