"""Bounds that nobody knows: the rules of Google's library and of Tumult Analytics, beside `PrivateBounds`.

Both rules are written down here from their code, with float noise, and choose among powers of 2:

* Google's `ApproxBounds` (google/differential-privacy, cc/algorithms/approx-bounds.h, read at commit b5b0286e): noisy
  counts of bins (2^(i-1), 2^i] of each sign, over all doubles. Bounds are the outer ends of the outermost bins whose
  noisy count passes a threshold, which no empty bin passes with probability 1 - 1e-9, or 1 - 1e-7 if none does.
* Tumult's `get_bounds` (opendp/tumult-core, src/tmlt/core/measurements/aggregations.py, create_bounds_measurement, read
  at commit 1dc7b93e; opendp/tumult-analytics calls it with a fraction of 0.95): the first power of 2, of 2^-100 to
  2^100, below which 0.95 of the absolute values lie, by sparse vectors. Bounds are symmetric about 0.

PipelineDP (OpenMined/PipelineDP, pipeline_dp/private_contribution_bounds.py, read at commit ec6e56ed) chooses numbers
of contributions privately, and no bounds of values. Neighbors of both rules differ by one added row. Those of
`PrivateBounds` differ by a replaced row, which is twice as much.

    python validation/peers/unknown_bounds.py
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

import numpy as np

import dpstats

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "studies"))
from private_bounds import POPULATIONS, ROWS_OF_POPULATION, SHARE, best_bounds, choose, expected_error

RESULTS = Path(__file__).resolve().parents[1] / "results" / "bounds_peers.md"
CELLS = ((2000, 1.0), (20_000, 1.0))
Pair = tuple[float, float] | None
_FINEST = np.finfo(np.float64).tiny
_BINS = math.ceil((math.log(np.finfo(np.float64).max) - math.log(_FINEST)) / math.log(2)) + 1
_FRACTION, _REACH = 0.95, 100


def google_bounds(x: np.ndarray, epsilon: float, rng: np.random.Generator) -> Pair:
    """Return the bounds of `ApproxBounds`, or None if no bin passes."""
    size = np.maximum(np.abs(x), _FINEST)
    place = np.clip(np.ceil(np.log2(size) - math.log2(_FINEST)), 0, _BINS - 1).astype(int)
    positive, negative = (np.bincount(place[side], minlength=_BINS) for side in (x >= 0, x < 0))
    # From the lowest bin to the highest.
    noisy = np.append(negative[::-1], positive) + rng.laplace(scale=1 / epsilon, size=2 * _BINS)
    # Bin 0 begins at 0.
    edges = np.append(0.0, np.ldexp(_FINEST, np.minimum(np.arange(_BINS), 2045)))
    ends = np.append(-edges[::-1], edges[1:])
    for failure in (1e-9, 1e-8, 1e-7):
        # A Laplace variable is below the threshold with probability (1 - failure)^(1 / bins).
        above = -math.expm1(math.log1p(-failure) / noisy.size)
        passed = np.flatnonzero(noisy >= -math.log(2 * above) / epsilon)
        if passed.size:
            return float(ends[passed[0]]), float(ends[passed[-1] + 1])
    return None


def tumult_bounds(x: np.ndarray, epsilon: float, rng: np.random.Generator) -> Pair:
    """Return the bounds of Tumult's `get_bounds`."""
    scale = 4 / epsilon
    with np.errstate(divide="ignore"):
        place = np.clip(np.ceil(np.log2(np.abs(x))), -_REACH, _REACH).astype(int) + _REACH
    below = np.cumsum(np.bincount(place, minlength=2 * _REACH + 1))
    threshold = math.floor(_FRACTION * x.size) + _geometric(scale / 2, 1, rng)[0]
    passed = np.flatnonzero(below + _geometric(scale, below.size, rng) >= threshold)
    end = 2.0 ** (float(passed[0]) - _REACH) if passed.size else 2.0**_REACH
    return -end, end


def _geometric(scale: float, size: int, rng: np.random.Generator) -> np.ndarray:
    """Return two-sided geometric noise."""
    one, other = rng.geometric(-math.expm1(-1 / scale), size=(2, size))
    return one - other


def dpstats_bounds(x: np.ndarray, epsilon: float, rng: np.random.Generator, step: float | None) -> Pair:
    """Return the bounds of `PrivateBounds`, for a mean at the remaining epsilon."""
    bounds = choose(x, epsilon / SHARE, step, rng)
    return (bounds.low_[0], bounds.high_[0]) if bounds.found_[0] else None


def measure(name: str, n: int, epsilon: float, fits: int) -> list[np.ndarray]:
    """Return the error over that of the best bounds of each rule, NaN where it found none."""
    population, rest = POPULATIONS[name], (1 - SHARE) * epsilon
    rng = np.random.default_rng([5, n, list(POPULATIONS).index(name)])
    z = population.draw(rng, ROWS_OF_POPULATION)
    least = expected_error(z, n, rest, *best_bounds(z, n, rest))
    found: list[list[float]] = [[], [], []]
    for _ in range(fits):
        x = population.draw(rng, n)
        pairs = (
            dpstats_bounds(x, SHARE * epsilon, rng, population.step),
            google_bounds(x, SHARE * epsilon, rng),
            tumult_bounds(x, SHARE * epsilon, rng),
        )
        for one, pair in zip(found, pairs, strict=True):
            one.append(math.nan if pair is None else expected_error(z, n, rest, *pair) / least)
    return [np.array(one) for one in found]


def as_markdown(fits: int, command: str) -> str:
    """Return the page of results."""
    lines = [
        "# Bounds that nobody knows, beside other systems' rules",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}",
        "",
        f"    {command}",
        "",
        "Mean squared error of a clipped mean at each rule's bounds, over that of the best bounds at the same "
        f"remaining epsilon: the mean of {fits} fits. Bounds cost a fifth of ε. Behind a semicolon: fits without "
        "bounds. The rules were written down from the code of `ApproxBounds` (google/differential-privacy, commit "
        "b5b0286e) and `get_bounds` (opendp/tumult-core, commit 1dc7b93e, with the fraction 0.95 of "
        "opendp/tumult-analytics, commit 1d620b03). Their neighbors differ by an added row, and those of dpstats by a "
        "replaced row, which is twice as much. PipelineDP (commit ec6e56ed) has no bounds of values.",
        "",
        "| population | " + " | ".join(f"n = {n:,}, ε = {e:g}: dpstats | Google | Tumult" for n, e in CELLS) + " |",
        "|---" * (1 + 3 * len(CELLS)) + "|",
    ]
    columns: list[list[float]] = [[] for _ in range(3 * len(CELLS))]
    for name in POPULATIONS:
        cells = []
        for n, epsilon in CELLS:
            for ratios in measure(name, n, epsilon, fits):
                missed = int(np.isnan(ratios).sum())
                mean = float(np.nanmean(ratios)) if missed < fits else math.nan
                columns[len(cells)].append(mean)
                cells.append(("–" if math.isnan(mean) else f"{mean:.3g}") + (f"; {missed}" if missed else ""))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    medians = [f"{np.nanmedian(column):.3g}" for column in columns]
    return "\n".join([*lines, "| median of all | " + " | ".join(medians) + " |", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--fits", type=int, default=10, help="fits of a cell")
    parser.add_argument("--no-write", action="store_true", help="print the page only")
    given = parser.parse_args()
    text = as_markdown(given.fits, "python validation/peers/unknown_bounds.py")
    print(text)
    if not given.no_write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
