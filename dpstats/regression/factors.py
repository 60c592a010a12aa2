"""The linear regression whose rows may have labels of declared factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpstats.data.arithmetic import quiet
from dpstats.data.levels import Categories
from dpstats.data.parameters import check_choice
from dpstats.data.schema import Schema
from dpstats.error_distributions import Limits, ScoreErrors, Tail
from dpstats.errors import InvalidParameter, attempt, refuse, show_names
from dpstats.inference import ALTERNATIVES, Estimates
from dpstats.lattice import check_finite
from dpstats.means.contrasts import DifferenceErrors
from dpstats.regression.base import INTERCEPT, SomePlan
from dpstats.regression.bins import Floats
from dpstats.regression.factor_coefficients import find_coefficients
from dpstats.regression.factors_plan import (
    MOST_CELLS,
    Coding,
    FactorsPlan,
    cell_codes,
    check_factors,
    label_columns,
)
from dpstats.regression.levels import LevelsEstimate
from dpstats.regression.row_columns import OffsetColumn
from dpstats.release.parameters import parameters
from dpstats.results import FREE

RARE = 0.01
"""Fraction of the rows that a level of a formula may have if none is declared."""
_SHOWN = 6


@parameters
class FactorColumns(OffsetColumn[SomePlan]):
    """Base class of the linear regression whose rows may have labels of declared factors."""

    factors: Any = None
    cov_type: str = "HC"
    delta: float = 1e-6

    def _factors_coding(self) -> Coding | None:
        """Return the coding of the declared factors, or None without factors."""
        if hasattr(self, "_coding"):
            return self._coding
        factors = check_factors(self.factors)
        return Coding.code_main_effects(factors) if factors else None

    @property
    def _fitted_coding(self) -> Coding | None:
        """The coding of the fit, or None if it had no factors."""
        plan: Any = self.plan_
        return plan.coding if isinstance(plan, FactorsPlan) else None

    # Reading rows

    def _schema(self) -> Schema:
        schema = super()._schema()
        if hasattr(self, "_coding"):
            # A formula reads its own labels.
            return schema
        # Wrong factors are refused by the plan. Rows to predict for have the factors of the fit.
        factors = attempt(lambda: check_factors(self.factors), InvalidParameter) or {}
        return replace(schema, beside=(*schema.beside, *label_columns(factors)))

    def _linear_predictor(self, X: Any) -> tuple[Floats, Floats]:
        check_is_fitted(self)
        coding = self._fitted_coding
        if coding is None or hasattr(self, "formula_"):
            return super()._linear_predictor(X)
        table = self._again(X, label_columns(coding.factors)).whole()
        if self.missing == "error":
            check_finite(table.X)
        assert table.groups is not None
        numbers, places = coding.find_places(table.X.shape[1])
        rows = np.ones((len(table.X), 1 + len(numbers) + len(places)))
        rows[:, 1 + numbers] = table.X
        # The last row is for an undeclared label, whose code is -1.
        columns = np.vstack([coding.columns, np.full(len(places), np.nan)])
        rows[:, 1 + places] = columns[table.groups]
        with quiet():
            return rows, rows @ self.params_

    # Formulas

    def _fit_formula(self, described: Any, data: Any) -> Self:
        """Fit a formula: its factors by levels, if it consists of factors and numbers and has rare levels."""
        # The choice depends on public facts only: sizes, epsilon and delta, and the declared fractions of levels.
        from dpstats.regression.formula import FormulaRows

        if self.factors is not None:
            allowed = "not be given with a formula"
            raise refuse("factors", allowed=allowed, remedy="Name them in it, with their levels.")
        levels = described.has_intercept and self.cov_type == "HC"
        cells = described.find_cells(MOST_CELLS) if levels else None
        size = None if cells is None else FormulaRows(described, data, cells).size(Schema())
        if cells is None or size is None or not self._hides_levels(size[0], described, cells):
            return super()._fit_formula(described, data)
        names = tuple(name for name, own in zip(described.names, cells.is_factor, strict=True) if own)
        terms = {term: own for term, own in described.terms.items() if own[0] in names}
        given, places = self.x_bounds, np.flatnonzero(cells.is_factor)
        self._coding = Coding(cells.factors, cells.columns, names, terms, places)
        self.x_bounds = described.x_bounds[~cells.is_factor]
        try:
            possible = attempt(lambda: self.plan(*size), InvalidParameter) is not None
            if possible:
                self.fit(FormulaRows(described, data, cells))
        finally:
            self.x_bounds = given
            del self._coding
        if not possible:
            return super()._fit_formula(described, data)
        # Rows to predict for have the columns of the formula.
        self.n_features_in_ = len(described.names)
        return self

    def _hides_levels(self, n: int, described: Any, cells: Any) -> bool:
        """Return whether noise may hide a level of n rows as a column of 0 and 1."""
        columns = attempt(lambda: self.plan(n, len(described.names)), InvalidParameter)
        least = getattr(columns, "smallest_share", 0.0)
        return bool(described.smallest_share(cells.factors, RARE) < least)

    # Results

    def _names(self) -> list[str]:
        coding = self._fitted_coding
        if coding is None or hasattr(self, "formula_"):
            return super()._names()
        return [INTERCEPT, *self._column_names(range(self.plan_.n_features)), *coding.names]

    def _terms(self) -> Mapping[str, Sequence[str]] | None:
        coding = self._fitted_coding
        if coding is None or hasattr(self, "formula_"):
            return super()._terms()
        return {**{name: [name] for name in self._column_names()}, **coding.terms}

    def _report_factors(self, found: LevelsEstimate, plan: FactorsPlan) -> None:
        """Set the attributes of a fit with factors."""
        coding = plan.coding
        said = find_coefficients(found, coding)
        self._set_params(said.params, said.cov, said.privacy)
        self.identified_, self._found = said.identified, found
        self.counts_noise_std_ = found.counts_noise
        self.levels_ = {
            cell: {"count": count, "mean": mean, "standard_error": error}
            for cell, count, mean, error in zip(
                coding.cells,
                found.counts.tolist(),
                said.means.tolist(),
                said.mean_errors.tolist(),
                strict=True,
            )
        }

    def _facts(self) -> list[tuple[str, str]]:
        facts, coding = super()._facts(), self._fitted_coding
        if coding is None:
            return facts
        factors = [f"{name} ({len(levels)} levels)" for name, levels in coding.factors.items()]
        return [*facts, ("Factors", ", ".join(factors))]

    def difference(self, a: Any, b: Any, factor: Any = None, alternative: str = "two-sided") -> Estimates:
        """Compare two levels of a factor at equal other columns, without additional privacy cost.

        With a single factor, the interval has the method of `dpstats.groups.GroupMeans`. It does not divide by a noisy
        count, so it also holds for a level that noise hides.

        Parameters
        ----------
        a, b : labels of declared levels
        factor : column name, optional
            The factor. Not needed if there is only one.
        alternative : {"two-sided", "less", "greater"}, default="two-sided"
            Alternative hypothesis: the mean of a minus the mean of b is not, is less than, or is greater than 0.

        Returns
        -------
        Estimates
            ``estimate``, ``statistic`` and ``pvalue`` of shape (1,), and ``confidence_interval()``.
        """
        check_is_fitted(self)
        side, coding = check_choice("alternative", alternative, ALTERNATIVES), self._fitted_coding
        if coding is None:
            allowed = "declared for difference, or be part of the formula"
            raise refuse("factors", allowed=allowed, remedy="For columns of X, use t_test.")
        name = _check_factor(factor, coding)
        levels = coding.factors[name]
        first, second = (_find_level(label, levels, which) for label, which in ((a, "a"), (b, "b")))
        if first == second:
            raise refuse("b", given=b, allowed="another level than a")
        shown = (f"{levels.values[first]} - {levels.values[second]}",)
        codes = cell_codes(coding.factors)[name]
        if len(coding.factors) == 1:
            half = self._found.plan.design.y_half
            errors = DifferenceErrors(*self._found.compare([first], [second]), half)
            found = Estimates(
                errors.start[:, 0],
                None,
                shown,
                self._estimand,
                _Column(errors),
                simulated=self.privacy_.simulated,
            )
        else:
            # The average over the cells of the other factors. Without interactions each cell has the same difference.
            weights = np.zeros((1, self.params_.size))
            average = coding.columns[codes == first].mean(axis=0) - coding.columns[codes == second].mean(
                axis=0
            )
            weights[0, 1 + coding.find_places(self.plan_.n_features)[1]] = average
            found = self._combine(weights, shown)
        words = "the difference of the mean outcomes of two levels, at equal other columns"
        return replace(
            found,
            estimand=words,
            header="difference",
            null=0.0,
            alternative=side,
            title="Private difference of two levels",
            facts=(("Factor", str(name)), ("Alternative", side)),
            notes=(FREE, *self._factor_notes()),
        )

    def _factor_notes(self) -> list[str]:
        """Return the assumptions about factors."""
        coding = self._fitted_coding
        if coding is None:
            return []
        notes = ["Rows with an undeclared or missing label of a factor add nothing to the fit."]
        fit, cells = self._found.path.fit, coding.shown
        clips = ", ".join(
            f"{cell} {clip / fit.scale:.1f}"
            for cell, clip in zip(cells[:_SHOWN], fit.clip.tolist(), strict=False)
        )
        return [
            *notes,
            "Coefficients of factors assume residuals that are about as skewed in each level as in all rows. They are "
            f"clipped at these multiples of their standard deviation: {clips}{', ...' * (len(cells) > _SHOWN)}.",
        ]


@dataclass(frozen=True, eq=False)
class _Column(ScoreErrors):
    """Errors of differences with one column, as a vector."""

    errors: DifferenceErrors

    @property
    def start(self) -> Floats:
        return self.errors.start[:, 0]

    @property
    def box(self) -> Limits:
        low, high = self.errors.box
        return low[:, 0], high[:, 0]

    @property
    def standard_error(self) -> Floats:
        """Half the width of the intervals of one standard deviation."""
        return self.errors.standard_error[:, 0]

    def limits(self, tail: Tail) -> Limits:
        low, high = self.errors.limits(tail)
        return low[:, 0], high[:, 0]

    def score(self, value: Floats) -> Floats:
        return self.errors.score(np.reshape(value, (-1, 1)))[:, 0]


def _check_factor(factor: Any, coding: Coding) -> Any:
    """Return the name of a factor: the only one by default."""
    names = list(coding.factors)
    if factor is None and len(names) == 1:
        return names[0]
    if factor not in names:
        allowed = f"the name of a factor ({show_names(names)})"
        raise refuse(
            "factor", given=factor, allowed=allowed, remedy="There is more than one." * (factor is None)
        )
    return factor


def _find_level(label: Any, levels: Categories, which: str) -> int:
    code = int(levels.codes([label], which)[0])
    if code < 0:
        raise refuse(which, given=label, allowed=f"a declared level ({show_names(levels.values)})")
    return code
