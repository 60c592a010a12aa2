"""Stages that add noise to integers, at a public scale or at a private one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_choice, check_integer
from dpstats.errors import DPStatsError, refuse
from dpstats.privacy.events import ZCDP, Approximate, DiscreteLaplace, Event, Gaussian, Pure
from dpstats.privacy.gaussian import SMALLEST_STEPS, TOTAL_VARIATION
from dpstats.privacy.guarantee import Neighbors, multiply_up, quotient_up, root_up, up


def check_counts(**counts: int | Sequence[int]) -> None:
    """Raise an error for counts below 1. Otherwise numbers would be drawn without a privacy cost."""
    for name, given in counts.items():
        for count in given if isinstance(given, Sequence) else (given,):
            if type(count) is not int or count < 1:
                check_integer(name, count, at_least=1, of=given)


def gaussian_event(
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


def log_up(odds: Fraction) -> float:
    """Return a float that is at least the logarithm of rational odds above 1, to within an ulp."""
    with localcontext() as context:
        context.prec = 60
        # ln is accurate to 60 digits. The added amount is much larger than its error and much smaller than an ulp.
        exact = (Decimal(odds.numerator) / Decimal(odds.denominator)).ln() * (1 + Decimal(10) ** -35)
    return up(Fraction(exact))


def twice_exp_up(exponent: Fraction) -> float:
    """Return a float that is at least 2 e^exponent, to within an ulp, for an exponent of at most 0."""
    with localcontext() as context:
        context.prec = 60
        # Both operations are right to the last of 60 digits, and an exponent below a thousand loses three of them.
        exact = (Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp() * (2 + Decimal(10) ** -35)
    return up(Fraction(exact))


def norm_tail_up(beyond: Fraction, size: int) -> float:
    """Return a float that is at least (y/m)^m e^(m - y), to within an ulp: Chernoff's bound for m Laplace numbers."""
    if beyond <= size:
        return 1.0
    with localcontext() as context:
        context.prec = 80
        y = Decimal(beyond.numerator) / Decimal(beyond.denominator)
        # All operations are right to the last of 80 digits, and the exponent loses at most ten of them.
        exact = (size * (y / size).ln() + size - y).exp() * (1 + Decimal(10) ** -40)
    return up(Fraction(exact))


Spacing = float | tuple[float, ...]

_STD = {"laplace": math.sqrt(2.0), "gaussian": 1.0}
"""Standard deviation of noise of scale 1."""

_PROPER_NAMES = ("laplace", "gaussian", "gumbel", "cauchy")


class Added(NamedTuple):
    """Additive noise: distribution ("laplace" or "gaussian"), scale and standard deviation, in released units."""

    law: str
    scale: float | NDArray[np.float64]
    std: float | NDArray[np.float64]


class BaseStage:
    """Interface of every stage: its events, its public facts and its lines in a printed plan."""

    __slots__ = ()

    @property
    def event(self) -> Event:
        """Event for the accountant, if the stage has a cost."""
        raise TypeError(f"{type(self).__name__} does not define event")

    @property
    def events(self) -> tuple[Event, ...]:
        """Events of the stage for the accountant."""
        return (self.event,)

    def facts(self) -> dict[str, Any]:
        """Return the public facts of the stage, by name."""
        raise TypeError(f"{type(self).__name__} does not define facts")

    def describe(self, n_candidates: int | None = None) -> str:
        """Return the lines of the stage in a printed plan."""
        raise TypeError(f"{type(self).__name__} does not define describe")


