"""Survival by the shape of hazards, of censoring and the number of bins: curves, tests and hazard ratios.

Five curves times three kinds of censoring times 4, 12 and 30 bins. Hazard ratios are beside Cox's model on these rows.

    python validation/studies/survival_shapes.py
    python validation/studies/survival_shapes.py --curves 20 --tests 100 --ratios 20 --no-write
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from study_page import write_page
from survival_levels import Cell, Curve, Datasets, bathtub

import dpstats
from dpstats.survival import PrivateSurvival
from dpstats.survival.curves import PlacedCurves, critical_values, limits, monotone, shaped_time_limits, time_limits
from dpstats.survival.hazard_ratios import HazardRatio
from dpstats.survival.table import Area, table_log_rank

RESULTS = Path(__file__).resolve().parents[1] / "results" / "survival_shapes.md"
DRAWS, LEVEL, NORMAL = 1000, 0.95, 1.959964
LEAST, MOST = 0.93, 0.065
AGAIN = 5
"""Cells beyond these are drawn again, with so many times as many datasets and another seed."""
Floats = NDArray[np.float64]

CURVES: dict[str, Curve] = {
    "constant": lambda x: -np.log(0.5) * x,
    "Weibull(0.5)": lambda x: -np.log(0.5) * np.sqrt(x),
    "Weibull(2)": lambda x: -np.log(0.4) * x**2,
    "bathtub": bathtub,
    "late": lambda x: 1.2 * np.maximum(x - 0.4, 0),
}
"""Cumulative hazards up to the horizon, which is 1."""
CENSORING: dict[str, Curve] = {
    "steady": lambda x: np.exp(-2.03 * x),
    "uniform": lambda x: 1 - 0.52 * x,
    "visits": lambda x: np.exp(-0.2 * x) * 0.75 ** np.clip(np.floor((x - 0.004) * 4), 0, 3),
}
"""Proportions that have not left: half a year on average, up to two years, or a quarter just after each quarter."""
STEEP: dict[str, Curve] = {
    "bathtub": bathtub,
    "steep bathtub": lambda x: 0.5 * (1 - np.exp(-x / 0.03)) + 0.05 * x + 0.8 * np.maximum(x - 0.8, 0),
    "Weibull(0.5)": CURVES["Weibull(0.5)"],
    "Weibull(0.3)": lambda x: -np.log(0.5) * x**0.3,
    "peak": lambda x: 0.6 * (ndtr((x - 0.0875) / 0.02) - ndtr(-4.375)) + 0.6 * x,
}
HALVED: dict[str, Curve] = {
    "steady": CENSORING["steady"],
    "half at 0.1": lambda x: np.where(x > 0.1, 0.5, 1.0) * np.exp(-0.2 * x),
    "half early": lambda x: 0.5 + 0.5 * np.exp(-8 * x),
    "half at 0.02": lambda x: np.where(x > 0.02, 0.5, 1.0) * np.exp(-0.2 * x),
}
"""Hazards that fall fast inside the first of four bins or have a peak there, and half of the rows leave."""
OF_STEEP = ((1000, 1.0), (5000, 1.0), (20_000, 0.5), (20_000, 3.0))
FEW: dict[str, Curve] = {
    "3 events a horizon": lambda x: 3 * x,
    "half an event a horizon": lambda x: 0.5 * x,
    "bathtub": bathtub,
    "late": CURVES["late"],
}
LEAVING: dict[str, Curve] = {
    "heavy": lambda x: np.exp(-4 * x),
    "uniform to the horizon": lambda x: np.clip(1 - x / 1.02, 0, 1),
}
OF_FEW = ((50, 12), (200, 4), (200, 12), (1000, 12))
SIZES = ((1000, 1.0), (5000, 1.0), (20_000, 1.0))
BINS = (4, 12, 30)
MEASURES = ("first edge", "edges", "worst edge", "band", "restricted mean", "median")
TESTS = ("table", "`LogRankTest`")


def _light(x: Floats) -> Floats:
    return np.exp(-0.3 * x)


def curves_of(cell: Cell, datasets: int, seed: int) -> dict[str, float]:
    """Return coverages of what a table says of one group, and how often its summary names bins."""
    drawn = Datasets(cell, datasets, seed)
    edges = np.linspace(0, 1, cell.bins + 1)
    plan = PrivateSurvival(horizon=1.0, bins=cell.bins, epsilon=cell.epsilon).plan(cell.n)
    cells, positions = drawn.released(plan)
    curves = plan.curves(cells[:, 0], None if positions is None else positions[:, 0])
    pointwise, band = critical_values(curves, plan.cell_noise[:DRAWS], LEVEL)
    low, high = limits(curves, pointwise)
    truth = np.exp(-cell.hazard(edges[1:]))
    enough = curves.all_events.mean(axis=0).cumsum() >= 5
    held = (low <= truth + 1e-12) & (truth <= high + 1e-12)
    band_low, band_high = monotone(*limits(curves, band))
    area = Area.compute(curves, edges, 1.0, discrete=False)
    grid = np.linspace(0, 1, 200_001)
    mean = np.trapezoid(np.exp(-cell.hazard(grid)), dx=grid[1])
    half = NORMAL * np.sqrt(area.variance) + np.abs(area.grid)
    reached = area.reached
    found = {
        "first edge": float(held[:, 0].mean()) if enough[0] else np.nan,
        "edges": float(held[:, enough].mean()),
        "worst edge": float(held[:, enough].mean(axis=0).min()),
        "band": float(((band_low <= truth + 1e-12) & (truth <= band_high + 1e-12)).all(axis=1).mean()),
        "restricted mean": float((np.abs(area.estimate - mean) <= half)[reached].mean()),
        "median": np.nan,
        "warned": 0.0,
    }
    named = curves.shaped
    if isinstance(curves, PlacedCurves):
        named = named | (curves.usable & curves.shapes.crowded)
    found["warned"] = float(named.any(axis=1).mean())
    alive = np.exp(-cell.hazard(grid))
    if alive[-1] < 0.47:  # a median at the horizon is in no bin
        middle = grid[np.argmax(alive <= 0.5)]
        first, last = median_limits(curves, low, high, edges)
        found["median"] = float(((first <= middle) & (middle <= last)).mean())
    return found


def median_limits(curves: PlacedCurves, low: Floats, high: Floats, edges: Floats) -> tuple[Floats, Floats]:
    """Return limits of the median of each release."""
    if not isinstance(curves, PlacedCurves):
        return time_limits(curves, low, high, edges, 0.5, False)
    ends = []
    for i in range(len(low)):
        one = replace(curves, cells=curves.cells[i : i + 1], positions=curves.positions[i : i + 1])
        ends.append(shaped_time_limits(one, low[i], high[i], edges, 0.5, LEVEL))
    first, last = np.array(ends).T
    return first, last


def few_row(cell: Cell, datasets: int, seed: int) -> str:
    """Return coverages at the last usable edge and of the mean up to it, and of lifelines' limits at this edge."""
    drawn, m = Datasets(cell, datasets, seed), cell.bins
    edges, rows = np.linspace(0, 1, m + 1), np.arange(datasets)
    plan = PrivateSurvival(horizon=1.0, bins=m, epsilon=cell.epsilon).plan(cell.n)
    cells, positions = drawn.released(plan)
    curves = plan.curves(cells[:, 0], None if positions is None else positions[:, 0])
    low, high = limits(curves, np.array(NORMAL))
    last = np.maximum(curves.n_usable - 1, 0)
    truth = np.exp(-cell.hazard(edges[1:]))[last]
    held = [(low[rows, last] <= truth + 1e-6) & (truth <= high[rows, last] + 1e-6)]
    # Limits of lifelines are those of log(-log S), on the rows. Without an event they are 1.
    events, left = (each.reshape(datasets, -1) for each in (drawn.fine, drawn.left))
    at_risk = np.maximum((events + left)[:, ::-1].cumsum(axis=1)[:, ::-1] + drawn.beyond, 1.0)
    place = (last + 1) * drawn.fine.shape[-1] - 1
    alive = np.cumprod(1 - events / at_risk, axis=1)[rows, place]
    error = np.sqrt(np.cumsum(events / (at_risk * np.maximum(at_risk - events, 1.0)), axis=1)[rows, place])
    with np.errstate(all="ignore"):
        power = np.exp(NORMAL * error / np.abs(np.log(alive)))
    held.append(np.where(error > 0, (alive**power <= truth) & (truth <= alive ** (1 / power)), truth > 1 - 1e-6))
    inside = []
    for k in range(datasets):
        until = float(edges[last[k] + 1])
        one = replace(curves, cells=curves.cells[k : k + 1], positions=curves.positions[k : k + 1])
        area = Area.compute(one, edges, until, discrete=False)
        grid = np.linspace(0, until, 2001)
        mean = np.trapezoid(np.exp(-cell.hazard(grid)), dx=grid[1])
        inside.append(abs(float(area.estimate[0]) - mean) <= NORMAL * float(np.sqrt(area.variance[0])))
    rates = " | ".join(f"{np.mean(each):.3f}" for each in (held[0], held[1], inside))
    return f"{np.median(curves.at_risk[rows, last]):.0f} | {rates}"


