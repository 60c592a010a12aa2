"""Laws of rows whose means and variances, clipped or not, are known exactly.

What an interval has to cover comes from tail integrals of the column's law, in closed form or by quadrature,
never from simulated rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, special, stats
from scipy.signal import fftconvolve

Numbers = NDArray[np.float64]
Atoms = tuple[Numbers, Numbers]  # values of a column and their probabilities: a quadrature, or the law itself

RARE = 0.01  # probability of a one, in the Bernoulli columns
RATE = 0.2  # of the Poisson counts
FAR, CONTAMINATED = 10.0, 0.05  # how far off contaminated rows are, in every column, and their share
SHARED = 0.9  # correlation of any two columns, where there is a common factor
LONG, SHORT = math.sqrt(SHARED), math.sqrt(1 - SHARED)


@dataclass(frozen=True)
class Law:
    """A law of independent rows with columns of one law.

    Attributes
    ----------
    draw : callable
        ``draw(n, d, rng)`` returns rows of shape (n, d).
    tail : callable
        ``tail(x) = P(X > x)`` for a column.
    mean, std : float
        Of a column that is not clipped.
    low, high : float
        The public bounds that estimators are given.
    parts : callable
        ``parts()`` returns pairs of a weight and atoms. The law is a mixture of laws of independent columns.
    correlated : bool
        Whether columns share a factor; one column alone is then another law of the list, or nearly.
    """

    name: str
    draw: Callable[[int, int, np.random.Generator], Numbers]
    tail: Callable[[float], float]
    mean: float
    std: float
    low: float
    high: float
    parts: Callable[[], list[tuple[float, Atoms]]]
    correlated: bool = False

    @property
    def center(self) -> float:
        """Middle of the public bounds."""
        return (self.low + self.high) / 2

    @property
    def clip(self) -> float:
        """Half the width of the public bounds."""
        return (self.high - self.low) / 2

    def boxed(self, rows: Numbers) -> Numbers:
        """Return rows clipped to the public bounds."""
        return np.clip(rows, self.low, self.high)

    @property
    def clipped_mean(self) -> float:
        """E[clip(x)]."""
        return _clipped_moments(self)[0]

    @property
    def clipped_variance(self) -> float:
        """Variance of clip(x)."""
        return _clipped_moments(self)[1]

    @property
    def clipped_square(self) -> float:
        """E[(clip(x) - center)^2], center the middle of the public bounds."""
        mean, variance = _clipped_moments(self)
        return variance + (mean - self.center) ** 2


@cache
def _clipped_moments(law: Law) -> tuple[float, float]:
    # E clip(x) = low + integral of P(X > x), and E (clip(x) - low)^2 = integral of 2 (x - low) P(X > x), over the
    # box: atoms included. Counts jump at integers, so the pieces end there.
    edges = np.unique(np.concatenate([[law.low, law.high], np.arange(math.ceil(law.low), law.high)]))

    def integral(integrand: Callable[[float], float]) -> float:
        pieces = (integrate.quad(integrand, a, b, epsabs=1e-13, epsrel=1e-12)[0] for a, b in pairwise(edges))
        return math.fsum(pieces)

    first = integral(law.tail)
    second = integral(lambda x: 2 * (x - law.low) * law.tail(x))
    return law.low + first, second - first**2


# Balls: E[c + (x - c) min(1, R/||x - c||)], from the law of the squared distance of the other columns.

_PER_RADIUS, _GRID = 1000, 1 << 15  # steps of the squared distance: in a squared radius, and in all


@cache
def ball_mean(law: Law, d: int, center: float, radius: float) -> float:
    """Return the mean of a column of rows projected on a ball about (center, ..., center), to about 1e-5.

    Squared distances are put on a grid of 1000 steps a squared radius, their means kept; what lies beyond 32 squared
    radii counts as that far.
    """
    step = radius**2 / _PER_RADIUS
    factor = np.minimum(1.0, radius / np.sqrt(step * np.maximum(np.arange(2 * _GRID), 1)))
    total = 0.0
    for weight, (values, masses) in law.parts():
        moved = values - center
        place = np.minimum(moved**2 / step, _GRID - 1.0)
        cell = np.minimum(place.astype(int), _GRID - 2)
        one = np.bincount(cell, masses * (1 - (place - cell)), _GRID)
        one += np.bincount(cell + 1, masses * (place - cell), _GRID)
        others = _power(one, d - 1)
        # The mean factor, by the squared distance of this column.
        means = fftconvolve(factor, others[::-1])[_GRID - 1 : 2 * _GRID - 1]
        total += weight * float(np.sum(masses * moved * np.interp(place, np.arange(_GRID), means)))
    return center + total


def _power(law: Numbers, count: int) -> Numbers:
    """Return the law of a sum of ``count`` numbers on the grid, what exceeds it put at its end."""
    result = np.zeros_like(law)
    result[0] = 1.0
    while count:
        if count % 2:
            result = _sum(result, law)
        law, count = _sum(law, law), count // 2
    return result


def _sum(first: Numbers, second: Numbers) -> Numbers:
    both = np.maximum(fftconvolve(first, second)[: first.size], 0.0)
    both[-1] += max(0.0, 1 - both.sum())
    return both


def _atoms(quantile: Callable[[Numbers], Numbers]) -> Atoms:
    """Return a quadrature of a continuous law: Gauss and Legendre's in pieces of u that shrink towards 0 and 1."""
    tails = 2.0 ** -np.arange(40, 1, -1)
    edges = np.concatenate([[0], tails, np.linspace(0.25, 0.75, 33)[1:-1], 1 - tails[::-1], [1]])
    nodes, weights = np.polynomial.legendre.leggauss(16)
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    places = middle[:, None] + half[:, None] * nodes
    return quantile(np.clip(places.ravel(), 1e-15, 1 - 1e-15)), (half[:, None] * weights).ravel()


