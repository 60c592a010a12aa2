"""What a plan consists of: kinds of noisy stages, each with the cost that follows from its noise.

A stage holds what is drawn (the law, its scale) and what it hides (the sensitivity). What an accountant
sees of it is *derived* from these and stored nowhere: noise that is changed changes the claim with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_choice, check_integer
from dpstats.errors import DPStatsError, InvalidParameter
from dpstats.privacy.events import ZCDP, Approximate, BoundedRange, DiscreteLaplace, Event, Gaussian, Pure
from dpstats.privacy.gaussian import SMALLEST_STEPS, TOTAL_VARIATION
from dpstats.privacy.guarantee import Neighbors
from dpstats.privacy.rounding import quotient_up, root_up, up

Spacing = float | tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """Integers with additive noise.

    Attributes
    ----------
    name : str
        What is released.
    noise : {"laplace", "gaussian", "joint"}
        The law of the noise: discrete, on the lattice of the release. "joint" is for numbers that a row moves all the
        same way: P(v) falls by e in every ``scale_steps`` of max(0, v) - min(0, v).
    size : int
        How many numbers are released.
    spacing : float or tuple of float
        The length of one step of the released numbers, in their units; one per number or common.
    sensitivity_steps : int
        Largest distance of the integers between neighbouring datasets, in steps: l1 for Laplace noise, l2 for
        Gaussian noise, max(0, v) - min(0, v) of their difference v for joint noise.
    scale_steps : float
        Scale (Laplace) or standard deviation (Gaussian) of the noise, in steps.
    neighbors : Neighbors
        The relation that the sensitivity is for.
    concentrated : bool, default=False
        Whether Gaussian noise is accounted for by zero-concentrated privacy, as it is on a lattice too coarse for
        the exact curve.
    times : int, default=1
        The numbers are this many releases alike; the sensitivity is that of each.
    part : str, default=""
        Which rows it is about; stages of different parts are about different rows, those of "" about all.
    """

    name: str
    noise: str
    size: int
    spacing: Spacing
    sensitivity_steps: int
    scale_steps: float
    neighbors: Neighbors = field(default=Neighbors.REPLACE_ONE, kw_only=True)
    concentrated: bool = field(default=False, kw_only=True)
    times: int = field(default=1, kw_only=True)
    part: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        _check_counts(size=self.size, times=self.times)
        if self.size % self.times:
            raise InvalidParameter(
                f"size must be a multiple of times, got size={self.size} and times={self.times}"
            )

    @property
    def event(self) -> Event:
        """What an accountant sees of each of the releases alike."""
        sensitivity, scale = self.sensitivity_steps, self.scale_steps
        if self.noise == "laplace":
            return DiscreteLaplace(sensitivity, scale, neighbors=self.neighbors)
        if self.noise == "joint":
            return Pure(quotient_up(sensitivity, scale), neighbors=self.neighbors)
        return _gaussian(
            quotient_up(sensitivity, scale),
            [(self.size // self.times, scale)],
            self.concentrated,
            self.neighbors,
        )

    @property
    def events(self) -> tuple[Event, ...]:
        """All that an accountant sees."""
        return (self.event,) * self.times

    @property
    def norm(self) -> str:
        """The norm of the sensitivity: "l1", "l2" or "range"."""
        return {"laplace": "l1", "gaussian": "l2", "joint": "range"}[self.noise]

    @property
    def sensitivity(self) -> float | NDArray[np.float64]:
        """The sensitivity in the units of the release.

        With one spacing per column the steps are the common unit: entry j is the sensitivity in
        the units of column j, of the integers with every column measured in its own steps.
        """
        return _scaled(self.spacing, self.sensitivity_steps)

    @property
    def noise_scale(self) -> float | NDArray[np.float64]:
        """Scale (Laplace) or standard deviation (Gaussian) of the noise, in the units of the release."""
        return _scaled(self.spacing, self.scale_steps)

    @property
    def noise_std(self) -> float | NDArray[np.float64]:
        """Standard deviation of the noise of a number, in the units of the release."""
        if self.noise == "joint":
            # Of n numbers that are not discrete, which it nears from above as the scale grows.
            return self.noise_scale * math.sqrt((self.size + 2) * (self.size + 3) / 6)
        return self.noise_scale * _std_of(self.noise)

    def facts(self) -> dict[str, Any]:
        """Return what a reader of the plan has to know, by name."""
        scale = np.asarray(self.noise_scale).tolist()
        return {"name": self.name, "noise": self.noise, "size": self.size, "noise_scale": scale}

    def describe(self, n_candidates: int | None = None) -> str:
        """Return a line of a plan as it is printed."""
        return f"{self.name}: {self.size} numbers, {self.noise} noise of scale {_range(self.noise_scale)}"


@dataclass(frozen=True, slots=True)
class Block:
    """One of the vectors that a joint stage releases.

    Attributes
    ----------
    name : str
    size : int
    spacing : float or tuple of float
    unit_steps : float
        What the block is measured in, in its own steps: the noise is the stage's scale times it.
    """

    name: str
    size: int
    spacing: Spacing
    unit_steps: float


@dataclass(frozen=True, slots=True)
class JointStage:
    """Several blocks of integers with noise of one law, each at a scale of its own: one release.

    It costs what the worst pair of neighbours moves *all* blocks by, together, and not the sum of what each
    block's own worst pair does.

    Attributes
    ----------
    name : str
    noise : {"laplace", "gaussian"}
    blocks : tuple of Block
    sensitivity : float
        Largest distance between neighbouring datasets of all blocks together, each in its ``unit_steps``: l1 for
        Laplace noise, l2 for Gaussian noise.
    scale : float
        Scale (Laplace) or standard deviation (Gaussian) of the noise, in the same units.
    neighbors, concentrated, part
        As for `Stage`.
    """

    name: str
    noise: str
    blocks: tuple[Block, ...]
    sensitivity: float
    scale: float
    neighbors: Neighbors = field(default=Neighbors.REPLACE_ONE, kw_only=True)
    concentrated: bool = field(default=False, kw_only=True)
    part: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        # A list could be changed after it was paid for.
        object.__setattr__(self, "blocks", tuple(self.blocks))
        _check_counts(blocks=len(self.blocks))
        for block in self.blocks:
            _check_counts(size=block.size)

    @property
    def size(self) -> int:
        """How many numbers are released."""
        return sum(block.size for block in self.blocks)

    @property
    def event(self) -> Event:
        """What an accountant sees: one event for all blocks."""
        movement = quotient_up(self.sensitivity, self.scale)
        if self.noise == "laplace":
            return Pure(movement, neighbors=self.neighbors)
        sizes = [(block.size, self.scale_steps(block)) for block in self.blocks]
        return _gaussian(movement, sizes, self.concentrated, self.neighbors)

    @property
    def events(self) -> tuple[Event, ...]:
        """All that an accountant sees."""
        return (self.event,)

    def scale_steps(self, block: Block) -> float:
        """Return the scale of a block's noise, in its steps: what is drawn."""
        return up(Fraction(self.scale) * Fraction(block.unit_steps))

    def noise_scale(self, block: Block) -> float | NDArray[np.float64]:
        """Return the scale of a block's noise, in its units."""
        return _scaled(block.spacing, self.scale_steps(block))

    def noise_std(self, block: Block) -> float | NDArray[np.float64]:
        """Return the standard deviation of a block's noise, in its units."""
        return self.noise_scale(block) * _std_of(self.noise)

    def facts(self) -> dict[str, Any]:
        """Return what a reader of the plan has to know, by name."""
        blocks = [
            {"name": b.name, "size": b.size, "noise_scale": np.asarray(self.noise_scale(b)).tolist()}
            for b in self.blocks
        ]
        return {"name": self.name, "noise": self.noise, "size": self.size, "blocks": blocks}

    def describe(self, n_candidates: int | None = None) -> str:
        """Return the lines of a plan as it is printed."""
        lines = [
            f"{block.name}: {block.size} numbers, {self.noise} noise of scale {_range(self.noise_scale(block))}"
            for block in self.blocks
        ]
        return f"{self.name}, together:\n    " + "\n    ".join(lines)


