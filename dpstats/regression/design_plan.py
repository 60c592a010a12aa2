"""What the plans of all regressions share: the declared design, and what they can say before any row is read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np

from dpstats.errors import ScaleOutOfRange
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import JointStage
from dpstats.regression.design import Design

_COARSEST = 8


@dataclass(frozen=True)
class DesignPlan(ReleasePlan, ABC):
    """The plan of a private regression. All of it is public.

    Attributes
    ----------
    design : Design
        The declared bounds.
    bits : int
        Bounded rows have norms of at most 2^bits steps.
    missing : {"error", "drop"}
        Whether rows with a missing entry are left out. Statements about errors assume that no row is missing.
    """

    design: Design = field(repr=False, compare=False)
    bits: int
    missing: str = field(default="error", kw_only=True)

    _columns: ClassVar[str]
    """Which columns the noise ratio is about, in words."""

    @property
    def size(self) -> int:
        """How many coefficients there are, with the intercept."""
        return self.design.size

    @cached_property
    def noise_of(self) -> dict[tuple[str, str], float]:
        """Standard deviation of the noise, by the names of a joint stage and of its block."""
        return {
            (stage.name, block.name): float(np.max(stage.noise_std(block)))
            for stage in self.stages
            if isinstance(stage, JointStage)
            for block in stage.blocks
        }

    @property
    @abstractmethod
    def noise_ratio(self) -> float:
        """Noise of a coefficient over its sampling error, for columns that the notes name."""

    @property
    @abstractmethod
    def noise_only(self) -> bool:
        """Whether noise is all that there will be, for such columns."""

    def facts(self) -> dict[str, Any]:
        """Return what a reader of the plan has to know beside its stages, by name."""
        return {"noise_ratio": self.noise_ratio, "noise_only": self.noise_only}

    def notes(self) -> list[str]:
        """Return what a reader of the plan has to know, one line each."""
        ratio = f"{self.noise_ratio:.2g}"
        notes = [f"for {self._columns} the noise of a coefficient is about {ratio} times its sampling error"]
        if self.noise_only:
            notes.append(
                "warning: noise only: coefficients are not identified at this n and epsilon, and intervals may miss "
                "more often than they say. More rows, a larger epsilon or fewer columns help"
            )
        return notes

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *(f"  {note}" for note in self.notes())])


Made = TypeVar("Made", bound=ReleasePlan)


def finest(made: Callable[[int], Made], bits: int) -> Made:
    """Return the plan on the finest lattice for which noise can be drawn: a public choice."""
    for fewer in range(bits, _COARSEST, -2):
        try:
            return made(fewer)
        except ScaleOutOfRange:
            continue
    return made(_COARSEST)
