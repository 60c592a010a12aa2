"""Rows of units: of each a limited number, whatever the order and whoever else is there."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from dpstats.data.columns import check_labels, cut_units, read_labels
from dpstats.errors import InvalidData


def kept(rows: list[tuple[object, int]], most: int) -> Counter[int]:
    """Return how often each value is kept."""
    units = np.empty(len(rows), dtype=object)
    units[:] = [unit for unit, _ in rows]
    values = np.array([value for _, value in rows], dtype=np.int64)
    return Counter(cut_units(units, values, most).tolist())


def test_what_is_kept_of_a_unit_depends_on_its_rows_alone() -> None:
    rng = np.random.default_rng(0)
    people = {person: rng.integers(0, 3, rng.integers(0, 7)).tolist() for person in ("a", "b", 7, "7", 0.5)}
    for most in (1, 2, 4):
        alone = [kept([(person, value) for value in own], most) for person, own in people.items()]
        assert all(sum(one.values()) == min(len(own), most) for one, own in zip(alone, people.values(), strict=True))
        rows = [(person, value) for person, own in people.items() for value in own]
        for _ in range(5):
            rng.shuffle(rows)  # type: ignore[arg-type]
            assert kept([(person, value) for person, value in rows], most) == sum(alone, Counter())


def test_every_row_is_kept_equally_often() -> None:
    found = sum((kept([(person, value) for value in (0, 0, 1, 2)], 2) for person in range(4000)), Counter())
    # Of four rows two are kept: 4,000 of the first value, and 2,000 of each other one, at standard deviations of 32.
    assert sum(found.values()) == 8000
    assert abs(found[0] - 4000) < 160 and all(abs(found[value] - 2000) < 160 for value in (1, 2))


def test_no_rows_are_no_rows() -> None:
    assert kept([], 3) == Counter()


def test_equal_labels_are_one_unit_and_missing_ones_are_refused() -> None:
    labels = check_labels(read_labels([1, 1.0, True, "1"]))
    assert len(cut_units(labels, np.zeros(4, dtype=np.int64), 1)) == 2
    for entry in (None, float("nan"), [1]):
        with pytest.raises(InvalidData, match="units must"):
            check_labels(read_labels(["a", entry]))


def test_all_small_units_are_cut_in_any_order() -> None:
    for own in itertools.product(range(2), repeat=4):
        found = {
            tuple(sorted(kept([("x", value) for value in order], 2).items())) for order in itertools.permutations(own)
        }
        assert len(found) == 1
