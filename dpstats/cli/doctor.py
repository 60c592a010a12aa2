"""Commands without data of the user: ``dpstats doctor``, ``dpstats demo`` and ``dpstats simulate``."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpstats import __version__
from dpstats.cli.options import QUIET, add_options, add_output
from dpstats.cli.output import epilog, opened, output, shows_progress, tell
from dpstats.cli.sql_and_ledgers import tell_checks
from dpstats.errors import BudgetExceeded, InvalidParameter, refuse

if TYPE_CHECKING:
    from dpstats.inference.reports import Page
    from dpstats.inference.results import Summary
    from dpstats.means import ClippedMean
    from dpstats.release.receipts import Check

# Checks of an installation

# Every check takes well under a second. No check reads the user's data, and no file remains.

REQUIRED = (
    *("numpy", "scipy", "scikit-learn", "threadpoolctl", "statsmodels", "opendp", "dp-accounting", "joblib", "tqdm"),
    *("narwhals", "pandas"),
)
OPTIONAL = {
    "matplotlib": "plot",
    "duckdb": "sql",
    "sqlglot": "sql",
    "psycopg": "postgres",
    "formulaic": "formula",
    "pyarrow": "parquet",
    "dask": "distributed",
    "pyspark": "spark",
    "polars": "",
}
"""Packages and the extra of dpstats that installs each; some have none."""
_DRAWS = 1000
_FALSE_ALARM = 1e-9


def diagnose(folder: Path | str = ".") -> list[Check]:
    """Return the result of every check.

    Parameters
    ----------
    folder : path
        Folder of the ledgers.

    Examples
    --------
    >>> import tempfile
    >>> from dpstats.cli.doctor import diagnose
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checks = diagnose(folder)
    >>> all(check.passed for check in checks)
    True
    >>> [check.name for check in checks][:3]
    ['dpstats', 'required packages', 'optional packages']
    """
    return list(_checks(Path(folder)))


def _checks(folder: Path) -> Iterator[Check]:
    from dpstats.release.receipts import Check

    yield Check("dpstats", True, f"{__version__}, Python {platform.python_version()}, {platform.platform(terse=True)}")
    least = _least_versions()
    for kind, extras in (("required", dict.fromkeys(REQUIRED, "")), ("optional", OPTIONAL)):
        found = [_version(name, extra, least.get(name, "0"), kind) for name, extra in extras.items()]
        yield Check(f"{kind} packages", all(fits for fits, _ in found), ", ".join(words for _, words in found))
    checks: dict[str, Callable[[], tuple[bool, str]]] = {
        "random numbers": _entropy,
        "linear algebra": _linear_algebra,
        "exact noise": _exact_noise,
        "ledger": lambda: _ledger(folder),
    }
    for name, check in checks.items():
        try:
            yield Check(name, *check())
        except Exception as error:  # an installation may be broken in any way
            yield Check(name, False, f"{type(error).__name__}: {error}")


def _least_versions() -> dict[str, str]:
    """Return the oldest version of each package that dpstats declares, also for its extras."""
    import importlib.metadata

    declared = (re.match(r"([\w-]+)[^>;]*>=([\d.]+)", each) for each in importlib.metadata.requires("dpstats") or ())
    return {found[1]: found[2] for found in declared if found}


def _version(package: str, extra: str, least: str, kind: str) -> tuple[bool, str]:
    """Return whether a package is as new as declared, or optional and missing, and words about it."""
    import importlib.metadata

    remedy = f" (pip install 'dpstats[{extra}]')" if extra else ""
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return kind == "optional", f"{package} missing{remedy}"
    if _numbers(version) < _numbers(least):
        return False, f"{package} {version}, older than {least}{remedy}"
    return True, f"{package} {version}"


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, without what follows them: 1.26.0rc1 is 1.26.0."""
    return tuple(int(part) for part in re.match(r"[\d.]*", version)[0].strip(".").split(".") if part)  # type: ignore[index]


def _entropy() -> tuple[bool, str]:
    first, second = os.urandom(32), os.urandom(32)
    bits = sum(byte.bit_count() for byte in first + second)
    # Of 512 fair bits, fewer than 150 or more than 362 have a probability of 1e-20.
    return first != second and 150 <= bits <= 362, "the operating system's generator answers"


