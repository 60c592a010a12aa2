"""Base class of the identity tests: release, report and charge of a fit."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.data.memory import stated_shape
from dpstats.data.opening import open_source
from dpstats.data.schema import check_columns_again
from dpstats.data.tables import Rows
from dpstats.identity.alternatives import unit_vector
from dpstats.identity.distance_interval import InvertedTest
from dpstats.identity.levels import pvalue, realised_level
from dpstats.identity.plan import IdentityPlan
from dpstats.identity.power import PlannedTest
from dpstats.identity.result import TestResult
from dpstats.release.charges import state_charges
from dpstats.release.session import Released
from dpstats.results import HasResult, about_missing

# `calibrated` has the public side of a test: its plan and its calibration. A test adds its exact private integers.
# `dpstats.release.estimator` decides when to charge.

_ATTAINABLE: dict[str, float] = {}
"""Attainable powers by the distribution of the statistic. They are public, and equal for all fits of one size."""


class PrivateTest(HasResult[TestResult], PlannedTest, InvertedTest):
    """Base class of the identity tests.

    The exact integers of a test are private. The statistic is computed from their noisy release.

    Every test has the parameters ``mean``, ``cov``, ``null``, ``epsilon``, ``level``, ``calibration``,
    ``n_calibration``, ``missing``, ``cache_dir``, ``n_jobs``, ``progress``, ``random_state`` and ``budget``. A test may
    declare further parameters (`dpstats.release.parameters`).

    Attributes
    ----------
    statistic_, threshold_, pvalue_ : float
        Noisy statistic, its critical value, and the p-value.
    reject_ : bool
        Whether the test rejects.
    result_ : TestResult
        Full result.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit.
    plan_ : IdentityPlan
        The release plan.
    rows_, rows_noise_std_, n_rows_ : float, float, int
        Noisy number of complete rows, the standard deviation of its noise, and the number of rows in the test. Only
        with ``missing="drop"``.
    """

    _title: ClassVar[str]

    @abstractmethod
    def _exact(self, X: NDArray[Any], plan: IdentityPlan) -> Any:
        """Return the exact private integers of every stage by name, or raise an error for bad data."""

    def _prepare(self, plan: IdentityPlan) -> IdentityPlan:
        """Return the plan with its null distribution and its attainable power, once for every distribution."""
        prepared = super()._prepare(plan)
        key = f"{type(self).__name__} {plan.law} {plan.level} {prepared.critical_value}"
        if key not in _ATTAINABLE:
            dense = unit_vector("dense", plan.n_features)
            _ATTAINABLE[key] = self._attainable_power(prepared, dense)
        return prepared.having(attainable_power=_ATTAINABLE[key])

    def _fill(self, d: int) -> Any:
        return np.asarray(self.mean) if self.null == "normal" else 1.0

    def _read(self, rows: Rows, plan: IdentityPlan) -> Any:
        return self._exact(rows.whole().X, plan)

    def _report(self, released: Released, plan: IdentityPlan) -> None:
        null = plan.null
        self.statistic_ = float(self._combine(released, plan))
        self.threshold_ = plan.critical_value
        self.pvalue_ = math.nan if null is None else pvalue(null, self.statistic_)
        self.result_ = TestResult(
            self._title,
            self.statistic_,
            self.pvalue_,
            self.threshold_,
            plan.level,
            "the rows are independent signs with the public means"
            if plan.reference.signs_mean is not None
            else "the rows are N(mean, cov), both public",
            plan.n_samples,
            plan.n_features,
            self.privacy_,
            plan.n_calibration,
            (math.nan, math.nan) if null is None else realised_level(null.size, plan.level),
            plan.attainable_power,
            about_missing(plan.missing, "the mean of the null hypothesis", "Rows with a missing entry"),
        )
        self.reject_ = self.result_.reject

    @state_charges
    def predict(self, X: Any) -> int:
        """Run the calibrated test on another dataset. This is a separate release, and is charged again.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Private rows, with the columns of the fit. The test returns one answer for this dataset.

        Returns
        -------
        int
            1 to reject, 0 not to.
        """
        check_is_fitted(self)
        source = open_source(X)
        fitted = getattr(self, "feature_names_in_", None)
        names = None if source.names is None else list(source.names)
        stated = source.size(self._schema().resolve(source.names))
        n_features = self.n_features_in_ if stated is None else stated[1]
        check_columns_again(self, names, n_features, stated_shape(X))
        # An array has the columns of the fit in order, and so has a labeled mean. A copy shares the budget and the
        # generator. The attributes of this fit stay unchanged.
        test = copy.copy(self._sort_parameters(names if fitted is None else list(fitted)))
        return int(test.fit(source).reject_)

    @state_charges
    def fit_predict(self, X: Any, y: Any = None) -> int:
        """Run the test once and return 1 to reject, 0 not to."""
        return int(self.fit(X).reject_)
