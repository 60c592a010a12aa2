"""Ours and others' libraries on the same datasets, at the same guarantee: error, interval and time, in one run.

Every task is at epsilon = 1 for one row that is replaced, pure where the peers are, else with delta = 1e-6. Error is
the root of the mean squared error over datasets, beside that of the estimate without privacy. A peer without an
interval has none in the table. dp-econometrics and BinAgg are in no package index: validation/results/regression.md
has what was measured of them. The peer of tables is AIM as published.

    python validation/benchmarks/peers.py             print the table
    python validation/benchmarks/peers.py --write     and write validation/results/benchmark_peers.md
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray
from timing import milliseconds, publish, table, versions, write_wanted

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
from aim import aim
from coinpress import coinpress_mean
from environment import run_in_peers

from dpstats.means import AdaptiveMean, ClippedMean
from dpstats.mechanisms import Histogram
from dpstats.privacy import compose, gaussian_sigma, zcdp_rho
from dpstats.privacy.events import Gaussian
from dpstats.quantiles import PrivateQuantile
from dpstats.queries import Domain, LinearQueries, MarginalMWEM, WorkloadAnswers
from dpstats.regression import PrivateLinearRegression

EPSILON, DELTA, SETS = 1.0, 1e-6, 60
Floats = NDArray[np.float64]


class Answer(NamedTuple):
    """What a library said of all datasets."""

    library: str
    estimates: Floats  # one row a dataset
    seconds: float
    ends: tuple[Floats, Floats] | None = None


class Task(NamedTuple):
    """A question, its datasets, the truth and the estimate without privacy."""

    name: str
    title: str
    sets: Floats
    truth: Floats
    plain: Floats


def run(library: str, task: Task, work: Callable[[Floats, int], Any]) -> Answer:
    """Ask a library about every dataset; ``work`` returns an estimate, or one and its interval."""
    start = time.perf_counter()
    done = [work(data, seed) for seed, data in enumerate(task.sets)]
    seconds = (time.perf_counter() - start) / len(done)
    if isinstance(done[0], tuple):
        estimates, low, high = (np.array([np.ravel(one[k]) for one in done]) for k in range(3))
        return Answer(library, estimates, seconds, (low, high))
    return Answer(library, np.array([np.ravel(one) for one in done]), seconds)


def with_interval(fitted: Any, estimate: Any, **asked: Any) -> tuple[Any, Any, Any]:
    low, high = fitted.confidence_interval(**asked)
    return estimate, low, high


def column_task(rng: np.random.Generator, kind: str) -> Task:
    sets = np.minimum(rng.exponential(1.0, (SETS, 1000)), 10.0)
    if kind == "mean":
        plain = sets.mean(axis=1)
        return Task("mean", "mean of 1,000 exponential numbers in [0, 10], pure", sets, np.ones(1), plain)
    return Task("median", "median of the same", sets, np.array([math.log(2)]), np.median(sets, axis=1))


def ours_mean(x: Floats, seed: int) -> Any:
    fitted = ClippedMean(bounds=(0, 10), epsilon=EPSILON, random_state=seed).fit(x[:, None])
    return with_interval(fitted, fitted.mean_)


def opendp_mean() -> Callable[[Floats, int], Any]:
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=1000)
    mean = (domain, dp.symmetric_distance()) >> dp.t.then_clamp((0.0, 10.0)) >> dp.t.then_mean()
    private = mean >> dp.m.then_laplace(scale=mean.map(2) / EPSILON)
    return lambda x, seed: private(x)


def ours_median(x: Floats, seed: int) -> Any:
    fitted = PrivateQuantile(0.5, bounds=(0, 10), epsilon=EPSILON, random_state=seed).fit(x)
    return with_interval(fitted, fitted.quantile_)


def opendp_median() -> Callable[[Floats, int], Any]:
    points = np.linspace(0, 10, 2001)
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=1000)
    scores = dp.t.make_quantile_score_candidates(domain, dp.symmetric_distance(), points.tolist(), alpha=0.5)

    def at(scale: float) -> Any:
        noisy = dp.m.make_noisy_max(
            scores.output_domain, scores.output_metric, dp.max_divergence(), scale=scale, negate=True
        )
        return scores >> noisy

    chosen = at(dp.binary_search_param(at, d_in=2, d_out=EPSILON, bounds=(1e-3, 1e9)))
    return lambda x, seed: points[chosen(x)]


def counts_task(rng: np.random.Generator) -> Task:
    shares = np.arange(1, 11) / 55
    sets = rng.choice(10, (SETS, 1000), p=shares).astype(float)
    plain = np.array([np.bincount(x.astype(int), minlength=10) for x in sets])
    return Task("counts", "counts of 10 categories among 1,000, pure", sets, plain.astype(float), plain)


def ours_counts(x: Floats, seed: int) -> Any:
    made = Histogram(list(range(10)), EPSILON, random_state=seed).release(x.astype(int))
    return with_interval(made, made.counts)


def opendp_counts() -> Callable[[Floats, int], Any]:
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    counted = dp.t.make_count_by_categories(domain, dp.symmetric_distance(), list(range(10)), null_category=False)
    private = counted >> dp.m.then_laplace(scale=counted.map(2) / EPSILON)
    return lambda x, seed: private(x.astype(int).tolist())


def means_task(rng: np.random.Generator) -> Task:
    centers = rng.uniform(-10, 10, (SETS, 50))
    sets = centers[:, None, :] + rng.standard_normal((SETS, 1000, 50))
    title = "means of 1,000 rows of 50 normal numbers, sd 1, known to lie within 10 of 0, delta = 1e-6"
    return Task("means", title, sets, centers, sets.mean(axis=1))


def ours_means(X: Floats, seed: int) -> Any:
    made = AdaptiveMean(epsilon=EPSILON, delta=DELTA, bound=10.0, std=1.0, random_state=seed).fit(X)
    return with_interval(made, made.mean_, estimand="tails")


def opendp_means() -> Callable[[Floats, int], Any]:
    clip = 14.0
    sigma = gaussian_sigma(EPSILON, DELTA, math.sqrt(50) * 2 * clip / 1000)
    domain = dp.vector_domain(dp.atom_domain(T="f64", nan=False)), dp.l2_distance(T="f64")
    noise = dp.m.make_gaussian(*domain, scale=sigma)
    return lambda X, seed: np.array(noise(np.clip(X, -clip, clip).mean(axis=0)))


def regression_task(rng: np.random.Generator) -> Task:
    slopes = np.array([0.5, -0.3, 0.2])
    X = np.clip(rng.standard_normal((SETS, 5000, 3)), -4, 4)
    y = np.clip(X @ slopes + rng.standard_normal((SETS, 5000)), -8, 8)
    plain = np.array(
        [np.linalg.lstsq(np.column_stack([np.ones(5000), a]), b)[0][1:] for a, b in zip(X, y, strict=True)]
    )
    title = "slopes of 5,000 rows on 3 normal columns in [-4, 4], delta = 1e-6 (diffprivlib: pure)"
    return Task("regression", title, np.concatenate([X, y[:, :, None]], axis=2), slopes, plain)


def ours_regression(data: Floats, seed: int) -> Any:
    made = PrivateLinearRegression(
        epsilon=EPSILON, delta=DELTA, x_bounds=(-4, 4), y_bounds=(-8, 8), random_state=seed
    ).fit(data[:, :-1], data[:, -1])
    ends = made.confidence_interval()
    return made.coef_, np.asarray(ends.low)[-3:], np.asarray(ends.high)[-3:]


SHAPE = (3, 4, 2, 5, 3, 4)


def tables_task(rng: np.random.Generator) -> tuple[Task, LinearQueries]:
    domain = Domain({f"a{j}": list(range(size)) for j, size in enumerate(SHAPE)})
    queries = LinearQueries.marginals(domain, 2)
    shares = rng.dirichlet(np.full(math.prod(SHAPE), 0.05))
    sets = rng.multinomial(5000, shares, 12).astype(float)
    exact = np.array([np.asarray(queries.answers(x / 5000)) for x in sets])
    title = "all tables of two of six attributes, a domain of 1,440 cells, 5,000 rows, as shares, delta = 1e-6"
    return Task("tables", title, sets, exact, exact), queries


def ours_tables(kind: Any, domain: Domain) -> Callable[[Floats, int], Any]:
    def work(x: Floats, seed: int) -> Any:
        rows = np.repeat(np.argwhere(x.reshape(SHAPE) >= 0), x.astype(int), axis=0)
        made = kind(domain=domain, workload=2, epsilon=EPSILON, delta=DELTA, random_state=seed).fit(rows)
        # Marginals learned in rounds have error bounds, and no intervals.
        return with_interval(made, made.answers_) if kind is WorkloadAnswers else made.answers_

    return work


def their_tables(queries: Any) -> Callable[[Floats, int], Any]:
    def work(x: Floats, seed: int) -> Any:
        rho = zcdp_rho(EPSILON, DELTA)
        p = aim(x.reshape(SHAPE), list(queries.tables), rho, np.random.default_rng(seed))
        return queries.answers(p.ravel())

    return work


def accounting() -> Iterator[list[str]]:
    """Yield the epsilon of 1000 Gaussian releases at delta = 1e-6, and the milliseconds that it takes."""
    import dp_accounting
    from dp_accounting import pld

    def theirs() -> float:
        one = pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
        return float(one.compose(dp_accounting.GaussianDpEvent(50.0), 1000).get_epsilon(DELTA))

    cases: dict[str, Callable[[], float]] = {
        "dpstats, `compose`": lambda: compose([Gaussian(1 / 50)] * 1000, DELTA).epsilon,
        "dp_accounting": theirs,
    }
    for library, total in cases.items():
        total()
        start = time.perf_counter()
        epsilon = total()
        yield [library, f"{epsilon:.5f}", milliseconds([time.perf_counter() - start])]


def diffprivlib(tasks: list[Task]) -> tuple[dict[str, Answer], dict[str, str]]:
    """Return diffprivlib's answers, none where it cannot be installed, and its version."""
    with tempfile.TemporaryDirectory() as folder:
        for task in tasks:
            np.savez(Path(folder) / f"{task.name}.npz", sets=task.sets)
        script = Path(__file__).resolve().parents[1] / "peers" / "diffprivlib_tasks.py"
        try:
            told = run_in_peers(script, folder)
        except (OSError, subprocess.CalledProcessError):
            return {}, {}
    answers = {
        name: Answer("diffprivlib", np.array(found["answers"]).reshape(SETS, -1), found["seconds"])
        for name, found in told["found"].items()
    }
    return answers, {"diffprivlib": told["version"]}


