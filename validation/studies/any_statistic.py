"""Private intervals for statistics of all kinds: coverage and width beside the interval without privacy.

Blocks' values come from a pool of independent blocks, computed by vectorized code that `check` compares with scipy,
statsmodels and scikit-learn. Releases go through the package's own location, sums and intervals, with simulated noise.

    python validation/studies/any_statistic.py                           # 20 minutes
    python validation/studies/any_statistic.py --releases 40 --pool 400 --no-write
    python validation/studies/any_statistic.py --only correlation
"""

from __future__ import annotations

import argparse
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import expit, ndtr

import dpstats
from dpstats.release.noise import SimulatedNoise
from dpstats.statistic import PrivateStatistic
from dpstats.statistic.clipped_sums import GRAINS, Box, half_widths, located, locations, spacing_of, sums
from dpstats.statistic.plan import LOCATION

RESULTS = Path(__file__).resolve().parents[1] / "results" / "any_statistic.md"
SETTINGS = ((2000, 1.0), (5000, 1.0), (20_000, 1.0), (20_000, 0.2), (100_000, 0.5))
FOLDS = 5
TAIL = 0.025

Blocks = np.ndarray
"""Rows of many blocks: of shape (blocks, rows, columns)."""


# Statistics of many blocks at once


def mean(D: Blocks) -> np.ndarray:
    return D[..., 0].mean(axis=1)


def gini(D: Blocks) -> np.ndarray:
    x = np.sort(D[..., 0], axis=1)
    m = x.shape[1]
    return x @ (2 * np.arange(1, m + 1) - m - 1) / (m * (m - 1) * x.mean(axis=1))


def correlation(D: Blocks) -> np.ndarray:
    Z = D - D.mean(axis=1, keepdims=True)
    return (Z[..., 0] * Z[..., 1]).sum(1) / np.sqrt((Z[..., 0] ** 2).sum(1) * (Z[..., 1] ** 2).sum(1))


def fisher_z(D: Blocks) -> np.ndarray:
    return np.arctanh(correlation(D))


def ranks(x: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(x, axis=1), axis=1) + 1.0


def spearman(D: Blocks) -> np.ndarray:
    return correlation(np.stack([ranks(D[..., 0]), ranks(D[..., 1])], axis=-1))


def auc(D: Blocks) -> np.ndarray:
    r, y = ranks(D[..., 0]), D[..., 1]
    a = y.sum(axis=1)
    b = y.shape[1] - a
    with np.errstate(all="ignore"):
        return np.where((a > 0) & (b > 0), ((r * y).sum(1) - a * (a + 1) / 2) / (a * b), np.nan)


def ratio(D: Blocks) -> np.ndarray:
    return D[..., 0].mean(axis=1) / D[..., 1].mean(axis=1)


def cohen_d(D: Blocks) -> np.ndarray:
    x, y = D[..., 0], D[..., 1]
    a = y.sum(axis=1)
    b = y.shape[1] - a
    with np.errstate(all="ignore"):
        first, second = (x * y).sum(1) / a, (x * (1 - y)).sum(1) / b
        inside = ((x - first[:, None]) ** 2 * y + (x - second[:, None]) ** 2 * (1 - y)).sum(1)
        return np.where((a > 1) & (b > 1), (first - second) / np.sqrt(inside / (a + b - 2)), np.nan)


def risk_difference(D: Blocks) -> np.ndarray:
    x, y = D[..., 0], D[..., 1]
    a = y.sum(axis=1)
    b = y.shape[1] - a
    with np.errstate(all="ignore"):
        return np.where((a > 0) & (b > 0), (x * y).sum(1) / a - (x * (1 - y)).sum(1) / b, np.nan)


def kappa(D: Blocks) -> np.ndarray:
    a, b = D[..., 0], D[..., 1]
    agreed = (a == b).mean(axis=1)
    by_chance = sum((a == c).mean(axis=1) * (b == c).mean(axis=1) for c in range(3))
    return (agreed - by_chance) / (1 - by_chance)


def sharpe(D: Blocks) -> np.ndarray:
    return D[..., 0].mean(axis=1) / D[..., 0].std(axis=1, ddof=1)


