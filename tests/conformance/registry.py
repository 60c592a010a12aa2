"""Everything in dpstats that releases private data, with what attacks it.

One entry per release (and per materially different configuration of it). An entry says how to
compute its exact statistic, how to draw from the core that the release itself uses, which
neighbouring datasets to try, and which broken versions an audit must catch. test_conformance.py
walks this list, and so does `make audit`, with more trials.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpstats.lattice import exact_steps
from dpstats.means import ClippedMean
from dpstats.mechanisms import (
    AboveThreshold,
    Count,
    ExponentialMechanism,
    GaussianMechanism,
    Histogram,
    LaplaceMechanism,
    NoisyTopK,
    NumericSparseVector,
    PermuteAndFlip,
    RandomizedResponse,
    ReportNoisyMax,
    SimulatedNoise,
    SparseVector,
)
from dpstats.mechanisms.stages import release
from dpstats.privacy import Neighbors, PrivacyGuarantee, Stage, compose
from dpstats.privacy.events import ZCDP, BoundedRange, Event

Dataset = Any
Draw = Callable[[Dataset, np.random.Generator, int], np.ndarray]


@dataclass(frozen=True)
class PlantedBug:
    """A broken version of a release, the claim it breaks and the pair that shows it."""

    name: str
    draw: Draw
    dataset: Dataset
    neighbor: Dataset
    epsilon: float
    delta: float
    trials: int = 20_000


@dataclass(frozen=True)
class Entry:
    """One release.

    ``statistic(dataset)`` returns the exact integers of each stage; ``pairs()`` yields neighbouring
    datasets for the brute force, which must attain the stated sensitivity unless ``slack`` (in steps)
    explains the difference; ``draw`` is the batched core; ``dataset`` and ``neighbor`` are a worst pair.
    A release without additive noise has ``events`` in place of stages.
    """

    name: str
    covers: type
    proof: str
    stages: tuple[Stage, ...]
    claim: PrivacyGuarantee
    statistic: Callable[[Dataset], list[np.ndarray]]
    pairs: Callable[[], Iterator[tuple[Dataset, Dataset]]]
    draw: Draw
    dataset: Dataset
    neighbor: Dataset
    power: float
    slack: tuple[float, ...] = (0.0,)
    slack_reason: str = ""
    events: tuple[Event, ...] = ()
    bugs: tuple[PlantedBug, ...] = field(default=())
    estimator: Any = None


# --- ClippedMean ------------------------------------------------------------------------------


def _core(estimator: ClippedMean) -> Draw:
    """Return the batched core of a fit: statistic, then `_release`, as `fit` itself calls them."""

    def draw(X: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        plan = estimator.plan(*X.shape)
        released = estimator._release(estimator._statistic(X, plan), plan, SimulatedNoise(rng), size)
        return np.concatenate([released[stage.name] for stage in plan.stages], axis=1)

    return draw


def _corners(estimator: ClippedMean, d: int, n: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Return the neighbours that are furthest apart: a row at one corner of the clip, or the opposite one."""
    center = np.broadcast_to(np.asarray(estimator.center, dtype=float), (d,))
    corner = np.broadcast_to(np.asarray(estimator.clip, dtype=float), (d,)).copy()
    if estimator.clip_norm == "l2":
        corner = corner / math.sqrt(d)
    X = np.tile(center, (n, 1))
    X[0] += corner
    Y = np.tile(center, (n, 1))
    Y[0] -= corner
    return X, Y


