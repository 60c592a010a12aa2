"""Linear regressions with one release: coefficients, errors and identification, from noisy second moments."""

from __future__ import annotations

from typing import Any

from dpstats.data.tables import Rows
from dpstats.lattice.products import Sums
from dpstats.regression.curvature import symmetric
from dpstats.regression.engine import read
from dpstats.regression.least_squares import LeastSquares
from dpstats.regression.moments import STAGE, MomentsPlan
from dpstats.regression.movement import MOMENTS
from dpstats.regression.noisy_moments import coefficients
from dpstats.regression.rows import OUTSIDE
from dpstats.release.session import Released


def read_moments(rows: Rows, plan: MomentsPlan) -> dict[str, Sums]:
    """Return the second moments of the rows. A dropped row adds 0 to every sum, and coefficients are ratios of sums."""
    return {STAGE: read(rows, plan).answer(plan.question)}


def report_moments(model: LeastSquares[Any], released: Released, plan: MomentsPlan) -> None:
    """Set the attributes of a fit from the released second moments."""
    found = released[STAGE]
    moments = symmetric(found[f"{MOMENTS}, diagonal"], found[f"{MOMENTS}, above the diagonal"])
    units, offset = plan.to_units()
    intercept = plan.design.intercept
    said = coefficients(moments, plan.matrix_noise, plan.n_samples, plan.constant, intercept, units)
    model._set_params(said.estimate + offset, said.cov, said.privacy)
    model.intercept_identified_ = bool(said.known[0]) if intercept else True
    model.identified_ = said.known[int(intercept) :]
    model.condition_, model.scale_ = said.condition, said.scale * plan.outcome_unit
    model._set_outside(float(found[OUTSIDE][0]))
    if plan.missing == "drop":
        # Each observed row counts with its weight, so the count is at most the number of observed rows.
        model._counted = said.share * plan.n_samples


GAUSSIAN_MOMENTS = "second moments of (1, x, y) with Gaussian noise, released once; bounded rows"


def describe_moments(model: LeastSquares[Any], method: str) -> list[tuple[str, str]]:
    """Return the methods for coefficients and covariance, as lines of a summary."""
    return [
        ("Method", method),
        ("Covariance", "nonrobust (residuals of one variance)"),
        ("Condition of the design", f"{model.condition_:.3g} (released)"),
    ]
