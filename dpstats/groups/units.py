"""Several rows of a unit, such as a person: one row for each unit, and totals over units with several rows.

Proof: docs/proofs/mean-per-row.md.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.columns import column, distinct, refuse_unknown, take
from dpstats.data.parameters import check_integer, column_names, declare_unit
from dpstats.data.rows import column_of
from dpstats.data.values import MISSING, as_int64, is_built_in, is_missing, key_of
from dpstats.errors import is_public, refuse, refuse_data, show
from dpstats.lattice import BoxLattice
from dpstats.means.ratio import Noise, Ratio
from dpstats.privacy.guarantee import Neighbors
from dpstats.privacy.stages import Block, JointStage
from dpstats.release.additive import JointIntegers

# One row for each unit, which depends on that unit's rows alone

Floats = NDArray[np.float64]


def one_row_per_unit(
    frame: Any, unit: Any, how: Mapping[Any, str], max_rows: int | None = None, *, called: str | None = None
) -> Any:
    """Return a data frame with one row for each unit, so that every release from it protects units.

    The row of a unit depends only on the rows of this unit. A guarantee for one row replaced then holds for one unit
    replaced, with all its rows. The number of units is public; the number of rows of each unit is private.

    Parameters
    ----------
    frame : data frame of pandas
        Private rows. Frames of other libraries raise an error, because they cannot carry the name of the unit.
    unit : column name
        Column that identifies the unit: text, numbers, bytes, times, or tuples of these. A missing entry raises an
        error, which reveals that there is one.
    how : mapping {column: "mean" | "sum" | "min" | "max" | "first" | "count"}
        Aggregate of each column. Missing entries are skipped. A unit with only missing entries gets a missing
        entry, or the count 0. The aggregate "first" is the entry of the unit's first row, and allows columns of any
        type: use it if all rows of a unit have the same entry. Functions are rejected, because they could depend on
        other units.
    max_rows : int, optional
        Largest number of rows of a unit that count. If a unit has more, the rows with the smallest hashes count,
        regardless of the order of the rows and of other units. It bounds sums and counts.
    called : str, optional
        Name of a unit in printed guarantees, such as "person". Default: the name of the column ``unit``.

    Returns
    -------
    data frame
        The columns ``unit`` and the keys of ``how``, in the order of the units. It carries the name of the unit:
        guarantees of fits then end with "one person replaced".

    Notes
    -----
    Releases that do not depend on the order of rows also protect the name of a unit. Releases that split rows by
    position (``SparseMean(split=True)``, ``RandomizedResponse``) protect the rows of a unit, and treat its name as
    public.

    Examples
    --------
    >>> import pandas as pd
    >>> from dpstats.groups import one_row_per_unit
    >>> visits = pd.DataFrame({"person": ["b", "a", "b"], "visits": [1, 5, 4], "sex": ["f", "m", "f"]})
    >>> people = one_row_per_unit(visits, "person", {"visits": "mean", "sex": "first"})
    >>> people
      person  visits sex
    0      a     5.0   m
    1      b     2.5   f
    >>> from dpstats.means import ClippedMean
    >>> print(ClippedMean(bounds=(0, 50), random_state=0).fit(people[["visits"]]).privacy_)
    (epsilon = 1, delta = 0), one person replaced [simulated noise, not a private release]
    """
    names = column_names(frame)
    if names is None:
        raise refuse_data("frame", got=show(frame), allowed="a data frame")
    if not hasattr(frame, "iloc"):
        library = type(frame).__module__.partition(".")[0]
        raise refuse_data(
            "frame",
            got=f"{type(frame).__name__} of {library}",
            allowed="a data frame of pandas, which keeps what a row is",
            remedy="Convert it, for example by frame.to_pandas().",
        )
    _check_how(how)
    if not is_public(unit):
        remedy = "Put the entries into the frame as a column, and give its name: unit='name'."
        raise refuse("unit", given=unit, allowed="the name of a column", remedy=remedy)
    refuse_unknown("unit", [unit], names)
    refuse_unknown("how", list(how), names)
    _check_kinds(how)
    if unit in how:
        raise refuse("how", allowed=f"not have {show(unit)}, the unit")
    if max_rows is not None:
        check_integer("max_rows", max_rows, at_least=1)
    word = str(unit) if called is None else called
    if not isinstance(word, str) or not word.strip():
        raise refuse("called", given=called, allowed="the name of a unit, such as 'person'")

    units = Units.of(column(frame, unit), "unit")
    if not len(units):
        raise refuse_data("unit", allowed="have at least one row")
    read = {name: _column(frame, name, kind) for name, kind in how.items()}
    rows = units.rows(read.values(), max_rows)
    made = {unit: take(frame, unit, units.firsts)}
    for name, kind in how.items():
        kept = _KINDS[kind](read[name], rows)
        made[name] = take(frame, name, kept) if kind == "first" else kept
    import pandas as pd

    return declare_unit(pd.DataFrame(made), word)


class Units:
    """Which rows belong to which unit, units in the order of their names: a place that other units' rows do not move.

    Attributes
    ----------
    firsts : int64 array
        The first row of each unit.
    codes : int64 array
        The place of each row's unit.
    """

    def __init__(self, firsts: NDArray[np.int64], codes: NDArray[np.int64]) -> None:
        self.firsts, self.codes = firsts, codes

    @classmethod
    def of(cls, data: Any, parameter: str = "units") -> Units:
        """Return the units of rows, or refuse a missing one."""
        values, where = distinct(parameter, data)
        places = np.arange(len(values)) if where is None else where
        # Of a column of one type, its different values; not all that it could have need be there.
        present, place = np.unique(places, return_inverse=True)
        keys = [key_of(values[i]) for i in present]
        if any(key is None or key == MISSING or not is_built_in(key) for key in keys):
            raise refuse_data(
                parameter,
                got="at least one entry that is missing or of another type",
                allowed="text, numbers, bytes, times or tuples of these",
            )
        ordered = {key: i for i, key in enumerate(sorted(set(keys), key=_order))}
        codes = np.array([ordered[key] for key in keys], dtype=np.int64)[place]
        return cls(np.unique(codes, return_index=True)[1], codes)

    def __len__(self) -> int:
        return len(self.firsts)

    def rows(self, columns: Any, max_rows: int | None) -> list[NDArray[np.int64]]:
        """Return the rows of each unit in the order of the data, at most ``max_rows``."""
        order = np.argsort(self.codes, kind="stable")
        found = np.split(order, np.flatnonzero(np.diff(self.codes[order])) + 1)
        if max_rows is None:
            return found
        columns = list(columns)
        return [own if len(own) <= max_rows else _choose_rows(own, columns, max_rows) for own in found]


def _order(key: Any) -> tuple[str, Any]:
    """Return the sort key of a unit: numbers sort by size, other keys by their text."""
    kind, *rest = key
    if rest and isinstance(rest[0], Decimal):  # which does not compare with fractions
        rest = [Fraction(rest[0]) if rest[0].is_finite() else float(rest[0])]
    return (kind, (0, rest[0], "")) if kind == "number" else (kind, (1, 0, repr(rest)))


def _choose_rows(own: NDArray[np.int64], columns: Sequence[Sequence[Any]], most: int) -> NDArray[np.int64]:
    """Return the kept rows of a unit: the rows with the smallest hashes of their entries."""
    hashes = [hashlib.sha256(repr([key_of(values[row]) for values in columns]).encode()).digest() for row in own]
    chosen = sorted(range(len(own)), key=hashes.__getitem__)[:most]
    return np.asarray(own[np.sort(chosen)])


def _check_how(how: Any) -> None:
    allowed = ", ".join(map(repr, _KINDS))
    if not isinstance(how, Mapping) or not how:
        got = "no column" if isinstance(how, Mapping) else type(how).__name__
        raise refuse("how", got=got, allowed=f"a mapping {{column: one of {allowed}}}")


def _check_kinds(how: Mapping[Any, Any]) -> None:
    """Refuse a rule that is not known. Its column is one of the frame, so that its name is public."""
    for name, kind in how.items():
        if not isinstance(kind, str) or kind not in _KINDS:
            reason = "A function might look at more than one unit." if callable(kind) else ""
            allowed = ", ".join(map(repr, _KINDS))
            raise refuse(f"how[{name!r}]", given=kind, allowed=f"one of {allowed}", remedy=reason)


def _column(frame: Any, name: Any, kind: str) -> Any:
    """Return a column's entries: as numbers, or unchanged if the aggregate needs no arithmetic."""
    values = column(frame, name)
    if kind not in ("first", "count"):
        return column_of(f"frame[{name!r}]", values)
    found, where = distinct(f"frame[{name!r}]", values)
    return found if where is None else [found[place] for place in where]


