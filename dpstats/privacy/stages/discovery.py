"""Numbers of keys that nobody declared: a key is released if its noisy count reaches a public threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpstats.errors import DPStatsError, attempt, refuse
from dpstats.key_noise import KeyNoise, NormalNoise
from dpstats.privacy.events import Approximate, Event, Gaussian
from dpstats.privacy.guarantee import Neighbors
from dpstats.privacy.stages.additive import Block, JointStage, describe_noise

TAIL_ROUNDING = 1 + 2.0**-30  # normal tails are right to fifteen digits
TAIL_UNDERFLOW = 1e-300  # what a tail loses by underflow
_HALVINGS = 60


def count_keys(neighbors: Neighbors) -> int:
    """Return the number of keys that a row can touch. A replaced row leaves one key and enters another."""
    return 2 if neighbors is Neighbors.REPLACE_ONE else 1


@dataclass(frozen=True, slots=True)
class Discovery:
    """Counts, and other numbers, of keys that nobody declared. Proof: docs/proofs/discovery.md.

    Every key of the data has Gaussian noise on its numbers. The noise of its count is conditioned to be below a
    threshold, so a key without rows never passes. A key is released, verbatim, if its noisy count reaches the
    threshold.

    Attributes
    ----------
    touched : JointStage
        The numbers of the keys that a row can touch, one key after the other in every block. The first block is
        the counts. The noise of every other key is the same.
    row_steps : int
        What a row adds to the count of its key, in steps.
    threshold_steps : int
        The least noisy count that is released, in steps of the counts.

    Examples
    --------
    >>> from dpstats.groups import GroupMeans
    >>> (stage,) = GroupMeans(groups="discover", bounds=(0, 1), epsilon=1.0, delta=1e-6).plan(1000, 1).stages
    >>> round(stage.threshold, 1)  # rows
    45.0
    """

    touched: JointStage
    row_steps: int
    threshold_steps: int

    def __post_init__(self) -> None:
        if self.touched.noise != "gaussian" or self.touched.concentrated:
            raise refuse(
                "touched", allowed="have Gaussian noise on a lattice fine enough for its exact curve"
            )
        if self.counts.size != self.keys or any(block.size % self.keys for block in self.blocks):
            raise refuse("touched", allowed="have a count, and other numbers, for each key of a row")
        if not 1 <= self.row_steps < self.threshold_steps:
            raise refuse("row_steps", given=self.row_steps, allowed="at least 1, and below threshold_steps")

    @property
    def keys(self) -> int:
        """The number of keys that a row can touch."""
        return count_keys(self.neighbors)

    @property
    def name(self) -> str:
        """The name of the stage."""
        return self.touched.name

    @property
    def noise(self) -> str:
        """The distribution of the noise."""
        return self.touched.noise

    @property
    def part(self) -> str:
        """The rows that the stage reads."""
        return self.touched.part

    @property
    def neighbors(self) -> Neighbors:
        """The relation that the sensitivity is for."""
        return self.touched.neighbors

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks of the two keys, counts first."""
        return self.touched.blocks

    @property
    def counts(self) -> Block:
        """The block of the counts."""
        return self.touched.blocks[0]

    @property
    def threshold(self) -> float:
        """The threshold in rows."""
        return self.threshold_steps / self.row_steps

    @property
    def count_noise(self) -> KeyNoise:
        """The noise of a count before it is conditioned, in rows."""
        return NormalNoise(self.touched.scale_steps(self.counts) / self.row_steps)

    @property
    def count_std(self) -> float:
        """Standard deviation of the noise of a count before it is conditioned, in rows."""
        return self.count_noise.std

    def width(self, block: Block) -> int:
        """Return the length of a block for one key."""
        return block.size // self.keys

    @property
    def event(self) -> Gaussian:
        """The event of the noise."""
        event = self.touched.event
        if not isinstance(event, Gaussian):
            raise DPStatsError("the cost of a discovery needs the exact Gaussian curve. This is a defect")
        return event

    @property
    def events(self) -> tuple[Event, ...]:
        """All that an accountant sees: the noise, and the probability that the threshold adds."""
        return self.event, Approximate(0.0, self.threshold_delta, neighbors=self.neighbors)

    @property
    def threshold_delta(self) -> float:
        """The delta that the threshold costs, together with the noise."""
        scale, event = self.touched.scale_steps(self.counts), self.event
        # The discrete tails are at most these continuous ones, one step nearer.
        above = _tail((self.threshold_steps - 1) / scale)
        near = _tail((self.threshold_steps - self.row_steps - 1) / scale)
        shown = (near - above * (2 - TAIL_ROUNDING**3) + TAIL_UNDERFLOW) / (1 - above)
        apart = math.erf(event.mu / math.sqrt(8)) + 2 * event.total_variation
        conditioned = math.expm1(-self.keys * math.log1p(-above))
        if apart >= 1:
            return 1.0
        return min(1.0, TAIL_ROUNDING * (shown + apart * conditioned) / (1 - apart))

    def facts(self) -> dict[str, Any]:
        """Return the public facts of the stage, by name."""
        blocks = [
            {
                "name": b.name,
                "size": self.width(b),
                "noise_scale": np.asarray(self.touched.noise_scale(b)).tolist(),
            }
            for b in self.blocks
        ]
        return {"name": self.name, "noise": self.noise, "threshold": self.threshold, "blocks": blocks}

    def describe(self, n_candidates: int | None = None) -> str:
        """Return the lines of the stage in a printed plan."""
        lines = [
            f"{b.name}: {describe_noise(self.width(b), self.noise, self.touched.noise_scale(b))}"
            for b in self.blocks
        ]
        return (
            f"{self.name}, of each key whose noisy count reaches {self.threshold:.1f} rows:\n    "
            + "\n    ".join(lines)
        )

    def compute_power(self, sizes: Any) -> NDArray[np.float64]:
        """Return the probability of releasing a key, for keys of these sizes."""
        numbers, most = attempt(lambda: np.asarray(sizes, dtype=np.float64), Exception), self.threshold
        if numbers is None:
            raise refuse("sizes", given=sizes, allowed="a number, or numbers")
        mass = self.count_noise.mass
        shares = mass(most - numbers, most) / mass(np.full(numbers.shape, -np.inf), most)
        return np.where(numbers > 0, np.clip(shares, 0.0, 1.0), 0.0)

    def find_size(self, power: float) -> float:
        """Return the size of a key that is released with this probability."""
        low, high = 0.0, self.threshold + self.count_noise.reach
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.compute_power(middle) >= power else (middle, high)
        return high


def _tail(z: float) -> float:
    """Return a number that is at least P(N > z) for a standard normal N."""
    return min(1.0 - 2.0**-53, float(ndtr(-z)) * TAIL_ROUNDING + TAIL_UNDERFLOW)