def _linear_algebra() -> tuple[bool, str]:
    import numpy as np
    from threadpoolctl import threadpool_info

    rows = np.arange(12.0).reshape(4, 3)
    right = bool(np.array_equal(rows.T @ rows, np.einsum("ij,ik->jk", rows, rows)))
    pools = sorted(
        {
            f"{pool['internal_api']} {pool['version'] or ''}, {pool['num_threads']} "
            f"thread{'s' * (pool['num_threads'] != 1)}"
            for pool in threadpool_info()
        }
    )
    return right, "; ".join(pools) or "no pool of threads"


def _exact_noise() -> tuple[bool, str]:
    """Compare the noise of one release with its distribution, by Kolmogorov and Smirnov's distance."""
    import numpy as np

    from dpstats.mechanisms import LaplaceMechanism

    released = np.sort(LaplaceMechanism(sensitivity=1.0, epsilon=1.0).release(np.zeros(_DRAWS)))
    exact = np.where(released < 0, np.exp(released) / 2, 1 - np.exp(-released) / 2)
    places = np.arange(_DRAWS + 1) / _DRAWS
    distance = float(max(np.max(exact - places[:-1]), np.max(places[1:] - exact)))
    limit = math.sqrt(math.log(2 / _FALSE_ALARM) / (2 * _DRAWS))
    repeated = len(np.unique(released)) < _DRAWS
    return distance <= limit and not repeated, (
        f"{_DRAWS:,} draws of Laplace noise: distance {distance:.3f} from their distribution, limit {limit:.3f}"
    )


def _ledger(folder: Path) -> tuple[bool, str]:
    import tempfile

    from dpstats.privacy import PrivacyBudget

    with tempfile.TemporaryDirectory(prefix="dpstats-doctor-", dir=folder) as inside:
        path = Path(inside) / "ledger.db"
        PrivacyBudget(0.25, ledger=path)
        kept = path.stat().st_size > 0 and PrivacyBudget(0.25, ledger=path).remaining.epsilon == 0.25
    return kept, f"a ledger can be written and read in {str(folder.resolve())!r}"


_BROKEN = 6
_FOLDER = """
    --folder FOLDER, default .
        folder of the ledgers (default: the current one)
    --json
        print JSON in place of the table
"""


def add_doctor(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "doctor",
        help="check the installation: versions, randomness, exact noise, a ledger",
        description="Check versions, the source of random numbers, linear algebra and its threads, optional packages, "
        "one exact release against its distribution, and that a ledger can be written. No file remains.",
        epilog=epilog(),
    )
    add_options(parser, _FOLDER + QUIET)
    parser.set_defaults(run=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    return tell_checks(diagnose(options.folder), options, _BROKEN)


# The demonstration: private means of the RAND Health Insurance Experiment

# 20,190 person-years, as shipped with statsmodels. The data are public, which is why this demonstration may show
# non-private values next to the private ones.

ROWS_PER_PERSON = 5
"""Each person was enrolled for three or five years: at most five rows are theirs."""


@dataclass(frozen=True)
class Column:
    """A column and the bounds that are public knowledge about it."""

    name: str
    label: str
    low: float
    high: float
    why: str


COLUMNS = (
    Column("mdvis", "visits to a doctor in the year", 0, 52, "one a week"),
    Column("disea", "index of chronic diseases", 0, 60, "a generous range for the index"),
    Column("physlm", "has a physical limitation", 0, 1, "a yes/no question"),
    Column("hlthg", "health rated good", 0, 1, "a yes/no question"),
    Column("hlthf", "health rated fair", 0, 1, "a yes/no question"),
    Column("hlthp", "health rated poor", 0, 1, "a yes/no question"),
)
EPSILON, DELTA = 1.0, 1e-6
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0)
SIMULATION_SEED = 1974


def load() -> Any:
    """Return the demonstration's columns of the RAND data as a data frame."""
    from statsmodels.datasets import randhie

    return randhie.load_pandas().data[[column.name for column in COLUMNS]]


def estimator(epsilon: float = EPSILON, **options: Any) -> ClippedMean:
    """Return the demonstration's estimator: public bounds, private standard deviation."""
    from dpstats.means import ClippedMean

    bounds = {column.name: (column.low, column.high) for column in COLUMNS}
    return ClippedMean(**{"epsilon": epsilon, "delta": DELTA, "bounds": bounds, **options})


