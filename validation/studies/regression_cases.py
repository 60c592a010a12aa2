"""Linear and logistic regression on ordinary rows that are hard: rare levels, rare outcomes, skew, wide bounds.

Each case has its own size and epsilon. A fit is *named* if its output says that intervals may miss, or that a slope is
not identified. Coverage is counted over all fits, and over those that are not named.

    python validation/studies/regression_cases.py                 # writes validation/results/regression_cases.md
    python validation/studies/regression_cases.py --only dummies --replications 10 --no-write
"""

from __future__ import annotations

import warnings
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from regression_designs import most_likely
from scipy.special import expit
from study_page import table_page, write_cells

from dpstats.regression import PrivateLinearRegression, PrivateLogisticRegression

Floats = NDArray[np.float64]
RESULTS = Path(__file__).resolve().parents[1] / "results" / "regression_cases.md"
LEAST = 0.93
NORMAL = 1.959963984540054
PLAIN = ("z and intervals include", "Simulated noise")
"""Beginnings of the notes that every summary has."""


def normal(n: int, d: int, rng: np.random.Generator) -> Floats:
    return np.clip(rng.standard_normal((n, d)), -4, 4)


def indicators(n: int, rates: list[float], rng: np.random.Generator) -> Floats:
    return (rng.random((n, len(rates))) < rates).astype(float)


