"""Risk and interval coverage of ClippedMean, by simulation.

For every (n, d): datasets are drawn, and every estimator below is fitted to each with simulated
noise. Reported are

* risk: the mean squared l2 error over `plan(n, d).expected_error`, for Rademacher rows (no clipping
  active), with its Monte Carlo standard error;
* coverage of 95% intervals per column and of simultaneous ones, for normal rows: the spread known, known
  up to a factor 1.5, and estimated privately.

    python validation/studies/mean_risk_and_coverage.py            # 10,000 datasets a cell
    python validation/studies/mean_risk_and_coverage.py --fast     # 400, as in the test suite
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import joblib
import numpy as np

import dpstats
from dpstats.means import ClippedMean

RESULTS = Path(__file__).resolve().parents[1] / "results" / "mean_risk_and_coverage.md"
SIZES = ((200, 1), (200, 20), (20_000, 1), (20_000, 20))
DELTAS = (0.0, 1e-6)
CLIP = 6.0
MEAN = 0.5
SPREADS = {"true": 1.0, "upper bound (1.5 x)": 1.5, "private": "private"}


@dataclass(frozen=True)
class RiskCell:
    """Squared errors of one estimator over its expected one."""

    n: int
    d: int
    delta: float
    ratio: float
    standard_error: float


@dataclass(frozen=True)
class CoverageCell:
    """How often intervals cover."""

    n: int
    d: int
    delta: float
    spread: str
    per_column: float
    standard_error: float
    simultaneous: float
    replications: int


def risk_block(n: int, d: int, seeds: list[np.random.SeedSequence]) -> np.ndarray:
    """Return squared errors of shape (datasets, deltas) for Rademacher rows with clip 1."""
    errors = np.empty((len(seeds), len(DELTAS)))
    for i, seed in enumerate(seeds):
        rng = np.random.default_rng(seed)
        X = rng.choice(np.array([-1.0, 1.0]), size=(n, d))
        for j, delta in enumerate(DELTAS):
            fitted = ClippedMean(epsilon=1.0, delta=delta, clip=1.0, std=1.0, random_state=rng).fit(X)
            errors[i, j] = np.sum(fitted.mean_**2)
    return errors


def coverage_block(n: int, d: int, seeds: list[np.random.SeedSequence]) -> np.ndarray:
    """Return (datasets, deltas, spreads, 2): the share of columns covered, and whether all are at once."""
    covered = np.empty((len(seeds), len(DELTAS), len(SPREADS), 2))
    for i, seed in enumerate(seeds):
        rng = np.random.default_rng(seed)
        X = rng.normal(MEAN, 1.0, size=(n, d))
        for (j, delta), (k, std) in itertools.product(enumerate(DELTAS), enumerate(SPREADS.values())):
            fitted = ClippedMean(epsilon=1.0, delta=delta, clip=CLIP, std=std, random_state=rng).fit(X)
            for m, together in enumerate((False, True)):
                low, high = fitted.confidence_interval(simultaneous=together)
                inside = (low <= MEAN) & (high >= MEAN)
                covered[i, j, k, m] = inside.all() if together else inside.mean()
    return covered


def _in_blocks(function, n: int, d: int, replications: int, seed: int, jobs: int) -> np.ndarray:
    seeds = np.random.SeedSequence([seed, n, d]).spawn(replications)
    blocks = [seeds[i : i + 100] for i in range(0, replications, 100)]
    return np.concatenate(joblib.Parallel(n_jobs=jobs)(joblib.delayed(function)(n, d, block) for block in blocks))


def study(replications: int, *, seed: int = 2026, jobs: int = 2, sizes=SIZES) -> tuple[list, list]:
    """Return the cells of both tables."""
    risks, coverages = [], []
    for n, d in sizes:
        errors = _in_blocks(risk_block, n, d, replications, seed, jobs)
        for j, delta in enumerate(DELTAS):
            expected = ClippedMean(epsilon=1.0, delta=delta, clip=1.0, std=1.0).plan(n, d).expected_error()
            ratios = errors[:, j] / expected
            risks.append(RiskCell(n, d, delta, ratios.mean(), ratios.std(ddof=1) / np.sqrt(replications)))
        covered = _in_blocks(coverage_block, n, d, replications, seed + 1, jobs)
        for (j, delta), (k, spread) in itertools.product(enumerate(DELTAS), enumerate(SPREADS)):
            each, together = covered[:, j, k, 0], covered[:, j, k, 1]
            error = each.std(ddof=1) / np.sqrt(replications)
            coverages.append(CoverageCell(n, d, delta, spread, each.mean(), error, together.mean(), replications))
        print(f"n = {n}, d = {d}: done", file=sys.stderr)
    return risks, coverages


def as_markdown(risks: list[RiskCell], coverages: list[CoverageCell], seconds: float, replications: int) -> str:
    """Return both tables with the command that made them."""
    lines = [
        "# Risk and coverage of ClippedMean",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, numpy {np.__version__}; epsilon = 1; "
        f"{replications:,} datasets a cell, simulated noise, {seconds / 60:.0f} minutes on 2 cores.",
        "",
        f"    python validation/studies/mean_risk_and_coverage.py --replications {replications}",
        "",
        "## Squared error over the plan's expected error (Rademacher rows, clip 1)",
        "",
        "| n | d | delta | measured / expected | Monte Carlo s.e. |",
        "|---|---|---|---|---|",
        *(f"| {c.n} | {c.d} | {c.delta:g} | {c.ratio:.4f} | {c.standard_error:.4f} |" for c in risks),
        "",
        f"## Coverage of 95% intervals (rows N({MEAN}, 1), clip {CLIP:g})",
        "",
        "| n | d | delta | spread | per column | Monte Carlo s.e. | all columns at once |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {c.n} | {c.d} | {c.delta:g} | {c.spread} | {c.per_column:.4f} | {c.standard_error:.4f} "
            f"| {c.simultaneous:.4f} |"
            for c in coverages
        ),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=10_000)
    parser.add_argument("--fast", action="store_true", help="400 datasets a cell, nothing written")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    replications = 400 if options.fast else options.replications
    start = time.perf_counter()
    risks, coverages = study(replications, jobs=options.jobs)
    text = as_markdown(risks, coverages, time.perf_counter() - start, replications)
    print(text)
    if not options.fast:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
