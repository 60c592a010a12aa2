"""Means that release the covariance first: what they say, on ordinary and on awkward rows."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.lattice import BallLattice
from dpstats.means import AdaptiveMean
from dpstats.means.boxed_errors import WhitenedBall
from dpstats.privacy import PrivacyBudget

N, D = 3000, 4


def rows(seed: int, n: int = N, d: int = D) -> np.ndarray:
    """Return normal rows with a covariance of condition 1e4."""
    turn, _ = np.linalg.qr(np.random.default_rng(7).normal(size=(d, d)))
    return np.random.default_rng(seed).normal(size=(n, d)) @ (turn * np.logspace(0, -2, d)).T


def mean(**options: Any) -> AdaptiveMean:
    given = {"bound": 10.0, "std": "private", "std_bound": 2.0, "cov": "private", "random_state": 0}
    return AdaptiveMean(**given | options)


def test_the_error_has_the_shape_of_the_rows() -> None:
    whitening = np.linalg.inv(np.linalg.cholesky(np.cov(rows(0, 100_000).T)))
    errors = {}
    for cov in ("private", None):
        found = [whitening @ mean(cov=cov, tails="symmetric", random_state=k).fit(rows(k + 1)).mean_ for k in range(12)]
        errors[cov] = np.sqrt(np.mean(np.square(found)) * N)
    # Of the sample mean it is 1; an oracle with the same noise has 1.2.
    assert errors["private"] < 1.6
    assert errors[None] > 5 * errors["private"]


@pytest.mark.parametrize("tails", ["subgaussian", "symmetric"])
def test_intervals_cover_what_they_say(tails: str) -> None:
    hit: dict[str, list[float]] = {}
    for k in range(60):
        made = mean(tails=tails, random_state=k).fit(rows(k))
        for name in made._answers().estimands:
            low, high = made.confidence_interval(estimand=name)
            hit.setdefault(name, []).append(float(np.mean((low <= 0) & (high >= 0))))
    assert "population" in hit and ("tails" in hit) == (tails == "subgaussian")
    for name, covered in hit.items():
        # 240 intervals: 0.95 less three standard errors.
        assert np.mean(covered) > 0.9, name


def test_skewed_rows_are_covered_where_their_mean_is_asked_for() -> None:
    rng = np.random.default_rng(0)
    for k in range(20):
        made = mean(random_state=k).fit(rng.exponential(size=(N, D)))
        low, high = made.confidence_interval()
        assert np.all((low <= 1) & (high >= 1))
        # More rows are clipped than normal tails allow, and no interval assumes them.
        assert made.assumption_refuted_ and "tails" not in made._answers().estimands
    with pytest.raises(InvalidParameter, match="refutes"):
        made.confidence_interval(estimand="tails")
    assert "heavier than normal" in str(made.summary())


@pytest.mark.parametrize("kind", ["constant", "duplicate", "binary", "far out"])
def test_awkward_columns(kind: str) -> None:
    X = rows(1)
    if kind == "constant":
        X[:, 0] = 2.0
    if kind == "duplicate":
        X[:, 1] = X[:, 0]
    if kind == "binary":
        X[:, 0] = X[:, 0] > 0
    if kind == "far out":
        X[:3] = 1e300
    truth = np.where([kind == "far out"] * D, 0.0, X.mean(axis=0))
    made = mean().fit(X)
    low, high = made.confidence_interval()
    assert np.all((low <= truth) & (truth <= high)) and np.all(made.std_ >= 0)
    assert np.isfinite(made.cov_params_).all() and np.linalg.eigvalsh(made.cov_params_)[0] >= -1e-12


def test_a_spread_that_is_stated_too_small_is_named() -> None:
    X = 8 * rows(2)
    made = mean(std_bound=1.0).fit(X)
    assert "REFUTED" in str(made.summary())
    assert made.confidence_interval().low[0] < 0 < made.confidence_interval().high[0]


def test_covariances_of_the_error_are_those_of_the_rows() -> None:
    made = mean(tails="symmetric", epsilon=50.0).fit(rows(3))
    true = np.cov(rows(4, 100_000).T) / N
    np.testing.assert_allclose(made.cov_params_, true, atol=0.25 * true.max())
    assert made.covariance_.shape == (D, D)
    np.testing.assert_allclose(np.diagonal(made.cov_params_) ** 0.5, made.estimates().error, rtol=0.2)


def test_stage_means_end_with_the_estimate() -> None:
    made = mean().fit(rows(5))
    assert made.stage_means_.shape == (made.plan_.n_rounds + 1, D)
    np.testing.assert_allclose(made.stage_means_[-1], made.mean_, atol=1e-3)
    assert made.estimates().to_frame().shape[0] == D
    again = pickle.loads(pickle.dumps(made))
    assert str(again.summary()) == str(made.summary())


def test_missing_entries() -> None:
    X = rows(6)
    X[::20, 1] = np.nan
    with pytest.raises(InvalidData):
        mean().fit(X)
    centered = mean(missing="center").fit(X)
    low, high = centered.confidence_interval()
    assert np.all((low <= 0) & (high >= 0))
    dropped = mean(missing="drop").fit(X)
    assert dropped.n_rows_ < 2900 and dropped.plan_.facts()["route"] == "covariance"
    assert "observed rows" in dropped.estimand_


def test_containers_give_the_release_of_the_array() -> None:
    duckdb, pandas = pytest.importorskip("duckdb"), pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows(8), columns=list("abcd"))
    expected = mean().fit(frame.to_numpy())
    relation = duckdb.from_df(frame)
    bounds = dict.fromkeys("abcd", (-10.0, 10.0))
    for X in (frame, relation):
        made = mean(bound=None, bounds=bounds).fit(X)
        np.testing.assert_allclose(made.mean_, expected.mean_, rtol=1e-9, atol=1e-9)
        assert list(made.feature_names_in_) == list("abcd")


def test_a_budget_is_charged_what_the_plan_states() -> None:
    budget = PrivacyBudget(2.0, 1e-5)
    made = AdaptiveMean(bound=10.0, std=2.0, cov="private", budget=budget).fit(rows(9))
    assert budget.spent.epsilon == pytest.approx(1.0, rel=1e-6) and made.privacy_.epsilon == 1.0
    assert not made.privacy_.simulated


def test_hard_bounds_shorten_the_interval_of_rare_rows() -> None:
    X = np.clip(rows(10), -3, 3)
    hard = mean(bound=None, bounds=(-3, 3), bounds_are="hard", std_bound=None).fit(X)
    loose = mean(bound=None, bounds=(-3, 3), std_bound=3.0).fit(X)
    widths = [np.ptp(np.stack(made.confidence_interval()), axis=0) for made in (hard, loose)]
    assert np.all(widths[0] < widths[1])


def test_few_rows_keep_the_route_without_a_covariance() -> None:
    X = rows(11, 200)
    asked, plain = mean().fit(X), mean(cov=None).fit(X)
    np.testing.assert_array_equal(asked.mean_, plain.mean_)
    assert "too few for a covariance" in str(asked.summary())
    assert "covariance" not in str(plain.summary())


def test_text_other_than_private_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="cov must be 'private' or"):
        mean(cov="public").plan(N, D)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_whitened_rows_move_sums_as_far_as_rows_of_their_ball(norm: str) -> None:
    ball = BallLattice.build(2.0, 0.0, 3)
    whitened = WhitenedBall(np.zeros(3), ball.spacing, 3, ball.bits, ball, np.array([1.0, 0.5, 2.0]))
    assert whitened.sensitivity(norm) == ball.sensitivity(norm)
    assert whitened.square_sensitivity(norm) == ball.square_sensitivity(norm)
