"""AdaptiveMean: every shape of ball and both laws of noise, stage by stage."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dpstats.data.rows import Table
from dpstats.means import AdaptiveMean
from dpstats.means.adaptive_estimate import OUTSIDE, SQUARED_NORMS, SUMS
from dpstats.privacy import JointStage
from registry.entry import Asked, Dataset, Entry, PlantedBug, core, fitted, having, quieter, with_less_noise

FAR = 1e4


def estimates(plan: Any, released: Any) -> np.ndarray:
    """Return the estimate of every stage, which tells more than what it released about its center; and the rest."""
    joint = [released[stage.name] for stage in plan.stages if isinstance(stage, JointStage)]
    beside = [values for stage in joint for name, values in stage.items() if name != SUMS]
    return np.concatenate([*plan.trail(released).estimates, *beside], axis=1)


def _neighbors(d: int = 2, n: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Return neighbors that stay furthest apart in every stage: a row far out on one side, or on the other."""
    X, Y = np.zeros((n, d)), np.zeros((n, d))
    X[0, 0], Y[0, 0] = FAR, -FAR
    return X, Y


def _pairs(d: int) -> Callable[[], Iterator[tuple[np.ndarray, np.ndarray]]]:
    def pairs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        rng = np.random.default_rng(0)
        rest = rng.normal(scale=2.0, size=(2, d))
        directions = rng.standard_normal((100, d))
        # The axes, the diagonal (where l1 is largest), and anything; near and very far.
        for v in [*np.eye(d), np.ones(d), *directions]:
            for near, far in ((1e4, -1e4), (0.3, -1e300), (3.0, 1e308 / max(1.0, np.abs(v).max()))):
                yield np.vstack([near * v, rest]), np.vstack([far * v, rest])

    return pairs


HalfNoise = with_less_noise(AdaptiveMean)


class EveryStageInFull(AdaptiveMean):
    """Planted bug: every stage takes the noise of the whole budget."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        part = math.sqrt if self.delta else float
        pairs = zip(plan.stages, plan.staging.shares, strict=True)
        return replace(plan, stages=tuple(quieter(stage, part(share)) for stage, share in pairs))


class CenterBeforeItsRelease(AdaptiveMean):
    """Planted bug: later stages are centered at the mean of the rows, not at what was released of it."""

    def _release(self, private: Any, plan: Any, session: Any) -> None:
        raw = np.broadcast_to(private.rows.X.mean(axis=0), (session.size or 1, plan.n_features))
        super()._release(private, _Peeking(plan, raw), session)


class _Peeking:
    def __init__(self, plan: Any, raw: np.ndarray) -> None:
        self.plan, self.raw = plan, raw

    def center(self, estimates: Any, scales: Any = ()) -> np.ndarray:
        return self.raw

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plan, name)


class RadiusFromTheData(AdaptiveMean):
    """Planted bug: balls that hold the furthest row, with the noise of the planned ones."""

    def _steps(self, rows: Any, plan: Any, t: int, center: np.ndarray, *others: Any, **options: Any) -> Any:
        honest = super()._steps(rows, plan, t, center, *others, **options)
        about = center[None] if center.ndim == 1 else center
        sums = np.rint((rows.X - about[:, None]) / plan.lattices[t].spacing).astype(np.int64).sum(axis=1)
        sums = sums[0] if center.ndim == 1 else sums
        return {**honest, SUMS: sums} if isinstance(honest, dict) else sums


class RadiusFromTheSpreadOfTheRows(AdaptiveMean):
    """Planted bug: radii that follow the largest row, and not what was released of the spread."""

    def _steps(self, rows: Any, plan: Any, t: int, center: np.ndarray, *others: Any, **options: Any) -> Any:
        options["scale"] = float(np.abs(rows.X).max()) / plan.staging.radii[t]
        return super()._steps(rows, plan, t, center, *others, **options)


class CountNotCharged(AdaptiveMean):
    """Planted bug: a count of clipped rows at next to no noise, beside sums that take the whole share."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        return replace(plan, stages=(*plan.stages[:-1], _louder(plan.last, OUTSIDE, 10.0)))


