"""The declared design of a regression, and its rows in blocks on a fine lattice."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from dpstats.data.rows import Rows, Table
from dpstats.data.values import as_int64
from dpstats.errors import attempt, refuse
from dpstats.lattice import check_finite, observed_pairs
from dpstats.lattice.products import (
    ROWS,
    BallMap,
    Integers,
    Sums,
    Wanted,
    compute_room,
    cut_rows,
    gram,
    map_items,
    multiply,
    sum_items,
    sum_mapped,
    weighted,
)
from dpstats.lattice.rounding import squared_norms
from dpstats.means.moments import check_bounds
from dpstats.regression.passes import Bins, Floats, Passes, apply_columns, choose_passes

# The design: public facts, known before any row is read

_LARGEST = 1e140
"""Limit for bounds, for the ratio of half-widths, and for the inverse of a half-width.

Within it, squares of coefficients and errors in the units of the data are finite floats that are not 0."""


@dataclass(frozen=True, eq=False)
class Design:
    """Public: rows are (x - center)/half, and outcomes (y - y_center)/y_half.

    Attributes
    ----------
    center, half : array of shape (n_features,)
        They map the declared bounds of a column to -1 and 1. Without an intercept the center is 0, because the model
        goes through the origin.
    y_center, y_half : float
        The same for the outcome.
    intercept : bool
    exposure : (float, float), optional
        Bounds of the exposure of a row, the factor of its mean outcome. None: every row has exposure 1.
    offset : (float, float), optional
        Bounds of the offset of a row, in units of the linear predictor. None: every row has offset 0.
    weight : (float, float), optional
        Bounds of the weight of a row. None: every row has weight 1.
    outcome : (float, float), optional
        Center and half-width of the outcome, if offsets are subtracted from it. ``y_center`` and ``y_half`` then
        describe the difference.
    two_valued : tuple of bool
        Columns that are known to have both bounds as their only values. Empty: none is known.
    """

    center: Floats
    half: Floats
    y_center: float
    y_half: float
    intercept: bool
    exposure: tuple[float, float] | None = None
    offset: tuple[float, float] | None = None
    weight: tuple[float, float] | None = None
    outcome: tuple[float, float] | None = None
    two_valued: tuple[bool, ...] = ()

    @classmethod
    def check(cls, x_bounds: Any, y_bounds: Any, d: int, intercept: bool) -> Design:
        """Return the design of d columns, or raise an error; ``y_bounds=None`` declares an outcome of 0 or 1."""
        if x_bounds is None:
            raise refuse("x_bounds", allowed="given: a pair (low, high), or one per column")
        ends = check_bounds("x_bounds", x_bounds, d)
        low, high = (np.full(d, end, dtype=np.float64) for end in ends)
        if y_bounds is None:
            y_low, y_high = -1.0, 1.0
        else:
            if isinstance(y_bounds, Mapping) or attempt(lambda: np.shape(y_bounds), ValueError) != (2,):
                raise refuse("y_bounds", allowed="a pair (low, high) of numbers")
            y_ends = check_bounds("y_bounds", y_bounds, 1)
            y_low, y_high = float(np.ravel(y_ends[0])[0]), float(np.ravel(y_ends[1])[0])
        for name, given in (("x_bounds", [low, high]), ("y_bounds", [y_low, y_high])):
            if np.max(np.abs(given), initial=0.0) > _LARGEST:
                raise refuse(name, allowed=f"at most {_LARGEST:g} in size")
        if intercept:
            design = cls(low / 2 + high / 2, high / 2 - low / 2, y_low / 2 + y_high / 2, y_high / 2 - y_low / 2, True)
        else:
            sizes = np.maximum(np.abs(low), np.abs(high))
            design = cls(np.zeros(d), sizes, 0.0, max(abs(y_low), abs(y_high)), False)
        # Without columns the outcome has the only half-width.
        halves = design.half if d else np.array([design.y_half])
        for name, half in (("x_bounds", float(np.min(halves))), ("y_bounds", design.y_half)):
            if half < 1 / _LARGEST:
                allowed = f"have half-widths of at least {1 / _LARGEST:g}"
                raise refuse(name, got=f"{half:g}", allowed=allowed, remedy="Give it in smaller units.")
        for half in (float(np.min(halves)), float(np.max(halves))):
            if not 1 / _LARGEST <= design.y_half / half <= _LARGEST:
                raise refuse(
                    "x_bounds",
                    got=f"{half:g} and {design.y_half:g}",
                    allowed=f"have half-widths within a factor of {_LARGEST:g} of the half-width of y_bounds",
                    remedy="Give the columns in other units.",
                )
        return design

    @property
    def size(self) -> int:
        """Number of coefficients, including the intercept."""
        return self.center.size + self.intercept

    @property
    def offsets(self) -> tuple[float, float] | None:
        """Center and half-width of the range of the offset, or of the logarithm of the exposure."""
        if self.exposure is not None:
            low, high = (math.log(end) for end in self.exposure)
        elif self.offset is not None:
            low, high = self.offset
        else:
            return None
        return low / 2 + high / 2, high / 2 - low / 2

    def read_outcome(self, y: Floats, offset: Floats | None) -> tuple[Floats, NDArray[np.bool_]]:
        """Return outcomes in half-widths, minus subtracted offsets, and whether they exceed their bounds."""
        center, half = self.outcome or (self.y_center, self.y_half)
        found = (y - center) / half
        outside, inside = np.abs(found) > 1.0, np.clip(found, -1.0, 1.0)
        if self.outcome is None or offset is None:
            return inside, outside
        return np.clip((inside * half + center - offset - self.y_center) / self.y_half, -1.0, 1.0), outside

    def subtracting(self, offset: tuple[float, float]) -> Design:
        """Return the design of the outcome minus an offset within these bounds."""
        low, high = offset
        center, half = low / 2 + high / 2, high / 2 - low / 2
        if not self.intercept:
            center, half = 0.0, max(abs(low), abs(high))
        own = self.y_center, self.y_half
        return replace(self, y_center=own[0] - center, y_half=own[1] + half, offset=offset, outcome=own)

    def to_units(self, shift: Floats) -> tuple[Floats, Floats]:
        """Return L and o: coefficients in the units of the data are L theta + o.

        theta are the coefficients for rows (1, (x - center)/half - shift), without the 1 if there is no intercept,
        and outcomes (y - y_center)/y_half.
        """
        d = self.center.size
        slopes = np.diag(self.y_half / self.half)
        if not self.intercept:
            return slopes, np.zeros(d)
        first = -self.y_half * (self.center / self.half + shift)
        matrix = np.block([[np.array([[self.y_half]]), first[None, :]], [np.zeros((d, 1)), slopes]])
        return matrix, np.append(self.y_center, np.zeros(d))


# Blocks of rows

# A fit converts its rows once, and keeps them if they are few enough. Rows are rounded to integers on a fine lattice.
# Matrices and coefficients that multiply them are public and rounded so that the products are exact
# (dpstats/lattice/sums.py). So the contribution of a row does not depend on other rows, nor on the processor.

Result = TypeVar("Result")
X_BITS = 18
"""A declared half-width is 2^18 steps."""
REACH = 4
"""Columns are clipped at 2^4 half-widths from the middle of their bounds. Rows beyond this have little weight."""
COUNTED = 2
"""Rows beyond 2^2 half-widths in any column have weight 0 in the Newton steps. The weight depends on x only."""
COUNT_BITS = 20
"""A count of rows by bins has 2^20 steps per row."""
MOST_KEPT = 1 << 28
"""Bytes of rows that a fit keeps. If its rows take more, each query reads and converts them again, which takes about
twice the time."""
_PLAIN = Passes()
_BLOCK = 3 << 17  # entries of a block of short rows


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Public coordinates of rows: a shift in steps, and a matrix or vector for rows in steps. None is the identity."""

    shift: Floats
    intercept: bool
    whitening: Floats | None

    @cached_property
    def key(self) -> tuple[Hashable, ...]:
        """The coordinates as a key of a dict."""
        whitening = None if self.whitening is None else self.whitening.tobytes()
        return self.shift.tobytes(), self.intercept, whitening

    @cached_property
    def table(self) -> Floats:
        """The matrix for `Block.points`. Its products are exact, so the shift and the intercept can be part of it."""
        assert self.whitening is not None
        first = int(self.intercept)
        slopes = self.whitening[..., first:]
        constant = self.whitening[..., :first].sum(axis=-1) * 2.0**X_BITS - slopes @ self.shift
        return np.concatenate([slopes, np.expand_dims(constant, -1)], axis=-1)


