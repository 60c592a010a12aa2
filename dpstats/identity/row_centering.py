"""The row-centered kernel of two-valued columns: clipped inner products minus the average product of each row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64

#     G(x, y) = K(x, y) - g(x) - g(y) + c,  K = clip(<x, y>, -rho, rho),  g(x) = E K(x, y) over y of the null,  c = E g,
#
# all integers. If columns are skewed, g is not constant. The part of K that is a sum over single rows then hides the
# effect that the test detects, and toward the middle counteracts it.
#
# g must be a function of the row only, **bit for bit**. Otherwise one row would change the products of others. A
# matrix product with a vectorized exponential differed for 39 of 20,000 rows by their position in a block. So g is a
# table of all rows, or consists of additions and multiplications of single numbers in a fixed order. Proof:
# docs/proofs/row-distance.md.

_TABLED_COLUMNS = 12
"""Largest number of columns for which g is a table of all 2^d rows."""

# For more columns, g is an integral over the characteristic function of <x, y>. These are its limit, over sqrt(d), and
# the number of its nodes.
_REACH, _NODES = 20.0, 64
_REACH_OF_MEAN, _NODES_OF_MEAN = 400.0, 8192

_ROWS_AT_ONCE = 1024
_PAIRED_ROWS = 512
"""Number of rows whose pairs estimate the range of G: all rows, or rows drawn from the null with a public seed."""

_CUT_OFF = 0.1

_TABLES_KEPT = 8


@dataclass(frozen=True)
class Window:
    """Public integers low <= 0 <= high to which G is clipped, and the null mean square of the clipped G."""

    low: int
    high: int
    square: float


class RowCentering:
    """Public g, c and range of G, for columns that are ``high`` with probability ``up`` and otherwise ``low``.

    Parameters
    ----------
    high, low : int64 array of shape (d,)
        Both values of every column on the grid, low < 0 < high.
    up : array of shape (d,)
    clip : int
        rho, in steps squared.

    Attributes
    ----------
    mean : int
        c.
    """

    def __init__(
        self, high: NDArray[np.int64], low: NDArray[np.int64], up: NDArray[np.float64], clip: int
    ) -> None:
        self._high, self._low, self._up, self._clip = high, low, up, clip
        self._table: NDArray[np.int64] | None = None
        if high.size <= _TABLED_COLUMNS:
            rows, chances = _all_rows(high, low, up)
            exact = _means_of_products(rows, rows, chances, clip)
            self._table = as_int64(np.rint(exact))
            self.mean = round(float(chances @ exact))
        else:
            self._group = 8 if high.size <= 256 else 4
            self._nodes = _Nodes.build(clip, _scale(high, low, up), _REACH, _NODES)
            self._real, self._imaginary = _factor_tables(high, low, up, self._nodes.places, self._group)
            # E G = E K - 2 E g + c. This subtracts the average error of E K due to the small number of nodes.
            fine = _Nodes.build(clip, _scale(high, low, up), _REACH_OF_MEAN, _NODES_OF_MEAN)
            self.mean = round(2 * self._nodes.expected(high, low, up) - fine.expected(high, low, up))
        self._values, self._weights = self._pairs()

    def terms(self, steps: NDArray[np.float64] | NDArray[np.float32]) -> NDArray[np.int64]:
        """Return g of every row. It depends on the signs of this row only, not on other rows or positions."""
        positive: NDArray[np.bool_] = np.greater(steps, 0)
        if self._table is not None:
            place = 2 ** np.arange(positive.shape[1], dtype=np.int64)
            table: NDArray[np.int64] = self._table[positive @ place]
            return table
        result = np.empty(len(positive), dtype=np.int64)
        for start in range(0, len(positive), _ROWS_AT_ONCE):
            piece = slice(start, start + _ROWS_AT_ONCE)
            result[piece] = self._integrals(positive[piece])
        return result

    def _integrals(self, positive: NDArray[np.bool_]) -> NDArray[np.int64]:
        n, d = positive.shape
        groups = len(self._real)
        padded = np.zeros((n, groups * self._group), dtype=np.bool_)
        padded[:, :d] = positive
        codes = padded.reshape(n, groups, self._group) @ 2 ** np.arange(self._group, dtype=np.int64)
        real, imaginary = self._real[0][codes[:, 0]], self._imaginary[0][codes[:, 0]]
        for group in range(1, groups):
            a, b = self._real[group][codes[:, group]], self._imaginary[group][codes[:, group]]
            # Products and sums of two numbers have IEEE rounding on every machine and at every position.
            real, imaginary = real * a - imaginary * b, real * b + imaginary * a
        terms = imaginary * self._nodes.weights
        while terms.shape[1] > 1:
            half = terms.shape[1] // 2
            terms = terms[:, :half] + terms[:, half:]
        # An integral of the clip exceeds it only by rounding errors. Clip it, because the proof requires this range.
        return np.asarray(as_int64(np.clip(np.rint(terms[:, 0]), -self._clip, self._clip)))

    def window(self, n: int) -> Window:
        """Return the narrowest window that leaves the null statistic of n rows approximately unchanged.

        The part beyond either limit has a mean of at most a tenth of the standard deviation of G over n. For the sum of
        the n^2 products, this is a fourteenth of its standard deviation.
        """
        values, weights = self._values, self._weights
        allowed = _CUT_OFF * math.sqrt(float(weights @ values**2)) / n
        high = math.ceil(_end(values, weights, allowed))
        low = -math.ceil(_end(-values[::-1], weights[::-1], allowed))
        return Window(low, high, float(weights @ np.clip(values, low, high) ** 2))

    def _pairs(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return values of G before its clip under the null, ascending, with their weights."""
        d = self._high.size
        if 2**d <= _PAIRED_ROWS:
            rows, chances = _all_rows(self._high, self._low, self._up)
            weights = np.outer(chances, chances)
        else:
            # Use a separate seed: constants from the draws of a calibration would change its level.
            signs = np.random.default_rng(0).random((_PAIRED_ROWS, d)) < self._up
            rows = np.where(signs, self._high, self._low).astype(np.float64)
            weights = 1.0 - np.eye(_PAIRED_ROWS)
        g = self.terms(rows)
        G = np.clip(rows @ rows.T, -self._clip, self._clip) - g[:, None] - g + self.mean
        order = np.argsort(G, axis=None, kind="stable")
        return G.ravel()[order], weights.ravel()[order] / weights.sum()


