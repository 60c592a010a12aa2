"""Several rows of a unit, such as a person: one row for each unit, totals over units, and the mean of all rows.

The mean is a ratio of sums over units, which are the units of privacy. Proof: docs/proofs/mean-per-row.md.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.columns import column, distinct, refuse_unknown, take
from dpstats.data.parameters import check_integer, check_privacy_parameters, check_real, column_names, declare_unit
from dpstats.data.rows import Rows, column_of
from dpstats.data.schema import Column, Schema, column_list
from dpstats.data.values import MISSING, is_built_in, is_missing, key_of
from dpstats.errors import is_public, refuse, refuse_data, show
from dpstats.groups.ratios import RatioEstimator, RatioPlan
from dpstats.inference.reports import SIMULATED
from dpstats.inference.results import Summary, significant
from dpstats.lattice import BITS, BoxLattice
from dpstats.lattice.rounding import rows_that_count
from dpstats.means.moments import Region, finest
from dpstats.means.ratio import Noise, Ratio
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee, parse_neighbors, plural
from dpstats.privacy.stages import Block, JointStage
from dpstats.release.additive import JointIntegers, additive_stages, check_size, record_size
from dpstats.release.estimator import fitted, parameters, privacy_facts
from dpstats.release.session import Released

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
        Largest number of rows of a unit that count. If a unit has more, the rows with the smallest hashes of the unit
        and the row count, regardless of the order of the rows and of other units. It bounds sums and counts.
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
    keys : list
        What the names of units are compared by, in order.
    """

    def __init__(self, firsts: NDArray[np.int64], codes: NDArray[np.int64], keys: list[Any]) -> None:
        self.firsts, self.codes, self.keys = firsts, codes, keys

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
        return cls(np.unique(codes, return_index=True)[1], codes, list(ordered))

    def __len__(self) -> int:
        return len(self.firsts)

    def rows(self, columns: Any, max_rows: int | None) -> list[NDArray[np.int64]]:
        """Return the rows of each unit in the order of the data, at most ``max_rows``."""
        order = np.argsort(self.codes, kind="stable")
        found = np.split(order, np.flatnonzero(np.diff(self.codes[order])) + 1)
        if max_rows is None:
            return found
        columns = list(columns)
        return [
            own if len(own) <= max_rows else _choose_rows(key, own, columns, max_rows)
            for key, own in zip(self.keys, found, strict=True)
        ]


def _order(key: Any) -> tuple[str, Any]:
    """Return the sort key of a unit: numbers sort by size, other keys by their text."""
    kind, *rest = key
    if rest and isinstance(rest[0], Decimal):  # which does not compare with fractions
        rest = [Fraction(rest[0]) if rest[0].is_finite() else float(rest[0])]
    return (kind, (0, rest[0], "")) if kind == "number" else (kind, (1, 0, repr(rest)))


def _choose_rows(unit: Any, own: NDArray[np.int64], columns: Sequence[Sequence[Any]], most: int) -> NDArray[np.int64]:
    """Return the kept rows of a unit: the rows with the smallest hashes of the unit and their entries.

    Without the unit, the same entries would be kept in all units. Equal rows are numbered.
    """
    hashes, seen = [], Counter[str]()
    for row in own:
        entries = repr([key_of(values[row]) for values in columns])
        seen[entries] += 1
        hashes.append(hashlib.sha256(repr((unit, entries, seen[entries])).encode()).digest())
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
        return Ratio(T, N, Q, X, R, noise, counts=False, bias=2.0 ** -(self.bits + 1))


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
        bias = 2.0 ** -(self.bits + 1)
        return Ratio(X + high - low, N, first - between + last, X, R, noise, counts=False, bias=bias)