def _one(quantile: Callable[[Numbers], Numbers]) -> list[tuple[float, Atoms]]:
    return [(1.0, _atoms(quantile))]


def _counts(mass: Callable[[Numbers], Numbers], largest: int) -> list[tuple[float, Atoms]]:
    values = np.arange(largest + 1.0)
    return [(1.0, (values, mass(values)))]


def _given_factor(factor: Atoms, own: Atoms) -> list[tuple[float, Atoms]]:
    return [(weight, (LONG * value + SHORT * own[0], own[1])) for value, weight in zip(*factor, strict=True)]


def _normal_factor_parts() -> list[tuple[float, Atoms]]:
    values, weights = np.polynomial.hermite_e.hermegauss(60)
    given = _given_factor((values, weights / weights.sum()), _atoms(special.ndtri))
    return [(weight, (0.5 + atoms, masses)) for weight, (atoms, masses) in given]


def _exponential_factor_parts() -> list[tuple[float, Atoms]]:
    return _given_factor(np.polynomial.laguerre.laggauss(60), _atoms(lambda u: -np.log1p(-u)))


def _contaminated(n: int, d: int, rng: np.random.Generator) -> Numbers:
    # Whole rows are far off: their columns move together.
    return rng.standard_normal((n, d)) + FAR * (rng.random((n, 1)) < CONTAMINATED)


def _factor_normal(n: int, d: int, rng: np.random.Generator) -> Numbers:
    return 0.5 + LONG * rng.standard_normal((n, 1)) + SHORT * rng.standard_normal((n, d))


def _factor_exponential(n: int, d: int, rng: np.random.Generator) -> Numbers:
    return LONG * rng.standard_exponential((n, 1)) + SHORT * rng.standard_exponential((n, d))


def _of_two_exponentials(x: float) -> float:
    """Return P(LONG E + SHORT E' > x), E and E' standard exponential."""
    if x <= 0:
        return 1.0
    return (LONG * math.exp(-x / LONG) - SHORT * math.exp(-x / SHORT)) / (LONG - SHORT)


def _normal_tail(x: float) -> float:
    return math.erfc(x / math.sqrt(2)) / 2


LAWS = {
    law.name: law
    for law in (
        Law(
            "normal",
            lambda n, d, rng: 0.5 + rng.standard_normal((n, d)),
            lambda x: _normal_tail(x - 0.5),
            0.5,
            1.0,
            -3.0,
            3.0,
            partial(_one, lambda u: 0.5 + special.ndtri(u)),
        ),
        Law(
            "t3",
            lambda n, d, rng: 0.5 + rng.standard_t(3, (n, d)) / math.sqrt(3),
            lambda x: float(stats.t.sf(math.sqrt(3) * (x - 0.5), 3)),
            0.5,
            1.0,
            -3.0,
            3.0,
            partial(_one, lambda u: 0.5 + special.stdtrit(3, u) / math.sqrt(3)),
        ),
        Law(
            "exponential",
            lambda n, d, rng: rng.standard_exponential((n, d)),
            lambda x: math.exp(-max(x, 0.0)),
            1.0,
            1.0,
            0.0,
            4.0,
            partial(_one, lambda u: -np.log1p(-u)),
        ),
        Law(
            "lognormal",
            lambda n, d, rng: rng.lognormal(size=(n, d)),
            lambda x: _normal_tail(math.log(x)) if x > 0 else 1.0,
            math.exp(0.5),
            math.sqrt(math.expm1(1.0) * math.e),
            0.0,
            6.0,
            partial(_one, lambda u: np.exp(special.ndtri(u))),
        ),
        Law(
            "Poisson(.2)",
            lambda n, d, rng: rng.poisson(RATE, (n, d)).astype(float),
            lambda x: float(stats.poisson.sf(math.floor(x), RATE)),
            RATE,
            math.sqrt(RATE),
            0.0,
            3.0,
            partial(_counts, lambda k: stats.poisson.pmf(k, RATE), 20),
        ),
        Law(
            "Bernoulli(.01)",
            lambda n, d, rng: (rng.random((n, d)) < RARE).astype(float),
            lambda x: RARE if 0 <= x < 1 else float(x < 0),
            RARE,
            math.sqrt(RARE * (1 - RARE)),
            0.0,
            1.0,
            partial(_counts, lambda k: np.where(k > 0, RARE, 1 - RARE), 1),
        ),
        Law(
            "contaminated 5%",
            _contaminated,
            lambda x: (1 - CONTAMINATED) * _normal_tail(x) + CONTAMINATED * _normal_tail(x - FAR),
            CONTAMINATED * FAR,
            math.sqrt(1 + CONTAMINATED * (1 - CONTAMINATED) * FAR**2),
            -3.0,
            6.0,
            lambda: [
                (1 - CONTAMINATED, _atoms(special.ndtri)),
                (CONTAMINATED, _atoms(lambda u: FAR + special.ndtri(u))),
            ],
        ),
        Law(
            "normal factor",
            _factor_normal,
            lambda x: _normal_tail(x - 0.5),
            0.5,
            1.0,
            -3.0,
            3.0,
            _normal_factor_parts,
            correlated=True,
        ),
        Law(
            "exponential factor",
            _factor_exponential,
            _of_two_exponentials,
            LONG + SHORT,
            1.0,
            0.0,
            5.0,
            _exponential_factor_parts,
            correlated=True,
        ),
    )
}
"""By name. Correlated are the factors (each column of correlation 0.9 with any other) and the contaminated rows."""
