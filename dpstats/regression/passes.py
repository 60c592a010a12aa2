"""Passes over the rows of a block, by numpy or by loops that numba compiles, and public bin edges.

Both do the same arithmetic in exact integers below 2^53, so they have the same results, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.values import as_int64
from dpstats.lattice.rounding import FEWEST, compile_loops, read_ahead, squared_norms

# Bin edges for numbers that are not negative

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Bins:
    """Public bin edges for numbers that are not negative.

    If ends at least double, the exponent of a number leaves one end to compare with: a third of the time of a search.
    """

    ends: Floats

    @cached_property
    def tables(self) -> tuple[float, int, NDArray[np.int64], Floats] | None:
        """A unit, the first exponent of the ends in it, and for each exponent the ends below and the next one.

        None if two ends share an exponent.
        """
        unit = 1.5 / float(self.ends[0])
        exponents = np.frexp(self.ends * unit)[1]
        if not (np.diff(exponents) > 0).all():
            return None
        every = np.arange(exponents[0], exponents[-1] + 1)
        below = np.searchsorted(exponents, every)
        return unit, int(every[0]), below, np.where(exponents[below] == every, self.ends[below], np.inf)

    @property
    def size(self) -> int:
        """Number of bins."""
        return int(self.ends.size) + 1

    def find(self, values: Floats) -> NDArray[np.int64]:
        """Return ``np.searchsorted(self.ends, values)``."""
        if self.tables is None:
            return np.asarray(np.searchsorted(self.ends, values))
        unit, first, below, pivots = self.tables
        # Of infinity, `numpy.frexp` has the exponent 0.
        at = np.frexp(np.minimum(values, 2 * self.ends[-1]) * unit)[1]
        at -= first
        np.minimum(np.maximum(at, 0, out=at), below.size - 1, out=at)
        return np.asarray(below.take(at) + (values > pivots.take(at)))


# Passes

# Both kinds do the same arithmetic, entry by entry, and add up integers below 2^53 as floats, which is exact in any
# order. A loop reads an entry once where numpy needs several operations on all rows.

Integers = NDArray[np.int64]
Narrow = NDArray[np.float32]
_TOGETHER = 256  # values that a loop evaluates together
_RUN = 1 << 10  # entries that one operation of numpy handles with a vector repeated for several rows
_EXPONENT = 1022
"""The exponent of a float is the number in its bits minus this, as `numpy.frexp` has it."""


class Passes:
    """The passes over rows, by numpy. Points have a last column of ones, and are exact as float32.

    Loops have points in panels (`dpstats.lattice.products.make_panels`), and numpy has rows of too many columns.
    """

    compiled = False

    def convert(self, X: Floats, center: Floats, scale: Floats, near: float, points: Narrow) -> bool:
        """Write the integers (X - center) * scale to ``points``, and return whether all are at most ``near`` in size.

        An entry that is not finite is not near. The integers of a row are undefined if an entry is not near.
        """
        steps = apply_columns(np.subtract, X, center)
        steps = apply_columns(np.multiply, steps, scale, steps)
        # Before rounding, as the block decides for each row whether it is far. Comparisons with NaN are false.
        all_near = bool(steps.max(initial=0.0) <= near and steps.min(initial=0.0) >= -near)
        points[:, :-1], points[:, -1] = np.rint(steps, out=steps), 1.0
        return all_near

    def clip_and_sum(self, points: Narrow, most: float) -> Floats:
        """Return the sums of points that are clipped to ``most``."""
        return np.asarray(np.ones(len(points)) @ np.clip(points, -most, most).astype(np.float64))

    def combine(self, points: Narrow, factors: Floats, n: int) -> Floats:
        """Return the products of n points with a vector, which are exact."""
        return np.asarray(points.astype(np.float64) @ factors)

    def subtract(self, points: Narrow, shift: Floats) -> Floats:
        """Return points minus a shift, without the last column."""
        rows = points[:, :-1].astype(np.float64)
        return apply_columns(np.subtract, rows, shift, rows)

    def square(self, points: Narrow, shift: Floats, n: int) -> Floats:
        """Return the squared norms of n points minus a shift, without the last column."""
        return squared_norms(self.subtract(points, shift))

    def residuals(self, y: Floats, fitted: Floats, width: float) -> Floats:
        """Return (y - fitted) / width, clipped to [-1, 1]."""
        return np.asarray(np.clip((y - fitted) / width, -1.0, 1.0))

    def excess(self, y: Floats, fitted: Floats, width: float, most: float) -> Floats:
        """Return the part of y - fitted beyond ``width``, over ``most``, clipped to [-1, 1]."""
        r = y - fitted
        return np.asarray(np.clip((r - np.clip(r, -width, width)) / most, -1.0, 1.0))

    def logistic(self, y: Floats, p: Floats) -> tuple[Floats, Floats]:
        """Return (y > 0) - p, and the roots of 4p(1 - p)."""
        return (y > 0) - p, np.sqrt(4 * p * (1 - p))

    def interpolate(self, values: Floats, low: float, spacing: float, curves: Floats) -> Floats:
        """Return curves at some values, each curve in a row.

        ``curves``, of shape (n_points, n_curves), are on an even grid from ``low``, linear in between and constant
        outside.
        """
        last = len(curves) - 1
        place = np.clip((values - low) / spacing, 0.0, float(last))
        left = np.minimum(as_int64(place), last - 1)
        part, curves = place - left, curves.T
        return np.asarray(curves[:, left] * (1 - part) + curves[:, left + 1] * part)

    def pull(self, y: Floats, half: float, curves: Floats, most: float) -> Floats:
        """Return the clipped residual of (y + 1) half minus its expected value, over ``most``, clipped to [-1, 1].

        The rows of ``curves`` are the mean, the clipping threshold and the expected value.
        """
        mean, clip, pull = curves
        r = np.clip(((y + 1) * half - mean) / clip, -1.0, 1.0)
        return np.asarray(np.clip((r - pull) / most, -1.0, 1.0))

    def sizes(self, y: Floats, half: float, curves: Floats, most: float) -> Floats:
        """Return the absolute residuals of (y + 1) half, in ``most`` standard deviations, at most 1.

        The rows of ``curves`` are the mean and the standard deviation.
        """
        mean, std = curves
        return np.asarray(np.minimum(np.abs((y + 1) * half - mean) / (most * std), 1.0))

    def sum_sides(self, parts: Floats, values: Floats, middle: float, unit: float) -> Floats:
        """Return the sums of the integers nearest to parts * unit, of rows with values up to ``middle`` and above."""
        steps, above = np.rint(parts * unit), values > middle
        return np.array([steps[~above].sum(), steps[above].sum()])

    def count(
        self, values: Floats, bins: Bins, weights: Floats | None = None, error: float = 0.0
    ) -> tuple[Integers, Integers]:
        """Return the number of values in each bin, or the sum of their weights, which are integers.

        Values within a relative error of another bin are left out, and returned as a list.
        """
        low = bins.find(values * (1 - error))
        sure = low == bins.find(values * (1 + error)) if error else np.ones(values.size, dtype=bool)
        counts = np.bincount(low[sure], None if weights is None else weights[sure], bins.size)
        return as_int64(counts), np.flatnonzero(~sure)


class CompiledPasses(Passes):
    """Passes by loops: those that numba compiled, or others with the same results."""

    compiled = True

    def __init__(self, loops: Any) -> None:
        self._loops = loops

    def _fill(self, loop: str, shape: int | tuple[int, ...], *given: Any) -> Floats:
        """Return the array that a loop writes."""
        found = np.empty(shape)
        getattr(self._loops, loop)(*given, found)
        return found

    def convert(self, X: Floats, center: Floats, scale: Floats, near: float, points: Narrow) -> bool:
        if points.ndim == 2:
            return super().convert(X, center, scale, near, points)
        return not self._loops.add_points(X, center, scale, near, points)

    def clip_and_sum(self, points: Narrow, most: float) -> Floats:
        if points.ndim == 2:
            return super().clip_and_sum(points, most)
        found = np.zeros(points.shape[1])
        self._loops.add_clipped(points, np.float32(most), found)
        return found

    def combine(self, points: Narrow, factors: Floats, n: int) -> Floats:
        if points.ndim == 2:
            return super().combine(points, factors, n)
        return self._fill("multiply_rows", (len(points), points.shape[2]), points, factors).ravel()[:n]

    def square(self, points: Narrow, shift: Floats, n: int) -> Floats:
        if points.ndim == 2:
            return super().square(points, shift, n)
        # The column of ones adds 0. A loop that skips a part of every panel takes twice as long.
        every = np.append(shift, 1.0)
        return self._fill("square_rows", (len(points), points.shape[2]), points, every).ravel()[:n]

    def residuals(self, y: Floats, fitted: Floats, width: float) -> Floats:
        return self._fill("clip_residuals", len(y), y, fitted, width)

    def excess(self, y: Floats, fitted: Floats, width: float, most: float) -> Floats:
        return self._fill("clip_excess", len(y), y, fitted, width, most)

    def logistic(self, y: Floats, p: Floats) -> tuple[Floats, Floats]:
        parts, roots = np.empty(len(p)), np.empty(len(p))
        self._loops.logistic_parts(y, p, parts, roots)
        return parts, roots

    def interpolate(self, values: Floats, low: float, spacing: float, curves: Floats) -> Floats:
        shape = curves.shape[1], len(values)
        return self._fill("interpolate_curves", shape, values, low, spacing, curves)

    def pull(self, y: Floats, half: float, curves: Floats, most: float) -> Floats:
        return self._fill("pull_residuals", len(y), y, half, curves, most)

    def sizes(self, y: Floats, half: float, curves: Floats, most: float) -> Floats:
        return self._fill("residual_sizes", len(y), y, half, curves, most)

    def sum_sides(self, parts: Floats, values: Floats, middle: float, unit: float) -> Floats:
        return np.array(self._loops.sum_two_sides(parts, values, middle, unit))

    def count(
        self, values: Floats, bins: Bins, weights: Floats | None = None, error: float = 0.0
    ) -> tuple[Integers, Integers]:
        if bins.tables is None:
            return super().count(values, bins, weights, error)
        counts, left = np.zeros(bins.size, dtype=np.int64), np.empty(values.size, dtype=np.int64)
        own = np.empty(0) if weights is None else weights
        many = self._loops.count_bins(values, error, own, *bins.tables, counts, left)
        return counts, left[:many]


def choose_passes(entries: int) -> Passes:
    """Return the quickest passes over a table of this many entries."""
    loops = _compile() if entries >= FEWEST else None
    return Passes() if loops is None else CompiledPasses(loops)


@cache
def _compile() -> Any:
    """Return the compiled loops by name, or None without numba."""
    found = compile_loops(*_LOOPS)
    # These add up integers, exactly, so that several at a time are as good.
    exact = compile_loops(*_EXACT, fastmath={"reassoc", "contract"})
    if found is None or exact is None:
        return None
    return SimpleNamespace(**{loop.__name__: made for loop, made in zip(_LOOPS + _EXACT, found + exact, strict=True)})


def apply_columns(operation: np.ufunc, rows: Floats, values: Floats, out: Floats | None = None) -> Floats:
    """Return ``operation(rows, values)`` for one value a column. Many short rows are combined to a longer one."""
    n, d = rows.shape
    out = np.empty_like(rows) if out is None else out
    repeat = max(1, min(n, _RUN // max(d, 1)))
    whole = n - n % repeat
    shape = (-1, max(repeat * d, 1))
    if whole * d:
        operation(rows[:whole].reshape(shape), np.tile(values, repeat), out=out[:whole].reshape(shape))
    operation(rows[whole:], values, out=out[whole:])
    return out


# These loops run uncompiled in tests.


def add_points(X: Any, center: Any, scale: Any, near: float, panels: Any) -> int:
    """Write integer rows, and return how many entries are not near."""
    d, width = X.shape[1], panels.shape[2]
    beyond, line_bytes = 0, width * X.itemsize
    for start in range(0, len(X), width):
        panel, piece = panels[start // width], X[start : start + width]
        ahead = X.ctypes.data + (start + width) * d * X.itemsize
        for j in range(d):
            read_ahead(ahead + j * line_bytes, line_bytes)
            line, middle, size = panel[j], center[j], scale[j]
            for i in range(len(piece)):
                step = (piece[i, j] - middle) * size
                beyond += int(not abs(step) <= near)
                line[i] = np.rint(step)
        panel[d, : len(piece)] = 1.0
    return beyond


def add_clipped(panels: Any, most: Any, sums: Any) -> None:
    """Add up clipped points."""
    for k in range(len(panels)):
        panel = panels[k]
        for j in range(sums.size):
            line, total = panel[j], 0.0
            for i in range(line.size):
                total += min(max(line[i], -most), most)
            sums[j] += total


def square_rows(panels: Any, shift: Any, squares: Any) -> None:
    """Write squared norms of points minus a shift."""
    for k in range(len(panels)):
        panel, to = panels[k], squares[k]
        to[:] = 0.0
        for j in range(shift.size):
            line, middle = panel[j], shift[j]
            for i in range(to.size):
                step = line[i] - middle
                to[i] += step * step


def multiply_rows(panels: Any, factors: Any, products: Any) -> None:
    """Write the products of points with a vector."""
    for k in range(len(panels)):
        panel, to = panels[k], products[k]
        to[:] = 0.0
        for j in range(factors.size):
            line, factor = panel[j], factors[j]
            for i in range(to.size):
                to[i] += line[i] * factor


def clip_residuals(y: Any, fitted: Any, width: float, parts: Any) -> None:
    """Write clipped residuals."""
    for i in range(parts.size):
        parts[i] = min(max((y[i] - fitted[i]) / width, -1.0), 1.0)


def clip_excess(y: Any, fitted: Any, width: float, most: float, parts: Any) -> None:
    """Write the parts of residuals beyond a width, clipped."""
    for i in range(parts.size):
        r = y[i] - fitted[i]
        parts[i] = min(max((r - min(max(r, -width), width)) / most, -1.0), 1.0)


def logistic_parts(y: Any, p: Any, parts: Any, roots: Any) -> None:
    """Write logistic residuals, and the roots of curvatures."""
    for i in range(parts.size):
        parts[i] = int(y[i] > 0) - p[i]
        roots[i] = np.sqrt(4 * p[i] * (1 - p[i]))


def interpolate_curves(values: Any, low: float, spacing: float, curves: Any, found: Any) -> None:
    """Write curves at some values."""
    points, size = curves.shape
    last, near = points - 1, curves.T.copy()
    left, part = np.empty(_TOGETHER, np.int64), np.empty(_TOGETHER)
    for start in range(0, values.size, _TOGETHER):
        # A few values for all curves: lines of the result that are far from each other share places in the cache.
        some = values[start : start + _TOGETHER]
        for i in range(some.size):
            place = min(max((some[i] - low) / spacing, 0.0), float(last))
            # NaN is at no place.
            left[i] = min(int(place), last - 1) if place >= 0.0 else 0
            part[i] = place - left[i]
        for k in range(size):
            curve, line = near[k], found[k, start : start + _TOGETHER]
            for i in range(some.size):
                line[i] = curve[left[i]] * (1 - part[i]) + curve[left[i] + 1] * part[i]


def pull_residuals(y: Any, half: float, curves: Any, most: float, parts: Any) -> None:
    """Write clipped residuals minus their expected values, clipped."""
    mean, clip, pull = curves[0], curves[1], curves[2]
    for i in range(parts.size):
        r = min(max(((y[i] + 1) * half - mean[i]) / clip[i], -1.0), 1.0)
        parts[i] = min(max((r - pull[i]) / most, -1.0), 1.0)


def residual_sizes(y: Any, half: float, curves: Any, most: float, sizes: Any) -> None:
    """Write absolute residuals in standard deviations, clipped."""
    mean, std = curves[0], curves[1]
    for i in range(sizes.size):
        sizes[i] = min(abs((y[i] + 1) * half - mean[i]) / (most * std[i]), 1.0)


def sum_two_sides(parts: Any, values: Any, middle: float, unit: float) -> tuple[float, float]:
    """Return the sums of the nearest integers, of rows with values up to the middle and above."""
    below, above = 0.0, 0.0
    for i in range(parts.size):
        step = np.rint(parts[i] * unit)
        if values[i] > middle:
            above += step
        else:
            below += step
    return below, above


def count_bins(
    values: Any, error: float, weights: Any, unit: float, first: int, below: Any, pivots: Any, counts: Any, left: Any
) -> int:
    """Count numbers that are not negative by their exponents, as `Bins.find` has it; return how many are left out."""
    last, many = below.size - 1, 0
    for i in range(values.size):
        low, high = values[i] * (1 - error), values[i] * (1 + error)
        at = min(max((np.float64(low * unit).view(np.int64) >> 52) - _EXPONENT - first, 0), last)
        found = below[at] + int(low > pivots[at])
        if error:
            at = min(max((np.float64(high * unit).view(np.int64) >> 52) - _EXPONENT - first, 0), last)
            if below[at] + int(high > pivots[at]) != found:
                left[many] = i
                many += 1
                continue
        counts[found] += int(weights[i]) if weights.size else 1
    return many


_LOOPS: tuple[Callable[..., Any], ...] = (
    add_points,
    clip_residuals,
    clip_excess,
    logistic_parts,
    interpolate_curves,
    pull_residuals,
    residual_sizes,
    sum_two_sides,
    count_bins,
)
_EXACT: tuple[Callable[..., Any], ...] = add_clipped, multiply_rows, square_rows
UNCOMPILED = SimpleNamespace(**{loop.__name__: loop for loop in _LOOPS + _EXACT})
