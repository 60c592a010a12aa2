"""What several releases cost together: the composition theorems, and their best total.

Every total here is an upper bound that holds for adaptively chosen releases: it is never
below the truth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from dpstats.errors import InvalidParameter
from dpstats.privacy.events import Approximate, Event, Gaussian, as_event, lattice_slack
from dpstats.privacy.gaussian import gaussian_epsilon
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee
from dpstats.privacy.zcdp import zcdp_epsilon
from dpstats.validation import check_integer, check_real


def common_neighbors(items: Sequence[Event | PrivacyGuarantee]) -> Neighbors:
    """Return the one neighbouring relation of all items; different relations are refused."""
    relations = {item.neighbors for item in items}
    if len(relations) > 1:
        raise InvalidParameter(
            "all guarantees must be for the same neighbouring relation, got "
            + " and ".join(sorted(relation.name for relation in relations))
        )
    return relations.pop() if relations else Neighbors.REPLACE_ONE


def basic_composition(guarantees: Iterable[PrivacyGuarantee]) -> PrivacyGuarantee:
    """Return the sum of the guarantees: (sum of epsilons, sum of deltas).

    Theorem 9.1.2 (simple composition); theorems 3.14 to 3.16 of the foundations text.

    Examples
    --------
    >>> from dpstats.privacy import PrivacyGuarantee, basic_composition
    >>> print(basic_composition([PrivacyGuarantee(0.5), PrivacyGuarantee(0.25, 1e-6)]))
    (epsilon = 0.75, delta = 1e-06), one row replaced
    """
    items = list(guarantees)
    return PrivacyGuarantee(
        math.fsum(item.epsilon for item in items),
        min(1.0, math.fsum(item.delta for item in items)),
        common_neighbors(items),
        simulated=any(item.simulated for item in items),
    )


def group_privacy(guarantee: PrivacyGuarantee, size: int) -> PrivacyGuarantee:
    """Return what a guarantee for one row means for ``size`` rows, say all rows of one person.

    (size * epsilon, delta * (e^(size epsilon) - 1)/(e^epsilon - 1)): theorem 2.2 of the
    foundations text and its (epsilon, delta) form.

    Examples
    --------
    >>> from dpstats.privacy import PrivacyGuarantee, group_privacy
    >>> print(group_privacy(PrivacyGuarantee(0.1, 1e-6), 5))
    (epsilon = 0.5, delta = 6.16826e-06), one row replaced
    """
    size = check_integer("size", size, at_least=1)
    total = size * guarantee.epsilon
    if guarantee.delta == 0:
        delta = 0.0
    elif guarantee.epsilon == 0:
        delta = size * guarantee.delta
    elif total > 700:
        delta = 1.0
    else:
        delta = guarantee.delta * math.expm1(total) / math.expm1(guarantee.epsilon)
    return PrivacyGuarantee(total, min(1.0, delta), guarantee.neighbors, simulated=guarantee.simulated)


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
        The smallest of the closed form (all Gaussian), the zero-concentrated total, and basic
        composition. Its delta is 0 where the pure total is the smallest.

    Examples
    --------
    >>> from dpstats.privacy import compose
    >>> from dpstats.privacy.events import Gaussian
    >>> print(compose([Gaussian(0.1), Gaussian(0.2)], delta=1e-6))
    (epsilon = 0.940516, delta = 1e-06), one row replaced
    """
    given = list(items)
    delta = check_real("delta", delta, at_least=0, below=1)
    events = [as_event(item) for item in given]
    neighbors = common_neighbors(events)
    simulated = any(isinstance(item, PrivacyGuarantee) and item.simulated for item in given)

    totals = [
        total
        for total in (_pure(events), _gaussian(events, delta), _mixed(events, delta))
        if total is not None
    ]
    if not totals:
        raise InvalidParameter(
            f"delta must be larger: these releases have no total at delta = {delta:g} "
            "(only pure releases have one at delta = 0, and the deltas of (epsilon, delta) releases add up)"
        )
    epsilon, spent = min(totals)
    return PrivacyGuarantee(epsilon, spent, neighbors, simulated=simulated)


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
    epsilon = gaussian_epsilon(1 / total.mu, delta)
    for _ in range(50):
        if total.profile(epsilon) <= delta:
            return epsilon, delta
        left = delta - lattice_slack(epsilon, total.total_variation)
        if left <= 0:
            return None
        epsilon = max(gaussian_epsilon(1 / total.mu, left), epsilon) * (1 + 1e-12)
    return None


def gaussian_total(events: Sequence[Gaussian]) -> Gaussian:
    """Return the one Gaussian event that several compose to, exactly: mu^2 adds up."""
    mu = math.sqrt(math.fsum(event.mu**2 for event in events))
    return Gaussian(
        mu, math.fsum(event.total_variation for event in events), neighbors=common_neighbors(list(events))
    )


def _mixed(events: Sequence[Event], delta: float) -> tuple[float, float] | None:
    """Concentrated costs added before converting, at what the (epsilon, delta) releases leave of delta."""
    approximate = [event for event in events if isinstance(event, Approximate)]
    others = [event for event in events if not isinstance(event, Approximate)]
    left = delta - math.fsum(event.delta for event in approximate)
    costs = [event.zcdp_cost() for event in others]
    known = [cost for cost in costs if cost is not None]
    if left < 0 or len(known) < len(costs):
        return None
    epsilon = math.fsum(event.epsilon for event in approximate)
    if not others:
        return epsilon, delta - left
    pure = _pure(others)
    tails = [total for total in (pure, _gaussian(others, left)) if total is not None]
    if left > 0:
        tails.append((zcdp_epsilon(math.fsum(known), left), left))
    if not tails:
        return None
    best, spent = min(tails)
    return epsilon + best, delta - left + spent


def certifies(events: Sequence[Event], claim: PrivacyGuarantee) -> bool:
    """Say whether the events are proved to stay within a claimed guarantee.

    Unlike `compose` this evaluates curves at the claim and inverts nothing, so a calibration that
    ends exactly at the claim is recognised.
    """
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
