"""PrivateCovariance: the moments of pairs of columns in a box, all together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.auditing.movement import Steps, vectors
from dpstats.covariance import PrivateCovariance
from dpstats.covariance.moments import ABOVE, LAPLACE_COLUMN, STAGE
from dpstats.data.rows import Table
from dpstats.means.ellipsoids import split_symmetric
from dpstats.release.session import Session
from registry.entry import Dataset, Draw, Entry, PlantedBug, Understated, exact_integers, fitted, with_less_noise

OPTIONS = {"bounds": (-1.0, 3.0), "epsilon": 1.0, "delta": 1e-2}
PURE = {**OPTIONS, "epsilon": 2.0, "delta": 0.0}
CENTER, HALF = 1.0, 2.0

Pair = tuple[Dataset, Dataset]


def with_row(row: Any, n: int = 3) -> Dataset:
    """Return rows at the center of the bounds, and one more, in half-widths."""
    z = np.zeros((n, len(row)))
    z[0] = row
    return CENTER + HALF * z


def signs(d: int) -> Pair:
    """Return the neighbors that the moments are furthest apart for: half of the signs change."""
    second = np.ones(d)
    second[: (d + 1) // 2] = -1
    return with_row(np.ones(d)), with_row(second)


def opposite(d: int) -> Pair:
    """Return neighbors whose differing row is a corner of the box, or the center: squares alone differ most."""
    return with_row(np.ones(d)), with_row(np.zeros(d))


def pairs_of_rows(d: int) -> Callable[[], Iterator[Pair]]:
    def pairs() -> Iterator[Pair]:
        yield signs(d)
        yield opposite(d)
        levels = (-1e300, -1.7, -1.0, -0.6, -0.3, 0.0, 1e-9, 0.5, 0.8, 1.0, 3e8)
        rows = [np.array(row) for row in itertools.product(levels, repeat=d)]
        rng = np.random.default_rng(0)
        for first, second in rng.integers(len(rows), size=(3000, 2)):
            yield with_row(rows[first], 1), with_row(rows[second], 1)
        corners = [np.array(row) for row in itertools.product((-1.0, 1.0, -5.0), repeat=d)]
        yield from ((with_row(x, 1), with_row(y, 1)) for x, y in itertools.combinations(corners, 2))

    return pairs


def likelihood(estimator: Any, pair: Pair) -> Draw:
    """Return the core of a fit as an attacker best sees it, who knows both datasets: the log of a likelihood ratio."""
    plan = estimator.plan(*pair[0].shape)
    stage = plan.stage(STAGE)
    first, second = (estimator._read(Table(data), plan)[STAGE] for data in pair)

    def draw(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        total = np.zeros(size)
        with Session.simulated(plan, rng, size) as session:
            released = session.add(STAGE, estimator._read(Table(data), plan)[STAGE], units=False)
            for vector in vectors(stage):
                a, b = ((released[vector.name] - steps[vector.name]) / vector.scale for steps in (first, second))
                apart = np.abs(b) - np.abs(a) if stage.noise == "laplace" else (b**2 - a**2) / 2
                total += apart.sum(axis=1)
        return total[:, None]

    return draw


HalfNoise = with_less_noise(PrivateCovariance)


QuarterNoise = with_less_noise(PrivateCovariance, 0.25)  # a quarter of the noise that the guarantee needs


class OneInPlaceOfRootTwo(PrivateCovariance):
    """Planted bug: the movement of a row that is added, in place of one that is replaced."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        (stage,) = plan.stages
        root = 2**0.5
        fewer = replace(stage, sensitivity=stage.sensitivity / root, scale=stage.scale / root)
        return replace(plan, stages=(fewer,))


class _OtherUnits(PrivateCovariance):
    """Planted bug: some blocks have less noise than the stated movement needs."""

    part = ""
    factor = 1.0

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        (stage,) = plan.stages
        blocks = tuple(
            replace(block, unit_steps=block.unit_steps * (self.factor if self.part in block.name else 1.0))
            for block in stage.blocks
        )
        return replace(plan, stages=(replace(stage, blocks=blocks),))


