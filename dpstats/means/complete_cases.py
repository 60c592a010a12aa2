from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dpstats.data.frames import frame_like
from dpstats.data.labels import declare_unit
from dpstats.data.parameters import check_columns, check_integer, check_privacy_parameters
from dpstats.data.tables import Rows
from dpstats.errors import refuse_data
from dpstats.exports import Records
from dpstats.mechanisms.histogram import count_stage, count_steps
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.release.complete import ROWS, count_complete, sample_complete, usable_rows
from dpstats.release.estimator import PrivateEstimator
from dpstats.release.orders import draw_orders
from dpstats.release.parameters import HasMissingCodes, parameters
from dpstats.release.session import Released
from dpstats.results import Summary, few_observed


@parameters
class CompleteCases(TransformerMixin, PrivateEstimator[ReleasePlan], HasMissingCodes):
    """A first step that leaves out rows with a missing entry, before an estimator whose number of rows is public.

    ``fit`` releases the number of complete rows. ``transform`` returns slightly fewer of them, chosen at random, in
    random order. Their number follows from the release and is public. `AdaptiveMean`, `SparseMean` and identity tests
    do the same in one fit with ``missing="drop"``. Use this step before several of them, or before your own release.

    Parameters
    ----------
    epsilon : float, default=0.1
        Privacy parameter of the count. Must be positive. The next step pays for its own release.
    delta : float, default=0.0
        Privacy parameter, in [0, 1). 0 adds discrete Laplace noise to the count, a positive value Gaussian noise.
    fill : float or array-like of shape (n_features,), default=0.0
        Public entries of an additional row. ``transform`` adds copies of it if fewer than ``n_rows_`` rows are
        complete. The probability is at most 0.005. Choose a value that rows could have.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise and a secret order. Any other value simulates both: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges. Clones share it.

    Attributes
    ----------
    rows_ : float
        Noisy number of complete rows.
    rows_noise_std_ : float
        Standard deviation of its noise.
    n_rows_ : int
        Number of rows that ``transform`` returns: ``rows_`` less 4.6 scales of its Laplace noise (2.6 standard
        deviations of Gaussian noise), at most n_samples and at least 0.
    privacy_ : PrivacyGuarantee
        Guarantee of the count, for neighboring datasets that differ in one row. The total of a pipeline is the sum of
        the guarantees of its steps, or what one ``budget`` for all of them has been charged.
    plan_ : ReleasePlan
        The release plan.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names. Only if ``X`` has column names.

    Notes
    -----
    **Privacy.** Two neighboring datasets have the same public number of rows, and differ in one row. Given ``n_rows_``,
    the rows that ``transform`` returns can be paired so that they differ in at most one row, at one position. A
    release from these rows keeps its own guarantee, and the costs of both steps add up. If you choose the complete
    rows yourself, the next step takes their exact number to be public, and its guarantee fails.

    **Estimand.** The returned rows are a random sample of the complete rows. Estimates and intervals of the next step
    refer to the population of complete rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from dpstats.means import AdaptiveMean, CompleteCases
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(31.0, 1.0, size=(5000, 2))
    >>> X[rng.random(5000) < 0.3, 1] = np.nan
    >>> complete = CompleteCases(epsilon=0.1, random_state=0)
    >>> mean = AdaptiveMean(epsilon=0.9, bound=100.0, std=1.0, random_state=0)
    >>> made = make_pipeline(complete, mean).fit(X)
    >>> complete.n_rows_, mean.mean_.round(1)
    (3540, array([31., 31.]))
    """

    epsilon: float = 0.1
    delta: float = 0.0
    fill: Any = 0.0
    random_state: Any = None
    budget: Any = None

    missing: ClassVar[str] = "drop"
    _per_column = ("fill",)

    def plan(self, n_samples: int, n_features: int) -> ReleasePlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples, n_features : int
            Public sizes.

        Examples
        --------
        >>> from dpstats.means import CompleteCases
        >>> print(CompleteCases(epsilon=0.1).plan(5000, 2))
        Release plan for n = 5000, d = 2: (epsilon = 0.1, delta = 0), one row replaced
          number of complete rows: 1 number, Laplace noise of scale 10
        """
        n = check_integer("n_samples", n_samples, at_least=1, at_most=2**31)
        d = check_integer("n_features", n_features, at_least=1)
        guarantee = PrivacyGuarantee(*check_privacy_parameters(self.epsilon, self.delta))
        check_columns("fill", self.fill, d)
        self._policy()
        return ReleasePlan((count_stage(1, guarantee, ROWS),), guarantee, n, d)

    def _read(self, rows: Rows, plan: ReleasePlan) -> Mapping[str, Any]:
        (stage,) = plan.additive
        return {ROWS: count_steps(stage, count_complete(rows), plan.n_samples)}

    def _report(self, released: Released, plan: ReleasePlan) -> None:
        self.rows_ = float(released[ROWS][0])
        self.rows_noise_std_ = float(np.max(plan.noise(ROWS).std))
        self.n_rows_ = usable_rows(plan, self.rows_)

    def transform(self, X: Any) -> Any:
        """Return ``n_rows_`` complete rows of the fitted data, chosen at random, in random order.

        Every call chooses again.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows of the fit: private.

        Returns
        -------
        ndarray or data frame
            Private rows of float64, in the container of ``X``: ``n_rows_`` rows of n_features columns.

        Raises
        ------
        InvalidData
            If X has another number of rows than the data of the fit, or if ``n_rows_`` is 0.
        """
        check_is_fitted(self)
        table = self._again(X).whole()
        n, m = len(table), self.n_rows_
        if n != self.plan_.n_samples:
            allowed = f"the rows of the fit, n_samples = {self.plan_.n_samples}"
            remedy = "Call fit_transform on the new rows."
            raise refuse_data("X", got=f"n_samples = {n}", allowed=allowed, remedy=remedy)
        if m == 0:
            got = f"about {self.rows_:.0f}, with noise of standard deviation {self.rows_noise_std_:.1f}"
            remedy = "Use fewer columns, or a larger epsilon."
            raise refuse_data("X", got=got, allowed="have more complete rows", remedy=remedy)
        fill = self._sort_parameters(table.names).fill
        orders = draw_orders([n, m], self.random_state)
        rows = sample_complete(table, orders, fill).X
        return declare_unit(frame_like(X, rows, table.names), self.privacy_.unit)

    def _records(self) -> Records:
        check_is_fitted(self)
        columns = {"estimate": [self.rows_], "noise_std": [self.rows_noise_std_]}
        return Records(
            ["complete rows"], columns, {"n_rows": self.n_rows_, "simulated": self.privacy_.simulated}
        )

    def summary(self) -> Summary:
        """Return a table of the count; prints as text, shows as HTML in a notebook."""
        check_is_fitted(self)
        return Summary(
            "Complete cases",
            self._public_facts(),
            ("", "rows", "noise sd"),
            [
                ("complete", f"{self.rows_:,.0f}", f"{self.rows_noise_std_:.3g}"),
                ("returned by transform", f"{self.n_rows_:,}", ""),
            ],
            few_observed(self.rows_, self.rows_noise_std_),
        )
