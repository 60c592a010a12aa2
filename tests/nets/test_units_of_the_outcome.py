"""The units of an outcome change nothing but units; and a simulated null has the noise that a session draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpstats.groups import GroupMeans
from dpstats.groups.comparisons import draw
from dpstats.lattice.products import above_diagonal
from dpstats.means.ratio import TOTALS
from dpstats.regression import PrivateLinearRegression, PrivateLogisticRegression, SufficientStatisticsRegression
from dpstats.regression.linear_path import STAGE
from dpstats.regression.rows import MOMENTS
from dpstats.release.session import Session
from dpstats.textbook import FunctionalMechanismRegression

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 2)) * [1.0, 0.5]
NORMAL = 0.5 + X @ [1.0, -1.0] + RNG.normal(size=3000)
CODES = RNG.choice(3, 3000, p=[0.2, 0.5, 0.3])
KINDS = [PrivateLinearRegression, SufficientStatisticsRegression, FunctionalMechanismRegression]
UNIT = 64.0


def line(kind: Any, unit: float = 1.0, **more: Any) -> Any:
    """Return a fit of the outcome in a unit."""
    made = kind(x_bounds=(-4, 4), y_bounds=(-8 * unit, 8 * unit), random_state=0, **more)
    return made.fit(X, unit * NORMAL)


@pytest.mark.parametrize("kind", KINDS)
def test_another_unit_of_the_outcome_multiplies_what_has_it(kind: Any) -> None:
    one, other = line(kind), line(kind, UNIT)
    for name in ("params_", "standard_errors_", "intercept_standard_error_", "scale_", "coef_"):
        assert np.allclose(UNIT * getattr(one, name), getattr(other, name)), name
    assert np.allclose(UNIT**2 * one.params_cov_, other.params_cov_)
    assert np.allclose(one.privacy_share_, other.privacy_share_)
    for of in ("mean", "outcome"):
        a, b = (fitted.predict_interval(X[:5], of=of) for fitted in (one, other))
        assert np.allclose(UNIT * np.asarray(a), b), of
    for side in ("two-sided", "less", "greater"):
        a, b = (fitted.test(None, value, side) for fitted, value in ((one, 0.5), (other, 0.5 * UNIT)))
        assert np.allclose(a.pvalue, b.pvalue)
        assert np.allclose(UNIT * np.asarray(a.confidence_interval(0.9)), b.confidence_interval(0.9))
    assert one.f_test().pvalue == pytest.approx(other.f_test().pvalue)
    # An outcome's interval holds the outcome as often as it says, with next to no noise.
    sure = line(kind, UNIT, epsilon=1e4)
    low, high = sure.predict_interval(X, 0.9, of="outcome")
    assert np.mean((low < UNIT * NORMAL) & (high > UNIT * NORMAL)) == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("epsilon", [20.0, 2.0, 0.5])
def test_what_is_measured_the_other_way_round_has_the_same_errors(kind: Any, epsilon: float) -> None:
    # The same noise, too, has the other sign: the released matrix is reported again.
    made: Any = kind(x_bounds=(-4, 4), y_bounds=(-8, 8), epsilon=epsilon, random_state=0)
    kept, report = [], made._report
    made._report = lambda released, plan: kept.append(released) or report(released, plan)
    fitted = made.fit(X, NORMAL)
    before = {name: np.copy(getattr(fitted, name)) for name in ("params_", "params_cov_", "privacy_share_")}
    for signs in np.array([[1, 1, 1, -1], [1, -1, 1, 1], [1, 1, -1, -1]]):
        above = kept[0][STAGE][f"{MOMENTS}, above the diagonal"] * np.outer(signs, signs)[above_diagonal(4)]
        report({**kept[0], STAGE: {**kept[0][STAGE], f"{MOMENTS}, above the diagonal": above}}, fitted.plan_)
        turned = signs[:3] * signs[3]
        assert np.allclose(fitted.params_, turned * before["params_"])
        assert np.allclose(fitted.params_cov_, np.outer(turned, turned) * before["params_cov_"])
        assert np.allclose(fitted.privacy_share_, before["privacy_share_"])


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_simulated_null_has_the_noise_that_a_session_draws(delta: float) -> None:
    # Three columns, whose noises of the count are one.
    plan = GroupMeans(groups=[0, 1], bounds=(-1, 1), delta=delta).plan(100, 3)
    noise, (stage,) = plan.totals_noise, plan.stages
    rng, count = np.random.default_rng(0), 20_000
    with Session.simulated(plan, rng, count) as session:
        zeros = {block.name: np.zeros(block.size, dtype=np.int64) for block in stage.blocks}
        released = plan.totals.ratio(session.add(TOTALS, zeros), noise)
    drawn = draw(noise, (count, 2, 3), rng)
    for mine, theirs, name in zip(drawn, (released.T, released.N, released.Q), "TNQ", strict=True):
        # Standard deviations of 20,000 draws are within 0.5%: heavy tails twice that.
        assert np.std(mine) == pytest.approx(np.std(theirs), rel=0.04), name
    for i, j in ((0, 1), (1, 2), (0, 2)):
        mine = np.mean(drawn[i] * drawn[j])
        theirs = np.mean((released.T, released.N, released.Q)[i] * (released.T, released.N, released.Q)[j])
        most = 0.03 * np.std(drawn[i]) * np.std(drawn[j])
        assert abs(mine - theirs) < most, (i, j)


# Beside least squares, where noise is next to nothing.
@pytest.mark.parametrize(("kind", "epsilon"), [*((kind, 1e4) for kind in KINDS), (PrivateLinearRegression, 10.0)])
def test_standard_errors_are_never_below_those_of_least_squares(kind: Any, epsilon: float) -> None:
    # Residuals are normal: nothing that is unbiased is more precise (Gauss and Markov).
    more = {"cov_type": "nonrobust"} if kind is PrivateLinearRegression else {}
    fitted = line(kind, epsilon=epsilon, **more)
    rows = np.column_stack([np.ones(len(X)), X])
    inverse = np.linalg.inv(rows.T @ rows)
    b = inverse @ rows.T @ NORMAL
    least = np.sqrt(np.diagonal(inverse) * np.sum((NORMAL - rows @ b) ** 2) / (len(X) - 3))
    # What is left without the noise: clipped residuals say less, never more.
    errors = np.append(fitted.intercept_standard_error_, fitted.standard_errors_)
    privacy = np.append(fitted.intercept_privacy_share_, fitted.privacy_share_)
    ratio = errors * np.sqrt(1 - privacy) / least
    assert np.all(ratio > 0.985) and np.all(ratio < 1.1), ratio


def test_standard_errors_are_never_below_those_of_maximum_likelihood() -> None:
    index = 0.5 + X @ [1.0, -1.0]
    y = RNG.random(3000) < 1 / (1 + np.exp(-index))
    fitted = PrivateLogisticRegression(x_bounds=(-4, 4), epsilon=1e4, random_state=0).fit(X, y)
    rows = np.column_stack([np.ones(len(X)), X])
    p = 1 / (1 + np.exp(-rows @ fitted.params_))
    least = np.sqrt(np.diagonal(np.linalg.inv((rows * (p * (1 - p))[:, None]).T @ rows)))
    ratio = np.append(fitted.intercept_standard_error_, fitted.standard_errors_) / least
    assert np.all(ratio > 0.985) and np.all(ratio < 1.1), ratio
