"""A study for a process that is killed: python -m tests.simulation.interrupted_study FILE."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from dpstats.simulation import Adapter, Gaussian, Study
from dpstats.simulation import study as module


def slow_mean(X, rng, power):
    time.sleep(0.001)
    if power == 3 and rng.random() < 0.3:
        raise RuntimeError("now and then")
    return np.sign(X).mean(axis=0) if power == 1 else X.mean(axis=0) + rng.normal()


def build() -> Study:
    grid = {"n": [5, 50], "d": [2], "power": [1, 2, 3]}
    return Study(Gaussian(), Adapter(slow_mean, power=1), grid, 60, seed=3, name="killed")


if __name__ == "__main__":
    module.BLOCK_SECONDS = 0.01  # many small blocks: many places to be killed in
    build().run(Path(sys.argv[1]))