def run(out: Path) -> str:
    """Run the demonstration, write its picture and page under ``out``, and return what to print."""
    import numpy as np

    from dpstats.plots import plot_intervals_by_epsilon
    from dpstats.privacy import PrivacyBudget, group_privacy

    data = load()
    truth = data.mean().to_numpy()
    budget = PrivacyBudget(epsilon=1.5, delta=2e-6)
    mean = estimator(budget=budget).fit(data)
    person = group_privacy(mean.privacy_, ROWS_PER_PERSON, unit="person")
    table = comparison(mean, truth)
    try:
        estimator(budget=budget).fit(data)
        refusal = "unexpectedly, the second release was paid for"
    except BudgetExceeded as error:
        refusal = str(error)

    generator = np.random.default_rng(SIMULATION_SEED)
    simulations = [estimator(epsilon, random_state=generator).fit(data) for epsilon in EPSILONS]
    figure = plot_intervals_by_epsilon(
        [column.name for column in COLUMNS],
        EPSILONS,
        [simulation.mean_ for simulation in simulations],
        [simulation.confidence_interval() for simulation in simulations],
        reference=truth,
        labels=[f"{column.name}: {column.label}" for column in COLUMNS],
        title="Private means and 95% intervals, by epsilon (simulated noise)",
    )
    facts = [
        ("Privacy spent, per row", str(budget.spent)),
        ("Privacy left, per row", str(budget.remaining)),
        (f"Privacy spent, per person (at most {ROWS_PER_PERSON} rows)", str(person)),
        ("The same release again", refusal),
    ]
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "means_by_epsilon.png", dpi=144)
    page = _page(mean, table, facts, figure)
    page.write(out / "index.html")
    width = max(len(name) for name, _ in facts)
    lines = [
        table.as_text(),
        "",
        price_per_person().as_text(),
        "",
        *(f"{name + ':':<{width + 1}} {value}" for name, value in facts),
    ]
    return "\n".join([*lines, "", f"Wrote {out / 'index.html'} and {out / 'means_by_epsilon.png'}"])


def comparison(mean: ClippedMean, truth: Any) -> Summary:
    """Return the estimator's summary with the non-private mean next to each estimate."""
    from dpstats.inference.results import Summary, significant

    summary = mean.summary()
    rows = [
        (*row, significant(value, error))
        for row, value, error in zip(summary.rows, truth, mean.noise_std_, strict=True)
    ]
    notes = [*summary.notes, "The last column is not private; it can be shown because these data are public."]
    return Summary(
        "RAND Health Insurance Experiment: private means", summary.facts, (*summary.columns, "not private"), rows, notes
    )


def price_per_person() -> Summary:
    """Return the additional noise that protects a person with all rows, from the plans alone."""
    import numpy as np

    from dpstats.inference.results import Summary
    from dpstats.means.moments import MEAN
    from dpstats.privacy import group_privacy

    epsilon = EPSILON / ROWS_PER_PERSON
    # The delta of a row that is DELTA for a person, by theorem 2.2, less a hundredth for rounding.
    delta = 0.99 * DELTA * math.expm1(epsilon) / math.expm1(EPSILON)
    n, d = load().shape
    plans = [estimator().plan(n, d), estimator(epsilon, delta=delta).plan(n, d)]
    person = group_privacy(plans[1].guarantee, ROWS_PER_PERSON, unit="person")
    noises = [np.asarray(plan.noise(MEAN).std).tolist() for plan in plans]
    rows = [
        (column.name, f"{row:.3g}", f"{group:.3g}", f"{group / row:.2f}")
        for column, row, group in zip(COLUMNS, *noises, strict=True)
    ]
    return Summary(
        "What protecting a person costs: standard deviations of the noise of each mean",
        [("A row protected", str(plans[0].guarantee)), ("A person protected", str(person))],
        ("column", "row protected", "person protected", "ratio"),
        rows,
        [
            f"A person is protected by group privacy for at most {ROWS_PER_PERSON} rows, because these data have no "
            "column of people.",
            "With such a column, combine the rows of each person (dpstats.groups.one_row_per_unit). The noise is then "
            "smaller, and intervals are right for people, whose rows resemble each other.",
        ],
    )


