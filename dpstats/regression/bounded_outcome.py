"""Base class of the regressions of a number within public bounds: outcomes outside them, and the score."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from dpstats.data.arithmetic import quiet
from dpstats.regression.base import MANY_OUTSIDE, Regression, SomePlan
from dpstats.regression.bins import Floats
from dpstats.regression.rows import OUTSIDE
from dpstats.regression.scoring import determination, release_variation, variation_plan
from dpstats.release.charges import state_charges


class BoundedOutcome(RegressorMixin, Regression[SomePlan]):
    """Base class of the regressions of a number within public bounds. Outcomes outside are clipped and counted."""

    def _set_outside(self, share: float, rows: float | None = None) -> None:
        plan = self.plan_
        self.clipped_share_ = share
        self.clipped_share_std_ = (
            float(np.max(plan.noise(OUTSIDE).std)) * plan.n_samples / (rows or plan.n_samples)
        )

    def _notes(self) -> list[str]:
        notes = super()._notes()
        if self.clipped_share_ - 2 * self.clipped_share_std_ > MANY_OUTSIDE:
            notes.append(
                f"More than {100 * MANY_OUTSIDE:.0f}% of the outcomes lie outside y_bounds. Coefficients describe the "
                "clipped outcomes, and may be too small. Widen y_bounds."
            )
        return notes

    @classmethod
    def _of_formula(cls, described: Any, given: dict[str, Any]) -> Self:
        return super()._of_formula(described, {"y_bounds": described.y_bounds, **given})

    @state_charges
    def _determination(self, X: Any, fitted: Floats, outcomes: Floats) -> float:
        """Return a private R^2 of fitted outcomes: a charged release of their squared residuals."""
        design = self.plan_.design
        center, half = design.outcome or (design.y_center, design.y_half)
        plan = variation_plan(fitted.size, self.epsilon, getattr(self, "delta", 0.0))
        session = self._session(plan, f"{type(self).__name__} score", X)
        with quiet():
            inside = np.clip((outcomes - center) / half, -1.0, 1.0)
            residuals = (inside - (fitted - center) / half) / 2
        with session:
            release_variation(plan, session, residuals, inside)
        return determination(session.released)
