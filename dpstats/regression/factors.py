"""Declared factors of a linear regression: the cells of their levels, and coefficients from the means of cells.

A factor costs the noise of one sum per level, however rare the level is (`dpstats.regression.levels`). Several factors
are cross-classified, so that a row has one cell. The means of the cells at equal covariates then give the coefficients
by weighted least squares.

Proof: docs/proofs/levels.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from sklearn.utils.validation import check_is_fitted

from dpstats.data.arithmetic import quiet
from dpstats.data.levels import Categories
from dpstats.data.parameters import check_choice, check_real
from dpstats.data.schema import Column, Schema
from dpstats.error_distributions import Limits, ScoreErrors, Tail
from dpstats.errors import InvalidParameter, attempt, refuse, show, show_names
from dpstats.inference import ALTERNATIVES, Estimates
from dpstats.lattice import check_finite
from dpstats.means.contrasts import DifferenceErrors
from dpstats.regression.base import INTERCEPT, SomePlan
from dpstats.regression.design import Design
from dpstats.regression.design_plan import DesignPlan
from dpstats.regression.levels import LevelsEstimate, LevelsPlan, levels_plan
from dpstats.regression.linear_path import LinearPath
from dpstats.regression.plan import RegressionPlan
from dpstats.regression.row_columns import OffsetColumn
from dpstats.release.parameters import parameters
from dpstats.results import FREE

Floats = NDArray[np.float64]

MOST_CELLS = 16
_Z = 1.96
"""The error of a cell is the half-width of its interval at this quantile, over the quantile."""
_SEEN = 5.0
"""A level is identified if its count is at least this many standard deviations of its noise."""
RARE = 0.01
"""Fraction of the rows that a level of a formula may have if none is declared."""
_SHOWN = 6


# Declaration


@dataclass(frozen=True, eq=False)
class Coding:
    """Columns of a design that depend on the cell of a row only. All of it is public.

    Attributes
    ----------
    factors : mapping of names to `Categories`
        Declared factors. Their cells are all combinations of levels. The last factor's level changes fastest.
    columns : array of shape (n_cells, q)
        Value of each column in each cell.
    names : tuple of str, length q
    terms : mapping of str to sequences of str
        The names of the columns of each term.
    places : array of int, shape (q,), optional
        Position of each column among all slopes. Default: after the columns of numbers.
    """

    factors: Mapping[Any, Categories]
    columns: Floats
    names: tuple[str, ...]
    terms: Mapping[str, Sequence[str]]
    places: NDArray[np.int64] | None = None

    @classmethod
    def code_main_effects(cls, factors: Mapping[Any, Categories]) -> Coding:
        """Return the coding of main effects: a column for each level but the first of its factor."""
        codes = cell_codes(factors)
        columns, terms = [], {}
        for name, levels in factors.items():
            columns += [codes[name] == code for code in range(1, len(levels))]
            terms[str(name)] = [f"{name}[T.{level}]" for level in levels.values[1:]]
        names = tuple(name for own in terms.values() for name in own)
        return cls(factors, np.array(columns, dtype=np.float64).T, names, terms)

    @property
    def cells(self) -> tuple[Any, ...]:
        """The labels of the cells: levels of the only factor, or tuples of levels."""
        codes = cell_codes(self.factors)
        parts = [
            [levels.values[code] for code in codes[name].tolist()] for name, levels in self.factors.items()
        ]
        return tuple(parts[0]) if len(parts) == 1 else tuple(zip(*parts, strict=True))

    @property
    def labels(self) -> list[str]:
        """The labels of all levels, as "factor[label]"."""
        return [f"{name}[{level}]" for name, levels in self.factors.items() for level in levels.values]

    @property
    def shown(self) -> list[str]:
        """The labels of the cells as text."""
        single = len(self.factors) == 1
        return [str(cell) if single else ", ".join(map(str, cell)) for cell in self.cells]

    def find_places(self, d: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the positions of the d columns of numbers and of the columns of factors, among all slopes."""
        q = len(self.names)
        places = d + np.arange(q) if self.places is None else self.places
        return np.setdiff1d(np.arange(d + q), places), places


