"""What a sparse mean can know before any data: its plan, noise, balls and the weakest signal that it will find.

Public facts in, public numbers out. Lengths are in units of a column's standard deviation, unless
said otherwise. Proof: docs/proofs/sparse-mean.md.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import chi2

from dpstats.errors import NotPrivate
from dpstats.lattice import BallLattice, BoxLattice
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.totals import pure_delta
from dpstats.validation import check_columns

_GROWTH = (1.0, 1.5, 2.2, 3.0, 4.0, 6.0, 9.0, 14.0, 20.0)  # share of a stage over that of the one before
_MAX_STAGES = 3
# Set aside of epsilon, so that what is calibrated here is certified, also beside other releases, with rounding up.
_CERTIFIED = 1 - 2e-5


def peeling_delta(selections: int, releases: int, cost: float, epsilon: float) -> float:
    """Return the exact total delta of selections that are ``2 cost`` private and releases that are ``cost``.

    Pure releases of two costs: `dpstats.privacy.totals.pure_delta`.

    Examples
    --------
    >>> from dpstats.means.sparse_planning import peeling_delta
    >>> print(f"{peeling_delta(10, 10, 1 / 24.02, 1.0):.3e}")  # noise of 24.02 sensitivities
    1.002e-05
    """
    total = pure_delta(Counter({2 * cost: selections, cost: releases}))
    return 1.0 if total is None else total(epsilon)


@lru_cache(maxsize=64)
def peeling_cost(selections: int, releases: int, epsilon: float, delta: float) -> float:
    """Return the largest cost, of one release, at which peeling is (epsilon, delta)-private."""
    basic = epsilon / (2 * selections + releases)
    low = basic * (1 - 2.0**-50)
    if delta == 0:
        return low
    target = epsilon * _CERTIFIED
    high = 2 * low
    while peeling_delta(selections, releases, high, target) <= delta:
        low, high = high, 2 * high
    while high / low - 1 > 1e-10:
        middle = (low + high) / 2
        inside = peeling_delta(selections, releases, middle, target) <= delta * (1 - 1e-9)
        low, high = (middle, high) if inside else (low, middle)
    return low


def textbook_peeling_cost(n_nonzero: int, epsilon: float, delta: float) -> float:
    """Return the cost of one release in algorithm 9.2.2 as printed, or raise `NotPrivate`."""
    cost = epsilon / (2 * math.sqrt(3 * n_nonzero * math.log(1 / delta)))
    actual = peeling_delta(n_nonzero, n_nonzero, cost, epsilon * _CERTIFIED)
    if actual > delta:
        raise NotPrivate(
            f"calibration='textbook' is not private at epsilon = {epsilon:g}, delta = {delta:g}, n_nonzero = "
            f"{n_nonzero}: the printed noise of algorithm 9.2.2 has an actual delta of {actual:.3g}, "
            f"{actual / delta:.3g} times the one claimed (docs/errata.md); use calibration='exact'"
        )
    return cost


@dataclass(frozen=True, slots=True)
class Balls:
    """The stages of a release on the support: each clips rows to a ball about the average so far.

    Attributes
    ----------
    radii : tuple of float
    shares : tuple of float
        Part of mu^2 that each stage gets; they add up to just below 1.
    """

    radii: tuple[float, ...]
    shares: tuple[float, ...]


def release_balls(n: int, d: int, s: int, max_signal: float, mu: float) -> Balls:
    """Return the balls that plan the least noise; one ball about 0 is among those tried.

    A row of unit variances lies within sqrt(s + r^2) + 2 of a centre that is within r of its mean. The
    first centre is 0, r = max_signal sqrt(s); a later one errs by its noise, and by sampling: sqrt(2 log(d/s))
    standard errors in columns that were selected for their sampling error.
    """
    sampling = s * (1 + 2 * math.log(d / s)) / n
    largest = float(chi2.ppf(0.95, s))
    best, chosen = 0.0, Balls((), ())
    for count in range(1, _MAX_STAGES + 1):
        for growth in _GROWTH if count > 1 else _GROWTH[:1]:
            shares = growth ** np.arange(count)
            shares *= (1 - 1e-14) / shares.sum()
            distance, precision, radii = max_signal * math.sqrt(s), 0.0, []
            for share in shares.tolist():
                radii.append(math.sqrt(s + distance**2) + 2)
                precision += share * (n * mu / (2 * radii[-1])) ** 2
                distance = min(distance, math.sqrt(sampling + largest / precision))
            # Every stage is a pass over the rows: another one has to be worth it.
            if precision > best * (1 + 1e-3):
                best, chosen = precision, Balls(tuple(radii), tuple(shares.tolist()))
    return chosen


def cross_radius(s: int, max_signal: float) -> float:
    """Return the l1 radius of a row on the support: its expectation for normal columns, s E|N(a, 1)|, and 2 sqrt(s)."""
    folded = math.sqrt(2 / math.pi) * math.exp(-(max_signal**2) / 2)
    return s * (folded + max_signal * (2 * float(ndtr(max_signal)) - 1)) + 2 * math.sqrt(s)


def selection_threshold(n: int, d: int, s: int, clip: float, scale: float) -> float:
    """Return how large a signal is that will nearly surely be selected, if columns are normal.

    Signal over standard deviation, to first order: the noise of scale ``scale`` on the best of d columns, and the
    sampling error of the best of d means of rows clipped at ``clip``, over what clipping leaves of the signal.
    """
    inside = float(ndtr(clip) - ndtr(-clip))
    density = math.exp(-(clip**2) / 2) / math.sqrt(2 * math.pi)
    variance = inside - 2 * clip * density + 2 * clip**2 * float(ndtr(-clip))
    many = math.log(d / s)
    noise = scale * (many + 3)
    return (noise + math.sqrt(variance / n) * (math.sqrt(2 * many) + 1)) / inside


@dataclass(frozen=True)
class SparseMeanPlan(ReleasePlan):
    """The plan of a `SparseMean`, with the public facts that the fit and its report go by.

    Attributes
    ----------
    n_nonzero : int
    n_release : int
        How many rows the estimate is from: all of them, or the second half.
    std : float or tuple of float
    max_signal : float
    selection_threshold : float
        Signal over standard deviation from which a normal column is nearly surely selected.
    """

    lattice: BoxLattice = field(repr=False, compare=False)
    balls: tuple[BallLattice, ...] = field(repr=False, compare=False)
    n_nonzero: int
    n_release: int
    std: float | tuple[float, ...]
    max_signal: float
    selection_threshold: float
    missing: str

    @property
    def weights(self) -> NDArray[np.float64]:
        """What each stage counts in the estimate: by its inverse variance."""
        precision = np.array([float(stage.noise_std) ** -2 for stage in self.stages])
        result: NDArray[np.float64] = precision / precision.sum()
        return result

    @property
    def noise_scale(self) -> float:
        """Standard deviation (Gaussian) or scale (Laplace) of the noise of a selected column.

        In the units of the data; where ``std`` is an array and rows are standardised, in standard deviations.
        """
        return float(sum(float(stage.noise_scale) ** -2 for stage in self.stages)) ** -0.5

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise of a selected column."""
        return self.noise_scale * (math.sqrt(2) if self.stages[0].noise == "laplace" else 1.0)

    @property
    def scales(self) -> NDArray[np.float64] | None:
        """By what rows are divided: the standard deviations, where these are an array and rows are standardised."""
        return np.asarray(self.std) if isinstance(self.std, tuple) and self.balls else None

    @property
    def finds_signals(self) -> bool:
        """Whether a signal of ``max_signal`` is nearly surely selected."""
        return self.selection_threshold <= self.max_signal

    def expected_error(self, std: float | NDArray[np.float64] | None = None) -> float:
        """Return the expected squared l2 error where the right columns are selected and no row is clipped.

        Sampling error and noise of ``n_nonzero`` columns; of those with the largest ``std`` where it is an array.
        """
        spread = self.std if std is None else check_columns("std", std, self.n_features, at_least=0)
        largest = np.sort(np.broadcast_to(spread, (self.n_features,)))[-self.n_nonzero :]
        unit = 1.0 if self.scales is None else np.sort(self.scales)[-self.n_nonzero :]
        return float(
            np.sum(largest**2 / self.n_release + (self.noise_std * unit) ** 2 * np.ones(largest.size))
        )

    def __str__(self) -> str:
        lines = [super().__str__(), f"  signals above about {self.selection_threshold:.2g} std are found"]
        if not self.finds_signals:
            lines.append(f"  warning: {self.warning()}")
        return "\n".join(lines)

    def warning(self) -> str:
        """Return why the selection may find nothing."""
        return (
            f"no signal of up to max_signal = {self.max_signal:g} std is sure to be found (needed: about "
            f"{self.selection_threshold:.2g}); the selection may be mostly noise"
        )