def _page(mean: ClippedMean, table: Summary, facts: list[tuple[str, str]], figure: Any) -> Page:
    import platform

    from dpstats.inference.reports import Page

    page = Page(
        "Private means of the RAND Health Insurance Experiment",
        "20,190 person-years of outpatient visits and health; one release under a privacy budget.",
    )
    page.section("What is public")
    page.text(
        "The number of rows, the names of the columns, and these bounds. Bounds have to come from knowledge of "
        "the questions asked, never from the private rows:"
    )
    page.table(
        ["column", "meaning", "from", "to", "because"],
        [[c.name, c.label, f"{c.low:g}", f"{c.high:g}", c.why] for c in COLUMNS],
    )
    page.section("The release")
    page.summary(table)
    page.section("What it means for a row")
    page.code(mean.privacy_.explain())
    page.section("What it cost")
    page.table(["", ""], [[name, value] for name, value in facts])
    page.section("What protecting a person costs")
    page.summary(price_per_person())
    page.section("How precision depends on epsilon")
    page.picture(
        figure,
        "Estimates and 95% intervals at five values of epsilon, delta = 1e-6; dashed: the non-private mean. Drawn "
        "with simulated noise: five real releases would add up to the sum of their epsilons.",
    )
    page.section("Reproduce")
    page.code(f"python -m dpstats demo\n\ndpstats {__version__}, Python {platform.python_version()}")
    return page


def add_demo(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "demo",
        help="private means of real data, with a picture and a page",
        description="Release private means of the RAND Health Insurance Experiment, draw a figure, and write a page "
        "that describes the release.",
        epilog=epilog(),
    )
    out = """
    --out OUT, path, default demo-output
        folder to write to (default: demo-output)
    """
    add_options(parser, out + QUIET)
    parser.set_defaults(run=_demo)


def _demo(options: argparse.Namespace) -> None:
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        got = f"{str(options.out)!r} ({error.strerror})"
        raise refuse("--out", got=got, allowed="name a folder, there or to be made") from None
    tell(run(options.out))


# Simulations

_STUDY = """
    name NAME
        mean-rate, sparse-rate, coverage or power
    --grid JSON
        lists of public parameters in place of the study's: '{"n": [100, 400]}'
    --reps N, int
        datasets in every cell of the grid
    --jobs J, int, default 1
        processes; -1 is one per core
    --out FILE, path
        keep (and resume) the rows in this file
    --retry-failed
        run the failed replications of --out again
    --seed SEED, int, default 0
    --report FILE, path
        write a self-contained HTML page
"""


def add_simulate(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "simulate",
        help="measure an estimator or a test on simulated data, and compare with the theory",
        description="Run a named study: simulated data and simulated noise, never a release. With --out the rows are "
        "kept in a file as they finish, and a study that was interrupted goes on where it was.",
        epilog=epilog(),
    )
    add_options(parser, _STUDY)
    add_output(parser)
    parser.set_defaults(run=_simulate)


def _simulate(options: argparse.Namespace) -> None:
    from dpstats.simulation.study_report import named_study

    entry = named_study(options.name)
    study = entry.study(options.name, _grid(options.grid), options.reps, options.seed)
    # Opened before the work, so that a path that cannot be written is refused at once.
    with output(options) as show, opened("--report", options.report) as write_page:
        results = _run(study, options)
        findings, note = entry.conclusions(results)
        facts = {
            "study": options.name,
            **{key.lower(): value for key, value in results.facts.items()},
            "simulated": True,
            "cells": results.as_records(),
            "failures": results.failure_notes(),
            "findings": [
                {
                    "finding": table.title,
                    "verdict": finding.verdict,
                    "rows": [dict(zip(table.columns, row, strict=True)) for row in table.rows],
                }
                for finding in findings
                for table in [finding.summary()]
            ],
        }
        show("\n\n".join([str(results), *(str(finding) for finding in findings), *note]), facts)
        if write_page is not None:
            from dpstats.simulation import study_report

            pictures = {entry.title: entry.picture(results)}
            report = study_report(results, title=entry.title, findings=findings, pictures=pictures)
            write_page(report.as_html())


def _grid(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise refuse("--grid", given=text, allowed="JSON, such as '{\"n\": [100]}'") from None


def _run(study: Any, options: argparse.Namespace) -> Any:
    from dpstats.simulation.store import StudyFileError

    try:
        return study.run(
            options.out, n_jobs=options.jobs, progress=shows_progress(options), retry_failed=options.retry_failed
        )
    except StudyFileError as error:
        raise InvalidParameter(f"--out {error}" if options.out is not None else str(error)) from None
