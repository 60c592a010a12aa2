"""Base class of the plans of all regressions: the declared design, and statements before any row is read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import JointStage
from dpstats.regression.design import Design


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
        Whether a row with a missing entry raises an error or is dropped. Statements about errors assume that no row is
        missing.
    """

    design: Design = field(repr=False, compare=False)
    bits: int
    missing: str = field(default="error", kw_only=True)

    @property
    def size(self) -> int:
        """Number of coefficients, including the intercept."""
        return self.design.size

    @cached_property
    def noise_of(self) -> dict[tuple[str, str], float]:
        """Standard deviation of the noise, keyed by the names of a joint stage and of its block."""
        return {
            (stage.name, block.name): float(np.max(stage.noise_std(block)))
            for stage in self.stages
            if isinstance(stage, JointStage)
            for block in stage.blocks
        }

    @property
    def _columns(self) -> str:
        """The columns and residuals that the noise ratio assumes."""
        return "columns of one scale and normal residuals"

    @property
    @abstractmethod
    def noise_ratio(self) -> float:
        """Ratio of the noise of a coefficient to its sampling error, for the columns that the notes name."""

    @property
    @abstractmethod
    def noise_only(self) -> bool:
        """Whether noise hides the coefficients of such columns."""

    def facts(self) -> dict[str, Any]:
        """Return facts about the plan that its stages do not show, by name."""
        return {"noise_ratio": self.noise_ratio, "noise_only": self.noise_only}

    def notes(self) -> list[str]:
        """Return remarks for a reader of the plan, one line each."""
        ratio = f"{self.noise_ratio:.2g}"
        notes = [f"for {self._columns} the noise of a coefficient is about {ratio} times its sampling error"]
        if self.noise_only:
            notes.append(
                "warning: noise only: coefficients are not identified at this n and epsilon, and coverage may be "
                "below the nominal level. Use more rows, a larger epsilon or fewer columns"
            )
        return notes

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *(f"  {note}" for note in self.notes())])
