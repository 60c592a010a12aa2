"""Lists of test files name files that are there: tests that run again with other kernels, and slow ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import GONE
from tests.other_kernels import NUMERICAL

TESTS = Path(__file__).parent


def test_numerical_tests_that_are_run_again_exist() -> None:
    assert not [path for path in NUMERICAL if not (TESTS.parent / path).exists()]


def test_slow_tests_exist(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.stash[GONE] == set()
