"""Distributions of rows with the mean that an estimator targets, losses of a fit, and the table of a guide."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_integer, check_real
from dpstats.data.values import as_int64
from dpstats.errors import DPStatsError, attempt, refuse

if TYPE_CHECKING:
    import pandas as pd

Rows = NDArray[np.float64]


# A sampler is called as `sampler(n, d, rng, **parameters)`: the parameters replace its own fields for this call, so
# any field can be varied in the grid of a study. `true_mean(d, **parameters)` is what the rows are centered at. Any
# other callable of this shape is a sampler too.
@dataclass(frozen=True)
class Sampler:
    """Base of the samplers of this module: fields that a call may replace."""

    def __post_init__(self) -> None:
        self._check()

    def _check(self) -> None:
        """Refuse fields that no distribution has."""

    def __call__(self, n: int, d: int, rng: np.random.Generator, **parameters: Any) -> Rows:
        """Draw ``n`` independent rows of ``d`` columns."""
        law = replace(self, **parameters) if parameters else self
        return law._draw(n, d, rng)

    def true_mean(self, d: int, **parameters: Any) -> NDArray[np.float64]:
        """Return the mean of a row: shape (d,)."""
        law = replace(self, **parameters) if parameters else self
        return law._mean(check_integer("d", d, at_least=1))

    @abstractmethod
    def _draw(self, n: int, d: int, rng: np.random.Generator) -> Rows: ...

    @abstractmethod
    def _mean(self, d: int) -> NDArray[np.float64]: ...


@dataclass(frozen=True)
class _Located(Sampler):
    """``mean + std * noise``, independent columns; ``mean`` is a number or one number per column."""

    mean: float | tuple[float, ...] = 0.0
    std: float = 1.0

    def _check(self) -> None:
        _check_each("mean", self.mean)
        check_real("std", self.std, at_least=0)

    def _draw(self, n: int, d: int, rng: np.random.Generator) -> Rows:
        rows = self._standard(n, d, rng)
        # In place: rows can be hundreds of megabytes, and most studies use 0 and 1.
        if self.std != 1:
            rows *= self.std
        if self.mean != 0 if isinstance(self.mean, float | int) else np.any(np.asarray(self.mean)):
            rows += self._mean(d)
        return rows

    def _mean(self, d: int) -> NDArray[np.float64]:
        return np.broadcast_to(np.asarray(self.mean, dtype=np.float64), (d,)).copy()

    @abstractmethod
    def _standard(self, n: int, d: int, rng: np.random.Generator) -> Rows: ...


@dataclass(frozen=True)
class Gaussian(_Located):
    """Normal columns.

    Parameters
    ----------
    mean : float or tuple of float, default=0.0
    std : float, default=1.0

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.simulation import Gaussian
    >>> sampler = Gaussian(mean=2.0)
    >>> sampler(3, 2, np.random.default_rng(0), std=0.0)
    array([[2., 2.],
           [2., 2.],
           [2., 2.]])
    >>> sampler.true_mean(2)
    array([2., 2.])
    """

    def _standard(self, n: int, d: int, rng: np.random.Generator) -> Rows:
        return rng.standard_normal((n, d))


@dataclass(frozen=True)
class SubGaussian(_Located):
    """Uniform columns: bounded, so sub-Gaussian, with tails as unlike the normal's as they can be.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.simulation import SubGaussian
    >>> rows = SubGaussian(mean=2.0, std=0.5)(1000, 3, np.random.default_rng(0))
    >>> rows.shape, bool(abs(rows - 2.0).max() <= 0.5 * 3**0.5)
    ((1000, 3), True)
    """

    def _standard(self, n: int, d: int, rng: np.random.Generator) -> Rows:
        rows = rng.random((n, d))
        rows -= 0.5
        rows *= math.sqrt(12)
        return rows


@dataclass(frozen=True)
class StudentT(_Located):
    """Student t columns of standard deviation ``std``; with 3 degrees of freedom no fourth moment.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.simulation import StudentT
    >>> StudentT(mean=1.0)(5, 2, np.random.default_rng(0)).shape
    (5, 2)
    """

    degrees_of_freedom: float = 3.0

    def _check(self) -> None:
        super()._check()
        # A standard deviation is finite.
        check_real("degrees_of_freedom", self.degrees_of_freedom, above=2)

    def _standard(self, n: int, d: int, rng: np.random.Generator) -> Rows:
        rows = rng.standard_t(self.degrees_of_freedom, (n, d))
        rows *= math.sqrt(1 - 2 / self.degrees_of_freedom)
        return rows


@dataclass(frozen=True)
class Contaminated(_Located):
    """Normal rows, with a fraction of them shifted by ``shift`` in every column.

    ``true_mean`` is the mean of the other rows, the target of a robust estimator.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.simulation import Contaminated
    >>> sampler = Contaminated(share=0.2, shift=100.0)
    >>> rows = sampler(1000, 1, np.random.default_rng(0))
    >>> bool(rows.mean() > 10), sampler.true_mean(1)
    (True, array([0.]))
    """

    share: float = 0.1
    shift: float = 10.0

    def _check(self) -> None:
        _check_each("mean", self.mean)
        check_real("std", self.std, above=0)
        check_real("share", self.share, at_least=0, at_most=1)
        check_real("shift", self.shift)

    def _standard(self, n: int, d: int, rng: np.random.Generator) -> Rows:
        rows = rng.standard_normal((n, d))
        rows[rng.random(n) < self.share] += self.shift / self.std
        return rows


@dataclass(frozen=True)
class Rademacher(Sampler):
    """Signs: +1 with probability (1 + mean)/2, and otherwise -1. No row is ever inside a clip of 1.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.simulation import Rademacher
    >>> Rademacher(mean=0.5)(4, 2, np.random.default_rng(0))
    array([[ 1.,  1.],
           [ 1.,  1.],
           [-1., -1.],
           [ 1.,  1.]])
    """

    mean: float = 0.0

    def _check(self) -> None:
        check_real("mean", self.mean, at_least=-1, at_most=1)

    def _draw(self, n: int, d: int, rng: np.random.Generator) -> Rows:
        if self.mean:
            return np.where(rng.random((n, d)) < (1 + self.mean) / 2, 1.0, -1.0)
        # A fair sign is one bit.
        packed = np.frombuffer(rng.bytes(-(-n * d // 8)), dtype=np.uint8)
        rows = np.unpackbits(packed, count=n * d).reshape(n, d).astype(np.float64)
        rows *= 2.0
        rows -= 1.0
        return rows

    def _mean(self, d: int) -> NDArray[np.float64]:
        return np.full(d, float(self.mean))


@dataclass(frozen=True)
class ProductBernoulli(Sampler):
    """Independent 0/1 columns; ``probability`` is a number or one number per column.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.simulation import ProductBernoulli
    >>> sampler = ProductBernoulli(probability=(0.1, 0.9))
    >>> sampler(4, 2, np.random.default_rng(0)), sampler.true_mean(2)
    (array([[0., 1.],
           [1., 1.],
           [0., 0.],
           [0., 1.]]), array([0.1, 0.9]))
    """

    probability: float | tuple[float, ...] = 0.5

    def _check(self) -> None:
        _check_each("probability", self.probability, at_least=0, at_most=1)

    def _draw(self, n: int, d: int, rng: np.random.Generator) -> Rows:
        return (rng.random((n, d)) < self._mean(d)).astype(np.float64)

    def _mean(self, d: int) -> NDArray[np.float64]:
        return np.broadcast_to(np.asarray(self.probability, dtype=np.float64), (d,)).copy()


@dataclass(frozen=True)
class SparseMeans(Sampler):
    """Normal columns. The first ``n_nonzero`` have mean plus or minus ``signal`` in turn.

    Examples
    --------
    >>> from dpstats.simulation import SparseMeans
    >>> SparseMeans(n_nonzero=2, signal=3.0).true_mean(5)
    array([ 3., -3.,  0.,  0.,  0.])
    """

    n_nonzero: int = 5
    signal: float = 1.0
    std: float = 1.0

    def _check(self) -> None:
        check_integer("n_nonzero", self.n_nonzero, at_least=0)
        check_real("signal", self.signal)
        check_real("std", self.std, at_least=0)

    def _draw(self, n: int, d: int, rng: np.random.Generator) -> Rows:
        rows = rng.standard_normal((n, d))
        if self.std != 1:
            rows *= self.std
        rows += self._mean(d)
        return rows

    def _mean(self, d: int) -> NDArray[np.float64]:
        if self.n_nonzero > d:
            raise refuse("n_nonzero", given=self.n_nonzero, allowed=f"at most d = {d}")
        mean = np.zeros(d)
        mean[: self.n_nonzero] = self.signal
        mean[1 : self.n_nonzero : 2] *= -1
        return mean


def _check_each(name: str, given: Any, **limits: float) -> None:
    """Check a number, or one number per column."""
    numbers = attempt(lambda: np.ravel(np.asarray(given)).tolist(), Exception)
    for each in [given] if numbers is None else numbers:
        check_real(name, each, of=given, **limits)


Loss = Callable[[Any, Any, NDArray[np.float64]], float]
"""``loss(fitted, X, true_mean)``: one number; ``true_mean`` is None where the sampler states none."""

_ESTIMATES = ("mean_", "location_", "coef_", "estimate_")


def estimate_of(fitted: Any) -> NDArray[np.float64]:
    """Return the vector that a fitted estimator reports: the first of mean_, location_, coef_, estimate_."""
    for name in _ESTIMATES:
        if hasattr(fitted, name):
            return np.asarray(getattr(fitted, name), dtype=np.float64)
    raise DPStatsError(
        f"{type(fitted).__name__} has none of {', '.join(_ESTIMATES)}: give loss a callable, or use Adapter"
    )


def squared_error(fitted: Any, X: Any, truth: NDArray[np.float64]) -> float:
    """Squared l2 distance of the estimate from the true mean."""
    difference = estimate_of(fitted) - truth
    return float(difference @ difference)


def released_squared_error(fitted: Any, X: Any, truth: NDArray[np.float64]) -> float:
    """Squared l2 distance of ``released_mean_``, which no bounds have cut, from the true mean.

    Its risk is what formulas of the theory say, also where the noise is larger than the bounds.
    """
    difference = np.asarray(fitted.released_mean_) - truth
    return float(difference @ difference)


def support_recovery(fitted: Any, X: Any, truth: NDArray[np.float64]) -> float:
    """Share of the columns with a mean other than 0 that are in ``support_``."""
    support = np.flatnonzero(truth)
    if support.size == 0:
        raise DPStatsError("support recovery needs a true mean with at least one entry other than 0")
    found = np.asarray(fitted.support_)
    chosen = np.flatnonzero(found) if found.dtype == bool else found
    return float(np.isin(support, chosen).mean())


def coverage(fitted: Any, X: Any, truth: NDArray[np.float64]) -> float:
    """Share of the columns whose interval covers the true mean."""
    return float(_covered(fitted.confidence_interval(), truth).mean())


def simultaneous_coverage(fitted: Any, X: Any, truth: NDArray[np.float64]) -> float:
    """Return whether all simultaneous intervals cover at once."""
    return float(_covered(fitted.confidence_interval(simultaneous=True), truth).all())


def _covered(interval: Any, truth: NDArray[np.float64]) -> NDArray[np.bool_]:
    low, high = interval
    return np.asarray((np.asarray(low) <= truth) & (np.asarray(high) >= truth))


def rejection(fitted: Any, X: Any, truth: NDArray[np.float64]) -> float:
    """Return whether a test rejects: its level under the null hypothesis, its power elsewhere."""
    return float(bool(fitted.reject_))


LOSSES: Mapping[str, Loss] = {
    "squared_error": squared_error,
    "released_squared_error": released_squared_error,
    "support_recovery": support_recovery,
    "coverage": coverage,
    "simultaneous_coverage": simultaneous_coverage,
    "rejection": rejection,
}
NEEDS_TRUTH = frozenset(LOSSES) - {"rejection"}


def named_losses(loss: Any) -> dict[str, Loss]:
    """Return the losses of a study by name: from a name, a callable, a list of these, or a mapping."""
    if isinstance(loss, Mapping):
        items = dict(loss)
    else:
        several = loss if isinstance(loss, list | tuple) else [loss]
        items = {item if isinstance(item, str) else getattr(item, "__name__", "loss"): item for item in several}
        if len(items) < len(several):
            raise refuse("loss", allowed="not name the same loss twice")
    chosen: dict[str, Loss] = {}
    for name, item in items.items():
        if isinstance(item, str) and item in LOSSES:
            chosen[name] = LOSSES[item]
        elif callable(item):
            chosen[name] = item
        else:
            raise refuse("loss", given=loss, allowed=f"one of {', '.join(LOSSES)}, or a callable")
    if not chosen:
        raise refuse("loss", allowed="name at least one loss")
    return chosen


# The table of the guide "A trial": visits of a simulated trial

# 12,000 visits of 4,000 patients in three arms, one of them rare. Missing entries are coded in three ways: empty, -9
# and "unk". Follow-up is censored, and two sites are not in the protocol.


PATIENTS, VISITS = 4000, 3
SHARES = {"placebo": 0.46, "drug": 0.46, "high dose": 0.08}
EFFECTS = {"placebo": 0.0, "drug": -6.0, "high dose": -9.0}
"""Change of the blood pressure after treatment."""
RATES = {"placebo": 0.030, "drug": 0.021, "high dose": 0.018}
"""Relapses in a week."""
CURED = {"placebo": 0.40, "drug": 0.55, "high dose": 0.60}
SITES = ["north", "south", "east"]
UNKNOWN_SITES = ["test", "moved"]
_LOG_STAY, _SPREAD = {"placebo": 2.2, "drug": 2.0, "high dose": 1.9}, 0.6
_SLOPE = 0.02
"""Change of the log odds of a cure with a year of age."""


def make_visits(seed: int = 0, patients: int = PATIENTS) -> pd.DataFrame:
    """Return the visits of a simulated trial, one row each.

    Parameters
    ----------
    seed : int, default=0
    patients : int, default=4000

    Returns
    -------
    pandas.DataFrame
        Three rows for each patient, in random order. ``pulse`` differs between visits.

    Examples
    --------
    >>> from dpstats.simulation.samplers import make_visits
    >>> visits = make_visits()
    >>> visits.shape, visits["patient"].nunique(), (visits["age"] == -9).mean().round(2)
    ((12000, 13), 4000, np.float64(0.03))
    """
    import pandas as pd

    rng = np.random.default_rng(seed)
    arm = rng.choice(list(SHARES), patients, p=list(SHARES.values()))
    of = {name: np.array([values[each] for each in arm]) for name, values in _list_parameters().items()}
    age = np.clip(rng.normal(58, 11, patients), 18, 95).round()
    before = rng.normal(150, 12, patients)
    after = 60 + 0.6 * before + of["effect"] + rng.normal(0, 9, patients)
    odds = np.log(of["cured"] / (1 - of["cured"])) + _SLOPE * (age - 58)
    relapse, left = rng.exponential(1 / of["rate"]), rng.uniform(20, 80, patients)
    person = pd.DataFrame(
        {
            "patient": [f"p{number:05}" for number in range(patients)],
            "site": rng.choice(SITES + UNKNOWN_SITES, patients, p=[0.4, 0.3, 0.26, 0.02, 0.02]),
            "arm": arm,
            "age": age,
            "sex": rng.choice(["f", "m"], patients, p=[0.55, 0.45]),
            "before": before,
            "after": after,
            "stay": np.maximum(np.rint(rng.lognormal(of["log stay"], _SPREAD)), 1),
            "cured": as_int64(rng.random(patients) < 1 / (1 + np.exp(-odds))),
            "week": np.minimum(relapse, left),
            "relapse": as_int64(relapse <= left),
        }
    )
    visits = person.loc[person.index.repeat(VISITS)].reset_index(drop=True)
    visits.insert(1, "visit", np.tile(np.arange(1, VISITS + 1), patients))
    visits["pulse"] = rng.normal(75, 8, len(visits)).round()
    # Whether an entry is missing does not depend on it. All visits of a patient have the same entries of the patient.
    for column, code, share in (("age", -9, 0.03), ("sex", "unk", 0.02), ("stay", np.nan, 0.04)):
        lost = np.repeat(rng.random(patients) < share, VISITS)
        visits[column] = visits[column].astype(object).where(~lost, code)
    visits["age"] = visits["age"].astype(float)
    visits["stay"] = visits["stay"].astype(float)
    return visits.sample(frac=1, random_state=seed, ignore_index=True)


def _list_parameters() -> dict[str, dict[str, float]]:
    return {"effect": EFFECTS, "rate": RATES, "cured": CURED, "log stay": _LOG_STAY}


def _find_cure_rate(arm: str) -> float:
    """Return the probability of a cure, over the ages of the population."""
    rng = np.random.default_rng(1)
    age = np.clip(rng.normal(58, 11, 1_000_000), 18, 95).round()
    odds = np.log(CURED[arm] / (1 - CURED[arm])) + _SLOPE * (age - 58)
    return float((1 / (1 + np.exp(-odds))).mean())


def find_truth() -> dict[str, Any]:
    """Return the true values of the population, by the questions of the guide."""
    # Stays are whole days, so quantiles are rounded too.
    upper = np.exp(_SPREAD * NormalDist().inv_cdf(0.75))
    return {
        "age": 58.0,
        "effect": {arm: EFFECTS[arm] - EFFECTS["placebo"] for arm in ("drug", "high dose")},
        "stay": {arm: float(np.rint(np.exp(log))) for arm, log in _LOG_STAY.items()},
        "upper quartile": {arm: float(np.rint(np.exp(log) * upper)) for arm, log in _LOG_STAY.items()},
        "risk": {arm: _find_cure_rate(arm) - _find_cure_rate("placebo") for arm in ("drug", "high dose")},
        "odds ratio of a year": float(np.exp(_SLOPE)),
        "survival at 26": {arm: float(np.exp(-26 * rate)) for arm, rate in RATES.items()},
        "hazard ratio": {arm: RATES[arm] / RATES["placebo"] for arm in ("drug", "high dose")},
        "women": 0.55,
        "pulse": 75.0,
    }
