"""PrivateVariance: about the mean and about a public centre."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.means import PrivateVariance
from registry.clipped_mean import pairs_of_rows
from registry.entry import Entry, PlantedBug, core, exact_integers, fitted, less_noise


class HalfNoise(PrivateVariance):
    """Planted bug: half the noise that the guarantee needs."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        return less_noise(super().plan(n_samples, n_features))


class ClipSkipped(PrivateVariance):
    """Planted bug: squares of rows that are rounded but not clipped."""

    def _read(self, table: Any, plan: Any) -> Any:
        steps = np.rint((np.asarray(table.X) - plan.lattice.center) / plan.lattice.spacing).astype(np.int64)
        squares = (steps * steps) >> plan.lattice.bits
        return {"second moment about the centre": squares.sum(axis=0), "clipped mean": steps.sum(axis=0)}


class OneForTwo(PrivateVariance):
    """Planted bug: the whole guarantee for each of the two releases."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        power = 0.5 if self.delta else 1.0
        parts = ((1 - self.mean_share) ** power, self.mean_share**power)
        return replace(
            plan,
            stages=tuple(
                replace(s, scale_steps=s.scale_steps * part)
                for s, part in zip(plan.stages, parts, strict=True)
            ),
        )


def _entry(name: str, estimator: PrivateVariance, *, power: float, bugs: tuple[PlantedBug, ...]) -> Entry:
    # What clipped_mean's pairs ask of an estimator.
    estimator.clip_norm = "linf"
    X, Y = _apart()
    plan = estimator.plan(*X.shape)
    return Entry(
        name=name,
        covers=PrivateVariance,
        proof="variance.md",
        plan=plan,
        integers=exact_integers(estimator, plan),
        pairs=pairs_of_rows(estimator, 2),
        draw=core(estimator),
        dataset=X,
        neighbor=Y,
        power=power,
        public=fitted(estimator, lambda made: made.variance_),
        bugs=bugs,
        estimator=estimator,
    )


def _apart() -> tuple[np.ndarray, np.ndarray]:
    X = np.zeros((3, 2))
    X[0] = 1.0
    return X, np.zeros((3, 2))


def _bug(name: str, estimator: PrivateVariance, pair: Any, trials: int = 20_000) -> PlantedBug:
    return PlantedBug(name, core(estimator), *pair, float(estimator.epsilon), float(estimator.delta), trials)


def entries() -> Iterator[Entry]:
    for law, options in (("Gaussian", {"epsilon": 3.0, "delta": 1e-2}), ("Laplace", {"epsilon": 1.0})):
        both = {"clip": 1.0, "mean_share": 0.5, **options}
        yield _entry(
            f"variance, {law}",
            PrivateVariance(**both),
            power=0.15,
            # With Gaussian noise the excess of the guarantee twice is too small for an audit of this length.
            bugs=(
                _bug("half the noise", HalfNoise(**both), _apart())
                if "delta" in options
                else _bug("the guarantee twice", OneForTwo(**both), _apart(), 200_000),
            ),
        )
        moment = {"clip": 1.0, "about": "center", **options}
        far = np.array([[5.0], [0.0], [0.0]]), np.zeros((3, 1))
        yield _entry(
            f"second moment, {law}",
            PrivateVariance(**moment),
            power=0.3,
            bugs=(
                _bug("half the noise", HalfNoise(**moment), tuple(data[:, :1] for data in _apart())),
                _bug("clip skipped", ClipSkipped(**moment), far),
            ),
        )
