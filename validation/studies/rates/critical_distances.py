"""What the scripts on identity tests share: how a critical distance is searched, and the terms of its formulas.

The critical distance a_c(n, d, epsilon) is where a test of level 5% has power 2/3. Searches run the public `fit`
on fresh rows; null distributions are public and kept in build/null-distributions.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.stats import chi2, ncx2

from dpstats.identity import FilteringTest, LipschitzExtensionTest, RowDistanceTest, SpatialSignTest
from dpstats.simulation import Gaussian, crossing_point
from dpstats.simulation.samplers import estimate_of

ROOT = Path(__file__).resolve().parents[3]


def _version() -> str:
    """Return a name for the code whose null distributions are kept: another code has others."""
    parts = [path.read_bytes() for path in sorted((ROOT / "dpstats" / "identity").glob("*.py"))]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


CACHE = ROOT / "build" / "null-distributions" / _version()
LEVEL_OF_TESTS, TARGET = 0.05, 2 / 3
TESTS: dict[str, Callable[..., Any]] = {
    "row distance": partial(RowDistanceTest, clip=1),  # at every epsilon, as a rate asks
    "spatial sign": SpatialSignTest,
    "l1 extension": LipschitzExtensionTest,
    "filtering": FilteringTest,
}


@cache
def nonprivate(d: int) -> float:
    """Return n a^2 at which the chi-square test has power 2/3: about 2.93 sqrt(d) for many columns."""
    threshold = chi2.isf(LEVEL_OF_TESTS, d)
    return float(brentq(lambda noncentrality: ncx2.sf(threshold, d, noncentrality) - TARGET, 1e-6, 1e6))


def sampling(cell: Any) -> float:
    return nonprivate(cell["d"]) / cell["n"]


def mixed(cell: Any) -> float:
    return cell["d"] ** 0.5 * cell["n"] ** -1.5 / cell["epsilon"]


def privacy(cell: Any) -> float:
    return cell["d"] ** 0.5 / (cell["n"] * cell["epsilon"]) ** 2


def mixed_sum(cell: Any) -> float:
    return cell["d"] * cell["n"] ** -1.5 / cell["epsilon"]


def privacy_sum(cell: Any) -> float:
    return cell["d"] / (cell["n"] * cell["epsilon"]) ** 2


FORMULAS = {
    "row distance": {"sampling": sampling, "mixed": mixed, "privacy": privacy},
    "spatial sign": {"sampling": sampling, "mixed": mixed_sum, "privacy": privacy_sum},
    "l1 extension": {"sampling": sampling, "mixed": mixed_sum, "privacy": privacy_sum},
}
"""Of the *squared* distance: signal and noises meet in ||S||^2, where they add up."""
ROUGH = {
    "row distance": {"sampling": 1.0, "mixed": 10.0, "privacy": 100.0},
    "spatial sign": {"sampling": 1.0, "mixed": 7.0, "privacy": 40.0},
    "l1 extension": {"sampling": 1.0, "mixed": 3.0, "privacy": 90.0},
}
"""Constants to begin a search with, which may be off by a factor of five."""


def distance_by(
    test: str, constants: Mapping[str, float], cell: Any, formulas: Mapping[str, Any] = FORMULAS
) -> float:
    """Return the critical distance that a formula states for a cell."""
    return math.sqrt(sum(constants[name] * term(cell) for name, term in formulas[test].items()))


def size_by(
    test: str,
    constants: Mapping[str, float],
    d: int,
    epsilon: float,
    distance: float,
    formulas: Mapping[str, Any] = FORMULAS,
) -> float:
    """Return the number of rows at which a formula states the distance."""

    def gap(n: float) -> float:
        return distance_by(test, constants, {"n": n, "d": d, "epsilon": epsilon}, formulas) - distance

    return float(brentq(gap, 1, 1e9))


def nothing(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Return n x d numbers that take no memory: a search draws its own rows."""
    return np.broadcast_to(0.0, (n, d))


def rejects(fresh: Any, n: int, d: int, distance: float, rng: np.random.Generator) -> bool:
    """Return whether a test rejects fresh rows at a distance."""
    rows = Gaussian()(n, d, rng, mean=distance / math.sqrt(d))
    return bool(fresh.set_params(random_state=rng).fit(rows).reject_)


def configured(test: str, epsilon: float, n_calibration: int, rng: np.random.Generator) -> Any:
    """Return a test that keeps its null distribution."""
    return TESTS[test](epsilon=epsilon, n_calibration=n_calibration, cache_dir=str(CACHE), random_state=rng)


def search_distance(fresh: Any, n: int, d: int, guess: float, tests: int, rng: np.random.Generator) -> float:
    """Return one estimate of the distance, between a fifth and five times a guess, where the power is 2/3."""

    def power(distance: float, rng: np.random.Generator) -> bool:
        return rejects(fresh, n, d, distance, rng)

    return crossing_point(
        power, guess / 5, 5 * guess, target=TARGET, replications=tests, random_state=rng
    ).value


def search_size(
    fresh: Any, d: int, distance: float, guess: float, tests: int, rng: np.random.Generator
) -> float:
    """Return one estimate of the number of rows, within a factor of three of a guess, where the power is 2/3."""

    def power(n: float, rng: np.random.Generator) -> bool:
        return rejects(fresh, int(n), d, distance, rng)

    low, high = max(8, round(guess / 3)), max(24, round(3 * guess))
    return crossing_point(
        power, low, high, target=TARGET, replications=tests, integer=True, random_state=rng
    ).value


def found(fitted: Any, X: Any, truth: Any) -> float:
    """Return what a search found."""
    return float(estimate_of(fitted))


def squared(fitted: Any, X: Any, truth: Any) -> float:
    """Return the square of what a search found."""
    return found(fitted, X, truth) ** 2
