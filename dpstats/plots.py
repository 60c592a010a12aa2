"""Pictures of releases; matplotlib is loaded when the first one is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpstats.errors import InvalidParameter
from dpstats.figures import new_figure as _new_figure
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.tradeoff import tradeoff_curve
from dpstats.results import ConfidenceInterval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpstats.auditing import AuditResult
    from dpstats.mechanisms import CountEstimate, DensityEstimate
    from dpstats.quantiles import PrivateDistribution, PrivateQuantile
    from dpstats.queries import WorkloadAnswers
    from dpstats.tables import ContingencyTable, PrivateProportion
    from dpstats.tables.cells import Cells

__all__ = [
    "plot_answers",
    "plot_audit",
    "plot_counts",
    "plot_density",
    "plot_distribution",
    "plot_intervals_by_epsilon",
    "plot_proportion",
    "plot_quantiles",
    "plot_table",
    "plot_tradeoff",
]

_ESTIMATE = "#1f5fa8"
_REFERENCE = "#b03a2e"


def plot_tradeoff(items: Mapping[str, Any], *, title: str = "") -> Figure:
    """Draw the trade-off curves of guarantees, plans or events: how well any test can tell a row.

    Parameters
    ----------
    items : mapping of str to PrivacyGuarantee, ReleasePlan or event
        What to draw, by the name in the legend.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
        Type II error against type I error; the diagonal is perfect privacy.
    """
    figure = _new_figure(figsize=(4.6, 4.4))
    axis = figure.subplots()
    errors = np.concatenate([[0.0], np.geomspace(1e-9, 1e-2, 400), np.linspace(0.01, 1.0, 400)])
    axis.plot([0, 1], [1, 0], color="0.6", lw=1, ls="--", label="perfect privacy")
    for name, item in items.items():
        axis.plot(errors, tradeoff_curve(item, errors), label=name)
    axis.set_xlabel("type I error of a test for one row")
    axis.set_ylabel("smallest possible type II error")
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1)
    axis.set_aspect("equal")
    axis.grid(alpha=0.25)
    axis.legend(fontsize=8, frameon=False)
    if title:
        axis.set_title(title, fontsize=10)
    return figure


def plot_intervals_by_epsilon(
    names: Sequence[str],
    epsilons: Sequence[float],
    estimates: Sequence[Any],
    intervals: Sequence[ConfidenceInterval],
    *,
    reference: Any = None,
    reference_interval: ConfidenceInterval | None = None,
    labels: Sequence[str] = (),
    title: str = "",
) -> Figure:
    """Draw the estimate of every column, with its interval, against epsilon.

    Parameters
    ----------
    names : sequence of str
        The columns; one panel each.
    epsilons : sequence of float
        One release each.
    estimates : sequence of arrays of shape (n_features,)
    intervals : sequence of ConfidenceInterval
    reference : array of shape (n_features,), optional
        A non-private value to draw as a line; for public data only.
    reference_interval : ConfidenceInterval, optional
        Its interval, drawn as a band.
    labels : sequence of str, optional
        Titles of the panels (default: the names).
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    across = min(3, len(names))
    down = -(-len(names) // across)
    figure = _new_figure(figsize=(3.5 * across, 2.6 * down + 0.5))
    axes = figure.subplots(down, across, squeeze=False, sharex=True)
    values = np.array([np.atleast_1d(estimate) for estimate in estimates])
    lows = np.array([np.atleast_1d(interval.low) for interval in intervals])
    highs = np.array([np.atleast_1d(interval.high) for interval in intervals])
    for j, axis in enumerate(axes.flat):
        if j >= len(names):
            axis.set_visible(False)
            continue
        errors = [values[:, j] - lows[:, j], highs[:, j] - values[:, j]]
        axis.errorbar(
            epsilons, values[:, j], errors, fmt="o", ms=4, capsize=3, color=_ESTIMATE, label="private"
        )
        if reference is not None:
            axis.axhline(reference[j], color=_REFERENCE, lw=1, ls="--", label="not private")
        if reference_interval is not None:
            low, high = (np.atleast_1d(end)[j] for end in reference_interval)
            axis.axhspan(low, high, color=_REFERENCE, alpha=0.15, lw=0, label="its interval")
        axis.set_xscale("log")
        axis.set_xticks(list(epsilons), [f"{epsilon:g}" for epsilon in epsilons])
        axis.minorticks_off()
        axis.set_title(labels[j] if labels else names[j], fontsize=10)
        if j + across >= len(names):
            axis.set_xlabel("epsilon")
            axis.tick_params(labelbottom=True)
        axis.grid(alpha=0.25)
    axes.flat[0].legend(fontsize=8, frameon=False)
    if title:
        figure.suptitle(title)
    return figure


def plot_quantiles(quantiles: PrivateQuantile, *, title: str = "") -> Figure:
    """Draw private quantiles against their fractions, with their intervals.

    Parameters
    ----------
    quantiles : PrivateQuantile
        Fitted.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    q, points, low, high = (
        np.atleast_1d(x) for x in (quantiles.q, quantiles.quantile_, quantiles.low_, quantiles.high_)
    )
    figure = _new_figure(figsize=(5.6, 3.6))
    axis = figure.subplots()
    if quantiles.plan_.confidence_level is None:
        axis.plot(q, points, "o", ms=4, color=_ESTIMATE)
    else:
        # An own point of the choice may lie at an end, and no further.
        errors = np.maximum([points - low, high - points], 0.0)
        label = f"private, with {100 * quantiles.plan_.confidence_level:g}% intervals"
        axis.errorbar(q, points, errors, fmt="o", ms=4, capsize=3, color=_ESTIMATE, label=label)
        axis.legend(fontsize=8, frameon=False, loc="upper left")
    axis.set_xlim(0, 1)
    axis.set_xlabel("q")
    axis.set_ylabel("quantile")
    axis.grid(alpha=0.25)
    axis.set_title(title, fontsize=10)
    return figure


def plot_distribution(
    distribution: PrivateDistribution,
    *,
    reference: Any = None,
    confidence_level: float = 0.95,
    title: str = "",
) -> Figure:
    """Draw a private cdf with its simultaneous band.

    Parameters
    ----------
    distribution : PrivateDistribution
        Fitted.
    reference : array of shape (n,), optional
        Rows whose own cdf is drawn beside it; for public data only.
    confidence_level : float, default=0.95
        Of the band.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    grid, edges = distribution.plan_.grid, distribution.edges_
    band = distribution.band(confidence_level=confidence_level)
    low, high = np.atleast_1d(band.low), np.atleast_1d(band.high)
    figure = _new_figure(figsize=(5.6, 3.8))
    axis = figure.subplots()
    label = f"{100 * confidence_level:g}% band, everywhere at once"
    # Between declared values a cdf stands still; inside a cell it is between those of the ends.
    if grid.declared:
        axis.step(edges, distribution.cdf_, where="post", color=_ESTIMATE, lw=1.4, label="private")
        axis.fill_between(edges, low, high, step="post", color=_ESTIMATE, alpha=0.2, lw=0, label=label)
    else:
        axis.plot(
            np.append(grid.low, edges),
            np.append(0.0, distribution.cdf_),
            color=_ESTIMATE,
            lw=1.4,
            label="private",
        )
        at = np.repeat(np.append(grid.low, edges), 2)[1:-1]
        ends = np.repeat(np.append(0.0, low[:-1]), 2), np.repeat(high, 2)
        axis.fill_between(at, *ends, color=_ESTIMATE, alpha=0.2, lw=0, label=label)
    if reference is not None:
        rows = np.sort(np.asarray(reference, dtype=np.float64).ravel())
        share = np.arange(1, rows.size + 1) / rows.size
        axis.step(rows, share, where="post", color=_REFERENCE, lw=1, ls="--", label="not private")
    axis.set_xlim(grid.low, grid.high)
    axis.set_ylim(0, 1.01)
    axis.set_xlabel("x")
    axis.set_ylabel("share of rows at or below x")
    axis.grid(alpha=0.25)
    axis.legend(fontsize=8, frameon=False, loc="lower right")
    axis.set_title(title, fontsize=10)
    return figure


def plot_audit(result: AuditResult, *, title: str = "") -> Figure:
    """Draw what an audit counted against the trade-off curve of the claim.

    Parameters
    ----------
    result : AuditResult
        Of `dpstats.auditing.audit` or `audit_outputs`.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
        Left, the errors of the attack as a test of one dataset against the other, its score cut at
        many thresholds, with Clopper-Pearson bounds that hold for all points together at the
        audit's confidence. Points in red are below the claimed curve, bounds included. Right, the
        epsilon that each threshold proves by itself, and the bound that the audit reports.
    """
    from dpstats.auditing.bounds import epsilon_lower_bound, probability_bounds

    half = result.n_trials // 2
    if not result.curve:
        raise InvalidParameter("result must hold a curve of counts, got an empty one")
    likely, other = (np.array(counts) for counts in zip(*result.curve, strict=True))
    # Two bounds a point, one-sided, together at the audit's confidence.
    each = 1 - (1 - result.confidence) / (4 * likely.size)
    first = probability_bounds(other, half, each)
    second = probability_bounds(half - likely, half, each)
    claim = PrivacyGuarantee(result.epsilon_claimed, result.delta)
    below = second[1] < tradeoff_curve(claim, first[1])
    figure = _new_figure(figsize=(9.2, 4.6))
    left, right = figure.subplots(1, 2)
    _draw_errors(left, claim, other / half, 1 - likely / half, first, second, below)
    left.plot(
        result.counts[1] / half, 1 - result.counts[0] / half, "*", ms=12, color="black", label="event counted"
    )
    left.legend(fontsize=8, frameon=False, loc="upper right")

    drawn = np.maximum(other, 0.5) / half  # an event never seen has a place on the axis, too
    # An event and its complement, the other way round: two bounds a threshold.
    together = 1 - (1 - result.confidence) / (2 * likely.size)
    proved = np.maximum(
        epsilon_lower_bound(likely, other, half, result.delta, together),
        epsilon_lower_bound(half - other, half - likely, half, result.delta, together),
    )
    right.plot(drawn[~below], proved[~below], "o", ms=3, color=_ESTIMATE)
    right.plot(drawn[below], proved[below], "o", ms=3, color=_REFERENCE)
    right.axhline(result.epsilon_claimed, color="black", lw=1.2, label="claimed")
    right.plot(
        max(result.counts[1], 0.5) / half,
        result.epsilon_lower,
        "*",
        ms=12,
        color="black",
        label=f"audit: epsilon at least {result.epsilon_lower:.3g}",
    )
    right.set_xscale("log")
    right.set_ylim(0, 1.35 * max(result.epsilon_claimed, result.epsilon_lower, float(proved.max())) + 0.01)
    right.set_xlabel("type I error of the attack")
    right.set_ylabel("epsilon proved")
    right.grid(alpha=0.25)
    right.legend(fontsize=8, frameon=False, loc="upper left")
    verdict = "claim violated" if result.violated else "claim not violated"
    runs = f"{half:,} runs counted on each dataset, confidence {result.confidence:g}"
    figure.suptitle(f"{title or 'Audit'}: {verdict} ({runs})", fontsize=11)
    return figure


def _draw_errors(
    axis: Axes,
    claim: PrivacyGuarantee,
    type_one: Any,
    type_two: Any,
    first: tuple[Any, Any],
    second: tuple[Any, Any],
    below: Any,
) -> None:
    """Draw both errors of an attack with their bounds, and the curve that they may not go below."""
    errors = np.linspace(0.0, 1.0, 801)
    curve = tradeoff_curve(claim, errors)
    axis.fill_between(errors, curve, color="0.92", label="excluded by the claim")
    name = f"claimed: epsilon = {claim.epsilon:.4g}"
    axis.plot(errors, curve, color="black", lw=1.2, label=f"{name}, delta = {claim.delta:.3g}")
    axis.plot([0, 1], [1, 0], color="0.6", lw=1, ls="--", label="perfect privacy")
    for chosen, color, label in (
        (~below, _ESTIMATE, "attack"),
        (below, _REFERENCE, "attack, below the claim"),
    ):
        if not np.any(chosen):
            continue
        spread = [
            np.array([value - low, high - value])[:, chosen]
            for value, (low, high) in ((type_one, first), (type_two, second))
        ]
        axis.errorbar(
            type_one[chosen],
            type_two[chosen],
            yerr=np.maximum(spread[1], 0),
            xerr=np.maximum(spread[0], 0),
            fmt="o",
            ms=3,
            lw=0.8,
            color=color,
            label=label,
        )
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1)
    axis.set_aspect("equal")
    axis.set_xlabel("type I error of the attack")
    axis.set_ylabel("type II error of the attack")
    axis.grid(alpha=0.25)