def log_std(D: Blocks) -> np.ndarray:
    return np.log(D[..., 0].std(axis=1, ddof=1))


def skewness(D: Blocks) -> np.ndarray:
    return stats.skew(D[..., 0], axis=1)


def trimmed(D: Blocks) -> np.ndarray:
    return stats.trim_mean(D[..., 0], 0.2, axis=1)


def log_odds_ratio(D: Blocks) -> np.ndarray:
    x, y = D[..., 0], D[..., 1]
    cells = [(p * q).sum(axis=1) + 0.5 for p in (x, 1 - x) for q in (y, 1 - y)]
    return np.log(cells[0] * cells[3] / (cells[1] * cells[2]))


def with_one(X: Blocks) -> Blocks:
    return np.concatenate([np.ones((*X.shape[:2], 1)), X], axis=-1)


def solved(H: np.ndarray, g: np.ndarray) -> np.ndarray:
    return np.linalg.solve(H + 1e-9 * np.eye(H.shape[-1]), g[..., None])[..., 0]


def ols_slope(D: Blocks) -> np.ndarray:
    X, y = with_one(D[..., :-1]), D[..., -1]
    return solved(np.swapaxes(X, 1, 2) @ X, (X * y[..., None]).sum(1))[:, 1]


def r_squared(D: Blocks) -> np.ndarray:
    X, y = with_one(D[..., :-1]), D[..., -1]
    b = solved(np.swapaxes(X, 1, 2) @ X, (X * y[..., None]).sum(1))
    residual = y - (X @ b[..., None])[..., 0]
    return 1 - (residual**2).sum(1) / ((y - y.mean(1, keepdims=True)) ** 2).sum(1)


def likelihood(D: Blocks, mean_of: Callable[[np.ndarray], np.ndarray], weight: Callable[[np.ndarray], Any]) -> Any:
    """Return all coefficients of a generalized linear model with the canonical link; NaN where there are none."""
    X, y = with_one(D[..., :-1]), D[..., -1]
    b = np.zeros((X.shape[0], X.shape[2]))
    for _ in range(12):
        mu = mean_of(np.clip((X @ b[..., None])[..., 0], -12, 12))
        H = np.swapaxes(X * weight(mu)[..., None], 1, 2) @ X
        step = np.clip(solved(H, (X * (y - mu)[..., None]).sum(1)), -2, 2)
        b = b + step
    good = (np.abs(step).max(axis=1) < 1e-2) & (np.abs(b).max(axis=1) < 12)
    return np.where(good[:, None], b, np.nan)


def logistic(D: Blocks) -> np.ndarray:
    return likelihood(D, expit, lambda mu: mu * (1 - mu))[:, 1]


def poisson(D: Blocks) -> np.ndarray:
    return likelihood(D, np.exp, lambda mu: mu)[:, 1]


def weighted_effect(D: Blocks) -> np.ndarray:
    X, t, y = D[..., :2], D[..., 2], D[..., 3]
    b = likelihood(np.concatenate([X, t[..., None]], axis=-1), expit, lambda mu: mu * (1 - mu))
    p = np.clip(expit((with_one(X) @ b[..., None])[..., 0]), 0.01, 0.99)
    treated, control = t / p, (1 - t) / (1 - p)
    return (treated * y).sum(1) / treated.sum(1) - (control * y).sum(1) / control.sum(1)


def cox(D: Blocks) -> np.ndarray:
    order = np.argsort(-D[..., 0], axis=1)
    D = np.take_along_axis(D, order[..., None], axis=1)
    event, X = D[..., 1], D[..., 2:]
    b = np.zeros((D.shape[0], X.shape[2]))
    squares = X[..., :, None] * X[..., None, :]
    for _ in range(8):
        r = np.exp(np.clip((X @ b[..., None])[..., 0], -10, 10))
        at_risk = np.cumsum(r, axis=1)
        first = np.cumsum(r[..., None] * X, axis=1) / at_risk[..., None]
        second = np.cumsum(r[..., None, None] * squares, axis=1) / at_risk[..., None, None]
        H = (event[..., None, None] * (second - first[..., :, None] * first[..., None, :])).sum(1)
        step = np.clip(solved(H, (event[..., None] * (X - first)).sum(1)), -1, 1)
        b = b + step
    good = (np.abs(step).max(axis=1) < 1e-2) & (np.abs(b).max(axis=1) < 8)
    return np.where(good, b[:, 0], np.nan)


