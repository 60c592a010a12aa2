"""Levels of log-rank tests and coverage of hazard ratios in random cells, from counts by bin.

Hazards, censoring, bins, arms, rows and epsilon are random. A dataset is drawn as its counts on a grid of 24 places in
each bin, so that a cell costs the same for every number of rows.

    python validation/studies/survival_levels.py
    python validation/studies/survival_levels.py --cells 20 --datasets 200 --no-write
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from study_page import write_page

import dpstats
from dpstats.survival import LogRankTest, PrivateSurvival
from dpstats.survival.hazard_ratios import HazardRatio, Reference
from dpstats.survival.log_rank import outcome
from dpstats.survival.table import table_log_rank

RESULTS = Path(__file__).resolve().parents[1] / "results" / "survival_levels.md"
PLACES = 24
_U = (np.arange(PLACES) + 0.5) / PLACES
_TIMES = np.linspace(0, 1, 2001)
Floats = NDArray[np.float64]
Curve = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Cell:
    """Arms with one hazard, or with proportional ones.

    Attributes
    ----------
    hazard : function of times
        The cumulative hazard of all arms up to the horizon, which is 1.
    staying : sequence of functions of times
        The proportion of each arm that is not censored.
    log_ratio : float
        Of the second to the first arm, for the hazard ratio; tests are of equal arms.
    """

    words: str
    n: int
    epsilon: float
    bins: int
    shares: Sequence[float]
    hazard: Curve
    staying: Sequence[Curve]
    log_ratio: float = 0.0


class Datasets:
    """Counts of rows of many datasets of a cell, and their releases."""

    def __init__(self, cell: Cell, datasets: int, seed: int, log_ratio: float = 0.0) -> None:
        self.cell, self.rng = cell, np.random.default_rng(seed)
        m, K = cell.bins, len(cell.shares)
        grid = np.linspace(0, 1, m * PLACES + 1)
        probabilities = []
        for g, share in enumerate(cell.shares):
            alive = np.exp(-cell.hazard(grid) * (np.exp(log_ratio) if g == 1 else 1.0))
            free = cell.staying[g](grid)
            events = -np.diff(alive) * (free[1:] + free[:-1]) / 2
            left = -np.diff(free) * (alive[1:] + alive[:-1]) / 2
            found = np.concatenate([events, left, [max(1 - events.sum() - left.sum(), 0.0)]])
            probabilities.append(share * found / found.sum())
        counts = self.rng.multinomial(cell.n, np.ravel(probabilities), size=datasets).reshape(datasets, K, -1)
        events, left = (
            counts[..., start : start + m * PLACES].reshape(datasets, K, m, PLACES).astype(float)
            for start in (0, m * PLACES)
        )
        self.fine, self.events, self.left = events, events.sum(axis=3), left
        self.beyond = counts[..., -1].astype(float)
        passed = left @ _U
        edges = np.zeros((datasets, K, m + 1))
        edges[..., :-1] += left.sum(axis=3) - passed
        edges[..., 1:] += passed
        edges[..., -1] += self.beyond
        self.cells = np.concatenate([self.events, edges], axis=2)
        self.positions = np.stack([events @ (_U - 0.5), left @ (_U * (1 - _U))], axis=2)

    def _noise(self, stage: Any, shape: tuple[int, ...]) -> Floats:
        drawn = self.rng.laplace(size=shape) if stage.noise == "laplace" else self.rng.normal(size=shape)
        return np.asarray(drawn * np.asarray(stage.noise_scale))

    def _release(self, plan: Any, positions: Floats) -> Floats:
        sums = (self.cells @ plan.levels.sums.T).reshape(len(self.cells), -1)
        if plan.cells.position_share:
            sums = np.hstack([sums, positions.reshape(len(sums), -1)])
        return sums + self._noise(plan.table_stage, sums.shape)

    def _given(self) -> dict[str, Any]:
        cell = self.cell
        several = len(cell.shares) > 1
        return {
            "groups": range(len(cell.shares)) if several else None,
            "unknown": "error",
            "horizon": 1.0,
            "bins": cell.bins,
            "epsilon": cell.epsilon,
        }

    def released(self, plan: Any) -> tuple[Floats, Floats | None]:
        """Return the cells and positions that a plan releases of each dataset."""
        return plan.estimate_cells(self._release(plan, self.positions))

    def references(self) -> tuple[Reference, Callable[[int], Reference]]:
        """Return the reference of a released table of all datasets, and a function for the first two arms of one."""
        cell = self.cell
        plan = PrivateSurvival(**self._given()).plan(cell.n)
        cells, positions = self.released(plan)

        def made(rows: slice, arms: int) -> Reference:
            placed = None if positions is None else positions[rows, :arms]
            return Reference(cells[rows, :arms], plan.least_squares, 0.0, 0.0, placed, plan.position_std)

        return made(slice(None), len(cell.shares)), lambda k: made(slice(k, k + 1), 2)

    def two_stages(self) -> Floats:
        """Return the p-values of `LogRankTest`."""
        cell, K = self.cell, len(self.cell.shares)
        plan = LogRankTest(**self._given()).plan(cell.n)
        reference = plan.reference(self._release(plan, self.positions.sum(axis=1)))
        residuals, heights, weights = plan.residuals(reference), reference.heights, reference.weights
        sums = (self.events * (weights - heights[:, 1:])[:, None]).sum(axis=2) - self.beyond * heights[:, -1:]
        for place, u in enumerate(_U):
            passed = residuals.elapsed_hazard(np.arange(cell.bins), np.full(cell.bins, u))
            expected = heights[:, :-1] + passed * np.diff(heights, axis=1)
            sums -= (self.left[..., place] * expected[:, None]).sum(axis=2)
        if K == 2:
            first = reference.mean_shares[:, :1]
            sums = (1 - first) * sums[:, :1] - first * sums[:, 1:]
        sums = sums / residuals.divisor[:, None]
        return outcome(plan, reference, sums + self._noise(plan.residual_stage, sums.shape)).pvalue


def _log_uniform(draw: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(draw.uniform(np.log(low), np.log(high))))


def _draw_hazard(draw: np.random.Generator) -> tuple[str, Curve]:
    kind = str(draw.choice(["constant", "Weibull", "early", "plateau", "piecewise", "cured", "late"]))
    t = _TIMES
    if kind == "Weibull":
        values = t ** _log_uniform(draw, 0.4, 3)
    elif kind == "early":
        share = draw.uniform(0.1, 0.8)
        values = share * (1 - np.exp(-t / _log_uniform(draw, 0.02, 0.3))) + (1 - share) * t
    elif kind == "plateau":
        values = np.minimum(t / draw.uniform(0.2, 0.8), 1)
    elif kind == "piecewise":
        values = np.interp(t, np.linspace(0, 1, 6), np.append(0, np.cumsum(draw.exponential(size=5))))
    elif kind == "cured":
        share = draw.uniform(0.05, 0.8)
        values = -np.log(share + (1 - share) * np.exp(-3 * t))
    else:
        values = np.maximum(t - (draw.uniform(0.1, 0.7) if kind == "late" else 0.0), 0.0)
    survivors = draw.uniform(0.05, 0.95)
    values = values / values[-1] * -np.log(survivors)
    return f"{kind} to {survivors:.2g}", lambda x: np.interp(x, t, values)


def _draw_censoring(draw: np.random.Generator) -> Curve:
    kind = str(draw.choice(["none", "uniform", "constant", "heavy", "at once"], p=[0.1, 0.25, 0.3, 0.2, 0.15]))
    if kind == "none":
        return np.ones_like
    if kind == "uniform":
        start, end = draw.uniform(0, 0.6), _log_uniform(draw, 1.05, 3)
        return lambda x: np.clip((end - x) / (end - start), 0, 1)
    if kind == "at once":
        when = draw.uniform(0.1, 0.9)
        return lambda x: np.where(x >= when, 0.5, 1.0) * np.exp(-0.2 * x)
    rate = _log_uniform(draw, 0.1, 1.5) if kind == "constant" else _log_uniform(draw, 1.5, 5)
    return lambda x: np.exp(-rate * x)


def draw_cell(draw: np.random.Generator) -> Cell:
    """Return a random cell."""
    n, bins, K = (
        round(_log_uniform(draw, 300, 50_000)),
        round(_log_uniform(draw, 4, 40)),
        int(draw.choice([2, 2, 3, 4])),
    )
    epsilon = 1e4 if draw.random() < 0.05 else _log_uniform(draw, 0.1, 10)
    style, rare = draw.integers(3), draw.uniform(0.01, 0.1)
    shares = np.full(K, 1 / K) if style == 0 else draw.dirichlet(2 * np.ones(K))
    if style == 2:
        shares = np.append(1 - (K - 1) * rare, np.full(K - 1, rare))
    words, hazard = _draw_hazard(draw)
    staying = [_draw_censoring(draw) for _ in range(K)]
    if draw.random() < 0.4:
        staying = staying[:1] * K
    ratio = float(draw.choice([0.0, 1.0])) * 0.5 * float(draw.normal())
    listed = " ".join(f"{share:.2g}" for share in shares)
    return Cell(
        f"n {n}, epsilon {epsilon:.2g}, {bins} bins, shares {listed}, {words}",
        n,
        epsilon,
        bins,
        shares.tolist(),
        hazard,
        staying,
        ratio,
    )


def bathtub(x: Floats) -> Floats:
    return 0.35 * (1 - np.exp(-x / 0.05)) + 0.1 * x + 0.6 * np.maximum(x - 0.7, 0)


def steep_cells() -> list[Cell]:
    """Return cells of steep hazards with other censoring in each arm."""
    curves: dict[str, Curve] = {
        "Weibull(0.5)": lambda x: -np.log(0.6) * np.sqrt(x),
        "Weibull(2)": lambda x: -np.log(0.4) * x**2,
        "bathtub": bathtub,
        "late": lambda x: 1.2 * np.maximum(x - 0.4, 0),
    }
    staying: list[Curve] = [lambda x: np.exp(-4.06 * x), lambda x: np.exp(-0.52 * x), lambda x: np.exp(-1.2 * x)]
    return [
        Cell(f"n {n}, epsilon {epsilon:g}, {m} bins, {name}, shares {' '.join(f'{s:g}' for s in shares)}", n, epsilon,
             m, shares, curve, staying, -0.3)
        for name, curve in curves.items()
        for n, epsilon, m in ((1000, 1.0, 4), (2000, 0.5, 4), (20_000, 1.0, 4), (5000, 1.0, 12))
        for shares in ((0.5, 0.5), (0.1, 0.9), (0.5, 0.3, 0.2))
    ]  # fmt: skip


def rates(cell: Cell, datasets: int, seed: int) -> tuple[float, float, float]:
    """Return the levels of the table's test and of `LogRankTest`, and how often the hazard ratio is not covered."""
    equal = Datasets(cell, datasets, seed)
    of_table = float((table_log_rank(equal.references()[0])[2] <= 0.05).mean())
    own = float((equal.two_stages() <= 0.05).mean())
    few = min(datasets, 400)
    pair = Datasets(cell, few, seed + 1, cell.log_ratio).references()[1]
    truth = np.array([cell.log_ratio])
    missed = np.mean([abs(HazardRatio([pair(k)]).standardize(truth)[0]) > 1.96 for k in range(few)])
    return of_table, own, float(missed)


