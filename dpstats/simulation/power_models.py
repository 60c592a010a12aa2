"""Public models of rows that powers are simulated from: releases of means and counts, and fits of regressions.

Tests of means see few sums, whose releases are drawn without rows. Other estimators are fitted to drawn rows. Let z be
the score of a test, and c the standardized sampling error of the same rows: nearly a standard normal variable. The
power is the average probability that z exceeds its critical value if c is drawn again and z - b c is kept. This
average varies less than the fraction of tests that reject.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.special import expit, ndtr, ndtri
from sklearn.base import clone

from dpstats.data.parameters import check_real
from dpstats.data.values import as_int64
from dpstats.errors import refuse
from dpstats.groups.comparisons import draw
from dpstats.inference.noisy_counts import CountNoise, NoisyShare, NoisyShares, at_least
from dpstats.means.moments import MEAN, SQUARES, About, BoxErrors, Known, Score
from dpstats.means.ratio import DifferenceErrors, Ratio
from dpstats.privacy.additive_stages import Added

Floats = NDArray[np.float64]

RELEASES, PAIRS, FITS = 2000, 400, 500
"""Numbers of simulated releases of one mean or of counts, of two means, and of simulated fits."""
MOST_ROWS = 1 << 14
"""Most rows of a simulated fit."""
_LARGEST = 30.0  # score: a p-value of 0 has no finite one
_SEED = 71
_NODES = 4001  # of a normal distribution, for moments of clipped rows


class Assumptions(NamedTuple):
    """Assumptions about the population, as `power` takes them."""

    std: float | None
    baseline: float | None
    share: float | None
    r_squared: float
    overlap: float
    censored: float
    n_features: int
    column: int

    def rate(self, name: str, value: float | None) -> float:
        """Return a probability that is needed."""
        if value is None:
            raise refuse(name, given=None, allowed="a probability, in (0, 1)")
        return check_real(name, value, above=0, below=1)

    def rates(self, effect: float) -> tuple[float, float]:
        """Return a proportion under the hypothesis, and the true one."""
        null = self.rate("baseline", self.baseline)
        return null, self.rate("baseline + effect", null + effect)

    def deviation(self, meaning: str) -> float:
        """Return a standard deviation that is needed."""
        if self.std is None:
            raise refuse("std", given=None, allowed=f"the standard deviation{meaning}")
        return check_real("std", self.std, above=0)

    def spread(self, *rates: float) -> list[float]:
        """Return the standard deviation of each group: as declared, or of a yes/no column with these rates."""
        if self.std is not None:
            return [check_real("std", self.std, above=0)] * len(rates)
        if not all(0 < rate < 1 for rate in rates):
            remedy = "A yes/no column needs none if baseline and baseline + effect are in (0, 1)."
            raise refuse("std", given=None, allowed="the standard deviation of the column", remedy=remedy)
        return [math.sqrt(rate * (1 - rate)) for rate in rates]


class Scores(NamedTuple):
    """Scores of simulated tests, and the standardized sampling errors of their rows: each of shape (simulations,)."""

    score: Floats
    sampling: Floats

    def power(self, level: float, side: str) -> float:
        """Return the probability of a rejection."""
        score = self.score if side != "less" else -self.score
        sampling = self.sampling if side != "less" else -self.sampling
        # Noise that hides the estimate leaves no p-value: such a test does not reject.
        known = np.isfinite(score)
        z = np.clip(score[known], -_LARGEST, _LARGEST)
        if not z.size:
            return 0.0
        slope = 0.0
        if z.size > 2:
            slope = max(float(np.cov(z, sampling[known])[0, 1] / np.var(sampling[known], ddof=1)), 0.0)
        rest = z - slope * sampling[known]
        slope = max(slope, 1e-9)
        critical = -float(ndtri(level / 2 if side == "two-sided" else level))
        found = ndtr((rest - critical) / slope)
        if side == "two-sided":
            found = found + ndtr((-rest - critical) / slope)
        return float(found.sum() / known.size)


def signed_score(pvalue: Any, sign: Any) -> Floats:
    """Return the standard normal variable of a two-sided p-value and the sign of its estimate."""
    return np.asarray(np.sign(sign) * -ndtri(np.asarray(pvalue, dtype=np.float64) / 2))


# Two means, and one: releases of sums, drawn


class Moments(NamedTuple):
    """Mean of rows in half-widths of the bounds about their center, and the covariance of a row and its square."""

    mean: float
    square: float
    variance: float
    between: float
    of_squares: float

    @classmethod
    def of(cls, values: Floats, weights: Floats) -> Moments:
        """Return the moments of values with these probabilities."""
        mean, square = float(weights @ values), float(weights @ values**2)
        first, second = values - mean, values**2 - square
        return cls(mean, square, *(float(weights @ part) for part in (first**2, first * second, second**2)))

    def sums(self, rows: Floats, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        """Draw sums of rows and of squares, for each number of rows, and the errors of the first in one row's units."""
        first, second = rng.standard_normal((2, rows.size))
        std = math.sqrt(self.variance)
        slope = self.between / std if std else 0.0
        rest = math.sqrt(max(self.of_squares - slope**2, 0.0))
        total = self.mean * rows + std * np.sqrt(rows) * first
        squares = self.square * rows + np.sqrt(rows) * (slope * first + rest * second)
        return total, np.maximum(squares, 0.0), std * np.sqrt(rows) * first


