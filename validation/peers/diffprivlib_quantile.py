"""Errors and times of diffprivlib's quantile, as JSON; studies/quantiles.py runs it in an environment of its own.

    python validation/peers/diffprivlib_quantile.py '[["normal", 0.5, 500, 1.0, 20]]'

Each cell is a law, q, n, epsilon and replications; laws are in quantile_laws.py.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import numpy as np
from quantile_laws import LAWS


def main() -> None:
    from diffprivlib import tools

    warnings.simplefilter("ignore")
    cells = []
    for law, q, n, epsilon, replications in json.loads(sys.argv[1]):
        made, estimates, failed, seconds = LAWS[law], [], 0, 0.0
        for seed in range(replications):
            x = made.rows(n, np.random.default_rng([n, seed])).astype(float)
            start = time.perf_counter()
            try:
                found = float(tools.quantile(x, q, epsilon=epsilon, bounds=made.bounds, random_state=seed))
            except Exception:
                failed, found = failed + 1, float("nan")
            seconds += time.perf_counter() - start
            estimates.append(found)
        cells.append({"estimates": estimates, "failed": failed, "seconds": seconds / replications})
    print(json.dumps(cells))


if __name__ == "__main__":
    main()