def as_markdown(cells: int, datasets: int, seed: int, command: str) -> str:
    """Run everything, and return the page."""
    drawn = [draw_cell(np.random.default_rng([seed, k])) for k in range(cells)]
    found = np.array([rates(cell, datasets, seed + k) for k, cell in enumerate(drawn)])
    error = np.sqrt(0.05 * 0.95 / datasets)
    lines = [
        "# Log-rank tests and hazard ratios of survival tables, in random cells",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, numpy {np.__version__}; simulated noise; "
        f"{datasets} datasets a cell (one standard error of a level: {error:.3f}), 400 for the hazard ratio (0.011).",
        "",
        f"    {command}",
        "",
        "Levels of tests at 0.05 of equal arms, and how often a 95% interval of the hazard ratio misses.",
        "",
        f"## {cells} random cells",
        "",
        "4 to 40 bins, 300 to 50,000 rows, epsilon 0.1 to 10 or 10,000, two to four arms, with random hazards and "
        "censoring.",
        "",
        "| rate | mean | 90% of cells | 99% | largest | its cell |",
        "|---" * 6 + "|",
    ]
    names = "log-rank test of the table", "`LogRankTest`", "hazard ratio"
    for name, values in zip(names, found.T, strict=True):
        inner = " | ".join(f"{value:.3f}" for value in np.quantile(values, [0.9, 0.99, 1.0]))
        lines.append(f"| {name} | {values.mean():.3f} | {inner} | {drawn[int(values.argmax())].words} |")
    lines += [
        "",
        "## Steep hazards, with other censoring in each arm",
        "",
        "Exponential censoring at rates of 4.06, 0.52 and 1.2 a horizon. The bathtub has a third of its hazard in the "
        "first twentieth of the horizon: with 4 bins, a straight line is not its shape. Summaries, tests "
        "and hazard ratios warn of it where noise does not hide the shape.",
        "",
        "| cell | table | `LogRankTest` | hazard ratio |",
        "|---" * 4 + "|",
    ]
    for k, cell in enumerate(steep_cells()):
        lines.append(f"| {cell.words} | {' | '.join(f'{each:.3f}' for each in rates(cell, datasets, seed + k))} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    write_page(as_markdown, RESULTS, cells=150, datasets=1000, seed=2026)