def tests_of(cell: Cell, datasets: int, seed: int) -> dict[str, float]:
    """Return how often tests of equal arms reject, and how often their output warns of crowded bins."""
    drawn = Datasets(cell, datasets, seed)
    reference = drawn.references()[0]
    return {
        "table": float((table_log_rank(reference)[2] <= 0.05).mean()),
        "`LogRankTest`": float((drawn.two_stages() <= 0.05).mean()),
        "warned": float(reference.crowded.any(axis=1).mean()),
    }


# Hazard ratios beside Cox's model

RATIOS: list[tuple[int, float, int, float, float, str, tuple[float, float]]] = [
    (6500, 1.0, 12, 0.7, 0.5, "constant", (0.6, 0.9)),
    (6500, 1.0, 12, 0.7, 0.5, "Weibull(0.5)", (1.35, 2.0)),
    (6500, 1.0, 12, 0.7, 0.5, "late", (0.6, 0.9)),
    (6500, 1.0, 12, 0.7, 0.5, "Weibull(2)", (0.6, 0.9)),
    (6500, 1.0, 4, 0.5, 0.5, "Weibull(0.5)", (1.35, 2.0)),
    (6500, 1.0, 30, 0.7, 0.5, "constant", (0.6, 0.9)),
    (6500, 1.0, 12, 0.7, 0.2, "constant", (0.6, 0.9)),
    (2000, 1.0, 12, 0.7, 0.5, "constant", (0.6, 0.9)),
    (2000, 1.0, 12, 0.7, 0.5, "Weibull(0.5)", (0.6, 0.9)),
    (2000, 1.0, 8, 0.7, 0.5, "Weibull(2)", (0.6, 0.9)),
    (2000, 1.0, 12, 0.7, 0.8, "constant", (0.6, 0.9)),
    (2000, 1.0, 12, 0.7, 0.2, "constant", (0.6, 0.9)),
    (2000, 1.0, 8, 0.7, 0.2, "constant", (0.6, 0.9)),
    (2000, 1.0, 4, 0.7, 0.2, "constant", (0.6, 0.9)),
    (2000, 0.5, 8, 0.6, 0.5, "constant", (0.6, 0.9)),
    (6500, 0.5, 12, 0.7, 0.5, "constant", (0.6, 0.9)),
    (6500, 0.5, 12, 0.5, 0.2, "Weibull(0.5)", (0.6, 0.9)),
    (20_000, 0.5, 12, 0.8, 0.5, "constant", (0.6, 0.9)),
    (1000, 1.0, 8, 1.5, 0.1, "constant", (0.6, 0.9)),
]
"""Rows, epsilon, bins, ratio, share of the second arm, curve of the first arm, and rates of censoring of both."""


