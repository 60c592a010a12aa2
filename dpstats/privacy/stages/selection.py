"""The best of candidates by noisy score, and whole numbers chosen by their utility."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from dpstats.errors import InvalidParameter
from dpstats.privacy.events import BoundedRange, Event, Pure
from dpstats.privacy.guarantee import Neighbors
from dpstats.privacy.rounding import quotient_up
from dpstats.privacy.stages.costs import check_counts


@dataclass(frozen=True, slots=True)
class Selection:
    """The best candidates by noisy score.

    Attributes
    ----------
    name : str
        What is selected.
    noise : {"laplace", "exponential", "gumbel"}
        The law of the noise that is added to every score; "exponential" is one-sided.
    size : int
        How many candidates are selected; each costs the same.
    spacing : float
        The length of one step of a score, in its units.
    sensitivity_steps : int
        Largest change of any score between neighbouring datasets, in steps.
    scale_steps : float
        Scale of the noise, in steps.
    neighbors, part
        As for `Stage`.
    candidates : int, optional
        How many there are to select from; None is as many as are given.
    times : int, default=1
        How often noise is drawn: once for all that are selected, or anew for each (peeling).
    monotone : bool, default=False
        Whether a row moves all scores the same way, which halves the cost.

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
        # Only Gumbel noise serves several selections at once: its one draw has the law of as many new ones.
        if self.times not in (1, self.size) or (self.noise != "gumbel" and self.times != self.size):
            raise InvalidParameter(
                f"times must be {self.size} (new noise for each selection), or 1 for Gumbel noise, got {self.times}"
            )

    @property
    def event(self) -> Event:
        """What an accountant sees of each that is selected."""
        cost = quotient_up((1 if self.monotone else 2) * self.sensitivity_steps, self.scale_steps)
        return (BoundedRange if self.noise == "gumbel" else Pure)(cost, neighbors=self.neighbors)

    @property
    def events(self) -> tuple[Event, ...]:
        """All that an accountant sees."""
        return (self.event,) * self.size

    @property
    def noise_scale(self) -> float:
        """Scale of the noise, in the units of the scores."""
        return self.spacing * self.scale_steps

    def facts(self) -> dict[str, Any]:
        """Return what a reader of the plan has to know, by name."""
        return {"name": self.name, "noise": self.noise, "size": self.size, "noise_scale": self.noise_scale}

    def describe(self, n_candidates: int | None = None) -> str:
        """Return a line of a plan as it is printed."""
        among = self.candidates or n_candidates
        among_words = "" if among is None else f" of {among}"
        return f"{self.name}: {self.size}{among_words}, {self.noise} noise of scale {self.noise_scale:.6g}"


@dataclass(frozen=True, slots=True)
class Choice:
    """Whole numbers chosen by their utility, among more candidates than could be listed.

    The probability of a candidate is proportional to e^(utility/scale): the exponential mechanism.

    Attributes
    ----------
    name : str
        What is chosen.
    size : int
        How many numbers.
    range_steps : int
        By how much more a row can raise the utility of one candidate than of another, in steps.
    scale_steps : float
        By how many steps of utility a candidate has to be better to be e times as likely.
    candidates : int
        How many places each number can have.
    neighbors, part
        As for `Stage`.
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
    words: str = field(
        default="{size} of {candidates:,} points, exponential mechanism of scale {scale:.6g} in ranks",
        kw_only=True,
    )

    noise: ClassVar[str] = "exponential mechanism"

    def __post_init__(self) -> None:
        check_counts(size=self.size, range_steps=self.range_steps, candidates=self.candidates)

    @property
    def event(self) -> Event:
        """What an accountant sees: log-probabilities move within this range."""
        return BoundedRange(quotient_up(self.range_steps, self.scale_steps), neighbors=self.neighbors)

    @property
    def events(self) -> tuple[Event, ...]:
        """All that an accountant sees."""
        return (self.event,)

    def facts(self) -> dict[str, Any]:
        """Return what a reader of the plan has to know, by name."""
        return {
            "name": self.name,
            "noise": self.noise,
            "size": self.size,
            "candidates": self.candidates,
            "scale": self.scale_steps,
        }

    def describe(self, n_candidates: int | None = None) -> str:
        """Return a line of a plan as it is printed."""
        words = self.words.format(size=self.size, candidates=self.candidates, scale=self.scale_steps)
        return f"{self.name}: {words}"
