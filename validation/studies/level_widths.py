"""Width of the interval of a level's effect by its share: declared factor, column of 0 and 1, means of groups.

Outcomes are 1 + x + 2 d + e with normal x and e, y bounds (-6, 10), x bounds (-4, 4).

    python validation/studies/level_widths.py
    python validation/studies/level_widths.py --fast               # few runs, nothing written
"""

from __future__ import annotations

import argparse
import datetime
import warnings
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd

import dpstats
from dpstats.groups import GroupMeans
from dpstats.regression import PrivateLinearRegression

matplotlib.use("Agg")
import matplotlib.pyplot as plt

RESULTS = Path(__file__).resolve().parents[1] / "results"
SHARES = (0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.2, 0.35, 0.5)
SIZES = ((5000, 1.0), (20_000, 1.0), (20_000, 0.3))
METHODS = ("factor", "column", "group means", "least squares")
EFFECT = 2.0
Y = (-6.0, 10.0)
WHY = (
    "Why a factor can be wider. Group means spend all of epsilon on the totals of levels, with Laplace noise. A "
    "regression has slopes too: a third of its mu^2 goes to the totals of residuals by level, and the rest to "
    "slopes and centers. Where a level has fewer than about 70/epsilon rows, the noise of its count is a quarter of "
    "the count, and the interval of the quotient opens to one side: there group means are shorter. Where a level "
    "has more than a tenth of the rows, a column of 0 and 1 is as good as any other column, and shares its noise "
    "with the slopes. It clips residuals closer, because it assumes residuals of one shape: for exponential residuals "
    "whose scale differs by 1.5 between the levels, columns covered 0.62 to 0.83, and factors 0.97 to 0.98 (see the "
    "guide). The regression does not know the shares, so it cannot choose."
)


def intervals(n: int, epsilon: float, share: float, seed: int) -> np.ndarray:
    """Return the ends of the interval of the effect by each method, for one data set."""
    rng = np.random.default_rng([seed, n, round(1000 * share)])
    d = (rng.permutation(n) < share * n).astype(int)
    x = np.clip(rng.standard_normal(n), -4, 4)
    y = 1 + x + EFFECT * d + rng.standard_normal(n)
    given = {"epsilon": epsilon, "delta": 1e-6, "random_state": seed}
    factor = PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=Y, factors={"d": [0, 1]}, **given)
    factor.fit(pd.DataFrame({"x": x, "d": d}), y)
    column = PrivateLinearRegression(x_bounds=[(-4, 4), (0, 1)], y_bounds=Y, **given)
    column.fit(np.column_stack([x, d]), y)
    groups = GroupMeans(groups=[0, 1], bounds=Y, **given).fit(y, d)
    design = np.column_stack([np.ones(n), x, d])
    inverse = np.linalg.inv(design.T @ design)
    exact = inverse @ (design.T @ y)
    half = 1.96 * np.sqrt(inverse[2, 2] * np.mean((y - design @ exact) ** 2))
    return np.array(
        [
            np.ravel(factor.difference(1, 0).confidence_interval()),
            np.ravel([end[-1] for end in column.confidence_interval()]),
            np.ravel(groups.difference(1, 0).confidence_interval()),
            [exact[2] - half, exact[2] + half],
        ]
    )


def measure(n: int, epsilon: float, runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the median width of each method by share, and how often intervals held the effect."""
    widths, covered = [], []
    for share in SHARES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ends = np.array([intervals(n, epsilon, share, seed) for seed in range(runs)])
        widths.append(np.median(ends[..., 1] - ends[..., 0], axis=0))
        covered.append(np.mean((ends[..., 0] <= EFFECT) & (ends[..., 1] >= EFFECT), axis=0))
    return np.array(widths), np.array(covered)


def table(widths: np.ndarray, covered: np.ndarray) -> list[str]:
    """Return lines of Markdown: widths, and coverage in parentheses."""
    lines = [f"| share | {' | '.join(METHODS)} | factor over the shorter of the others |", "|---|---|---|---|---|---|"]
    for share, width, holds in zip(SHARES, widths, covered, strict=True):
        cells = [f"{one:.3g} ({rate:.2f})" for one, rate in zip(width, holds, strict=True)]
        lines.append(f"| {share:.1%} | {' | '.join(cells)} | {width[0] / width[1:3].min():.2f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fast", action="store_true", help="few runs, nothing written")
    parser.add_argument("--runs", type=int, default=40)
    given = parser.parse_args()
    found = {cell: measure(*cell, 4 if given.fast else given.runs) for cell in SIZES}
    lines = [
        "# Width of the interval of a level's effect by its share",
        "",
        f"dpstats {dpstats.__version__}, {datetime.date.today()}, `python validation/studies/level_widths.py`, "
        f"{given.runs} runs a cell. Median widths of 95% intervals, with coverage in parentheses. Outcomes are "
        "1 + x + 2d + e with normal x and e, y_bounds (−6, 10), x_bounds (−4, 4), δ = 10⁻⁶.",
        "",
        "![Width by share](level_widths.png)",
    ]
    for (n, epsilon), (widths, covered) in found.items():
        lines += ["", f"## n = {n:,}, ε = {epsilon:g}", "", *table(widths, covered)]
    text = "\n".join([*lines, "", WHY]) + "\n"
    print(text)
    if given.fast:
        return
    (RESULTS / "level_widths.md").write_text(text, encoding="utf-8")
    figure, panels = plt.subplots(1, len(SIZES), figsize=(11, 3.8), sharey=True, layout="constrained")
    for panel, ((n, epsilon), (widths, _)) in zip(panels, found.items(), strict=True):
        for name, line, style in zip(METHODS, widths.T, ("o-", "s-", "^-", "--"), strict=True):
            panel.plot([100 * share for share in SHARES], line, style, label=name, markersize=4)
        panel.set(xscale="log", yscale="log", xlabel="share of the level, %", title=f"n = {n:,}, ε = {epsilon:g}")
        panel.set_xticks([0.5, 1, 2, 5, 10, 50], ["0.5", "1", "2", "5", "10", "50"])
        panel.minorticks_off()
    panels[0].set_ylabel("median width of the 95% interval")
    panels[-1].legend()
    figure.savefig(RESULTS / "level_widths.png", dpi=120)


if __name__ == "__main__":
    main()