def skewed(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    X = normal(n, 3, rng)
    return X, X @ [0.5, -0.5, 0.5] + (rng.standard_exponential(n) - 1) * np.sign(X[:, 0])


def of_one_column_scale(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return rows with skewed residuals, whose scale grows with the first column."""
    X = normal(n, 3, rng)
    return X, X @ MIXED + (rng.exponential(size=n) - 1) * np.exp(0.5 * X[:, 0] - 0.25)


def probabilities(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    X = rng.uniform(-1, 1, (n, 3))
    return X, (rng.random(n) < 0.3 + X @ [0.15, -0.08, 0.05]).astype(float)


def beside_rare(rates: list[float], columns: int) -> Callable[..., tuple[Floats, Floats]]:
    """Return the maker of rows with rare indicators beside normal columns, and normal errors."""

    def made(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        X = np.column_stack([indicators(n, rates, rng), normal(n, columns, rng)])
        return X, X @ np.full(len(rates) + columns, 0.5) + rng.standard_normal(n)

    return made


def beside_a_group(
    rate: float, slope: float, spread: float, wider: float = 1.0
) -> Callable[..., tuple[Floats, Floats]]:
    """Return the maker of rows with a group beside a normal column of slope 3, with normal errors of these spreads."""

    def made(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        X = np.column_stack([indicators(n, [rate], rng), normal(n, 1, rng)])
        return X, X @ [slope, 3.0] + spread * rng.standard_normal(n) * np.where(X[:, 0] > 0, wider, 1.0)

    return made


def by_index(slopes: list[float], level: float = 0.0) -> Callable[..., tuple[Floats, Floats]]:
    """Return the maker of rows with normal columns, and outcomes of 0 or 1 with these log odds."""

    def made(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        X = normal(n, len(slopes), rng)
        return X, (rng.random(n) < expit(X @ slopes + level)).astype(float)

    return made


def interaction(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    X = normal(n, 2, rng)
    X = np.column_stack([X, X[:, 0] * X[:, 1]])
    return X, (rng.random(n) < expit(X @ [1.0, -1.0, 0.5])).astype(float)


def ordinary(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    X = normal(n, 3, rng)
    return X, X @ [0.5, -0.5, 0.5] + rng.standard_normal(n)


def visits(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    from log_linear import rand

    X, y, _ = rand(lambda mean: np.ones_like(mean))
    where = rng.integers(0, len(y), n)
    return X[where], y[where]


@dataclass(frozen=True)
class Case:
    """A case: rows, their size, epsilon, and how the model is fitted. ``truth`` has the slopes; None: of all rows."""

    part: str
    name: str
    rows: Callable[..., tuple[Floats, Floats]]
    n: int
    epsilon: float
    truth: tuple[float, ...] | None
    x_bounds: Any = (-4.0, 4.0)
    y_bounds: tuple[float, float] | None = (-8.0, 8.0)  # None: an outcome of 0 or 1, by logistic regression
    fits: float = 1.0
    options: dict[str, Any] = field(default_factory=dict)

    def slopes(self) -> Floats:
        if self.truth is not None:
            return np.array(self.truth)
        from log_linear import rand

        X, y, _ = rand(lambda mean: np.ones_like(mean))
        return least_squares(X, y)[0]

    def estimator(self, rng: np.random.Generator) -> Any:
        given = {"x_bounds": self.x_bounds, "epsilon": self.epsilon, "random_state": rng, **self.options}
        if self.y_bounds is None:
            return PrivateLogisticRegression(**given)
        return PrivateLinearRegression(y_bounds=self.y_bounds, **given)

    def reference(self, X: Floats, y: Floats) -> Floats:
        """Return the standard errors of the slopes without privacy; not numbers if there is no fit."""
        if self.y_bounds is not None:
            return least_squares(X, y, self.options.get("cov_type", "HC"))[1]
        theta = most_likely(X, y)
        rows = np.column_stack([np.ones(len(X)), X])
        p = expit(rows @ theta)
        information = (rows * (p * (1 - p))[:, None]).T @ rows
        if not np.isfinite(information).all():
            return np.full(X.shape[1], np.nan)
        return np.sqrt(np.diagonal(np.linalg.inv(information)))[1:]


def least_squares(X: Floats, y: Floats, cov_type: str = "HC") -> tuple[Floats, Floats]:
    """Return the slopes of least squares and their standard errors (HC1, or of one variance)."""
    rows = np.column_stack([np.ones(len(X)), X])
    inverse = np.linalg.pinv(rows.T @ rows)
    theta = inverse @ (rows.T @ y)
    residuals, scale = y - rows @ theta, len(y) / (len(y) - rows.shape[1])
    if cov_type == "HC":
        middle = (rows * residuals[:, None] ** 2).T @ rows
    else:
        middle = rows.T @ rows * (residuals @ residuals) / len(y)
    return theta[1:], np.sqrt(scale * np.diagonal(inverse @ middle @ inverse))[1:]


HALF = (0.5, 0.5, 0.5, 0.5)
MIXED = (0.5, -0.5, 0.5)
GROUP = [(0.0, 1.0), (-4.0, 4.0)]
DUMMIES = [(0.0, 1.0)] * 3 + [(-4.0, 4.0)]
RAND_BOUNDS = [(0, 5), (0, 1), (0, 8), (0, 9), (0, 1), (0, 60), (0, 1), (0, 1), (0, 1)]
GROUPS = (
    ("errors 5 times as wide", 0.03, 0.5, 1.0, 5.0, 5_000, 1.0, (-30.0, 32.0)),
    ("errors 5 times as wide", 0.01, 0.5, 1.0, 5.0, 20_000, 1.0, (-30.0, 32.0)),
    ("errors 5 times as wide", 0.03, 0.5, 1.0, 5.0, 5_000, 1e4, (-30.0, 32.0)),
    ("errors 10 times as wide", 0.1, 0.5, 1.0, 10.0, 5_000, 1.0, (-50.0, 50.0)),
    ("errors 10 times as wide", 0.02, 0.5, 1.0, 10.0, 10_000, 1.0, (-50.0, 50.0)),
    ("errors 10 times as wide, slope 10", 0.1, 10.0, 1.0, 10.0, 5_000, 1.0, (-50.0, 60.0)),
    ("errors 10 times as wide, slope 10", 0.1, 10.0, 1.0, 10.0, 20_000, 1.0, (-50.0, 60.0)),
    ("R2 of 0.9", 0.05, 5.0, 1.0, 1.0, 5_000, 1.0, (-20.0, 25.0)),
    ("R2 of 0.99", 0.05, 5.0, 0.3, 1.0, 5_000, 1.0, (-20.0, 25.0)),
    ("R2 of 0.99", 0.5, 5.0, 0.3, 1.0, 5_000, 1.0, (-20.0, 25.0)),
    ("R2 of 0.999", 0.05, 5.0, 0.1, 1.0, 20_000, 1.0, (-20.0, 25.0)),
    ("R2 of 0.9999", 0.05, 5.0, 0.03, 1.0, 20_000, 10.0, (-20.0, 25.0)),
)
"""Groups beside a normal column: their fraction, slope, spread of the errors, and how many times as wide theirs are."""
CASES = (
    Case("A1", "skew that turns with x", skewed, 12_000, 2.0, MIXED),
    Case("A1", "skew that turns with x", skewed, 5_000, 1.0, MIXED, fits=2.0),
    Case("A1", "skewed, scale grows with x", of_one_column_scale, 5_000, 1.0, MIXED, y_bounds=(-15, 15), fits=2.0),
    Case("A1", "skewed, scale grows with x", of_one_column_scale, 20_000, 1.0, MIXED, y_bounds=(-15, 15)),
    Case("A1", "skewed, scale grows with x", of_one_column_scale, 100_000, 1.0, MIXED, y_bounds=(-15, 15), fits=0.4),
    Case("A8", "normal rows", ordinary, 5_000, 1.0, MIXED, fits=4.0),
    Case("A8", "normal rows", ordinary, 50_000, 1.0, MIXED),
    Case("A1", "yes/no outcome, linear in x", probabilities, 12_000, 0.5, (0.15, -0.08, 0.05), (-1, 1), (0, 1)),
    Case("A2", "outcomes of 0.5%", by_index([0.5, -0.5, 0.5], -5.6), 300_000, 10.0, MIXED, y_bounds=None, fits=0.3),
    Case("A2", "outcomes of 2%", by_index([0.5, -0.5, 0.5], -4.2), 50_000, 2.0, MIXED, y_bounds=None),
    Case("A3", "three dummies of 1%", beside_rare([0.01] * 3, 1), 60_000, 2.0, HALF, DUMMIES, fits=0.6),
    Case("A3", "three dummies of 1%", beside_rare([0.01] * 3, 1), 400_000, 2.0, HALF, DUMMIES, fits=0.2),
    Case("A3", "four dummies of 1%, no other column", beside_rare([0.01] * 4, 0), 60_000, 2.0, HALF, (0, 1)),
    Case("A4", "log odds of sd 2", by_index([2 / 3**0.5] * 3), 20_000, 1.0, (2 / 3**0.5,) * 3, y_bounds=None),
    Case("A4", "log odds of sd 3", by_index([3**0.5] * 3), 20_000, 1.0, (3**0.5,) * 3, y_bounds=None),
    Case("A4", "log odds of sd 5", by_index([5 / 3**0.5] * 3), 20_000, 1.0, (5 / 3**0.5,) * 3, y_bounds=None),
    Case("A4", "interaction", interaction, 20_000, 1.0, (1.0, -1.0, 0.5), [(-4, 4), (-4, 4), (-16, 16)], None),
    Case(
        "A5",
        "rare dummy, nonrobust, no noise",
        beside_rare([0.01], 1),
        20_000,
        1e5,
        (0.5, 0.5),
        [(0, 1), (-4, 4)],
        options={"cov_type": "nonrobust"},
        fits=2.0,
    ),
    Case("A5", "20 rows, no noise", ordinary, 20, 1e5, MIXED, fits=5.0),
    Case("A5", "20 rows, nonrobust, no noise", ordinary, 20, 1e5, MIXED, options={"cov_type": "nonrobust"}, fits=5.0),
    Case(
        "A6",
        "log odds of sd 15, near separation",
        by_index([15 / 3**0.5] * 3),
        20_000,
        1.0,
        (15 / 3**0.5,) * 3,
        y_bounds=None,
    ),
    Case("A6", "bounds 100 times too wide", ordinary, 20_000, 1.0, MIXED, (-400.0, 400.0), (-800.0, 800.0)),
    Case("A6", "y_bounds that cut 2%", ordinary, 20_000, 1.0, MIXED, y_bounds=(-3.1, 3.1)),
    Case("A6", "y_bounds that cut 5%", ordinary, 20_000, 1.0, MIXED, y_bounds=(-2.6, 2.6)),
    *(
        Case("A9", f"{words}, group of {100 * rate:g}%", rows, n, epsilon, (slope, 3.0), GROUP, bounds)
        for words, rate, slope, spread, wider, n, epsilon, bounds in GROUPS
        for rows in [beside_a_group(rate, slope, spread, wider)]
    ),
    Case("A6", "RAND, visits by least squares", visits, 20_190, 1.0, None, RAND_BOUNDS, (0, 100)),
)


def said(made: Any) -> list[str]:
    """Return the remarks of a summary that only some summaries have: notes, and lines of what a fit assumes."""
    summary = made.summary()
    assumed = [f"{name} {text}" for name, text in summary.facts if "assume" in name]
    return [*(note for note in summary.notes if not note.startswith(PLAIN)), *assumed]


def measured(case: Case, replications: int, seed: int) -> list[str]:
    """Return the line of a case."""
    fits, truth = max(int(replications * case.fits), 2), case.slopes()
    rng = np.random.default_rng([seed, zlib.crc32(f"{case.part} {case.name} {case.n}".encode())])
    covered, widths, named, notes = [], [], [], Counter()
    for _ in range(fits):
        X, y = case.rows(case.n, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = case.estimator(rng).fit(X, y)
        low, high = (np.asarray(end) for end in made.confidence_interval(0.95))
        covered.append((low <= truth) & (truth <= high))
        widths.append(made.standard_errors_ / case.reference(X, y))
        remarks = said(made)
        named.append(bool(remarks))
        notes.update(remark.split(":")[0].split(".")[0].split(" (")[0][:60] for remark in remarks)
    inside, quiet = np.array(covered), ~np.array(named)
    each = inside.mean(axis=0)
    unnamed = inside[quiet].mean() if quiet.any() else np.nan
    width = np.array(widths)
    return [
        case.part,
        case.name,
        f"{case.n:,}",
        f"{case.epsilon:g}",
        f"{inside.mean():.3f}",
        f"{each.min():.2f}",
        "" if np.isnan(width).all() else f"{np.nanmedian(width):.2f}",
        f"{1 - quiet.mean():.2f}",
        "" if np.isnan(unnamed) else f"{unnamed:.3f}",
        verdict(inside, quiet),
        notes.most_common(1)[0][0] if notes else "",
        str(fits),
    ]


def verdict(inside: NDArray[np.bool_], quiet: NDArray[np.bool_]) -> str:
    """Return whether intervals cover, or the output names those that do not. Unclear: within two standard errors."""
    if inside.mean() >= LEAST:
        return "covers"
    if not quiet.any() or inside[quiet].mean() >= LEAST:
        return "named"
    error = np.sqrt(LEAST * (1 - LEAST) / inside[quiet].size)
    return "unclear" if inside[quiet].mean() + 2 * error >= LEAST else "**misses**"


HEADER = (
    "part",
    "case",
    "n",
    "ε",
    "slopes",
    "worst",
    "width",
    "named",
    "unnamed fits",
    "verdict",
    "most frequent note",
    "fits",
)


def as_markdown(lines: list[list[str]], replications: int, seed: int) -> str:
    """Return the page of results."""
    words = (
        "Linear and logistic regressions of rows that are hard for them. *slopes*, *worst*: coverage of 95% intervals, "
        "of all slopes and of the worst one. *width*: standard error over the one without privacy, median. *named*: "
        "fraction of fits whose output says that intervals may miss, or that slopes are not identified. *unnamed "
        f"fits*: coverage in the others. A case *covers* if all slopes together reach {LEAST}, and is *named* if fits "
        "without a note do, or if every fit has one. *unclear*: within two standard "
        "errors. The reference is least squares with HC1 errors (or errors of one "
        "variance) or the largest likelihood. δ = 1e-6. Coverage over 60 fits of three slopes has a standard error of "
        "about 0.016."
    )
    command = f"python validation/studies/regression_cases.py --replications {replications} --seed {seed}"
    return table_page("Regressions of rows that are hard", command, words, HEADER, lines)


if __name__ == "__main__":
    write_cells(
        CASES, measured, as_markdown, RESULTS, name=lambda case: f"{case.part} {case.name}", replications=100, seed=2026
    )