def cox(drawn: Datasets) -> Floats:
    """Return standard errors of log hazard ratios of two arms by Cox's model on the rows of each dataset."""
    datasets = len(drawn.fine)
    ends = (drawn.fine + drawn.left).reshape(datasets, 2, -1)
    events = drawn.fine.reshape(datasets, 2, -1)
    at_risk = ends[..., ::-1].cumsum(axis=2)[..., ::-1] + drawn.beyond[..., None]
    log_ratio = np.zeros(datasets)
    information = np.ones(datasets)
    for _ in range(12):
        second = np.exp(log_ratio)[:, None] * at_risk[:, 1]
        share = second / np.maximum(at_risk[:, 0] + second, 1e-9)
        total = events.sum(axis=1)
        information = (total * share * (1 - share)).sum(axis=1)
        log_ratio += (events[:, 1] - total * share).sum(axis=1) / information
    return np.asarray(1 / np.sqrt(information))


def least_error(cell: Cell) -> float:
    """Return the least standard error of a log hazard ratio by an estimate that is smooth in the noisy cells.

    To first order such an estimate is linear. If it is right for all hazards and all censoring, Gauss and Markov's
    theorem bounds its variance. Shapes inside the bins are taken as known, which can only lower the bound.
    """
    m, places = cell.bins, 24
    grid, u = np.linspace(0, 1, m * places + 1), (np.arange(places) + 0.5) / places
    hazards = np.diff(cell.hazard(grid)).reshape(m, places)
    left = np.stack([-np.diff(np.log(staying(grid))).reshape(m, places) for staying in cell.staying])
    # What a row adds to the cells of its group: events by place and bin, then those who leave, then the survivors.
    adds = np.zeros((2 * m * places + 1, 2 * m + 1))
    for j in range(m):
        rows = slice(j * places, (j + 1) * places)
        adds[rows, j] = 1.0
        rows = slice((m + j) * places, (m + j + 1) * places)
        adds[rows, m + j], adds[rows, m + j + 1] = 1 - u, u
    adds[-1, -1] = 1.0
    adds = np.kron(np.eye(2), adds)

    def probabilities(values: Floats) -> Floats:
        """Return those of each arm's places, at the log ratio, log factors of hazards and leavers, and a log odds."""
        ratio, of_hazards, of_leavers = values[0], values[1 : m + 1], values[m + 1 : -1].reshape(2, m)
        second = cell.shares[1] * np.exp(values[-1])
        share = second / (cell.shares[0] + second)
        found = []
        for arm, size in enumerate((1 - share, share)):
            events = (hazards * np.exp(of_hazards + arm * ratio)[:, None]).ravel()
            leavers = (left[arm] * np.exp(of_leavers[arm])[:, None]).ravel()
            both = events + leavers
            alive = np.exp(-np.cumsum(np.append(0.0, both)))
            gone = -np.diff(alive) / np.maximum(both, 1e-300)
            found.append(size * np.concatenate([gone * events, gone * leavers, alive[-1:]]))
        return np.concatenate(found)

    true = np.append(cell.log_ratio, np.zeros(3 * m + 1))
    steps = 1e-5 * np.eye(len(true))
    slopes = np.array([probabilities(true + step) - probabilities(true - step) for step in steps]) / 2e-5
    each = probabilities(true)
    plan = PrivateSurvival(groups=[0, 1], unknown="error", horizon=1.0, bins=m, epsilon=cell.epsilon).plan(cell.n)
    noise = plan.least_squares
    apart = np.kron([[0, 1], [1, 0]], np.outer(noise.shared, noise.shared))
    mean = each @ adds
    covariance = cell.n * ((adds.T * each) @ adds - np.outer(mean, mean)) + np.kron(np.eye(2), noise.own) - apart
    moved = cell.n * slopes @ adds
    information = moved @ np.linalg.pinv(covariance, rcond=1e-12, hermitian=True) @ moved.T
    return float(np.sqrt(np.linalg.pinv(information, rcond=1e-12, hermitian=True)[0, 0]))


