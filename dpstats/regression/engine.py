"""Base classes of regressions by noisy Newton steps, their weights and offsets, and the score on private rows.

Proof: docs/proofs/regression.md.
"""

from __future__ import annotations

import contextlib
import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from dpstats.data.parameters import check_choice, check_flag, check_integer
from dpstats.data.rows import Rows, column_of
from dpstats.data.schema import Column, Schema
from dpstats.data.values import as_int64, quiet
from dpstats.errors import refuse, refuse_data
from dpstats.inference.error_distributions import ErrorDistribution
from dpstats.inference.results import ConfidenceInterval, list_some, significant
from dpstats.lattice import check_finite_rows
from dpstats.lattice.base import FREE_SQUARES, FREE_SQUARES_L1, box_movement, free_weight
from dpstats.means.ratio import check_bounds
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Block as StageBlock
from dpstats.regression.base import MANY_OUTSIDE, Regression, SomePlan
from dpstats.regression.blocks import Design, DesignRows
from dpstats.regression.hypotheses import LevelErrors, find_one_sided
from dpstats.regression.levels import LevelsPath
from dpstats.regression.levels_plan import LevelsPlan
from dpstats.regression.linear_path import LinearPath
from dpstats.regression.log_linear_path import LogLinearPath
from dpstats.regression.log_linear_plan import LogLinearPlan
from dpstats.regression.passes import Floats
from dpstats.regression.path import Estimate, Path, find_identified
from dpstats.regression.plan import OFFSETS, ROWS, WEIGHT, DesignPlan, RegressionPlan
from dpstats.regression.rows import OUTSIDE
from dpstats.regression.two_valued import LogisticPath
from dpstats.release.additive import Integers, JointIntegers, additive_stages
from dpstats.release.charges import state_charges
from dpstats.release.estimator import parameters
from dpstats.release.session import Released, Session

# Weights, offsets and exposures

_WITH_ARTICLE = {"weight": "a weight", "offset": "an offset", "exposure": "an exposure"}


@parameters
class RowColumns(Regression[SomePlan]):
    """Base class of the regressions whose rows may have weights, and offsets or exposures."""

    weights: Any = None
    weight_bounds: Any = None

    _roles: ClassVar[dict[str, str]] = {"weights": "weight"}
    """Roles of the further columns, by parameter. The bounds are ``{role}_bounds``."""

    def _ends(self, parameter: str) -> tuple[float, float] | None:
        """Return the declared bounds of a further column, or None if rows do not have it."""
        name = f"{self._roles[parameter]}_bounds"
        given = getattr(self, name)
        if given is None:
            if getattr(self, parameter) is not None:
                raise refuse(name, allowed=f"given with {parameter}: a pair (low, high)")
            return None
        low, high = (float(np.ravel(end)[0]) for end in check_bounds(name, given, 1))
        if parameter != "offset" and (low < 0 or (low == 0 and parameter == "exposure")):
            least = "greater than 0" if parameter == "exposure" else "at least 0"
            raise refuse(name, given=given, allowed=least)
        return low, high

    def _add_columns(self, design: Design) -> Design:
        """Return the design with the bounds of the further columns."""
        ends: dict[str, Any] = {role: self._ends(name) for name, role in self._roles.items()}
        return replace(design, **ends)

    def _schema(self) -> Schema:
        schema = super()._schema()
        further = tuple(
            Column(role, getattr(self, name), parameter=name, meaning=f"{_WITH_ARTICLE[role]} for each row")
            for name, role in self._roles.items()
            if getattr(self, f"{role}_bounds") is not None
        )
        return replace(schema, beside=(*schema.beside, *further))

    def _fit_columns(self, X: Any, y: Any, **given: Any) -> Self:
        """Fit with the further columns that are given. Others are named by the estimator, or rows lack them."""
        columns = []
        for parameter, role in self._roles.items():
            column = given.get(parameter)
            if column is None:
                continue
            if getattr(self, f"{role}_bounds") is None:
                raise refuse(f"{role}_bounds", allowed=f"given with {parameter}: a pair (low, high)")
            if getattr(self, parameter) is not None:
                raise refuse(parameter, allowed="not be given twice: the estimator names its column")
            columns.append(column)
        return super().fit(X, (y, *columns) if columns else y)


