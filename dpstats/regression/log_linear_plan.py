"""The plan of a log-linear regression: its stages and their fractions of the privacy budget."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpstats.privacy.stages import Block as StageBlock
from dpstats.regression.design import Design
from dpstats.regression.log_linear_rows import EXCESS, TILT, WIDER
from dpstats.regression.movement import weighted_integers
from dpstats.regression.plan import (
    CENTER,
    DIRECTIONS,
    LAST_NORMS,
    LENGTHS,
    MANY,
    NORMS,
    OFFSETS,
    ROWS,
    STEPS,
    WEIGHT,
    RegressionPlan,
    bin_integers,
    center_integers,
    first_stages,
    made_plan,
    norms_share,
    pair_integers,
    scalar_share,
    size_integers,
    size_name,
    step_name,
)
from dpstats.regression.rows import UNIT_BITS
from dpstats.release.additive import Integers, JointIntegers

RATES, CALIBRATION = "rates", "calibration"

_SHARES = {ROWS: 0.01, WEIGHT: 0.01, OFFSETS: 0.01, CENTER: 0.03, DIRECTIONS: 0.08, CALIBRATION: 0.10}
_EARLY = (0.04, 0.06)
"""Fractions of mu^2. The remainder is for the last two steps, whose coefficients are averaged."""
_THIRD = 0.4
"""Fraction of this remainder for the third step."""

TILT_WEIGHT = math.sqrt((1 - (1 - 1 / WIDER) ** 2) / 3)
"""Weight of the tilt of the excess. Up to this weight a row moves both by no more than sqrt(1 + weight^2)."""

_BINS = 24
_ROUNDING = 0.51  # rounding error of a number, in steps: half a step plus floating-point error


@dataclass(frozen=True)
class LogLinearPlan(RegressionPlan):
    """The plan of a log-linear regression. All of it is public.

    Attributes
    ----------
    design, bits, missing, family, mu
        As for `RegressionPlan`. The family is "counts" or "gamma".
    overdispersion : float
        Public constant in the weights of counts.
    """

    overdispersion: float

    _surely: ClassVar[float] = 8.0

    @property
    def _width(self) -> float:
        return 3.5

    @cached_property
    def _shares(self) -> dict[str, float]:
        return dict(shares(self.n_samples, self.mu, self.design, self.missing))

    def facts(self) -> dict[str, Any]:
        """Return facts about the plan that its stages do not show, by name."""
        return {**super().facts(), "overdispersion": self.overdispersion}


def rate_ends() -> NDArray[np.float64]:
    """Return the limits of the bins of rates: powers of 2, up to the largest allowed outcome, which is 1."""
    return np.exp2(np.arange(-_BINS, 1, dtype=np.float64))


def shares(n: int, mu: float, design: Design, missing: str = "error") -> list[tuple[str, float]]:
    """Return the stages in order with the fraction of mu^2 of each. They depend on sizes, roles and mu only.

    Without columns, rows have no directions, and only their offsets have a center.
    """
    parts = [(name, _SHARES[name]) for name in first_stages(design, missing)]
    norms, scalar, columns = norms_share(n, mu), scalar_share(n, mu), design.center.size
    if columns or design.offsets is not None:
        parts.append((CENTER, _SHARES[CENTER]))
    if columns and n * mu >= MANY:
        parts.append((LENGTHS, norms))
    if columns:
        parts += [(DIRECTIONS, _SHARES[DIRECTIONS]), (NORMS, norms)]
    parts.append((RATES, norms))
    for t, share in enumerate((*_EARLY, 0.0, 0.0), 1):
        parts.append((size_name(t), scalar))
        if t == STEPS:
            parts.append((LAST_NORMS, norms))
        parts.append((step_name(t), share))
    parts.append((CALIBRATION, _SHARES[CALIBRATION]))
    rest = 1 - math.fsum(share for _, share in parts)
    late = {step_name(STEPS - 1): _THIRD * rest, step_name(STEPS): (1 - _THIRD) * rest}
    return [(name, late.get(name, share)) for name, share in parts]


def log_linear_plan(
    family: str,
    overdispersion: float,
    design: Design,
    n: int,
    epsilon: float,
    delta: float,
    missing: str = "error",
) -> LogLinearPlan:
    """Return the plan of a log-linear regression of n rows on declared columns."""
    d, p = design.center.size, design.size

    def integers(name: str, share: float, bits: int) -> Integers | JointIntegers:
        if name == CENTER:
            return center_integers(d + (design.exposure is not None), n, share)  # also the offset
        if name == RATES:
            return bin_integers(name, rate_ends().size + 1, n, share)
        if name == size_name(1):
            return size_integers(name, n, 2, share)
        if name.startswith("residual size"):
            return pair_integers(name, n, share)
        if name == CALIBRATION:
            # The excess of residuals, and its tilt
            step, unit = 2.0**-UNIT_BITS / n, 2.0**UNIT_BITS
            blocks = (StageBlock(EXCESS, 1, step, unit), StageBlock(TILT, 1, step, unit / TILT_WEIGHT))
            moved = math.sqrt(1 + TILT_WEIGHT**2) * (1 + 2 * _ROUNDING / unit)
            return JointIntegers(name, blocks, math.inf, moved * (1 + 1e-12), share)
        return weighted_integers(name, p, n, bits, share, name == step_name(STEPS))

    return made_plan(
        LogLinearPlan,
        lambda mu: shares(n, mu, design, missing),
        integers,
        design,
        n,
        epsilon,
        delta,
        missing,
        family=family,
        overdispersion=overdispersion,
    )