class TriangleForAll(_OtherUnits):
    """Planted bug: the claim counts an entry above the diagonal once, and its noise is less."""

    part, factor = ABOVE, 2**-0.5


class HeavierSquares(_OtherUnits):
    """Planted bug: squares of products at a weight of 1.5, at which they are not free."""

    part, factor = "squares", 1 / 1.5


class ColumnsAlone(PrivateCovariance):
    """Planted bug: the movement of pairs of columns is not counted."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        (stage,) = plan.stages
        own = n_features * LAPLACE_COLUMN
        fewer = replace(stage, sensitivity=own, scale=stage.scale * own / stage.sensitivity)
        return replace(plan, stages=(fewer,))


class NoClip(PrivateCovariance):
    """Planted bug: entries beyond the bounds are not moved to them."""

    def _read(self, rows: Any, plan: Any) -> Any:
        z = np.rint((np.asarray(rows.X) - plan.center) / plan.half * 2.0**plan.bits).astype(np.int64)
        exact = dict(super()._read(rows, plan)[STAGE])
        exact |= {"sums": z.sum(axis=0), **split_symmetric("products", z.T @ z)}
        return {STAGE: exact}


def understated(name: str, estimator: Any, d: int) -> Understated:
    plan = estimator.plan(3, d)

    def pairs() -> Iterator[Pair]:
        yield signs(d)
        yield opposite(d)

    return Understated(name, plan, exact_integers(estimator, plan), pairs)


def _bug(name: str, estimator: Any, pair: Pair) -> PlantedBug:
    return PlantedBug(name, likelihood(estimator, pair), *pair, estimator.epsilon, estimator.delta)


def _entry(
    name: str, d: int, *, attained: float, bugs: tuple[PlantedBug, ...], options: dict[str, Any] | None = None
) -> Entry:
    given = OPTIONS if options is None else options
    pure = given["delta"] == 0
    estimator = PrivateCovariance(**given)
    pair = signs(d)
    plan = estimator.plan(*pair[0].shape)
    integers: Callable[[Dataset], list[Steps]] = exact_integers(estimator, plan)
    return Entry(
        name=name,
        covers=PrivateCovariance,
        proof="covariance.md",
        plan=plan,
        integers=integers,
        pairs=pairs_of_rows(d),
        draw=likelihood(estimator, pair),
        dataset=pair[0],
        neighbor=pair[1],
        power=0.3,
        public=fitted(estimator, lambda made: np.append(made.covariance_, made.location_)),
        unattained={STAGE: attained},
        unattained_reason=(
            "the bound adds the largest movements of blocks, which different rows have"
            if pure
            else "the bound is attained where the inner product of both rows is -(w^2 + T d/2), which corners of a box "
            "of few columns do not have"
        ),
        bugs=bugs,
        understated=(
            (understated("columns alone", ColumnsAlone(**given), d),)
            if pure
            else (
                understated("the constant 1 in place of the root of 2", OneInPlaceOfRootTwo(**given), d),
                understated("an entry above the diagonal once", TriangleForAll(**given), d),
                understated("squares of products at a larger weight", HeavierSquares(**given), d),
            )
        ),
        estimator=PrivateCovariance(**{**given, "epsilon": 200.0, "random_state": 0}),
    )


def entries() -> Iterator[Entry]:
    far = with_row([5.0, 5.0]), with_row([-5.0, 5.0])
    bugs = (_bug("half the noise", HalfNoise(**OPTIONS), signs(2)), _bug("no clip", NoClip(**OPTIONS), far))
    yield _entry("covariance", 2, attained=0.95, bugs=bugs)
    bugs = (
        _bug("a quarter of the noise", QuarterNoise(**PURE), signs(2)),
        _bug("no clip, Laplace", NoClip(**PURE), far),
    )
    yield _entry("covariance, Laplace", 2, attained=0.6, bugs=bugs, options=PURE)
