"""Bounds that nobody knows: mean squared errors over those of the best bounds, and coverage of E[clip(x)].

The best bounds are known from the population, and have the same remaining epsilon. Populations are not those that the
families of tails were made for. AdaptiveMean has honest, loose limits: ten times as wide as needed, with a bound on the
standard deviation that is ten times too large.

    python validation/studies/private_bounds.py
    python validation/studies/private_bounds.py --fits 4 --coverage 4 --adaptive 1 --no-write
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dpstats
from dpstats.errors import DPStatsError
from dpstats.means import AdaptiveMean, ClippedMean, PrivateBounds, UnknownBounds

RESULTS = Path(__file__).resolve().parents[1] / "results" / "private_bounds.md"
SHARE = 0.2
LEVEL = 0.95
CELLS = ((2000, 1.0), (20_000, 0.5), (20_000, 1.0))
COVERAGE_CELL = (2000, 1.0)
ROWS_OF_POPULATION = 200_000

Draw = Callable[[np.random.Generator, int], np.ndarray]


class Population(NamedTuple):
    """A distribution, and the spacing of its values if there is one."""

    draw: Draw
    step: float | None = None


POPULATIONS = {
    "gamma(3) - 2": Population(lambda rng, n: rng.gamma(3.0, size=n) - 2),
    "Gumbel(100, 15)": Population(lambda rng, n: rng.gumbel(100, 15, n)),
    "half normal, unit 1e4": Population(lambda rng, n: 1e4 * np.abs(rng.standard_normal(n))),
    "log-logistic(4)": Population(lambda rng, n: (1 / rng.random(n) - 1) ** 0.25),
    "t(4), unit 1e-3": Population(lambda rng, n: 1e-3 * rng.standard_t(4, n)),
    "three clusters": Population(lambda rng, n: rng.normal(0, 1, n) + rng.choice([-15, 0, 9], n, p=[0.2, 0.6, 0.2])),
    "geometric counts": Population(lambda rng, n: rng.geometric(0.2, n).astype(float) - 1, 1.0),
    "ratings 1 to 5": Population(lambda rng, n: rng.choice([1.0, 2, 3, 4, 5], n, p=[0.05, 0.05, 0.1, 0.3, 0.5]), 1.0),
    "beta(2, 5), percent": Population(lambda rng, n: 100 * rng.beta(2, 5, n)),
    "normal(-5e4, 20)": Population(lambda rng, n: rng.normal(-5e4, 20, n)),
    "wages, in hundreds": Population(lambda rng, n: 100 * np.round(rng.lognormal(5.5, 0.6, n)), 100.0),
    "2% in another unit": Population(lambda rng, n: rng.gamma(9.0, size=n) * np.where(rng.random(n) < 0.02, 10.0, 1.0)),
}


def expected_error(z: np.ndarray, n: int, epsilon: float, low: float, high: float) -> float:
    """Return the mean squared error of a mean clipped to bounds, with Laplace noise."""
    clipped = np.clip(z, low, high)
    bias = clipped.mean() - z.mean()
    return float(clipped.var() / n + bias**2 + 2 * ((high - low) / (n * epsilon)) ** 2)


def best_bounds(z: np.ndarray, n: int, epsilon: float) -> tuple[float, float]:
    """Return the bounds with the least noise and bias of both sides, among pairs of quantiles.

    Biases add up: a symmetric population would otherwise reward a clip of width 0.
    """
    shares = np.concatenate([[0], np.geomspace(1e-5, 0.25, 40)])
    high, low = np.quantile(z, 1 - shares), np.quantile(z, shares)
    above = np.array([np.clip(z - end, 0, None).mean() for end in high])
    below = np.array([np.clip(end - z, 0, None).mean() for end in low])
    width = high[:, None] - low[None, :]
    cost = (above[:, None] + below[None, :]) ** 2 + 2 * (width / (n * epsilon)) ** 2
    place = np.unravel_index(np.argmin(np.where(width > 0, cost, np.inf)), cost.shape)
    return float(low[place[1]]), float(high[place[0]])


def choose(x: np.ndarray, epsilon: float, step: float | None, rng: np.random.Generator) -> PrivateBounds:
    """Return fitted bounds for a fifth of epsilon."""
    first = SHARE * epsilon
    return PrivateBounds(step=step, epsilon=first, for_epsilon=epsilon - first, random_state=rng).fit(x[:, None])


def measure_errors(name: str, n: int, epsilon: float, fits: int, seed: int = 1) -> dict[str, Any]:
    """Return ratios of the expected error to that of the best bounds, and how often none were found."""
    population = POPULATIONS[name]
    rng = np.random.default_rng([seed, n, round(1000 * epsilon), list(POPULATIONS).index(name)])
    z, rest = population.draw(rng, ROWS_OF_POPULATION), (1 - SHARE) * epsilon
    best = best_bounds(z, n, rest)
    least, found, ends = expected_error(z, n, rest, *best), [], []
    for _ in range(fits):
        bounds = choose(population.draw(rng, n), epsilon, population.step, rng)
        if bounds.found_[0]:
            ends.append((bounds.low_[0], bounds.high_[0]))
            found.append(expected_error(z, n, rest, *ends[-1]) / least)
    return {
        "ratios": np.array(found),
        "missed": fits - len(found),
        "best": best,
        "bounds": np.median(ends, axis=0) if ends else np.full(2, math.nan),
    }


def measure_coverage(name: str, fits: int, seed: int = 2) -> dict[str, float]:
    """Return the coverage of E[clip(x)] and of E[x], and the median width over that of a usual interval."""
    population, (n, epsilon) = POPULATIONS[name], COVERAGE_CELL
    rng = np.random.default_rng([seed, list(POPULATIONS).index(name)])
    z = population.draw(rng, ROWS_OF_POPULATION)
    usual = 2 * 1.96 * z.std() / math.sqrt(n)
    covered, of_all, widths = [], [], []
    for _ in range(fits):
        try:
            mean = ClippedMean(bounds=UnknownBounds(step=population.step), epsilon=epsilon, random_state=rng).fit(
                population.draw(rng, n)[:, None]
            )
        except DPStatsError:
            continue
        low, high = (float(end[0]) for end in mean.confidence_interval(LEVEL))
        covered.append(low <= np.clip(z, *mean.bounds_[0]).mean() <= high)
        of_all.append(low <= z.mean() <= high)
        widths.append((high - low) / usual)
    return {
        "clipped": float(np.mean(covered)),
        "all": float(np.mean(of_all)),
        "width": float(np.median(widths)),
        "fits": len(covered),
    }


def measure_adaptive(name: str, n: int, epsilon: float, fits: int, seed: int = 3) -> tuple[float, float]:
    """Return the squared error of AdaptiveMean over the best one, and its width over that of a usual interval."""
    population = POPULATIONS[name]
    rng = np.random.default_rng([seed, n, list(POPULATIONS).index(name)])
    z, rest = population.draw(rng, ROWS_OF_POPULATION), (1 - SHARE) * epsilon
    least = expected_error(z, n, rest, *best_bounds(z, n, rest))
    limit, spread = 10 * (abs(z.mean()) + z.std()), 10 * z.std()
    errors, widths = [], []
    for _ in range(fits):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mean = AdaptiveMean(
                bounds=(-limit, limit), std="private", std_bound=spread, epsilon=epsilon, delta=0.0, random_state=rng
            ).fit(population.draw(rng, n)[:, None])
        errors.append((float(mean.mean_[0]) - z.mean()) ** 2)
        low, high = mean.confidence_interval(LEVEL)
        widths.append(float(high[0] - low[0]) / (2 * 1.96 * z.std() / math.sqrt(n)))
    return float(np.mean(errors)) / least, float(np.median(widths))


def as_markdown(fits: int, coverage: int, adaptive: int, command: str) -> str:
    """Return the page of results."""
    lines = [
        "# Bounds that nobody knows",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}",
        "",
        f"    {command}",
        "",
        "## Error over that of the best bounds",
        "",
        "Mean squared error of a clipped mean at the bounds of `PrivateBounds`, over that of the best bounds at the "
        f"same remaining epsilon: the mean (and the median) of {fits} fits. Bounds cost a fifth of ε. Behind a "
        "semicolon: fits that found no bounds.",
        "",
        "| population | " + " | ".join(f"n = {n:,}, ε = {epsilon:g}" for n, epsilon in CELLS) + " |",
        "|---" * (len(CELLS) + 1) + "|",
    ]
    means: dict[tuple[int, float], list[float]] = {cell: [] for cell in CELLS}
    for name in POPULATIONS:
        cells = []
        for n, epsilon in CELLS:
            found = measure_errors(name, n, epsilon, fits)
            ratios = found["ratios"]
            missed = f"; {found['missed']}" if found["missed"] else ""
            if not ratios.size:
                cells.append(f"–{missed}")
                continue
            means[n, epsilon].append(float(ratios.mean()))
            cells.append(f"{ratios.mean():.2f} ({np.median(ratios):.2f}){missed}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    lines.append("| mean of all | " + " | ".join(f"{np.mean(means[cell]):.2f}" for cell in CELLS) + " |")
    lines.append("| largest | " + " | ".join(f"{np.max(means[cell]):.2f}" for cell in CELLS) + " |")
    n, epsilon = COVERAGE_CELL
    lines += [
        "",
        f"## Coverage of 95% intervals, and AdaptiveMean, n = {n:,}, ε = {epsilon:g}",
        "",
        f'`ClippedMean(bounds="private")`, {coverage} fits: a coverage of 0.95 has a standard error of '
        f"{math.sqrt(0.0475 / coverage):.3f}. Widths are over that of a 95% interval without privacy. `AdaptiveMean` "
        f"has a range and `std_bound` that are ten times as large as needed, and all of ε: {adaptive} fits. Intervals "
        "are for E[clip(x)]; E[x] is there for comparison.",
        "",
        "| population | covers E[clip(x)] | covers E[x] | width | `AdaptiveMean`: error over the best | width |",
        "|---|---|---|---|---|---|",
    ]
    for name in POPULATIONS:
        found = measure_coverage(name, coverage)
        error, width = measure_adaptive(name, n, epsilon, adaptive)
        own = f"{found['clipped']:.3f} | {found['all']:.3f} | {found['width']:.2f}"
        lines.append(f"| {name} | {own} | {error:.1f} | {width:.3g} |")
        print(lines[-1], flush=True)
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--fits", type=int, default=10, help="fits of a cell of the first table")
    parser.add_argument("--coverage", type=int, default=60, help="fits of a population for coverage")
    parser.add_argument("--adaptive", type=int, default=3, help="fits of AdaptiveMean")
    parser.add_argument("--no-write", action="store_true", help="print the page only")
    given = parser.parse_args()
    text = as_markdown(given.fits, given.coverage, given.adaptive, "python validation/studies/private_bounds.py")
    print(text)
    if not given.no_write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
