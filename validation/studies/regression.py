"""Private linear regressions beside each other and beside least squares: error, coverage and width of intervals.

Designs and what is true of them are in `regression_designs.py`; ours are run beside AdaSSP and noisy gradient descent,
written from their papers (`validation/peers/regression_peers.py`), and beside diffprivlib, dp-econometrics and BinAgg,
which run in an environment of their own (`validation/peers/regression_libraries.py`).

    python validation/studies/regression.py
    python validation/studies/regression.py --only isotropic 2000x3 PrivateLinear --replications 20 --no-write
    python validation/studies/regression.py --fast                       # as in the suite, nothing written

A part that is run again replaces its cells in the results; ``--resume`` leaves those that are there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from regression_cells import FAILURES, Family, Fit, Numbers
from regression_designs import DELTA, LINEAR, Design
from regression_report import Report, run, slow_libraries

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
from regression_peers import Boxed, adassp, gradient_descent, ols

from dpstats.privacy import gaussian_sigma
from dpstats.regression import PrivateLinearRegression, PrivateLogisticRegression, SufficientStatisticsRegression
from dpstats.textbook import FunctionalMechanismRegression


def estimator(kind: Callable[..., Any], design: Design, epsilon: float, seed: int) -> Any:
    """Return one of our estimators."""
    given = {"x_bounds": design.x_bounds, "epsilon": epsilon, "random_state": seed}
    if kind is not PrivateLogisticRegression:
        given["y_bounds"] = design.y_bounds
    if kind is not FunctionalMechanismRegression:
        given["delta"] = DELTA
    return kind(**given)


def fit_of(fitted: Any, intervals: bool) -> Fit:
    """Return what a fitted estimator reports."""
    identified = getattr(fitted, "identified_", None)
    if not intervals:
        return Fit(fitted.coef_, identified=identified)
    each, intercept = fitted.confidence_interval(0.95), fitted.intercept_confidence_interval(0.95)
    ends = float(intercept.low), float(intercept.high)
    return Fit(fitted.coef_, (np.asarray(each.low), np.asarray(each.high)), ends, identified)


class Ours:
    """An estimator of dpstats as a method."""

    def __init__(self, kind: Callable[..., Any], intervals: bool = True) -> None:
        self.kind, self.intervals = kind, intervals

    def __call__(
        self, design: Design, X: Numbers, y: Numbers, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> list[Fit | None]:
        """Return the fits to one dataset."""
        return [self._fit(design, X, y, *pair) for pair in zip(epsilons, seeds, strict=True)]

    def _fit(self, design: Design, X: Numbers, y: Numbers, epsilon: float, seed: int) -> Fit | None:
        made = estimator(self.kind, design, epsilon, seed)
        try:
            return fit_of(made.fit(X, y), self.intervals)
        except FAILURES:
            return None


OURS = {
    "PrivateLinearRegression": Ours(PrivateLinearRegression),
    "SufficientStatisticsRegression": Ours(SufficientStatisticsRegression),
    "FunctionalMechanismRegression": Ours(FunctionalMechanismRegression, intervals=False),
}


def mu_of(epsilon: float) -> float:
    """Return the mu of Gaussian noise of (epsilon, DELTA)."""
    return 1 / gaussian_sigma(epsilon, DELTA)


def by_adassp(
    design: Design, X: Numbers, y: Numbers, epsilons: Sequence[float], seeds: Sequence[int]
) -> list[Fit | None]:
    """Return AdaSSP's fits to one dataset."""
    boxed = Boxed(design.x_bounds, design.y_bounds)
    U, v = boxed.rows(X), boxed.outcome(y)
    fits = []
    for epsilon, seed in zip(epsilons, seeds, strict=True):
        theta = adassp(U, v, mu_of(epsilon), np.random.default_rng(seed))
        fits.append(Fit(boxed.units(theta)[0]))
    return fits


def by_descent(
    design: Design, X: Numbers, y: Numbers, epsilons: Sequence[float], seeds: Sequence[int]
) -> list[Fit | None]:
    """Return the fits of noisy gradient descent to one dataset."""
    boxed = Boxed(design.x_bounds, design.y_bounds)
    linear = design.y_bounds != (0.0, 1.0)
    v = boxed.outcome(y) if linear else y
    mus = np.array([mu_of(epsilon) for epsilon in epsilons])
    theta = gradient_descent(boxed.rows(X), v, mus, np.random.default_rng(list(seeds)), logistic=not linear)
    return [Fit(coef) for coef in boxed.units(theta, linear)[0]]


REPORT = Report(
    Family(
        "linear",
        "OLS",
        ols,
        {**OURS, "AdaSSP": by_adassp, "noisy gradient descent": by_descent},
        ("diffprivlib", "dp-econometrics", "BinAgg"),
    ),
    "regression",
    "Private linear regressions at equal (epsilon, delta)",
    ("PrivateLinearRegression", "SufficientStatisticsRegression"),
    LINEAR,
    (
        "Designs: columns are normal (independent, or each with correlation .7 with the next), recorded "
        "within 4 standard deviations, which are the public bounds; *scales* are standard deviations of 1 to "
        ".1 under the bounds of the first column; lognormal columns are exp(z), recorded in [0, 12]. "
        "Coefficients have equal sizes and fixed signs, the index has variance 1, and so have errors: normal, "
        "with variance (1 + x_1^2)/2 (*heteroskedastic*), t with 3 degrees of freedom or exponential. "
        "Outcomes are public within [-6, 6], wider where errors are: [-30, 30] for t3. RAND: log medical "
        "expenses of 15,733 person-years of the Health Insurance Experiment with any, on the 17 columns of "
        "Cameron and Trivedi (2005), section 16.6, or the first ten; bounds are those of the documentation; "
        "rows are drawn with replacement, and the fit to all rows is the truth.",
        "Neighbors differ in one row that is replaced. OLS has robust (HC1) intervals. AdaSSP (Wang 2018) "
        "has constants for a row that is added or removed in its paper; here they are those of a row that is "
        "replaced. Noisy gradient descent: full batches, 50 steps of a fixed public size, clip and momentum, "
        "the best of a few that were tried on these designs. FunctionalMechanismRegression and diffprivlib's "
        "LinearRegression are pure (delta = 0). dp-econometrics and BinAgg are for a row that is added or "
        'removed, which takes less noise, and so have an advantage here; pip found neither by that name ("no '
        'matching distribution found"), and they were installed from their repositories at the commits in '
        "`validation/peers/environment.py`. The classical scale of dp-econometrics' noise is proved for "
        f"shares of epsilon below 1, which those of epsilon = 3 are not. Not run: {slow_libraries()}.",
    ),
)

if __name__ == "__main__":
    run(REPORT, __doc__.splitlines()[0])
