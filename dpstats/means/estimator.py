"""Base of the estimators of a number per column, choices before a release, and complete cases.

Proof: docs/proofs/complete-cases.md.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dpstats.data.columns import frame_like
from dpstats.data.parameters import (
    check_choice,
    check_columns,
    check_integer,
    check_privacy_parameters,
    check_real,
    declare_unit,
)
from dpstats.data.rows import Rows
from dpstats.errors import refuse, refuse_data
from dpstats.inference.error_distributions import SIDAK, ErrorDistribution, Together
from dpstats.inference.estimates import Estimates, HasEstimates
from dpstats.inference.reports import Records
from dpstats.inference.results import Summary, few_observed, observed_rows, with_missing
from dpstats.lattice import check_finite_rows
from dpstats.mechanisms.histogram import count_stage, count_steps
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.release.additive import ROWS, count_complete, sample_complete, usable_rows
from dpstats.release.estimator import Plan, PrivateEstimator, parameters, read_again
from dpstats.release.mechanism import draw_orders
from dpstats.release.session import Released

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class ColumnAnswers:
    """Estimates of columns, with their errors and the estimands that their intervals can cover.

    Attributes
    ----------
    estimate, error : arrays of shape (n_columns,)
        The estimates that intervals are about, and their standard errors.
    estimands : mapping of str to str
        The estimands that intervals can cover, each as text by its name. The first is the default.
    missing : str
        The treatment of missing entries in the fit, as `about_missing` describes it.
    distribution : callable
        Returns the distribution of the errors of all columns, by the name of an estimand.
    together : Together
        How the intervals of several columns cover together.
    columns : array of int, optional
        The columns that are reported; None is all.
    widest : str, optional
        The estimand of intervals of the summary; None is the default one.
    refused : mapping of str to (str, str)
        Estimands of other fits: what this fit allows instead, and a remedy.
    """

    estimate: Numbers
    error: Numbers
    estimands: Mapping[str, str]
    missing: str
    distribution: Callable[[str], ErrorDistribution]
    together: Together = SIDAK
    columns: Any = None
    widest: str | None = None
    refused: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def choose(self, estimand: Any) -> str:
        """Return the name of an estimand, the first by default."""
        if estimand is None:
            return next(iter(self.estimands))
        if isinstance(estimand, str) and estimand in self.refused and estimand not in self.estimands:
            allowed, remedy = self.refused[estimand]
            raise refuse("estimand", given=estimand, allowed=allowed, remedy=remedy)
        return check_choice("estimand", estimand, list(self.estimands))


class ColumnEstimator(HasEstimates, PrivateEstimator[Plan]):
    """Base of the estimators that report a number for each column.

    Subclasses have the parameters of a `PrivateEstimator` and ``missing``. They report one number per column, for some
    columns. `_answers` returns these numbers with their errors.
    """

    missing: str

    _predicted: ClassVar[str] = "mean_"

    @abstractmethod
    def _answers(self) -> ColumnAnswers:
        """Return the estimates of the columns, their errors and the estimands of their intervals."""

    @abstractmethod
    def _describe(self, found: Estimates, estimand: str, confidence_level: float | None) -> Estimates:
        """Return the estimates with the title, columns, facts and notes of their summary."""

    def estimates(self, *, estimand: str | None = None) -> Estimates:
        """Return the estimates with the distribution of their errors: they can be pickled without the estimator.

        Parameters
        ----------
        estimand : str, optional
            The estimand of the intervals; see the estimator.
        """
        check_is_fitted(self)
        said = self._answers()
        name = said.choose(estimand)
        return Estimates(
            said.estimate,
            said.error,
            tuple(self._column_names(said.columns)),
            with_missing(said.estimands[name], said.missing),
            said.distribution(name),
            together=said.together,
            simulated=self.plan_.guarantee.simulated,
            columns=tuple(getattr(self, "feature_names_in_", ())),
        )

    def summary(self, confidence_level: float | None = None, *, estimand: str | None = None) -> Summary:
        """Return a table of estimates, noise and intervals; prints as text, shows as HTML in a notebook.

        Without ``estimand``, intervals are of the widest one: the population mean, if ``std`` is public.
        """
        check_is_fitted(self)
        said = self._answers()
        name = said.choose(said.widest if estimand is None else estimand)
        found = self._describe(self.estimates(estimand=name), name, confidence_level)
        return replace(found, facts=[*self._table_facts(), *found.facts]).summary(confidence_level)

    def predict(self, X: Any) -> Numbers:
        """Return the estimate for every row: shape (n_samples, n_features). Releases nothing new."""
        rows = check_again(self, X)
        return np.tile(getattr(self, self._predicted), (rows.shape[0], 1))


def check_again(fit: ColumnEstimator[Any], X: Any) -> Rows:
    """Return rows to predict for: what a fit takes, of as many columns."""
    check_is_fitted(fit)
    rows = read_again(fit, X)
    if fit.missing == "error":
        check_finite_rows(rows)
    return rows


def observed_facts(fit: ColumnEstimator[Any]) -> list[tuple[str, str]]:
    """Return the fact of a summary on the released number of observed rows, if n is public."""
    if fit.missing != "drop" or fit.plan_.has_private_size:
        return []
    return [("Rows observed", observed_rows(fit.rows_, fit.rows_noise_std_))]


def note_few_rows(fit: ColumnEstimator[Any]) -> list[str]:
    """Return a note if the released number of rows, or of observed rows, is noise alone."""
    if fit.plan_.has_private_size:
        return few_observed(fit.n_, fit.n_noise_std_)
    return few_observed(fit.rows_, fit.rows_noise_std_) if fit.missing == "drop" else []


def clipping_radius(n_samples: int, sigma: float, bound: float, *, constant: float = 2.0) -> float:
    """Return theorem 9.2.2's clipping radius for sub-Gaussian rows, from public facts alone.

    Parameters
    ----------
    n_samples : int
        Number of rows, at least 2.
    sigma : float
        Sub-Gaussian parameter of a column: E exp(t(x - mu)) <= exp(t^2 sigma^2), the convention of
        section 9.2 (docs/sources.md); a normal column of standard deviation s has sigma = s/sqrt(2).
    bound : float
        Public bound on the distance of the mean from the clip center.
    constant : float, default=2.0
        The theorem's "large enough K". At 2 an entry is clipped with probability at most 2/n.

    Returns
    -------
    float
        ``bound + constant * sigma * sqrt(log n)``: the bound is part of the radius, or clipping
        bias dominates (docs/errata.md).

    Examples
    --------
    >>> from dpstats.means import clipping_radius
    >>> round(clipping_radius(1000, sigma=1.0, bound=3.0), 4)
    8.2565
    """
    n = check_integer("n_samples", n_samples, at_least=2)
    sigma = check_real("sigma", sigma, above=0)
    bound = check_real("bound", bound, at_least=0)
    constant = check_real("constant", constant, above=0)
    return bound + constant * sigma * math.sqrt(math.log(n))


_MOST_ROWS = 2**32  # more cannot be added up exactly in 64 bits


def required_samples(estimator: PrivateEstimator[Any], n_features: int, target_error: float, std: Any = None) -> int:
    """Return the smallest number of rows at which an estimator's plan promises a given error.

    Costs nothing: plans see no data.

    Parameters
    ----------
    estimator : PrivateEstimator
        Any estimator whose ``plan(n, d).expected_error()`` is in closed form; it is not changed.
        For `SparseMean` that error assumes the right selection: sizes at which signals of ``max_signal`` may be
        missed are skipped.
    n_features : int
        Number of columns.
    target_error : float
        Expected *squared* l2 error, in squared units of the data: the wanted bound on
        ``plan(n, n_features).expected_error(std)``. For a root mean square error of r in each of d
        columns it is ``d * r**2``.
    std : float or array of shape (n_features,), optional
        Standard deviation of the columns, for ``expected_error``. Default: the values that the plan assumes, which
        for `PrivateVariance` leave the sampling error out.

    Returns
    -------
    int
        A number n of rows whose plan meets ``target_error``, while the plan of n - 1 rows does not. If the fewest
        rows that the estimator accepts suffice, their number.

    Raises
    ------
    InvalidParameter
        If ``estimator`` is none, or 2^32 rows, the most that one fit adds up exactly, are not enough.

    Examples
    --------
    >>> from dpstats.means import AdaptiveMean, required_samples
    >>> mean = AdaptiveMean(epsilon=1.0, delta=1e-6, bound=100.0, std=1.0)
    >>> required_samples(mean, n_features=5, target_error=5 * 0.05**2)
    966
    """
    if not isinstance(estimator, PrivateEstimator):
        raise refuse("estimator", given=estimator, allowed="a dpstats estimator with a plan")
    d = check_integer("n_features", n_features, at_least=1)
    target = check_real("target_error", target_error, above=0)

    def error(n: int) -> float:
        plan = estimator.plan(n, d)
        return float(plan.expected_error(std)) if getattr(plan, "finds_signals", True) else math.inf

    fewest = enough = estimator._min_samples
    while error(enough) > target:
        if enough == _MOST_ROWS and error(enough) == math.inf:
            allowed = "have a max_signal that is found at 2^32 rows"
            raise refuse("estimator", given=estimator, allowed=allowed, remedy="Raise max_signal.")
        if enough == _MOST_ROWS:
            allowed = (
                f"at least {error(enough):.3g}, the expected squared l2 error of {type(estimator).__name__} "
                "at 2^32 rows"
            )
            raise refuse("target_error", given=target, allowed=allowed)
        enough = min(2 * enough, _MOST_ROWS)
    too_few = enough // 2
    while enough - too_few > 1 and enough > fewest:
        middle = (too_few + enough) // 2
        too_few, enough = (middle, enough) if error(middle) > target else (too_few, middle)
    return enough


@parameters
class CompleteCases(TransformerMixin, PrivateEstimator[ReleasePlan]):
    """A first step that leaves out rows with a missing entry, before an estimator whose number of rows is public.

    ``fit`` releases the number of complete rows. ``transform`` returns slightly fewer of them, chosen at random, in
    random order. Their number follows from the release and is public. `AdaptiveMean`, `SparseMean` and identity tests
    do the same in one fit with ``missing="drop"``. Use this step before several of them, or before your own release.

    Parameters
    ----------
    fill : float or array-like of shape (n_features,), default=0.0
        Public entries of an additional row. ``transform`` adds copies of it if fewer than ``n_rows_`` rows are
        complete. The probability is at most 0.005. Choose a value that rows could have.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    epsilon : float, default=0.1
        Privacy parameter of the count. Must be positive. The next step pays for its own release.
    delta : float, default=0.0
        Privacy parameter, in [0, 1). 0 adds discrete Laplace noise to the count, a positive value Gaussian noise.
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

    **Limits.** Estimates describe complete rows only. If entries are missing for a reason that depends on their
    value, they are biased, and nothing shows it.

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

    fill: Any = 0.0
    epsilon: float = 0.1
    delta: float = 0.0
    random_state: Any = None
    budget: Any = None

    missing: ClassVar[str] = "drop"
    missing_codes: Any = None
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
        table = read_again(self, X).whole()
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
        return Records(["complete rows"], columns, {"n_rows": self.n_rows_, "simulated": self.privacy_.simulated})

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
