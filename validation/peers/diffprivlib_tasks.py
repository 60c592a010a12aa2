"""diffprivlib's answers to the tasks of benchmarks/peers.py, as JSON; run in an environment of its own.

    python validation/peers/diffprivlib_tasks.py FOLDER

FOLDER has the datasets, as one npz file a task. A mean is for a row that is replaced, as ours is; a histogram for one
that is added, so it is asked for half of epsilon, which is epsilon for a row that is replaced.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

EPSILON = 1.0


def tasks() -> dict[str, Callable[[Any, int], Any]]:
    from diffprivlib import tools
    from diffprivlib.models import LinearRegression

    def regression(data: Any, seed: int) -> Any:
        X, y, low, high = data[:, :-1], data[:, -1], -4.0, 4.0
        d = X.shape[1]
        made = LinearRegression(
            epsilon=EPSILON, bounds_X=(np.full(d, low), np.full(d, high)), bounds_y=(-8.0, 8.0), random_state=seed
        )
        return made.fit(X, y).coef_

    return {
        "mean": lambda x, seed: tools.mean(x, epsilon=EPSILON, bounds=(0, 10), random_state=seed),
        "median": lambda x, seed: tools.median(x, epsilon=EPSILON, bounds=(0, 10), random_state=seed),
        "counts": lambda x, seed: tools.histogram(
            x, epsilon=EPSILON / 2, bins=10, range=(-0.5, 9.5), random_state=seed
        )[0],
        "means": lambda x, seed: tools.mean(x, epsilon=EPSILON, bounds=(-14, 14), axis=0, random_state=seed),
        "regression": regression,
    }


def main() -> None:
    warnings.simplefilter("ignore")
    found = {}
    for name, work in tasks().items():
        sets = np.load(Path(sys.argv[1]) / f"{name}.npz")["sets"]
        start = time.perf_counter()
        answers = [np.asarray(work(data, seed), dtype=float).tolist() for seed, data in enumerate(sets)]
        found[name] = {"answers": answers, "seconds": (time.perf_counter() - start) / len(sets)}
    print(json.dumps({"found": found, "version": version("diffprivlib")}))


if __name__ == "__main__":
    main()
