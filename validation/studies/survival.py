"""Private survival: coverage and width of bands, intervals, medians and restricted means; log-rank levels; peers.

Datasets are drawn as counts of events by bin and of censored rows on a fine grid, by their exact probabilities, so that
a cell costs the same for every number of rows. Times of log-rank tests are drawn row by row.

    python validation/studies/survival.py
    python validation/studies/survival.py --replications 100 --tests 400 --no-write
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

import dpstats
from dpstats.survival import LogRankTest, PrivateSurvival
from dpstats.survival.curves import Curves
from dpstats.survival.levels import TABLE, LeastSquares
from dpstats.survival.limits import critical_values, limits, monotone, time_limits
from dpstats.survival.log_rank import LogRankPlan, outcome
from dpstats.survival.plan import TablePlan
from dpstats.survival.reference import Reference
from dpstats.survival.residuals import RESIDUALS
from dpstats.survival.restricted_means import Area
from dpstats.survival.table_log_rank import table_log_rank

RESULTS = Path(__file__).resolve().parents[1] / "results" / "survival.md"
HORIZON, FINE, DRAWS, LEVEL = 1.2, 20, 1000, 0.95
Floats = NDArray[np.float64]
Curve = Callable[[Floats], Floats]

LAWS: dict[str, Curve] = {
    "exponential": lambda t: np.exp(-t),
    "Weibull(0.5)": lambda t: np.exp(-np.sqrt(t)),
    "Weibull(3)": lambda t: np.exp(-(t**3)),
    "lognormal": lambda t: norm.sf(np.log(np.maximum(t, 1e-300))),
    "discrete": lambda t: 0.94 ** np.floor(t + 1e-9),
}


@dataclass(frozen=True)
class Cell:
    """One row of the study: ``atom`` is when half of the rows are censored at once, in shares of the horizon."""

    law: str
    n: int
    epsilon: float
    m: int
    censored: float = 0.3
    atom: float | None = None
    shares: tuple[float, ...] = (1.0,)
    delta: float = 0.0

    @property
    def words(self) -> str:
        extra = f"; half censored at {self.atom:g} of the horizon" if self.atom is not None else ""
        group = f"; group of {100 * self.shares[0]:g}%" if len(self.shares) > 1 else ""
        return f"{self.law}, {100 * self.censored:g}% censored{extra}{group}"


def edges_of(cell: Cell) -> Floats:
    return np.arange(cell.m + 1.0) if cell.law == "discrete" else np.linspace(0, HORIZON, cell.m + 1)


def probabilities(cell: Cell) -> tuple[Floats, Floats, float]:
    """Return the probabilities of the classes of a row, the cells that each class adds to, and the censored share."""
    edges, m = edges_of(cell), cell.m
    discrete = cell.law == "discrete"
    fine = edges if discrete else np.linspace(0, edges[-1], m * FINE + 1)
    alive = LAWS[cell.law](fine)

    def classes(rate: float) -> tuple[Floats, Floats, Floats]:
        free = np.exp(-rate * fine)
        after = free.copy()
        if cell.atom is not None:
            after = np.where(fine > cell.atom * edges[-1] - 1e-12, 0.5 * free, free)
        middle = after[:-1] if discrete else (after[1:] + after[:-1]) / 2
        events = -np.diff(alive) * middle
        left = -np.diff(after) * (alive[1:] if discrete else (alive[1:] + alive[:-1]) / 2)
        return events, left, alive[-1:] * after[-1:]

    def excess(log_rate: float) -> float:
        return float(classes(np.exp(log_rate))[1].sum() - cell.censored - 0.4 * (cell.atom is not None))

    rate = 1e-9 if excess(-12.0) >= 0 else float(np.exp(brentq(excess, -12.0, 9.0)))
    events, left, beyond = classes(rate)
    bins = np.repeat(np.arange(m), 1 if discrete else FINE)
    position = fine[1:] if discrete else (fine[1:] + fine[:-1]) / 2
    if cell.atom is not None:
        # Those of the atom are at its time, and not in the middle of a part.
        at = np.searchsorted(fine, cell.atom * edges[-1] - 1e-12) - 1
        position = np.where(np.arange(len(left)) == at, cell.atom * edges[-1], position)
    share = (position - edges[bins]) / np.diff(edges)[bins]
    to_cells = np.zeros((m + len(left) + 1, 2 * m + 1))
    to_cells[np.arange(m), np.arange(m)] = 1
    to_cells[m + np.arange(len(left)), m + bins] = 1 - share
    to_cells[m + np.arange(len(left)), m + bins + 1] += share
    to_cells[-1, -1] = 1
    by_bin = np.bincount(bins, weights=events, minlength=m)
    found = np.concatenate([by_bin, left, beyond])
    return found / found.sum(), to_cells, float(left.sum())


def released_cells(plan: TablePlan, exact: Floats, n: int, rng: np.random.Generator) -> Floats:
    """Return the cells (datasets, groups, cells) of releases of exact ones."""
    stage = plan.table_stage
    sums = (exact @ plan.levels.sums.T).reshape(len(exact), -1)
    scale = np.asarray(stage.noise_scale)
    drawn = rng.laplace(size=sums.shape) if stage.noise == "laplace" else rng.normal(size=sums.shape)
    return plan.least_squares.cells(sums + drawn * scale, n)


def measures(cell: Cell, curves: Curves, cell_noise: Floats, known: Curve) -> dict[str, float]:
    """Return coverages and median widths of everything that is reported of a curve."""
    edges, discrete = edges_of(cell), cell.law == "discrete"
    truth = known(edges[1:])
    pointwise, band = critical_values(curves, cell_noise, LEVEL)
    low, high = limits(curves, pointwise)
    expected = curves.all_events.mean(axis=0).cumsum() >= 5
    inside = ((low <= truth + 1e-12) & (truth <= high + 1e-12))[:, expected]
    band_low, band_high = monotone(*limits(curves, band))
    middle = float(brentq(lambda t: known(np.array([t]))[0] - 0.5, 1e-9, 100)) if not discrete else 12.0
    first, last = time_limits(curves, low, high, edges, 0.5, discrete)
    area = Area.compute(curves, edges, float(edges[-1]), discrete=discrete)
    grid = np.linspace(0, edges[-1], 200_001)
    mean = known(edges[:-1]).sum() if discrete else np.trapezoid(known(grid), dx=grid[1])
    half = 1.96 * np.sqrt(area.variance) + np.abs(area.grid)
    reached = area.reached
    return {
        "band": float(((band_low <= truth + 1e-12) & (truth <= band_high + 1e-12)).all(axis=1).mean()),
        "band width": float(np.median((band_high - band_low).mean(axis=1))),
        "point": float(inside.mean()) if inside.size else np.nan,
        "point width": float(np.median((high - low).mean(axis=1))),
        "median": float(((first <= middle) & (middle <= last)).mean()),
        "median width": float(np.median(np.where(np.isfinite(last), last, edges[-1]) - first)),
        "rmst": float((np.abs(area.estimate - mean) <= half)[reached].mean()) if reached.any() else np.nan,
        "rmst width": float(np.median(half[reached])) if reached.any() else np.nan,
        "usable": float(curves.n_usable.mean() / cell.m),
    }


def run(cell: Cell, replications: int, seed: int) -> tuple[dict[str, float], dict[str, float], float]:
    """Return the measures of private and of exact tables of one cell, and the share of censored rows."""
    rng = np.random.default_rng(seed)
    K = len(cell.shares)
    groups = None if K == 1 else list(range(K))
    model = PrivateSurvival(edges=edges_of(cell), groups=groups, epsilon=cell.epsilon, delta=cell.delta)
    plan = model.plan(cell.n)
    each, to_cells, censored = probabilities(cell)
    weights = np.concatenate([share * each for share in cell.shares])
    drawn = rng.multinomial(cell.n, weights / weights.sum(), size=replications)
    exact = drawn.reshape(replications, K, -1) @ to_cells
    private = released_cells(plan, exact, cell.n, rng)[:, 0]
    noise = plan.cell_noise[:DRAWS]
    nothing = np.zeros_like(plan.least_squares.own)
    found = measures(cell, plan.curves(private), noise, LAWS[cell.law])
    plain = measures(cell, Curves(exact[:, 0], cell.m, 1, nothing), np.zeros_like(noise), LAWS[cell.law])
    return found, plain, censored


# Peers


def peers(replications: int, seed: int) -> list[tuple[str, float, float]]:
    """Return root mean squared errors over those of exact tables, and the coverage of naive intervals."""
    cell = Cell("exponential", 5000, 1.0, 50)
    rng = np.random.default_rng(seed)
    each, to_cells, _ = probabilities(cell)
    exact = rng.multinomial(cell.n, each, size=replications) @ to_cells
    n, m, truth = cell.n, cell.m, LAWS[cell.law](edges_of(cell)[1:])
    events, left = exact[:, :m], exact[:, m + 1 :]
    at_risk = Curves(exact, m, 1, np.zeros((2 * m + 1, 2 * m + 1))).at_risk

    def laplace(scale: float) -> Floats:
        return rng.laplace(scale=scale, size=events.shape)

    def from_counts(d: Floats, c: Floats) -> tuple[Floats, Floats]:
        before = np.hstack([np.zeros((replications, 1)), (d + c).cumsum(axis=1)[:, :-1]])
        return d, np.maximum(n - before, 1.0)

    noisy = [np.maximum(np.rint(x + laplace(2 / cell.epsilon)), 0) for x in (events, left)]
    found = {
        "exact table": (events, at_risk),
        "Gondara and Wang: noisy counts, cut at 0": from_counts(*noisy),
        "binary trees of events and of censored rows": from_counts(
            *(tree(x, 2 * (np.ceil(np.log2(m)) + 1) / cell.epsilon, rng) for x in (events, left))
        ),
        "noisy counts as they are": from_counts(*(x + laplace(2 / cell.epsilon) for x in (events, left))),
        "events and numbers at risk directly": (
            events + laplace((m + 1) / cell.epsilon),
            np.maximum(at_risk + laplace((m + 1) / cell.epsilon), 1.0),
        ),
    }
    rows, base = [], 0.0
    for name, (d, size) in found.items():
        hazard = np.clip(d / size, 0, 1) if "as they are" not in name else d / size
        curve = np.cumprod(1 - hazard, axis=1)
        bounded = np.clip(hazard, 0, 0.999)
        greenwood = np.maximum(np.cumsum(bounded / (size * (1 - bounded)), axis=1), 0)
        inside = np.abs(curve - truth) <= 1.96 * np.clip(curve, 0, 1) * np.sqrt(greenwood)
        error = np.sqrt(((curve - truth) ** 2).mean(axis=0)).mean()
        base = base or error
        rows.append((name, error / base, float(inside.mean())))
    plan = PrivateSurvival(edges=edges_of(cell), epsilon=cell.epsilon).plan(n)
    curves = plan.curves(released_cells(plan, exact[:, None], n, rng)[:, 0])
    error = np.sqrt(((curves.survival - truth) ** 2).mean(axis=0)).mean()
    low, high = limits(curves, critical_values(curves, plan.cell_noise[:DRAWS], LEVEL)[0])
    rows.append(("PrivateSurvival", error / base, float(((low <= truth) & (truth <= high)).mean())))
    return rows[1:]


def tree(x: Floats, scale: float, rng: np.random.Generator) -> Floats:
    """Return counts by Hay's least squares of a noisy binary tree."""
    depth = int(np.ceil(np.log2(x.shape[1])))
    leaves = np.zeros((len(x), 1 << depth))
    leaves[:, : x.shape[1]] = x
    levels = [leaves]
    while levels[-1].shape[1] > 1:
        levels.append(levels[-1].reshape(len(x), -1, 2).sum(axis=2))
    noisy = [level + rng.laplace(scale=scale, size=level.shape) for level in levels]
    up = [noisy[0]]
    for i in range(1, len(noisy)):
        weight = (2.0 ** (i + 1) - 2.0**i) / (2.0 ** (i + 1) - 1)
        up.append(weight * noisy[i] + (1 - weight) * up[-1].reshape(len(x), -1, 2).sum(axis=2))
    found = up[-1]
    for i in range(len(up) - 2, -1, -1):
        pairs = up[i].reshape(len(x), -1, 2)
        found = (pairs + ((found - pairs.sum(axis=2)) / 2)[..., None]).reshape(len(x), -1)
    return found[:, : x.shape[1]]


