"""The best proved total of a list of releases.

Every total here is an upper bound that holds for adaptively chosen releases whose events are fixed
beforehand: it is never below the truth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from dpstats.errors import InvalidParameter
from dpstats.privacy.composition import (
    common_neighbors,
    heterogeneous_composition,
    optimal_composition_epsilon,
)
from dpstats.privacy.events import Approximate, Event, Gaussian, Pure, as_event, lattice_slack
from dpstats.privacy.gaussian import epsilon_of_mu
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.loss_distribution import loss_distribution_epsilon
from dpstats.privacy.zcdp import zcdp_epsilon
from dpstats.validation import check_real


def compose(items: Iterable[PrivacyGuarantee | Event], delta: float) -> PrivacyGuarantee:
    """Return the best proved total of several releases at a given delta.

    Parameters
    ----------
    items : iterable of PrivacyGuarantee and Event
        What was, or will be, released. Later choices may depend on earlier answers as long as
        the events themselves are fixed beforehand.
    delta : float
        The delta of the total, in [0, 1). At 0 every item must be pure.

    Returns
    -------
    PrivacyGuarantee
        The smallest of the closed forms (all Gaussian; all pure; copies of one guarantee), the
        heterogeneous theorem, the zero-concentrated total (added before converting), basic
        composition, and the loss-distribution total. Its delta is 0 where the pure total is the smallest.

    Raises
    ------
    InvalidParameter
        If there is no total at this delta, or the relations differ.

    Examples
    --------
    >>> from dpstats.privacy import compose
    >>> from dpstats.privacy.events import BoundedRange, Gaussian
    >>> print(compose([Gaussian(0.1), Gaussian(0.2)], delta=1e-6))
    (epsilon = 0.940516, delta = 1e-06), one row replaced
    >>> print(compose([BoundedRange(0.3)] * 10, delta=1e-6))
    (epsilon = 2.20239, delta = 1e-06), one row replaced
    """
    given = list(items)
    delta = check_real("delta", delta, at_least=0, below=1)
    events = [as_event(item) for item in given]
    neighbors = common_neighbors(events)
    simulated = any(isinstance(item, PrivacyGuarantee) and item.simulated for item in given)
    epsilon, spent = _smallest(events, delta)
    return PrivacyGuarantee(epsilon, spent, neighbors, simulated=simulated)


def _smallest(events: Sequence[Event], delta: float) -> tuple[float, float]:
    closed = (_pure(events), _gaussian(events, delta), _copies(events, delta), _different(events, delta))
    totals = [
        total for total in (*closed, _mixed(events, delta), _single(events, delta)) if total is not None
    ]
    if not totals:
        raise InvalidParameter(
            f"delta must be larger: these releases have no total at delta = {delta:g} "
            "(only pure releases have one at delta = 0, and the deltas of (epsilon, delta) releases add up)"
        )
    exact = closed[1] or (closed[2] if len(set(events)) == 1 else None)
    if exact is None and len(events) > 1:
        epsilon = loss_distribution_epsilon(events, delta, min(totals)[0])
        if epsilon is not None:
            totals.append((epsilon, delta))
    best = min(totals)[0]
    # Of totals within a thousandth of the best, the one that spends least delta: none, if pure.
    return min((total for total in totals if total[0] <= best * (1 + 1e-3)), key=lambda total: total[::-1])


def _copies(events: Sequence[Event], delta: float) -> tuple[float, float] | None:
    """The optimal total of copies of one (epsilon, delta) release."""
    first = events[0] if events else None
    if not isinstance(first, Pure | Approximate) or first.epsilon == 0 or delta == 0 or len(set(events)) > 1:
        return None
    each = first.delta if isinstance(first, Approximate) else 0.0
    if -math.expm1(len(events) * math.log1p(-each)) > delta if each < 1 else True:
        return None
    return optimal_composition_epsilon(first.epsilon, len(events), delta, each), delta


def _different(events: Sequence[Event], delta: float) -> tuple[float, float] | None:
    """The heterogeneous theorem, for releases with a pure or an (epsilon, delta) guarantee."""
    parts = []
    for event in events:
        pure = event.pure_cost()
        if pure is None and not isinstance(event, Approximate):
            return None
        epsilon = event.epsilon if isinstance(event, Approximate) else pure
        parts.append((epsilon, event.delta if isinstance(event, Approximate) else 0.0))
    # 1 - (1 - slack) prod(1 - delta_i) <= delta, solved for the slack and rounded down.
    log_left = math.fsum(math.log1p(-each) if each < 1 else -math.inf for _, each in parts)
    slack = -math.expm1(math.log1p(-delta) - log_left) * (1 - 1e-12)
    if not events or not 0 < slack < 1:
        return None
    items = [PrivacyGuarantee(epsilon or 0.0, each) for epsilon, each in parts]
    return heterogeneous_composition(items, slack).epsilon, delta


def _pure(events: Sequence[Event]) -> tuple[float, float] | None:
    costs = [event.pure_cost() for event in events]
    known = [cost for cost in costs if cost is not None]
    return (math.fsum(known), 0.0) if len(known) == len(costs) else None


def _gaussian(events: Sequence[Event], delta: float) -> tuple[float, float] | None:
    gaussians = [event for event in events if isinstance(event, Gaussian)]
    if len(gaussians) < len(events) or not events or delta == 0:
        return None
    total = gaussian_total(gaussians)
    if total.mu == 0:
        return 0.0, 0.0
    # The slack grows with epsilon: raise it until the profile itself certifies the answer.
    epsilon = epsilon_of_mu(total.mu, delta)
    for _ in range(50):
        if total.profile(epsilon) <= delta:
            return epsilon, delta
        left = delta - lattice_slack(epsilon, total.total_variation)
        if left <= 0:
            return None
        epsilon = max(epsilon_of_mu(total.mu, left), epsilon) * (1 + 1e-12)
    return None


def gaussian_total(events: Sequence[Gaussian]) -> Gaussian:
    """Return the one Gaussian event that several compose to, exactly: mu^2 adds up."""
    mu = math.hypot(*(event.mu for event in events))
    return Gaussian(
        mu, math.fsum(event.total_variation for event in events), neighbors=common_neighbors(list(events))
    )


def _mixed(events: Sequence[Event], delta: float) -> tuple[float, float] | None:
    """What is left for lists of all kinds: the better of two ways of adding up.

    The deltas of (epsilon, delta) releases are added first. At what is left of delta: every rho, with
    epsilon^2/2 for the (epsilon, delta) releases, added before converting; or the epsilons of pure and
    (epsilon, delta) releases, added to the total of the Gaussian ones, or of the concentrated ones.
    """
    approximate = [event for event in events if isinstance(event, Approximate)]
    others = [event for event in events if not isinstance(event, Approximate)]
    used = math.fsum(event.delta for event in approximate)
    left = delta - used
    if left < 0:
        return None
    epsilons = math.fsum(event.epsilon for event in approximate)
    costs = [event.zcdp_cost() for event in others]
    rhos = [cost for cost in costs if cost is not None]
    totals = []
    if left > 0 and len(rhos) == len(costs) and events:
        totals.append(
            zcdp_epsilon(math.fsum([*rhos, *(event.epsilon**2 / 2 for event in approximate)]), left)
        )
        if others:
            totals.append(epsilons + zcdp_epsilon(math.fsum(rhos), left))
    pure = [event.pure_cost() for event in others]
    epsilons += math.fsum(cost for cost in pure if cost is not None)
    rest = [event for event, cost in zip(others, pure, strict=True) if cost is None]
    if not rest:
        # No part of delta is needed beyond what the releases bring.
        return min([(epsilons, used), *((total, delta) for total in totals)])
    gaussian = _gaussian(rest, left)
    if gaussian is not None:
        totals.append(epsilons + gaussian[0])
    concentrated = [event.zcdp_cost() for event in rest]
    known = [cost for cost in concentrated if cost is not None]
    if left > 0 and len(known) == len(rest):
        totals.append(epsilons + zcdp_epsilon(math.fsum(known), left))
    return (min(totals), delta) if totals else None


def _single(events: Sequence[Event], delta: float) -> tuple[float, float] | None:
    """The inverse of a lone release's own profile."""
    if len(events) != 1 or isinstance(events[0], Gaussian):
        return None
    event = events[0]
    top = event.largest_loss()
    if not math.isfinite(top) or event.profile(top) > delta:
        return None
    if event.profile(0.0) <= delta:
        return 0.0, delta
    low, high = 0.0, top
    for _ in range(200):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if event.profile(middle) * (1 + 1e-12) <= delta else (middle, high)
    return high, delta


def certifies(events: Sequence[Event], claim: PrivacyGuarantee) -> bool:
    """Say whether the events are proved to stay within a claimed guarantee.

    Unlike `compose` this evaluates curves at the claim and inverts nothing, so a calibration that
    ends exactly at the claim is recognised.
    """
    if events and common_neighbors(events) is not claim.neighbors:
        return False
    pure = _pure(events)
    if pure is not None and pure[0] <= claim.epsilon:
        return True
    if claim.delta == 0:
        return False
    gaussians = [event for event in events if isinstance(event, Gaussian)]
    if len(gaussians) == len(events) and gaussian_total(gaussians).profile(claim.epsilon) <= claim.delta:
        return True
    mixed = _mixed(events, claim.delta)
    return mixed is not None and mixed[0] <= claim.epsilon


def covers(events: Sequence[Event], claim: PrivacyGuarantee) -> bool:
    """Say whether a claimed guarantee is at least what the events cost, by any route."""
    if certifies(events, claim):
        return True
    try:
        total = compose(events, claim.delta)
    except InvalidParameter:
        return False
    return total.neighbors is claim.neighbors and total.epsilon <= claim.epsilon
