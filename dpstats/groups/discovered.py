"""Groups that nobody declared: their totals, their plan, and intervals given that a group was found.

Proof: docs/intervals/groups.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.keys import DISCOVER, in_order
from dpstats.data.tables import Table
from dpstats.errors import refuse
from dpstats.found_counts import FURTHEST, FoundCounts
from dpstats.groups.base import Floats
from dpstats.groups.plan import GroupMeansPlan
from dpstats.key_noise import NormalNoise
from dpstats.lattice import BoxLattice
from dpstats.lattice.finite import rows_that_count
from dpstats.means.moments import finest
from dpstats.means.ratio import Noise, Ratio
from dpstats.means.region import Region
from dpstats.means.totals import COUNTS, SQUARES, SUMS, GaussianTotals, group_sums
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee
from dpstats.privacy.stages import Discovery
from dpstats.privacy.stages.discovery import count_keys
from dpstats.release.discovery import discovery_stage

_NODES = 65
_AT_ONCE = 10**6  # scores


@dataclass(frozen=True)
class DiscoveredMeansPlan(GroupMeansPlan):
    """The plan of a `GroupMeans` that discovers its groups; ``groups`` is empty.

    Examples
    --------
    >>> from dpstats.groups import GroupMeans
    >>> plan = GroupMeans(groups="discover", bounds=(0, 1)).plan(10_000, 1)
    >>> round(plan.threshold, 1)
    45.0
    >>> round(plan.expected_groups([20, 50, 500]), 1)
    1.7
    """

    @property
    def discovery(self) -> Discovery:
        """The stage."""
        (stage,) = self.stages
        assert isinstance(stage, Discovery)
        return stage

    @property
    def threshold(self) -> float:
        """The least noisy count of a released group, in rows."""
        return self.discovery.threshold

    def make_totals(self, n_groups: int) -> GaussianTotals:
        """Return the totals of a number of groups."""
        return GaussianTotals(n_groups, self.n_features, self.lattice.bits, self.target.neighbors)

    def expected_groups(self, sizes: Any) -> float:
        """Return the expected number of released groups, for groups of these sizes.

        Parameters
        ----------
        sizes : sequence of numbers
            Hypothetical numbers of rows, one for each group.
        """
        return float(self.discovery.compute_power(sizes).sum())

    def facts(self) -> dict[str, Any]:
        return {"groups": DISCOVER, "threshold": self.threshold}

    def notes(self) -> list[str]:
        half, most = map(self.discovery.find_size, (0.5, 0.95))
        return [
            f"a group of {half:.0f} rows is found with probability 0.50, one of {most:.0f} rows with 0.95",
            f"a group of {10 * half:.0f} rows: {self.describe_noise(10 * half)}",
        ]


def discovered_means_plan(
    region: Region, n: int | None, d: int, epsilon: float, delta: float, missing: str, neighbors: Neighbors
) -> DiscoveredMeansPlan:
    """Return the plan of releasing the totals of undeclared groups of n rows."""
    if delta == 0:
        raise refuse(
            "delta",
            given=delta,
            allowed="positive for groups='discover'",
            remedy="Declare the groups, or give delta=1e-6 for example.",
        )

    def build(bits: int) -> DiscoveredMeansPlan:
        lattice = BoxLattice.build(
            region.clip, region.center, d, common=False, bits=bits, ends=(region.low, region.high)
        )
        totals = GaussianTotals(count_keys(neighbors), d, bits, neighbors)
        stage = discovery_stage(totals.integers(), 1 << bits, epsilon, delta, neighbors)
        return DiscoveredMeansPlan(
            (stage,),
            PrivacyGuarantee(epsilon, delta, neighbors),
            n,
            d,
            groups=(),
            region=region,
            lattice=lattice,
            totals=totals,
            missing=missing,
        )

    return finest(build)


def labeled_totals(table: Table, plan: DiscoveredMeansPlan) -> tuple[list[Any], dict[str, NDArray[np.int64]]]:
    """Return the labels of some rows in their order, and the exact totals of each: a row of integers a label."""
    assert table.labels is not None
    counted = rows_that_count(table.X, plan.missing)
    labels = [label if counts else None for label, counts in zip(table.labels, counted.tolist(), strict=True)]
    found = in_order(set(labels) - {None})
    code = {label: place for place, label in enumerate(found)}
    codes = np.fromiter((code.get(label, -1) for label in labels), dtype=np.int64, count=len(labels))
    totals = plan.make_totals(len(found))
    sums = group_sums(table.X, codes, plan.lattice, totals, plan.missing)
    widths = {COUNTS: 1, SUMS: plan.n_features, SQUARES: plan.n_features}
    return found, {name: sums[name].reshape(len(found), width) for name, width in widths.items()}


def found_ratio(released: Mapping[str, Any], plan: DiscoveredMeansPlan) -> FoundRatio:
    """Return the ratios of the released totals of the groups that were found."""
    totals = plan.make_totals(len(released["labels"]))
    flat = {name: np.ravel(released[name]) for name in (COUNTS, SUMS, SQUARES)}
    known = totals.ratio(flat, plan.totals_noise)
    return FoundRatio(known.T, known.N, known.Q, known.X, known.R, known.noise, threshold=plan.threshold)


@dataclass(frozen=True, eq=False)
class FoundRatio(Ratio):
    """Ratios of groups that were found: intervals hold given that.

    The noisy count N of a group of c rows has a normal distribution between the threshold and c + threshold. Each c
    has a score of N, and given c the rest has the score of a known count. A mean is kept if some c has a small sum of
    both squares.

    Attributes
    ----------
    threshold : float
        The threshold in rows.
    """

    threshold: float = 0.0

    @cached_property
    def found(self) -> FoundCounts:
        """The noisy counts, and the sizes that they estimate."""
        return FoundCounts(self.N, NormalNoise(self.noise.count), self.threshold)

    @property
    def sizes(self) -> Floats:
        """The sizes of the groups for which the release has the median N."""
        return self.found.sizes

    @property
    def estimate(self) -> Floats:
        return np.asarray(np.clip(self.T / np.maximum(self.sizes, self.noise.count), -1.0, 1.0))

    def score(self, value: Any) -> Floats:
        m = np.asarray(value, dtype=np.float64)
        sizes, squares = self._nodes
        shape = (len(sizes), *[1] * max(m.ndim - self.N.ndim, 0), *self.N.shape)
        sizes, squares = sizes.reshape(shape), squares.reshape(shape)
        step = max(1, _AT_ONCE // max(m.size, self.T.size, 1))
        best = np.full(np.broadcast_shapes(m.shape, self.shape), np.inf)
        for start in range(0, len(sizes), step):
            some = slice(start, start + step)
            both = self._fix_sizes(sizes[some]).score(m) ** 2 + squares[some]
            best = np.minimum(best, both.min(axis=0))
        return np.asarray(np.where(m * self.sizes > self.T, -1.0, 1.0) * np.sqrt(best))

    def _fix_sizes(self, size: Floats) -> Ratio:
        """Return the ratios of groups with these sizes, as if they were declared."""
        noise = self.noise
        center = noise.square_spread / noise.count**2
        alone = np.sqrt(np.maximum(np.square(noise.square) - (center * noise.count) ** 2, 0.0))
        known = Noise(noise.total, 0.0, alone, noise.total, 0.0, 0.0)
        return Ratio(self.T, size, self.Q + center * (size - self.N), self.T, size, known)

    @cached_property
    def _nodes(self) -> tuple[Floats, Floats]:
        """Return sizes, and the squared scores of N: above the least, as some size is the right one."""
        sizes = np.maximum(self.found.find_sizes(np.linspace(FURTHEST, -FURTHEST, _NODES)), 1.0)
        squares = self.found.score_sizes(sizes) ** 2
        return sizes, squares - squares.min(axis=0)