def _rows(estimator: ClippedMean, d: int) -> list[np.ndarray]:
    """Return rows inside, on, outside and far outside the clip, and (l2) on the axes and corners."""
    center = np.broadcast_to(np.asarray(estimator.center, dtype=float), (d,))
    clip = np.broadcast_to(np.asarray(estimator.clip, dtype=float), (d,))
    levels = (-1e308, -1.7, -1.0, -0.3, 0.0, 1e-12, 0.5, 1.0, 1.0000001, 3e8, 1e308)
    grid = [center + clip * np.array(point) for point in itertools.product(levels, repeat=d)]
    rng = np.random.default_rng(1)
    directions = rng.standard_normal((60, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return [*grid, *(center + clip * s * v for v in directions for s in (-1.0, 1.0, 5.0))]


def _pairs(estimator: ClippedMean, d: int) -> Callable[[], Iterator[tuple[np.ndarray, np.ndarray]]]:
    def pairs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        rng = np.random.default_rng(0)
        with np.errstate(over="ignore"):
            rows = [row for row in _rows(estimator, d) if np.isfinite(row).all()]
        chosen = [(x, y) for x, y in itertools.combinations(rows, 2)]
        order = rng.permutation(len(chosen))[:4000]
        rest = rng.normal(scale=2.0, size=(2, d))
        yield _corners(estimator, d)
        for index in order:
            x, y = chosen[index]
            yield np.vstack([x, rest]), np.vstack([y, rest])
        if estimator.clip_norm == "l2" and d > 1:
            # The squares differ most between two axes.
            center = np.broadcast_to(np.asarray(estimator.center, dtype=float), (d,))
            x, y = center.copy(), center.copy()
            x[0] += float(estimator.clip)
            y[1] += float(estimator.clip)
            yield np.vstack([x, rest]), np.vstack([y, rest])
        else:
            center = np.broadcast_to(np.asarray(estimator.center, dtype=float), (d,))
            yield np.vstack([center, rest]), np.vstack([center + np.asarray(estimator.clip), rest])

    return pairs


def _bug(name: str, estimator: ClippedMean, pair: Any, *, trials: int = 20_000) -> PlantedBug:
    return PlantedBug(name, _core(estimator), *pair, float(estimator.epsilon), float(estimator.delta), trials)


class HalfNoise(ClippedMean):
    """Planted bug: half the noise that the guarantee needs."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        return replace(plan, stages=tuple(replace(s, scale_steps=s.scale_steps / 2) for s in plan.stages))


class ClipSkipped(ClippedMean):
    """Planted bug: rows are rounded but not clipped."""

    def _statistic(self, X: Any, plan: Any) -> Any:
        lattice = plan.lattice
        steps = np.rint((np.asarray(X) - lattice.center) / lattice.spacing).astype(np.int64)
        return {plan.stages[0].name: steps.sum(axis=0)}


class PrintedNoise(ClippedMean):
    """Planted bug: the noise printed in algorithm 9.2.1, without the check that refuses it."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        stage = plan.stages[0]
        scale = stage.sensitivity_steps * math.sqrt(math.log(1 / self.delta)) / self.epsilon
        return replace(plan, stages=(replace(stage, scale_steps=scale),))


class DimensionForgotten(ClippedMean):
    """Planted bug: sensitivity 2R/n where 2R sqrt(d)/n (l1: 2Rd/n) is right."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        factor = math.sqrt(n_features) if self.delta else n_features
        return replace(
            plan, stages=tuple(replace(s, scale_steps=s.scale_steps / factor) for s in plan.stages)
        )


class SpreadForFree(ClippedMean):
    """Planted bug: the second release takes the noise of the whole budget, as does the first."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        first, second = plan.stages
        part = (math.sqrt if self.delta else float)(self.std_share)
        rest = (math.sqrt if self.delta else float)(1 - self.std_share)
        stages = (
            replace(first, scale_steps=first.scale_steps * rest),
            replace(second, scale_steps=second.scale_steps * part),
        )
        return replace(plan, stages=stages)


def _mean_entry(
    name: str,
    estimator: ClippedMean,
    d: int,
    *,
    power: float,
    bugs: tuple[PlantedBug, ...] = (),
    **options: Any,
) -> Entry:
    X, Y = _corners(estimator, d)
    if estimator.std == "private":
        # Corners have equal squares; here the second release tells the neighbours apart as well.
        Y = X.copy()
        Y[0] = np.asarray(estimator.center)
    plan = estimator.plan(*X.shape)

    def statistic(data: Dataset) -> list[np.ndarray]:
        exact = estimator._statistic(data, plan)
        return [exact[stage.name] for stage in plan.stages]

    return Entry(
        name=name,
        covers=ClippedMean,
        proof="clipped-mean.md",
        stages=plan.stages,
        claim=plan.guarantee,
        statistic=statistic,
        pairs=_pairs(estimator, d),
        draw=_core(estimator),
        dataset=X,
        neighbor=Y,
        power=power,
        bugs=bugs,
        estimator=estimator,
        **options,
    )


def _mean_entries() -> Iterator[Entry]:
    visible = {"epsilon": 3.0, "delta": 1e-2}
    gaussian = {"clip": 1.0, **visible}
    one = _corners(ClippedMean(clip=1.0), 1)
    four = _corners(ClippedMean(clip=1.0), 4)
    far = np.array([[40.0], [0.0], [0.0]]), np.array([[-40.0], [0.0], [0.0]])
    yield _mean_entry(
        "clipped mean, linf, Gaussian",
        ClippedMean(**gaussian),
        2,
        power=0.5,
        bugs=(
            _bug("half the noise", HalfNoise(**gaussian), one),
            _bug("clip skipped", ClipSkipped(**gaussian), far),
            _bug("printed noise of algorithm 9.2.1", PrintedNoise(**gaussian), one, trials=1_000_000),
            _bug("2R/n for 2R sqrt(d)/n", DimensionForgotten(**gaussian), four),
        ),
    )
    laplace = {"clip": 1.0, "epsilon": 1.0}
    yield _mean_entry(
        "clipped mean, linf, Laplace",
        ClippedMean(**laplace),
        2,
        power=0.3,
        bugs=(
            _bug("half the noise", HalfNoise(**laplace), one),
            _bug("clip skipped", ClipSkipped(**laplace), far),
            _bug("2R/n for 2Rd/n", DimensionForgotten(**laplace), four),
        ),
    )
    columns = {"clip": [2.0, 0.5], "center": [1.0, -3.0], **visible}
    yield _mean_entry(
        "clipped mean, one bound per column",
        ClippedMean(**columns),
        2,
        power=0.5,
        bugs=(_bug("half the noise", HalfNoise(**columns), _corners(ClippedMean(**columns), 2)),),
    )
    isotropic = {**columns, "noise": "isotropic"}
    yield _mean_entry(
        "clipped mean, one bound per column, isotropic noise",
        ClippedMean(**isotropic),
        2,
        power=0.5,
        bugs=(_bug("half the noise", HalfNoise(**isotropic), _corners(ClippedMean(**isotropic), 2)),),
    )
    inside = (
        "rows that are scaled down stop sqrt(d)/2 + 1 steps inside the ball, so that rounding cannot leave it; l1: "
        "norms of integer points of the ball stay below sqrt(d) times its radius"
    )
    ball = {"clip": 2.0, "clip_norm": "l2", "center": 0.5, **visible}
    yield _mean_entry(
        "clipped mean, l2, Gaussian",
        ClippedMean(**ball),
        2,
        power=0.5,
        slack=(8.0,),
        slack_reason=inside,
        bugs=(
            _bug("half the noise", HalfNoise(**ball), _corners(ClippedMean(**ball), 2)),
            _bug("clip skipped", ClipSkipped(**ball), far),
        ),
    )
    ball_laplace = {"clip": 2.0, "clip_norm": "l2", "epsilon": 1.0}
    yield _mean_entry(
        "clipped mean, l2, Laplace",
        ClippedMean(**ball_laplace),
        2,
        power=0.3,
        slack=(8.0,),
        slack_reason=inside,
        bugs=(_bug("half the noise", HalfNoise(**ball_laplace), _corners(ClippedMean(**ball_laplace), 2)),),
    )
    for law, options, slack in (("Gaussian", visible, (0.0, 0.0)), ("Laplace", {"epsilon": 2.0}, (0.0, 0.0))):
        private = {"clip": 1.0, "std": "private", "std_share": 0.5, **options}
        half = np.array([[1.0], [0.0], [0.0]]), np.array([[0.0], [0.0], [0.0]])
        yield _mean_entry(
            f"clipped mean and its spread, linf, {law}",
            ClippedMean(**private),
            2,
            power=0.15,
            slack=slack,
            bugs=(_bug("the spread for free", SpreadForFree(**private), half, trials=200_000),),
        )
    spread = {"clip": 2.0, "clip_norm": "l2", "std": "private", "std_share": 0.5, **visible}
    yield _mean_entry(
        "clipped mean and its spread, l2",
        ClippedMean(**spread),
        2,
        power=0.15,
        slack=(8.0, 64.0),
        slack_reason=inside,
        bugs=(_bug("half the noise", HalfNoise(**spread), _corners(ClippedMean(**spread), 2)),),
    )
    yield _mean_entry(
        "clipped mean, missing entries at the centre", ClippedMean(missing="center", **gaussian), 2, power=0.5
    )
    yield _mean_entry(
        "clipped mean, textbook noise where it is private",
        ClippedMean(clip=1.0, epsilon=2.0, delta=0.1, calibration="textbook"),
        1,
        power=0.2,
    )


# --- LaplaceMechanism and GaussianMechanism ------------------------------------------------------


def _mechanism_entry(name: str, build: Callable[..., Any], size: int, proof: str, power: float) -> Entry:
    mechanism = build()
    stage = mechanism._stage(size)
    apart = np.ones(size) * mechanism.sensitivity / (size if stage.norm == "l1" else math.sqrt(size))

    def draw(value: Dataset, rng: np.random.Generator, count: int) -> np.ndarray:
        # What `release` does after validation, drawn many times at once.
        return release(stage, exact_steps(value, stage.spacing), SimulatedNoise(rng), count)

    def half(value: Dataset, rng: np.random.Generator, count: int) -> np.ndarray:
        halved = replace(stage, scale_steps=stage.scale_steps / 2)
        return release(halved, exact_steps(value, stage.spacing), SimulatedNoise(rng), count)

    def pairs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        rng = np.random.default_rng(2)
        for _ in range(4000):
            x = rng.normal(size=size) * 10.0 ** rng.integers(-6, 9)
            step = rng.normal(size=size) if rng.random() < 0.5 else np.eye(size)[rng.integers(size)]
            step *= mechanism.sensitivity / np.linalg.norm(step, 1 if stage.norm == "l1" else 2)
            y = x + step
            # The neighbour as a float may be further away than the sensitivity: step back.
            while np.linalg.norm(y - x, 1 if stage.norm == "l1" else 2) > mechanism.sensitivity:
                y = x + 0.999999 * (y - x)
            yield x, y
        yield np.zeros(size), apart * (1 - 2.0**-52)

    return Entry(
        name=name,
        covers=type(mechanism),
        proof=proof,
        stages=(stage,),
        claim=mechanism.guarantee,
        statistic=lambda value: [exact_steps(value, stage.spacing)],
        pairs=pairs,
        draw=draw,
        dataset=np.zeros(size),
        neighbor=apart,
        power=power,
        slack=(2.0 * size + 2,),
        slack_reason="one step a coordinate is allowed for rounding a value onto the lattice",
        bugs=(PlantedBug("half the noise", half, np.zeros(size), apart, mechanism.epsilon, mechanism.delta),),
    )


def low_bits(outputs: np.ndarray) -> np.ndarray:
    """Score small outputs by whether they are multiples of 2^-53: 1 if not (Mironov 2012).

    Noise near 0 has finer bits than 2^-53; a sum with a value of about 1 is rounded to them.
    """
    scaled = outputs * 2.0**53
    return ((np.abs(outputs) < 0.25) & (scaled != np.rint(scaled))).astype(float)


def float_noise(rows: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
    """Planted bug: a floating-point sum with floating-point Laplace noise."""
    return low_bits(np.sum(rows) + rng.laplace(size=size))


def _mechanism_entries() -> Iterator[Entry]:
    bits = PlantedBug(
        "least significant bits of floating-point noise", float_noise, np.zeros(3), np.eye(1, 3)[0], 1.0, 0.0
    )
    for size in (1, 3):
        laplace = _mechanism_entry(
            f"Laplace mechanism, {size} number(s)",
            lambda: LaplaceMechanism(2.5, 1.0),
            size,
            "laplace.md",
            0.4,
        )
        yield replace(laplace, bugs=(*laplace.bugs, bits)) if size == 1 else laplace
        yield _mechanism_entry(
            f"Gaussian mechanism, {size} number(s)",
            lambda: GaussianMechanism(2.5, 3.0, 1e-2),
            size,
            "gaussian.md",
            0.5,
        )


# --- RandomizedResponse ------------------------------------------------------------------------------


class CoinOff(RandomizedResponse):
    """Planted bug: the second coin is forgotten, so that an answer is kept more often than stated."""

    def _respond(self, answers: np.ndarray) -> np.ndarray:
        kept = super()._respond(answers)
        again = self._source.integers(10, answers.shape) == 0
        return np.where(again, answers, kept)


def _response_entries() -> Iterator[Entry]:
    for categories in (2, 5):

        def draw(answer: Dataset, rng: np.random.Generator, size: int, k: int = categories) -> np.ndarray:
            responses = RandomizedResponse(1.0, k, random_state=rng)._respond(np.full(size, answer))
            # Scored by whether the response is the answer of the first dataset.
            return (responses == 0).astype(float)

        def off(answer: Dataset, rng: np.random.Generator, size: int, k: int = categories) -> np.ndarray:
            responses = CoinOff(1.0, k, random_state=rng)._respond(np.full(size, answer))
            return (responses == 0).astype(float)

        mechanism = RandomizedResponse(1.0, categories)
        yield Entry(
            name=f"randomized response, {categories} categories",
            covers=RandomizedResponse,
            proof="randomized-response.md",
            stages=(),
            claim=mechanism.guarantee,
            statistic=lambda answer: [],
            pairs=lambda: iter(()),
            draw=draw,
            dataset=0,
            neighbor=1,
            power=0.8,
            events=(mechanism.event,),
            bugs=(PlantedBug("a coin that is off", off, 0, 1, 1.0, 0.0, trials=100_000),),
        )


# --- Histogram and Count --------------------------------------------------------------------------------


def _small_datasets(categories: int, size: int) -> Iterator[tuple[int, ...]]:
    return itertools.product(range(categories), repeat=size)


def _count_pairs(categories: int, neighbors: Neighbors) -> Callable[[], Iterator[tuple[Any, Any]]]:
    """Yield all neighbouring datasets of three rows."""

    def pairs() -> Iterator[tuple[Any, Any]]:
        for rows in _small_datasets(categories, 3):
            if neighbors is Neighbors.REPLACE_ONE:
                yield from ((rows, (*rows[:2], other)) for other in range(categories))
            else:
                yield rows, rows[:2]

    return pairs


def _histogram_entries() -> Iterator[Entry]:
    both = itertools.product(Neighbors, ((1.0, 0.0), (3.0, 1e-2)))
    for neighbors, (epsilon, delta) in both:
        histogram = Histogram(range(3), epsilon, delta, neighbors=neighbors)
        replace_one = neighbors is Neighbors.REPLACE_ONE

        def draw(
            rows: Dataset, rng: np.random.Generator, size: int, made: Histogram = histogram
        ) -> np.ndarray:
            return release(made._stage, made._statistic(rows), SimulatedNoise(rng), size)

        bugs = ()
        if replace_one:
            forgotten = Histogram(range(3), epsilon, delta, neighbors=Neighbors.ADD_OR_REMOVE_ONE)

            def wrong(
                rows: Dataset, rng: np.random.Generator, size: int, made: Histogram = forgotten
            ) -> np.ndarray:
                return release(made._stage, made._statistic(rows), SimulatedNoise(rng), size)

            bugs = (
                PlantedBug(
                    "sensitivity one under replacement", wrong, (0, 2), (1, 2), epsilon, delta, trials=400_000
                ),
            )
        yield Entry(
            name=f"histogram, {'Gaussian' if delta else 'Laplace'}, {neighbors.name}",
            covers=Histogram,
            proof="histogram.md",
            stages=(histogram._stage,),
            claim=histogram.guarantee,
            statistic=lambda rows, made=histogram: [made._statistic(rows)],
            pairs=_count_pairs(3, neighbors),
            draw=draw,
            dataset=(0, 2),
            neighbor=(1, 2) if replace_one else (0, 2, 0),
            power=0.4,
            bugs=bugs,
        )
    count = Count(1.0)

    def count_draw(rows: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        return release(count._stage, count._statistic(np.array(rows, dtype=bool)), SimulatedNoise(rng), size)

    def half(rows: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        stage = replace(count._stage, scale_steps=count._stage.scale_steps / 2)
        return release(stage, count._statistic(np.array(rows, dtype=bool)), SimulatedNoise(rng), size)

    yield Entry(
        name="count",
        covers=Count,
        proof="histogram.md",
        stages=(count._stage,),
        claim=count.guarantee,
        statistic=lambda rows: [count._statistic(np.array(rows, dtype=bool))],
        pairs=_count_pairs(2, Neighbors.REPLACE_ONE),
        draw=count_draw,
        dataset=(1, 0),
        neighbor=(0, 0),
        power=0.6,
        bugs=(PlantedBug("half the noise", half, (1, 0), (0, 0), 1.0, 0.0),),
    )


# --- Selection --------------------------------------------------------------------------------------------
# A dataset is the vector of utilities itself where nothing else is said. The lattice of the utilities is
# brute-forced in tests/mechanisms/test_selection.py.

_OTHERS = 9
_ONE_UP = np.eye(1, 1 + _OTHERS)[0]  # the first candidate is one better than the others, or one worse
_OTHERS_UP = 1 - _ONE_UP


def _selects(
    build: Callable[[np.random.Generator], Any],
    *,
    utilities: Callable[[Dataset], Any] = np.asarray,
    k: int = 1,
    watched: int = 1,
    shrink: float = 1.0,
) -> Draw:
    """Return the batched core of a selection: how many of the first candidates are selected.

    ``shrink`` multiplies the noise.
    """

    def draw(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        made = build(rng)
        made._scale_steps *= shrink
        chosen = made._select(utilities(data), k, size)
        return np.count_nonzero(chosen < watched, axis=1).astype(float)

    return draw


def _selection(
    name: str,
    build: Callable[[np.random.Generator | None], Any],
    pair: tuple[Dataset, Dataset],
    power: float,
    bugs: tuple[PlantedBug, ...],
    *,
    events: tuple[Event, ...] | None = None,
    **options: Any,
) -> Entry:
    made = build(None)
    return Entry(
        name=name,
        covers=type(made),
        proof="selection.md",
        stages=(),
        claim=made.guarantee,
        statistic=lambda data: [],
        pairs=lambda: iter(()),
        draw=_selects(build, **options),
        dataset=pair[0],
        neighbor=pair[1],
        power=power,
        events=made.events if events is None else events,
        bugs=bugs,
    )


def _revenues(bids: Dataset) -> np.ndarray:
    """Return what each price earns: the utilities of an auction; one bid moves each by up to the price."""
    prices = np.arange(1, 11)[::-1]
    return prices * (np.asarray(bids)[:, None] >= prices).sum(axis=0)


def _tallies(rows: Dataset) -> np.ndarray:
    """Return how often each of ten categories occurs: monotone utilities."""
    return np.bincount(np.asarray(rows, dtype=int), minlength=10)


def _winner_and_value(utilities: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
    """Planted bug: the noisy utility of the winner is released along with its index."""
    made = ReportNoisyMax(1.0, 1.0)
    noisy = np.asarray(utilities) + rng.laplace(scale=made.scale, size=(size, len(utilities)))
    return np.column_stack([noisy.argmax(axis=1) == 0, noisy.max(axis=1)])


def _many_flips(gap: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
    """Return how often the first of two candidates is selected, in 25 selections of epsilon = 0.2."""
    flips = PermuteAndFlip(1.0, 0.2, random_state=rng)._select([0.0, gap], 1, 25 * size)
    return np.count_nonzero(flips.reshape(size, 25) == 0, axis=1).astype(float)


def _selection_entries() -> Iterator[Entry]:
    add = Neighbors.ADD_OR_REMOVE_ONE
    pair = (_ONE_UP, _OTHERS_UP)

    def exponential(rng: Any) -> ExponentialMechanism:
        return ExponentialMechanism(1.0, 1.0, random_state=rng)

    def monotone(rng: Any) -> ExponentialMechanism:
        return ExponentialMechanism(1.0, 1.0, monotone=True, neighbors=add, random_state=rng)

    yield _selection(
        "exponential mechanism",
        exponential,
        pair,
        0.5,
        (
            PlantedBug("scale sensitivity/epsilon", _selects(exponential, shrink=0.5), *pair, 1.0, 0.0),
            # One bid of 10 replaced by one of 0 moves the revenue at price 10 by 10, not by 1.
            PlantedBug(
                "sensitivity of the utility forgotten",
                _selects(exponential, utilities=_revenues),
                (10,),
                (0,),
                1.0,
                0.0,
            ),
        ),
    )
    yield _selection(
        "exponential mechanism, monotone",
        monotone,
        ((0,), ()),
        0.5,
        (
            PlantedBug(
                "monotone under replacement",
                _selects(monotone, utilities=_tallies),
                (0, 1, 1, 1, 1),
                (1, 1, 1, 1, 1),
                1.0,
                0.0,
                trials=200_000,
            ),
        ),
        utilities=_tallies,
    )
    for noise in ("laplace", "exponential", "gumbel"):

        def noisy(rng: Any, noise: str = noise) -> ReportNoisyMax:
            return ReportNoisyMax(1.0, 1.0, noise=noise, random_state=rng)

        bugs = [PlantedBug("scale sensitivity/epsilon", _selects(noisy, shrink=0.5), *pair, 1.0, 0.0)]
        if noise == "laplace":
            low, high = np.zeros(6), np.ones(6)
            bugs.append(
                PlantedBug("value of the winner for free", _winner_and_value, low, high, 1.0, 0.0, 200_000)
            )
        yield _selection(f"report noisy max, {noise}", noisy, pair, 0.5, tuple(bugs))

    def flip(rng: Any) -> PermuteAndFlip:
        return PermuteAndFlip(1.0, 1.0, random_state=rng)

    # The total that 25 selections of bounded range would have; these have not.
    claimed = compose([BoundedRange(0.2)] * 25, 0.05)
    yield _selection(
        "permute and flip",
        flip,
        (np.array([0.0, 2.0]), np.array([1.0, 1.0])),
        0.8,
        (
            PlantedBug("scale sensitivity/epsilon", _selects(flip, shrink=0.5), *pair, 1.0, 0.0),
            PlantedBug("charged as bounded range", _many_flips, 0.0, 2.0, claimed.epsilon, claimed.delta),
        ),
    )

    # The two best candidates change places with the others.
    two = (np.arange(10) < 2).astype(float)

    def top(rng: Any) -> NoisyTopK:
        return NoisyTopK(2, 1.0, 2.0, random_state=rng)

    yield _selection(
        "noisy top 2, pure",
        top,
        (two, 1 - two),
        0.5,
        (
            PlantedBug(
                "k for the price of one", _selects(top, k=2, watched=2, shrink=0.5), two, 1 - two, 2.0, 0.0
            ),
        ),
        k=2,
        watched=2,
    )
    best = (np.arange(40) < 10).astype(float)

    def many(rng: Any) -> NoisyTopK:
        return NoisyTopK(10, 1.0, 2.0, 1e-2, random_state=rng)

    made = many(None)
    yield _selection(
        "noisy top 10, zero-concentrated",
        many,
        (best, 1 - best),
        0.25,
        (
            PlantedBug(
                "k selections at the rho of one",
                _selects(many, k=10, watched=10, shrink=1 / math.sqrt(10)),
                best,
                1 - best,
                2.0,
                1e-2,
            ),
        ),
        # What the noise is calibrated by: the composed total of ten bounded ranges is smaller.
        events=(ZCDP(math.fsum(event.zcdp_cost() or 0.0 for event in made.events)),),
        k=10,
        watched=10,
    )


# --- Sparse vector ----------------------------------------------------------------------------------------
# A dataset is the vector of the questions' values. The bugs named LSL are published algorithms, by their
# numbers in Lyu, Su and Li (2017), "Understanding the sparse vector technique for differential privacy".


def _streams(build: Callable[[np.random.Generator], Any], score: Callable[[list[Any]], float]) -> Draw:
    """Return the batched core of a stream: its answers, summed up in a number."""

    def draw(values: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        made = build(rng)
        result = np.empty(size)
        for trial in range(size):
            made._restart()
            result[trial] = score(list(made.stream(values)))
        return result

    return draw


class KeepsThreshold(SparseVector):
    """Part of several bugs: the noisy threshold is drawn once, and there may be no last answer above."""

    endless = False

    @property
    def _noisy_threshold(self) -> int | None:
        return self._kept

    @_noisy_threshold.setter
    def _noisy_threshold(self, value: int | None) -> None:
        if value is not None:
            self._kept: int | None = value

    def _restart(self) -> None:
        self._kept = None
        super()._restart()
        if self.endless:
            self._left = 10**9


class ReleasesComparedNoise(SparseVector):
    """Planted bug, LSL algorithm 3: an answer above is the noisy value that was compared."""

    _question_factor = 2

    def _above(self, steps: int, drawn: int) -> float:
        return (steps + drawn) * self._spacing


class NumberOfAnswersForgotten(KeepsThreshold):
    """Planted bug, LSL algorithm 4: noise of scale 4/(3 epsilon) however many answers above; costs (1 + 6c)/4."""

    def __init__(self, epsilon: float, max_above: int, random_state: Any) -> None:
        # In sensitivities over each = epsilon/c.
        self._threshold_factor, self._question_factor = 4 / max_above, 4 / (3 * max_above)
        super().__init__(0, epsilon, max_above=max_above, random_state=random_state)


class QuestionsWithoutNoise(KeepsThreshold):
    """Planted bug, LSL algorithm 5: only the threshold is noisy, and the stream has no end."""

    endless = True

    def _draw_ahead(self) -> int:
        return 0


class NoEnd(KeepsThreshold):
    """Planted bug, LSL algorithm 6: noise for one answer above, and the stream has no end."""

    endless = True
    _question_factor = 2


class NoiseDrawnOnce(SparseVector):
    """Planted bug: all questions share one draw of noise."""

    def _draw_ahead(self) -> int:
        self._ahead = itertools.repeat(super()._draw_ahead())
        return next(self._ahead)

    def _restart(self) -> None:
        super()._restart()
        self._ahead, self._next_block = iter(()), 1


def _last_less_first(first: int) -> Callable[[list[Any]], float]:
    """Return a score: how many answers are above after the first few, less how many of those."""
    return lambda answers: float(sum(answers[first:]) - sum(answers[:first]))


def _small_value(length: int) -> Callable[[list[Any]], float]:
    """Return a score: the released value if it is the answer to the last question, else something large."""

    def score(answers: list[Any]) -> float:
        return answers[-1] if len(answers) == length and answers[-1] else 1e3

    return score


def _is_pattern(pattern: np.ndarray) -> Callable[[list[Any]], float]:
    """Return a score: whether exactly these questions are above."""
    expected = pattern.astype(bool).tolist()
    return lambda answers: float([bool(answer) for answer in answers] == expected)


def _right_less_wrong(right: np.ndarray) -> Callable[[list[Any]], float]:
    """Return a score: how many answers are above where they should be, less how many elsewhere."""
    signs = np.where(right, 1.0, -1.0)
    return lambda answers: float(signs[: len(answers)] @ np.array(answers, dtype=float))


def _total(answers: list[Any]) -> float:
    """Return the sum of the values released."""
    return float(sum(answer for answer in answers if answer is not None))


def _stream_entry(
    name: str,
    build: Callable[[np.random.Generator | None], Any],
    score: Callable[[list[Any]], float],
    pair: tuple[Dataset, Dataset],
    power: float,
    bugs: tuple[PlantedBug, ...],
) -> Entry:
    made = build(None)
    return Entry(
        name=name,
        covers=type(made),
        proof="sparse-vector.md",
        stages=(),
        claim=made.guarantee,
        statistic=lambda data: [],
        pairs=lambda: iter(()),
        draw=_streams(build, score),
        dataset=pair[0],
        neighbor=pair[1],
        power=power,
        events=made.events,
        bugs=bugs,
    )


def _two_parts(first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Return values of questions that are 0 first and 1 then, and of the neighbour, the other way round."""
    values = np.r_[np.zeros(first), np.ones(last)]
    return values, 1 - values


def _low_then_high(low: int, high: float, times: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return values of ``low`` questions at 0 and one at ``high``, several times, and of the neighbour: 1 nearer."""
    values = np.tile(np.r_[np.zeros(low), high], times)
    return values, values + np.where(values == high, -1.0, 1.0)


def _halved(build: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def halved(rng: Any) -> Any:
        made = build(rng)
        made._threshold_scale /= 2
        made._question_scale /= 2
        return made

    return halved


def _stream_entries() -> Iterator[Entry]:
    def above(rng: Any) -> AboveThreshold:
        return AboveThreshold(0.5, 3.0, random_state=rng)

    def shared(rng: Any) -> NoiseDrawnOnce:
        return NoiseDrawnOnce(0, 1.0, max_above=1, random_state=rng)

    pair = _low_then_high(5, 1.0)
    score = _is_pattern(pair[0])
    yield _stream_entry(
        "above threshold",
        above,
        score,
        pair,
        0.5,
        (
            PlantedBug("half the noise", _streams(_halved(above), score), *pair, 3.0, 0.0),
            PlantedBug(
                "one noise for all questions",
                _streams(shared, _last_less_first(1)),
                *_two_parts(1, 1),
                1.0,
                0.0,
            ),
        ),
    )

    def sparse(rng: Any) -> SparseVector:
        return SparseVector(1, 3.0, max_above=2, random_state=rng)

    def lsl3(rng: Any) -> ReleasesComparedNoise:
        return ReleasesComparedNoise(0, 2.0, max_above=1, random_state=rng)

    def lsl4(rng: Any) -> NumberOfAnswersForgotten:
        return NumberOfAnswersForgotten(1.0, 5, rng)

    def lsl5(rng: Any) -> QuestionsWithoutNoise:
        return QuestionsWithoutNoise(0, 1.0, max_above=1, random_state=rng)

    def lsl6(rng: Any) -> NoEnd:
        return NoEnd(0, 1.0, max_above=1, random_state=rng)

    pair = _low_then_high(3, 2.0, times=2)
    score = _is_pattern(pair[0] > 0)
    five = _last_less_first(5)
    yield _stream_entry(
        "sparse vector, pure",
        sparse,
        score,
        pair,
        0.2,
        (
            PlantedBug("a quarter of the noise", _streams(_halved(_halved(sparse)), score), *pair, 3.0, 0.0),
            PlantedBug(
                "LSL algorithm 3: the compared noise is released",
                _streams(lsl3, _small_value(7)),
                *_two_parts(6, 1),
                2.0,
                0.0,
                trials=100_000,
            ),
            PlantedBug(
                "LSL algorithm 4: c answers for the noise of one",
                _streams(lsl4, five),
                *_two_parts(5, 5),
                1.0,
                0.0,
            ),
            PlantedBug(
                "LSL algorithm 5: questions without noise",
                _streams(lsl5, _last_less_first(1)),
                *_two_parts(1, 1),
                1.0,
                0.0,
            ),
            PlantedBug("LSL algorithm 6: no last answer", _streams(lsl6, five), *_two_parts(5, 5), 1.0, 0.0),
        ),
    )

    def approximate(rng: Any, epsilon: float = 8.0) -> SparseVector:
        return SparseVector(1, epsilon, max_above=3, delta=1e-3, random_state=rng)

    pair = _low_then_high(2, 2.0, times=3)
    score = _is_pattern(pair[0] > 0)
    eighth = _halved(_halved(_halved(lambda rng: approximate(rng, 4.0))))
    yield _stream_entry(
        "sparse vector, delta > 0",
        approximate,
        score,
        pair,
        0.1,
        (PlantedBug("an eighth of the noise", _streams(eighth, score), *pair, 8.0, 1e-3, trials=100_000),),
    )
    for delta in (0.0, 1e-2):

        def numeric(rng: Any, delta: float = delta) -> NumericSparseVector:
            return NumericSparseVector(1, 6.0, max_above=2, delta=delta, random_state=rng)

        def little(rng: Any, numeric: Any = numeric) -> NumericSparseVector:
            made = numeric(rng)
            made._answer_scale /= 100
            return made

        pair = _low_then_high(3, 2.0, times=2)
        score = _is_pattern(pair[0] > 0)
        high = np.full(2, 60.0)
        yield _stream_entry(
            f"numeric sparse vector, {'delta > 0' if delta else 'pure'}",
            numeric,
            score,
            pair,
            0.2,
            (PlantedBug("values almost for free", _streams(little, _total), high, high + 1, 6.0, delta),),
        )


ENTRIES: tuple[Entry, ...] = (
    *_mechanism_entries(),
    *_response_entries(),
    *_histogram_entries(),
    *_selection_entries(),
    *_stream_entries(),
    *_mean_entries(),
)
