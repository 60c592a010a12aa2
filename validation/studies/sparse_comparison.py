"""SparseMean against its rivals, by simulation: squared error, recovery of the support, coverage.

Rows are normal with variance 1 and a few means that are not zero. Columns with a signal are drawn row by
row. The scores of the others are drawn from the normal law of a clipped mean, and their rows only where they
are selected, given that score: the central limit theorem stands in for n d draws, most of which nobody looks
at. The last line of the first table draws everything, as a check.

    python validation/studies/sparse_comparison.py                     # 100 datasets a cell
    python validation/studies/sparse_comparison.py --replications 5 --no-write

Two further tables draw everything and call `fit`: intervals on rows of any law, and what is found in skewed columns.
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import numpy as np
from scipy.special import ndtr

from dpstats.means import SparseMean
from dpstats.means import sparse_design as design
from dpstats.means.sparse_selection import Halves
from dpstats.parallel import cut, run_blocks
from dpstats.privacy import gaussian_sigma
from dpstats.release.session import Session

RESULTS = Path(__file__).resolve().parents[1] / "results" / "sparse_comparison.md"


@dataclass(frozen=True)
class Cell:
    """One setting: the means that are not zero are the first columns'."""

    name: str
    n: int
    d: int
    s: int
    epsilon: float
    signals: tuple[float, ...]
    delta: float = 1e-6
    max_signal: float = 1.0
    rivals: tuple[str, ...] = ("non-private", "oracle", "peeling, printed", "peeling, exact", "one stage", "gumbel")


STRONG = (0.5,) * 10
FEW = ("non-private", "oracle", "one stage", "gumbel")
HALF = ("non-private", "half", "gumbel")
CELLS = (
    Cell("A: n = 2000, eps = 1, signals .5", 2000, 2000, 10, 1.0, STRONG),
    Cell("B: n = 1e4, eps = .5, signals .5", 10_000, 2000, 10, 0.5, STRONG),
    Cell("A, signals .1", 2000, 2000, 10, 1.0, (0.1,) * 10, rivals=FEW),
    Cell("B, signals .1", 10_000, 2000, 10, 0.5, (0.1,) * 10, rivals=FEW),
    Cell("A, signals .05 to 1", 2000, 2000, 10, 1.0, tuple(np.geomspace(0.05, 1, 10)), rivals=FEW),
    Cell("A, signals 3, max_signal 1", 2000, 2000, 10, 1.0, (3.0,) * 10, rivals=FEW),
    Cell("A, signals .5, max_signal 10", 2000, 2000, 10, 1.0, STRONG, max_signal=10.0, rivals=FEW),
    Cell("A, no signal", 2000, 2000, 10, 1.0, (), rivals=("non-private", "one stage", "gumbel")),
    Cell("d = 1e5, s = 20, n = 1e4, eps = 1, signals .5", 10_000, 100_000, 20, 1.0, (0.5,) * 20, rivals=FEW),
    Cell("n = 1e4, d = 2000, eps = 1, signals .5, delta = 0", 10_000, 2000, 10, 1.0, STRONG, 0.0,
         rivals=("non-private", "pure")),
    Cell("n = 1e4, d = 2000, eps = 1, signals .2, delta = 0", 10_000, 2000, 10, 1.0, (0.2,) * 10, 0.0,
         rivals=("non-private", "pure")),
    Cell("n = 1000, d = 5000, s = 3, eps = .5, signals .8", 1000, 5000, 3, 0.5, (0.8,) * 3, rivals=HALF),
    Cell("n = 2e4, d = 50, s = 25, eps = .3, signals .2", 20_000, 50, 25, 0.3, (0.2,) * 25, rivals=HALF),
    Cell("n = 5000, d = 500, s = 20, eps = 1, signals 1, delta = 0", 5000, 500, 20, 1.0, (1.0,) * 20, 0.0,
         rivals=("non-private", "share .6", "pure")),
)  # fmt: skip
SPLITS = (
    Cell("n = 4000, eps = 1, signals .5", 4000, 2000, 10, 1.0, STRONG),
    Cell("n = 4000, eps = 1, signals .1", 4000, 2000, 10, 1.0, (0.1,) * 10),
    Cell("n = 2000, eps = 1, no signal", 2000, 2000, 10, 1.0, ()),
    Cell("n = 1000, eps = .5, signals .5", 1000, 2000, 10, 0.5, STRONG),
)