class HeavySquares(AdaptiveMean):
    """Planted bug: squared norms at ten times the weight that is free."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        return replace(plan, stages=(*plan.stages[:-1], _louder(plan.last, SQUARED_NORMS, 10.0)))


def _louder(stage: Any, name: str, factor: float) -> Any:
    """Return a joint stage with one block at a larger weight than its sensitivity counts."""
    blocks = [
        replace(block, unit_steps=block.unit_steps / factor) if block.name == name else block for block in stage.blocks
    ]
    return replace(stage, blocks=tuple(blocks))


def _entry(
    name: str, estimator: AdaptiveMean, *, power: float, bugs: tuple[PlantedBug, ...] = (), n: int = 8, d: int = 2
) -> Entry:
    X, Y = _neighbors(d, n)
    plan = estimator.plan(*X.shape)
    center = np.linspace(0.3, -0.7, d)

    def integers(data: Dataset) -> Asked:
        # Any center that earlier releases could have led to.
        scale = 0.37 if plan.follows else 1.0
        rows, stages = Table(data), range(len(plan.stages))
        return Asked([partial(estimator._steps, rows, plan, t, center, "error", scale) for t in stages])

    def pairs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        yield from _pairs(d)()
        # A row just inside the last ball, and one outside it on the other side, which the count tells apart.
        shape, radius = plan.shape, plan.staging.radii[-1] * (0.37 if plan.follows else 1.0)
        scale = np.diag(np.full(d, shape.std)) if shape.factor is None else shape.factor
        for v in [*np.eye(d), np.ones(d)]:
            far = scale @ (radius * v / np.linalg.norm(v))
            rest = np.zeros((2, d))
            yield np.vstack([center + (1 - 1e-9) * far, rest]), np.vstack([center - 2 * far, rest])

    numbers = {"bound": 10.0, "std": 1.0, "cov": None}
    if plan.private_std:
        numbers |= {"std": "private", "std_bound": 1.0}
    scalar = AdaptiveMean(**(estimator.get_params() | numbers))
    return Entry(
        name=name,
        covers=AdaptiveMean,
        proof="adaptive-mean.md",
        plan=plan,
        integers=integers,
        pairs=pairs,
        draw=core(estimator, estimates),
        dataset=X,
        neighbor=Y,
        power=power,
        public=fitted(estimator, lambda made: made.stage_means_),
        bugs=bugs,
        # scikit-learn's checks use tables of many widths, which numbers per column cannot fit.
        estimator=scalar,
        most_trials=100_000,
    )


def _inside_or_out(n: int, d: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Return neighbors of which one has a row far out and the other has not."""
    X, Y = np.zeros((n, d)), np.zeros((n, d))
    Y[0, 0] = FAR
    return X, Y


def _bug(name: str, estimator: AdaptiveMean, n: int = 8, trials: int = 20_000, pair: Any = None) -> PlantedBug:
    return PlantedBug(
        name,
        core(estimator, estimates),
        *(pair or _neighbors(n=n)),
        float(estimator.epsilon),
        float(estimator.delta),
        trials,
    )


@having({}, {"adaptive mean, Laplace": {"exact_audit": True}})
def entries() -> Iterator[Entry]:
    # Rows enough for a plan of several stages.
    gaussian = {"bound": 10.0, "std": 1.0, "epsilon": 1.0, "delta": 0.1}
    yield _entry(
        "adaptive mean, Gaussian",
        AdaptiveMean(**gaussian),
        power=0.5,
        n=40,
        bugs=(
            _bug("half the noise", HalfNoise(**gaussian), n=40),
            _bug("every stage in full", EveryStageInFull(**gaussian), n=40),
            _bug("a center before its release", CenterBeforeItsRelease(**gaussian), n=40),
            _bug("the radius from the data", RadiusFromTheData(**gaussian), n=40),
            _bug("a count that is not charged", CountNotCharged(**gaussian), pair=_inside_or_out(40)),
            _bug("squares that are too heavy", HeavySquares(**gaussian), pair=_inside_or_out(40)),
        ),
    )
    laplace = {"bound": 10.0, "std": 1.0, "epsilon": 4.0, "delta": 0.0}
    yield _entry(
        "adaptive mean, Laplace",
        AdaptiveMean(**laplace),
        power=0.2,
        n=40,
        bugs=(
            _bug("half the noise", HalfNoise(**laplace), n=40),
            _bug("a center before its release", CenterBeforeItsRelease(**laplace), n=40),
        ),
    )
    columns = {**gaussian, "epsilon": 3.0, "bound": [4.0, 1.0], "std": [2.0, 0.5], "tails": "symmetric"}
    yield _entry(
        "adaptive mean, one spread per column",
        AdaptiveMean(**columns),
        power=0.5,
        bugs=(_bug("half the noise", HalfNoise(**columns)),),
    )
    shape = {
        **gaussian,
        "epsilon": 3.0,
        "bound": 4.0,
        "std": None,
        "cov": [[1.0, 0.6], [0.6, 2.0]],
        "tails": "variance",
    }
    yield _entry(
        "adaptive mean, whitened, missing entries at the center",
        AdaptiveMean(missing="center", **shape),
        power=0.5,
        n=40,
        bugs=(_bug("half the noise", HalfNoise(**shape), n=40),),
    )
    follows = {"bound": 20.0, "std": "private", "std_bound": 2.0, "epsilon": 2.0, "delta": 1e-2}
    X = np.ones((40, 2))
    Y = X.copy()
    Y[0] = FAR
    yield _entry(
        "adaptive mean, balls that follow the spread",
        AdaptiveMean(**follows),
        power=0.5,
        n=40,
        bugs=(
            _bug("half the noise", HalfNoise(**follows), n=40),
            _bug("a center before its release", CenterBeforeItsRelease(**follows), n=40),
            _bug("a radius from the rows", RadiusFromTheSpreadOfTheRows(**follows), pair=(X, Y)),
        ),
    )
    laplace_follows = {**follows, "epsilon": 4.0, "delta": 0.0}
    yield _entry(
        "adaptive mean, balls that follow the spread, Laplace",
        AdaptiveMean(**laplace_follows),
        power=0.2,
        n=40,
        bugs=(_bug("half the noise", HalfNoise(**laplace_follows), n=40),),
    )
