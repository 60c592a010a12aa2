"""Public noise levels that change by at most one between neighbors: stages for smooth sensitivities.

Proof: docs/proofs/smooth-sensitivity.md.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from scipy import optimize
from scipy.special import stdtrit

from dpstats.data.parameters import check_choice, check_integer, check_privacy_parameters
from dpstats.errors import refuse
from dpstats.privacy.guarantee import Neighbors, quotient_up
from dpstats.privacy.stages import SMOOTH_LAWS, Smooth, Stage
from dpstats.release.noise import check_scale

LEVEL = "level of the noise"
LEVEL_SHARE = {"laplace": 0.2, "cauchy": 0.4, "student": 0.4}
"""Part of epsilon that the level is released for, where there is an interval. It makes the interval about the shortest.
"""
_STEADY = 0.5
"""Part of the best ratio of levels that is taken where the level is released. An interval is many levels up.
"""
_LEVEL_TAIL = 0.2
"""Part of the error probability of an interval that is for the level."""

_LARGEST_BETA = 1.6
"""Largest logarithm of the ratio of neighboring levels.

For dense rows, a sensitivity is proportional to 1/beta, and the next level is (e^beta - 1)/beta times as
large on average. 1.6 minimizes the product. It applies to epsilon above 7, where beta has almost no effect on
the budget fraction.
"""
_LARGEST_EPSILON = 1e9
_MOST_LEVELS = 200_000


@lru_cache(maxsize=64)
def smooth_stage(
    name: str,
    epsilon: float,
    delta: float,
    *,
    spacing: float,
    least: float,
    furthest: float,
    size: int = 1,
    noise: str = "laplace",
    steady: bool = False,
    neighbors: Neighbors = Neighbors.REPLACE_ONE,
) -> Smooth:
    """Return the stage that releases integers with noise proportional to their sensitivity near the data.

    Of epsilon a part is for where the integers are, and the rest for the scale of the noise: half, for
    Laplace's.

    Parameters
    ----------
    name : str
    epsilon, delta : float
        Its cost; delta is 0 except for Laplace noise.
    spacing : float
        The length of a step, in the units of the release.
    least : float
        The smallest scale, in steps: at least 8 except for Laplace noise.
    furthest : float
        The largest sensitivity that there can be, in steps and in l1.
    size : int, default=1
        Number of integers.
    noise : {"laplace", "cauchy", "student"}
        Student's has three degrees of freedom.
    steady : bool, default=False
        Whether the level is released too. Levels are then closer, and the noise is larger.
    neighbors : Neighbors
    """
    if epsilon > _LARGEST_EPSILON:
        raise refuse(
            "epsilon", given=epsilon, allowed=f"at most {_LARGEST_EPSILON:g} for noise by the smooth sensitivity"
        )
    share, far, ratio = _parts(epsilon, delta, size, noise, steady)
    highest = furthest / share * (1 + 1e-12)
    if ratio <= 1 + 2.0**-40 or math.log(max(1.0, highest / least)) > _MOST_LEVELS * math.log(ratio):
        raise refuse("epsilon", given=epsilon, allowed="larger for noise by the smooth sensitivity")
    levels = smooth_levels(least, highest, ratio)
    check_scale(levels[-1])
    return Smooth(name, spacing, levels, share, far, size=size, noise=noise, neighbors=neighbors)


class SmoothNoise(NamedTuple):
    """How smooth a sensitivity must be, and how much noise it asks for.

    Attributes
    ----------
    beta : float
        Argument of `smooth_sensitivity`, which returns S.
    scale : float
        Noise is S times this times a draw of the standard law: Laplace's, Cauchy's, or Student's of 3 degrees
        of freedom.

    Examples
    --------
    >>> from dpstats.sensitivity import median_smooth_sensitivity, smooth_noise
    >>> noise = smooth_noise(1.0, 1e-6, noise="laplace")
    >>> S = median_smooth_sensitivity([1.0, 2.0, 2.5, 3.0, 7.0] * 20, lower=0.0, upper=10.0, beta=noise.beta)
    >>> S * noise.scale > 0  # the scale: private, as S is
    True
    """

    beta: float
    scale: float


def smooth_noise(epsilon: float, delta: float = 0.0, *, noise: str = "student", size: int = 1) -> SmoothNoise:
    """Return the noise for a smooth sensitivity, for planning and for teaching.

    Adding such noise in floating point is not a release: `dpstats.quantiles.PrivateMedian` and
    `dpstats.sql.PrivateSQL` draw it on integers, with S among public levels.

    Parameters
    ----------
    epsilon : float
        Greater than 0.
    delta : float, default=0.0
        Above 0, and at most 1/2, for Laplace noise; 0 for the others, which are pure.
    noise : {"student", "cauchy", "laplace"}, default="student"
    size : int, default=1
        How many numbers, whose sensitivity is in l1.

    Examples
    --------
    The median of 1, 2, 4 among 0, ..., 6:

    >>> from dpstats.sensitivity import median_smooth_sensitivity, smooth_noise
    >>> beta, scale = smooth_noise(1.0)
    >>> round(scale * median_smooth_sensitivity([1, 2, 4], lower=0, upper=6, beta=beta), 3)
    5.917
    >>> beta, scale = smooth_noise(1.0, 1e-6, noise="laplace")
    >>> round(scale * median_smooth_sensitivity([1, 2, 4], lower=0, upper=6, beta=beta), 3)
    10.84
    """
    epsilon, delta = check_privacy_parameters(epsilon, delta)
    check_choice("noise", noise, list(SMOOTH_LAWS))
    size = check_integer("size", size, at_least=1)
    if (delta > 0) != (noise == "laplace") or delta > 0.5:
        raise refuse(
            "delta",
            got=f"{delta:g} for {noise}",
            allowed="above 0 and at most 0.5 for Laplace noise, and 0 for other noise",
        )
    share, _, ratio = _parts(epsilon, delta, size, noise, steady=False)
    return SmoothNoise(math.log(ratio), 1 / share / math.sqrt(max(SMOOTH_LAWS[noise], 1)))


def _parts(epsilon: float, delta: float, size: int, noise: str, steady: bool) -> tuple[float, float, float]:
    """Return alpha and beta of a scale, for sliding and dilation, and the ratio of neighboring scales."""
    if noise == "laplace":
        share = far = epsilon / 2
        # A little less than the ratio that gives delta: the loss is in the tenth digit.
        return share, far, 1 + far / _exponent(delta, size) * (1 - 1e-10)
    share = epsilon * (1 - 1e-9)
    power = (SMOOTH_LAWS[noise] + 1) // 2
    scales = size * (power - 1) + (size - 1) * power
    # The largest share * beta with scales * beta + power sqrt(share^2 + beta^2) = epsilon.
    beta = 2 * share / (3 * scales + math.sqrt(scales**2 + 8 * power**2)) * (_STEADY if steady else 1.0)
    # Any smaller beta meets the equation too, with another share.
    beta = min(beta, _LARGEST_BETA)
    return math.sqrt(((share - scales * beta) / power) ** 2 - beta**2), 0.0, math.exp(beta)


def level_stage(epsilon: float, neighbors: Neighbors = Neighbors.REPLACE_ONE) -> Stage:
    """Return the stage that releases the level of the noise, which a row moves by one at most."""
    return Stage(LEVEL, "laplace", 1, 1.0, 1, check_scale(quotient_up(1, epsilon)), neighbors=neighbors)


def half_width(stage: Smooth, level: float, level_scale: float, confidence_level: float, numbers: int = 1) -> float:
    """Return a bound on the error of a released integer, in steps, with probability ``confidence_level``.

    Parameters
    ----------
    stage : Smooth
        Stage of the integers.
    level : float
        The level as it was released, with noise of ``level_scale``.
    confidence_level : float
        Level for one integer, or for ``numbers`` integers together.
    """
    missed = 1 - confidence_level
    decay = math.exp(-1 / level_scale)
    # P(noise < -k) = a^(k + 1)/(1 + a): the level is at most the released value plus k.
    k = _least(_LEVEL_TAIL * missed * (1 + decay), level_scale)
    upper = stage.levels[int(min(max(level + k, 0), len(stage.levels) - 1))]
    return noise_width(stage.noise, upper, (1 - _LEVEL_TAIL) * missed / numbers)


def noise_width(law: str, scale: float, tail: float) -> float:
    """Return a whole number that noise of a scale exceeds in size with probability ``tail`` at most."""
    if law == "laplace":
        # P(|noise| > k) = 2 a^(k + 1)/(1 + a).
        return _least(tail * (1 + math.exp(-1 / scale)) / 2, scale)
    degrees = SMOOTH_LAWS[law]
    # On the integers a tail is below the one on the line: docs/proofs/smooth-sensitivity.md.
    return math.ceil(scale / math.sqrt(degrees) * float(-stdtrit(degrees, tail / 2)) * (1 + 1e-9))


def _least(tail: float, scale: float) -> int:
    """Return the least k >= 0 with e^(-(k + 1)/scale) at most ``tail``."""
    return max(0, math.ceil(-math.log(tail) * scale * (1 + 1e-12)) - 1)


def _exponent(delta: float, size: int) -> float:
    """Return the number of scales that the l1 norm of Laplace numbers exceeds with probability at most delta."""
    if size == 1:
        return math.log(2 / delta)
    # Chernoff's bound, (y/m)^m e^(m - y).
    high = size + 2 * math.log(1 / delta) + 2 * math.sqrt(size * math.log(1 / delta)) + 1
    return float(
        optimize.brentq(lambda y: size * math.log(y / size) + size - y - math.log(delta), size, high) * (1 + 1e-12)
    )


def smooth_levels(lowest: float, highest: float, ratio: float) -> tuple[float, ...]:
    """Return rising floats from ``lowest`` to ``highest`` or above, each at most ``ratio`` times the one before."""
    if not ratio > 1 + 2.0**-40:
        raise refuse("ratio", given=ratio, allowed="above 1")
    found = [lowest]
    while found[-1] < highest:
        # A float below the product, for any rounding.
        found.append(math.nextafter(found[-1] * ratio, 0.0))
    return tuple(found)
