"""Sums of two powers: both exponents are found, intervals cover, and the report says whose an interval is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpstats.simulation import fit_rate
from dpstats.simulation.cell_fits import fit_power_sum
from tests.simulation.synthetic import synthetic
from tests.simulation.test_broken_line import N, broken, cells


def added(cell) -> float:
    return cell["d"] * ((cell["n"] / 600) ** -2 + (cell["n"] / 600) ** -1)


def test_both_exponents_are_found_and_intervals_cover() -> None:
    # Of 12 studies intervals at 95% miss in more than 5 with probability 1e-5, each of the two.
    rng = np.random.default_rng(0)
    fits = [fit_rate(synthetic(added, rng, cells(1), replications=2000), "n") for _ in range(12)]
    sums = [fit.powers for fit in fits if fit.powers is not None]
    assert len(sums) == 12 and all(found.pvalue > 1e-4 for found in sums)
    for which, truth in enumerate((-2.0, -1.0)):
        misses = [not found.intervals[which].low <= truth <= found.intervals[which].high for found in sums]
        assert sum(misses) <= 5
        assert np.mean([found.exponents[which] for found in sums]) == pytest.approx(truth, abs=0.05)
        # The slopes of a broken line are not exponents of a sum.
        regimes = [fit.two.intervals[which] for fit in fits if fit.two is not None]
        assert sum(one is None or not one.low <= truth <= one.high for one in regimes) > 5


def test_the_report_says_whose_an_interval_is() -> None:
    rng = np.random.default_rng(1)
    fit = fit_rate(synthetic(added, rng, cells(1), replications=20_000), "n")
    words = " ".join(str(fit).split())
    assert "first of two powers" in words and "broken line" in words
    assert "The slopes of the broken line are not exponents of such a sum" in words
    fit = fit_rate(synthetic(broken, rng, cells(1), replications=20_000), "n")
    assert "A n^a + B n^b: it does not fit" in " ".join(str(fit).split())
    fit = fit_rate(synthetic(added, rng, cells(1)[::3], replications=20_000), "n")
    assert not fit.fits and "Too few cells for a sum of two powers" in " ".join(str(fit).split())


def test_groups_share_exponents() -> None:
    fit = fit_rate(synthetic(added, np.random.default_rng(2), cells(1, 50), replications=5000), "n")
    assert fit.powers is not None and fit.powers.exponents == pytest.approx((-2, -1), abs=0.1)


def test_an_exponent_that_the_cells_do_not_bound_has_an_infinite_end() -> None:
    # A term that counts at the first value only may fall arbitrarily fast.
    x = np.log(np.array(N, dtype=float))
    risk = np.exp(-x)
    risk[0] *= 1.5
    found = fit_power_sum("n", x, np.ones((x.size, 1)), np.log(risk), np.full(x.size, 0.01), 0.95, 1e6)
    assert found is not None and found.intervals[0].low == -math.inf
    assert found.intervals[1].low <= -1 <= found.intervals[1].high < 0
