"""Pictures of studies, the report of a study as one HTML page, and named studies."""

from __future__ import annotations

import contextlib
import importlib.util
import platform
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpstats.errors import InvalidParameter, refuse
from dpstats.inference.figures import COLORS, axes_or_new, plain, set_title
from dpstats.inference.reports import Page, draw, page_of
from dpstats.simulation.comparison import CrossingPoint, compare
from dpstats.simulation.formula_fit import fit_formula
from dpstats.simulation.rate_fit import RateFit, RateTable, fit_rate
from dpstats.simulation.samplers import Gaussian, Rademacher, SparseMeans
from dpstats.simulation.store import versions
from dpstats.simulation.study import Study
from dpstats.simulation.table import MOST_FAILED, CellResult, StudyResults, Term

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_MARKERS = ("o", "s", "^", "D")

_MOST_TICKS = 8
_SIZE = 6.4, 4.4  # inches
_NAMES_BELOW_EACH_OTHER = 18  # in a legend next to the axes


def _groups(results: StudyResults, parameter: str) -> dict[str, list[CellResult]]:
    """Return the cells that differ in one parameter only, by the values of the others."""
    names = dict.fromkeys(key for cell in results.cells for key in cell.parameters if key != parameter)
    told = [name for name in names if len({repr(cell.parameters.get(name)) for cell in results.cells}) > 1]
    groups: dict[str, list[CellResult]] = {}
    for cell in results.cells:
        words = ", ".join(f"{name} = {cell.parameters[name]}" for name in told if name in cell.parameters)
        groups.setdefault(words, []).append(cell)
    return {name: sorted(cells, key=lambda cell: float(cell.parameters[parameter])) for name, cells in groups.items()}


