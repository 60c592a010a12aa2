"""ClippedMean: every norm, noise and option that changes what is released."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.means import ClippedMean
from registry.entry import Entry, PlantedBug, core, exact_integers, fitted, less_noise


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


def pairs_of_rows(estimator: ClippedMean, d: int) -> Callable[[], Iterator[tuple[np.ndarray, np.ndarray]]]:
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
    return PlantedBug(name, core(estimator), *pair, float(estimator.epsilon), float(estimator.delta), trials)


class HalfNoise(ClippedMean):
    """Planted bug: half the noise that the guarantee needs."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        return less_noise(super().plan(n_samples, n_features))


class ClipSkipped(ClippedMean):
    """Planted bug: rows are rounded but not clipped."""

    def _read(self, table: Any, plan: Any) -> Any:
        lattice = plan.lattice
        steps = np.rint((np.asarray(table.X) - lattice.center) / lattice.spacing).astype(np.int64)
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
        return less_noise(plan, 1 / factor)


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
        public=fitted(estimator, lambda made: made.mean_),
        bugs=bugs,
        estimator=estimator,
        **options,
    )


def entries() -> Iterator[Entry]:
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
