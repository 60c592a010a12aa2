"""A stream of values that are compared with a noisy threshold."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from dpstats.privacy.events import Event, Pure
from dpstats.privacy.guarantee import Neighbors
from dpstats.privacy.rounding import up
from dpstats.privacy.stages.additive import Stage
from dpstats.privacy.stages.costs import check_counts


@dataclass(frozen=True, slots=True)
class Comparisons:
    """A stream of values compared with a noisy threshold, until as many as stated have been above.

    Attributes
    ----------
    name : str
    spacing : float
        The length of one step of a value, in its units.
    sensitivity_steps : int
        Largest change of any value between neighboring datasets, in steps.
    threshold_steps : int
        The public threshold, in steps.
    threshold_scale_steps, question_scale_steps : float
        Scales of the Laplace noise of the threshold and of every question.
    max_above : int
        The stream ends with this many answers above.
    answer_scale_steps : float, optional
        Scale of the noise of a value that is released, which it is if above; None: none is.
    redrawn : bool, default=True
        Whether the noise of the threshold is redrawn after each answer above it, or drawn once for the whole stream.
    answer_noise : {"laplace", "gaussian"}, default="laplace"
        Distribution of the noise of a released value.
    neighbors : Neighbors, default=Neighbors.REPLACE_ONE
    part : str, default=""
        The same as in `Stage`.

    Examples
    --------
    >>> from dpstats.mechanisms import SparseVector
    >>> (stage,) = SparseVector(100.0, 1.0, max_above=3).plan.stages
    >>> stage.max_above, round(stage.threshold_scale_steps * stage.spacing, 6)
    (3, 6.0)
    """

    name: str
    spacing: float
    sensitivity_steps: int
    threshold_steps: int
    threshold_scale_steps: float
    question_scale_steps: float
    max_above: int
    answer_scale_steps: float | None = None
    neighbors: Neighbors = field(default=Neighbors.REPLACE_ONE, kw_only=True)
    part: str = field(default="", kw_only=True)
    redrawn: bool = field(default=True, kw_only=True)
    answer_noise: str = field(default="laplace", kw_only=True)

    noise: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        check_counts(max_above=self.max_above)

    @property
    def event(self) -> Event:
        """What an accountant sees of one noisy threshold, with every answer above that it gives."""
        # The threshold moves by one sensitivity, a question that is above by two (docs/proofs/sparse-vector.md).
        steps = self.sensitivity_steps
        above = 1 if self.redrawn else self.max_above
        cost = Fraction(steps) / Fraction(self.threshold_scale_steps)
        cost += Fraction(2 * above * steps) / Fraction(self.question_scale_steps)
        return Pure(up(cost), neighbors=self.neighbors)

    @property
    def events(self) -> tuple[Event, ...]:
        """All that an accountant sees of a whole stream, however long."""
        comparisons = (self.event,) * (self.max_above if self.redrawn else 1)
        if self.answer_scale_steps is None:
            return comparisons
        value = Stage(
            self.name,
            self.answer_noise,
            1,
            self.spacing,
            self.sensitivity_steps,
            self.answer_scale_steps,
            neighbors=self.neighbors,
        )
        return comparisons + value.events * self.max_above

    def facts(self) -> dict[str, Any]:
        """Return the facts of the stage, by name."""
        scales = (self.threshold_scale_steps * self.spacing, self.question_scale_steps * self.spacing)
        return {"name": self.name, "noise": self.noise, "max_above": self.max_above, "noise_scale": [*scales]}

    def describe(self, n_candidates: int | None = None) -> str:
        """Return the line of the stage in a printed plan."""
        scales = (self.threshold_scale_steps * self.spacing, self.question_scale_steps * self.spacing)
        return (
            f"{self.name}: up to {self.max_above} above, Laplace noise of scale {scales[0]:.6g} on the threshold and "
            f"{scales[1]:.6g} on a question"
        )
