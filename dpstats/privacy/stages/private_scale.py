"""Noise whose scale is private: by the smooth sensitivity, or one of declared stages that an earlier release chose."""

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
from dpstats.errors import DPStatsError, InvalidParameter
from dpstats.privacy.events import Approximate, Event, Pure
from dpstats.privacy.guarantee import Neighbors
from dpstats.privacy.rounding import root_up, up
from dpstats.privacy.stages.additive import Stage
from dpstats.privacy.stages.costs import check_counts, log_up, norm_tail_up, twice_exp_up


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
        P(k) falls as ``e^(-|k|/level)``, ``1/(level^2 + k^2)`` or its square; the last two are pure.
    neighbors, part
        As for `Stage`.

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
        # A list could be changed after it was paid for.
        object.__setattr__(self, "levels", tuple(self.levels))
        check_counts(levels=len(self.levels), size=self.size)
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
        apart = Fraction(log_up(ratio)) if ratio > 1 else Fraction(0)
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
            raise DPStatsError("the distance between levels exceeds its part of the budget. This is a defect")
        beyond = Fraction(self.far) / (ratio - 1)
        delta = twice_exp_up(-beyond) if self.size == 1 else norm_tail_up(beyond, self.size)
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


@lru_cache(maxsize=64)
def _ratio(levels: tuple[float, ...]) -> Fraction:
    return max((Fraction(high) / Fraction(low) for low, high in pairwise(levels)), default=Fraction(1))


@lru_cache(maxsize=64)
def _limits(levels: tuple[float, ...], sensitivity_share: float) -> NDArray[np.int64]:
    share = Fraction(sensitivity_share)
    found = np.array([math.floor(Fraction(level) * share) for level in levels], dtype=np.int64)
    found.flags.writeable = False
    return found