@draw.register
def draw_risk(
    results: StudyResults,
    ax: Any = None,
    *,
    parameter: str,
    loss: str | None = None,
    terms: Mapping[str, Term] | None = None,
    constants: Mapping[str, float] | None = None,
    rate: RateFit | None = None,
    logarithmic: bool = True,
    **style: Any,
) -> Any:
    """Draw the mean loss against a parameter, one line for every value of the others.

    Parameters
    ----------
    results : StudyResults
    ax : matplotlib Axes, optional
        Default: the Axes of a new figure.
    parameter : str
    loss : str, optional
    terms : mapping of str to callable, optional
        Terms of the theory. Their sum is drawn through every group. If there is one group only, each term is
        also drawn, dashed. Their lines cross at the crossover, which is marked.
    constants : mapping of str to float, optional
        Default: 1 each.
    rate : RateFit, optional
        Of this parameter: its line is drawn through every group, broken where one line does not fit, and its
        slope is in the legend.
    logarithmic : bool, default=True
    **style
        matplotlib's, of ``Axes.errorbar``.

    Returns
    -------
    matplotlib Axes
        Bars are two Monte Carlo standard errors.
    """
    chosen = results.check_loss(loss)
    results.parameter(parameter)  # raises if there is no such parameter
    axis = axes_or_new(ax, figsize=_SIZE)
    groups = _groups(results, parameter)
    for i, (name, cells) in enumerate(groups.items()):
        shown = [cell for cell in cells if cell.losses[chosen].size > 0]
        x = np.array([float(cell.parameters[parameter]) for cell in shown])
        y = np.array([cell.mean(chosen) for cell in shown])
        errors = np.nan_to_num([2 * cell.standard_error(chosen) for cell in shown])
        color = COLORS[i % len(COLORS)]
        # On a log axis a bar must not reach 0.
        below = np.minimum(errors, 0.999 * y) if logarithmic else errors
        axis.errorbar(
            x,
            y,
            [below, errors],
            **{
                "fmt": _MARKERS[i % len(_MARKERS)],
                "ms": 4,
                "capsize": 2,
                "color": color,
                "label": plain(name) or "measured",
                "zorder": 3,
                **style,
            },
        )
        if terms:
            parts = {
                term: (constants or {}).get(term, 1.0) * np.array([function(cell.parameters) for cell in cells])
                for term, function in terms.items()
            }
            places = np.array([float(cell.parameters[parameter]) for cell in cells])
            axis.plot(places, sum(parts.values()), color=color, lw=1, label="theory" if i == 0 else None)
            if len(groups) == 1:
                _draw_terms(axis, places, parts)
        if rate is not None and np.count_nonzero(y > 0) > 1:
            line = rate.line(x[y > 0], y[y > 0], errors[y > 0] / 2)
            axis.plot(x[y > 0], line, color=color, lw=1, label=rate.words if i == 0 else None)
    if logarithmic:
        axis.set_xscale("log")
        axis.set_yscale("log")
    axis.set_xlabel(plain(parameter))
    axis.set_ylabel(plain(chosen.replace("_", " ")))
    axis.grid(alpha=0.25, which="both")
    _mark_sizes(axis, results.parameter(parameter), logarithmic)
    if len(groups) > len(COLORS) and ax is None:  # next to the axes, where it hides nothing
        columns = -(-len(groups) // _NAMES_BELOW_EACH_OTHER)
        axis.figure.set_size_inches(_SIZE[0] + 1.9 * columns, _SIZE[1])
        axis.figure.legend(fontsize=8, frameon=False, loc="outside center right", ncols=columns)
    else:
        axis.legend(fontsize=8, frameon=False)
    return axis


def plot_risk(results: StudyResults, parameter: str, *, title: str = "", **options: Any) -> Figure:
    """Draw the mean loss against a parameter in a new figure.

    Parameters
    ----------
    results : StudyResults
    parameter : str
    title : str, optional
    **options
        ``loss``, ``terms`` and ``constants`` of the theory, ``rate`` (a `RateFit`, whose line is drawn) and
        ``logarithmic``. Others are matplotlib's, of ``Axes.errorbar``.

    Returns
    -------
    matplotlib Figure

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.simulation import Rademacher, Study, plot_risk
    >>> results = Study(Rademacher(), ClippedMean(clip=1.0), {"n": [10, 20, 40], "d": [1]}, 5).run()
    >>> plot_risk(results, "n").axes[0].get_xlabel()
    'n'
    """
    return _add_title(draw_risk(results, parameter=parameter, **options), title)


def _add_title(axis: Any, title: str) -> Figure:
    """Return the figure of some Axes, with a title."""
    if title:
        set_title(axis, title)
    figure: Figure = axis.figure
    return figure


def _mark_sizes(axis: Axes, values: Any, logarithmic: bool) -> None:
    """Put the ticks at the values that were simulated, where these are few numbers on a logarithmic scale."""
    places = np.unique(np.asarray(values, dtype=np.float64))
    if not logarithmic or places.size > _MOST_TICKS or np.any(places <= 0):
        return
    axis.set_xticks(places, [f"{place:g}" for place in places])
    axis.set_xticks([], minor=True)


def _draw_terms(axis: Axes, x: Any, parts: Mapping[str, Any]) -> None:
    for j, (term, values) in enumerate(parts.items()):
        axis.plot(x, values, ls="--", lw=1, color=COLORS[(j + 1) % len(COLORS)], label=term)
    if len(parts) == 2 and len(x) > 1:
        first, second = parts.values()
        place = crossover(x, first, second)
        if place is not None:
            axis.axvline(place, color="0.6", lw=1, ls=":", label=f"crossover {place:.3g}")


def crossover(x: Any, first: Any, second: Any) -> float | None:
    """Return the point at which two terms are equal, by log-log interpolation, or None outside the range.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.simulation.study_report import crossover
    >>> n = np.array([10.0, 100.0, 1000.0])
    >>> round(crossover(n, 1 / n, 50 / n**2), 6)
    50.0
    """
    logs = np.log(np.asarray(x, dtype=np.float64))
    gap = np.log(np.asarray(first)) - np.log(np.asarray(second))
    changes = np.flatnonzero(np.sign(gap[:-1]) * np.sign(gap[1:]) < 0)
    if changes.size == 0:
        return None
    i = int(changes[0])
    return float(np.exp(logs[i] - gap[i] * (logs[i + 1] - logs[i]) / (gap[i + 1] - gap[i])))


def plot_power(
    results: StudyResults, parameter: str, *, level: float | None = None, target: float | None = None, title: str = ""
) -> Figure:
    """Draw the fraction of rejections against a parameter, with lines at the level and at a target power.

    Parameters
    ----------
    results : StudyResults
        Results with the loss "rejection".
    parameter : str
    level, target : float, optional
    title : str, optional

    Returns
    -------
    matplotlib Figure

    Examples
    --------
    >>> from dpstats.identity import SpatialSignTest
    >>> from dpstats.simulation import Gaussian, Study, plot_power
    >>> test = SpatialSignTest(n_calibration=199)
    >>> results = Study(Gaussian(mean=1.0), test, {"n": [20, 40], "d": [2]}, 5, loss="rejection").run()
    >>> plot_power(results, "n", level=0.05).axes[0].get_ylabel()
    'share of rejections'
    """
    figure = plot_risk(results, parameter, loss="rejection", logarithmic=False, title=title)
    axis = figure.axes[0]
    for value, name in ((level, "level"), (target, "target power")):
        if value is not None:
            axis.axhline(value, color="0.5", lw=1, ls=":" if name == "level" else "--", label=f"{name} {value:.3g}")
    axis.set_ylabel("share of rejections")
    axis.set_ylim(0, 1.02)
    axis.legend(fontsize=8, frameon=False)
    return figure


@draw.register
def draw_rates(table: RateTable, ax: Any = None, **style: Any) -> Any:
    """Draw the intervals of exponents, with bands of the tolerance around the theory."""
    axis = axes_or_new(ax, figsize=_SIZE)
    for i, rate in enumerate(table.rates):
        if rate.theory is not None:
            low, high = rate.theory - rate.tolerance, rate.theory + rate.tolerance
            axis.fill_betweenx([i - 0.3, i + 0.3], low, high, color="0.85", zorder=1)
        arms = [[rate.slope - float(rate.interval.low)], [float(rate.interval.high) - rate.slope]]
        look = {"fmt": "o", "ms": 4, "capsize": 2, "color": COLORS[0], "zorder": 3, **style}
        axis.errorbar([rate.slope], [i], xerr=np.minimum(arms, 1e6), **look)
    names = [plain(" ".join(filter(None, (rate.estimator, rate.parameter)))) for rate in table.rates]
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.set_xlabel("exponent, with its interval; bands are the theory with its tolerance")
    axis.grid(alpha=0.25, axis="x")
    return axis


@draw.register
def draw_crossing(found: CrossingPoint, ax: Any = None, *, name: str = "n", **style: Any) -> Any:
    """Draw what a search for a crossing point simulated, and where it ended."""
    axis = axes_or_new(ax, figsize=_SIZE)
    order = np.argsort(found.points)
    shares = found.rejections / found.trials
    errors = 2 * np.sqrt(np.maximum(shares * (1 - shares), 0) / found.trials)
    axis.errorbar(
        found.points[order],
        shares[order],
        errors[order],
        **{"fmt": "o", "ms": 4, "capsize": 2, "color": COLORS[0], "label": "power", **style},
    )
    axis.axhline(found.target, color="0.5", lw=1, ls="--", label=f"target power {found.target:.3g}")
    axis.axvspan(float(found.interval.low), float(found.interval.high), color=COLORS[1], alpha=0.25)
    axis.axvline(found.value, color=COLORS[1], lw=1, label=f"{plain(name)} = {found.value:.4g}")
    axis.set_xscale("log")
    axis.set_xlabel(plain(name))
    axis.set_ylabel("share of rejections")
    axis.set_ylim(0, 1.02)
    axis.grid(alpha=0.25)
    axis.legend(fontsize=8, frameon=False)
    return axis


def plot_crossing(found: CrossingPoint, *, name: str = "n", title: str = "") -> Figure:
    """Draw a search for a crossing point in a new figure.

    Parameters
    ----------
    found : CrossingPoint
    name : str, default="n"
        Name of the parameter that the search changed.
    title : str, optional

    Returns
    -------
    matplotlib Figure

    Examples
    --------
    >>> from dpstats.simulation import crossing_point, plot_crossing
    >>> found = crossing_point(lambda x, rng: rng.random(20) < x / 10, 1, 9, replications=40)
    >>> plot_crossing(found, name="x").axes[0].get_xlabel()
    'x'
    """
    return _add_title(draw_crossing(found, name=name), title)


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
        f"{study.name}: {note}" if len(studies) > 1 else note for study in studies for note in study.failure_notes()
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
        numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
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
            f"{study.name}: {words}." if len({id(item[0]) for item in rates}) > 1 else f"{words[0].upper()}{words[1:]}."
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
        "Time": f"{sum(study.seconds for study in studies):,.1f} seconds of processors",
        "Python": f"{stated.pop('Python', platform.python_version())}, {platform.system()} {platform.machine()}",
        **stated,
    }


