"""The best proved total of a list of releases: closed forms, loss distributions and convolutions."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from dpstats.data.parameters import check_real
from dpstats.errors import InvalidParameter, refuse
from dpstats.privacy.composition import (
    copies_delta,
    heterogeneous_composition,
    log_binomial,
    optimal_composition_epsilon,
)
from dpstats.privacy.events import Approximate, DiscreteLaplace, Event, Gaussian, Pure, as_event, lattice_slack
from dpstats.privacy.gaussian import LARGEST_LATTICE_SHARE, epsilon_of_mu, gaussian_profile, zcdp_epsilon
from dpstats.privacy.guarantee import PrivacyGuarantee, common_neighbors, common_unit, down, root_up, sum_up, up

Convolve = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]

# Added to every value of a profile: more than its rounding error, which may be one of 1 - (1 - x).
_ROUNDING = 1e-15


@dataclass(frozen=True)
class _Losses:
    """Masses of the losses (first, first + 1, ...) * step, and of an infinite loss."""

    first: int
    masses: NDArray[np.float64]
    infinite: float

    def plus(self, other: _Losses, truncation: float, convolve: Convolve = np.convolve) -> _Losses:
        """Return the distribution of the sum. Its far tails are moved to larger losses, which is conservative."""
        masses = convolve(self.masses, other.masses)
        infinite = self.infinite + other.infinite
        above = np.cumsum(masses[::-1])[::-1]
        keep = int(np.searchsorted(-above, -truncation, side="right"))  # above[keep] <= truncation
        if 0 < keep < masses.size:
            infinite += float(above[keep])
            masses = masses[:keep]
        below = np.cumsum(masses)
        start = int(np.searchsorted(below, truncation, side="right"))
        if 0 < start < masses.size:
            masses = masses[start:].copy()
            masses[0] += below[start - 1]
        return _Losses(self.first + other.first + (start if 0 < start < below.size else 0), masses, infinite)

    def times(self, count: int, truncation: float, convolve: Convolve = np.convolve) -> _Losses:
        """Return the distribution of the sum of ``count`` of these, by repeated doubling."""
        total, power = None, self
        while True:
            if count & 1:
                total = power if total is None else total.plus(power, truncation, convolve)
            count >>= 1
            if not count:
                assert total is not None
                return total
            power = power.plus(power, truncation, convolve)

    def epsilon(self, step: float, delta: float) -> float:
        """Return the smallest epsilon >= 0 whose hockey-stick divergence is at most delta."""
        losses = (self.first + np.arange(self.masses.size)) * step
        above = self.infinite + np.cumsum(self.masses[::-1])[::-1]
        # Compute the divergence at each loss, from the largest down: d -> e^-step d + (1 - e^-step) above. There is no
        # subtraction, so the relative error is small, even if the divergence is small compared with the mass above.
        kept, gained = math.exp(-step), -math.expm1(-step)
        rises = accumulate(above[:0:-1].tolist(), lambda d, mass: kept * d + gained * mass, initial=self.infinite)
        at = np.array(list(rises))[::-1]
        index = int(np.argmax(at <= delta)) if np.any(at <= delta) else losses.size
        if index == losses.size:
            return float(np.inf)
        # Below that loss: delta(loss - t) = e^-t at + (1 - e^-t) above, up to the next loss.
        room = float(above[index] - at[index])
        share = float(delta - at[index]) / room if room > 0 else 1.0
        fall = -math.log1p(-share) if share < 1 else math.inf
        return float(max(0.0, float(losses[index]) - min(step, fall) * (1 - 1e-12) + 1e-15 * abs(losses[index])))


# Sums of products of non-negative numbers have a small relative error for any size. So a total at a delta of 1e-11
# is as accurate as a total at 1e-3. This is for composed distributions of up to a few thousand points. Proof:
# docs/proofs/composition.md.
def convolved_epsilon(
    others: Mapping[Event, int],
    mu: float,
    step: float,
    delta: float,
    reach: Mapping[Event, float] | None = None,
    back: bool = False,
    convolve: Convolve = np.convolve,
) -> float:
    """Return the epsilon at ``delta`` of events with a dominating curve, and Gaussian noise of ``mu``.

    ``reach`` are the losses up to which grids go, by default the largest; ``back`` takes all pairs in the other
    direction. The errors of ``convolve`` are relative, or ``delta`` has room for them.
    """
    reach = reach or {event: event.largest_loss() for event in others}
    kinds = sorted(others, key=lambda event: (event.largest_loss(), repr(event)))
    truncation = delta * 1e-4 / (sum(2 * others[kind].bit_length() for kind in kinds) + 2)
    parts = [_discretised(kind, step, reach[kind], back).times(others[kind], truncation, convolve) for kind in kinds]
    if mu > 0:
        parts.append(_gaussian_losses(mu, step, truncation))
    # Convolving many distributions in pairs takes a hundredth of the time of adding each to a total that grows.
    while len(parts) > _IN_TURN:
        pairs = itertools.zip_longest(parts[::2], parts[1::2])
        parts = [one if other is None else one.plus(other, truncation, convolve) for one, other in pairs]
    total = parts[0]
    for part in parts[1:]:
        total = total.plus(part, truncation, convolve)
    # Relative errors of all the sums and products, generously.
    return total.epsilon(step, delta * (1 - 1e-9))


def convolve_by_fft(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the convolution of masses by fast Fourier transforms."""
    size = one.size + other.size - 1
    points = fft.next_fast_len(size, True)
    # A mass below 0 is a rounding error: 0 is nearer to the truth.
    return np.asarray(np.maximum(fft.irfft(fft.rfft(one, points) * fft.rfft(other, points), points)[:size], 0.0))


