"""Cells of a survival table: events by bin and cause, and censored rows shared between the edges of their bin.

Proof: docs/proofs/survival.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.tables import Table
from dpstats.errors import refuse_data

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]

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
        Whether the last group is of rows with undeclared labels, which are refused otherwise.

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
        found = self._add_weights(
            first[event] + (codes[event] - 1) * m + bins[event], np.full(event.sum(), float(one))
        )
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
                remedy="Correct it by a rule for its row alone, such as a missing time counts as censored at 0.",
            )
    codes = as_int64(table.event)
    if bool((codes < 0).any()):
        raise refuse_data(
            "event",
            got="at least one entry that is missing or something else",
            allowed="hold declared values only (by default 0 for censored and 1 for an event)",
            remedy="Declare its value in causes or as censored.",
        )
    groups = np.zeros(len(times), dtype=np.int64) if table.groups is None else table.groups
    if others is not None:
        groups = np.where(groups < 0, others, groups)
    if bool((groups < 0).any()):
        raise refuse_data(
            "labels",
            got="at least one entry that is missing or something else",
            allowed="declared groups",
            remedy="Declare it in groups (None is the label of missing entries).",
        )
    return times, codes, groups
