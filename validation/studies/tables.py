"""Private contingency tables: level and power of tests, coverage of intervals.

Level: of tests at .05 of tables of independent attributes, or with the stated proportions. "naive" is the plain
chi-square test of the same noisy counts (those below 0 taken for 0), "naive, simulated" the same statistic with the
null distribution simulated as ours is, "Gaussian" our test of a table with Gaussian noise at delta = 1e-6, "not
private" the chi-square test of the exact counts. Coverage is of 95% intervals for shares of a group and for the effects
of two by two tables.

    python validation/studies/tables.py
    python validation/studies/tables.py --replications 50 --no-write
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2_contingency

import dpstats
from dpstats.inference.noisy_counts import CountNoise, NoisyShare
from dpstats.parallel import run_blocks
from dpstats.privacy import gaussian_sigma
from dpstats.tables.equations import DIFFERENCE, ODDS_RATIO, RISK_RATIO, effect
from dpstats.tables.null_tests import Cells, fit_pvalue, independence_pvalue, margins_product

RESULTS = Path(__file__).resolve().parents[1] / "results" / "tables.md"
LEVEL, SIMULATIONS, BLOCK = 0.05, 499, 50
DEFAULT = 9999  # simulations of a test, unless a user says otherwise
SHAPES = ((3, 3), (2, 2), (4, 5), (2, 2, 2))
KINDS = ("uniform", "skewed", "sparse")
SIZES = (100, 200, 1000)
EPSILONS = (0.1, 0.5, 1.0)
Floats = NDArray[np.float64]


def margin(kind: str, levels: int) -> Floats:
    """Return the shares of the levels of an attribute: equal, as 1/k, or each a third of the one before."""
    places = np.arange(1.0, levels + 1)
    shares = {"uniform": np.ones(levels), "skewed": 1 / places, "sparse": 3.0**-places}[kind]
    return shares / shares.sum()


def independent(shape: tuple[int, ...], kind: str) -> Floats:
    """Return the shares of independent attributes."""
    return margins_product([margin(kind, levels)[None] for levels in shape])[0]


def dependent(shape: tuple[int, ...], kind: str, strength: float) -> Floats:
    """Return shares moved from the even cells to the odd ones of a chequered table; margins nearly stay."""
    signs = np.where(np.indices(shape).sum(axis=0) % 2, -1.0, 1.0)
    shares = independent(shape, kind) * (1 + strength * signs)
    return shares / shares.sum()


def cells_of(counts: Floats, n: int, noise: CountNoise) -> Cells:
    """Return a released table."""
    levels = tuple(tuple(range(size)) for size in counts.shape)
    return Cells(counts.astype(float), float(n), noise, None, tuple(range(counts.ndim)), levels)


def laplace(epsilon: float) -> CountNoise:
    return CountNoise("laplace", 2 / epsilon)


def gaussian(epsilon: float) -> CountNoise:
    return CountNoise("gaussian", np.sqrt(2) * gaussian_sigma(epsilon, 1e-6))


def released(shares: Floats, n: int, noise: CountNoise, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return an exact table and the same with noise."""
    exact = rng.multinomial(n, shares.ravel()).reshape(shares.shape).astype(float)
    return exact, exact + noise.draw(rng, shares.shape)


def naive_pvalue(counts: Floats) -> float:
    """Return the p-value of the chi-square test of a table, whatever its counts; 1 where it cannot be had."""
    whole = np.maximum(counts, 0.0)
    if (whole.sum(axis=0) == 0).any() or (whole.sum(axis=1) == 0).any():
        return 1.0
    return float(chi2_contingency(whole, correction=False).pvalue)


def naive_statistic(counts: Floats) -> Floats:
    """Return the chi-square statistics of tables (size, r, c), with counts below 0 taken for 0."""
    whole = np.maximum(counts, 0.0)
    total = np.maximum(whole.sum(axis=(1, 2)), 1.0)
    expected = whole.sum(axis=2)[:, :, None] * whole.sum(axis=1)[:, None] / total[:, None, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.nansum((whole - expected) ** 2 / expected, axis=(1, 2)))


def naive_simulated(counts: Floats, n: int, noise: CountNoise, rng: np.random.Generator) -> float:
    """Return the p-value of the plain statistic, its null distribution simulated at the noisy margins."""
    whole = np.maximum(counts, 0.5)
    rows, columns = whole.sum(axis=1) / whole.sum(), whole.sum(axis=0) / whole.sum()
    drawn = rng.multinomial(n, np.outer(rows, columns).ravel(), SIMULATIONS).reshape(-1, *counts.shape)
    null = naive_statistic(drawn + noise.draw(rng, drawn.shape))
    return float((1 + np.sum(null >= naive_statistic(counts[None])[0])) / (SIMULATIONS + 1))