# Data


def normals(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape)


def correlated(rng: np.random.Generator, B: int, m: int) -> Blocks:
    z = normals(rng, B, m, 2)
    z[..., 1] = 0.5 * z[..., 0] + math.sqrt(0.75) * z[..., 1]
    return z


def labeled(shift: float, share: float, heavy: bool = False) -> Callable[..., Blocks]:
    def draw(rng: np.random.Generator, B: int, m: int) -> Blocks:
        y = (rng.random((B, m)) < share) * 1.0
        noise = rng.standard_t(5, (B, m)) if heavy else normals(rng, B, m)
        return np.stack([noise + shift * y, y], axis=-1)

    return draw


def yes_no(rng: np.random.Generator, B: int, m: int) -> Blocks:
    y = (rng.random((B, m)) < 0.5) * 1.0
    return np.stack([(rng.random((B, m)) < 0.2 + 0.1 * y) * 1.0, y], axis=-1)


def rated(rng: np.random.Generator, B: int, m: int) -> Blocks:
    a = rng.choice(3, p=[0.6, 0.3, 0.1], size=(B, m))
    b = np.where(rng.random((B, m)) < 0.6, a, rng.choice(3, p=[0.6, 0.3, 0.1], size=(B, m)))
    return np.stack([a, b], axis=-1) * 1.0


def linear(rng: np.random.Generator, B: int, m: int) -> Blocks:
    X = normals(rng, B, m, 3)
    return np.concatenate([X, (X @ [0.5, -0.5, 0.25] + normals(rng, B, m))[..., None]], axis=-1)


def binary_outcome(rng: np.random.Generator, B: int, m: int) -> Blocks:
    X = normals(rng, B, m, 2)
    return np.concatenate([X, (rng.random((B, m)) < expit(-0.5 + X @ [0.5, -0.5]))[..., None]], axis=-1)


def counts(rng: np.random.Generator, B: int, m: int) -> Blocks:
    X = normals(rng, B, m, 2)
    mu = np.exp(0.5 + X @ [0.3, -0.2])
    return np.concatenate([X, rng.negative_binomial(1.0, 1 / (1 + mu))[..., None]], axis=-1)


def treated(rng: np.random.Generator, B: int, m: int) -> Blocks:
    X = normals(rng, B, m, 2)
    t = rng.random((B, m)) < expit(X @ [0.6, -0.4])
    y = X @ [1.0, 0.5] + 0.5 * t + normals(rng, B, m)
    return np.stack([X[..., 0], X[..., 1], t, y], axis=-1)


def survival(rng: np.random.Generator, B: int, m: int) -> Blocks:
    X = normals(rng, B, m, 2)
    t = rng.exponential(size=(B, m)) * np.exp(-(X @ [0.5, -0.3]))
    c = rng.exponential(2.0, (B, m))
    return np.concatenate([np.minimum(t, c)[..., None], (t <= c)[..., None], X], axis=-1)


def column(draw: Callable[[np.random.Generator, tuple[int, int]], np.ndarray]) -> Callable[..., Blocks]:
    return lambda rng, B, m: draw(rng, (B, m))[..., None]


def ratios(rng: np.random.Generator, B: int, m: int) -> Blocks:
    a = rng.gamma(2, 1, (B, m))
    return np.stack([a * rng.lognormal(0, 0.3, (B, m)), a + 0.5], axis=-1)


def standard_deviation(D: Blocks) -> np.ndarray:
    return np.asarray(D[..., 0].std(axis=1, ddof=1))


def variation(D: Blocks) -> np.ndarray:
    return np.asarray(standard_deviation(D) / D[..., 0].mean(axis=1))


