"""The cells of the identity tests: what is varied, at which sizes, and the studies that measure them.

One parameter is varied at a time, over decades. q = sqrt(n) epsilon chooses which term counts: privacy below about 2,
sampling above about 30. Losses are squared critical distances, because the terms of the squares add up. A replication
is a batch of datasets with its own seed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from outcomes import Options
from reduced_distances import filtering, inner_products, l1_extension, row_distance, row_distance_limit, spatial_sign

from dpstats.simulation import Adapter, Study, StudyResults
from dpstats.simulation.samplers import estimate_of

REDUCED = {
    "row distance": row_distance,
    "l1 extension": l1_extension,
    "inner products": inner_products,
    "filtering": filtering,
}
SIGN_SIZES = (10**4, 10**6, 10**8)


class Sizes:
    """Rows of which only the numbers of rows and columns are known."""

    def __init__(self, n: int, d: int) -> None:
        self.shape = (n, d)


def sizes_only(n: int, d: int, rng: np.random.Generator) -> Sizes:
    """Return the sizes of data that are not drawn."""
    return Sizes(n, d)


def distance(X: Sizes, rng: np.random.Generator, test: str, epsilon: float, size: int) -> float:
    """Return one estimate of the critical distance, from ``size`` datasets."""
    n, d = X.shape
    if test == "row distance, many columns":
        return row_distance_limit(n, epsilon, rng, size)
    return REDUCED[test](n, d, epsilon, rng, size)


def found(fitted: Any, X: Any, truth: Any) -> float:
    """Return what was found."""
    return float(estimate_of(fitted))


def squared(fitted: Any, X: Any, truth: Any) -> float:
    """Return the squared distance."""
    return found(fitted, X, truth) ** 2


def powers(first: int, last: int, step: int) -> list[int]:
    """Return 2^first, ..., 2^last."""
    return [2**k for k in range(first, last + 1, step)]


def grids(options: Options) -> dict[str, list[dict[str, Any]]]:
    """Return the cells of every study by its name."""

    def row(n: int, epsilon: float, columns: list[int], size: int) -> list[dict[str, Any]]:
        return [
            {"n": n, "d": d, "epsilon": epsilon, "test": "row distance", "size": size}
            for d in (columns if options.scale == "full" else columns[::2])
        ]

    many = options.pick(200, 60, 20)
    limit = [
        {"n": n, "d": 1, "epsilon": q / math.sqrt(n), "test": "row distance, many columns", "size": 60}
        for n in options.pick((1000, 4000, 16_000), (1000, 4000), (1000,))
        for q in (0.3, 0.6, 1.2, 2.5, 6.0, 15.0, 60.0)
        # Below 25 the distance in rows meets its cap n.
        if math.sqrt(n) * q >= 25
    ]
    l1 = [
        {"n": n, "d": d, "epsilon": q / math.sqrt(n), "test": "l1 extension", "size": many if d < 1000 else 60}
        for n in options.pick((16_000, 10**6), (16_000, 10**6), (16_000,))
        for d in options.pick(powers(4, 12, 2), powers(4, 10, 3), powers(4, 8, 2))
        for q in (0.5, 2.0, 8.0, 32.0, 128.0)
        if math.sqrt(n) * q >= 200
    ]
    inner = [
        {"n": n, "d": d, "epsilon": epsilon, "test": "inner products", "size": 60}
        for d, sizes in ((2, (10, 20, 40)), (3, (8, 12)))
        for n in sizes
        for epsilon in (2.0, 4.0, 8.0, 16.0)
    ]
    return {
        "row-privacy": row(250, 0.1, powers(4, 18, 2), many),
        "row-privacy-500": row(500, 0.054, powers(6, 15, 3), options.pick(60, 30, 10)),
        "row-mixed": row(250, 0.38, powers(4, 16, 2), many),
        "row-sampling": row(250, 3.8, powers(4, 16, 2), many),
        "row-limit": limit,
        "l1": l1,
        "inner": inner if options.scale == "full" else inner[:4],
    }


def measured(name: str, options: Options) -> StudyResults:
    """Run the study of a name."""
    adapter = Adapter(distance, "estimate_", test="row distance", epsilon=1.0, size=60)
    return options.run(
        Study(
            sizes_only,
            adapter,
            grids(options)[name],
            options.pick(8, 4, 3),
            loss={"squared": squared},
            seed=932,
            name=f"identity-{name}",
        )
    )


def spatial_sign_cells() -> list[tuple[dict[str, Any], float]]:
    """Return the cells of the spatial sign, whose squared distances have no Monte Carlo error."""
    found = []
    for n in SIGN_SIZES:
        for d in (*powers(8, 12, 2), 2**16, 2**20):
            for q in (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0):
                if math.sqrt(n) * q >= 30:
                    a = spatial_sign(n, d, q / math.sqrt(n))
                    # Where the alternative is far, the projection is not linear in it.
                    if a * a < 0.05 * d:
                        found.append(({"n": n, "d": d, "epsilon": q / math.sqrt(n)}, a * a))
    return found