def default_block(*cell: Any) -> list[float]:
    """Return the same with as many simulations as tests have by default."""
    return levels_block(*cell, simulations=DEFAULT)


def levels_block(
    shape: tuple[int, ...], kind: str, n: int, epsilon: float, size: int, rng: np.random.Generator, simulations: int = 0
) -> list[float]:
    """Return how many true null hypotheses are rejected: of independence, of stated shares, by the naive test."""
    simulations = simulations or SIMULATIONS
    shares, noise, found = independent(shape, kind), laplace(epsilon), np.zeros(3)
    for _ in range(size):
        _, counts = released(shares, n, noise, rng)
        cells = cells_of(counts, n, noise)
        naive = naive_pvalue(counts) if counts.ndim == 2 else 1.0
        pvalues = independence_pvalue(cells, simulations)[1], fit_pvalue(cells, shares, simulations)[1], naive
        found += np.array(pvalues) <= LEVEL
    return found.tolist()


TESTS = (
    "ours",
    "naive, simulated",
    "ours, Gaussian noise",
    "not private",
    "ours, stated proportions",
    "Pearson's, simulated",
)
POWERS = (
    ((3, 3), "uniform", 200, 0.5, 0.35),
    ((3, 3), "uniform", 1000, 0.1, 0.35),
    ((2, 2), "uniform", 200, 0.1, 0.4),
    ((4, 5), "sparse", 1000, 1.0, 0.35),
    ((2, 2), "skewed", 200, 0.5, 0.4),
)


def power_block(
    shape: tuple[int, int], kind: str, n: int, epsilon: float, strength: float, size: int, rng: np.random.Generator
) -> list[float]:
    """Return how many null hypotheses are rejected: false ones by each of `TESTS`, then true ones by each of them."""
    null = independent(shape, kind)
    noise, other, found = laplace(epsilon), gaussian(epsilon), np.zeros((2, len(TESTS)))
    for row, _ in itertools.product((0, 1), range(size)):
        shares = null if row else dependent(shape, kind, strength)
        exact, counts = released(shares, n, noise, rng)
        cells = cells_of(counts, n, noise)
        normal = cells_of(exact + other.draw(rng, shape), n, other)
        pvalues = (
            independence_pvalue(cells, SIMULATIONS)[1],
            naive_simulated(counts, n, noise, rng),
            independence_pvalue(normal, SIMULATIONS)[1],
            naive_pvalue(exact),
            fit_pvalue(cells, null, SIMULATIONS)[1],
            _plain_fit(counts, n, noise, null, rng),
        )
        found[row] += np.array(pvalues) <= LEVEL
    return found.ravel().tolist()


def _plain_fit(counts: Floats, n: int, noise: CountNoise, shares: Floats, rng: np.random.Generator) -> float:
    """Return the p-value of Pearson's statistic of noisy counts against stated shares, its null law simulated."""

    def pearson(tables: Floats) -> Floats:
        return np.asarray(((tables - n * shares.ravel()) ** 2 / (n * shares.ravel())).sum(axis=1))

    drawn = rng.multinomial(n, shares.ravel(), SIMULATIONS) + noise.draw(rng, (SIMULATIONS, shares.size))
    return float((1 + np.sum(pearson(drawn) >= pearson(counts.reshape(1, -1))[0])) / (SIMULATIONS + 1))


SHARES = tuple(itertools.product((5, 20, 100, 1000), (0.1, 0.5, 1.0, 5.0), (0.5, 0.1, 0.02), (1, 4)))


def share_block(m: int, epsilon: float, share: float, others: int, size: int, rng: np.random.Generator) -> list[float]:
    """Return how many intervals cover the share, and the sum of their lengths."""
    noise, rest = laplace(epsilon), laplace(epsilon).of(others)
    having = rng.binomial(m, share, size)
    counts = having + noise.draw(rng, (size,)), m - having + rest.draw(rng, (size,))
    covered = length = 0.0
    for a, b in zip(*counts, strict=True):
        found = NoisyShare(float(a), float(b), noise, rest)
        # That an interval covers is that its ends are not refuted; cheaper than the ends.
        covered += min(float(tail[0]) for tail in found.pvalues(np.array([share]))) >= 0.025
    for a, b in zip(counts[0][:3], counts[1][:3], strict=True):
        low, high = NoisyShare(float(a), float(b), noise, rest).limits(0.025)
        length += (high - low) / 3
    return [covered, length * size]


