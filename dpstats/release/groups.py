"""Exact choice of one of very many candidates, which come in groups of equally good ones.

A weight is an integer number of candidates times an exponential. Weights are enclosed from both sides, and
uniform bits are drawn. If these do not determine the group, both are refined. Proof:
docs/proofs/quantiles.md, "The draw".
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dpstats.data.values import as_int64
from dpstats.errors import ScaleOutOfRange

Integers = NDArray[np.int64]

WORD = 64
"""Uniform bits that are drawn at a time."""
LARGEST_REACH = 1 << 14
"""Windows that are looked at on either side at first: its square is a matter of seconds."""
LARGEST_NESTED = 1 << 16
"""Largest number of nested windows for a first enclosure."""
_NEGLIGIBLE = 50.0  # e^-50 of the least weight is left out at first
_REST = 2.0**-44  # of the total, that may be left out at first
_TINY = 1e-290  # what products of numbers below 1 lose by underflow, each
_CHUNK = 1 << 20  # weights that are computed at a time
_SHELLS = 12
_DOUBLINGS = 7
_FACTORS = 8  # lengths below 2^63 that are multiplied before exponents are split off
_EXPANDED = 12  # numbers whose products of lengths, each below 1, are at least 2^-756


class Bounds(NamedTuple):
    """Cumulative weights from below and from above; the last are of the total.

    Floats, or Python integers: in either case each is exactly what it says, a bound.
    """

    low: Any
    high: Any


class Groups(Protocol):
    """Candidates of several whole numbers each, in groups by row and column."""

    @property
    def size(self) -> int:
        """Number of values of a candidate."""

    @property
    def unit(self) -> int:
        """Factor of the scale of the stage: weights fall by e in this many steps."""

    def rows(self, scale: float, level: int) -> Bounds:
        """Return bounds of the weights of rows; of a higher level, closer ones."""

    def columns(self, scale: float, level: int, row: int) -> Bounds:
        """Return the values for the groups of a row."""

    def box(self, row: int, column: int) -> tuple[Integers, Integers]:
        """Return the least and the largest numbers of a group's candidates, which are all between."""