@parameters
class OffsetColumn(RowColumns[SomePlan]):
    """Base class of the regressions whose rows may have offsets: known terms of the linear predictor."""

    offset: Any = None
    offset_bounds: Any = None

    _roles: ClassVar[dict[str, str]] = {"offset": "offset", **RowColumns._roles}

    def fit(self, X: Any, y: Any = None, offset: Any = None, weights: Any = None) -> Self:
        """Release the coefficients from the rows of ``X``.

        Bad parameters and bad data raise before anything is charged.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or container of rows
            Private rows, as for every estimator.
        y : sequence of length n_samples, or column name
            Private: the outcome of each row.
        offset : sequence of length n_samples, or column name, optional
            Private: a known term of the linear predictor of each row. It needs ``offset_bounds``. Not given if the
            estimator names a column of ``X`` by ``offset``.
        weights : sequence of length n_samples, or column name, optional
            Private: the weight of each row. It needs ``weight_bounds``. Not given if the estimator names a column of
            ``X`` by ``weights``.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameter
            If a parameter has a value that is not allowed.
        InvalidData
            If X, y, the offset or the weights cannot be read.
        BudgetExceeded
            If the budget cannot pay.
        """
        return self._fit_columns(X, y, offset=offset, weights=weights)


def check_offset(offset: Any, n: int) -> Floats | float:
    """Return the offsets of n rows to predict for, or 0 if there are none."""
    if offset is None:
        return 0.0
    found = column_of("offset", offset)
    if found.shape != (n,) or not np.isfinite(found).all():
        raise refuse_data("offset", allowed=f"{n} finite numbers, one for each row of X")
    return found


# Noisy Newton steps

_EFFECTS = {
    "offset": "coefficients may be biased",
    "exposure": "rates may be biased",
    "weight": "coefficients describe rows with other weights",
}
"""Effect of clipping a further column, by its role."""


@parameters
class NewtonSteps(RowColumns[RegressionPlan]):
    """Base class of the regressions that take noisy Newton steps.

    In each stage the path queries the rows, the session adds noise, and the path updates.
    """

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


def first_path(plan: DesignPlan) -> Path | LevelsPath:
    """Return the path of a plan before the first release."""
    if isinstance(plan, LevelsPlan):
        return LevelsPath(plan)
    if isinstance(plan, LogLinearPlan):
        return LogLinearPath(plan)
    assert isinstance(plan, RegressionPlan)
    return (LinearPath if plan.family == "linear" else LogisticPath)(plan)


def of_draw(released: Any, draw: int) -> Any:
    """Return the released values of one draw."""
    if isinstance(released, Mapping):
        return {name: values[draw] for name, values in released.items()}
    return released[draw]


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


# Scores, which are separate releases

_SCORE_BITS = 30
"""Residuals, outcomes and their squares are whole multiples of two to minus this power."""
MEANS, SQUARES, CORRECT = "means", "squares", "share that is right"
VARIATION = "residuals and outcomes"


def variation_plan(n: int, epsilon: float, delta: float) -> ReleasePlan:
    """Return the plan of releasing means and squares of residuals and outcomes, each in [-1, 1], of n rows."""
    norm = "l2" if delta > 0 else "l1"
    weight = free_weight(FREE_SQUARES, _SCORE_BITS) if delta > 0 else FREE_SQUARES_L1
    step, unit = 2.0**-_SCORE_BITS / n, 2.0**_SCORE_BITS
    moved = box_movement((1.0, weight), 2**_SCORE_BITS, norm)
    both = math.sqrt(2 * moved) if delta > 0 else 2 * moved
    moved_units = both / unit * (1 + 1e-12)
    blocks = (StageBlock(MEANS, 2, step, unit), StageBlock(SQUARES, 2, step, unit / weight))
    item = JointIntegers(VARIATION, blocks, moved_units, moved_units)
    return ReleasePlan(additive_stages([item], epsilon, delta), PrivacyGuarantee(epsilon, delta), n, 2)


def release_variation(plan: ReleasePlan, session: Session, residuals: Floats, outcomes: Floats) -> None:
    """Release moments of residuals and outcomes, clipped to [-1, 1]. A residual that overflows to NaN counts as 1."""
    known = np.where(np.isnan(residuals), 1.0, residuals)
    both = np.clip(np.stack([known, outcomes], axis=1), -1.0, 1.0)
    steps = as_int64(np.rint(both * 2.0**_SCORE_BITS))
    squares = steps * steps >> _SCORE_BITS
    session.add(VARIATION, {MEANS: steps.sum(axis=0), SQUARES: squares.sum(axis=0)})


