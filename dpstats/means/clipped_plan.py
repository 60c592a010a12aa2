"""The clipped mean: bound every row, average, add noise (algorithm 9.2.1, made private).

Proof: docs/proofs/clipped-mean.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_columns
from dpstats.lattice import RowLattice
from dpstats.means.moments import MEAN, Weights
from dpstats.means.region import Region
from dpstats.means.totals import Totals
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import JointStage

if TYPE_CHECKING:
    from dpstats.data.parameters import Columns

_DROWNED = (
    "Warning: the standard deviation of the noise is more than 0.29 times the width of the bounds, so the estimate "
    "says little more than the bounds. Use more rows, a larger epsilon, fewer columns or tighter bounds."
)


@dataclass(frozen=True)
class ClippedMeanPlan(ReleasePlan):
    """The plan of a `ClippedMean`, with the public facts that the fit and its report use.

    ``std`` is the public standard deviation, where there is one. ``totals`` is set if the number of rows is private:
    the mean is then a ratio of these. The lattice is part of the plan, so that the clip that is applied is the one the
    noise was calibrated to.
    """

    lattice: RowLattice = field(repr=False, compare=False)
    region: Region = field(repr=False, compare=False)
    weights: Weights = field(repr=False)
    clip_norm: str
    calibration: str
    missing: str
    std: float | tuple[float, ...] | None = None
    totals: Totals | None = None

    @property
    def clip(self) -> Columns:
        """How far an entry (a row, of a ball) may be from the center."""
        return self.region.clip

    @property
    def estimates_std(self) -> bool:
        """Whether the standard deviation is released too."""
        return len(self.weights.powers) > 1

    def expected_error(self, std: float | NDArray[np.float64] | None = None) -> float:
        """Return the expected squared l2 error, exact where no row is clipped and no estimate cut to the box.

        Parameters
        ----------
        std : float or array of shape (n_features,), optional
            Standard deviation of the columns (default: the estimator's public ``std``).

        Returns
        -------
        float
            ``sum_j std_j^2/n + sum_j noise_std_j^2``: the error for the population mean. Without any
            ``std`` the first sum is left out: the error for the clipped sample mean. For rows
            bounded by R in d columns the second sum is 4 R^2 d^2 s^2/n^2, s the noise of a
            number of sensitivity one. With a private number of rows it is approximate, for means at
            the center and more rows than the noise of their number hides.
        """
        spread = check_columns("std", std, self.n_features, at_least=0) if std is not None else self.std
        n, noise = self.n_expected, _total(self.mean_noise**2, self.n_features)
        return noise + (0.0 if spread is None else _total(np.asarray(spread) ** 2, self.n_features) / n)

    @property
    def distribution(self) -> str:
        """Distribution of the noise: "laplace" or "gaussian"."""
        return self.noise(MEAN).law if self.totals is None else self.totals_stage.noise

    @property
    def totals_stage(self) -> JointStage:
        """The stage of a private number of rows."""
        (stage,) = self.stages
        assert isinstance(stage, JointStage)
        return stage

    @property
    def mean_noise(self) -> NDArray[np.float64]:
        """Standard deviation of the noise of the mean. Of a ratio: at the planned size, for a mean at the center."""
        if self.totals is None:
            return np.asarray(self.noise(MEAN).std)
        assert self.n_planned is not None
        return np.asarray(self.totals.noise(self.totals_stage).total / self.n_planned * np.asarray(self.clip))

    def notes(self) -> list[str]:
        """Return the notes that a reader of the plan needs, one line each."""
        if self.n_planned is None:
            return []
        # The standard deviation of a uniform distribution over the bounds.
        drowned = self.mean_noise > np.asarray(self.clip) / math.sqrt(3)
        if not drowned.any():
            return []
        return [_DROWNED]

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *(f"  {note}" for note in self.notes())])


def _total(values: NDArray[np.float64], count: int) -> float:
    return float(np.broadcast_to(values, (count,)).sum())
