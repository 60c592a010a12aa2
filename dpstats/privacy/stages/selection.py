"""Selection of the best candidates by noisy score, and of integers by their utility."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from dpstats.errors import refuse
from dpstats.privacy.events import BoundedRange, Event, Pure
from dpstats.privacy.guarantee import Neighbors
from dpstats.privacy.rounding import quotient_up
from dpstats.privacy.stages.additive import name_noise
from dpstats.privacy.stages.costs import check_counts


@dataclass(frozen=True, slots=True)
class Selection:
    """The best candidates by noisy score.

    Attributes
    ----------
    name : str
        Name of the selected candidates.
    noise : {"laplace", "exponential", "gumbel"}
        Distribution of the noise on every score. "exponential" is one-sided.
    size : int
        Number of selected candidates. Each has the same cost.
    spacing : float
        The length of one step of a score, in its units.
    sensitivity_steps : int
        Largest change of any score between neighboring datasets, in steps.
    scale_steps : float
        Scale of the noise, in steps.
    neighbors, part
        The same as in `Stage`.
    candidates : int, optional
        Number of candidates. None: the number of given scores.
    times : int, default=1
        Number of draws of the noise: one draw for all selected candidates, or a new draw for each (peeling).
    monotone : bool, default=False
        Whether a row changes all scores in the same direction, which halves the cost.

    Examples
    --------
    >>> from dpstats.mechanisms import ReportNoisyMax
    >>> (stage,) = ReportNoisyMax(1.0, 0.5, noise="gumbel").plan.stages
    >>> stage.noise, stage.size
    ('gumbel', 1)
    """

    name: str
    noise: str
    size: int
    spacing: float
    sensitivity_steps: int
    scale_steps: float
    neighbors: Neighbors = field(default=Neighbors.REPLACE_ONE, kw_only=True)
    part: str = field(default="", kw_only=True)
    candidates: int | None = field(default=None, kw_only=True)
    times: int = field(default=1, kw_only=True)
    monotone: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        check_counts(size=self.size, times=self.times)
        # Several selections can share one draw of Gumbel noise only: it has the same distribution as repeated draws.
        if self.times not in (1, self.size) or (self.noise != "gumbel" and self.times != self.size):
            raise refuse(
                "times",
                given=self.times,
                allowed=f"{self.size} (new noise for each selection), or 1 for Gumbel noise",
            )

    @property
    def event(self) -> Event:
        """Event for each selected candidate."""
        cost = quotient_up((1 if self.monotone else 2) * self.sensitivity_steps, self.scale_steps)
        return (BoundedRange if self.noise == "gumbel" else Pure)(cost, neighbors=self.neighbors)

    @property
    def events(self) -> tuple[Event, ...]:
        """Events of the stage for the accountant."""
        return (self.event,) * self.size

    @property
    def noise_scale(self) -> float:
        """Scale of the noise, in the units of the scores."""
        return self.spacing * self.scale_steps

    def facts(self) -> dict[str, Any]:
        """Return the facts of the stage, by name."""
        return {"name": self.name, "noise": self.noise, "size": self.size, "noise_scale": self.noise_scale}

    def describe(self, n_candidates: int | None = None) -> str:
        """Return the line of the stage in a printed plan."""
        among = self.candidates or n_candidates
        among_words = "" if among is None else f" of {among}"
        return f"{self.name}: {self.size}{among_words}, {name_noise(self.noise)} noise of scale {self.noise_scale:.6g}"


@dataclass(frozen=True, slots=True)
class Choice:
    """Integers chosen by their utility, among more candidates than can be listed.

    The probability of a candidate is proportional to e^(utility/scale): the exponential mechanism.

    Attributes
    ----------
    name : str
        Name of the chosen numbers.
    size : int
        Number of chosen numbers.
    per_key : bool, default=False
        If True, ``size`` numbers are chosen for each key that an earlier release found.
    range_steps : int
        Largest change, by one row, of the difference between the utilities of two candidates, in steps.
    scale_steps : float
        Difference of utilities, in steps, that makes a candidate e times as likely.
    candidates : int
        Number of candidates for each number.
    neighbors, part
        The same as in `Stage`.
    words : str
        What `describe` prints behind the name, with fields ``size``, ``candidates`` and ``scale``.

    Examples
    --------
    >>> from dpstats.quantiles import PrivateQuantile
    >>> (stage,) = PrivateQuantile(0.5, bounds=(0, 100), epsilon=1.0).plan(1000).stages
    >>> stage.size, stage.noise
    (2, 'exponential mechanism')
    """

    name: str
    size: int
    range_steps: int
    scale_steps: float
    candidates: int
    neighbors: Neighbors = field(default=Neighbors.REPLACE_ONE, kw_only=True)
    part: str = field(default="", kw_only=True)
    per_key: bool = field(default=False, kw_only=True)
    words: str = field(
        default="{size} of {candidates:,} points, exponential mechanism of scale {scale:.6g} in ranks",
        kw_only=True,
    )

    noise: ClassVar[str] = "exponential mechanism"

    def __post_init__(self) -> None:
        check_counts(size=self.size, range_steps=self.range_steps, candidates=self.candidates)

    @property
    def event(self) -> Event:
        """Event for the accountant: the range of the changes of log-probabilities."""
        return BoundedRange(quotient_up(self.range_steps, self.scale_steps), neighbors=self.neighbors)

    @property
    def events(self) -> tuple[Event, ...]:
        """Events of the stage for the accountant."""
        return (self.event,)

    def facts(self) -> dict[str, Any]:
        """Return the facts of the stage, by name."""
        return {
            "name": self.name,
            "noise": self.noise,
            "size": self.size,
            "candidates": self.candidates,
            "scale": self.scale_steps,
        }

    def describe(self, n_candidates: int | None = None) -> str:
        """Return the line of the stage in a printed plan."""
        words = self.words.format(size=self.size, candidates=self.candidates, scale=self.scale_steps)
        words += " of each key that was found" * self.per_key
        return f"{self.name}: {words}"
