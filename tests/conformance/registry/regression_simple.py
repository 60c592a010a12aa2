"""The regressions that release second moments once: rows at the edge of their ball, and the bugs of other packages."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.auditing.movement import Steps, vectors
from dpstats.regression import PrivateLinearRegression, SufficientStatisticsRegression
from dpstats.regression.blocks import Block
from dpstats.regression.linear_path import STAGE
from dpstats.regression.rows import MOMENTS, SecondMoments
from dpstats.regression.sufficient import LeastSquares
from dpstats.release.session import Session
from dpstats.textbook import FunctionalMechanismRegression
from registry.entry import Dataset, Draw, Entry, PlantedBug, Understated, less_noise, with_less_noise
from registry.regression import plan_of, public, table

BOUNDS = {"x_bounds": (-1.0, 1.0), "y_bounds": (-1.0, 1.0)}
GAUSSIAN = {**BOUNDS, "epsilon": 1.0, "delta": 1e-2}
LAPLACE = {**BOUNDS, "epsilon": 1.0}
DIAGONAL = f"{MOMENTS}, diagonal"
ABOVE = f"{MOMENTS}, above the diagonal"

Pair = tuple[Dataset, Dataset]


def with_row(row: list[float], n: int = 4) -> Dataset:
    """Return rows in the middle of their bounds and one more: columns, and the outcome last."""
    data = np.zeros((n, len(row)))
    data[0] = row
    return data


def right_angles(d: int = 2) -> Pair:
    """Return neighbors whose differing row is as long as rows can be, along one column and along another."""
    first, second = np.eye(d + 1)[:2] * 50
    return with_row([*first[:-1], 1.0]), with_row([*second[:-1], -1.0])


def opposite(d: int = 2) -> Pair:
    """Return neighbors whose differing row has its outcome at either end, in the middle of its columns."""
    return with_row([0.0] * d + [1.0]), with_row([0.0] * d + [-1.0])


def read(estimator: Any, plan: Any, data: Dataset) -> dict[str, np.ndarray]:
    return dict(estimator._read(table(estimator, data), plan)[STAGE])


def likelihood(estimator: Any, pair: Pair) -> Draw:
    """Return the core of a fit as an attacker best sees it, who knows both datasets: the log of a likelihood ratio."""
    plan = plan_of(estimator, pair[0])
    stage = plan.stage(STAGE)
    first, second = (read(estimator, plan_of(estimator, data), data) for data in pair)

    def draw(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        own = estimator._noisy_plan(plan, data) if hasattr(estimator, "_noisy_plan") else plan
        total = np.zeros(size)
        with Session.simulated(own, rng, size) as session:
            released = session.add(STAGE, read(estimator, own, data), units=False)
            for vector in vectors(stage):
                a, b = ((released[vector.name] - steps[vector.name]) / vector.scale for steps in (first, second))
                apart = np.abs(b) - np.abs(a) if stage.noise == "laplace" else (b**2 - a**2) / 2
                total += apart.sum(axis=1)
        return total[:, None]

    return draw


def spread_out(estimator: Any, pair: Pair) -> Draw:
    """Return the core of a fit whose noise is what tells the neighbors apart."""

    def draw(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        plan = estimator._noisy_plan(plan_of(estimator, data), data)
        with Session.simulated(plan, rng, size) as session:
            released = session.add(STAGE, read(estimator, plan, data))
        return np.asarray(released[DIAGONAL])[:, -1:]

    return draw


def rows_of_every_kind(d: int) -> list[np.ndarray]:
    """Return rows (x, y) inside, at the edge of and far outside their ball and their bounds."""
    rng = np.random.default_rng(1)
    directions = [*np.eye(d), np.ones(d), *rng.standard_normal((8, d))]
    sizes = (0.0, 0.3, 0.5, 1.0, 1.7, 16.0, 1e9)
    columns = [sign * size * v for v in directions for size in sizes for sign in (1, -1)]
    return [np.append(x, y) for x in columns for y in (-1.0, 0.0, 1.0, 1e12)]


def pairs_of_rows(d: int) -> Callable[[], Iterator[Pair]]:
    def pairs() -> Iterator[Pair]:
        yield right_angles(d)
        yield opposite(d)
        # One inside its bounds, one out of them: all that the count can add.
        far = np.eye(d)[:2] * 50
        for x, y in itertools.product(far, far):
            yield np.append(x, 1.0)[None], np.append(y, 2.0)[None]
        rows = rows_of_every_kind(d)
        rng = np.random.default_rng(0)
        for first, second in rng.integers(len(rows), size=(3000, 2)):
            yield rows[first][None], rows[second][None]

    return pairs


def gone(d: int = 2) -> Pair:
    """Return neighbors: a row that is as long as rows can be, or one whose outcome is missing."""
    first = np.append(np.eye(d)[0] * 50, 1.0)
    return with_row(first.tolist()), with_row([*first[:-1], np.nan])


def pairs_with_missing(d: int) -> Callable[[], Iterator[Pair]]:
    def pairs() -> Iterator[Pair]:
        yield gone(d)
        yield from itertools.islice(pairs_of_rows(d)(), 1000)
        absent = [np.append(np.zeros(d), np.nan), np.append(np.full(d, np.inf), 0.5), np.full(d + 1, np.nan)]
        rows = rows_of_every_kind(d)
        for place, row in enumerate(rows):
            yield row[None], absent[place % 3][None]
            yield np.vstack([absent[2], row]), np.vstack([absent[place % 2], rows[-place]])

    return pairs


# Planted bugs, of either estimator.


HalfNoise = with_less_noise(LeastSquares)


# A quarter of the noise. A dropped row is half as far from others as these are apart
QuarterOfTheNoise = with_less_noise(LeastSquares, 0.25)


class AddOrRemove(LeastSquares):
    """Planted bug: what a row that is added moves, 1 in units of the ball, for one that is replaced."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        (stage,) = plan.stages
        wrong = replace(stage, sensitivity=1.0, scale=stage.scale / stage.sensitivity)
        return replace(plan, stages=(wrong,))


