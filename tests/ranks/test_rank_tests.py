"""Rank tests: level without and with ties, at equal and at unequal sizes; power; what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import mannwhitneyu

from dpstats.errors import BudgetExceeded, InvalidData, InvalidParameter
from dpstats.privacy import PrivacyBudget
from dpstats.ranks import KruskalWallisTest, MannWhitneyTest, SignedRankTest
from dpstats.ranks.statistics import balanced

Rows = Callable[[np.random.Generator], tuple[Any, ...]]


def signed(values: Callable[[np.random.Generator], Any]) -> Rows:
    return lambda rng: (values(rng),)


def labelled(n: int, share: float, groups: int, shift: float = 0.0, ties: bool = False) -> Rows:
    def rows(rng: np.random.Generator) -> tuple[Any, ...]:
        rest = [(1 - share) / (groups - 1)] * (groups - 1)
        labels = rng.choice(groups, size=n, p=[share, *rest])
        values = rng.exponential(size=n) + shift * (labels == 0)
        return np.floor(2 * values) if ties else values, labels

    return rows


def rejected(made: Any, rows: Rows, size: int = 600) -> float:
    """Return how often a test rejects at .05."""
    rng = np.random.default_rng(11)
    made.set_params(random_state=rng, n_simulations=1999)
    return float(np.mean([made.fit(*rows(rng)).pvalue_ <= 0.05 for _ in range(size)]))


# 600 tests; five standard errors and the calibration's own: a false alarm below 1e-6 each.
ERROR = 5 * np.sqrt(0.05 * 0.95 / 600 + 0.05 * 0.95 / 2000)
TWO, THREE = {"groups": [0, 1]}, {"groups": [0, 1, 2]}


@pytest.mark.parametrize(
    ("made", "rows", "exact"),
    [
        (SignedRankTest(), signed(lambda rng: rng.standard_t(2, 60)), True),
        (SignedRankTest(epsilon=0.2), signed(lambda rng: rng.normal(size=60)), True),
        (SignedRankTest(), signed(lambda rng: rng.integers(-1, 2, 60).astype(float)), False),
        (MannWhitneyTest(**TWO), labelled(60, 0.5, 2), True),
        (MannWhitneyTest(**TWO), labelled(60, 0.1, 2), False),
        (MannWhitneyTest(**TWO, alternative="less"), labelled(60, 0.5, 2, ties=True), False),
        (KruskalWallisTest(**THREE), labelled(60, 1 / 3, 3), True),
        (KruskalWallisTest(**THREE), labelled(60, 0.8, 3, ties=True), False),
    ],
)
def test_levels(made: Any, rows: Rows, exact: bool) -> None:
    found = rejected(made, rows)
    assert found < 0.05 + ERROR
    if exact:
        assert found > 0.05 - ERROR


@pytest.mark.parametrize(
    ("made", "rows"),
    [
        (SignedRankTest(epsilon=2.0), signed(lambda rng: rng.normal(0.5, 1, 100))),
        (MannWhitneyTest(**TWO, epsilon=2.0), labelled(200, 0.5, 2, shift=0.7)),
        (KruskalWallisTest(**THREE, epsilon=2.0), labelled(200, 1 / 3, 3, shift=0.9)),
    ],
)
def test_power(made: Any, rows: Rows) -> None:
    assert rejected(made, rows, 60) > 0.6


def test_public_sizes_have_less_noise() -> None:
    x, labels = np.arange(10.0), [0] * 5 + [1] * 5
    for kind in (MannWhitneyTest, KruskalWallisTest):
        private, public = kind(**TWO), kind(**TWO, sizes=[5, 5])
        assert public.plan(10).additive[0].scale_steps <= private.plan(10).additive[0].scale_steps
        made = public.set_params(random_state=0).fit(x, labels)
        assert "group of every row is public" in str(made.summary()) and made.result_.sizes == (5, 5)
        assert "stays in its group" in public.plan(10).notes()[0]
        with pytest.raises(InvalidData, match="public sizes"):
            public.fit(x, [0] * 4 + [1] * 6)
    assert "private" in str(private.set_params(random_state=0).fit(x, labels).summary())
    assert balanced(11, 3) == (4, 4, 3)


def test_private_sizes_cost_little_power() -> None:
    # At 500 rows and epsilon = 0.1 a shift of 0.8 standard deviations: public sizes find it in 0.95 of all runs.
    # With all rows of both groups private ones did in half of them. 200 tests: five standard errors are 0.1.
    def rows(rng: np.random.Generator) -> tuple[Any, ...]:
        labels = rng.permutation(np.repeat([0, 1], 250))
        return rng.normal(size=500) + 0.8 * labels, labels

    assert rejected(MannWhitneyTest(**TWO, epsilon=0.1), rows, 200) > 0.82


def test_unequal_private_groups_are_found() -> None:
    # Public sizes find this shift in 0.8 of all runs; the null distribution of equal groups found it in 0.29.
    def rows(rng: np.random.Generator) -> tuple[Any, ...]:
        labels = rng.permutation(np.repeat([0, 1], [30, 270]))
        return rng.normal(size=300) + 0.62 * labels, labels

    assert rejected(MannWhitneyTest(**TWO), rows, 200) > 0.5


def test_unequal_private_groups_without_noise_have_scipys_pvalue() -> None:
    # It was 17 times as large. Of 9,999 simulations at least 30 are as extreme: five standard errors are a factor of 2.
    rng = np.random.default_rng(5)
    labels = np.repeat([0, 1], [180, 20])
    for shift in (0.3, 0.45):
        x = rng.normal(size=200) + shift * labels
        known = mannwhitneyu(x[labels == 0], x[labels == 1]).pvalue
        found = MannWhitneyTest(**TWO, epsilon=500.0, random_state=0).fit(x, labels)
        assert 0.003 < known < 0.3 and 0.5 < found.pvalue_ / known < 2
        assert "near the released ones" in str(found.summary())
        assert np.allclose(found.result_.released_sizes, (180, 20), atol=0.2)
        assert "Group sizes" in str(found.summary()) and found.result_.sizes is None


def test_sides_and_statistics() -> None:
    x, labels = np.arange(40.0), ["low"] * 20 + ["high"] * 20
    given = {"groups": ["low", "high"], "epsilon": 50.0, "random_state": 0, "n_simulations": 199}
    found = {side: MannWhitneyTest(**given, alternative=side).fit(x, labels) for side in ("less", "greater")}
    # The true sizes, which are private, are not considered with probability 1e-5.
    assert found["less"].pvalue_ == 0.005 + 1e-5 and found["greater"].pvalue_ == 1.0
    sizes = found["less"].released_sizes_
    assert sum(sizes) == 40 and abs(sizes[0] - 20) < 8
    assert abs(found["less"].statistic_ + 200) < 20
    one = SignedRankTest(epsilon=50.0, random_state=0, n_simulations=199).fit(pd.Series(x + 1))
    assert one.pvalue_ == 0.005 and abs(one.statistic_ - 820) < 30
    assert "40 (public)" in str(one.summary())


def test_bad_parameters() -> None:
    for made, words in (
        (MannWhitneyTest(), "groups must"),
        (MannWhitneyTest(groups=[1]), "two labels"),
        (MannWhitneyTest(groups=[1, 2, 3]), "KruskalWallisTest"),
        (MannWhitneyTest(groups=[1, 1]), "distinct"),
        (KruskalWallisTest(groups=[1]), "two labels or more"),
        (MannWhitneyTest(**TWO, sizes=[3, 3]), "add up to n_samples = 10"),
        (MannWhitneyTest(**TWO, sizes=[0, 10]), "at least 1"),
        (MannWhitneyTest(**TWO, sizes=5), "sizes must"),
        (MannWhitneyTest(**TWO, sizes=np.array(5)), "sizes must"),
        (MannWhitneyTest(**TWO, alternative="more"), "alternative"),
        (SignedRankTest(epsilon=0), "epsilon"),
        (SignedRankTest(n_simulations=1), "n_simulations"),
    ):
        with pytest.raises(InvalidParameter, match=words):
            made.plan(10)
    with pytest.raises(InvalidParameter, match="n_features"):
        SignedRankTest().plan(10, 2)


def test_bad_data_charges_nothing() -> None:
    budget = PrivacyBudget(1.0)
    for made, given in (
        (SignedRankTest(), ([1.0, np.nan],)),
        (SignedRankTest(), ([1.0, np.inf],)),
        (SignedRankTest(), ([1.0],)),
        (SignedRankTest(), (["a", 1.0],)),
        (SignedRankTest(), (np.ma.masked_equal([1.0, 2.0], 2.0),)),
        (MannWhitneyTest(**TWO), ([1.0, 2.0],)),
        (MannWhitneyTest(**TWO), ([1.0, 2.0], [0])),
        (MannWhitneyTest(**TWO), ([1.0, 2.0], [0, 7])),
        (MannWhitneyTest(**TWO), ([1.0, 2.0], [0, None])),
    ):
        with pytest.raises(InvalidData):
            made.set_params(budget=budget).fit(*given)
    assert budget.history() == ()
    with pytest.raises(BudgetExceeded):
        SignedRankTest(epsilon=2.0, budget=budget).fit(["unread", "too"])
