"""The adaptive mean: clip about a centre that earlier releases have found.

A clipped mean about a public centre pays for how far the mean may be from it. Here the rows are
clipped to a ball about the average of the stages released so far; the balls shrink as the average
gets better, by a plan that no data enter (dpstats/means/staging.py).

Proof: docs/proofs/adaptive-mean.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from dpstats.data.parameters import (
    check_choice,
    check_columns,
    check_integer,
    check_privacy_parameters,
)
from dpstats.data.tables import Table
from dpstats.errors import InvalidParameter
from dpstats.lattice import BallLattice, RowLattice
from dpstats.means.base import ColumnEstimator, Ends, of_interval, with_noise
from dpstats.means.laplace_sums import laplace_sum_quantile
from dpstats.means.moments import finest, frozen, sum_integers
from dpstats.means.staging import TAILS, Staging, plan_stages
from dpstats.means.whitening import Shape, in_range
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Stage
from dpstats.release.additive import additive_stages
from dpstats.release.session import Released, Session
from dpstats.results import Summary

Numbers = NDArray[np.float64]

_CHUNK = 1 << 20  # entries of the shifted rows that a batch of releases holds at once

ASSUMPTIONS = {
    "subgaussian": (
        "the tails of the rows are no heavier than normal ones of the stated spread, in each column and in the "
        "distance from the mean"
    ),
    "symmetric": (
        "the rows are symmetric about the mean, and no less gathered about it than normal ones of the stated spread"
    ),
    "variance": "the stated spread is an upper bound, and nothing else",
}
"""What ``tails`` assumes about the rows, in words."""


class _Rows(NamedTuple):
    """Private: the checked rows, and their sums about the first centre."""

    rows: NDArray[Any]
    first: NDArray[np.int64]


@dataclass(frozen=True)
class AdaptiveMeanPlan(ReleasePlan):
    """The plan of an `AdaptiveMean`: its stages, and how they are averaged. All of it is public.

    Quantities in whitened units (every column has standard deviation 1) are said to be so.

    Attributes
    ----------
    staging : Staging
        Shares, clip radii and bias bounds of the stages, whitened.
    prior : float
        Inverse of the bound on ||mu||^2/d, whitened: what the next centre is shrunk by.
    bound, std : float or tuple of float
        The box, and upper bounds on the standard deviation of the columns.
    """

    lattices: tuple[RowLattice, ...] = field(repr=False, compare=False)
    staging: Staging = field(repr=False)
    prior: float = field(repr=False)
    bound: float | tuple[float, ...]
    std: float | tuple[float, ...]
    shape: Shape = field(repr=False, compare=False)
    tails: str
    missing: str

    @property
    def assumption(self) -> str:
        """What ``tails`` assumes about the rows, in words."""
        return ASSUMPTIONS[self.tails]

    def facts(self) -> dict[str, Any]:
        """Return what a reader of the plan has to know beside its stages, by name."""
        return {"tails": self.tails, "assumption": self.assumption}

    def notes(self) -> list[str]:
        """Return the same in words, one line each."""
        return [f"assumes that {self.assumption}"]

    @cached_property
    def precisions(self) -> tuple[float, ...]:
        """Inverse noise variance of each stage's estimate, whitened."""
        # A step of a lattice is 2^-bits of its radius, in any units.
        laws = zip(self.additive, self.lattices, self.staging.radii, self.staging.slopes, strict=True)
        return tuple(
            (slope * self.n_samples / (radius * 2.0**-lattice.bits * stage.scale_steps)) ** 2
            / (2 if stage.noise == "laplace" else 1)
            for stage, lattice, radius, slope in laws
        )

    @cached_property
    def weights(self) -> Numbers:
        """Weights of the stages in the estimate; they add up to 1."""
        return np.array(self.precisions) / math.fsum(self.precisions)

    @property
    def noise_variance(self) -> float:
        """Variance of the noise in a column of the estimate, whitened."""
        return 1 / math.fsum(self.precisions)

    @property
    def sampling_variance(self) -> float:
        """Bound on the sampling variance of a column of the estimate, whitened."""
        return float(self.weights @ np.array(self.staging.spreads)) ** 2 / self.n_samples

    @property
    def bias(self) -> float:
        """Bound on the bias of a column of the estimate under the stated ``tails``, whitened."""
        return float(self.weights @ np.array(self.staging.biases))

    @property
    def stds(self) -> Numbers:
        """``std`` as an array of shape (n_features,)."""
        return np.full(self.n_features, self.std)

    def average(self, estimates: Sequence[Numbers]) -> Numbers:
        """Return the average of the first stages' estimates, each of shape (..., n_features)."""
        precisions, values = np.array(self.precisions[: len(estimates)]), np.array(estimates)
        weights = (precisions / precisions.sum())[None]
        result: Numbers = (weights @ values.reshape(len(estimates), -1)).reshape(values.shape[1:])
        return result

    def center(self, estimates: Sequence[Numbers]) -> Numbers:
        """Return the centre of the next stage: the average so far, shrunk by what is known of the mean's size."""
        if not estimates:
            return np.zeros(self.n_features)
        known = math.fsum(self.precisions[: len(estimates)])
        return known / (known + self.prior) * self.average(estimates)

    def estimates(self, released: Released) -> list[Numbers]:
        """Return the estimate of the mean of every stage: its centre, and what was released about it."""
        made: list[Numbers] = []
        for t, stage in enumerate(self.stages):
            made.append(self.estimate(t, self.center(made), released[stage.name]))
        return made

    def estimate(self, t: int, center: Numbers, shift: Numbers) -> Numbers:
        """Return the estimate of stage t, from what it released about a centre."""
        return center + self.shape.unwhiten(shift) / self.staging.slopes[t]

    def expected_error(self, std: float | Numbers | None = None) -> float:
        """Return an upper bound on the expected squared l2 error, under the stated ``tails``.

        Parameters
        ----------
        std : float or array of shape (n_features,), optional
            Actual standard deviation of the columns, for the sampling error (default: the public bound).

        Returns
        -------
        float
            Sampling variance, noise variance and squared bias bound, added over the columns. Bounds on the
            bias are seldom attained: under "variance" the actual error can be several times smaller.
        """
        squares = self.stds**2
        sampling = self.sampling_variance * squares
        if std is not None:
            actual = check_columns("std", std, self.n_features, at_least=0)
            sampling = np.broadcast_to(np.asarray(actual) ** 2 / self.n_samples, squares.shape)
        return float(np.sum(sampling + (self.noise_variance + self.bias**2) * squares))