class LowerBoundTwice(LeastSquares):
    """Planted bug: a lower bound in place of the upper one makes the sensitivity of x'y next to nothing."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        (stage,) = plan.stages
        blocks = tuple(
            replace(block, unit_steps=block.unit_steps * (1e-6 if block.name == ABOVE else 1.0))
            for block in stage.blocks
        )
        return replace(plan, stages=(replace(stage, blocks=blocks),))


class _Unscaled(SecondMoments):
    """Rows whose columns are scaled into the ball, and the outcome is not."""

    def sum_rows(self, block: Block) -> Any:
        found = super().sum_rows(block)
        m, d = block.z.shape
        rows = np.column_stack([np.full(m, self.constant), block.z, np.full(m, self.outcome)])
        norms = np.linalg.norm(rows, axis=1) if self.norm == "l2" else np.abs(rows).sum(axis=1)
        scaled = rows * (self.bound / np.maximum(norms, self.bound))[:, None]
        scaled[:, -1] = block.y * self.outcome
        steps = np.rint(scaled * (2.0**self.bits - d) / self.bound)
        matrix = (steps.T @ steps).astype(np.int64)
        found[DIAGONAL], found[ABOVE] = np.diagonal(matrix).copy(), matrix[np.triu_indices(d + 2, 1)]
        return found


class OnlyColumnsScaled(LeastSquares):
    """Planted bug: x is scaled into the ball, and y is not."""

    def _read(self, table: Any, plan: Any) -> Any:
        from dpstats.regression.engine import read as rows_of

        asked = plan.question
        own = _Unscaled(asked.constant, asked.outcome, asked.bound, asked.norm, asked.bits)
        return {STAGE: rows_of(table, plan).answer(own)}


class BoundsFromTheData(LeastSquares):
    """Planted bug: the outcome's bounds are its range."""

    def _read(self, table: Any, plan: Any) -> Any:
        y = table.y
        middle, half = (y.max() + y.min()) / 2, max(float(np.ptp(y)) / 2, 1e-9)
        design = replace(plan.design, y_center=float(middle), y_half=half)
        return super()._read(table, replace(plan, design=design))


class SmallestEigenvalue(LeastSquares):
    """Planted bug: noise that shrinks as the smallest eigenvalue of the private X'X grows."""

    def _noisy_plan(self, plan: Any, data: Dataset) -> Any:
        smallest = float(np.linalg.eigvalsh(data[:, :-1].T @ data[:, :-1])[0])
        return less_noise(plan, 1 / (1 + 4 * smallest))


