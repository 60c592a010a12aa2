"""What a sparse mean can know before any data: its plan, and the weakest signal that it will find.

Public facts in, public numbers out. Lengths are in units of a column's standard deviation, unless
said otherwise. Proof: docs/proofs/sparse-mean.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_columns
from dpstats.lattice import BallLattice, BoxLattice
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Selection, Stage
from dpstats.release.session import Released

if TYPE_CHECKING:
    from dpstats.data.parameters import Columns

SUPPORT = "support"
"""The name of the selection in a plan, and of what it released."""


@dataclass(frozen=True)
class Setting:
    """The public facts that every kind of selection plans from, checked."""

    n_select: int
    n_release: int
    n_features: int
    n_nonzero: int
    std: Columns
    max_signal: float
    target: PrivacyGuarantee
    split: bool


class Parts(NamedTuple):
    """What a kind of selection plans: the scores' lattice, the selection, and the release of its columns.

    With ``balls``, rows are clipped on the support, one ball for each stage; without, each column is released
    from the scores' lattice. Without a selection every column is released, and ``weakest`` says what is found.
    """

    lattice: BoxLattice | None
    selection: Selection | None
    balls: tuple[BallLattice, ...]
    stages: tuple[Stage, ...]
    weakest: Mapping[str, float] | None = None


@dataclass
class RunningMean:
    """What the stages so far say about a mean: every stage is about it, and answers with a shift."""

    value: NDArray[np.float64]
    precision: float = 0.0

    def include(self, stage: Stage, shift: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a stage's answer, and average it with those before."""
        answer = self.value + shift
        weight = float(stage.noise_std) ** -2
        self.value = (self.precision * self.value + weight * answer) / (self.precision + weight)
        self.precision += weight
        return answer


@dataclass(frozen=True)
class SparseMeanPlan(ReleasePlan):
    """The plan of a `SparseMean`, with the public facts that the fit and its report go by.

    Attributes
    ----------
    n_nonzero : int
    n_release : int
        How many rows the estimate is from: all of them, or the second half.
    std : float or tuple of float
    max_signal : float
    selection_threshold : float
        Mean over standard deviation from which at least 95 in 100 normal columns are selected.
    selection_threshold_any : float
        The same of any columns whose standard deviation is at most ``std``, however skewed; infinity where clipping
        could hide every mean.
    """

    lattice: BoxLattice | None = field(repr=False, compare=False)
    balls: tuple[BallLattice, ...] = field(repr=False, compare=False)
    n_nonzero: int
    n_release: int
    std: float | tuple[float, ...]
    max_signal: float
    selection_threshold: float
    selection_threshold_any: float
    missing: str

    @property
    def everything(self) -> bool:
        """Whether every column is released, and the largest are kept: no selection is paid for."""
        return not self.selections

    @property
    def weights(self) -> NDArray[np.float64]:
        """What each stage counts in the estimate: by its inverse variance."""
        precision = np.array([float(stage.noise_std) ** -2 for stage in self.additive])
        result: NDArray[np.float64] = precision / precision.sum()
        return result

    @property
    def noise_scale(self) -> float:
        """Standard deviation (Gaussian) or scale (Laplace) of the noise of a selected column.

        In the units of the data; where ``std`` is an array and rows are standardised, in standard deviations.
        """
        return float(sum(float(stage.noise_scale) ** -2 for stage in self.additive)) ** -0.5

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise of a selected column."""
        return self.noise_scale * (math.sqrt(2) if self.additive[0].noise == "laplace" else 1.0)

    @property
    def scales(self) -> NDArray[np.float64] | None:
        """By what rows are divided: the standard deviations, where these are an array and rows are standardised."""
        return np.asarray(self.std) if isinstance(self.std, tuple) and self.balls else None

    def support(self, released: Released) -> NDArray[np.intp]:
        """Return the columns that were selected, or whose released means are largest, in increasing order."""
        if not self.everything:
            return np.sort(np.asarray(released[SUPPORT]))
        size = np.abs(self._released_means(released)) / np.asarray(self.std)
        return np.sort(np.argsort(-size, kind="stable")[: self.n_nonzero])

    def estimate(self, support: NDArray[np.intp], released: Released) -> NDArray[np.float64]:
        """Return the estimate of the selected columns' means: the stages' answers, by their weights."""
        means = self._released_means(released)
        return means[support] if self.everything else means

    def _released_means(self, released: Released) -> NDArray[np.float64]:
        """Return the estimates of all columns that were released."""
        if not self.balls:
            answers = [released[stage.name] for stage in self.additive]
        else:
            shifts = [released[stage.name] for stage in self.additive]
            average = RunningMean(np.zeros(np.shape(shifts[0])))
            unit = np.asarray(1.0 if self.scales is None else self.scales)
            if unit.ndim and not self.everything:
                unit = unit[np.sort(released[SUPPORT])]
            answers = [
                average.include(stage, shift) * unit
                for stage, shift in zip(self.additive, shifts, strict=True)
            ]
        result: NDArray[np.float64] = sum(
            weight * answer for weight, answer in zip(self.weights, answers, strict=True)
        )
        return result

    @property
    def finds_signals(self) -> bool:
        """Whether a signal of ``max_signal`` is nearly surely selected."""
        return self.selection_threshold <= self.max_signal

    def expected_error(self, std: float | NDArray[np.float64] | None = None) -> float:
        """Return the expected squared l2 error where the right columns are selected and no row is clipped.

        Sampling error and noise of ``n_nonzero`` columns; of those with the largest ``std`` where it is an array.
        """
        spread = self.std if std is None else check_columns("std", std, self.n_features, at_least=0)
        largest = np.sort(np.broadcast_to(spread, (self.n_features,)))[-self.n_nonzero :]
        unit = 1.0 if self.scales is None else np.sort(self.scales)[-self.n_nonzero :]
        return float(
            np.sum(largest**2 / self.n_release + (self.noise_std * unit) ** 2 * np.ones(largest.size))
        )

    def __str__(self) -> str:
        lines = [super().__str__(), *(f"  {line}" for line in self.findings())]
        if not self.finds_signals:
            lines.append(f"  warning: {self.warning()}")
        return "\n".join(lines)

    def findings(self) -> list[str]:
        """Return which signals are found, in which columns, in words."""
        if self.n_nonzero == self.n_features:
            return ["every column is kept"]
        normal, worst = self.selection_threshold, self.selection_threshold_any
        if worst > self.max_signal:
            return [
                f"signals above about {normal:.2g} std are found in normal columns; in skewed ones none surely"
            ]
        return [f"signals above about {normal:.2g} std are found in normal columns, above {worst:.2g} in any"]

    def selection_words(self) -> str:
        """Return how columns are selected, in words."""
        if self.everything:
            return f"{self.n_nonzero} columns, the largest of all means released"
        return f"{self.n_nonzero} columns, {self.selections[0].noise} noise"

    def found_if_above(self) -> list[tuple[str, str]]:
        """Return the facts of a summary about the signals that are found."""
        normal, worst = f"{self.selection_threshold:.2g} std", f"{self.selection_threshold_any:.2g} std"
        if self.selection_threshold_any > self.max_signal:
            worst = f"no mean of up to {self.max_signal:g} std surely"
        return [("Found if above", f"{normal}, about, in normal columns"), ("  in skewed columns", worst)]

    def warning(self) -> str:
        """Return why the selection may find nothing."""
        return (
            f"no signal of up to max_signal = {self.max_signal:g} std is sure to be found (needed: about "
            f"{self.selection_threshold:.2g}); the selection may be mostly noise"
        )
