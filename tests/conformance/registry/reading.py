"""What a fit reads: the integers that reach its session, whatever it releases of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import get_tags

from dpstats.covariance import HotellingTest
from dpstats.data.columns import read_labels
from dpstats.data.opening import open_source
from dpstats.data.rows import Table
from dpstats.groups import GroupMeans, GroupQuantiles, MeanPerRow
from dpstats.groups.mean_per_row import unit_places
from dpstats.privacy import Choice, Discovery, Plan, Selection
from dpstats.queries.workload import WorkloadRelease
from dpstats.ranks.rank_tests import GroupRankTest
from dpstats.regression import PrivateLogisticRegression
from dpstats.regression.base import Regression
from dpstats.release.estimator import _coded_schema
from dpstats.release.groups import Nested, Windows
from dpstats.release.noise import SimulatedNoise
from dpstats.release.session import Session
from dpstats.survival.cells import SurvivalEstimator
from dpstats.tables import ContingencyTable, PrivateProportion
from registry.entry import Entry, traits_of

FIRST = np.arange(50)
"""Windows whose ends are read: more than there are rows."""

Integers = dict[str, list[int]]
"""Exact integers, by the names of the stages (and blocks) that they reached."""


class Still(Session):
    """A session that keeps what it is given, and releases zeros and the first candidates whatever that is.

    So later stages are about the same centers and columns on every dataset, and what they are given depends on the
    rows alone.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan, SimulatedNoise(np.random.default_rng(0)))
        self.given: Integers = {}

    def add(self, name: str, integers: Any, where: Any = True, units: bool = True) -> Any:
        blocks = integers if isinstance(integers, dict) else {name: integers}
        self.given |= {block: [int(k) for k in np.ravel(steps)] for block, steps in blocks.items()}
        return super().add(name, integers, where, units)

    def discover(self, name: str, labels: Any, integers: Any) -> Any:
        stage = self._stage(name, Discovery)
        # Rows here have one of two labels (`outcomes`).
        places = {label: k for k, label in enumerate(labels)}
        for block in stage.blocks:
            empty = np.zeros(stage.width(block), dtype=np.int64)
            own = [integers[block.name][places[label]] if label in places else empty for label in (0, 1)]
            self.given[block.name] = [int(k) for k in np.ravel(own)]
        self._take(name)
        none = {block.name: np.zeros((0, stage.width(block))) for block in stage.blocks}
        self._released[name] = {**none, "labels": ()}
        return self._released[name]

    def _noisy(self, noise: str, scale: float, steps: Any, size: int, spacing: Any, where: Any) -> Any:
        return np.zeros(size, dtype=np.int64), np.zeros(size)

    def select(self, name: str, scores: Any) -> Any:
        self.given[name] = [int(k) for k in scores]
        stage = self._stage(name, Selection)
        self._take(name)
        self._released[name] = np.arange(stage.size)
        return self._released[name]

    def choose(self, name: str, parts: Any) -> Any:
        self.given[name] = [k for part in parts for groups in part.cases for k in ends_of(groups)]
        stage = self._stage(name, Choice)
        self._take(name)
        self._released[name] = np.zeros(stage.size, dtype=np.int64)
        return self._released[name]

    def smooth(self, name: str, integer: int, level: int) -> Any:
        self.given[name] = [integer, level]
        self._take(name)
        self._released[name] = np.zeros(1)
        return self._released[name]


def ends_of(groups: Any) -> list[int]:
    """Return the exact integers that the weights of candidates are made of."""
    if isinstance(groups, Windows):
        return [int(k) for side in groups.ends(FIRST, FIRST) for k in side.ravel()]
    if isinstance(groups, Nested):
        return [int(k) for side in groups.ends(FIRST) for k in side.ravel()]
    return [int(k) for k in (*groups.low, *groups.high, groups.best, groups.left, groups.right, groups.step)]


def given(estimator: Any, plan: Plan, X: Any) -> Integers:
    """Return the integers of every stage of a fit."""
    with Still(plan) as session:
        estimator._release(estimator._read(table_of(estimator, X), plan), plan, session)
    return session.given


