"""The linear regressions with one release: coefficients, errors and identification, from noisy second moments."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpstats.data.tables import Rows
from dpstats.lattice.products import Sums
from dpstats.regression.curvature import symmetric
from dpstats.regression.engine import read
from dpstats.regression.least_squares import LeastSquares
from dpstats.regression.moments import STAGE, MomentsPlan
from dpstats.regression.movement import MOMENTS
from dpstats.regression.noisy_moments import coefficients
from dpstats.regression.rows import OUTSIDE
from dpstats.release.parameters import parameters
from dpstats.release.session import Released


@parameters
class FromMoments(LeastSquares[MomentsPlan]):
    """Base class of the regressions that release the second moments of (1, x, y) once, with any additive noise."""

    def _read(self, rows: Rows, plan: MomentsPlan) -> dict[str, Sums]:
        # A dropped row adds nothing to any sum, and coefficients are ratios of sums.
        return {STAGE: read(rows, plan).answer(plan.question)}

    def _report(self, released: Released, plan: MomentsPlan) -> None:
        found = released[STAGE]
        moments = symmetric(found[f"{MOMENTS}, diagonal"], found[f"{MOMENTS}, above the diagonal"])
        units, offset = plan.to_units()
        intercept = plan.design.intercept
        said = coefficients(moments, plan.matrix_noise, plan.n_samples, plan.constant, intercept, units)
        self._set_params(said.estimate + offset, said.cov, said.privacy)
        self.intercept_identified_ = bool(said.known[0]) if intercept else True
        self.identified_ = said.known[int(intercept) :]
        self.condition_, self.scale_ = said.condition, said.scale * plan.outcome_unit
        self._set_outside(float(found[OUTSIDE][0]))
        if plan.missing == "drop":
            # Each observed row counts with its weight, so the count is at most the number of observed rows.
            self._counted = said.share * plan.n_samples

    @property
    def _identified(self) -> NDArray[np.bool_]:
        first = [self.intercept_identified_] * self._first
        return np.append(np.array(first, dtype=bool), self.identified_)