@dataclass(frozen=True, eq=False)
class Ball:
    """Rows in coordinates, scaled to a radius, in 2^bits steps."""

    at: Coordinates
    radius: float
    bits: int

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self.at.shift.size + int(self.at.intercept)

    @cached_property
    def map(self) -> BallMap:
        """The map of points into the ball."""
        size = 2**self.bits - compute_room(self.size, "l2")
        return BallMap(self.at.table, np.zeros(self.size), size, self.radius, 2**self.bits)

    @cached_property
    def key(self) -> tuple[Hashable, ...]:
        """The ball as a key of a dict."""
        return (*self.at.key, self.radius, self.bits)


class StepSums(NamedTuple):
    """Sums over the rows of a step: of rows times their parts, and of products of rows, weighted and with parts."""

    gradient: Integers
    curvature: Integers
    meat: Integers


def take(values: Any, some: Integers) -> Any:
    """Return some of the values, if there are any."""
    return None if values is None else values[some]


@dataclass(eq=False)
class Bounded:
    """Private: integer rows in a ball, and their scaling factors. Either ``whole`` or ``narrow`` has the rows.

    Attributes
    ----------
    factors : array of shape (m,)
    passes : Passes
    whole : array of shape (m, p), optional
    narrow : array of shape (m, p), optional
        The rows as float32, which is exact.
    """

    factors: Floats
    passes: Passes
    whole: Floats | None = None
    narrow: NDArray[np.float32] | None = None

    def rows(self) -> Floats:
        """Return the rows."""
        if self.whole is None:
            assert self.narrow is not None
            self.whole = self.narrow.astype(np.float64)
        return self.whole

    def select(self, some: NDArray[np.bool_]) -> Floats:
        """Return some of the rows."""
        rows = self.narrow if self.whole is None else self.whole
        assert rows is not None
        return rows[some].astype(np.float64)

    def copy(self) -> Bounded:
        """Return the rows in another array, if they are not kept as float32."""
        return self if self.whole is None else replace(self, whole=self.whole.copy())

    def weigh(self, weights: Floats) -> Integers:
        """Return the sum of the rows times integers of at most 2^ROW_BITS."""
        if self.whole is not None or self.narrow is None:
            return weighted(weights, self.rows())
        parts = [self.passes.weigh(weights[some], self.narrow[some]) for some in cut_rows(len(weights))]
        return np.asarray(as_int64(np.stack(parts)).sum(axis=0))

    def scale(self, factors: Floats) -> Floats:
        """Return the rows times their factors, rounded. The rows cannot be used again."""
        if self.whole is None:
            assert self.narrow is not None
            return self.passes.scale_narrow(self.narrow, factors)
        rows, self.whole = self.whole, None
        self.passes.scale(rows, factors)
        return rows