def row_moments(mean: float, std: float | None, center: float, half: float) -> Moments:
    """Return the moments of clipped normal rows, or of a yes/no column with this rate."""
    if std is None:
        values, weights = np.array([0.0, 1.0]), np.array([1 - mean, mean])
    else:
        weights = np.full(_NODES, 1 / _NODES)
        values = mean + std * ndtri((np.arange(_NODES) + 0.5) / _NODES)
    return Moments.of(np.clip((values - center) / half, -1.0, 1.0), weights)


def two_means_power(estimator: Any, n: int, effect: float, assumed: Assumptions, level: float, side: str) -> float:
    """Draw releases of `GroupMeans`, and test the difference of the second group and the first."""
    plan, share = group_plan(estimator, n, assumed)
    k, d, rng = assumed.column, assumed.n_features, np.random.default_rng(_SEED)
    half, center = select_column(assumed, plan.half, plan.region.center)
    first = center if assumed.baseline is None else assumed.baseline
    assumed.spread(first, first + effect)
    # Two groups are all rows; of more groups, the second is as large as the first.
    rows = [rng.binomial(n, share, PAIRS)]
    rows.append(n - rows[0] if len(plan.groups) == 2 else rng.binomial(n - rows[0], share / (1 - share)))
    noise = plan.totals_noise
    ratios, errors = [], []
    for mean, count in zip((first, first + effect), rows, strict=True):
        total, squares, error = row_moments(mean, assumed.std, center, half).sums(count.astype(float), rng)
        off_total, off_count, off_square = (
            part[..., 0 if part.shape[-1] == 1 else k] for part in draw(noise, (PAIRS, d), rng)
        )
        T, N = total + off_total, count + off_count
        ratios.append(Ratio(T, N, squares + off_square, T, N, noise))
        errors.append(error / np.maximum(count, 1))
    score = DifferenceErrors(ratios[1], ratios[0], half).score(np.zeros(PAIRS))
    sampling = errors[1] - errors[0]
    return Scores(np.asarray(score), sampling / max(float(np.std(sampling)), 1e-300)).power(level, side)


def group_plan(estimator: Any, n: int, assumed: Assumptions) -> tuple[Any, float]:
    """Return the plan of a `GroupMeans` whose power is simulated and the fraction of its first group, or refuse it."""
    for name in ("adjust", "groups"):
        if (given := getattr(estimator, name)) is not None and (name == "adjust" or isinstance(given, str)):
            allowed = "None for a power" if name == "adjust" else "declared for a power"
            raise refuse(name, given=given, allowed=allowed)
    plan = estimator.plan(n, assumed.n_features)
    if len(plan.groups) < 2:
        raise refuse("estimator", got="one group", allowed="GroupMeans of at least two groups")
    share = 1 / len(plan.groups) if assumed.share is None else assumed.share
    if len(plan.groups) > 2 and share > 0.5:
        raise refuse("share", given=share, allowed="at most 0.5 with more than two groups")
    return plan, share


