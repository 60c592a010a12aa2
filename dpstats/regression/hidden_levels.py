"""Fits without the declared levels that noise hides: their few rows are left out, and their columns have no slope.

Such a column has nearly no variation, and its error would spread to all other coefficients. The released center decides
which levels these are, so what a row adds depends on that row alone. Proof: docs/proofs/regression.md, "Hidden levels".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.values import as_int64
from dpstats.lattice.products import Sums, above_diagonal
from dpstats.regression.blocks import Block, Question
from dpstats.regression.passes import Floats
from dpstats.regression.path import Estimate, Path
from dpstats.regression.plan import CENTER, DIRECTIONS, RegressionPlan
from dpstats.regression.rows import CURVATURE, GRADIENT

_NOT_KNOWN = 1.0
"""Standard deviation of the linear predictor that a hidden column may add."""


@dataclass(frozen=True, eq=False)
class Kept:
    """The columns that remain, and the value of the others in the rows that remain.

    Attributes
    ----------
    columns : array of bool, shape (d,)
    common : array of shape (d,)
        1 or -1: the end of its bounds at which a hidden column has most of its rows. 0 for a column that remains.
    """

    columns: NDArray[np.bool_]
    common: Floats

    def drop_hidden(self, block: Block) -> Block:
        """Return the rows without the hidden levels and columns."""

        def make() -> Block:
            points = block.points
            some = np.flatnonzero((points[:, :-1] * self.common >= 0).all(axis=1))
            store = points[np.ix_(some, np.flatnonzero(np.append(self.columns, True)))]
            kept: dict[str, Any] | None = None if block.kept is None else {}
            return replace(block.take(some), store=block.arrange(np.ascontiguousarray(store)), kept=kept)

        return block.remember("rows without hidden levels", (self.columns.tobytes(), self.common.tobytes()), make)

    def entries(self, stage: str, name: str) -> NDArray[np.bool_] | None:
        """Return a mask of the entries of a released block for remaining columns. None if it has no columns."""
        own = self.columns if stage == DIRECTIONS else np.append(True, self.columns)
        if name == GRADIENT or name.endswith(", diagonal"):
            return own
        if name.endswith(", above the diagonal"):
            rows, columns = above_diagonal(own.size)
            return np.asarray(own[rows] & own[columns])
        return None


@dataclass(frozen=True, eq=False)
class WithoutLevels(Question):
    """A query about the rows and columns that remain. All sums about hidden columns are 0."""

    query: Question
    kept: Kept
    stage: str

    def sum_rows(self, block: Block) -> Sums:
        sums, found = self.query.sum_rows(self.kept.drop_hidden(block)), Sums()
        if self.stage == DIRECTIONS:  # The products of the only column that remains have none above the diagonal.
            sums.setdefault(f"{CURVATURE}, above the diagonal", as_int64(np.zeros(0)))
        for name, values in sums.items():
            own = self.kept.entries(self.stage, name)
            if own is None:
                found[name] = values
            else:
                found[name] = as_int64(np.zeros(own.size))
                found[name][own] = values
        return found


@dataclass(eq=False)
class HidingPath:
    """A path that leaves out the declared levels that noise hides, as soon as the center is released.

    A level is hidden if twice the noise of its fraction of the rows exceeds this fraction. If all columns are hidden,
    all remain.
    """

    plan: RegressionPlan
    make: Callable[[Any], Path]
    early: list[tuple[str, Any]] = field(default_factory=list)
    kept: Kept | None = None

    def __post_init__(self) -> None:
        self.path = self.make(self.plan)

    def question(self, name: str) -> Question:
        """Return the query that a stage of the plan answers."""
        query = self.path.question(name)
        return query if self.kept is None else WithoutLevels(query, self.kept, name)

    def take(self, name: str, released: Any) -> None:
        """Update the path with the release of a stage."""
        if self.kept is not None:
            if isinstance(released, Mapping):
                each = ((block, values, self.kept.entries(name, block)) for block, values in released.items())
                released = {block: values if own is None else values[own] for block, values, own in each}
            self.path.take(name, released)
            return
        self.path.take(name, released)
        self.early.append((name, released))
        if name == CENTER:
            self._look()

    def _look(self) -> None:
        """Leave out the hidden levels."""
        plan, shift = self.plan, self.path.shift
        share = (1 - np.abs(shift)) / 2
        hidden = np.array(plan.design.two_valued) & (share < self.path.center_noise)
        if not hidden.any() or hidden.all():
            return
        kept = Kept(~hidden, np.where(hidden, np.sign(shift), 0.0))
        self.path = self.make(replace(plan, design=plan.design.take(kept.columns), n_features=int(kept.columns.sum())))
        for name, released in self.early:
            # The center may have one more number, of the offsets.
            hides = np.flatnonzero(hidden & (name == CENTER))
            self.path.take(name, np.delete(released, hides))
        self.kept = kept

    def estimate(self) -> Estimate:
        """Return the estimate after all stages. Coefficients of hidden columns are unknown, and 0 here."""
        found, kept = self.path.estimate(), self.kept
        if kept is None:
            return found
        own = np.append(True, kept.columns)
        # The largest variance of a hidden column
        least = 1 - (1 - min(self.path.center_noise, 1.0)) ** 2
        unknown = (_NOT_KNOWN / self.plan.design.half) ** 2 / least

        def widen(matrix: Floats) -> Floats:
            wider = np.diag(np.append(0.0, unknown))
            wider[np.ix_(own, own)] = matrix
            return wider

        params, settled = np.zeros(own.size), np.ones(kept.columns.size, dtype=np.bool_)
        params[own] = found.params
        assert found.settled is not None
        settled[kept.columns] = found.settled
        places = np.flatnonzero(kept.columns)
        matrices: dict[str, Any] = {
            name: widen(getattr(found, name)) for name in ("robust", "model", "privacy", "left", "unknown")
        }
        return replace(
            found,
            params=params,
            settled=settled,
            levels=tuple(replace(each, place=int(places[each.place])) for each in found.levels),
            **matrices,
        )
