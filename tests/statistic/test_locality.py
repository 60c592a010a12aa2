"""The check of locality finds memory, and shows errors of public data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpstats.errors import InvalidData
from dpstats.statistic import check_locality

X = np.random.default_rng(0).normal(size=(200, 1))


def test_a_function_of_its_block_is_local() -> None:
    found = check_locality(lambda block: np.median(block), X)
    assert found.local and found.failed == 0
    assert "blocks with another value" in str(found.summary())


def running_mean(block: Any) -> float:
    pytest.kept = [*getattr(pytest, "kept", []), float(block.mean())]  # type: ignore[attr-defined]
    return float(np.mean(pytest.kept))  # type: ignore[attr-defined]


def test_a_package_that_remembers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # Blocks share the state of installed packages.
    monkeypatch.setattr(pytest, "kept", [], raising=False)
    found = check_locality(running_mean, X)
    assert not found.local and found.changed["in reverse order"] >= 9
    assert "does not protect" in str(found.summary())


def test_errors_are_shown() -> None:
    def wrong(block: Any) -> Any:
        return block["age"]

    found = check_locality(wrong, X)
    assert found.failed == 10 and found.first_error
    assert "The first error: IndexError" in str(found.summary())
    assert check_locality(lambda block: "a", X).first_error == "it returned 'a'"


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(InvalidData, match="at least 50 rows for 10 blocks, got 49"):
        check_locality(np.mean, X[:49])