def plot_proportion(estimator: PrivateProportion, *, confidence_level: float = 0.95) -> Figure:
    """Draw the confidence curve of a private proportion: the two-sided p-value of every value that it may have.

    Parameters
    ----------
    estimator : PrivateProportion
        Fitted.
    confidence_level : float, default=0.95
        Of the interval that is marked.

    Returns
    -------
    matplotlib.figure.Figure
    """
    interval = estimator.confidence_interval(confidence_level)
    low, high = float(interval.low), float(interval.high)
    # So wide that the curve ends near 0.
    wide = estimator.confidence_interval(1 - 1e-3)
    values = np.linspace(max(float(wide.low), 1e-9), min(float(wide.high), 1 - 1e-9), 301)
    pvalues = [estimator.test(float(value)).pvalue for value in values]
    figure = _new_figure(figsize=(4.8, 3.2))
    axis = figure.subplots()
    axis.plot(values, pvalues, color=_ESTIMATE)
    axis.axvline(estimator.proportion_, color=_ESTIMATE, lw=1, ls="--", label=f"{estimator.proportion_:.3g}")
    axis.hlines(1 - confidence_level, low, high, color=_REFERENCE, lw=2, label=_interval_words(interval))
    axis.set_xlabel("proportion")
    axis.set_ylabel("two-sided p-value")
    axis.set_ylim(0, 1.05)
    axis.grid(alpha=0.25)
    axis.legend(fontsize=8, frameon=False)
    return figure


