"""Private conformal prediction around a fitted model: intervals for numbers, sets for classes.

Proof: docs/proofs/conformal.md.
"""

from __future__ import annotations

import copy
import math
from dataclasses import field, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import ClassifierTags, RegressorTags, get_tags
from sklearn.utils.validation import check_is_fitted

from dpstats.conformal.coverage import (
    ConformalPlan,
    Numbers,
    conformal_notes,
    conformal_plan,
    place_scores,
    read_scores,
    release_score,
)
from dpstats.data.parameters import check_choice, check_integer, check_privacy_parameters, check_real
from dpstats.data.rows import Rows, Table
from dpstats.data.schema import Categories, Column, Schema
from dpstats.data.values import quiet
from dpstats.errors import InvalidData, InvalidParameter, attempt, refuse, refuse_data
from dpstats.inference.reports import SIMULATED, Records
from dpstats.inference.results import Summary
from dpstats.lattice.base import check_region
from dpstats.release.estimator import PrivateEstimator, fitted, parameters, read_again
from dpstats.release.session import Released, Session

_DECADES = 4
_MOST_POINTS = 1 << 16
_MOST_ROWS = 1 << 31
_OUTWARD = 4 * np.finfo(np.float64).eps
"""Relative widening of a limit, so that rounding never moves it inside."""

Bools = NDArray[np.bool_]


