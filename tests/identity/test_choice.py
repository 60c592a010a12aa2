"""One call chooses a test by public facts."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.errors import InvalidData
from dpstats.identity import RowDistanceTest, SpatialSignTest, identity_test
from dpstats.identity.by_row_distance import automatic_test
from tests.identity.every_test import FAST, NULL_ROWS


def test_identity_test_chooses_by_public_facts() -> None:
    assert identity_test(NULL_ROWS, random_state=0, **FAST).test == "Spatial sign"
    wide = np.random.default_rng(0).standard_normal((60, 8))
    assert identity_test(wide, epsilon=0.4, random_state=0, **FAST).test == "Spatial sign"
    assert identity_test(wide, random_state=0, **FAST).test == "Row distance"
    signs = identity_test((wide > 0).astype(float), null="product", random_state=0, **FAST)
    assert signs.null == "the rows are independent signs with the public means" and not signs.reject
    many = np.zeros((10_001, 8))
    assert identity_test(many, random_state=0, **FAST).test == "Spatial sign"
    chosen = {(n, d): automatic_test(n, d, 1.0) for n in (100, 10_000, 10_001) for d in (1, 7, 8, 100, 101)}
    assert {size for size, kind in chosen.items() if kind is RowDistanceTest} == {
        (100, 8), (100, 100), (100, 101), (10_000, 8), (10_000, 100),
    }  # fmt: skip
    assert set(chosen.values()) == {RowDistanceTest, SpatialSignTest}
    with pytest.raises(InvalidData, match="table"):
        identity_test(iter([1.0, 2.0]))


def test_where_little_budget_bounds_the_power_the_better_test_is_chosen() -> None:
    # A power at 10,000 simulated releases: four standard deviations are 0.02 at most. The calibration adds its own.
    for n, epsilon in ((100, 0.1), (200, 0.1), (300, 0.1)):
        powers = {
            kind: kind(epsilon=epsilon, n_calibration=999).attainable_power(n, 20)
            for kind in (RowDistanceTest, SpatialSignTest)
        }
        chosen = powers[automatic_test(n, 20, epsilon)]
        assert chosen >= max(powers.values()) - 0.002
        assert powers[SpatialSignTest] >= (0.9 if n == 100 else 0.99)
    assert automatic_test(100, 20, 0.1) is SpatialSignTest and automatic_test(300, 20, 0.1) is RowDistanceTest


def test_a_bounded_power_is_said() -> None:
    X = np.random.default_rng(0).standard_normal((100, 20))
    little = identity_test(X, epsilon=0.1, random_state=0, **FAST)
    assert 0.8 < little.attainable_power < 0.99 and "power is at most 0.9" in str(little.summary())
    much = identity_test(X, epsilon=3.0, random_state=0, **FAST)
    assert much.attainable_power == 1.0 and "power is at most" not in str(much.summary())
