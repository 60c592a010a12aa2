"""Released counts of a table and the distribution of their noise. All reports of a table derive from these."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.levels import Categories
from dpstats.errors import refuse, show
from dpstats.inference import Estimates
from dpstats.noisy_counts import CountNoise
from dpstats.tables.shares import CountShare, NoisyShare, ShareErrors
from dpstats.together import BONFERRONI

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Cells:
    """The counts of a table, with independent noise of the same distribution.

    Attributes
    ----------
    counts : array of shape (r_1, ..., r_k)
        Counts as released. A count may be negative.
    total : float
        Number of rows in all cells. It is public if every row is in a cell. Otherwise it is the public number of rows
        minus the released number of rows in no cell.
    noise : CountNoise
        Noise of a cell.
    total_noise : CountNoise or None
        Noise of the total, or None if the total is public.
    summed : bool
        Whether the total is the sum of the noisy counts, because the number of rows is private.
    names : tuple
        Names of the attributes.
    levels : tuple of tuples
        Levels of each attribute.
    """

    counts: Numbers
    total: float
    noise: CountNoise
    total_noise: CountNoise | None
    names: tuple[Any, ...]
    levels: tuple[tuple[Any, ...], ...]
    summed: bool = False

    @cached_property
    def projected(self) -> Numbers:
        """The nearest counts that are not negative and add up to the total."""
        flat = projection(self.counts.ravel()[None], np.array([max(self.total, 0.0)]))
        return flat.reshape(self.counts.shape)

    def _is_name(self, attribute: Any) -> bool:
        try:
            return attribute in self.names
        except (TypeError, ValueError):  # the comparison of an array, or of pandas.NA, has no truth value
            return False

    def position(self, attribute: Any, of: Any = ...) -> int:
        """Return the position of an attribute that is given by name or by position."""
        if self._is_name(attribute):
            return self.names.index(attribute)
        count = len(self.names)
        if (
            isinstance(attribute, int | np.integer)
            and not isinstance(attribute, bool)
            and 0 <= attribute < count
        ):
            return int(attribute)
        known = ", ".join(map(repr, self.names))
        raise refuse(
            "an attribute",
            given=attribute if of is ... else of,
            allowed=f"one of {known}, or a position below {count}",
        )

    def positions(self, name: str, attributes: Any) -> tuple[int, ...]:
        """Return the positions of one attribute, or of several different ones."""
        if getattr(attributes, "ndim", None) == 1 and hasattr(attributes, "tolist"):
            attributes = attributes.tolist()  # an array, or names of columns
        several = isinstance(attributes, list | tuple) and not self._is_name(attributes)
        found = tuple(self.position(item, attributes) for item in (attributes if several else [attributes]))
        if len(set(found)) < len(found) or not found:
            raise refuse(name, given=attributes, allowed="different attributes")
        return found

    def code(self, attribute: int, level: Any, name: str, of: Any = ...) -> int:
        """Return the position of a level of an attribute."""
        (code,) = Categories(self.levels[attribute]).codes([level])
        if code < 0:
            known = ", ".join(map(repr, self.levels[attribute]))
            raise refuse(
                name,
                given=level if of is ... else of,
                allowed=f"one of the levels {known} of {show(self.names[attribute])}",
            )
        return int(code)

    def over(self, attributes: Sequence[int]) -> Cells:
        """Return the marginal table of some attributes in the given order, summed over the others."""
        others = tuple(j for j in range(self.counts.ndim) if j not in attributes)
        kept = sorted(attributes)
        summed = self.counts.sum(axis=others)
        times = int(np.prod([self.counts.shape[j] for j in others], dtype=np.int64))
        return Cells(
            np.transpose(summed, [kept.index(j) for j in attributes]),
            self.total,
            self.noise.of(times),
            self.total_noise,
            tuple(self.names[j] for j in attributes),
            tuple(self.levels[j] for j in attributes),
            self.summed,
        )

    def shares(self, over: Sequence[int] | None) -> Numbers:
        """Return the estimated proportions that add up to 1 over some attributes (None: all).

        Over all attributes the total is known, and the proportions use the nearest possible counts. Within groups, the
        sizes are not known: the proportions use the released counts, with negative counts set to 0. They are NaN if
        no count of a group is positive.
        """
        counts = self.projected if over is None else np.maximum(self.counts, 0.0)
        with np.errstate(invalid="ignore"):
            return np.asarray(counts / counts.sum(axis=None if over is None else tuple(over), keepdims=True))

    def estimates(self, over: Sequence[int] | None = None, first: int | None = None) -> Estimates:
        """Return the proportions that add up to 1 over some attributes (None: all), with their errors.

        ``first`` limits the result to this number of cells.
        """
        shape = self.counts.shape
        along = tuple(range(len(shape))) if over is None else tuple(over)
        within = len(along) < len(shape)
        sums = np.broadcast_to(self.counts.sum(axis=along, keepdims=True), shape)
        others = self.noise.of(max(math.prod(shape[j] for j in along) - 1, 1))
        places = list(islice(np.ndindex(shape), first))
        shares: list[CountShare | NoisyShare] = []
        for place in places:
            count = float(self.counts[place])
            if within or self.total_noise is not None:
                shares.append(NoisyShare(count, float(sums[place]) - count, self.noise, others))
            else:
                half = self.noise.half
                shares.append(CountShare(count - half, count + half, int(self.total), self.noise))
        estimate = self.shares(over)
        errors = ShareErrors(estimate if first is None else estimate.ravel()[:first], shares)
        levels = [[self.levels[j][place[j]] for place in places] for j in range(len(shape))]
        words = "the proportions in the population" + (
            f" that add up to 1 over {', '.join(str(self.names[j]) for j in along)}" if within else ""
        )
        return Estimates(
            errors.estimate,
            None,
            tuple(", ".join(map(str, row)) for row in zip(*levels, strict=True)),
            words,
            errors,
            header="proportion",
            together=BONFERRONI,
            labels={str(name): column for name, column in zip(self.names, levels, strict=True)},
        )


def projection(points: Numbers, totals: Numbers, least: float = 0.0) -> Numbers:
    """Return the nearest vectors with entries of at least ``least`` that add up to ``totals``, row by row.

    If the total is too small for this, ``least`` is lowered to the mean entry.
    """
    floor = np.minimum(least, totals / points.shape[1])
    above = points - floor[:, None]
    left = totals - points.shape[1] * floor
    descending = -np.sort(-above, axis=1)
    # Subtract one number from all entries, so that the positive ones add up to the total (Held, Wolfe, Crowder 1974).
    taken = (np.cumsum(descending, axis=1) - left[:, None]) / np.arange(1, points.shape[1] + 1)
    last = np.maximum((descending > taken).sum(axis=1) - 1, 0)
    threshold = taken[np.arange(len(points)), last]
    return np.asarray(np.maximum(above - threshold[:, None], 0.0) + floor[:, None])
