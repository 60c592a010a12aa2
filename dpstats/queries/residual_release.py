"""Marginals from one release of the residuals of their tables: precisions, integers, noise, answers and errors.

Proof: docs/proofs/workload-answers.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data.rows import Counts as Histogram
from dpstats.data.rows import Rows
from dpstats.errors import refuse, show
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Block
from dpstats.queries.domain import (
    Counts,
    MarginalQueries,
    Table,
    added_up,
    cell_variance,
    closure,
    codes_of,
    counts_of,
    margins,
    residual,
    share,
    whole_factor,
    whole_residual,
)
from dpstats.queries.linear import Numbers
from dpstats.queries.workload import FULL_TABLE, Fit, fit, measured
from dpstats.release.additive import JointIntegers

# Optimal precisions and their privacy cost, from sizes only

# Residual A has noise of variance 1/w_A in every cell. Let two rows differ in exactly the attributes B. Replacing one
# by the other moves all residuals jointly by mu^2(B), in squared standard deviations of the noise:

# mu^2(B) = 2 sum_A w_A prod_A (1 - 1/n_i) (1 - (-1)^|A & B| prod_(A & B) 1/(n_i - 1)), over A with nonempty A & B.

Codes = NDArray[np.int64]
Places = NDArray[np.intp] | slice
MOST_ATTRIBUTES = 20
"""Largest number of attributes for the cost of every B. Above it, the worst pair of each residual is used."""
_GAP = 5e-4
_MOST_STEPS = 2000
_POWER = 32.0  # power of a step of the multipliers, halved if the step is too long
_SAFE = 1 + 1e-12  # more than the rounding of the sums below
_COLUMNS = 64  # of a block of sums: half a megabyte


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
        np.maximum(moved, 1e-300, out=moved)
        moved /= largest
        moved **= power
        multipliers *= moved
        multipliers /= multipliers.sum()
    return best


class _Step(NamedTuple):
    """One attribute in a sum over all parts: the sets of other attributes that parts have before or after it."""

    size: int  # number of these sets
    own: Places  # which of them parts have together with this attribute
    levels: int


def _steps(codes: Codes, levels: Sequence[int]) -> tuple[list[_Step], Places, int]:
    """Return a step for each bit of the sets, from the lowest, and the places of the sets among all that are needed."""
    whole = (1 << np.arange(len(levels) + 1)) - 1
    needed = np.unique(codes[:, None] & whole)
    steps, rest = [], needed[:1]
    for bit, count in enumerate(levels):
        ends = np.unique(needed & whole[bit + 1])  # sets without the bit come first
        steps.append(_Step(rest.size, _places(rest, ends[rest.size :] - (1 << bit)), count))
        rest = ends
    return steps, np.searchsorted(needed, codes), needed.size


class _Movements:
    """mu^2(B) of all sets B of attributes as a function of precisions, and its transpose.

    A set is a number with a bit for each attribute. Both sums run over one attribute after the other. A part has few
    attributes, so few numbers differ from 0 before the last attributes, and few are needed after the first. Sums of
    large arrays are in blocks of `_COLUMNS` sets of the other attributes, which stay in the cache of the processor.
    """

    def __init__(self, parts: Sequence[Table], used: Sequence[int], shape: Sequence[int]) -> None:
        self._factors = np.array([math.prod(1 - 1 / shape[j] for j in part) for part in parts])
        self._half = len(used) // 2
        levels, bits = [shape[j] for j in used], [1 << k for k in range(len(used))]
        # The first attribute has the highest bit in one sum, which begins with it, and the lowest bit in the other.
        first, last = (dict(zip(used, order, strict=True)) for order in (bits[::-1], bits))
        highest, lowest = (np.array([sum(of[j] for j in part) for part in parts], np.int64) for of in (first, last))
        steps, self._begins, self._size = _steps(highest, levels[::-1])
        self._falling = steps[::-1]
        self._rising, self._ends, _ = _steps(lowest, levels)
        self._moved = np.empty((1 << self._half, 1 << (len(used) - self._half)))
        self._room = [np.empty(0)] * 3  # the system takes back new arrays of this size, and clears them, at every step

    def uniform(self) -> Numbers:
        """Return equal multipliers that add up to 1."""
        return np.full(self._moved.size, 1.0 / self._moved.size)

    def of(self, weights: Numbers) -> Numbers:
        """Return mu^2(B) for every B. The next call fills the same array."""
        total = 2 * float(weights @ self._factors)
        sums = np.zeros((self._size, 1))
        sums[self._begins, 0] = weights
        for step in self._falling[: self._half]:
            sums = self._fall(sums, step)
        sums = sums[:, _reverse_bits(self._half)]
        order = _reverse_bits(len(self._falling) - self._half)
        for start in range(0, len(self._moved), _COLUMNS):
            some = sums[:, start : start + _COLUMNS]
            for step in self._falling[self._half :]:
                some = self._fall(some, step)
            some *= -2
            some += total
            self._moved[start : start + _COLUMNS] = some.reshape(order.size, -1)[order].T
        return self._moved.reshape(-1)

    def costs(self, multipliers: Numbers) -> Numbers:
        """Return the derivative of the weighted sum of mu^2(B) by each precision. The multipliers are the weights."""
        table, found = multipliers.reshape(self._moved.shape), []
        for start in range(0, table.shape[1], _COLUMNS):
            some = table[:, start : start + _COLUMNS].reshape(1, -1)
            for step in self._rising[: self._half]:
                some = self._rise(some, step)
            found.append(some.copy())
        sums = np.concatenate(found, axis=1)
        for step in self._rising[self._half :]:
            sums = self._rise(sums, step)
        return np.asarray(2 * float(multipliers.sum()) * self._factors - 2 * sums[self._ends, 0])

    def _fall(self, sums: Numbers, step: _Step) -> Numbers:
        """Return sums with one more attribute in B: a row for each set of attributes of A to come.

        The second half of the columns is for the sets B that contain the attribute.
        """
        own = sums[step.size :]
        product = self._array(own.shape)
        found = self._array((step.size, 2, sums.shape[1]))
        found[:] = sums[: step.size, None]
        # Where B contains the attribute, too: (1 - 1/n) (-1/(n - 1)) = -1/n.
        found[step.own, 0] += np.multiply(own, 1 - 1 / step.levels, out=product)
        found[step.own, 1] -= np.divide(own, step.levels, out=product)
        return found.reshape(step.size, -1)

    def _rise(self, sums: Numbers, step: _Step) -> Numbers:
        """Return sums over one more attribute of B, whose two halves of columns have it or not.

        There is a row for each set of attributes of A so far.
        """
        pairs = sums.reshape(step.size, 2, -1)
        own = pairs[step.own]
        product = self._array(own[:, 1].shape)
        found = self._array((step.size + len(own), pairs.shape[2]))
        np.add(pairs[:, 0], pairs[:, 1], out=found[: step.size])
        np.multiply(own[:, 0], 1 - 1 / step.levels, out=found[step.size :])
        found[step.size :] -= np.divide(own[:, 1], step.levels, out=product)
        return found

    def _array(self, shape: tuple[int, ...]) -> Numbers:
        """Return an array in the room of the last but two."""
        room, size = self._room.pop(0), math.prod(shape)
        self._room.append(room if room.size >= size else np.empty(size))
        return self._room[-1][:size].reshape(shape)


def _reverse_bits(bits: int) -> Codes:
    """Return all numbers below 2^bits in order, each with its bits in reverse."""
    found = np.zeros(1, dtype=np.int64)
    for _ in range(bits):
        found = np.concatenate([2 * found, 2 * found + 1])
    return found


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


# The release

RESIDUALS = "residuals of tables"
_LARGEST_MARGIN = 1 << 24
_UNIT = 2.0**20  # joint sensitivity of all residuals, in the units of the stage
_BITS = 30  # bits of the steps of a residual, if 64-bit integers allow them
_NOISE_LEAVES, _MUCH_NOISE = 0.8, 0.2
Noisy = Mapping[str, Numbers]


@dataclass(frozen=True, eq=False)
class ResidualRelease:
    """The joint release of several tables. It is determined by public sizes.

    Attributes
    ----------
    queries : MarginalQueries
        Cells of the tables.
    n_samples : int
        Public number of rows.
    weights : mapping of tables to float
        Relative precisions of the residuals: with noise variances 1/weights, the joint sensitivity is 1.
    """

    queries: MarginalQueries
    n_samples: int

    title = "tables by residuals of their parts"

    @cached_property
    def weights(self) -> dict[Table, float]:
        """Precisions of the residuals: their joint sensitivity is 1, in units of their noise."""
        for table, shape in zip(self.queries.tables, self.queries.shapes, strict=True):
            if math.prod(shape) > _LARGEST_MARGIN:
                raise refuse(
                    "workload",
                    got=f"{math.prod(shape):,} in {show(self.queries.domain.label(table))}",
                    allowed=f"have tables of at most {_LARGEST_MARGIN:,} cells",
                )
        return dict(allocate(self.queries.tables, self.shape))

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of levels of the attributes of the domain."""
        return self.queries.domain.shape

    @property
    def full(self) -> bool:
        """Whether the domain is small enough for distributions over it."""
        return self.queries.size <= FULL_TABLE

    def items(self) -> JointIntegers:
        """Return the integers of the stage: a block for each residual."""
        blocks = []
        for table, weight in self.weights.items():
            whole = whole_factor(table, self.shape) << self._bits(table)
            size = whole_factor(table, self.shape)
            blocks.append(Block(self._name(table), size, 1 / whole, whole / (math.sqrt(weight) * _UNIT)))
        moved = _UNIT * math.sqrt(movement(self.weights, self.shape)) * (1 + 1e-12)
        return JointIntegers(RESIDUALS, tuple(blocks), l1=math.inf, l2=moved)

    def integers(self, rows: Rows) -> dict[str, dict[str, Counts]]:
        """Return the exact residuals of private rows, or of their counts, in steps."""
        exact = dict(self._margins(rows))
        return {
            RESIDUALS: {
                self._name(part): (whole_residual(exact[part]) << self._bits(part)).ravel() for part in self.weights
            }
        }

    def linear(self, released: Mapping[str, Any]) -> Numbers:
        """Return the unbiased answers, as counts."""
        parts = self._residuals(released)
        tables = [added_up(parts, table, self.shape, self.n_samples) for table in self.queries.tables]
        return np.concatenate([table.ravel() for table in tables])

    def noise_std(self, plan: ReleasePlan) -> Numbers:
        """Return the standard deviation of the noise of each unbiased answer, as counts."""
        variances = self._variances(plan)
        weights = {part: 1 / variance for part, variance in variances.items()}
        stds = [math.sqrt(cell_variance(weights, table, self.shape)) for table in self.queries.tables]
        return np.repeat(stds, [math.prod(shape) for shape in self.queries.shapes])

    def fitted(self, released: Mapping[str, Any], plan: ReleasePlan, error: str) -> Fit | None:
        """Return the distribution that fits the release, or None if the domain is too large."""
        if not self.full:
            return None
        weights = {part: 1 / variance for part, variance in self._variances(plan).items()}
        known = measured(self._residuals(released), weights, self.shape, self.n_samples)
        freedom = known.degrees_of_freedom
        # Chi-square is twice the misfit. It compares with the release only, never with the rows.
        enough = self.noise_leaves(plan) * freedom / 2 if error == "mean" else 0.0
        return fit(known.evaluate(), self.queries.size, freedom, enough)

    def noise_leaves(self, plan: ReleasePlan) -> float:
        """Return the target chi-square of a fit with small mean error, per degree of freedom: at most 0.8.

        It depends on the expected l1 error of a table. The constants come from two public tables (docs/queries.md).
        """
        l1 = math.sqrt(2 / math.pi) * float(self.noise_std(plan).sum()) / self.n_samples
        return _NOISE_LEAVES * min(1.0, math.sqrt(l1 / len(self.queries.tables) / _MUCH_NOISE))

    def _residuals(self, released: Mapping[str, Any]) -> dict[Table, Numbers]:
        noisy: Noisy = released[RESIDUALS]
        return {part: residual(noisy[self._name(part)].reshape([self.shape[j] for j in part])) for part in self.weights}

    def _variances(self, plan: ReleasePlan) -> dict[Table, float]:
        return {part: float(np.asarray(plan.noise(self._name(part)).std)) ** 2 for part in self.weights}

    def _margins(self, rows: Rows) -> list[tuple[Table, Counts]]:
        """Return the tables of all parts, from the full table if there is one, otherwise from the rows."""
        parts = tuple(self.weights)
        if self.full or isinstance(rows, Histogram):  # given counts are the full table
            return list(margins(counts_of(rows, self.shape), parts))
        domain, codes = self.queries.domain, codes_of(rows)
        found: dict[Table, Counts] = {}
        for own in self.queries.tables:
            shape = [self.shape[j] for j in own]
            counts = np.bincount(domain.cells_of(codes, own), minlength=math.prod(shape)).reshape(shape)
            inside = [part for part in parts if part not in found and set(part) <= set(own)]
            places = {tuple(own.index(j) for j in part): part for part in inside}
            found |= {places[at]: part for at, part in margins(counts, tuple(places))}
        return list(found.items())

    def _name(self, table: Table) -> str:
        return self.queries.domain.label(table)

    def _bits(self, table: Table) -> int:
        """Return the number of bits by which the steps of a residual are finer than exactness requires."""
        factor = whole_factor(table, self.shape)
        return max(0, min(_BITS - factor.bit_length(), 61 - (factor * self.n_samples).bit_length()))
