"""The mean study's loop written with diffprivlib: seconds per replication as JSON.

Run by simulation.py in .venv-peers (see time_diffprivlib_mean.py), as diffprivlib needs an older scikit-learn.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np


def main(sizes: list[int], d: int, replications: int) -> dict[str, object]:
    """Return the seconds per replication of every size, and of the draw alone."""
    from diffprivlib import tools

    seconds = {}
    for n in sizes:
        rng = np.random.default_rng(0)
        # A column is one query: epsilon is shared, as diffprivlib's mean does it for axis=0.
        start = time.perf_counter()
        losses = []
        for _ in range(replications):
            X = rng.standard_normal((n, d))
            mean = tools.mean(X, epsilon=1.0, bounds=(-6.0, 6.0), axis=0, random_state=1)
            losses.append(float(np.sum(mean**2)))
        seconds[str(n)] = (time.perf_counter() - start) / replications
    return {"seconds": seconds, "version": __import__("diffprivlib").__version__}


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps(main(given["sizes"], given["d"], given["replications"])))
