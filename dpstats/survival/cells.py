"""Cells of a survival table, their sums at several levels of time, and the base class of the estimators.

Proof: docs/proofs/survival.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_integer
from dpstats.data.rows import Table, drops_undeclared, refuse_undeclared
from dpstats.data.schema import Categories, Column, Schema, check_is_name, unit_codes
from dpstats.data.values import as_int64
from dpstats.errors import refuse, refuse_data
from dpstats.privacy.plan import ReleasePlan
from dpstats.release.additive import Integers
from dpstats.release.estimator import PrivateEstimator

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]


# Cells: events by bin and cause, and censored rows shared between the edges of their bin

CELLS, POSITIONS = "cells", "positions"
_ROUNDING = 1e-12
"""A discrete time counts as an edge within this part of it: steps of a tenth, say, are not exact in binary."""


# A row has a weight of 2^bits steps. An event adds all of it to its bin. A censored row divides it between the two
# edges of its bin, in proportion to its position. A row beyond the horizon adds it to the last edge. Discrete times
# are moved to edges first. Two further sums of each bin say where in it the events and the censored rows are.
@dataclass(frozen=True)
class Cells:
    """The public cells of a table, and what each row adds to them.

    Attributes
    ----------
    edges : tuple of float
        0 and the right edges of the bins, increasing. Bins are open at the left end and closed at the right one. With a
        first bin for events at time 0, 0 is there twice.
    n_causes, n_groups : int
    bits : int
        A row has a weight of 2^bits steps.
    discrete : bool
        Whether events happen at edges only, so that times are moved to edges.
    position_share : float
        Budget fraction of the positions inside the bins. 0: they are not counted.
    others : bool
        Whether the last group is of rows with undeclared labels, which are refused otherwise. It keeps the number of
        rows of the whole table public, and is in no result.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.survival.cells import Cells
    >>> cells = Cells((0.0, 10.0, 20.0), n_causes=1, n_groups=1, bits=2)
    >>> times, codes, groups = np.array([3.0, 15.0]), np.array([1, 0]), np.array([0, 0])
    >>> cells.count(times, codes, groups).tolist()  # events of the bins, then censored rows of the edges
    [[4, 0, 0, 2, 2]]
    """

    edges: tuple[float, ...] = field(repr=False)
    n_causes: int
    n_groups: int
    bits: int
    discrete: bool = False
    position_share: float = 0.0
    others: bool = False

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return len(self.edges) - 1

    @property
    def n_declared(self) -> int:
        """Number of declared groups."""
        return self.n_groups - self.others

    @property
    def size(self) -> int:
        """Number of cells of a group."""
        return self.n_causes * self.n_bins + self.n_bins + 1

    def count(self, times: Floats, codes: Steps, groups: Steps) -> Steps:
        """Return the cells (n_groups, size) of rows in steps: each row adds 2^bits to its group.

        Parameters
        ----------
        times : array of shape (n,)
            Not negative, finite.
        codes : array of shape (n,)
            0 of a censored row, 1, 2, ... of the causes of an event.
        groups : array of shape (n,)
        """
        edges = np.asarray(self.edges)
        if self.discrete:
            times = times_at_edges(times, codes, edges)
        m, one = self.n_bins, 1 << self.bits
        # The first edge that is not below the time; m + 1 beyond the horizon.
        upper = np.searchsorted(edges, times, side="left")
        beyond = upper > m
        event = (codes > 0) & ~beyond
        bins = np.clip(upper, 1, m) - 1
        first = groups * self.size
        found = self._add_weights(first[event] + (codes[event] - 1) * m + bins[event], np.full(event.sum(), float(one)))
        left, place = ~event, np.where(beyond, m + 1, upper)
        low = np.clip(place[left], 1, m + 1) - 1
        next_edge = np.minimum(low + 1, m)
        share = elapsed_share(times[left], edges[low], edges[next_edge])
        later = np.where(beyond[left], 0.0, np.floor(share * one))
        edge_cells = first[left] + self.n_causes * m
        found += self._add_weights(edge_cells + low, one - later)
        found += self._add_weights(edge_cells + next_edge, later)
        return found.reshape(self.n_groups, self.size)

    def count_positions(self, times: Floats, codes: Steps, groups: Steps) -> Steps:
        """Return the sums of positions (n_groups, 2, n_bins) of rows in steps.

        An event adds 2u - 1 to the first sum of its bin, where u is the part of the bin that is over. A censored row
        adds 4u (1 - u) to the second one, so nothing at an edge. Both are between -2^bits and 2^bits steps. Rows of
        undeclared groups add nothing.
        """
        edges, m, one = np.asarray(self.edges), self.n_bins, 1 << self.bits
        upper = np.searchsorted(edges, times, side="left")
        bins, event = np.clip(upper, 1, m) - 1, codes > 0
        u = elapsed_share(times, edges[bins], edges[bins + 1])
        values = np.rint(np.where(event, 2 * u - 1, 4 * u * (1 - u)) * one)
        values[upper > m] = 0.0
        if self.others:
            values[groups == self.n_groups - 1] = 0.0
        places = (2 * groups + ~event) * m + bins
        found = np.bincount(places, weights=values, minlength=self.n_groups * 2 * m)
        return as_int64(found).reshape(self.n_groups, 2, m)

    def _add_weights(self, places: Steps, weights: Floats) -> Steps:
        # Whole numbers below 2^53: their sums are exact in any order.
        return as_int64(np.bincount(places, weights=weights, minlength=self.n_groups * self.size))

    def totals(self, times: Floats, codes: Steps, groups: Steps) -> dict[str, Steps]:
        """Return all sums of rows by name: the cells, and the positions where they are counted."""
        found = {CELLS: self.count(times, codes, groups)}
        if self.position_share:
            found[POSITIONS] = self.count_positions(times, codes, groups)
        return found

    def __call__(self, table: Table) -> dict[str, Steps]:
        """Return the sums of some rows, or refuse them."""
        return self.totals(*checked_rows(table, self.n_groups - 1 if self.others else None))


def first_edge(cells: Cells) -> int:
    """Return the position of the first edge that is reported: 1 if the first bin is time 0, otherwise 0."""
    return int(cells.edges[1] == 0)


def elapsed_share(times: Floats, start: Floats, end: Floats) -> Floats:
    """Return the part of its bin that is over at each time. The bin of time 0 has no width: it is over at 0."""
    width = end - start
    return np.where(width > 0, np.clip((times - start) / np.where(width > 0, width, 1.0), 0.0, 1.0), 1.0)


def times_at_edges(times: Floats, codes: Steps, edges: Floats) -> Floats:
    """Return discrete times at edges: of an event the first edge from it on, of a censored row the last one up to it.

    So a row that is censored between two edges is not at risk at the later one. Rows beyond the horizon stay there.
    """
    later = np.searchsorted(edges * (1 + _ROUNDING), times, side="left")
    before = np.searchsorted(edges * (1 - _ROUNDING), times, side="right") - 1
    places = np.where(codes > 0, later, before)
    beyond = later == len(edges)
    return np.where(beyond, times, edges[np.where(beyond, 0, places)])


def checked_rows(table: Table, others: int | None = None) -> tuple[Floats, Steps, Steps]:
    """Return times, event codes and group codes, or refuse rows that have no meaning.

    Rows of undeclared groups get the code ``others``, if it is given.
    """
    assert table.event is not None
    with np.errstate(all="ignore"):
        times = np.asarray(table.X[:, 0], dtype=np.float64)
        if not bool((np.isfinite(times) & (times >= 0)).all()):
            raise refuse_data(
                "times",
                got="at least one that is missing, infinite or negative",
                allowed="finite and not negative",
                remedy="Correct it by a rule for its row alone: for example, a missing time counts as censored at 0.",
            )
    codes = as_int64(table.event)
    if bool((codes < 0).any()):
        raise refuse_data(
            "event",
            got="at least one entry that is missing or not declared",
            allowed="hold declared values only (by default 0 for censored and 1 for an event)",
            remedy="Declare its value in causes or as censored. Times come first: fit(times, events).",
        )
    groups = np.zeros(len(times), dtype=np.int64) if table.groups is None else table.groups
    if others is not None:
        groups = np.where(groups < 0, others, groups)
    if bool((groups < 0).any()):
        raise refuse_undeclared("labels", "groups")
    return times, codes, groups


# Sums of cells at up to three levels of time, and their least squares

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
def levels_for(n_bins: int, n_causes: int, pure: bool, position_share: float = 0.0, pooled: bool = False) -> Levels:
    """Return the levels of a table, which are made once."""
    return Levels(n_bins, n_causes, pure, position_share, pooled)


def default_bins(n_samples: int, epsilon: float, n_groups: int) -> int:
    """Return the default number of bins: between 8 and 50, more where noise is small."""
    per_group = n_samples * (epsilon if epsilon > 1 else epsilon**2) / (100 * n_groups)
    return int(min(max(round(min(per_group, 50.0)), 8), 50))


# Base class of the estimators

Plan = TypeVar("Plan", bound=ReleasePlan)
MOST_ROWS = 2**31


class SurvivalEstimator(PrivateEstimator[Plan], ABC):
    """Base of the estimators whose rows are a time, an event and perhaps a group."""

    _one_column = True

    time: Any
    event: Any
    by: Any
    unit: Any
    groups: Any
    censored: Any
    entry: Any
    unknown: str

    _min_samples = 1

    @abstractmethod
    def plan(self, n_samples: int, n_features: int = 1) -> Plan:
        """Return the plan of a fit on data of this size."""

    # The event is the second argument, as in other survival packages, where other estimators take y.
    def fit(self, X: Any, event: Any = None, y: Any = None) -> Self:  # type: ignore[override]
        """Release the table from rows of one subject each.

        Bad parameters and bad data raise before anything is charged.

        Parameters
        ----------
        X : sequence of times of length n_samples, or a container of rows
            Private: the time of the event or of censoring. Or a data frame, a DuckDB relation, the path of a file or a
            Dask frame with the columns that the estimator names by ``time``, ``event`` and ``by``.
        event : sequence of length n_samples, or column name, optional
            Private: 1 for an event and 0 for a censored time, or as declared by ``causes`` and ``censored``. Not given
            where the estimator names the column.
        y : sequence of length n_samples, or column name, optional
            Private: the group of each row. Not given without groups, or where the estimator names the column by ``by``.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameter
            If a parameter is outside its allowed range.
        InvalidData
            If a time is negative or missing, an event is not declared, or a subject has several rows. With
            ``unknown="error"``, if a group is not declared.
        BudgetExceeded
            If the budget cannot pay.
        """
        given = [part for part in (event, y) if part is not None]
        if y is not None and self.groups is None:
            raise refuse("y", allowed="not be given without groups", remedy="Declare the labels of the groups.")
        if self.event is not None and event is not None and (y is not None or self.groups is None):
            raise refuse("event", allowed="not be given twice", remedy="The estimator names its column.")
        return super().fit(X, None if not given else given[0] if len(given) == 1 else tuple(given))

    def _schema(self) -> Schema:
        meaning = "an event indicator for each row, 1 for an event and 0 for a censored time"
        columns = [Column("event", self.event, self._event_kinds(), "event", meaning=meaning)]
        if self.groups is not None:
            labels = "y" if self.by is None else "by"
            means = "the group of each row"
            columns.append(Column("groups", self.by, self._categories(), labels, meaning=means))
        elif self.by is not None:
            raise refuse("groups", allowed="given with by", remedy="Declare the labels of the groups.")
        if self.unit is not None:
            columns.append(Column("units", self.unit, None, "unit", distinct_units))
        check_is_name("time", self.time)
        return Schema(None if self.time is None else (self.time,), tuple(columns), parameter="time")

    def _has_others(self) -> bool:
        """Return whether rows of undeclared groups are in the table, as a group that is in no result."""
        return drops_undeclared(self.unknown) and self.groups is not None

    def _event_kinds(self) -> Categories:
        """Return the declared values of an event: censored first, then the causes."""
        return Categories((self.censored, *self._causes()), "censored and causes")

    def _causes(self) -> tuple[Any, ...]:
        """Return the declared causes of an event."""
        return (1,)

    def _categories(self) -> Categories:
        return Categories(self.groups, "groups")

    def _size(self, n_samples: Any, n_features: Any) -> int:
        """Return the public number of rows, of one column of times each."""
        if self.entry is not None:
            raise refuse(
                "entry",
                given=self.entry,
                allowed="None, because late entry (left truncation) is not available",
                remedy="Give times since entry, or use PrivateStatistic with a function that takes entry times.",
            )
        if check_integer("n_features", n_features, at_least=1) != 1:
            raise refuse(
                "n_features",
                given=n_features,
                allowed="1, because times are one column",
                remedy="Name it, such as time='months', or give it alone as X.",
            )
        return check_integer("n_samples", n_samples, at_least=1, at_most=MOST_ROWS)

    def _row_is(self, unit: str) -> str:
        return str(self.unit) if self.unit is not None and unit == "row" else unit

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def assumptions(cells: Cells) -> list[str]:
    """Return the assumptions of curves and tests, as notes of their summaries."""
    censoring = "Censoring is assumed to be independent of the event time in each group. The data cannot show that."
    smooth = (
        "Events are assumed to be spread smoothly inside the bins. If they happen at the edges only, at scheduled "
        "visits say, give discrete=True."
    )
    if bool((np.diff(cells.edges) == 1).all()):
        smooth += " Bins of one unit are such a case if times are whole numbers."
    return [censoring] if cells.discrete else [censoring, smooth]


def crowding_notes(ends: Any, who: str = "") -> list[str]:
    """Return a warning of bins with these ends, whose events are near one end of them."""
    if not len(ends):
        return []
    bins, them = _name_bins(ends)
    return [
        f"Warning: most events{who} in the {bins} are near one end of {them}. Rows that are censored there "
        "cannot be placed before or after them. Use finer edges, or discrete=True if events happen at the edges only."
    ]


def shape_notes(ends: Any, who: str = "", what: str = "From there on the curve") -> list[str]:
    """Return a warning of bins with these ends: a result depends on the shape of the hazard inside them."""
    if not len(ends):
        return []
    bins, them = _name_bins(ends)
    return [
        f"Warning: many rows{who} have events in the {bins}, and others are censored there. {what} depends on the "
        f"shape of the hazard inside {them}, which the release hardly shows, and may be wrong more often than stated. "
        "Use more bins, or edges that are closer there."
    ]


def _name_bins(ends: Any) -> tuple[str, str]:
    """Return bins with these ends, and a pronoun."""
    named = ", ".join(f"{end:g}" for end in ends[:4]) + (", ..." if len(ends) > 4 else "")
    return (f"bins that end at {named}", "them") if len(ends) > 1 else (f"bin that ends at {named}", "it")


def distinct_units(units: Any) -> Any:
    """Return the codes of units that have one row each, or refuse units that are repeated."""
    codes = unit_codes(units)
    if len(codes) and int(codes.max()) + 1 < len(codes):
        raise refuse_data(
            "unit",
            got="at least one that is repeated",
            allowed="have one row for each subject",
            remedy="Combine the rows of a subject into one, with its time and its event.",
        )
    return codes
