"""Base class of the regressions whose mean is a curve of the linear predictor, and their results for strong levels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dpstats.error_distributions import ErrorDistribution
from dpstats.regression.bins import Floats
from dpstats.regression.design import Design
from dpstats.regression.engine import NewtonSteps
from dpstats.regression.path import Estimate, find_identified
from dpstats.regression.plan import RegressionPlan
from dpstats.regression.two_valued_errors import LevelErrors, find_one_sided
from dpstats.release.parameters import parameters
from dpstats.release.session import Released
from dpstats.results import list_some


@parameters
class CurvedRegression(NewtonSteps):
    """Base class of logistic and log-linear regressions. Slopes of columns with two values have intervals by levels."""

    _unknown_level: ClassVar[str]
    """Statement about a level without a limit."""

    def _fit_formula(self, described: Any, data: Any) -> Self:
        self._declared = described.two_valued
        return super()._fit_formula(described, data)

    def _add_columns(self, design: Design) -> Design:
        known = self.__dict__.get("_declared", ())
        return replace(super()._add_columns(design), two_valued=known)

    def _report_estimate(self, released: Released, plan: RegressionPlan, cov: str) -> Estimate:
        found = super()._report_estimate(released, plan, cov)
        self.__dict__.pop("_declared", None)
        assert found.settled is not None
        self._levels = found.levels
        self.one_sided_, unlimited = find_one_sided(found.levels, self.coef_.size)
        known = find_identified(found, getattr(found, cov), plan) & ~unlimited
        open_ended = self.one_sided_ != 0
        self.settled_ = found.settled | open_ended
        self.unsettled_ = not self.settled_.all()
        # An interval with one limit holds, although the likelihood may have no maximum.
        self.identified_ = open_ended | (known & (not found.separated))
        self._noise_hides = ~(open_ended | known | found.separated)
        return found

    def _build_errors(self, estimates: Floats, errors: Floats, weights: Floats | None) -> ErrorDistribution:
        if not self._levels or weights is None:
            return super()._build_errors(estimates, errors, weights)
        cov = np.asarray(self.params_cov_)
        return LevelErrors(estimates, errors, self._law, weights, cov, self._levels, self._first)

    @property
    def _hidden(self) -> NDArray[np.bool_]:
        hidden = super()._hidden
        return np.append(hidden[: self._first], self._noise_hides)

    def _notes(self) -> list[str]:
        notes, names = super()._notes(), self._names()[self._first :]
        for sign, limit in ((-1, "an upper"), (1, "a lower")):
            levels = [
                f"{names[each.place]} = {value:g}"
                for each in self._levels
                for value, side in each.list_unlimited()
                if side == sign
            ]
            if levels:
                words = f"{self._unknown_level}: only {limit} limit of the coefficient is known."
                notes.insert(0, f"In [{list_some(levels)}] {words}")
        if self.unsettled_:
            some = [name for name, settled in zip(names, self.settled_, strict=True) if not settled]
            notes.insert(
                0,
                f"Warning: the steps did not settle for {list_some(some)}, and their intervals may miss. "
                "Use tighter bounds, more rows, fewer columns or a larger epsilon.",
            )
        return notes