class AdaptiveMean(ColumnEstimator[AdaptiveMeanPlan]):
    """Private mean that finds out where the rows are while it spends.

    Use it when all that is publicly known is a wide box for the mean and an upper bound on the
    spread: the error depends on the logarithm of the box, and is about that of a clipped mean whose
    centre is the true mean.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy parameter, greater than 0.
    delta : float, default=1e-6
        In (0, 1): Gaussian noise. 0: Laplace noise (pure privacy), which costs much more in many columns.
    bound : float or array of shape (n_features,)
        Public bound on the size of the *mean* of a column: |mean_j| <= bound_j; at least the
        standard deviation. Rows may be anywhere. With labels (a pandas Series) a fit takes it, and ``std`` and
        ``cov``, by the names of a data frame's columns, and refuses other names.
    std : float or array of shape (n_features,), optional
        Public upper bound on the standard deviation of the columns. With ``cov``, None or a single
        number that scales it.
    tails : {"subgaussian", "symmetric", "variance"}, default="subgaussian"
        What is assumed about the rows, Y = (row - mean)/std being a whitened row:

        * "subgaussian": in each column (with ``cov``: in every direction) |Y_j| is stochastically no larger
          than |N(0, 1)|, and ||Y||^2 no larger than a chi-square with n_features degrees of freedom.
        * "symmetric": Y and -Y have the same law, and the mean of clipped rows follows the centre
          at least as it does for normal rows. The smallest error; heavy tails are welcome.
        * "variance": the standard deviations (with ``cov``: the covariance) are upper bounds. Wide, safe intervals.

        Privacy does not depend on it; bias and intervals do.
    cov : array of shape (n_features, n_features), optional
        Public upper bound on the covariance of the rows (times ``std**2``): positive definite. Rows are
        whitened with it, so that noise follows the shape of the rows.
    missing : {"error", "center"}, default="error"
        What a NaN or infinite entry does: refuse the data (which shows that there was one), or
        count as the centre of the stage, which pulls the estimate towards earlier ones.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise: a release. Anything else is a simulation.
    budget : PrivacyBudget, optional
        Charged by every fit, for all stages together and before the first; shared by clones.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        The private estimate, in the units of the data, inside the box.
    noise_scale_ : float or ndarray of shape (n_features,)
        Standard deviation of the noise in the average of the stages; one number unless ``std`` is an
        array or ``cov`` is given.
    noise_std_ : ndarray of shape (n_features,)
        The same, one number per column.
    stage_means_ : ndarray of shape (n_stages, n_features)
        The estimate of each stage, as released.
    privacy_ : PrivacyGuarantee
        For neighbours that differ in one row; n is public.
    plan_ : ReleasePlan
        What was released, at which noise.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Where X has column names.

    See Also
    --------
    ClippedMean : One stage about a public centre, for data with tight public bounds.

    Notes
    -----
    Neighbours are datasets of the same public size with one row replaced. Stage t releases the mean
    of the rows, projected on a ball of radius B_t about c_t, of l2 sensitivity 2 B_t/n. The centre
    c_t is a function of earlier releases; radii and noise are fixed by the plan. Gaussian stages
    compose exactly: mu^2 adds up.

    References
    ----------
    Biswas, Dong, Kamath and Ullman (2020), CoinPress, whose idea of shrinking balls this is.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.means import AdaptiveMean
    >>> X = np.random.default_rng(0).normal([31.0, -12.0], 1.0, size=(5000, 2))
    >>> mean = AdaptiveMean(epsilon=1.0, delta=1e-6, bound=100.0, std=1.0, random_state=0).fit(X)
    >>> mean.mean_.round(2)
    array([ 31.02, -11.99])
    >>> low, high = mean.confidence_interval()
    >>> (high - low).round(3)
    array([0.062, 0.062])
    >>> print(mean.privacy_)
    (epsilon = 1, delta = 1e-06), one row replaced [simulated noise, not a private release]
    """

    _per_column = ("bound", "std", "cov")

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        bound: Any,
        std: Any = None,
        tails: str = "subgaussian",
        cov: Any = None,
        missing: str = "error",
        random_state: Any = None,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bound = bound
        self.std = std
        self.tails = tails
        self.cov = cov
        self.missing = missing
        self.random_state = random_state
        self.budget = budget

    def plan(self, n_samples: int, n_features: int) -> AdaptiveMeanPlan:
        """Return what a fit on data of this size would release, and at which cost.

        Parameters
        ----------
        n_samples : int
            Number of rows, at least 2; public.
        n_features : int
            Number of columns; public.

        Returns
        -------
        ReleasePlan
            Its ``guarantee`` is the composed total; ``expected_error()`` bounds the squared l2 error.

        Examples
        --------
        >>> from dpstats.means import AdaptiveMean
        >>> plan = AdaptiveMean(epsilon=1.0, delta=1e-6, bound=100.0, std=1.0).plan(10_000, 5)
        >>> print(plan)
        Release plan for n = 10000, d = 5: (epsilon = 1, delta = 1e-06), one row replaced
          stage 1: 5 numbers, gaussian noise of scale 4.93113
          stage 2: 5 numbers, gaussian noise of scale 0.0969113
          stage 3: 5 numbers, gaussian noise of scale 0.0042565
        """
        n = check_integer("n_samples", n_samples, at_least=2)
        d = check_integer("n_features", n_features, at_least=1)
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        tails = check_choice("tails", self.tails, TAILS)
        missing = check_choice("missing", self.missing, ["error", "center"])
        bound = in_range("bound", check_columns("bound", self.bound, d, above=0))
        shape = Shape.check(self.std, self.cov, d)
        reach = np.full(d, bound) / shape.std
        if np.any(reach < 1):
            j = int(np.argmin(reach))
            raise InvalidParameter(
                f"bound must be at least the standard deviation of its column, got {np.full(d, bound)[j]:g} for a "
                f"standard deviation of {np.full(d, shape.std)[j]:g} at position {j}"
            )
        norm2, reach2 = shape.largest_norm2(bound, d), float(np.max(reach)) ** 2

        def at(bits: int) -> tuple[Staging, tuple[RowLattice, ...], tuple[Stage, ...]]:
            # The noise of the whole budget on a ball of radius 1 is what the shares divide.
            ball = BallLattice.build(1.0, 0.0, d, bits=bits)
            (whole,) = additive_stages([sum_integers("", ball, ball.spacing / n)], epsilon, delta)
            noise, exponent = float(whole.noise_std) ** 2, 1 if delta > 0 else 2
            staging = plan_stages(n, d, tails, norm2, reach2, noise, exponent)
            lattices = tuple(shape.lattice(radius, d, bits) for radius in staging.radii)
            integers = [
                sum_integers(f"stage {t}", lattice, shape.step(lattice) / n, share)
                for t, (lattice, share) in enumerate(zip(lattices, staging.shares, strict=True), 1)
            ]
            return staging, lattices, additive_stages(integers, epsilon, delta)

        staging, lattices, stages = finest(at)
        return AdaptiveMeanPlan(
            stages,
            PrivacyGuarantee(epsilon, delta),
            n,
            d,
            lattices=lattices,
            staging=staging,
            prior=1 / norm2,
            bound=frozen(bound),
            std=frozen(shape.std),
            shape=shape,
            tails=tails,
            missing=missing,
        )

    def _read(self, table: Table, plan: AdaptiveMeanPlan) -> _Rows:
        # The first centre is public, so its pass can find bad data before anything is charged.
        first, _ = plan.lattices[0].sums(table.X, missing=plan.missing)
        return _Rows(table.X, first)

    def _release(self, private: _Rows, plan: AdaptiveMeanPlan, session: Session) -> None:
        """Run the stages, each about a centre that earlier ones released."""
        estimates: list[Numbers] = []
        for t, stage in enumerate(plan.stages):
            center = plan.center(estimates)
            steps = self._sums(private.rows, plan, t, center) if t else private.first
            estimates.append(plan.estimate(t, center, session.add(stage.name, steps)))

    def _sums(self, X: NDArray[Any], plan: AdaptiveMeanPlan, t: int, center: Numbers) -> NDArray[np.int64]:
        """Return the exact sums of stage t about a centre, or about each of a batch of centres."""
        lattice = plan.lattices[t]
        if center.ndim == 1:
            # Checked before the charge, and never refused after it, whatever became of the memory since.
            return replace(lattice, center=center).sums(X, missing="center")[0]
        # For batches: the rows less each centre, through the lattice about 0.
        finite = np.isfinite(X)
        step = max(1, _CHUNK // X.size)
        sums = np.empty(center.shape, dtype=np.int64)
        for start in range(0, len(center), step):
            some = center[start : start + step]
            shifted = np.where(finite, X - some[:, None, :], 0.0)
            rounded = lattice.round_rows(shifted.reshape(-1, plan.n_features))
            sums[start : start + step] = rounded.reshape(shifted.shape).sum(axis=1)
        return sums

    def _report(self, released: Released, plan: AdaptiveMeanPlan) -> None:
        estimates = plan.estimates(released)
        self.stage_means_ = np.stack(estimates)
        self._average = plan.average(estimates)
        # The mean is in the box, so this moves no column away from it.
        self.mean_ = np.clip(self._average, -np.asarray(plan.bound), np.asarray(plan.bound))
        self.noise_std_ = math.sqrt(plan.noise_variance) * plan.stds
        self.noise_scale_ = float(self.noise_std_[0]) if isinstance(plan.std, float) else self.noise_std_

    def _estimands(self) -> dict[str, str]:
        return {"population": f"the population mean, if {self.plan_.assumption}"}

    @property
    def cov_params_(self) -> Numbers:
        """Covariance matrix of the average of the stages: a bound on its sampling part, plus the noise.

        Without ``cov`` columns are taken as uncorrelated in their sampling error.
        """
        check_is_fitted(self)
        plan = self.plan_
        return (plan.sampling_variance + plan.noise_variance) * plan.shape.covariance(plan.n_features)

    def _estimates(self) -> Ends:
        plan = self.plan_
        return self._average, plan.stds * math.sqrt(plan.sampling_variance + plan.noise_variance)

    def _box(self, estimand: str) -> Ends:
        box = np.full(self.plan_.n_features, self.plan_.bound, dtype=np.float64)
        return -box, box

    def _limits(self, tail: Any, estimand: str) -> Ends:
        plan = self.plan_
        half = plan.stds * (_error_quantiles(plan, tail) + plan.bias)
        low, high = self._box(estimand)
        return np.clip(self._average - half, low, high), np.clip(self._average + half, low, high)

    def summary(self, confidence_level: float = 0.95) -> Summary:
        """Return a table of estimates, noise and intervals; prints as text, shows as HTML in a notebook."""
        interval = self.confidence_interval(confidence_level)
        plan, errors = self.plan_, self.noise_std_
        table = {
            "": self._names(range(plan.n_features)),
            **with_noise("estimate", self.mean_, errors),
            **of_interval(interval, errors),
            "bias <=": [f"{value:.2g}" for value in plan.bias * plan.stds],
        }
        notes = [
            *self._simulated_note(),
            f'tails="{plan.tails}" assumes that {plan.assumption}. Where that is wrong, intervals can cover '
            "less than they say; privacy is not affected.",
            "bias: the largest that clipping can cause under this assumption; it is part of the intervals.",
        ]
        facts = [
            ("Stages", f"{len(plan.stages)}, {plan.additive[0].noise.capitalize()} noise"),
            ("Intervals cover", "the population mean [see the note on tails]"),
        ]
        return self._framed("Private adaptive mean", facts, table, notes)


def _error_quantiles(plan: AdaptiveMeanPlan, tail: Any) -> Numbers:
    """Return for each column the quantile of sampling error plus noise, in its standard deviations."""
    d, factor = plan.n_features, plan.shape.factor
    sampling = math.sqrt(plan.sampling_variance)
    if plan.additive[0].noise == "gaussian":
        return np.full(d, -ndtri(tail) * math.hypot(sampling, math.sqrt(plan.noise_variance)))
    # Laplace: deviation w_t/sqrt(I_t) of stage t in every whitened column, which a covariance mixes.
    scales = plan.weights / np.sqrt(2 * np.array(plan.precisions))
    if factor is None and np.ndim(tail) == 0:
        return np.full(d, laplace_sum_quantile(tail, sampling, scales))
    rows = np.eye(d) if factor is None else np.abs(factor) / plan.stds[:, None]
    mixed = [np.multiply.outer(row[row > 0], scales).ravel() for row in rows]
    each = zip(np.broadcast_to(tail, d), mixed, strict=True)
    return np.array([laplace_sum_quantile(float(one), sampling, part) for one, part in each])
