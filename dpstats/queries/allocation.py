"""Optimal precisions of the residuals of tables, and their privacy cost, computed from sizes only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from dpstats.queries.linear import Numbers
from dpstats.queries.marginals import Table
from dpstats.queries.residuals import closure, share

# Residual A has noise of variance 1/w_A in every cell. Let two rows differ in exactly the attributes B. Replacing one
# by the other moves all residuals jointly by mu^2(B), in squared standard deviations of the noise:
#
# mu^2(B) = 2 sum_A w_A prod_A (1 - 1/n_i) (1 - (-1)^|A & B| prod_(A & B) 1/(n_i - 1)), over A with nonempty A & B.
#
# Proof: docs/proofs/workload-answers.md.

Codes = NDArray[np.int64]
Places = NDArray[np.intp] | slice

MOST_ATTRIBUTES = 20
"""Largest number of attributes for the cost of every B. Above it, the worst pair of each residual is used."""

_GAP = 5e-4
_MOST_STEPS = 2000
_POWER = 32.0  # power of a step of the multipliers, halved if the step is too long
_SAFE = 1 + 1e-12  # more than the rounding of the sums below


def allocate(tables: Sequence[Table], shape: Sequence[int]) -> Mapping[Table, float]:
    """Return the precisions of all residuals that minimize the total variance of all tables' cells, at mu = 1.

    The result is within 0.05% of the minimum, which duality certifies. With more than 20 attributes it minimizes the
    variance under the bound of `movement`.

    Parameters
    ----------
    tables : sequence of tables
        Tables to answer.
    shape : sequence of int
        Levels of every attribute.
    """
    return _allocated(tuple(tables), tuple(shape))


@lru_cache(maxsize=32)
def _allocated(tables: tuple[Table, ...], shape: tuple[int, ...]) -> Mapping[Table, float]:
    parts = closure(tables)
    used = sorted({j for part in parts for j in part})
    variances = np.zeros(len(parts))
    for table in tables:
        inside = set(table)
        for i, part in enumerate(parts):
            if inside.issuperset(part):
                variances[i] += share(part, table, shape)
    if len(used) > MOST_ATTRIBUTES:
        own = np.array([_own_movement(part, shape) for part in parts])
        weights = np.sqrt(variances / own) / np.sqrt(variances * own).sum()
    else:
        weights = _best(variances, _Movements(parts, used, shape))
    precise = {part: float(weight) for part, weight in zip(parts, weights, strict=True)}
    largest = movement(precise, shape)
    return MappingProxyType({part: weight / largest for part, weight in precise.items()})


def movement(weights: Mapping[Table, float], shape: Sequence[int]) -> float:
    """Return an upper bound on the squared sensitivity of all residuals, in noise units: the largest mu^2(B).

    With more than 20 attributes it is the sum of the largest changes of each residual.
    """
    parts = tuple(weights)
    used = sorted({j for part in parts for j in part})
    values = np.array([weights[part] for part in parts])
    if len(used) > MOST_ATTRIBUTES:
        return math.fsum(w * _own_movement(part, shape) for part, w in weights.items()) * _SAFE
    # The rounding error is proportional to the sum of all terms, which is at most the largest mu^2(B).
    return float(_Movements(parts, used, shape).of(values).max()) * _SAFE


def _best(variances: Numbers, movements: _Movements) -> Numbers:
    """Return the precisions with minimal total variance if the largest mu^2(B) is 1, by multipliers of all B."""
    multipliers, power = movements.uniform(), _POWER
    best, least = np.zeros(0), math.inf
    for _ in range(_MOST_STEPS):
        costs = movements.costs(multipliers)
        weights = np.sqrt(variances / costs)
        moved = movements.of(weights)
        largest = float(moved.max())
        total = float((variances / weights).sum()) * largest
        if total < least:
            best, least = weights / largest, total
        else:
            power = max(power / 2, 0.5)
        if least <= float(np.sqrt(variances * costs).sum()) ** 2 * (1 + _GAP):
            break
        multipliers = multipliers * (np.maximum(moved, 1e-300) / largest) ** power
        multipliers /= multipliers.sum()
    return best


class _Movements:
    """mu^2(B) of all sets B of attributes as a function of precisions, and its transpose.

    A set is a number with a bit for each attribute. Both sums run over one attribute after the other. A part has few
    attributes, so few numbers differ from 0 before the last attributes, and few are needed after the first.
    """

    def __init__(self, parts: Sequence[Table], used: Sequence[int], shape: Sequence[int]) -> None:
        self._levels = [shape[j] for j in used]
        d = len(used)
        place = {j: d - 1 - axis for axis, j in enumerate(used)}
        self._at = np.array([sum(1 << place[j] for j in part) for part in parts], dtype=np.int64)
        self._factors = np.array([math.prod(1 - 1 / shape[j] for j in part) for part in parts])
        self._order = np.searchsorted(np.unique(self._at), self._at)
        # For each attribute: the numbers of sums afterwards, and where those before it go.
        self._falling: list[tuple[int, int, Places, Places]] = []
        self._rising: list[tuple[int, Places, Places, Places, Places]] = []
        for axis in range(d):
            # The last attributes of all parts, from this one on: parts without it come first.
            first = 1 << (d - 1 - axis)
            ends = np.unique(self._at & (2 * first - 1))
            rest, split = np.unique(ends & (first - 1)), int(np.searchsorted(ends, first))
            without, own = _places(rest, ends[:split]), _places(rest, ends[split:] - first)
            self._falling.append((rest.size, split, without, own))
            # The beginnings of all parts, up to this attribute.
            before, up_to = np.unique(self._at >> (d - axis)), np.unique(self._at >> (d - axis - 1))
            even, odd = (up_to[up_to % 2 == bit] for bit in (0, 1))
            sources = _places(before, even >> 1), _places(before, odd >> 1)
            self._rising.append((up_to.size, _places(up_to, even), _places(up_to, odd), *sources))

    def uniform(self) -> Numbers:
        """Return equal multipliers that add up to 1."""
        return np.full(1 << len(self._levels), 2.0 ** -len(self._levels))

    def of(self, weights: Numbers) -> Numbers:
        """Return mu^2(B) for every B."""
        sums = np.zeros((self._order.max() + 1, 1))
        sums[self._order, 0] = weights
        for (size, split, without, own), levels in zip(self._falling, self._levels, strict=True):
            found = np.zeros((size, sums.shape[1], 2))
            found[without] = sums[:split, :, None]
            # At odd places B contains the attribute, too: (1 - 1/n) (-1/(n - 1)) = -1/n.
            found[own, :, 0] += (1 - 1 / levels) * sums[split:]
            found[own, :, 1] -= sums[split:] / levels
            sums = found.reshape(size, -1)
        return np.asarray(2 * float(weights @ self._factors) - 2 * sums[0])

    def costs(self, multipliers: Numbers) -> Numbers:
        """Return the derivative of the weighted sum of mu^2(B) by each precision. The multipliers are the weights."""
        sums = multipliers[None]
        for (size, even, odd, some, others), levels in zip(self._rising, self._levels, strict=True):
            pairs = sums.reshape(len(sums), 2, -1)
            found = np.empty((size, pairs.shape[2]))
            found[even] = pairs[some, 0] + pairs[some, 1]
            found[odd] = (1 - 1 / levels) * pairs[others, 0] - pairs[others, 1] / levels
            sums = found
        return np.asarray(2 * float(multipliers.sum()) * self._factors - 2 * sums[self._order, 0])


def _places(among: Codes, codes: Codes) -> Places:
    """Return the places of codes among sorted ones: as a slice if they are evenly spaced, which copies nothing."""
    places = np.searchsorted(among, codes)
    steps = np.diff(places)
    if places.size and (steps == steps[:1]).all():
        return slice(int(places[0]), int(places[-1]) + 1, int(steps[0]) if steps.size else 1)
    return places


def _own_movement(part: Table, shape: Sequence[int]) -> float:
    """Return the squared sensitivity of a residual: two rows that differ only in the attribute with fewest levels."""
    fewest = min(shape[j] for j in part)
    return 2 * math.prod(1 - 1 / shape[j] for j in part) * fewest / (fewest - 1)