def _discretised(event: Event, step: float, reach: float, back: bool) -> _Losses:
    top = int(np.ceil(reach / step - 1e-9))
    grid = np.arange(top + 1, dtype=np.float64) * step
    curve = event.curve(grid)
    other = curve if event.symmetric else event.back_curve(grid)
    assert curve is not None and other is not None
    if back:
        curve, other = other, curve
    return _connected(curve, other, step)


def _gaussian_losses(mu: float, step: float, truncation: float) -> _Losses:
    top = int(np.ceil(mu / step))
    while gaussian_profile(top * step, mu) > truncation:
        top += max(1, top // 4)
    curve = np.array([gaussian_profile(size * step, mu) for size in range(top + 1)])
    return _connected(curve, curve, step)


def _connected(curve: NDArray[np.float64], other: NDArray[np.float64], step: float) -> _Losses:
    """Connect the dots of the profile of a pair at losses 0, step, 2 step, ...

    ``other`` is the profile in the other direction. The result has the masses of the pair with a profile that is linear
    in e^x between the dots (Doroshenko et al. 2022, algorithm 1).
    """
    sizes = np.arange(curve.size) * step
    left = -np.expm1(-sizes[:0:-1]) + np.exp(-sizes[:0:-1]) * other[:0:-1]
    profile = np.minimum.accumulate(np.minimum(np.concatenate([left, curve]) + _ROUNDING, 1.0))
    drops = np.diff(profile)
    if drops.size == 0:
        return _Losses(0, np.array([1 - profile[0]]), float(profile[0]))
    masses = np.empty(profile.size)
    masses[0] = 1 - profile[0] + drops[0] / np.expm1(step)
    masses[1:-1] = (drops[1:] - np.exp(step) * drops[:-1]) / np.expm1(step)
    masses[-1] = drops[-1] / np.expm1(-step)
    return _Losses(-(curve.size - 1), np.maximum(masses, 0.0), float(profile[-1]))


SMALLEST_DELTA = 1e-12
"""Below this the rounding error of the transforms is not small compared with delta."""

_LARGEST_EPSILON = 500.0  # above it, exponentials of losses overflow
_NEGLIGIBLE = 1e-4  # largest fraction of the total from basic composition
_KINDS = 10_000  # largest number of different events; more would be slow
_IN_TURN = 64  # largest number of distributions that dp_accounting composes, and that are added in turn

_PLAIN_POINTS = 8000  # points of a distribution for direct convolution
_UNIT = 2.0**-53
_POINTS = 2**18  # target for the points of the composed distribution; at most four times this number


# Every group of equal events has a discretized loss distribution that dominates it (connect the dots: Doroshenko,
# Ghazi, Kamath, Kumar and Manurangsi 2022). The public constructors of dp_accounting build it. Convolution by fast
# Fourier transforms is the only step without pessimistic rounding. Its rounding error is bounded and subtracted
# from delta before epsilon is computed. If the error is not small compared with delta, the distributions are
# convolved directly. Proof: docs/proofs/composition.md.
#
# dp_accounting is imported at the first total.
def loss_distribution_epsilon(events: Sequence[Event], delta: float, ceiling: float) -> float | None:
    """Return an epsilon for which the events together are (epsilon, delta)-private, or None.

    Parameters
    ----------
    events : sequence of Event
        Gaussian events and events with a dominating curve; others make the answer None.
    delta : float
    ceiling : float
        A valid epsilon already known: the grid is laid out for answers below it.
    """
    if not 0 < ceiling < _LARGEST_EPSILON or delta == 0:
        return None
    gaussians = [event for event in events if isinstance(event, Gaussian)]
    others = Counter(event for event in events if not isinstance(event, Gaussian))
    small = delta * _NEGLIGIBLE / max(1, others.total())
    if any(event.curve(np.zeros(1)) is None for event in others):
        return None
    # Losses beyond the reach of an event count as infinite ones.
    reach = {event: event.reach(small) for event in others}
    if any(not reach[event] < _LARGEST_EPSILON for event in others):
        return None
    mus = Counter(event.mu for event in gaussians)
    mu = root_up(sum((count * Fraction(mu) ** 2 for mu, count in mus.items()), Fraction(0)))
    variation = sum_up(event.total_variation for event in gaussians)

    # Events too small for the grid are added by basic composition instead: epsilon to epsilon, delta to delta.
    extra, used = 0.0, lattice_slack(ceiling, variation)  # each sum is rounded up
    for event in sorted(others, key=_order):
        cost = up(others[event] * Fraction(reach[event]))
        if extra + cost > _NEGLIGIBLE * ceiling:
            break
        extra = sum_up([extra, cost])
        used = sum_up([used, up(others.pop(event) * Fraction(event.profile(reach[event])))])
    if mu > 0 and others:
        small = epsilon_of_mu(mu, delta / 1000)
        if extra + small <= _NEGLIGIBLE * ceiling:
            extra, used, mu = sum_up([extra, small]), sum_up([used, delta / 1000]), 0.0
    if not others or len(others) > _KINDS:
        return None
    commonest = max(others, key=lambda event: (others[event], *_order(event)))
    # The typical size of a loss. For a sampled release it is far below the reach.
    usual = {event: reach[event] if event.symmetric else min(reach[event], event.profile(0.0)) for event in others}
    step = _step([usual[event] for event in others], mu, ceiling, usual[commonest])
    if step is None:
        return None
    left = -sum_up([used, -delta])
    slack = _rounding_slack(others, reach, step, mu, ceiling)
    answers = []
    # Added and removed rows have the same total, unless a pair is not symmetric.
    directions = (False,) if all(event.symmetric for event in others) else (False, True)
    if delta >= SMALLEST_DELTA and slack < left / 2:
        if len(others) > _IN_TURN:
            of_pair = functools.partial(
                convolved_epsilon, others, mu, step, left - slack, reach, convolve=convolve_by_fft
            )
        else:
            of_pair = functools.partial(_read, others, reach, mu, step, left - slack)
        answers.append(max(of_pair(back=back) for back in directions))
    if left > 0 and slack > delta / 1000:
        # The rounding error of transforms is too large. Convolve directly, on a smaller grid.
        coarse = _coarse_step([usual[event] for event in others], ceiling, usual[commonest])
        answers.append(max(convolved_epsilon(others, mu, coarse, left, reach, back) for back in directions))
    # An answer is a logarithm. Its error is a few units in the last place, of itself and of the largest loss of a step.
    finite = [answer for answer in answers if math.isfinite(answer)]
    return min((sum_up([answer * (1 + 1e-13), extra]) for answer in finite), default=None)


def _order(event: Event) -> tuple[float, str]:
    """Order events by size, so that the grid does not depend on the order in which they are listed."""
    return event.largest_loss(), repr(event)


def _step(losses: list[float], mu: float, ceiling: float, aligned: float) -> float | None:
    """Return the spacing of the grid: fine against every event, aligned with the commonest one."""
    finest = min([*losses, mu] if mu > 0 else losses)
    step = max(finest / 100, 2 * ceiling / _POINTS)
    if step > finest / 10:
        step = max(finest / 10, ceiling / (2 * _POINTS))
    if step > 2 * finest:
        return None  # rounding up to the grid would lose more than the method gains
    return aligned / max(1, math.ceil(aligned / step))


def _coarse_step(losses: list[float], ceiling: float, aligned: float) -> float:
    """Return the spacing for plain convolution: a few thousand points, on every loss where that is possible."""
    smallest = min(losses)
    if (
        all(abs(loss / smallest - round(loss / smallest)) < 1e-9 for loss in losses)
        and smallest > ceiling / _PLAIN_POINTS
    ):
        aligned, step = smallest, smallest / max(1, math.floor(smallest * _PLAIN_POINTS / (4 * ceiling)))
    else:
        step = 4 * ceiling / _PLAIN_POINTS
    return aligned / max(1, math.ceil(aligned / step))


def _rounding_slack(
    others: Counter[Event], reach: Mapping[Event, float], step: float, mu: float, ceiling: float
) -> float:
    """Bound the effect of the rounding errors of the transforms on delta.

    In l2, a transform of N numbers has a relative error of at most 7 u log2 N (Higham 2002, section 24.1). A k-th power
    of numbers of size at most 1 multiplies an error by k. A convolution with a distribution does not enlarge an error.
    The error of a sum of at most N entries is at most sqrt(N) times the l2 error.
    """
    sizes = sum(count * (2 * reach[event] / step + 3) for event, count in others.items())
    sizes += (80 * mu + 2 * ceiling) / step if mu else 0.0
    doublings = math.log2(sizes) + 1
    if len(others) > _IN_TURN:  # powers are computed by convolutions
        powers = sum(21 * (count - 1) * doublings + 50 * count for count in others.values())
    else:
        powers = sum(count * (7 * doublings + 50) for count in others.values())
    convolutions = 21 * doublings * (len(others) + 1)
    return math.sqrt(2 * sizes) * _UNIT * (powers + convolutions)


def _read(
    others: Counter[Event], reach: Mapping[Event, float], mu: float, step: float, delta: float, back: bool
) -> float:
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    truncation = delta * 1e-4 / (len(others) + 2)
    parts = []
    if mu > 0:
        parts.append(
            privacy_loss_distribution.from_gaussian_mechanism(
                1 / mu, value_discretization_interval=step, use_connect_dots=True, pessimistic_estimate=True
            )
        )
    for event in sorted(others, key=_order):
        count = others[event]
        top = math.ceil(reach[event] / step - 1e-9)
        grid = np.arange(-top, top + 1) * step
        size = np.abs(grid)
        curves = event.curve(size), event.back_curve(size)
        curve, other = curves[::-1] if back else curves
        assert curve is not None and other is not None
        # In the other direction: delta(-x) = 1 - e^-x (1 - other(x)).
        profile = np.where(grid >= 0, curve, -np.expm1(-size) + np.exp(-size) * other)
        profile = np.minimum.accumulate(np.clip(profile, 0.0, 1.0))
        pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, -top, top, profile)
        part = privacy_loss_distribution.PrivacyLossDistribution(pmf)
        if count > 1:
            part = part.self_compose(count, truncation)
        parts.append(part)
    total = functools.reduce(lambda total, part: total.compose(part, truncation), parts)
    return float(total.get_epsilon_for_delta(delta))


