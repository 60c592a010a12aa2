"""The report of a study: one self-contained HTML page."""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpstats.report import Page
from dpstats.simulation.table import StudyResults
from dpstats.simulation.versions import versions

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def study_report(
    results: StudyResults | Sequence[StudyResults],
    *,
    title: str = "",
    findings: Iterable[Any] = (),
    pictures: Mapping[str, Figure] | None = None,
    command: str | None = None,
) -> Page:
    """Return a page with everything that a reader needs to believe a study, or to run it again.

    Parameters
    ----------
    results : StudyResults or sequence of StudyResults
    title : str, optional
    findings : iterable of RateFit, FormulaFit, Check or CrossingPoint
        Anything with ``summary()``.
    pictures : mapping of str to Figure, optional
        By caption.
    command : str, optional
        Default: the command line of this process.

    Returns
    -------
    Page
        ``as_html()`` is the file's text.

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
    failures = [f"{study.name}: {note}" for study in studies for note in study.failure_notes()]
    page.section("Findings")
    for finding in findings:
        page.fragment(_titled(finding.summary()))
    if failures:
        page.section("Failed cells")
        page.text("These replications raised; the others of their cells went on. Fits leave these cells out.")
        for note in failures:
            page.text(note)
    else:
        page.text("No replication failed.")
    if pictures:
        page.section("Pictures")
        for caption, figure in pictures.items():
            page.picture(figure, caption)
    for study in studies:
        page.section(f"Results: {study.name}")
        page.fragment(study.summary().as_html())
    page.section("How to run it again")
    page.code(command_line() if command is None else command)
    page.table(["fact", ""], [[name, value] for name, value in provenance(studies).items()])
    return page


def _titled(summary: Any) -> str:
    import html

    return f"<h3>{html.escape(summary.title)}</h3>{summary.as_html()}"


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

    The versions are those with which the rows were computed, all of them; only where a study does not say
    they are those of this process.
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
