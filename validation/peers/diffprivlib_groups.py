"""Releases of diffprivlib for groups, as JSON; `group_means_peers.py` runs this file in an environment of its own.

    python validation/peers/diffprivlib_groups.py '["normal", [1840, 920], -4.0, 4.0, 1.0, 100, 1]'

The task is a law, the sizes of the groups, bounds, epsilon, the number of runs and a seed. A row that goes from one
group to another is in both, so that each group gets half of epsilon, in three equal parts: for its count, mean and
standard deviation, each taken by diffprivlib as of a public number of rows, which it is not.
"""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np
from diffprivlib import tools


def rows_of(law: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return rows of a law, as `group_means.py` has them."""
    if law == "normal":
        return rng.standard_normal(n)
    if law == "exponential":
        return rng.standard_exponential(n)
    return (rng.random(n) < 0.1).astype(float)


def main() -> None:
    warnings.simplefilter("ignore")
    law, sizes, low, high, epsilon, runs, seed = json.loads(sys.argv[1])
    each, found = epsilon / 6, []
    for run in range(runs):
        rng, of_run = np.random.default_rng([seed, run]), []
        for k, n in enumerate(sizes):
            rows = np.clip(rows_of(law, n, rng), low, high)
            noise = 1000 * run + k
            count = tools.count_nonzero(np.ones(n), epsilon=each, random_state=noise)
            mean = tools.mean(rows, epsilon=each, bounds=(low, high), random_state=noise)
            std = tools.std(rows, epsilon=each, bounds=(low, high), random_state=noise)
            of_run.append([float(count), float(mean), float(std)])
        found.append(of_run)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