def select_column(assumed: Assumptions, *values: Any) -> list[float]:
    """Return the entries of the column, of numbers or arrays of all columns."""
    return [float(np.broadcast_to(each, (assumed.n_features,))[assumed.column]) for each in values]


def mean_power(estimator: Any, n: int, effect: float, assumed: Assumptions, level: float, side: str) -> float:
    """Draw releases of a `ClippedMean`, and test a mean of 0."""
    std = assumed.deviation(", such as of paired differences")
    plan, rng = estimator.plan(n, assumed.n_features), np.random.default_rng(_SEED)
    if plan.totals is not None or plan.missing == "drop" or plan.clip_norm != "linf":
        # Balls and private numbers of rows have other sums.
        def rows(rng: np.random.Generator, n: int, effect: float) -> tuple[Any, ...]:
            X = np.zeros((n, assumed.n_features))
            errors = rng.standard_normal(n)
            X[:, assumed.column] = effect + std * errors
            return (X,), errors.sum() / math.sqrt(n)

        def score(model: Any) -> Floats:
            pvalue = model.test(0.0).pvalue[assumed.column]
            return signed_score(pvalue, model.mean_[assumed.column])

        return fits(estimator, few_rows(n), effect, rows, score).power(level, side)
    half, center = select_column(assumed, plan.clip, plan.region.center)
    means, squares, sampling = row_moments(effect, std, center, half).sums(np.full(RELEASES, float(n)), rng)
    noise = _column_noise(plan.noise(MEAN), assumed)
    first, clip = half * means / n + _draw(noise, rng), np.full(RELEASES, half)
    if plan.estimates_std:
        of_squares = _column_noise(plan.noise(SQUARES), assumed)
        second = half**2 * squares / n + _draw(of_squares, rng)
        variance: Known | About = About(first, second, noise.std + 0 * clip, of_squares.std + 0 * clip, clip)
    elif plan.std is None:
        raise refuse("std", given=None, allowed="'private' or a public number in the estimator")
    else:
        variance = Known(np.full(RELEASES, select_column(assumed, plan.std)), clip)
    tested = Score(first, noise, n, -clip, clip, variance)
    errors = BoxErrors(tested, np.full(RELEASES, center), center - clip, center + clip, None)
    pvalues = errors.two_sided(np.zeros(RELEASES))
    return Scores(signed_score(pvalues, errors.start), sampling / float(np.std(sampling))).power(level, side)


def _column_noise(noise: Added, assumed: Assumptions) -> Added:
    return Added(noise.law, *select_column(assumed, noise.scale, noise.std))


def _draw(noise: Added, rng: np.random.Generator) -> Floats:
    if noise.law == "laplace":
        return rng.laplace(scale=noise.scale, size=RELEASES)
    return rng.normal(scale=noise.std, size=RELEASES)


# One proportion: exact, or two counts


def proportion_power(estimator: Any, n: int, effect: float, assumed: Assumptions, level: float, side: str) -> float:
    """Return the exact power of the conservative test of a `PrivateProportion`, or draw pairs of counts."""
    plan, (null, true) = estimator.plan(n, 1), assumed.rates(effect)
    noise = plan.count_noise
    if plan.counts_zeros:
        rng = np.random.default_rng(_SEED)
        ones = rng.binomial(n, true, RELEASES)
        having, lacking = (count + noise.draw(rng, (RELEASES,)) for count in (ones, n - ones))
        pairs = [NoisyShare(float(a), float(b), noise, noise) for a, b in zip(having, lacking, strict=True)]
        less, greater = NoisyShares.stack(pairs).pvalues(np.full(RELEASES, null))
        pvalues = np.minimum(1.0, 2 * np.minimum(less, greater))
        errors = np.asarray((ones - n * true) / math.sqrt(n * true * (1 - true)), dtype=np.float64)
        return Scores(signed_score(pvalues, less - greater), errors).power(level, side)
    tail = level / 2 if side == "two-sided" else level
    found = 0.0
    if side != "less":
        found += _upper_power(n, null, true, noise, tail)
    if side != "greater":
        found += _upper_power(n, 1 - null, 1 - true, noise, tail)
    return found