@dataclass(frozen=True)
class Case:
    """A statistic: of blocks, drawn how, within public bounds, its value (None: simulated), and its options."""

    of: Callable[[Blocks], np.ndarray]
    draw: Callable[..., Blocks]
    bounds: tuple[float, float]
    truth: float | None = None
    parameters: int = 1
    bias: str = "jackknife"
    skewness: float = 8.0
    valid: bool = True


CASES = {
    "mean, exponential": Case(mean, column(lambda rng, shape: rng.exponential(size=shape)), (0, 10), 1.0),
    "mean, lognormal": Case(mean, column(lambda rng, shape: rng.lognormal(size=shape)), (0, 20), math.exp(0.5)),
    "trimmed mean, lognormal": Case(trimmed, column(lambda rng, shape: rng.lognormal(size=shape)), (0, 20)),
    "Gini, lognormal": Case(
        gini, column(lambda rng, shape: rng.lognormal(size=shape)), (0, 1), 2 * float(ndtr(1 / math.sqrt(2))) - 1
    ),
    "correlation": Case(correlation, correlated, (-1, 1), 0.5),
    "correlation, link fisher": Case(fisher_z, correlated, (-3, 3), math.atanh(0.5)),
    "Spearman": Case(spearman, correlated, (-1, 1), 6 / math.pi * math.asin(0.25)),
    "AUC": Case(auc, labeled(1.0, 0.3), (0, 1), float(ndtr(1 / math.sqrt(2)))),
    "ratio of means": Case(ratio, ratios, (0, 10), 2 * math.exp(0.045) / 2.5),
    "Cohen's d, t5": Case(cohen_d, labeled(0.4, 0.5, heavy=True), (-3, 3), 0.4 / math.sqrt(5 / 3)),
    "risk difference": Case(risk_difference, yes_no, (-1, 1), 0.1),
    "log odds ratio": Case(log_odds_ratio, yes_no, (-5, 5), math.log(0.3 / 0.7 / (0.2 / 0.8))),
    "kappa": Case(kappa, rated, (-1, 1), 0.6),
    "Sharpe ratio, t5": Case(
        sharpe, column(lambda rng, shape: rng.standard_t(5, shape) + 0.3), (-3, 3), 0.3 / math.sqrt(5 / 3)
    ),
    "log sd, t6": Case(log_std, column(lambda rng, shape: rng.standard_t(6, shape)), (-3, 3), 0.5 * math.log(1.5)),
    "OLS slope, d = 3": Case(ols_slope, linear, (-5, 5), 0.5),
    "R squared, d = 3": Case(r_squared, linear, (0, 1), 0.5625 / 1.5625, parameters=4),
    "logistic": Case(logistic, binary_outcome, (-5, 5), 0.5, parameters=3, bias="jackknife2"),
    "Poisson, overdispersed": Case(poisson, counts, (-5, 5), 0.3, parameters=3, bias="jackknife2"),
    "Cox": Case(cox, survival, (-5, 5), 0.5, parameters=2, bias="jackknife2"),
    "weighted effect": Case(weighted_effect, treated, (-5, 5), 0.5, parameters=4, bias="jackknife2"),
    "skewness, exponential": Case(
        skewness, column(lambda rng, shape: rng.exponential(size=shape)), (-10, 10), 2.0, valid=False
    ),
    "share of 1%": Case(mean, column(lambda rng, shape: 1.0 * (rng.random(shape) < 0.01)), (0, 1), 0.01),
    "share of 2.3%": Case(mean, column(lambda rng, shape: 1.0 * (rng.random(shape) < 0.02275)), (0, 1), 0.02275),
    "share of 99%": Case(mean, column(lambda rng, shape: 1.0 * (rng.random(shape) < 0.99)), (0, 1), 0.99),
    "coefficient of variation, exponential": Case(
        variation, column(lambda rng, shape: rng.exponential(size=shape)), (0, 5), 1.0
    ),
    "standard deviation, exponential": Case(
        standard_deviation, column(lambda rng, shape: rng.exponential(size=shape)), (0, 20), 1.0
    ),
    "mean, zero-inflated Poisson": Case(
        mean, column(lambda rng, shape: rng.poisson(1.5, shape) * (rng.random(shape) < 0.1)), (0, 10), 0.15
    ),
    "mean, exponential, bounds to 1e6": Case(
        mean, column(lambda rng, shape: rng.exponential(size=shape)), (0, 1e6), 1.0
    ),
}


