"""Conformal predictors: one score of the calibration rows, and one in each group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from dpstats.conformal import PrivateConformalClassifier, PrivateConformalRegressor
from dpstats.data.opening import open_source
from dpstats.release.estimator import _coded_schema
from dpstats.release.session import Session
from registry.entry import Dataset, Draw, Entry, PlantedBug, Traits, Understated, columns, having, with_less_noise

GROUPS = (0, 1)
Pair = tuple[Dataset, Dataset]


class RowMean(BaseEstimator):
    """A model that was fitted to nothing and takes any number of columns: the mean of a row."""

    def predict(self, X: Any) -> np.ndarray:
        return np.asarray(X, dtype=np.float64).mean(axis=1)


class TwoClasses(BaseEstimator):
    """A classifier of two classes that was fitted to nothing: the logistic function of the mean of a row."""

    def __init__(self) -> None:
        self.classes_ = np.array([0, 1])

    def predict_proba(self, X: Any) -> np.ndarray:
        one = 1 / (1 + np.exp(-np.asarray(X, dtype=np.float64).mean(axis=1)))
        return np.column_stack([1 - one, one])


class TenClasses(BaseEstimator):
    """A classifier of ten classes that was fitted to nothing, for the labels of scikit-learn's checks."""

    def __init__(self) -> None:
        self.classes_ = np.arange(10)

    def predict_proba(self, X: Any) -> np.ndarray:
        logits = -np.abs(np.asarray(X, dtype=np.float64).mean(axis=1)[:, None] - self.classes_)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)


def data_of(estimator: Any, data: Dataset) -> tuple[Any, Any]:
    """Return the rows and outcomes of a dataset: its last column is the outcome, and its first the group."""
    data = np.asarray(data)
    if estimator.groups is None:
        return data[:, :-1], data[:, -1]
    names = ["group", *(f"x{j}" for j in range(data.shape[1] - 2))]
    return pd.DataFrame(data[:, :-1], columns=names), data[:, -1]


def from_numbers(estimator: Any, X: Any) -> tuple[Any, Any]:
    """Return rows of numbers with an outcome that is made of each."""
    X = np.asarray(X, dtype=np.float64)
    first = X[:, 0]
    y = (first > 0).astype(float) if isinstance(estimator, PrivateConformalClassifier) else 2 * first + 1
    if estimator.groups is None:
        return X, y
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    return frame.assign(group=(first > 0).astype(float)), y