@dataclass(eq=False)
class Block:
    """Private: some rows, on the lattice.

    Attributes
    ----------
    points : array of shape (m, n_features + 1)
        Integers of at most 2^22 steps, which float32 holds exactly, and a last column of ones.
    y : array of shape (m,)
        Outcomes, in half-widths.
    outside, far : array of shape (m,)
        Whether the outcome is outside its bounds, and whether the row is too far away to have weight.
    exposure, offsets : arrays of shape (m,), optional
        Exposures and offsets, within their bounds.
    offset_outside, weight_outside : arrays of shape (m,), optional
        Whether the exposure or the offset was outside its bounds, and whether the weight was.
    weight : array of shape (m,), optional
        Weights, as fractions of the largest weight.
    groups : array of shape (m,), optional
        Positions of the levels of a declared factor.
    kept : dict, optional
        Last results by name, each with its key, for rows that answer further queries.
    space : array of shape (m, n_features + 1), optional
        Space for the last rows in a ball: integers of at most 2^20 steps, which float32 holds exactly.
    passes : Passes
        Loops over the rows.
    """

    points: NDArray[np.float32]
    y: Floats
    outside: NDArray[np.bool_]
    far: NDArray[np.bool_]
    exposure: Floats | None = None
    offsets: Floats | None = None
    weight: Floats | None = None
    kept: dict[str, tuple[Hashable, Any]] | None = None
    space: NDArray[np.float32] | None = None
    passes: Passes = _PLAIN
    offset_outside: NDArray[np.bool_] | None = None
    weight_outside: NDArray[np.bool_] | None = None
    groups: Integers | None = None
    any_far: bool = field(init=False)

    def __post_init__(self) -> None:
        self.any_far = bool(self.far.any())

    @property
    def z(self) -> Floats:
        """Integers of the rows, shape (m, n_features)."""
        return self.points.astype(np.float64)[:, :-1]

    @property
    def offset(self) -> Floats | float:
        """Offset of each row, or logarithm of its exposure."""
        if self.exposure is not None:
            return np.asarray(xlogy(1.0, self.exposure))
        return 0.0 if self.offsets is None else self.offsets

    @property
    def root(self) -> Floats | float:
        """Square root of the weight of each row. A step scales the row and its residual by it."""
        return 1.0 if self.weight is None else np.sqrt(self.weight)

    def weigh(self, values: Any) -> Any:
        """Return numbers of each row times its weight."""
        return values if self.weight is None else (values.T * self.weight).T

    def count(self, values: Floats, bins: Bins) -> Integers:
        """Return counts of rows by bins of numbers, in steps. A row counts with its weight."""
        if self.weight is None:
            return self.passes.count(values, bins) << COUNT_BITS
        steps = np.rint(self.weight * 2.0**COUNT_BITS)
        return as_int64(np.bincount(bins.find(values), weights=steps, minlength=bins.size))

    def rows(self, shift: Floats, intercept: bool) -> Floats:
        """Return integer rows minus a shift, in steps, after a constant column if there is an intercept."""
        rows = self._drop_far(self.passes.subtract(self.points, shift))
        if not intercept:
            return rows
        return np.concatenate([self._drop_far(np.full((len(rows), 1), 2.0**X_BITS)), rows], axis=1)

    def clip_and_sum(self, largest: float) -> Floats:
        """Return the sums of the columns, each entry clipped to ``largest`` and with the weight of its row."""
        if self.weight is None:
            return self.passes.clip_and_sum(self.points, largest)[:-1]
        return np.asarray(np.rint(self.weigh(np.clip(self.z, -largest, largest))).sum(axis=0))

    def combine(self, at: Coordinates) -> Floats:
        """Return the products of `rows` with a matrix or a vector, as if no row were far."""
        if at.table.ndim > 1:
            return multiply(self.points, at.table)
        if not at.table[:-1].any():
            return np.full(len(self.points), at.table[-1])
        return self.passes.combine(self.points, at.table)

    def fit_outcomes(self, at: Coordinates) -> Floats:
        """Return the products of `rows` with coefficients, as if no row were far."""
        return self.remember("fitted", at.key, lambda: self.combine(at))

    def whiten(self, at: Coordinates) -> Floats:
        """Return rows in given coordinates."""
        if at.whitening is None:
            return self.rows(at.shift, at.intercept)
        return self._drop_far(self.combine(at))

    def squared_norms(self, at: Coordinates) -> Floats:
        """Return the squared norms of rows in given coordinates."""
        return self.remember("norms", at.key, lambda: self._square(at))

    def _square(self, at: Coordinates) -> Floats:
        if at.whitening is None and not at.intercept:
            return self._drop_far(self.passes.squared_norms(self.points, at.shift))
        return squared_norms(self.whiten(at))

    def shorten(
        self, rows: Floats, squares: Floats, least: float, bits: int, copy: NDArray[np.float32] | None = None
    ) -> Floats:
        """Scale rows so that their norms, but at least ``least``, become 2^bits steps: in place, and to ``copy``.

        Return the lengths that became 2^bits steps. With weights, squared norms get the weight of their row.
        """
        most = 2**bits - compute_room(rows.shape[1], "l2")
        root = None if self.weight is None else self.root
        longest, factors, beyond = self.passes.reach(squares, least, most, root)
        self.passes.scale(rows, factors, copy)
        if beyond is not None and beyond.any():
            rows[beyond] = 0.0
            if copy is not None:
                copy[beyond] = 0.0
        return longest

    def bound(self, ball: Ball, *, again: bool = True) -> Bounded:
        """Return integer rows in a ball. With ``again``, they are needed later, too."""
        space = None if self.space is None else self.space[:, : ball.size]
        factors = self._recall("factors", ball.key)
        if factors is not None:
            return Bounded(factors, self.passes, narrow=space)
        rows = self.whiten(ball.at)
        squares = self.remember("norms", ball.at.key, lambda: squared_norms(rows))
        space = space if again else None
        factors = ball.radius / self.shorten(rows, squares, ball.radius, ball.bits, space)
        if space is not None:
            self._keep("factors", ball.key, factors)
        return Bounded(factors, self.passes, rows)

    def step(
        self,
        ball: Ball,
        parts: Floats,
        weights: NDArray[Any] | None = None,
        *,
        meat: bool = False,
        stretch: Floats | None = None,
        again: bool = False,
    ) -> StepSums:
        """Return the sums of rows in a ball times their scaled ``parts``, and of products of weighted rows.

        ``weights`` is a mask if the products are of some rows. ``stretch`` has a factor of each row before the ball.
        With ``again``, the rows in the ball are needed later too, which numpy keeps.
        """
        to = ball.map
        if not (self.passes.compiled and to.fits(self.points.shape[1])):
            return self._sum_plainly(ball, parts, weights, meat, stretch, again)
        if self.any_far:
            stretch = np.where(self.far, 0.0, 1.0 if stretch is None else stretch)
        root = None if self.weight is None else np.asarray(self.root)
        wanted = Wanted(
            weights=weights, parts=parts, gradient=True, meat=meat, bits=ball.bits, stretch=stretch, roots=root
        )
        quick = sum_mapped(self.points, to, wanted)
        found, some = StepSums(quick.gradient, quick.weighted, quick.meat), quick.left
        if not some.size:
            return found
        few = self.take(some)
        rest = few._sum_plainly(ball, parts[some], take(weights, some), meat, take(stretch, some), again=False)
        return StepSums(*(one + other for one, other in zip(found, rest, strict=True)))

    def _sum_plainly(
        self, ball: Ball, parts: Floats, weights: NDArray[Any] | None, meat: bool, stretch: Floats | None, again: bool
    ) -> StepSums:
        bounded = self.bound(ball, again=again) if stretch is None else self._stretch(ball, stretch)
        v = self.passes.round(parts, bounded.factors, 2.0**ball.bits)
        none = np.zeros((ball.size, ball.size), dtype=np.int64)
        gradient, middle, curvature = bounded.weigh(v), none, none
        if weights is not None and weights.dtype == np.bool_:
            # Few rows are left out.
            curvature = self.remember("Gram matrix", ball.key, lambda: gram(bounded.rows()))
            curvature = curvature - gram(bounded.select(~weights))
        if meat:
            middle = gram(bounded.copy().scale(v * 2.0**-ball.bits))
        if weights is not None and weights.dtype != np.bool_:
            curvature = gram(bounded.scale(weights))
        return StepSums(gradient, curvature, middle)

    def _stretch(self, ball: Ball, stretch: Floats) -> Bounded:
        """Return integer rows in a ball, each times a factor."""
        rows = self.whiten(ball.at)
        self.passes.multiply(rows, stretch)
        longest = self.shorten(rows, squared_norms(rows), ball.radius, ball.bits)
        return Bounded(ball.radius / longest, self.passes, rows)

    def take(self, some: Integers) -> Block:
        """Return some rows, without results that are kept."""
        beside = "exposure", "offsets", "weight", "offset_outside", "weight_outside", "groups"
        columns = {name: take(getattr(self, name), some) for name in ("points", "y", "outside", "far", *beside)}
        return replace(self, **columns, kept=None, space=None)

    def remember(self, name: str, key: Hashable, make: Callable[[], Result]) -> Result:
        """Return ``make()``, or its last result under the same name if the key is the same and rows are kept."""
        found: Result | None = self._recall(name, key)
        if found is None:
            found = make()
            self._keep(name, key, found)
        return found

    def _recall(self, name: str, key: Hashable) -> Any:
        last = None if self.kept is None else self.kept.get(name)
        return last[1] if last is not None and last[0] == key else None

    def _keep(self, name: str, key: Hashable, value: Any) -> None:
        if self.kept is not None:
            self.kept[name] = key, value

    def _drop_far(self, rows: Floats) -> Floats:
        if self.any_far:
            rows[self.far] = 0.0
        return rows