def described(task: Task, answer: Answer) -> list[str]:
    """Return the row of a library: its error over that of the estimate without privacy, its interval and its time."""
    truth = (
        np.broadcast_to(task.truth.reshape(len(task.truth), -1), answer.estimates.shape)
        if (task.truth.ndim > 1)
        else np.broadcast_to(task.truth, answer.estimates.shape)
    )

    def error(estimates: Floats) -> float:
        return float(np.sqrt(np.mean((estimates.reshape(truth.shape) - truth) ** 2)))

    own, plain = error(answer.estimates), error(np.asarray(task.plain, dtype=float))
    covered = width = ""
    if answer.ends is not None:
        low, high = answer.ends
        covered = f"{np.mean((low <= truth) & (truth <= high)):.3f}"
        width = f"{np.median(high - low):.3g}"
    over = f"{own / plain:.3g}" if plain > 0 else ""
    return [answer.library, f"{own:.3g}", over, covered, width, milliseconds([answer.seconds])]


def main() -> None:
    write = write_wanted(__doc__)
    dp.enable_features("contrib")
    rng = np.random.default_rng(2026)
    mean, median, counts = column_task(rng, "mean"), column_task(rng, "median"), counts_task(rng)
    means, regression = means_task(rng), regression_task(rng)
    tables, queries = tables_task(rng)
    domain = queries.domain
    asked: dict[str, tuple[Task, dict[str, Callable[[Floats, int], Any]]]] = {
        "mean": (mean, {"dpstats, with the spread": ours_mean, "OpenDP": opendp_mean()}),
        "median": (median, {"dpstats": ours_median, "OpenDP": opendp_median()}),
        "counts": (counts, {"dpstats": ours_counts, "OpenDP": opendp_counts()}),
        "means": (
            means,
            {
                "dpstats, `AdaptiveMean`": ours_means,
                "CoinPress, two rounds (written from its paper)": lambda X, seed: coinpress_mean(
                    X, 10.0, EPSILON, DELTA, 2, np.random.default_rng(seed)
                ),
                "OpenDP, one clip": opendp_means(),
            },
        ),
        "regression": (regression, {"dpstats": ours_regression}),
        "tables": (
            tables,
            {
                "dpstats, `WorkloadAnswers`": ours_tables(WorkloadAnswers, domain),
                "dpstats, `MarginalMWEM`": ours_tables(MarginalMWEM, domain),
                "AIM (written from its paper)": their_tables(queries),
            },
        ),
    }
    theirs, packages = diffprivlib([mean, median, counts, means, regression])
    parts = []
    for name, (task, libraries) in asked.items():
        answers = [run(library, task, work) for library, work in libraries.items()]
        answers += [theirs[name]] if name in theirs else []
        header = ["", "error", "over the sample's", "coverage of 95% intervals", "their median width", "ms"]
        rows = [described(task, answer) for answer in answers]
        parts += [f"## {task.title[0].upper()}{task.title[1:]}", "", table(header, rows), ""]
    parts += ["## Epsilon of 1,000 Gaussian releases (sigma = 50) at delta = 1e-6", ""]
    parts.append(table(["", "epsilon", "ms"], accounting()))
    note = (
        f"epsilon = {EPSILON:g} for one row replaced; {SETS} datasets a task ({len(tables.sets)} of tables), the same "
        "for all; error is the root of the mean square. Ours draws simulated noise here, of the exact law; exact noise "
        "takes longer ([benchmark_mean.md](benchmark_mean.md)). dp-econometrics and BinAgg: "
        "[regression.md](regression.md)."
    )
    publish(
        "benchmark_peers",
        "Ours and others on the same datasets",
        "\n".join([note, "", *parts]),
        versions("dpstats", "numpy", "opendp", "dp-accounting") | packages,
        write=write,
    )


if __name__ == "__main__":
    main()
