"""Intervals of `PrivateStatistic` beside those of the class that is made for the same question, on the same rows.

python validation/studies/any_statistic_peers.py             # writes validation/results/any_statistic_peers.md
python validation/studies/any_statistic_peers.py --replications 4 --only median --no-write
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

import dpstats
from dpstats.covariance import PrivateCovariance
from dpstats.groups import GroupMeans
from dpstats.means import ClippedMean, PrivateVariance
from dpstats.quantiles import PrivateQuantile
from dpstats.regression import PrivateLinearRegression
from dpstats.statistic import PrivateStatistic
from dpstats.tables import PrivateProportion

RESULTS = Path(__file__).resolve().parents[1] / "results" / "any_statistic_peers.md"
SETTINGS = ((5000, 1.0), (20_000, 1.0), (20_000, 0.3))
DELTA = 1e-6

Floats = np.ndarray
Limits = tuple[float, float]


@dataclass(frozen=True)
class Case:
    """A question: rows, the function of a block with its options, the other class, and the truth."""

    draw: Callable[[np.random.Generator, int], Floats]
    function: Callable[[Floats], float]
    options: dict[str, Any]
    name: str
    other: Callable[[Floats, dict[str, Any]], Any]
    truth: float


def column(draw: Callable[[np.random.Generator, int], Floats]) -> Callable[[np.random.Generator, int], Floats]:
    return lambda rng, n: draw(rng, n)[:, None]


def yes(share: float) -> Callable[[np.random.Generator, int], Floats]:
    return column(lambda rng, n: (rng.random(n) < share) * 1.0)


def labeled(outcome: Callable[[np.random.Generator, Floats], Floats]) -> Callable[[np.random.Generator, int], Floats]:
    """Return rows of an outcome and a group, 0 or 1."""

    def draw(rng: np.random.Generator, n: int) -> Floats:
        group = (rng.random(n) < 0.4) * 1.0
        return np.column_stack([outcome(rng, group), group])

    return draw


def correlated(rng: np.random.Generator, n: int) -> Floats:
    z = rng.normal(size=(n, 2))
    return np.column_stack([z[:, 0], 0.5 * z[:, 0] + math.sqrt(0.75) * z[:, 1]])


def linear(rng: np.random.Generator, n: int) -> Floats:
    X = rng.normal(size=(n, 3))
    return np.column_stack([X, X @ [0.5, -0.5, 0.25] + rng.normal(size=n)])


def difference(block: Floats) -> float:
    return float(block[block[:, 1] == 1, 0].mean() - block[block[:, 1] == 0, 0].mean())


def of_groups(bounds: tuple[float, float]) -> Callable[[Floats, dict[str, Any]], Any]:
    def fit(X: Floats, privacy: dict[str, Any]) -> Any:
        model = GroupMeans(groups=[0, 1], bounds=bounds, **privacy).fit(X[:, :1], X[:, 1].astype(int))
        return model.difference(1, 0)

    return fit


def correlation_of(X: Floats, privacy: dict[str, Any]) -> Any:
    return PrivateCovariance(bounds=(-4, 4), **privacy).fit(X).correlation()


def slope(block: Floats) -> float:
    X = np.column_stack([np.ones(len(block)), block[:, :-1]])
    return float(np.linalg.lstsq(X, block[:, -1], rcond=None)[0][1])


def regression_of(X: Floats, privacy: dict[str, Any]) -> Any:
    model = PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-6, 6), **privacy)
    return model.fit(X[:, :-1], X[:, -1])


def share_of(X: Floats, privacy: dict[str, Any]) -> Any:
    return PrivateProportion(**privacy | {"delta": 0.0}).fit(X[:, 0])


CASES = {
    "mean, exponential": Case(
        column(lambda rng, n: rng.exponential(size=n)),
        np.mean,
        {"bounds": (0, 10)},
        "`ClippedMean`",
        lambda X, privacy: ClippedMean(bounds=(0, 12), **privacy).fit(X),
        1.0,
    ),
    "variance, normal": Case(
        column(lambda rng, n: rng.normal(size=n)),
        lambda block: float(block.var(ddof=1)),
        {"bounds": (-5, 5), "link": "log"},
        "`PrivateVariance`",
        lambda X, privacy: PrivateVariance(bounds=(-5, 5), **privacy).fit(X),
        1.0,
    ),
    "median, exponential": Case(
        column(lambda rng, n: rng.exponential(size=n)),
        np.median,
        {"bounds": (0, 12)},
        "`PrivateQuantile`",
        lambda X, privacy: PrivateQuantile(0.5, bounds=(0, 12), **privacy).fit(X[:, 0]),
        math.log(2),
    ),
    "0.9 quantile, exponential": Case(
        column(lambda rng, n: rng.exponential(size=n)),
        lambda block: float(np.quantile(block, 0.9)),
        {"bounds": (0, 12)},
        "`PrivateQuantile`",
        lambda X, privacy: PrivateQuantile(0.9, bounds=(0, 12), **privacy).fit(X[:, 0]),
        math.log(10),
    ),
    "share of 30%": Case(yes(0.3), np.mean, {"bounds": (0, 1)}, "`PrivateProportion`", share_of, 0.3),
    "share of 2%": Case(yes(0.02), np.mean, {"bounds": (0, 1)}, "`PrivateProportion`", share_of, 0.02),
    "difference of means": Case(
        labeled(lambda rng, group: rng.normal(size=group.size) + 0.4 * group),
        difference,
        {"bounds": (-5, 5)},
        "`GroupMeans`",
        of_groups((-5, 5)),
        0.4,
    ),
    "risk difference": Case(
        labeled(lambda rng, group: (rng.random(group.size) < 0.2 + 0.1 * group) * 1.0),
        difference,
        {"bounds": (-1, 1)},
        "`GroupMeans`",
        of_groups((0, 1)),
        0.1,
    ),
    "correlation": Case(
        correlated,
        lambda block: float(np.corrcoef(block.T)[0, 1]),
        {"bounds": (-3, 3), "link": "fisher"},
        "`PrivateCovariance`",
        correlation_of,
        0.5,
    ),
    "slope, d = 3": Case(
        linear, slope, {"bounds": (-5, 5), "parameters": 3}, "`PrivateLinearRegression`", regression_of, 0.5
    ),
}


def limits_of(found: Any, name: str) -> Limits:
    """Return the 95% interval of what was asked."""
    low, high = (np.asarray(end, dtype=float) for end in found.confidence_interval())
    if name == "correlation" and low.size > 1:
        return float(low[0, 1]), float(high[0, 1])
    # The first slope comes first, or after the intercept.
    place = 1 if name.startswith("slope") and low.size > 3 else 0
    return float(np.ravel(low)[place]), float(np.ravel(high)[place])


def run(name: str, n: int, epsilon: float, replications: int) -> tuple[str, float]:
    """Return the cell of the table, and the ratio of the median widths."""
    case, widths, held = CASES[name], np.empty((replications, 2)), np.empty((replications, 2))
    for r in range(replications):
        rng = np.random.default_rng([len(name), n, r])
        X = case.draw(rng, n)
        privacy = {"epsilon": epsilon, "delta": DELTA, "random_state": r}
        fits = PrivateStatistic(case.function, **case.options, **privacy).fit(X), case.other(X, privacy)
        for i, found in enumerate(fits):
            low, high = limits_of(found, name)
            widths[r, i], held[r, i] = high - low, low <= case.truth <= high
    first, second = np.median(widths, axis=0)
    covered = " and ".join(f"{share:.2f}" for share in held.mean(axis=0))
    return f"{first / second:.2f} ({covered})", float(first / second)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=40)
    parser.add_argument("--only", default="")
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    heads = [f"{n:,}, {epsilon:g}" for n, epsilon in SETTINGS]
    lines = ["| statistic | other class | " + " | ".join(heads) + " |", "|" + " --- |" * (2 + len(heads))]
    for name, case in CASES.items():
        if re.search(options.only, name):
            cells = [run(name, *setting, options.replications)[0] for setting in SETTINGS]
            lines.append(f"| {name} | {case.name} | " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
    if options.no_write or options.only:
        return
    text = [
        "# Any statistic beside the class for the question",
        "",
        f"{time.strftime('%Y-%m-%d')}: `python validation/studies/any_statistic_peers.py --replications "
        f"{options.replications}`, dpstats {dpstats.__version__}",
        "",
        "Median width of the 95% interval of `PrivateStatistic` over that of the other class, by (n, epsilon), on the "
        f"same rows at delta = {DELTA:g}. In brackets the coverage of both in {options.replications} replications, "
        f"each with a standard error of {math.sqrt(0.95 * 0.05 / options.replications):.2f}. Bounds are natural for "
        "all classes. `PrivateProportion` has delta = 0.",
        "",
        *lines,
    ]
    RESULTS.write_text("\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