@dataclass(frozen=True, slots=True)
class Selection:
    """The best candidates by noisy score.

    Attributes
    ----------
    name : str
        What is selected.
    noise : {"laplace", "exponential", "gumbel"}
        The law of the noise that is added to every score; "exponential" is one-sided.
    size : int
        How many candidates are selected; each costs the same.
    spacing : float
        The length of one step of a score, in its units.
    sensitivity_steps : int
        Largest change of any score between neighbouring datasets, in steps.
    scale_steps : float
        Scale of the noise, in steps.
    neighbors, part
        As for `Stage`.
    candidates : int, optional
        How many there are to select from; None is as many as are given.
    times : int, default=1
        How often noise is drawn: once for all that are selected, or anew for each (peeling).
    monotone : bool, default=False
        Whether a row moves all scores the same way, which halves the cost.
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
        _check_counts(size=self.size, times=self.times)
        # Only Gumbel noise serves several selections at once: its one draw has the law of as many new ones.
        if self.times not in (1, self.size) or (self.noise != "gumbel" and self.times != self.size):
            raise InvalidParameter(
                f"times must be {self.size} (noise anew for each selection), or 1 for Gumbel noise, got {self.times}"
            )

    @property
    def event(self) -> Event:
        """What an accountant sees of each that is selected."""
        cost = quotient_up((1 if self.monotone else 2) * self.sensitivity_steps, self.scale_steps)
        return (BoundedRange if self.noise == "gumbel" else Pure)(cost, neighbors=self.neighbors)

    @property
    def events(self) -> tuple[Event, ...]:
        """All that an accountant sees."""
        return (self.event,) * self.size

    @property
    def noise_scale(self) -> float:
        """Scale of the noise, in the units of the scores."""
        return self.spacing * self.scale_steps

    def facts(self) -> dict[str, Any]:
        """Return what a reader of the plan has to know, by name."""
        return {"name": self.name, "noise": self.noise, "size": self.size, "noise_scale": self.noise_scale}

    def describe(self, n_candidates: int | None = None) -> str:
        """Return a line of a plan as it is printed."""
        among = self.candidates or n_candidates
        among_words = "" if among is None else f" of {among}"
        return f"{self.name}: {self.size}{among_words}, {self.noise} noise of scale {self.noise_scale:.6g}"


@dataclass(frozen=True, slots=True)
class Choice:
    """Whole numbers chosen by their utility, among more candidates than could be listed.

    The probability of a candidate is proportional to e^(utility/scale): the exponential mechanism.

    Attributes
    ----------
    name : str
        What is chosen.
    size : int
        How many numbers.
    range_steps : int
        By how much more a row can raise the utility of one candidate than of another, in steps.
    scale_steps : float
        By how many steps of utility a candidate has to be better to be e times as likely.
    candidates : int
        How many places each number can have.
    neighbors, part
        As for `Stage`.
    """

    name: str
    size: int
    range_steps: int
    scale_steps: float
    candidates: int
    neighbors: Neighbors = field(default=Neighbors.REPLACE_ONE, kw_only=True)
    part: str = field(default="", kw_only=True)

    noise: ClassVar[str] = "exponential mechanism"

    def __post_init__(self) -> None:
        _check_counts(size=self.size, range_steps=self.range_steps, candidates=self.candidates)

    @property
    def event(self) -> Event:
        """What an accountant sees: log-probabilities move within this range."""
        return BoundedRange(quotient_up(self.range_steps, self.scale_steps), neighbors=self.neighbors)

    @property
    def events(self) -> tuple[Event, ...]:
        """All that an accountant sees."""
        return (self.event,)

    def facts(self) -> dict[str, Any]:
        """Return what a reader of the plan has to know, by name."""
        return {
            "name": self.name,
            "noise": self.noise,
            "size": self.size,
            "candidates": self.candidates,
            "scale": self.scale_steps,
        }

    def describe(self, n_candidates: int | None = None) -> str:
        """Return a line of a plan as it is printed."""
        return (
            f"{self.name}: {self.size} of {self.candidates:,} points, exponential mechanism of scale "
            f"{self.scale_steps:.6g} in ranks"
        )


@dataclass(frozen=True, slots=True)
class Smooth:
    """Integers with noise whose scale is private: one of public ``levels``, that neighbours are next to.

    Attributes
    ----------
    name : str
    spacing : float
        The length of one step of the integers, in their units.
    levels : tuple of float
        Rising scales, in steps: the public ones that there are.
    sensitivity_share : float
        A level is at least the integers' own sensitivity at these data (l1) over this.
    far : float
        Of Laplace noise: the exponent, at the larger of two neighbouring levels, beyond which noise is given up. This
        and ``sensitivity_share`` are the epsilon, and 2 e^(-far/(ratio - 1)) the delta, ratio that of the levels.
    size : int, default=1
        How many integers, which a row moves together.
    noise : {"laplace", "cauchy", "student"}, default="laplace"
        P(k) falls as e^(-|k|/level), 1/(level^2 + k^2) or its square; the last two are pure.
    neighbors, part
        As for `Stage`.
    """

    name: str
    spacing: float
    levels: tuple[float, ...]
    sensitivity_share: float
    far: float
    size: int = field(default=1, kw_only=True)
    noise: str = field(default="laplace", kw_only=True)
    neighbors: Neighbors = field(default=Neighbors.REPLACE_ONE, kw_only=True)
    part: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        # A list could be changed after it was paid for.
        object.__setattr__(self, "levels", tuple(self.levels))
        _check_counts(levels=len(self.levels), size=self.size)
        check_choice("noise", self.noise, list(SMOOTH_LAWS))
        if not self.levels[0] > 0 or not all(low < high for low, high in pairwise(self.levels)):
            raise InvalidParameter("levels must be positive and rise")

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of a level to the one below it."""
        return _ratio(self.levels)

    @property
    def limits(self) -> NDArray[np.int64]:
        """How far one row may move the integers at most, at each level of the noise, in steps."""
        return _limits(self.levels, self.sensitivity_share)

    @property
    def event(self) -> Event:
        """What an accountant sees: docs/proofs/smooth-sensitivity.md, theorems 2 and 3."""
        share, ratio = Fraction(self.sensitivity_share), self.ratio
        apart = Fraction(_log_up(ratio)) if ratio > 1 else Fraction(0)
        if self.noise != "laplace":
            if self.levels[0] < LEAST_HEAVY:
                raise DPStatsError(
                    f"{self.noise} noise has levels below {LEAST_HEAVY:g} steps. This is a defect"
                )
            # Where noise slides most its scale does not matter, and the other way round: not the sum of the two.
            power = (SMOOTH_LAWS[self.noise] + 1) // 2
            both = power * Fraction(root_up(share**2 + apart**2))
            scales = (self.size * (power - 1) + (self.size - 1) * power) * apart
            return Pure(up(both + scales + self.size * HEAVY_SLACK), neighbors=self.neighbors)
        if ratio <= 1:
            return Pure(up(share), neighbors=self.neighbors)
        if Fraction(self.far) < self.size * apart:
            raise DPStatsError("levels are further apart than what is set aside for it. This is a defect")
        beyond = Fraction(self.far) / (ratio - 1)
        delta = _twice_exp_up(-beyond) if self.size == 1 else _norm_tail_up(beyond, self.size)
        return Approximate(up(share + Fraction(self.far)), delta, neighbors=self.neighbors)

    @property
    def events(self) -> tuple[Event, ...]:
        """All that an accountant sees."""
        return (self.event,)

    def facts(self) -> dict[str, Any]:
        """Return what a reader of the plan has to know, by name: the scale is private, and no one knows it."""
        return {"name": self.name, "noise": self.noise, "size": self.size, "levels": len(self.levels)}

    def describe(self, n_candidates: int | None = None) -> str:
        """Return a line of a plan as it is printed."""
        numbers = "1 number" if self.size == 1 else f"{self.size} numbers"
        law = {"student": "Student (3 degrees of freedom)"}.get(self.noise, self.noise.capitalize())
        return f"{self.name}: {numbers}, {law} noise of a private scale, by the smooth sensitivity"