def cell_codes(factors: Mapping[Any, Categories]) -> dict[Any, NDArray[np.int64]]:
    """Return the code of each factor's level in each cell."""
    sizes = [len(levels) for levels in factors.values()]
    grid = np.indices(sizes).reshape(len(sizes), -1)
    return dict(zip(factors, np.asarray(grid), strict=True))


def _label_columns(factors: Mapping[Any, Categories]) -> tuple[Column, ...]:
    """Return the columns of the labels of factors."""
    return tuple(
        Column("groups", name, levels, "factors", meaning="a label for each row")
        for name, levels in factors.items()
    )


def check_factors(factors: Any) -> dict[Any, Categories]:
    """Return the declared levels of the factors, or raise an error."""
    if factors is None:
        return {}
    if not isinstance(factors, Mapping):
        raise refuse("factors", given=factors, allowed="a mapping of column names to levels")
    found = {}
    for place, (name, levels) in enumerate(factors.items()):
        entry = f"the entry of factors at position {place}"
        found[name] = Categories(levels, entry)
        if len(found[name]) < 2:
            raise InvalidParameter(f"{entry} must have at least two levels, got {show(levels)}")
    check_cells(found)
    return found


def check_cells(factors: Mapping[Any, Categories]) -> None:
    """Refuse factors with too many combinations of levels."""
    count = math.prod(len(levels) for levels in factors.values())
    if count > MOST_CELLS:
        raise InvalidParameter(
            f"factors must have at most {MOST_CELLS} combinations of levels, got {count}. Declare the factors with "
            "rare levels, and leave others as columns of 0 and 1 in X, with x_bounds (0, 1)."
        )


# Plan


@dataclass(frozen=True)
class FactorsPlan(LevelsPlan):
    """The plan of a linear regression with declared factors. All of it is public.

    Attributes
    ----------
    design, bits, missing, levels, randomized, steps, mu
        As for `LevelsPlan`. ``levels`` are the cells of all factors.
    coding : Coding
        The factors and their columns.
    """

    coding: Coding = field(repr=False, compare=False)

    @property
    def size(self) -> int:
        return self.design.size + len(self.coding.names)

    @property
    def inner(self) -> RegressionPlan:
        """The plan of the Newton steps."""
        assert self.steps is not None
        return self.steps

    def limit_bias(self, steps: LinearPath) -> float:
        # Slopes assume residuals of one shape. So each cell has the tails of all residuals.
        return min(super().limit_bias(steps), steps.tail / 2)

    def is_lost(self, rows: float) -> bool:
        """Return whether noise hides the slopes for this number of rows."""
        return self.inner.is_lost(rows)

    def notes(self) -> list[str]:
        names = show_names(self.coding.factors)
        notes = [
            f"factors {names} by levels: sums of {len(self.levels)} cells, around Newton steps for the slopes"
        ]
        ratio, share = f"{self.noise_ratio:.2g}", f"{100 * self.smallest_share:.2g}"
        return [
            *notes,
            f"for {self._columns}, noise of a slope {ratio} times its sampling error",
            f"a level with {share}% of the rows has as much noise as sampling error",
            *self.share_notes(),
        ]

    @property
    def noise_ratios(self) -> dict[Any, float]:
        return {
            name: (self if name in self.coding.labels else self.inner).noise_ratio_of_share(share)
            for name, share in self.shares.items()
        }


def factors_plan(
    design: Design, coding: Coding, n: int, epsilon: float, delta: float, missing: str
) -> FactorsPlan:
    """Return the plan of a linear regression of n rows on the columns of the design and on declared factors."""
    if design.center.size == 0:
        raise InvalidParameter("n_features must be at least 1 with factors: X must have a column of numbers")
    if not design.intercept:
        raise InvalidParameter(
            "fit_intercept must be True with factors: the levels of a factor have an intercept each. Or give the "
            "factors as columns of 0 and 1 in X."
        )
    return levels_plan(
        design, coding.cells, n, epsilon, delta, missing, False, slopes=True, kind=FactorsPlan, coding=coding
    )


