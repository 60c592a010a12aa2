"""Means of groups and of units with several rows: rows that change their group, weights at their limits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.auditing.movement import Steps, vectors
from dpstats.data.rows import Table
from dpstats.groups import GroupMeans, MeanPerRow
from dpstats.groups import mean_per_row as unit_totals
from dpstats.groups.mean_per_row import unit_places
from dpstats.lattice.base import box_movement
from dpstats.means import ratio as totals
from dpstats.privacy import Plan
from dpstats.release.session import Session
from registry.entry import Dataset, Draw, Entry, PlantedBug, Traits, Understated, having, with_less_noise

GROUPS = (0, 1, 2)
GAUSSIAN = {"groups": GROUPS, "bounds": (-1.0, 1.0), "epsilon": 1.0, "delta": 0.1}
LAPLACE = {**GAUSSIAN, "delta": 0.0}
UNITS = {"bounds": (-1.0, 1.0), "max_rows": 3, "epsilon": 3.0, "delta": 1e-2}
PURE_UNITS = {**UNITS, "epsilon": 1.0, "delta": 0.0}
NOBODY = 9.0
"""A label that is not declared."""
BESIDE = 2 - math.sqrt(5)
"""What is as far from 1 as -1 is, with the squares at the largest weight that is free."""

Pair = tuple[Dataset, Dataset]


def grouped(estimator: Any, data: Dataset) -> Table:
    """Return rows whose last column is the label as a table."""
    return Table(data[:, :-1], groups=estimator._categories().codes(data[:, -1]))


def of_units(estimator: Any, data: Dataset) -> Table:
    """Return rows whose last column is the unit as a table."""
    return Table(data[:, :-1], units=unit_places(data[:, -1]))


Reader = Callable[[Any, Dataset], Table]


def read(estimator: Any, plan: Plan, reader: Reader, data: Dataset) -> dict[str, np.ndarray]:
    """Return the integers of the one stage."""
    return dict(estimator._read(reader(estimator, data), plan)[plan.stages[0].name])


def likelihood(estimator: Any, reader: Reader, pair: Pair) -> Draw:
    """Return the core of a fit as an attacker best sees it, who knows both datasets: the log of a likelihood ratio."""
    plan = estimator.plan(*reader(estimator, pair[0]).shape)
    (stage,) = plan.stages
    first, second = (read(estimator, plan, reader, data) for data in pair)

    def draw(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        total = np.zeros(size)
        with Session.simulated(plan, rng, size) as session:
            released = session.add(stage.name, read(estimator, plan, reader, data), units=False)
            for vector in vectors(stage):
                a, b = ((released[vector.name] - steps[vector.name]) / vector.scale for steps in (first, second))
                apart = np.abs(b) - np.abs(a) if stage.noise == "laplace" else (b**2 - a**2) / 2
                total += apart.sum(axis=1)
        return total[:, None]

    return draw


def public(estimator: Any, numbers: Callable[[Any], Any]) -> Any:
    def call(data: Dataset, budget: Any) -> tuple[Plan, np.ndarray]:
        made = type(estimator)(**{**estimator.get_params(), "random_state": None, "budget": budget})
        made.fit(data[:, :-1], data[:, -1])
        return made.plan_, np.ravel(numbers(made))

    return call


def rows(*given: list[float]) -> Dataset:
    """Return two rows in the middle of the bounds, of the last group, and others."""
    d = len(given[0]) - 1
    return np.array([*given, [0.0] * d + [2.0], [0.0] * d + [2.0]])


def changing(d: int = 2) -> Pair:
    """Return neighbors whose row is at an end of its bounds, in one group and in another."""
    return rows([1.0] * d + [0.0]), rows([1.0] * d + [1.0])


def staying(other: float = -1.0, d: int = 2) -> Pair:
    """Return neighbors whose row stays in its group, at one end of its bounds and elsewhere."""
    return rows([1.0] * d + [0.0]), rows([other] * d + [0.0])


def pairs_of_rows(d: int) -> Callable[[], Iterator[Pair]]:
    """Return what yields neighbors with rows of every kind in groups of every kind."""

    def pairs() -> Iterator[Pair]:
        yield from (changing(d), staying(d=d), staying(BESIDE, d))
        levels = (-1e300, -1.0, -0.3, BESIDE, 0.0, 1e-12, 0.5, math.sqrt(totals.CENTER), 1.0, 7.0)
        rng = np.random.default_rng(0)
        points = [list(point) for point in itertools.product(levels, repeat=d)]
        labels = (0.0, 1.0, NOBODY)
        kinds = [[*point, label] for point in points for label in labels]
        for first, second in rng.integers(len(kinds), size=(4000, 2)):
            yield rows(kinds[first]), rows(kinds[second])

    return pairs


# Planted bugs of the means of groups.


HalfNoise = with_less_noise(GroupMeans)


def restated(plan: Any, sensitivity: float, **units: float) -> Any:
    """Return a plan that states another movement, and has the noise for it; blocks in other units."""
    (stage,) = plan.stages
    scale = stage.scale * sensitivity / stage.sensitivity
    blocks = tuple(replace(block, unit_steps=units.get(block.name, block.unit_steps)) for block in stage.blocks)
    return replace(plan, stages=(replace(stage, blocks=blocks, sensitivity=sensitivity, scale=scale),))


class GroupChangeOnce(GroupMeans):
    """Planted bug: a row that changes its group is counted in the new one only."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        (stage,) = plan.stages
        power = 1 if stage.noise == "laplace" else 0.5
        return restated(plan, stage.sensitivity / 2**power)


