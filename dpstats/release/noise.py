"""Noise on the integers: exact for a release, reproducible for a simulation.

Both sources have the same methods and return int64 steps:

* `ExactNoise` draws discrete Laplace and discrete Gaussian noise from the operating system's
  entropy with OpenDP's samplers (Canonne, Kamath and Steinke 2020). Noise with heavy tails has a
  separate sampler, in rational arithmetic. The distribution is exactly the stated one.
* `SimulatedNoise` draws from a numpy Generator, in floating point. It is fast and reproducible, with the same
  distribution up to the resolution of a double. It is not private.

Heavy tails are P(k) proportional to (s^2 + k^2)^-m: Cauchy's law for m = 1, Student's of 2m - 1 degrees. The sampler
draws from boxes about 0 that double in width, box i with probability proportional to 2^-(2m - 1)i. It accepts with the
remaining probability: docs/proofs/smooth-sensitivity.md.
"""

from __future__ import annotations

import math
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import cache, lru_cache, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_random_state
from dpstats.data.values import as_int64
from dpstats.errors import NoiseUnavailable, ScaleOutOfRange
from dpstats.release.groups import Groups, Windows, choose

_MOST_BOXES = 61  # the widest box of a simulation ends at 2^61


def exact_heavy(scale: float, power: int, below: Callable[[int], int]) -> int:
    """Draw an integer of any size; ``below`` draws uniform integers below one of any size."""
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


def simulated_heavy(scale: float, power: int, generator: np.random.Generator, count: int) -> NDArray[np.int64]:
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


# Sources of noise


MIN_SCALE = 1e-3
MAX_SCALE = 1e16
"""Scales in steps, so that noise plus integers of 62 bits stay inside 64 bits (beyond e^-460 at worst)."""

Size = int | tuple[int, ...]


class Noise(Protocol):
    """A source of integer noise."""

    simulated: bool

    def rehearse(self, kinds: Iterable[str]) -> None:
        """Draw a number of each kind and drop it, or raise `NoiseUnavailable`: before a charge."""

    def laplace(self, scale: float, size: Size) -> NDArray[np.int64]:
        """Draw P(k) proportional to exp(-|k|/scale)."""

    def gaussian(self, scale: float, size: Size) -> NDArray[np.int64]:
        """Draw P(k) proportional to exp(-k^2/(2 scale^2))."""

    def integers(self, below: int, size: Size) -> NDArray[np.int64]:
        """Draw uniform integers 0, ..., below - 1."""

    def top(
        self, noise: str, scores: NDArray[np.int64], scale: float, k: int, size: int | None = None
    ) -> NDArray[np.intp]:
        """Return the positions of the k largest of scores plus noise of a scale in steps, best first.

        ``noise`` is "laplace", "exponential" (one-sided) or "gumbel". With ``size``, that many draws: (size,
        k).
        """

    def cauchy(self, scale: float, size: Size) -> NDArray[Any]:
        """Draw P(k) proportional to 1/(scale^2 + k^2).

        They may have any size, and are Python's integers where noise is exact.
        """

    def student(self, scale: float, size: Size) -> NDArray[Any]:
        """Draw P(k) proportional to 1/(scale^2 + k^2)^2: three degrees of freedom, times scale/sqrt 3."""

    def joint(self, scale: float, size: Size) -> NDArray[np.int64]:
        """Draw vectors, along the last axis, with P(v) proportional to exp(-(max(0, v) - min(0, v))/scale)."""

    def candidate(self, groups: Groups, scale: float, size: int) -> NDArray[np.int64]:
        """Draw candidates by their weights: shape (size, groups.size)."""


class StandIn(ABC):
    """Argument instead of a seed that has its own simulated noise: see dpstats/release/witness.py."""

    @property
    @abstractmethod
    def noise(self) -> Noise:
        """The source of noise of sessions."""


def noise_source(random_state: Any) -> Noise:
    """Return exact noise for ``random_state=None`` and simulated noise for a seed or a Generator."""
    if isinstance(random_state, StandIn):
        return random_state.noise
    generator = check_random_state(random_state)
    return ExactNoise() if generator is None else SimulatedNoise(generator)


def check_scale(scale: float) -> float:
    """Return a noise scale in steps that both sources can draw, or raise `InvalidParameter`."""
    if not MIN_SCALE <= scale <= MAX_SCALE:
        raise ScaleOutOfRange(
            f"the noise scale must be between {MIN_SCALE:g} and {MAX_SCALE:g} lattice steps, got {scale:g}: "
            "epsilon (or delta) is too extreme for exact 64-bit noise"
        )
    return float(scale)


