"""Answers to a whole workload of queries from one release: marginals of a domain, or any linear queries.

Proof: docs/proofs/workload-answers.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from dpstats.data.parameters import check_choice, check_integer
from dpstats.data.rows import Rows
from dpstats.errors import attempt, refuse, refuse_data, show_names
from dpstats.inference.error_distributions import BONFERRONI, SIDAK, NormalErrors, usual_level
from dpstats.inference.estimates import Estimates, HasEstimates
from dpstats.inference.figures import ESTIMATE, REFERENCE, new_figure
from dpstats.inference.noisy_counts import CountNoise, CountShare, ShareErrors
from dpstats.inference.reports import SIMULATED, picture_of
from dpstats.inference.results import Summary
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.queries.domain import BYTES_OF_A_CELL, MarginalQueries, check_table
from dpstats.queries.linear import Numbers
from dpstats.queries.residual_release import ResidualRelease
from dpstats.queries.workload import GaussianRelease, SyntheticDistribution, WorkloadRelease
from dpstats.release.additive import additive_stages
from dpstats.release.estimator import parameters
from dpstats.release.session import Released

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Proportions, for these rows or for their population


def check_estimand(estimand: Any) -> str:
    """Return the estimand "data" or "population", or raise an error."""
    return check_choice("estimand", estimand, ["data", "population"])


def share_estimates(
    answers: Numbers,
    noise_std: Numbers,
    n_samples: int,
    estimand: str = "data",
    *,
    shown: Numbers | None = None,
    names: Sequence[str] | None = None,
) -> Estimates:
    """Return proportions with the distribution of their errors.

    Parameters
    ----------
    answers, noise_std : arrays of shape (k,)
        Unbiased proportions of n rows, and the standard deviations of their Gaussian noise.
    n_samples : int
        Public number of rows.
    estimand : {"data", "population"}
        "data": the proportions of these rows, with noise as the only error. Simultaneous intervals use Sidak's level,
        which holds for normal noise with any correlation. "population": the proportions of a population. Counts are
        then binomial, and limits use the exact tails of binomial plus noise. Simultaneous intervals use Bonferroni's
        inequality.
    shown : array of shape (k,), optional
        More accurate point estimates. None: the answers.
    names : sequence of str, optional
        Names of the proportions.
    """
    estimate = answers if shown is None else shown
    errors: NormalErrors | ShareErrors
    if estimand == "data":
        errors, words, together = (NormalErrors(answers, noise_std, 0.0, 1.0), "the fractions of these rows", SIDAK)
        error = noise_std
    else:
        n = n_samples
        pairs = zip(answers.tolist(), noise_std.tolist(), strict=True)
        shares = [CountShare(n * x, n * x, n, CountNoise("gaussian", n * std)) for x, std in pairs]
        errors = ShareErrors(np.clip(estimate, 0.0, 1.0), shares)
        words, together = "the fractions of the population that the rows are a sample of", BONFERRONI
        error = errors.standard_error
    return Estimates(
        estimate,
        error,
        tuple(map(str, range(answers.size)) if names is None else names),
        words,
        errors,
        header="share",
        together=together,
    )


# Workloads

# Proof: docs/proofs/workload-answers.md.

_SHOWN = 40  # rows of a summary
_TITLE = "Private answers to a workload"


@dataclass(frozen=True)
class WorkloadPlan(ReleasePlan):
    """The plan of a `WorkloadAnswers`: one stage that releases everything jointly."""

    release: ResidualRelease | GaussianRelease = field(repr=False, compare=False)

    @property
    def _workspace(self) -> int:
        return BYTES_OF_A_CELL * self.release.queries.size if self.release.full else 0

    @cached_property
    def noise_std(self) -> Numbers:
        """Standard deviation of the noise of each unbiased answer, as a proportion of the rows: shape (n_queries,)."""
        return self.release.noise_std(self) / self.n_samples

    def expected_error(self, std: float | Numbers | None = None) -> float:
        """Return the expected squared l2 error of ``linear_``, relative to the answers on these data."""
        return float((self.noise_std**2).sum())

    @property
    def expected_l1(self) -> float:
        """Expected l1 error of a table of unbiased answers, averaged over tables. For other queries, of all answers.

        If it is far above 0.2, `MarginalMWEM` is often more accurate (docs/queries.md).
        """
        queries = self.release.queries
        tables = len(queries.tables) if isinstance(queries, MarginalQueries) else 1
        return math.sqrt(2 / math.pi) * float(self.noise_std.sum()) / tables

    def facts(self) -> dict[str, Any]:
        """Return facts about the plan that its stages do not show, by name."""
        return {"queries": len(self.release.queries), "expected_l1": self.expected_l1}

    def notes(self) -> list[str]:
        """Return the facts as text, one line each."""
        least, most = float(self.noise_std.min()), float(self.noise_std.max())
        return [f"noise of an unbiased answer: standard deviation {least:.3g} to {most:.3g} of the rows"]

    def _describe_stages(self) -> list[str]:
        stage = self.stages[0]
        size = f"{stage.size:,} numbers" if hasattr(stage, "size") else ""
        return [f"{self.release.title}: {size} with Gaussian noise, {len(self.release.queries):,} queries"]


@parameters
class WorkloadAnswers(HasEstimates, WorkloadRelease[WorkloadPlan]):
    """Answers to many counting queries known in advance, from one release, with an interval for each.

    Use this estimator for tables of attributes if the ``expected_l1`` of the plan is at most about 0.1. Above it,
    `MarginalMWEM` has smaller mean errors, but intervals only for the tables that it measured. If each query depends on
    earlier answers, use `OnlineMultiplicativeWeights`.

    Parameters
    ----------
    workload : int, sequence, or LinearQueries, default=2
        The queries. A number k stands for all tables of k attributes, and every cell of a table is a query. A sequence
        contains several such numbers, or the attributes of each table: ``[("age", "smokes"), ("age", "region")]``.
        For all other queries, give `LinearQueries`.
    domain : Domain, or declarations of one, optional
        Attributes and their public levels. ``fit`` then takes rows. Without a domain, ``fit`` takes the counts of the
        points of a universe.
    error : {"mean", "max"}, default="mean"
        Error that the point answers minimize: the mean error, or the largest error.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive.
    delta : float, default=1e-6
        Privacy parameter, in (0, 1).
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges before it draws noise. Clones share it.

    Attributes
    ----------
    answers_ : ndarray of shape (n_queries,)
        Point answers, as proportions of the rows: the answers of ``synthetic_``, a distribution that fits the release.
        For domains of more than 2^20 cells they are ``linear_``, clipped to [0, 1]. The same holds if the noise is so
        small that no distribution was found that fits well enough.
    fitted_ : bool
        Whether ``answers_`` are the answers of ``synthetic_``.
    linear_ : ndarray of shape (n_queries,)
        Unbiased answers. Intervals use them.
    noise_std_ : ndarray of shape (n_queries,)
        Standard deviation of the noise in ``linear_``.
    uniform_ : ndarray of shape (n_queries,)
        Answers of a uniform distribution, which needs no data: the baseline. None for domains of more than 2^20 cells.
    synthetic_ : SyntheticDistribution
        The fitted distribution. None for domains of more than 2^20 cells.
    queries_ : LinearQueries
        The workload, in the order of the answers.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row.
    plan_ : WorkloadPlan
    n_features_in_ : int
        Number of attributes.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the attributes. Only if the domain has names.

    Notes
    -----
    **Method.** Tables are sums of residuals. A residual is the information in a table that smaller tables do not have.
    The precision of each residual and the privacy cost follow exactly from the numbers of levels. For other queries,
    the noise is Gaussian with one scale, calibrated to the largest distance between two columns of their matrix.

    **Point answers** come from one distribution, fitted by entropic mirror descent from the uniform distribution. On
    average they are more accurate than unbiased answers, but each is biased.

    **Intervals** use ``linear_``, whose noise is known. Intervals around the point answers would not cover.

    **Limits.** Point answers and synthetic rows are biased; intervals are around ``linear_``. Queries that were not
    declared have no known error. All levels must be declared, and the product of their numbers must fit into
    memory.

    References
    ----------
    Xiao, He, Zhang and Kifer (2023), An optimal and scalable matrix mechanism for noisy marginals under convex loss
    functions. Nikolov, Talwar and Zhang (2013), The geometry of differential privacy: the sparse and approximate cases.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.queries import Domain, WorkloadAnswers
    >>> rng = np.random.default_rng(0)
    >>> smokes = rng.random(5000) < 0.3
    >>> rows = np.column_stack([smokes, rng.integers(0, 3, 5000), rng.random(5000) < 0.2 + 0.3 * smokes])
    >>> domain = Domain({"smokes": [0, 1], "region": 3, "ill": [0, 1]})
    >>> answers = WorkloadAnswers(domain=domain, workload=2, epsilon=1.0, random_state=0).fit(rows)
    >>> print(answers.marginal(("smokes", "ill")).round(2).to_string(index=False))
     smokes  ill  share  low  high
          0    0   0.57 0.56  0.57
          0    1   0.14 0.13  0.14
          1    0   0.15 0.14  0.15
          1    1   0.15 0.15  0.16
    """

    error: str = "mean"

    def plan(self, n_samples: int, n_features: int | None = None) -> WorkloadPlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples : int
            Public number of rows.
        n_features : int, optional
            Number of attributes. Must equal the number of attributes of the domain.
        """
        queries, domain = self._asked()
        n = check_integer("n_samples", n_samples, at_least=1, at_most=2**31)
        d = self._width(n_features)
        check_choice("error", self.error, ["mean", "max"])
        epsilon, delta = self._cost()
        release: ResidualRelease | GaussianRelease
        if isinstance(queries, MarginalQueries):
            release = ResidualRelease(queries, n)
        else:
            release = GaussianRelease(queries, domain, n)
        stages = additive_stages([release.items()], epsilon, delta)
        return WorkloadPlan(stages, PrivacyGuarantee(epsilon, delta), n, d, release)

    def _read(self, rows: Rows, plan: WorkloadPlan) -> Any:
        return plan.release.integers(rows)

    def _report(self, released: Released, plan: WorkloadPlan) -> None:
        release, n = plan.release, plan.n_samples
        self.queries_, domain = release.queries, self._asked()[1]
        self.linear_ = release.linear(released) / n
        self.noise_std_ = plan.noise_std
        found = release.fitted(released, plan, self.error)
        self.synthetic_ = self.uniform_ = None
        self.answers_ = np.clip(self.linear_, 0.0, 1.0)
        if found is not None:
            self.synthetic_ = SyntheticDistribution(domain, found.p.reshape(domain.shape))
            self.uniform_ = np.asarray(self.queries_.answers(np.full(domain.size, 1 / domain.size)))
            if found.reached:
                self.answers_ = self.synthetic_.answers(self.queries_)
        self.fitted_ = found is not None and found.reached

    # Results from the release

    def estimates(self, *, estimand: str | None = None) -> Estimates:
        """Return every answer of the workload with the distribution of its error.

        Parameters
        ----------
        estimand : {"data", "population"}, optional
            Estimand of the intervals. "data" (default): the proportions of these rows, with noise as the only error.
            "population": the proportions of a population from which the rows are independent draws. This requires 0/1
            queries, has at least nominal coverage for any n, and takes a few milliseconds per query.
        """
        return self._estimates("data" if estimand is None else estimand)

    def _estimates(self, estimand: str = "data", at: slice = slice(None)) -> Estimates:
        """Return some of the answers."""
        check_is_fitted(self, "answers_")
        of = check_estimand(estimand)
        if of == "population" and not self.queries_.is_counting:
            raise refuse("estimand", given=estimand, allowed="'data' where values of queries are not all 0 or 1")
        numbers = self.linear_[at], self.noise_std_[at], self.plan_.n_samples
        names = [self.queries_.label(j) for j in range(self.linear_.size)[at]]
        found = share_estimates(*numbers, of, shown=self.answers_[at], names=names)
        return replace(found, title=_TITLE, simulated=self.privacy_.simulated)

    def marginal(
        self, attributes: Any, confidence_level: float | None = None, estimand: str = "data", backend: str = "pandas"
    ) -> Any:
        """Return a table of the workload as a data frame with levels, proportions and intervals.

        Parameters
        ----------
        attributes : sequence of attributes, by name or position
            Attributes of a table in the workload.
        confidence_level, estimand
            The same as in `confidence_interval`.
        backend : str, default="pandas"
            Library of the data frame: "pandas", "polars" or "pyarrow".
        """
        check_is_fitted(self, "answers_")
        queries, domain = self._asked()
        if not isinstance(queries, MarginalQueries):
            raise refuse(
                "workload", got="other queries", allowed="tables of attributes for marginal()", remedy="Use predict()."
            )
        table = check_table("attributes", attributes, domain)
        if table not in queries.tables:
            known = show_names(domain.label(other) for other in queries.tables)
            raise refuse("attributes", given=domain.label(table), allowed=f"name a table of the workload, {known}")
        place = queries.tables.index(table)
        at = queries.part(place)
        interval = self._estimates(estimand, at).confidence_interval(confidence_level)
        codes = np.indices(queries.shapes[place]).reshape(len(table), -1).T
        beside = {"share": self.answers_[at], "low": interval.low, "high": interval.high}
        return domain.frame(codes, table, beside, backend)

    @property
    def uniform_error_(self) -> float:
        """Estimated root mean squared error of the uniform answers. The estimate of its square is unbiased."""
        check_is_fitted(self, "answers_")
        if self.uniform_ is None:
            return math.nan
        excess = np.mean((self.uniform_ - self.linear_) ** 2 - self.noise_std_**2)
        return math.sqrt(max(float(excess), 0.0))

    def summary(self, confidence_level: float | None = None, *, estimand: str | None = None) -> Summary:
        """Return the answers with intervals, or one line per table if there are many; text, or HTML in a notebook."""
        check_is_fitted(self, "answers_")
        plan, queries = self.plan_, self.queries_
        domain = self._asked()[1]
        of = check_estimand("data" if estimand is None else estimand)
        tables = isinstance(queries, MarginalQueries) and len(queries) > _SHOWN and of == "data"
        whole = len(queries.tables) if isinstance(queries, MarginalQueries) and tables else len(queries)
        rms = math.sqrt(float(np.mean(self.noise_std_**2)))
        facts = [
            *self._public_facts(
                ("Domain", repr(domain)[len("Domain(") : -1]),
                ("Workload", f"{len(queries):,} queries" + (f" in {whole} tables" if tables else "")),
            ),
            ("Release", plan.release.title),
            ("Error of unbiased answers", f"{rms:.3g} (root mean square, public)"),
        ]
        if self.uniform_ is not None:
            facts.append(("Error of uniform answers", f"about {self.uniform_error_:.3g} (estimated)"))
        notes = [
            "Shares are of one distribution that fits the release, and biased; intervals are of the unbiased answers."
        ]
        if self.synthetic_ is None:
            notes = ["The domain is too large for one distribution: shares are the unbiased ones, moved into [0, 1]."]
        elif not self.fitted_:
            notes = [
                "No distribution was found that is as near as the noise: shares are the unbiased ones, moved into "
                "[0, 1], and synthetic_ is further off."
            ]
        if self.uniform_ is not None and self.uniform_error_ < rms:
            notes.append(
                "By that estimate uniform answers are nearer than unbiased ones: use fewer queries, or more epsilon."
            )
        if whole > _SHOWN:
            notes.append(f"The first {_SHOWN} of {whole:,}; all are in answers_.")
        if not tables:
            found = replace(self._estimates(of, slice(_SHOWN)), facts=facts, notes=notes)
            return found.summary(confidence_level)
        header, rows = self._by_table(usual_level(confidence_level))
        notes += [SIMULATED] * self.privacy_.simulated
        return Summary(_TITLE, [*facts, ("Intervals cover", "the fractions of these rows")], header, rows, notes)

    def _by_table(self, level: float) -> tuple[list[str], list[Sequence[str]]]:
        queries = self.queries_
        assert isinstance(queries, MarginalQueries)
        z = float(-ndtri((1 - level) / 2))
        rows: list[Sequence[str]] = []
        for i, table in enumerate(queries.tables[:_SHOWN]):
            at = queries.part(i)
            std = float(self.noise_std_[at][0])
            away = math.nan if self.uniform_ is None else float(np.abs(self.answers_[at] - self.uniform_[at]).sum())
            l1 = math.sqrt(2 / math.pi) * float(self.noise_std_[at].sum())
            cells = f"{math.prod(queries.shapes[i])}"
            rows.append((queries.domain.label(table), cells, f"{z * std:.2g}", f"{l1:.2g}", f"{away:.2g}"))
        header = ["table", "cells", f"{100 * level:g}% half-width", "l1 error, unbiased", "l1 from uniform"]
        return header, rows


