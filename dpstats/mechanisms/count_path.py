"""The path of counts that go on: the factor of its noise, totals and windows with their bands, and its picture.

Proof: docs/proofs/continual-counts.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.special import ndtr, ndtri

from dpstats.data.parameters import check_integer
from dpstats.inference.error_distributions import NormalErrors, Together, simultaneous_level
from dpstats.inference.estimates import Estimates, HasEstimates
from dpstats.inference.figures import ESTIMATE, new_figure, plain
from dpstats.inference.reports import Printed, picture_of
from dpstats.inference.results import ConfidenceInterval, Summary
from dpstats.lattice import isqrt_up
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee

Floats = NDArray[np.float64]

BITS = 30
"""The factor has entries on 2^-30, so that 2^31 rows in all give integers below 2^61."""


# The factor. The lower triangular matrix of ones is the square of the Toeplitz matrix of the coefficients of
# (1 - x)^(-1/2). Rounded to the lattice, that matrix multiplies the counts. Estimates are post-processing.


@lru_cache(maxsize=8)
def factor_steps(size: int, bits: int = BITS) -> NDArray[np.int64]:
    """Return the first coefficients of (1 - x)^(-1/2), in multiples of 2^-30: 2^30, 2^29, ...; or of 2^-bits.

    Examples
    --------
    >>> from dpstats.mechanisms.count_path import factor_steps
    >>> (factor_steps(4) / 2**30).round(4)
    array([1.    , 0.5   , 0.375 , 0.3125])
    """
    found, numerator = [], 1 << 62
    for k in range(size):
        # In integers, so that every machine has the same factor; with more bits than it keeps.
        found.append((numerator + (1 << (61 - bits))) >> (62 - bits))
        numerator = numerator * (2 * k + 1) // (2 * k + 2)
    return np.array(found, dtype=np.int64)


@lru_cache(maxsize=8)
def estimate_weights(size: int, bits: int = BITS) -> Floats:
    """Return the weights w of the total after step t, the sum of w_k y_(t-k) of the released numbers y."""
    factor = factor_steps(size, bits) * 2.0**-bits
    inverse = np.zeros(size)
    inverse[0] = 1.0
    for n in range(1, size):
        inverse[n] = -(factor[1 : n + 1] @ inverse[n - 1 :: -1])
    return np.cumsum(inverse)


@lru_cache(maxsize=32)
def sensitivity_steps(horizon: int, counters: int, neighbors: Neighbors) -> int:
    """Return the largest l2 distance of the integers of a stream between neighbors, rounded up.

    A row adds a column of the factor at the step and the counter where it counts. The first column is the longest.
    """
    factor = factor_steps(horizon).tolist()
    column = sum(entry * entry for entry in factor)
    if neighbors is Neighbors.ADD_OR_REMOVE_ONE:
        return isqrt_up(column)
    if counters > 1:
        # A row moves to another counter of the first step.
        return isqrt_up(2 * column)
    # A row of the first step stops to count, or moves by some steps: the squared length of the difference of the two
    # columns. All products that this needs are digits of one product of two integers, with 96 bits each.
    packed = [
        int.from_bytes(b"".join(entry.to_bytes(12, "little") for entry in row), "little")
        for row in (factor, factor[::-1])
    ]
    digits = (packed[0] * packed[1]).to_bytes(24 * horizon, "little")
    largest, rest = column, column
    for gap in range(1, horizon):
        rest -= factor[horizon - gap] ** 2
        place = 12 * (horizon - 1 - gap)
        largest = max(largest, column + rest - 2 * int.from_bytes(digits[place : place + 12], "little"))
    return isqrt_up(largest)


# Simultaneous bands: the largest of the standardized errors, by simulation. Errors are normal with known weights.

_PATHS = 4000
_BLOCK = 1 << 22  # numbers of a block of simulated paths


@lru_cache(maxsize=16)
def largest_errors(size: int, window: int | None, numbers: int = 1) -> Floats:
    """Return sorted draws of the largest |error|/deviation over all totals, or all windows, of ``size`` steps.

    Each error has this many independent numbers, and its length counts.
    """
    weights = path_weights(size, window)
    deviations = np.sqrt(np.cumsum(weights**2))
    first = 0 if window is None else window - 1
    length = fft.next_fast_len(2 * size, real=True)
    transformed = np.fft.rfft(weights, length)
    # The draws are a table of the method and depend on no data, so they have a fixed seed.
    generator, found = np.random.default_rng(size), []
    block = max(1, _BLOCK // (length * numbers))
    for start in range(0, _PATHS, block):
        noise = generator.standard_normal((min(block, _PATHS - start), numbers, size))
        path = np.fft.irfft(np.fft.rfft(noise, length) * transformed, length)[..., first:size]
        found.append(np.linalg.norm(path / deviations[first:], axis=1).max(axis=1))
    return np.sort(np.concatenate(found))


def path_weights(size: int, window: int | None, bits: int = BITS) -> Floats:
    """Return the weights of the released numbers in a total, or in the count of the last ``window`` steps."""
    weights = estimate_weights(size, bits)
    if window is None or window >= size:
        return weights
    moved = weights.copy()
    moved[window:] -= weights[:-window]
    return moved


@dataclass(frozen=True)
class WholePath(Together):
    """Intervals that hold at all steps together, by the simulated distribution of the largest error."""

    size: int
    window: int | None
    counters: int
    numbers: int = 1  # released numbers of each estimate

    words = "the simulated distribution of the largest error of the path"

    def each(self, level: float, count: int) -> float:
        if count == 1:
            return level
        draws = largest_errors(self.size, self.window, self.numbers)
        # The counters have independent noise. This rank makes the band right on average over the simulation.
        rank = math.ceil(level ** (1 / self.counters) * (draws.size + 1))
        # Sidak's inequality holds for any level, also beyond what the draws can say.
        wide = simultaneous_level(level, count)
        return wide if rank > draws.size else min(wide, 1 - 2 * float(ndtr(-draws[rank - 1])))

    def adjust(self, pvalues: Floats) -> Floats:
        draws = largest_errors(self.size, self.window, self.numbers)
        with np.errstate(all="ignore"):
            above = draws.size - np.searchsorted(draws, -ndtri(pvalues / 2))
        one = (1 + above) / (1 + draws.size)
        return np.asarray(np.maximum(pvalues, 1 - (1 - one) ** self.counters))


def sum_windows(totals: Floats, window: int | None) -> tuple[int, Floats]:
    """Return the place of the first step with an estimate, and the sums of the last ``window`` steps from there on.

    Without a window they are the totals after every step.
    """
    if window is None:
        return 0, totals
    first = check_integer("window", window, at_least=1, at_most=len(totals)) - 1
    return first, np.concatenate([totals[first : first + 1], totals[window:] - totals[:-window]])


@dataclass(frozen=True, slots=True, eq=False)
class StreamPath(HasEstimates, Printed):
    """Base of the path of a stream: estimates after all steps so far, with a band and a picture.

    Attributes
    ----------
    keys : tuple
        The keys of the steps; their numbers, from 1, where none were given.
    noise_scale : float
        Standard deviation of the noise of one released number.
    horizon : int
    guarantee : PrivacyGuarantee
    """

    keys: tuple[Any, ...]
    noise_scale: float
    horizon: int
    guarantee: PrivacyGuarantee

    _quantity: ClassVar[str]
    _meaning: ClassVar[str]

    @property
    def _labels(self) -> tuple[Any, ...]:
        """Labels of the estimates of a step."""
        return ("private",)

    def estimates(self, window: int | None = None) -> Estimates:
        """Return the estimates of all steps, or of windows of steps."""
        raise TypeError(f"{type(self).__name__} does not define estimates")

    def _facts(self) -> list[tuple[str, str]]:
        noise = f"Gaussian, correlated over the steps; of a count alone {self.noise_scale:.4g}"
        return [("Steps", f"{len(self.keys):,} of {self.horizon:,}"), *self.guarantee.facts(), ("Noise", noise)]

    def band(self, confidence_level: float = 0.95, window: int | None = None) -> ConfidenceInterval:
        """Return a band that covers the estimates of all steps so far together.

        Parameters
        ----------
        confidence_level : float, default=0.95
        window : int, optional
            Number of steps of a window; default: totals since the first step.
        """
        return self.estimates(window=window).confidence_interval(confidence_level, simultaneous=True)

    def summary(self, confidence_level: float | None = None, window: int | None = None) -> Summary:
        """Return a table of the last 12 steps; ``to_frame`` has all of them."""
        shown = _LAST * len(self._labels)
        whole = self.estimates(window=window).summary(confidence_level)
        if len(whole.rows) <= shown:
            return whole
        notes = [f"The last {_LAST} steps are shown; to_frame() has all.", *whole.notes]
        return Summary(whole.title, whole.facts, whole.columns, whole.rows[-shown:], notes)

    def plot(
        self, ax: Any = None, confidence_level: float | None = None, window: int | None = None, **style: Any
    ) -> Any:
        """Draw the estimates of all steps with their simultaneous band, and return the Axes.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        confidence_level : float, default=0.95
        window : int, optional
            Number of steps of a window; default: totals since the first step.
        **style
            Properties of the lines, such as ``color``.
        """
        axis = new_figure(figsize=(5.6, 3.4)).subplots() if ax is None else ax
        band = self.band(0.95 if confidence_level is None else confidence_level, window)
        counters = len(self._labels)
        shown = self.estimates(window=window).estimate.reshape(-1, counters)
        low, high = (np.reshape(end, (-1, counters)) for end in (band.low, band.high))
        steps = np.arange(len(self.keys) - len(shown), len(self.keys)) + 1
        for place in range(counters):
            look = {"color": ESTIMATE if counters == 1 else f"C{place}", "label": plain(self._labels[place])} | style
            axis.step(steps, shown[:, place], where="post", linewidth=1.2, **look)
            ends = low[:, place], high[:, place]
            axis.fill_between(steps, *ends, step="post", color=look["color"], alpha=0.25, linewidth=0)
        axis.set_xlabel("step")
        span = "so far" if window is None else f"in {window} step{'s' * (window > 1)}"
        axis.set_ylabel(f"{self._quantity} {span}")
        axis.grid(alpha=0.25)
        if counters > 1:
            axis.legend(fontsize=8, frameon=False)
        return axis


@dataclass(frozen=True, slots=True, eq=False)
class CountPath(StreamPath):
    """The totals after all steps so far, with the joint distribution of their errors.

    Attributes
    ----------
    totals : ndarray of shape (n_steps,) or (n_steps, n_categories)
        Estimated number of rows of all steps up to each. May be negative, and may fall.
    noise_std : ndarray of shape (n_steps,)
        Standard deviation of the noise of each total.
    keys : tuple
        The keys of the steps; their numbers, from 1, where none were given.
    categories : tuple
        Empty for a single counter.
    noise_scale : float
        Standard deviation of the noise of one released number.
    horizon : int
    guarantee : PrivacyGuarantee

    Examples
    --------
    >>> from dpstats.mechanisms import ContinualCounts
    >>> counts = ContinualCounts(horizon=365, epsilon=1.0, delta=1e-6, random_state=0)
    >>> for visits in [120, 90, 150, 130]:
    ...     _ = counts.update(visits)
    >>> path = counts.path()
    >>> path.totals.round(), path.noise_std.round(1)
    (array([121., 209., 365., 493.]), array([7.2, 8.1, 8.5, 8.8]))
    >>> band = path.band(0.95)
    >>> band.low.round(), band.high.round()
    (array([103., 190., 343., 471.]), array([139., 229., 386., 515.]))
    """

    totals: Floats
    noise_std: Floats
    categories: tuple[Any, ...]

    _quantity, _meaning = "rows", "number of rows"

    @property
    def _labels(self) -> tuple[Any, ...]:
        return self.categories or ("private",)

    def estimates(self, window: int | None = None) -> Estimates:
        """Return totals, or counts of windows, with the distribution of their errors: the noise alone.

        Parameters
        ----------
        window : int, optional
            Number of steps of a window: each estimate is then the number of rows in the last ``window`` steps, from
            step ``window`` on. Default: totals since the first step.
        """
        size, counters = len(self.keys), max(len(self.categories), 1)
        first, totals = sum_windows(self.totals.reshape(size, counters), window)
        deviations = self.noise_scale * np.sqrt(np.cumsum(path_weights(size, window)[:size] ** 2))[first:]
        keys = [key for key in self.keys[first:] for _ in range(counters)]
        names = [*self.categories] * (size - first)
        what = "the number of rows up to each step" if window is None else f"the number of rows in {window} step(s)"
        error = np.repeat(deviations, counters)
        return Estimates(
            totals.ravel(),
            error,
            tuple(f"{key}, {name}" for key, name in zip(keys, names, strict=True)) if names else tuple(map(str, keys)),
            f"{what}, in these data",
            NormalErrors(totals.ravel(), error),
            title="Private counts of a stream",
            header="count",
            facts=self._facts(),
            rows="step",
            together=WholePath(size, window, counters),
            labels={"step": keys} | ({"category": names} if names else {}),
            noise=error,
            simulated=self.guarantee.simulated,
        )


_LAST = 12


@picture_of.register
def _draw_path(result: StreamPath) -> tuple[str, Any] | None:
    if len(result.keys) < 2:
        return None
    words = f"The {result._meaning} up to each step, with a 95% band that holds for all steps together."
    return words, result.plot().figure
