"""Private survival: coverage and width of bands, intervals, medians and restricted means; log-rank levels; peers.

Datasets are drawn as counts of events by bin and of censored rows on a fine grid, by their exact probabilities, so that
a cell costs the same for every number of rows. Times of log-rank tests are drawn row by row, and reduced to sums.

    python validation/studies/survival.py
    python validation/studies/survival.py --replications 100 --tests 400 --no-write
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm
from study_page import write_page

import dpstats
from dpstats.survival import LogRankTest, PrivateSurvival
from dpstats.survival.cells import TABLE, LeastSquares, Levels
from dpstats.survival.curves import (
    BAND_FACTOR,
    Curves,
    Pair,
    PlacedCurves,
    critical_values,
    limits,
    monotone,
    normal_critical,
    shaped_time_limits,
    time_limits,
)
from dpstats.survival.hazard_ratios import Reference
from dpstats.survival.log_rank import RESIDUALS, LogRankPlan, outcome
from dpstats.survival.table import Area, SurvivalTable, table_log_rank
from dpstats.survival.table_plan import TablePlan

RESULTS = Path(__file__).resolve().parents[1] / "results" / "survival.md"
HORIZON, FINE, DRAWS, LEVEL = 1.2, 20, 2000, 0.95
TOGETHER = 500  # datasets of a log-rank test
Floats = NDArray[np.float64]
Curve = Callable[[Floats], Floats]

LAWS: dict[str, Curve] = {
    "exponential": lambda t: np.exp(-t),
    "Weibull(0.5)": lambda t: np.exp(-np.sqrt(t)),
    "Weibull(3)": lambda t: np.exp(-(t**3)),
    "lognormal": lambda t: norm.sf(np.log(np.maximum(t, 1e-300))),
    "slow": lambda t: np.exp(-0.8 * t),
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
    """Return the probabilities of the classes of a row, what each class adds, and the censored share.

    Columns are the cells, then the positions of events and of censored rows in each bin.
    """
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
    inside = (position - edges[bins]) / np.diff(edges)[bins]
    if cell.atom is not None:
        # Those of the atom are at its time, and not in the middle of a part.
        at = np.searchsorted(fine, cell.atom * edges[-1] - 1e-12) - 1
        position = np.where(np.arange(len(left)) == at, cell.atom * edges[-1], position)
    share = (position - edges[bins]) / np.diff(edges)[bins]
    classes_, k = np.arange(len(left)), len(left)
    added = np.zeros((2 * k + 1, 4 * m + 1))
    added[classes_, bins] = 1
    added[classes_, 2 * m + 1 + bins] = inside - 0.5
    added[k + classes_, m + bins] = 1 - share
    added[k + classes_, m + bins + 1] += share
    added[k + classes_, 3 * m + 1 + bins] = share * (1 - share)
    added[-1, 2 * m] = 1
    found = np.concatenate([events, left, beyond])
    return found / found.sum(), added, float(left.sum())


def released_tables(plan: TablePlan, exact: Floats, rng: np.random.Generator) -> tuple[Floats, Floats | None]:
    """Return cells and positions of releases of exact sums (datasets, groups, cells and positions)."""
    size = plan.cells.size
    positions = exact[..., size:] if plan.cells.position_share else None
    released = with_noise(exact[..., :size], plan.levels, plan.table_stage, rng, positions)
    return plan.estimate_cells(released)


def list_tables(plan: TablePlan, exact: Floats, rng: np.random.Generator) -> list[SurvivalTable]:
    """Return the tables of releases of exact sums."""
    cells, positions = released_tables(plan, exact, rng)
    return [SurvivalTable(plan, each, None if positions is None else positions[i]) for i, each in enumerate(cells)]


def median_limits(curves: Curves, low: Floats, high: Floats, edges: Floats, discrete: bool) -> Pair:
    """Return limits of the median of each release."""
    if not isinstance(curves, PlacedCurves):
        return time_limits(curves, low, high, edges, 0.5, discrete)
    ends = []
    for i in range(len(low)):
        one = replace(curves, cells=curves.cells[i : i + 1], positions=curves.positions[i : i + 1])
        ends.append(shaped_time_limits(one, low[i], high[i], edges, 0.5, LEVEL))
    first, last = np.array(ends).T
    return first, last


def measures(cell: Cell, curves: Curves, cell_noise: Floats, known: Curve) -> dict[str, float]:
    """Return coverages and median widths of everything that is reported of a curve."""
    edges, discrete = edges_of(cell), cell.law == "discrete"
    truth = known(edges[1:])
    pointwise, band = critical_values(curves, cell_noise, LEVEL)
    if not curves.noise.any():
        band = band / BAND_FACTOR  # which is for private bands
    low, high = limits(curves, pointwise)
    expected = curves.all_events.mean(axis=0).cumsum() >= 5
    inside = ((low <= truth + 1e-12) & (truth <= high + 1e-12))[:, expected]
    band_low, band_high = monotone(*limits(curves, band))
    middle = float(brentq(lambda t: known(np.array([t]))[0] - 0.5, 1e-9, 100)) if not discrete else 12.0
    first, last = median_limits(curves, low, high, edges, discrete)
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
    edges, discrete = edges_of(cell)[1:], cell.law == "discrete"
    model = PrivateSurvival(
        edges=edges, groups=groups, unknown="error", discrete=discrete, epsilon=cell.epsilon, delta=cell.delta
    )
    plan = model.plan(cell.n)
    each, added, censored = probabilities(cell)
    weights = np.concatenate([share * each for share in cell.shares])
    drawn = rng.multinomial(cell.n, weights / weights.sum(), size=replications)
    exact = drawn.reshape(replications, K, -1) @ added
    private, positions = released_tables(plan, exact, rng)
    curves = plan.curves(private[:, 0], None if positions is None else positions[:, 0])
    noise = plan.cell_noise[:DRAWS]
    nothing = np.zeros_like(plan.least_squares.own)
    found = measures(cell, curves, noise, LAWS[cell.law])
    counts = exact[:, 0, : plan.cells.size]
    plain = measures(cell, Curves(counts, cell.m, 1, nothing), np.zeros((DRAWS, counts.shape[1])), LAWS[cell.law])
    return found, plain, censored


# Groups, causes, and whole fits


def compared(
    n: int, epsilon: float, m: int, shares: tuple[float, float], replications: int, seed: int
) -> dict[str, float]:
    """Return the coverage of differences of two groups, of exponential times with rates 1 and 0.8."""
    rng = np.random.default_rng(seed)
    edges = np.linspace(0, HORIZON, m + 1)
    plan = PrivateSurvival(edges=edges, groups=[0, 1], unknown="error", epsilon=epsilon).plan(n)
    each, added, _ = probabilities(Cell("exponential", n, epsilon, m))
    slow, _, _ = probabilities(Cell("slow", n, epsilon, m))
    drawn = rng.multinomial(n, np.concatenate([shares[0] * each, shares[1] * slow]), size=replications)
    tables = list_tables(plan, drawn.reshape(replications, 2, -1) @ added, rng)
    means = [(1 - np.exp(-rate * HORIZON)) / rate for rate in (1.0, 0.8)]
    half = m // 2
    alive = [np.exp(-rate * edges[half]) for rate in (1.0, 0.8)]
    of_means = np.array([table.area_difference_limits(0, 1, HORIZON, LEVEL) for table in tables])
    of_curves = np.array([table.difference_limits(0, 1, half, normal_critical(LEVEL)) for table in tables])
    return {
        "restricted means": inside(of_means, means[0] - means[1]),
        "survival": inside(of_curves, alive[0] - alive[1]),
    }


def competing(n: int, epsilon: float, m: int, share: float, replications: int, seed: int) -> dict[str, float]:
    """Return the coverage of cumulative incidences at edges with five expected events, of two causes."""
    rng = np.random.default_rng(seed)
    edges = np.linspace(0, HORIZON, m + 1)
    plan = PrivateSurvival(edges=edges, causes=[1, 2], epsilon=epsilon).plan(n)
    each, added, _ = probabilities(Cell("exponential", n, epsilon, m))
    exact = rng.multinomial(n, each, size=replications) @ added
    first = rng.binomial(exact[:, :m].astype(np.int64), share)
    exact = np.hstack([first, exact[:, :m] - first, exact[:, m:]])[:, None]
    tables = list_tables(plan, exact, rng)
    by_bin = each @ added[:, :m]
    found = {}
    for cause, part in enumerate((share, 1 - share)):
        enough = n * part * by_bin.cumsum() >= 5
        limits_ = np.array([np.stack(table.incidence(0, cause, LEVEL)[1:])[:, 1:] for table in tables])
        truth = part * (1 - np.exp(-edges[1:]))
        found[f"{part:g}"] = inside(limits_[:, :, enough].swapaxes(1, 2), truth[enough])
    return found


def inside(pairs: Floats, truth: Any) -> float:
    """Return the share of intervals (..., 2) that contain the truth."""
    return float(((pairs[..., 0] <= truth + 1e-12) & (truth <= pairs[..., 1] + 1e-12)).mean())


def fitted(n: int, epsilon: float, m: int, fits: int, seed: int) -> dict[str, float]:
    """Return the coverage of whole fits: rows, exact integers, the public methods."""
    rng = np.random.default_rng(seed)
    hits: dict[str, list[float]] = {"band": [], "point": [], "median": [], "rmst": []}
    truth = np.exp(-np.linspace(0, HORIZON, m + 1))
    for i in range(fits):
        times, left = rng.exponential(size=n), rng.exponential(2.0, size=n)
        model = PrivateSurvival(horizon=HORIZON, bins=m, epsilon=epsilon, random_state=seed + i)
        model.fit(np.minimum(times, left), times <= left)
        pairs = {
            "band": (model.band(), truth),
            "point": (model.confidence_interval(), truth[1:]),
            "median": (model.median().confidence_interval(), np.log(2)),
            "rmst": (model.rmst().confidence_interval(), 1 - np.exp(-HORIZON)),
        }
        for name, ((low, high), known) in pairs.items():
            held = (low <= known + 1e-12) & (known <= high + 1e-12)
            hits[name].append(float(np.all(held) if name == "band" else np.mean(held)))
    return {name: float(np.mean(values)) for name, values in hits.items()}


# Peers


def peers(replications: int, seed: int) -> list[tuple[str, float, float]]:
    """Return root mean squared errors over those of exact tables, and the coverage of naive intervals."""
    cell = Cell("exponential", 5000, 1.0, 50)
    rng = np.random.default_rng(seed)
    each, added, _ = probabilities(cell)
    exact = rng.multinomial(cell.n, each, size=replications) @ added
    n, m, truth = cell.n, cell.m, LAWS[cell.law](edges_of(cell)[1:])
    events, left = exact[:, :m], exact[:, m + 1 : 2 * m + 1]
    at_risk = Curves(exact[:, : 2 * m + 1], m, 1, np.zeros((2 * m + 1, 2 * m + 1))).at_risk

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
    private, positions = released_tables(plan, exact[:, None], rng)
    curves = plan.curves(private[:, 0], None if positions is None else positions[:, 0])
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


@dataclass(frozen=True, eq=False)
class Drawn:
    """What tests see of drawn rows: sums by dataset, group and bin.

    Attributes
    ----------
    events, rows, positions : arrays of shape (datasets, groups, bins)
        Events, rows that end in the bin, and the sum of their shares of it: 1 for an event.
    left : array of shape (datasets, groups, bins + 1)
        Censored rows, shared between the edges.
    offsets, squares : arrays of shape (datasets, groups, bins)
        Sums of u - 1/2 of events, and of v (1 - v) of censored rows.
    """

    events: Floats
    rows: Floats
    positions: Floats
    left: Floats
    offsets: Floats
    squares: Floats

    @classmethod
    def of_rows(cls, times: Floats, events: Floats, group: NDArray[np.intp], K: int, bins: int) -> Drawn:
        """Return the sums of rows (datasets, n), of equal bins up to the horizon."""
        datasets, beyond = len(times), times > HORIZON
        scaled = np.minimum(times, HORIZON) / HORIZON * bins
        place = np.minimum(scaled.astype(np.intp), bins - 1)
        position = scaled - place
        cell = (np.arange(datasets)[:, None] * K + group) * bins + place
        gone = ~(events & ~beyond)

        def total(weights: Floats) -> Floats:
            found = np.bincount(cell.ravel(), weights=weights.ravel(), minlength=datasets * K * bins)
            return found.reshape(datasets, K, bins)

        left = np.zeros((datasets, K, bins + 1))
        left[..., :-1] += total(gone * (1 - position))
        left[..., 1:] += total(gone * position)
        return cls(
            total(~gone * 1.0),
            total(np.ones_like(scaled)),
            total(np.where(gone, position, 1.0)),
            left,
            total(~gone * (position - 0.5)),
            total(gone * ~beyond * position * (1 - position)),
        )

    @property
    def cells(self) -> Floats:
        return np.concatenate([self.events, self.left], axis=2)

    @property
    def placed(self) -> Floats:
        return np.stack([self.offsets, self.squares], axis=2)

    def residual_sums(self, reference: Reference) -> Floats:
        """Return the sums of the second stage, before their noise, in the units of the residuals."""
        weights, heights = reference.weights[:, None], reference.heights[:, None]
        passed = self.positions
        if reference.shapes is not None:
            passed = passed - reference.shapes.lost[:, None] * self.squares
        expected = heights[..., :-1] * self.rows + np.diff(heights) * passed
        sums = (weights * self.events - expected).sum(axis=2)
        if sums.shape[1] > 2:
            return sums
        share = reference.mean_shares[:, :1]
        return (1 - share) * sums[:, :1] - share * sums[:, 1:]


def rejected(
    n: int,
    shares: Sequence[float],
    hazards: Sequence[float],
    censoring: Sequence[float],
    datasets: int,
    seed: int,
    **options: Any,
) -> tuple[float, float, float]:
    """Return how often the test in two stages, that of a table and the exact one reject.

    Rows are drawn one by one. Residuals are quadratic within a bin, so that sums by bin have all that tests need.
    """
    rng = np.random.default_rng(seed)
    K = len(shares)
    options = {"unknown": "error", **options}
    test: LogRankPlan = LogRankTest(groups=range(K), horizon=HORIZON, **options).plan(n)
    given = {name: value for name, value in options.items() if name in ("epsilon", "delta", "unknown")}
    weights = options.get("rho", 0.0), options.get("gamma", 0.0)
    table = PrivateSurvival(groups=range(K), horizon=HORIZON, bins=10, **given).plan(n)
    fine = PrivateSurvival(groups=range(K), horizon=HORIZON, bins=100, **given).plan(n)
    silent = fine.least_squares
    silent = LeastSquares(silent.solution, 1e-12 * silent.own, 0 * silent.shared, silent.to_total, K)
    found = []
    for start in range(0, datasets, TOGETHER):
        shape = min(TOGETHER, datasets - start), n
        group = rng.choice(K, p=shares, size=shape)
        times = rng.exponential(size=shape) / np.array(hazards)[group]
        left = rng.exponential(size=shape) / np.array(censoring)[group]
        rows = np.minimum(times, left), times <= left, group, K
        drawn = Drawn.of_rows(*rows, 10)
        pooled = drawn.placed.sum(axis=1) if test.cells.position_share else None
        reference = test.reference(with_noise(drawn.cells, test.levels, test.stage(TABLE), rng, pooled))
        sums = drawn.residual_sums(reference) / test.residuals(reference).divisor[:, None]
        own = outcome(test, reference, sums + noise_of(test.stage(RESIDUALS), sums.shape, rng)).pvalue
        placed = drawn.placed if table.cells.position_share else None
        cells, positions = table.estimate_cells(with_noise(drawn.cells, table.levels, table.table_stage, rng, placed))
        noisy = Reference(cells, table.least_squares, *weights, positions, table.position_std)
        exact = Reference(Drawn.of_rows(*rows, 100).cells, silent, *weights)
        found.append([own, table_log_rank(noisy)[2], table_log_rank(exact)[2]])
    own, of_table, plain = (np.hstack(found) <= 0.05).mean(axis=1)
    return float(own), float(of_table), float(plain)


def with_noise(
    cells: Floats, levels: Levels, stage: Any, rng: np.random.Generator, positions: Floats | None = None
) -> Floats:
    """Return the released sums of cells (datasets, groups, cells), and of positions where they are released."""
    sums = (cells @ levels.sums.T).reshape(len(cells), -1)
    if positions is not None:
        sums = np.hstack([sums, positions.reshape(len(cells), -1)])
    return sums + noise_of(stage, sums.shape, rng)


def noise_of(stage: Any, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    drawn = rng.laplace(size=shape) if stage.noise == "laplace" else rng.normal(size=shape)
    return np.asarray(drawn * np.asarray(stage.noise_scale))


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
COMPARED = [
    (1000, 1.0, 10, (0.5, 0.5)),
    (5000, 1.0, 20, (0.5, 0.5)),
    (5000, 1.0, 20, (0.2, 0.8)),
    (5000, 0.2, 10, (0.5, 0.5)),
    (5000, 1.0, 10, (0.05, 0.95)),
]
FITS = 300
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
        f"bands of exact tables (in brackets), which have no factor on the critical value. Pointwise intervals, "
        f"averaged over edges with five expected events, "
        f"cover {np.mean(points):.3f} on average, from {min(points):.3f} to {max(points):.3f}. Widths are those of "
        "private intervals over those of exact tables. Restricted means are counted where the curve is usable to the "
        "horizon. Where few rows are at risk there, few releases reach it, and the output warns that intervals may "
        "cover less.",
        "",
        "| data | n | epsilon | bins | band | pointwise | median | restricted mean | usable | widths of these |",
        "|---" * 10 + "|",
    ]
    for cell, found, plain, _ in results:
        both = [f"{found[name]:.3f} ({plain[name]:.3f})" for name in ("band", "point", "median", "rmst")]
        widths = [
            f"{found[f'{name} width'] / plain[f'{name} width']:.2f}" for name in ("band", "point", "median", "rmst")
        ]
        delta = f", delta {cell.delta:g}" if cell.delta else ""
        lines.append(
            f"| {cell.words} | {cell.n} | {cell.epsilon:g}{delta} | {cell.m} | {' | '.join(both)} | "
            f"{found['usable']:.2f} | {' '.join(widths)} |"
        )
    lines += [
        "",
        "## Differences of two groups, and competing causes",
        "",
        "Exponential times, 30% censored. Differences of groups with hazards 1 and 0.8: of restricted means up to the "
        "horizon, and of the survival at its half. Cumulative incidences of a cause with 70% and one with 30% of the "
        "events, averaged over edges with five expected events.",
        "",
        "| n | epsilon | bins | shares | restricted means | survival | incidence, 70% | incidence, 30% |",
        "|---" * 8 + "|",
    ]
    for n, epsilon, m, shares in COMPARED:
        both = compared(n, epsilon, m, shares, replications, seed)
        incidences = competing(n, epsilon, m, 0.7, replications, seed)
        numbers = " | ".join(f"{value:.3f}" for value in (*both.values(), *incidences.values()))
        lines.append(f"| {n} | {epsilon:g} | {m} | {shares[0]:g} {shares[1]:g} | {numbers} |")
    lines += [
        "",
        f"## Whole fits (exponential, rate of censoring 0.5; {FITS} fits a row)",
        "",
        "From rows, by the public methods.",
        "",
        "| n | epsilon | bins | band | pointwise | median | restricted mean |",
        "|---" * 7 + "|",
    ]
    for n, epsilon, m in ((1000, 1.0, 10), (5000, 1.0, 20)):
        numbers = " | ".join(f"{value:.3f}" for value in fitted(n, epsilon, m, FITS, seed).values())
        lines.append(f"| {n} | {epsilon:g} | {m} | {numbers} |")
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
        lines.append(f"| {n} | {lists[0]} | {lists[1]} | {words} | {own:.3f} | {of_table:.3f} | {plain:.3f} |")
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
            2000, ratio, survival=float(np.exp(-HORIZON)), censored=1 - float(np.exp(-0.3 * HORIZON)), share=shares[0]
        )
        lines.append(
            f"| {shares[0]:g} {shares[1]:g} | {ratio:g} | {own:.3f} | {of_table:.3f} | {plain:.3f} | {stated:.3f} |"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    write_page(as_markdown, RESULTS, replications=1000, tests=8000, seed=2026)