@dataclass(frozen=True, slots=True)
class Stage(BaseStage):
    """Integers with additive noise.

    Attributes
    ----------
    name : str
        Name of the released numbers.
    noise : {"laplace", "gaussian", "joint"}
        Distribution of the noise: discrete, on the lattice of the release. "joint" is for numbers that a row changes in
        the same direction: P(v) falls by e in every ``scale_steps`` of max(0, v) - min(0, v).
    size : int
        Number of released numbers.
    spacing : float or tuple of float
        Length of one step of the released numbers, in their units. One per number, or a common one.
    sensitivity_steps : int
        Largest distance of the integers between neighboring datasets, in steps. The distance is l1 for Laplace noise
        and l2 for Gaussian noise. For joint noise it is max(0, v) - min(0, v) of the difference v.
    scale_steps : float
        Scale (Laplace) or standard deviation (Gaussian) of the noise, in steps.
    neighbors : Neighbors
        Neighboring relation of the sensitivity.
    concentrated : bool, default=False
        Whether the accountant uses zero-concentrated privacy for Gaussian noise. This is necessary on a lattice too
        coarse for the exact curve.
    times : int, default=1
        Number of equal releases in the numbers. The sensitivity is per release.
    part : str, default=""
        Rows that the stage reads. Stages of different parts read disjoint sets of rows, and "" reads all.

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> (stage,) = ClippedMean(clip=1.0, std=None, epsilon=1.0).plan(1000, 2).stages
    >>> stage.name, stage.noise, stage.size, stage.norm
    ('clipped mean', 'laplace', 2, 'l1')
    >>> round(float(stage.noise_scale), 4)  # sensitivity 2 * 2/1000 over epsilon
    0.004
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
        check_counts(size=self.size, times=self.times)
        if self.size % self.times:
            raise refuse("size", got=f"size={self.size} and times={self.times}", allowed="a multiple of times")

    @property
    def event(self) -> Event:
        """Event of each of the equal releases."""
        sensitivity, scale = self.sensitivity_steps, self.scale_steps
        if self.noise == "laplace":
            return DiscreteLaplace(sensitivity, scale, neighbors=self.neighbors)
        if self.noise == "joint":
            return Pure(quotient_up(sensitivity, scale), neighbors=self.neighbors)
        return gaussian_event(
            quotient_up(sensitivity, scale), [(self.size // self.times, scale)], self.concentrated, self.neighbors
        )

    @property
    def events(self) -> tuple[Event, ...]:
        return (self.event,) * self.times

    @property
    def norm(self) -> str:
        """The norm of the sensitivity: "l1", "l2" or "range"."""
        return {"laplace": "l1", "gaussian": "l2", "joint": "range"}[self.noise]

    @property
    def sensitivity(self) -> float | NDArray[np.float64]:
        """The sensitivity in the units of the release.

        With one spacing per column, the steps are the common unit. Entry j is the sensitivity of the integers in the
        units of column j.
        """
        return _scaled(self.spacing, self.sensitivity_steps)

    @property
    def noise_scale(self) -> float | NDArray[np.float64]:
        """Scale (Laplace) or standard deviation (Gaussian) of the noise, in the units of the release."""
        return _scaled(self.spacing, self.scale_steps)

    @property
    def noise_std(self) -> float | NDArray[np.float64]:
        """Standard deviation of the noise of a number, in the units of the release."""
        return self.added_noise.std

    @property
    def added_noise(self) -> Added:
        """Noise of the numbers, in the units of the release."""
        scale = self.noise_scale
        if self.noise == "joint":
            # This is the value for continuous noise. The discrete value approaches it from above as the scale grows.
            return Added(self.noise, scale, scale * math.sqrt((self.size + 2) * (self.size + 3) / 6))
        return Added(self.noise, scale, scale * _STD[self.noise])

    def facts(self) -> dict[str, Any]:
        scale = np.asarray(self.noise_scale).tolist()
        return {"name": self.name, "noise": self.noise, "size": self.size, "noise_scale": scale}

    def describe(self, n_candidates: int | None = None) -> str:
        return f"{self.name}: {describe_noise(self.size, self.noise, self.noise_scale)}"


@dataclass(frozen=True, slots=True)
class Block:
    """One of the vectors that a joint stage releases.

    Attributes
    ----------
    name : str
    size : int
    spacing : float or tuple of float
    unit_steps : float
        Unit of the block, in its own steps. The scale of its noise is the scale of the stage times this unit.

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> (stage,) = ClippedMean(clip=1.0, epsilon=1.0, delta=1e-6).plan(1000, 2).stages
    >>> for block in stage.blocks:
    ...     print(block.name, block.size)
    clipped mean 2
    second moment about the center 2
    """

    name: str
    size: int
    spacing: Spacing
    unit_steps: float


@dataclass(frozen=True, slots=True)
class JointStage(BaseStage):
    """Several blocks of integers released jointly, with one noise distribution and a separate scale per block.

    The cost follows from the joint sensitivity: the largest change of *all* blocks for one pair of neighbors. It does
    not add up the worst pairs of the separate blocks.

    Attributes
    ----------
    name : str
    noise : {"laplace", "gaussian"}
    blocks : tuple of Block
    sensitivity : float
        Largest joint distance of all blocks between neighboring datasets, each in its ``unit_steps``: l1 for Laplace
        noise, l2 for Gaussian noise.
    scale : float
        Scale (Laplace) or standard deviation (Gaussian) of the noise, in the same units.
    neighbors, concentrated, part
        The same as in `Stage`.

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> (stage,) = ClippedMean(clip=1.0, epsilon=1.0, delta=1e-6).plan(1000, 2).stages
    >>> [block.name for block in stage.blocks]
    ['clipped mean', 'second moment about the center']
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
        # Convert to a tuple, because a list could change after the charge.
        object.__setattr__(self, "blocks", tuple(self.blocks))
        check_counts(blocks=len(self.blocks), size=[block.size for block in self.blocks])

    @property
    def size(self) -> int:
        """Number of released numbers."""
        return sum(block.size for block in self.blocks)

    @property
    def event(self) -> Event:
        """Event for all blocks together."""
        movement = quotient_up(self.sensitivity, self.scale)
        if self.noise == "laplace":
            return Pure(movement, neighbors=self.neighbors)
        sizes = [(block.size, self.scale_steps(block)) for block in self.blocks]
        return gaussian_event(movement, sizes, self.concentrated, self.neighbors)

    def scale_steps(self, block: Block) -> float:
        """Return the scale of the noise of a block, in its steps. The noise is drawn with this scale."""
        return multiply_up(self.scale, block.unit_steps)

    def noise_scale(self, block: Block) -> float | NDArray[np.float64]:
        """Return the scale of a block's noise, in its units."""
        return _scaled(block.spacing, self.scale_steps(block))

    def noise_std(self, block: Block) -> float | NDArray[np.float64]:
        """Return the standard deviation of a block's noise, in its units."""
        return self.find_noise(block).std

    def find_noise(self, block: Block) -> Added:
        """Return the noise of a block, in its units."""
        scale = self.noise_scale(block)
        return Added(self.noise, scale, scale * _STD[self.noise])

    def facts(self) -> dict[str, Any]:
        blocks = [
            {"name": b.name, "size": b.size, "noise_scale": np.asarray(self.noise_scale(b)).tolist()}
            for b in self.blocks
        ]
        return {"name": self.name, "noise": self.noise, "size": self.size, "blocks": blocks}

    def describe(self, n_candidates: int | None = None) -> str:
        lines = [
            f"{block.name}: {describe_noise(block.size, self.noise, self.noise_scale(block))}" for block in self.blocks
        ]
        return f"{self.name}, together:\n    " + "\n    ".join(lines)


