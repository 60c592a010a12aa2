"""Python calls of one fit that charges a budget: what the frame costs beyond the arithmetic.

Counts function calls (of Python and of C) of the second fit of every kind, when caches are warm; counts do not depend
on the machine's speed.

    python validation/benchmarks/calls.py
"""

from __future__ import annotations

import cProfile
import pstats

import numpy as np

from dpstats.identity import SpatialSignTest
from dpstats.means import AdaptiveMean, ClippedMean, PrivateVariance, SparseMean
from dpstats.mechanisms import Histogram, LaplaceMechanism, ReportNoisyMax
from dpstats.privacy import PrivacyBudget


def calls(run) -> int:
    """Return how many calls the third run makes: caches are warm by then."""
    run()
    run()
    profile = cProfile.Profile()
    profile.enable()
    run()
    profile.disable()
    return pstats.Stats(profile).total_calls


def main() -> None:
    rows = np.random.default_rng(0).normal(size=(200, 3))
    wide = np.random.default_rng(0).normal(size=(200, 40))
    budget = PrivacyBudget(1e6, 0.5)
    fits = {
        "ClippedMean": lambda: ClippedMean(clip=3.0, budget=budget).fit(rows),
        "ClippedMean, Gaussian": lambda: ClippedMean(clip=3.0, delta=1e-6, budget=budget).fit(rows),
        "ClippedMean, private std": lambda: ClippedMean(clip=3.0, delta=1e-6, std="private", budget=budget).fit(rows),
        "AdaptiveMean": lambda: AdaptiveMean(bound=10.0, std=1.0, budget=budget).fit(rows),
        "SparseMean": lambda: SparseMean(n_nonzero=3, clip=4.0, std=1.0, budget=budget).fit(wide),
        "PrivateVariance": lambda: PrivateVariance(clip=3.0, budget=budget).fit(rows),
        "SpatialSignTest": lambda: SpatialSignTest(n_calibration=99, budget=budget).fit(rows),
        "LaplaceMechanism": lambda: LaplaceMechanism(1.0, 1.0, budget=budget).release(3.0),
        "Histogram": lambda: Histogram([0, 1, 2], 1.0, budget=budget).release([0, 1, 1, 2] * 10),
        "ReportNoisyMax": lambda: ReportNoisyMax(1.0, 1.0, budget=budget).select([1.0, 2.0, 3.0]),
    }
    print("| fit with a budget | calls |")
    print("|---|---|")
    for name, run in fits.items():
        print(f"| {name} | {calls(run):,} |")


if __name__ == "__main__":
    main()