# Figures


def plot_answers(answers: WorkloadAnswers, *, reference: Any = None, confidence_level: float = 0.95) -> Figure:
    """Draw the answers to a workload with their intervals, and the errors for other values of epsilon.

    Parameters
    ----------
    answers : WorkloadAnswers
        Fitted estimator.
    reference : array of shape (n_queries,), optional
        Exact answers as proportions, to compare with. Use it for public data only. Default: the unbiased answers.
    confidence_level : float, default=0.95
        Level of each interval.

    Returns
    -------
    matplotlib.figure.Figure
        Left: differences between point answers and reference, with the intervals of the unbiased answers. Right: root
        mean squared error of unbiased answers against epsilon, from plans only, and an estimate for uniform answers if
        it is known.
    """
    exact = attempt(
        lambda: np.asarray(answers.linear_ if reference is None else reference, dtype=np.float64), Exception
    )
    if exact is None:
        raise refuse_data("reference", allowed="numbers, one for each query")
    if exact.shape != answers.linear_.shape:
        raise refuse(
            "reference", got=f"shape {exact.shape}", allowed=f"have an answer for each query {answers.linear_.shape}"
        )
    interval = answers.confidence_interval(confidence_level)
    low, high = np.asarray(interval.low), np.asarray(interval.high)
    figure = new_figure(figsize=(9.2, 4.2))
    left, right = figure.subplots(1, 2)
    label = f"{100 * confidence_level:g}% intervals"
    left.vlines(exact, low - exact, high - exact, color=ESTIMATE, alpha=0.3, lw=1, label=label)
    left.plot(exact, answers.answers_ - exact, ".", ms=4, color=ESTIMATE, label="point answers")
    left.axhline(0.0, color=REFERENCE, lw=1, ls="--")
    word = "unbiased" if reference is None else "exact"
    left.set_xlabel(f"{word} answer, fraction of the rows")
    left.set_ylabel(f"private answer less the {word} one")
    left.legend(fontsize=8, frameon=False)
    n, own = answers.plan_.n_samples, float(answers.epsilon)
    epsilons = own * np.geomspace(0.1, 10, 7)
    params = answers.get_params(deep=False)
    plans = [type(answers)(**{**params, "epsilon": float(e), "budget": None}).plan(n) for e in epsilons]
    errors = [float(np.sqrt(np.mean(plan.noise_std**2))) for plan in plans]
    right.plot(epsilons, errors, color=ESTIMATE, label="unbiased answers")
    right.plot(own, errors[3], "o", color=ESTIMATE, label=f"epsilon = {own:g}, as released")
    if np.isfinite(answers.uniform_error_):
        right.axhline(answers.uniform_error_, color=REFERENCE, lw=1, ls="--", label="uniform answers, about")
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xlabel("epsilon")
    right.set_ylabel("root mean squared error, fraction of the rows")
    right.legend(fontsize=8, frameon=False)
    for axis in (left, right):
        axis.grid(alpha=0.25)
    return figure


@picture_of.register
def _of_answers(answers: WorkloadAnswers) -> tuple[str, Any]:
    words = (
        "Left, how far the point answers are from the unbiased ones, with 95% intervals; right, the error that other "
        "budgets would buy, from plans alone."
    )
    return words, plot_answers(answers)