@parameters
class ConformalPredictor(PrivateEstimator[ConformalPlan]):
    """Base of the conformal predictors: a fitted model, and a private score of its calibration rows."""

    estimator: Any = field(default=None, kw_only=False)
    groups: Any = None
    by: Any = None
    alpha: float = 0.1
    training: str | None = None
    n_points: int | None = None
    epsilon: float = 1.0
    random_state: Any = None
    budget: Any = None
    rank_: int = fitted()
    coverage_bound_: float = fitted()
    groups_: tuple[Any, ...] = fitted()
    counts_: Numbers = fitted()
    counts_noise_std_: float = fitted()

    _methods: ClassVar[tuple[str, ...]] = ("predict",)
    _header: ClassVar[str]
    _models: ClassVar[tuple[str, ...]] = ("estimator",)
    _infinite: ClassVar[str]
    _released: ClassVar[str]
    _model_tags: ClassVar[tuple[str, Any]]

    @property
    def _scores(self) -> Numbers:
        """The released scores: of all rows, or of each group."""
        return np.atleast_1d(getattr(self, self._released))

    # The release

    def _thresholds(self) -> tuple[float, float, bool]:
        """Return the least and the largest finite score of the points, and whether they are spaced by ratio."""
        raise TypeError(f"{type(self).__name__} does not define _thresholds")

    def _score(self, table: Table) -> Numbers:
        """Return the score of each calibration row, which depends on this row and the model only."""
        raise TypeError(f"{type(self).__name__} does not define _score")

    def plan(self, n_samples: int, n_features: int) -> ConformalPlan:
        """Return the release plan of a fit on calibration rows of this number.

        Examples
        --------
        >>> from sklearn.dummy import DummyRegressor
        >>> from dpstats.conformal import PrivateConformalRegressor
        >>> model = DummyRegressor(strategy="constant", constant=0.0).fit([[0.0]], [0.0])
        >>> made = PrivateConformalRegressor(model, score_bounds=10, training="public")
        >>> print(made.plan(2000, 1))
        Release plan for n = 2000, d = 1: (epsilon = 1, delta = 0), one row replaced
          score: 1 of 1,024 points, exponential mechanism of scale 2 in ranks
          Model: DummyRegressor, fitted without private rows (training='public')
          rank 1,811 of 2,000 scores, 1,801 without privacy
        >>> made.plan(2000, 1).rank, round(made.plan(2000, 1).coverage_bound, 4)
        (1811, 0.9)
        """
        n = check_integer("n_samples", n_samples, at_least=2)
        d = check_integer("n_features", n_features, at_least=1)
        epsilon, _ = check_privacy_parameters(self.epsilon, 0.0)
        for name in self._models:
            _check_model(name, getattr(self, name), self._methods if name == "estimator" else ("predict",))
        if self.training is None:
            raise refuse(
                "training",
                allowed="one of 'public', 'private', 'unprotected'",
                remedy="State how the model was fitted: on public rows, by a private release, or on sensitive rows "
                "without protection. The guarantee of this fit covers its calibration rows only.",
            )
        training = check_choice("training", self.training, ["public", "private", "unprotected"])
        groups = () if self.groups is None else self._categories().values
        # The target of a group follows half of its size, which suffices for upper quantiles only.
        alpha = check_real("alpha", self.alpha, above=0, below=0.5 if groups else 1)
        points = self.n_points
        if points is not None:
            points = check_integer("n_points", points, at_least=3, at_most=_MOST_POINTS)
        model, guarantee = type(self.estimator).__name__, getattr(self.estimator, "privacy_", None)
        if training == "private" and guarantee:
            model = f"{model} at {guarantee}"
        return conformal_plan(n, d, alpha, epsilon, self._thresholds(), points, groups, training, model)

    def required_samples(self, excess: float = 0.01) -> int:
        """Return the smallest number of calibration rows at which privacy and rounding raise the coverage by little.

        It needs no data. With groups it is the number of rows of each group, of equal groups.

        Parameters
        ----------
        excess : float, default=0.01
            Largest distance of the aimed coverage, (rank + 1)/(rows + 1), above 1 - alpha. Wider intervals cover it.

        Returns
        -------
        int

        Examples
        --------
        >>> from sklearn.dummy import DummyRegressor
        >>> from dpstats.conformal import PrivateConformalRegressor
        >>> model = DummyRegressor(strategy="constant", constant=0.0).fit([[0.0]], [0.0])
        >>> made = PrivateConformalRegressor(model, score_bounds=10, training="public")
        >>> rows = made.required_samples(excess=0.01)
        >>> rows, made.plan(rows, 1).rank
        (1067, 970)
        """
        most = check_real("excess", excess, above=0, below=1)
        count = max(len(self.groups or ()), 1)

        def enough(rows: int) -> bool:
            try:
                plan = self.plan(max(rows * count, 2), 1)
            except InvalidParameter as error:
                if error.parameter == "n_samples":  # too few for any rank
                    return False
                raise
            # Ranks are rounded up to whole rows, by less than one.
            if plan.rule is None:
                return plan.price + 1 <= most * (rows + 1)
            return rows >= plan.rule.least and plan.rule.extra + 1 + plan.alpha <= most * (rows + 1)

        low, high = 1, 2
        while not enough(high):
            if high >= _MOST_ROWS:
                raise refuse("excess", given=excess, allowed=f"larger: {_MOST_ROWS:,} rows are not enough")
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high

    def _categories(self) -> Categories:
        return Categories(self.groups, "groups")

    def _schema(self) -> Schema:
        names = attempt(lambda: [str(name) for name in self.estimator.feature_names_in_], Exception)
        beside = (self._outcome_column(), *self._group_columns())
        # The names of the model's columns choose these columns, as labeled bounds do.
        return replace(super()._schema(), bounds=dict.fromkeys(names) if names else None, beside=beside)

    def _outcome_column(self) -> Column:
        return Column("y")

    def _group_columns(self) -> tuple[Column, ...]:
        """Return the column of the groups, if there are any."""
        if (self.groups is None) != (self.by is None):
            raise refuse(
                "by" if self.by is None else "groups",
                allowed="given together with " + ("groups" if self.by is None else "by"),
                remedy="groups has the public labels, and by names the column of X that has them.",
            )
        if self.by is None:
            return ()
        return (Column("groups", self.by, self._categories(), "by", meaning="the label of each row"),)

    def _read(self, rows: Rows, plan: ConformalPlan) -> Any:
        table = rows.whole()
        self._check_alone(table)
        places = place_scores(self._score(table), plan)
        if not plan.groups:
            return [np.sort(places)]
        assert table.groups is not None
        return [np.sort(places[table.groups == k]) for k in range(len(plan.groups))]

    def _release(self, private: Any, plan: ConformalPlan, session: Session) -> None:
        release_score(private, plan, session)

    def _report(self, released: Released, plan: ConformalPlan) -> None:
        scores, counts = read_scores(released, plan)
        setattr(self, self._released, scores if plan.groups else float(scores[0]))
        self.coverage_bound_ = plan.coverage_bound
        if counts is not None:
            self.groups_, self.counts_, self.counts_noise_std_ = plan.groups, counts, plan.count_std
        else:
            assert plan.rank is not None
            self.rank_ = plan.rank

    # The model

    def _call(self, name: str, method: str, table: Table) -> Numbers:
        """Call a method of a model, and return its numbers for each row."""
        model = getattr(self, name)
        X = np.asarray(table.X, dtype=np.float64)
        if not np.isfinite(X).all() and not _allows_nan(model):
            raise refuse_data("X", got="at least one NaN or infinite entry", allowed="finite")
        given, wanted = X, attempt(lambda: list(model.feature_names_in_), Exception)
        if wanted is not None and table.names is not None:
            import pandas as pd

            # A model that was fitted on a data frame gets one, in its order of the columns.
            given = pd.DataFrame(X, columns=copy.copy(table.names))
            given = given[wanted] if set(wanted) <= set(table.names) else given
        # The words of the model's error may hold an entry.
        with quiet():
            found = attempt(lambda: np.asarray(getattr(model, method)(given), dtype=np.float64), Exception)
        if found is not None and found.ndim == 2 and method == "predict" and found.shape[1] == 1:
            found = found[:, 0]
        if found is None or found.shape[:1] != (len(X),) or found.ndim != (1 if method == "predict" else 2):
            raise refuse_data(
                "X",
                got=f"{X.shape[1]} columns for which it fails",
                allowed=f"rows for which {name}.{method} returns {'a number' if method == 'predict' else 'a row'} each",
                remedy="Try the model on public rows with these columns.",
            )
        return found

    def _check_alone(self, table: Table) -> None:
        """Refuse a model that predicts a row otherwise if another row changes: a transformer may use all of them.

        It is tried on made rows. A model that fails for these, or predicts at random, is not checked.
        """
        made = np.random.default_rng(0).normal(size=(12, table.X.shape[1]))
        # One of the changed rows is the largest, the other the smallest.
        other = np.vstack([np.outer([1e3, -1e3], np.ones(made.shape[1])), made[2:]])
        for name in self._models:
            if getattr(self, name) is None:
                continue
            call = partial(self._call, name, self._methods[0] if name == "estimator" else "predict")
            tables = [Table(rows, names=table.names) for rows in (made, made.copy(), other)]
            found = attempt(lambda call=call, tables=tables: [*map(call, tables)], InvalidData)  # type: ignore[misc]
            if found is None or not np.array_equal(found[0], found[1], equal_nan=True):
                continue
            if not np.array_equal(found[0][2:], found[2][2:], equal_nan=True):
                raise refuse(
                    name,
                    got="a model that predicts a row otherwise if another row changes",
                    allowed="one that predicts each row from this row alone",
                    remedy="Its transformers must be fitted to the training rows, and not to the rows to predict for.",
                )

    def _new_rows(self, X: Any) -> Table:
        """Return rows to predict for, with their groups if there are any."""
        check_is_fitted(self, "plan_")
        return read_again(self, X, self._group_columns()).whole()

    def _select_scores(self, table: Table) -> Numbers:
        """Return the released score for each new row by its group, infinite for an undeclared group."""
        if not self.plan_.groups:
            return np.full(len(table), self._scores[0])
        assert table.groups is not None
        return np.where(table.groups >= 0, self._scores[table.groups], np.inf)

    # Reports

    def _unit_rows(self) -> list[str]:
        return [str(group) for group in self.plan_.groups] or ["all rows"]

    def summary(self) -> Summary:
        """Return a table of the released scores. It prints as text, and shows as HTML in a notebook."""
        check_is_fitted(self, "plan_")
        plan = self.plan_
        facts = [
            ("Coverage", f"at least {1 - plan.alpha:.6g}{' in each group' if plan.groups else ''}"),
            ("Points", f"{plan.points:,} from {plan.thresholds[0]:.4g} to {plan.thresholds[1]:.4g} (public)"),
            ("Rows that privacy costs", f"{plan.price:.3g}{' of each group' if plan.groups else ''}"),
        ]
        header, scores = ["", self._header], [f"{score:.6g}" for score in self._scores.tolist()]
        if plan.groups:
            header, last = [*header, "rows"], [f"{count:,.0f}" for count in self.counts_]
        else:
            header, last = [*header, "rank"], [f"{plan.rank:,} of {plan.n_samples:,}"]
        table = [list(row) for row in zip(self._unit_rows(), scores, last, strict=True)]
        notes = conformal_notes(plan, self._scores, self._infinite) + [SIMULATED] * self.privacy_.simulated
        return Summary("Private conformal prediction", self._table_facts() + facts, header, table, notes)

    def _records(self) -> Records:
        check_is_fitted(self, "plan_")
        plan = self.plan_
        columns: dict[str, Any] = {self._header.replace("-", "_").replace(" ", "_"): self._scores.tolist()}
        if plan.groups:
            columns["rows"] = self.counts_.tolist()
        facts = {**plan.facts(), "simulated": self.privacy_.simulated}
        return Records(self._unit_rows(), columns, facts)

    # Conventions of scikit-learn

    def __sklearn_clone__(self) -> Self:
        # The model is fitted already: a clone has the same model, and not an unfitted copy.
        given = self.get_params(deep=False)
        return type(self)(**{name: v if name in self._models else clone(v, safe=False) for name, v in given.items()})

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        for name in self._models:
            model = getattr(self, name)
            memo[id(model)] = model
        return super().__deepcopy__(memo)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = _allows_nan(self.estimator)
        # The quality of predictions is the model's.
        tags.estimator_type, kind = self._model_tags
        setattr(tags, f"{tags.estimator_type}_tags", kind(poor_score=True))
        return tags


