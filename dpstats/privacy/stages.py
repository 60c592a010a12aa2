"""The stages of a plan: kinds of noisy releases, each with the privacy cost that follows from its noise.

A stage stores the noise (distribution and scale) and the sensitivity. The event for the accountant is *derived* from
these and never stored. Changing the noise therefore changes the claimed cost.

Stages that add noise are in `additive_stages`. Here are those that select: candidates, integers, questions above a
threshold, keys; and randomized response.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpstats.errors import DPStatsError, attempt, refuse
from dpstats.inference.noisy_counts import KeyNoise, NormalNoise, TwoSidedNoise
from dpstats.privacy.additive_stages import (
    HEAVY_SLACK,
    LEAST_HEAVY,
    SMOOTH_LAWS,
    Added,
    BaseStage,
    Block,
    JointStage,
    OneOf,
    Smooth,
    Spacing,
    Stage,
    check_counts,
    describe_noise,
    log_up,
    name_noise,
)
from dpstats.privacy.events import Approximate, BoundedRange, Event, Gaussian, Pure
from dpstats.privacy.guarantee import Neighbors, quotient_up, up

__all__ = ["HEAVY_SLACK", "KINDS", "LEAST_HEAVY", "SMOOTH_LAWS"]
__all__ += ["Added", "AnyStage", "Block", "Choice", "Coins", "Comparisons", "Discovery", "JointStage", "KeyCounts"]
__all__ += ["OneOf", "Responses", "Selection", "Shuffle", "Smooth", "Spacing", "Stage"]
__all__ += ["count_keys"]


@dataclass(frozen=True, slots=True)
class Selection(BaseStage):
    """The best candidates by noisy score.

    Attributes
    ----------
    name : str
        Name of the selected candidates.
    noise : {"laplace", "exponential", "gumbel"}
        Distribution of the noise on every score. "exponential" is one-sided.
    size : int
        Number of selected candidates. Each has the same cost.
    spacing : float
        The length of one step of a score, in its units.
    sensitivity_steps : int
        Largest change of any score between neighboring datasets, in steps.
    scale_steps : float
        Scale of the noise, in steps.
    neighbors, part
        The same as in `Stage`.
    candidates : int, optional
        Number of candidates. None: the number of given scores.
    times : int, default=1
        Number of draws of the noise: one draw for all selected candidates, or a new draw for each (peeling).
    monotone : bool, default=False
        Whether a row changes all scores in the same direction, which halves the cost.

    Examples
    --------
    >>> from dpstats.mechanisms import ReportNoisyMax
    >>> (stage,) = ReportNoisyMax(1.0, 0.5, noise="gumbel").plan.stages
    >>> stage.noise, stage.size
    ('gumbel', 1)
    """

    name: str
    noise: str
    size: int
    spacing: float
    sensitivity_steps: int
    scale_steps: float
    neighbors: Neighbors = field(default=Neighbors.REPLACE_ONE, kw_only=True)
    part: str = field(default="", kw_only=True)
    candidates: int | None = field(default=None, kw_only=True)
    times: int = field(default=1, kw_only=True)
    monotone: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        check_counts(size=self.size, times=self.times)
        # Several selections can share one draw of Gumbel noise only: it has the same distribution as repeated draws.
        if self.times not in (1, self.size) or (self.noise != "gumbel" and self.times != self.size):
            raise refuse(
                "times", given=self.times, allowed=f"{self.size} (new noise for each selection), or 1 for Gumbel noise"
            )

    @property
    def event(self) -> Event:
        """Event for each selected candidate."""
        cost = quotient_up((1 if self.monotone else 2) * self.sensitivity_steps, self.scale_steps)
        return (BoundedRange if self.noise == "gumbel" else Pure)(cost, neighbors=self.neighbors)

    @property
    def events(self) -> tuple[Event, ...]:
        return (self.event,) * self.size

    @property
    def noise_scale(self) -> float:
        """Scale of the noise, in the units of the scores."""
        return self.spacing * self.scale_steps

    def facts(self) -> dict[str, Any]:
        return {"name": self.name, "noise": self.noise, "size": self.size, "noise_scale": self.noise_scale}

    def describe(self, n_candidates: int | None = None) -> str:
        among = self.candidates or n_candidates
        among_words = "" if among is None else f" of {among}"
        return f"{self.name}: {self.size}{among_words}, {name_noise(self.noise)} noise of scale {self.noise_scale:.6g}"


@dataclass(frozen=True, slots=True)
class Choice(BaseStage):
    """Integers chosen by their utility, among more candidates than can be listed.

    The probability of a candidate is proportional to e^(utility/scale): the exponential mechanism.

    Attributes
    ----------
    name : str
        Name of the chosen numbers.
    size : int
        Number of chosen numbers.
    per_key : bool, default=False
        If True, ``size`` numbers are chosen for each key that an earlier release found.
    range_steps : int
        Largest change, by one row, of the difference between the utilities of two candidates, in steps.
    scale_steps : float
        Difference of utilities, in steps, that makes a candidate e times as likely.
    candidates : int
        Number of candidates for each number.
    neighbors, part
        The same as in `Stage`.
    words : str
        What `describe` prints behind the name, with fields ``size``, ``candidates`` and ``scale``.

    Examples
    --------
    >>> from dpstats.quantiles import PrivateQuantile
    >>> (stage,) = PrivateQuantile(0.5, bounds=(0, 100), epsilon=1.0).plan(1000).stages
    >>> stage.size, stage.noise
    (2, 'exponential mechanism')
    """

    name: str
    size: int
    range_steps: int
    scale_steps: float
    candidates: int
    neighbors: Neighbors = field(default=Neighbors.REPLACE_ONE, kw_only=True)
    part: str = field(default="", kw_only=True)
    per_key: bool = field(default=False, kw_only=True)
    words: str = field(
        default="{size} of {candidates:,} points, exponential mechanism of scale {scale:.6g} in ranks", kw_only=True
    )

    noise: ClassVar[str] = "exponential mechanism"

    def __post_init__(self) -> None:
        check_counts(size=self.size, range_steps=self.range_steps, candidates=self.candidates)

    @property
    def event(self) -> Event:
        """Event for the accountant: the range of the changes of log-probabilities."""
        return BoundedRange(quotient_up(self.range_steps, self.scale_steps), neighbors=self.neighbors)

    def facts(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "noise": self.noise,
            "size": self.size,
            "candidates": self.candidates,
            "scale": self.scale_steps,
        }

    def describe(self, n_candidates: int | None = None) -> str:
        words = self.words.format(size=self.size, candidates=self.candidates, scale=self.scale_steps)
        words += " of each key that was found" * self.per_key
        return f"{self.name}: {words}"


@dataclass(frozen=True, slots=True)
class Comparisons(BaseStage):
    """A stream of values compared with a noisy threshold, until as many as stated have been above.

    Attributes
    ----------
    name : str
    spacing : float
        The length of one step of a value, in its units.
    sensitivity_steps : int
        Largest change of any value between neighboring datasets, in steps.
    threshold_steps : int
        The public threshold, in steps.
    threshold_scale_steps, question_scale_steps : float
        Scales of the Laplace noise of the threshold and of every question.
    max_above : int
        The stream ends with this many answers above.
    answer_scale_steps : float, optional
        Scale of the noise of a value that is released, which it is if above; None: none is.
    redrawn : bool, default=True
        Whether the noise of the threshold is redrawn after each answer above it, or drawn once for the whole stream.
    answer_noise : {"laplace", "gaussian"}, default="laplace"
        Distribution of the noise of a released value.
    neighbors : Neighbors, default=Neighbors.REPLACE_ONE
    part : str, default=""
        The same as in `Stage`.

    Examples
    --------
    >>> from dpstats.mechanisms import SparseVector
    >>> (stage,) = SparseVector(100.0, 1.0, max_above=3).plan.stages
    >>> stage.max_above, round(stage.threshold_scale_steps * stage.spacing, 6)
    (3, 6.0)
    """

    name: str
    spacing: float
    sensitivity_steps: int
    threshold_steps: int
    threshold_scale_steps: float
    question_scale_steps: float
    max_above: int
    answer_scale_steps: float | None = None
    neighbors: Neighbors = field(default=Neighbors.REPLACE_ONE, kw_only=True)
    part: str = field(default="", kw_only=True)
    redrawn: bool = field(default=True, kw_only=True)
    answer_noise: str = field(default="laplace", kw_only=True)

    noise: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        check_counts(max_above=self.max_above)

    @property
    def event(self) -> Event:
        """What an accountant sees of one noisy threshold, with every answer above that it gives."""
        # The threshold moves by one sensitivity, a question that is above by two (docs/proofs/sparse-vector.md).
        steps = self.sensitivity_steps
        above = 1 if self.redrawn else self.max_above
        cost = Fraction(steps) / Fraction(self.threshold_scale_steps)
        cost += Fraction(2 * above * steps) / Fraction(self.question_scale_steps)
        return Pure(up(cost), neighbors=self.neighbors)

    @property
    def events(self) -> tuple[Event, ...]:
        """All that an accountant sees of a whole stream, however long."""
        comparisons = (self.event,) * (self.max_above if self.redrawn else 1)
        if self.answer_scale_steps is None:
            return comparisons
        value = Stage(
            self.name,
            self.answer_noise,
            1,
            self.spacing,
            self.sensitivity_steps,
            self.answer_scale_steps,
            neighbors=self.neighbors,
        )
        return comparisons + value.events * self.max_above

    def facts(self) -> dict[str, Any]:
        scales = (self.threshold_scale_steps * self.spacing, self.question_scale_steps * self.spacing)
        return {"name": self.name, "noise": self.noise, "max_above": self.max_above, "noise_scale": [*scales]}

    def describe(self, n_candidates: int | None = None) -> str:
        scales = (self.threshold_scale_steps * self.spacing, self.question_scale_steps * self.spacing)
        return (
            f"{self.name}: up to {self.max_above} above, Laplace noise of scale {scales[0]:.6g} on the threshold and "
            f"{scales[1]:.6g} on a question"
        )


TAIL_ROUNDING = 1 + 2.0**-30  # normal tails are right to fifteen digits
TAIL_UNDERFLOW = 1e-300  # what a tail loses by underflow
_HALVINGS = 60


def count_keys(neighbors: Neighbors) -> int:
    """Return the number of keys that a row can touch. A replaced row leaves one key and enters another."""
    return 2 if neighbors is Neighbors.REPLACE_ONE else 1


@dataclass(frozen=True, slots=True)
class Discovery(BaseStage):
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
    41.0
    """

    touched: JointStage
    row_steps: int
    threshold_steps: int

    def __post_init__(self) -> None:
        self._check_noise()
        if self.counts.size != self.keys or any(block.size % self.keys for block in self.blocks):
            raise refuse("touched", allowed="have a count, and other numbers, for each key of a row")
        if not 1 <= self.row_steps < self.threshold_steps:
            raise refuse("row_steps", given=self.row_steps, allowed="at least 1, and below threshold_steps")

    def _check_noise(self) -> None:
        if self.touched.noise != "gaussian" or self.touched.concentrated:
            raise refuse("touched", allowed="have Gaussian noise on a lattice fine enough for its exact curve")

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
        blocks = [
            {"name": b.name, "size": self.width(b), "noise_scale": np.asarray(self.touched.noise_scale(b)).tolist()}
            for b in self.blocks
        ]
        return {"name": self.name, "noise": self.noise, "threshold": self.threshold, "blocks": blocks}

    def describe(self, n_candidates: int | None = None) -> str:
        lines = [f"{b.name}: {self._describe_block(b)}" for b in self.blocks]
        head = f"{self.name}, of each key whose noisy count reaches {self.threshold:.1f} rows:"
        return "\n    ".join([head, *lines])

    def _describe_block(self, block: Block) -> str:
        return describe_noise(self.width(block), self.noise, self.touched.noise_scale(block))

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