class Question(ABC):
    """A sum over rows: public parameters, and the map from a row to integers."""

    @abstractmethod
    def sum_rows(self, block: Block) -> Sums:
        """Return the sums over some rows, by the names of the releases."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """Private: rows in memory, and their outcomes."""

    X: Floats
    y: Floats
    design: Design
    exposure: Floats | None = None
    offset: Floats | None = None
    weight: Floats | None = None
    groups: Integers | None = None

    def block(self, where: slice, points: NDArray[np.float32] | None = None, *, check: bool = False) -> Block:
        """Return some rows. Their integers are written to ``points``, or to a new array.

        With ``check``, raise an error for a missing entry.
        """
        design, X = self.design, np.ascontiguousarray(self.X[where], dtype=np.float64)
        if points is None:
            points = np.empty((X.shape[0], X.shape[1] + 1), dtype=np.float32)
        far: NDArray[np.bool_] = np.zeros(len(X), dtype=np.bool_)
        scale, near = 2.0**X_BITS / design.half, 2.0 ** (X_BITS + COUNTED)
        if not self.passes.convert(X, design.center, scale, near, points):
            if check:
                check_finite(X)
            steps = apply_columns(np.multiply, apply_columns(np.subtract, X, design.center), scale)
            far[:] = ~(np.abs(steps) <= near).all(axis=1)
            reach = 2.0 ** (X_BITS + REACH)
            points[:, :-1] = np.rint(np.clip(steps, -reach, reach))
        (exposure, wrong_exposure), (offset, wrong_offset), (weight, wrong_weight) = (
            _clip(column, ends, where)
            for column, ends in (
                (self.exposure, design.exposure),
                (self.offset, design.offset),
                (self.weight, design.weight),
            )
        )
        if weight is not None and design.weight is not None:
            weight = weight / design.weight[1]
        y, outside = design.read_outcome(self.y[where], offset)
        offset = None if design.outcome else offset
        return Block(
            points,
            y,
            outside,
            far,
            exposure,
            offset,
            weight,
            passes=self.passes,
            offset_outside=wrong_offset if wrong_exposure is None else wrong_exposure,
            weight_outside=wrong_weight,
            groups=None if self.groups is None else self.groups[where],
        )

    @cached_property
    def passes(self) -> Passes:
        """Loops over the rows."""
        return choose_passes(self.X.size)

    def answer(self, question: Question) -> Sums:
        """Return the sums that a question is about."""
        work = _cut_blocks(*self.X.shape)
        return sum_items(lambda where: question.sum_rows(self.block(where)), work, self.X.size)

    def convert(self) -> list[Block]:
        """Return all rows, to be kept. Raise an error for a missing entry."""
        # One large array takes far less time to allocate than many small ones.
        n, d = self.X.shape
        points, space = (np.empty((n, d + 1), dtype=np.float32) for _ in range(2))

        def convert(where: slice) -> Block:
            return replace(self.block(where, points[where], check=True), kept={}, space=space[where])

        return map_items(convert, _cut_blocks(n, d), n * d)


@dataclass(frozen=True, eq=False)
class DesignRows:
    """Private: rows of a fit with their outcomes and how to read them. With ``drops``, the observed rows only.

    Attributes
    ----------
    blocks : list of Block, optional
        All rows, if they are kept. The rows are read for every query otherwise.
    """

    rows: Rows
    design: Design
    drops: bool = False
    blocks: list[Block] | None = None

    def answer(self, question: Question) -> Sums:
        """Return the sums that a question is about."""
        if self.blocks is None:
            return self.rows.total(_BlockSums(question, self.design, self.drops))
        n, d = self.rows.shape
        return sum_items(question.sum_rows, self.blocks, n * d)

    def keep(self) -> DesignRows:
        """Return the rows with all of them kept, if they are in this process and few enough.

        Raises
        ------
        InvalidData
            If an entry is missing, and rows with missing entries are not dropped.
        """
        n, d = self.rows.shape
        # The bytes of a kept row: its points, itself in a ball, and eight numbers
        if not self.rows.local or n * (8 * (d + 1) + 8 * 8) > MOST_KEPT:
            return self
        blocks: list[Block] = []

        def convert(table: Table) -> Sums:
            if table.groups is not None and not self.drops:
                check_finite(table.X)  # also rows of undeclared levels
            blocks.extend(_blocks(table, self.design, self.drops).convert())
            return {}

        self.rows.total(convert)
        return replace(self, blocks=blocks)


def _clip(
    column: Floats | None, ends: tuple[float, float] | None, where: slice
) -> tuple[Floats | None, NDArray[np.bool_] | None]:
    """Return some entries of a column within its bounds, and whether each was outside. None if rows lack it."""
    if column is None or ends is None:
        return None, None
    inside = np.clip(column[where], *ends)
    return inside, inside != column[where]


def _cut_blocks(n: int, d: int) -> list[slice]:
    """Return the blocks of n rows: larger ones if rows are short, so that less time passes between operations."""
    return cut_rows(n, ROWS * max(1, _BLOCK // (ROWS * (d + 1))))


@dataclass(frozen=True)
class _BlockSums:
    """A query applied to the rows of a table."""

    question: Question
    design: Design
    drops: bool

    def __call__(self, table: Table) -> Sums:
        return _blocks(table, self.design, self.drops).answer(self.question)


def _blocks(table: Table, design: Design, drops: bool) -> Blocks:
    """Return the rows of a table, or the observed ones. Rows of an undeclared level are left out."""
    assert table.y is not None
    X, y, d = table.X, table.y, table.X.shape[1]
    columns = table.beside()
    beside = {name: columns[name] for name in ("exposure", "offset", "weight", "groups") if name in columns}
    if "groups" in beside:
        inside = beside["groups"] >= 0
        X, y = X[inside], y[inside]
        beside = {name: column[inside] for name, column in beside.items()}
    if drops:
        both, y = observed_pairs(np.column_stack([X, *beside.values()]) if beside else X, y)
        X, beside = both[:, :d], dict(zip(beside, both.T[d:], strict=True))
    if "groups" in beside:
        beside["groups"] = as_int64(beside["groups"])
    return Blocks(X, y, design, **beside)
