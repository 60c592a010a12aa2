"""Lines that break once: the place and both slopes are found, intervals cover, and it says where it cannot tell."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.simulation import fit_rate
from dpstats.simulation.cell_fits import bent, fit_broken_line
from tests.simulation.synthetic import power_law, synthetic

N = [50, 100, 200, 400, 800, 1600, 3200, 6400]


def broken(cell) -> float:
    # n^-2 up to 600, n^-1/2 from there on.
    return cell["d"] * min(cell["n"] / 600, 1.0) ** -2 * max(cell["n"] / 600, 1.0) ** -0.5


def cells(*d: int) -> list[dict]:
    return [{"n": n, "d": k} for k in d for n in N]


def test_both_regimes_are_found_and_intervals_cover() -> None:
    # Of 20 studies intervals at 95% miss in more than 6 with probability 4e-5, each of the three.
    rng = np.random.default_rng(0)
    fits = [fit_rate(synthetic(broken, rng, cells(1), replications=400), "n") for _ in range(20)]
    assert all(not fit.fits and fit.two is not None and fit.two.pvalue > 1e-4 for fit in fits)
    two = [fit.two for fit in fits if fit.two is not None]
    for estimates, truth in (
        ([(found.slopes[0], found.intervals[0]) for found in two], -2.0),
        ([(found.slopes[1], found.intervals[1]) for found in two], -0.5),
        ([(found.place, found.place_interval) for found in two], 600.0),
    ):
        assert sum(interval is None or not interval.low <= truth <= interval.high for _, interval in estimates) <= 6
        assert np.mean([value for value, _ in estimates]) == pytest.approx(truth, rel=0.05)
        assert all(interval is not None and interval.low <= value <= interval.high for value, interval in estimates)


@pytest.mark.parametrize(("place", "outer"), [(90.0, 0), (4500.0, 1)])
def test_a_break_between_the_outermost_values_leaves_the_slope_beyond_it_open(place: float, outer: int) -> None:
    def risk(cell) -> float:
        return min(cell["n"] / place, 1.0) ** -2 * max(cell["n"] / place, 1.0) ** -0.5

    rng = np.random.default_rng(5)
    fits = [fit_rate(synthetic(risk, rng, cells(1), replications=400), "n") for _ in range(6)]
    told = [fit for fit in fits if fit.two is not None]
    assert len(told) >= 3
    for fit in told:
        assert fit.two is not None and fit.two.intervals[outer] is None and not fit.two.determined
        assert fit.two.place_interval.low <= place <= fit.two.place_interval.high
        words = " ".join(str(fit).split())
        assert "not determined: one value beyond the break" in words and "and fits" not in words


def test_groups_share_slopes_and_have_intercepts() -> None:
    found = fit_rate(synthetic(broken, np.random.default_rng(1), cells(1, 50), replications=2000), "n").two
    assert found is not None and found.slopes[0] == pytest.approx(-2, abs=0.05)
    assert found.slopes[1] == pytest.approx(-0.5, abs=0.05) and found.place == pytest.approx(600, rel=0.1)


def test_a_line_that_fits_is_one_regime_and_few_cells_tell_nothing() -> None:
    rng = np.random.default_rng(2)
    fits = [fit_rate(synthetic(power_law(-1), rng, cells(1)), "n") for _ in range(60)]
    # At .01 each: more than 5 of 60 with probability 1e-4.
    assert sum(not fit.fits for fit in fits) <= 5
    few = fit_rate(synthetic(broken, rng, cells(1)[2:6], replications=2000), "n")
    assert not few.fits and few.two is None and "Too few cells" in str(few)


def test_what_bends_all_the_way_fits_neither() -> None:
    def curved(cell) -> float:
        return float(np.exp(-0.3 * np.log(cell["n"] / 50) ** 2))

    fit = fit_rate(synthetic(curved, np.random.default_rng(3), cells(1), replications=20_000), "n")
    assert not fit.fits and fit.two is not None and fit.two.pvalue < 0.01
    assert "it changes more than once, or gradually" in " ".join(str(fit).split())


def test_the_break_is_exact_where_there_is_no_noise() -> None:
    x = np.log(np.array(N, dtype=float))
    place = float(np.linspace(x[1], x[-2], 200)[80])
    means = bent(x, place) @ np.array([-2.0, -0.5]) + 3.0
    found = fit_broken_line("n", x, np.ones((x.size, 1)), means, np.full(x.size, 0.01), 0.95, 1e6)
    assert found is not None and found.slopes == pytest.approx((-2.0, -0.5))
    assert found.place == pytest.approx(np.exp(place)) and found.pvalue == pytest.approx(1.0)
