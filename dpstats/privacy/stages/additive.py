"""Integers with additive noise: one vector, or several blocks of one release."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import refuse
from dpstats.privacy.events import DiscreteLaplace, Event, Pure
from dpstats.privacy.guarantee import Neighbors
from dpstats.privacy.rounding import multiply_up, quotient_up
from dpstats.privacy.stages.costs import check_counts, gaussian_event

Spacing = float | tuple[float, ...]

_STD = {"laplace": math.sqrt(2.0), "gaussian": 1.0}
"""Standard deviation of noise of scale 1."""

_PROPER_NAMES = ("laplace", "gaussian", "gumbel", "cauchy")


class Added(NamedTuple):
    """Additive noise: distribution ("laplace" or "gaussian"), scale and standard deviation, in released units."""

    law: str
    scale: float | NDArray[np.float64]
    std: float | NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Stage:
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
            raise refuse(
                "size", got=f"size={self.size} and times={self.times}", allowed="a multiple of times"
            )

    @property
    def event(self) -> Event:
        """Event of each of the equal releases."""
        sensitivity, scale = self.sensitivity_steps, self.scale_steps
        if self.noise == "laplace":
            return DiscreteLaplace(sensitivity, scale, neighbors=self.neighbors)
        if self.noise == "joint":
            return Pure(quotient_up(sensitivity, scale), neighbors=self.neighbors)
        return gaussian_event(
            quotient_up(sensitivity, scale),
            [(self.size // self.times, scale)],
            self.concentrated,
            self.neighbors,
        )

    @property
    def events(self) -> tuple[Event, ...]:
        """Events of the stage for the accountant."""
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
        """Return the facts of the stage, by name."""
        scale = np.asarray(self.noise_scale).tolist()
        return {"name": self.name, "noise": self.noise, "size": self.size, "noise_scale": scale}

    def describe(self, n_candidates: int | None = None) -> str:
        """Return the line of the stage in a printed plan."""
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
class JointStage:
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

    @property
    def events(self) -> tuple[Event, ...]:
        """Events of the stage for the accountant."""
        return (self.event,)

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
        """Return the facts of the stage, by name."""
        blocks = [
            {"name": b.name, "size": b.size, "noise_scale": np.asarray(self.noise_scale(b)).tolist()}
            for b in self.blocks
        ]
        return {"name": self.name, "noise": self.noise, "size": self.size, "blocks": blocks}

    def describe(self, n_candidates: int | None = None) -> str:
        """Return the lines of the stage in a printed plan."""
        lines = [
            f"{block.name}: {describe_noise(block.size, self.noise, self.noise_scale(block))}"
            for block in self.blocks
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
