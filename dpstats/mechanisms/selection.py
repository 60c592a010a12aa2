"""Private selection: one of many candidates, or the best few, by noisy utility.

Proof: docs/proofs/selection.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dpstats.data.parameters import check_choice, check_flag, check_integer, check_privacy_parameters, check_real
from dpstats.data.values import as_int64, exact_numbers, floats_among
from dpstats.errors import refuse, refuse_data, state_charges
from dpstats.lattice import exact_steps
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.gaussian import zcdp_rho
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee, quotient_up
from dpstats.privacy.plan import Plan
from dpstats.privacy.stages import Selection
from dpstats.release.mechanism import Mechanism

Reals = NDArray[np.float64]

_BEST = "best candidates"

_GAP = 2**60
"""Utilities further below the best than this many steps (2^20 noise scales) count as this far below."""


class _Selection(Mechanism):
    """What the selections share: utilities on a lattice, noise, the largest.

    Utilities are rounded to a power-of-two lattice, 2^-40 of the noise or finer; rounding adds one
    step to their sensitivity, and the noise is calibrated to the enlarged one.
    """

    def __init__(
        self,
        sensitivity: float,
        guarantee: PrivacyGuarantee,
        noise: str,
        each: float,
        random_state: Any,
        budget: PrivacyBudget | None,
        *,
        k: int = 1,
        monotone: bool = False,
    ) -> None:
        self._sensitivity = check_real("sensitivity", sensitivity, at_least=1e-200, at_most=1e200)
        if monotone and guarantee.neighbors is not Neighbors.ADD_OR_REMOVE_ONE:
            raise refuse(
                "monotone",
                given=True,
                allowed="False for replaced rows, which move utilities both ways",
                remedy="Or give neighbors=Neighbors.ADD_OR_REMOVE_ONE.",
            )
        super().__init__(guarantee, random_state, budget)
        # Noise of scale width * sensitivity/each: 2 for scores that may move either way, 1 for monotone ones.
        width = 1 if monotone else 2
        nominal = width * self._sensitivity / each if each > 0 else math.inf
        extreme = refuse("epsilon", given=guarantee.epsilon, allowed="less extreme for exact selection")
        if not 1e-290 <= nominal <= 1e290:
            raise extreme
        spacing = 2.0 ** (math.frexp(nominal)[1] - 1 - 40)
        steps = math.ceil(Fraction(self._sensitivity) / Fraction(spacing)) + 1
        scale = quotient_up(width * steps, each)
        if not 1 <= scale <= 2**52:
            raise extreme
        self._plan = self._planned(
            Selection(_BEST, noise, k, spacing, steps, scale, neighbors=guarantee.neighbors, monotone=monotone)
        )

    @property
    def plan(self) -> Plan:
        """The plan of one call of `select`, with its cost."""
        return self._plan

    @property
    def _stage(self) -> Selection:
        return self._plan.selections[0]

    @property
    def sensitivity(self) -> float:
        """The largest change of a utility between neighboring datasets."""
        return self._sensitivity

    @property
    def scale(self) -> float:
        """Scale of the noise, in the units of the utilities."""
        return self._stage.noise_scale

    def _steps(self, utilities: Any) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """Return the gaps below the best utility, in steps (at most 0), and where the candidates stand."""
        array = exact_numbers("utilities", utilities)
        if array.ndim != 1 or array.size == 0:
            raise refuse_data("utilities", allowed="a non-empty 1-d array of numbers")
        floats = floats_among(array)
        if np.isnan(floats).any() or np.isposinf(floats).any():
            raise refuse_data("utilities", got="NaN or +inf", allowed="numbers or -inf (never selected)")
        candidates = np.flatnonzero(array != -np.inf)
        if candidates.size == 0:
            raise refuse_data("utilities", allowed="hold at least one candidate that is not -inf")
        steps = exact_steps(array[candidates], self._stage.spacing)
        # Raising utilities to the best less a constant changes none by more than the sensitivity.
        gaps = np.maximum(steps - steps.max(), -_GAP)
        return as_int64(gaps), candidates

    def _select(self, utilities: Any, size: int | None = None) -> NDArray[np.intp]:
        """Return the selected candidates, best first; of shape (size, k) for simulations."""
        self._check()
        gaps, candidates = self._steps(utilities)
        if self._stage.size > candidates.size:
            raise refuse_data("utilities", allowed=f"hold at least k = {self._stage.size} candidates that are not -inf")
        # Which candidates there are is public, and a kept answer is one of them.
        with self._session(size=size, candidates=candidates.tolist()) as session:
            best: NDArray[np.intp] = session.select(_BEST, gaps)
            return candidates[best]


class _SelectOne(_Selection):
    @state_charges
    def select(self, utilities: Any) -> int:
        """Return the index of the selected candidate: one release, charged as one.

        Parameters
        ----------
        utilities : array-like of shape (n_candidates,)
            Private utilities. ``-inf`` marks a candidate that is never selected, which must be public.
        """
        return int(self._select(utilities)[0])

    def probabilities(self, utilities: Any) -> NDArray[np.float64]:
        """Return the exact probability of each candidate: as private as the utilities are."""
        gaps, candidates = self._steps(utilities)
        result = np.zeros(len(utilities))
        result[candidates] = _LAWS[self._stage.noise](gaps / self._stage.scale_steps)
        return result

    def utility_bound(self, beta: float, n_candidates: int, n_best: int = 1) -> float:
        """Return t such that the selected utility is within t of the best, but for probability ``beta``.

        (2 sensitivity/epsilon) log(n_candidates/(n_best beta)) for the exponential mechanism (theorem 3.11;
        n_best = 1 is corollary 3.12). It holds for all noises here: with one-sided noise selection is
        never worse (McKenna and Sheldon 2020), with Laplace noise by a union bound over n_candidates.
        """
        beta = check_real("beta", beta, above=0, below=1)
        n = check_integer("n_candidates", n_candidates, at_least=1)
        best = check_integer("n_best", n_best, at_least=1, at_most=n)
        if self._stage.noise == "laplace":
            # Two errors of at most scale log(n/beta) each.
            return 2 * self.scale * math.log(n / beta) + self._stage.spacing
        return self.scale * math.log(n / (best * beta)) + self._stage.spacing


class ExponentialMechanism(_SelectOne):
    """Select a candidate with probability proportional to exp(epsilon u/(2 sensitivity)).

    Parameters
    ----------
    sensitivity : float
        Largest change of any utility between neighboring datasets.
    epsilon : float
        Greater than 0.
    monotone : bool, default=False
        Declare that adding a row never lowers (or never raises) any utility, as for counts. Then half of the noise
        suffices. Requires ``ADD_OR_REMOVE_ONE``.
    neighbors : Neighbors, default=Neighbors.REPLACE_ONE
    random_state : None, int or numpy.random.Generator, default=None
        None draws exactly; anything else is a simulation.
    budget : PrivacyBudget, optional

    Attributes
    ----------
    guarantee : PrivacyGuarantee
    events : tuple of Event
        `BoundedRange`: composes better than a pure release.

    Notes
    -----
    Section 3.4 of the foundations text (docs/sources.md); accuracy is its theorem 3.11. The sampler takes the largest
    of utilities plus Gumbel noise, which has the same distribution.

    **Limits.** The sensitivity that you give is trusted. The utility of the choice is not released.

    Examples
    --------
    >>> from dpstats.mechanisms import ExponentialMechanism
    >>> mechanism = ExponentialMechanism(sensitivity=1, epsilon=1, random_state=0)
    >>> mechanism.probabilities([0, 1, 3]).round(8)
    array([0.14024438, 0.2312239 , 0.62853172])
    >>> mechanism.select([0, 1, 3])
    2
    """

    def __init__(
        self,
        sensitivity: float,
        epsilon: float,
        *,
        monotone: bool = False,
        neighbors: Neighbors = Neighbors.REPLACE_ONE,
        random_state: Any = None,
        budget: PrivacyBudget | None = None,
    ) -> None:
        epsilon, _ = check_privacy_parameters(epsilon, 0.0)
        guarantee = PrivacyGuarantee(epsilon, neighbors=neighbors)
        super().__init__(
            sensitivity, guarantee, "gumbel", epsilon, random_state, budget, monotone=check_flag("monotone", monotone)
        )


class ReportNoisyMax(_SelectOne):
    """Select the candidate whose utility plus noise is largest; report which, not how large.

    Parameters
    ----------
    sensitivity, epsilon, monotone, neighbors, random_state, budget
        As for `ExponentialMechanism`.
    noise : {"laplace", "exponential", "gumbel"}, default="laplace"
        Noise of scale 2 sensitivity/epsilon. "exponential" is one-sided (theorem 3.13), with the distribution
        of permute-and-flip; "gumbel" has the distribution of the exponential mechanism.

    Notes
    -----
    Claim 3.9 of the foundations text (docs/sources.md). Its scale sensitivity/epsilon is for ``monotone`` utilities,
    such as counts of rows that are added or removed. Scores that may move either way need twice that
    (docs/errata.md). Only "gumbel" has a bounded range.

    **Limits.** The sensitivity that you give is trusted, and so is ``monotone``. The utility of the choice is not
    released.

    Examples
    --------
    >>> from dpstats.mechanisms import ReportNoisyMax
    >>> ReportNoisyMax(1, 1).probabilities([0, 1, 3]).round(8)
    array([0.13159862, 0.22918622, 0.63921516])
    >>> from dpstats.privacy import Neighbors
    >>> counts = ReportNoisyMax(1, 1, monotone=True, neighbors=Neighbors.ADD_OR_REMOVE_ONE)
    >>> round(counts.scale, 6)
    1.0
    """

    def __init__(
        self,
        sensitivity: float,
        epsilon: float,
        *,
        noise: str = "laplace",
        monotone: bool = False,
        neighbors: Neighbors = Neighbors.REPLACE_ONE,
        random_state: Any = None,
        budget: PrivacyBudget | None = None,
    ) -> None:
        epsilon, _ = check_privacy_parameters(epsilon, 0.0)
        noise = check_choice("noise", noise, list(_LAWS))
        guarantee = PrivacyGuarantee(epsilon, neighbors=neighbors)
        super().__init__(
            sensitivity, guarantee, noise, epsilon, random_state, budget, monotone=check_flag("monotone", monotone)
        )


class PermuteAndFlip(ReportNoisyMax):
    """Go through the candidates in random order, and take one with probability exp(-epsilon gap/(2 sensitivity)).

    Never worse than the exponential mechanism (McKenna and Sheldon 2020). The sampler is report noisy max
    with one-sided exponential noise, which has the same distribution.

    Parameters
    ----------
    sensitivity, epsilon, monotone, neighbors, random_state, budget
        As for `ExponentialMechanism`.

    Notes
    -----
    **Limits.** The sensitivity that you give is trusted. The utility of the choice is not released.

    Examples
    --------
    >>> from dpstats.mechanisms import PermuteAndFlip
    >>> PermuteAndFlip(1, 1).probabilities([0, 1, 3]).round(8)
    array([0.09788425, 0.17025889, 0.73185687])
    """

    def __init__(
        self,
        sensitivity: float,
        epsilon: float,
        *,
        monotone: bool = False,
        neighbors: Neighbors = Neighbors.REPLACE_ONE,
        random_state: Any = None,
        budget: PrivacyBudget | None = None,
    ) -> None:
        super().__init__(
            sensitivity,
            epsilon,
            noise="exponential",
            monotone=monotone,
            neighbors=neighbors,
            random_state=random_state,
            budget=budget,
        )


class NoisyTopK(_Selection):
    """Select the k candidates whose utilities plus Gumbel noise are largest, at once.

    The distribution is the same as for k exponential mechanisms, each without the candidates already selected
    (Durfee and Rogers 2019).

    Parameters
    ----------
    k : int
        Number of candidates to select.
    sensitivity : float
        Largest change of any utility between neighboring datasets.
    epsilon : float
        Privacy parameter of all k selections together.
    delta : float, default=0.0
        0 splits epsilon evenly; in (0, 1) the selections add up by zero-concentrated privacy, which is
        better from small k on.
    monotone, neighbors, random_state, budget
        As for `ExponentialMechanism`.

    Notes
    -----
    **Limits.** The sensitivity that you give is trusted. Utilities of the choices are not released, and near ties
    are in random order.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.mechanisms import NoisyTopK
    >>> top = NoisyTopK(3, sensitivity=1, epsilon=1, delta=1e-6, random_state=0)
    >>> sorted(top.select(1000 * (np.arange(50) < 3)).tolist())
    [0, 1, 2]
    """

    def __init__(
        self,
        k: int,
        sensitivity: float,
        epsilon: float,
        delta: float = 0.0,
        *,
        monotone: bool = False,
        neighbors: Neighbors = Neighbors.REPLACE_ONE,
        random_state: Any = None,
        budget: PrivacyBudget | None = None,
    ) -> None:
        k = check_integer("k", k, at_least=1)
        epsilon, delta = check_privacy_parameters(epsilon, delta)
        each = epsilon / k * (1 - 2.0**-50)
        if delta > 0:
            # k selections of range a have rho = k a^2/8.
            each = max(each, math.sqrt(8 * zcdp_rho(epsilon, delta) / k) * (1 - 1e-12))
        guarantee = PrivacyGuarantee(epsilon, delta, neighbors)
        super().__init__(
            sensitivity, guarantee, "gumbel", each, random_state, budget, k=k, monotone=check_flag("monotone", monotone)
        )

    @property
    def k(self) -> int:
        """Number of selected candidates."""
        return self._stage.size

    @state_charges
    def select(self, utilities: Any) -> NDArray[np.intp]:
        """Return the indices of the k selected candidates, best first: one release, charged as one."""
        return self._select(utilities)


# Distributions of the selected candidate, exact or by quadrature

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


def pieces(kinks: Reals) -> Iterator[tuple[Reals, Reals]]:
    """Yield nodes and weights of Gauss-Legendre rules, of length at most 2, between sorted kinks.

    Between the points where some noise changes branch the integrands here are smooth.
    """
    for left, right in itertools.pairwise(kinks):
        count = max(1, math.ceil((right - left) / 2))
        width = (right - left) / count
        for part in range(count):
            yield left + (part + 0.5) * width + _NODES * width / 2, _WEIGHTS * width / 2


def laplace_log_density(x: Reals) -> Reals:
    """Return the log density of standard Laplace noise."""
    return -np.abs(x) - math.log(2)


def laplace_log_cumulative(x: Reals) -> Reals:
    """Return log P(noise <= x) for standard Laplace noise."""
    return np.where(x < 0, np.minimum(x, 0) - math.log(2), np.log1p(-np.exp(-np.maximum(x, 0)) / 2))


def normalized(probabilities: Reals) -> Reals:
    """Return non-negative numbers that add up to nearly 1, divided by their sum.

    The last digits of a quadrature belong to the processor. No result is above 1, and a single one is 1: a
    floating-point sum of non-negative numbers is at least each of them, in any order.
    """
    return np.asarray(probabilities / probabilities.sum())


def _gumbel_law(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    return normalized(np.exp(weights - logsumexp(weights)))


def _quadrature_law(
    weights: NDArray[np.float64], low: float, log_density: Any, log_cumulative: Any
) -> NDArray[np.float64]:
    """Integrate P(candidate i is largest) = E prod_j F(x + w_i - w_j), over the value of the largest."""
    kinks = np.unique(np.concatenate([weights, [low, 0.0, 2.0, 6.0, 14.0, 40.0]]))
    result = np.zeros(weights.size)
    for x, lengths in pieces(kinks[kinks >= low]):
        cumulative = log_cumulative(x[:, None] - weights)
        density = log_density(x[:, None] - weights)
        together = cumulative.sum(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            terms = np.exp(density + np.where(np.isfinite(cumulative), together - cumulative, -np.inf))
        result += lengths @ terms
    return normalized(result)


def _laplace_law(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    return _quadrature_law(weights, -40.0, laplace_log_density, laplace_log_cumulative)


def _exponential_law(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    def log_cumulative(x: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(divide="ignore"):
            return np.log(-np.expm1(-np.maximum(x, 0)))

    def log_density(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(x >= 0, -x, -np.inf)

    # The best utility is 0 and its noise is not negative: the largest is at least 0.
    return _quadrature_law(weights, 0.0, log_density, log_cumulative)


_LAWS = {"laplace": _laplace_law, "exponential": _exponential_law, "gumbel": _gumbel_law}
