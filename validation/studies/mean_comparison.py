"""Private means beside each other, at equal (epsilon, delta): error, bias and coverage.

The mean is uniform in a box of half-width 10 (standard deviations) and the spread is known. Errors are
l2 norms over that of an oracle which knows the true mean: rows clipped to a ball of radius
sqrt(d) + 2 around it, released with the whole budget. Compared are

* the non-private mean; algorithm 9.2.1 with a noise that is private, clipped at theorem 9.2.2's radius;
* `AdaptiveMean` under each `tails`;
* CoinPress, written from its paper, at its best number of rounds; private medians and clipping around them;
* OpenDP's mean (Gaussian noise) and diffprivlib's (Laplace noise, delta = 0: it has no other), both per column.

A second table has rows that are skewed, heavy-tailed or contaminated, a third sizes at which noise dominates.

    python validation/studies/mean_comparison.py
    python validation/studies/mean_comparison.py --replications 20 --no-write
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

VALIDATION = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(VALIDATION / "peers"))
from coinpress import clipped_shift, coinpress_mean  # noqa: E402
from laws import LAWS, standard_rows  # noqa: E402
from median_clip import median_clip_mean  # noqa: E402

import dpstats  # noqa: E402
from dpstats.means import AdaptiveMean, ClippedMean, clipping_radius  # noqa: E402
from dpstats.parallel import run_blocks  # noqa: E402
from dpstats.privacy import gaussian_sigma  # noqa: E402

RESULTS = VALIDATION / "results" / "mean_comparison.md"
PEERS = VALIDATION.parent / ".venv-peers"
DELTA = 1e-6
ROUNDS = (1, 2, 3, 4, 5)
TAILS = ("subgaussian", "symmetric", "variance")
BOX = 10.0
OUTSIDE = 20  # replications of OpenDP and diffprivlib

Numbers = NDArray[np.float64]
Cell = tuple[str, int, int, float, float]  # law, n, d, epsilon, box

SIZES = ((500, 5), (1000, 50), (10_000, 50), (10_000, 500))
NORMAL: list[Cell] = [
    *(("normal", n, d, epsilon, BOX) for n, d in SIZES for epsilon in (0.2, 1.0)),
    ("normal", 3000, 40, 1.0, BOX),
]
# Where no constant of the planner was chosen.
FRESH: list[Cell] = [
    ("normal", 2000, 10, 0.5, BOX),
    ("normal", 700, 30, 0.7, BOX),
    ("normal", 5000, 200, 0.3, 50.0),
    ("normal", 400, 3, 2.0, 1000.0),
]
# Where noise dominates: its deviation is larger than the box, or not much smaller.
DOMINATED: list[Cell] = [
    ("normal", 100, 50, 0.1, BOX),
    ("normal", 200, 20, 0.1, 1000.0),
    ("normal", 100, 5, 0.1, BOX),
    ("normal", 200, 5, 0.2, BOX),
    ("normal", 50, 1, 1.0, BOX),
]
# Sizes at which std_bound is right, and 3 and 10 times too large.
SPREAD: list[Cell] = [
    ("normal", 700, 7, 1.0, BOX),
    ("normal", 3000, 40, 1.0, BOX),
    ("normal", 5000, 5, 0.2, BOX),
    ("normal", 20_000, 20, 0.5, BOX),
]
FACTORS = (1.0, 3.0, 10.0)
OTHER: list[Cell] = [(law, n, d, epsilon, BOX) for law in LAWS[1:] for n, d in SIZES[:3] for epsilon in (0.2, 1.0)]


@dataclass(frozen=True)
class Result:
    """One method in one cell.

    ``error`` is the mean l2 error, ``ratio`` that over the oracle's; ``bias`` the root mean square over the
    columns of the mean signed error, its own Monte Carlo error taken off, over the error of a column.
    """

    error: float
    ratio: float
    ratio_error: float
    bias: float
    coverage: float | None
    coverage_error: float | None
    replications: int


def one_dataset(cell: Cell, rng: np.random.Generator, peers: bool) -> dict[str, tuple[Numbers, float]]:
    """Return each method's signed error on one dataset, and the share of columns that its intervals cover."""
    law, n, d, epsilon, box = cell
    noise = standard_rows(law, n, d, rng)
    mean = rng.uniform(-box, box, d)
    X = mean + noise
    ball = np.sqrt(d) + 2
    scale = 2 * ball / n * gaussian_sigma(epsilon, DELTA)
    oracle = clipped_shift(noise, np.zeros(d), ball) + scale * rng.standard_normal(d)
    found = {"oracle": (oracle, np.nan), "sample mean": (noise.mean(axis=0), np.nan)}
    for tails in TAILS:
        fitted = AdaptiveMean(epsilon=epsilon, delta=DELTA, bound=box, std=1.0, tails=tails, random_state=rng).fit(X)
        # The shortest intervals: those that assume what ``tails`` says.
        shortest = "tails" if tails == "subgaussian" and not fitted.assumption_refuted_ else None
        low, high = fitted.confidence_interval(estimand=shortest)
        found[tails] = fitted.mean_ - mean, float(np.mean((low <= mean) & (mean <= high)))
        unshrunk = fitted.plan_.weights @ fitted.stage_means_
        found[f"{tails}, cut"] = np.clip(unshrunk, -box, box) - mean, np.nan
    found["middle"] = -mean, np.nan
    if peers:
        radius = clipping_radius(n, sigma=np.sqrt(0.5), bound=box)
        printed = ClippedMean(epsilon=epsilon, delta=DELTA, clip=radius, random_state=rng).fit(X)
        found["9.2.1"] = printed.mean_ - mean, np.nan
        for rounds in ROUNDS:
            estimate = coinpress_mean(X, box, epsilon, DELTA, rounds, rng)
            found[f"CoinPress {rounds}"] = np.clip(estimate, -box, box) - mean, np.nan
        estimate = median_clip_mean(X, box, epsilon, DELTA, rng)
        found["median, clip"] = np.clip(estimate, -box, box) - mean, np.nan
    return found


