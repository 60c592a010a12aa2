"""Laplace and Gaussian noise on a number or a vector that the caller has computed.

Proofs: docs/proofs/laplace.md and docs/proofs/gaussian.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpstats.data.parameters import check_integer, check_privacy_parameters, check_real
from dpstats.data.values import exact_numbers, floats_among
from dpstats.errors import DPStatsError, InvalidParameter, refuse, refuse_data, state_charges
from dpstats.inference.results import ConfidenceInterval
from dpstats.lattice import exact_steps, isqrt_up
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.events import Event
from dpstats.privacy.gaussian import gaussian_sigma
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee
from dpstats.privacy.plan import Plan
from dpstats.privacy.stages import Stage
from dpstats.release.additive import Integers, additive_stages
from dpstats.release.mechanism import Mechanism


class _AdditiveMechanism(Mechanism):
    """What the two mechanisms share: a number or vector in, the same shape with noise out.

    The lattice is a power of two, 2^-40 of the noise or finer. A value is scaled and rounded to it without
    floating-point error. This adds at most one step per coordinate (half a step at either neighbor) to the
    sensitivity. The noise is calibrated to the enlarged sensitivity.
    """

    def __init__(
        self,
        sensitivity: float,
        epsilon: float,
        delta: float,
        neighbors: Neighbors,
        random_state: Any,
        budget: PrivacyBudget | None,
    ) -> None:
        self._sensitivity = check_real("sensitivity", sensitivity, at_least=_SMALLEST, at_most=_LARGEST)
        epsilon, delta = check_privacy_parameters(epsilon, delta)
        super().__init__(PrivacyGuarantee(epsilon, delta, neighbors), random_state, budget)
        # Fixed here, from the scale before allowances, so that the stated lattice is the lattice of the
        # noise.
        self._spacing = 2.0 ** (math.frexp(self._nominal_scale())[1] - 1 - 40)
        self._plans: dict[int, Plan] = {}
        self._stage(1)  # refuses what cannot be drawn
        if epsilon > _EVERYDAY_EPSILON or delta > _EVERYDAY_DELTA:
            self._check_claim()

    @property
    def sensitivity(self) -> float:
        """The sensitivity that was declared."""
        return self._sensitivity

    @property
    def scale(self) -> float:
        """Scale (Laplace) or standard deviation (Gaussian) of the noise of a single number, in its units."""
        return self._scale_of(1)

    @property
    def plan(self) -> Plan:
        """The plan of the release of a single number."""
        return self._plan_of(1)

    @property
    def event(self) -> Event:
        """The accountant's event of one release of a single number."""
        return self._stage(1).event

    @state_charges
    def release(self, value: Any) -> Any:
        """Return the value with noise: one release, charged as one.

        Parameters
        ----------
        value : number or array
            The private value, already computed; its norm moves by at most ``sensitivity`` between
            neighboring datasets. Must be finite; integers are taken exactly, however large.

        Returns
        -------
        float, or float array of the same shape
        """
        self._check_budget(value)
        array = _check_value(value)
        steps = exact_steps(array.ravel(), self._spacing)
        with self._session(self._plan_of(array.size)) as session:
            released = session.add(_VALUE, steps).reshape(array.shape)
        return float(released) if array.ndim == 0 else released

    def _check_claim(self) -> None:
        """Refuse where floating point calibrates so far out that the claim cannot be certified."""
        try:
            _ = self._plan_of(1).guarantee
        except DPStatsError:
            raise InvalidParameter(
                f"epsilon and delta are too extreme for noise that is proved to keep them, got {self._guarantee}"
            ) from None

    def _check_budget(self, value: Any) -> None:
        """Ask the budget before the value is looked at; how many numbers it has is public."""
        if self._budget is None:
            return
        try:
            size = int(np.size(value))
        except ValueError:
            return
        self._session(self._plan_of(max(size, 1))).check()

    def _nominal_scale(self) -> float:
        raise TypeError(f"{type(self).__name__} does not define _nominal_scale")

    def _plan_of(self, size: int) -> Plan:
        """Return the plan of releasing ``size`` numbers."""
        plan = self._plans.get(size)
        if plan is None:
            if len(self._plans) >= _KEPT:
                self._plans.clear()
            steps = math.ceil(Fraction(self.sensitivity) / Fraction(self._spacing))
            if steps > 2**100:
                raise refuse("epsilon", given=self.epsilon, allowed="less extreme for exact noise")
            item = Integers(_VALUE, size, self._spacing, steps + size, steps + isqrt_up(size))
            relation = self.guarantee.neighbors
            (stage,) = additive_stages([item], self.epsilon, self.delta, neighbors=relation)
            plan = self._plans[size] = self._planned(stage)
        return plan

    def _stage(self, size: int) -> Stage:
        """Return the stage that releases ``size`` numbers."""
        return self._plan_of(size).additive[0]

    def _scale_of(self, size: int) -> float:
        """Return the scale that is drawn for ``size`` numbers, in their units."""
        return float(np.asarray(self._stage(size).noise_scale))


_VALUE = "value"
_EVERYDAY_EPSILON, _EVERYDAY_DELTA = 100.0, 0.5  # up to here calibration is certified, by tests
_KEPT = 64  # plans, by how many numbers they are for

# Sensitivities whose lattice stays inside floating point.
_SMALLEST, _LARGEST = 1e-200, 1e200


def _check_value(value: Any) -> NDArray[Any]:
    array = exact_numbers("value", value)
    if array.size == 0 or not np.isfinite(floats_among(array)).all():
        raise refuse_data("value", allowed="a finite number, or a non-empty array of finite numbers")
    return array


