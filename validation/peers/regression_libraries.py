"""Fits of other libraries, as JSON; the studies of regression run this file in an environment of its own.

    python validation/peers/regression_libraries.py '["linear", "AR(.7)", 3, 2000, 2026, 0, 2, [1.0], ["diffprivlib"]]'

The task is a family, a design, d, n, a seed, the first dataset, how many of them, epsilons and libraries. Every
library is given columns (and outcomes) in [-1, 1], so that one pair of bounds is right for all of them:

* diffprivlib: pure epsilon (no other noise), functional mechanism and objective perturbation, no intervals;
* dp-econometrics (its package is called dp-statsmodels): noisy X'X, X'y and y'y, add-or-remove sensitivities at a
  public n, the classical Gaussian scale for each at shares of epsilon (proved below 1 only);
* BinAgg: noisy sums in the cells of a private tree, add-or-remove; it has no intercept, so that a column of ones with
  bounds of its own is given to it.

The last two are released for a row that is added or removed, which is less than a row replaced: at equal epsilon they
have an advantage.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "studies"))
from regression_designs import DELTA, Design, family_design
from regression_peers import Boxed, Numbers

# A fit in [-1, 1]: parameters with the intercept first, and their ends, where there are any.
Fit = tuple[Numbers, Numbers | None]


def of_diffprivlib(family: str, U: Numbers, v: Numbers, epsilon: float, seed: int) -> Fit:
    """Return the fit of diffprivlib's LinearRegression or LogisticRegression."""
    from diffprivlib.models import LinearRegression, LogisticRegression

    d = U.shape[1] - 1
    if family == "linear":
        bounds = {"bounds_X": (-np.ones(d), np.ones(d)), "bounds_y": (-1.0, 1.0)}
        made = LinearRegression(epsilon=epsilon, random_state=seed, **bounds)
    else:
        made = LogisticRegression(epsilon=epsilon, data_norm=np.sqrt(d), random_state=seed)
    made.fit(U[:, 1:], v)
    return np.concatenate([np.ravel(made.intercept_), np.ravel(made.coef_)]), None


def of_econometrics(family: str, U: Numbers, v: Numbers, epsilon: float, seed: int) -> Fit:
    """Return the fit of dp-econometrics' OLS."""
    from dp_statsmodels.models.ols import DPOLS

    found = DPOLS(epsilon, DELTA, (-1.0, 1.0), (-1.0, 1.0), random_state=seed).fit(v, U[:, 1:])
    return found.params, found.conf_int()


def of_binagg(family: str, U: Numbers, v: Numbers, epsilon: float, seed: int) -> Fit:
    """Return the fit of BinAgg, at the mu of (epsilon, delta)."""
    from binagg import dp_linear_regression, mu_from_eps_delta

    bounds = [(0.999, 1.0), *[(-1.0, 1.0)] * (U.shape[1] - 1)]
    mu = mu_from_eps_delta(epsilon, DELTA)
    found = dp_linear_regression(U, v, bounds, (-1.0, 1.0), mu, random_state=seed)
    return found.coefficients, found.confidence_intervals


LIBRARIES: dict[str, tuple[str, Callable[..., Fit]]] = {
    "diffprivlib": ("diffprivlib", of_diffprivlib),
    "dp-econometrics": ("dp_statsmodels", of_econometrics),
    "BinAgg": ("binagg", of_binagg),
}


def in_units(boxed: Boxed, fit: Fit, linear: bool) -> dict[str, Any]:
    """Return a fit in units of the data; the ends of the intercept are those of a row in the middle, and left out."""
    theta, ends = fit
    coef, intercept = boxed.units(theta, linear)
    found = {"coef": coef.tolist(), "intercept": float(intercept)}
    if ends is not None:
        low, high = (boxed.units(side, linear)[0] for side in ends.T)
        found |= {"low": low.tolist(), "high": high.tolist()}
    return found


def fits(design: Design, family: str, n: int, seed: int, place: int, epsilons: list[float], names: list[str]):
    """Return the fits to one dataset, by library and epsilon, and a sum that shows whether it is the same dataset."""
    X, y = design.dataset(n, seed, place)
    boxed, linear = Boxed(design.x_bounds, design.y_bounds), family == "linear"
    U, v = boxed.rows(X), boxed.outcome(y) if linear else y
    found: dict[str, list[Any]] = {}
    for name in names:
        module, fit = LIBRARIES[name]
        if importlib.util.find_spec(module) is None:
            continue
        found[name] = []
        for epsilon in epsilons:
            start = time.perf_counter()
            try:
                one = in_units(boxed, fit(family, U, v, epsilon, 1 + place), linear)
            except (ValueError, ArithmeticError, np.linalg.LinAlgError):
                one = {}
            found[name].append(one | {"seconds": time.perf_counter() - start})
    return {"sum": float(X.sum() + y.sum()), "fits": found}


def main() -> None:
    warnings.simplefilter("ignore")
    family, name, d, n, seed, start, size, epsilons, names = json.loads(sys.argv[1])
    design = family_design(family, name, d)
    places = range(start, start + size)
    print(json.dumps([fits(design, family, n, seed, place, epsilons, names) for place in places]))


if __name__ == "__main__":
    main()
