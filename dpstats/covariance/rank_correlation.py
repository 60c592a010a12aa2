"""Private rank correlations of all pairs of columns: Kendall's tau, without bounds.

Proof: docs/proofs/kendall.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.covariance.concordance import concordance, ranks
from dpstats.covariance.error_distributions import CorrelationErrors
from dpstats.data.parameters import check_choice, check_integer, check_privacy_parameters
from dpstats.data.tables import Rows
from dpstats.errors import InvalidParameter
from dpstats.inference import BONFERRONI, Estimates, HasEstimates
from dpstats.lattice import check_finite_rows
from dpstats.lattice.products import Sums
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Block
from dpstats.release.additive import JointIntegers, additive_stages
from dpstats.release.estimator import PrivateEstimator
from dpstats.release.parameters import parameters
from dpstats.release.session import Released

Floats = NDArray[np.float64]

STAGE, CONCORDANCE, SQUARES = "rank correlations", "concordance", "squared concordance of rows"
SQUARES_WEIGHT = 0.1
"""Squared weight of the squares. Only the errors of correlations need them."""
_MOST_ROWS = 1_000_000
"""n (n - 1)^2 is below 2^62: squares with their noise stay inside 64 bits."""
_SAFE = 1 + 1e-12
_LEAST_SPREAD = 0.3
"""Least variance of a row's concordance, over the variance for independent columns."""
_FEW_ROWS = 50


