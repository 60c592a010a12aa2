from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from dpstats.data.rows import as_float64
from dpstats.lattice import BallLattice
from dpstats.lattice.finite import all_finite
from dpstats.means.sparse.plan import SQUARES, SUPPORT, RunningMean, SparseMeanPlan
from dpstats.privacy.stages import JointStage
from dpstats.release.session import Session


class Halves(NamedTuple):
    """Private: the sizes of the clipped sums for the selection, and the input of the stages.

    With balls the input is the rows of the other half (without ``split``: all rows). Otherwise it is their sums.
    """

    scores: NDArray[np.int64]
    rest: Any


def release_on_support(private: Halves, plan: SparseMeanPlan, session: Session) -> None:
    """Select columns, and release every stage on the selected columns, in each draw of the session."""
    one = session.size is None
    if plan.everything:
        supports = np.tile(np.arange(plan.n_features), (session.size or 1, 1))
    else:
        supports = np.sort(np.atleast_2d(session.select(SUPPORT, private.scores)), axis=1)
    if not plan.balls:
        sums = private.rest[supports]
        session.add(plan.means[0], sums[0] if one else sums)
        return
    if plan.everything:
        distinct, which = supports[:1], np.zeros(len(supports), dtype=np.intp)
    else:
        distinct, which = np.unique(supports, axis=0, return_inverse=True)
        which = which.reshape(-1)
    columns = [columns_of(private.rest, support, plan) for support in distinct]
    average = RunningMean(np.zeros(supports.shape))
    stages = [stage for stage in plan.stages if stage.name != SUPPORT]
    for stage, name, noise, ball in zip(stages, plan.means, plan.noise_stds, plan.balls, strict=True):
        # The center of a stage is the public average of earlier stages: one average per draw of the session.
        joint = isinstance(stage, JointStage)
        exact = np.empty((2 if joint else 1, *supports.shape), dtype=np.int64)
        for t, rows in enumerate(columns):
            exact[:, which == t] = _center_sums(rows, ball, average.value[which == t], len(exact))
        if one:
            exact = exact[:, 0]
        found = session.add(stage.name, {name: exact[0], SQUARES: exact[1]} if joint else exact[0])
        average.include(noise, found[name] if joint else found)


def _center_sums(
    rows: NDArray[np.float64], ball: BallLattice, centers: NDArray[np.float64], powers: int
) -> NDArray[np.int64]:
    """Return the sums of the rows about each of the centers, and of as many powers: shape (powers, centers, s)."""
    distinct, which = np.unique(centers, axis=0, return_inverse=True)
    if len(distinct) == 1:
        sums = np.stack(replace(ball, center=distinct[0]).moments(rows, powers=powers).powers)[:, None]
    else:
        sums = ball.moments_about(rows, distinct, powers=powers)
    return sums[:, which.reshape(-1)]


def columns_of(rows: Any, support: NDArray[np.intp], plan: SparseMeanPlan) -> NDArray[np.float64]:
    """Return the selected columns, dense and finite, in standard deviations where these differ."""
    # Gathered row by row: a selection by brackets would be in the order of columns.
    chosen: Any = np.take(rows, support, axis=1) if isinstance(rows, np.ndarray) else rows[:, support]
    dense = as_float64(chosen.toarray() if issparse(chosen) else chosen)
    with np.errstate(all="ignore"):
        if not all_finite(dense):
            dense[~np.isfinite(dense)] = 0.0
        if plan.scales is not None:
            dense /= plan.scales[support]
        # A quotient may overflow, or underflow: nothing is refused after the charge.
        return np.asarray(np.clip(dense, -1e300, 1e300, out=dense))