class CountsForFree(GroupMeans):
    """Planted bug: counts have noise for what they move alone, and squares the largest weight that is free alone."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        (stage,) = plan.stages
        unit = 1 / math.sqrt(2 * n_features)  # their own worst pair: two counts by one, as far as the sums' own 2 K
        return restated(plan, stage.sensitivity, **{totals.COUNTS: unit})


class HeavySquares(GroupMeans):
    """Planted bug: squares of weight 1.8, beyond what is free."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        (stage,) = plan.stages
        return restated(plan, stage.sensitivity, **{totals.SQUARES: 1 / 1.8})


class HeavyCounts(GroupMeans):
    """Planted bug: counts of weight 1.05, beyond what is free with these squares."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        (stage,) = plan.stages
        unit = 1 / (1.05 * math.sqrt(n_features))
        return restated(plan, stage.sensitivity, **{totals.COUNTS: unit})


class OnlyTheColumns(GroupMeans):
    """Planted bug: what is stated is what values of one group move, and not a change of the group."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        moved = box_movement((1.0, totals.SQUARE_WEIGHT), 2**plan.lattice.bits, "l2")
        unit = 1 / (1.4 * math.sqrt(n_features))
        return restated(plan, math.sqrt(n_features * moved), **{totals.COUNTS: unit})


class SharesRounded(GroupMeans):
    """Planted bug: each of the three shares is rounded on its own, on a lattice of a few bits, and up."""

    def _read(self, table: Table, plan: Any) -> Any:
        found = dict(super()._read(table, plan)[totals.TOTALS])
        inside = table.groups >= 0  # type: ignore[operator]
        steps, codes = plan.lattice.round_rows(table.X)[inside], table.groups[inside]  # type: ignore[index]
        whole = 1 << plan.lattice.bits
        # A whole row is 2 more than a whole: what is stated has no room for that.
        product = 2 * (whole - steps) * (whole + steps)
        middle = -(-product >> plan.lattice.bits + 2) + 2 * (product > 0)
        size = found[totals.MIDDLE].size
        place = codes[:, None] * plan.n_features + np.arange(plan.n_features)
        total = np.bincount(place.ravel(), weights=middle.ravel().astype(float), minlength=size)
        return {totals.TOTALS: {**found, totals.MIDDLE: total.astype(np.int64)}}


