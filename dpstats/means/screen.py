from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, ndtr

from dpstats.means.bias_aware import Numbers

# Number of standard deviations above its mean at which a count refutes the assumption: if the assumption holds, the
# probability is 0.0047. Then the number for upper limits (0.01): they bound the bias if it does not hold.
_SURPRISE, _LIMIT = 2.6, 2.33


@dataclass(frozen=True, slots=True)
class Screen:
    """The count of rows that the last stage clips: public, but for the count. All whitened."""

    n: int
    d: int
    radius: float  # radius of the last ball
    error: float  # bound on the mean square of a column of the last center's error
    noise: str  # one of "gaussian", "laplace"
    noise_std: float  # standard deviation of the noise of the count, in rows

    def expected(self, variance: float = 1.0) -> float:
        """Return the largest expected number of clipped rows, if their tails are at most normal with this variance."""
        return self.n * float(chdtrc(self.d, self.radius**2 / (variance + self.error)))

    def most(self, variance: float = 1.0) -> float:
        """Return the count that contradicts the assumption if it is exceeded."""
        expected = self.expected(variance)
        return expected + math.hypot(_SURPRISE * math.sqrt(expected), self._noise_limit(_SURPRISE))

    def share(self, count: float) -> float:
        """Return an upper limit of the probability that a row is clipped."""
        noise = math.hypot(self._noise_limit(_LIMIT), _LIMIT * math.sqrt(max(count, 0.0)))
        return min(max(count + noise, 0.0) / self.n, 1.0)

    @property
    def unnoticed(self) -> tuple[int, float]:
        """How many clipped rows may go unnoticed, and how far they could move a column, in standard deviations."""
        return self.unnoticed_at(1.0)

    def unnoticed_at(self, variance: float) -> tuple[int, float]:
        """Return the same for tails that are judged by a variance; the distance is in stated standard deviations."""
        rows = min(math.ceil(self.most(variance) + self._noise_limit(_LIMIT)), self.n)
        return rows, clipping_factor(rows / self.n, self.d * (1 + self.error), self.radius)

    def _noise_limit(self, deviations: float) -> float:
        """Return the value that the noise exceeds as rarely as a normal variable exceeds this many deviations."""
        if self.noise == "laplace":
            deviations = -math.log(2 * ndtr(-deviations)) / math.sqrt(2)
        return deviations * self.noise_std


def clipping_factor(share: float, square: float, radius: float) -> float:
    """Return the largest root of E(1 - B/||x||)_+^2, if E||x||^2 <= ``square`` and P(||x|| > B) <= ``share``.

    Clipping moves a column by at most that times the root of E x_j^2.
    """
    p = min(share, square / (4 * radius**2))  # beyond that, more rows outside would be nearer to the ball
    return math.sqrt(p) * (1 - radius * math.sqrt(p / square))


def displacement(
    length: float,  # upper limit of the norm of the mean of the clipped rows, about the center
    share: float,  # upper limit of the probability that a row is clipped
    spread: float,  # bound on the trace of the covariance of the rows
    radius: float,
) -> float | None:
    """Return the largest distance of the mean from the center, or None if the last stage does not bound it."""
    # ||E(x - clip x)|| <= max over p <= share of sqrt(p q) - B p, with q = E||x||^2 <= spread + r^2. The root of
    # r = length + this maximum is in one of two branches: the best p is below ``share``, or equal to it.
    if share >= 1:
        return None
    junction = math.sqrt(max(4 * radius**2 * share - spread, 0.0))
    if length + radius * share < junction:
        return 2 * radius - math.sqrt(max(4 * radius * (radius - length) - spread, 0.0))
    excess = length - radius * share
    return (excess + math.sqrt(share * excess**2 + (1 - share) * share * spread)) / (1 - share)


class LastStage(NamedTuple):
    """Bounds for each column from the last stage alone, whitened, assuming only a bound on the variance."""

    bias: Numbers
    distance: Numbers  # of the mean from the center


def last_stage(
    # Shape (d,). The mean of the clipped rows about the center, as released; whitened.
    shift: Numbers,
    columns: Numbers,  # (d,): the same in the directions that the columns are
    noise: float,  # standard deviation of its noise, in every direction
    share: float,  # upper limit of the probability that a row is clipped
    radius: float,
    n: int,
    variance: float = 1.0,  # bound on the variance of the rows in every direction
) -> LastStage | None:
    """Return the bounds, or None where there are none."""
    d = shift.size
    error2 = noise**2 + variance / n
    square = max(float(shift @ shift) - d * noise**2, 0.0)
    square += _LIMIT * math.sqrt(2 * d * error2**2 + 4 * error2 * square)
    far = displacement(math.sqrt(square), share, d * variance, radius)
    if far is None:
        return None
    factor = clipping_factor(share, d * variance + far**2, radius)
    reach = np.abs(columns) + _LIMIT * math.sqrt(error2)
    # nu <= reach + factor sqrt(variance + nu^2).
    distance = (reach + factor * np.sqrt(reach**2 + variance * (1 - factor**2))) / (1 - factor**2)
    return LastStage(factor * np.sqrt(variance + distance**2), distance)
