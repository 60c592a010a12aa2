"""Residuals of a log-rank test in integers: the contribution of a row, given the public reference of the first stage.

Proof: docs/proofs/survival.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.tables import Table
from dpstats.release.additive import Integers
from dpstats.survival.cells import Floats, Steps, checked_rows, elapsed_share, times_at_edges
from dpstats.survival.reference import Reference

RESIDUALS = "residuals"
_ROWS = 1 << 16  # of a block
_LEAST_RANGE = 0.05


def residual_integers(n_groups: int, bits: int, share: float) -> Integers:
    """Return the stage parameters of the sums. In units of their sensitivity, a change has 2^bits steps."""
    size = 1 if n_groups == 2 else n_groups
    return Integers(RESIDUALS, size, 2.0**-bits, 1 << bits, 1 << bits, share)


# With two groups the statistic is a single number. Let r be the residual of a row, and p the proportion of the
# first group. A row adds (1 - p) r in the first group, and -p r in the second. With more groups, each has a sum of
# residuals.
@dataclass(frozen=True, eq=False)
class Residuals:
    """Sums of residuals over rows, for one release of the first stage or for several.

    Attributes
    ----------
    reference : Reference
    edges : array of shape (bins + 1,)
    bits : int
    pure : bool
        Whether the sensitivity is in l1, or in l2.
    discrete : bool
        Whether times are moved to edges, as by `Cells`.
    others : bool
        Whether rows of undeclared groups add nothing. They are refused otherwise.
    """

    reference: Reference
    edges: Floats
    bits: int
    pure: bool
    discrete: bool = False
    others: bool = False

    @cached_property
    def bounds(self) -> tuple[Floats, Floats]:
        """The least and the largest number that a row adds to a sum: each of shape (releases,)."""
        heights, weights = self.reference.heights, self.reference.weights
        total = heights[:, -1]
        # An event is at risk in its whole bin. A small least value keeps a table without usable bins divisible.
        largest = np.maximum((weights - heights[:, 1:]).max(axis=1), _LEAST_RANGE)
        if self.reference.n_groups > 2:
            return -total, largest
        share = self.reference.mean_shares[:, 0]
        return np.minimum(-(1 - share) * total, -share * largest), np.maximum(
            (1 - share) * largest, share * total
        )

    @cached_property
    def divisor(self) -> Floats:
        """What sums are divided by, so that their sensitivity is 1: shape (releases,)."""
        low, high = self.bounds
        if self.reference.n_groups == 2:
            return high - low
        largest = np.maximum(-low, high)
        return 2 * largest if self.pure else np.maximum(np.sqrt(2.0) * largest, high - low)

    def sums(self, times: Floats, codes: Steps, groups: Steps) -> Steps:
        """Return the sums of rows in steps: shape (releases, 1), or (releases, groups) of more than two groups."""
        size = 1 if self.reference.n_groups == 2 else self.reference.n_groups
        found = np.zeros((len(self.divisor), size), dtype=np.int64)
        for start in range(0, len(times), _ROWS):
            part = slice(start, start + _ROWS)
            found += self._part(times[part], codes[part], groups[part])
        return found

    def _part(self, times: Floats, codes: Steps, groups: Steps) -> Steps:
        edges, K = self.edges, self.reference.n_groups
        if self.discrete:
            times = times_at_edges(times, codes, edges)
        bins = np.clip(np.searchsorted(edges, times, side="left"), 1, len(edges) - 1) - 1
        share = elapsed_share(times, edges[bins], edges[bins + 1])
        heights, weights = self.reference.heights, self.reference.weights
        event = (codes > 0) & (times <= edges[-1])
        share = self.elapsed_hazard(bins, share)
        share = np.where(event, 1.0, share)  # at risk in the whole bin
        expected = heights[:, bins] + share * (heights[:, bins + 1] - heights[:, bins])
        values = np.where(event, weights[:, bins], 0.0) - expected
        one = 1 << self.bits
        low, high = (end / self.divisor * one for end in self.bounds)
        if K == 2:
            first = self.reference.mean_shares[:, :1]
            # 0 is inside the range of both groups: rows of other groups add it.
            values = np.where(groups == 0, 1 - first, np.where(groups == 1, -first, 0.0)) * values
            least = np.floor(low)
            most = least + one
        else:
            # A part in 10^12 is more than the rounding of the bounds.
            least, most = (np.trunc(end * (1 - 1e-12)) for end in (low, high))
        steps = np.rint(values / self.divisor[:, None] * one)
        steps = as_int64(np.clip(steps, least[:, None], most[:, None]))
        if K == 2:
            return np.asarray(steps.sum(axis=1, keepdims=True))
        return np.stack([np.where(groups == group, steps, 0).sum(axis=1) for group in range(K)], axis=1)

    def elapsed_hazard(self, bins: Steps, u: Floats) -> Floats:
        """Return the part of its bin's hazard that a row has passed at the part u of the bin, between 0 and 1.

        It is u without positions: then events are spread evenly.
        """
        shapes = self.reference.shapes
        if shapes is None:
            return u
        # The effective number at risk of the pooled hazard is the sum of these exposures.
        return np.clip(u - shapes.lost[:, bins] * (u * (1 - u)), 0.0, 1.0)

    def __call__(self, table: Table) -> dict[str, NDArray[np.int64]]:
        """Return the sums of some rows."""
        rows = checked_rows(table, self.reference.n_groups if self.others else None)
        return {RESIDUALS: self.sums(*rows)}