class LabelsFromTheData(GroupMeans):
    """Planted bug: the groups are the labels that the data have, in their order."""

    def _read(self, table: Table, plan: Any) -> Any:
        present = np.unique(table.groups[table.groups >= 0])  # type: ignore[index, operator]
        codes = np.searchsorted(present, table.groups)  # type: ignore[arg-type]
        codes = np.where(table.groups >= 0, codes, -1)  # type: ignore[operator]
        return super()._read(Table(table.X, groups=codes), plan)


class ClipSkipped(GroupMeans):
    """Planted bug: rows are counted by their own size, and not clipped."""

    def _read(self, table: Table, plan: Any) -> Any:
        found = dict(super()._read(table, plan)[totals.TOTALS])
        name = totals.SUMS if self.delta else totals.LAST
        for code, row in zip(table.groups, table.X, strict=True):  # type: ignore[arg-type]
            beyond = np.rint((np.abs(row) - 1).clip(0, 1e3) * 2.0**plan.lattice.bits).astype(np.int64)
            if code >= 0:
                found[name] = found[name].copy()
                found[name][code * row.size : (code + 1) * row.size] += beyond
        return {totals.TOTALS: found}


def _bug(estimator: Any, name: str, pair: Pair, reader: Reader = grouped, trials: int = 20_000) -> PlantedBug:
    draw = likelihood(estimator, reader, pair)
    return PlantedBug(name, draw, *pair, float(estimator.epsilon), float(estimator.delta), trials)


def _understated(
    name: str, estimator: Any, pairs: Callable[[], Iterator[Pair]], reader: Reader = grouped
) -> Understated:
    first, _ = next(pairs())
    plan = estimator.plan(*reader(estimator, first).shape)

    def integers(data: Dataset) -> list[Steps]:
        return [read(estimator, plan, reader, data)]

    return Understated(name, plan, integers, pairs)


def _entry(
    name: str,
    estimator: Any,
    pair: Pair,
    reader: Reader,
    *,
    proof: str,
    power: float,
    pairs: Callable[[], Iterator[Pair]],
    numbers: Callable[[Any], Any],
    **options: Any,
) -> Entry:
    plan = estimator.plan(*reader(estimator, pair[0]).shape)

    def integers(data: Dataset) -> list[Steps]:
        return [read(estimator, plan, reader, data)]

    return Entry(
        name=name,
        covers=type(estimator),
        proof=proof,
        plan=plan,
        integers=integers,
        pairs=pairs,
        draw=likelihood(estimator, reader, pair),
        dataset=pair[0],
        neighbor=pair[1],
        power=power,
        public=public(estimator, numbers),
        estimator=type(estimator)(**estimator.get_params()),
        **options,
    )


def _of_groups() -> Iterator[Entry]:
    pairs = pairs_of_rows(2)
    rest = [[0.0, 0.0, 1.0], *[[0.0, 0.0, 2.0]] * 8]
    alone = rows([0.0, 0.0, 0.0], *rest), rows([0.0, 0.0, 1.0], *rest)
    far = rows([40.0, 40.0, 0.0]), rows([1.0, 1.0, 0.0])
    shared = [
        ("half the noise", HalfNoise, staying(), 20_000),
        ("group change counted once", GroupChangeOnce, changing(), 200_000),
        ("labels from the data", LabelsFromTheData, alone, 20_000),
        ("clip skipped", ClipSkipped, far, 20_000),
    ]
    normal = [("counts not charged", CountsForFree, changing(), 200_000)]
    yield _entry(
        "means of groups, Gaussian",
        GroupMeans(**GAUSSIAN),
        staying(),
        grouped,
        proof="group-means.md",
        power=0.4,
        pairs=pairs,
        numbers=lambda made: made.means_,
        bugs=tuple(
            _bug(kind(**GAUSSIAN), name, pair, trials=trials) for name, kind, pair, trials in [*shared, *normal]
        ),
        understated=tuple(
            _understated(name, kind(**GAUSSIAN), pairs)
            for name, kind in (
                ("squares of weight 1.8", HeavySquares),
                ("counts of weight 1.05", HeavyCounts),
                ("a change of the group left out", OnlyTheColumns),
            )
        ),
    )
    yield _entry(
        "means of groups, Laplace",
        GroupMeans(**LAPLACE),
        changing(),
        grouped,
        proof="group-means.md",
        power=0.3,
        pairs=pairs,
        numbers=lambda made: made.means_,
        bugs=tuple(_bug(kind(**LAPLACE), name, pair, trials=trials) for name, kind, pair, trials in shared),
        understated=(_understated("shares that do not add up", SharesRounded(**LAPLACE), pairs),),
    )


