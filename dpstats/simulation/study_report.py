"""The report of a study: one self-contained HTML page."""

from __future__ import annotations

import contextlib
import importlib.util
import platform
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpstats.errors import InvalidParameter
from dpstats.report import Page, page_of
from dpstats.simulation.pictures import plot_risk
from dpstats.simulation.rate_fit import RateFit, fit_rate
from dpstats.simulation.table import MOST_FAILED, StudyResults
from dpstats.simulation.versions import versions

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_SHARES = ("support_recovery", "coverage", "simultaneous_coverage", "rejection")
"""Losses that are shares, which have levels and no rates."""


def study_report(
    results: StudyResults | Sequence[StudyResults],
    *,
    title: str = "",
    findings: Iterable[Any] | None = None,
    pictures: Mapping[str, Figure] | None = None,
    command: str | None = None,
) -> Page:
    """Return a page with everything that a reader needs to believe a study, or to run it again.

    Parameters
    ----------
    results : StudyResults or sequence of StudyResults
    title : str, optional
    findings : iterable of RateFit, FormulaFit, Check or CrossingPoint, optional
        Anything with ``summary()``. Default: the rate in each parameter that takes at least three positive
        values, of each loss that is not a proportion.
    pictures : mapping of str to Figure, optional
        Figures by caption. Default: each loss against such a parameter, with the line of its rate.
    command : str, optional
        Default: the command line of this process.

    Returns
    -------
    Page
        ``write(path)`` writes it; ``as_html()`` is the file's text.

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.simulation import Rademacher, Study, study_report
    >>> results = Study(Rademacher(), ClippedMean(clip=1.0), {"n": [10], "d": [1]}, 5).run()
    >>> "Seed" in study_report(results, title="A small study").as_html()
    True
    """
    studies = [results] if isinstance(results, StudyResults) else list(results)
    page = Page(title or f"Study: {studies[0].name}", "Simulated data and simulated noise; not a release.")
    parts = [part for study in studies for part in _each_estimator(study)]
    rates = [(part, *found) for part in parts for found in rates_of(part)]
    if findings is None:
        named = [(part.name, rate.summary()) for part, *_, rate in rates if rate is not None]
        several = len(parts) > len(studies)
        found = [replace(one, title=f"{one.title}: {name}") if several else one for name, one in named]
    else:
        found = [finding.summary() for finding in findings]
    if found:
        page.section("Findings")
        for one in found:
            page.summary(one, titled=True)
    drawn = _pictures(rates) if pictures is None else pictures
    if drawn:
        page.section("Pictures")
        for caption, figure in drawn.items():
            page.picture(figure, caption)
    page.section("Failures")
    failures = [
        f"{study.name}: {note}" if len(studies) > 1 else note
        for study in studies
        for note in study.failure_notes()
    ]
    if failures:
        page.text(
            "These replications raised; the others went on, and count. Fits use a cell where at most "
            f"{MOST_FAILED:.0%} of its replications failed, and leave it out where more did."
        )
        for note in failures:
            page.text(note)
    else:
        page.text("No replication failed.")
    for study in studies:
        summary = study.summary()
        page.section("Results" if len(studies) == 1 else f"Results: {study.name}")
        if len(study.by_estimator()) > 1:
            for loss in study.losses:
                page.summary(replace(study.side_by_side(loss), notes=[]), titled=True)
        # Failures are above.
        page.summary(replace(summary, notes=study.version_notes()))
    page.section("How to run it again")
    page.code(command_line() if command is None else command)
    page.table([], [[name, value] for name, value in provenance(studies).items()])
    return page


@page_of.register
def _page_of_results(results: StudyResults, title: str | None = None) -> Page:
    return study_report(results, title=title or "")


def rates_of(results: StudyResults) -> list[tuple[str, str, RateFit | None]]:
    """Return the losses, the parameters of possible rates, and the rates (None for a loss that is a proportion).

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.simulation import Rademacher, Study
    >>> from dpstats.simulation.study_report import rates_of
    >>> study = Study(Rademacher(), ClippedMean(clip=1.0), {"n": [10, 20, 40], "d": [1]}, 5)
    >>> [(loss, parameter) for loss, parameter, rate in rates_of(study.run())]
    [('squared_error', 'n')]
    """
    found: list[tuple[str, str, RateFit | None]] = []
    for loss in results.losses:
        for parameter in _numeric(results):
            rate = None
            if loss not in _SHARES:
                with contextlib.suppress(InvalidParameter):  # too few cells of a parameter in one group, say
                    rate = fit_rate(results, parameter, loss=loss)
            found.append((loss, parameter, rate))
    return found


def _each_estimator(study: StudyResults) -> list[StudyResults]:
    """Return the study, or a study of each of its named estimators: each has rates of its own."""
    parts = study.by_estimator()
    if len(parts) < 2:
        return [study]
    return [replace(part, name=f"{study.name}, {name}") for name, part in parts.items()]


def _numeric(results: StudyResults) -> list[str]:
    """Return the parameters that take at least three values, all positive numbers."""
    names = dict.fromkeys(key for cell in results.cells for key in cell.parameters)
    found = []
    for name in names:
        values = [cell.parameters.get(name) for cell in results.cells]
        numbers = [
            value for value in values if isinstance(value, int | float) and not isinstance(value, bool)
        ]
        if len(numbers) == len(values) and min(numbers) > 0 and len(set(numbers)) > 2:
            found.append(name)
    return found


def _pictures(rates: Sequence[tuple[StudyResults, str, str, RateFit | None]]) -> dict[str, Figure]:
    """Return pictures of losses against parameters, by caption; none where matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        return {}
    drawn = {}
    for study, loss, parameter, rate in rates:
        words = f"{loss.replace('_', ' ')} against {parameter}; bars are two Monte Carlo standard errors"
        share = loss in _SHARES
        caption = (
            f"{study.name}: {words}."
            if len({id(item[0]) for item in rates}) > 1
            else f"{words[0].upper()}{words[1:]}."
        )
        with contextlib.suppress(ValueError):  # a loss that is not positive, on logarithmic axes
            drawn[caption] = plot_risk(study, parameter, loss=loss, rate=rate, logarithmic=not share)
    return drawn


def command_line() -> str:
    """Return the command line of this process, without the folder of its interpreter."""
    first = Path(sys.argv[0])
    name = "dpstats" if first.name == "__main__.py" else first.name
    if first.suffix == ".py" and name != "dpstats":
        try:
            name = f"python {first.resolve().relative_to(Path.cwd())}"
        except ValueError:
            name = f"python {first.name}"
    return " ".join([name, *(shlex.quote(argument) for argument in sys.argv[1:])])


def provenance(studies: Sequence[StudyResults]) -> dict[str, str]:
    """Return versions, seeds, time and machine, as a report states them.

    The versions are the versions with which the rows were computed. If a study does not store them, they are
    the versions of this process.
    """
    seeds = sorted({study.facts["Seed"] for study in studies if "Seed" in study.facts})
    found: dict[str, dict[str, None]] = {}
    for study in studies:
        for used in study.versions or (versions(),):
            for package, number in used.items():
                found.setdefault(package, {})[number] = None
    stated = {package: " and ".join(numbers) for package, numbers in found.items()}
    return {
        "Date (UTC)": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        "Seed": ", ".join(seeds),
        "Time": f"{sum(study.seconds for study in studies):,.1f} seconds of processes",
        "Python": f"{stated.pop('Python', platform.python_version())}, {platform.system()} {platform.machine()}",
        **stated,
    }