# Named studies: what ``dpstats simulate NAME`` runs


_DELTA = 1e-6


# Each says which rows, which estimator, which grid and which loss, and what the theory has to say about the result.
# Any part of the grid, the replications and the seed can be replaced.
@dataclass(frozen=True)
class Entry:
    """One study by name.

    Attributes
    ----------
    title : str
    build : callable
        Returns the sampler and the estimator.
    grid : mapping
    replications : int
    loss : tuple of str
    findings : callable
        Results -> what the theory says about them, anything with ``summary()``.
    picture : callable
        Results -> figure.
    """

    title: str
    build: Callable[[], tuple[Any, Any]]
    grid: Mapping[str, Sequence[Any]]
    replications: int
    loss: tuple[str, ...]
    findings: Callable[[StudyResults], list[Any]]
    picture: Callable[[StudyResults], Figure]

    def study(self, name: str, grid: Any = None, replications: int | None = None, seed: int = 0) -> Study:
        """Return the study; a mapping given as ``grid`` replaces the lists that it names."""
        chosen: Any = dict(self.grid)
        if isinstance(grid, Mapping):
            chosen |= grid
        elif grid is not None:
            chosen = grid
        sampler, estimator = self.build()
        count = self.replications if replications is None else replications
        return Study(sampler, estimator, chosen, count, loss=list(self.loss), seed=seed, name=name)

    def conclusions(self, results: StudyResults) -> tuple[list[Any], list[str]]:
        """Return the findings; or none, and why: a changed grid can leave the theory nothing to say."""
        try:
            return self.findings(results), []
        except InvalidParameter as error:
            return [], [f"No comparison with the theory: {error}"]