def plot_table(table: ContingencyTable, *, attributes: Any = None, confidence_level: float = 0.95) -> Figure:
    """Draw a mosaic of two attributes of a private table, and the proportions within groups with their intervals.

    Parameters
    ----------
    table : ContingencyTable
        Fitted.
    attributes : pair of attributes, by name or position, optional
        The groups, and what is compared of them; may be left out where there are two. A table of one attribute, or one
        of more with None, is drawn as bars of all its cells.
    confidence_level : float, default=0.95
        Of each interval.

    Returns
    -------
    matplotlib.figure.Figure
        Left, tiles whose areas are the estimated proportions; the colour says how far a count is from independence, in
        its standard deviations, noise included. Right, the proportions of the second attribute within each level of
        the first.
    """
    cells = table.cells(attributes)
    shape = cells.counts.shape
    if len(shape) != 2:
        return _bars(cells, confidence_level)
    figure = _new_figure(figsize=(9.2, 0.8 + max(3.2, 0.26 * (shape[0] + 1) * shape[1])))
    left, right = figure.subplots(1, 2)
    counts = cells.projected
    total = max(float(counts.sum()), 1e-300)
    rows, columns = counts.sum(axis=1) / total, counts.sum(axis=0) / total
    expected = np.outer(rows, columns) * total
    away = (cells.counts - expected) / np.sqrt(expected + cells.noise.variance)
    _mosaic(left, cells, rows, counts, away)
    low, high = (np.asarray(end) for end in cells.intervals(confidence_level, (1,)))
    within = cells.shares((1,))
    colors = _shades(shape[1])
    height = 1 / (shape[1] + 1)
    for j in range(shape[1]):
        places = -np.arange(shape[0]) - height * (j - (shape[1] - 1) / 2)
        middle = np.where(np.isnan(within[:, j]), (low[:, j] + high[:, j]) / 2, within[:, j])
        middle = np.clip(middle, low[:, j], high[:, j])
        errors = np.stack([middle - low[:, j], high[:, j] - middle])
        label = str(cells.levels[1][j])
        right.errorbar(middle, places, xerr=errors, fmt="o", ms=4, capsize=3, color=colors[j], label=label)
    right.set_yticks(-np.arange(shape[0]), [str(level) for level in cells.levels[0]])
    right.set_xlim(-0.02, 1.02)
    right.set_xlabel(f"proportion within {cells.names[0]}, {100 * confidence_level:g}% intervals")
    right.grid(axis="x", alpha=0.25)
    right.legend(title=str(cells.names[1]), fontsize=8, frameon=False)
    return figure