def _scaled(spacing: Spacing, factor: float) -> float | NDArray[np.float64]:
    return np.asarray(spacing) * factor if isinstance(spacing, tuple) else spacing * factor


def describe_noise(size: int, noise: str, scale: Any) -> str:
    """Return the size of a release, with the distribution and the scale of its noise, for a printed plan."""
    scale = np.atleast_1d(scale)
    to = "" if np.ptp(scale) == 0 else f" to {scale.max():.6g}"
    return f"{count_numbers(size)}, {name_noise(noise)} noise of scale {scale.min():.6g}{to}"


def count_numbers(size: int) -> str:
    """Return "1 number" or "2 numbers"."""
    return f"{size} number{'s' * (size != 1)}"


def name_noise(noise: str) -> str:
    """Return the distribution of noise as sentences spell it."""
    return noise.capitalize() if noise in _PROPER_NAMES else noise


@dataclass(frozen=True, slots=True)
class Smooth(BaseStage):
    """Integers with noise at a private scale.

    The scale is one of the public ``levels``. Neighboring datasets have equal or adjacent levels.

    Attributes
    ----------
    name : str
    spacing : float
        Length of one step of the integers, in their units.
    levels : tuple of float
        Possible scales in increasing order, in steps. They are public.
    sensitivity_share : float
        A level is at least the local sensitivity of the integers at these data (l1) divided by this number.
    far : float
        For Laplace noise: the exponent, at the larger of two adjacent levels, beyond which only delta bounds the loss.
        This number plus ``sensitivity_share`` is the epsilon. The delta is 2 e^(-far/(ratio - 1)), where ratio is the
        ratio of adjacent levels.
    size : int, default=1
        Number of integers. A row changes them jointly.
    noise : {"laplace", "cauchy", "student"}, default="laplace"
        P(k) falls as ``e^(-|k|/level)``, ``1/(level^2 + k^2)`` or its square; the last two are pure.
    neighbors, part
        The same as in `Stage`.

    Examples
    --------
    >>> from dpstats.quantiles import PrivateMedian
    >>> (stage,) = PrivateMedian(bounds=(0, 100), epsilon=1.0, delta=1e-6).plan(1000).stages
    >>> stage.noise, len(stage.levels) > 1
    ('laplace', True)
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
        # Convert to a tuple, because a list could change after the charge.
        object.__setattr__(self, "levels", tuple(self.levels))
        check_counts(levels=len(self.levels), size=self.size)
        check_choice("noise", self.noise, list(SMOOTH_LAWS))
        if not self.levels[0] > 0 or not all(low < high for low, high in pairwise(self.levels)):
            raise refuse("levels", allowed="positive and rise")

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of a level to the one below it."""
        return _ratio(self.levels)

    @property
    def limits(self) -> NDArray[np.int64]:
        """Largest change of the integers by one row, at each level of the noise, in steps."""
        return _limits(self.levels, self.sensitivity_share)

    @property
    def event(self) -> Event:
        """Event for the accountant: docs/proofs/smooth-sensitivity.md, theorems 2 and 3."""
        share, ratio = Fraction(self.sensitivity_share), self.ratio
        apart = Fraction(log_up(ratio)) if ratio > 1 else Fraction(0)
        if self.noise != "laplace":
            if self.levels[0] < LEAST_HEAVY:
                raise DPStatsError(f"{self.noise} noise has levels below {LEAST_HEAVY:g} steps. This is a defect")
            # Where a shift changes the density most, the scale has no effect, and the reverse. So the cost is not the
            # sum of both.
            power = (SMOOTH_LAWS[self.noise] + 1) // 2
            both = power * Fraction(root_up(share**2 + apart**2))
            scales = (self.size * (power - 1) + (self.size - 1) * power) * apart
            return Pure(up(both + scales + self.size * HEAVY_SLACK), neighbors=self.neighbors)
        if ratio <= 1:
            return Pure(up(share), neighbors=self.neighbors)
        if Fraction(self.far) < self.size * apart:
            raise DPStatsError("the distance between levels exceeds its part of the budget. This is a defect")
        beyond = Fraction(self.far) / (ratio - 1)
        delta = twice_exp_up(-beyond) if self.size == 1 else norm_tail_up(beyond, self.size)
        return Approximate(up(share + Fraction(self.far)), delta, neighbors=self.neighbors)

    def facts(self) -> dict[str, Any]:
        """Return the facts of the stage, by name. The scale is private and therefore not included."""
        return {"name": self.name, "noise": self.noise, "size": self.size, "levels": len(self.levels)}

    def describe(self, n_candidates: int | None = None) -> str:
        noise = {"student": "Student (3 degrees of freedom)"}.get(self.noise, name_noise(self.noise))
        return f"{self.name}: {count_numbers(self.size)}, {noise} noise of a private scale, by the smooth sensitivity"