class ExactNoise:
    """Exact discrete noise from the operating system's entropy."""

    simulated = False

    def rehearse(self, kinds: Iterable[str]) -> None:
        for kind in kinds:
            if kind not in _REHEARSED:
                _rehearse(kind)
                _REHEARSED.add(kind)

    def laplace(self, scale: float, size: Size) -> NDArray[np.int64]:
        return _draw(_opendp_measurement("laplace", check_scale(scale)), size)

    def gaussian(self, scale: float, size: Size) -> NDArray[np.int64]:
        return _draw(_opendp_measurement("gaussian", check_scale(scale)), size)

    def integers(self, below: int, size: Size) -> NDArray[np.int64]:
        count = int(np.prod(size))
        mask = np.uint64((1 << (below - 1).bit_length()) - 1)
        result = np.empty(0, dtype=np.uint64)
        # Uniform bits, refused where they reach the bound: exactly uniform below it.
        while result.size < count:
            bits = np.frombuffer(os.urandom(8 * (count - result.size)), dtype=np.uint64) & mask
            result = np.concatenate([result, bits[bits < below]])
        return as_int64(result).reshape(size)

    def top(
        self, noise: str, scores: NDArray[np.int64], scale: float, k: int, size: int | None = None
    ) -> NDArray[np.intp]:
        if noise == "laplace":
            draws = 1 if size is None else size
            noisy = scores + self.laplace(scale, (draws, scores.size))
            # Stable: equal sums go to the first candidate, on neighboring datasets alike.
            ranked = np.argsort(-noisy, axis=1, kind="stable")[:, :k]
            return ranked[0] if size is None else ranked
        measurement = _opendp_selection(noise, scale, k)
        values = scores.tolist()
        if size is None:
            return np.array(measurement(values), dtype=np.intp)
        return np.array([measurement(values) for _ in range(size)], dtype=np.intp)

    def cauchy(self, scale: float, size: Size) -> NDArray[Any]:
        return _exact_heavy(scale, 1, size)

    def student(self, scale: float, size: Size) -> NDArray[Any]:
        return _exact_heavy(scale, 2, size)

    def joint(self, scale: float, size: Size) -> NDArray[np.int64]:
        return _joint(self, scale, size)

    def candidate(self, groups: Groups, scale: float, size: int) -> NDArray[np.int64]:
        found = np.empty((size, groups.size), dtype=np.int64)
        rows = cache(lambda level: groups.rows(scale, level))
        columns = lru_cache(maxsize=256)(lambda row, level: groups.columns(scale, level, row))
        for draw in found:
            row = choose(_bits, rows)
            column = choose(_bits, partial(columns, row))
            low, high = groups.box(row, column)
            draw[:] = [a + self.integers(b - a + 1, 1)[0] for a, b in zip(low.tolist(), high.tolist(), strict=True)]
        return found


_REHEARSED: set[str] = set()
"""Kinds of noise that this process has rehearsed."""


def _rehearse(kind: str) -> None:
    """Draw one number of a kind of noise that OpenDP samples, and drop it."""
    failed = ""
    try:
        if kind in ("laplace", "gaussian"):
            _draw(_opendp_measurement(kind, 1.0), 1)
        elif kind in ("exponential", "gumbel"):
            _opendp_selection(kind, 1.0, 1)([0, 1])
    except Exception as error:
        # A library that does not load raises ImportError, OSError, AttributeError or another error.
        failed = type(error).__name__
    if failed:
        raise NoiseUnavailable(
            f"exact noise ({kind}) cannot be drawn, because the library opendp is missing or broken ({failed}). "
            "Nothing was charged. Install it again with 'pip install --force-reinstall opendp'."
        )


def _exact_heavy(scale: float, power: int, size: Size) -> NDArray[Any]:
    # Python's integers: noise that was cut to 64 bits would show what it is added to.
    found = np.empty(int(np.prod(size)), dtype=object)
    for i in range(found.size):
        found[i] = exact_heavy(check_scale(scale), power, secrets.randbelow)
    return found.reshape(size)