_MOST_QUOTIENTS = 64  # largest number of quotients to add exactly, because denominators multiply


# Every total in this module is an upper bound. It holds for adaptively chosen releases with events that are fixed
# in advance.
def compose(items: Iterable[PrivacyGuarantee | Event], delta: float) -> PrivacyGuarantee:
    """Return the best proved total of several releases at a given delta.

    Parameters
    ----------
    items : iterable of PrivacyGuarantee and Event
        Past or future releases. Later choices may depend on earlier answers if the events themselves are fixed in
        advance.
    delta : float
        Delta of the total, in [0, 1). With 0, every item must be pure.

    Returns
    -------
    PrivacyGuarantee
        The smallest of several totals. Closed forms exist for lists that are all Gaussian, all pure, pure with at most
        two costs, or copies of one guarantee. The others are the heterogeneous theorem, the zero-concentrated total
        (added before converting), basic composition, and the loss-distribution total. Its delta is 0 if the pure total
        is the smallest.

    Raises
    ------
    InvalidParameter
        If there is no total at this delta, or the relations or the units differ.

    Examples
    --------
    >>> from dpstats.privacy import compose
    >>> from dpstats.privacy.events import BoundedRange, Gaussian
    >>> print(compose([Gaussian(0.1), Gaussian(0.2)], delta=1e-6))
    (epsilon = 0.940516, delta = 1e-06), one row replaced
    >>> print(compose([BoundedRange(0.3)] * 10, delta=1e-6))
    (epsilon = 2.20239, delta = 1e-06), one row replaced
    """
    if not isinstance(items, Iterable):
        raise refuse("items", given=items, allowed="an iterable of guarantees and events")
    given = list(items)
    delta = check_real("delta", delta, at_least=0, below=1)
    events = [as_event(item) for item in given]
    neighbors = common_neighbors(events)
    simulated = any(isinstance(item, PrivacyGuarantee) and item.simulated for item in given)
    unit = common_unit(given)
    epsilon, spent = _smallest(events, delta)
    return PrivacyGuarantee(epsilon, spent, neighbors, simulated, unit)


