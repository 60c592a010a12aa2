"""Errors of diffprivlib's mean, as JSON; mean_comparison.py runs this file in an environment of its own.

    python validation/peers/diffprivlib_mean.py '[[500, 5, 1.0, 10.0, 14.0, 20]]'

Each cell is n, d, epsilon, the box of the mean, the bound that rows are clamped to, and replications.
"""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np
from laws import standard_rows


def main() -> None:
    from diffprivlib import tools

    warnings.simplefilter("ignore")
    errors = []
    for n, d, epsilon, box, clip, replications in json.loads(sys.argv[1]):
        rng = np.random.default_rng([n, d, int(1000 * epsilon)])
        cell = []
        for seed in range(replications):
            mean = rng.uniform(-box, box, d)
            X = mean + standard_rows("normal", n, d, rng)
            estimate = tools.mean(X, epsilon=epsilon, bounds=(-clip, clip), axis=0, random_state=seed)
            cell.append(float(np.linalg.norm(estimate - mean)))
        errors.append(cell)
    print(json.dumps(errors))


if __name__ == "__main__":
    main()