def _mosaic(axis: Axes, cells: Cells, rows: Any, counts: Any, away: Any) -> None:
    """Draw tiles, a column for each level of the first attribute."""
    from matplotlib import colormaps

    shades, left = colormaps["RdBu_r"], 0.0
    ticks = []
    for i, width in enumerate(rows):
        bottom, whole = 0.0, max(float(counts[i].sum()), 1e-300)
        for j in range(counts.shape[1]):
            height = float(counts[i, j]) / whole
            color = shades(0.5 + float(np.clip(away[i, j], -4, 4)) / 10)
            axis.bar(left, height, width, bottom, align="edge", color=color, edgecolor="white", lw=1.5)
            if width > 0.1 and height > 0.05:
                text = f"{cells.levels[1][j]}\n{counts[i, j] / max(float(counts.sum()), 1e-300):.3f}"
                place = left + width / 2, bottom + height / 2
                ink = "white" if abs(away[i, j]) > 2.5 else "black"
                axis.text(*place, text, ha="center", va="center", fontsize=8, color=ink)
            bottom += height
        ticks.append(left + width / 2)
        left += float(width)
    turned: dict[str, Any] = {"rotation": 40, "ha": "right"} if min(rows) < 0.08 else {}
    axis.set_xticks(ticks, [str(level) for level in cells.levels[0]], **turned)
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1)
    axis.set_xlabel(str(cells.names[0]))
    axis.set_ylabel(f"{cells.names[1]}, within {cells.names[0]}")
    axis.set_title("red: more than if independent, blue: fewer", fontsize=9)