def unit_sums(
    X: NDArray[Any],
    codes: Steps,
    n_units: int,
    kept: NDArray[np.bool_],
    lattice: BoxLattice,
    totals: UnitTotals | LaplaceUnitTotals,
) -> dict[str, Steps]:
    """Return the exact totals of all units. A unit with more than ``max_rows`` rows counts as that many, at its mean.

    A choice among its rows could depend on their values only, because their order is not kept. It would be the same in
    all units, and bias the mean of columns with few values.
    """
    steps = lattice.round_rows(X[kept])
    own = codes[kept]
    counts, most = np.bincount(own, minlength=n_units), totals.max_rows
    sums = np.zeros((n_units, steps.shape[1]), dtype=np.int64)
    np.add.at(sums, own, steps)
    many = counts > most
    # The nearest integer to sum * most / count. The remainder is below 2^31, and max_rows at most 2^30.
    whole, rest = np.divmod(sums[many], counts[many, None])
    sums[many] = whole * most + (2 * rest * most + counts[many, None]) // (2 * counts[many, None])
    found = totals.contribute(sums, np.minimum(counts, most))
    return {name: values.sum(axis=0) for name, values in found.items()}


# The mean of all rows


_MOST_ROWS = 1 << 16
_EXAMPLE = 1000  # units


@dataclass(frozen=True)
class MeanPerRowPlan(RatioPlan[UnitTotals | LaplaceUnitTotals]):
    """The plan of a `MeanPerRow`; ``n_planned`` is a number of units."""

    def mean_noise(self, n_rows: float) -> Floats:
        """Return the standard deviation of the noise in a mean of ``n_rows`` rows, in units of the data.

        For a mean in the middle of its bounds. At a bound, the noise of the count adds a fifth to it.
        """
        rows = check_real("n_rows", n_rows, above=0)
        return self.half * self.totals_noise.total * self.totals.max_rows / rows

    def notes(self) -> list[str]:
        """Return the notes that a reader of the plan needs, one line each."""
        n = _EXAMPLE if self.n_planned is None else self.n_planned
        noise = ", ".join(f"{value:.3g}" for value in self.mean_noise(n)[:6])
        units = f"each of {n} units" if self.n_planned is None else "each"
        most, more = self.totals.max_rows, ", ..." if self.n_features > 6 else ""
        found = [
            f"totals are in half-widths of the bounds, and parts of {most} rows",
            f"if {units} has one row: noise of the mean {noise}{more}; with k rows each, a k-th of it (at most {most} "
            "rows count)",
        ]
        # The number of rows is private: at least one of each unit, and at most `most`.
        enough = 2 * self.totals_noise.count * most
        if self.n_planned is not None and self.n_planned < enough:
            found.append(
                f"warning: fewer than {enough:.0f} rows cannot be distinguished from noise, and {n} units have "
                f"{n * most:,} at most: intervals can be the bounds (more units, a larger epsilon or a smaller "
                "max_rows help)"
            )
        return found


def unit_places(units: Any) -> NDArray[np.int64]:
    """Return the place of each row's unit in the order of their names."""
    return Units.of(units).codes