# Log-rank tests


def rejected(
    n: int,
    shares: Sequence[float],
    hazards: Sequence[float],
    censoring: Sequence[float],
    datasets: int,
    seed: int,
    **options: Any,
) -> tuple[float, float, float]:
    """Return how often the test in two stages, that of a table and the exact one reject."""
    rng = np.random.default_rng(seed)
    K = len(shares)
    test: LogRankPlan = LogRankTest(groups=range(K), horizon=HORIZON, **options).plan(n)
    given = {name: value for name, value in options.items() if name in ("epsilon", "delta")}
    weights = options.get("rho", 0.0), options.get("gamma", 0.0)
    table = PrivateSurvival(groups=range(K), horizon=HORIZON, bins=10, **given).plan(n)
    fine = PrivateSurvival(groups=range(K), horizon=HORIZON, bins=100, **given).plan(n)
    silent = fine.least_squares
    silent = LeastSquares(silent.solution, 1e-12 * silent.own, 0 * silent.shared, silent.to_total, K)
    names = (TABLE, RESIDUALS)
    stages = [test.stage(name) for name in names]
    found = np.empty((datasets, 3))

    def noisy(stage: Any, steps: Floats) -> Floats:
        drawn = rng.laplace(size=steps.size) if stage.noise == "laplace" else rng.normal(size=steps.size)
        return steps * np.asarray(stage.spacing) + drawn * np.asarray(stage.noise_scale)

    for i in range(datasets):
        group = rng.choice(K, p=shares, size=n)
        times = rng.exponential(1 / np.array(hazards)[group])
        left = rng.exponential(1 / np.array(censoring)[group])
        rows = np.minimum(times, left), (times <= left).astype(np.int64), group
        counts = test.levels.steps(test.cells.count(*rows))
        reference = test.reference(noisy(stages[0], counts))
        sums = noisy(stages[1], test.residuals(reference).sums(*rows)[0])
        own = outcome(test, reference, sums).pvalue[0]
        cells = table.least_squares.cells(
            noisy(table.table_stage, table.levels.steps(table.cells.count(*rows))), n
        )
        of_table = table_log_rank(Reference(cells[None], table.least_squares, *weights))[2][0]
        exact = fine.cells.count(*rows)[None] / 2.0**fine.cells.bits
        found[i] = own, of_table, table_log_rank(Reference(exact, silent, *weights))[2][0]
    own, of_table, plain = (found <= 0.05).mean(axis=0)
    return float(own), float(of_table), float(plain)