def _bars(cells: Cells, confidence_level: float) -> Figure:
    """Draw the proportions of all cells with their intervals."""
    places = list(np.ndindex(cells.counts.shape))
    interval = cells.intervals(confidence_level, None)
    low, high = np.ravel(interval.low), np.ravel(interval.high)
    estimates = np.ravel(cells.projected) / max(float(cells.projected.sum()), 1e-300)
    figure = _new_figure(figsize=(5.6, 1.2 + 0.26 * len(places)))
    axis = figure.subplots()
    middle = np.clip(estimates, low, high)
    errors = np.stack([middle - low, high - middle])
    axis.errorbar(middle, -np.arange(len(places)), xerr=errors, fmt="o", ms=4, capsize=3, color=_ESTIMATE)
    names = [", ".join(str(cells.levels[j][code]) for j, code in enumerate(place)) for place in places]
    axis.set_yticks(-np.arange(len(places)), names)
    axis.set_xlabel(f"proportion, {100 * confidence_level:g}% intervals")
    axis.set_ylabel(", ".join(map(str, cells.names)))
    axis.grid(axis="x", alpha=0.25)
    return figure


def plot_density(result: DensityEstimate, *, confidence_level: float = 0.95, title: str = "") -> Figure:
    """Draw the densities of a private histogram of numbers, and their band, which holds for all bins together.

    Parameters
    ----------
    result : DensityEstimate
        Of a `Histogram` with bins.
    confidence_level : float, default=0.95
        Of the whole band.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    band = result.density_interval(confidence_level)
    figure = _new_figure(figsize=(5.6, 3.6))
    axis = figure.subplots()
    axis.stairs(result.densities, result.edges, fill=True, color=_ESTIMATE, alpha=0.25)
    axis.stairs(result.densities, result.edges, color=_ESTIMATE, label="private")
    words = f"{100 * confidence_level:g}% band, all bins together"
    axis.stairs(
        band.high, result.edges, baseline=band.low, fill=True, color=_REFERENCE, alpha=0.2, label=words
    )
    axis.set_ylabel("density")
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.25)
    axis.legend(fontsize=8, frameon=False)
    if title:
        axis.set_title(title, fontsize=10)
    return figure


def plot_counts(result: CountEstimate, *, confidence_level: float = 0.95, title: str = "") -> Figure:
    """Draw the counts of a private histogram of categories, with intervals for the counts in these data.

    Parameters
    ----------
    result : CountEstimate
    confidence_level : float, default=0.95
        Of each interval.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    interval = result.confidence_interval(confidence_level)
    figure = _new_figure(figsize=(5.6, 1.2 + 0.26 * result.counts.size))
    axis = figure.subplots()
    places = -np.arange(result.counts.size)
    errors = np.stack([result.counts - interval.low, interval.high - result.counts])
    axis.barh(places, result.counts, xerr=errors, color=_ESTIMATE, alpha=0.6, capsize=3)
    axis.set_yticks(places, [str(category) for category in result.categories])
    axis.set_xlabel(f"count, {100 * confidence_level:g}% intervals for these data")
    axis.grid(axis="x", alpha=0.25)
    if title:
        axis.set_title(title, fontsize=10)
    return figure


