"""The median of a million rows beside numpy's sort of them.

A quantile has to look at the order of all rows, so that its limit is `np.sort`; a fit reads, checks and rounds them,
sorts whole numbers, and draws exactly.

    python validation/benchmarks/quantiles.py            print the table
    python validation/benchmarks/quantiles.py --write    and write validation/results/benchmark_quantiles.md
"""

from __future__ import annotations

import numpy as np
from timing import Case, interleaved, milliseconds, publish, ratios, table, versions, write_wanted

from dpstats.quantiles import PrivateDistribution, PrivateMedian, PrivateQuantile

ROWS, ROUNDS = 1_000_000, 15
LIMIT = "numpy, `np.sort`: the limit"


def cases() -> dict[str, Case]:
    x = np.random.default_rng(0).normal(size=ROWS)
    bounds = (-10.0, 10.0)
    quartiles = [0.25, 0.5, 0.75]
    return {
        LIMIT: lambda: np.sort(x),
        "median and its interval": lambda: PrivateQuantile(bounds=bounds).fit(x),
        "median alone": lambda: PrivateQuantile(bounds=bounds, confidence_level=None).fit(x),
        "quartiles and their intervals": lambda: PrivateQuantile(quartiles, bounds=bounds).fit(x),
        "median and its interval, epsilon = .1": lambda: PrivateQuantile(bounds=bounds, epsilon=0.1).fit(x),
        "median and its interval, epsilon = .01": lambda: PrivateQuantile(bounds=bounds, epsilon=0.01).fit(x),
        "median by smooth sensitivity": lambda: PrivateMedian(bounds=bounds).fit(x),
        "distribution, 1024 cells": lambda: PrivateDistribution(bounds=bounds).fit(x),
    }


def main() -> None:
    write = write_wanted(__doc__)
    times = interleaved(cases(), ROUNDS)
    rows = [(name, milliseconds(found), ratios(found, times[LIMIT])) for name, found in times.items()]
    body = table((f"{ROWS:,} rows", "ms", "over the limit"), rows)
    publish("benchmark_quantiles", "Quantiles of a million rows", body, versions("numpy", "opendp"), write=write)


if __name__ == "__main__":
    main()
