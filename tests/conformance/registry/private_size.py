"""A private number of rows: a row, or a unit with all its rows, is there or it is not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dpstats.data.rows import Table
from dpstats.groups import GroupMeans, MeanPerRow
from dpstats.means import ClippedMean, PrivateVariance
from dpstats.means import ratio as totals
from dpstats.mechanisms import Histogram
from dpstats.tables import ContingencyTable, PrivateProportion
from dpstats.tables.proportion import COUNT
from registry import groups, tables
from registry.clipped_mean import half_noise
from registry.entry import Entry, PlantedBug, Understated, core, exact_integers, fitted, having, less_noise
from registry.groups import NOBODY, Pair, Reader, grouped, likelihood, of_units, person, read, restated
from registry.observed import from_zero, not_charged

ADDED = {"neighbors": "add_or_remove"}
GAUSSIAN = {"epsilon": 1.0, "delta": 0.1, **ADDED}
LAPLACE = {"epsilon": 1.0, "delta": 0.0, **ADDED}
LEVELS = (-1e300, -1.0, -0.4, 0.0, 1e-12, 0.3, 0.7071, 1.0, 7.0)

Pairs = Callable[[], Iterator[Pair]]


def plain(estimator: Any, data: np.ndarray) -> Table:
    """Return rows as a table."""
    return Table(data)


def with_row(*row: float, n: int = 2) -> Pair:
    """Return n rows in the middle of the bounds and one more, and the same without it."""
    others = np.zeros((n, len(row)))
    return np.vstack([[row], others]), others


def alone(*row: float) -> Pair:
    """Return one row, and none."""
    return with_row(*row, n=0)


def added_rows(d: int) -> Pairs:
    """Return what yields datasets with a row of every kind, first, last or alone, and without it."""

    def pairs() -> Iterator[Pair]:
        for row in itertools.product(LEVELS, repeat=d):
            X, Y = with_row(*row)
            yield X, Y
            yield X[::-1].copy(), Y
            yield alone(*row)

    return pairs


def labeled_rows(d: int) -> Pairs:
    """Return what yields datasets with a row of every kind in a group of every kind, and without it."""

    def pairs() -> Iterator[Pair]:
        for row in itertools.product(LEVELS, repeat=d):
            for label in (0.0, 1.0, NOBODY):
                X = groups.rows([*row, label])
                yield X, X[1:]

    return pairs


# Planted bugs


class Replaced(ClippedMean):
    """Planted bug: the center of the squares is that of replaced rows, at the movement of added ones."""

    def plan(self, n_samples: int | None, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        return replace(plan, totals=OtherCenter(1, n_features, plan.totals.bits, plan.totals.neighbors))  # type: ignore[union-attr]


class OtherCenter(totals.GaussianTotals):
    """Squares that are measured from 0."""

    @property
    def center(self) -> int:
        return 0


class CountsForFree(ClippedMean):
    """Planted bug: the sums are charged, and the number of rows has a tenth of the noise."""

    def plan(self, n_samples: int | None, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        (stage,) = plan.stages
        unit = 0.1 / math.sqrt(n_features)
        return restated(plan, stage.sensitivity, **{totals.COUNTS: unit})


class SharesRoundedUp(ClippedMean):
    """Planted bug: the middle share is rounded on its own, and up: the three are more than one row."""

    def _read(self, table: Any, plan: Any) -> Any:
        found = dict(super()._read(table, plan)[totals.TOTALS])
        steps = plan.lattice.round_rows(table.X)
        # A quarter of a step too much of each entry, on a lattice of two bits less.
        extra = np.full(steps.shape, 1 << plan.lattice.bits - 3, dtype=np.int64).sum(axis=0)
        return {totals.TOTALS: {**found, totals.MIDDLE: found[totals.MIDDLE] + extra}}


def size_told(estimator: Any, reader: Reader, pair: Pair) -> PlantedBug:
    """Planted bug: an average over the exact number of rows, which whoever knows the sums can tell."""
    draw = likelihood(estimator, reader, pair)

    def told(data: np.ndarray, rng: np.random.Generator, size: int) -> np.ndarray:
        return draw(data, rng, size) + 1e3 * len(data)

    return PlantedBug("the number of rows is told", told, *pair, float(estimator.epsilon), float(estimator.delta))


def _bug(name: str, estimator: Any, reader: Reader, pair: Pair, trials: int = 20_000) -> PlantedBug:
    draw = likelihood(estimator, reader, pair)
    return PlantedBug(name, draw, *pair, float(estimator.epsilon), float(estimator.delta), trials)


def _understated(name: str, estimator: Any, reader: Reader, pairs: Pairs) -> Understated:
    first, _ = next(pairs())
    plan = estimator.plan(*reader(estimator, first).shape)
    return Understated(name, plan, lambda data: [read(estimator, plan, reader, data)], pairs)


def _entry(
    name: str,
    estimator: Any,
    pair: Pair,
    reader: Reader,
    pairs: Pairs,
    public: Callable[..., Any],
    *,
    power: float,
    bugs: tuple[PlantedBug, ...],
    understated: tuple[Understated, ...] = (),
) -> Entry:
    plan = estimator.plan(*reader(estimator, pair[0]).shape)
    return Entry(
        name=f"{name}, private size",
        covers=type(estimator),
        proof="private-size.md",
        plan=plan,
        integers=lambda data: [read(estimator, plan, reader, data)],
        pairs=pairs,
        draw=likelihood(estimator, reader, pair),
        dataset=pair[0],
        neighbor=pair[1],
        power=power,
        public=public,
        bugs=bugs,
        understated=understated,
        estimator=type(estimator)(**estimator.get_params()),
    )


def _means() -> Iterator[Entry]:
    pair, pairs, box = with_row(1.0, 1.0), added_rows(2), {"bounds": (-1.0, 1.0)}
    half = half_noise(ClippedMean)
    for law, options, power in (("Gaussian", GAUSSIAN, 0.4), ("Laplace", LAPLACE, 0.3)):
        given = {**box, **options}
        bugs = [_bug("half the noise", half(**given), plain, pair, 100_000)]
        bugs.append(size_told(ClippedMean(**given), plain, pair))
        wrong: dict[str, Any] = {"shares rounded up": SharesRoundedUp}
        if law == "Gaussian":
            bugs.append(_bug("counts not charged", CountsForFree(**given), plain, pair))
            wrong = {"counts not charged": CountsForFree, "squares from 0": Replaced}
        yield _entry(
            f"clipped mean, {law}",
            ClippedMean(**given),
            pair,
            plain,
            pairs,
            fitted(ClippedMean(**given), lambda made: [*made.mean_, made.n_]),
            power=power,
            bugs=tuple(bugs),
            understated=tuple(_understated(name, kind(**given), plain, pairs) for name, kind in wrong.items()),
        )


def _variances() -> Iterator[Entry]:
    pair, pairs = with_row(1.0, 1.0), added_rows(2)
    for law, options, power in (("Gaussian", GAUSSIAN, 0.4), ("Laplace", LAPLACE, 0.3)):
        given = {"clip": 1.0, **options}
        wrong = {
            "the count of rows is not charged": not_charged(PrivateVariance)(**given),
            "even powers from 0": from_zero(PrivateVariance)(**given),
        }
        yield _entry(
            f"variance, {law}",
            PrivateVariance(**given),
            pair,
            plain,
            pairs,
            fitted(PrivateVariance(**given), lambda made: [*made.variance_, made.n_]),
            power=power,
            bugs=(_bug("half the noise", half_noise(PrivateVariance)(**given), plain, pair, 100_000),),
            understated=tuple(_understated(name, made, plain, pairs) for name, made in wrong.items()),
        )


def _groups() -> Iterator[Entry]:
    X = groups.rows([1.0, 1.0, 0.0])
    pair, pairs = (X, X[1:]), labeled_rows(2)
    for law, options, power in (("Gaussian", GAUSSIAN, 0.4), ("Laplace", LAPLACE, 0.3)):
        given = {"groups": groups.GROUPS, "bounds": (-1.0, 1.0), **options}
        yield _entry(
            f"means of groups, {law}",
            GroupMeans(**given),
            pair,
            grouped,
            pairs,
            groups.public(GroupMeans(**given), lambda made: made.means_),
            power=power,
            bugs=(
                _bug("half the noise", groups.HalfNoise(**given), grouped, pair, 100_000),
                _bug("labels from the data", groups.LabelsFromTheData(**given), grouped, pair),
            ),
        )


def _units() -> Iterator[Entry]:
    def with_unit(*values: float) -> Pair:
        """Return a unit with one row for each value beside others, and the others."""
        X, count = np.array([*person(*values), *groups.others()]), len(values)
        return X, X[count:]

    def pairs() -> Iterator[Pair]:
        values = (-5.0, -1.0, -0.4, 0.0, 0.3, 1.0, 1e9)
        for size in (3, 2, 1, 5):
            for own in itertools.combinations_with_replacement(values[::-1], size):
                yield with_unit(*own)

    pair = with_unit(1.0, 1.0, 1.0)
    for law, options, power in (("Gaussian", GAUSSIAN, 0.4), ("Laplace", LAPLACE, 0.3)):
        given = {"bounds": (-1.0, 1.0), "max_rows": 3, **options}
        own = (
            [("sums charged and their count not", groups.CountForFree)]
            if law == "Gaussian"
            else [("squares beside whole parts", groups.PartsNotReduced)]
        )
        kept = groups.ProductsForFree if law == "Gaussian" else groups.PartsNotReduced
        capped = groups.RowsNotCapped(**given)
        yield _entry(
            "mean per row, of units" + ", Laplace" * (law == "Laplace"),
            MeanPerRow(**given),
            pair,
            of_units,
            pairs,
            groups.public(MeanPerRow(**given), lambda made: [*made.mean_, made.rows_]),
            power=power,
            bugs=(
                _bug("half the noise", groups.HalfUnitNoise(**given), of_units, pair, 100_000),
                _bug("rows of a unit not capped", capped, of_units, with_unit(*[1.0] * 12)),
                *(_bug(name, kind(**given), of_units, pair, 100_000) for name, kind in own),
            ),
            understated=(_understated("products for free", kept(**given), of_units, pairs),),
        )


def _tables() -> Iterator[Entry]:
    def pairs() -> Iterator[Pair]:
        for data in itertools.product(tables.KINDS, repeat=3):
            yield tables.rows(*data), tables.rows(*data[:-1])

    pair = tables.rows((0, 0), (1, 1), (1, 2)), tables.rows((1, 1), (1, 2))
    for law, options in (("Laplace", LAPLACE), ("Gaussian", GAUSSIAN)):
        given = {"levels": tables.LEVELS, **options}
        estimator = ContingencyTable(**given)
        plan, claim = estimator.plan(3, 2), (float(options["epsilon"]), float(options["delta"]))  # type: ignore[arg-type]
        half = core(tables.TableHalfNoise(**given))
        yield Entry(
            name=f"contingency table, {law}, private size",
            covers=ContingencyTable,
            proof="private-size.md",
            plan=plan,
            integers=exact_integers(estimator, plan),
            pairs=pairs,
            draw=core(estimator),
            dataset=pair[0],
            neighbor=pair[1],
            power=0.3,
            public=fitted(estimator, lambda made: made.counts_),
            bugs=(PlantedBug("half the noise", half, *pair, *claim, 400_000),),
            estimator=ContingencyTable(**{**given, "levels": [[0, 1], [0, 1]]}),
        )


class CountOfRows(PrivateProportion):
    """Planted bug: the zeros are the exact number of rows less the noisy ones, and have no noise of their own."""

    def _release(self, private: Any, plan: Any, session: Any) -> None:
        super()._release(private, plan, session)
        ones, zeros = session.released[COUNT].T
        ones[:], zeros[:] = ones, private[COUNT].sum() - ones


def _proportions() -> Iterator[Entry]:
    def pairs() -> Iterator[Pair]:
        for n in (2, 3):
            for data in itertools.product((0, 1, 2), repeat=n):  # 2 is the code of a missing entry
                yield tables.rows(*data), tables.rows(*data[:-1])

    pair = tables.rows(1, 0, 1), tables.rows(0, 1)
    for law, options in (("Laplace", LAPLACE), ("Gaussian", GAUSSIAN)):
        given = {**options, "missing": "drop"}
        estimator = PrivateProportion(**given)
        plan, claim = estimator.plan(3, 1), (float(options["epsilon"]), float(options["delta"]))  # type: ignore[arg-type]
        half, told = (core(made(**given)) for made in (tables.HalfNoise, CountOfRows))
        (stage,) = plan.additive
        less = replace(plan, stages=(replace(stage, sensitivity_steps=stage.sensitivity_steps // 2),))
        yield Entry(
            name=f"proportion, {law}, private size",
            covers=PrivateProportion,
            proof="private-size.md",
            plan=plan,
            integers=exact_integers(estimator, plan),
            pairs=pairs,
            draw=core(estimator),
            dataset=pair[0],
            neighbor=pair[1],
            power=0.3,
            public=fitted(estimator, lambda made: [made.count_, made.n_]),
            bugs=(
                PlantedBug("half the noise", half, *pair, *claim, 400_000),
                PlantedBug("the exact number of rows is told", told, *pair, *claim),
            ),
            understated=(Understated("half of what a row adds", less, exact_integers(estimator, plan), pairs),),
            estimator=PrivateProportion(**given),
        )


# Counts where a person has several rows: data are pairs of a person and a value.

People = tuple[tuple[Any, Any], ...]


def _steps_of(made: Histogram, data: People) -> np.ndarray:
    return made._steps([value for _, value in data], [person for person, _ in data])[0]


def _counts_of(made: Callable[..., Histogram], noise: float = 1.0) -> Callable[..., np.ndarray]:
    """Return the batched core of a release of counts; ``noise`` multiplies it."""

    def draw(data: People, rng: np.random.Generator, size: int) -> np.ndarray:
        histogram = made(random_state=rng)
        with histogram._session(less_noise(histogram.plan, noise), size) as session:
            return session.add("counts", _steps_of(histogram, data))

    return draw


class AllRowsCount(Histogram):
    """Planted bug: all rows of a unit count, at the movement of a few."""

    def _steps(self, data: Any, units: Any = None) -> tuple[np.ndarray, int]:
        return Histogram(self.categories, self.epsilon, self.delta, neighbors="add_or_remove")._steps(data)


class ByFrequency(Histogram):
    """Planted bug: the rows that count are those of the values that most people have."""

    def _steps(self, data: Any, units: Any = None) -> tuple[np.ndarray, int]:
        common = sorted(self.categories, key=lambda value: (-list(data).count(value), value))
        kept: list[Any] = []
        for one in dict.fromkeys(units):
            own = [value for unit, value in zip(units, data, strict=True) if unit == one]
            kept += sorted(own, key=common.index)[: self._most]
        return Histogram(self.categories, self.epsilon, self.delta, neighbors="add_or_remove")._steps(kept)


def _histograms() -> Iterator[Entry]:
    others: People = (("b", 0), ("c", 1), ("c", 1), ("c", 0), ("d", 0), ("d", 1))

    def pairs() -> Iterator[tuple[People, People]]:
        for size in (1, 2, 3, 5):
            for own in itertools.combinations_with_replacement((0, 1, 2), size):
                yield (*others, *(("a", value) for value in own)), others

    for law, options in (("Laplace", LAPLACE), ("Gaussian", GAUSSIAN)):
        given = {"categories": [0, 1, 2], "max_rows": 2, **options}
        made, claim = partial(Histogram, **given), (float(options["epsilon"]), float(options["delta"]))  # type: ignore[arg-type]
        histogram, uncut, chosen = made(), partial(AllRowsCount, **given), ByFrequency(**given)
        full = (*others, *[("a", 1)] * 12)
        yield Entry(
            name=f"histogram of units, {law}, private size",
            covers=Histogram,
            proof="private-size.md",
            plan=histogram.plan,
            integers=lambda data, made=histogram: [_steps_of(made, data)],
            pairs=pairs,
            draw=_counts_of(made),
            dataset=full,
            neighbor=others,
            power=0.3,
            public=lambda data, budget, made=made: (
                made(budget=budget).plan,
                made(budget=budget).release([x for _, x in data], [unit for unit, _ in data]).counts,
            ),
            bugs=(
                PlantedBug("half the noise", _counts_of(made, 0.5), full, others, *claim, 100_000),
                PlantedBug("all rows of a unit count", _counts_of(uncut), full, others, *claim),
            ),
            understated=(
                Understated(
                    "rows chosen by those of other units",
                    histogram.plan,
                    lambda data, made=chosen: [_steps_of(made, data)],
                    pairs,
                ),
            ),
            method="release",
        )


@having(
    {},
    {
        "mean per row, of units, private size": {"rows_apart": 3},
        "mean per row, of units, Laplace, private size": {"rows_apart": 3},
        "contingency table, Laplace, private size": {"not_replayed": "levels are for any table"},
        "contingency table, Gaussian, private size": {"not_replayed": "levels are for any table"},
    },
)
def entries() -> Iterator[Entry]:
    yield from _histograms()
    yield from _proportions()
    yield from _means()
    yield from _variances()
    yield from _groups()
    yield from _units()
    yield from _tables()