@parameters
class MeanPerRow(RatioEstimator[MeanPerRowPlan]):
    """Private mean of all rows, with a guarantee for people (or other units) who have several rows.

    A person with ten rows counts ten times. For a mean in which each person counts once, combine the rows with
    `one_row_per_unit` and use another estimator.

    Parameters
    ----------
    columns : sequence of column names, optional
        Columns to estimate, if ``unit`` is given. Default: the columns that ``bounds`` names, or all others.
    bounds : (low, high) or array-like of shape (n_features, 2)
        Public bounds of every column, known without the data. A mapping ``{column: (low, high)}`` or a data frame with
        one row per column is matched to the columns by name.
    bounds_are : {"clip", "hard"}, default="clip"
        Whether entries can lie outside the bounds. "clip": they can, and are moved to the nearer bound. "hard": they
        cannot, as for an age.
    max_rows : int
        Public largest number of rows of a unit that count. A unit with more rows counts as ``max_rows`` rows, at the
        mean of all its rows. The noise is proportional to ``max_rows``.
    unit : column name, optional
        Column of a data frame that identifies the unit of each row. ``fit(frame)`` then needs no ``y``.
    called : str, optional
        Name of a unit in the printed guarantee, such as "person". Default: the name of the column, or "unit".
    missing : {"error", "drop"}, default="error"
        Treatment of rows with a NaN or infinite entry. "error" raises `InvalidData`; the error reveals that there is
        such a row. "drop" leaves the row out.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    neighbors : {"replace_one", "add_or_remove"}, default="replace_one"
        Neighboring datasets. "add_or_remove": one unit is added or removed, with all its rows. The number of units is
        then private, and is not released.
    epsilon : float, default=1.0
        Privacy parameter for a unit with all its rows. Must be positive.
    delta : float, default=1e-6
        Privacy parameter, in [0, 1). Of Laplace noise at delta = 0 and Gaussian noise, the plan takes the smaller, and
        its guarantee says which. Laplace noise is smaller for few columns.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges before it draws noise. Clones share it.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Private estimate in the units of the data, inside the bounds. NaN if the 95% interval holds all values between
        the bounds.
    rows_ : float
        Noisy number of rows that count.
    rows_noise_std_ : float
        Standard deviation of the noise in ``rows_``.
    n_, n_noise_std_ : float
        The same as ``rows_`` and ``rows_noise_std_``. Only with ``neighbors="add_or_remove"``; ``n_interval()`` is its
        interval.
    noise_std_ : ndarray of shape (n_features,)
        Standard deviation of the noise in ``mean_``, for ``rows_`` rows.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one unit with all its rows. The number of units
        is public, unless ``neighbors="add_or_remove"``; the number of rows is private.
    plan_ : MeanPerRowPlan
        The release plan: every released quantity and its noise.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names. Only if ``X`` has column names.

    Notes
    -----
    **Estimand.** Intervals cover the mean of the population's rows after clipping. A unit counts as ``max_rows`` rows
    or fewer, at its mean.

    **Intervals.** Intervals invert a test of every value (Fieller 1954). They assume independent units. Rows of
    one unit can depend on each other in any way.

    **Limits.** Rare events undercover, and few units more so, because all rows of a unit may have the event. Units
    with more than ``max_rows`` rows count less, which changes the mean if they differ from others.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.groups import MeanPerRow
    >>> rng = np.random.default_rng(0)
    >>> person = np.repeat(np.arange(4000), rng.integers(1, 6, 4000))
    >>> visits = rng.poisson(3.0, (person.size, 1))
    >>> mean = MeanPerRow(bounds=(0, 20), max_rows=5, called="person", random_state=0).fit(visits, person)
    >>> mean.mean_.round(2)
    array([2.96])
    >>> print(mean.privacy_)
    (epsilon = 1, delta = 0), one person replaced [simulated noise, not a private release]
    """

    columns: Any = None
    bounds: Any = None
    bounds_are: str = "clip"
    max_rows: Any = None
    unit: Any = None
    called: Any = None
    missing: str = "error"
    missing_codes: Any = None
    neighbors: Any = "replace_one"
    epsilon: float = 1.0
    delta: float = 1e-6
    random_state: Any = None
    budget: Any = None
    mean_: Floats = fitted()
    rows_: float = fitted()
    rows_noise_std_: float = fitted()
    noise_std_: Floats = fitted()

    def plan(self, n_samples: int | None, n_features: int) -> MeanPerRowPlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples : int
            The number of units, which is public. With ``neighbors="add_or_remove"`` it enters expected errors only, and
            may be None.
        n_features : int
            The number of columns whose means are wanted.
        """
        n, neighbors = check_size(self, n_samples), parse_neighbors(self.neighbors)
        d = check_integer("n_features", n_features, at_least=1)
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        if self.max_rows is None:
            raise refuse("max_rows", allowed="given: how many rows of a unit count, which is public")
        most = check_integer("max_rows", self.max_rows, at_least=1, at_most=_MOST_ROWS)
        missing = self._policy()
        if self.bounds is None:
            raise refuse("bounds", allowed="given: a pair (low, high), or one per column")
        word = self._word()
        region = Region.check(self.bounds, self.bounds_are, None, 0.0, d)

        def make_plan(delta: float) -> MeanPerRowPlan:
            totals_of, guarantee = (
                UnitTotals if delta else LaplaceUnitTotals,
                PrivacyGuarantee(epsilon, delta, neighbors, unit=word),
            )

            def build(bits: int) -> MeanPerRowPlan:
                # A unit's sum has as many bits as an entry has elsewhere; its lower and upper parts have half steps.
                own = bits - math.ceil(math.log2(most)) - (not delta)
                lattice = BoxLattice.build(
                    region.clip, region.center, d, common=False, bits=own, ends=(region.low, region.high)
                )
                totals = totals_of(d, most, own, neighbors)
                stages = additive_stages([totals.integers()], epsilon, delta, neighbors=neighbors)
                return MeanPerRowPlan(
                    stages, guarantee, n, d, region=region, lattice=lattice, totals=totals, missing=missing
                )

            return build(BITS) if most > 2**4 else finest(build)

        return self._smaller_noise(
            make_plan, delta, lambda plan: np.hypot(plan.totals_noise.total, plan.totals_noise.count)
        )

    def _schema(self) -> Schema:
        if self.unit is None and self.columns is not None:
            raise refuse("columns", allowed="given with unit, the column that names the unit of each row")
        meaning = "the unit of each row (or unit, the column of a data frame with this information)"
        parameter = "y" if self.unit is None else "unit"
        units = Column("units", self.unit, None, parameter, unit_places, meaning)
        return replace(super()._schema(), numbers=column_list(self.columns), beside=(units,))

    def _word(self) -> str:
        """Return the name of a unit."""
        if self.called is not None and not (isinstance(self.called, str) and self.called.strip()):
            raise refuse("called", given=self.called, allowed="the name of a unit, such as 'person'")
        return self.called or (str(self.unit) if self.unit is not None else "unit")

    def _row_is(self, unit: str) -> str:
        return self._word() if unit == "row" else unit

    def _read(self, rows: Rows, plan: MeanPerRowPlan) -> Mapping[str, Any]:
        table = rows.whole()
        assert table.units is not None
        kept = rows_that_count(table.X, plan.missing)
        return {TOTALS: unit_sums(table.X, table.units, table.shape[0], kept, plan.lattice, plan.totals)}

    def _report(self, released: Released, plan: MeanPerRowPlan) -> None:
        noise, most = plan.totals_noise, plan.totals.max_rows
        self._ratio = ratio = plan.totals.ratio(released[TOTALS], noise)
        self.rows_, self.rows_noise_std_ = float(ratio.N[0]) * most, noise.count * most
        if plan.has_private_size:
            record_size(self, self.rows_, noise.rows.scale(most))
        self.mean_ = self._known_means()
        rows = max(self.rows_, self.rows_noise_std_)
        self.noise_std_ = plan.mean_noise(rows) * np.sqrt(1 + (ratio.estimate * noise.count / noise.total) ** 2)

    def _estimand(self) -> str:
        word, most = self.privacy_.unit, self.plan_.totals.max_rows
        clipped = "" if self.plan_.region.hard else ", clipped"
        return f"the mean of the population's rows, at most {most} of a {word}{clipped}"

    def _all_names(self) -> list[str]:
        return self._column_names()

    def summary(self, confidence_level: float | None = None) -> Summary:
        """Return a table of means, noise and intervals; prints as text, shows as HTML in a notebook."""
        found, word = self.estimates(), self.privacy_.unit
        units, columns = plural(word), f"{self.plan_.n_features:,} (public)"
        if self.plan_.has_private_size:
            sizes = "Columns", f"{columns}; the number of {units} is private"
        else:
            sizes = f"{units[0].upper()}{units[1:]}, columns", f"{self.plan_.n_samples:,}, {columns}"
        facts = [
            ("Estimator", type(self).__name__),
            (f"Of each {word}", f"at most {self.plan_.totals.max_rows} rows"),
            sizes,
            ("Rows", f"{significant(self.rows_, self.rows_noise_std_)} (noise sd {self.rows_noise_std_:.3g})"),
            *privacy_facts(self),
            ("Noise", "Gaussian, exact curve" if self.privacy_.delta else "Laplace"),
        ]
        notes = [
            *[SIMULATED] * self.privacy_.simulated,
            f"Intervals assume that each {word} is an independent observation, with rows of any kind.",
        ]
        if self.rows_ < 2 * self.rows_noise_std_:
            notes.append("Noise only: the number of rows cannot be distinguished from 0.")
        found = replace(found, title="Private mean of rows", noise=self.noise_std_, facts=facts, notes=notes)
        return found.summary(confidence_level)