def _smallest(events: Sequence[Event], delta: float) -> tuple[float, float]:
    pure, gaussian = _pure(events), _gaussian(events, delta)
    if pure is not None and delta == 0:
        return pure  # at delta = 0 there is no other
    if gaussian is not None and _is_nearly_continuous(events, gaussian[0], delta):
        return gaussian  # exact, but for what discreteness costs: nothing is below by as much
    closed = (pure, gaussian, _copies(events, delta), _responses(events, delta))
    others = (
        _different(events, delta),
        _mixed(events, delta),
        _single(events, delta),
        _with_parts_of_delta(events, delta),
    )
    totals = [total for total in (*closed, *others) if total is not None]
    if not totals:
        raise refuse(
            "delta",
            given=delta,
            allowed="larger for these releases to have a total",
            remedy="Only pure releases have one at delta = 0, and the deltas of (epsilon, delta) releases add up.",
        )
    optimal = all(isinstance(event, Pure) for event in events)  # others may cost less than their pure cost says
    exact = closed[1] or (closed[2] if len(set(events)) == 1 else None) or (closed[3] if optimal else None)
    if exact is None and len(events) > 1:
        totals += _by_loss_distributions(events, delta, min(totals)[0])
    best = min(totals)[0]
    # Among totals within a thousandth of the best, choose the total with the smallest delta, such as a pure one.
    return min((total for total in totals if total[0] <= best * (1 + 1e-3)), key=lambda total: total[::-1])


