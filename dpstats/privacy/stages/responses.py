"""What is drawn for every row, or for none: randomized response, coins, and a secret order."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from dpstats.privacy.events import Event, Pure
from dpstats.privacy.guarantee import Neighbors
from dpstats.privacy.stages.costs import log_up


@dataclass(frozen=True, slots=True)
class Responses:
    """Every row's own answer, kept with a public probability, else another one at random.

    Attributes
    ----------
    name : str
    n_categories : int
        Answers are 0, ..., n_categories - 1.
    keep_grains : int
        The probability to keep an answer, in multiples of ``1/GRAIN``.
    neighbors
        As for `Stage`. Rows answer apart, so that all of them cost what one does.

    Examples
    --------
    >>> from dpstats.mechanisms import RandomizedResponse
    >>> (stage,) = RandomizedResponse(1.0).plan.stages
    >>> stage.n_categories, round(stage.keep_grains / stage.GRAIN, 4)  # kept with e/(1 + e)
    (2, 0.7311)
    """

    name: str
    n_categories: int
    keep_grains: int
    neighbors: Neighbors = field(default=Neighbors.REPLACE_ONE, kw_only=True)
    part: str = field(default="", kw_only=True)

    noise: ClassVar[str] = "randomized response"
    GRAIN: ClassVar[int] = 2**62

    @property
    def event(self) -> Event:
        """What an accountant sees: randomized response is the worst pure release, exactly."""
        kept = self.keep_grains * (self.n_categories - 1)
        return Pure(log_up(Fraction(kept, self.GRAIN - self.keep_grains)), neighbors=self.neighbors)

    @property
    def events(self) -> tuple[Event, ...]:
        """All that an accountant sees."""
        return (self.event,)

    @property
    def keep_probability(self) -> float:
        """The probability that an answer is kept."""
        return self.keep_grains / self.GRAIN

    def facts(self) -> dict[str, Any]:
        """Return what a reader of the plan has to know, by name."""
        return {"name": self.name, "noise": self.noise, "keep_probability": self.keep_probability}

    def describe(self, n_candidates: int | None = None) -> str:
        """Return a line of a plan as it is printed."""
        return f"{self.name}: one response a row, kept with probability {self.keep_probability:.6g}"


@dataclass(frozen=True, slots=True)
class Coins:
    """Uniform signs that an algorithm tosses; they depend on no row and cost nothing.

    Attributes
    ----------
    name : str
    shape : tuple of int
    released : bool, default=False
        Whether a report is given them, as that of a randomised test is; else they are private.

    Examples
    --------
    >>> from dpstats.privacy import Coins
    >>> Coins("signs", (100,)).events
    ()
    """

    name: str
    shape: tuple[int, ...]
    released: bool = field(default=False, kw_only=True)
    part: str = field(default="", kw_only=True)

    noise: ClassVar[str] = "coins"

    @property
    def events(self) -> tuple[Event, ...]:
        """Nothing: coins depend on no row."""
        return ()

    def facts(self) -> dict[str, Any]:
        """Return what a reader of the plan has to know, by name."""
        return {"name": self.name, "noise": self.noise, "size": math.prod(self.shape)}

    def describe(self, n_candidates: int | None = None) -> str:
        """Return a line of a plan as it is printed."""
        return f"{self.name}: {math.prod(self.shape)} {'coins' if self.released else 'private coins, not released'}"


@dataclass(frozen=True, slots=True)
class Shuffle:
    """A uniform order of so many things that nobody is told; it depends on no row and costs nothing.

    Attributes
    ----------
    name : str
    size : int

    Examples
    --------
    >>> from dpstats.privacy import Shuffle
    >>> Shuffle("order of the rows", 100).events
    ()
    """

    name: str
    size: int
    part: str = field(default="", kw_only=True)

    noise: ClassVar[str] = "shuffle"

    @property
    def events(self) -> tuple[Event, ...]:
        """Nothing: the order depends on no row."""
        return ()

    def facts(self) -> dict[str, Any]:
        """Return what a reader of the plan has to know, by name."""
        return {"name": self.name, "noise": self.noise, "size": self.size}

    def describe(self, n_candidates: int | None = None) -> str:
        """Return a line of a plan as it is printed."""
        return f"{self.name}: a uniform order of {self.size:,}, not released"
