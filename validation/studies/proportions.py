"""Private proportions: level, power and coverage by computation, and mean lengths of intervals.

Everything but the lengths is a sum over the exact law, without simulation. The optimum of a linear program is what Awan
and Slavkovic (2018) print for the powers.

    python validation/studies/proportions.py
    python validation/studies/proportions.py --replications 50 --no-write
"""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from scipy.stats import beta, binom
from study_page import write_page

import dpstats
from dpstats.inference.noisy_counts import CountNoise, at_least, at_most, limits

RESULTS = Path(__file__).resolve().parents[1] / "results" / "proportions.md"
PUBLISHED = {(30, 0.1): 0.0905, (30, 1.0): 0.635, (100, 0.1): 0.353, (100, 1.0): 0.991}
CELLS = [(n, epsilon, share) for n in (30, 100, 1000) for epsilon in (0.1, 1.0) for share in (0.05, 0.5)]
CELLS += [(1000, 500.0, 0.001)]  # No noise: the conservative interval is Clopper and Pearson's.


def critical(n: int, share: float, noise: CountNoise, level: float) -> float:
    """Return the number whose p-value against larger shares is the level."""
    reach = n + 60 * noise.std
    return float(brentq(lambda z: at_least(z, n, share, noise) - level, -reach, reach, xtol=1e-11))


def power(n: int, noise: CountNoise, level: float = 0.05) -> tuple[float, float]:
    """Return the level and the power of the test of .5, where the share is .7."""
    cut = critical(n, 0.5, noise, level)
    return at_least(cut, n, 0.5, noise), at_least(cut, n, 0.7, noise)


def coverage(n: int, share: float, noise: CountNoise, tail: float = 0.025) -> float:
    """Return how often the interval of equal tails has the share: between the two critical numbers."""
    upper = critical(n, share, noise, tail)
    lower = critical(n, share, noise, 1 - tail)
    return 1 - at_least(upper, n, share, noise) - at_most(lower, n, share, noise)


def conservative_coverage(n: int, share: float, noise: CountNoise, tail: float = 0.025) -> float:
    """Return how often the conservative interval has the share: released counts between two critical ones."""
    upper = math.floor(critical(n, share, noise, tail) - 0.5) + 1
    lower = math.ceil(critical(n, share, noise, 1 - tail) + 0.5) - 1
    # Critical numbers are rounded: counts whose p-value is the level are not rejected.
    return 1 - at_least(upper + 0.5, n, share, noise) - at_most(lower - 0.5, n, share, noise)


def lengths(
    n: int, epsilon: float, share: float, replications: int, seed: int = 2026
) -> tuple[float, float, float, float]:
    """Return mean lengths of exact, conservative, and Clopper and Pearson's intervals, and how many are points."""
    rng, noise = np.random.default_rng(seed), CountNoise("laplace", 1 / epsilon)
    x = rng.binomial(n, share, replications)
    released = x + noise.draw(rng, (replications,))
    z = released + rng.random(replications) - 0.5
    ends = np.array([limits(value, value, n, noise, 0.025) for value in z.tolist()])
    wide = [np.diff(limits(k - 0.5, k + 0.5, n, noise, 0.025))[0] for k in released.tolist()]
    counts = np.arange(n + 1)
    low = np.nan_to_num(beta.ppf(0.025, counts, n - counts + 1), nan=0.0)
    high = np.nan_to_num(beta.ppf(0.975, counts + 1, n - counts), nan=1.0)
    own = np.diff(ends, axis=1)[:, 0]
    plain = float(binom.pmf(counts, n, share) @ (high - low))
    return float(own.mean()), float(np.mean(wide)), plain, float(np.mean(own == 0))


def as_markdown(replications: int, command: str) -> str:
    """Return the report."""
    lines = [
        "# Private proportions",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, numpy {np.__version__}. Levels, powers and "
        f"coverage are computed; lengths are means of {replications} intervals.",
        "",
        f"    {command}",
        "",
        "## The test of .5 at level .05, where the share is .7",
        "",
        "| n | epsilon | level | power | published optimum | power without the uniform | not private |",
        "|---" * 7 + "|",
    ]
    for (n, epsilon), published in PUBLISHED.items():
        noise = CountNoise("laplace", 1 / epsilon)
        level, found = power(n, noise)
        cut = next(k for k in range(-2000, 2000) if at_least(k - 0.5, n, 0.5, noise) <= 0.05)
        plain = next(k for k in range(n + 1) if binom.sf(k - 1, n, 0.5) <= 0.05)
        whole, exact = at_least(cut - 0.5, n, 0.7, noise), binom.sf(plain - 1, n, 0.7)
        lines.append(f"| {n} | {epsilon:g} | {level:.6f} | {found:.5f} | {published} | {whole:.5f} | {exact:.5f} |")
    lines += [
        "",
        "## Intervals at level .95",
        "",
        "Conservative intervals are the default. Those of Clopper and Pearson are not private.",
        "",
        "| n | epsilon | share | coverage, conservative | exact | mean length, conservative | exact | "
        "Clopper and Pearson's | exact: a single point |",
        "|---" * 9 + "|",
    ]
    for n, epsilon, share in CELLS:
        noise = CountNoise("laplace", 1 / epsilon)
        covered = f"{conservative_coverage(n, share, noise):.6f} | {coverage(n, share, noise):.6f}"
        own, wide, plain, points = lengths(n, epsilon, share, replications)
        lines.append(
            f"| {n} | {epsilon:g} | {share:g} | {covered} | {wide:.4f} | {own:.4f} | {plain:.4f} | {points:.3f} |"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    write_page(as_markdown, RESULTS, replications=1000)
