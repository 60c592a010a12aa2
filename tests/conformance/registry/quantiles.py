"""Quantiles: points chosen together, with intervals for any law, by halving; the median; the distribution."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.data.rows import Table
from dpstats.privacy import Plan, Stage
from dpstats.quantiles import PrivateDistribution, PrivateMedian, PrivateQuantile
from dpstats.quantiles.distribution import COUNTS as DYADIC
from dpstats.quantiles.grid import Grid, counts_beside, sorted_places
from dpstats.quantiles.median import MEDIAN
from dpstats.quantiles.quantile_plan import POINTS
from dpstats.release.session import Part, Session
from dpstats.sensitivity.smooth import median_reach
from registry.entry import (
    Dataset,
    Draw,
    Entry,
    PlantedBug,
    Understated,
    core,
    exact_integers,
    fitted,
    less_noise,
    with_less_noise,
)

Pair = tuple[Dataset, Dataset]

HUNDRED: dict[str, Any] = {"bounds": (0, 100), "step": 1.0, "epsilon": 1.0}
ANYWHERE: dict[str, Any] = {"bounds": (-6.0, 6.0)}


def rows(*values: float) -> Dataset:
    return np.array(values, dtype=np.float64)[:, None]


def moved(counts: dict[float, int], start: float, end: float) -> Pair:
    """Return rows of some values, so many of each, and the same with one row moved."""
    values = [value for value, count in counts.items() for _ in range(count)]
    place = values.index(start)
    return rows(*values), rows(*values[:place], end, *values[place + 1 :])


def small_datasets(values: tuple[float, ...], n: int) -> list[Dataset]:
    return [rows(*chosen) for chosen in itertools.combinations_with_replacement(values, n)]


def neighbors(values: tuple[float, ...], n: int) -> Iterator[Pair]:
    """Yield all pairs of small datasets that differ in one row."""
    for rest in itertools.combinations_with_replacement(values, n - 1):
        for a, b in itertools.combinations(values, 2):
            yield rows(*rest, a), rows(*rest, b)


def gone(counts: dict[float, int], start: float) -> Pair:
    """Return rows of some values, so many of each, and the same with one row missing."""
    return moved(counts, start, np.nan)


def with_missing(values: tuple[float, ...], sizes: tuple[int, ...]) -> Callable[[], Iterator[Pair]]:
    """Return what yields the neighbors among small datasets of which any rows may be missing."""

    def pairs() -> Iterator[Pair]:
        for n in sizes:
            yield from neighbors((*values, np.nan), n)

    return pairs


# Points chosen together.


RangeOfOne = with_less_noise(PrivateQuantile)  # A row moves log-probabilities apart by one step, and not by two


class RefusesTies(PrivateQuantile):
    """Planted bug: where rows are tied there is no answer, as where an interval of length 0 is divided by."""

    def _release(self, private: Any, plan: Any, session: Session) -> None:
        if np.any(np.diff(private) == 0):
            session.choose(POINTS, [Part([_certain(plan)])])
            return
        super()._release(private, plan, session)


def _certain(plan: Any) -> Any:
    from dpstats.release.groups import Windows

    def ends(a: Any, b: Any) -> Any:
        return tuple(np.full((len(plan.targets), len(side)), plan.grid.steps) for side in (a, b))

    return Windows(ends, len(plan.targets), candidates=1)


class BoundsFromTheData(PrivateQuantile):
    """Planted bug: the grid goes from the least row to the largest."""

    def _read(self, table: Table, plan: Any) -> Any:
        x = np.asarray(table.X)[:, 0]
        own = Grid(float(x.min()), max(float(x.max()), float(x.min()) + 1e-9), plan.grid.steps, True)
        return sorted_places(table.X, own)


class CountIsPublic(PrivateQuantile):
    """Planted bug: the number of observed rows has next to no noise."""

    def plan(self, n_samples: int, n_features: int = 1) -> Any:
        plan = super().plan(n_samples, n_features)
        rows, *choices = plan.stages
        return replace(plan, stages=(replace(rows, scale_steps=0.05), *choices))


class CountsAsTheyAre(PrivateQuantile):
    """Planted bug: the counts that check ends have next to no noise, as what only says yes or no."""

    def plan(self, n_samples: int, n_features: int = 1) -> Any:
        plan = super().plan(n_samples, n_features)
        choice, counts = plan.stages
        return replace(plan, stages=(choice, replace(counts, scale_steps=0.05)))


def opposite_counts(places: Any, low: Any, high: Any) -> Any:
    found = counts_beside(places, low, high)
    half = found.shape[-1] // 2
    return np.concatenate([found[..., :half], places.size - found[..., half:]], axis=-1)


# The scale of a level is 1/epsilon, as if one row moved one rank by one.

# Ranks among all rows, charged as disjoint: tests/quantiles/test_halving.py
ScaleOfOneStep = with_less_noise(PrivateQuantile, 0.25)


def _quantile(
    name: str, options: dict[str, Any], pair: Pair, power: float, bugs: tuple[PlantedBug, ...], **more: Any
) -> Entry:
    estimator = PrivateQuantile(**options)
    return Entry(
        name=name,
        covers=PrivateQuantile,
        proof="quantiles.md",
        plan=estimator.plan(*pair[0].shape),
        integers=more.pop("integers", lambda data: []),
        pairs=more.pop("pairs", lambda: iter(())),
        draw=more.pop("draw", core(estimator)),
        dataset=pair[0],
        neighbor=pair[1],
        power=power,
        public=fitted(estimator, lambda made: np.append(made.quantile_, np.nan_to_num(made.low_))),
        bugs=bugs,
        estimator=PrivateQuantile(**{**options, **ANYWHERE, "step": None}),
        **more,
    )


def _bug(name: str, draw: Draw, pair: Pair, epsilon: float, delta: float = 0.0, trials: int = 20_000) -> PlantedBug:
    return PlantedBug(name, draw, *pair, epsilon, delta, trials)


def quantile_entries() -> Iterator[Entry]:
    # Below the rows at 90 the rank is short, above it is too large: one row moved from 0 to 100 makes the first worse
    # and the second better.
    pair = moved({0: 1, 90: 2}, 0, 100)
    single = {**HUNDRED, "confidence_level": None}
    tied = rows(0, 50, 50), rows(0, 49, 50)
    outlier = moved({49: 1, 50: 39, 51: 1}, 51, 100)
    yield _quantile(
        "quantile",
        single,
        pair,
        0.5,
        (
            _bug("one range counted as 1", core(RangeOfOne(**single)), pair, 1.0),
            _bug("refuses on ties", core(RefusesTies(**single)), tied, 1.0),
            _bug("bounds from the data", core(BoundsFromTheData(**single)), outlier, 1.0),
        ),
    )
    several = {**single, "q": (0.5, 0.55, 0.6)}
    three = moved({0: 1, 80: 2}, 0, 100)
    yield _quantile(
        "three quantiles",
        several,
        three,
        0.1,
        (_bug("one range counted as 1", core(RangeOfOne(**several)), three, 1.0, trials=60_000),),
    )
    interval = {**HUNDRED, "step": None, "epsilon": 4.0}
    many = moved({0: 20, 90: 20}, 0, 100)
    yield _quantile("median and its interval", interval, many, 0.3, ())
    law = {**HUNDRED, "epsilon": 4.0, "coverage": "any"}
    plan = PrivateQuantile(**law).plan(60)
    ends = sum(target.kind != 1 for target in plan.targets) // 2
    low, high = np.array([1] * ends), np.array([2] * ends)
    twice = moved({0: 30, 90: 30}, 0, 100)

    def integers(data: Dataset, count: Callable[..., Any] = counts_beside) -> list[np.ndarray]:
        return [count(np.sort(data[:, 0]).astype(np.int64), low, high)]

    yield _quantile(
        "median and its interval for any law",
        law,
        twice,
        0.3,
        (_bug("counts as they are", core(CountsAsTheyAre(**law)), twice, 4.0),),
        integers=integers,
        pairs=lambda: neighbors((0.0, 1.0, 2.0, 3.0), 4),
        understated=(
            Understated(
                "rows above in place of rows below",
                plan,
                lambda data: integers(data, opposite_counts),
                lambda: neighbors((0.0, 1.0, 2.0, 3.0), 4),
            ),
        ),
    )
    levels = {**single, "q": (0.4, 0.5, 0.6), "method": "halving"}
    bug = _bug("scale of one step", core(ScaleOfOneStep(**levels)), pair, 1.0, trials=40_000)
    yield _quantile("quantiles by halving", levels, pair, 0.1, (bug,))
    dropped = {**single, "missing": "drop", "epsilon": 4.0}
    absent = gone({0: 1, 90: 2, 100: 1}, 100)
    beside = moved({0: 1, 90: 2, np.nan: 1}, 0, 100)
    number = PrivateQuantile(**dropped).plan(4).stages[0]

    def counted(data: Dataset) -> list[np.ndarray]:
        return [np.array([np.isfinite(data).sum()])]

    yield _quantile(
        "quantile of observed rows",
        dropped,
        beside,
        0.3,
        (
            _bug("one range counted as 1", core(RangeOfOne(**dropped)), beside, 4.0, trials=60_000),
            _bug("the count has next to no noise", core(CountIsPublic(**dropped)), absent, 4.0),
        ),
        integers=counted,
        pairs=with_missing((0.0, 3.0), (3,)),
        stages=(number,),
    )
    shares = {**dropped, "q": (0.3, 0.7), "method": "halving"}
    yield _quantile(
        "quantiles of observed rows by halving",
        shares,
        absent,
        0.1,
        (),
        integers=counted,
        pairs=with_missing((0.0, 3.0), (3,)),
        stages=(number,),
    )


# The median.


class QuarterNoise(PrivateMedian):
    """Planted bug: a quarter of the noise that the guarantee needs."""

    def plan(self, n_samples: int, n_features: int = 1) -> Any:
        plan = super().plan(n_samples, n_features)
        return replace(plan, stages=less_noise(plan, 0.25).stages)

    def _read(self, table: Table, plan: Any) -> Any:
        return super()._read(table, super().plan(plan.n_samples))


class LocalSensitivity(PrivateMedian):
    """Planted bug: noise by the local sensitivity, which is not smooth."""

    def _read(self, table: Table, plan: Any) -> Any:
        places = sorted_places(table.X, plan.grid)
        level = int(np.searchsorted(plan.median.limits, plan.parts * median_reach(places, plan.grid.steps)(0)))
        return super()._read(table, plan)._replace(level=level)


class LevelAsItIs(PrivateMedian):
    """Planted bug: the level of the noise is released with next to none."""

    def plan(self, n_samples: int, n_features: int = 1) -> Any:
        plan = super().plan(n_samples, n_features)
        level, noise = plan.stages
        return replace(plan, stages=(replace(level, scale_steps=0.05), noise))


class ShowsTheScale(PrivateMedian):
    """Planted bug: the report has the scale of the noise, as a standard error has."""


def with_scale(estimator: PrivateMedian) -> Draw:
    def draw(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        plan = estimator.plan(*data.shape)
        private = estimator._read(Table(data), plan)
        with Session.simulated(plan, rng, size) as session:
            estimator._release(private, plan, session)
        scale = plan.stages[0].levels[private.level]
        return np.column_stack([session.released[MEDIAN], np.full(size, scale)])

    return draw


def hidden_level() -> Stage:
    """Return a stage that states what the level of the noise moves by, which is not released: for the brute force."""
    return Stage("level of the noise", "laplace", 1, 1.0, 1, 1.0)


def level_of(estimator: PrivateMedian, smoothed: int = 1) -> Callable[[Dataset], list[np.ndarray]]:
    def integers(data: Dataset) -> list[np.ndarray]:
        plan = estimator.plan(*data.shape)
        places = sorted_places(data, plan.grid)
        reach, limits = median_reach(places, plan.grid.steps), plan.median.limits
        # Of every distance, as it is written.
        far = range(len(data) + 1)
        at = plan.parts
        levels = (int(np.searchsorted(limits, at * reach(k))) - smoothed * k for k in far)
        return [np.array([max(0, *levels)])]

    return integers


def as_released(estimator: PrivateMedian) -> Callable[[Dataset], list[np.ndarray]]:
    def integers(data: Dataset) -> list[np.ndarray]:
        plan = estimator.plan(*data.shape)
        return [np.array([estimator._read(Table(data), plan).level])]

    return integers


def median_entries() -> Iterator[Entry]:
    options: dict[str, Any] = {"bounds": (0, 100), "step": 1.0, "epsilon": 2.0, "delta": 1e-2}
    estimator = PrivateMedian(**options)
    pair = moved({0: 3, 100: 2}, 0, 100)
    sparse = moved({0: 4, 100: 1}, 0, 100)
    plan = estimator.plan(*pair[0].shape)

    def pairs() -> Iterator[Pair]:
        values = (0.0, 1.0, 3.0, 20.0, 100.0)
        for n in (2, 3, 4, 5):
            yield from neighbors(values, n)

    twice: Plan = replace(plan, stages=(hidden_level(),))
    yield Entry(
        name="median by smooth sensitivity",
        covers=PrivateMedian,
        proof="smooth-sensitivity.md",
        plan=plan,
        integers=as_released(estimator),
        pairs=pairs,
        draw=core(estimator),
        dataset=pair[0],
        neighbor=pair[1],
        power=0.15,
        public=fitted(estimator, lambda made: made.median_),
        stages=(hidden_level(),),
        bugs=(
            _bug("a quarter of the noise", core(QuarterNoise(**options)), pair, 2.0, 1e-2),
            _bug("noise by the local sensitivity", core(LocalSensitivity(**options)), sparse, 2.0, 1e-2),
            _bug("the scale of the noise shown", with_scale(ShowsTheScale(**options)), sparse, 2.0, 1e-2),
        ),
        understated=(Understated("smoothed by twice beta", twice, level_of(estimator, 2), pairs),),
        estimator=PrivateMedian(**{**options, **ANYWHERE, "step": None, "epsilon": 50.0}),
    )
    pure: dict[str, Any] = {**options, "delta": 0.0}
    student = PrivateMedian(**pure)
    plan = student.plan(*pair[0].shape)
    yield Entry(
        name="median by smooth sensitivity, pure",
        covers=PrivateMedian,
        proof="smooth-sensitivity.md",
        plan=plan,
        integers=as_released(student),
        pairs=pairs,
        draw=core(student),
        dataset=pair[0],
        neighbor=pair[1],
        power=0.1,
        public=fitted(student, lambda made: made.median_),
        stages=(hidden_level(),),
        bugs=(_bug("a quarter of the noise", core(QuarterNoise(**pure)), pair, 2.0),),
        estimator=PrivateMedian(**{**pure, **ANYWHERE, "step": None, "epsilon": 50.0}),
    )
    interval: dict[str, Any] = {**options, "confidence_level": 0.9}
    both = PrivateMedian(**interval)
    yield Entry(
        name="median and its interval by smooth sensitivity",
        covers=PrivateMedian,
        proof="smooth-sensitivity.md",
        plan=both.plan(*sparse[0].shape),
        integers=as_released(both),
        pairs=pairs,
        draw=core(both),
        dataset=sparse[0],
        neighbor=sparse[1],
        power=0.02,
        public=fitted(both, lambda made: [made.median_, made.low_, made.high_]),
        bugs=(_bug("the level with next to no noise", core(LevelAsItIs(**interval)), sparse, 2.0, 1e-2),),
        estimator=PrivateMedian(**{**interval, **ANYWHERE, "step": None, "epsilon": 50.0}),
    )

    observed: dict[str, Any] = {**options, "missing": "drop"}
    left = PrivateMedian(**observed)
    absent = gone({0: 3, 100: 3}, 0)
    yield Entry(
        name="median of observed rows by smooth sensitivity",
        covers=PrivateMedian,
        proof="smooth-sensitivity.md",
        plan=left.plan(*absent[0].shape),
        integers=as_released(left),
        pairs=with_missing((0.0, 1.0, 20.0, 100.0), (2, 3, 4, 5)),
        draw=core(left),
        dataset=absent[0],
        neighbor=absent[1],
        power=0.05,
        public=fitted(left, lambda made: made.median_),
        stages=(hidden_level(),),
        bugs=(_bug("a quarter of the noise", core(QuarterNoise(**observed)), absent, 2.0, 1e-2),),
        estimator=PrivateMedian(**{**observed, **ANYWHERE, "step": None, "epsilon": 50.0}),
    )


# The distribution.


HalfNoise = with_less_noise(PrivateDistribution)


class OneLevel(PrivateDistribution):
    """Planted bug: a row counts in one node, and not in one of every level."""

    def plan(self, n_samples: int, n_features: int = 1) -> Any:
        plan = super().plan(n_samples, n_features)
        (stage,) = plan.stages
        if stage.noise == "laplace":
            return less_noise(plan, 1 / plan.height)
        return less_noise(plan, plan.height**-0.5)


class CellsFromTheData(PrivateDistribution):
    """Planted bug: the cells go from the least row to the largest."""

    def _read(self, table: Table, plan: Any) -> Any:
        x = np.asarray(table.X)[:, 0]
        own = Grid(float(x.min()), max(float(x.max()), float(x.min()) + 1e-9), plan.grid.steps, plan.grid.declared)
        return super()._read(table, replace(plan, grid=own))


def apart(estimator: PrivateDistribution, pair: Pair) -> Draw:
    """Return a fit as an attacker best sees it, who knows both datasets: the log of a likelihood ratio."""
    plan = estimator.plan(*pair[0].shape)
    first, second = (estimator._read(Table(data), plan)[DYADIC] for data in pair)
    (stage,) = plan.stages

    def draw(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        with Session.simulated(plan, rng, size) as session:
            released = session.add(DYADIC, estimator._read(Table(data), plan)[DYADIC], units=False)
        a, b = ((released - steps) / stage.scale_steps for steps in (first, second))
        score = np.abs(b) - np.abs(a) if stage.noise == "laplace" else (b**2 - a**2) / 2
        return score.sum(axis=1, keepdims=True)

    return draw


def distribution_entries() -> Iterator[Entry]:
    pair = moved({0: 3, 7: 2}, 0, 7)
    near = moved({0: 1, 1: 30, 2: 30}, 0, 1)
    for law, options in (
        ("Laplace", {"bounds": (0, 7), "step": 1.0, "epsilon": 1.0}),
        ("Gaussian", {"bounds": (0, 8), "bins": 8, "epsilon": 1.0, "delta": 1e-2}),
    ):
        estimator = PrivateDistribution(**options)
        plan = estimator.plan(*pair[0].shape)
        cost = options["epsilon"], options.get("delta", 0.0)
        yield Entry(
            name=f"distribution, {law}",
            covers=PrivateDistribution,
            proof="distribution.md",
            plan=plan,
            integers=exact_integers(estimator, plan),
            pairs=lambda: neighbors((-5.0, 0.5, 2.5, 4.5, 7.5, 99.0), 3),
            draw=apart(estimator, pair),
            dataset=pair[0],
            neighbor=pair[1],
            power=0.4,
            public=fitted(estimator, lambda made: made.cdf_),
            bugs=(
                _bug("half the noise", apart(HalfNoise(**options), pair), pair, *cost),
                _bug("a row counts in one level", apart(OneLevel(**options), pair), pair, *cost),
                _bug("cells from the data", core(CellsFromTheData(**options)), near, *cost),
            ),
            estimator=PrivateDistribution(**{**options, "bounds": (-6.0, 6.0), "step": None, "bins": 32}),
        )
        observed = {**options, "missing": "drop"}
        left, absent = PrivateDistribution(**observed), gone({0: 3, 7: 2}, 0)
        plan = left.plan(*absent[0].shape)
        yield Entry(
            name=f"distribution of observed rows, {law}",
            covers=PrivateDistribution,
            proof="distribution.md",
            plan=plan,
            integers=exact_integers(left, plan),
            pairs=with_missing((-5.0, 0.5, 2.5, 4.5, 7.5, 99.0), (3,)),
            draw=apart(left, absent),
            dataset=absent[0],
            neighbor=absent[1],
            power=0.2,
            public=fitted(left, lambda made: [made.rows_, *made.cdf_]),
            bugs=(_bug("a row counts in one level", apart(OneLevel(**observed), pair), pair, *cost),),
            estimator=PrivateDistribution(**{**observed, "bounds": (-6.0, 6.0), "step": None, "bins": 32}),
        )


def entries() -> Iterator[Entry]:
    yield from quantile_entries()
    yield from median_entries()
    yield from distribution_entries()
