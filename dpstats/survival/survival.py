"""Private survival curves: one release of a table, and everything that a survival analysis asks of it.

Proof: docs/proofs/survival.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_flag, check_level, check_privacy_parameters, check_real
from dpstats.data.rows import LEFT_OUT, Rows, empty_groups_note
from dpstats.data.schema import Categories
from dpstats.errors import refuse
from dpstats.inference.error_distributions import BONFERRONI, usual_level
from dpstats.inference.estimates import Estimates
from dpstats.inference.reports import SIMULATED, picture_of
from dpstats.inference.results import ConfidenceInterval, Summary, plain, significant
from dpstats.release.estimator import parameters
from dpstats.release.session import Released
from dpstats.survival.cells import TABLE, assumptions, crowding_notes, default_bins, first_edge, shape_notes
from dpstats.survival.curves import LEAST_IN_NOISE, PlacedCurves
from dpstats.survival.results import AreaErrors, ComparesCurves, CurveErrors, QuantileErrors, SurvivalEstimate, shown
from dpstats.survival.table import SurvivalTable, draw_curves
from dpstats.survival.table_plan import TablePlan, check_edges, survival_plan

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

_FEW_AT_RISK = 10.0
_FEW_EVENTS = 5.0
_MOST_DRAWN = 6  # groups


@parameters
class PrivateSurvival(ComparesCurves):
    """Private Kaplan-Meier curves with pointwise intervals, simultaneous bands, medians and restricted means.

    One release of a table of events and censored times by public bins. Everything else is computed from it and costs
    nothing: curves, bands, medians, restricted means, comparisons of groups and cumulative incidences.

    Parameters
    ----------
    groups : sequence, optional
        The labels of the groups: public, distinct and declared. They cost nothing: a subject is in one group.
    by : column name, optional
        The column of a data frame that has the group of each row.
    time, event : column names, optional
        The columns of a data frame that have the times and the events.
    horizon : float
        The time up to which the curve is released, in the units of the times; public. Later times count as censored at
        the horizon.
    edges : sequence of float, optional
        Public right edges of the bins, increasing, the last one being the horizon. Bins are open on the left and closed
        on the right. Choose them without looking at the times of the data. With ``discrete=True`` and a first edge
        of 0, the first bin is time 0. Otherwise events at time 0 count in the bin after it.
    bins : int, optional
        Number of bins of equal width. By default 8 to 50, from the number of rows and epsilon.
    causes : sequence, optional
        The values of ``event`` that are an event, one or several competing causes. The default is 1.
    unit : column name, optional
        The subject of each row. A subject with several rows is refused.
    censored : default=0
        The value of ``event`` of a censored time.
    entry : None
        Not available: a column of entry times is refused. Every subject counts as at risk from time 0.
    discrete : bool, default=False
        Whether events happen at the edges only (at monthly visits, say). A row that is censored between two edges then
        counts as censored at the earlier one, and an event between two edges as at the later one. Curves are steps, and
        restricted means have no grid term.
    unknown : {"drop", "error"}, default="drop"
        Treatment of rows with an undeclared label: they are in no curve, or refused. Declare None to make a group of
        the rows without a label.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive.
    delta : float, default=0.0
        0 adds discrete Laplace noise. A value in (0, 1) adds Laplace or Gaussian noise, whichever is smaller. If it is
        Laplace noise, the guarantee has delta = 0. A budget with ``method="gdp"`` or "zcdp" keeps Gaussian noise.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges before it draws noise. Clones share it.

    Attributes
    ----------
    edges_ : ndarray of shape (n_bins + 1,), or (n_bins,) if the first bin is time 0
        0 and the right edges of the bins.
    survival_ : ndarray of the shape of ``edges_``, or (n_groups, edges)
        Estimated survival at the edges, which never increases; NaN beyond the usable range.
    at_risk_ : ndarray of shape (n_bins,), or (n_groups, n_bins)
        Number at risk in each bin, with noise: not whole, and perhaps negative.
    at_risk_noise_std_ : ndarray of shape (n_bins,)
        Standard deviation of that noise.
    usable_until_ : float, or ndarray of shape (n_groups,)
        The end of the usable range, up to which the number at risk exceeds 5 and two standard deviations of its noise.
    privacy_ : PrivacyGuarantee
        For neighbors that differ in one row, its time, event or group; n is public, the sizes of groups are not.
    plan_ : TablePlan
    n_features_in_ : int
        Number of columns: 1.
    feature_names_in_ : ndarray of shape (1,)
        The name of the column of times, if X has names.

    Notes
    -----
    **Estimand.** The survival P(T > t) of each group in the population that rows are independent draws from.

    **Bins.** With ``discrete=True`` events at the edges give exactly Kaplan-Meier, wherever rows are censored. If
    events happen at time 0 too, declare 0 as the first edge. Without ``discrete``, events are assumed to be spread
    smoothly inside the bins, and a censored row is shared between the two edges of its bin.

    With at least 50 rows times epsilon for each group and bin, the release has the mean positions of events and of
    censored rows in each bin. They take 5 or 10% of the privacy. Hazards may then have any smooth shape inside the
    bins. With fewer rows the bias is mostly below the noise.

    Events and censoring that are crowded in the same small part of a bin are not covered. The summary warns if most
    events of a bin are near one end of it. It names the bins in which many rows have events and others are censored, so
    that the curve depends on the shape of the hazard inside them.

    **Intervals** include sampling error and noise. A pointwise interval is a score interval with the effective
    number of rows of Greenwood's variance. The band covers the whole usable range together. Beyond the usable range
    the lower limit is 0.

    **Limits.** Independent censoring is assumed, and no rows can show it. If many rows have events and others are
    censored in one bin, intervals can undercover from there on: the summary names this bin. No hazard ratio is adjusted
    for covariates, and all assume proportional hazards. Subjects who enter late (left truncation) are not covered:
    ``entry`` is refused.

    References
    ----------
    Kaplan and Meier (1958), Nonparametric estimation from incomplete observations. Greenwood (1926), The natural
    duration of cancer. Hall and Wellner (1980), Confidence bands for a survival curve from censored data. Gondara and
    Wang (2020), Differentially private survival function estimation.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.survival import PrivateSurvival
    >>> rng = np.random.default_rng(0)
    >>> week = rng.exponential(30.0, 5000)
    >>> left = rng.uniform(10.0, 80.0, 5000)
    >>> model = PrivateSurvival(horizon=52.0, bins=13, epsilon=1.0, random_state=0)
    >>> model = model.fit(np.minimum(week, left), week <= left)
    >>> model.survival([12.0, 24.0]).round(2)
    array([0.67, 0.45])
    >>> low, high = model.confidence_interval(t=[12.0, 24.0])
    >>> bool((low < np.exp([-0.4, -0.8])).all() and (np.exp([-0.4, -0.8]) < high).all())
    True
    """

    groups: Any = None
    by: Any = None
    time: Any = None
    event: Any = None
    horizon: Any = None
    edges: Any = None
    bins: Any = None
    causes: Any = None
    unit: Any = None
    censored: Any = 0
    entry: Any = None
    discrete: bool = False
    unknown: str = "drop"
    epsilon: float = 1.0
    delta: float = 0.0
    random_state: Any = None
    budget: Any = None

    def plan(self, n_samples: int, n_features: int = 1) -> TablePlan:
        """Return the plan of a fit on data of this size: what it releases, and its cost.

        Parameters
        ----------
        n_samples, n_features : int
            Public sizes; times are one column.

        Examples
        --------
        >>> from dpstats.survival import PrivateSurvival
        >>> print(PrivateSurvival(horizon=52, epsilon=1.0).plan(5000))
        Release plan for n = 5000, d = 1: (epsilon = 1, delta = 0), one row replaced
          survival table: 219 numbers, Laplace noise of scale 3.83142 to 20
          50 bins up to 52, positions inside them with 5% of the privacy
          noise of the number at risk: sd 6.66 to 21 rows
          expected width of a 95% interval at the horizon, if half survive to it: 0.0285
        """
        n = self._size(n_samples, n_features)
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        causes = self._event_kinds().values[1:]
        groups = None if self.groups is None else self._categories().values
        n_groups = 1 if groups is None else len(groups)
        discrete, others = check_flag("discrete", self.discrete), self._has_others()
        bins = default_bins(n, epsilon, n_groups)
        edges = check_edges(self.horizon, self.edges, self.bins, bins, discrete)
        return self._smaller_noise(
            lambda delta: survival_plan(n, edges, groups, causes, discrete, epsilon, delta, others),
            delta,
            lambda plan: plan.at_risk_std,
        )

    def _causes(self) -> tuple[Any, ...]:
        return (1,) if self.causes is None else Categories(self.causes, "causes").values

    def _read(self, rows: Rows, plan: TablePlan) -> Mapping[str, Any]:
        return {TABLE: plan.levels.steps(rows.total(plan.cells))}

    def _report(self, released: Released, plan: TablePlan) -> None:
        self._table = table = SurvivalTable.from_release(plan, released[TABLE])
        each = range(plan.cells.n_declared)
        start = first_edge(plan.cells)
        self.edges_ = table.edges[start:]
        self.survival_ = self._per_group([table.estimate(group)[start:] for group in each])
        self.at_risk_ = self._per_group([table.curves(group).at_risk[0] for group in each])
        self.at_risk_noise_std_ = plan.at_risk_std
        self.usable_until_ = self._per_group([table.usable_until(group) for group in each])

    # Arguments

    def _per_group(self, values: list[Any]) -> Any:
        """Return values of each group with the groups first; without groups the only value."""
        if self.groups is not None:
            return np.array(values)
        return values[0]

    def _cause(self, cause: Any) -> int:
        causes = self.plan_.causes
        place = int(Categories(causes).codes([cause])[0])
        if place < 0:
            raise refuse("cause", given=cause, allowed=f"a declared cause ({', '.join(map(repr, causes))})")
        return place

    # The curve

    def survival(self, t: Any, group: Any = None) -> Any:
        """Return the estimated survival at times; NaN beyond the usable range.

        Parameters
        ----------
        t : float or array
            Times from 0 to the horizon. Between edges the curve is a straight line, for discrete times a step.
        group : label, optional
            None: all groups.

        Returns
        -------
        float or array
            Of the shape of ``t``, groups first where there are several.
        """
        places = self._places(group)
        times = self._times("t", t)
        table = self._table
        found = [table.at(times, table.estimate(place)) for place in places]
        return self._several(group, [value if times.ndim else float(value) for value in found])

    def estimates(self, t: Any = None, group: Any = None) -> Estimates:
        """Return the survival at times with the distribution of its errors: it can be pickled without the estimator.

        Parameters
        ----------
        t : float or array, optional
            Times from 0 to the horizon; by default the right edges of the bins. Between edges an interval contains
            those at both neighboring edges.
        group : label, optional
            None: all groups.

        Returns
        -------
        Estimates
            Of the shape of ``survival(t, group)``.
        """
        places = self._places(group)
        times = self._times("t", self._table.edges[1:] if t is None else t)
        errors = CurveErrors(self._table, np.asarray(self.survival(times, group)), tuple(places), times.ravel())
        names = [f"{time:g}" for time in errors.times]
        labels: dict[str, list[Any]] = {"time": errors.times.tolist() * len(places)}
        if self.plan_.groups is not None:
            groups = self._names(group)
            labels = {"group": [name for name in groups for _ in names], **labels}
            names = [f"{name}, {time}" for name in groups for time in names]
        return Estimates(
            errors.estimate,
            errors.error,
            tuple(names),
            f"the survival P(T > t){self._whose()}",
            errors,
            title="Private survival",
            header="survival",
            together=BONFERRONI,
            labels=labels,
            simulated=self.privacy_.simulated,
        )

    def band(self, confidence_level: float = 0.95, *, group: Any = None) -> ConfidenceInterval:
        """Return a band at ``edges_`` that covers the whole survival curve of a group.

        Parameters
        ----------
        confidence_level : float, default=0.95
            Probability that the curve is inside the band at every edge. Each group has its band.
        group : label, optional
            None: all groups.

        Returns
        -------
        ConfidenceInterval
        """
        places, level = self._places(group), check_level("confidence_level", confidence_level)
        start = first_edge(self.plan_.cells)
        pairs = [[end[start:] for end in self._table.band(place, level)] for place in places]
        estimand = f"the survival curve at all edges together{self._whose()}"
        return self._interval(group, pairs, level, estimand, simultaneous=True)

    def _interval(
        self, group: Any, pairs: list[Any], level: float, estimand: str, *, simultaneous: bool = False
    ) -> ConfidenceInterval:
        low, high = (plain(self._several(group, [pair[end] for pair in pairs])) for end in (0, 1))
        return ConfidenceInterval(low, high, level, estimand, simultaneous)

    def _whose(self) -> str:
        return "" if self.plan_.groups is None else " of each group"

    def cumulative_hazard(self, t: Any, group: Any = None) -> Any:
        """Return the estimated cumulative hazard -log S(t) at times: as `survival`."""
        with np.errstate(divide="ignore"):
            found = 0.0 - np.log(self.survival(t, group))
        return float(found) if np.ndim(found) == 0 else found

    # Times and means

    def quantile(self, q: float, group: Any = None) -> SurvivalEstimate:
        """Return a quantile of the time to the event, with an interval.

        Parameters
        ----------
        q : float
            Between 0 and 1.
        group : label, optional
            None: all groups.

        Returns
        -------
        SurvivalEstimate
            An infinite time is not reached inside the usable range.
        """
        places, share = self._places(group), check_real("q", q, above=0, below=1)
        found = self._several(group, [np.float64(self._table.quantile(place, share)) for place in places])
        what = "the median time" if share == 0.5 else f"the {share:g} quantile of the time to the event"
        errors = QuantileErrors(self._table, found, tuple(places), (0.0, np.inf), share)
        return self._estimate(group, errors, what)

    def median(self, group: Any = None) -> SurvivalEstimate:
        """Return the median time to the event, with an interval: see `quantile`."""
        return self.quantile(0.5, group)

    def rmst(self, until: float | None = None, group: Any = None) -> SurvivalEstimate:
        """Return the restricted mean survival time, the area under the curve up to a time, with an interval.

        Parameters
        ----------
        until : float, optional
            At most the horizon, which is the default.
        group : label, optional
            None: all groups.

        Returns
        -------
        SurvivalEstimate
            From 0 to ``until``. NaN where the usable range ends before; the interval is then the area under the limits
            of the band.
        """
        places, end = self._places(group), self._time("until", until)
        found = self._several(group, [np.float64(self._table.restricted_mean(place, end)) for place in places])
        errors = AreaErrors(self._table, found, tuple(places), (0.0, end), end)
        notes = [note for place in places for note in (self._grid_note(place, end), self._end_note(place, end)) if note]
        return self._estimate(group, errors, f"the restricted mean time up to {end:g}", notes)

    def _end_note(self, place: int, until: float) -> str:
        curves = self._table.curves(place)
        last = min(int(np.searchsorted(self._table.edges, until, side="left")), curves.n_bins) - 1
        at_risk, std = float(curves.at_risk[0, last]), float(curves.at_risk_std[last])
        if not self._table.area(place, until).reached[0] or at_risk > max(2 * LEAST_IN_NOISE * std, _FEW_AT_RISK):
            return ""
        return (
            f"Warning: about {max(at_risk, 0.0):.3g} rows are at risk at {until:g} (noise sd {std:.3g}). Among "
            "releases that reach so far, intervals may cover less than they state. Give a smaller `until`."
        )

    def _grid_note(self, place: int, until: float) -> str:
        area = self._table.area(place, until)
        half = 1.96 * float(np.sqrt(area.variance[0]))
        grid = float(abs(area.grid[0]))
        if not area.reached[0] or grid < half / 2:
            return ""
        return (
            f"The width of the bins may change the restricted mean by {grid:.2g}, and sampling and noise by "
            f"{half:.2g}. The interval includes both. Use more bins, or closer edges where the curve is steep."
        )

    # Competing causes

    def cumulative_incidence(self, cause: Any, t: Any = None, group: Any = None) -> Any:
        """Return the estimated probability of an event of a cause up to times: Aalen and Johansen's estimator.

        Parameters
        ----------
        cause : declared cause
        t : float or array, optional
            Times from 0 to the horizon; by default the edges.
        group : label, optional
            None: all groups.

        Returns
        -------
        float or array
            As `survival`; NaN beyond the usable range.
        """
        places = self._places(group)
        times, place_of = self._times("t", self.edges_ if t is None else t), self._cause(cause)
        table = self._table
        found = [table.at(times, table.incidence(place, place_of, 0.95)[0]) for place in places]
        return self._several(group, [value if times.ndim else float(value) for value in found])

    def incidence_interval(
        self, cause: Any, t: Any = None, confidence_level: float = 0.95, *, group: Any = None
    ) -> ConfidenceInterval:
        """Return a pointwise interval for a cumulative incidence, with the arguments of `cumulative_incidence`."""
        places, level = self._places(group), check_level("confidence_level", confidence_level)
        times, cause_place = self._times("t", self.edges_ if t is None else t), self._cause(cause)
        table, pairs = self._table, []
        for place in places:
            _, low, high = table.incidence(place, cause_place, level)
            # An incidence F never decreases: its limits follow from the limits of 1 - F.
            lower, upper = table.limits_at(times, 1 - high, 1 - low)
            pairs.append((1 - upper, 1 - lower))
        estimand = f"the cumulative incidence of {cause!r}{self._whose()}"
        return self._interval(group, pairs, level, estimand)

    # Reports

    def life_table(self, group: Any = None, confidence_level: float = 0.95) -> pd.DataFrame:
        """Return the life table as a data frame: a row for each bin, and for each group.

        The numbers at risk, of events and of censored rows are the noisy ones: not whole, and perhaps negative.
        """
        import pandas as pd

        places, level = self._places(group), check_level("confidence_level", confidence_level)
        m, causes = self.plan_.cells.n_bins, self.plan_.cells.n_causes
        frames = []
        for name, place in zip(self._names(group), places, strict=True):
            curves = self._table.curves(place)
            low, high = self._table.pointwise(place, level)
            frame = pd.DataFrame(
                {
                    "start": self._table.edges[:-1],
                    "end": self._table.edges[1:],
                    "at_risk": curves.at_risk[0],
                    "at_risk_noise_std": curves.at_risk_std,
                    "events": curves.all_events[0],
                    "censored": curves.cells[0, causes * m + 1 :],
                    "survival": self._table.estimate(place)[1:],
                    "low": low[1:],
                    "high": high[1:],
                    "usable": curves.usable[0],
                }
            )
            if self.plan_.groups is not None:
                frame.insert(0, "group", name)
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)

    def summary(self, confidence_level: float | None = None) -> Summary:
        """Return a table of groups, as R's survfit prints it: numbers, events, restricted means and medians."""
        level = usual_level(confidence_level)
        places = self._places(None)
        table, end = self._table, float(self.edges_[-1])
        rows = []
        for name, place in zip(self._names(), places, strict=True):
            curves, area = table.curves(place), table.area(place, end)
            size, std = self._size_of(place)
            low, high = table.quantile_limits(place, 0.5, level)
            error, mean = float(np.sqrt(area.variance[0])), table.restricted_mean(place, end)
            n = f"{self.plan_.n_samples:,}" if self.plan_.groups is None else _count(size, std)
            median = table.quantile(place, 0.5)
            width = (high - low) / 4
            rows.append(
                {
                    "": name,
                    "n": n,
                    "events": _count(curves.all_events[0].sum(), max(std, 1.0)),
                    "rmean": shown(mean, error),
                    "se(rmean)": "" if np.isnan(mean) else significant(error),
                    "median": shown(median, width),
                    f"{level:g}LCL": shown(low, width),
                    f"{level:g}UCL": shown(high, width),
                    "usable to": f"{table.usable_until(place):g}",
                }
            )
        noise = self.plan_.at_risk_std
        facts = [
            *self._public_facts(("Bins, horizon", f"{self.plan_.cells.n_bins}, {end:g}")),
            ("Noise", "Gaussian, exact curve" if self.privacy_.delta else "Laplace"),
            ("Noise at risk", f"sd {noise.min():.3g} to {noise.max():.3g} {self.privacy_.units}"),
        ]
        cells = [list(row.values()) for row in rows]
        return Summary("Private survival", facts, list(rows[0]), cells, self._notes())

    def _size_of(self, place: int) -> tuple[float, float]:
        """Return the noisy number of rows of a group, and the standard deviation of its noise."""
        curves = self._table.curves(place)
        return float(curves.cells.sum()), float(np.sqrt(max(curves.noise.sum(), 0.0)))

    def _notes(self) -> list[str]:
        notes = [SIMULATED] if self.privacy_.simulated else []
        end = float(self.edges_[-1])
        for name, place in zip(self._names(), self._places(None), strict=True):
            curves, table = self._table.curves(place), self._table
            who = "" if self.plan_.groups is None else f" of {name}"
            size, std = self._size_of(place)
            if size < 2 * std:
                notes += empty_groups_note([name]) if who else []
                notes.append(
                    f"Warning: the number of rows{who} is not distinguishable from its noise (sd {std:.3g}). "
                    "Its curve is unknown. Use more rows, a larger epsilon or fewer groups."
                )
                continue
            if curves.n_usable[0] < self.plan_.cells.n_bins:
                notes.append(
                    f"The curve{who} is usable to {table.usable_until(place):g}. Beyond, too few rows are at risk, and "
                    "the lower limits are 0."
                )
            events = float(curves.all_events[0, : curves.n_usable[0]].sum())
            if events < _FEW_EVENTS:
                notes.append(
                    f"Warning: fewer than five events{who} are estimated. Intervals may cover less than they state. "
                    "Extend the horizon or combine groups."
                )
            notes += [note for note in (self._grid_note(place, end), self._end_note(place, end)) if note]
            if isinstance(curves, PlacedCurves):
                crowded = curves.usable[0] & curves.shapes.crowded[0]
                notes += crowding_notes(table.edges[1:][crowded], who)
            if not self.plan_.discrete:
                notes += shape_notes(table.edges[1:][curves.shaped[0]], who)
        notes += assumptions(self.plan_.cells)
        if self.plan_.groups is not None:
            notes.append(
                f"Intervals are not simultaneous. {LEFT_OUT} The sizes of groups are private, and n includes noise."
            )
        return notes

    def plot(self, ax: Any = None, confidence_level: float | None = None, *, group: Any = None, **style: Any) -> Any:
        """Draw the curves with their bands, the end of the usable range, and the numbers at risk below.

        Needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw the curves; there are then no numbers at risk.
        confidence_level : float, default=0.95
            Level of each band.
        group : label, optional
            None: all groups.
        **style
            matplotlib's, of the curves: colors and widths of lines.

        Returns
        -------
        matplotlib Axes
            Of the curves.
        """
        places, level = self._places(group), usual_level(confidence_level)
        return draw_curves(self._table, self._names(group), places, level, ax, style)


@picture_of.register
def _draw(model: PrivateSurvival) -> tuple[str, Any] | None:
    if model.plan_.cells.n_declared > _MOST_DRAWN:
        return None
    return (
        "Survival curves with 95% simultaneous bands, and the numbers at risk with their noise.",
        model.plot().figure,
    )


def _count(value: float, std: float) -> str:
    return f"{float(value):z,.0f}" if std >= 1 else significant(float(value), std)