def row_centering(
    high: NDArray[np.int64], low: NDArray[np.int64], up: NDArray[np.float64], clip: int
) -> RowCentering:
    """Return the `RowCentering` of a null. It is cached, because its tables take up to a second."""
    return _row_centering(high.tobytes(), low.tobytes(), up.tobytes(), clip)


@lru_cache(maxsize=_TABLES_KEPT)
def _row_centering(high: bytes, low: bytes, up: bytes, clip: int) -> RowCentering:
    return RowCentering(
        np.frombuffer(high, np.int64), np.frombuffer(low, np.int64), np.frombuffer(up, np.float64), clip
    )


def _end(values: NDArray[np.float64], weights: NDArray[np.float64], allowed: float) -> float:
    """Return the smallest value v >= 0 with E (V - v)_+ at most ``allowed``."""
    # From the largest down: E (V - v_i)_+ = sum over j > i of P(V >= v_j) (v_j - v_{j-1}).
    tail = np.cumsum(weights[::-1])[::-1]
    excess = np.concatenate([np.cumsum((tail[1:] * np.diff(values))[::-1])[::-1], [0.0]])
    return max(0.0, float(values[np.argmax(excess <= allowed)]))


def _all_rows(
    high: NDArray[np.int64], low: NDArray[np.int64], up: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return all rows and their probabilities. In row k, column j is high if bit j of k is set."""
    bits = (np.arange(2**high.size)[:, None] >> np.arange(high.size)) & 1 == 1
    return np.where(bits, high, low).astype(np.float64), np.prod(np.where(bits, up, 1 - up), axis=1)


def _means_of_products(
    rows: NDArray[np.float64], others: NDArray[np.float64], chances: NDArray[np.float64], clip: int
) -> NDArray[np.float64]:
    result = np.empty(len(rows))
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        piece = slice(start, start + _ROWS_AT_ONCE)
        result[piece] = np.clip(rows[piece] @ others.T, -clip, clip) @ chances
    return result


def _scale(high: NDArray[np.int64], low: NDArray[np.int64], up: NDArray[np.float64]) -> float:
    """Return the approximate standard deviation of <x, y>. It ignores that the grid makes means nonzero."""
    return math.sqrt(float(np.sum((up * high**2 + (1 - up) * low**2) ** 2)))


@dataclass(frozen=True)
class _Nodes:
    """The midpoint rule for E clip(U, -rho, rho) = (2/pi) int_0^inf sin(rho t)/t^2 Im E exp(itU) dt."""

    places: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def build(cls, clip: int, scale: float, reach: float, count: int) -> _Nodes:
        step = reach / (scale * count)
        places = np.asarray(step * (np.arange(count) + 0.5), dtype=np.float64)
        weights: NDArray[np.float64] = 2 / math.pi * step * np.sin(clip * places) / places**2
        return cls(places, weights)

    def expected(self, high: NDArray[np.int64], low: NDArray[np.int64], up: NDArray[np.float64]) -> float:
        """Return the mean of clip(<x, y>) over both rows."""
        transform = np.ones(self.places.size, dtype=np.complex128)
        for h, lo, p in zip(high.tolist(), low.tolist(), up.tolist(), strict=True):
            products, chances = (h * h, h * lo, lo * lo), (p * p, 2 * p * (1 - p), (1 - p) ** 2)
            transform *= sum(
                chance * np.exp(1j * self.places * product)
                for chance, product in zip(chances, products, strict=True)
            )
        return float(transform.imag @ self.weights)


def _factor_tables(
    high: NDArray[np.int64],
    low: NDArray[np.int64],
    up: NDArray[np.float64],
    places: NDArray[np.float64],
    group: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return real and imaginary parts of E exp(it<x, y>) over a group of columns, for each of its 2^group rows.

    Shape (groups, 2^group, nodes). The numbers are public. Their rounding does not matter if they stay constant.
    """
    d = high.size
    groups = -(-d // group)
    tables = np.ones((groups, 2**group, places.size), dtype=np.complex128)
    codes = np.arange(2**group)
    for j in range(d):
        h, lo, p = int(high[j]), int(low[j]), float(up[j])
        pair = np.stack(
            [p * np.exp(1j * places * x * h) + (1 - p) * np.exp(1j * places * x * lo) for x in (lo, h)]
        )
        tables[j // group] *= pair[(codes >> (j % group)) & 1]
    return np.ascontiguousarray(tables.real), np.ascontiguousarray(tables.imag)