def block(cell: Cell, size: int, peers: bool, rng: np.random.Generator) -> dict[str, Any]:
    """Return what a block of datasets adds up to: errors, signed sums, coverages, by method."""
    done = [one_dataset(cell, rng, peers) for _ in range(size)]
    return {
        name: (
            np.array([np.linalg.norm(found[name][0]) for found in done]),
            np.sum([found[name][0] for found in done], axis=0),
            np.array([found[name][1] for found in done]),
        )
        for name in done[0]
    }


def summarise(blocks: list[dict[str, Any]]) -> dict[str, Result]:
    """Return the results of one cell from its blocks."""
    names = blocks[0]
    errors = {name: np.concatenate([part[name][0] for part in blocks]) for name in names}
    oracle = errors["oracle"]
    results = {}
    for name, error in errors.items():
        count = error.size
        ratio = error.mean() / oracle.mean()
        # The same datasets: the error of a ratio of means is that of the paired difference.
        spread = np.std(error - ratio * oracle, ddof=1) / oracle.mean() / np.sqrt(count)
        signed = np.sum([part[name][1] for part in blocks], axis=0) / count
        square = np.mean(error**2) / signed.size
        bias = np.sqrt(max(0.0, np.mean(signed**2) - square / count) / square)
        covered = np.concatenate([part[name][2] for part in blocks])
        known = not np.isnan(covered).any()
        results[name] = Result(
            float(error.mean()),
            float(ratio),
            float(spread),
            float(bias),
            float(covered.mean()) if known else None,
            float(covered.std(ddof=1) / np.sqrt(count)) if known else None,
            count,
        )
    rounds = [name for name in results if name.startswith("CoinPress ")]
    if rounds:
        results["CoinPress"] = min((results[name] for name in rounds), key=lambda result: result.ratio)
    return results


