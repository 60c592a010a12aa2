"""The plan of an identity test: its stages, and the public numbers that its statistic goes by."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import dpstats
from dpstats.identity.levels import critical_value
from dpstats.identity.whitening import Reference
from dpstats.privacy.plan import ReleasePlan


@dataclass(frozen=True)
class IdentityPlan(ReleasePlan):
    """The plan of an identity test, with the public numbers that its statistic goes by.

    ``design`` holds the test's own constants, ``n_calibration`` is B (0 with printed constants).
    """

    reference: Reference = field(repr=False, compare=False)
    design: Any
    level: float
    missing: str
    n_calibration: int
    threshold: float = math.nan
    """Of the printed constants; NaN where it is calibrated."""
    null: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)
    """The simulated statistics under the null, ascending, of a plan that is prepared: public. None before, and with
    printed constants. Not pickled: it may be a megabyte, and the same plan gives the same again."""

    attainable_power: float = field(default=math.nan, compare=False)
    """Power against the farthest mean, all columns alike, of a plan that is prepared; NaN before."""

    _free: ClassVar[frozenset[str]] = frozenset({"null", "attainable_power"})

    def facts(self) -> dict[str, Any]:
        """Return facts about the plan that its stages do not show, by name."""
        return {"n_calibration": self.n_calibration}

    def notes(self) -> list[str]:
        """Return the facts as text, one line each."""
        notes = [f"calibration: {self.n_calibration:,} simulated null datasets, public"]
        if not math.isnan(self.attainable_power):
            notes.append(
                f"largest attainable power: {self.attainable_power:.3f}, against a mean that is far away"
            )
        return notes

    @property
    def law(self) -> str:
        """Everything that the law of the released statistic under the null depends on."""
        noise = [(stage.scale_steps, stage.spacing) for stage in self.additive]
        return f"{dpstats.__version__} {self.n_samples} {self.n_features} {noise} {self.design} {self.reference.law}"

    @property
    def critical_value(self) -> float:
        """What the statistic must exceed to reject; of a plan with ``null``, or with printed constants."""
        return self.threshold if self.null is None else critical_value(self.null, self.level)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "null": None}
