"""Randomized response of every row, and random numbers that depend on no row: coins and a secret order."""

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
    """Randomized response: every row keeps its answer with a public probability, otherwise another is drawn uniformly.

    Attributes
    ----------
    name : str
        Name of the stage.
    n_categories : int
        Answers are 0, ..., n_categories - 1.
    keep_grains : int
        The probability to keep an answer, in multiples of ``1/GRAIN``.
    neighbors
        The same as in `Stage`. Rows answer independently, so all rows together have the cost of one row.
    part : str, default=""
        The same as in `Stage`.

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
        """Event for the accountant: randomized response is exactly the worst pure release."""
        kept = self.keep_grains * (self.n_categories - 1)
        return Pure(log_up(Fraction(kept, self.GRAIN - self.keep_grains)), neighbors=self.neighbors)

    @property
    def events(self) -> tuple[Event, ...]:
        """Events of the stage for the accountant."""
        return (self.event,)

    @property
    def keep_probability(self) -> float:
        """Probability of keeping an answer."""
        return self.keep_grains / self.GRAIN

    def facts(self) -> dict[str, Any]:
        """Return the facts of the stage, by name."""
        return {"name": self.name, "noise": self.noise, "keep_probability": self.keep_probability}

    def describe(self, n_candidates: int | None = None) -> str:
        """Return the line of the stage in a printed plan."""
        return f"{self.name}: one response a row, kept with probability {self.keep_probability:.6g}"


@dataclass(frozen=True, slots=True)
class Coins:
    """Uniform random signs of an algorithm. They depend on no row and have no privacy cost.

    Attributes
    ----------
    name : str
        Name of the stage.
    shape : tuple of int
        Shape of the array of signs.
    released : bool, default=False
        Whether the report gets the signs, as in a randomized test. Otherwise they are private.
    part : str, default=""
        The same as in `Stage`.

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
        """Return the facts of the stage, by name."""
        return {"name": self.name, "noise": self.noise, "size": math.prod(self.shape)}

    def describe(self, n_candidates: int | None = None) -> str:
        """Return the line of the stage in a printed plan."""
        return f"{self.name}: {math.prod(self.shape)} {'coins' if self.released else 'private coins, not released'}"


@dataclass(frozen=True, slots=True)
class Shuffle:
    """A secret uniform order of ``size`` items. It depends on no row and has no privacy cost.

    Attributes
    ----------
    name : str
        Name of the stage.
    size : int
        Number of items.
    part : str, default=""
        The same as in `Stage`.

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
        """Return the facts of the stage, by name."""
        return {"name": self.name, "noise": self.noise, "size": self.size}

    def describe(self, n_candidates: int | None = None) -> str:
        """Return the line of the stage in a printed plan."""
        return f"{self.name}: a uniform order of {self.size:,}, not released"