def _interval_words(interval: ConfidenceInterval) -> str:
    return f"{100 * interval.confidence_level:g}%: [{float(interval.low):.3g}, {float(interval.high):.3g}]"


def _shades(count: int) -> list[Any]:
    """Return a colour for each of so many levels."""
    from matplotlib import colormaps

    return [colormaps["viridis"](0.1 + 0.75 * j / max(count - 1, 1)) for j in range(count)]


def plot_answers(
    answers: WorkloadAnswers, *, reference: Any = None, confidence_level: float = 0.95
) -> Figure:
    """Draw the answers to a workload with their intervals, and what error other budgets would buy.

    Parameters
    ----------
    answers : WorkloadAnswers
        Fitted.
    reference : array of shape (n_queries,), optional
        The exact answers as shares, to draw them against; for public data only. Without, the unbiased answers.
    confidence_level : float, default=0.95
        Of each interval.

    Returns
    -------
    matplotlib.figure.Figure
        Left, how far point answers are from the others, and intervals from the unbiased ones. Right, the root mean
        squared error of unbiased answers against epsilon, from plans alone, and about that of uniform ones, where it is
        known.
    """
    exact = answers.linear_ if reference is None else np.asarray(reference, dtype=np.float64)
    if exact.shape != answers.linear_.shape:
        raise InvalidParameter(
            f"reference must have an answer for each query {answers.linear_.shape}, got shape {exact.shape}"
        )
    interval = answers.confidence_interval(confidence_level)
    low, high = np.asarray(interval.low), np.asarray(interval.high)
    figure = _new_figure(figsize=(9.2, 4.2))
    left, right = figure.subplots(1, 2)
    label = f"{100 * confidence_level:g}% intervals"
    left.vlines(exact, low - exact, high - exact, color=_ESTIMATE, alpha=0.3, lw=1, label=label)
    left.plot(exact, answers.answers_ - exact, ".", ms=4, color=_ESTIMATE, label="point answers")
    left.axhline(0.0, color=_REFERENCE, lw=1, ls="--")
    word = "unbiased" if reference is None else "exact"
    left.set_xlabel(f"{word} answer, share of the rows")
    left.set_ylabel(f"private answer less the {word} one")
    left.legend(fontsize=8, frameon=False)
    n, own = answers.plan_.n_samples, float(answers.epsilon)
    epsilons = own * np.geomspace(0.1, 10, 7)
    params = answers.get_params(deep=False)
    plans = [type(answers)(**{**params, "epsilon": float(e), "budget": None}).plan(n) for e in epsilons]
    errors = [float(np.sqrt(np.mean(plan.noise_std**2))) for plan in plans]
    right.plot(epsilons, errors, color=_ESTIMATE, label="unbiased answers")
    right.plot(own, errors[3], "o", color=_ESTIMATE, label=f"epsilon = {own:g}, as released")
    if np.isfinite(answers.uniform_error_):
        right.axhline(answers.uniform_error_, color=_REFERENCE, lw=1, ls="--", label="uniform answers, about")
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xlabel("epsilon")
    right.set_ylabel("root mean squared error, share of the rows")
    right.legend(fontsize=8, frameon=False)
    for axis in (left, right):
        axis.grid(alpha=0.25)
    return figure
