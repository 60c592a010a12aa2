"""Many fits of one estimator, and whether what it claims of its errors is what happens.

A score is the number of standard deviations that an estimate is off by its own claim: a one-sided p-value at the
truth, as a standard normal variable. Where claims are exact, scores are standard normal. Where errors are claimed
too small, scores are too large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Numbers = NDArray[np.float64]
Draw = Callable[[np.random.Generator], tuple[Any, ...]]

FAR = 4.5
"""Standard deviations of a mean that chance exceeds with a probability of 7e-6."""
_LEAST, _MOST = 1e-12, 1 - 1e-12


def fits(made: Any, draw: Draw, count: int, seed: int = 0) -> Iterator[Any]:
    """Yield the estimator after each of many fits, on fresh rows with fresh noise. The plan is made once."""
    rng = np.random.default_rng(seed)
    made.random_state = rng
    plans: dict[tuple[int, ...], Any] = {}
    plan = type(made).plan

    def once(*sizes: int) -> Any:
        if sizes not in plans:
            plans[sizes] = plan(made, *sizes)
        return plans[sizes]

    made.plan = once
    for _ in range(count):
        yield made.fit(*draw(rng))


def scores(greater: Any) -> Numbers:
    """Return one-sided p-values at the truth as standard normal variables."""
    return np.asarray(-ndtri(np.clip(np.asarray(greater, dtype=np.float64), _LEAST, _MOST)))


def wrong(z: Any, least: float = 1.0, most: float = 1.0, off: float = 0.0) -> list[str]:
    """Return what is wrong with the scores of many fits, of shape (fits, statements).

    Parameters
    ----------
    least, most : float
        Between which the root mean square of scores lies: 1 where claims are exact; less where they are careful.
    off : float
        How far the mean of scores may be from 0.

    Notes
    -----
    Every statement and all together are compared, each with a false alarm's probability of 1e-5 at most, for scores
    that are normal.
    """
    z = np.asarray(z, dtype=np.float64)
    z = z.reshape(len(z), -1)
    found = []
    squares = z**2
    of_all = float(np.sqrt(squares.mean()))
    # Statements of one fit are dependent: the spread of its mean says by how much.
    room = FAR * float(squares.mean(axis=1).std()) / math.sqrt(len(z)) / (2 * of_all)
    if not least - room <= of_all <= most + room:
        found.append(f"all: errors are {of_all:.3f} times what is claimed, and chance makes {room:.3f}")
    for j, column in enumerate(z.T):
        own = math.sqrt(float((column**2).mean()))
        room = FAR * float((column**2).std()) / math.sqrt(len(z)) / (2 * own)
        if not least - room <= own <= most + room:
            found.append(f"statement {j}: errors are {own:.3f} times what is claimed, and chance makes {room:.3f}")
        shift, chance = float(column.mean()), FAR * own / math.sqrt(len(z))
        if abs(shift) > off + chance:
            found.append(f"statement {j}: scores are {shift:.3f} on average, and chance makes {chance:.3f}")
    return found


@dataclass(frozen=True)
class Cell:
    """One estimator on rows of one kind, and what is asked of every fit.

    Attributes
    ----------
    name : str
    make : callable
        Returns the estimator.
    draw : callable
        Returns what a fit is given, from a generator: fresh rows, or the same ones every time.
    ask : callable
        Returns the scores of a fit, of the same shape every time.
    count : int
        The number of fits.
    least, most, off : float
        As for `wrong`.
    power : float
        Claims of this part of the errors have to be noticed.
    """

    name: str
    make: Callable[[], Any]
    draw: Draw
    ask: Callable[[Any], Any]
    count: int
    least: float = 1.0
    most: float = 1.0
    off: float = 0.0
    power: float = 0.85

    def scores(self) -> Numbers:
        """Return the scores of all fits: shape (count, ...)."""
        return np.array([self.ask(fitted) for fitted in fits(self.make(), self.draw, self.count)])

    def wrong(self, z: Numbers) -> list[str]:
        """Return what is wrong with scores."""
        return wrong(z, self.least, self.most, self.off)


def check(cell: Cell) -> None:
    """Fail where errors are not as claimed, and where claims that are too small would pass."""
    z = cell.scores()
    assert cell.wrong(z) == []
    assert cell.wrong(z / cell.power), "the check has no power"


def wrong_rates(misses: Any, tail: float, least: float = 1.0) -> list[str]:
    """Return what is wrong with how often limits miss.

    Parameters
    ----------
    misses : array of bool, shape (fits, 2, statements)
        Whether lower and upper limits miss.
    tail : float
        The probability that each limit states.
    least : float
        The part of it that has to be reached: 1 where limits are exact.

    Notes
    -----
    Each side alone is compared for all statements together, and each statement of a side. Chance exceeds what it is
    allowed with a probability of 1e-5 at most.
    """
    rates = np.asarray(misses, dtype=float)
    rates = rates.reshape(len(rates), 2, -1)
    found = []
    for side, name in enumerate(("lower", "upper")):
        own = rates[:, side]
        for what, of_fit in (("all", own.mean(axis=1)), *enumerate(own.T)):
            seen = float(of_fit.mean())
            # Statements of one fit are dependent; rare misses leave no spread to estimate.
            alone = math.sqrt(tail * (1 - tail) / (own.size if what == "all" else len(own)))
            room = FAR * max(float(of_fit.std()) / math.sqrt(len(own)), alone)
            if not least * tail - room <= seen <= tail + room:
                found.append(f"{name} limit {what}: misses {seen:.3f}, states {tail:g}, and chance makes {room:.3f}")
    return found