LEVELS: list[tuple[int, tuple[float, ...], tuple[float, ...], dict[str, Any]]] = [
    *[
        (n, shares, censoring, {"epsilon": epsilon})
        for n, epsilon in ((200, 0.2), (200, 1.0), (2000, 1.0))
        for shares in ((0.5, 0.5), (0.2, 0.8), (0.05, 0.95))
        for censoring in ((0.3, 0.3), (0.05, 2.0))
    ],
    (2000, (0.5, 0.5), (0.05, 2.0), {"gamma": 1.0}),
    (2000, (0.5, 0.5), (0.05, 2.0), {"rho": 1.0}),
    (500, (0.9, 0.1), (0.05, 2.0), {"epsilon": 0.5}),
    (2000, (0.5, 0.5), (0.05, 2.0), {"delta": 1e-6}),
    (500, (1 / 3, 1 / 3, 1 / 3), (0.1, 0.5, 1.5), {}),
    (2000, (1 / 3, 1 / 3, 1 / 3), (0.1, 0.5, 1.5), {}),
    (2000, (0.05, 0.15, 0.3, 0.5), (0.3, 0.3, 0.3, 1.0), {}),
    (500, (1 / 3, 1 / 3, 1 / 3), (0.1, 0.5, 1.5), {"delta": 1e-6}),
]
POWERS = [((0.5, 0.5), 1.175), ((0.2, 0.8), 1.22), ((0.05, 0.95), 1.5)]


