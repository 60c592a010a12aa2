"""``dpstats demo``: private means of the RAND Health Insurance Experiment, with a picture and a page.

20,190 person-years, as shipped with statsmodels. The data are public, which is
why this demonstration may show non-private values next to the private ones.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpstats import __version__
from dpstats.cli.exits import epilog
from dpstats.cli.files import tell
from dpstats.cli.options import QUIET, add_options
from dpstats.errors import BudgetExceeded, refuse

if TYPE_CHECKING:
    from dpstats.means import ClippedMean
    from dpstats.report import Page
    from dpstats.results import Summary

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
        ("Asking for the same again", refusal),
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
    from dpstats.results import Summary, significant

    summary = mean.summary()
    rows = [
        (*row, significant(value, error))
        for row, value, error in zip(summary.rows, truth, mean.noise_std_, strict=True)
    ]
    notes = [*summary.notes, "The last column is not private; it can be shown because these data are public."]
    return Summary(
        "RAND Health Insurance Experiment: private means",
        summary.facts,
        (*summary.columns, "not private"),
        rows,
        notes,
    )


def price_per_person() -> Summary:
    """Return the additional noise that protects a person with all rows, from the plans alone."""
    import numpy as np

    from dpstats.means.moments import MEAN
    from dpstats.privacy import group_privacy
    from dpstats.results import Summary

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
            f"By group privacy of at most {ROWS_PER_PERSON} rows a person; these data do not say whose a row is.",
            "Where they do, one row per person costs less, and its intervals are right for persons, whose rows are "
            "alike: see dpstats.groups.one_row_per_unit.",
        ],
    )


def _page(mean: ClippedMean, table: Summary, facts: list[tuple[str, str]], figure: Any) -> Page:
    import platform

    from dpstats.report import Page

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