def check_shares(shares: Any, plan: DesignPlan, known: Sequence[Any] | None) -> dict[str, float]:
    """Return declared shares by the names that notes show, or raise an error: of columns, and of levels of factors.

    ``known`` are the names of the columns, None if they are not known.
    """
    if not isinstance(shares, Mapping):
        raise refuse("shares", given=shares, allowed="a mapping of columns to shares of the rows")
    factors = plan.coding.factors if isinstance(plan, FactorsPlan) else {}
    d, found = plan.design.center.size, dict[str, Any]()
    for name, share in shares.items():
        if name in factors:
            if not isinstance(share, Mapping) or any(level not in factors[name].values for level in share):
                raise refuse(
                    "shares", got=f"an entry for the factor {show(name)}", allowed="a mapping of its levels"
                )
            found |= {f"{name}[{level}]": each for level, each in share.items()}
            continue
        is_place = isinstance(name, int) and not isinstance(name, bool)
        if not (0 <= name < d if is_place else name in (known or ())):
            names = [*(known or ()), *factors]
            listed = f"known names ({show_names(names)}), or " if names else ""
            raise refuse(
                "shares",
                given=name,
                allowed=f"{listed}positions of columns (n_features = {d})",
                remedy="" if known else "Names are known if x_bounds is a mapping {name: (low, high)}.",
            )
        found[f"column {name}" if is_place else str(name)] = share
    for label, share in found.items():
        most = 1.0 if factors and label in plan.coding.labels else 0.5  # type: ignore[attr-defined]
        found[label] = check_real(f"the share of {label}", share, above=0, at_most=most)
    return found