def _bits(count: int) -> int:
    return int.from_bytes(os.urandom(count // 8), "little")


def _joint(source: Noise, scale: float, size: Size) -> NDArray[np.int64]:
    """Draw vectors whose range with 0 falls off exponentially, from windows about 0."""
    shape = (size,) if isinstance(size, int) else tuple(size)
    *draws, length = shape

    def ends(below: NDArray[np.int64], above: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.tile(-below, (length, 1)), np.tile(above, (length, 1))

    windows = Windows(ends, length)
    return source.candidate(windows, check_scale(scale), int(np.prod(draws, dtype=int))).reshape(shape)


@lru_cache(maxsize=64)
def _opendp_selection(noise: str, scale: float, k: int) -> Any:
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_noisy_top_k
    from opendp.measures import max_divergence, zero_concentrated_divergence
    from opendp.metrics import linf_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    # OpenDP's noise is one-sided exponential under pure privacy and Gumbel under zero-concentrated.
    measure = max_divergence() if noise == "exponential" else zero_concentrated_divergence()
    domain = vector_domain(atom_domain(T="i64"))
    return make_noisy_top_k(domain, linf_distance(T="i64"), measure, k=k, scale=scale)


@lru_cache(maxsize=64)
def _opendp_measurement(law: str, scale: float) -> Any:
    # Not opendp.prelude, which imports scikit-learn; features are enabled at the first draw.
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian, make_laplace
    from opendp.metrics import l1_distance, l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    domain = vector_domain(atom_domain(T="i64"))
    if law == "laplace":
        return make_laplace(domain, l1_distance(T="i64"), scale=scale)
    return make_gaussian(domain, l2_distance(T="f64"), scale=scale)


def _draw(measurement: Any, size: Size) -> NDArray[np.int64]:
    count = int(np.prod(size))
    # The noise of a zero vector is the noise.
    return np.array(measurement([0] * count), dtype=np.int64).reshape(size)


class SimulatedNoise:
    """Reproducible discrete noise from a numpy Generator."""

    simulated = True

    def rehearse(self, kinds: Iterable[str]) -> None:
        """Do nothing: simulated noise needs no library and no charge."""

    # Below this many steps rounding a continuous normal is not a discrete normal; a table is.
    _TABLE_BELOW = 32.0

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator

    def laplace(self, scale: float, size: Size) -> NDArray[np.int64]:
        scale = check_scale(scale)
        # The floor of an exponential is geometric; the difference of two is discrete Laplace.
        first = np.floor(scale * self.generator.standard_exponential(size))
        second = np.floor(scale * self.generator.standard_exponential(size))
        return as_int64(first) - as_int64(second)

    def gaussian(self, scale: float, size: Size) -> NDArray[np.int64]:
        scale = check_scale(scale)
        if scale >= self._TABLE_BELOW:
            return as_int64(np.rint(scale * self.generator.standard_normal(size)))
        reach = math.ceil(12 * scale) + 1
        steps = np.arange(-reach, reach + 1)
        cumulative = np.cumsum(np.exp(-0.5 * (steps / scale) ** 2))
        uniform = self.generator.random(size) * cumulative[-1]
        return np.asarray(as_int64(steps[np.searchsorted(cumulative, uniform, side="right")]))

    def integers(self, below: int, size: Size) -> NDArray[np.int64]:
        return self.generator.integers(below, size=size, dtype=np.int64)

    def top(
        self, noise: str, scores: NDArray[np.int64], scale: float, k: int, size: int | None = None
    ) -> NDArray[np.intp]:
        shape = (1 if size is None else size, scores.size)
        if noise == "laplace":
            drawn = self.generator.laplace(size=shape)
        elif noise == "exponential":
            drawn = self.generator.standard_exponential(shape)
        else:
            drawn = self.generator.gumbel(size=shape)
        noisy = scores / scale + drawn
        # Sorting a million candidates for one winner would be a waste.
        ranked = np.argmax(noisy, axis=1)[:, None] if k == 1 else np.argsort(-noisy, axis=1, kind="stable")[:, :k]
        return ranked[0] if size is None else ranked

    def cauchy(self, scale: float, size: Size) -> NDArray[Any]:
        return self._heavy(scale, 1, size)

    def student(self, scale: float, size: Size) -> NDArray[Any]:
        return self._heavy(scale, 2, size)

    def _heavy(self, scale: float, power: int, size: Size) -> NDArray[np.int64]:
        count = int(np.prod(size))
        return simulated_heavy(check_scale(scale), power, self.generator, count).reshape(size)

    def joint(self, scale: float, size: Size) -> NDArray[np.int64]:
        return _joint(self, scale, size)

    def candidate(self, groups: Groups, scale: float, size: int) -> NDArray[np.int64]:
        found = np.empty((size, groups.size), dtype=np.int64)
        rows = self._places(groups.rows(scale, 0).low, size)
        for row in np.unique(rows).tolist():
            of_row = np.flatnonzero(rows == row)
            columns = self._places(groups.columns(scale, 0, row).low, of_row.size)
            for column in np.unique(columns).tolist():
                draws = of_row[columns == column]
                low, high = groups.box(row, column)
                found[draws] = self.generator.integers(low, high, size=(draws.size, groups.size), endpoint=True)
        return found

    def _places(self, cumulative: Any, size: int) -> NDArray[np.intp]:
        """Draw positions by cumulative weights: floats, or integers of any size."""
        total = cumulative[-1]
        shares = np.array([weight / total for weight in cumulative], dtype=np.float64)
        return np.minimum(np.searchsorted(shares, self.generator.random(size), side="right"), shares.size - 1)
