"""Rows of levels that noise hides are left out, and the other coefficients are as precise as in a fit without them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.lattice import products
from dpstats.regression import PrivateCountRegression, PrivateLinearRegression, PrivateLogisticRegression
from dpstats.regression.blocks import Blocks, Design, Question
from dpstats.regression.engine import first_path
from dpstats.regression.hidden_levels import HidingPath, Kept, WithoutLevels
from dpstats.regression.log_linear_plan import log_linear_plan
from dpstats.regression.passes import UNCOMPILED, CompiledPasses, Passes
from dpstats.regression.plan import CENTER, DIRECTIONS, regression_plan

ROWS = 5000
DESIGN = replace(Design.check([(-4, 4), (0, 1), (0, 1)], None, 3, True), two_valued=(False, True, True))


def draw(share: float, seed: int = 0) -> np.ndarray:
    """Return rows of a number and two indicators. The last is rare."""
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.normal(size=ROWS), rng.random(ROWS) < 0.4, rng.random(ROWS) < share]).astype(float)


def ask_all(X: np.ndarray, y: np.ndarray) -> tuple[HidingPath, list[tuple[str, Question]]]:
    """Return the path of a logistic fit without noise in the answers, and its questions."""
    plan = regression_plan("logistic", DESIGN, len(X), 1.0, 1e-6)
    path, rows, found = first_path(plan), Blocks(X, y, DESIGN), []
    assert isinstance(path, HidingPath)
    stages: Any = plan.stages
    for stage in stages:
        found.append((stage.name, path.question(stage.name)))
        answer, blocks = rows.answer(found[-1][1]), getattr(stage, "blocks", None)
        if blocks:
            path.take(stage.name, {each.name: answer[each.name] * each.spacing for each in blocks})
        else:
            path.take(stage.name, answer[stage.name] * stage.spacing)
    return path, found


def test_the_released_center_decides() -> None:
    for share, hides in ((0.002, True), (0.1, False)):
        path, _ = ask_all(draw(share), np.resize([0.0, 1.0], ROWS))
        assert (path.kept is not None) == hides
        if path.kept is not None:
            assert path.kept.columns.tolist() == [True, True, False] and path.kept.common.tolist() == [0, 0, -1]


def test_sums_are_of_the_rows_that_remain() -> None:
    X, y = draw(0.002), np.resize([0.0, 1.0], ROWS)
    rare = X[:, 2] > 0
    assert rare.any()
    _, questions = ask_all(X, y)
    for name, question in questions[1:]:
        assert isinstance(question, WithoutLevels)
        sums = Blocks(X, y, DESIGN).answer(question)
        few = Blocks(X[rare], y[rare], DESIGN).answer(question)
        smaller = Blocks(X[~rare][:, :2], y[~rare], DESIGN.take(question.kept.columns))
        for block, values in smaller.answer(question.query).items():
            own = question.kept.entries(name, block)
            assert not few[block].any()
            assert (sums[block] if own is None else sums[block][own]).tolist() == values.tolist()
            assert own is None or not sums[block][~own].any()


@pytest.mark.parametrize("found", [Passes(), CompiledPasses(UNCOMPILED)], ids=["numpy", "loops"])
def test_a_block_of_hidden_rows_only_adds_nothing(found: Passes, monkeypatch: pytest.MonkeyPatch) -> None:
    # It may be any block of a large table, and an error after the charge would tell of its rows.
    monkeypatch.setattr(products, "_loop", lambda: products.add_rows)
    X, y = draw(0.002), np.resize([0.0, 1.0], ROWS)
    _, questions = ask_all(X, y)
    X[:3, 2] = 1.0
    monkeypatch.setattr("dpstats.regression.blocks.choose_passes", lambda entries: found)
    few = Blocks(X[:3], y[:3], DESIGN)
    assert (few.block(slice(None)).store.ndim == 3) == found.compiled
    for _, question in questions[1:]:
        assert not any(values.any() for values in few.answer(question).values())


def test_entries_above_the_diagonal() -> None:
    kept = Kept(np.array([True, False, True]), np.array([0.0, 1.0, 0.0]))
    whole = np.arange(16).reshape(4, 4)
    own = kept.entries("step 1", "curvature, above the diagonal")
    some = np.ix_([0, 1, 3], [0, 1, 3])
    assert own is not None and whole[np.triu_indices(4, 1)][own].tolist() == whole[some][np.triu_indices(3, 1)].tolist()
    assert np.asarray(kept.entries(DIRECTIONS, "curvature, diagonal")).tolist() == [True, False, True]
    assert kept.entries("norms", "norms") is None


def test_variances_are_positive_for_any_noise_of_the_center() -> None:
    # With a few rows the noise of the center is longer than its range.
    data = pd.DataFrame({"x": [0.1, 0.3, -0.2], "u": list("aab"), "y": [0.0, 2.0, 1.0]})
    for epsilon in (0.01, 0.1, 1.0, 10.0):
        own: dict[str, Any] = {"bounds": {"x": (-1, 1), "y": (0, 9)}, "levels": {"u": ["a", "b"]}, "random_state": 0}
        fitted = PrivateCountRegression.from_formula("y ~ x + C(u)", data, epsilon=epsilon, **own)
        assert (np.diagonal(fitted.params_cov_) > 0).all()


@pytest.mark.parametrize("common", [-1.0, 1.0])
def test_a_hidden_column_has_most_rows_at_either_end(common: float) -> None:
    # Only a released mean within the noise of a bound hides a column, at the bound of most rows.
    plan = log_linear_plan("counts", 1.0, Design.check((0, 1), (0, 9), 2, True), ROWS, 1.0, 1e-6)
    plan = replace(plan, design=replace(plan.design, two_valued=(True, True)))
    path = first_path(plan)
    assert isinstance(path, HidingPath)
    path.take(CENTER, np.array([0.2, 1.01 * common]))
    assert path.kept is not None and path.kept.common.tolist() == [0.0, common]
    for center in ([0.2, 0.9 * common], [common, -common]):  # is not near a bound; all columns are
        path = first_path(plan)
        assert isinstance(path, HidingPath)
        path.take(CENTER, np.array(center))
        assert path.kept is None


def both(kind: Any, link: Any, seed: int, **given: Any) -> tuple[Any, Any]:
    """Return fits of a formula with a factor: with a level that noise hides, and without this level."""
    X, rng = draw(0.002, seed), np.random.default_rng(seed + 100)
    y = link(0.4 * X[:, 0] + 0.5 * X[:, 1] + X[:, 2], rng)
    data = pd.DataFrame({"x": X[:, 0], "u": np.where(X[:, 2] > 0, "c", np.where(X[:, 1] > 0, "b", "a")), "y": y})
    bounds = {"x": (-4, 4)} | given
    return tuple(
        kind.from_formula("y ~ x + C(u)", data, bounds=bounds, levels={"u": list(levels)}, random_state=seed)
        for levels in ("abc", "ab")
    )


LINKS: list[tuple[Any, Any, dict[str, Any]]] = [
    (PrivateLogisticRegression, lambda eta, rng: (rng.random(ROWS) < 1 / (1 + np.exp(-eta))).astype(int), {}),
    (PrivateCountRegression, lambda eta, rng: rng.poisson(np.exp(eta)).astype(float), {"y": (0, 20)}),
    (PrivateLinearRegression, lambda eta, rng: eta + rng.normal(size=ROWS), {"y": (-5, 6)}),
]


@pytest.mark.parametrize(("kind", "link", "given"), LINKS[:2], ids=["logistic", "counts"])
def test_a_column_and_a_hidden_one(kind: Any, link: Any, given: dict[str, Any]) -> None:
    # Its directions have no products above the diagonal, and their stage releases one.
    X = draw(0.002)
    y = link(0.6 * X[:, 0], np.random.default_rng(0))
    data = pd.DataFrame({"x": X[:, 0], "u": np.where(X[:, 2] > 0, "b", "a"), "y": y})
    bounds = {"x": (-4, 4)} | given
    fitted = kind.from_formula("y ~ x + C(u)", data, bounds=bounds, levels={"u": ["a", "b"]}, random_state=0)
    assert fitted.identified_.tolist() == [True, False]
    assert abs(fitted.coef_[0] - 0.6) < 4 * fitted.standard_errors_[0] < 0.5


@pytest.mark.parametrize(("kind", "link", "given"), LINKS, ids=["logistic", "counts", "linear"])
def test_other_coefficients_keep_their_precision(kind: Any, link: Any, given: dict[str, Any]) -> None:
    ratios = []
    for seed in range(4):
        having, without = both(kind, link, seed, **given)
        assert having.identified_.tolist() == [True, True, False]
        assert "u[T.c]" in str(having.summary()).split("Not identified")[1].replace("C(u)", "u")
        low, high = having.confidence_interval()
        assert high[2] - low[2] > 2
        ratios.append(having.standard_errors_[:2] / without.standard_errors_[:2])
    assert (np.median(ratios, axis=0) < 1.1).all()