def corrected(case: Case, D: Blocks) -> np.ndarray:
    """Return the values of blocks as `PrivateStatistic` corrects them."""
    from itertools import combinations

    from dpstats.statistic.isolation import JACKKNIFE

    m = D.shape[1]
    fold = np.arange(m) * FOLDS // m
    total = np.zeros(D.shape[0])
    with np.errstate(all="ignore"):
        for order, weight in JACKKNIFE[case.bias]:
            left_out = list(combinations(range(FOLDS), order))
            total += weight * sum(case.of(D[:, ~np.isin(fold, out)]) for out in left_out) / len(left_out)
    return np.where(np.isfinite(total), total, np.nan)


def pool(case: Case, m: int, size: int, rng: np.random.Generator) -> np.ndarray:
    step = max(1, 200_000 // m)
    return np.concatenate([corrected(case, case.draw(rng, min(step, size - i), m)) for i in range(0, size, step)])


@dataclass(frozen=True)
class Cell:
    """What the releases of one setting did: coverage, median width over the one without privacy, lost releases."""

    coverage: float
    width: float
    planned: float
    lost: float
    blocks: int
    size: int


def run(
    case: Case, n: int, epsilon: float, sizes: tuple[int, int], truth: float, spread: float, seed: int
) -> Cell | None:
    """Release so many times from a pool of so many blocks."""
    releases, pool_size = sizes
    estimator = PrivateStatistic(
        np.mean, bounds=case.bounds, epsilon=epsilon, parameters=case.parameters, bias=case.bias, skewness=case.skewness
    )
    try:
        plan = estimator.plan(n, 1)
    except dpstats.errors.InvalidParameter:
        return None
    rng = np.random.default_rng(seed)
    values = pool(case, plan.block_size, pool_size, rng)
    low_end, high_end = case.bounds
    box = Box(low_end, high_end)
    noise, scale = SimulatedNoise(rng), plan.stage(LOCATION).scale_steps
    totals, centers, units = [], [], []
    for _ in range(releases):
        own = rng.choice(values, plan.n_blocks)
        failed = np.isnan(own)
        steps = box.in_steps(own)
        line, place = noise.candidate(locations(steps, box.ends), scale, 1).T
        spacing = spacing_of(line)
        totals.append(sums(steps, failed, place * spacing, plan.clip * 2.0 * spacing)[0] / GRAINS)
        centers.append(box.origin + place[0] * spacing[0] * box.step)
        units.append(plan.clip * 2.0 * spacing[0] * box.step)
    added = rng.laplace(scale=plan.sums_noise.signed / math.sqrt(2), size=(releases, 3))
    at = located(np.array(totals) + added, plan.n_blocks, plan.sums_noise, plan.least_std)
    unit = np.array(units)
    half = unit * half_widths(at, TAIL, plan.block_skewness, plan.block_bias)
    middle = np.array(centers) + unit * at.mean
    low = np.where(at.found, np.maximum(middle - half, low_end), low_end)
    high = np.where(at.found, np.minimum(middle + half, high_end), high_end)
    width = (high - low) / 2 / (1.96 * spread / math.sqrt(n))
    return Cell(
        float(((low <= truth) & (truth <= high)).mean()),
        float(np.median(width)),
        plan.planned_width,
        float((width > 5 * np.median(width)).mean()),
        plan.n_blocks,
        plan.block_size,
    )


def population(case: Case, rng: np.random.Generator) -> tuple[float, float]:
    """Return the value in the population, and sqrt(n) times the standard deviation of the statistic of all rows."""
    m = 4000
    found = np.concatenate([case.of(case.draw(rng, 20, m)) for _ in range(20)])
    truth = case.truth if case.truth is not None else float(np.mean(case.of(case.draw(rng, 4, 500_000))))
    return truth, float(np.std(found, ddof=1)) * math.sqrt(m)


def check() -> None:
    """Compare the vectorized statistics with those of other libraries on a few blocks."""
    import statsmodels.api as sm
    from sklearn.metrics import cohen_kappa_score, roc_auc_score

    rng = np.random.default_rng(0)
    others: dict[Any, Callable[[np.ndarray], float]] = {
        correlation: lambda d: stats.pearsonr(d[:, 0], d[:, 1]).statistic,
        spearman: lambda d: stats.spearmanr(d[:, 0], d[:, 1]).statistic,
        auc: lambda d: roc_auc_score(d[:, 1], d[:, 0]),
        kappa: lambda d: cohen_kappa_score(d[:, 0], d[:, 1]),
        ols_slope: lambda d: sm.OLS(d[:, -1], sm.add_constant(d[:, :-1])).fit().params[1],
        r_squared: lambda d: sm.OLS(d[:, -1], sm.add_constant(d[:, :-1])).fit().rsquared,
        logistic: lambda d: sm.Logit(d[:, -1], sm.add_constant(d[:, :-1])).fit(disp=0).params[1],
        poisson: lambda d: sm.Poisson(d[:, -1], sm.add_constant(d[:, :-1])).fit(disp=0).params[1],
        cox: lambda d: sm.PHReg(d[:, 0], d[:, 2:], status=d[:, 1], ties="breslow").fit(disp=0).params[0],
        trimmed: lambda d: stats.trim_mean(d[:, 0], 0.2),
    }
    for case in CASES.values():
        if case.of in others:
            D = case.draw(rng, 5, 200)
            np.testing.assert_allclose(case.of(D), [others[case.of](d) for d in D], rtol=1e-4, atol=1e-5)


def table(results: dict[str, list[Cell | None]]) -> list[str]:
    heads = [f"{n:,}, {epsilon:g}" for n, epsilon in SETTINGS]
    lines = ["| statistic | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(heads)]
    for name, cells in results.items():
        texts = [
            "too few rows" if cell is None else f"{cell.coverage:.3f} {cell.width:.2f} ({cell.planned:.2f})"
            for cell in cells
        ]
        lines.append(f"| {name} | " + " | ".join(texts) + " |")
    return lines


def report(results: dict[str, list[Cell | None]], releases: int, pool_size: int) -> list[str]:
    """Return the lines of the page of results."""
    lost = max(cell.lost for cells in results.values() for cell in cells if cell is not None)
    error = math.sqrt(0.95 * 0.05 / releases)
    return [
        "# Intervals for any statistic",
        "",
        f"{time.strftime('%Y-%m-%d')}: `python validation/studies/any_statistic.py --releases {releases} "
        f"--pool {pool_size}`, dpstats {dpstats.__version__}",
        "",
        "Coverage of 95% intervals, median width over that of the interval without privacy, and in brackets "
        f"the planned width, by (n, epsilon). {releases} releases a cell; the standard error of a coverage of "
        f"0.95 is {error:.3f}. Values of blocks are drawn from a pool, whose own mean is off by "
        f"{1 / math.sqrt(pool_size):.3f} of their standard deviation. Planned widths count the loss of blocks by their "
        f"size, for as many parameters as are declared. At most {100 * lost:.1f}% of the releases of a cell are more "
        "than five times as wide as its median.",
        "",
        *table(results),
        "",
        "Skewness is a statistic for which intervals are *not* valid: its bias in blocks is far from 1/m.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--releases", type=int, default=300)
    parser.add_argument("--pool", type=int, default=8000)
    parser.add_argument("--only", default="")
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    check()
    results: dict[str, list[Cell | None]] = {}
    for place, (name, case) in enumerate(CASES.items()):
        if not re.search(options.only, name):
            continue
        rng = np.random.default_rng(place)
        truth, spread = population(case, rng)
        sizes = options.releases, options.pool
        results[name] = [
            run(case, n, epsilon, sizes, truth, spread, 100 * place + i) for i, (n, epsilon) in enumerate(SETTINGS)
        ]
        print("\n".join(table({name: results[name]})[2:]), flush=True)
    text = report(results, options.releases, options.pool)
    if not options.no_write and not options.only:
        RESULTS.write_text("\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