def study_cells() -> list[Cell]:
    """Return the rows of the study."""
    found = [
        Cell("exponential", n, epsilon, m)
        for n in (200, 1000, 5000, 50_000)
        for epsilon in (0.2, 1.0)
        for m in (10, 20, 50)
    ]
    for n in (1000, 5000):
        found += [Cell(law, n, 1.0, 20) for law in ("Weibull(0.5)", "Weibull(3)", "lognormal")]
        found.append(Cell("discrete", n, 1.0, 24, 0.2))
        found += [Cell("exponential", n, 1.0, 20, share) for share in (0.1, 0.6, 0.8)]
        found += [Cell("exponential", n, 1.0, 20, 0.1, atom) for atom in (0.5, 0.525)]
    found += [Cell(law, 5000, 1.0, m) for law in ("Weibull(0.5)", "Weibull(3)") for m in (10, 50)]
    found += [Cell("exponential", 5000, 1.0, m, 0.3, None, (0.05, 0.95)) for m in (10, 20)]
    found += [Cell("exponential", 5000, 1.0, 20, 0.3, None, (0.5, 0.5))]
    found += [Cell("exponential", n, 1.0, m, delta=1e-6) for n, m in ((1000, 20), (5000, 50))]
    return found


def as_markdown(replications: int, tests: int, seed: int, command: str) -> str:
    """Run everything, and return the page."""
    results = [(cell, *run(cell, replications, seed)) for cell in study_cells()]
    bands = [(found["band"], plain["band"]) for _, found, plain, _ in results]
    points = [found["point"] for _, found, _, _ in results if np.isfinite(found["point"])]
    error = np.sqrt(0.05 * 0.95 / replications)
    lines = [
        "# Private survival",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, numpy {np.__version__}; simulated noise; "
        f"{replications} datasets a cell, {DRAWS} draws of errors a dataset; intervals of 95%.",
        "",
        f"    {command}",
        "",
        f"## Curves (one standard error of a coverage: {error:.3f})",
        "",
        f"Bands cover {np.mean([own for own, _ in bands]):.3f} on average, from {min(own for own, _ in bands):.3f} to "
        f"{max(own for own, _ in bands):.3f}; at worst {max(plain - own for own, plain in bands):.3f} less than the "
        f"bands of exact tables (in brackets). Pointwise intervals, averaged over edges with five expected events, "
        f"cover from {min(points):.3f} to {max(points):.3f}. Widths are those of private intervals over those of exact "
        "tables. Restricted means are counted where the curve is usable to the horizon.",
        "",
        "| data | n | epsilon | bins | band | pointwise | median | restricted mean | usable | widths of these |",
        "|---" * 10 + "|",
    ]
    for cell, found, plain, _ in results:
        both = [f"{found[name]:.3f} ({plain[name]:.3f})" for name in ("band", "point", "median", "rmst")]
        widths = [
            f"{found[f'{name} width'] / plain[f'{name} width']:.2f}"
            for name in ("band", "point", "median", "rmst")
        ]
        delta = f", delta {cell.delta:g}" if cell.delta else ""
        lines.append(
            f"| {cell.words} | {cell.n} | {cell.epsilon:g}{delta} | {cell.m} | {' | '.join(both)} | "
            f"{found['usable']:.2f} | {' '.join(widths)} |"
        )
    lines += [
        "",
        "## Peers (exponential, 30% censored, n = 5000, epsilon = 1, 50 bins)",
        "",
        "The root mean squared error, averaged over the edges, over that of the exact table. The coverage is that of "
        "Greenwood's intervals from the peer's own numbers, and of our pointwise intervals.",
        "",
        "| release | error | coverage |",
        "|---|---|---|",
    ]
    lines += [f"| {name} | {error:.2f} | {inside:.3f} |" for name, error, inside in peers(replications, seed)]
    levels = [
        (*given, *rejected(given[0], given[1], [1.0] * len(given[1]), given[2], tests, seed, **given[3]))
        for given in LEVELS
    ]
    lines += [
        "",
        f"## Log-rank tests: level of tests at .05 (one standard error: {np.sqrt(0.05 * 0.95 / tests):.4f})",
        "",
        f"{tests} datasets a cell. In two stages: from {min(row[4] for row in levels):.3f} to "
        f"{max(row[4] for row in levels):.3f}. From a table of ten bins: from {min(row[5] for row in levels):.3f} to "
        f"{max(row[5] for row in levels):.3f}.",
        "",
        "| n | shares of the groups | rates of censoring | options | two stages | table | exact |",
        "|---" * 7 + "|",
    ]
    for n, shares, censoring, options, own, of_table, plain in levels:
        words = ", ".join(f"{name} {value:g}" for name, value in options.items()) or "epsilon 1"
        lists = " ".join(f"{share:.2g}" for share in shares), " ".join(f"{rate:g}" for rate in censoring)
        lines.append(
            f"| {n} | {lists[0]} | {lists[1]} | {words} | {own:.3f} | {of_table:.3f} | {plain:.3f} |"
        )
    lines += [
        "",
        "## Log-rank tests: power (n = 2000, epsilon = 1, rate of censoring 0.3)",
        "",
        "| shares of the groups | hazard ratio | two stages | table | exact | `power` |",
        "|---" * 6 + "|",
    ]
    for shares, ratio in POWERS:
        own, of_table, plain = rejected(2000, shares, (1.0, ratio), (0.3, 0.3), tests // 2, seed)
        stated = LogRankTest(groups=[0, 1], horizon=HORIZON).power(
            2000,
            ratio,
            survival=float(np.exp(-HORIZON)),
            censored=1 - float(np.exp(-0.3 * HORIZON)),
            share=shares[0],
        )
        lines.append(
            f"| {shares[0]:g} {shares[1]:g} | {ratio:g} | {own:.3f} | {of_table:.3f} | {plain:.3f} | {stated:.3f} |"
        )
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=500)
    parser.add_argument("--tests", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    asked = f"--replications {options.replications} --tests {options.tests} --seed {options.seed}"
    command = f"python validation/studies/survival.py {asked}"
    text = as_markdown(options.replications, options.tests, options.seed, command)
    print(text)
    if not options.no_write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
