"""How often `fit_rate` rejects what is true, and what is false, at few replications and with heavy tails.

Simulated studies of cells over a factor of 30 in n, whose mean loss is n^-2 exactly. The test of fit must reject the
line in 5% of them, and the score test the exponent. Its power is that against exponents wrong by 0.1, 0.25 and 0.5.

    python validation/studies/rates/fit_levels.py
    python validation/studies/rates/fit_levels.py --studies 100 --no-write
    python validation/studies/rates/fit_levels.py --cells 150   # a part, half a minute: kept for the page

Lines are kept in build/rates/fit_levels.json: an interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import f as f_law

from dpstats.simulation import StudyResults, cell_fits
from dpstats.simulation.cell_fits import MISFIT, fit_cells, line_model, score
from dpstats.simulation.table import CellResult, cells_to_fit, log_parameter

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "validation" / "results" / "rate_fits.md"
KEPT = ROOT / "build" / "rates" / "fit_levels.json"
REPLICATIONS = (3, 5, 10, 30, 100)
OFF = (0.1, 0.25, 0.5)
LAWS: dict[str, Callable[[Any, np.random.Generator], Any]] = {
    "normal, 10%": lambda size, rng: np.maximum(1 + 0.1 * rng.standard_normal(size), 1e-9),
    "lognormal, 0.7": lambda size, rng: np.exp(0.7 * rng.standard_normal(size) - 0.245),
    "lognormal, 1.2": lambda size, rng: np.exp(1.2 * rng.standard_normal(size) - 0.72),
    "chi-square, 1 degree": lambda size, rng: rng.chisquare(1, size),
    "Pareto, index 2.5": lambda size, rng: (rng.pareto(2.5, size) + 1) * 0.6,
    "squared t, 4.5 degrees": lambda size, rng: rng.standard_t(4.5, size) ** 2 / 1.8,
}
COLUMNS = "squared error, d from 1 to 64"
IN_D = "the same, exponent of d"
GROWING = "lognormal, 0.1 to 1.0 along n"
SMALL = "lognormal, 0.01 to 0.1 along n"
MODELED = {COLUMNS: ("d",), IN_D: ("d",), GROWING: ("n",), SMALL: ("n",)}
DESIGNS = [
    *((law, n_cells, count) for law in LAWS for n_cells in (5, 16) for count in REPLICATIONS),
    *((law, 150, 4) for law in LAWS),
    *((law, 16, count) for law in (COLUMNS, IN_D) for count in REPLICATIONS),
    *((SMALL, 5, count) for count in (3, 5, 10, 30)),
    *((SMALL, 16, count) for count in (3, 5, 10, 30)),
    *((GROWING, 5, count) for count in (*REPLICATIONS[:-1], 60, 100)),
    (GROWING, 8, 40),
    *((GROWING, 16, count) for count in (3, 5, 10, 20, 30, 100)),
]
"""Losses, cells, replications."""


def losses(law: str, sizes: np.ndarray, columns: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return losses with the mean n^-2 (times d^2), of shape (cells, replications)."""
    shape = (sizes.size, count)
    if law in (COLUMNS, IN_D):
        drawn = rng.chisquare(columns[:, None], shape) / columns[:, None]
    elif law in (GROWING, SMALL):
        deviation = np.linspace(0.1, 1.0, sizes.size)[:, None] / (10 if law == SMALL else 1)
        drawn = np.exp(deviation * rng.standard_normal(shape) - deviation**2 / 2)
    else:
        drawn = LAWS[law](shape, rng)
    return np.asarray(drawn * (columns / sizes)[:, None] ** 2)


