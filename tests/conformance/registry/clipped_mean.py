"""ClippedMean: every norm, noise and option that changes what is released, and what is released beside the sums."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.lattice import Moments
from dpstats.lattice.base import FREE_SQUARES, FREE_SQUARES_BALL
from dpstats.means import ClippedMean
from dpstats.means.moments import MEAN, OUTSIDE, SQUARES, TOGETHER, Region
from dpstats.privacy import Block, JointStage
from registry.entry import Entry, PlantedBug, Understated, core, exact_integers, fitted, having, less_noise

Pair = tuple[np.ndarray, np.ndarray]

BESIDE = 2 - math.sqrt(5)
"""What is as far from 1 as -1 is, with the squares at the largest weight that is free: one column."""


def region_of(estimator: Any, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the center and the size of an estimator's region in each column."""
    region = Region.check(estimator.bounds, estimator.bounds_are, estimator.clip, estimator.center, d)
    return np.full(d, region.center), np.full(d, region.clip)


def placed(estimator: Any, first: Any, second: Any, n: int = 3) -> Pair:
    """Return neighbors: a row at either of two places, in units of the region about its center, others there."""
    d = len(first)
    center, clip = region_of(estimator, d)
    X, Y = np.tile(center, (n, 1)), np.tile(center, (n, 1))
    X[0] += clip * np.asarray(first)
    Y[0] += clip * np.asarray(second)
    return X, Y


def corners(estimator: Any, d: int) -> Pair:
    """Return the neighbors of which the sums are furthest apart: a row at one corner of the clip, or the opposite."""
    corner = np.full(d, 1 / math.sqrt(d) if getattr(estimator, "clip_norm", "") == "l2" else 1.0)
    return placed(estimator, corner, -corner)


