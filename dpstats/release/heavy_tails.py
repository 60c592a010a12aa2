"""Noise on the integers: exact for a release, reproducible for a simulation.

Both sources have the same methods and return int64 steps:

* `ExactNoise` draws discrete Laplace and discrete Gaussian noise from the operating system's
  entropy with OpenDP's samplers (Canonne, Kamath and Steinke 2020), and noise with heavy tails with a
  separate sampler, in rational arithmetic. The distribution is exactly the stated one.
* `SimulatedNoise` draws from a numpy Generator, in floating point. It is fast and reproducible, with the same
  distribution up to the resolution of a double. It is not private.

Heavy tails are P(k) proportional to (s^2 + k^2)^-m: Cauchy's law for m = 1, Student's of 2m - 1 degrees. The sampler
draws from boxes about 0 that double in width, box i with probability proportional to 2^-(2m - 1)i. It accepts with the
remaining probability: docs/proofs/smooth-sensitivity.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

_MOST_BOXES = 61  # the widest box of a simulation ends at 2^61


def exact_heavy(scale: float, power: int, below: Callable[[int], int]) -> int:
    """Return one integer, of any size; ``below`` draws uniform integers below one of any size."""
    top, bottom = scale.as_integer_ratio()
    width = math.ceil(scale)
    while True:
        reach = width
        while below(1 << (2 * power - 1)) == 0:
            reach <<= 1
        k = below(2 * reach) - reach
        inner = width  # of the smallest box that has k
        while not -inner <= k < inner:
            inner <<= 1
        kept, all_of_it = (inner * bottom) ** 2, 4 * (top**2 + (k * bottom) ** 2)
        if all(below(all_of_it) < kept for _ in range(power)):
            return k


def simulated_heavy(
    scale: float, power: int, generator: np.random.Generator, count: int
) -> NDArray[np.int64]:
    """Return integers of the same distribution, to the resolution of a double and within 2^61."""
    found = np.empty(count, dtype=np.int64)
    left = np.arange(count)
    width = math.ceil(scale)
    most = _MOST_BOXES - width.bit_length()
    while left.size:
        boxes = generator.geometric(1 - 2.0 ** -(2 * power - 1), left.size) - 1
        reach = width << np.minimum(boxes, most)
        k = generator.integers(-reach, reach)
        inner = np.ceil(np.log2(np.maximum(np.where(k < 0, -k, k + 1) / width, 1.0)))
        kept = (width * 2.0**inner) ** 2 / (4 * (scale**2 + k.astype(np.float64) ** 2))
        taken = generator.random(left.size) < kept**power
        found[left[taken]] = k[taken]
        left = left[~taken]
    return found