def named_study(name: str) -> Entry:
    """Return the entry of a name.

    Examples
    --------
    >>> from dpstats.simulation.study_report import named_study
    >>> study = named_study("mean-rate").study("mean-rate", {"n": [100, 400], "d": [1, 16]}, replications=20)
    >>> study.run().parameter("n")
    array([100, 100, 400, 400])
    """
    if name not in CATALOGUE:
        raise refuse("NAME", given=name, allowed=f"one of {', '.join(CATALOGUE)}")
    return CATALOGUE[name]


def _mean() -> tuple[Any, Any]:
    from dpstats.means import ClippedMean

    return Rademacher(), ClippedMean(clip=1.0, delta=_DELTA)


def _mean_terms() -> dict[str, Callable[[Any], float]]:
    return {"sampling": lambda cell: cell["d"] / cell["n"], "privacy": lambda cell: min(_mean_noise(cell).values())}


def _mean_noise(cell: Any) -> dict[str, float]:
    """Return the squared error by the noise of each kind; the plan has the smaller one."""
    from dpstats.privacy import gaussian_sigma

    n, d, epsilon = cell["n"], cell["d"], cell["epsilon"]
    return {
        "gaussian": float((2 * d * gaussian_sigma(epsilon, _DELTA) / n) ** 2),
        "laplace": float(2 * d * (2 * d / (n * epsilon)) ** 2),
    }


