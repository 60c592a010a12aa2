"""Sensitivities by trying everything: against what is known, and by hand."""

from __future__ import annotations

import itertools
from statistics import median_low

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.sensitivity import global_sensitivity, local_sensitivity


def test_global_sensitivities_that_are_known() -> None:
    assert global_sensitivity(sum, range(5), 3) == 4
    assert global_sensitivity(len, range(5), 3) == 0
    assert global_sensitivity(max, range(5), 3) == 4
    assert global_sensitivity(median_low, range(5), 1) == 4
    # A histogram: two cells by one each.
    counts = np.bincount
    assert global_sensitivity(lambda x: counts(x, minlength=3), range(3), 2) == 2
    assert global_sensitivity(lambda x: counts(x, minlength=3), range(3), 2, norm="l2") == pytest.approx(2**0.5)
    assert global_sensitivity(lambda x: counts(x, minlength=3), range(3), 2, norm="linf") == 1


def test_local_sensitivity_at_all_distances_is_global() -> None:
    for data in itertools.product(range(3), repeat=3):
        local = [local_sensitivity(median_low, data, range(3), distance=k) for k in range(5)]
        assert local == sorted(local) and local[3] == local[4] == global_sensitivity(median_low, range(3), 3)
        # By hand: one row moves a median of three to one of its neighbors, or not.
        low, middle, high = sorted(data)
        assert local[0] == max(high - middle, middle - low)


def test_a_function_is_asked_once_for_each_dataset() -> None:
    asked: list[tuple[int, ...]] = []

    def noted(data: tuple[int, ...]) -> int:
        asked.append(data)
        return sum(data)

    global_sensitivity(noted, range(3), 3)
    assert len(asked) == len(set(asked)) == 27


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: global_sensitivity(sum, [], 2), "domain must"),
        (lambda: global_sensitivity(sum, range(2), 0), "n_rows must"),
        (lambda: global_sensitivity(sum, range(2), 2, norm="l3"), "norm must"),
        (lambda: local_sensitivity(sum, (5,), range(2)), "dataset must"),
        (lambda: local_sensitivity(sum, (), range(2)), "dataset must"),
        (lambda: local_sensitivity(sum, (1,), range(2), distance=-1), "distance must"),
    ],
)
def test_bad_input_is_named(call: object, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        call()  # type: ignore[operator]