@dataclass(frozen=True, eq=False)
class Windows:
    """Tuples between the limits of windows: weight e^(-(a + b)/scale) times the numbers of places in the windows.

    A tuple in all windows (a, b) with a >= L and b >= M has the total weight e^(-(L + M)/scale), up to a
    common factor.

    Attributes
    ----------
    ends : callable
        Maps integers a to the lower limits of the windows, and b to the upper limits: arrays of shape (size,
        len(a)) that decrease in a and increase in b.
    size : int
        Numbers of a tuple.
    candidates : int, optional
        How many places a number can have; None: no end.
    """

    ends: Callable[[Integers, Integers], tuple[Integers, Integers]]
    size: int
    candidates: int | None = None
    unit: int = 1

    def rows(self, scale: float, level: int) -> Bounds:
        reach, fall = self._extent(scale, level)
        lower, upper = self._within(reach)
        if level > 0:
            return _with_rest(self._row_sums(lower, upper, fall), self._rest(reach, fall, fall.bits))
        powers = fall.split(reach)
        if self._expands(reach):
            # Lengths over powers of 2 that none exceeds: every product is at most 1.
            widths = np.array([int(width).bit_length() for width in upper[:, -1] - lower[:, -1] + 1])
            falls = _times(powers.mantissas, powers.exponents)
            up, down = (np.ldexp(part.astype(np.float64), -widths[:, None]) for part in _split_lengths(lower, upper))
            sums = falls * _sum_products(falls, up, down)
            rest = self._rest_over(int(widths.sum()), reach, fall)
            return _widened(np.cumsum(sums), rest, 2 * reach, self.size)
        step = max(1, _CHUNK // (reach + 1))
        sums, tops = np.empty(reach + 1), np.empty(reach + 1, dtype=np.int64)
        for start in range(0, reach + 1, step):
            some = slice(start, start + step)
            weights, tops[some] = _weights(lower[:, some], upper, powers.at(some), powers)
            sums[some] = weights.sum(axis=1)
        top = int(tops.max())
        cumulative = np.cumsum(_times(sums, tops - top))
        return _widened(cumulative, self._rest_over(top, reach, fall), 2 * reach, self.size)

    def columns(self, scale: float, level: int, row: int) -> Bounds:
        reach, fall = self._extent(scale, level)
        reached = max(reach, row)
        lower, upper = self._within(reached)
        lower = lower[:, row : row + 1]
        if level == 0:
            powers = fall.split(reached)
            weights, (top,) = _weights(lower, upper, powers.at(slice(row, row + 1)), powers)
            rest = self._rest_over(int(top), reach, fall)
            return _widened(np.cumsum(weights[0]), rest, 2 * reached, self.size)
        counts = _counts(lower, upper)[0]
        sides = [
            [count * power * side[row] for count, power in zip(counts, side, strict=True)]
            for side in fall.integers(reached, fall.bits)
        ]
        return _with_rest((sides[0], sides[1]), self._rest(reach, fall, fall.bits))

    def box(self, row: int, column: int) -> tuple[Integers, Integers]:
        lower, upper = self.ends(np.array([row]), np.array([column]))
        return lower[:, 0], upper[:, 0]

    def _within(self, reach: int) -> tuple[Integers, Integers]:
        steps = np.arange(reach + 1)
        return self.ends(steps, steps)

    def _expands(self, reach: int) -> bool:
        """Say whether sums of products are found sooner by expanding the products."""
        return self.size <= _EXPANDED and 1 << self.size <= reach

    def _row_sums(self, lower: Integers, upper: Integers, fall: Exponentials) -> tuple[list[int], list[int]]:
        """Return whole numbers below and above the weights of rows."""
        sides = [np.array(side, dtype=object) for side in fall.integers(lower.shape[1] - 1, fall.bits)]
        if self._expands(lower.shape[1]):
            up, down = (part.astype(object) for part in _split_lengths(lower, upper))
            low, high = ((side * _sum_products(side, up, down)).tolist() for side in sides)
        else:
            counts = np.array(_counts(lower, upper), dtype=object)
            low, high = ((side * (counts @ side)).tolist() for side in sides)
        return low, high

    def _extent(self, scale: float, level: int) -> tuple[int, Exponentials]:
        """Return the number of windows searched on a side, and their exponentials."""
        fall = Exponentials(Fraction(1) / (Fraction(scale) * self.unit), _precision(level))
        reach = first_reach(float(scale) * self.unit, self.size) << level
        for _ in range(_DOUBLINGS if level == 0 else 0):
            if self._rest_log(reach, fall) <= math.log(_REST) + self._heaviest(reach, fall):
                break
            reach *= 2
        return reach, fall

    def _heaviest(self, reach: int, fall: Exponentials) -> float:
        """Return an estimate of the log-weight of the heaviest windows, to judge when the rest is small; no bound."""
        some = np.unique(as_int64(np.geomspace(1, reach + 1, 32))) - 1
        lower, upper = self.ends(some, some)
        lengths = (upper[:, None, :] - lower[:, :, None] + 1).astype(np.float64)
        fallen = float(fall.rate) * some
        return float((np.log(lengths).sum(axis=0) - fallen - fallen[:, None]).max())

    def _rest(self, reach: int, fall: Exponentials, bits: int) -> int:
        """Return a bound of the weight of all windows with a or b beyond the reach, in 2^(-2 bits), rounded up."""
        total = 0
        for weight, counts in self._shells(reach, fall):
            for count in counts:
                weight *= count
            total += -((-weight.numerator << 2 * bits) // weight.denominator)
        return total

    def _rest_log(self, reach: int, fall: Exponentials) -> float:
        """Return an upper bound on the same logarithm, which is a float for any weight."""
        logs = [
            math.log(weight.numerator) - math.log(weight.denominator) + sum(map(math.log, counts))
            for weight, counts in self._shells(reach, fall)
        ]
        top = max(logs)
        # Logarithms of a few thousand digits, each with an error of about 1e-12.
        return top + math.log(sum(math.exp(value - top) for value in logs)) + 1e-9 * (1 + abs(top))

    def _rest_over(self, top: int, reach: int, fall: Exponentials) -> float:
        """Return a bound on the same over 2^top, or infinity if that is not a float."""
        found = self._rest_log(reach, fall) - top * math.log(2)
        return math.exp(found) * (1 + 1e-9) + 1e-300 if found < 700 else math.inf

    def _shells(self, reach: int, fall: Exponentials) -> Iterator[tuple[Fraction, list[int]]]:
        """Yield exponentials and counts whose products add up to no less than all windows beyond the reach weigh.

        Windows grow with a and b. Windows up to 2^i times the reach hold at most as many tuples as the last
        one. The sum of their exponentials is below 2 e^(-reach 2^(i-1)/scale)/(1 - e^(-1/scale))^2.
        """
        one = fall.above(1)
        if one >= 1:
            raise ScaleOutOfRange("the scale of a selection must be small enough for exact weights")
        both = Fraction(2) / (1 - one) ** 2
        for shell in range(_SHELLS):
            outer = reach << (shell + 1)
            lower, upper = self.ends(np.array([outer]), np.array([outer]))
            counts, end = [int(k) for k in (upper - lower + 1)[:, 0]], 1
            if shell == _SHELLS - 1 and self.candidates is not None:
                counts = [self.candidates] * self.size
            elif shell == _SHELLS - 1:
                # Without a limit: each further window is longer by one on each side, and has at most half of
                # the weight.
                counts, end = [2 * count for count in counts], 2
            yield end * both * fall.above((reach << shell) + 1), counts


@dataclass(frozen=True, eq=False)
class Nested:
    """Tuples in windows that grow together: weight e^(-a/scale) for the first window a around a tuple.

    Attributes
    ----------
    ends : callable
        Maps whole numbers a to the least and the largest numbers in window a: arrays of shape (size, len(a)).
        Window 0 holds a tuple at least.
    size : int
        Numbers of a tuple.
    candidates : int
        Number of places that a number can have.
    """

    ends: Callable[[Integers], tuple[Integers, Integers]]
    size: int
    candidates: int
    unit: int = 1

    def rows(self, scale: float, level: int) -> Bounds:
        return Bounds([1], [1])

    def columns(self, scale: float, level: int, row: int) -> Bounds:
        fall = Exponentials(Fraction(1) / (Fraction(scale) * self.unit), _precision(level))
        reach = nested_reach(float(scale) * self.unit, self.size, self.candidates) << level
        lower, upper = self.ends(np.arange(reach + 1))
        counts = [1] * (reach + 1)
        for lengths in (upper - lower + 1).tolist():
            counts = [count * length for count, length in zip(counts, lengths, strict=True)]
        low, high = (
            [count * power for count, power in zip(counts, side, strict=True)]
            for side in fall.integers(reach, fall.bits)
        )
        # Windows beyond the reach hold all tuples at most.
        rest = fall.above(reach + 1) / (1 - fall.above(1)) * self.candidates**self.size
        return _with_rest((low, high), -((-rest.numerator << fall.bits) // rest.denominator))

    def box(self, row: int, column: int) -> tuple[Integers, Integers]:
        lower, upper = self.ends(np.array([column]))
        return lower[:, 0], upper[:, 0]


@dataclass(frozen=True, eq=False)
class Cells:
    """Single numbers in adjacent intervals, one of them best: weight e^(-distance/scale) times the length.

    Attributes
    ----------
    low, high : int64 arrays of shape (k,)
        The intervals' ends; an interval whose end is below its start is empty.
    best : int
        The place of the interval at distance 0.
    left, right, step : int
        Distances: to the left left, left + step, left + 2 step, ..., and to the right likewise.
    unit : int
    """

    low: Integers
    high: Integers
    best: int
    left: int
    right: int
    step: int
    unit: int = 1
    size: int = 1

    def rows(self, scale: float, level: int) -> Bounds:
        return Bounds([1], [1])

    def columns(self, scale: float, level: int, row: int) -> Bounds:
        lengths = np.maximum(self.high - self.low + 1, 0).tolist()
        bits, rate = _precision(level), Fraction(1) / (Fraction(scale) * self.unit)
        below, above = [0] * len(lengths), [0] * len(lengths)
        below[self.best] = above[self.best] = lengths[self.best] << bits
        fall = _exponential(rate * self.step, bits)
        for places, first in (
            (range(self.best - 1, -1, -1), self.left),
            (range(self.best + 1, len(lengths)), self.right),
        ):
            low, high = _exponential(rate * first, bits)
            for i in places:
                below[i], above[i] = lengths[i] * low, lengths[i] * high
                if low:
                    low, high = low * fall[0] >> bits, -((-high * fall[1]) >> bits)
        return Bounds(_running(below), _running(above))

    def box(self, row: int, column: int) -> tuple[Integers, Integers]:
        return self.low[column : column + 1], self.high[column : column + 1]


@dataclass(frozen=True, eq=False)
class Runs:
    """Places on several lines, in runs of equally good ones: each place has the weight times e^(utility/scale).

    Attributes
    ----------
    line, low, high : int64 arrays of shape (k,)
        The line of each run, its first and its last place. The runs of a line are in order and lie side by
        side.
    utility : int64 array of shape (k,)
        Of each place of a run, in steps.
    weight : int64 array of shape (k,)
        Of each place of a run, at least 1: public, a prior. All places together weigh less than 2^62.
    """

    line: Integers
    low: Integers
    high: Integers
    utility: Integers
    weight: Integers
    unit: int = 1
    size: int = 2

    @cached_property
    def _by_utility(self) -> tuple[Integers, Integers, Integers]:
        """Return the order of the runs by falling utility, where each utility starts, and the runs' weights."""
        order = np.argsort(-self.utility, kind="stable")
        starts = np.flatnonzero(np.diff(self.utility[order], prepend=self.utility.max() + 1))
        return order, starts, ((self.high - self.low + 1) * self.weight)[order]

    def rows(self, scale: float, level: int) -> Bounds:
        order, starts, weights = self._by_utility
        utilities = self.utility[order[starts]]
        falls = (utilities[0] - utilities).tolist()
        bits = _precision(level)
        sides = Exponentials(Fraction(1) / (Fraction(scale) * self.unit), bits).integers(falls[-1], bits)
        masses = np.add.reduceat(weights, starts).tolist()
        low, high = (_running([mass * side[fall] for mass, fall in zip(masses, falls, strict=True)]) for side in sides)
        return Bounds(low, high)

    def columns(self, scale: float, level: int, row: int) -> Bounds:
        exact = _running(self._of_row(row)[1].tolist())
        return Bounds(exact, exact)

    def box(self, row: int, column: int) -> tuple[Integers, Integers]:
        run = self._of_row(row)[0][column]
        return np.array([self.line[run], self.low[run]]), np.array([self.line[run], self.high[run]])

    def _of_row(self, row: int) -> tuple[Integers, Integers]:
        order, starts, weights = self._by_utility
        some = slice(starts[row], starts[row + 1] if row + 1 < starts.size else None)
        return order[some], weights[some]


@dataclass(frozen=True)
class Exponentials:
    """Enclosures of e^(-rate k) for k = 0, 1, ..."""

    rate: Fraction
    bits: int

    def integers(self, count: int, bits: int) -> tuple[list[int], list[int]]:
        """Return whole numbers below and above 2^bits e^(-rate k), k = 0, ..., count."""
        low, high = _exponential(self.rate, bits)
        below, above = [1 << bits], [1 << bits]
        for _ in range(count):
            below.append(below[-1] * low >> bits)
            above.append(-((-above[-1] * high) >> bits))
        return below, above

    def split(self, count: int) -> Powers:
        """Return the same as floats, each within four units in its last place, and exponents of 2."""
        return _split(self.rate, count)

    def above(self, k: int) -> Fraction:
        """Return a number above e^(-rate k)."""
        if self.rate * k > self.bits:
            # log2(e) is above 1.44.
            return Fraction(1, 1 << min(int(self.rate * k * 144 / 100), 1 << 14))
        return Fraction(_exponential(self.rate * k, self.bits)[1], 1 << self.bits)


class Powers(NamedTuple):
    """Numbers of any size, as floats in [1/2, 1) times powers of 2."""

    mantissas: NDArray[np.float64]
    exponents: Integers

    def at(self, some: slice) -> Powers:
        """Return some of them."""
        return Powers(self.mantissas[some], self.exponents[some])


@lru_cache(maxsize=64)
def _split(rate: Fraction, count: int) -> Powers:
    # The last is at least 2^-(1.45 rate count). It keeps more than a hundred bits, and loses fewer than
    # thirty.
    bits = 160 + int(rate * count * 145 / 100)
    pairs = zip(*Exponentials(rate, bits).integers(count, bits), strict=True)
    mantissas, exponents = zip(*(_mantissa(low + high, bits + 1) for low, high in pairs), strict=True)
    found = Powers(np.array(mantissas), np.array(exponents, dtype=np.int64))
    for part in found:
        part.setflags(write=False)
    return found


def _mantissa(value: int, bits: int) -> tuple[float, int]:
    """Return a float of [1/2, 1] and an exponent of 2 for value 2^-bits, rounded once."""
    length = value.bit_length()
    return value / (1 << length), length - bits


@lru_cache(maxsize=1 << 16)
def _exponential(rate: Fraction, bits: int) -> tuple[int, int]:
    """Return whole numbers below and above 2^bits e^(-rate), for a rate of at least 0."""
    if rate == 0:
        return 1 << bits, 1 << bits
    if rate > bits:  # e^-rate < 2^-bits
        return 0, 1
    with localcontext() as context:
        context.prec = bits * 3 // 10 + 40
        # Both operations are right to the last digit; an error of the quotient multiplies by at most e^(it).
        found = Fraction((Decimal(-rate.numerator) / Decimal(rate.denominator)).exp())
    slack = Fraction(int(rate) + 3, 10 ** (bits * 3 // 10 + 38))
    low, high = found * (1 - slack) * (1 << bits), found * (1 + slack) * (1 << bits)
    return low.numerator // low.denominator, -(-high.numerator // high.denominator)


def first_reach(scale: float, size: int) -> int:
    """Return the first number of windows searched on a side, or refuse a scale that makes them too many."""
    reach = scale * (size + 3 * size**0.5 + 40)
    if reach >= LARGEST_REACH - 1:  # before it becomes an integer, because it may be infinite
        raise ScaleOutOfRange(
            f"epsilon is too small for an exact selection of {size} points at once: give at least "
            f"{2 * (size + 3 * size**0.5 + 40) / LARGEST_REACH:.2g} to it"
        )
    return int(reach) + 2


def nested_reach(scale: float, size: int, candidates: int) -> int:
    """Return the number of nested windows for a first enclosure, or refuse a scale that needs too many."""
    each = size * math.log(candidates) + _NEGLIGIBLE
    reach = scale * each
    if reach >= LARGEST_NESTED - 1:
        raise ScaleOutOfRange(
            f"epsilon is too small for an exact selection of {size} points at once: give at least "
            f"{4 * each / LARGEST_NESTED:.2g} to it"
        )
    return int(reach) + 2


def _precision(level: int) -> int:
    return 256 << level


def _weights(lower: Integers, upper: Integers, rows: Powers, columns: Powers) -> tuple[NDArray[np.float64], Integers]:
    """Return the products of windows' lengths and powers, of shape (rows, columns), each row over a power of 2."""
    # Exponents of 2 are split off meanwhile, so that nothing overflows. Underflow is far below the largest
    # value of the row.
    found = rows.mantissas[:, None] * columns.mantissas[None, :]
    exponents = rows.exponents[:, None] + columns.exponents[None, :]
    for j, (low, high) in enumerate(zip(lower, upper, strict=True)):
        found *= high[None, :] - low[:, None] + 1
        if j % _FACTORS == _FACTORS - 1 or j == len(lower) - 1:
            found, more = np.frexp(found)
            exponents += more
    tops = exponents.max(axis=1)
    return _times(found, exponents - tops[:, None]), tops


def _split_lengths(lower: Integers, upper: Integers) -> tuple[Integers, Integers]:
    """Return parts of the lengths of windows, none negative: one for each upper limit, and one for each lower limit."""
    start = lower[:, :1]
    return upper - start, start - lower + 1


def _sum_products(weights: NDArray[Any], up: NDArray[Any], down: NDArray[Any]) -> Any:
    """Return the sums over b of weights_b prod_j (up_jb + down_ja), for each a."""
    # Products are expanded: for m factors this takes 2^m times the time of one sum, for all a together.
    if len(up) == 0:
        return weights.sum()
    return _sum_products(weights * up[0], up[1:], down[1:]) + down[0] * _sum_products(weights, up[1:], down[1:])


def _times(values: NDArray[np.float64], exponents: Integers) -> NDArray[np.float64]:
    """Return values times powers of 2 of at most 1."""
    return np.asarray(np.ldexp(values, np.maximum(exponents, -2000).astype(np.int32)))


def _counts(lower: Integers, upper: Integers) -> list[list[int]]:
    found = np.ones((lower.shape[1], upper.shape[1]), dtype=object)
    for low, high in zip(lower, upper, strict=True):
        found = found * (high[None, :] - low[:, None] + 1).astype(object)
    return [list(row) for row in found]


def _running(values: Sequence[int]) -> list[int]:
    total, found = 0, []
    for value in values:
        total += value
        found.append(total)
    return found


def _with_rest(weights: tuple[Sequence[int], Sequence[int]], rest: int) -> Bounds:
    """Return bounds of cumulative weights, from whole numbers below and above them, that leave out at most a rest."""
    return Bounds(_running(weights[0]), [value + rest for value in _running(weights[1])])


def _widened(cumulative: NDArray[np.float64], rest: float, terms: int, size: int) -> Bounds:
    """Return bounds of cumulative weights in floats that leave out no more than a rest."""
    # All terms are positive: of k products of s lengths and two powers, added up in any order, each within
    # (2 s + 12 + k) 2^-53 of itself.
    error = (2 * size + 16 + terms) * 2.0**-52
    lost = (terms + 2.0) ** 2 * size * _TINY
    return Bounds(np.maximum(cumulative * (1 - error) - lost, 0.0), cumulative * (1 + error) + lost + rest)


def choose(draw_bits: Callable[[int], int], bounds: Callable[[int], Bounds]) -> int:
    """Return i with probability exactly proportional to its weight, which has bounds of every precision."""
    level, count, drawn = 0, WORD, draw_bits(WORD)
    while True:
        place = located(bounds(level), drawn, count)
        if place is not None:
            return place
        level, count, drawn = level + 1, count + WORD, (drawn << WORD) | draw_bits(WORD)


def located(bounds: Bounds, drawn: int, count: int) -> int | None:
    """Return whose weight all numbers of [drawn, drawn + 1) 2^-count of the total are in, if bounds can tell."""
    low, high = bounds
    if high[-1] == math.inf:
        return None
    least, most = _exact(low[-1]), _exact(high[-1])
    if isinstance(low, list):
        guess = bisect_right(low, int(least * drawn / 2**count))
    else:
        guess = int(np.searchsorted(low, float(low[-1]) * (drawn / 2**count), side="right"))
    for i in range(max(0, guess - 1), min(len(low), guess + 2)):
        starts = i == 0 or _exact(high[i - 1]) * 2**count <= drawn * least
        if starts and (drawn + 1) * most <= _exact(low[i]) * 2**count:
            return i
    return None


def _exact(value: Any) -> Fraction:
    return Fraction(int(value)) if isinstance(value, int) else Fraction(float(value))
