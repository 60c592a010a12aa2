"""Kendall's correlation by order, beside all pairs of rows and scipy, which is not private.

python validation/benchmarks/correlation.py            print the table
python validation/benchmarks/correlation.py --write    and write validation/results/benchmark_correlation.md
"""

from __future__ import annotations

import numpy as np
from scipy.stats import kendalltau
from timing import Case, interleaved, milliseconds, publish, ratios, table, versions, write_wanted

from dpstats.covariance import PrivateCorrelation
from dpstats.covariance.private_correlation import concordance_sums

LIMIT = "scipy, `kendalltau`: the limit"
PAIRS = 10_000
"""Most rows whose pairs are all counted."""


def all_pairs(X: np.ndarray) -> np.ndarray:
    """Return the concordance of every row from its definition, in blocks of rows."""
    x, y = X.T
    step = max(1, (1 << 22) // len(X))
    blocks = [slice(start, start + step) for start in range(0, len(X), step)]
    signs = [(np.greater.outer(z[b], z).view(np.int8) - np.less.outer(z[b], z)) for b in blocks for z in (x, y)]
    return np.concatenate([(a * b).sum(axis=1, dtype=np.int64) for a, b in zip(signs[::2], signs[1::2], strict=True)])


def cases(n: int) -> dict[str, Case]:
    X = np.random.default_rng(0).normal(size=(n, 2))
    found: dict[str, Case] = {
        LIMIT: lambda: kendalltau(*X.T),
        "sums by order": lambda: concordance_sums(X),
        "`PrivateCorrelation.fit`": lambda: PrivateCorrelation().fit(X),
    }
    if n <= PAIRS:
        found["sums over all pairs of rows"] = lambda: all_pairs(X)
    return found


def main() -> None:
    write = write_wanted(__doc__)
    rows = []
    for n in (1_000, PAIRS, 100_000, 1_000_000):
        times = interleaved(cases(n), 5)
        for name, found in times.items():
            rows.append((f"{n:,}", name, milliseconds(found), ratios(found, times[LIMIT])))
    body = table(("Rows", "Two columns", "ms", "over the limit"), rows)
    publish("benchmark_correlation", "Kendall's correlation", body, versions("numpy", "scipy"), write=write)


if __name__ == "__main__":
    main()