@parameters
class PrivateConformalRegressor(ConformalPredictor):
    """Private intervals around the predictions of a fitted model, which cover new outcomes.

    Use this estimator for intervals of single outcomes, such as the price of one house, around any model. The interval
    of a new row covers its outcome with probability at least 1 - alpha, for any distribution and any model. For
    intervals of coefficients, use a regression of `dpstats.regression`.

    Parameters
    ----------
    estimator : object with ``predict``
        The fitted model. It must predict each row from this row alone. Its training rows and the calibration rows must
        be different rows.
    groups : sequence, optional
        Public labels of groups. Coverage then holds in each group. Rows in another group have infinite intervals.
    by : column name, optional
        Column of X with the labels of the groups. The model does not get it.
    y_bounds : (low, high), optional
        Public bounds of the outcomes. Intervals are cut to them. An outcome outside is not covered.
    upper_estimator : object with ``predict``, optional
        Fitted model of an upper quantile. ``estimator`` is then one of a lower quantile, and both limits are moved
        outward by one number, or inward if it is negative. ``training`` describes it too.
    scale_estimator : object with ``predict``, optional
        Fitted model of the scale of the residuals: positive numbers, such as predicted absolute residuals. Widths are
        then proportional to it. ``training`` describes it too.
    score_bounds : float or (low, high)
        Public bounds of the half-width, in units of the outcome, or of the scale with ``scale_estimator``. The
        half-width is between them, or infinite. Default of low: ``high / 10000``, and ``-high`` with
        ``upper_estimator``.
    alpha : float, default=0.1
        Probability, in (0, 1), that an interval misses. Below 0.5 with groups.
    training : {"public", "private", "unprotected"}
        Origin of the model. There is no default, because the guarantee of a fit covers its calibration rows only:

        * "public": without private rows.
        * "private": by a private release, such as a regression of dpstats. If no row is in both parts, a row has the
          weaker of the two guarantees, and not their sum.
        * "unprotected": on sensitive rows. Predictions and intervals may show these rows.
    n_points : int, optional
        Number of public points that the half-width is chosen among, spaced by ratio, or evenly with
        ``upper_estimator``. Default: between 32 and 4,096, by the numbers of rows, epsilon and alpha.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges before it draws noise. Clones share it.

    Attributes
    ----------
    half_width_ : float, or ndarray of shape (n_groups,)
        Half-width of the intervals; times the scale, with ``scale_estimator``. It may be infinite. With
        ``upper_estimator``, the distance by which both limits are moved outward, which may be negative.
    rank_ : int
        Rank that the choice aims at among the absolute residuals. Not with groups.
    coverage_bound_ : float
        The proved coverage, at least 1 - alpha.
    groups_ : tuple
        The declared groups, in their order. Only with groups, as the following attributes.
    counts_ : ndarray of shape (n_groups,)
        Noisy number of calibration rows of each group. It can be negative.
    counts_noise_std_ : float
        Standard deviation of the noise in ``counts_``.
    privacy_ : PrivacyGuarantee
        Guarantee of the calibration, for neighboring datasets that differ in one calibration row.
    plan_ : ConformalPlan
        The release plan: the points, the rank, and the cost.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names. Only if ``X`` has some.

    Notes
    -----
    **Privacy.** One exponential mechanism chooses a public point near a rank of the scores, as in `PrivateQuantile`.
    The score of a row depends on this row and the model. New rows are not protected: an interval shows its prediction.

    **Coverage.** The rank is the least one with the proved coverage. It allows for noise, ties and gaps.

    **Limits.** Coverage is for a new row on average, not given its covariates. Intervals are infinite if the rows
    are too few for the rank, and in undeclared groups. The model is protected only if its training was private.

    References
    ----------
    Vovk, Gammerman and Shafer (2005), Algorithmic learning in a random world. Lei, G'Sell, Rinaldo, Tibshirani and
    Wasserman (2018), Distribution-free predictive inference for regression. Romano, Patterson and Candes (2019),
    Conformalized quantile regression. Angelopoulos, Bates, Zrnic and Jordan (2022), Private prediction sets.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from dpstats.conformal import PrivateConformalRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X @ [1.0, -1.0] + rng.normal(size=5000)
    >>> model = LinearRegression().fit(X[:1000], y[:1000])
    >>> intervals = PrivateConformalRegressor(model, score_bounds=100, training="public", random_state=0)
    >>> low, high = intervals.fit(X[1000:3000], y[1000:3000]).predict_interval(X[3000:])
    >>> covered = (low <= y[3000:]) & (y[3000:] <= high)
    >>> bool(0.88 < covered.mean() < 0.94), round(float(intervals.half_width_), 1)
    (True, 1.7)
    """

    y_bounds: Any = None
    upper_estimator: Any = None
    scale_estimator: Any = None
    score_bounds: Any = None
    half_width_: Any = fitted()

    _header = "half-width"
    _models = ("estimator", "upper_estimator", "scale_estimator")
    _infinite = "An interval is infinite"
    _released = "half_width_"
    _model_tags = "regressor", RegressorTags

    def _thresholds(self) -> tuple[float, float, bool]:
        self._outcome_bounds()
        given, signed = self.score_bounds, self.upper_estimator is not None
        if attempt(lambda: np.ndim(given), Exception) == 1 and len(given) == 2:
            above = {} if signed else {"above": 0}
            low, high = (check_real("score_bounds", x, of=given, **above) for x in given)
        else:
            high = check_real("score_bounds", given, above=0)
            low = -high if signed else high / 10**_DECADES
        if not low < high or (not signed and low < np.finfo(np.float64).tiny * 2**60):
            raise refuse("score_bounds", given=given, allowed="a positive number, or a pair (low, high), low < high")
        if signed:
            # Otherwise points may be infinite, NaN or equal.
            for end in (low, high):
                check_region(high / 2 - low / 2, end, "score_bounds must have a half-width", "score_bounds must be")
        return low, high, not signed

    def _outcome_bounds(self) -> tuple[float, float]:
        """Return the public bounds of outcomes, infinite by default."""
        given = self.y_bounds
        if given is None:
            return -math.inf, math.inf
        ends = list(given) if attempt(lambda: np.ndim(given), Exception) == 1 else []
        if len(ends) != 2:
            raise refuse("y_bounds", given=given, allowed="a pair (low, high) of finite numbers")
        low, high = (check_real("y_bounds", end, of=given) for end in ends)
        if not low < high:
            raise refuse("y_bounds", given=given, allowed="a pair (low, high) with low < high")
        return low, high

    def _score(self, table: Table) -> Numbers:
        assert table.y is not None
        low, high = self._predict_limits(table)
        with np.errstate(all="ignore"):
            # Of one prediction, this is the absolute residual.
            scores: Numbers = np.maximum(low - table.y, table.y - high) / self._predict_scale(table)
        return scores

    def _predict_limits(self, table: Table) -> tuple[Numbers, Numbers]:
        """Return both predicted limits of each row, in order, or the prediction twice."""
        low = self._call("estimator", "predict", table)
        if self.upper_estimator is None:
            return low, low
        high = self._call("upper_estimator", "predict", table)
        return np.minimum(low, high), np.maximum(low, high)

    def _predict_scale(self, table: Table) -> Numbers:
        """Return the scale of each row, NaN where the model predicts none that is positive."""
        if self.scale_estimator is None:
            return np.ones(len(table))
        found = self._call("scale_estimator", "predict", table)
        return np.where(np.isfinite(found) & (found > 0), found, np.nan)

    def predict(self, X: Any) -> Numbers:
        """Return the predictions of the model, of shape (n_samples,): with two models, the middle of both."""
        low, high = self._predict_limits(self._new_rows(X))
        return low if self.upper_estimator is None else low / 2 + high / 2

    def predict_interval(self, X: Any) -> tuple[Numbers, Numbers]:
        """Return an interval for the outcome of each new row. Releases nothing new about calibration rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict for. They are not protected. With groups, a data frame with the column ``by``.

        Returns
        -------
        low, high : ndarrays of shape (n_samples,)
            Limits in units of the outcome. They are infinite if the half-width is, or if the prediction is missing.
        """
        table = self._new_rows(X)
        first, last = self._predict_limits(table)
        with np.errstate(all="ignore"):
            half = self._select_scores(table) * self._predict_scale(table)
            half = half + _OUTWARD * (np.maximum(np.abs(first), np.abs(last)) + np.abs(half))
            low, high = first - half, last + half
            # Limits that were moved inward past each other cover nothing: their middle stands for it.
            low, high = np.minimum(low, low / 2 + high / 2), np.maximum(high, low / 2 + high / 2)
        # A calibration row with such a prediction has the last point, which stands for everything.
        nothing = ~(np.isfinite(first) & np.isfinite(last) & np.isfinite(half))
        least, most = self._outcome_bounds()
        low = np.clip(np.where(nothing, -np.inf, low), least, most)
        return low, np.clip(np.where(nothing, np.inf, high), least, most)


