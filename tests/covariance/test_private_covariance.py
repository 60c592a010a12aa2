"""Covariances and correlations: those of numpy without noise, and intervals that cover for rows of every kind."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from dpstats.covariance import PrivateCovariance
from dpstats.errors import BudgetExceeded, InvalidData, InvalidParameter
from dpstats.privacy import PrivacyBudget

RNG = np.random.default_rng(0)
X = RNG.multivariate_normal([0.5, 0.0, -0.5], [[1, 0.6, 0.0], [0.6, 1, 0.3], [0.0, 0.3, 1]], size=5000)


def test_without_noise_they_are_numpys() -> None:
    made = PrivateCovariance(bounds=(-8, 8), epsilon=1e5, random_state=0).fit(X)
    assert np.abs(made.covariance_ - np.cov(X.T)).max() < 1e-3
    assert np.abs(made.location_ - X.mean(axis=0)).max() < 1e-3
    expected = np.corrcoef(X.T)[np.triu_indices(3, 1)]
    assert np.abs(made.correlation().estimate - expected).max() < 1e-3


def test_without_noise_errors_are_those_of_large_samples() -> None:
    made = PrivateCovariance(bounds=(-5, 5), epsilon=1e5, random_state=0).fit(X)
    centered = X - X.mean(axis=0)
    products = centered[:, 0] * centered[:, 1]
    assert made.standard_error_[1] == pytest.approx(products.std() / np.sqrt(len(X)), rel=0.01)
    r = np.corrcoef(X.T)[0, 1]
    u, v = (centered / centered.std(axis=0))[:, :2].T
    influence = u * v - r * (u**2 + v**2) / 2
    assert made.correlation().error[0] == pytest.approx(influence.std() / np.sqrt(len(X)), rel=0.02)


def test_noise_has_the_stated_standard_deviation() -> None:
    fits = [PrivateCovariance(bounds=(-5, 5), random_state=seed).fit(X) for seed in range(200)]
    ratio = np.std([made.covariance_ for made in fits], axis=0) / fits[0].noise_std_
    # The standard deviation of 200 draws has an error of 5%: five of them, a false alarm below 1e-5.
    assert np.abs(ratio - 1).max() < 0.25
    bias = (np.mean([made.covariance_ for made in fits], axis=0) - np.cov(X.T)) / fits[0].noise_std_
    assert np.abs(bias).max() < 6 / 14


def discrete(rng: np.random.Generator, n: int) -> np.ndarray:
    a = rng.random(n) < 0.3
    return np.column_stack([a, np.where(rng.random(n) < 0.7, a, rng.random(n) < 0.3)]).astype(float)


def skewed(rng: np.random.Generator, n: int) -> np.ndarray:
    common = rng.exponential(1.0, n)
    return np.column_stack([common + rng.exponential(1.0, n), common + rng.exponential(1.0, n)])


def heavy(rng: np.random.Generator, n: int) -> np.ndarray:
    z = rng.multivariate_normal([0, 0], [[1, 0.7], [0.7, 1]], size=n)
    return z / np.sqrt(rng.chisquare(3, n) / 3)[:, None]


def normal(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.multivariate_normal([0, 0], [[1, 0.7], [0.7, 1]], size=n)


CASES = [
    (discrete, (0.0, 1.0)),
    (skewed, (0.0, 6.0)),
    (heavy, (-5.0, 5.0)),
    (normal, (-4.0, 4.0)),
    (normal, (-1.0, 0.5)),
]


@pytest.mark.parametrize(("n", "epsilon"), [(5000, 1.0), (5000, 0.05), (1000, 1e5)])
@pytest.mark.parametrize(("draw", "bounds"), CASES, ids=lambda case: getattr(case, "__name__", str(case)))
def test_intervals_cover(
    draw: Callable[[np.random.Generator, int], np.ndarray], bounds: tuple[float, float], n: int, epsilon: float
) -> None:
    truth = np.cov(np.clip(draw(np.random.default_rng(1), 1_000_000), *bounds).T)
    r = truth[0, 1] / np.sqrt(truth[0, 0] * truth[1, 1])
    rng, hits = np.random.default_rng(2), []
    for seed in range(200):
        made = PrivateCovariance(bounds=bounds, epsilon=epsilon, random_state=seed).fit(draw(rng, n))
        low, high = made.confidence_interval()
        least, most = made.correlation().confidence_interval()
        expected = truth[np.triu_indices(2)]
        hits.append([*((low <= expected) & (expected <= high)), least[0] <= r <= most[0]])
    # At a coverage of 0.95 fewer than 177 of 200 hits have a probability of 1e-4, for each of 60 checks.
    assert np.sum(hits, axis=0).min() >= 177


def test_columns_without_spread_are_not_identified() -> None:
    data = np.column_stack([X, np.full(len(X), 0.3)])
    made = PrivateCovariance(bounds=(-4, 4), random_state=0).fit(data)
    found = made.correlation()
    low, high = found.confidence_interval()
    with_constant = [name.endswith("x3") for name in found.names]
    assert made.identified_.tolist() == [[True] * 3 + [False]] * 3 + [[False] * 4]
    assert (low[with_constant] == -1).all() and (high[with_constant] == 1).all()
    assert np.isnan(found.error[with_constant]).all()
    assert "Not identified: x3" in str(found.summary())


def test_duplicate_columns_have_a_correlation_of_one() -> None:
    made = PrivateCovariance(bounds=(-4, 4), epsilon=4.0, random_state=0).fit(np.column_stack([X[:, 0]] * 2))
    low, high = made.correlation().confidence_interval()
    assert low[0] > 0.7 and high[0] == 1


def test_noise_alone_gives_no_false_precision() -> None:
    rng = np.random.default_rng(3)
    for seed in range(30):
        # More columns than rows: nothing is known.
        made = PrivateCovariance(bounds=(-4, 4), epsilon=0.05, random_state=seed).fit(rng.normal(size=(10, 12)))
        low, high = made.correlation().confidence_interval(simultaneous=True)
        assert ((low <= 0) & (high >= 0)).all()


def test_frames_give_names_and_results_survive_pickling() -> None:
    frame = pd.DataFrame(X, columns=["age", "income", "visits"])
    bounds = {"age": (-4, 4), "income": (-5, 5), "visits": (-6, 6)}
    made = PrivateCovariance(bounds=bounds, random_state=0).fit(frame)
    assert made.names_[:2] == ("age", "age, income")
    table = pickle.loads(pickle.dumps(made.correlation())).to_frame()
    assert list(table["first"]) == ["age", "age", "income"]
    assert list(table.index) == ["age, income", "age, visits", "income, visits"]


def test_a_heat_map_shows_every_pair() -> None:
    pytest.importorskip("matplotlib")
    made = PrivateCovariance(bounds=(-4, 4), random_state=0).fit(X)
    axes = made.heat_map()
    assert len(axes.texts) == 3 and made.heat_map(axes) is axes


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "bounds must be given"),
        ({"bounds": (1, 1)}, "bounds"),
        ({"bounds": (-1, 1), "epsilon": 0.0}, "epsilon"),
        ({"bounds": (-1, 1), "bounds_are": "soft"}, "bounds_are"),
    ],
)
def test_bad_parameters_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        PrivateCovariance(**options).plan(10, 2)


def test_bad_data_and_one_column_are_refused_by_name() -> None:
    budget = PrivacyBudget(1.0, 1e-6)
    bad = X.copy()
    bad[0, 0] = np.nan
    with pytest.raises(InvalidData):
        PrivateCovariance(bounds=(-4, 4), budget=budget).fit(bad)
    assert PrivateCovariance(bounds=(-4, 4), budget=budget).fit(X).covariance_.shape == (3, 3)
    with pytest.raises(BudgetExceeded):
        PrivateCovariance(bounds=(-4, 4), budget=budget).fit(X)
    with pytest.raises(InvalidParameter, match="n_features must be at least 2"):
        PrivateCovariance(bounds=(-4, 4), random_state=0).fit(X[:, :1]).correlation()


def test_a_plan_states_its_error() -> None:
    plan = PrivateCovariance(bounds=(-4, 4)).plan(5000, 3)
    made = PrivateCovariance(bounds=(-4, 4), random_state=0).fit(np.zeros((5000, 3)))
    assert plan.expected_error() == pytest.approx((made.noise_std_**2).sum(), rel=0.05)
    assert plan.expected_error(std=1.0) > plan.expected_error()


@pytest.mark.parametrize(("n", "epsilon"), [(20, 1.0), (1000, 0.05), (1000, 1.0)])
def test_the_error_of_a_plan_is_that_of_fits(n: int, epsilon: float) -> None:
    made = PrivateCovariance(bounds=(-6, 6), epsilon=epsilon)
    rng, errors = np.random.default_rng(0), []
    for seed in range(400):
        fitted = made.set_params(random_state=seed).fit(rng.normal(size=(n, 3)))
        errors.append(np.sum((fitted.covariance_ - np.eye(3)) ** 2))
    allowed = 4 * np.std(errors) / 20
    assert np.mean(errors) == pytest.approx(made.plan(n, 3).expected_error(std=1.0), abs=allowed)


@pytest.mark.parametrize("bounds", [(-1e308, 1e308), (0, 1e300), (0, 1e-303), (-1e-200, 1e-200)])
def test_bounds_that_leave_floating_point_are_refused_before_a_charge(bounds: tuple[float, float]) -> None:
    budget = PrivacyBudget(5.0, 1e-3)
    with pytest.raises(InvalidParameter, match="clip must be between 1e-140 and 1e\\+140"):
        PrivateCovariance(bounds=bounds, budget=budget).fit(np.zeros((60, 2)))
    assert not budget.history()


def test_estimates_are_possible_and_noise_is_named() -> None:
    rows = np.random.default_rng(0).uniform(-1, 1, (100, 2))
    made = PrivateCovariance(bounds=(-1, 1), epsilon=0.05, random_state=0).fit(rows)
    found = made.estimates()
    interval = found.confidence_interval()
    assert (np.abs(made.covariance_) > 1).any()
    assert np.isnan(found.estimate).all() and (interval.low == [0, -1, 0]).all()
    assert "Not estimated: x0, (x0, x1), x1" in str(found.summary())
    clear = PrivateCovariance(bounds=(-1, 1), epsilon=1e4, random_state=0).fit(rows).estimates()
    low, high = clear.confidence_interval()
    assert (low <= clear.estimate).all() and (clear.estimate <= high).all()
    assert "Not estimated" not in str(clear.summary())
