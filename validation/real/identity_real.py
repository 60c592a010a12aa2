"""Private identity tests on the RAND Health Insurance Experiment.

Rows: the health of a person-year (limitation, chronic diseases, and rated good, fair or poor). Which insurance plan
a person had was drawn by lot; the coinsurance rate, by which the rows are grouped, is declared public, and so are
the group sizes. The data are public, which is why non-private numbers can stand beside the private ones.

1. Does the health profile of one plan agree with a stated public reference? The reference is the mean and covariance
   of the group with free care, declared public.
2. A null check: one group is split at random into a tenth and the rest, whose mean and covariance are the
   reference; and rows are drawn with replacement from the group, whose mean and covariance are then exact.
   Over many splits with simulated noise, the share of rejections is to be near the level.

The columns are skewed (four are 0 or 1), and tests of N(mean, cov) reject skewed rows whatever their mean. So rows are
averaged in blocks of 25, in a random order that has nothing to do with them: a row is in one block only,
and the guarantee per row stays. The null check shows what happens without.

Each person has up to five rows: the guarantee is per row, and rows of one person are dependent, so that
rejections in part 1 overstate the evidence.

    python validation/real/identity_real.py
    python validation/real/identity_real.py --replications 20 --no-write
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import joblib
import numpy as np

import dpstats
from dpstats.identity import LipschitzExtensionTest, RowDistanceTest, SpatialSignTest
from dpstats.identity.base import PrivateTest

RESULTS = Path(__file__).resolve().parents[1] / "results" / "identity_real.md"
COLUMNS = ["physlm", "disea", "hlthg", "hlthf", "hlthp"]
EPSILON, LEVEL, SEED = 1.0, 0.05, 1974
BLOCK = 25
TESTS: tuple[PrivateTest, ...] = (RowDistanceTest(clip=1), SpatialSignTest(), LipschitzExtensionTest())


def load() -> dict[int, np.ndarray]:
    """Return the rows of every coinsurance rate, in per cent."""
    from statsmodels.datasets import randhie

    data = randhie.load_pandas().data
    rate = np.rint(np.expm1(data["lncoins"].to_numpy())).astype(int)
    rows = data[COLUMNS].to_numpy(dtype=float)
    return {int(value): rows[rate == value] for value in np.unique(rate)}


def averaged(rows: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Return the means of blocks of ``size`` rows in random order, less an incomplete block."""
    count = len(rows) // size
    return rows[rng.permutation(len(rows))[: count * size]].reshape(count, size, -1).mean(axis=1)


def fitted(test: PrivateTest, rows: Any, mean: Any, cov: Any, random_state: Any, n_jobs: int = 1) -> PrivateTest:
    given = {"mean": mean, "cov": cov, "epsilon": EPSILON, "random_state": random_state, "n_jobs": n_jobs}
    return type(test)(**{**test.get_params(), **given}).fit(rows)


def reference(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return rows.mean(axis=0), np.cov(rows, rowvar=False)


def distance(rows: np.ndarray, mean: np.ndarray, cov: np.ndarray) -> float:
    """Return the Mahalanobis distance of the rows' mean from a reference: not private."""
    gap = rows.mean(axis=0) - mean
    return float(np.sqrt(gap @ np.linalg.solve(cov, gap)))


def null_check(group: np.ndarray, seed: np.random.SeedSequence) -> np.ndarray:
    """Return rejections, of shape (3, tests): a random tenth against the rest, and rows drawn again, twice."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(group))
    size = len(group) // 10
    again = group[rng.integers(len(group), size=size)]
    cases = [(group[order[:size]], group[order[size:]], BLOCK), (again, group, BLOCK), (again, group, 1)]
    rejected = []
    for rows, other, block in cases:
        mean, cov = reference(other)
        blocks = averaged(rows, block, rng)
        rejected.append([fitted(test, blocks, mean, cov / block, rng).reject_ for test in TESTS])
    return np.array(rejected)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    start = time.perf_counter()
    groups = load()
    mean, cov = reference(groups[0])
    lines = []
    for rate, rows in groups.items():
        if rate == 0:
            continue
        blocks = averaged(rows, BLOCK, np.random.default_rng(SEED))
        for test in TESTS:
            result = fitted(test, blocks, mean, cov / BLOCK, SEED, options.jobs)
            # Distances of averages are sqrt(BLOCK) times those of rows.
            interval = result.distance_interval(n_simulations=400)
            low, high = interval.low / BLOCK**0.5, interval.high / BLOCK**0.5
            decision = "reject" if result.reject_ else "do not reject"
            lines.append(
                f"| {rate}% | {len(rows):,} | {result.result_.test} | {result.statistic_:.4g} "
                f"| {result.threshold_:.4g} | {result.pvalue_:.4f} | {decision} | [{low:.3f}, {high:.3f}] "
                f"| {distance(rows, mean, cov):.3f} |"
            )
    seeds = np.random.SeedSequence(SEED).spawn(options.replications)
    null_check(groups[0], np.random.SeedSequence(0))  # calibrates once, before the processes start
    found = np.mean(
        joblib.Parallel(n_jobs=options.jobs)(joblib.delayed(null_check)(groups[0], seed) for seed in seeds), axis=0
    )
    error = np.sqrt(LEVEL * (1 - LEVEL) / options.replications)
    text = "\n".join(
        [
            "# Identity tests on the RAND Health Insurance Experiment",
            "",
            f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, numpy {np.__version__}; "
            f"{(time.perf_counter() - start) / 60:.0f} minutes.",
            "",
            f"    python validation/real/identity_real.py --replications {options.replications}",
            "",
            f"Columns: {', '.join(COLUMNS)}. The plan (coinsurance rate) is declared public; the reference is the mean "
            f"and covariance of the {len(groups[0]):,} rows with free care, declared public. epsilon = {EPSILON:g} per "
            f"row and test, level {LEVEL:g}, simulated noise (seed {SEED}). The last column is not private. Rows of "
            f"one person are dependent, which the null hypothesis does not allow for. Averages of {BLOCK} rows.",
            "",
            "| plan | rows | test | statistic | critical value | p-value | decision | 95% interval | distance |",
            "|---|---|---|---|---|---|---|---|---|",
            *lines,
            "",
            f"## Null check: rejections at {LEVEL:g} over {options.replications:,} repetitions (s.e. {error:.4f})",
            "",
            f"Rows are skewed (four columns are 0 or 1); averages of {BLOCK} are less so. Without averaging the "
            "null hypothesis, the whole normal law, is false, and is rejected. The reference of a split is itself "
            "estimated from nine tenths of the rows, which adds a ninth to the variance.",
            "",
            "| | " + " | ".join(test._title for test in TESTS) + " |",
            "|---|" + "---|" * len(TESTS),
            "| a random tenth against the rest | " + " | ".join(f"{x:.4f}" for x in found[0]) + " |",
            "| a tenth drawn with replacement, against the whole | " + " | ".join(f"{x:.4f}" for x in found[1]) + " |",
            "| the same, rows not averaged | " + " | ".join(f"{x:.4f}" for x in found[2]) + " |",
            "",
        ]
    )
    print(text)
    if not options.no_write:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