def determination(released: Any) -> float:
    """Return R^2 from the values that `release_variation` released, in half-widths of the outcome."""
    means, squares = released[VARIATION][MEANS], released[VARIATION][SQUARES]
    total = float(squares[1] - means[1] ** 2)
    if total <= 0:
        return math.nan
    # Residuals are clipped at twice the half-width, so their squares are in units of 4.
    return float(np.clip(1 - 4 * max(float(squares[0]), 0.0) / total, -1e6, 1.0))


def accuracy_plan(n: int, epsilon: float, delta: float) -> ReleasePlan:
    """Return the plan of releasing the number of correct predictions for n rows."""
    item = Integers(CORRECT, 1, 2.0**-_SCORE_BITS / n, 1 << _SCORE_BITS, 1 << _SCORE_BITS)
    return ReleasePlan(additive_stages([item], epsilon, delta), PrivacyGuarantee(epsilon, delta), n, 1)


def release_accuracy(plan: ReleasePlan, session: Session, right: NDArray[np.bool_]) -> None:
    """Release the number of correct predictions."""
    session.add(CORRECT, np.array([np.count_nonzero(right) << _SCORE_BITS]))


# Base classes by the kind of outcome


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


@parameters
class LeastSquares(BoundedOutcome[SomePlan]):
    """Base class of the linear regressions. The outcome is a number within public bounds."""

    y_bounds: Any = None

    _fewest: ClassVar[int] = 1
    """Smallest number of columns of a model with an intercept."""

    @property
    def _identified(self) -> NDArray[np.bool_]:
        found = super()._identified
        if self._first and hasattr(self, "intercept_identified_"):
            found[0] = self.intercept_identified_
        return found

    def _declared(self, n_samples: int, n_features: int) -> tuple[int, Design]:
        """Return the public facts about the rows: their number, and the design."""
        n = check_integer("n_samples", n_samples, at_least=2)
        intercept = check_flag("fit_intercept", self.fit_intercept)
        d = check_integer("n_features", n_features, at_least=self._fewest if intercept else 1)
        if self.y_bounds is None:
            raise refuse("y_bounds", allowed="given: a pair (low, high)")
        return n, Design.check(self.x_bounds, self.y_bounds, d, intercept)

    def predict(self, X: Any) -> Floats:
        """Return the predicted outcomes of rows, of shape (n_samples,). Releases nothing new."""
        return self._linear_predictor(X)[1]

    def predict_interval(
        self, X: Any, confidence_level: float | None = None, *, of: str = "mean"
    ) -> ConfidenceInterval:
        """Return an interval for each row: for the mean outcome of such rows, or for one outcome.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict for.
        confidence_level : float, default=0.95
            Level of the individual (not simultaneous) intervals.
        of : {"mean", "outcome"}, default="mean"
            "outcome" adds the variance of a single outcome, and assumes normal residuals with equal variances.
        """
        what = check_choice("of", of, ["mean", "outcome"])
        found = self.get_prediction(X)
        if what == "outcome":
            errors = np.sqrt(found.error**2 + self.scale_**2)
            one = self._inferred(found.estimate, errors, found.names)
            found = replace(one, estimand="one outcome of such a row")
        return found.confidence_interval(confidence_level)

    def score(self, X: Any, y: Any, sample_weight: None = None) -> float:
        """Return a private R^2 on private rows. This is a separate release with the same privacy cost as the fit.

        Outcomes are clipped to ``y_bounds``, and residuals at twice the half-width of these bounds. The result is NaN
        if noise makes the variance of the outcomes 0 or negative. The budget is charged, so that a search over models
        pays for every fit and every score.
        """
        return self._determination(X, *self._score_rows(X, y, sample_weight))

    def _noise_only(self) -> bool:
        return self.plan_.noise_only

    @abstractmethod
    def _method(self) -> list[tuple[str, str]]:
        """Return the methods for coefficients and covariance, as lines of a summary."""

    def _method_facts(self) -> list[tuple[str, str]]:
        *first, last = self._method()
        return [
            *first,
            ("Residual scale", significant(self.scale_, self.scale_ / 10)),
            ("Outcomes outside bounds", self._in_percent(self.clipped_share_, self.clipped_share_std_)),
            last,
        ]