def _by_loss_distributions(events: Sequence[Event], delta: float, ceiling: float) -> list[tuple[float, float]]:
    """The totals through loss distributions. Refine the grid while this lowers the total considerably."""
    totals: list[tuple[float, float]] = []
    ceiling = min(ceiling, _LARGEST_COST * (1 - 1e-9))
    while True:
        epsilon = loss_distribution_epsilon(events, delta, ceiling)
        if epsilon is None or epsilon > ceiling:
            return totals
        totals.append((epsilon, delta))
        if epsilon > ceiling / 2 or epsilon == 0:
            return totals
        ceiling = epsilon


def _with_parts_of_delta(events: Sequence[Event], delta: float) -> tuple[float, float] | None:
    """Return the total of releases that have only a profile, each at an equal part of half of delta."""
    alone = [event for event in events if event.pure_cost() is None and event.zcdp_cost() is None]
    alone = [event for event in alone if not isinstance(event, Approximate)]
    if not alone or delta == 0 or any(event.curve(np.zeros(1)) is None for event in alone):
        return None
    part = delta / (2 * len(alone))
    known = {event: Approximate(event.reach(part), part, neighbors=event.neighbors) for event in set(alone)}
    found = [known.get(event, event) for event in events]
    totals = [total for total in (_different(found, delta), _mixed(found, delta)) if total is not None]
    return min(totals, default=None)


