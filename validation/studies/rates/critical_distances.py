"""How a critical distance is searched with rows: for the filtering test, whose statistic has no simpler distribution.

The critical distance a_c(n, d, epsilon) is where a test of level 5% has power 2/3. Searches run the public `fit`
on fresh rows; null distributions are public and kept in build/null-distributions.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np

from dpstats.identity import FilteringTest
from dpstats.simulation import Gaussian, crossing_point
from dpstats.simulation.samplers import estimate_of

ROOT = Path(__file__).resolve().parents[3]


def _version() -> str:
    """Return a name for the code whose null distributions are kept: another code has others."""
    parts = [path.read_bytes() for path in sorted((ROOT / "dpstats" / "identity").glob("*.py"))]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


CACHE = ROOT / "build" / "null-distributions" / _version()
LEVEL_OF_TESTS, TARGET = 0.05, 2 / 3


def nothing(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Return n x d numbers that take no memory: a search draws its own rows."""
    return np.broadcast_to(0.0, (n, d))


def rejects(fresh: Any, n: int, d: int, distance: float, rng: np.random.Generator) -> bool:
    """Return whether a test rejects fresh rows at a distance."""
    rows = Gaussian()(n, d, rng, mean=distance / math.sqrt(d))
    return bool(fresh.set_params(random_state=rng).fit(rows).reject_)


def configured(epsilon: float, n_calibration: int, rng: np.random.Generator) -> Any:
    """Return a test that keeps its null distribution."""
    return FilteringTest(epsilon=epsilon, n_calibration=n_calibration, cache_dir=str(CACHE), random_state=rng)


def search_distance(fresh: Any, n: int, d: int, guess: float, tests: int, rng: np.random.Generator) -> float:
    """Return one estimate of the distance, between a fifth and five times a guess, where the power is 2/3."""

    def power(distance: float, rng: np.random.Generator) -> bool:
        return rejects(fresh, n, d, distance, rng)

    return crossing_point(power, guess / 5, 5 * guess, target=TARGET, replications=tests, random_state=rng).value


def found(fitted: Any, X: Any, truth: Any) -> float:
    """Return what a search found."""
    return float(estimate_of(fitted))