@dataclass(frozen=True)
class CorrelationPlan(ReleasePlan):
    """The plan of a `PrivateCorrelation`: one stage with the rank correlations of all pairs of columns."""

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise of a correlation."""
        return float(np.asarray(self.noise(CONCORDANCE).std))

    def facts(self) -> dict[str, Any]:
        """Return facts about the plan that its stages do not show, by name."""
        return {"noise_std": self.noise_std}

    def notes(self) -> list[str]:
        """Return the facts as text, one line each."""
        ratio = self.noise_std * 1.5 * math.sqrt(self.n_samples)
        return [f"for independent columns the noise of a correlation is {ratio:.2g} times its sampling error"]


def concordance_integers(d: int, n: int) -> JointIntegers:
    """Return the blocks of the stage for n rows of d columns."""
    pairs, others = d * (d - 1) // 2, n - 1
    weight = math.sqrt(SQUARES_WEIGHT)
    blocks = (
        Block(CONCORDANCE, pairs, 2 / (n * others), float(others * d)),
        Block(SQUARES, pairs, 1 / (n * others**2), 5.0 * others**2 * math.sqrt(pairs) / weight),
    )
    return JointIntegers(STAGE, blocks, math.inf, math.sqrt(1 + SQUARES_WEIGHT) * _SAFE)


def concordance_sums(X: Floats) -> Sums:
    """Return the sums over pairs of rows of products of signs, and the sums over rows of their squared sums.

    Both have an entry for each pair of columns.
    """
    columns = [ranks(column) for column in X.T]
    rows = [concordance(first, second) for first, second in itertools.combinations(columns, 2)]
    total = np.array([row.sum() for row in rows])
    squares = np.array([(row**2).sum() for row in rows])
    return {CONCORDANCE: total // 2, SQUARES: squares}


@parameters
class PrivateCorrelation(HasEstimates, PrivateEstimator[CorrelationPlan]):
    """Private rank correlations of all pairs of columns: Kendall's tau, without bounds of the columns.

    Tau is the probability that two rows are in the same order in both columns, less the probability of opposite
    orders. It does not change with the units of a column, and heavy tails do not matter. For Pearson's correlation of
    bounded columns, use `PrivateCovariance`.

    Parameters
    ----------
    method : {"kendall"}, default="kendall"
        The correlation.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive.
    delta : float, default=1e-6
        Privacy parameter, in (0, 1).
    missing : {"error", "drop"}, default="error"
        Treatment of a row with a NaN or infinite entry. "error" raises `InvalidData`. "drop" leaves the row out: a
        part of epsilon counts the complete rows, and the release uses a random sample of them, of public size.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges. Clones share it.

    Attributes
    ----------
    correlation_ : ndarray of shape (n_features, n_features)
        Released correlations, between -1 and 1, with ones on the diagonal.
    noise_std_ : float
        Standard deviation of the noise of a correlation.
    privacy_ : PrivacyGuarantee
        For neighbors that differ in one row; n is public.
    plan_ : CorrelationPlan
        The release plan: every released quantity and its noise.
    rows_, rows_noise_std_, n_rows_ : float, float, int
        Noisy number of complete rows, the standard deviation of its noise, and the number of rows that were used. Only
        with ``missing="drop"``.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Column names. Only if ``X`` has column names.

    Notes
    -----
    **Privacy.** A row is in n - 1 pairs of rows. The products of signs of a pair move by at most n_features in l2, so
    all correlations together move by at most 2 n_features / n.

    **Estimand.** Kendall's tau-a of the population. Ties count as neither order.

    **Assumptions.** Independent rows, and enough of them for a rank correlation to be nearly normal. The distribution
    of the columns does not matter.

    **Time.** It grows as n log n for each pair of columns: 0.05 seconds for 100,000 rows.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.covariance import PrivateCorrelation
    >>> x = np.random.default_rng(0).standard_cauchy(size=2000)
    >>> model = PrivateCorrelation(random_state=0).fit(np.column_stack([x, np.exp(np.clip(x, -9, 9))]))
    >>> model.correlation_.round(1)
    array([[1., 1.],
           [1., 1.]])
    """

    method: str = "kendall"
    epsilon: float = 1.0
    delta: float = 1e-6
    missing: str = "error"
    random_state: Any = None
    budget: Any = None

    def plan(self, n_samples: int, n_features: int) -> CorrelationPlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples, n_features : int
            Public sizes.

        Examples
        --------
        >>> from dpstats.covariance import PrivateCorrelation
        >>> round(PrivateCorrelation().plan(5_000, 2).noise_std, 4)
        0.0035
        """
        n = check_integer("n_samples", n_samples, at_least=2, at_most=_MOST_ROWS)
        d = check_integer("n_features", n_features, at_least=1)
        if d < 2:
            raise InvalidParameter(
                "n_features must be at least 2 for a correlation, got n_features = 1. Fit with more columns."
            )
        if self.method == "pearson":
            raise InvalidParameter(
                "method must be 'kendall', got 'pearson'. For Pearson's correlation, use "
                "PrivateCovariance(bounds=...).fit(X).correlation()."
            )
        check_choice("method", self.method, ["kendall"])
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        if delta == 0:
            raise InvalidParameter(
                "delta must be greater than 0 for Gaussian noise, got 0. Set delta=1e-6, for example."
            )
        if self._drops():
            return self._plan_on_sample(n, d)
        stages = additive_stages([concordance_integers(d, n)], epsilon, delta)
        return CorrelationPlan(stages, PrivacyGuarantee(epsilon, delta), n, d)

    def _read(self, rows: Rows, plan: CorrelationPlan) -> Mapping[str, Any]:
        check_finite_rows(rows)
        return {STAGE: concordance_sums(np.asarray(rows.whole().X, dtype=np.float64))}

    def _report(self, released: Released, plan: CorrelationPlan) -> None:
        self._sums = dict(released[STAGE])
        d = plan.n_features
        self.correlation_ = np.eye(d)
        i, j = np.triu_indices(d, 1)
        self.correlation_[i, j] = self.correlation_[j, i] = np.clip(self._sums[CONCORDANCE], -1.0, 1.0)
        self.noise_std_ = plan.noise_std

    def _errors(self) -> Floats:
        """Return the standard errors of the correlations: sampling and noise."""
        plan, n = self.plan_, self.plan_.n_samples
        tau = np.clip(self._sums[CONCORDANCE], -1.0, 1.0)
        raised = self._sums[SQUARES] + float(np.asarray(plan.noise(SQUARES).std))
        # Of a row's concordance the variance is at most half of 1 - tau^2, and a ninth for independent columns.
        spread = np.clip(raised - tau**2, _LEAST_SPREAD * (1 - tau**2) ** 2 / 9, (1 - tau**2) / 2)
        return np.asarray(np.sqrt(4 * spread / n + 2 * (1 - tau**2) / n**2 + plan.noise_std**2))

    def estimates(self) -> Estimates:
        """Return the correlations with the distribution of their errors: a row for each pair of columns."""
        check_is_fitted(self, "correlation_")
        plan = self.plan_
        i, j = np.triu_indices(plan.n_features, 1)
        names = getattr(self, "feature_names_in_", None)
        names = [f"x{k}" if names is None else str(names[k]) for k in range(plan.n_features)]
        estimate, error = self.correlation_[i, j], self._errors()
        few = f"Warning: below {_FEW_ROWS} rows, intervals may cover less than stated."
        return Estimates(
            estimate,
            error,
            tuple(f"{names[a]}, {names[b]}" for a, b in zip(i, j, strict=True)),
            self._state_missing("Kendall's tau of the population, where ties count as neither order"),
            CorrelationErrors(estimate, error),
            title="Private rank correlations",
            header="tau",
            facts=[
                *self._count_rows(),
                ("Privacy", str(self.privacy_)),
            ],
            notes=[few] if plan.n_samples < _FEW_ROWS else [],
            together=BONFERRONI,
            labels={"first": [names[a] for a in i], "second": [names[b] for b in j]},
            simulated=self.privacy_.simulated,
        )
