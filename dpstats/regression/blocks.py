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
    cut_panels,
    cut_rows,
    fits,
    from_panels,
    gram,
    make_panels,
    map_items,
    multiply,
    norm_error,
    sum_items,
    sum_mapped,
    to_panels,
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

    def take(self, columns: NDArray[np.bool_]) -> Design:
        """Return the design of some of the columns."""
        known = tuple(np.array(self.two_valued)[columns].tolist()) if self.two_valued else ()
        return replace(self, center=self.center[columns], half=self.half[columns], two_valued=known)

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
_BLOCK = 3 << 18  # entries of a block of short rows


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
        first = int(self.intercept)
        whitening = np.eye(self.shift.size + first) if self.whitening is None else self.whitening
        slopes = whitening[..., first:]
        constant = whitening[..., :first].sum(axis=-1) * 2.0**X_BITS - slopes @ self.shift
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


def _stretch(rows: Floats, factors: Floats) -> Floats:
    """Multiply each row by its factor, in place."""
    return np.multiply(rows, factors[:, None], out=rows)


def _scale(rows: Floats, factors: Floats) -> Floats:
    """Multiply each row by its factor and round it, in place."""
    return np.rint(_stretch(rows, factors), out=rows)


@dataclass(eq=False)
class Block:
    """Private: some rows, on the lattice.

    Attributes
    ----------
    store : array of shape (m, n_features + 1), or panels of the same rows
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
    passes : Passes
        Loops over the rows.
    """

    store: NDArray[np.float32]
    y: Floats
    outside: NDArray[np.bool_]
    far: NDArray[np.bool_]
    exposure: Floats | None = None
    offsets: Floats | None = None
    weight: Floats | None = None
    kept: dict[str, tuple[Hashable, Any]] | None = None
    passes: Passes = _PLAIN
    offset_outside: NDArray[np.bool_] | None = None
    weight_outside: NDArray[np.bool_] | None = None
    groups: Integers | None = None
    any_far: bool = field(init=False)

    def __post_init__(self) -> None:
        self.any_far = bool(self.far.any())

    @property
    def points(self) -> NDArray[np.float32]:
        """The rows of ``store``, shape (m, n_features + 1)."""
        return from_panels(self.store, len(self.y)) if self._in_panels else self.store

    @property
    def _in_panels(self) -> bool:
        return self.store.ndim == 3

    def arrange(self, points: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return other rows in the layout of ``store``."""
        return to_panels(points) if self._in_panels else points

    @property
    def z(self) -> Floats:
        """Integers of the rows, shape (m, n_features)."""
        return self.points[:, :-1].astype(np.float64)

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
        return self._count(values, bins, 0.0)[0]

    def _count(self, values: Floats, bins: Bins, error: float) -> tuple[Integers, Integers]:
        """Return the same, without the rows in the list whose bins depend on an error of the numbers."""
        weights = None if self.weight is None else np.rint(self.weight * 2.0**COUNT_BITS)
        counts, left = self.passes.count(values, bins, weights, error)
        return counts << COUNT_BITS if weights is None else counts, left

    def count_norms(self, at: Coordinates, bins: Bins, stretch: Floats | None = None) -> Integers:
        """Return counts of rows by their squared norms in given coordinates; ``stretch`` has a factor of each row."""
        if not self._in_panels:
            squares = self.squared_norms(at) if stretch is None else squared_norms(_stretch(self.whiten(at), stretch))
            return self.count(squares, bins)
        if at.whitening is None:
            return self.count(self._square(at), bins)
        squares, p = np.empty(len(self.y)), len(at.table)
        to = BallMap(at.table, np.zeros(p), 1.0, 1.0, 1)
        sum_mapped(self.store, to, Wanted(stretch=self._drop_stretched(stretch), squares=squares), len(squares))
        counts, left = self._count(squares, bins, norm_error(p))
        return counts + self.take(left).count_norms(at, bins, take(stretch, left)) if left.size else counts

    def rows(self, shift: Floats, intercept: bool) -> Floats:
        """Return integer rows minus a shift, in steps, after a constant column if there is an intercept."""
        rows = self._drop_far(self.passes.subtract(self.points, shift))
        if not intercept:
            return rows
        return np.concatenate([self._drop_far(np.full((len(rows), 1), 2.0**X_BITS)), rows], axis=1)

    def clip_and_sum(self, largest: float) -> Floats:
        """Return the sums of the columns, each entry clipped to ``largest`` and with the weight of its row."""
        if self.weight is None:
            return self.passes.clip_and_sum(self.store, largest)[:-1]
        return np.asarray(np.rint(self.weigh(np.clip(self.z, -largest, largest))).sum(axis=0))

    def combine(self, at: Coordinates) -> Floats:
        """Return the products of `rows` with a matrix or a vector, as if no row were far."""
        if at.table.ndim > 1:
            return multiply(self.points, at.table)
        if not at.table[:-1].any():
            return np.full(len(self.y), at.table[-1])
        return self.passes.combine(self.store, at.table, len(self.y))

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
            return self._drop_far(self.passes.square(self.store, at.shift, len(self.y)))
        return squared_norms(self.whiten(at))

    def bound(self, ball: Ball, stretch: Floats | None = None) -> tuple[Floats, Floats]:
        """Return integer rows in a ball, and their factors; ``stretch`` has a factor of each row before the ball.

        Rows become 2^bits steps long, but rows shorter than the radius become shorter. With weights, the length of a
        row gets its weight. A scaled row whose float norm exceeds 2^bits less the room for rounding by more than a
        quarter of a step becomes zero. Rounding moves a row by at most sqrt(p)/2, and errors of floats by less than
        1/2.
        """
        last = self._recall("ball", ball.key) if stretch is None else None
        if last is not None:
            return last[0].astype(np.float64), last[1]
        rows = self.whiten(ball.at)
        if stretch is None:
            squares = self.remember("norms", ball.at.key, lambda: squared_norms(rows))
        else:
            squares = squared_norms(_stretch(rows, stretch))
        norms, most = np.sqrt(squares), 2**ball.bits - compute_room(ball.size, "l2")
        longest = np.maximum(norms, ball.radius) / self.root
        factors = most / longest
        _scale(rows, factors)[~(norms * factors <= most + 0.25)] = 0.0
        found = rows, ball.radius / longest
        if stretch is None and self.kept is not None:
            self._keep("ball", ball.key, (rows.astype(np.float32), found[1]))  # exact: at most 2^20 steps
        return found

    def step(
        self,
        ball: Ball,
        parts: Floats | None = None,
        weights: NDArray[Any] | None = None,
        *,
        products: bool = False,
        meat: bool = False,
        stretch: Floats | None = None,
    ) -> StepSums:
        """Return the sums of rows in a ball times their scaled ``parts``, and of products of rows.

        ``products`` says whether to multiply all rows, and ``weights`` has the weights of their entries. It is a mask
        if only some rows are multiplied. ``stretch`` has a factor of each row before the ball.
        """
        if not self._in_panels:
            return self._sum_plainly(ball, parts, weights, products, meat, stretch)
        own, bits = self._drop_stretched(stretch), ball.bits
        root = None if self.weight is None else np.asarray(self.root)
        wanted = Wanted(None, None, products, weights, parts, parts is not None, meat, bits, own, root)
        quick = sum_mapped(self.store, ball.map, wanted, len(self.y))
        found, some = StepSums(quick.gradient, quick.products if products else quick.weighted, quick.meat), quick.left
        if not some.size:
            return found
        few = self.take(some)._sum_plainly(
            ball, take(parts, some), take(weights, some), products, meat, take(stretch, some)
        )
        return StepSums(*(one + other for one, other in zip(found, few, strict=True)))

    def _sum_plainly(
        self,
        ball: Ball,
        parts: Floats | None,
        weights: NDArray[Any] | None,
        products: bool,
        meat: bool,
        stretch: Floats | None,
    ) -> StepSums:
        rows, factors = self.bound(ball, stretch)
        gradient, curvature, middle = (np.zeros(rows.shape[1:] * k, dtype=np.int64) for k in (1, 2, 2))
        v = None if parts is None else np.rint(parts * factors * 2.0**ball.bits)
        if v is not None:
            gradient = weighted(v, rows)
        if products or (weights is not None and weights.dtype == np.bool_):
            curvature = self.remember("Gram matrix", ball.key, lambda: gram(rows))
        if weights is not None and weights.dtype == np.bool_:
            curvature = curvature - gram(rows[~weights])  # few rows are left out
        if meat and v is not None:
            middle = gram(np.rint(rows * (v * 2.0**-ball.bits)[:, None]))
        if weights is not None and weights.dtype != np.bool_:
            curvature = gram(_scale(rows, weights))
        return StepSums(gradient, curvature, middle)

    def _drop_stretched(self, stretch: Floats | None) -> Floats | None:
        """Return factors of rows, which are 0 for far ones; None if there are none."""
        return np.where(self.far, 0.0, 1.0 if stretch is None else stretch) if self.any_far else stretch

    def take(self, some: Integers) -> Block:
        """Return some rows, without results that are kept."""
        beside = "exposure", "offsets", "weight", "offset_outside", "weight_outside", "groups"
        columns = {name: take(getattr(self, name), some) for name in ("y", "outside", "far", *beside)}
        width = self.store.shape[-1]
        store = self.store[some // width, :, some % width] if self._in_panels else self.store[some]
        return replace(self, store=store, **columns, kept=None)

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

    def block(self, where: slice, store: NDArray[np.float32] | None = None, *, check: bool = False) -> Block:
        """Return some rows. Their integers are written to ``store``, or to a new array.

        With ``check``, raise an error for a missing entry.
        """
        design, X = self.design, np.ascontiguousarray(self.X[where], dtype=np.float64)
        if store is None:
            store = self._make_store(len(X))
        far: NDArray[np.bool_] = np.zeros(len(X), dtype=np.bool_)
        scale, near = 2.0**X_BITS / design.half, 2.0 ** (X_BITS + COUNTED)
        if not self.passes.convert(X, design.center, scale, near, store):
            if check:
                check_finite(X)
            steps = apply_columns(np.multiply, apply_columns(np.subtract, X, design.center), scale)
            far[:] = ~(np.abs(steps) <= near).all(axis=1)
            reach = 2.0 ** (X_BITS + REACH)
            points = np.column_stack([np.rint(np.clip(steps, -reach, reach)), np.ones(len(X))])
            store[:] = to_panels(points) if store.ndim == 3 else points
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
            store,
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

    def _make_store(self, n: int) -> NDArray[np.float32]:
        """Return room for n rows: in panels where loops read these."""
        width = self.X.shape[1] + 1
        panels = self.passes.compiled and fits(width)
        return make_panels(n, width) if panels else np.empty((n, width), dtype=np.float32)

    def answer(self, question: Question) -> Sums:
        """Return the sums that a question is about."""
        work = _cut_blocks(*self.X.shape)
        return sum_items(lambda where: question.sum_rows(self.block(where)), work, self.X.size)

    def convert(self) -> list[Block]:
        """Return all rows, to be kept. Raise an error for a missing entry."""
        # One large array takes far less time to allocate than many small ones.
        n, d = self.X.shape
        store = self._make_store(n)

        def convert(where: slice) -> Block:
            room = cut_panels(store, where) if store.ndim == 3 else store[where]
            return replace(self.block(where, room, check=True), kept={})

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