def ratio_row(row: tuple[int, float, int, float, float, str, tuple[float, float]], datasets: int, seed: int) -> str:
    """Return a row of the table of hazard ratios."""
    n, epsilon, bins, ratio, share, curve, rates = row
    staying: list[Curve] = [lambda x, rate=rate: np.exp(-rate * x) for rate in rates]  # type: ignore[misc]
    shares = (1 - share, share)
    cell = Cell(curve, n, epsilon, bins, shares, CURVES[curve], staying, float(np.log(ratio)))
    drawn = Datasets(cell, datasets, seed, cell.log_ratio)
    pair = drawn.references()[1]
    ends = np.array([HazardRatio([pair(k)]).limits((1 - LEVEL) / 2) for k in range(datasets)])
    held = float(((ends[:, 0] <= cell.log_ratio) & (cell.log_ratio <= ends[:, 1])).mean())
    errors = cox(drawn)
    widths = (ends[:, 1] - ends[:, 0]) / (2 * NORMAL * errors)
    least = least_error(cell) / np.median(errors)
    return (
        f"| {n:,} | {epsilon:g} | {bins} | {ratio:g} | {share:g} | {curve} | {held:.3f} | "
        f"{np.median(widths):.2f} | {np.quantile(widths, 0.9):.2f} | {least:.2f} |"
    )