def replications_of(cell: Cell, replications: int) -> int:
    """Return fewer replications where one takes seconds."""
    return max(2, replications // 5) if cell[1] * cell[2] > 2_000_000 else replications


def study(
    cells: list[Cell], replications: int, *, peers: bool, seed: int = 2026, jobs: int = 1, progress: bool = False
) -> dict[Cell, dict[str, Result]]:
    """Return the results of every cell; they do not depend on the number of processes."""
    tasks = []
    for cell in cells:
        wanted = replications_of(cell, replications)
        size = max(1, min(25, 5_000_000 // (cell[1] * cell[2])))
        tasks += [(cell, min(size, wanted - start), peers) for start in range(0, wanted, size)]
    done = run_blocks(block, tasks, random_state=seed, n_jobs=jobs, progress=progress, description="datasets")
    return {
        cell: summarise([part for task, part in zip(tasks, done, strict=True) if task[0] == cell]) for cell in cells
    }


def opendp_errors(cell: Cell, replications: int) -> Numbers:
    """Return errors of OpenDP's mean, one call per column with the noise of one of d columns."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    _, n, d, epsilon, box = cell
    radius = clipping_radius(n, sigma=np.sqrt(0.5), bound=box)
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=n)
    mean = (domain, dp.symmetric_distance()) >> dp.t.then_clamp((-radius, radius)) >> dp.t.then_mean()
    # One row replaced is a symmetric distance of 2.
    scale = gaussian_sigma(epsilon, DELTA, np.sqrt(d) * mean.map(2))
    private = mean >> dp.m.then_gaussian(scale=scale)
    rng = np.random.default_rng([n, d])
    errors = []
    for _ in range(replications):
        center = rng.uniform(-box, box, d)
        X = center + standard_rows("normal", n, d, rng)
        errors.append(np.linalg.norm([private(np.ascontiguousarray(column)) for column in X.T] - center))
    return np.array(errors)


def diffprivlib_errors(cells: list[Cell], replications: int) -> list[Numbers] | None:
    """Return errors of diffprivlib's mean, or None where its environment cannot be used."""
    asked = [
        (n, d, epsilon, box, clipping_radius(n, sigma=np.sqrt(0.5), bound=box), replications)
        for _, n, d, epsilon, box in cells
    ]
    python = PEERS / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    try:
        run = subprocess.run(
            [python, VALIDATION / "peers" / "diffprivlib_mean.py", json.dumps(asked)],
            check=True,
            capture_output=True,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return [np.array(errors) for errors in json.loads(run.stdout)]


def outside(results: dict[Cell, dict[str, Result]], replications: int) -> None:
    """Add the libraries that are not ours to the results, on rows of their own."""
    # A call for each column: not for very many of them.
    cells = [cell for cell in results if replications_of(cell, 100) == 100]
    theirs = diffprivlib_errors(cells, replications)
    for i, cell in enumerate(cells):
        named = {"OpenDP": opendp_errors(cell, replications)}
        if theirs is not None:
            named["diffprivlib"] = theirs[i]
        for name, errors in named.items():
            mean, level = float(errors.mean()), results[cell]["oracle"].error
            spread = float(errors.std(ddof=1)) / np.sqrt(errors.size)
            results[cell][name] = Result(mean, mean / level, spread / level, np.nan, None, None, errors.size)


METHODS = {
    "subgaussian": "adaptive, subgaussian",
    "symmetric": "adaptive, symmetric",
    "variance": "adaptive, variance",
    "CoinPress": "CoinPress",
    "median, clip": "medians, clip",
    "9.2.1": "9.2.1",
    "OpenDP": "OpenDP",
    "diffprivlib": "diffprivlib (delta = 0)",
    "sample mean": "sample mean",
}


def _place(cell: Cell) -> str:
    _, n, d, epsilon, box = cell
    return f"{n:,} | {d} | {epsilon:g} | {box:g}"


def _pair(value: float | None, error: float | None, digits: int = 2) -> str:
    return "not run" if value is None or error is None else f"{value:.{digits}f} ± {error:.{digits}f}"


def error_table(results: dict[Cell, dict[str, Result]]) -> list[str]:
    """Return the table of errors over the oracle's, for normal rows."""
    lines = [f"| n | d | eps | box | {' | '.join(METHODS.values())} | datasets |", "|---" * (len(METHODS) + 5) + "|"]
    for cell, found in results.items():
        values = [_pair(found[name].ratio, found[name].ratio_error) if name in found else "not run" for name in METHODS]
        lines.append(f"| {_place(cell)} | {' | '.join(values)} | {found['oracle'].replications} |")
    return lines


def coverage_table(results: dict[Cell, dict[str, Result]], *, law: bool) -> list[str]:
    """Return error, bias and coverage under each assumption; what the rows are, if they differ."""
    head = ["rows"] if law else []
    head += ["n", "d", "eps", "box"]
    head += [f"{tails}: {what}" for tails in TAILS for what in ("error", "bias", "coverage")]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for cell, found in results.items():
        values = []
        for tails in TAILS:
            result = found[tails]
            values += [
                _pair(result.ratio, result.ratio_error),
                f"{result.bias:.2f}",
                _pair(result.coverage, result.coverage_error, 3),
            ]
        start = f"{cell[0]} | " if law else ""
        lines.append(f"| {start}{_place(cell)} | {' | '.join(values)} |")
    return lines


def dominated_table(results: dict[Cell, dict[str, Result]]) -> list[str]:
    """Return the table of errors where noise dominates, over that of reporting the middle of the box."""
    head = ["n", "d", "eps", "box"]
    head += [f"{tails}: {what}" for tails in TAILS for what in ("shrunk", "cut to the box", "coverage")]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for cell, found in results.items():
        middle = found["middle"].error
        values = []
        for tails in TAILS:
            values += [f"{found[name].error / middle:.2f}" for name in (tails, f"{tails}, cut")]
            values.append(_pair(found[tails].coverage, found[tails].coverage_error, 3))
        lines.append(f"| {_place(cell)} | {' | '.join(values)} |")
    return lines


def spread_block(cell: Cell, size: int, rng: np.random.Generator) -> Numbers:
    """Return errors and coverages (datasets, factors) of fits whose bound on the spread is too large."""
    law, n, d, epsilon, box = cell
    found = np.empty((2, size, len(FACTORS)))
    for i in range(size):
        mean = rng.uniform(-box, box, d)
        X = mean + standard_rows(law, n, d, rng)
        for j, factor in enumerate(FACTORS):
            fitted = AdaptiveMean(
                epsilon=epsilon, delta=DELTA, bound=box, std="private", std_bound=factor, random_state=rng
            ).fit(X)
            low, high = fitted.confidence_interval()
            found[:, i, j] = (np.linalg.norm(fitted.mean_ - mean), np.mean((low <= mean) & (mean <= high)))
    return found


def spread_table(cells: list[Cell], replications: int, *, seed: int = 2026, jobs: int = 1) -> list[str]:
    """Return the table of errors with a bound on the spread that is too large."""
    head = ["n", "d", "eps", "box", *(f"bound {factor:g}: error, coverage" for factor in FACTORS), "datasets"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    found = run_blocks(
        spread_block, [(cell, replications) for cell in cells], random_state=seed, n_jobs=jobs, description="spreads"
    )
    for cell, (errors, inside) in zip(cells, found, strict=True):
        level = errors[:, 0].mean()
        values = [
            f"{_pair(errors[:, j].mean() / level, errors[:, j].std(ddof=1) / level / np.sqrt(replications))}, "
            f"{inside[:, j].mean():.3f}"
            for j in range(len(FACTORS))
        ]
        lines.append(f"| {_place(cell)} | {' | '.join(values)} | {replications} |")
    return lines


HEAD = [
    "# Private means at equal (epsilon, delta)",
    "",
    "Every part has its date and its command.",
    "",
    "Mean l2 error over that of an oracle that clips to a ball of radius sqrt(d) + 2 around the true mean and "
    "spends the whole budget there; ± is one Monte Carlo standard error. Standard deviation 1 and the box of "
    "the mean are public. CoinPress is shown at its best number of rounds of "
    f"{ROUNDS[0]} to {ROUNDS[-1]}, chosen on these very errors. It, the medians and the adaptive mean are cut "
    f"to the box. OpenDP and diffprivlib ran on {OUTSIDE} datasets. Ratios below 1 are possible: the oracle's "
    f"ball is not the best one. delta = {DELTA:g}; simulated noise.",
    "",
]


def section(part: str, replications: int, seed: int, jobs: int) -> dict[str, list[str]]:
    """Return the sections of a part of the study, by their headings."""
    shared: dict[str, Any] = {"seed": seed, "jobs": jobs, "progress": True}
    if part == "normal":
        normal = study(NORMAL + FRESH, replications, peers=True, **shared)
        outside(normal, min(OUTSIDE, replications))
        return normal_sections(normal)
    if part == "dominated":
        return dominated_section(study(DOMINATED, replications, peers=False, **shared))
    if part == "spread":
        return spread_section(spread_table(SPREAD, replications, seed=seed, jobs=jobs))
    return other_section(study(OTHER, replications, peers=False, **shared))


def normal_sections(results: dict[Cell, dict[str, Result]]) -> dict[str, list[str]]:
    """Return the sections on normal rows."""
    return {
        "## Normal rows: error over the oracle's": [
            f"The last {len(FRESH)} cells are not among those at which the constants of the planner were chosen; a "
            "failure in the very last one did lead to a change of the planner (rows that are clipped together).",
            "",
            *error_table(results),
        ],
        "## Normal rows: the adaptive mean": [
            "bias: root mean square over the columns of the mean signed error, over the error of a column. coverage: "
            "of 95% intervals, per column.",
            "",
            *coverage_table(results, law=False),
        ],
    }


def dominated_section(results: dict[Cell, dict[str, Result]]) -> dict[str, list[str]]:
    """Return the section on cells where noise dominates."""
    return {
        "## Where noise dominates: the adaptive mean": [
            "Error over that of reporting the middle of the box, which needs no data: as reported (shrunk), and of the "
            "average of the stages cut to the box.",
            "",
            *dominated_table(results),
        ]
    }


def spread_section(table: list[str]) -> dict[str, list[str]]:
    """Return the section on bounds on the spread that are too large."""
    return {
        "## A bound on the spread that is too large": [
            'Normal rows with standard deviation 1 and `std="private"`. Error over that with `std_bound=1`, and the '
            "coverage of default intervals, which assume this bound only: they grow with it.",
            "",
            *table,
        ]
    }


def other_section(results: dict[Cell, dict[str, Result]]) -> dict[str, list[str]]:
    """Return the section on rows that are not normal."""
    return {
        "## Other rows: the adaptive mean": [
            'These rows violate "subgaussian", and all but Student\'s violate "symmetric". Coverage is of the shortest '
            'intervals, `estimand="tails"`; default ones assume the spread only '
            '([adaptive_screen.md](adaptive_screen.md)). "subgaussian" is checked: where the last stage clips too many '
            'rows, intervals assume the spread only. What is not noticed, and "symmetric", may cover too little, and '
            "the summary of a fit says what it assumed. The oracle "
            "is itself biased on such rows: the ratio is a comparison and not a floor.",
            "",
            *coverage_table(results, law=True),
        ]
    }


PARTS = ("normal", "dominated", "spread", "other")


def merge(page: str, sections: dict[str, list[str]], made: str) -> str:
    """Return a page with these sections in place of those of the same headings, the others as they were."""
    kept = {"## " + part.split("\n", 1)[0]: part.split("\n", 1)[1] for part in page.split("\n## ")[1:]}
    kept |= {heading: "\n".join(["", made, "", *lines, ""]) for heading, lines in sections.items()}
    return "\n".join([*HEAD, *(f"{heading}\n{text.rstrip()}\n" for heading, text in kept.items())])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=400)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="parts: the others stay as they are")
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    page = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else ""
    for part in options.only:
        asked = f"--replications {options.replications} --seed {options.seed} --only {part}"
        made = (
            f"{time.strftime('%Y-%m-%d')}, `python validation/studies/mean_comparison.py {asked}`, dpstats "
            f"{dpstats.__version__}, numpy {np.__version__}."
        )
        page = merge(page, section(part, options.replications, options.seed, options.jobs), made)
        if not options.no_write:
            RESULTS.write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