def core(estimator: Any) -> Draw:
    """Return the batched core of a fit."""

    def draw(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        X, y = data_of(estimator, data)
        source = open_source(X)
        table = source.read(*source.resolve(_coded_schema(estimator), y))
        plan = estimator.plan(*table.shape)
        with Session.simulated(plan, rng, size) as session:
            estimator._release(estimator._read(table, plan), plan, session)
        return columns(plan, session.released)

    return draw


def public(estimator: Any) -> Any:
    params = {**estimator.get_params(deep=False), "random_state": None}

    def call(data: Dataset, budget: Any) -> tuple[Any, np.ndarray]:
        made = type(estimator)(**{**params, "budget": budget}).fit(*data_of(estimator, data))
        return made.plan_, np.minimum(made._scores, 1e9)

    return call


# A row moves log-probabilities apart by one step, and not by two
HalfNoise = with_less_noise(PrivateConformalRegressor)


class SpreadOfTheRows(PrivateConformalRegressor):
    """Planted bug: residuals are divided by their own mean."""

    def _score(self, table: Any) -> Any:
        scores = super()._score(table)
        return scores / scores.mean()


class PointsOfTheRows(PrivateConformalRegressor):
    """Planted bug: the points end at the largest score."""

    def _read(self, rows: Any, plan: Any) -> Any:
        top = float(self._score(rows.whole()).max())
        low, _, by_ratio = plan.thresholds
        return super()._read(rows, replace(plan, thresholds=(low, max(top, 2 * low), by_ratio)))


class SizesAsTheyAre(PrivateConformalRegressor):
    """Planted bug: the numbers of rows of the groups have next to no noise."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        rows, choice = plan.stages
        return replace(plan, stages=(replace(rows, scale_steps=0.05), choice))


HalfNoiseOfSets = with_less_noise(PrivateConformalClassifier)  # the same for sets


ONE: dict[str, Any] = {"score_bounds": (1.0, 100.0), "training": "public", "alpha": 0.4, "n_points": 32, "epsilon": 1.0}
# Few rows have a rank at these.
MILD = {"alpha": 0.5, "epsilon": 20.0}
TRAITS = Traits(
    rows=from_numbers, excused={"estimates": "an interval is of one new row, and no parameter is estimated"}
)


def residuals(*values: float) -> Dataset:
    """Return rows whose prediction is 0, with these outcomes."""
    return np.array([[0.0, value] for value in values])


SETS = replace(
    TRAITS,
    checked_with={"estimator": TenClasses()},
    excused={**TRAITS.excused, "check_classifiers_one_label": "the model is fitted already"},
)


@having({PrivateConformalRegressor: TRAITS, PrivateConformalClassifier: SETS})
def entries() -> Iterator[Entry]:
    one = PrivateConformalRegressor(RowMean(), **ONE)
    # A row that moves up takes a rank from the points below the middle, and one rank less is too many above it.
    many = [0.0] * 16 + [3.0] * 2 + [99.0] * 2
    pair = residuals(*many), residuals(99.0, *many[1:])
    spread = residuals(*[0.0] * 5, *[2.0] * 15), residuals(99.0, *[0.0] * 4, *[2.0] * 15)
    outlier = residuals(*[2.0] * 19, 3.0), residuals(*[2.0] * 19, 99.0)
    yield Entry(
        name="conformal intervals",
        covers=PrivateConformalRegressor,
        proof="conformal.md",
        plan=one.plan(20, 1),
        integers=lambda data: [],
        pairs=lambda: iter(()),
        draw=core(one),
        dataset=pair[0],
        neighbor=pair[1],
        power=0.3,
        public=public(one),
        bugs=(
            PlantedBug("one range counted as 1", core(HalfNoise(RowMean(), **ONE)), *pair, 1.0, 0.0, 40_000),
            PlantedBug("spread of the rows", core(SpreadOfTheRows(RowMean(), **ONE)), *spread, 1.0, 0.0),
            PlantedBug("points of the rows", core(PointsOfTheRows(RowMean(), **ONE)), *outlier, 1.0, 0.0),
        ),
        estimator=PrivateConformalRegressor(RowMean(), **{**ONE, **MILD}),
    )
    sets = {"training": "public", "alpha": 0.4, "n_points": 32, "epsilon": 1.0}
    classes = PrivateConformalClassifier(TwoClasses(), **sets)
    agree = [[3.0, 1.0]] * 16 + [[0.0, 1.0]] * 2 + [[3.0, 0.0]] * 2
    moved = np.array(agree), np.array([[3.0, 0.0], *agree[1:]])
    yield Entry(
        name="conformal sets",
        covers=PrivateConformalClassifier,
        proof="conformal.md",
        plan=classes.plan(20, 1),
        integers=lambda data: [],
        pairs=lambda: iter(()),
        draw=core(classes),
        dataset=moved[0],
        neighbor=moved[1],
        power=0.3,
        public=public(classes),
        bugs=(
            PlantedBug("one range counted as 1", core(HalfNoiseOfSets(TwoClasses(), **sets)), *moved, 1.0, 0.0, 40_000),
        ),
        estimator=PrivateConformalClassifier(TwoClasses(), **{**sets, **MILD}),
    )
    options = {**ONE, "alpha": 0.1, "epsilon": 4.0, "groups": GROUPS, "by": "group"}
    grouped = PrivateConformalRegressor(RowMean(), **options)
    # A row of the first group moves to the second, and the other way.
    crowd = np.array([[g, 0.0, y] for g in GROUPS for y in [0.0] * 10 + [90.0] * 10])
    crossing = crowd.copy()
    crossing[0] = 1.0, 0.0, 99.0
    plan = grouped.plan(40, 1)

    def counted(data: Dataset) -> list[np.ndarray]:
        return [np.array([np.count_nonzero(data[:, 0] == label) for label in GROUPS])]

    def pairs() -> Iterator[Pair]:
        yield crowd, crossing
        for label in (0.0, 5.0):
            changed = crowd.copy()
            changed[-1, 0] = label
            yield crowd, changed

    yield Entry(
        name="conformal intervals of groups",
        covers=PrivateConformalRegressor,
        proof="conformal.md",
        plan=plan,
        integers=counted,
        pairs=pairs,
        draw=core(grouped),
        dataset=crowd,
        neighbor=crossing,
        power=0.1,
        public=public(grouped),
        stages=(plan.stages[0],),
        bugs=(PlantedBug("sizes as they are", core(SizesAsTheyAre(RowMean(), **options)), crowd, crossing, 4.0, 0.0),),
        understated=(
            Understated(
                "one of two counts",
                replace(plan, stages=(replace(plan.stages[0], sensitivity_steps=1),)),
                counted,
                pairs,
            ),
        ),
        not_replayed="its groups are a column of a data frame",
        no_estimator="its groups are a column of a data frame; the entry without groups has the estimator",
    )
    kinds = {**sets, "alpha": 0.1, "epsilon": 4.0, "groups": GROUPS, "by": "group"}
    split = PrivateConformalClassifier(TwoClasses(), **kinds)
    half = np.array([[g, 3.0, y] for g in GROUPS for y in [1.0] * 10 + [0.0] * 10])
    other = half.copy()
    other[0] = 1.0, 3.0, 0.0

    def classes_moved() -> Iterator[Pair]:
        yield half, other

    yield Entry(
        name="conformal sets of groups",
        covers=PrivateConformalClassifier,
        proof="conformal.md",
        plan=split.plan(40, 1),
        integers=counted,
        pairs=classes_moved,
        draw=core(split),
        dataset=half,
        neighbor=other,
        power=0.1,
        public=public(split),
        stages=(split.plan(40, 1).stages[0],),
        not_replayed="its groups are a column of a data frame",
        no_estimator="its groups are a column of a data frame; the entry without groups has the estimator",
    )
