"""Counts alone of keys that nobody declared, under noise whose upper tail is lighter: a lower threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpstats.errors import refuse
from dpstats.key_noise import KeyNoise, TwoSidedNoise
from dpstats.privacy.events import Approximate, Event
from dpstats.privacy.rounding import up
from dpstats.privacy.stages.discovery import TAIL_ROUNDING, TAIL_UNDERFLOW, Discovery


@dataclass(frozen=True, slots=True)
class KeyCounts(Discovery):
    """Counts of keys that nobody declared. Proof: docs/proofs/discovery.md, Theorem 2.

    Discrete Laplace noise of the counts is thinned above 0: a draw of x > 0 steps stays with probability
    exp(-x/``gap``), and is drawn again otherwise. So its upper tail is lighter than its lower one.

    Attributes
    ----------
    touched, row_steps, threshold_steps
        As in `Discovery`. The only block is the counts, and the noise is "laplace".
    gap : float
        Scale of the thinning, in steps. Infinite: there is none.

    Examples
    --------
    >>> from dpstats.mechanisms import Histogram
    >>> (stage,) = Histogram("discover", epsilon=1.0, delta=1e-6).plan.stages
    >>> round(stage.threshold, 1)  # rows
    18.0
    """

    gap: float = math.inf

    def __post_init__(self) -> None:
        if self.touched.noise != "laplace" or len(self.blocks) != 1 or self.counts.size != self.keys:
            raise refuse("touched", allowed="have Laplace noise, and a count for each key of a row")
        if not 1 <= self.row_steps < self.threshold_steps:
            raise refuse("row_steps", given=self.row_steps, allowed="at least 1, and below threshold_steps")
        if not self.gap > 0:
            raise refuse("gap", given=self.gap, allowed="positive")

    @property
    def rates(self) -> tuple[Fraction, Fraction]:
        """Exact rates at which the weights of the noise decrease above 0 and below 0, for each step."""
        below = 1 / Fraction(self.touched.scale_steps(self.counts))
        return below + (1 / Fraction(self.gap) if math.isfinite(self.gap) else 0), below

    @property
    def count_noise(self) -> KeyNoise:
        above, below = (float(1 / (rate * self.row_steps)) for rate in self.rates)
        return TwoSidedNoise(above, below)

    @property
    def epsilon(self) -> float:
        """The cost of the noise. A replaced row pays for a key that it leaves, and for one that it enters."""
        above, below = self.rates
        return up(self.row_steps * (above + below if self.keys > 1 else above))

    @property
    def event(self) -> Approximate:  # type: ignore[override]
        """The event of the noise and the threshold together."""
        return Approximate(self.epsilon, self.threshold_delta, neighbors=self.neighbors)

    @property
    def events(self) -> tuple[Event, ...]:
        """All that an accountant sees: one event."""
        return (self.event,)

    def facts(self) -> dict[str, Any]:
        """Return the public facts of the stage, by name."""
        above, below = (float(1 / (rate * self.row_steps)) for rate in self.rates)
        return Discovery.facts(self) | {"scale_above": above, "scale_below": below}

    def describe(self, n_candidates: int | None = None) -> str:
        """Return the lines of the stage in a printed plan."""
        return (
            f"{self.name}, of each key whose noisy count reaches {self.threshold:.1f} rows:\n    "
            f"{self.counts.name}: a number, {self.count_noise.words}"
        )

    @property
    def threshold_delta(self) -> float:
        """The probability of showing a key that has one row in one dataset, and none in the neighbor."""
        above, below = map(float, self.rates)
        K, T = self.row_steps, self.threshold_steps
        shown = math.exp(-above * (T - K)) * -math.expm1(-above * K)
        rest = -math.expm1(-above) / math.expm1(below)
        return min(1.0, TAIL_ROUNDING * shown / (rest - math.expm1(-above * T)) + TAIL_UNDERFLOW)