@dataclass(frozen=True, slots=True)
class KeyCounts(Discovery):
    """Counts, and other numbers, of keys that nobody declared, under Laplace noise.

    Discrete Laplace noise of the counts is thinned above 0: a draw of x > 0 steps stays with probability
    exp(-x/``gap``), and is drawn again otherwise. So its upper tail is lighter than its lower one. Other blocks have
    noise that does not depend on which keys are found. Proof: docs/proofs/discovery.md, Theorems 2 and 3.

    Attributes
    ----------
    touched, row_steps, threshold_steps
        As in `Discovery`. The noise is "laplace".
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

    def _check_noise(self) -> None:
        if self.touched.noise != "laplace":
            raise refuse("touched", allowed="have Laplace noise")
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
        """The cost of all blocks at the rate below 0, and of a row at what the rate above 0 exceeds it by."""
        above, below = self.rates
        return up(Fraction(self.touched.sensitivity) / Fraction(self.touched.scale) + self.row_steps * (above - below))

    @property
    def event(self) -> Approximate:  # type: ignore[override]
        """The event of the noise and the threshold together."""
        return Approximate(self.epsilon, self.threshold_delta, neighbors=self.neighbors)

    @property
    def events(self) -> tuple[Event, ...]:
        """All that an accountant sees: one event."""
        return (self.event,)

    def facts(self) -> dict[str, Any]:
        above, below = (float(1 / (rate * self.row_steps)) for rate in self.rates)
        return Discovery.facts(self) | {"scale_above": above, "scale_below": below}

    def _describe_block(self, block: Block) -> str:
        if block is self.counts:
            return f"a number, {self.count_noise.words}"
        return Discovery._describe_block(self, block)

    @property
    def threshold_delta(self) -> float:
        """The probability of showing a key that has one row in one dataset, and none in the neighbor."""
        above, below = map(float, self.rates)
        K, T = self.row_steps, self.threshold_steps
        shown = math.exp(-above * (T - K)) * -math.expm1(-above * K)
        rest = -math.expm1(-above) / math.expm1(below)
        return min(1.0, TAIL_ROUNDING * shown / (rest - math.expm1(-above * T)) + TAIL_UNDERFLOW)


@dataclass(frozen=True, slots=True)
class Responses(BaseStage):
    """Randomized response: every row keeps its answer with a public probability, otherwise another is drawn uniformly.

    Attributes
    ----------
    name : str
        Name of the stage.
    n_categories : int
        Answers are 0, ..., n_categories - 1.
    keep_grains : int
        The probability to keep an answer, in multiples of ``1/GRAIN``.
    neighbors
        The same as in `Stage`. Rows answer independently, so all rows together have the cost of one row.
    part : str, default=""
        The same as in `Stage`.

    Examples
    --------
    >>> from dpstats.mechanisms import RandomizedResponse
    >>> (stage,) = RandomizedResponse(1.0).plan.stages
    >>> stage.n_categories, round(stage.keep_grains / stage.GRAIN, 4)  # kept with e/(1 + e)
    (2, 0.7311)
    """

    name: str
    n_categories: int
    keep_grains: int
    neighbors: Neighbors = field(default=Neighbors.REPLACE_ONE, kw_only=True)
    part: str = field(default="", kw_only=True)

    noise: ClassVar[str] = "randomized response"
    GRAIN: ClassVar[int] = 2**62

    @property
    def event(self) -> Event:
        """Event for the accountant: randomized response is exactly the worst pure release."""
        kept = self.keep_grains * (self.n_categories - 1)
        return Pure(log_up(Fraction(kept, self.GRAIN - self.keep_grains)), neighbors=self.neighbors)

    @property
    def keep_probability(self) -> float:
        """Probability of keeping an answer."""
        return self.keep_grains / self.GRAIN

    def facts(self) -> dict[str, Any]:
        return {"name": self.name, "noise": self.noise, "keep_probability": self.keep_probability}

    def describe(self, n_candidates: int | None = None) -> str:
        return f"{self.name}: one response a row, kept with probability {self.keep_probability:.6g}"


@dataclass(frozen=True, slots=True)
class Coins(BaseStage):
    """Uniform random signs of an algorithm. They depend on no row and have no privacy cost.

    Attributes
    ----------
    name : str
        Name of the stage.
    shape : tuple of int
        Shape of the array of signs.
    released : bool, default=False
        Whether the report gets the signs, as in a randomized test. Otherwise they are private.
    part : str, default=""
        The same as in `Stage`.

    Examples
    --------
    >>> from dpstats.privacy import Coins
    >>> Coins("signs", (100,)).events
    ()
    """

    name: str
    shape: tuple[int, ...]
    released: bool = field(default=False, kw_only=True)
    part: str = field(default="", kw_only=True)

    noise: ClassVar[str] = "coins"

    @property
    def events(self) -> tuple[Event, ...]:
        """Nothing: coins depend on no row."""
        return ()

    def facts(self) -> dict[str, Any]:
        return {"name": self.name, "noise": self.noise, "size": math.prod(self.shape)}

    def describe(self, n_candidates: int | None = None) -> str:
        return f"{self.name}: {math.prod(self.shape)} {'coins' if self.released else 'private coins, not released'}"


@dataclass(frozen=True, slots=True)
class Shuffle(BaseStage):
    """A secret uniform order of ``size`` items. It depends on no row and has no privacy cost.

    Attributes
    ----------
    name : str
        Name of the stage.
    size : int
        Number of items.
    part : str, default=""
        The same as in `Stage`.

    Examples
    --------
    >>> from dpstats.privacy import Shuffle
    >>> Shuffle("order of the rows", 100).events
    ()
    """

    name: str
    size: int
    part: str = field(default="", kw_only=True)

    noise: ClassVar[str] = "shuffle"

    @property
    def events(self) -> tuple[Event, ...]:
        """Nothing: the order depends on no row."""
        return ()

    def facts(self) -> dict[str, Any]:
        return {"name": self.name, "noise": self.noise, "size": self.size}

    def describe(self, n_candidates: int | None = None) -> str:
        return f"{self.name}: a uniform order of {self.size:,}, not released"


AnyStage = (
    Stage
    | JointStage
    | Discovery
    | KeyCounts
    | Selection
    | Choice
    | Smooth
    | OneOf
    | Responses
    | Comparisons
    | Coins
    | Shuffle
)
KINDS: tuple[type, ...] = get_args(AnyStage)
