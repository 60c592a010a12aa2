"""Base class of the plans of all regressions: the declared design, and statements before any row is read."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
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
    shares : mapping of column names or positions to float
        Declared fractions of the rarer value of yes/no columns, for the notes. No release depends on them.
    """

    design: Design = field(repr=False, compare=False)
    bits: int
    missing: str = field(default="error", kw_only=True)
    shares: Mapping[Any, float] = field(default_factory=dict, kw_only=True, repr=False, compare=False)

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

    @abstractmethod
    def noise_ratio_of_share(self, share: float) -> float:
        """Return the ratio of noise to sampling error of a yes/no column with this share of its rarer value.

        Parameters
        ----------
        share : float
            Share of the rarer value, in (0, 0.5]. The ratio is infinite if noise hides the coefficient.
        """

    @property
    def noise_ratios(self) -> dict[Any, float]:
        """Ratio of noise to sampling error of each column with a declared share."""
        return {name: self.noise_ratio_of_share(share) for name, share in self.shares.items()}

    def facts(self) -> dict[str, Any]:
        """Return facts about the plan that its stages do not show, by name."""
        declared = {"noise_ratios": self.noise_ratios} if self.shares else {}
        return {"noise_ratio": self.noise_ratio, "noise_only": self.noise_only, **declared}

    def notes(self) -> list[str]:
        """Return remarks for a reader of the plan, one line each."""
        ratio = f"{self.noise_ratio:.2g}"
        notes = [f"for {self._columns} the noise of a coefficient is about {ratio} times its sampling error"]
        if self.noise_only:
            notes.append(
                "warning: noise only: coefficients are not identified at this n and epsilon, and coverage may be "
                "below the nominal level. Use more rows, a larger epsilon or fewer columns"
            )
        return [*notes, *self.share_notes()]

    def share_notes(self) -> list[str]:
        """Return a remark about each column with a declared share."""
        return [
            f"{name} at {100 * share:.3g}% of the rows: "
            + (
                f"noise about {ratio:.2g} times its sampling error"
                if math.isfinite(ratio)
                else "noise hides its coefficient"
            )
            for (name, share), ratio in zip(self.shares.items(), self.noise_ratios.values(), strict=True)
        ]

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *(f"  {note}" for note in self.notes())])