SMOOTH_LAWS = {"laplace": 0, "cauchy": 1, "student": 3}
"""Laws that noise of a private scale can have, and the degrees of freedom of those that are powers."""
LEAST_HEAVY = 8.0
"""Steps below which a law of powers on the integers is told from the one on the line."""
HEAVY_SLACK = Fraction(1, 2**50)
"""What their difference costs at most from there on, for each number."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of several stages alike, which an earlier release chose: their scales differ, and their costs do not.

    Attributes
    ----------
    name : str
    options : tuple of Stage
        With Laplace noise, of one size.
    part
        As for `Stage`.
    """

    name: str
    options: tuple[Stage, ...]
    part: str = field(default="", kw_only=True)

    noise: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", tuple(self.options))
        _check_counts(options=len(self.options))
        if {(stage.noise, stage.size, stage.times) for stage in self.options} != {("laplace", self.size, 1)}:
            raise InvalidParameter("options must have Laplace noise, and one size")

    @property
    def size(self) -> int:
        """How many numbers are released."""
        return self.options[0].size

    @property
    def neighbors(self) -> Neighbors:
        """The relation that sensitivities are for."""
        return self.options[0].neighbors

    @property
    def event(self) -> Event:
        """What an accountant sees: the dearest of the options, whichever it is."""
        costs = [Fraction(stage.sensitivity_steps) / Fraction(stage.scale_steps) for stage in self.options]
        return Pure(up(max(costs)), neighbors=self.neighbors)

    @property
    def events(self) -> tuple[Event, ...]:
        """All that an accountant sees."""
        return (self.event,)

    def facts(self) -> dict[str, Any]:
        """Return what a reader of the plan has to know, by name."""
        scales = [float(np.max(stage.noise_scale)) for stage in self.options]
        return {"name": self.name, "noise": self.noise, "size": self.size, "noise_scale": scales}

    def describe(self, n_candidates: int | None = None) -> str:
        """Return a line of a plan as it is printed."""
        ends = [f"{np.max(self.options[i].noise_scale):.6g}" for i in (0, -1)]
        return (
            f"{self.name}: {self.size} numbers, Laplace noise of one of {len(self.options)} scales, "
            f"{ends[0]} to {ends[1]}"
        )