EFFECTS = tuple(itertools.product((40, 400), (0.1, 1.0, 5.0), (0.5, 0.1), ((0.5, 0.5), (0.1, 0.1), (0.3, 0.05))))


def effect_block(
    n: int, epsilon: float, first: float, shares: tuple[float, float], size: int, rng: np.random.Generator
) -> list[float]:
    """Return how many intervals cover: of the difference, the risk ratio and the odds ratio."""
    noise, found = laplace(epsilon), np.zeros(3)
    a, b = shares
    table = np.array([[first * a, first * (1 - a)], [(1 - first) * b, (1 - first) * (1 - b)]])
    truths = a - b, a / b, a * (1 - b) / (b * (1 - a))
    for _ in range(size):
        _, counts = released(table, n, noise, rng)
        pair = [NoisyShare(float(row[0]), float(row[1]), noise, noise) for row in counts]
        for j, measure in enumerate((DIFFERENCE, RISK_RATIO, ODDS_RATIO)):
            low, high = effect(*pair, measure, "").confidence_interval()
            found[j] += low <= truths[j] <= high
    return found.tolist()


def study(
    replications: int, *, seed: int = 2026, jobs: int = 1, small: bool = False, kept: Path | None = None
) -> dict[str, dict[tuple, Floats]]:
    """Return all rates; ``small`` is a part of the cells. Cells that ``kept`` has are not computed again."""
    grid = list(itertools.product(SHAPES, KINDS, SIZES, EPSILONS))
    parts: dict[str, tuple[Any, list[tuple], int]] = {
        "level": (levels_block, grid, replications),
        "shares": (share_block, list(SHARES), 4 * replications),
        "effects": (effect_block, list(EFFECTS), max(replications // 4, 2)),
    }
    known: dict[str, list[float]] = {}
    if kept is not None and kept.exists():
        known = dict(map(json.loads, kept.read_text(encoding="utf-8").splitlines()))
    found: dict[str, dict[tuple, Floats]] = {}
    for name in [*parts, "again"]:
        if name == "again":
            # A level of 108 is large by chance, of the tables and of few simulations with one public seed.
            most = {max(found["level"], key=lambda cell: found["level"][cell][j]) for j in (0, 1)}
            parts[name] = (default_block, sorted(most), replications)
        work, cells, count = parts[name]
        found[name] = {}
        for place, cell in enumerate(cells[:: 9 if small else 1]):
            key = f"{name} {place} {count} {seed}"
            if key not in known:
                known[key] = rates(work, cell, count, (seed, *name.encode(), place), jobs).tolist()
                if kept is not None:
                    with kept.open("a", encoding="utf-8") as lines:
                        lines.write(json.dumps([key, known[key]]) + "\n")
            found[name][cell] = np.array(known[key])
    return found


def rates(work: object, cell: tuple, count: int, seed: tuple[int, ...], jobs: int) -> Floats:
    """Return the mean of what a block counts, of a cell."""
    tasks = [(*cell, min(BLOCK, count - at)) for at in range(0, count, BLOCK)]
    done = run_blocks(work, tasks, random_state=np.random.default_rng(seed), n_jobs=jobs)
    return np.asarray(np.sum(done, axis=0) / count)


def as_markdown(found: dict[str, dict[tuple, Floats]], replications: int, command: str) -> str:
    """Return the report."""
    error = np.sqrt(0.05 * 0.95 / replications)
    level, shares, effects = found["level"], found["shares"], found["effects"]
    worst = max(level, key=lambda cell: level[cell][0])
    lines = [
        "# Contingency tables: tests and intervals",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, numpy {np.__version__}; simulated noise; "
        f"{replications} tables a cell, {SIMULATIONS} simulations a test.",
        "",
        f"    {command}",
        "",
        f"## Level of tests at .05 (one Monte Carlo standard error: {error:.4f})",
        "",
        f"Independence: {_range(level, 0)}, largest for {_words(worst)}. Stated proportions: {_range(level, 1)}. "
        f"The plain chi-square test of the same counts: {_range(level, 2)}.",
        "",
        "| table | margins | n | epsilon | independence | stated proportions | naive |",
        "|---" * 7 + "|",
    ]
    for (shape, kind, n, epsilon), row in level.items():
        naive = f"{row[2]:.3f}" if len(shape) == 2 else ""
        lines.append(f"| {_size(shape)} | {kind} | {n} | {epsilon:g} | {row[0]:.3f} | {row[1]:.3f} | {naive} |")
    lines += [
        "",
        f"With {SIMULATIONS} simulations and one public seed the level of a cell is itself .05 up to a standard "
        f"deviation of {np.sqrt(0.05 * 0.95 / SIMULATIONS):.4f}. The largest of each test again, other tables, with "
        f"the {DEFAULT:,} simulations that are the default:",
        "",
        "| table | margins | n | epsilon | independence | stated proportions |",
        "|---" * 6 + "|",
        *(
            f"| {_size(shape)} | {kind} | {n} | {epsilon:g} | {row[0]:.3f} | {row[1]:.3f} |"
            for (shape, kind, n, epsilon), row in found["again"].items()
        ),
        "",
        "Power: [table_powers.md](table_powers.md).",
    ]
    least = min(shares, key=lambda cell: shares[cell][0])
    few = np.sqrt(0.05 * 0.95 / (4 * replications))
    lines += [
        "",
        f"## Coverage of 95% intervals for a share of a group (one standard error: {few:.4f})",
        "",
        f"Least: {shares[least][0]:.3f}, of a group of {least[0]} at epsilon = {least[1]:g} and share {least[2]:g}. "
        "Means over shares .5, .1, .02 and one or four other cells:",
        "",
        "| group | epsilon | coverage | least | mean length |",
        "|---" * 5 + "|",
    ]
    for m, epsilon in dict.fromkeys(cell[:2] for cell in shares):
        own = np.array([row for cell, row in shares.items() if cell[:2] == (m, epsilon)])
        lines.append(f"| {m} | {epsilon:g} | {own[:, 0].mean():.3f} | {own[:, 0].min():.3f} | {own[:, 1].mean():.3f} |")
    fewer = np.sqrt(0.05 * 0.95 / max(replications // 4, 2))
    lines += [
        "",
        f"## Coverage of 95% intervals for effects in two by two tables (one standard error: {fewer:.4f})",
        "",
        "| n | epsilon | share of the first group | shares of the outcome | difference | risk ratio | odds ratio |",
        "|---" * 7 + "|",
    ]
    for (n, epsilon, first, pair), row in effects.items():
        numbers = " | ".join(f"{value:.3f}" for value in row)
        lines.append(f"| {n} | {epsilon:g} | {first:g} | {pair[0]:g}, {pair[1]:g} | {numbers} |")
    return "\n".join([*lines, ""])


def powers(replications: int, *, seed: int = 2026, jobs: int = 1, cells: Sequence[tuple] = POWERS) -> str:
    """Return the report of the powers and levels of all tests."""
    command = f"python validation/studies/tables.py --power --replications {replications} --seed {seed}"
    lines = [
        "# Contingency tables: power of tests, and their level",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, numpy {np.__version__}; simulated noise; "
        f"{replications} tables a cell, {SIMULATIONS} simulations a test.",
        "",
        f"    {command}",
        "",
        f"Power of tests at .05, and in brackets their level on independent tables (one standard error of a level of "
        f".05: {np.sqrt(0.05 * 0.95 / replications):.4f}). A power beside a level above .05 is no merit.",
        "",
        "| table | margins | n | epsilon | strength | " + " | ".join(TESTS) + " |",
        "|---" * (5 + len(TESTS)) + "|",
    ]
    for place, cell in enumerate(cells):
        (shape, kind, n, epsilon, strength) = cell
        found = rates(power_block, cell, replications, (seed, *b"power", place), jobs).reshape(2, -1)
        numbers = " | ".join(f"{power:.3f} ({level:.3f})" for power, level in found.T)
        lines.append(f"| {_size(shape)} | {kind} | {n} | {epsilon:g} | {strength:g} | {numbers} |")
    return "\n".join([*lines, ""])


def _range(rows: dict[tuple, Floats], place: int) -> str:
    values = [row[place] for row in rows.values()]
    return f"{min(values):.3f} to {max(values):.3f}"


def _size(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _words(cell: tuple) -> str:
    shape, kind, n, epsilon = cell
    return f"{kind} {_size(shape)} at ({n}, {epsilon:g})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--kept", type=Path, help="a file of cells that are done: a run that was stopped goes on")
    parser.add_argument("--no-write", action="store_true")
    parser.add_argument("--power", action="store_true", help="power and level of all tests, alone")
    options = parser.parse_args()
    if options.power:
        text = powers(options.replications, seed=options.seed, jobs=options.jobs)
        print(text)
        if not options.no_write:
            RESULTS.with_name("table_powers.md").write_text(text, encoding="utf-8")
        return
    found = study(options.replications, seed=options.seed, jobs=options.jobs, kept=options.kept)
    asked = f"--replications {options.replications} --seed {options.seed}"
    text = as_markdown(found, options.replications, f"python validation/studies/tables.py {asked}")
    print(text)
    if not options.no_write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