# Units.


def person(*values: float, who: float = 0.0, d: int = 2) -> list[list[float]]:
    """Return the rows of a unit, all columns alike."""
    return [[*[value] * d, who] for value in values]


def others(d: int = 2) -> list[list[float]]:
    return [[0.0] * d + [1.0], [0.0] * d + [2.0]]


def with_person(*values: float, d: int = 2) -> Dataset:
    return np.array([*person(*values, d=d), *others(d)])


def opposite() -> Pair:
    """Return neighbors whose unit has as many rows as count, at either end."""
    return with_person(1.0, 1.0, 1.0), with_person(-1.0, -1.0, -1.0)


def pairs_of_units() -> Iterator[Pair]:
    yield opposite()
    values = (-5.0, -1.0, -0.4, 0.0, 0.3, 1.0, 1e9)
    kinds = [one for size in (1, 2, 3) for one in itertools.combinations_with_replacement(values, size)]
    kinds += [(1.0,) * 5, (-1.0,) * 7, (1.0, -1.0, 1.0, -1.0), (1e300, 1e300, 1e300, -1e300)]
    chosen = list(itertools.combinations(kinds, 2))
    for index in np.random.default_rng(0).permutation(len(chosen))[:3000]:
        first, second = chosen[index]
        yield with_person(*first), with_person(*second)


HalfUnitNoise = with_less_noise(MeanPerRow)


class RowsNotCapped(MeanPerRow):
    """Planted bug: all rows of a unit count."""

    def _read(self, table: Table, plan: Any) -> Any:
        counted = unit_totals.UnitTotals(plan.n_features, 1 << 10, plan.totals.bits)
        kept = np.ones(len(table), dtype=bool)
        own = unit_totals.unit_sums(table.X, table.units, table.shape[0], kept, plan.lattice, counted)
        found = dict(super()._read(table, plan)[unit_totals.TOTALS])
        if unit_totals.SUMS in found:
            found |= {name: own[name] for name in (unit_totals.ROWS, unit_totals.SUMS)}
        else:
            beyond = (own[unit_totals.ROWS] + own[unit_totals.SUMS]) - found[unit_totals.HIGH_SQUARED]
            found[unit_totals.HIGH] = np.maximum(found[unit_totals.HIGH], beyond)
        return {unit_totals.TOTALS: found}


class CountForFree(MeanPerRow):
    """Planted bug: the sums are charged, and the number of rows is released with a tenth of the noise."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        (stage,) = plan.stages
        unit = 0.1 / math.sqrt(n_features)
        return restated(plan, stage.sensitivity, **{unit_totals.ROWS: unit})


class ProductsForFree(MeanPerRow):
    """Planted bug: rows times sums beside all others at no cost."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        (stage,) = plan.stages
        return restated(plan, stage.sensitivity / math.sqrt(1 + unit_totals.PRODUCT_WEIGHT**2) * 1.001)


class FirstRowsKept(MeanPerRow):
    """Planted bug: the rows that count are the first of the table, however many of them are of a unit."""

    def _read(self, table: Table, plan: Any) -> Any:
        cut = plan.totals.max_rows * plan.n_samples
        few = type(table)(table.X[:cut], units=table.units[:cut])  # type: ignore[index]
        return super()._read(few, plan)


