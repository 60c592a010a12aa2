"""Sums of cells at up to three levels of time, which one vector releases, and their least squares.

Proof: docs/proofs/survival.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from dpstats.data.arithmetic import as_int64
from dpstats.release.additive import Integers
from dpstats.survival.cells import CELLS, POSITIONS, Cells, Floats, Steps

TABLE = "survival table"
_MOST_FLAT_BINS = 32
_FEW_EVENTS, _FEW_LEAVERS = (1.0, 0.0, 0.0), (0.66, 0.0, 0.34)
_MANY_EVENTS, _MANY_LEAVERS = (0.55, 0.45, 0.0), (0.24, 0.48, 0.28)
_GAUSSIAN_EVENTS = (0.5, 0.4, 0.1)
_PURE_UNIT, _GAUSSIAN_UNIT = 100, 1024
_FINER_UNIT = 1000  # of Laplace noise with positions, whose share is a few percent


# The levels are single bins, blocks of about sqrt(m) bins, and the whole. A row moves each level of one tree by at
# most its weight, so that integer weights of the levels divide the privacy. Sums of positions inside the bins are
# in the same vector: a row moves one of them, by at most its weight.
@dataclass(frozen=True)
class Levels:
    """The released sums of a group's cells, and the integer weight of each.

    Attributes
    ----------
    n_bins, n_causes : int
    pure : bool
        Whether shares are of epsilon (Laplace noise) or of the squared mean shift mu^2 (Gaussian noise).
    position_share : float
        Share of the positions inside the bins; 0 releases none.
    pooled : bool
        Whether the positions of all groups are in the same sums.
    """

    n_bins: int
    n_causes: int
    pure: bool
    position_share: float = 0.0
    pooled: bool = False

    @cached_property
    def _made(self) -> tuple[Steps, Steps]:
        m, causes = self.n_bins, self.n_causes
        flat = self.pure and m <= _MOST_FLAT_BINS
        width = 1 if flat else max(1, round(math.sqrt(m)))
        if flat:
            events, leavers = _FEW_EVENTS, _FEW_LEAVERS
        elif self.pure:
            events, leavers = _MANY_EVENTS, _MANY_LEAVERS
        else:
            events, leavers = _GAUSSIAN_EVENTS, _MANY_LEAVERS
        if width == 1:  # a block is a bin
            events = (events[0] + events[1], 0.0, events[2])
            leavers = (leavers[0] + leavers[1], 0.0, leavers[2])
        bins, block = np.eye(m, dtype=np.int64), np.arange(m) // width
        blocks = as_int64(block[None, :] == np.arange(block[-1] + 1)[:, None])
        last = as_int64(np.arange(m + 1)[None, :] == m)
        edges = np.eye(m + 1, dtype=np.int64)
        edge_blocks = np.vstack([np.hstack([blocks, np.zeros((len(blocks), 1), dtype=np.int64)]), last])
        rows: list[Steps] = []
        weights: list[int] = []

        def add(sums: Steps, first: int, share: float) -> None:
            if share:
                placed = np.zeros((len(sums), causes * m + m + 1), dtype=np.int64)
                placed[:, first : first + sums.shape[1]] = sums
                rows.append(placed)
                weights.extend([self.weight(share * (1 - self.position_share))] * len(sums))

        for cause in range(causes):
            for sums, share in zip((bins, blocks, as_int64(np.ones((1, m)))), events, strict=True):
                add(sums, cause * m, share)
        for sums, share in zip((edges, edge_blocks, as_int64(np.ones((1, m + 1)))), leavers, strict=True):
            add(sums, causes * m, share)
        return np.vstack(rows), np.array(weights, dtype=np.int64)

    def weight(self, share: float) -> int:
        """Return the integer weight of a level that gets this part of the privacy."""
        if self.pure:
            return round((_FINER_UNIT if self.position_share else _PURE_UNIT) * share)
        return round(_GAUSSIAN_UNIT * math.sqrt(share))

    @property
    def _position_distance(self) -> int:
        """Return the squared distance of two rows in the sums of positions, if they are in different trees."""
        # Two events may add 1 and -1 to a sum that causes or groups share.
        return 4 if self.pooled or self.n_causes > 1 else 2

    @property
    def position_weight(self) -> int:
        """The weight of a sum of positions; 0 without."""
        part = 1.0 if self.pure else 2 / self._position_distance
        return self.weight(self.position_share * part)

    @property
    def sums(self) -> Steps:
        """Which cells each released sum is of: zeros and ones of shape (sums, cells)."""
        return self._made[0]

    @property
    def weights(self) -> Steps:
        """The weight of each released sum."""
        return self._made[1]

    def steps(self, totals: Mapping[str, Steps]) -> Steps:
        """Return the integers that are released of the sums of `Cells`: the cells of all groups, then positions."""
        cells = np.asarray(totals[CELLS] @ self.sums.T * self.weights).ravel()
        if not self.position_share:
            return cells
        positions = totals[POSITIONS].sum(axis=0) if self.pooled else totals[POSITIONS]
        return np.concatenate([cells, (positions * self.position_weight).ravel()])

    def split_release(self, released: Floats, n_groups: int) -> tuple[Floats, Floats | None]:
        """Return the released sums of cells, and the positions (..., groups, 2, bins) in rows, one group if pooled."""
        released = np.asarray(released)
        size = n_groups * len(self.weights)
        if not self.position_share:
            return released, None
        return released[..., :size], released[..., size:].reshape(*released.shape[:-1], -1, 2, self.n_bins)

    def integers(self, cells: Cells) -> Integers:
        """Return the size, spacing and sensitivity of the integers of all groups.

        At every level of its tree a row has entries that are not negative and add up to 2^bits, and at most 2^bits in
        one sum of positions. In l1 two rows are at most 2^bits (w + w') apart, w and w' being the sums of the weights
        on their paths.

        In l2 they are at most the root of 4^bits (v + v' + c x^2) apart. Here v and v' are the sums of the squared
        weights of their trees, and x is the weight of positions. If trees share positions c is 4, otherwise 2.
        """
        path = [self.sums[:, cell].nonzero()[0] for cell in (0, self.n_causes * self.n_bins)]
        sums = [int(self.weights[nodes].sum()) for nodes in path]
        squares = [int((self.weights[nodes] ** 2).sum()) for nodes in path]
        one, place = 1 << cells.bits, self.position_weight
        spacing = np.tile(1.0 / (self.weights * float(one)), cells.n_groups)
        if place:
            # Counted are 2u - 1 and 4v (1 - v). The release is of sums of u - 1/2 and of v (1 - v).
            each = np.repeat([0.5, 0.25], self.n_bins) / (place * float(one))
            spacing = np.concatenate([spacing, np.tile(each, 1 if self.pooled else cells.n_groups)])
        squared = 2 * max(squares) + self._position_distance * place**2
        l2 = math.isqrt(squared * one**2 - 1) + 1
        return Integers(TABLE, len(spacing), tuple(spacing.tolist()), 2 * (max(sums) + place) * one, l2)


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """Cells from noisy sums: generalized least squares of each group, and then of the public number of rows.

    Attributes
    ----------
    solution : array of shape (cells, sums)
        Takes the sums of a group to its cells.
    own : array of shape (cells, cells)
        Covariance of the noise of a group's cells, the total of all groups being n.
    shared : array of shape (cells,)
        The covariance between two groups is ``-outer(shared, shared)``.
    to_total : array of shape (cells,)
        How the excess over n is taken off the cells of each group.
    """

    solution: Floats
    own: Floats
    shared: Floats
    to_total: Floats
    n_groups: int

    @classmethod
    def build(cls, levels: Levels, noise_std: Floats, n_groups: int) -> LeastSquares:
        """Return the least squares for sums with noise of these standard deviations, the same in each group."""
        sums = levels.sums.astype(np.float64)
        precision = 1 / np.asarray(noise_std, dtype=np.float64) ** 2
        scale = precision.max()
        alone = np.linalg.inv((sums.T * (precision / scale)) @ sums) / scale
        solution = alone @ (sums.T * precision)
        moved = alone.sum(axis=1)
        total = float(moved.sum()) * n_groups
        shared = moved / math.sqrt(total)
        return cls(solution, alone - np.outer(shared, shared), shared, moved / total, n_groups)

    def cells(self, released: Floats, n_samples: float) -> Floats:
        """Return the cells (..., groups, cells) of released sums (..., groups * sums)."""
        sums = released.reshape(*released.shape[:-1], self.n_groups, -1)
        found = sums @ self.solution.T
        excess = found.sum(axis=(-1, -2)) - n_samples
        return np.asarray(found - excess[..., None, None] * self.to_total)

    def draw(self, noise: str, scale: Floats, size: int, seed: int = 0) -> Floats:
        """Return simulated noise (size, cells) of one group's cells, by its distribution, which is public."""
        rng = np.random.default_rng(seed)
        excess = np.zeros(size)
        for group in range(self.n_groups):
            shape = (size, scale.size)
            drawn = scale * (rng.laplace(size=shape) if noise == "laplace" else rng.normal(size=shape))
            if not group:
                found = drawn @ self.solution.T
            excess += drawn @ self.solution.sum(axis=0)
        return np.asarray(found - excess[:, None] * self.to_total)


@lru_cache(maxsize=64)
def levels_for(
    n_bins: int, n_causes: int, pure: bool, position_share: float = 0.0, pooled: bool = False
) -> Levels:
    """Return the levels of a table, which are made once."""
    return Levels(n_bins, n_causes, pure, position_share, pooled)


def default_bins(n_samples: int, epsilon: float, n_groups: int) -> int:
    """Return the default number of bins: between 8 and 50, more where noise is small."""
    per_group = n_samples * (epsilon if epsilon > 1 else epsilon**2) / (100 * n_groups)
    return int(min(max(round(min(per_group, 50.0)), 8), 50))
