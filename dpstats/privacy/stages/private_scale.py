"""Noise with a private scale: by the smooth sensitivity, or of one of several stages that an earlier release chose."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_choice
from dpstats.errors import DPStatsError, refuse
from dpstats.privacy.events import Approximate, Event, Pure
from dpstats.privacy.guarantee import Neighbors
from dpstats.privacy.rounding import root_up, up
from dpstats.privacy.stages.additive import Stage, count_numbers, name_noise
from dpstats.privacy.stages.costs import check_counts, log_up, norm_tail_up, twice_exp_up


@dataclass(frozen=True, slots=True)
class Smooth:
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
                raise DPStatsError(
                    f"{self.noise} noise has levels below {LEAST_HEAVY:g} steps. This is a defect"
                )
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

    @property
    def events(self) -> tuple[Event, ...]:
        """Events of the stage for the accountant."""
        return (self.event,)

    def facts(self) -> dict[str, Any]:
        """Return the facts of the stage, by name. The scale is private and therefore not included."""
        return {"name": self.name, "noise": self.noise, "size": self.size, "levels": len(self.levels)}

    def describe(self, n_candidates: int | None = None) -> str:
        """Return the line of the stage in a printed plan."""
        noise = {"student": "Student (3 degrees of freedom)"}.get(self.noise, name_noise(self.noise))
        return f"{self.name}: {count_numbers(self.size)}, {noise} noise of a private scale, by the smooth sensitivity"


SMOOTH_LAWS = {"laplace": 0, "cauchy": 1, "student": 3}
"""Distributions for noise with a private scale, and their degrees of freedom for power laws."""
LEAST_HEAVY = 8.0
"""Number of steps below which a power-law distribution on the integers is distinguished from the continuous one."""
HEAVY_SLACK = Fraction(1, 2**50)
"""Largest cost of this difference for larger scales, per number."""


@dataclass(frozen=True, slots=True)
class OneOf:
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

    @property
    def events(self) -> tuple[Event, ...]:
        """Events of the stage for the accountant."""
        return (self.event,)

    def facts(self) -> dict[str, Any]:
        """Return the facts of the stage, by name."""
        scales = [float(np.max(stage.noise_scale)) for stage in self.options]
        return {"name": self.name, "noise": self.noise, "size": self.size, "noise_scale": scales}

    def describe(self, n_candidates: int | None = None) -> str:
        """Return the line of the stage in a printed plan."""
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