def _upper_power(n: int, null: float, true: float, noise: CountNoise, tail: float) -> float:
    """Return the probability that a count refutes a proportion from above."""
    far = 20 * (noise.std + math.sqrt(n))
    low, high = n * null, n * null + far
    # Counts are whole under Laplace noise. As in a test, the tails of the noise begin half a step below.
    step = 1.0 if noise.half else 1e-6 * far
    low, high = math.floor(low / step), math.ceil(high / step)
    while high - low > 1:
        middle = (low + high) // 2
        refuted = at_least(middle * step - noise.half, n, null, noise) < tail
        low, high = (low, middle) if refuted else (middle, high)
    return at_least(high * step - noise.half, n, true, noise)


# Regressions: fits of drawn rows

Rows = Callable[[np.random.Generator, int, float], tuple[tuple[Any, ...], float]]


def few_rows(n: int) -> int:
    """Return a number of rows that a fit simulates, or refuse it."""
    if n > 64 * MOST_ROWS:
        raise refuse(
            "n_samples", given=n, allowed=f"at most {64 * MOST_ROWS:,} for this estimator, whose fits are simulated"
        )
    return n


def fits(estimator: Any, n: int, effect: float, rows: Rows, score: Callable[[Any], Any]) -> Scores:
    """Fit an estimator to drawn rows, and return the scores of its tests."""
    found = []
    for seed in np.random.SeedSequence(_SEED).spawn(FITS):
        rng = np.random.default_rng(seed)
        data, sampling = rows(rng, n, effect)
        model = clone(estimator).set_params(random_state=int(rng.integers(2**31)), budget=None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append((float(score(model.fit(*data))), sampling))
    return Scores(*np.array(found).T)


def regression_power(estimator: Any, n: int, effect: float, assumed: Assumptions, level: float, side: str) -> float:
    """Fit a linear or a logistic regression to drawn rows, and test a coefficient of 0."""
    logistic = not hasattr(estimator, "y_bounds")
    for name in ("factors", "weights", "weight_bounds", "offset", "offset_bounds"):
        if getattr(estimator, name, None) is not None:
            raise refuse(name, got=f"a {name}", allowed="None for a power")
    if assumed.overlap and assumed.n_features < 2:
        raise refuse("overlap", given=assumed.overlap, allowed="0 with one column")
    bounds = column_bounds(estimator)
    estimator = clone(estimator).set_params(x_bounds=bounds)
    plan = estimator.plan(n, assumed.n_features)
    if n > MOST_ROWS:
        # Of fewer rows with a larger epsilon and effect, noise is as large a part of the error of a coefficient.
        estimator, n, effect = _rescale(estimator, n, effect, plan.noise_ratio, assumed)
    low, high = np.broadcast_to(bounds, (assumed.n_features, 2)).T
    rate = assumed.rate("baseline", assumed.baseline) if logistic else 0.5
    model = _Regression(low, high, assumed, 0.0 if logistic else assumed.deviation(" of the outcome"))
    middle = 0.0 if logistic else float(np.mean(estimator.y_bounds))

    def rows(rng: np.random.Generator, n: int, effect: float) -> tuple[tuple[Any, ...], float]:
        X = model.columns(rng, n)
        other = np.delete(X, assumed.column, axis=1)
        other = np.column_stack([np.ones(n), other])
        line = effect * X[:, assumed.column]
        if logistic:
            far = 60 + float(np.abs(line).max())
            line = line - optimize.brentq(lambda shift: float(expit(line - shift).mean()) - rate, -far, far)
            p = expit(line)
            y = rng.random(n) < p
            weight, errors = np.sqrt(p * (1 - p)), y - p
            own = _residuals(weight * X[:, assumed.column], weight[:, None] * other)
            return (X, as_int64(y)), _standardize(own, errors / weight)
        errors = rng.standard_normal(n)
        y = middle + line - line.mean() + model.explain(X, effect) + model.residual * errors
        return (X, y), _standardize(_residuals(X[:, assumed.column], other), errors)

    place = assumed.column + bool(estimator.fit_intercept)

    def score(fit: Any) -> Any:
        return signed_score(np.ravel(fit.pvalues)[place], np.ravel(fit.coef_)[assumed.column])

    return fits(estimator, n, effect, rows, score).power(level, side)


def column_bounds(estimator: Any) -> Floats:
    """Return the bounds of the columns as one pair, or one pair per column."""
    given = estimator.x_bounds
    return np.asarray(list(given.values()) if isinstance(given, Mapping) else given, dtype=np.float64)


def _residuals(column: Floats, others: Floats) -> Floats:
    return np.asarray(column - others @ np.linalg.lstsq(others, column, rcond=None)[0])


def _standardize(own: Floats, errors: Floats) -> float:
    size = float(np.linalg.norm(own))
    return float(own @ errors) / size if size else 0.0


class _Regression(NamedTuple):
    """Columns uniform within their bounds, or one of them of yes and no, and the rest of a linear model."""

    low: Floats
    high: Floats
    assumed: Assumptions
    std: float

    def columns(self, rng: np.random.Generator, n: int) -> Floats:
        """Draw rows: one other column is the column itself in some of them, which gives the overlap."""
        assumed = self.assumed
        where = rng.random((n, assumed.n_features))
        k = assumed.column
        if assumed.share is not None:
            where[:, k] = rng.random(n) < assumed.share
        if assumed.overlap:
            other = 1 if k == 0 else 0
            fresh = where[:, other]
            if assumed.share is not None:
                fresh = (rng.random(n) < assumed.share).astype(float)
            where[:, other] = np.where(rng.random(n) < math.sqrt(assumed.overlap), where[:, k], fresh)
        X = self.low + where * (self.high - self.low)
        if assumed.share is not None:
            X[:, k] = where[:, k]
        return np.asarray(X)

    @property
    def residual(self) -> float:
        """Standard deviation of the residuals of a linear model."""
        return self.std * math.sqrt(1 - self.assumed.r_squared)

    def explain(self, X: Floats, effect: float) -> Floats:
        """Return the part of the outcome that the other columns explain."""
        k, d = self.assumed.column, self.assumed.n_features
        rest = self.assumed.r_squared * self.std**2 - effect**2 * float(np.var(X[:, k]))
        if d < 2 or rest <= 0:
            return np.zeros(len(X))
        last = d - 1 if k != d - 1 else d - 2
        centered = X[:, last] - X[:, last].mean()
        return np.asarray(math.sqrt(rest / float(np.mean(centered**2))) * centered)


def _rescale(estimator: Any, n: int, effect: float, ratio: float, assumed: Assumptions) -> tuple[Any, int, float]:
    if not 0 < ratio < math.inf:
        return estimator, few_rows(n), effect

    def excess(log_epsilon: float) -> float:
        found = clone(estimator).set_params(epsilon=math.exp(log_epsilon), budget=None)
        return math.log(min(found.plan(MOST_ROWS, assumed.n_features).noise_ratio, 1e9) / ratio)

    start = math.log(estimator.epsilon)
    epsilon = math.exp(optimize.brentq(excess, start, start + math.log(n / MOST_ROWS) + 3, xtol=1e-3))
    return clone(estimator).set_params(epsilon=epsilon), MOST_ROWS, effect * math.sqrt(n / MOST_ROWS)