# Aggregates of a unit's entries. Sums are rounded once, so that they do not depend on the order of rows.


def _sum(values: list[float]) -> float:
    if not values:
        return math.nan
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):  # beyond the largest float, or infinities of both signs
        return math.nan


def _mean(values: list[float]) -> float:
    return _sum(values) / len(values) if values else math.nan


def _aggregate_numbers(kept: Callable[[list[float]], float]) -> Callable[[Any, list[NDArray[np.int64]]], Any]:
    def aggregate(values: Any, rows: list[NDArray[np.int64]]) -> Any:
        # A missing entry is NaN, which differs from itself.
        present = ([value for value in values[own].tolist() if value == value] for own in rows)
        return np.array([kept(entries) for entries in present], dtype=np.float64)

    return aggregate


def _first(values: Any, rows: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the row of each unit's first entry that is not missing, or its first row if all are missing."""
    return np.array([next((row for row in own if not is_missing(values[row])), own[0]) for own in rows])


def _count(values: Any, rows: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.array([sum(not is_missing(values[row]) for row in own) for own in rows], dtype=np.int64)


_KINDS: dict[str, Callable[[Any, list[NDArray[np.int64]]], Any]] = {
    "mean": _aggregate_numbers(_mean),
    "sum": _aggregate_numbers(_sum),
    "min": _aggregate_numbers(lambda values: min(values, default=math.nan)),
    "max": _aggregate_numbers(lambda values: max(values, default=math.nan)),
    "first": _first,
    "count": _count,
}


# Totals over units, and their joint sensitivity to replacing a unit

Steps = NDArray[np.int64]
TOTALS = "totals of the units"
ROWS, SUMS, SQUARES, ROWS_SQUARED, PRODUCTS = ("rows", "sums", "squared sums", "squared rows", "rows times sums")
COUNT_WEIGHT, SQUARE_WEIGHT, SPREAD_WEIGHT = 1.5, 0.7, 0.5
"""Free: a^2 + w^2 + v^2 <= 3 and w^2 + v^2 <= 2."""
PRODUCT_WEIGHT = 0.25
"""Costs 3% more noise on all."""
ADDED_COUNT_WEIGHT = 1.0
"""Weight of the number of rows, if a unit is added or removed: it then costs as much as the sums."""
_SAFE = 1 + 1e-12


# A unit is the number c of its rows, at most m, and the sum s of their z in [-1, 1]^d: |s| <= c in every column. In
# parts of m, the sums of c, s^2 and c^2 add no noise to the sum of s, and the sum of s c adds a little.
@dataclass(frozen=True)
class UnitTotals:
    """Totals of units of at most ``max_rows`` rows; d columns of 2^bits steps each."""

    n_features: int
    max_rows: int
    bits: int
    neighbors: Neighbors = Neighbors.REPLACE_ONE

    @property
    def largest(self) -> int:
        """The most steps of a unit's sum."""
        return self.max_rows << self.bits

    def integers(self) -> JointIntegers:
        """Return the integers of a stage that releases these totals, in parts of ``max_rows`` rows."""
        M, d = float(self.largest), self.n_features
        step, root = 1 / M, math.sqrt(d)
        added = self.neighbors is Neighbors.ADD_OR_REMOVE_ONE
        count = ADDED_COUNT_WEIGHT if added else COUNT_WEIGHT
        blocks = (
            Block(ROWS, 1, step, 1 / (count * root)),
            Block(SUMS, d, step, 1.0),
            Block(SQUARES, d, step, 1 / SQUARE_WEIGHT),
            Block(ROWS_SQUARED, 1, step, 1 / (SPREAD_WEIGHT * root)),
            Block(PRODUCTS, d, step, 1 / PRODUCT_WEIGHT),
        )
        if added:
            # All parts of a unit are at most M, also after rounding. All reach M if all rows are at one bound.
            weights = (count, 1.0, SQUARE_WEIGHT, SPREAD_WEIGHT, PRODUCT_WEIGHT)
            moved = math.fsum(weight**2 for weight in weights) * M**2
            return JointIntegers(TOTALS, blocks, math.inf, math.sqrt(d * moved) * _SAFE)
        # Squares and products are rounded down: the difference of two has an error below one step.
        theta = 4 / M
        exact = 4 * (1 + PRODUCT_WEIGHT**2) * M**2
        rounding = SQUARE_WEIGHT**2 + SPREAD_WEIGHT**2 + PRODUCT_WEIGHT**2
        moved = (1 + theta) * exact + (1 + 1 / theta) * rounding
        return JointIntegers(TOTALS, blocks, math.inf, math.sqrt(d * moved) * _SAFE)

    def contribute(self, sums: Steps, counts: Steps) -> dict[str, Steps]:
        """Return the contribution of each unit, given the sums in steps, of shape (units, d), and the row counts."""
        M, rows = self.largest, counts[:, None] << self.bits
        return {
            ROWS: rows,
            SUMS: sums,
            SQUARES: sums * sums // M,
            ROWS_SQUARED: rows * rows // M,
            PRODUCTS: sums * rows // M,
        }

    def noise(self, stage: JointStage) -> Noise:
        """Return the noise of the totals."""
        std = {block.name: float(np.max(stage.noise_std(block))) for block in stage.blocks}
        return Noise(std[SUMS], std[ROWS], std[SQUARES], std[PRODUCTS], std[ROWS_SQUARED], 0.0)

    def ratio(self, released: Any, noise: Noise) -> Ratio:
        """Return the ratios of the released totals that estimate the means, of shape (..., n_features)."""
        T, N, Q, X, R = (
            np.asarray(released[name], dtype=np.float64) for name in (SUMS, ROWS, SQUARES, PRODUCTS, ROWS_SQUARED)
        )
        return Ratio(T, N, Q, X, R, noise, counts=False)


LOW, HIGH, LOW_SQUARED, BETWEEN, HIGH_SQUARED = (
    "lower parts not squared",
    "upper parts not squared",
    "squared lower parts",
    "products of both parts",
    "squared upper parts",
)


# The lower part l = (c - s)/2 and the upper part u = (c + s)/2 of a unit are at least 0, and add up to c. So do l^2,
# 2 l u, u^2, l (1 - c) and u (1 - c), also after rounding: squares cost nothing in l1.
@dataclass(frozen=True)
class LaplaceUnitTotals:
    """Totals of units of at most ``max_rows`` rows under Laplace noise: five parts of each column, which add up to c.

    A column has 2^bits steps.
    """

    n_features: int
    max_rows: int
    bits: int
    neighbors: Neighbors = Neighbors.REPLACE_ONE

    @property
    def largest(self) -> int:
        """The most steps of all parts of a unit: its rows in half steps."""
        return self.max_rows << self.bits + 1

    def integers(self) -> JointIntegers:
        """Return the integers of a stage that releases these totals, in parts of ``max_rows`` rows."""
        d, M = self.n_features, self.largest
        names = LOW, HIGH, LOW_SQUARED, BETWEEN, HIGH_SQUARED
        blocks = tuple(Block(name, d, 1 / M, 1.0) for name in names)
        units = 2.0 if self.neighbors is Neighbors.REPLACE_ONE else 1.0
        return JointIntegers(TOTALS, blocks, units * d * M, math.inf)

    def contribute(self, sums: Steps, counts: Steps) -> dict[str, Steps]:
        """Return the contribution of each unit, given the sums in steps, of shape (units, d), and the row counts."""
        M, rows = self.largest, counts[:, None] << self.bits
        low, high = rows - sums, rows + sums
        squared, product, other = low * low // M, low * high // M, high * high // M
        return {
            LOW: low - squared - product,
            HIGH: high - product - other,
            LOW_SQUARED: squared,
            BETWEEN: 2 * product,
            HIGH_SQUARED: other,
        }

    def noise(self, stage: JointStage) -> Noise:
        """Return the noise of the totals: all parts have the same."""
        scale = float(np.max(stage.noise_scale(stage.blocks[0])))
        one, d = 2 * scale**2, self.n_features
        count, square, spread = math.sqrt(5 * one / d), math.sqrt(3 * one), math.sqrt(3 * one / d)
        total, cross = math.sqrt(4 * one), math.sqrt(2 * one)
        return Noise(total, count, square, cross, spread, one / d, scale, d, 5)

    def ratio(self, released: Any, noise: Noise) -> Ratio:
        """Return the ratios of the released totals that estimate the means, of shape (..., n_features)."""
        low, high, first, between, last = (
            np.asarray(released[name], dtype=np.float64) for name in (LOW, HIGH, LOW_SQUARED, BETWEEN, HIGH_SQUARED)
        )
        # Every column counts the same rows.
        R = (first + between + last).mean(axis=-1, keepdims=True)
        N = R + (low + high).mean(axis=-1, keepdims=True)
        X = last - first
        return Ratio(X + high - low, N, first - between + last, X, R, noise, counts=False)


def unit_sums(
    X: NDArray[Any],
    codes: Steps,
    n_units: int,
    kept: NDArray[np.bool_],
    lattice: BoxLattice,
    totals: UnitTotals | LaplaceUnitTotals,
) -> dict[str, Steps]:
    """Return the exact totals of all units: each is cut to its ``max_rows`` rows before they are added up.

    A unit with more rows keeps the rows with the smallest hashes of their steps. This choice does not depend on the
    order of the rows, nor on other units.
    """
    steps = lattice.round_rows(X[kept])
    own = codes[kept]
    counts = np.bincount(own, minlength=n_units)
    inside = np.ones(len(own), dtype=bool)
    order = np.argsort(own, kind="stable")
    ends = np.cumsum(counts)
    for unit in np.flatnonzero(counts > totals.max_rows):
        rows = order[ends[unit] - counts[unit] : ends[unit]]
        hashes = [hashlib.sha256(np.ascontiguousarray(steps[row], dtype="<i8").tobytes()).digest() for row in rows]
        inside[rows[sorted(range(len(rows)), key=hashes.__getitem__)[totals.max_rows :]]] = False
    own, steps = own[inside], steps[inside]
    # At most 2^30 a unit: exact as floats.
    sums = np.stack([as_int64(np.bincount(own, weights=column, minlength=n_units)) for column in steps.T], axis=1)
    found = totals.contribute(sums, as_int64(np.bincount(own, minlength=n_units)))
    return {name: values.sum(axis=0) for name, values in found.items()}
