"""Private counts: of rows with a property, and of rows in each of declared categories.

Proof: docs/proofs/histogram.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.categories import Categories
from dpstats.data.columns import truths
from dpstats.data.parameters import check_choice, check_privacy_parameters, check_real
from dpstats.errors import InvalidData
from dpstats.intervals import half_widths, simultaneous_level
from dpstats.lattice import isqrt_up
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.events import Event
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee
from dpstats.privacy.plan import Plan
from dpstats.privacy.stages import Stage
from dpstats.release.additive import Integers, additive_stages
from dpstats.release.mechanism import Mechanism
from dpstats.results import ConfidenceInterval, Summary, significant

_COUNTS = "counts"
_FRACTION_BITS = 30  # Gaussian noise needs a lattice finer than whole counts


@dataclass(frozen=True, slots=True, eq=False)
class CountEstimate:
    """Released counts, with the law of their noise.

    Attributes
    ----------
    categories : tuple
    counts : ndarray of shape (n_categories,)
        Whole numbers under Laplace noise; may be negative.
    guarantee : PrivacyGuarantee
    noise : {"laplace", "gaussian"}
    scale : float
        Scale (Laplace) or standard deviation (Gaussian) of the noise.
    """

    categories: tuple[Any, ...]
    counts: NDArray[np.float64]
    guarantee: PrivacyGuarantee
    noise: str
    scale: float

    def confidence_interval(
        self, confidence_level: float = 0.95, simultaneous: bool = False
    ) -> ConfidenceInterval:
        """Return an interval for each count in these data, from the law of the noise alone.

        ``simultaneous=True`` makes all of them cover together; exact, as the noise is independent.
        """
        level = check_real("confidence_level", confidence_level, above=0, below=1)
        each = simultaneous_level(level, self.counts.size) if simultaneous else level
        if self.noise == "laplace":
            # The smallest k with P(|Z| > k) = 2 a^(k+1)/(1 + a) at most 1 - each, a = e^(-1/scale).
            log_tail = math.log1p(-each) + math.log1p(math.exp(-1 / self.scale)) - math.log(2)
            half = float(max(0, math.ceil(-log_tail * self.scale - 1 - 1e-9)))
        else:
            half = float(half_widths(each, np.zeros(1), self.noise, np.array([self.scale]))[0])
        return ConfidenceInterval.around(
            self.counts, half, level, "the counts in these data", bool(simultaneous)
        )

    def summary(self, confidence_level: float = 0.95) -> Summary:
        """Return a table of the counts with intervals; prints as text, shows as HTML in a notebook."""
        interval = self.confidence_interval(confidence_level)
        low, high = np.atleast_1d(interval.low), np.atleast_1d(interval.high)
        percent = f"{100 * interval.confidence_level:g}%"
        rows = [
            (str(name), *(significant(value, max(self.scale, 1.0)) for value in values))
            for name, *values in zip(self.categories, self.counts, low, high, strict=True)
        ]
        facts = [
            ("Privacy", str(self.guarantee)),
            ("Noise", f"{self.noise.capitalize()} of scale {self.scale:.4g}"),
            ("Intervals cover", interval.estimand),
        ]
        return Summary("Private counts", facts, ("", "count", f"[{percent} low", f"{percent} high]"), rows)


class Histogram(Mechanism):
    """Release how many rows fall in each of declared categories.

    Parameters
    ----------
    categories : sequence
        Public and distinct; declared, never read off the data. A row is in a category that it equals: numbers by
        value, exactly, whatever their type (1, 1.0 and True); text and bytes never each other; times by instant,
        whatever their unit. None or NaN is the category of the missing rows (None, NaN, NaT, pandas.NA, masked).
    epsilon : float
        Greater than 0.
    delta : float, default=0.0
        0 adds Laplace noise (whole numbers); in (0, 1) Gaussian noise.
    neighbors : Neighbors, default=Neighbors.REPLACE_ONE
        Replacing a row moves two counts by one each (l1 2, l2 sqrt 2), adding or removing one moves
        a single count by one.
    unknown : {"error", "drop"}, default="error"
        What a row in no category does, and one that cannot be a category (a list): refuse the data (which shows
        that there was one), or count nowhere.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise: a release. Anything else is a simulation.
    budget : PrivacyBudget, optional
        Charged at every release, before noise is drawn.

    Attributes
    ----------
    categories : tuple
    guarantee : PrivacyGuarantee
    event : Event
    scale : float
        Scale (Laplace) or standard deviation (Gaussian) of the noise.

    Examples
    --------
    >>> from dpstats.mechanisms import Histogram
    >>> histogram = Histogram(["yes", "no", "unsure"], epsilon=1.0, random_state=0)
    >>> result = histogram.release(["yes"] * 60 + ["no"] * 30 + ["unsure"] * 10)
    >>> result.counts
    array([61., 31.,  7.])
    >>> result.confidence_interval(0.95).low
    array([55., 25.,  1.])
    """

    def __init__(
        self,
        categories: Sequence[Any],
        epsilon: float,
        delta: float = 0.0,
        *,
        neighbors: Neighbors = Neighbors.REPLACE_ONE,
        unknown: str = "error",
        random_state: Any = None,
        budget: PrivacyBudget | None = None,
    ) -> None:
        self._categories = Categories(categories)
        self._unknown = check_choice("unknown", unknown, ["error", "drop"])
        epsilon, delta = check_privacy_parameters(epsilon, delta)
        super().__init__(PrivacyGuarantee(epsilon, delta, neighbors), random_state, budget)
        self._plan = self._planned(_count_stage(len(self._categories), self._guarantee))

    @property
    def categories(self) -> tuple[Any, ...]:
        """The declared categories, in order."""
        return self._categories.values

    @property
    def plan(self) -> Plan:
        """What one release consists of, at which noise, at which cost."""
        return self._plan

    @property
    def event(self) -> Event:
        """What an accountant sees of one release."""
        return self._stage.event

    @property
    def _stage(self) -> Stage:
        return self._plan.additive[0]

    @property
    def scale(self) -> float:
        """Scale (Laplace) or standard deviation (Gaussian) of the noise."""
        return float(np.asarray(self._stage.noise_scale))

    def release(self, data: Any) -> CountEstimate:
        """Release the counts of the rows of ``data``, a 1-d sequence of category values.

        A list, another iterable, an array, or a column of a data frame. What a row counts as depends on that row
        alone, whatever the types of the others.
        """
        session = self._session()
        session.check()
        steps = self._steps(data)
        with session:
            counts = session.add(_COUNTS, steps)
        return CountEstimate(self.categories, counts, self._guarantee, self._stage.noise, self.scale)

    def _steps(self, data: Any) -> NDArray[np.int64]:
        """Return the exact counts, in steps of the stage's lattice."""
        codes = self._categories.codes(data)
        known = codes[codes >= 0]
        if self._unknown == "error" and known.size < codes.size:
            raise InvalidData(
                "data must hold declared categories only, got a value outside the declared categories; declare it, "
                "or give unknown='drop'"
            )
        return self._in_steps(np.bincount(known, minlength=len(self._categories)), codes.size)

    def _in_steps(self, counts: NDArray[np.int64], n_rows: int) -> NDArray[np.int64]:
        if n_rows > 2**31:
            raise InvalidData("data must have at most 2^31 rows")
        return counts.astype(np.int64) * int(1 / float(np.asarray(self._stage.spacing)))


