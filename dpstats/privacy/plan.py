"""What will be released, at which noise, at which cost: public, and fixed before any data."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import DPStatsError, InvalidParameter
from dpstats.privacy.composition import common_neighbors
from dpstats.privacy.events import Event, as_event
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.totals import certifies, compose, covers
from dpstats.privacy.tradeoff import tradeoff_curve


@dataclass(frozen=True, slots=True)
class Stage:
    """One release of a plan: names and numbers only.

    Attributes
    ----------
    name : str
        What is released.
    noise : {"laplace", "gaussian"}
        The law of the noise: discrete, on the lattice of the release.
    size : int
        How many numbers are released.
    spacing : float or tuple of float
        The length of one step of the released numbers, in their units; one per number or common.
    sensitivity_steps : int
        Largest distance of the statistic between neighbouring datasets, in steps: l1 for
        Laplace noise, l2 for Gaussian noise.
    scale_steps : float
        Scale (Laplace) or standard deviation (Gaussian) of the noise, in steps.
    event : Event
        What an accountant sees.
    one_by_one : bool, default=False
        Whether sensitivity and event are those of each number, rather than of the vector: that many
        releases alike.
    """

    name: str
    noise: str
    size: int
    spacing: float | tuple[float, ...]
    sensitivity_steps: int
    scale_steps: float
    event: Event
    one_by_one: bool = False

    @property
    def events(self) -> tuple[Event, ...]:
        """All that an accountant sees."""
        return (self.event,) * (self.size if self.one_by_one else 1)

    @property
    def norm(self) -> str:
        """The norm of the sensitivity: "l1" or "l2"."""
        return "l1" if self.noise == "laplace" else "l2"

    @property
    def sensitivity(self) -> float | NDArray[np.float64]:
        """The sensitivity in the units of the release.

        With one spacing per column the steps are the common unit: entry j is the sensitivity in
        the units of column j, of the statistic with every column measured in its own steps.
        """
        return _scaled(self.spacing, self.sensitivity_steps)

    @property
    def noise_scale(self) -> float | NDArray[np.float64]:
        """Scale (Laplace) or standard deviation (Gaussian) of the noise, in the units of the release."""
        return _scaled(self.spacing, self.scale_steps)

    @property
    def noise_std(self) -> float | NDArray[np.float64]:
        """Standard deviation of the noise, in the units of the release."""
        return self.noise_scale * (2.0**0.5 if self.noise == "laplace" else 1.0)


@dataclass(frozen=True, slots=True)
class Selection:
    """Selections of a plan, each of one more candidate by noisy score: names and numbers only.

    Attributes
    ----------
    name : str
        What is selected.
    noise : {"laplace", "gumbel"}
        The law of the noise that is added to every score.
    size : int
        How many candidates are selected.
    spacing : float
        The length of one step of a score, in its units.
    sensitivity_steps : int
        Largest change of any score between neighbouring datasets, in steps.
    scale_steps : float
        Scale of the noise, in steps.
    event : Event
        What an accountant sees of each selection.
    """

    name: str
    noise: str
    size: int
    spacing: float
    sensitivity_steps: int
    scale_steps: float
    event: Event

    @property
    def events(self) -> tuple[Event, ...]:
        """All that an accountant sees."""
        return (self.event,) * self.size

    @property
    def noise_scale(self) -> float:
        """Scale of the noise, in the units of the scores."""
        return self.spacing * self.scale_steps


def _scaled(spacing: float | tuple[float, ...], factor: float) -> float | NDArray[np.float64]:
    return np.asarray(spacing) * factor if isinstance(spacing, tuple) else spacing * factor


@dataclass(frozen=True, slots=True)
class ReleaseCost:
    """What a budget is charged for: the events, and the guarantee that they are certified for."""

    events: tuple[Event, ...]
    guarantee: PrivacyGuarantee

    def __post_init__(self) -> None:
        if not self.events or not all(isinstance(event, Event) for event in self.events):
            raise InvalidParameter("events must be a non-empty tuple of events")
        if common_neighbors(self.events) is not self.guarantee.neighbors:
            raise InvalidParameter("events and guarantee must be for the same neighbouring relation")
        if not covers(self.events, self.guarantee):
            raise InvalidParameter(
                f"events cost more than the guarantee {self.guarantee} that is claimed for them"
            )


@dataclass(frozen=True)
class ReleasePlan:
    """Everything that a fit will release, and what it will cost; a function of public facts only.

    Attributes
    ----------
    stages : tuple of Stage
        In the order in which they are released.
    target : PrivacyGuarantee
        What was asked for.
    n_samples, n_features : int
        The public size of the data.
    selections : tuple of Selection
        Made before the stages, which are then about what was selected.
    disjoint : bool
        Whether selections and stages are about different rows, cut apart by their public positions: a
        row is in one part only, and the plan costs as much as the dearer part (docs/proofs/sparse-mean.md).
    """

    stages: tuple[Stage, ...]
    target: PrivacyGuarantee
    n_samples: int
    n_features: int
    selections: tuple[Selection, ...] = field(default=(), kw_only=True)
    disjoint: bool = field(default=False, kw_only=True)

    @property
    def events(self) -> tuple[Event, ...]:
        """All that is released, as an accountant sees it.

        Of parts that are about different rows it sees the guarantee that each of them is certified for.
        """
        selected = tuple(event for selection in self.selections for event in selection.events)
        staged = tuple(event for stage in self.stages for event in stage.events)
        if not self.disjoint:
            return selected + staged
        for part in (selected, staged):
            if not covers(part, self.target):
                raise _defect(compose(part, self.target.delta), self.target)
        return (as_event(self.target),)

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """The composed guarantee of all stages at the delta asked for.

        Calibration ends on the safe side of what was asked, by the part of delta that is set aside for
        discreteness. Where the curves certify what was asked, and the total is within a thousandth of
        it, that number is reported; never one below the proved total.
        """
        events = self.events
        composed = compose(events, self.target.delta)
        within = composed.epsilon <= self.target.epsilon and composed.neighbors is self.target.neighbors
        if within or certifies(events, self.target):
            return self.target if composed.epsilon >= self.target.epsilon * (1 - 1e-3) else composed
        raise _defect(composed, self.target)

    @property
    def cost(self) -> ReleaseCost:
        """What a budget is charged for this plan."""
        return ReleaseCost(self.events, self.guarantee)

    def explain(self) -> str:
        """Say in plain words what is released and what it means for one person.

        The power bound is that of the plan's own trade-off curve, which is below the one that
        (epsilon, delta) alone gives.
        """
        power = 1 - float(tradeoff_curve(self, 0.05))
        return (
            f"{self}\n{self.guarantee.explain()}\n"
            f"For these releases the power is in fact at most {100 * power:.1f}%."
        )

    def expected_error(self, std: float | NDArray[np.float64] | None = None) -> float:
        """Return the expected squared l2 error of the estimate; see the estimator's plan.

        Raises
        ------
        DPStatsError
            If there is no closed form for this plan.
        """
        raise DPStatsError(f"{type(self).__name__} has no closed form for its expected error")

    def __str__(self) -> str:
        lines = [f"Release plan for n = {self.n_samples}, d = {self.n_features}: {self.guarantee}"]
        for selection in self.selections:
            lines.append(
                f"  {selection.name}: {selection.size} of {self.n_features}, {selection.noise} noise of scale "
                f"{selection.noise_scale:.6g}"
            )
        for stage in self.stages:
            scale = np.atleast_1d(stage.noise_scale)
            spread = f"{scale.min():.6g}" if np.ptp(scale) == 0 else f"{scale.min():.6g} to {scale.max():.6g}"
            lines.append(f"  {stage.name}: {stage.size} numbers, {stage.noise} noise of scale {spread}")
        return "\n".join(lines)


def _defect(composed: PrivacyGuarantee, target: PrivacyGuarantee) -> DPStatsError:
    return DPStatsError(
        f"the plan's releases cost epsilon = {composed.epsilon!r} at delta = {composed.delta!r}, more than the "
        f"{target} asked for; this is a defect of dpstats and nothing was released"
    )