def _rows(estimator: Any, d: int, levels: tuple[float, ...]) -> list[np.ndarray]:
    """Return rows inside, on, outside and far outside the clip, and (l2) on the axes and corners."""
    center, clip = region_of(estimator, d)
    grid = [center + clip * np.array(point) for point in itertools.product(levels, repeat=d)]
    rng = np.random.default_rng(1)
    directions = rng.standard_normal((60, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return [*grid, *(center + clip * s * v for v in directions for s in (-1.0, 1.0, 5.0))]


LEVELS = (-1e308, -1.7, -1.0, -0.3, BESIDE, 0.0, 1e-12, 0.5, 1.0, 1.0000001, 3e8, 1e308)


def pairs_of_rows(estimator: Any, d: int, *, beside: tuple[Pair, ...] = ()) -> Callable[[], Iterator[Pair]]:
    """Return what yields neighbors with a row of every kind, and what the brute force must not miss."""

    def pairs() -> Iterator[Pair]:
        yield corners(estimator, d)
        # Outside at one end, and inside at the other: all that a count can add.
        one = np.full(d, 1.0)
        yield placed(estimator, -1.7 * one, one / (math.sqrt(d) if _in_ball(estimator) else 1.0))
        # Where squares alone differ most: between two axes of a ball, else between the center and a corner.
        axes = np.eye(d)
        yield (
            placed(estimator, axes[0], axes[-1]) if _in_ball(estimator) and d > 1 else placed(estimator, 0 * one, one)
        )
        yield from beside
        rng = np.random.default_rng(0)
        with np.errstate(over="ignore"):
            rows = [row for row in _rows(estimator, d, LEVELS) if np.isfinite(row).all()]
        chosen = list(itertools.combinations(rows, 2))
        rest = rng.normal(scale=2.0, size=(2, d))
        for index in rng.permutation(len(chosen))[:4000]:
            x, y = chosen[index]
            yield np.vstack([x, rest]), np.vstack([y, rest])

    return pairs


def _in_ball(estimator: Any) -> bool:
    return getattr(estimator, "clip_norm", "") == "l2"


def bug(name: str, estimator: Any, pair: Pair, *, trials: int = 20_000) -> PlantedBug:
    return PlantedBug(name, core(estimator), *pair, float(estimator.epsilon), float(estimator.delta), trials)


def understated(name: str, estimator: Any, pairs: Callable[[], Iterator[Pair]]) -> Understated:
    first, _ = next(pairs())
    plan = estimator.plan(*first.shape)
    return Understated(name, plan, exact_integers(estimator, plan), pairs)


# Planted bugs, of any estimator of clipped moments.


def half_noise(kind: type) -> type:
    """Planted bug: half the noise that the guarantee needs."""

    class HalfNoise(kind):  # type: ignore[misc]
        def plan(self, n_samples: int, n_features: int) -> Any:
            return less_noise(super().plan(n_samples, n_features))

    return HalfNoise


def clip_skipped(kind: type) -> type:
    """Planted bug: rows are rounded but not clipped."""

    class ClipSkipped(kind):  # type: ignore[misc]
        def _read(self, table: Any, plan: Any) -> Any:
            lattice = plan.lattice
            floats = np.rint((np.asarray(table.X) - lattice.center) / lattice.spacing)
            k = np.array([[int(x) for x in row] for row in floats.tolist()], dtype=object)
            second = k * k // lattice.largest
            powers = [k, second, k * second // lattice.largest, second * second // lattice.largest]
            sums = tuple(power.sum(axis=0).astype(np.int64) for power in powers[: len(plan.weights.powers)])
            return plan.weights.exact(
                lattice, Moments(sums, np.zeros(lattice.n_counts, dtype=np.int64), np.array([len(k)]))
            )

    return ClipSkipped


def in_other_units(kind: type, **units: float) -> type:
    """Planted bug: blocks with noise for other weights, at the movement that is stated for the right ones."""
    names = {"squares": SQUARES, "outside": OUTSIDE}

    class OtherUnits(kind):  # type: ignore[misc]
        def plan(self, n_samples: int, n_features: int) -> Any:
            plan = super().plan(n_samples, n_features)
            (stage,) = plan.stages
            new = {names[name]: unit for name, unit in units.items()}
            blocks = tuple(replace(b, unit_steps=new.get(b.name, b.unit_steps)) for b in stage.blocks)
            return replace(plan, stages=(replace(stage, blocks=blocks),))

    return OtherUnits


def each_as_if_alone(kind: type) -> type:
    """Planted bug: every block has the noise that it would need alone, for what its own worst pair moves.

    An odd power moves by 2K, an even one, and the count of an entry as large as the clip, by K.
    """

    class EachAlone(kind):  # type: ignore[misc]
        def plan(self, n_samples: int, n_features: int) -> Any:
            plan = super().plan(n_samples, n_features)
            (stage,) = plan.stages
            odd = [block.name == MEAN or block.name.startswith("third") for block in stage.blocks]
            blocks = tuple(
                replace(block, unit_steps=1.0 if is_odd else 0.5)
                for block, is_odd in zip(stage.blocks, odd, strict=True)
            )
            alone = plan.lattice.sensitivity("l1" if stage.noise == "laplace" else "l2")
            scale = stage.scale * alone / stage.sensitivity
            return replace(plan, stages=(replace(stage, blocks=blocks, sensitivity=float(alone), scale=scale),))

    return EachAlone


# Planted bugs of the clipped mean.


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
        return less_noise(plan, 1 / factor)


class CountNotCharged(ClippedMean):
    """Planted bug: the count of what is outside is released beside the moments and not counted in what a row moves."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        (stage,) = plan.stages
        without = type(self).__mro__[1](**{**self.get_params(), "clipped_share": False})
        (free,) = without.plan(n_samples, n_features).stages
        return replace(plan, stages=(replace(stage, sensitivity=float(free.sensitivity), scale=free.scale),))


class SpreadForFree(ClippedMean):
    """Planted bug: the second release takes the noise of the whole budget, as does the first."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        first, second = plan.stages
        stages = (
            replace(first, scale_steps=first.scale_steps * (1 - self.std_share)),
            replace(second, scale_steps=second.scale_steps * self.std_share),
        )
        return replace(plan, stages=stages)


class FreeInBall(ClippedMean):
    """Planted bug: squares beside the sums of a ball at no cost with pure privacy, where they have one."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        mean, squares = plan.stages
        blocks = (
            Block(MEAN, n_features, mean.spacing, 1.0),
            Block(SQUARES, n_features, squares.spacing, 1 / FREE_SQUARES_BALL),
        )
        moved = float(mean.sensitivity_steps)
        return replace(plan, stages=(JointStage(TOGETHER, "laplace", blocks, moved, moved / self.epsilon),))


class Unrounded(ClippedMean):
    """Planted bug: on a lattice of 8 bits the squares have the weight that is free for numbers without rounding."""

    def _lattice(self, region: Region, n_features: int, bits: int) -> Any:
        return super()._lattice(region, n_features, 8)

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        (stage,) = plan.stages
        sums, squares = stage.blocks
        alone = float(plan.lattice.sensitivity("l2"))
        wrong = replace(
            stage,
            blocks=(sums, replace(squares, unit_steps=1 / FREE_SQUARES)),
            sensitivity=alone,
            scale=stage.scale * alone / stage.sensitivity,
        )
        return replace(plan, stages=(wrong,))


HALF_NOISE, CLIP_SKIPPED = half_noise(ClippedMean), clip_skipped(ClippedMean)


def _mean_entry(
    name: str,
    estimator: ClippedMean,
    d: int,
    *,
    power: float,
    pair: Pair | None = None,
    bugs: tuple[PlantedBug, ...] = (),
    **options: Any,
) -> Entry:
    X, Y = corners(estimator, d) if pair is None else pair
    plan = estimator.plan(*X.shape)

    def numbers(made: ClippedMean) -> np.ndarray:
        found = [made.mean_, made.std_ if plan.estimates_std else [], getattr(made, "clipped_share_", [])]
        return np.concatenate(found)

    return Entry(
        name=name,
        covers=ClippedMean,
        proof="clipped-mean.md",
        plan=plan,
        integers=exact_integers(estimator, plan),
        pairs=pairs_of_rows(estimator, d),
        draw=core(estimator),
        dataset=X,
        neighbor=Y,
        power=power,
        public=fitted(estimator, numbers),
        bugs=bugs,
        estimator=estimator,
        **options,
    )


VISIBLE = {"epsilon": 1.0, "delta": 0.1}
"""With so large a delta Gaussian noise is smaller than Laplace noise, for one column too."""


@having(
    {},
    {
        "clipped mean, linf, Laplace": {"exact_audit": True},
        "clipped mean and its spread, linf, Gaussian": {"exact_audit": True},
    },
)
def entries() -> Iterator[Entry]:
    yield from _sums_alone()
    yield from _with_squares()
    yield from _with_counts()


def _sums_alone() -> Iterator[Entry]:
    gaussian = {"clip": 1.0, "std": None, **VISIBLE}
    one, four = corners(ClippedMean(clip=1.0), 1), corners(ClippedMean(clip=1.0), 4)
    far = placed(ClippedMean(clip=1.0), [40.0], [-40.0])
    yield _mean_entry(
        "clipped mean, linf, Gaussian",
        ClippedMean(**gaussian),
        2,
        power=0.5,
        bugs=(
            bug("half the noise", HALF_NOISE(**gaussian), one),
            bug("clip skipped", CLIP_SKIPPED(**gaussian), far),
            # At (1, 0.1) the printed noise is enough. At (3, 0.01) it is not, and four columns have Gaussian noise.
            bug(
                "printed noise of algorithm 9.2.1",
                PrintedNoise(clip=1.0, std=None, epsilon=3.0, delta=1e-2),
                four,
                trials=1_000_000,
            ),
            bug("2R/n for 2R sqrt(d)/n", DimensionForgotten(**gaussian), four),
        ),
    )
    laplace = {"clip": 1.0, "std": None, "epsilon": 1.0}
    yield _mean_entry(
        "clipped mean, linf, Laplace",
        ClippedMean(**laplace),
        2,
        power=0.3,
        bugs=(
            bug("half the noise", HALF_NOISE(**laplace), one),
            bug("clip skipped", CLIP_SKIPPED(**laplace), far),
            bug("2R/n for 2Rd/n", DimensionForgotten(**laplace), four),
        ),
    )
    yield _mean_entry("clipped mean, public spread", ClippedMean(**{**gaussian, "std": 0.5}), 2, power=0.5)
    ball = {"clip": 2.0, "clip_norm": "l2", "center": 0.5, "std": None, **VISIBLE}
    yield _mean_entry(
        "clipped mean, l2, Gaussian",
        ClippedMean(**ball),
        2,
        power=0.5,
        bugs=(
            bug("half the noise", HALF_NOISE(**ball), corners(ClippedMean(**ball), 2)),
            bug("clip skipped", CLIP_SKIPPED(**ball), far),
        ),
    )
    ball_laplace = {"clip": 2.0, "clip_norm": "l2", "std": None, "epsilon": 1.0}
    yield _mean_entry(
        "clipped mean, l2, Laplace",
        ClippedMean(**ball_laplace),
        2,
        power=0.3,
        bugs=(bug("half the noise", HALF_NOISE(**ball_laplace), corners(ClippedMean(**ball_laplace), 2)),),
    )


def _with_squares() -> Iterator[Entry]:
    box = {"clip": 1.0, **VISIBLE}
    near = placed(ClippedMean(**box), [1.0], [BESIDE])

    def one_to_all() -> Iterator[Pair]:
        for k in range(-256, 257):
            yield placed(ClippedMean(**box), [1.0], [k / 256])

    yield _mean_entry(
        "clipped mean and its spread, linf, Gaussian",
        ClippedMean(**box),
        2,
        # Tells the neighbors apart by their sums and by their squares.
        pair=placed(ClippedMean(**box), [1.0, 1.0], [BESIDE, BESIDE]),
        power=0.5,
        bugs=(
            bug("half the noise", HALF_NOISE(**box), near),
            bug("clip skipped", CLIP_SKIPPED(**box), placed(ClippedMean(**box), [5.0], [-5.0])),
            bug("squares of weight 1.8", in_other_units(ClippedMean, squares=1 / 1.8)(**box), near, trials=2_000_000),
            bug("each block as if alone", each_as_if_alone(ClippedMean)(**box), near, trials=200_000),
        ),
        understated=(
            understated("squares of weight 1.8", in_other_units(ClippedMean, squares=1 / 1.8)(**box), one_to_all),
            understated("8 bits without room for rounding", Unrounded(**box), one_to_all),
        ),
    )
    laplace = {"clip": 1.0, "epsilon": 1.0}
    middle = placed(ClippedMean(**laplace), [1.0], [0.0])
    yield _mean_entry(
        "clipped mean and its spread, linf, Laplace",
        ClippedMean(**laplace),
        2,
        power=0.3,
        bugs=(
            bug("half the noise", HALF_NOISE(**laplace), corners(ClippedMean(**laplace), 1)),
            bug("clip skipped", CLIP_SKIPPED(**laplace), placed(ClippedMean(**laplace), [5.0], [-5.0])),
            bug("each block as if alone", each_as_if_alone(ClippedMean)(**laplace), middle, trials=200_000),
        ),
        understated=(
            understated("squares of weight .6", in_other_units(ClippedMean, squares=1 / 0.6)(**laplace), one_to_all),
        ),
    )
    columns = {"clip": [2.0, 0.5], "center": [1.0, -3.0], **VISIBLE}
    for name, options in (("", columns), (", isotropic noise", {**columns, "noise": "isotropic"})):
        yield _mean_entry(
            f"clipped mean, one bound per column{name}",
            ClippedMean(**options),
            2,
            power=0.5,
            bugs=(bug("half the noise", HALF_NOISE(**options), corners(ClippedMean(**options), 2)),),
        )
    hard = {"bounds": [[0.0, 1.0], [18.0, 90.0]], "bounds_are": "hard", **VISIBLE}
    yield _mean_entry("clipped mean, hard bounds", ClippedMean(**hard), 2, power=0.5)
    yield _mean_entry("clipped mean, missing entries at the center", ClippedMean(missing="center", **box), 2, power=0.5)
    yield _mean_entry(
        "clipped mean, textbook noise where it is private",
        ClippedMean(clip=1.0, epsilon=2.0, delta=0.1, calibration="textbook"),
        1,
        power=0.2,
    )
    ball = {"clip": 2.0, "clip_norm": "l2", **VISIBLE}
    tilted = placed(ClippedMean(**ball), BALL_PAIR[0], BALL_PAIR[1])
    heavy = in_other_units(ClippedMean, squares=1.0)(**ball)
    yield _mean_entry(
        "clipped mean and its spread, l2, Gaussian",
        ClippedMean(**ball),
        2,
        power=0.5,
        bugs=(
            bug("half the noise", HALF_NOISE(**ball), tilted),
            bug("clip skipped", CLIP_SKIPPED(**ball), placed(ClippedMean(**ball), [5.0], [-5.0])),
            bug("squares of weight 1", heavy, tilted, trials=1_000_000),
        ),
        understated=(understated("squares of weight 1", heavy, lambda: iter([tilted])),),
    )
    yield _mean_entry("clipped mean and its spread, l2, one column", ClippedMean(**ball), 1, power=0.5)
    pure = {"clip": 2.0, "clip_norm": "l2", "std_share": 0.5, "epsilon": 2.0}
    yield _mean_entry(
        "clipped mean and its spread, l2, Laplace",
        ClippedMean(**pure),
        2,
        # Between two axes.
        pair=placed(ClippedMean(**pure), [1.0, 0.0], [0.0, 1.0]),
        power=0.15,
        bugs=(
            bug("the spread for free", SpreadForFree(**pure), tilted, trials=200_000),
            bug("free squares at pure epsilon in a ball", FreeInBall(**pure), tilted, trials=1_000_000),
        ),
        understated=(
            understated("free squares at pure epsilon in a ball", FreeInBall(**pure), lambda: iter([tilted])),
        ),
    )


BALL_PAIR = ((math.cos(math.pi / 12), math.sin(math.pi / 12)), (-math.sin(math.pi / 12), -math.cos(math.pi / 12)))
"""Rows of a disc that squares of weight 1 take furthest apart: docs/proofs/free-squares.md."""


def _with_counts() -> Iterator[Entry]:
    for law, options in (("Gaussian", VISIBLE), ("Laplace", {"epsilon": 1.0})):
        box = {"clip": 1.0, "clipped_share": True, **options}
        # Outside at one end, and at the other inside.
        pair = placed(ClippedMean(**box), [1.5], [-1.0])
        alone = in_other_units(CountNotCharged, outside=0.5)(**box)
        yield _mean_entry(
            f"clipped mean, its spread and the share outside, {law}",
            ClippedMean(**box),
            2,
            pair=placed(ClippedMean(**box), [1.5, 1.5], [-1.0, -1.0]),
            power=0.3,
            bugs=(bug("a count that is not charged", alone, pair, trials=200_000),),
            understated=(
                understated("a count that is not charged", CountNotCharged(**box), lambda pair=pair: iter([pair])),
            ),
        )
    columns = {"clip": [2.0, 0.5], "noise": "isotropic", "std": None, "clipped_share": True, **VISIBLE}
    yield _mean_entry("clipped mean and the share outside, isotropic noise", ClippedMean(**columns), 2, power=0.5)
    for law, options, spread in (("Gaussian", VISIBLE, "private"), ("Laplace", {"epsilon": 1.0}, None)):
        ball = {"clip": 2.0, "clip_norm": "l2", "clipped_share": True, "std": spread, **options}
        yield _mean_entry(f"clipped mean and the share outside, l2, {law}", ClippedMean(**ball), 2, power=0.3)