def _copies(events: Sequence[Event], delta: float) -> tuple[float, float] | None:
    """The optimal total of copies of one (epsilon, delta) release."""
    first = events[0] if events else None
    if not isinstance(first, Pure | Approximate) or first.epsilon == 0 or delta == 0 or len(set(events)) > 1:
        return None
    each = first.delta if isinstance(first, Approximate) else 0.0
    if each == 1 or copies_delta(len(events), each) > delta:
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
    if not 0 < slack < 1:
        return None
    items = [PrivacyGuarantee(epsilon or 0.0, each) for epsilon, each in parts]
    return heterogeneous_composition(items, slack).epsilon, delta


def _pure(events: Sequence[Event]) -> tuple[float, float] | None:
    costs = [event.pure_cost() for event in events]
    known = [cost for cost in costs if cost is not None]
    return (_pure_total(events), 0.0) if len(known) == len(costs) else None


def _pure_total(events: Sequence[Event]) -> float:
    """Return the sum of the pure costs of events that have one: exact, and rounded up once.

    The cost of noise on a lattice is a quotient. If every quotient were rounded up, ten tenths would exceed 1.
    """
    laplace = Counter(event for event in events if isinstance(event, DiscreteLaplace))
    others = [event.pure_cost() or 0.0 for event in events if not isinstance(event, DiscreteLaplace)]
    if not laplace:
        return sum_up(others)
    quotients = [count * event.exact_pure_cost() for event, count in laplace.items()]
    if len(quotients) > _MOST_QUOTIENTS:
        return sum_up([*others, *(up(quotient) for quotient in quotients)])
    numbers = (Fraction(cost) * count for cost, count in Counter(others).items())
    return up(sum(quotients, Fraction(0)) + sum(numbers, Fraction(0)))