@parameters
class PrivateConformalClassifier(ConformalPredictor):
    """Private sets of classes around the probabilities of a fitted model, which contain new classes.

    Use this estimator to say which classes are plausible for one row, around any classifier. The set of a new row has
    its class with probability at least 1 - alpha, for any distribution and any model.

    Parameters
    ----------
    estimator : object with ``predict_proba`` and ``classes_``
        The fitted classifier. It must predict each row from this row alone. Its training rows and the calibration rows
        must be different rows.
    groups : sequence, optional
        Public labels of groups. Coverage then holds in each group. Rows in another group have all classes.
    by : column name, optional
        Column of X with the labels of the groups. The model does not get it.
    alpha : float, default=0.1
        Probability, in (0, 1), that a set misses. Below 0.5 with groups.
    training : {"public", "private", "unprotected"}
        How the model was fitted, as for `PrivateConformalRegressor`. There is no default.
    n_points : int, optional
        Number of public points between 0 and 1 that the score is chosen among. Default: between 32 and 4,096, by the
        numbers of rows, epsilon and alpha.
    epsilon, random_state, budget
        The same as in `PrivateConformalRegressor`.

    Attributes
    ----------
    score_ : float, or ndarray of shape (n_groups,)
        A set has the classes with 1 minus their probability at most this score. Infinite: all classes.
    classes_ : ndarray of shape (n_classes,)
        Classes of the model.
    rank_ : int
        Rank that the choice aims at among the scores. Not with groups.
    coverage_bound_, groups_, counts_, counts_noise_std_, privacy_, plan_, n_features_in_, feature_names_in_
        The same as in `PrivateConformalRegressor`.

    Notes
    -----
    **Privacy.** One exponential mechanism chooses a public point near a rank of the scores, as in `PrivateQuantile`.
    New rows are not protected: a set shows its prediction.

    **Coverage.** The rank is the least one with the proved coverage. It allows for noise, ties and gaps.
    It concerns rows whose class the model knows. A calibration row with another class raises an error.

    **Limits.** Coverage is for a new row on average, not given its covariates. Sets have all classes if the rows
    are too few for the rank, and in undeclared groups. The model is protected only if its training was private.

    References
    ----------
    Angelopoulos, Bates, Zrnic and Jordan (2022), Private prediction sets.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from dpstats.conformal import PrivateConformalClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = 2 * rng.normal(size=(5000, 3))
    >>> y = np.argmax(X + rng.gumbel(size=X.shape), axis=1)
    >>> model = LogisticRegression().fit(X[:1000], y[:1000])
    >>> sets = PrivateConformalClassifier(model, training="public", random_state=0).fit(X[1000:3000], y[1000:3000])
    >>> found = sets.predict_set(X[3000:])
    >>> bool(0.88 < found[np.arange(2000), y[3000:]].mean() < 0.94), round(float(found.sum(axis=1).mean()), 1)
    (True, 1.5)
    """

    score_: Any = fitted()
    classes_: NDArray[Any] = fitted()

    _methods = ("predict_proba",)
    _header = "score"
    _infinite = "A set has all classes"
    _released = "score_"
    _model_tags = "classifier", ClassifierTags

    def _thresholds(self) -> tuple[float, float, bool]:
        self._find_classes()
        return 0.0, 1.0, False

    def _find_classes(self) -> NDArray[Any]:
        """Return the classes of the model."""
        found = attempt(lambda: np.asarray(self.estimator.classes_), Exception)
        if found is None or found.ndim != 1 or not found.size:
            raise refuse("estimator", given=self.estimator, allowed="a fitted classifier with classes_")
        return found

    def _outcome_column(self) -> Column:
        classes = Categories(self._find_classes().tolist(), "estimator.classes_")
        return Column("y", None, classes, convert=_check_known, meaning="a class for each row")

    def _score(self, table: Table) -> Numbers:
        assert table.y is not None
        codes = np.asarray(table.y, dtype=np.int64)
        return np.asarray(self._class_scores(table)[np.arange(len(codes)), codes])

    def _class_scores(self, table: Table) -> Numbers:
        """Return 1 minus the probability of each class, of shape (n_samples, n_classes)."""
        found = self._call("estimator", "predict_proba", table)
        if found.shape[1] != self._find_classes().size:
            raise refuse_data(
                "X",
                got=f"{found.shape[1]} probabilities",
                allowed=f"rows with a probability for each of {self._find_classes().size} classes",
            )
        return 1 - found

    def _report(self, released: Released, plan: ConformalPlan) -> None:
        super()._report(released, plan)
        self.classes_ = self._find_classes()

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row, of shape (n_samples,)."""
        table = self._new_rows(X)
        return np.asarray(self.classes_[np.argmin(self._class_scores(table), axis=1)])

    def predict_set(self, X: Any) -> Bools:
        """Return the classes in the set of each new row. Releases nothing new about calibration rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict for. They are not protected. With groups, a data frame with the column ``by``.

        Returns
        -------
        ndarray of bool, of shape (n_samples, n_classes)
            A column for each entry of ``classes_``. A set may be empty.
        """
        table = self._new_rows(X)
        scores = self._class_scores(table)
        # A probability that is not a number has the last point, which stands for everything.
        limits = self._select_scores(table)[:, None]
        return np.asarray((scores <= limits) | np.isnan(scores))


# Models


def _check_known(codes: Any) -> Any:
    """Refuse rows whose class the model does not know."""
    if np.any(np.asarray(codes) < 0):
        raise refuse_data(
            "y",
            got="at least one class that the model does not know, or a missing one",
            allowed="hold entries of estimator.classes_",
        )
    return codes


def _check_model(name: str, model: Any, methods: tuple[str, ...]) -> None:
    """Refuse anything but a fitted model."""
    if model is None and name != "estimator":
        return
    for method in methods:
        if not callable(getattr(model, method, None)):
            raise refuse(name, given=model, allowed=f"a fitted model with the method {method}")
    if not isinstance(model, BaseEstimator):
        return
    try:
        check_is_fitted(model)
    except NotFittedError:
        raise refuse(
            name, got=f"a {type(model).__name__} that is not fitted", allowed="a fitted model", remedy="Call its fit."
        ) from None
    except Exception:
        return  # a model that does not say


def _allows_nan(model: Any) -> bool:
    """Return whether a model states that it takes missing entries."""
    tags = attempt(lambda: get_tags(model), Exception)
    return tags is not None and bool(tags.input_tags.allow_nan)
