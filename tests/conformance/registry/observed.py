"""Rows that are dropped: what a present row is from none, and how many rows are observed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.lattice import BoxLattice
from dpstats.means import ClippedMean, PrivateVariance
from dpstats.means.moments import ROWS
from registry.clipped_mean import VISIBLE, Pair, bug, half_noise, pairs_of_rows, placed, understated
from registry.entry import Entry, core, exact_integers, fitted


def gone(estimator: Any, place: Any, n: int = 3) -> Pair:
    """Return neighbors: a row at a place, in units of the region about its center, or none."""
    X, Y = placed(estimator, place, place, n)
    Y[0] = np.nan
    return X, Y


def pairs_of_observed(estimator: Any, d: int) -> Callable[[], Iterator[Pair]]:
    """Return what yields the pairs of rows, and each of some rows against one of which an entry is missing."""

    def pairs() -> Iterator[Pair]:
        yield from itertools.islice(pairs_of_rows(estimator, d)(), 1500)
        size = 1 / np.sqrt(d) if getattr(estimator, "clip_norm", "") == "l2" else 1.0
        for place in itertools.product((-1.7, -1.0, -0.4, 0.0, 0.3, 0.7, 1.0, 5.0), repeat=d):
            X, Y = gone(estimator, size * np.array(place))
            yield X, Y
            # One missing entry is enough, and an infinite one is missing.
            part = X.copy()
            part[0, -1] = np.inf
            yield part, X
            yield X[::-1].copy(), part[::-1].copy()
            yield part, Y

    return pairs


def not_charged(kind: type) -> type:
    """Planted bug: the count of observed rows has noise for a tenth of a row."""

    class NotCharged(kind):  # type: ignore[misc]
        def plan(self, n_samples: int, n_features: int) -> Any:
            plan = super().plan(n_samples, n_features)
            (stage,) = plan.stages
            blocks = tuple(
                replace(block, unit_steps=block.unit_steps / 10) if block.name == ROWS else block
                for block in stage.blocks
            )
            return replace(plan, stages=(replace(stage, blocks=blocks),))

    return NotCharged


class FromZero(BoxLattice):
    """Planted bug: even powers of observed rows are measured from 0, at the movement about the middle."""

    @property
    def even_center(self) -> int:
        return 0


def from_zero(kind: type) -> type:
    """Planted bug: the same, of an estimator."""

    class Estimator(kind):  # type: ignore[misc]
        def plan(self, n_samples: int, n_features: int) -> Any:
            plan = super().plan(n_samples, n_features)
            lattice = plan.lattice
            names = ("center", "spacing", "n_features", "bits", "bound", "low", "high")
            return replace(plan, lattice=FromZero(*(getattr(lattice, name) for name in names)))

    return Estimator


def _entry(name: str, estimator: Any, numbers: Callable[[Any], Any], d: int = 2, **options: Any) -> Entry:
    X, Y = gone(estimator, np.full(d, 1 / np.sqrt(d) if options.pop("ball", False) else 1.0))
    plan = estimator.plan(*X.shape)
    return Entry(
        name=name,
        covers=type(estimator),
        proof="observed-rows.md",
        plan=plan,
        integers=exact_integers(estimator, plan),
        pairs=pairs_of_observed(estimator, d),
        draw=core(estimator),
        dataset=X,
        neighbor=Y,
        public=fitted(estimator, numbers),
        estimator=estimator,
        **options,
    )


def _of_mean(made: ClippedMean) -> np.ndarray:
    return np.concatenate([made.mean_, made.std_, [made.rows_], getattr(made, "clipped_share_", [])])


def _of_variance(made: PrivateVariance) -> np.ndarray:
    return np.concatenate([made.variance_, [made.rows_]])


def entries() -> Iterator[Entry]:
    for law, options in (("Gaussian", VISIBLE), ("Laplace", {"epsilon": 1.0})):
        power = 0.5 if law == "Gaussian" else 0.25
        for kind, numbers in ((ClippedMean, _of_mean), (PrivateVariance, _of_variance)):
            box = {"clip": 1.0, "missing": "drop", **options}
            pair = gone(kind(**box), [1.0])
            wrong, heavy = not_charged(kind)(**box), from_zero(kind)(**box)
            yield _entry(
                f"{kind.__name__} of observed rows, {law}",
                kind(**box),
                numbers,
                power=power,
                bugs=(
                    bug("half the noise", half_noise(kind)(**box), pair),
                    bug("the count of rows is not charged", wrong, pair, trials=200_000),
                ),
                understated=(
                    understated("the count of rows is not charged", wrong, lambda pair=pair: iter([pair])),
                    understated("even powers from 0", heavy, lambda pair=pair: iter([pair])),
                ),
            )
    columns = {"clip": [2.0, 0.5], "noise": "isotropic", "clipped_share": True, "missing": "drop", **VISIBLE}
    yield _entry("clipped mean of observed rows and the share outside", ClippedMean(**columns), _of_mean, power=0.3)
    ball = {"clip": 2.0, "clip_norm": "l2", "missing": "drop", **VISIBLE}
    yield _entry("clipped mean of observed rows, l2", ClippedMean(**ball), _of_mean, power=0.5, ball=True)
    about = {"clip": 1.0, "about": "center", "interval": "bounded", "missing": "drop", **VISIBLE}
    yield _entry("second moment of observed rows", PrivateVariance(**about), _of_variance, power=0.3)
