"""Which tests run: `make test` leaves slow ones to `make test-slow`, and `make test-quick` asks for a package.

Tests are slow that are listed, and of tests marked with ``kinds`` the entries whose kinds an earlier one has.
"""

from __future__ import annotations

import gc
import re
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import address, postgres, server

__all__ = ["address", "postgres", "server"]
"""Fixtures of all tests."""
LIST = Path(__file__).with_name("slow.txt")
"""Tests of seconds, by name: long simulations, of which shorter ones of the same kind are in `make test`."""


GONE = pytest.StashKey[set[str]]()
"""Names of the list that are no tests, where everything was collected."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--package",
        help="of tests/conformance, of records and of pages run what is about this package of dpstats, and no more",
    )


def find_entries(item: pytest.Item) -> list[Any]:
    """Return the entries of the registry that a test is about."""
    params = getattr(item, "callspec", None)
    return [param for param in params.params.values() if hasattr(param, "covers")] if params else []


def is_record(item: pytest.Item) -> bool:
    """Return whether a test compares what seeded calls say or return with a record of it."""
    return item.path.name in ("test_recorded.py", "test_recorded_words.py")


def is_about(item: pytest.Item, package: str) -> bool:
    """Return whether a test of the registry, of a record or of a page is about a package; True for all other tests."""
    given = getattr(getattr(item, "callspec", None), "params", {})
    if "conformance" in item.path.parts:
        return any(entry.covers.__module__.split(".")[1:2] == [package] for entry in find_entries(item))
    if is_record(item):
        from tests.nets.recorded_words import package_of

        # A scene of numbers begins with the class that it is about.
        scene = given.get("scene") or re.split(r",| at ", given.get("name", ""))[0].removeprefix("told of ")
        return package_of(scene) == package
    if "page" in given:
        return f"dpstats.{package}" in given["page"].read_text(encoding="utf-8")
    return item.path.name != "test_docs.py"


def find_kinds(item: pytest.Item) -> set[Any]:
    """Return the kinds of a test: the class that is released, with the kind of each stage of its plan."""
    return {(entry.covers, kind) for entry in find_entries(item) for kind in (None, *map(type, entry.plan.stages))}


def name_case(item: Any) -> str:
    """Return the name of a test without the entry that it is about."""
    others = {key: value for key, value in item.callspec.params.items() if isinstance(value, int | str)}
    return f"{item.path.stem}, {item.originalname}, {others}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    package = config.getoption("--package")
    if package is not None:
        left = [item for item in items if not is_about(item, package)]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if is_about(item, package)]
    slow = set(LIST.read_text(encoding="utf-8").splitlines())
    seen: dict[str, set[Any]] = {}  # kinds that an earlier entry has
    for item in items:
        if item.nodeid in slow:
            slow.remove(item.nodeid)
            if package is None or not is_record(item):
                item.add_marker(pytest.mark.slow)
        elif item.get_closest_marker("kinds"):
            kinds, before = find_kinds(item), seen.setdefault(name_case(item), set())
            if kinds <= before:
                item.add_marker(pytest.mark.slow)
            before |= kinds
    config.stash[GONE] = slow if config.args_source is pytest.Config.ArgsSource.TESTPATHS else set()


def pytest_collection_finish() -> None:
    # Thousands of tests and the registry stay to the end: no collection of garbage need walk through them.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
