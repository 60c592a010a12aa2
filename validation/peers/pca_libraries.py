"""Components of diffprivlib and of OpenDP, as JSON; studies/covariance_peers.py runs it in an environment of its own.

    python validation/peers/pca_libraries.py input.npz

The input has datasets ``rows`` of shape (runs, n, d), a ``radius`` of the rows, ``epsilon`` and ``components``. Both
get the radius, and that the mean is 0, as public knowledge.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import numpy as np


def diffprivlib_components(X: Any, radius: float, epsilon: float, k: int, seed: int) -> Any:
    from diffprivlib.models import PCA

    shrunk = X * np.minimum(1, radius / np.linalg.norm(X, axis=1))[:, None]
    made = PCA(n_components=k, epsilon=epsilon, data_norm=radius * (1 + 1e-9), centered=True, random_state=seed)
    return made.fit(shrunk).components_


def opendp_components(X: Any, radius: float, epsilon: float, k: int, seed: int) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib", "idealized-numerics", "honest-but-curious")
    n, d = X.shape
    domain = dp.numpy.array2_domain(num_columns=d, size=n, T=float, origin=np.zeros(d), norm=radius, p=2)
    made = dp.sklearn.decomposition.make_private_pca(
        domain, dp.symmetric_distance(), epsilon, norm=radius, num_components=k
    )
    shrunk = X * np.minimum(1, radius * (1 - 1e-9) / np.linalg.norm(X, axis=1))[:, None]
    return made(shrunk).Vt[:k]


def main() -> None:
    warnings.simplefilter("ignore")
    given = np.load(sys.argv[1])
    radius, epsilon, k = float(given["radius"]), float(given["epsilon"]), int(given["components"])
    found: dict[str, Any] = {}
    for name, method in (("diffprivlib", diffprivlib_components), ("OpenDP", opendp_components)):
        found[name] = [np.asarray(method(X, radius, epsilon, k, seed)).tolist() for seed, X in enumerate(given["rows"])]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