class LaplaceMechanism(_AdditiveMechanism):
    """Release a number or a vector with Laplace noise: pure epsilon privacy.

    Parameters
    ----------
    sensitivity : float
        Largest l1 distance of the value between neighboring datasets.
    epsilon : float
        Greater than 0.
    neighbors : Neighbors, default=Neighbors.REPLACE_ONE
        The relation that ``sensitivity`` is for.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise; anything else is a simulation.
    budget : PrivacyBudget, optional
        Charged at every release, before noise is drawn.

    Attributes
    ----------
    scale : float
        The scale of the noise of a single number: sensitivity/epsilon and the rounding allowance, for
        ``size`` numbers at most a relative (size + 1)/(epsilon 2^40).
    guarantee : PrivacyGuarantee
    event : Event

    Notes
    -----
    Theorem 3.6 of the foundations text (docs/sources.md); accuracy is its theorem 3.8. Proof, floating point
    included: docs/proofs/laplace.md.

    **Limits.** The l1 sensitivity that you give is trusted, and floats that you added up yourself can exceed it.
    The interval reflects noise only.

    Examples
    --------
    >>> from dpstats.mechanisms import LaplaceMechanism
    >>> mechanism = LaplaceMechanism(sensitivity=1, epsilon=0.5, random_state=0)
    >>> round(mechanism.release(120), 2)
    119.32
    >>> round(mechanism.error_bound(0.05), 2)
    5.99
    """

    def __init__(
        self,
        sensitivity: float,
        epsilon: float,
        *,
        neighbors: Neighbors = Neighbors.REPLACE_ONE,
        random_state: Any = None,
        budget: PrivacyBudget | None = None,
    ) -> None:
        super().__init__(sensitivity, epsilon, 0.0, neighbors, random_state, budget)

    def _nominal_scale(self) -> float:
        return self.sensitivity / self.epsilon

    def error_bound(self, beta: float, size: int = 1) -> float:
        """Return t with P(some of ``size`` errors exceeds t) <= beta: scale * log(size/beta), theorem 3.8.

        The scale is the scale of the noise for ``size`` numbers. t is larger by a lattice step, 2^-40 of it.
        """
        beta = check_real("beta", beta, above=0, below=1)
        size = check_integer("size", size, at_least=1)
        return self._scale_of(size) * math.log(size / beta) + self._spacing

    def confidence_interval(self, released: Any, confidence_level: float = 0.95) -> ConfidenceInterval:
        """Return the interval for the value before noise, from the noise distribution."""
        level = check_real("confidence_level", confidence_level, above=0, below=1)
        half = self._scale_of(max(1, np.size(released))) * math.log(1 / (1 - level)) + self._spacing
        return ConfidenceInterval.around(released, half, level, estimand="the value before noise")


class GaussianMechanism(_AdditiveMechanism):
    """Release a number or a vector with Gaussian noise: (epsilon, delta) privacy.

    Parameters
    ----------
    sensitivity : float
        Largest l2 distance of the value between neighboring datasets.
    epsilon : float
        Greater than 0.
    delta : float
        Strictly between 0 and 1; Gaussian noise is never purely private.
    neighbors : Neighbors, default=Neighbors.REPLACE_ONE
        The relation that ``sensitivity`` is for.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise; anything else is a simulation.
    budget : PrivacyBudget, optional
        Charged at every release, before noise is drawn.

    Attributes
    ----------
    sigma : float
        The standard deviation of the noise of a single number: the smallest (epsilon, delta)-private value,
        from the exact curve, to a relative 1e-9. For epsilon above about 20 it comes from zero-concentrated
        privacy, and is a few percent larger. Noise for ``size`` numbers exceeds it by the rounding allowance,
        at most a relative sqrt(size) sigma 2^-39/sensitivity.
    guarantee : PrivacyGuarantee
    event : Event

    Notes
    -----
    The classical sqrt(2 log(1.25/delta)) is proved for epsilon < 1 only, and is larger there. Proof,
    floating point included: docs/proofs/gaussian.md.

    **Limits.** The l2 sensitivity that you give is trusted, and floats that you added up yourself can exceed it.
    The interval reflects noise only.

    Examples
    --------
    >>> from dpstats.mechanisms import GaussianMechanism
    >>> mechanism = GaussianMechanism(sensitivity=1, epsilon=1, delta=1e-6, random_state=0)
    >>> round(mechanism.sigma, 6)
    4.224679
    >>> mechanism.release([10, 20, 30]).round(2)
    array([10.53, 19.44, 32.71])
    """

    def __init__(
        self,
        sensitivity: float,
        epsilon: float,
        delta: float,
        *,
        neighbors: Neighbors = Neighbors.REPLACE_ONE,
        random_state: Any = None,
        budget: PrivacyBudget | None = None,
    ) -> None:
        super().__init__(sensitivity, epsilon, delta, neighbors, random_state, budget)

    def _nominal_scale(self) -> float:
        return gaussian_sigma(self.epsilon, self.delta, self.sensitivity)

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise of a single number."""
        return self.scale

    def error_bound(self, beta: float, size: int = 1) -> float:
        """Return t with P(some of ``size`` errors exceeds t) = beta: exact for independent noise."""
        beta = check_real("beta", beta, above=0, below=1)
        size = check_integer("size", size, at_least=1)
        tail = -math.expm1(math.log1p(-beta) / size)
        return -self._scale_of(size) * float(ndtri(tail / 2))

    def confidence_interval(self, released: Any, confidence_level: float = 0.95) -> ConfidenceInterval:
        """Return the interval for the value before noise, from the noise distribution."""
        level = check_real("confidence_level", confidence_level, above=0, below=1)
        half = self._scale_of(max(1, np.size(released))) * float(-ndtri((1 - level) / 2))
        return ConfidenceInterval.around(released, half, level, estimand="the value before noise")