def pure_delta(costs: Counter[float]) -> Callable[[float], float] | None:
    """Return the smallest total delta, as a function of epsilon, of pure releases with one or two different costs.

    ``costs`` counts the releases of every cost. The worst case is randomized response, with a loss of plus or minus its
    cost. The total loss is then A + B, two scaled binomials, and delta = sum_a P(A = a) D(epsilon - a), where D is the
    profile of B. The form D(x) = integral over t > x of e^(x - t) P(B > t) has no cancellation. Values are raised by
    more than their rounding error (docs/proofs/composition.md). None for unsupported costs.

    Examples
    --------
    >>> from collections import Counter
    >>> from dpstats.privacy.totals import pure_delta
    >>> delta = pure_delta(Counter({0.1: 30, 0.2: 1}))
    >>> print(f"{delta(1.0):.8f}")
    0.01499058
    """
    groups = sorted((count, cost) for cost, count in costs.items() if cost > 0 and count > 0)
    total = sum_up(count * cost for count, cost in groups)
    trials = sum(count for count, _ in groups)
    if len(groups) > 2 or trials > 10**6 or any(cost > _LARGEST_COST for _, cost in groups):
        return None
    (few, small), (many, large) = [(0, 1.0)] * (2 - len(groups)) + groups
    knots, masses = _response(few, small)
    tails = np.cumsum(masses[::-1])[::-1]  # P(B >= knot)
    # D at the knots, from the largest down, where it is 0.
    kept, gained = math.exp(-2 * small), -math.expm1(-2 * small)
    falls = accumulate(tails[:0:-1].tolist(), lambda d, tail: kept * d + gained * tail, initial=0.0)
    profile = np.array(list(falls))[::-1]
    losses, weights = _response(many, large)
    margin = 1 + 4e-12 + 1e-14 * trials  # a logarithm of 1e-300 has an error of at most 3e-12

    def delta(epsilon: float) -> float:
        x = epsilon - 1e-15 * (epsilon + total) - losses
        above = np.searchsorted(knots, x, side="right")  # the first knot above x
        inside = above < knots.size
        x, above = x[inside], above[inside]
        gap = x - knots[above]
        values = np.exp(gap) * profile[above] - np.expm1(gap) * tails[above]
        return min(1.0, float(weights[inside] @ values) * margin + 1e-300)

    return delta


_LARGEST_COST = 500.0  # e^cost is a float, with room to spare


