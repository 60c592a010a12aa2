"""The selection of a sparse mean, one-shot Gumbel or peeling (algorithm 9.2.2), and the release of its columns.

Lengths are in units of a column's standard deviation, unless said otherwise. Proof: docs/proofs/sparse-mean.md.
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
from dpstats.privacy.stages import JointStage, Selection, Stage
from dpstats.release.session import Released

if TYPE_CHECKING:
    from dpstats.data.parameters import Columns

SUPPORT = "support"
"""The name of the selection in a plan, and of its release."""

LAST = "last stage"
"""The name of a stage that releases a mean, and with it squares."""

SQUARES = "mean squares about the center"


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
    private_spread: bool


class Parts(NamedTuple):
    """The plan of a kind of selection: the scores' lattice, the selection, and the release of its columns.

    With ``balls``, rows are clipped on the support, one ball for each stage. Without, each column is released from the
    scores' lattice. Without a selection every column is released, and ``weakest`` has the signals that are found.
    """

    lattice: BoxLattice | None
    selection: Selection | None
    balls: tuple[BallLattice, ...]
    stages: tuple[Stage | JointStage, ...]
    weakest: Mapping[str, float] | None = None


@dataclass
class RunningMean:
    """The average of the stages so far: the center of the next stage, which releases a shift from it."""

    value: NDArray[np.float64]
    precision: float = 0.0

    def include(self, noise_std: float, shift: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the answer of a stage with this noise, and average it with those before."""
        answer = self.value + shift
        weight = noise_std**-2
        self.value = (self.precision * self.value + weight * answer) / (self.precision + weight)
        self.precision += weight
        return answer


class Report(NamedTuple):
    """The release for the selected columns, in the units of the data except for ``shift`` and ``squares``."""

    support: NDArray[np.intp]  # (n_nonzero,): positions of the columns
    mean: NDArray[np.float64]  # (n_nonzero,): the average of the stages' answers
    last: NDArray[np.float64]  # (n_nonzero,): the answer of the last stage
    # Shape (k,). The same of all columns that were released, about the center of that stage; in standard
    # deviations where rows are standardized.
    shift: NDArray[np.float64]
    # Shape (k,). Mean squares of these columns about that center, if the standard deviation is private.
    squares: NDArray[np.float64] | None
    kept: NDArray[np.intp]  # (n_nonzero,): the places of the selected columns among those that were released


@dataclass(frozen=True)
class SparseMeanPlan(ReleasePlan):
    """The plan of a `SparseMean`, with the public facts that the fit and its report use."""

    lattice: BoxLattice | None = field(repr=False, compare=False)
    balls: tuple[BallLattice, ...] = field(repr=False, compare=False)
    n_nonzero: int
    # How many rows the estimate is from: all of them, or the second half.
    n_release: int
    # The public bound: ``std``, or ``std_bound`` if the standard deviation is private.
    std: float | tuple[float, ...]
    private_spread: bool
    max_signal: float
    # Mean over standard deviation from which at least 95 in 100 normal columns are selected.
    selection_threshold: float
    # The same of any columns whose standard deviation is at most ``std``, however skewed; infinity where
    # clipping could hide every mean.
    selection_threshold_any: float
    missing: str

    @property
    def everything(self) -> bool:
        """Whether every column is released, and the largest are kept: no selection is paid for."""
        return not self.selections

    @property
    def means(self) -> tuple[str, ...]:
        """The names under which means are released, stage after stage."""
        return tuple(
            stage.blocks[0].name if isinstance(stage, JointStage) else stage.name
            for stage in self.stages
            if not isinstance(stage, Selection)
        )

    @property
    def noise_stds(self) -> tuple[float, ...]:
        """Standard deviation of the noise of every stage's mean, in the units of `noise_scale`."""
        return tuple(float(self.noise(name).std) for name in self.means)

    @property
    def law(self) -> str:
        """The distribution of the noise of the means."""
        return self.noise(self.means[0]).law

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weight of each stage in the estimate: proportional to its inverse variance."""
        precision = np.array(self.noise_stds) ** -2
        result: NDArray[np.float64] = precision / precision.sum()
        return result

    @property
    def noise_scale(self) -> float:
        """Standard deviation (Gaussian) or scale (Laplace) of the noise of a selected column.

        In the units of the data; where ``std`` is an array and rows are standardized, in standard deviations.
        """
        return float(sum(float(self.noise(name).scale) ** -2 for name in self.means) ** -0.5)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise of a selected column."""
        return self.noise_scale * (math.sqrt(2) if self.law == "laplace" else 1.0)

    @property
    def scales(self) -> NDArray[np.float64] | None:
        """The divisors of standardized rows: the standard deviations, if these are an array."""
        return np.asarray(self.std) if isinstance(self.std, tuple) and self.balls else None

    def report(self, released: Released) -> Report:
        """Return the release, with the selected columns in order."""
        shifts = [item[name] for name, item in zip(self.means, self._mean_releases(released), strict=True)]
        chosen = np.arange(self.n_features) if self.everything else np.sort(released[SUPPORT])
        if self.balls:
            average = RunningMean(np.zeros(np.shape(shifts[0])))
            unit = 1.0 if self.scales is None else self.scales[chosen]
            answers = [
                average.include(noise, shift) * unit
                for noise, shift in zip(self.noise_stds, shifts, strict=True)
            ]
        else:
            answers = shifts
        means = np.asarray(self.weights @ np.array(answers))
        kept = np.arange(chosen.size)
        if self.everything:
            size = np.abs(means) / np.asarray(self.std)
            kept = np.sort(np.argsort(-size, kind="stable")[: self.n_nonzero])
        squares = released[LAST][SQUARES] if self.private_spread else None
        return Report(chosen[kept], means[kept], answers[-1][kept], shifts[-1], squares, kept)

    def _mean_releases(self, released: Released) -> list[Mapping[str, NDArray[np.float64]]]:
        """Return the release of every stage, by the names of its parts."""
        found = [released[stage.name] for stage in self.stages if not isinstance(stage, Selection)]
        return [
            item if isinstance(item, Mapping) else {name: item}
            for name, item in zip(self.means, found, strict=True)
        ]

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
        """Describe the signals that are found, for normal and for any columns."""
        if self.n_nonzero == self.n_features:
            return ["every column is kept"]
        normal, worst = self.selection_threshold, self.selection_threshold_any
        if worst > self.max_signal:
            return [
                f"signals above about {normal:.2g} std are found in normal columns; in skewed ones none surely"
            ]
        return [f"signals above about {normal:.2g} std are found in normal columns, above {worst:.2g} in any"]

    def selection_words(self) -> str:
        """Describe the selection of the columns."""
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
