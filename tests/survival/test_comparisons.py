"""Comparisons of groups of one released table: any of them, in pairs and in strata."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.duration.survfunc import survdiff

from dpstats.errors import InvalidParameter
from dpstats.survival import LogRankTest, PrivateSurvival


def test_any_groups_of_a_table_are_compared() -> None:
    rng = np.random.default_rng(0)
    n = 6000
    arm = rng.integers(3, size=n)
    times, left = rng.exponential(np.where(arm == 2, 3.0, 2.0)), rng.exponential(4.0, n)
    rows = np.minimum(times, left), times <= left
    model = PrivateSurvival(horizon=4.0, bins=40, groups=[0, 1, 2], epsilon=1e6, random_state=0)
    model.fit(*rows, arm)
    within, counted = np.minimum(rows[0], 4.0), rows[1] & (rows[0] <= 4.0)
    for chosen in ([0, 1], [2, 0], [0, 1, 2]):
        used = np.isin(arm, chosen)
        known = survdiff(within[used], counted[used], arm[used])
        found = model.log_rank(chosen)
        assert found.statistic == pytest.approx(known[0], rel=0.05, abs=0.1)
        assert found.degrees_of_freedom == len(chosen) - 1 and found.names == tuple(map(str, chosen))
    pairs = model.pairwise_log_rank()
    raw = model.pairwise_log_rank(adjust="none")
    assert list(pairs) == [(0, 1), (0, 2), (1, 2)]
    ordered = sorted(raw, key=lambda pair: raw[pair].pvalue)
    assert pairs[ordered[0]].pvalue == pytest.approx(3 * raw[ordered[0]].pvalue)
    assert pairs[ordered[2]].pvalue == pytest.approx(raw[ordered[2]].pvalue)
    assert "adjusted for 3 pairs" in str(pairs[0, 1].summary())
    for wrong in ([0], [0, 0], [0, 7], 3, "ab"):
        with pytest.raises(InvalidParameter, match="groups must"):
            model.log_rank(wrong)
    with pytest.raises(InvalidParameter, match="strata must"):
        model.log_rank([0, 1], strata=[(0, 1)])
    with pytest.raises(InvalidParameter, match="adjust must"):
        model.pairwise_log_rank("tukey")


def test_the_noise_of_strata_is_counted_together() -> None:
    rng = np.random.default_rng(0)
    n, rejected = 2000, 0
    for seed in range(100):
        stratum = rng.integers(2, size=n)
        arm = (rng.random(n) < np.where(stratum == 1, 0.7, 0.3)).astype(int)
        times, left = rng.exponential(1 / (1.0 + stratum)), rng.exponential(1.0 + arm)
        model = PrivateSurvival(horizon=1.0, bins=6, groups=range(4), epsilon=0.5, random_state=seed)
        model.fit(np.minimum(times, left), times <= left, 2 * stratum + arm)
        rejected += model.log_rank(strata=[(0, 1), (2, 3)]).pvalue <= 0.05
    # At a level of 0.06, P(16 or more of 100) is below 5e-4.
    assert rejected < 16


@pytest.mark.parametrize(("n", "epsilon", "bins"), [(4617, 0.2, 12), (20_000, 1.0, 3)])
def test_comparisons_that_depend_on_a_shape_inside_a_bin_are_named(n: int, epsilon: float, bins: int) -> None:
    # Rows of one arm leave in the first bin, where most events are. The smaller table has no positions.
    rng = np.random.default_rng(0)
    arm, width = rng.integers(2, size=n), 1 / bins
    times = np.where(rng.random(n) < 0.6, np.abs(rng.normal(0.3, 0.15, n)) * width, rng.exponential(4.0, n))
    left = np.where((arm == 0) & (rng.random(n) < 0.6), rng.uniform(0, width, n), 2.0)
    rows = np.minimum(np.minimum(times, left), 1.0), (times <= left) & (times < 1.0)
    given = {"horizon": 1.0, "bins": bins, "groups": [0, 1], "epsilon": epsilon, "random_state": 0}
    for discrete in (False, True):
        model = PrivateSurvival(**given, discrete=discrete).fit(*rows, arm)
        test = LogRankTest(**given, discrete=discrete).fit(*rows, arm)
        for found in (model.log_rank(), model.hazard_ratio(0, 1), test.result_):
            named = [note for note in found.notes if "The comparison depends on the shape of the hazard" in note]
            assert len(named) == 1 - discrete, found
    model = PrivateSurvival(**given).fit(np.minimum(times, 1.0), times < 1.0, arm)  # nobody leaves
    assert not any("The comparison depends" in note for note in model.log_rank().notes)