def _response(trials: int, cost: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the losses, in increasing order, of several randomized responses, and their chances."""
    successes = np.arange(trials + 1, dtype=np.float64)
    masses = np.exp(log_binomial(trials, successes, cost)) if trials else np.ones(1)
    return (2 * successes - trials) * cost, masses


def _pure_delta(events: Sequence[Event]) -> Callable[[float], float] | None:
    costs = [event.pure_cost() for event in events]
    known = Counter(cost for cost in costs if cost is not None)
    return pure_delta(known) if known.total() == len(costs) else None


def _responses(events: Sequence[Event], delta: float) -> tuple[float, float] | None:
    """The optimal total of pure releases of at most two different costs."""
    curve = _pure_delta(events) if delta > 0 else None
    if curve is None:
        return None
    if curve(0.0) <= delta:
        return 0.0, delta
    low, high = 0.0, _pure_total(events)
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if curve(middle) <= delta else (middle, high)
    return high, delta


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
        left = delta - lattice_slack(epsilon, total.total_variation)  # only tried: the profile decides
        if left <= 0:
            return None
        epsilon = max(epsilon_of_mu(total.mu, left), epsilon) * (1 + 1e-12)
    return None


def _is_nearly_continuous(events: Sequence[Event], epsilon: float, delta: float) -> bool:
    """Return whether the discreteness of the noise costs at most the delta that a plan reserves for it."""
    variation = math.fsum(event.total_variation for event in events if isinstance(event, Gaussian))
    return lattice_slack(epsilon, variation) <= LARGEST_LATTICE_SHARE * delta


def gaussian_total(events: Sequence[Gaussian]) -> Gaussian:
    """Return the composition of Gaussian events as a single event: the exact sum of mu^2, rounded up once."""
    mus = Counter(event.mu for event in events)
    square = sum((count * Fraction(mu) ** 2 for mu, count in mus.items()), Fraction(0))
    return Gaussian(
        root_up(square), sum_up(event.total_variation for event in events), neighbors=common_neighbors(list(events))
    )


def _mixed(events: Sequence[Event], delta: float) -> tuple[float, float] | None:
    """Return a total for mixed lists: the smaller of two sums.

    The deltas of (epsilon, delta) releases are added first. The remaining delta is used in two ways:

    * Add every rho, with epsilon^2/2 for the (epsilon, delta) releases, before converting.
    * Add the epsilons of pure and (epsilon, delta) releases to the total of the Gaussian or concentrated ones.
    """
    approximate = [event for event in events if isinstance(event, Approximate)]
    others = [event for event in events if not isinstance(event, Approximate)]
    used = sum_up(event.delta for event in approximate)
    if used > delta:
        return None
    left = down(Fraction(delta) - Fraction(used))
    epsilons = [event.epsilon for event in approximate]
    costs = [event.zcdp_cost() for event in others]
    rhos = [cost for cost in costs if cost is not None]
    totals = []
    if left > 0 and len(rhos) == len(costs) and events:
        squares = Counter(epsilons)
        pure_rhos = [up(count * Fraction(epsilon) ** 2 / 2) for epsilon, count in squares.items()]
        totals.append(zcdp_epsilon(sum_up([*rhos, *pure_rhos]), left))
        if others:
            totals.append(sum_up([*epsilons, zcdp_epsilon(sum_up(rhos), left)]))
    pure = [event for event in others if event.pure_cost() is not None]
    rest = [event for event in others if event.pure_cost() is None]
    epsilons = [_pure_total([*pure, *(Pure(epsilon) for epsilon in epsilons)])]
    if not rest:
        # No part of delta is needed beyond what the releases bring.
        return min([(epsilons[0], used), *((total, delta) for total in totals)])
    gaussian = _gaussian(rest, left)
    if gaussian is not None:
        totals.append(sum_up([*epsilons, gaussian[0]]))
    known = [cost for event in rest if (cost := event.zcdp_cost()) is not None]
    if left > 0 and len(known) == len(rest):
        totals.append(sum_up([*epsilons, zcdp_epsilon(sum_up(known), left)]))
    return (min(totals), delta) if totals else None


def _single(events: Sequence[Event], delta: float) -> tuple[float, float] | None:
    """The inverse of the profile of a single release."""
    if len(events) != 1 or isinstance(events[0], Gaussian):
        return None
    event = events[0]
    top = event.largest_loss()
    if delta > 0 and event.curve(np.zeros(1)) is not None:
        top = event.reach(delta)
    if not math.isfinite(top) or event.profile(top) > delta:
        return None
    if delta == 0:
        return top, 0.0  # a profile is 0 from there on, and not before
    if event.profile(0.0) <= delta:
        return 0.0, delta
    low, high = 0.0, top
    for _ in range(200):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if event.profile(middle) <= delta else (middle, high)
    return high, delta


def certifies(events: Sequence[Event], claim: PrivacyGuarantee) -> bool:
    """Return whether the events are proved to satisfy a claimed guarantee.

    Unlike `compose`, this evaluates curves at the claim without inversion. So it accepts a calibration that ends
    exactly at the claim.
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
    curve = _pure_delta(events)
    if curve is not None and curve(claim.epsilon) <= claim.delta:
        return True
    mixed = _mixed(events, claim.delta)
    return mixed is not None and mixed[0] <= claim.epsilon


def covers(events: Sequence[Event], claim: PrivacyGuarantee) -> bool:
    """Return whether a claimed guarantee covers the cost of the events, by any method."""
    if certifies(events, claim):
        return True
    try:
        total = compose(events, claim.delta)
    except InvalidParameter:
        return False
    return total.neighbors is claim.neighbors and total.epsilon <= claim.epsilon