SMOOTH_LAWS = {"laplace": 0, "cauchy": 1, "student": 3}
"""Distributions for noise with a private scale, and their degrees of freedom for power laws."""
LEAST_HEAVY = 8.0
"""Number of steps below which a power-law distribution on the integers is distinguished from the continuous one."""
HEAVY_SLACK = Fraction(1, 2**50)
"""Largest cost of this difference for larger scales, per number."""


@dataclass(frozen=True, slots=True)
class OneOf(BaseStage):
    """One of several stages, chosen by an earlier release. Their scales differ, but their costs are equal.

    Attributes
    ----------
    name : str
        Name of the stage.
    options : tuple of Stage
        Possible stages, with Laplace noise and equal sizes.
    part
        The same as in `Stage`.

    Examples
    --------
    >>> from dpstats.privacy import OneOf, Stage
    >>> option = Stage("sum", "laplace", 1, 0.5, sensitivity_steps=2, scale_steps=4.0)
    >>> other = Stage("sum", "laplace", 1, 0.5, sensitivity_steps=20, scale_steps=40.0)
    >>> OneOf("sum cut at a chosen threshold", (option, other)).event
    Pure(neighbors=<Neighbors.REPLACE_ONE: 'one row replaced'>, epsilon=0.5)
    """

    name: str
    options: tuple[Stage, ...]
    part: str = field(default="", kw_only=True)

    noise: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", tuple(self.options))
        check_counts(options=len(self.options))
        if {(stage.noise, stage.size, stage.times) for stage in self.options} != {("laplace", self.size, 1)}:
            raise refuse("options", allowed="have Laplace noise, and one size")

    @property
    def size(self) -> int:
        """Number of released numbers."""
        return self.options[0].size

    @property
    def neighbors(self) -> Neighbors:
        """The relation that sensitivities are for."""
        return self.options[0].neighbors

    @property
    def event(self) -> Event:
        """Event for the accountant: the most expensive of the options."""
        costs = [Fraction(stage.sensitivity_steps) / Fraction(stage.scale_steps) for stage in self.options]
        return Pure(up(max(costs)), neighbors=self.neighbors)

    def facts(self) -> dict[str, Any]:
        scales = [float(np.max(stage.noise_scale)) for stage in self.options]
        return {"name": self.name, "noise": self.noise, "size": self.size, "noise_scale": scales}

    def describe(self, n_candidates: int | None = None) -> str:
        ends = [f"{np.max(self.options[i].noise_scale):.6g}" for i in (0, -1)]
        return (
            f"{self.name}: {count_numbers(self.size)}, Laplace noise of one of {len(self.options)} scales, "
            f"{ends[0]} to {ends[1]}"
        )


@lru_cache(maxsize=64)
def _ratio(levels: tuple[float, ...]) -> Fraction:
    return max((Fraction(high) / Fraction(low) for low, high in pairwise(levels)), default=Fraction(1))


@lru_cache(maxsize=64)
def _limits(levels: tuple[float, ...], sensitivity_share: float) -> NDArray[np.int64]:
    share = Fraction(sensitivity_share)
    found = np.array([math.floor(Fraction(level) * share) for level in levels], dtype=np.int64)
    found.flags.writeable = False
    return found