def as_markdown(curves: int, tests: int, ratios: int, seed: int, command: str) -> str:
    """Run everything, and return the page."""
    of_curves, of_tests = {}, {}
    cells: dict[tuple[int, int, str, str], tuple[Cell, Cell]] = {}
    for n, epsilon in SIZES:
        for bins in BINS:
            for shape, hazard in CURVES.items():
                for kind, staying in CENSORING.items():
                    key, own = (n, bins, shape, kind), seed + 1000 * len(of_curves)
                    one = Cell(shape, n, epsilon, bins, (1.0,), hazard, [staying])
                    two = Cell(shape, n, epsilon, bins, (0.5, 0.5), hazard, [staying, _light])
                    cells[key] = one, two
                    of_curves[key] = curves_of(one, curves, own)
                    of_tests[key] = tests_of(two, tests, own + 1)
    errors = [np.sqrt(0.05 * 0.95 / count) for count in (curves, tests, ratios)]
    lines = [
        "# Survival by shape of the hazard, censoring and bins",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, numpy {np.__version__}; simulated noise. "
        f"{curves} datasets a cell for curves, {tests} for tests, {ratios} for hazard ratios; one standard error of a "
        f"rate is {errors[0]:.3f}, {errors[1]:.3f} and {errors[2]:.3f}.",
        "",
        f"    {command}",
        "",
        f"Cells are five curves ({', '.join(CURVES)}) times three kinds of censoring: {', '.join(CENSORING)}. "
        "With *visits* a quarter of the rows leave just after each quarter of the horizon.",
        "",
        "## Curves of one group, ε = 1",
        "",
        "Coverage of 95% intervals over the 15 cells: the smallest, and the mean. *Edges* is the mean over edges with "
        "five expected events, and *worst edge* the smallest of these, which chance lowers by about two standard "
        "errors.",
        "",
        f"| n | bins | {' | '.join(MEASURES)} |",
        "|---" * (2 + len(MEASURES)) + "|",
    ]

    def part(found: dict[tuple[int, int, str, str], dict[str, float]], n: int, bins: int, name: str) -> Floats:
        values = np.array([each[name] for key, each in found.items() if key[:2] == (n, bins)])
        return values[np.isfinite(values)]

    for n, _ in SIZES:
        for bins in BINS:
            values = [part(of_curves, n, bins, name) for name in MEASURES]
            inner = " | ".join(f"{each.min():.3f}, {each.mean():.3f}" for each in values)
            lines.append(f"| {n:,} | {bins} | {inner} |")
    limit = LEAST - errors[0]
    lines += [
        "",
        f"Cells with a coverage below {LEAST} by more than a standard error, or a worst edge by more than three. "
        f"*again*: these coverages in {AGAIN} times as many datasets of another seed. *warned*: how often the summary "
        "warns that most events of a bin are near one end, or that the curve depends on the shape inside it.",
        "",
        "| n | bins | curve | censoring | below | again | warned |",
        "|---" * 7 + "|",
    ]
    for key, found in of_curves.items():
        names = [name for name in MEASURES if found[name] < (limit - 2 * errors[0] if name == "worst edge" else limit)]
        if names:
            again = curves_of(cells[key][0], AGAIN * curves, seed + 1)
            below = " | ".join(", ".join(f"{name} {each[name]:.3f}" for name in names) for each in (found, again))
            lines.append(f"| {key[0]:,} | {' | '.join(map(str, key[1:]))} | {below} | {again['warned']:.2f} |")
    lines += [
        "",
        "## Steep hazards in four bins",
        "",
        "The shape inside the first bin is far from a straight line, and half of the rows leave. Where intervals miss, "
        "the summary names the bin. Finer edges mend it. With *half at 0.02* these rows leave in the first twelfth of "
        "the first bin, after a third to two thirds of its events. The *peak* is after that.",
        "",
        "| n | ε | curve | censoring | first edge | edges | band | restricted mean | warned |",
        "|---" * 9 + "|",
    ]
    for (n, epsilon), (shape, hazard), (kind, staying) in product(OF_STEEP, STEEP.items(), HALVED.items()):
        found = curves_of(Cell(shape, n, epsilon, 4, (1.0,), hazard, [staying]), curves, seed)
        inner = " | ".join(f"{found[name]:.3f}" for name in ("first edge", "edges", "band", "restricted mean"))
        lines.append(f"| {n:,} | {epsilon:g} | {shape} | {kind} | {inner} | {found['warned']:.2f} |")
    lines += [
        "",
        "## Few rows at risk, and hardly any noise",
        "",
        f"ε = 1,000,000, {AGAIN * curves} datasets. Coverage of 95% intervals at the last usable edge, beside the "
        "limits of log(−log S) at this edge on the rows, as in lifelines; and of the restricted mean up to this edge.",
        "",
        "| n | bins | curve | rows leave | at risk, median | survival | lifelines | restricted mean |",
        "|---" * 8 + "|",
    ]
    for (n, bins), (shape, hazard), (kind, staying) in product(OF_FEW, FEW.items(), LEAVING.items()):
        row = few_row(Cell(shape, n, 1e6, bins, (1.0,), hazard, [staying]), AGAIN * curves, seed)
        lines.append(f"| {n:,} | {bins} | {shape} | {kind} | {row} |")
    lines += [
        "",
        "## Log-rank tests of two equal arms, ε = 1",
        "",
        "Levels of tests at 0.05 over the 15 cells: the largest, and the mean. Rows of the second arm leave at a "
        f"constant rate of 0.3, and those of the first as the cell says. In brackets are levels in {AGAIN} times as "
        "many datasets of another seed.",
        "",
        f"| n | bins | {' | '.join(TESTS)} | cells above {MOST} |",
        "|---" * (3 + len(TESTS)) + "|",
    ]
    for n, _ in SIZES:
        for bins in BINS:
            values = [part(of_tests, n, bins, name) for name in TESTS]
            inner = " | ".join(f"{each.max():.3f}, {each.mean():.3f}" for each in values)
            above = []
            for key, found in of_tests.items():
                names = [name for name in TESTS if key[:2] == (n, bins) and found[name] > MOST]
                if names:
                    again = tests_of(cells[key][1], AGAIN * tests, seed + 1)
                    rates = ", ".join(f"{name} {found[name]:.3f} ({again[name]:.3f})" for name in names)
                    above.append(f"{key[2]}, {key[3]}: {rates}")
            lines.append(f"| {n:,} | {bins} | {inner} | {'; '.join(above)} |")
    lines += [
        "",
        "## Hazard ratios beside Cox's model",
        "",
        "Coverage of 95% intervals, and their width over that of Cox's model on the same rows: the median, and the "
        "ninth decile. Rows leave at constant rates, which differ between the arms.",
        "",
        "*Least* is a bound for the width, of estimates that are smooth in the noisy cells and right for all hazards: "
        "the best linear one, by Gauss and Markov's theorem. An exact table has a least of 1.00. So what is above 1 is "
        "the noise of the table, most of it that of the events of the smaller arm. It adds up over the bins, and fewer "
        "bins lower it.",
        "",
        "| n | ε | bins | ratio | second arm | curve | coverage | width | 90% | least |",
        "|---" * 10 + "|",
        *(ratio_row(row, ratios, seed + k) for k, row in enumerate(RATIOS)),
    ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    write_page(as_markdown, RESULTS, curves=300, tests=1000, ratios=400, seed=2026)