class TriangleForAll(LeastSquares):
    """Planted bug: entries above the diagonal are counted once, and the noise is that of the diagonal's share."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        (stage,) = plan.stages
        factor = 0.5 if stage.noise == "laplace" else 0.7
        blocks = tuple(
            replace(block, unit_steps=block.unit_steps * (factor if block.name == ABOVE else 1.0))
            for block in stage.blocks
        )
        return replace(plan, stages=(replace(stage, blocks=blocks),))


def buggy(bug: type, kind: type, **options: Any) -> Any:
    return type(bug.__name__, (bug, kind), {})(**options)


def understated(name: str, estimator: Any, d: int) -> Understated:
    plan = estimator.plan(4, d)

    def integers(data: Dataset) -> list[Steps]:
        return [read(estimator, plan, data)]

    return Understated(name, plan, integers, pairs_of_rows(d))


def _bugs(kind: type, options: dict[str, Any]) -> Iterator[PlantedBug]:
    others = np.column_stack([np.zeros((20, 2)), 0.1 * (np.arange(20) % 2)])
    outlier = np.vstack([[0.0, 0.0, 1.0], others]), np.vstack([[0.0, 0.0, -1.0], others])
    alone = np.array([[1.0, 0.0, 0.0]] * 3 + [[0.0, 1.0, 0.0]])
    planted: list[tuple[str, type, Pair, Callable[[Any, Pair], Draw]]] = [
        ("half the noise", HalfNoise, right_angles(), likelihood),
        ("lower bound twice", LowerBoundTwice, opposite(), likelihood),
        ("bounds from the data", BoundsFromTheData, outlier, likelihood),
        ("noise by the smallest eigenvalue", SmallestEigenvalue, (alone, with_row([1.0, 0.0, 0.0])), spread_out),
    ]
    for name, bug, pair, draw in planted:
        made = buggy(bug, kind, **options)
        yield PlantedBug(name, draw(made, pair), *pair, options["epsilon"], options.get("delta", 0.0))
    pair, made = right_angles(), buggy(AddOrRemove, kind, **options)
    draw = likelihood(made, pair)
    yield PlantedBug("add-or-remove constants", draw, *pair, options["epsilon"], options.get("delta", 0.0), 200_000)


def _entry(name: str, kind: type, options: dict[str, Any], *, proof: str, power: float) -> Entry:
    estimator, d = kind(**options), 2
    pair = right_angles(d)
    plan = plan_of(estimator, pair[0])

    def integers(data: Dataset) -> list[Steps]:
        return [read(estimator, plan, data)]

    return Entry(
        name=name,
        covers=kind,
        proof=proof,
        plan=plan,
        integers=integers,
        pairs=pairs_of_rows(d),
        draw=likelihood(estimator, pair),
        dataset=pair[0],
        neighbor=pair[1],
        power=power,
        public=public(estimator),
        bugs=tuple(_bugs(kind, options)),
        understated=(
            understated("add-or-remove constants", buggy(AddOrRemove, kind, **options), d),
            understated("only x scaled and not y", buggy(OnlyColumnsScaled, kind, **options), d),
            understated("an entry above the diagonal once", buggy(TriangleForAll, kind, **options), d),
        ),
        estimator=kind(**{**options, "epsilon": 200.0, "random_state": 0}),
    )


def few_rows() -> Entry:
    """Return the linear regression whose plan is one release, because it has few rows."""
    estimator = PrivateLinearRegression(**GAUSSIAN)
    # Two rows at a right angle, as long as rows of one column can be
    pair = with_row([0.5, 1.0]), with_row([-0.5, 1.0])
    plan = plan_of(estimator, pair[0])

    def integers(data: Dataset) -> list[Steps]:
        return [read(estimator, plan, data)]

    def pairs() -> Iterator[Pair]:
        yield pair
        yield np.array([[0.5, 2.0]]), np.array([[-0.5, 1.0]])
        rows = rows_of_every_kind(1)
        yield from ((a[None], b[None]) for a, b in itertools.pairwise(rows))

    return Entry(
        name="linear regression of few rows",
        covers=PrivateLinearRegression,
        proof="sufficient-statistics.md",
        plan=plan,
        integers=integers,
        pairs=pairs,
        draw=likelihood(estimator, pair),
        dataset=pair[0],
        neighbor=pair[1],
        power=0.4,
        public=public(estimator),
        bugs=(),
        estimator=PrivateLinearRegression(**{**GAUSSIAN, "epsilon": 200.0, "random_state": 0}),
    )


def entries() -> Iterator[Entry]:
    yield few_rows()
    yield _entry(
        "regression from sufficient statistics",
        SufficientStatisticsRegression,
        GAUSSIAN,
        proof="sufficient-statistics.md",
        power=0.4,
    )
    for name, kind, options in (
        ("regression by the functional mechanism", FunctionalMechanismRegression, LAPLACE),
        ("linear regression at delta = 0", PrivateLinearRegression, {**LAPLACE, "delta": 0.0}),
    ):
        yield _entry(name, kind, options, proof="functional-mechanism.md", power=0.3)
    for kind, options, proof in (
        (SufficientStatisticsRegression, GAUSSIAN, "sufficient-statistics.md"),
        (FunctionalMechanismRegression, LAPLACE, "functional-mechanism.md"),
    ):
        dropping = {**options, "missing": "drop"}
        entry = _entry(f"{kind.__name__} of observed rows", kind, dropping, proof=proof, power=0.3)
        pair, made = gone(), buggy(QuarterOfTheNoise, kind, **dropping)
        draw, delta = likelihood(made, pair), options.get("delta", 0.0)
        yield replace(
            entry,
            pairs=pairs_with_missing(2),
            bugs=(PlantedBug("a quarter of the noise", draw, *pair, options["epsilon"], delta),),
            understated=(),
        )