@dataclass(frozen=True, slots=True)
class Responses:
    """Every row's own answer, kept with a public probability, else another one at random.

    Attributes
    ----------
    name : str
    n_categories : int
        Answers are 0, ..., n_categories - 1.
    keep_grains : int
        The probability to keep an answer, in multiples of ``1/GRAIN``.
    neighbors
        As for `Stage`. Rows answer apart, so that all of them cost what one does.
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
        """What an accountant sees: randomized response is the worst pure release, exactly."""
        kept = self.keep_grains * (self.n_categories - 1)
        return Pure(_log_up(Fraction(kept, self.GRAIN - self.keep_grains)), neighbors=self.neighbors)

    @property
    def events(self) -> tuple[Event, ...]:
        """All that an accountant sees."""
        return (self.event,)

    @property
    def keep_probability(self) -> float:
        """The probability that an answer is kept."""
        return self.keep_grains / self.GRAIN

    def facts(self) -> dict[str, Any]:
        """Return what a reader of the plan has to know, by name."""
        return {"name": self.name, "noise": self.noise, "keep_probability": self.keep_probability}

    def describe(self, n_candidates: int | None = None) -> str:
        """Return a line of a plan as it is printed."""
        return f"{self.name}: one response a row, kept with probability {self.keep_probability:.6g}"


@dataclass(frozen=True, slots=True)
class Comparisons:
    """A stream of values compared with a noisy threshold, until as many as stated have been above.

    Attributes
    ----------
    name : str
    spacing : float
        The length of one step of a value, in its units.
    sensitivity_steps : int
        Largest change of any value between neighbouring datasets, in steps.
    threshold_steps : int
        The public threshold, in steps.
    threshold_scale_steps, question_scale_steps : float
        Scales of the Laplace noise of the threshold and of every question.
    max_above : int
        The stream ends with this many answers above.
    answer_scale_steps : float, optional
        Scale of the noise of a value that is released, which it is if above; None: none is.
    redrawn : bool, default=True
        Whether the threshold's noise is drawn anew after an answer above, or once for the whole stream.
    answer_noise : {"laplace", "gaussian"}, default="laplace"
        The law of the noise of a value that is released.
    neighbors
        As for `Stage`.
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
        _check_counts(max_above=self.max_above)

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
        """Return what a reader of the plan has to know, by name."""
        scales = (self.threshold_scale_steps * self.spacing, self.question_scale_steps * self.spacing)
        return {"name": self.name, "noise": self.noise, "max_above": self.max_above, "noise_scale": [*scales]}

    def describe(self, n_candidates: int | None = None) -> str:
        """Return a line of a plan as it is printed."""
        scales = (self.threshold_scale_steps * self.spacing, self.question_scale_steps * self.spacing)
        return (
            f"{self.name}: up to {self.max_above} above, Laplace noise of scale {scales[0]:.6g} on the threshold and "
            f"{scales[1]:.6g} on a question"
        )