def draw(law: str, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Return rows of mean 0 and variance 1, of a law."""
    if law == "normal":
        return rng.standard_normal((n, d))
    if law == "t3":
        return rng.standard_t(3, (n, d)) / math.sqrt(3)
    if law == "exponential":
        return rng.standard_exponential((n, d)) - 1
    if law == "lognormal":
        return (np.exp(rng.standard_normal((n, d))) - math.exp(0.5)) / math.sqrt((math.e - 1) * math.e)
    if law == "Poisson(.2)":
        return (rng.poisson(0.2, (n, d)) - 0.2) / math.sqrt(0.2)
    if law == "Bernoulli(.01)":
        return ((rng.random((n, d)) < 0.01) - 0.01) / math.sqrt(0.0099)
    if law == "5% contaminated":
        return (rng.standard_normal((n, d)) + 10 * (rng.random((n, d)) < 0.05) - 0.5) / math.sqrt(5.75)
    common, own = rng.standard_exponential((n, 1)) - 1, rng.standard_exponential((n, d)) - 1
    return math.sqrt(0.9) * common + math.sqrt(0.1) * own


LAWS = ("normal", "t3", "exponential", "lognormal", "Poisson(.2)", "Bernoulli(.01)", "5% contaminated",
        "exponential factor, correlation .9")  # fmt: skip
WAYS: dict[str, dict] = {
    "std right": {"std": 1.0},
    "std 1.5 times too large": {"std": 1.5},
    "private, std_bound 1.5": {"std": "private", "std_bound": 1.5},
    "delta = 0": {"std": 1.0, "delta": 0.0},
}


def clipped_variance(clip: float) -> tuple[float, float]:
    """Return Var clip(z) and Cov(z, clip(z)) of a standard normal z."""
    inside = float(ndtr(clip) - ndtr(-clip))
    density = math.exp(-(clip**2) / 2) / math.sqrt(2 * math.pi)
    return inside - 2 * clip * density + 2 * clip**2 * float(ndtr(-clip)), inside


@dataclass
class Rows:
    """Rows of which only the selected columns are ever drawn; indexed as ``rows[:, support]``."""

    signal_rows: np.ndarray
    null: np.ndarray  # standard normal: the score of each null column, in its standard errors
    clip: float
    rng: np.random.Generator
    drawn: dict[int, np.ndarray] = field(default_factory=dict)

    def scores(self) -> np.ndarray:
        """Return the mean of every clipped column."""
        strong = np.clip(self.signal_rows, -self.clip, self.clip).mean(axis=0)
        spread = math.sqrt(clipped_variance(self.clip)[0] / self.signal_rows.shape[0])
        return np.concatenate([strong, spread * self.null])

    def __getitem__(self, key: tuple[slice, np.ndarray]) -> np.ndarray:
        return np.column_stack([self._column(int(j)) for j in key[1]])

    def _column(self, j: int) -> np.ndarray:
        n, k = self.signal_rows.shape
        if j < k:
            return self.signal_rows[:, j]
        if j not in self.drawn:
            variance, covariance = clipped_variance(self.clip)
            slope = covariance / math.sqrt(variance)
            mean = slope * self.null[j - k] + math.sqrt(max(0.0, 1 - slope**2)) * self.rng.standard_normal()
            noise = self.rng.standard_normal(n)
            self.drawn[j] = noise - noise.mean() + mean / math.sqrt(n)
        return self.drawn[j]


def estimator(cell: Cell, **options: object) -> SparseMean:
    """Return the estimator of a cell; the clip is that of theorem 9.2.2 for peeling."""
    given = {"n_nonzero": cell.s, "epsilon": cell.epsilon, "delta": cell.delta, "std": 1.0}
    clip = 1 + 2 * math.sqrt(math.log(cell.n))
    return SparseMean(**given, clip=clip, max_signal=cell.max_signal, **options)


def release(made: SparseMean, plan, signal_rows: np.ndarray, null: np.ndarray, rng: np.random.Generator):
    """Return the estimate of one dataset, from the core that `fit` calls."""
    if plan.everything:
        rows, sums = Rows(signal_rows, null, 1.0, rng), np.zeros(0, dtype=np.int64)
    else:
        rows = Rows(signal_rows, null, plan.lattice.spacing * plan.lattice.bound, rng)
        sums = np.rint(rows.scores() * plan.n_samples / plan.lattice.spacing).astype(np.int64)
    with Session.simulated(plan, rng) as session:
        made._release(Halves(np.abs(sums), rows if plan.balls else sums), plan, session)
    made._report(session.released, plan)
    return made.support_, made.mean_[made.support_]


def plans(cell: Cell) -> dict:
    """Return the estimator and the plan of every private rival; they do not depend on data."""
    made = {
        "peeling, printed": estimator(cell, selection="peeling", calibration="textbook"),
        "peeling, exact": estimator(cell, selection="peeling"),
        "one stage": estimator(cell),
        "gumbel": estimator(cell),
        "pure": estimator(cell),
        # What was the default before shares were planned.
        "half": estimator(cell, selection_share=0.5, selection_clip=1.0),
        "share .6": estimator(cell, selection_share=0.6, selection_clip=1.0),
    }
    result = {}
    for name in [rival for rival in cell.rivals if rival in made]:
        if name != "one stage":
            result[name] = made[name], made[name].plan(cell.n, cell.d)
            continue
        alone = functools.partial(design.release_balls, most_stages=1)
        with mock.patch.object(design, "release_balls", alone):
            design.planned_design.cache_clear()
            result[name] = made[name], made[name].plan(cell.n, cell.d)
        design.planned_design.cache_clear()
    return result


def compare(cell: Cell, replications: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return, for each rival, squared errors and recovered shares: (replications, 2)."""
    mu, planned = np.array(cell.signals), plans(cell)
    results: dict[str, list] = {name: [] for name in cell.rivals}

    def record(name: str, support: np.ndarray, estimate: np.ndarray) -> None:
        truth = np.zeros(cell.d)
        truth[: mu.size] = mu
        missed = float(mu @ mu) - float(truth[support] @ truth[support])
        error = missed + float(np.sum((estimate - truth[support]) ** 2))
        results[name].append((error, np.mean(np.isin(np.arange(mu.size), support)) if mu.size else np.nan))

    for _ in range(replications):
        signal_rows = rng.standard_normal((cell.n, mu.size)) + mu
        null = rng.standard_normal(cell.d - mu.size)
        means = np.concatenate([signal_rows.mean(axis=0), null / math.sqrt(cell.n)])
        best = np.argpartition(-np.abs(means), cell.s)[: cell.s]
        record("non-private", best, means[best])
        if "oracle" in cell.rivals:
            record("oracle", np.arange(mu.size), oracle(signal_rows, mu, cell, rng))
        for name, (made, plan) in planned.items():
            record(name, *release(made, plan, signal_rows, null, rng))
    return {name: np.array(values) for name, values in results.items()}


def oracle(rows: np.ndarray, mu: np.ndarray, cell: Cell, rng: np.random.Generator) -> np.ndarray:
    """Return a private mean that is told the support, and the mean itself as the center of its ball."""
    radius = math.sqrt(mu.size) + 2
    moved = rows - mu
    factors = np.minimum(1, radius / np.linalg.norm(moved, axis=1))
    noise = 2 * radius / cell.n * gaussian_sigma(cell.epsilon, cell.delta)
    return mu + factors @ moved / cell.n + noise * rng.standard_normal(mu.size)


def full_data(cell: Cell, replications: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return what `compare` does for "gumbel", with every row drawn and `fit` itself."""
    mu = np.zeros(cell.d)
    mu[: len(cell.signals)] = cell.signals
    results = []
    for _ in range(replications):
        made = estimator(cell, random_state=rng).fit(rng.standard_normal((cell.n, cell.d)) + mu)
        found = np.mean(np.isin(np.flatnonzero(mu), made.support_))
        results.append((np.sum((made.mean_ - mu) ** 2), found))
    return {"gumbel": np.array(results)}


def coverage(cell: Cell, replications: int, rng: np.random.Generator) -> np.ndarray:
    """Return, per dataset, the share of selected columns that are covered, and the squared error."""
    made = estimator(cell, split=True)
    plan = made.plan(cell.n, cell.d)
    mu = np.zeros(cell.d)
    mu[: len(cell.signals)] = cell.signals
    k, results = len(cell.signals), []
    for _ in range(replications):
        first = rng.standard_normal((cell.n - plan.n_release, k)) + mu[:k]
        null = rng.standard_normal(cell.d - k)
        scores = Rows(first, null, plan.lattice.spacing * plan.lattice.bound, rng).scores() * first.shape[0]
        sums = np.rint(scores / plan.lattice.spacing).astype(np.int64)
        # The second half is independent of the first: fresh scores, fresh rows.
        second = rng.standard_normal((plan.n_release, k)) + mu[:k]
        rest = Rows(second, rng.standard_normal(cell.d - k), 1.0, rng)
        with Session.simulated(plan, rng) as session:
            made._release(Halves(np.abs(sums), rest), plan, session)
        made.plan_, made.n_features_in_ = plan, cell.d
        made._report(session.released, plan)
        low, high = made.confidence_interval()
        inside = (low <= mu[made.support_]) & (mu[made.support_] <= high)
        results.append((inside.mean(), np.sum((made.mean_ - mu) ** 2), np.mean(high - low)))
    return np.array(results)


def any_rows(cell: tuple[str, dict, int], replications: int, rng: np.random.Generator) -> np.ndarray:
    """Return of fits on rows of a law: coverage, width over the non-private one, and coverage without the bias."""
    law, way, n = cell
    mu, results = np.where(np.arange(12) < 4, 0.5, 0.0), []
    for _ in range(replications):
        given = {"n_nonzero": 4, "clip": 20.0, "split": True, "random_state": rng} | way
        made = SparseMean(**given).fit(draw(law, n, 12, rng) + mu)
        truth, (low, high) = mu[made.support_], made.confidence_interval()
        plain = np.abs(made.mean_[made.support_] - truth)
        plain = plain <= 1.959964 * np.hypot(math.sqrt(2 / n), made.plan_.noise_std)
        width = np.mean(high - low) / (2 * 1.959964 / math.sqrt(n / 2))
        results.append((np.mean((low <= truth) & (truth <= high)), width, plain.mean()))
    return np.array(results)


def skewed(cell: tuple[str, float | None, float], replications: int, rng: np.random.Generator) -> np.ndarray:
    """Return the share of five signals of .3 that is found: n = 2e4, d = 200."""
    law, clip, signal = cell
    mu, results = np.where(np.arange(200) < 5, signal, 0.0), []
    for _ in range(replications):
        made = SparseMean(n_nonzero=5, clip=20.0, std=1.0, selection_clip=clip, random_state=rng)
        made.fit(draw(law, 20_000, 200, rng) + mu)
        results.append([np.mean(made.support_ < 5)])
    return np.array(results)


def of_any_rows(replications: int, *, seed: int = 2026, jobs: int = 2, sizes=(2000, 40_000), laws=LAWS):
    """Return (n, law, way, coverage, relative width, coverage without the bias) of every law and way."""
    return [
        (n, law, name, *np.concatenate(in_blocks(any_rows, (law, way, n), replications, seed, jobs)).mean(axis=0))
        for n in sizes
        for law in laws
        for name, way in WAYS.items()
    ]


def of_skewed(replications: int, *, seed: int = 2026, jobs: int = 2):
    """Return (law, clip, threshold of normal columns, of any, share found)."""
    rows = []
    for law in ("normal", "exponential", "lognormal"):
        for clip in (1.0, None):
            plan = SparseMean(n_nonzero=5, clip=20.0, std=1.0, selection_clip=clip).plan(20_000, 200)
            found = np.concatenate(in_blocks(skewed, (law, clip, 0.3), replications, seed, jobs)).mean()
            used = plan.lattice.spacing * plan.lattice.bound
            rows.append((law, used, plan.selection_threshold, plan.selection_threshold_any, found))
    return rows


def in_blocks(work, cell, replications: int, seed: int, jobs: int) -> list:
    blocks = [(cell, size) for size in cut(replications, 10)]
    return run_blocks(work, blocks, random_state=seed, n_jobs=jobs)


def study(replications: int, *, seed: int = 2026, jobs: int = 2, cells=CELLS, splits=SPLITS, check: bool = True):
    """Return the rows of both tables: (cell, rival, error, its standard error, recovery); (cell, ...)."""
    compared, covered = [], []

    def summarise(cell: Cell, blocks: list, suffix: str = "") -> None:
        for name in blocks[0]:
            values = np.concatenate([block[name] for block in blocks])
            error = values[:, 0].std(ddof=1) / math.sqrt(len(values))
            compared.append((cell.name, name + suffix, values[:, 0].mean(), error, values[:, 1].mean()))

    for cell in cells:
        started = time.perf_counter()
        summarise(cell, in_blocks(compare, cell, replications, seed, jobs))
        print(f"{cell.name}: {time.perf_counter() - started:.1f} s", file=sys.stderr)
    if check:
        summarise(cells[0], in_blocks(full_data, cells[0], replications, seed + 1, jobs), ", all rows drawn")
    for cell in splits:
        values = np.concatenate(in_blocks(coverage, cell, 4 * replications, seed + 2, jobs))
        spread = values.std(axis=0, ddof=1) / math.sqrt(len(values))
        means = values.mean(axis=0)
        covered.append((cell.name, means[0], spread[0], means[1], spread[1], means[2]))
    return compared, covered


def as_markdown(compared: list, covered: list, laws: list, of_signals: list, replications: int) -> str:
    lines = [
        "# SparseMean against its rivals",
        "",
        f"2026-11-22. `python validation/studies/sparse_comparison.py --replications {replications}`. "
        "Normal rows of variance 1; d = 2000, s = 10, delta = 1e-6 and max_signal = 1 where nothing else is said. "
        "Summed squared error ± its "
        f"Monte Carlo standard error over {replications} datasets, and the share of the support that is found.",
        "",
        "*oracle*: told the support and the mean, private all the same: a floor. *printed*, *exact*: algorithm 9.2.2 "
        "with R = 1 + 2 sqrt(log n). *one stage*: Gumbel selection and one clipped mean; its law of selection is that "
        "of *gumbel*, the default, which releases in up to three stages. *half*: half of the privacy for the "
        "selection, and scores clipped at one standard deviation, as before shares and clips were planned; *pure* is "
        "the default at delta = 0, of which *share .6* was the plan before. Where hardly anything is found, reporting "
        "0 would be better: the plan says so beforehand.",
        "",
        "| cell | estimator | squared error | support found |",
        "|---|---|---|---|",
    ]
    for cell, name, mean, error, found in compared:
        share = "" if np.isnan(found) else f"{found:.2f}"
        lines.append(f"| {cell} | {name} | {mean:.4f} ± {error:.4f} | {share} |")
    lines += [
        "",
        f"## Intervals after selection (`split=True`), {4 * replications} datasets",
        "",
        "Share of 95% intervals, of the selected columns, that cover the mean; squared error of the split estimate; "
        "width. They count the largest bias that clipping can cause in any rows of this variance, which normal rows "
        "do not have.",
        "",
        "| cell | coverage | squared error | width |",
        "|---|---|---|---|",
    ]
    lines += [f"| {name} | {a:.3f} ± {b:.3f} | {c:.4f} ± {d:.4f} | {w:.3f} |" for name, a, b, c, d, w in covered]
    lines += [
        "",
        "## The same intervals on rows of any law",
        "",
        f"d = 12, s = 4, eps = 1, delta = 1e-6, signals .5, rows of variance 1; {max(1, replications // 4)} datasets "
        "of 4 intervals. Width over that of a non-private interval from the same half of the rows; in brackets, what "
        "covers where the bias of clipping is left out.",
        "",
        "| n | law | " + " | ".join(WAYS) + " |",
        "|---|---|" + "---|" * len(WAYS),
    ]
    for n, law in dict.fromkeys((n, law) for n, law, *_ in laws):
        cells = [f"{c:.3f}, {w:.1f} ({p:.2f})" for m, name, _, c, w, p in laws if (m, name) == (n, law)]
        lines.append(f"| {n} | {law} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "## What is found in skewed columns",
        "",
        "n = 2e4, d = 200, five signals of .3, eps = 1; scores clipped at one standard deviation, and as planned. "
        "Thresholds as the plan states them.",
        "",
        "| law | scores clipped at | found in normal columns above | in any above | share found |",
        "|---|---|---|---|---|",
    ]
    lines += [f"| {law} | {clip:g} | {a:.2g} | {b:.2g} | {share:.2f} |" for law, clip, a, b, share in of_signals]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--no-write", action="store_true")
    given = parser.parse_args()
    compared, covered = study(given.replications, jobs=given.jobs)
    fewer = max(1, given.replications // 4)
    laws, found = of_any_rows(fewer, jobs=given.jobs), of_skewed(max(1, fewer // 2), jobs=given.jobs)
    text = as_markdown(compared, covered, laws, found, given.replications)
    print(text)
    if not given.no_write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
