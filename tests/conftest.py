"""Which tests are slow: `make test` leaves them to `make test-slow`, and a plain pytest runs all."""

from __future__ import annotations

from pathlib import Path

import pytest

LIST = Path(__file__).with_name("slow.txt")
"""Tests of seconds, by name: long simulations, of which shorter ones of the same kind are in `make test`."""


GONE = pytest.StashKey[set[str]]()
"""Names of the list that are no tests, where everything was collected."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    slow = set(LIST.read_text(encoding="utf-8").splitlines())
    for item in items:
        if item.nodeid in slow:
            item.add_marker(pytest.mark.slow)
            slow.remove(item.nodeid)
    config.stash[GONE] = slow if config.args_source is pytest.Config.ArgsSource.TESTPATHS else set()
