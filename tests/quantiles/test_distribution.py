"""PrivateDistribution: a cdf that is one, a band that covers, quantiles that follow from it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpstats.errors import InvalidParameter
from dpstats.plots import plot_distribution
from dpstats.quantiles import PrivateDistribution, distribution

NORMAL = {"bounds": (-8.0, 8.0), "bins": 128, "epsilon": 1.0}
COUNTS = {"bounds": (0, 30), "step": 1, "epsilon": 1.0}


def test_without_noise_it_is_the_distribution_of_the_rows() -> None:
    x = np.random.default_rng(0).normal(size=1000)
    made = PrivateDistribution(**{**NORMAL, "epsilon": 1e3}).fit(x)
    np.testing.assert_allclose(made.cdf_, [(x <= edge).mean() for edge in made.edges_], atol=1e-12)
    counts = np.random.default_rng(0).poisson(3, size=1000)
    made = PrivateDistribution(**{**COUNTS, "epsilon": 1e3}).fit(counts)
    np.testing.assert_allclose(made.cdf(np.arange(31)), [(counts <= k).mean() for k in range(31)], atol=1e-12)
    assert (
        made.quantile([0.1, 0.5, 0.9]).tolist() == np.quantile(counts, [0.1, 0.5, 0.9], method="inverted_cdf").tolist()
    )


def test_rows_on_an_edge_are_at_or_below_it() -> None:
    x = np.repeat([0.0, 0.1, 0.3, 0.7, 1.0, 5.0], 100)
    made = PrivateDistribution(bounds=(0, 1), bins=10, epsilon=1e3).fit(x)
    np.testing.assert_allclose(made.cdf_[[0, 1, 2, 6, 8, 9]], [2 / 6, 2 / 6, 3 / 6, 4 / 6, 4 / 6, 1.0], atol=1e-9)


@pytest.mark.parametrize(
    ("bounds", "bins", "atom"), [((35, 42), 70, 35.2), ((1000, 1001), 100, 1000.07), ((-1, 1), 200, -0.63)]
)
def test_an_atom_on_an_edge_is_at_or_below_it(bounds: tuple[float, float], bins: int, atom: float) -> None:
    x = np.r_[np.full(500, atom), np.full(500, bounds[1])]
    for options in ({"bins": bins}, {"step": round((bounds[1] - bounds[0]) / bins, 4)}):
        made = PrivateDistribution(bounds=bounds, epsilon=100.0, random_state=0, **options).fit(x)
        assert made.cdf(atom) == pytest.approx(0.5, abs=0.02) and made.quantile(0.4) <= atom
        (low,), (high,) = made.band([atom])
        assert low <= 0.5 <= high and high - low < 0.2


@pytest.mark.parametrize("options", [NORMAL, COUNTS, {**NORMAL, "delta": 1e-6}])
def test_a_cdf_is_a_cdf(options: dict[str, object]) -> None:
    x = np.random.default_rng(0).poisson(3, size=50)
    made = PrivateDistribution(random_state=0, **options).fit(x)
    assert np.all(np.diff(made.cdf_) >= 0) and made.cdf_[-1] == 1.0 and made.cdf_[0] >= 0
    low, high = made.band()
    assert np.all(low <= high) and np.all(np.diff(low) >= 0) and np.all(np.diff(high) >= 0)
    assert made.cdf(-100) == 0.0 and made.cdf(100.0) == 1.0
    q = np.arange(1, 20) / 20
    assert np.all(np.diff(made.quantile(q)) >= 0)
    ends = made.confidence_interval(q=q)
    assert np.all(ends.low <= made.quantile(q)) and np.all(made.quantile(q) <= ends.high)
    assert isinstance(made.quantile(0.5), float) and isinstance(made.cdf(0.3), float)


# 200 datasets a law: a coverage of .95 is seen as less than .88 once in 50,000 times. Seeds are fixed.


@pytest.mark.parametrize("law", ["normal", "poisson", "contaminated"])
def test_the_band_covers_everywhere_at_once(law: str) -> None:
    rng = np.random.default_rng(5)
    draw = {
        "normal": lambda: rng.normal(size=300),
        "poisson": lambda: rng.poisson(3, size=300),
        "contaminated": lambda: np.where(rng.random(300) < 0.3, 0.0, rng.standard_cauchy(300)),
    }[law]
    cdf = {
        "normal": stats.norm.cdf,
        "poisson": lambda x: stats.poisson(3).cdf(np.floor(x)),
        "contaminated": lambda x: 0.7 * stats.cauchy.cdf(x) + 0.3 * (np.asarray(x) >= 0),
    }[law]
    options = {**COUNTS, "delta": 1e-6} if law == "poisson" else {**NORMAL, "delta": 1e-6}
    at = np.linspace(-7.9, 7.9, 300) if law != "poisson" else np.linspace(0, 29.5, 120)
    truth = cdf(at)
    inside, narrow = [], []
    for _ in range(200):
        made = PrivateDistribution(random_state=rng, **options).fit(draw())
        low, high = made.band(at)
        inside.append(np.all((low <= truth + 1e-12) & (truth <= high + 1e-12)))
        middle, half = (low + high) / 2, (high - low) / 6
        narrow.append(np.all(np.abs(truth - middle) <= half + 1e-12))
    assert np.mean(inside) >= 0.88
    # A third of its width does not.
    assert np.mean(narrow) < 0.6


@pytest.mark.parametrize(
    ("n", "epsilon", "share", "missing"),
    [(50, 0.05, 0.0, "error"), (300, 1.0, 0.95, "drop"), (200, 0.5, 0.5, "drop"), (1000, 1.0, 1.0, "drop")],
)
def test_the_band_covers_where_noise_hides_the_rows(n: int, epsilon: float, share: float, missing: str) -> None:
    rng, covered = np.random.default_rng(1), 0
    for seed in range(100):
        x = rng.exponential(2, size=n)
        x[rng.random(n) < share] = np.nan
        made = PrivateDistribution(bounds=(0, 20), bins=32, epsilon=epsilon, missing=missing, random_state=seed)
        band = made.fit(x).band()
        truth = np.append(1 - np.exp(-made.edges_[:-1] / 2), 1.0)
        covered += np.all((band.low <= truth) & (truth <= band.high))
    # A coverage of .95 is seen as less than .86 once in 5,000 times.
    assert covered >= 86


def test_of_observed_rows_it_is_their_distribution() -> None:
    x = np.random.default_rng(0).normal(size=500)
    whole = PrivateDistribution(**{**NORMAL, "epsilon": 1e4}, random_state=0).fit(x)
    holes = np.where(np.arange(1000) % 2 == 0, np.repeat(x, 2), [np.nan, np.inf] * 500)
    made = PrivateDistribution(**{**NORMAL, "epsilon": 1e4}, missing="drop", random_state=0).fit(holes)
    assert made.rows_ == pytest.approx(500, abs=0.1)
    np.testing.assert_allclose(made.cdf_, whole.cdf_, atol=1e-3)
    assert "observed rows" in made.estimates().estimand and "Rows observed" in str(made.summary())


def test_intervals_of_quantiles_are_read_from_the_band() -> None:
    x = np.random.default_rng(0).lognormal(size=5000)
    made = PrivateDistribution(bounds=(0, 40), random_state=0).fit(x)
    low, high = made.confidence_interval(q=[0.1, 0.5, 0.9])
    truth = stats.lognorm(1).ppf([0.1, 0.5, 0.9])
    assert np.all((low <= truth) & (truth <= high))
    band = made.band()
    for q, a, b in zip((0.1, 0.5, 0.9), low, high, strict=True):
        assert all(made.edges_[band.high < q] <= a) and band.low[made.edges_ == b] >= q
    assert made.band([0.0, 3.0]).simultaneous and made.band(confidence_level=0.5).high[50] <= band.high[50]


def test_the_plan_says_how_wide_the_band_will_be() -> None:
    sizes = (500, 5000, 50_000)
    plans = [PrivateDistribution(bounds=(0, 1), delta=1e-6).plan(n) for n in sizes]
    widths = [plan.band_half_width(0.95) for plan in plans]
    # Sampling alone: sqrt(log(40)/2n).
    assert all(width > np.sqrt(np.log(40) / 2 / n) for width, n in zip(widths, sizes, strict=True))
    assert widths[2] < widths[1] / 2 < widths[0] / 4
    plan = PrivateDistribution(bounds=(0, 1)).plan(500)
    assert "half-width of the 95% band" in plan.notes()[0] and plan.facts()["cells"] == 1024
    assert plan.cdf_noise_std > 0
    # Too few rows to say anything.
    assert PrivateDistribution(bounds=(0, 1), epsilon=0.01).plan(5).band_half_width(0.95) == 1.0


def test_simulated_noise_is_kept_for_no_single_edge() -> None:
    # The errors at a million edges took 9 GB, for a fit of 0.02 s.
    plan = PrivateDistribution(bounds=(0, 1), bins=256, missing="drop").plan(500)
    noise = distribution._simulated(plan)
    assert noise.largest.shape == noise.rows.shape == (distribution._SIMULATED,)
    assert np.all(noise.largest >= np.abs(noise.rows))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bins": 1}, "bins must"),
        ({"step": 1e-7}, "step must"),
        ({"bounds": None}, "bounds must"),
        ({"delta": 1.0}, "delta must"),
    ],
)
def test_bad_parameters_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        PrivateDistribution(**{"bounds": (0, 1), **options}).plan(50)


def test_bad_questions_are_named() -> None:
    made = PrivateDistribution(bounds=(0, 1), random_state=0).fit(np.linspace(0, 1, 50))
    questions = (lambda: made.cdf("a"), lambda: made.cdf([np.nan]), lambda: made.quantile(0))
    for ask in questions:
        with pytest.raises(InvalidParameter):
            ask()


def test_the_band_of_declared_values_is_drawn_from_each_value_on() -> None:
    rows = np.repeat([1.0, 3.0, 4.0], [3000, 4000, 3000])
    fitted = PrivateDistribution(bounds=(0, 8), step=1, epsilon=20.0, random_state=0).fit(rows)
    band = fitted.band()
    area = plot_distribution(fitted).axes[0].collections[0].get_paths()[0]
    for value, low, high in zip(fitted.edges_[:-1], band.low[:-1], band.high[:-1], strict=True):
        if high - low > 1e-3:
            assert area.contains_point((value + 0.5, (low + high) / 2)), value


@pytest.mark.parametrize("step", [None, 1.0])
def test_a_band_at_any_point_is_that_of_the_edges_around_it(step: float | None) -> None:
    x = np.random.default_rng(4).integers(0, 9, size=2000)
    options = {"bins": 8} if step is None else {"step": step}
    made = PrivateDistribution(bounds=(0, 8), random_state=0, **options).fit(x)
    edges, (low, high) = made.edges_, made.band()
    for at, which in ((edges, 0.0), (edges[:-1] + np.diff(edges) / 2, 0.5)):
        between = made.band(at)
        np.testing.assert_array_equal(between.low, low[: len(at)])
        # On a declared grid no row is between two points; otherwise the cdf rises to the next edge.
        further = 0 if step is not None or which == 0 else 1
        np.testing.assert_array_equal(between.high, high[further : further + len(at)])
    below = made.band([-1.0])
    assert below.low[0] == below.high[0] == 0.0
    above = made.band([9.0])
    assert (above.low[0], above.high[0]) == (low[-1], high[-1] if step is not None else 1.0)


@pytest.mark.parametrize("level", [None, "x", -1, 0, 1, np.nan, [0.5], 10**400])
def test_a_level_of_a_planned_band_that_is_none_is_refused(level: object) -> None:
    with pytest.raises(InvalidParameter, match="level must"):
        PrivateDistribution(bounds=(0, 1), bins=8).plan(100).band_half_width(level)  # type: ignore[arg-type]
