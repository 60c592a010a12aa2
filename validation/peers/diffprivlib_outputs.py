"""Write outputs of diffprivlib's mechanisms and tools on two neighboring datasets, for audit_peers.py.

diffprivlib needs an older scikit-learn than dpstats: audit_peers.py runs this file in an
environment of its own and reads the arrays back. It needs numpy and diffprivlib alone.

    python validation/peers/diffprivlib_outputs.py FOLDER TRIALS SEED
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np

# A hundred rows in [0, 1], half of them in each class; the neighbors have one row replaced.
ROWS = 100
ZEROS, ONE_IS_ONE = np.zeros(ROWS), np.eye(1, ROWS)[0]
LABELS = np.repeat([0, 1], ROWS // 2)
MOVED = np.append([1], LABELS[1:])  # the first row, in the other class

Case = tuple[Callable[[object], object], object, object]


def cases(state: np.random.RandomState) -> dict[str, Case]:
    """Return what is run: a release of one dataset, a dataset, its neighbor."""
    from diffprivlib import mechanisms, models, tools

    laplace = mechanisms.Laplace(epsilon=1.0, delta=0.0, sensitivity=1.0, random_state=state)
    gaussian = mechanisms.GaussianAnalytic(epsilon=1.0, delta=1e-2, sensitivity=1.0, random_state=state)
    textbook = mechanisms.Gaussian(epsilon=1.0, delta=1e-2, sensitivity=1.0, random_state=state)

    def mean(data: object) -> float:
        return tools.mean(data, epsilon=1.0, bounds=(0.0, 1.0), random_state=state)

    def bayes(data: object) -> object:
        values, labels = data
        model = models.GaussianNB(epsilon=3.0, bounds=([0.0], [1.0]), random_state=state)
        model.fit(values[:, None], labels)
        return np.concatenate([model.class_count_, model.theta_.ravel(), model.var_.ravel()])

    return {
        "Laplace": (laplace.randomise, 0.0, 1.0),
        "Gaussian": (textbook.randomise, 0.0, 1.0),
        "GaussianAnalytic": (gaussian.randomise, 0.0, 1.0),
        "mean, one row replaced": (mean, ZEROS, ONE_IS_ONE),
        "mean of two rows, one removed": (mean, np.array([1.0, 0.0]), np.array([1.0])),
        "GaussianNB, one row replaced, its class kept": (bayes, (ZEROS, LABELS), (ONE_IS_ONE, LABELS)),
        "GaussianNB, one row moved to the other class": (bayes, (ONE_IS_ONE, LABELS), (ONE_IS_ONE, MOVED)),
    }


def main(folder: str, trials: int, seed: int) -> None:
    """Run every case and write an array of shape (2, trials) or (2, trials, width) for each."""
    warnings.simplefilter("ignore")
    names = {}
    made = cases(np.random.RandomState(seed))
    for number, (name, (release, dataset, neighbor)) in enumerate(made.items()):
        outputs = [[release(data) for _ in range(trials)] for data in (dataset, neighbor)]
        np.save(Path(folder) / f"{number}.npy", np.array(outputs, dtype=np.float64))
        names[name] = f"{number}.npy"
    packages = {package: version(package) for package in ("diffprivlib", "numpy", "scikit-learn")}
    print(json.dumps({"files": names, "versions": packages}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