# Estimate


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Coefficients in the units of the data, the intercept first.

    Attributes
    ----------
    params : array of shape (p,)
    cov, privacy : arrays of shape (p, p)
        Covariance of their errors, and its part that is not sampling error.
    identified : array of bool, shape (p - 1,)
    means, mean_errors : arrays of shape (n_cells,)
        Means of the cells at the mean of the covariates of all rows, and their standard errors.
    """

    params: Floats
    cov: Floats
    privacy: Floats
    identified: NDArray[np.bool_]
    means: Floats
    mean_errors: Floats


class CellMeans:
    """Means of cells and slopes, with the covariance of their errors, in half-widths.

    Attributes
    ----------
    point, center : arrays of shape (d,)
        The covariates that the means are for, and the mean covariates of all rows.
    means, errors : arrays of shape (K,)
        Means, and the standard errors that a mean does not share with the others.
    weights : array of shape (K,)
        Inverse variances of the cells, if residuals have the same variance in all of them.
    slopes : array of shape (d,)
    cov, privacy : arrays of shape (K + d, K + d)
        Covariance of the errors of both, means first, and its part that is not sampling error.
    """

    def __init__(self, found: LevelsEstimate) -> None:
        path, d = found.path, found.plan.design.center.size
        assert path.steps is not None
        self.point = path.steps.shift
        # The normal interval contains this one. If noise leaves it open to one side, an estimate near the other limit
        # is moved inside.
        low, high = (end[:, 0] for end in found.means.ends(_Z))
        middle, half = (low + high) / 2, (high - low) / 2
        self.means = np.clip(found.means.estimate[:, 0], middle - half / 2, middle + half / 2)
        self.errors = (half + np.abs(self.means - middle)) / _Z
        rows, fit = np.maximum(found.counts, found.counts_noise), path.fit
        self.slopes, slopes_cov = fit.slopes, found.slopes_covariance
        unseen, kept = slopes_cov - fit.sampling, 2 * ndtr(fit.clip / fit.shape) - 1
        # The mean of a cell is the mean of its rows, moved along the slopes from their mean covariates.
        moved = np.vstack([self.point - path.centers.covariates, np.eye(d)])
        unsure = np.append(path.unsure @ np.diagonal(slopes_cov), np.zeros(d))
        sampling = np.minimum((found.deviations[:, 0] / kept) ** 2 / rows, self.errors**2)
        own, nothing = self.errors**2, np.zeros(d)
        # Then the limit without noise is least squares over the rows.
        known = own - sampling + float(sampling @ rows**2) / rows.sum() / rows
        # Outcomes without any spread have no error. Then all rows count alike.
        self.weights = 1 / known if (known > 0).all() else rows
        self.cov = moved @ slopes_cov @ moved.T + np.diag(np.append(own, nothing) + unsure)
        self.privacy = moved @ unseen @ moved.T + np.diag(np.append(own - sampling, nothing) + unsure)
        self.center = found.counts @ path.centers.covariates / found.counts.sum()


def find_coefficients(found: LevelsEstimate, coding: Coding) -> Coefficients:
    """Return the coefficients of a design from the means of its cells, by weighted least squares.

    With as many columns as cells, the weights of the cells do not matter.
    """
    cells, design = CellMeans(found), found.plan.design
    K, d = len(coding.columns), design.center.size
    units = np.append(np.full(K, design.y_half), design.y_half / design.half)
    theta = np.append(cells.means, cells.slopes) * units
    theta[:K] += design.y_center
    numbers, places = coding.find_places(d)
    # The least-squares fit of the cells' means at covariates of zero. Columns of ones map to ones.
    X = np.column_stack([np.ones(K), coding.columns])
    roots = np.sqrt(cells.weights)
    fitted = np.linalg.lstsq(roots[:, None] * X, np.diag(roots), rcond=None)[0]
    matrix = np.zeros((1 + len(numbers) + len(places), K + d))
    matrix[np.append(0, 1 + places), :K] = fitted
    matrix[0, K:] = -(design.center + design.half * cells.point)
    matrix[1 + numbers, K + np.arange(d)] = 1.0
    cov, privacy = (
        matrix @ (part * np.outer(units, units)) @ matrix.T for part in (cells.cov, cells.privacy)
    )
    identified = np.zeros(d + len(places), dtype=bool)
    identified[numbers] = found.path.fit.identified
    identified[places] = _find_identified(found, coding)
    at = np.hstack([np.eye(K), np.tile(cells.center - cells.point, (K, 1))]) * design.y_half
    mean_errors = np.sqrt(np.einsum("ij,jk,ik->i", at, cells.cov, at))
    means = design.y_center + at @ np.append(cells.means, cells.slopes)
    return Coefficients(matrix @ theta, cov, privacy, identified, means, mean_errors)


def _find_identified(found: LevelsEstimate, coding: Coding) -> NDArray[np.bool_]:
    """Return whether each column has rows at its level, and at the reference level of its term."""
    columns = dict(zip(coding.names, coding.columns.T != 0, strict=True))
    identified = []
    for name in coding.names:
        own = next(names for names in coding.terms.values() if name in names)
        reference = ~np.any([columns[other] for other in own], axis=0)
        sides = [side for side in (columns[name], reference) if side.any()]
        identified.append(
            all(
                found.counts[side].sum() >= _SEEN * found.counts_noise * math.sqrt(side.sum())
                for side in sides
            )
        )
    return np.array(identified)


# Estimator


class _Fitted(OffsetColumn[SomePlan]):
    """Attributes that a fit with factors sets. This class has no parameters."""

    levels_: dict[Any, dict[str, float]]
    counts_noise_std_: float
    _found: LevelsEstimate
    _coding: Coding
    """The coding of a formula, during its fit only."""


@parameters
class FactorColumns(_Fitted[SomePlan]):
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
        return replace(schema, beside=(*schema.beside, *_label_columns(factors)))

    def _linear_predictor(self, X: Any) -> tuple[Floats, Floats]:
        check_is_fitted(self)
        coding = self._fitted_coding
        if coding is None or hasattr(self, "formula_"):
            return super()._linear_predictor(X)
        table = self._again(X, _label_columns(coding.factors)).whole()
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
        """Fit a formula: its factors by levels, if it consists of factors and numbers and has rare levels.

        The choice depends on public facts only: sizes, epsilon and delta, and the declared fractions of levels.
        """
        from dpstats.regression.formula import FormulaRows

        if self.factors is not None:
            raise InvalidParameter(
                "factors must not be given with a formula. Name them in it, with their levels."
            )
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
            raise InvalidParameter(
                "factors must be declared for difference, or be part of the formula. For columns of X, use t_test."
            )
        name = _check_factor(factor, coding)
        levels = coding.factors[name]
        first, second = (_find_level(label, levels, which) for label, which in ((a, "a"), (b, "b")))
        if first == second:
            raise InvalidParameter(f"a and b must be different levels, got {show(a)} for both")
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
