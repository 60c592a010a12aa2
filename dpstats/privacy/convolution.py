"""Loss distributions by plain convolution: slower than transforms, and with relative errors only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from dpstats.privacy.events import Event
from dpstats.privacy.gaussian import gaussian_profile

# Added to every value of a profile: more than its rounding error, which may be one of 1 - (1 - x).
_ROUNDING = 1e-15


@dataclass(frozen=True)
class _Losses:
    """Masses of the losses (first, first + 1, ...) * step, and of an infinite loss."""

    first: int
    masses: NDArray[np.float64]
    infinite: float

    def plus(self, other: _Losses, truncation: float) -> _Losses:
        """Return the distribution of the sum. Its far tails are moved to larger losses, which is conservative."""
        masses = np.convolve(self.masses, other.masses)
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

    def times(self, count: int, truncation: float) -> _Losses:
        """Return the distribution of the sum of ``count`` of these, by repeated doubling."""
        total, power = None, self
        while True:
            if count & 1:
                total = power if total is None else total.plus(power, truncation)
            count >>= 1
            if not count:
                assert total is not None
                return total
            power = power.plus(power, truncation)

    def epsilon(self, step: float, delta: float) -> float:
        """Return the smallest epsilon >= 0 whose hockey-stick divergence is at most delta."""
        losses = (self.first + np.arange(self.masses.size)) * step
        above = self.infinite + np.cumsum(self.masses[::-1])[::-1]
        # Compute the divergence at each loss, from the largest down: d -> e^-step d + (1 - e^-step) above. There is no
        # subtraction, so the relative error is small, even if the divergence is small compared with the mass above.
        kept, gained = math.exp(-step), -math.expm1(-step)
        rises = accumulate(
            above[:0:-1].tolist(), lambda d, mass: kept * d + gained * mass, initial=self.infinite
        )
        at = np.array(list(rises))[::-1]
        index = int(np.argmax(at <= delta)) if np.any(at <= delta) else losses.size
        if index == losses.size:
            return float(np.inf)
        # Below that loss: delta(loss - t) = e^-t at + (1 - e^-t) above, up to the next loss.
        room = float(above[index] - at[index])
        share = float(delta - at[index]) / room if room > 0 else 1.0
        fall = -math.log1p(-share) if share < 1 else math.inf
        return float(
            max(0.0, float(losses[index]) - min(step, fall) * (1 - 1e-12) + 1e-15 * abs(losses[index]))
        )


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
) -> float:
    """Return the epsilon at ``delta`` of events with a dominating curve, and Gaussian noise of ``mu``.

    ``reach`` are the losses up to which grids go, by default the largest; ``back`` takes all pairs in the other
    direction.
    """
    reach = reach or {event: event.largest_loss() for event in others}
    kinds = sorted(others, key=lambda event: (event.largest_loss(), repr(event)))
    truncation = delta * 1e-4 / (sum(2 * others[kind].bit_length() for kind in kinds) + 2)
    parts = [_discretised(kind, step, reach[kind], back).times(others[kind], truncation) for kind in kinds]
    if mu > 0:
        parts.append(_gaussian_losses(mu, step, truncation))
    total = parts[0]
    for part in parts[1:]:
        total = total.plus(part, truncation)
    # Relative errors of all the sums and products, generously.
    return total.epsilon(step, delta * (1 - 1e-9))


def _discretised(event: Event, step: float, reach: float, back: bool) -> _Losses:
    top = int(np.ceil(reach / step - 1e-9))
    grid = np.arange(top + 1, dtype=np.float64) * step
    curves = event.curve(grid), event.back_curve(grid)
    curve, other = curves[::-1] if back else curves
    assert curve is not None and other is not None
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