class Count(Histogram):
    """Release how many rows have a property: sensitivity one under both relations.

    Parameters
    ----------
    epsilon, delta, neighbors, random_state, budget
        As for `Histogram`.

    Examples
    --------
    >>> from dpstats.mechanisms import Count
    >>> result = Count(epsilon=0.5, random_state=1).release([True] * 40 + [False] * 60)
    >>> result.counts
    array([42.])
    """

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        neighbors: Neighbors = Neighbors.REPLACE_ONE,
        random_state: Any = None,
        budget: PrivacyBudget | None = None,
    ) -> None:
        super().__init__(
            [True],
            epsilon,
            delta,
            neighbors=neighbors,
            unknown="drop",
            random_state=random_state,
            budget=budget,
        )

    def release(self, condition: Any) -> CountEstimate:
        """Release the number of true entries of a 1-d sequence of booleans; a missing one is not true.

        An entry that is no boolean is refused, which shows that there was one.
        """
        return super().release(condition)

    def _steps(self, data: Any) -> NDArray[np.int64]:
        true = truths("condition", data)
        return self._in_steps(true.sum(keepdims=True), true.size)


def _count_stage(size: int, guarantee: PrivacyGuarantee) -> Stage:
    # A replaced row leaves one count and enters another; with a single category it can only do one.
    moved = 2 if guarantee.neighbors is Neighbors.REPLACE_ONE and size > 1 else 1
    bits = 0 if guarantee.delta == 0 else _FRACTION_BITS
    item = Integers(_COUNTS, size, 2.0**-bits, moved << bits, isqrt_up(moved << 2 * bits))
    return additive_stages([item], guarantee.epsilon, guarantee.delta, neighbors=guarantee.neighbors)[0]