def _has_gaussian_noise(cell: Any) -> bool:
    noise = _mean_noise(cell)
    return noise["gaussian"] < noise["laplace"]


def _mean_findings(results: StudyResults) -> list[Any]:
    constants = {"sampling": 1.0, "privacy": 1.0}
    found: list[Any] = [fit_formula(results, _mean_terms(), constants=constants)]
    # The theorem's rate in d belongs to Gaussian noise, which many columns have.
    for parameter, theory, used in (("n", -2.0, results), ("d", 2.0, results.where(_has_gaussian_noise))):
        if _varies(used, parameter):
            found.append(fit_rate(used, parameter, theory=theory, terms=_mean_terms(), constants=constants))
    return found


def _varies(results: StudyResults, parameter: str) -> bool:
    usable = [cell for cell in results.cells if cell.few_failed]
    return len(usable) > 2 and len({cell.parameters[parameter] for cell in usable}) > 1


def _sparse() -> tuple[Any, Any]:
    from dpstats.means import SparseMean

    return SparseMeans(signal=0.9), SparseMean(n_nonzero=5, clip=6.0, std=1.0, delta=_DELTA)


def _sparse_findings(results: StudyResults) -> list[Any]:
    if not _varies(results, "n"):
        return []
    return [
        fit_rate(results, "n", theory=-2.0, prediction=_sparse_risk),
        compare(results, 0.99, loss="support_recovery", relation="at_least"),
    ]


def _sparse_risk(cell: Any) -> float:
    sparse = _sparse()[1].set_params(
        **{key: value for key, value in cell.items() if key in ("n_nonzero", "epsilon", "delta")}
    )
    return float(sparse.plan(cell["n"], cell["d"]).expected_error())


def _coverage() -> tuple[Any, Any]:
    from dpstats.means import ClippedMean

    return Gaussian(mean=0.5), ClippedMean(clip=6.0, std=1.0)


def _power() -> tuple[Any, Any]:
    from dpstats.identity import SpatialSignTest

    return Gaussian(), SpatialSignTest()


def _power_findings(results: StudyResults) -> list[Any]:
    null = results.where(lambda cell: cell.get("sampler__mean") == 0)
    return [compare(null, 0.05, relation="at_most")] if null.cells else []


CATALOGUE: Mapping[str, Entry] = {
    "mean-rate": Entry(
        "Risk of the clipped mean of bounded rows (theorem 9.2.1)",
        _mean,
        {"n": [100, 400, 1600, 6400], "d": [1, 16, 64], "epsilon": [1.0]},
        400,
        ("released_squared_error",),
        _mean_findings,
        lambda results: plot_risk(results, "n", terms=_mean_terms()),
    ),
    "sparse-rate": Entry(
        "Risk of the sparse mean, strong signals (theorem 9.2.3)",
        _sparse,
        {"n": [1000, 2000, 4000, 8000], "d": [100], "n_nonzero": [5], "epsilon": [1.0]},
        100,
        ("squared_error", "support_recovery"),
        _sparse_findings,
        lambda results: plot_risk(results, "n", loss="squared_error", terms={"plan": _sparse_risk}),
    ),
    "coverage": Entry(
        "Coverage of the clipped mean's 95% intervals",
        _coverage,
        {"n": [200, 5000], "d": [5], "delta": [0.0, _DELTA], "epsilon": [1.0]},
        1000,
        ("coverage", "simultaneous_coverage"),
        lambda results: [compare(results, 0.95, loss=loss) for loss in results.losses],
        lambda results: plot_risk(results, "n", loss="coverage", logarithmic=False),
    ),
    "power": Entry(
        "Level and power of the spatial-sign test",
        _power,
        {"n": [100, 200, 400, 800], "d": [10], "sampler__mean": [0.0, 0.1], "epsilon": [1.0]},
        400,
        ("rejection",),
        _power_findings,
        lambda results: plot_power(results, "n", level=0.05, target=2 / 3),
    ),
}
