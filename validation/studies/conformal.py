"""Private conformal intervals and sets: coverage, and width beside split conformal prediction without privacy.

Coverage of a fit is computed from the distribution of the scores, or on 20,000 new rows for models. The column "plain
rank" has the same choice at the rank without privacy.

    python validation/studies/conformal.py
    python validation/studies/conformal.py --replications 20 --no-write
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.linear_model import LinearRegression, LogisticRegression
from study_page import write_page

import dpstats
from dpstats.conformal import PrivateConformalClassifier, PrivateConformalRegressor
from dpstats.conformal.coverage import place_scores, read_scores, release_score
from dpstats.release.session import Session

RESULTS = Path(__file__).resolve().parents[1] / "results" / "conformal.md"
ALPHA = 0.1
TOP = 1000.0
NEW = 20_000
CELLS = ((200, 1.0), (500, 1.0), (2000, 0.5), (2000, 1.0), (2000, 4.0), (20_000, 1.0))

Draw = Callable[[np.random.Generator, int], np.ndarray]
Below = Callable[[float], float]


def jump(share: float, low: Draw, high: Draw) -> Draw:
    """Return draws from one distribution for a share of the rows, and from another for the others."""
    return lambda rng, n: np.where(rng.random(n) < share, low(rng, n), high(rng, n))


def uniform(low: float, high: float) -> Draw:
    return lambda rng, n: rng.uniform(low, high, n)


def between(low: float, high: float) -> Below:
    return lambda x: min(max((x - low) / (high - low), 0.0), 1.0)


def mixed(share: float, first: Below, second: Below) -> Below:
    return lambda x: share * first(x) + (1 - share) * second(x)


def atoms(*given: tuple[float, float]) -> Below:
    return lambda x: math.fsum(p for place, p in given if place <= x)


def frozen(law: Any) -> tuple[Draw, Below]:
    return (lambda rng, n: law.rvs(n, random_state=rng)), lambda x: float(law.cdf(x))


# Absolute residuals: how they are drawn, and the probability that one is at most x.
LAWS: dict[str, tuple[Draw, Below]] = {
    "abs(normal)": frozen(stats.halfnorm()),
    "exponential": frozen(stats.expon()),
    "lognormal(1)": frozen(stats.lognorm(1)),
    "abs(Cauchy)": frozen(stats.halfcauchy()),
    "Poisson(2)": frozen(stats.poisson(2)),
    "0.1 with 0.89, or 1": (lambda rng, n: np.where(rng.random(n) < 0.89, 0.1, 1.0), atoms((0.1, 0.89), (1.0, 0.11))),
    "gap below the level, at 0.88": (
        jump(0.88, uniform(1e-3, 2e-3), uniform(50, 50.5)),
        mixed(0.88, between(1e-3, 2e-3), between(50, 50.5)),
    ),
    "gap above the level, at 0.905": (
        jump(0.905, uniform(1e-3, 1.1e-2), uniform(5, 6)),
        mixed(0.905, between(1e-3, 1.1e-2), between(5, 6)),
    ),
    "all equal": (lambda rng, n: np.full(n, 3.0), atoms((3.0, 1.0))),
}


class Zero:
    """The model that predicts 0: a residual is the outcome."""

    def predict(self, X: Any) -> np.ndarray:
        return np.zeros(len(X))


def plain_half_width(y: np.ndarray) -> float:
    """Return the half-width of split conformal prediction without privacy."""
    place = math.ceil((1 - ALPHA) * (y.size + 1) - 1e-9)
    return float(np.sort(y)[place - 1]) if place <= y.size else math.inf


def at_plain_rank(plan: Any, y: np.ndarray, rng: np.random.Generator) -> float:
    """Return the half-width that the same choice gives at the rank without privacy."""
    aimed = replace(plan, rank=math.ceil((1 - ALPHA) * (y.size + 1) - 1e-9))
    with Session.simulated(aimed, rng) as session:
        release_score([np.sort(place_scores(y, aimed))], aimed, session)
    return float(read_scores(session.released, aimed)[0][0])


def law_cell(name: str, n: int, epsilon: float, count: int, seed: int) -> str:
    """Return a line of the first table."""
    rng = np.random.default_rng((seed, *name.encode(), n, round(100 * epsilon)))
    draw, below = LAWS[name]
    made = PrivateConformalRegressor(
        Zero(), score_bounds=TOP, alpha=ALPHA, epsilon=epsilon, training="public", random_state=rng
    )
    plan, X = made.plan(n, 1), np.zeros((n, 1))
    covered, plain, widths, without = [], [], [], []
    for _ in range(count):
        y = np.asarray(draw(rng, n), dtype=np.float64)
        half = made.fit(X, y).half_width_
        covered.append(below(half))
        plain.append(below(at_plain_rank(plan, y, rng)))
        widths.append(half)
        without.append(plain_half_width(y))
    finite = np.isfinite(widths)
    ratio = np.mean(np.array(widths)[finite]) / np.mean(without) if finite.any() else math.inf
    middle = np.median(np.array(widths) / np.array(without))
    error = np.std(covered) / math.sqrt(count)
    return (
        f"| {name} | {n:,} | {epsilon:g} | {plan.points} | {plan.rank:,} | {np.mean(covered):.4f} ({error:.4f}) | "
        f"{np.mean(plain):.4f} | {middle:.3f} | {ratio:.3f} | {1 - finite.mean():.3f} |"
    )


# Models


def regression_rows(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, 3))
    return X, X @ [1.0, -1.0, 0.5] + (0.3 + 0.7 * np.abs(X[:, 0])) * rng.normal(size=n)


def class_rows(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    X = 2 * rng.normal(size=(n, 3))
    return X, np.argmax(X + rng.gumbel(size=X.shape), axis=1)


class Scale:
    """A model of the absolute residuals by the absolute values of the columns."""

    def __init__(self, X: np.ndarray, residuals: np.ndarray) -> None:
        self._model = LinearRegression().fit(np.abs(X), residuals)

    def predict(self, X: Any) -> np.ndarray:
        return np.maximum(self._model.predict(np.abs(np.asarray(X))), 0.1)


def model_lines(count: int, seed: int, n: int = 2000) -> list[str]:
    """Return the lines of the second table: models that were fitted to 2,000 other rows."""
    rng = np.random.default_rng((seed, 2))
    X, y = regression_rows(rng, 2000)
    model = LinearRegression().fit(X, y)
    scale_model = Scale(X, np.abs(y - model.predict(X)))
    classifier = LogisticRegression().fit(*class_rows(rng, 2000))
    shared: dict[str, Any] = {"training": "public", "alpha": ALPHA, "random_state": rng}
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(count):
        (X, y), (new, outcome) = regression_rows(rng, n), regression_rows(rng, NEW)
        for name, scale in (("linear regression", None), ("with a model of the scale", scale_model)):
            made = PrivateConformalRegressor(model, scale_estimator=scale, score_bounds=100.0, **shared)
            low, high = made.fit(X, y).predict_interval(new)
            residuals = np.abs(y - model.predict(X)) / (1.0 if scale is None else scale.predict(X))
            inside = (low <= outcome) & (outcome <= high)
            found.setdefault(name, []).append((inside.mean(), made.half_width_ / plain_half_width(residuals)))
        (X, y), (new, outcome) = class_rows(rng, n), class_rows(rng, NEW)
        sets = PrivateConformalClassifier(classifier, **shared).fit(X, y).predict_set(new)
        cut = plain_half_width(1 - classifier.predict_proba(X)[np.arange(n), y])
        plain = 1 - classifier.predict_proba(new) <= cut
        found.setdefault("sets of three classes", []).append(
            (sets[np.arange(NEW), outcome].mean(), sets.sum() / plain.sum())
        )
    return [
        f"| {name} | {np.mean(both, axis=0)[0]:.4f} ({np.std(both, axis=0)[0] / math.sqrt(count):.4f}) | "
        f"{np.mean(both, axis=0)[1]:.3f} |"
        for name, both in found.items()
    ]


def group_lines(count: int, seed: int) -> list[str]:
    """Return the lines of the third table: groups of unequal size and spread."""
    rng = np.random.default_rng((seed, 3))
    labels, shares, spreads = ["a", "b", "c"], np.array([0.7, 0.25, 0.05]), np.array([1.0, 3.0, 10.0])
    lines = []
    for n, epsilon in ((2000, 1.0), (6000, 1.0), (6000, 4.0)):
        covered, ratios = np.zeros((count, 3)), np.full((count, 3), np.nan)
        made = PrivateConformalRegressor(
            Zero(), groups=labels, by="group", score_bounds=TOP, epsilon=epsilon, training="public", random_state=rng
        )
        for i in range(count):
            group = rng.choice(3, size=n, p=shares)
            y = spreads[group] * rng.normal(size=n)
            frame = pd.DataFrame({"x": np.zeros(n), "group": np.array(labels)[group]})
            half = made.fit(frame, y).half_width_
            covered[i] = 2 * stats.norm.cdf(half / spreads) - 1
            plain = [plain_half_width(np.abs(y[group == k])) for k in range(3)]
            ratios[i] = np.where(np.isfinite(half), half / plain, np.nan)
        for k, label in enumerate(labels):
            finite = np.isfinite(ratios[:, k])
            ratio = f"{ratios[finite, k].mean():.3f}" if finite.mean() > 0.5 else ""
            error = covered[:, k].std() / math.sqrt(count)
            lines.append(
                f"| {n:,} | {epsilon:g} | {label}: {shares[k]:.0%} of the rows | {covered[:, k].mean():.4f} "
                f"({error:.4f}) | {ratio} | {1 - finite.mean():.3f} |"
            )
    return lines


def report(count: int, seed: int) -> str:
    """Return the page."""
    lines = [
        "# Conformal prediction: coverage and width",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, numpy {np.__version__}; simulated noise; {count} "
        "fits a cell, standard errors in brackets.",
        "",
        f"    python validation/studies/conformal.py --replications {count} --seed {seed}",
        "",
        f"Nominal coverage {1 - ALPHA:g}. Width: half-width over the one without privacy on the same rows, in the "
        "median; and the mean of the finite ones over the mean without privacy. Plain rank: coverage of the same "
        "choice at the rank without privacy. Infinite: fraction of fits whose interval is everything. Half-widths are "
        f"points between {TOP / 1e4:g} and {TOP:g}.",
        "",
        "| absolute residuals | rows | epsilon | points | rank | coverage | plain rank | width, median | width, mean "
        "| infinite |",
        "|---" * 10 + "|",
    ]
    for name in LAWS:
        for n, epsilon in CELLS:
            few = max(count // 3, 2) if n > 10_000 else count
            lines.append(law_cell(name, n, epsilon, few, seed))
            print(lines[-1], file=sys.stderr, flush=True)
    lines += [
        "",
        f"2,000 calibration rows, epsilon 1, coverage on {NEW:,} new rows. Width is the size of the sets for classes.",
        "",
        "| model | coverage | width |",
        "|---" * 3 + "|",
        *model_lines(max(count // 2, 2), seed),
        "",
        "Coverage in each group, for normal residuals with standard deviations 1, 3 and 10.",
        "",
        "| rows | epsilon | group | coverage | width | infinite |",
        "|---" * 6 + "|",
        *group_lines(max(count // 2, 2), seed),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    write_page(report, RESULTS, replications=300, seed=2026)
