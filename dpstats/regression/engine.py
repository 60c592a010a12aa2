"""The fit by noisy Newton steps. In each stage the path queries the rows, the session adds noise, the path updates."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpstats.data.tables import Rows
from dpstats.lattice import check_finite_rows
from dpstats.regression.base import MANY_OUTSIDE
from dpstats.regression.blocks import DesignRows
from dpstats.regression.design_plan import DesignPlan
from dpstats.regression.levels import LevelsPath
from dpstats.regression.levels_plan import LevelsPlan
from dpstats.regression.linear_path import LinearPath
from dpstats.regression.log_linear_path import LogLinearPath
from dpstats.regression.log_linear_plan import LogLinearPlan
from dpstats.regression.logistic_path import LogisticPath
from dpstats.regression.path import Estimate, Path
from dpstats.regression.plan import OFFSETS, ROWS, WEIGHT, RegressionPlan
from dpstats.regression.row_columns import RowColumns
from dpstats.release.parameters import parameters
from dpstats.release.session import Released, Session

_EFFECTS = {
    "offset": "coefficients may be biased",
    "exposure": "rates may be biased",
    "weight": "coefficients describe rows with other weights",
}
"""Effect of clipping a further column, by its role."""


@parameters
class NewtonSteps(RowColumns[RegressionPlan]):
    """Base class of the regressions that take noisy Newton steps."""

    delta: float = 1e-6

    def _read(self, rows: Rows, plan: RegressionPlan) -> DesignRows:
        return read(rows, plan, keep=True)

    def _release(self, private: DesignRows, plan: RegressionPlan, session: Session) -> None:
        release(private, plan, session)

    def _report_estimate(self, released: Released, plan: RegressionPlan, cov: str) -> Estimate:
        """Set the attributes that these regressions share, and return the estimate; ``cov`` names its covariance."""
        found: Estimate = walked(released, plan).estimate()
        self._set_params(found.params, getattr(found, cov), found.privacy)
        self._report_counts(released, plan, found)
        return found

    def _report_counts(self, released: Released, plan: RegressionPlan, found: Estimate) -> None:
        """Set the number of rows, their total weight, and the fractions of further columns outside their bounds."""
        self.condition_ = found.condition
        if plan.count_stage is not None:
            count, noise = (
                plan.n_samples * float(np.ravel(part)[0])
                for part in (released[plan.count_stage], plan.noise(plan.count_stage).std)
            )
            self._counted = found.rows
            if plan.count_stage == ROWS:
                self.rows_, self.rows_noise_std_ = count, noise
            elif plan.design.weight is not None:
                largest = plan.design.weight[1]
                self.total_weight_, self.total_weight_noise_std_ = largest * count, largest * noise
                self.effective_rows_ = found.effective
        for role in _EFFECTS:
            share, std = f"clipped_{role}_share_", f"clipped_{role}_share_std_"
            for name in (share, std):  # of an earlier fit
                self.__dict__.pop(name, None)
            if getattr(plan.design, role) is not None:
                stage, factor = (WEIGHT, math.sqrt(5) / 2) if role == "weight" else (OFFSETS, 1.0)
                noise = factor * float(np.max(plan.noise(stage).std)) * plan.n_samples / found.rows
                setattr(self, share, found.weight_outside if role == "weight" else found.offset_outside)
                setattr(self, std, noise)

    def _clipped_columns(self) -> list[tuple[str, float, float]]:
        """Return the role of each further column, the fraction outside its bounds and its noise."""
        return [
            (role, share, getattr(self, f"clipped_{role}_share_std_"))
            for role in _EFFECTS
            if (share := getattr(self, f"clipped_{role}_share_", None)) is not None
        ]

    def _facts(self) -> list[tuple[str, str]]:
        outside = [
            (f"{role.capitalize()}s outside bounds", self._in_percent(share, std))
            for role, share, std in self._clipped_columns()
        ]
        return [*super()._facts(), *outside]

    def _notes(self) -> list[str]:
        many = [
            f"More than {100 * MANY_OUTSIDE:.0f}% of the {role}s lie outside {role}_bounds. They are clipped to "
            f"the nearer bound, so {_EFFECTS[role]}. Widen {role}_bounds."
            for role, share, std in self._clipped_columns()
            if share - 2 * std > MANY_OUTSIDE
        ]
        return [*super()._notes(), *many]

    def _noise_only(self) -> bool:
        return self.plan_.is_lost(getattr(self, "_counted", self.plan_.n_samples))


def first_path(plan: DesignPlan) -> Path | LevelsPath:
    """Return the path of a plan before the first release."""
    if isinstance(plan, LevelsPlan):
        return LevelsPath(plan)
    if isinstance(plan, LogLinearPlan):
        return LogLinearPath(plan)
    assert isinstance(plan, RegressionPlan)
    return (LinearPath if plan.family == "linear" else LogisticPath)(plan)


def read(rows: Rows, plan: DesignPlan, *, keep: bool = False) -> DesignRows:
    """Return the rows that a fit uses: all rows, or the observed ones. Raise an error for a missing entry otherwise.

    With ``keep``, rows that are few enough are converted now, once for all queries.
    """
    found = DesignRows(rows, plan.design, plan.missing == "drop")
    if keep:
        found = found.keep()
    if found.blocks is None and not found.drops:
        check_finite_rows(rows)
    return found


def release(rows: DesignRows, plan: DesignPlan, session: Session) -> None:
    """Release every stage. If the session has several draws, each draw follows its own path."""
    several = session.size
    paths = [first_path(plan) for _ in range(several or 1)]
    for stage in plan.stages:
        answers = [rows.answer(path.question(stage.name)) for path in paths]
        together = {
            name: np.stack([answer[name] for answer in answers]) if several else answers[0][name]
            for name in answers[0]
        }
        released = session.add(stage.name, together if hasattr(stage, "blocks") else together[stage.name])
        for draw, path in enumerate(paths):
            path.take(stage.name, of_draw(released, draw) if several else released)
    if not several:
        _walked[:] = [(plan, session.released, paths[0])]


_walked: list[tuple[DesignPlan, Released, Any]] = []
"""The last release, and its path: public numbers, from which a report need not compute the path again."""


def walked(released: Released, plan: DesignPlan) -> Any:
    """Return the path after all released values."""
    with contextlib.suppress(IndexError):  # another thread may be first
        same, values, path = _walked.pop()
        if plan is same and all(released[stage.name] is values[stage.name] for stage in plan.stages):
            return path
    path = first_path(plan)
    for stage in plan.stages:
        path.take(stage.name, released[stage.name])
    return path


def of_draw(released: Any, draw: int) -> Any:
    """Return the released values of one draw."""
    if isinstance(released, Mapping):
        return {name: values[draw] for name, values in released.items()}
    return released[draw]