@dataclass(frozen=True, slots=True)
class Coins:
    """Uniform signs that an algorithm tosses; they depend on no row and cost nothing.

    Attributes
    ----------
    name : str
    shape : tuple of int
    released : bool, default=False
        Whether a report is given them, as that of a randomised test is; else they are private.
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
        """Return what a reader of the plan has to know, by name."""
        return {"name": self.name, "noise": self.noise, "size": math.prod(self.shape)}

    def describe(self, n_candidates: int | None = None) -> str:
        """Return a line of a plan as it is printed."""
        return f"{self.name}: {math.prod(self.shape)} {'coins' if self.released else 'private coins, not released'}"


AnyStage = Stage | JointStage | Selection | Choice | Smooth | OneOf | Responses | Comparisons | Coins
KINDS = (Stage, JointStage, Selection, Choice, Smooth, OneOf, Responses, Comparisons, Coins)


def _check_counts(**counts: int) -> None:
    """Refuse counts below 1: what is counted so would cost nothing, and be drawn all the same."""
    for name, count in counts.items():
        check_integer(name, count, at_least=1)


def _gaussian(
    mu: float, sizes: list[tuple[int, float]], concentrated: bool, neighbors: Neighbors
) -> Gaussian | ZCDP:
    """Return the event of Gaussian noise on vectors of the sizes given, each with its scale in steps."""
    if concentrated:
        return ZCDP(up(Fraction(mu) ** 2 / 2), neighbors=neighbors)
    if min(scale for _, scale in sizes) < SMALLEST_STEPS:
        raise DPStatsError(
            f"Gaussian noise of less than {SMALLEST_STEPS:g} steps has no exact curve: the stage must be concentrated. "
            "This is a defect"
        )
    # Raised by more than these few operations can be rounded.
    variation = math.fsum(TOTAL_VARIATION * size / scale**2 for size, scale in sizes) * (1 + 2.0**-48)
    return Gaussian(mu, variation, neighbors=neighbors)


def _log_up(odds: Fraction) -> float:
    """Return a float that is at least the logarithm of rational odds above 1, to within an ulp."""
    with localcontext() as context:
        context.prec = 60
        # ln is right to the last of 60 digits; what is added is far more than that, and far less than an ulp.
        exact = (Decimal(odds.numerator) / Decimal(odds.denominator)).ln() * (1 + Decimal(10) ** -35)
    return up(Fraction(exact))


def _twice_exp_up(exponent: Fraction) -> float:
    """Return a float that is at least 2 e^exponent, to within an ulp, for an exponent of at most 0."""
    with localcontext() as context:
        context.prec = 60
        # Both operations are right to the last of 60 digits, and an exponent below a thousand loses three of them.
        exact = (Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp() * (2 + Decimal(10) ** -35)
    return up(Fraction(exact))


@lru_cache(maxsize=64)
def _ratio(levels: tuple[float, ...]) -> Fraction:
    return max((Fraction(high) / Fraction(low) for low, high in pairwise(levels)), default=Fraction(1))


@lru_cache(maxsize=64)
def _limits(levels: tuple[float, ...], sensitivity_share: float) -> NDArray[np.int64]:
    share = Fraction(sensitivity_share)
    found = np.array([math.floor(Fraction(level) * share) for level in levels], dtype=np.int64)
    found.flags.writeable = False
    return found


def _norm_tail_up(beyond: Fraction, size: int) -> float:
    """Return a float that is at least (y/m)^m e^(m - y), to within an ulp: Chernoff's bound for m Laplace numbers."""
    if beyond <= size:
        return 1.0
    with localcontext() as context:
        context.prec = 80
        y = Decimal(beyond.numerator) / Decimal(beyond.denominator)
        # All operations are right to the last of 80 digits, and the exponent loses at most ten of them.
        exact = (size * (y / size).ln() + size - y).exp() * (1 + Decimal(10) ** -40)
    return up(Fraction(exact))


def _std_of(noise: str) -> float:
    return math.sqrt(2.0) if noise == "laplace" else 1.0


def _scaled(spacing: Spacing, factor: float) -> float | NDArray[np.float64]:
    return np.asarray(spacing) * factor if isinstance(spacing, tuple) else spacing * factor


def _range(scale: Any) -> str:
    scale = np.atleast_1d(scale)
    return f"{scale.min():.6g}" if np.ptp(scale) == 0 else f"{scale.min():.6g} to {scale.max():.6g}"
