"""The plan of an identity test: its stages, and the public constants of its statistic."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import dpstats
from dpstats.identity.levels import critical_value
from dpstats.identity.null import SLOW
from dpstats.identity.whitening import Reference
from dpstats.privacy.plan import ReleasePlan


@dataclass(frozen=True)
class IdentityPlan(ReleasePlan):
    """The plan of an identity test, with the public constants of its statistic.

    ``design`` has the constants of the test. ``n_calibration`` is B (0 with printed constants).
    """

    reference: Reference = field(repr=False, compare=False)
    design: Any
    level: float
    missing: str
    n_calibration: int
    calibration_seconds: float = field(default=0.0, repr=False, compare=False)
    """Approximate processor time of the calibration, in seconds."""
    threshold: float = math.nan
    """Threshold of the printed constants, or NaN for a calibrated test."""
    null: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)
    """Ascending simulated statistics under the null. They are public. None before preparation, and with printed
    constants. They are not pickled, because they may have a megabyte and can be reproduced from the plan."""

    attainable_power: float = field(default=math.nan, compare=False)
    """Power against the farthest mean with equal columns. NaN before preparation."""

    _free: ClassVar[frozenset[str]] = frozenset({"null", "attainable_power"})

    def facts(self) -> dict[str, Any]:
        """Return facts about the plan that its stages do not show, by name."""
        return {"n_calibration": self.n_calibration}

    def notes(self) -> list[str]:
        """Return the facts as text, one line each."""
        notes = [f"calibration: {self.n_calibration:,} simulated null datasets, public"]
        if self.calibration_seconds >= SLOW:
            notes.append(
                f"the first calibration for these sizes takes about {self.calibration_seconds:,.0f} s of processor time"
            )
        if not math.isnan(self.attainable_power):
            notes.append(
                f"largest attainable power: {self.attainable_power:.3f}, against a mean that is far away"
            )
        return notes

    @property
    def law(self) -> str:
        """Everything that determines the null distribution of the released statistic."""
        noise = [(stage.scale_steps, stage.spacing) for stage in self.additive]
        return f"{dpstats.__version__} {self.n_samples} {self.n_features} {noise} {self.design} {self.reference.law}"

    @property
    def critical_value(self) -> float:
        """Critical value that the statistic must exceed, for a plan with ``null`` or with printed constants."""
        return self.threshold if self.null is None else critical_value(self.null, self.level)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "null": None}
