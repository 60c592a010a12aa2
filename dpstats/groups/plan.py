"""Plans for releases of totals whose ratios are means, in half-widths of declared bounds; and the plan of groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_real
from dpstats.lattice import BoxLattice
from dpstats.means.moments import finest
from dpstats.means.ratio import Noise
from dpstats.means.region import Region
from dpstats.means.totals import GaussianTotals, LaplaceTotals, calibrate_totals
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Discovery, JointStage

_EXAMPLE = 1000  # rows


class Totals(Protocol):
    """The noise of released totals."""

    def noise(self, stage: JointStage) -> Noise: ...


Of = TypeVar("Of", bound=Totals)


@dataclass(frozen=True)
class RatioPlan(ReleasePlan, Generic[Of]):
    """The plan of releasing sums whose ratios are means, with the public facts that the fit and its report use.

    Attributes
    ----------
    region : Region
        The declared bounds of the columns.
    lattice : BoxLattice
    totals : GaussianTotals, LaplaceTotals or UnitTotals
    missing : {"error", "drop"}
    """

    region: Region = field(repr=False, compare=False)
    lattice: BoxLattice = field(repr=False, compare=False)
    totals: Of
    missing: str

    @property
    def totals_noise(self) -> Noise:
        """The noise of the totals: see `Ratio` for their units."""
        (stage,) = self.stages
        sums = stage.touched if isinstance(stage, Discovery) else stage
        assert isinstance(sums, JointStage)
        return self.totals.noise(sums)

    @property
    def half(self) -> NDArray[np.float64]:
        """Half the width of the bounds of each column."""
        return np.full(self.n_features, self.region.clip, dtype=np.float64)

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *(f"  {note}" for note in self.notes())])


@dataclass(frozen=True)
class GroupMeansPlan(RatioPlan[GaussianTotals | LaplaceTotals]):
    """The plan of a `GroupMeans`.

    Attributes
    ----------
    region, lattice, totals, missing
        As for `RatioPlan`.
    groups : tuple
        The declared groups.
    """

    groups: tuple[Any, ...]

    def mean_noise(self, n_rows: float) -> NDArray[np.float64]:
        """Return the standard deviation of the noise in the mean of a group of ``n_rows`` rows, in units of the data.

        For a mean in the middle of its bounds. At a bound, the noise of the count is added, which is about as large.
        """
        return self.half * self.totals_noise.total / check_real("n_rows", n_rows, above=0)

    def describe_noise(self, n_rows: float) -> str:
        """Return text about the noise of the mean of a group: in the middle of its bounds, and at a bound."""
        noise = self.totals_noise
        at_bound = self.mean_noise(n_rows) * np.hypot(1.0, noise.count / noise.total)
        middle, end = (
            ", ".join(f"{value:.3g}" for value in values[:6]) + ", ..." * (self.n_features > 6)
            for values in (self.mean_noise(n_rows), at_bound)
        )
        return f"noise of its mean {middle} ({end} at a bound)"

    def facts(self) -> dict[str, Any]:
        """Return facts about the plan that its stages do not show, by name."""
        return {"groups": [str(group) for group in self.groups]}

    def notes(self) -> list[str]:
        """Return the facts as text, one line each."""
        if self.n_planned is None:
            return [f"a group of {_EXAMPLE} rows: {self.describe_noise(_EXAMPLE)}"]
        each = self.n_planned / len(self.groups)
        enough = 2 * self.totals_noise.count
        found = [f"a group of n/{len(self.groups)} = {each:.6g} rows: {self.describe_noise(each)}"]
        if each < enough:
            found.append(
                f"warning: groups of fewer than {enough:.0f} rows cannot be distinguished from noise, and "
                f"n/{len(self.groups)} is fewer: their intervals will be the bounds (more rows, a larger epsilon, "
                "fewer columns or groups help)"
            )
        return found


def group_means_plan(
    groups: Sequence[Any],
    region: Region,
    n: int | None,
    d: int,
    epsilon: float,
    delta: float,
    missing: str,
    neighbors: Neighbors,
) -> GroupMeansPlan:
    """Return the plan of releasing the totals of declared groups of n rows."""

    def made(bits: int) -> GroupMeansPlan:
        lattice, totals, stages = calibrate_totals(region, len(groups), d, epsilon, delta, neighbors, bits)
        return GroupMeansPlan(
            stages,
            PrivacyGuarantee(epsilon, delta, neighbors),
            n,
            d,
            groups=tuple(groups),
            region=region,
            lattice=lattice,
            totals=totals,
            missing=missing,
        )

    return finest(made)