def table_of(estimator: Any, X: Any) -> Table:
    """Return rows as a fit has them, with what it needs beside."""
    if traits_of(estimator).rows is not None:
        source = open_source((data := fit_data(estimator, X))[0])
        return source.read(*source.resolve(_coded_schema(estimator), *data[1:]))
    beside = outcomes(estimator, X)
    if isinstance(estimator, PrivateProportion | ContingencyTable | WorkloadRelease):
        return Table((np.asarray(X) > 0).astype(np.int64))
    if isinstance(estimator, GroupRankTest):
        return Table(np.floor(X), groups=beside)
    if isinstance(estimator, HotellingTest):
        return Table(X, groups=beside)
    if isinstance(estimator, GroupMeans) and estimator.groups == "discover":
        return Table(X, labels=read_labels(beside))
    if isinstance(estimator, GroupMeans | GroupQuantiles):
        return Table(X, groups=estimator._categories().codes(beside))
    if isinstance(estimator, SurvivalEstimator):
        times, codes, groups = subjects(estimator, X)
        return Table(times, event=codes, groups=groups)  # type: ignore[arg-type]
    return Table(X, units=unit_places(beside)) if isinstance(estimator, MeanPerRow) else Table(X, y=beside)


def outcomes(estimator: Any, X: Any) -> np.ndarray | None:
    """Return an outcome or a label for each row, made of it alone, or a unit of its own, where one is needed."""
    if isinstance(estimator, MeanPerRow):
        return np.arange(len(X))
    if isinstance(estimator, SurvivalEstimator):
        _, codes, groups = subjects(estimator, X)
        events = np.array(estimator._event_kinds().values)[codes]
        return np.column_stack([events, np.array(estimator.groups)[groups]])
    two_samples = isinstance(estimator, HotellingTest) and estimator.groups is not None
    if not two_samples and not isinstance(estimator, Regression | GroupMeans | GroupQuantiles | GroupRankTest):
        return None
    first = np.asarray(X, dtype=np.float64)[:, 0]
    if isinstance(estimator, GroupRankTest):
        # Of digits behind the point, which ranks of whole parts do not depend on.
        declared = len(estimator.groups)
        codes = np.floor(1000 * (np.abs(first) % 1)).astype(np.int64)
        codes %= declared + (estimator.unknown == "drop")
        return np.where(codes < declared, codes, -1)  # a further one is of undeclared labels
    if two_samples or isinstance(estimator, GroupMeans | GroupQuantiles):
        return (first > 0).astype(int)
    return (first > 0).astype(float) if isinstance(estimator, PrivateLogisticRegression) else 0.5 * first


def subjects(estimator: Any, X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the time of each row, to two decimals, and the event and the group that the third one stands for."""
    numbers = np.abs(np.nan_to_num(np.asarray(X, dtype=np.float64)))[:, :1]
    # Far out there are no decimals.
    whole = np.floor(np.round(np.minimum(numbers, 1e9) * 1000, 6))
    digit = (whole[:, 0] % 10).astype(np.int64)
    n_kinds = len(estimator._event_kinds())
    place = digit % (n_kinds * len(estimator.groups))
    return np.floor(whole / 10) / 100, place % n_kinds, place // n_kinds


def fit_data(estimator: Any, X: Any) -> tuple[Any, ...]:
    """Return what an estimator is fitted to, of rows: with outcomes made of them where it needs any."""
    if (made := traits_of(estimator).rows) is not None:
        return made(estimator, X)
    y = outcomes(estimator, X)
    if isinstance(estimator, PrivateProportion | ContingencyTable | WorkloadRelease):
        X = (np.asarray(X) > 0).astype(np.int64)
    if isinstance(estimator, GroupRankTest):
        X = np.floor(X)
    if isinstance(estimator, SurvivalEstimator):
        X = subjects(estimator, X)[0]
    return (X,) if y is None else (X, y)


def fit_rows(estimator: Any, X: Any) -> Any:
    """Fit an estimator to rows, with outcomes made of them where it needs any."""
    return estimator.fit(*fit_data(estimator, X))


def width(entry: Entry) -> int:
    """Return the number of columns that an entry's estimator can be given: its parameters may be per column."""
    return 1 if has_one_column(entry.estimator) else int(np.shape(entry.dataset)[1])


def has_one_column(estimator: Any) -> bool:
    """Return whether an estimator takes a single column, as its tags say."""
    given = get_tags(estimator).input_tags
    return bool(given.one_d_array and not given.two_d_array)


def settings(entries: tuple[Entry, ...]) -> list[Entry]:
    """Return the entries of estimators of rows, one for each class and its parameters."""
    found: dict[str, Entry] = {}
    for entry in entries:
        of_rows = "rows" not in traits_of(entry).excused
        if entry.estimator is not None and of_rows and entry.public is not None:
            params = {**entry.estimator.get_params(), "random_state": None}
            found.setdefault(f"{type(entry.estimator).__name__} {params}", entry)
    return list(found.values())