def measure(law: str, n_cells: int, count: int, studies: int, powers: int, seed: int) -> list[float]:
    """Return the levels of the test of fit and of the score test, the powers of the latter, and how many decide."""
    rng = np.random.default_rng([seed, n_cells, count])
    if law in (COLUMNS, IN_D):
        columns, sizes = (
            np.repeat([1.0, 4.0, 16.0, 64.0], n_cells // 4),
            np.tile(np.geomspace(100, 3000, n_cells // 4), 4),
        )
    else:
        columns, sizes = np.ones(n_cells), np.geomspace(100, 3000, n_cells)
    spread = MODELED.get(law, ())
    # As in fit_rate: cells with another value of the other parameter have another intercept.
    tested, true, other = ("d", 2.0, sizes) if law == IN_D else ("n", -2.0, columns)
    groups = (other[:, None] == np.unique(other)).astype(float)
    levels, found, deciding = np.zeros(2), np.zeros(len(OFF)), 0
    for study in range(studies):
        drawn = losses(law, sizes, columns, count, rng)
        cells = tuple(
            CellResult({"n": n, "d": d}, {"loss": values}, {})
            for n, d, values in zip(sizes.tolist(), columns.tolist(), drawn, strict=True)
        )
        results = StudyResults("levels", cells, ("loss",), {})
        known = cells_to_fit(results, "loss", spread)
        design = np.column_stack([log_parameter(results, tested), groups])
        start, *_ = np.linalg.lstsq(design, np.log(known.means), rcond=None)
        model = line_model(design)
        fit = fit_cells(model, start, known)
        levels[0] += fit.pvalue < MISFIT
        deciding += fit.spread_is_known
        for i, off in enumerate((0.0, *OFF)):
            if i > 0 and study >= powers:
                break
            root, degrees, _ = score(model, start, 0, true + off, known)
            rejected = root**2 > f_law.isf(0.05, 1, degrees)
            if i == 0:
                levels[1] += rejected
            else:
                found[i - 1] += rejected
    return [*(levels / studies).tolist(), *(found / powers).tolist(), deciding / studies]


def report(
    rows: list[tuple[str, int, int, list[float]]], command: str, seconds: float, studies: int, powers: int
) -> str:
    """Return the page."""
    worst = max(values[0] for _, _, _, values in rows)
    decided = max(values[1] for _, _, _, values in rows if values[-1] > 0)
    undecided = max(values[1] for _, _, _, values in rows if values[-1] == 0)
    lines = [
        "# Levels and powers of fitted rates",
        f"{time.strftime('%Y-%m-%d')}, `{command}`: {seconds / 60:.0f} minutes of one process.",
        f"Each line is {studies:,} simulated studies whose mean loss is n^-2 exactly, over a factor of 30 in n. "
        f"Tests are at 0.05. Levels have a Monte Carlo error of {math.sqrt(0.05 * 0.95 / studies):.4f}; powers are of "
        f"{powers:,} studies, error "
        f"{math.sqrt(0.25 / powers):.3f} at most.\n"
        "*Fit* is how often the line is said not to fit. *Level* is how often the score test, whose inversion is the "
        "interval, rejects the true exponent. The next columns are how often it rejects an exponent that is off.\n"
        '*Decides* is how often a verdict can be other than "undecided": a modeled variance needs '
        "{} degrees of freedom, and {} if it exceeds a tenth of the squared mean.".format(*cell_fits.FEWEST_DEGREES),
        f"The test of fit rejects at most {worst:.3f} of the true lines. Intervals that decide miss the exponent in at "
        f"most {decided:.3f}. The others miss it in at most {undecided:.3f}: their spread and skewness grow together "
        "along n, and they have too few replications to model that.",
        "| losses | cells | replications | fit | level | off by 0.1 | by 0.25 | by 0.5 | decides |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        + "\n".join(
            f"| {law} | {n_cells} | {count} | {values[0]:.3f} | {values[1]:.3f} | "
            + " | ".join(f"{value:.2f}" for value in values[2:-1])
            + f" | {values[-1]:.2f} |"
            for law, n_cells, count, values in rows
        ),
    ]
    return "\n\n".join(lines) + "\n"


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--studies", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=63)
    parser.add_argument("--cells", type=int, choices=sorted({design[1] for design in DESIGNS}))
    parser.add_argument("--no-write", action="store_true")
    given = parser.parse_args()
    powers = max(1, given.studies // 10)
    # Lines by another code are other lines.
    code = hashlib.sha256(Path(cell_fits.__file__).read_bytes() + Path(__file__).read_bytes()).hexdigest()[:16]
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    rows, total = [], 0.0
    for law, n_cells, count in DESIGNS:
        if given.cells not in (None, n_cells):
            continue
        key = f"{code} {given.studies} {given.seed} {law} {n_cells} {count}"
        if key not in kept:
            start = time.process_time()
            values = measure(law, n_cells, count, given.studies, powers, given.seed)
            kept[key] = [time.process_time() - start, values]
            KEPT.parent.mkdir(parents=True, exist_ok=True)
            KEPT.write_text(json.dumps(kept), encoding="utf-8")
        seconds, values = kept[key]
        total += seconds
        rows.append((law, n_cells, count, values))
        print(*rows[-1][:3], np.round(values, 3), flush=True)
    if given.cells is not None:
        return
    words = " ".join(
        [
            "python validation/studies/rates/fit_levels.py",
            *(["--studies", str(given.studies)] if given.studies != 4000 else []),
        ]
    )
    text = report(rows, words, total, given.studies, powers)
    print(text)
    if not given.no_write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
