"""Random public cells, each with its own simulation of whole fits, that powers are compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dpstats.groups import GroupMeans
from dpstats.means import ClippedMean
from dpstats.regression import PrivateLinearRegression, PrivateLogisticRegression
from dpstats.tables import PrivateProportion


class Cell(NamedTuple):
    """A planned test, and the p-value of one fit to rows that are drawn for it."""

    estimator: Any
    n_samples: int
    effect: float
    assumed: dict[str, Any]
    pvalue: Callable[[Any, np.random.Generator], float]

    def simulate(self, fits: int, seed: int, level: float = 0.05) -> float:
        """Return the fraction of fits that reject. Rows and noise have seeds of their own."""
        rejected = 0
        for each in np.random.SeedSequence(seed).spawn(fits):
            rng = np.random.default_rng(each)
            options = {**self.estimator.get_params(), "random_state": int(rng.integers(2**31))}
            rejected += self.pvalue(type(self.estimator)(**options), rng) < level
        return rejected / fits


def _between(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def two_means(rng: np.random.Generator, binary: bool = False) -> Cell:
    n, epsilon, share = int(_between(rng, 200, 4000)), _between(rng, 0.5, 2.0), rng.uniform(0.3, 0.7)
    score = rng.uniform(1.8, 3.8)
    if binary:
        low, high, first, std = 0.0, 1.0, rng.uniform(0.15, 0.6), None
        noise = 4 / epsilon
        effect = score * np.hypot(np.sqrt(0.25 / (n * share * (1 - share))), noise / (n * share * (1 - share)))
        effect = min(effect, 0.9 - first)
    else:
        low, high, first, std = -50.0, 70.0, rng.uniform(-10, 20), _between(rng, 8, 20)
        noise = 240 / epsilon
        effect = score * np.hypot(std / np.sqrt(n * share * (1 - share)), noise / (n * share * (1 - share)))
        effect = min(effect, 20.0)

    def pvalue(model: Any, rng: np.random.Generator) -> float:
        second = rng.random(n) > share
        mean = first + effect * second
        values = (rng.random(n) < mean) * 1.0 if binary else np.clip(rng.normal(mean, std or 0), low, high)
        model.fit(values[:, None], np.where(second, "b", "a"))
        return float(model.difference("b", "a").test(0.0).pvalue[0])

    assumed = {"baseline": first, "share": share, "std": std}
    groups = GroupMeans(groups=["a", "b"], bounds=(low, high), epsilon=epsilon)
    return Cell(groups, n, effect, assumed, pvalue)


def two_proportions(rng: np.random.Generator) -> Cell:
    return two_means(rng, binary=True)


def paired(rng: np.random.Generator) -> Cell:
    n, epsilon, std = int(_between(rng, 60, 3000)), _between(rng, 0.3, 2.0), _between(rng, 4, 14)
    delta = float(rng.choice([0.0, 1e-6]))
    effect = min(rng.uniform(1.5, 4) * float(np.hypot(std / np.sqrt(n), 113 / (n * epsilon))), 15.0)

    def pvalue(model: Any, rng: np.random.Generator) -> float:
        return float(model.fit(rng.normal(effect, std, size=(n, 1))).test(0.0).pvalue[0])

    return Cell(ClippedMean(bounds=(-40, 40), epsilon=epsilon, delta=delta), n, effect, {"std": std}, pvalue)


def one_proportion(rng: np.random.Generator) -> Cell:
    n, epsilon, first = int(_between(rng, 30, 3000)), _between(rng, 0.1, 2.0), rng.uniform(0.1, 0.7)
    effect = rng.uniform(1.5, 3.5) * np.hypot(np.sqrt(first * (1 - first) / n), 1.4 / (epsilon * n))
    effect = min(effect, 0.95 - first)
    options: dict[str, Any] = {"missing": "drop"} if rng.random() < 0.3 else {}

    def pvalue(model: Any, rng: np.random.Generator) -> float:
        return float(model.fit(rng.random(n) < first + effect).test(first).pvalue)

    return Cell(PrivateProportion(epsilon=epsilon, **options), n, effect, {"baseline": first}, pvalue)


def linear(rng: np.random.Generator) -> Cell:
    n, epsilon = int(_between(rng, 1000, 8000)), _between(rng, 0.7, 2.0)
    share = float(rng.uniform(0.25, 0.75)) if rng.random() < 0.5 else None
    std, other = _between(rng, 0.6, 1.5), rng.uniform(0, 1)
    spread = np.sqrt(1 / 3) if share is None else np.sqrt(share * (1 - share))
    effect = rng.uniform(1.8, 4.2) * std / (spread * np.sqrt(n)) * np.hypot(1, 40 / (epsilon * np.sqrt(n)))

    def pvalue(model: Any, rng: np.random.Generator) -> float:
        X = rng.uniform(-1, 1, size=(n, 2))
        if share is not None:
            X[:, 0] = rng.random(n) < share
        y = effect * X[:, 0] + other * X[:, 1] + rng.normal(0, std, size=n)
        return float(model.fit(X, y).pvalues[1])

    explained = other**2 / 3 + effect**2 * spread**2
    whole = std**2 + explained
    assumed = {"std": np.sqrt(whole), "r_squared": explained / whole, "n_features": 2, "share": share}
    model = PrivateLinearRegression(x_bounds=(-1, 1), y_bounds=(-6, 6), epsilon=epsilon)
    return Cell(model, n, effect, assumed, pvalue)


def logistic(rng: np.random.Generator) -> Cell:
    n, epsilon = int(_between(rng, 2000, 8000)), _between(rng, 0.7, 2.0)
    share = float(rng.uniform(0.25, 0.75)) if rng.random() < 0.5 else None
    shift = rng.uniform(-1.2, 1.0)
    spread = np.sqrt(1 / 3) if share is None else np.sqrt(share * (1 - share))
    weight = np.exp(shift) / (1 + np.exp(shift)) ** 2
    size = 1 / (spread * np.sqrt(n * weight)) * np.hypot(1, 50 / (epsilon * np.sqrt(n)))
    effect = rng.uniform(1.8, 4.0) * size

    def draw(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
        x = rng.uniform(-1, 1, n) if share is None else 1.0 * (rng.random(n) < share)
        return x[:, None], rng.random(n) < 1 / (1 + np.exp(-shift - effect * x))

    def pvalue(model: Any, rng: np.random.Generator) -> float:
        return float(model.fit(*draw(rng, n)).pvalues[1])

    rate = float(draw(np.random.default_rng(0), 1_000_000)[1].mean())
    model = PrivateLogisticRegression(x_bounds=(-1, 1) if share is None else (0, 1), epsilon=epsilon)
    return Cell(model, n, effect, {"baseline": rate, "share": share}, pvalue)


CELLS: dict[str, Callable[[np.random.Generator], Cell]] = {
    "means": two_means,
    "proportions": two_proportions,
    "paired differences": paired,
    "one proportion": one_proportion,
    "linear": linear,
    "logistic": logistic,
}
