"""Totals through privacy loss distributions, with pessimistic rounding in every step."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from dpstats.privacy.convolution import convolved_epsilon
from dpstats.privacy.events import Event, Gaussian, lattice_slack
from dpstats.privacy.gaussian import epsilon_of_mu
from dpstats.privacy.rounding import root_up, sum_up, up

SMALLEST_DELTA = 1e-12
"""Below this the rounding error of the transforms is not small compared with delta."""

_LARGEST_EPSILON = 500.0  # above it, exponentials of losses overflow
_NEGLIGIBLE = 1e-4  # largest fraction of the total from basic composition
_KINDS = 10_000  # largest number of different events; more would be slow
_IN_TURN = 64  # largest number of distributions that are added to the total one after the other

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
    usual = {
        event: reach[event] if event.symmetric else min(reach[event], event.profile(0.0)) for event in others
    }
    step = _step([usual[event] for event in others], mu, ceiling, usual[commonest])
    if step is None:
        return None
    left = -sum_up([used, -delta])
    slack = _rounding_slack(others, reach, step, mu, ceiling)
    answers = []
    # Added and removed rows have the same total, unless a pair is not symmetric.
    directions = (False,) if all(event.symmetric for event in others) else (False, True)
    if delta >= SMALLEST_DELTA and slack < left / 2:
        answers.append(max(_read(others, reach, mu, step, left - slack, back) for back in directions))
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
    # Convolving many distributions in pairs takes a hundredth of the time of adding each to a total that grows. There
    # are as many convolutions, so `_rounding_slack` bounds the errors of both.
    while len(parts) > _IN_TURN:
        pairs = itertools.zip_longest(parts[::2], parts[1::2])
        parts = [part if other is None else part.compose(other, truncation) for part, other in pairs]
    total = functools.reduce(lambda total, part: total.compose(part, truncation), parts)
    return float(total.get_epsilon_for_delta(delta))
