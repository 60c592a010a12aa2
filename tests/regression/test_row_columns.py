"""Weights and offsets: what they estimate, how they are given, and that no row moves a release further with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats
from scipy.special import expit

from dpstats.auditing import check_sensitivity
from dpstats.auditing.movement import vectors
from dpstats.data.rows import Table
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.privacy import JointStage, PrivacyBudget
from dpstats.regression import PrivateCountRegression, PrivateLinearRegression, PrivateLogisticRegression
from dpstats.regression.engine import first_path, read
from dpstats.regression.plan import weight_integers
from dpstats.release.session import Session

RNG = np.random.default_rng(0)
N = 6000
X = RNG.normal(size=(N, 2))
WEIGHT = RNG.gamma(2.0, 1.0, N)
OFFSET = RNG.normal(size=N)
INDEX = 0.5 + X @ [0.5, -0.3] + OFFSET
Y = INDEX + RNG.normal(size=N) * (1 + 0.5 * np.abs(X[:, 0]))
Z = (RNG.random(N) < expit(INDEX - 1)).astype(float)
COLUMNS: dict[str, Any] = {"weight_bounds": (0, 6), "offset_bounds": (-3, 3)}
LINEAR: dict[str, Any] = {"x_bounds": (-4, 4), "y_bounds": (-10, 10), "random_state": 0, **COLUMNS}
LOGISTIC: dict[str, Any] = {"x_bounds": (-4, 4), "random_state": 0, **COLUMNS}
FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y, "z": Z, "w": WEIGHT, "o": OFFSET})
DESIGN = sm.add_constant(X)
SHARES = WEIGHT.clip(0, 6)


def test_least_squares_with_weights_and_offsets_is_that_of_statsmodels() -> None:
    made = PrivateLinearRegression(**LINEAR, epsilon=1e6).fit(X, Y, offset=OFFSET, weights=WEIGHT)
    plain = sm.WLS(Y - OFFSET.clip(-3, 3), DESIGN, weights=SHARES).fit(cov_type="HC1")
    assert np.abs((made.params_ - plain.params) / plain.bse).max() < 0.2
    assert np.allclose(made.bse, plain.bse, rtol=0.04)
    assert made.total_weight_ == pytest.approx(SHARES.sum(), rel=1e-3)
    assert made.effective_rows_ == pytest.approx(SHARES.sum() ** 2 / (SHARES**2).sum(), rel=1e-3)
    assert "Total weight" in str(made.summary())


def test_weights_of_precision_have_nonrobust_errors() -> None:
    rng = np.random.default_rng(2)
    y = X @ [0.5, -0.3] + rng.normal(size=N) / np.sqrt(SHARES + 0.05)
    given = {"x_bounds": (-4, 4), "y_bounds": (-10, 10), "epsilon": 1e6, "random_state": 0}
    made = PrivateLinearRegression(**given, weight_bounds=(0, 7), cov_type="nonrobust")
    made = made.fit(X, y, weights=SHARES + 0.05)
    plain = sm.WLS(y, DESIGN, weights=SHARES + 0.05).fit()
    # Rows with small weights have large residuals, which are clipped: the errors are a little larger.
    assert np.abs((made.params_ - plain.params) / plain.bse).max() < 1.0
    assert (made.bse / plain.bse).min() > 0.97 and (made.bse / plain.bse).max() < 1.3


def test_logistic_regression_with_weights_has_robust_errors() -> None:
    made = PrivateLogisticRegression(**LOGISTIC, epsilon=1e6).fit(X, Z, offset=OFFSET, weights=WEIGHT)
    binomial = sm.families.Binomial()
    plain = sm.GLM(Z, DESIGN, family=binomial, offset=OFFSET.clip(-3, 3), freq_weights=SHARES).fit()
    p = plain.mu
    inverse = np.linalg.inv((DESIGN * (SHARES * p * (1 - p))[:, None]).T @ DESIGN)
    pulls = DESIGN * (SHARES * (Z - p))[:, None]
    errors = np.sqrt(np.diagonal(inverse @ (pulls.T @ pulls) @ inverse))
    assert np.abs((made.params_ - plain.params) / errors).max() < 0.2
    assert np.allclose(made.bse, errors, rtol=0.04)


def test_counts_with_weights_are_those_of_statsmodels() -> None:
    y = np.random.default_rng(3).poisson(np.exp(0.5 + X @ [0.3, -0.3])).astype(float)
    made = PrivateCountRegression(
        x_bounds=(-4, 4), y_bounds=(0, 100), weight_bounds=(0, 6), epsilon=1e6, random_state=0
    ).fit(X, y, weights=WEIGHT)
    family = sm.families.NegativeBinomial(alpha=1.0)
    plain = sm.GLM(y, DESIGN, family=family, freq_weights=SHARES).fit()
    a = SHARES / (1 + plain.mu)
    inverse = np.linalg.inv((DESIGN * (a * plain.mu)[:, None]).T @ DESIGN)
    pulls = DESIGN * (a * (y - plain.mu))[:, None]
    errors = np.sqrt(np.diagonal(inverse @ (pulls.T @ pulls) @ inverse))
    assert np.abs((made.params_ - plain.params) / errors).max() < 0.3
    assert np.allclose(made.bse, errors, rtol=0.05)


# Too few intervals of level 0.95 cover with probability below 1e-4 where 0.93 is true.
@pytest.mark.parametrize("family", ["linear", "logistic"])
def test_intervals_cover_with_weights_and_offsets(family: str) -> None:
    rng, hits, fits, slopes = np.random.default_rng(7), 0, 30, np.array([0.5, -0.3])
    for _ in range(fits):
        rows, offset, weight = rng.normal(size=(4000, 2)), rng.normal(size=4000), rng.uniform(0.2, 1, 4000)
        index = rows @ slopes + offset
        if family == "linear":
            y = index + rng.normal(size=4000)
            made: Any = PrivateLinearRegression(**LINEAR | {"weight_bounds": (0, 1), "random_state": rng})
        else:
            y = (rng.random(4000) < expit(index)).astype(float)
            made = PrivateLogisticRegression(**LOGISTIC | {"weight_bounds": (0, 1), "random_state": rng})
        low, high = made.fit(rows, y, offset=offset, weights=weight).confidence_interval()
        hits += int(((low <= slopes) & (high >= slopes)).sum())
    assert stats.binom.cdf(hits, 2 * fits, 0.93) > 1e-4


def test_every_way_in_is_the_same(tmp_path: Path) -> None:
    one = PrivateLinearRegression(**LINEAR).fit(X, Y, offset=OFFSET, weights=WEIGHT)
    rows = FRAME.drop(columns="z")
    path = tmp_path / "rows.csv"
    rows.to_csv(path, index=False)
    named = {"weights": "w", "offset": "o"}
    others = [
        PrivateLinearRegression(**LINEAR, **named).fit(rows, "y"),
        PrivateLinearRegression(**LINEAR, weights="w").fit(rows, "y", offset="o"),
        PrivateLinearRegression(**LINEAR, **named).fit(duckdb.read_csv(str(path)), "y"),
        PrivateLinearRegression(**LINEAR).fit(str(path), "y", offset="o", weights="w"),
        PrivateLinearRegression.from_formula(
            "y ~ a + b", FRAME, bounds={"a": (-4, 4), "b": (-4, 4), "y": (-10, 10)}, random_state=0, **COLUMNS, **named
        ),
    ]
    for other in others:
        assert np.array_equal(other.params_, one.params_)
    offset = np.full(3, 2.0)
    assert np.allclose(one.predict(X[:3], offset=offset), one.predict(X[:3]) + 2.0)


def test_entries_outside_their_bounds_are_clipped_and_missing_ones_dropped() -> None:
    wild, tame = WEIGHT.copy(), WEIGHT.copy()
    wild[:3], tame[:3] = [-2.0, 1e300, 7.0], [0.0, 6.0, 6.0]
    fits = [PrivateLinearRegression(**LINEAR).fit(X, Y, offset=OFFSET, weights=w) for w in (wild, tame)]
    assert np.array_equal(fits[0].params_, fits[1].params_)
    wild[5] = np.nan
    with pytest.raises(InvalidData, match="weights must be finite"):
        PrivateLinearRegression(**LINEAR).fit(X, Y, offset=OFFSET, weights=wild)
    made = PrivateLinearRegression(**LINEAR, missing="drop").fit(X, Y, offset=OFFSET, weights=wild)
    tame[5] = 0.0  # A row of weight 0 counts nowhere.
    other = PrivateLinearRegression(**LINEAR, missing="drop").fit(X, Y, offset=OFFSET, weights=tame)
    assert np.array_equal(made.params_, other.params_)


@pytest.mark.parametrize("kind", [PrivateLinearRegression, PrivateLogisticRegression])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_fraction_of_offsets_outside_is_released_with_the_weight_of_its_rows(kind: type, intercept: bool) -> None:
    linear = kind is PrivateLinearRegression
    options = {**LINEAR, "offset_bounds": (-0.25, 0.5), "fit_intercept": intercept, "epsilon": 3.0}
    if not linear:
        del options["y_bounds"]
    made = kind(**options).fit(X, Y if linear else Z, offset=OFFSET, weights=WEIGHT)
    outside, weight = (OFFSET < -0.25) | (OFFSET > 0.5), WEIGHT.clip(0, made.weight_bounds[1])
    share, std = made.clipped_offset_share_, made.clipped_offset_share_std_
    assert share == pytest.approx((outside * weight).sum() / weight.sum(), abs=6 * std) and std < 0.05
    assert "More than 2% of the offsets lie outside offset_bounds" in " ".join(str(made.summary()).split())


@pytest.mark.parametrize(("bounds", "many"), [((0.0, 2.0), True), ((1.0, 12.0), True), ((0.0, 30.0), False)], ids=str)
def test_the_fraction_of_weights_outside_is_released(bounds: tuple[float, float], many: bool) -> None:
    for kind, given, y in ((PrivateLinearRegression, LINEAR, Y), (PrivateLogisticRegression, LOGISTIC, Z)):
        options = {**given, "weight_bounds": bounds, "epsilon": 5.0}
        made = kind(**options).fit(X, y, offset=OFFSET, weights=WEIGHT)
        inside = WEIGHT.clip(*bounds)
        share, std = made.clipped_weight_share_, made.clipped_weight_share_std_
        assert share == pytest.approx(inside[inside != WEIGHT].sum() / inside.sum(), abs=6 * std)
        noise = float(np.max(made.plan_.noise("total weight").std)) * N * bounds[1] / inside.sum()
        assert std == pytest.approx(noise * np.sqrt(5) / 2, rel=0.1) and std < 0.1
        words = " ".join(str(made.summary()).split())
        assert "Weights outside bounds" in words
        assert ("of the weights lie outside weight_bounds" in words) == many


def test_a_row_moves_the_total_weight_by_one_and_a_half() -> None:
    grid = np.linspace(0, 1, 101)
    sums = np.array([[a, a**2, sign * a / 2] for a in grid for sign in (-1, 1)])
    farthest = np.sqrt(((sums[:, None] - sums) ** 2).sum(axis=2)).max()
    stage = weight_integers("total weight", 10, 0.01)
    assert farthest == pytest.approx(1.5) and stage.l2 == pytest.approx(1.5 * 2**30)
    assert np.abs(sums[:, None] - sums).sum(axis=2).max() * 2**30 <= stage.l1


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no bounds": ({"weight_bounds": None}, "weight_bounds must be given with weights"),
    "negative": ({"weight_bounds": (-1, 2)}, "weight_bounds must be at least 0"),
    "empty": ({"weight_bounds": (2, 2)}, "weight_bounds"),
    "twice": ({"weights": "w"}, "weights must not be given twice"),
    "offset without bounds": ({"offset_bounds": None}, "offset_bounds must be given with offset"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_declared_is_refused_before_the_charge(case: str) -> None:
    options, words = REFUSED[case]
    budget = PrivacyBudget(10.0, 1e-3)
    for kind, given, y in ((PrivateLinearRegression, LINEAR, Y), (PrivateLogisticRegression, LOGISTIC, Z)):
        with pytest.raises(InvalidParameter, match=words):
            kind(**given | {"random_state": None, "budget": budget} | options).fit(
                X[:50], y[:50], offset=OFFSET[:50], weights=WEIGHT[:50]
            )
    assert not budget.history()


@pytest.mark.parametrize("missing", ["error", "drop"])
def test_a_row_moves_no_release_further_than_declared(missing: str) -> None:
    changes: list[tuple[Any, float, float, float]] = [
        ([3.0, -3.0], 1.0, 3.0, 6.0),
        ([-9.0, 1.0], 0.0, -3.0, 0.0),
        ([1.0, 1.0], 1.0, 1e9, 1e9),
    ]
    changes += [([1.0, 1.0], 1.0, 0.0, np.nan)] if missing == "drop" else []
    for kind, given, y in ((PrivateLinearRegression, LINEAR, Y), (PrivateLogisticRegression, LOGISTIC, Z)):
        estimator = kind(**given | {"epsilon": 20.0, "delta": 1e-3, "missing": missing})
        before = X[:60], (y[:60], OFFSET[:60], WEIGHT[:60])
        for x, *others in changes:
            rows, columns = before[0].copy(), [column.copy() for column in before[1]]
            rows[7] = x
            for column, entry in zip(columns, others, strict=True):
                column[7] = entry
            check = check_sensitivity(estimator, before, (rows, tuple(columns)))
            assert not check.violated, str(check)


@pytest.mark.parametrize("kind", ["linear", "logistic", "counts"])
def test_no_pair_of_rows_is_further_apart_than_a_stage_declares(kind: str) -> None:
    # All pairs of 120 rows of any size, weight and offset: 7,140 pairs of each stage of a path.
    assert farthest(kind, 120) <= 1 + 1e-12


def farthest(kind: str, rows: int, seed: int = 0) -> float:
    """Return the largest distance of two rows in any stage of a path, over what the stage declares."""
    rng = np.random.default_rng(seed)
    estimator: Any = {
        "linear": PrivateLinearRegression(**LINEAR),
        "logistic": PrivateLogisticRegression(**LOGISTIC),
        "counts": PrivateCountRegression(x_bounds=(-4, 4), y_bounds=(0, 20), weight_bounds=(0, 6)),
    }[kind]
    plan, n = estimator.plan(400, 2), 400
    beside = {"weight": WEIGHT[:n]} | ({} if kind == "counts" else {"offset": OFFSET[:n]})
    y = {"linear": Y, "logistic": Z, "counts": np.floor(np.abs(Y))}[kind][:n]
    made = read(Table(X[:n], y=y, **beside), plan)
    x = rng.normal(size=(rows, 2)) * rng.choice([0.1, 1.0, 4.0, 30.0], (rows, 1))
    outcome = {"linear": rng.choice([-30.0, -2.0, 0.0, 1.0, 30.0], rows), "counts": rng.integers(0, 30, rows)}
    y = np.asarray(outcome.get(kind, rng.integers(0, 2, rows)), dtype=np.float64)
    weight = rng.choice([0.0, 0.7, 3.0, 6.0, 50.0], rows)
    others = {"weight": weight} | ({} if kind == "counts" else {"offset": 3 * rng.standard_normal(rows)})
    alone = [
        read(Table(x[[i]], y=y[[i]], **{name: values[[i]] for name, values in others.items()}), plan)
        for i in range(rows)
    ]
    path, most = first_path(plan), 0.0
    with Session.simulated(plan, rng) as session:
        for stage in plan.stages:
            question = path.question(stage.name)
            answers = [each.answer(question) for each in alone]
            scaled = np.concatenate(
                [np.array([answer[part.name] for answer in answers]) / part.scale for part in vectors(stage)], 1
            )
            squares = (scaled**2).sum(axis=1)
            apart = squares[:, None] + squares - 2 * scaled @ scaled.T
            declared = stage.sensitivity / stage.scale if isinstance(stage, JointStage) else None
            declared = declared or stage.sensitivity_steps / stage.scale_steps
            most = max(most, float(np.sqrt(np.maximum(apart, 0.0).max())) / declared)
            found = made.answer(question)
            path.take(stage.name, session.add(stage.name, found if hasattr(stage, "blocks") else found[stage.name]))
    return most


def test_scores_count_offsets() -> None:
    rng = np.random.default_rng(8)
    X, offset = rng.normal(size=(2000, 1)), rng.uniform(100, 110, 2000)
    y = X[:, 0] + offset + rng.normal(size=2000)
    linear = PrivateLinearRegression(
        x_bounds=(-4, 4), y_bounds=(90, 120), offset_bounds=(100, 110), epsilon=1e4, random_state=0
    ).fit(X, y, offset=offset)
    exact = 1 - np.mean((y - linear.predict(X, offset)) ** 2) / np.var(y)
    assert linear.score(X, y, offset=offset) == pytest.approx(exact, abs=0.01)
    shift, chances = offset - 105, expit(X[:, 0] + offset - 105)
    outcomes = (rng.random(2000) < chances).astype(int)
    logistic = PrivateLogisticRegression(x_bounds=(-4, 4), offset_bounds=(-5, 5), epsilon=1e4, random_state=0).fit(
        X, outcomes, offset=shift
    )
    right = np.mean(logistic.predict(X, shift) == outcomes)
    assert logistic.score(X, outcomes, offset=shift) == pytest.approx(right, abs=0.01) and right > 0.8
