"""Attack the sensitivity of the row distance with more than a million pairs of neighbors.

Three attacks: random pairs of Gram matrices with entries +-rho (each is that of integer rows, see
tests/identity/test_rows.py), the statistic's jump beyond what one row may do; hill climbing on it; and random
pairs of integer rows through `row_distance` itself. Each is also run against planted constants.

    python validation/searches/identity_search.py                       # 12,000,000 random pairs
    python validation/searches/identity_search.py --replications 100000 --no-write
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import joblib
import numpy as np

import dpstats
from dpstats.identity import row_distance
from dpstats.parallel import cut

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).resolve().parents[1] / "results" / "identity_search.md"
sys.path.insert(0, str(ROOT / "tests" / "identity"))

INCREMENTS = (8.0, 7.75, 7.5, 7.0)
"""The proved increment of the threshold, and planted ones."""


def random_jumps(pairs: int, seed: np.random.SeedSequence) -> dict[float, float]:
    """Return the worst jump, over random neighboring Gram matrices, for each increment."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 16))
    p = rng.random((pairs, 1, 1))
    G = np.triu(np.where(rng.random((pairs, n, n)) < p, 1, -1), 1)
    G = G + G.transpose(0, 2, 1)
    H = G.copy()
    row = np.where(rng.random((pairs, n - 1)) < rng.random((pairs, 1)), 1, -1)
    H[:, 0, 1:] = row
    H[:, 1:, 0] = row
    a0 = rng.integers(0, 2 * n, (pairs, 1))
    k = np.arange(n + 1)
    curves = []
    for matrices in (G, H):
        r = matrices.sum(axis=2)
        top = np.cumsum(np.sort(np.maximum(r, 0), axis=1)[:, ::-1], axis=1)
        top = np.concatenate([np.zeros((pairs, 1)), top], axis=1)
        low = np.maximum(-(a0 + 2 * k)[:, :, None] - r[:, None, :], 0).sum(axis=2)
        curves.append(r.sum(axis=1, keepdims=True) - 2 * top + 2 * low - 2 * a0 * k)
    worst = {}
    for increment in INCREMENTS:
        both = [curve - increment / 2 * k * (k - 1) for curve in curves]
        jumps = [
            (np.minimum.accumulate(second, axis=1)[:, 1:-1] - first[:, :-2]).max()
            for first, second in (both, both[::-1])
        ]
        worst[increment] = float(max(jumps))
    return worst


def climbed(increment: float, seed: int, steps: int) -> float:
    """Return the jump that hill climbing reaches."""
    from test_rows import climb

    return float(climb(increment, seed, steps)[0][0])


def row_pairs(pairs: int, seed: np.random.SeedSequence) -> tuple[int, int]:
    """Return how many random neighbors' distances differ, and by more than one."""
    rng = np.random.default_rng(seed)
    moved = broken = 0
    for _ in range(pairs):
        n, d, s = int(rng.integers(2, 9)), int(rng.integers(1, 5)), int(rng.choice([1, 2, 4]))
        X = rng.integers(-s, s + 1, (n, d))
        Y = X.copy()
        Y[0] = rng.integers(-s, s + 1, d)
        rho, a0 = int(rng.integers(1, s * s * d + 1)), int(rng.integers(0, 2 * s * s * d))
        tau = int(rng.integers(-4, 9)) * rho
        first, second = row_distance(X, rho, a0, tau), row_distance(Y, rho, a0, tau)
        moved += first != second
        broken += abs(first - second) > 1
    return moved, broken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=12_000_000, help="random pairs of Gram matrices")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    start = time.perf_counter()
    parallel = joblib.Parallel(n_jobs=options.jobs)
    root = np.random.SeedSequence(2026)
    blocks = cut(options.replications, 4000)
    found = parallel(
        joblib.delayed(random_jumps)(size, seed) for size, seed in zip(blocks, root.spawn(len(blocks)), strict=True)
    )
    random = {increment: max(worst[increment] for worst in found) for increment in INCREMENTS}
    climbs = max(2, options.replications // 300_000)
    steps = 3000
    climbing = {
        increment: max(parallel(joblib.delayed(climbed)(increment, seed, steps) for seed in range(climbs)))
        for increment in INCREMENTS
    }
    row_blocks = cut(max(options.replications // 20, 1000), 5000)
    rows = parallel(
        joblib.delayed(row_pairs)(size, seed)
        for size, seed in zip(row_blocks, root.spawn(len(row_blocks)), strict=True)
    )
    moved, broken = (sum(part[i] for part in rows) for i in range(2))
    lines = [
        "# Attack on the sensitivity of the row distance",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, numpy {np.__version__}; "
        f"{(time.perf_counter() - start) / 60:.0f} minutes.",
        "",
        f"    python validation/searches/identity_search.py --replications {options.replications}",
        "",
        "A positive jump is a pair of neighbors whose distances differ by more than one. The proved increment is 8.",
        "",
        f"| increment | worst of {options.replications:,} random pairs | worst of {climbs} climbs of {steps:,} pairs |",
        "|---|---|---|",
        *(f"| {i:g} | {random[i]:g} | {climbing[i]:g} |" for i in INCREMENTS),
        "",
        f"Random integer rows through `row_distance`: {sum(row_blocks):,} pairs, {moved:,} with different distances, "
        f"{broken} that differ by more than one.",
        "",
    ]
    text = "\n".join(lines)
    print(text)
    if not options.no_write:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