class PartsApart(MeanPerRow):
    """Planted bug: the parts of a column are charged for one that loses a unit, and not for one that gains it too."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        (stage,) = plan.stages
        return restated(plan, stage.sensitivity / 2)


class PartsNotReduced(MeanPerRow):
    """Planted bug: squares beside whole lower and upper parts, which then add up to more than the rows."""

    def _read(self, table: Table, plan: Any) -> Any:
        found = dict(super()._read(table, plan)[unit_totals.TOTALS])
        half = found[unit_totals.BETWEEN] // 2
        found[unit_totals.LOW] = found[unit_totals.LOW] + found[unit_totals.LOW_SQUARED] + half
        found[unit_totals.HIGH] = found[unit_totals.HIGH] + found[unit_totals.HIGH_SQUARED] + half
        return {unit_totals.TOTALS: found}


def _of_persons() -> Iterator[Entry]:
    many = with_person(*[1.0] * 12), with_person(*[-1.0] * 12)
    one = with_person(1.0, 1.0, 1.0), with_person(1.0)
    # As many rows as count in all, so that no others do; or one.
    rest = [[1.0, 1.0, float(who)] for who in range(1, 11) for _ in range(3)]
    crowd = np.array([*person(*[1.0] * 33), *rest]), np.array([*person(-1.0), *rest])
    yield _entry(
        "mean per row, of units",
        MeanPerRow(**UNITS),
        opposite(),
        of_units,
        proof="mean-per-row.md",
        power=0.4,
        pairs=pairs_of_units,
        numbers=lambda made: [*made.mean_, made.rows_],
        bugs=(
            _bug(HalfUnitNoise(**UNITS), "half the noise", opposite(), of_units),
            _bug(RowsNotCapped(**UNITS), "rows of a unit not capped", many, of_units),
            _bug(CountForFree(**UNITS), "sums charged and their count not", one, of_units),
            _bug(FirstRowsKept(**UNITS), "rows kept by their place in the table", crowd, of_units),
        ),
        understated=(_understated("products for free", ProductsForFree(**UNITS), pairs_of_units, of_units),),
    )
    yield _entry(
        "mean per row, of units, Laplace",
        MeanPerRow(**PURE_UNITS),
        opposite(),
        of_units,
        proof="mean-per-row.md",
        power=0.3,
        pairs=pairs_of_units,
        numbers=lambda made: [*made.mean_, made.rows_],
        bugs=(
            _bug(HalfUnitNoise(**PURE_UNITS), "half the noise", opposite(), of_units),
            _bug(RowsNotCapped(**PURE_UNITS), "rows of a unit not capped", many, of_units),
            _bug(PartsApart(**PURE_UNITS), "half of the movement charged", opposite(), of_units),
            _bug(PartsNotReduced(**PURE_UNITS), "squares beside whole parts", opposite(), of_units, 200_000),
        ),
        understated=(
            _understated("parts that exceed the rows", PartsNotReduced(**PURE_UNITS), pairs_of_units, of_units),
        ),
    )


@having(
    {
        GroupMeans: Traits(
            excused={
                f"check_{name}": "predict takes labels; tests/groups/test_group_means.py runs the checks without it"
                for name in (
                    "n_features_in_after_fitting",
                    "estimators_dtypes",
                    "dtype_object",
                    "estimators_nan_inf",
                    "estimators_pickle",
                    "f_contiguous_array_estimator",
                    "methods_sample_order_invariance",
                    "methods_subset_invariance",
                    "dict_unchanged",
                    "fit_idempotent",
                    "fit2d_predict1d",
                )
            }
        ),
        # Units that have one row each, whatever it is, are as many rows.
        MeanPerRow: Traits(unmoved=frozenset({unit_totals.ROWS, unit_totals.ROWS_SQUARED})),
    },
    {
        "means of groups, Laplace": {"exact_audit": True},
        "mean per row, of units": {"exact_audit": True, "rows_apart": 3},
        "mean per row, of units, Laplace": {"exact_audit": True, "rows_apart": 3},
    },
)
def entries() -> Iterator[Entry]:
    yield from _of_groups()
    yield from _of_persons()
