"""Regressions that choose their bounds: in any units, for one charge, with noise that depends on no bounds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dpstats.errors import ChargedError, DPStatsError, InvalidParameter
from dpstats.means import UnknownBounds
from dpstats.mechanisms.unknown_bounds import TAILS, WINDOWS
from dpstats.privacy import PrivacyBudget
from dpstats.regression import (
    PrivateCountRegression,
    PrivateGammaRegression,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    SufficientStatisticsRegression,
)

RNG = np.random.default_rng(0)
N = 4000
UNITS = np.array([1e-4, 2e8])
X = RNG.normal(5.0, 1.0, size=(N, 2))
Y = 3 + (X - 5) @ [0.5, -0.5] + RNG.normal(size=N)
BOTH = {"x_bounds": "private", "y_bounds": "private"}


@pytest.mark.parametrize("given", [BOTH, {"x_bounds": (0, 10), "y_bounds": "private"}, {**BOTH, "y_bounds": (-3, 9)}])
def test_bounds_are_found_for_one_charge(given):
    budget = PrivacyBudget(epsilon=4.0, delta=1e-6)
    fit = PrivateLinearRegression(**given, epsilon=4.0, budget=budget).fit(X, Y)
    assert len(budget.history()) == 1 and fit.privacy_.epsilon <= 4.0
    assert fit.plan_.located.plan.target.epsilon == 4.0 * 0.2
    assert np.abs(fit.coef_ - [0.5, -0.5]).max() < 6 * fit.standard_errors_.max()
    assert hasattr(fit, "x_bounds_") == (given["x_bounds"] == "private")
    assert hasattr(fit, "y_bounds_") == (given["y_bounds"] == "private")
    words = str(fit.summary())
    assert "chosen for 0.8 of epsilon = 4" in words and "Bounds were chosen from the rows" in words


def test_some_columns_have_declared_bounds():
    frame = pd.DataFrame(X, columns=["a", "b"])
    given = {"b": (0, 10), "a": "private"}
    fit = PrivateLinearRegression(x_bounds=given, y_bounds=(-3, 9), epsilon=4.0, random_state=0).fit(frame, Y)
    (line,) = [words for name, words in fit.summary().facts if name == "Bounds"]
    assert line.startswith("a: ") and "b: " not in line and "y: " not in line
    assert fit.x_bounds_[1].tolist() == [0, 10] and fit.beyond_bounds_.shape == (1, 2)
    # Only chosen columns cost, and they are chosen as if they were alone.
    assert fit.plan_.located.plan.n_features == 1
    alone = PrivateLinearRegression(x_bounds="private", y_bounds=(-3, 9), epsilon=4.0, random_state=0)
    assert fit.x_bounds_[0] == pytest.approx(alone.fit(frame[["a"]], Y).x_bounds_[0])


FORMULAS = [
    ("y ~ a + b", {"a": "private", "b": (0, 10), "y": "private"}, ["a", "y"]),
    ("y ~ b + C(arm)", {"b": UnknownBounds(within=(0, 90)), "y": (-3, 9)}, ["b"]),
    ("y ~ C(arm)", {"y": "private"}, ["y"]),
    ("log(b) ~ a", {"a": "private", "b": (1, 9)}, ["a"]),
]


@pytest.mark.parametrize(("formula", "bounds", "chosen"), FORMULAS)
def test_bounds_of_a_formula(formula, bounds, chosen):
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=Y, arm=np.where(np.arange(N) % 2, "new", "old"))
    fit = PrivateLinearRegression.from_formula(
        formula, frame, bounds=bounds, levels={"arm": ["old", "new"]}, epsilon=4.0, random_state=0
    )
    (line,) = [words for name, words in fit.summary().facts if name == "Bounds"]
    assert [part.split(": ")[0] for part in line.split(", ")[:-1]] == chosen
    assert np.isfinite(fit.predict(frame[:3])).all()


@pytest.mark.parametrize("formula", ["y ~ log(a)", "y ~ a:b", "log(y) ~ b", "y ~ bs(a, knots=[5])"])
def test_private_bounds_are_of_columns_alone(formula):
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=Y)
    bounds = {"a": "private", "b": (0, 9), "y": "private"}
    with pytest.raises(InvalidParameter, match="formula must"):
        PrivateLinearRegression.from_formula(formula, frame, bounds=bounds, epsilon=4.0)


def test_units_do_not_matter():
    fits = [
        PrivateLinearRegression(**BOTH, epsilon=4.0, random_state=1).fit(X * unit, Y * 1e6)
        for unit in (np.ones(2), 2.0**40 * np.ones(2))
    ]
    assert fits[1].coef_ * 2.0**40 == pytest.approx(fits[0].coef_, rel=1e-6)
    wide = PrivateLinearRegression(**BOTH, epsilon=4.0, random_state=1).fit(X * UNITS, Y)
    assert wide.coef_ * UNITS == pytest.approx([0.5, -0.5], abs=0.2)


@pytest.mark.parametrize(
    ("kind", "given", "y"),
    [
        (PrivateLogisticRegression, {}, (Y > 3).astype(float)),
        (PrivateCountRegression, {"y_bounds": (0, 60)}, RNG.poisson(np.exp(Y / 4)).astype(float)),
        (PrivateGammaRegression, {"y_bounds": (0, 60)}, np.exp(Y / 4)),
    ],
)
def test_covariates_of_other_regressions(kind, given, y):
    fit = kind(x_bounds="private", **given, epsilon=4.0, random_state=0).fit(X, y)
    assert fit.coef_[0] > 0 > fit.coef_[1] and fit.x_bounds_.shape == (2, 2)


OPTIONS = [
    ({}, 2, N),
    ({"cov_type": "nonrobust"}, 3, N),
    ({"missing": "drop"}, 1, N),
    ({"weight_bounds": (0, 1)}, 1, N),
    ({"offset_bounds": (-1, 1)}, 1, N),
    ({"factors": {"arm": ["a", "b"]}}, 1, N),
    ({"fit_intercept": False}, 2, N),
    ({}, 1, 300),  # few rows
    ({"x_bounds": (0, 1)}, 0, N),
]


@pytest.mark.parametrize(("options", "d", "n"), OPTIONS)
def test_the_stages_are_the_same_for_all_bounds(options, d, n):
    """The condition of theorem 2: integers, noise and cost depend on no bounds."""
    given = {**BOTH, **options}
    if d == 0 or n < N:
        given["x_bounds"] = (0, 1)
    plan = PrivateLinearRegression(**given, epsilon=2.0).plan(n, d)
    rest = plan.located.target.epsilon
    for low, high in ((-1.0, 1.0), (1e-30, 1e-29), (5.0, 1e30)):
        own = {**options, "x_bounds": (low, high), "y_bounds": (3 * low, 8 * high)}
        fixed = PrivateLinearRegression(**own, epsilon=rest).plan(n, d)
        assert [stage.to_dict() if hasattr(stage, "to_dict") else stage for stage in fixed.stages] == [
            stage.to_dict() if hasattr(stage, "to_dict") else stage for stage in plan.stages
        ]


@pytest.mark.parametrize(
    ("kind", "y_bounds"),
    [(PrivateLogisticRegression, {}), (PrivateCountRegression, (0, 60)), (PrivateGammaRegression, (0, 60))],
)
def test_the_stages_of_other_regressions_are_the_same_for_all_bounds(kind, y_bounds):
    given = {"y_bounds": y_bounds} if y_bounds else {}
    plan = kind(x_bounds="private", **given, epsilon=2.0).plan(N, 2)
    for bounds in ((-1.0, 1.0), (1e-30, 1e-29), (5.0, 1e30)):
        assert kind(x_bounds=bounds, **given, epsilon=plan.located.target.epsilon).plan(N, 2).stages == plan.stages


class _NoiseByBounds(PrivateLinearRegression):
    """Planted bug: noise that depends on the released bounds, so that the charge does not cover it."""

    def plan(self, n_samples, n_features, shares=None):
        chosen = isinstance(self.y_bounds, tuple) and self.y_bounds != (-1.0, 1.0)
        more = 2.0 if chosen else 1.0
        made = super().plan(n_samples, n_features) if not chosen else None
        return made or PrivateLinearRegression(
            x_bounds=self.x_bounds, y_bounds=self.y_bounds, epsilon=more * self.epsilon
        ).plan(n_samples, n_features)


def test_noise_that_depends_on_the_bounds_is_refused():
    with pytest.raises(DPStatsError, match="as planned, but for its units"):
        _NoiseByBounds(x_bounds=(0, 10), y_bounds="private", epsilon=4.0).fit(X, Y)


def test_no_bounds_are_an_outcome():
    def fit_zeros() -> tuple[str, float]:
        budget = PrivacyBudget(epsilon=4.0, delta=1e-6)
        try:
            PrivateLinearRegression(**BOTH, epsilon=4.0, budget=budget).fit(X * [1.0, 0.0], Y)
        except ChargedError as error:
            return str(error), budget.spent.epsilon
        return "", 0.0

    # Noise finds bounds in about one of 25 fits.
    text, spent = next(found for found in (fit_zeros() for _ in range(6)) if found[0])
    assert "no bounds of x1 were found" in text
    assert spent > 3.0


@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({**BOTH, "epsilon": 0.01}, "x_bounds"),
        ({"x_bounds": (0, 1), "y_bounds": "private", "epsilon": 0.01}, "y_bounds"),
        ({**BOTH, "y_bounds": UnknownBounds(share=0.5)}, "y_bounds"),
        ({**BOTH, "y_bounds": UnknownBounds(within=(0, 1))}, "y_bounds"),
        ({**BOTH, "y_bounds": UnknownBounds(step=1)}, "y_bounds"),
        ({**BOTH, "delta": -1}, "delta"),
        ({**BOTH, "x_bounds": "privat"}, "x_bounds must be 'private', or public numbers"),
        ({**BOTH, "y_bounds": "privat"}, "y_bounds must be 'private', or public numbers"),
        ({**BOTH, "x_bounds": ["private"]}, "x_bounds must be 'private', or have an entry for each column"),
        ({**BOTH, "x_bounds": [(0, 1), 5]}, "x_bounds"),
        ({**BOTH, "x_bounds": [UnknownBounds(share=0.5), "private"]}, "x_bounds"),
    ],
)
def test_public_facts_are_refused_before_the_charge(given, parameter):
    budget = PrivacyBudget(epsilon=4.0, delta=1e-6)
    with pytest.raises(InvalidParameter, match=f"^{parameter}"):
        PrivateLinearRegression(**given, budget=budget).fit(X, Y)
    assert budget.spent.epsilon == 0


def test_regressions_of_one_release_and_outcomes_of_counts_need_declared_bounds():
    for kind in (SufficientStatisticsRegression, PrivateCountRegression):
        with pytest.raises(InvalidParameter, match="y_bounds"):
            kind(x_bounds=(0, 10), y_bounds="private").fit(X, Y)


def test_options_of_the_choice():
    options = UnknownBounds(within=(0, np.inf), step=0.01, share=0.3)
    fit = PrivateLinearRegression(x_bounds=options, y_bounds=options, epsilon=4.0, random_state=0)
    fit.fit(np.abs(X).round(2), np.abs(Y).round(2))
    assert fit.x_bounds_.min() >= 0 and fit.y_bounds_[0] >= 0
    plan = fit.plan_.located.plan
    assert plan.step == (0.01,) * 3 and plan.target.epsilon == pytest.approx(1.2)
    assert [stage["name"] for stage in fit.plan_.to_dict()["stages"]][:2] == [WINDOWS, TAILS]


def test_missing_rows_and_replay():
    rows = X.copy()
    rows[::50, 0] = np.nan
    fit = PrivateLinearRegression(**BOTH, epsilon=4.0, missing="drop", random_state=3)
    first = fit.fit(rows, Y).coef_.copy()
    assert fit.fit(rows, Y).coef_ == pytest.approx(first) and abs(fit.rows_ - 0.98 * N) < 8 * fit.rows_noise_std_
    assert fit.predict(X).shape == (N,) and np.isfinite(fit.score(X, Y))
