"""Every interval of every mean and variance: how it is fitted, what it is about, and what its output assumes.

One `Case` is one configuration of an estimator. All that is particular to an estimator's interface is here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from interval_laws import Law, Numbers, ball_mean
from scipy import special

from dpstats.data.rows import Table
from dpstats.errors import DPStatsError
from dpstats.lattice import BoxLattice
from dpstats.means import AdaptiveMean, ClippedMean, PrivateVariance, SparseMean
from dpstats.release.session import Session

DELTA = 1e-6
LEVEL = 0.95
WIDER_BOX = 10.0  # bound of an adaptive mean, in standard deviations
SIGNAL = 0.8  # of the columns of a sparse mean that are not zero, in standard deviations

Ends = tuple[Numbers, Numbers]


@dataclass(frozen=True)
class Sample:
    """Some datasets of a law, as the different estimators are given them, and what is true of them.

    ``raw`` has shape (n, datasets, d): a dataset is ``raw[:, i]``.
    """

    law: Law
    raw: Numbers

    @classmethod
    def draw(cls, law: Law, n: int, d: int, datasets: int, rng: np.random.Generator) -> Sample:
        """Draw some datasets."""
        return cls(law, np.stack([law.draw(n, d, rng) for _ in range(datasets)], axis=1))

    @property
    def datasets(self) -> int:
        """How many."""
        return self.raw.shape[1]

    @property
    def d(self) -> int:
        """Columns of each dataset."""
        return self.raw.shape[2]

    @cached_property
    def boxed(self) -> Numbers:
        """Rows that lie in the public bounds by nature."""
        return self.law.boxed(self.raw)

    @cached_property
    def sparse(self) -> Numbers:
        """Rows in standard deviations from their mean, with a signal in the first columns."""
        rows = (self.raw - self.law.mean) / self.law.std
        rows[..., : n_nonzero(self.d)] += SIGNAL
        return rows

    @cached_property
    def projected(self) -> Numbers:
        """Rows projected on the public ball."""
        center, radius = ball(self.law, self.d)
        moved = self.raw - center
        far = np.maximum(np.linalg.norm(moved, axis=-1, keepdims=True) / radius, 1.0)
        return center + moved / far

    def plain(self, estimand: str) -> Ends:
        """Return the non-private intervals of shape (datasets, d): Student's for means, Wald's for variances."""
        if estimand not in self._plain:
            values, quantile = PLAIN[estimand](self)
            mean = values.mean(axis=0)
            half = quantile * values.std(axis=0, ddof=1) / np.sqrt(len(values))
            self._plain[estimand] = mean - half, mean + half
        return self._plain[estimand]

    @cached_property
    def _plain(self) -> dict[str, Ends]:
        return {}

    def truth(self, estimand: str) -> Numbers:
        """Return what intervals should cover, of shape (datasets, d)."""
        return np.broadcast_to(TRUTHS[estimand](self), self.raw.shape[1:])


def _student(rows: Numbers) -> tuple[Numbers, float]:
    return rows, -float(special.stdtrit(len(rows) - 1, (1 - LEVEL) / 2))


def _wald(rows: Numbers, center: Numbers | float) -> tuple[Numbers, float]:
    return (rows - center) ** 2, -float(special.ndtri((1 - LEVEL) / 2))


PLAIN: dict[str, Callable[[Sample], tuple[Numbers, float]]] = {
    "sample": lambda sample: _student(sample.boxed),
    "clipped": lambda sample: _student(sample.boxed),
    "ball": lambda sample: _student(sample.projected),
    "hard": lambda sample: _student(sample.boxed),
    "population": lambda sample: _student(sample.raw),
    "mean": lambda sample: _student(sample.raw),
    "mean, if tails are as assumed": lambda sample: _student(sample.raw),
    "selected": lambda sample: _student(sample.sparse),
    "variance": lambda sample: _wald(sample.boxed, sample.boxed.mean(axis=0)),
    "square": lambda sample: _wald(sample.boxed, sample.law.center),
}
"""What the non-private interval is the mean of, and the quantile that it takes."""


def ball(law: Law, d: int) -> tuple[float, float]:
    """Return the public center of each column, half a standard deviation off the mean, and the public radius."""
    return law.mean + 0.5 * law.std, 1.2 * law.std * np.sqrt(d + 1)


def n_nonzero(d: int) -> int:
    """Return how many columns of the sparse rows are not zero."""
    return max(1, d // 20)


TRUTHS: dict[str, Callable[[Sample], Any]] = {
    "sample": lambda sample: sample.boxed.mean(axis=0),
    "clipped": lambda sample: sample.law.clipped_mean,
    "ball": lambda sample: ball_mean(sample.law, sample.d, *ball(sample.law, sample.d)),
    "hard": lambda sample: sample.law.clipped_mean,
    "population": lambda sample: sample.law.mean,
    "mean": lambda sample: sample.law.mean,
    "mean, if tails are as assumed": lambda sample: sample.law.mean,
    "variance": lambda sample: sample.law.clipped_variance,
    "square": lambda sample: sample.law.clipped_square,
    "selected": lambda sample: SIGNAL * (np.arange(sample.d) < n_nonzero(sample.d)),
}
"""What an interval is about, by name. sample: the clipped mean of the sample; clipped: E[clip(x)]; ball: the same
for a ball; hard: E[x], of rows that lie in the bounds; population, mean: E[x]; variance: that of clip(x); square: its
second moment about the middle of the bounds; selected: the means of the columns, of which some are selected."""


@dataclass(frozen=True)
class Case:
    """One configuration of an estimator.

    Attributes
    ----------
    estimator, name : str
        The class, and what is particular.
    make : callable
        ``make(law, d, epsilon)`` returns the estimator, from public facts of the law.
    estimands : tuple of str
        What its intervals are about: names of TRUTHS.
    rows : str
        Which rows of a `Sample` it is given.
    holds : callable
        ``holds(law)``: whether what the output assumes is true.
    packed : bool
        Whether an interval goes by its column alone: the columns of many releases are then reported as if they were
        those of one fit, which is much faster.
    """

    estimator: str
    name: str
    make: Callable[[Law, int, float], Any]
    estimands: tuple[str, ...]
    rows: str = "raw"
    holds: Callable[[Law], bool] = lambda law: True
    packed: bool = False

    def ends(self, fitted: Any, estimand: str, level: float, simultaneous: bool = False) -> Ends:
        """Return the ends of the interval of each column."""
        asked = {"estimand": ASKED[estimand]} if estimand in ASKED else {}
        if self.said(fitted):
            # Where tails are refuted no interval assumes them.
            asked = {}
        low, high = fitted.confidence_interval(level, simultaneous=simultaneous, **asked)
        return np.atleast_1d(low), np.atleast_1d(high)

    def said(self, fitted: Any) -> bool:
        """Return whether the output says that its assumption does not hold."""
        return bool(getattr(fitted, "assumption_refuted_", False))

    def unnoticed(self, law: Law, fitted: Any, estimand: str) -> float:
        """Return how far, by its own words, the output may be off for a reason that it would not notice."""
        screen = getattr(fitted.plan_, "screen", None)
        if screen is None or estimand == "mean":
            return 0.0
        return float(screen.unnoticed[1]) * float(np.max(fitted.plan_.stds))


ASKED = {
    "clipped": "clipped",
    "ball": "clipped",
    "population": "population",
    "hard": "population",
    "mean, if tails are as assumed": "tails",
}
"""What `confidence_interval` is asked for, where it can be asked."""


class Interval(NamedTuple):
    """The intervals of one fit, and what they are compared with; each end is an array of one number per column."""

    each: Ends
    together: Ends | None  # of all columns at once, where they were asked for
    plain: Ends
    truth: Numbers
    said: bool = False
    unnoticed: float = 0.0


class Runs:
    """Fits of one case, and their intervals."""

    def __init__(self, case: Case, law: Law, n: int, d: int, epsilon: float) -> None:
        self.case = case
        self.estimator = case.make(law, d, epsilon)
        # A plan depends on public facts alone: one for all fits.
        self._plan = plan = self.estimator.plan(n, d)
        self.estimator.plan = lambda n_samples, n_features: plan
        self._released: list[Any] = []
        self._samples: list[dict[str, tuple[Ends, Numbers]]] = []
        self._intervals: dict[str, list[Interval]] = {estimand: [] for estimand in case.estimands}
        self.failed = 0

    def fit(self, sample: Sample, rng: np.random.Generator) -> None:
        """Fit to every dataset of a sample."""
        rows = getattr(sample, self.case.rows)
        known = {estimand: (sample.plain(estimand), sample.truth(estimand)) for estimand in self.case.estimands}
        if self.case.packed:
            try:
                self._released.append(self._release(rows, rng))
                self._samples.append(known)
            except DPStatsError:
                self.failed += sample.datasets
            return
        for i in range(sample.datasets):
            self.estimator.random_state = rng
            try:
                fitted = self.estimator.fit(rows[:, i])
            except DPStatsError:
                self.failed += 1
                continue
            columns = getattr(fitted, "support_", slice(None))
            for estimand, found in self._intervals.items():
                (low, high), truth = known[estimand]
                each = self.case.ends(fitted, estimand, LEVEL)
                # Of every fourth fit: they take as long as all the rest.
                together = None if i % 4 else self.case.ends(fitted, estimand, LEVEL, simultaneous=True)
                plain = low[i, columns], high[i, columns]
                said, unnoticed = self.case.said(fitted), self.case.unnoticed(sample.law, fitted, estimand)
                found.append(Interval(each, together, plain, truth[i, columns], said, unnoticed))

    def intervals(self, estimand: str) -> list[Interval]:
        """Return what was found."""
        if not self._released:
            return self._intervals[estimand]
        d = self._plan.n_features
        levels = (LEVEL, LEVEL ** (1 / d))
        each, together = (
            [end.reshape(-1, d) for end in self.case.ends(self._pack, estimand, level)] for level in levels
        )
        known = [sample[estimand] for sample in self._samples]
        plain = [np.concatenate([part[0][side] for part in known]) for side in (0, 1)]
        truth = np.concatenate([part[1] for part in known])
        return [
            Interval(tuple(ends[:2]), tuple(ends[2:4]), tuple(ends[4:6]), ends[6])
            for ends in zip(*each, *together, *plain, truth, strict=True)
        ]

    # What a fit does between its checks and its report, for many datasets: an interval goes by its column alone.

    def _release(self, rows: Numbers, rng: np.random.Generator) -> Any:
        n, count, d = rows.shape
        plan, estimator = self._plan, self.estimator
        if isinstance(plan.lattice, BoxLattice):
            wide = replace(plan, n_features=count * d, lattice=replace(plan.lattice, n_features=count * d))
            exact = _each(lambda sums: np.reshape(sums, (count, d)), estimator._read(Table(rows.reshape(n, -1)), wide))
        else:
            read = [estimator._read(Table(rows[:, i].copy()), plan) for i in range(count)]
            exact = _each(lambda *sums: np.stack(sums), *read)
        with Session.simulated(plan, rng, size=count) as session:
            estimator._release(exact, plan, session)
        return session.released

    @cached_property
    def _pack(self) -> Any:
        """All fits as one, of very many columns."""
        released = _each(lambda *values: np.concatenate(values).ravel(), *self._released)
        count = sum(len(known[self.case.estimands[0]][1]) for known in self._samples)
        plan = replace(self._plan, n_features=self._plan.n_features * count)
        self.estimator.plan_ = plan
        self.estimator._report(released, plan)
        return self.estimator


def _each(function: Callable[..., Any], *nested: Any) -> Any:
    """Apply a function to arrays, or to those of the same names in mappings."""
    if isinstance(nested[0], Mapping):
        return {name: _each(function, *(part[name] for part in nested)) for name in nested[0]}
    return function(*nested)


def _clipped(law: Law, d: int, epsilon: float, *, std: Any, delta: float, are: str = "clip") -> ClippedMean:
    public = (np.sqrt(law.clipped_variance) if are == "hard" else law.std) if std == "public" else std
    return ClippedMean(epsilon=epsilon, delta=delta, bounds=(law.low, law.high), bounds_are=are, std=public)


def _ball(law: Law, d: int, epsilon: float, *, std: Any, delta: float) -> ClippedMean:
    center, radius = ball(law, d)
    public = law.std if std == "public" else std
    return ClippedMean(epsilon=epsilon, delta=delta, clip=radius, clip_norm="l2", center=center, std=public)


def _variance(law: Law, d: int, epsilon: float, *, delta: float, **options: Any) -> PrivateVariance:
    return PrivateVariance(epsilon=epsilon, delta=delta, bounds=(law.low, law.high), **options)


def _spread(std: str, actual: float) -> dict[str, Any]:
    """Return the true spread, or that it is private and below a public bound of twice as much."""
    return {"std": actual} if std == "public" else {"std": "private", "std_bound": 2 * actual}


def _adaptive(law: Law, d: int, epsilon: float, *, tails: str, std: str, delta: float) -> AdaptiveMean:
    return AdaptiveMean(epsilon=epsilon, delta=delta, bound=WIDER_BOX * law.std, tails=tails, **_spread(std, law.std))


def _sparse(law: Law, d: int, epsilon: float, *, std: str, delta: float) -> SparseMean:
    return SparseMean(
        n_nonzero=n_nonzero(d), epsilon=epsilon, delta=delta, clip=10.0, max_signal=1.0, split=True, **_spread(std, 1.0)
    )


def _is_normal(law: Law) -> bool:
    return law.name in ("normal", "normal factor")


TAILS = {
    "subgaussian": lambda law: law.name == "normal",
    "symmetric": lambda law: law.name in ("normal", "t3"),
    "variance": lambda law: True,
}
"""Which laws are what ``tails`` assumes; rows with a common factor are farther from their mean than it allows."""

NOISES = {"Gaussian": DELTA, "Laplace": 0.0}

SPREADS = {
    estimator: ("public", "private") if "std_bound" in signature(estimator).parameters else ("public",)
    for estimator in (AdaptiveMean, SparseMean)
}

CASES = [
    *(
        Case("ClippedMean", f"box, std {std}, {noise}", partial(_clipped, std=std, delta=delta), estimands, packed=True)
        for noise, delta in NOISES.items()
        for std, estimands in (("private", ("clipped",)), ("public", ("clipped", "population")), (None, ("sample",)))
    ),
    *(
        Case(
            "ClippedMean",
            f"hard bounds, std {std}, {noise}",
            partial(_clipped, std=std, delta=delta, are="hard"),
            ("hard",),
            rows="boxed",
            packed=True,
        )
        for noise, delta in NOISES.items()
        for std in ("private", "public")
    ),
    *(
        Case(
            "ClippedMean",
            f"ball, std private, {noise}",
            partial(_ball, std="private", delta=delta),
            ("ball",),
            packed=True,
        )
        for noise, delta in NOISES.items()
    ),
    # What clipping can do to a column depends on all of them.
    Case("ClippedMean", "ball, std public, Gaussian", partial(_ball, std="public", delta=DELTA), ("ball",)),
    Case(
        "ClippedMean",
        "ball, std public, Gaussian, population",
        partial(_ball, std="public", delta=DELTA),
        ("population",),
    ),
    *(
        Case(
            "PrivateVariance",
            f"{interval}, about {about}, {noise}",
            partial(_variance, delta=delta, interval=interval, about=about),
            ("variance" if about == "mean" else "square",),
            holds=_is_normal if interval == "normal" else lambda law: True,
            packed=True,
        )
        for noise, delta in NOISES.items()
        for interval in ("moments", "normal", "bounded")
        for about in ("mean", "center")
    ),
    *(
        Case(
            "AdaptiveMean",
            f"{tails}, std {std}, {noise}",
            partial(_adaptive, tails=tails, std=std, delta=delta),
            ("mean", "mean, if tails are as assumed") if tails == "subgaussian" else ("mean",),
            holds=holds,
        )
        for noise, delta in NOISES.items()
        for std in SPREADS[AdaptiveMean]
        for tails, holds in TAILS.items()
        if std == "public" or delta
    ),
    *(
        Case(
            "SparseMean",
            f"split, std {std}, {noise}",
            partial(_sparse, std=std, delta=delta),
            ("selected",),
            rows="sparse",
        )
        for noise, delta in NOISES.items()
        for std in SPREADS[SparseMean]
        if std == "public" or delta
    ),
]
