"""Private quantiles of a column: one or many, with intervals.

Proof: docs/proofs/quantiles.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_choice, check_level, check_privacy_parameters, check_real
from dpstats.data.rows import Rows
from dpstats.data.values import as_int64
from dpstats.errors import ScaleOutOfRange, attempt, refuse, show
from dpstats.inference.error_distributions import chosen_limits
from dpstats.inference.estimates import Estimates
from dpstats.inference.figures import ESTIMATE, new_figure, place_bars, set_title
from dpstats.inference.reports import picture_of
from dpstats.inference.results import few_observed
from dpstats.mechanisms.unknown_bounds import plan_with_bounds, wants_bounds
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.quantiles.grid import OneColumn, check_grid, check_sizes, counts_beside, sorted_places, windows
from dpstats.quantiles.grid import release as release_by_halving
from dpstats.quantiles.quantile_plan import (
    COUNTS,
    CROWDED,
    HIGH,
    LOW,
    POINT,
    POINTS,
    ROWS,
    TIED,
    QuantilePlan,
    cheap_coverage,
    halving_plan,
    observed_plan,
    place_of_targets,
    points_plan,
    regular_note,
)
from dpstats.release.estimator import parameters
from dpstats.release.session import Part, Released, Session

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_MOST_TOGETHER = 20
"""Number of quantiles from which halving has the smaller errors."""
_MOST_POINTS = 200

_OR_ANY = ", or set coverage='any'."
_ANY = "For any distribution, set coverage='any'."
_ANY_DROPPED = "PrivateDistribution(missing='drop') has intervals for every distribution."

Numbers = NDArray[np.float64]


@parameters
class PrivateQuantile(OneColumn[QuantilePlan]):
    """Private quantiles of one column, with confidence intervals.

    Use this estimator for a few quantiles of a column with loose public bounds. Points of a public grid are
    chosen with probabilities that depend on their ranks only. Wide bounds therefore cost almost nothing. If rows share
    values, as counts and rounded amounts do, set ``coverage="any"`` or declare ``step``. For the whole distribution,
    use `PrivateDistribution`.

    Parameters
    ----------
    q : float or sequence of float, default=0.5
        Distinct fractions in (0, 1), in any order. Results have the same order.
    bounds : (low, high), "private" or UnknownBounds
        Public bounds, known without the data. A row outside counts as the nearer bound. This does not change quantiles
        between the bounds. Their intervals may miss if many rows count as a bound.
        "private" chooses them from the rows for a fifth of epsilon, without a step (`UnknownBounds`).
    step : float, optional
        Spacing of the data, such as 1 for counts. It must divide the range. Rows and results are rounded to multiples
        of it, from the lower bound on. Default: rows are rounded to a 2^20th of the range.
    confidence_level : float or None, default=0.95
        Level of each interval. The release chooses its limits for this level. None: no intervals, and smaller
        errors of many quantiles.
    coverage : {"auto", "regular", "any"}, default="auto"
        Assumption of the intervals:

        * "regular": near the quantile there is no gap and, unless ``step`` is declared, no value that many rows share,
          such as 0 or a bound; and there are enough rows. The plan and the summary warn if there are too few.
        * "any": none. Noisy counts check the rows beyond each limit. A limit that fails its check is replaced by the
          bound. On rows without ties, intervals of quartiles at epsilon 1 are 1.4 and 1.1 times as wide (10,000 and
          100,000 rows). Intervals at 200 are the bounds.
        * "auto": "any", if public sizes show that it costs at most a tenth of the width on rows without ties: at
          epsilon 1 from about 150,000 rows on. Otherwise "regular", which holds with ties if ``step`` is declared.
    method : {"auto", "joint", "halving"}, default="auto"
        Method for quantiles without intervals. "joint" chooses all at once. "halving" chooses the middle one
        first, then the others on either side. Many ties at a chosen point make higher quantiles too large.
        "auto" uses halving for 21 quantiles or more if no step is declared.
    missing : {"error", "drop"}, default="error"
        Treatment of a missing or infinite entry. "error" raises `InvalidData`. "drop" leaves its row out and returns
        quantiles of the observed rows. A tenth of epsilon counts them. It excludes ``coverage="any"``.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive.
    delta : float, default=0.0
        Privacy parameter, in [0, 1). A positive value reduces the error of ``method="halving"`` only.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges before it draws noise. Clones share it.

    Attributes
    ----------
    quantile_ : float, or ndarray of shape (m,)
        Nondecreasing in q. A separately chosen point, or the middle of the interval if a point would widen
        intervals by more than 1%. NaN if too few rows lie between the quantile and a bound to separate them at
        this epsilon; ``plan_.unseparated`` lists these quantiles before the fit.
    low_, high_ : float, or ndarray of shape (m,)
        Limits of the intervals. A limit is the bound if the rows do not support a better one. NaN without intervals.
    rows_ : float
        Noisy number of observed rows. It can be negative. Only with ``missing="drop"``.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row.
    plan_ : QuantilePlan
        The release plan: every released quantity and its noise.
    n_features_in_ : int
        Number of columns: 1.
    feature_names_in_ : ndarray of shape (1,)
        Column name. Only if ``X`` has one.

    Notes
    -----
    **Privacy.** One exponential mechanism chooses all points of a fit. The utility u of a tuple is minus the
    range of the rank errors of its points, 0 included. A replaced row changes it by at most one, so that a
    tuple has weight e^(epsilon u/2).

    **Intervals.** The limits aim at ranks beyond the rank of the quantile. One half of the error probability
    allows for sampling, the other half for the choice.

    **Limits.** ``coverage="regular"`` assumes no gap near the quantile, such as between two clusters, and no value
    that many rows share, unless ``step`` is declared. Neither is detected. Quantiles within about 35/epsilon ranks
    of the smallest or largest row have no estimate. Intervals exist for the declared level only, and there are no
    p-values.

    References
    ----------
    Smith (2011), Privacy-preserving statistical estimation with optimal convergence rates. Gillenwater, Joseph and
    Kulesza (2021), Differentially private quantiles. Kaplan, Schnapp and Stemmer (2022), Differentially private
    approximate quantiles. Drechsler, Globus-Harris, McMillan, Sarathy and Smith (2022), Nonparametric differentially
    private confidence intervals for the median.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.quantiles import PrivateQuantile
    >>> x = np.random.default_rng(0).lognormal(size=5_000)
    >>> quartiles = PrivateQuantile([0.25, 0.5, 0.75], bounds=(0, 1000), epsilon=1.0, random_state=0).fit(x)
    >>> quartiles.quantile_.round(2)
    array([0.5 , 0.97, 1.97])
    >>> low, high = quartiles.confidence_interval()
    >>> bool(np.all((low < [0.51, 1, 1.96]) & (high > [0.51, 1, 1.96])))
    True
    """

    q: Any = field(default=0.5, kw_only=False)
    bounds: Any = None
    step: float | None = None
    confidence_level: float | None = 0.95
    coverage: str = "auto"
    method: str = "auto"
    missing: str = "error"
    missing_codes: Any = None
    epsilon: float = 1.0
    delta: float = 0.0
    random_state: Any = None
    budget: Any = None

    def plan(self, n_samples: int, n_features: int = 1) -> QuantilePlan:
        """Return the release plan of a fit on data of this size.

        Examples
        --------
        >>> from dpstats.quantiles import PrivateQuantile
        >>> plan = PrivateQuantile(0.5, bounds=(0, 100)).plan(5000)
        >>> print(plan)
        Release plan for n = 5000, d = 1: (epsilon = 1, delta = 0), one row replaced
          points: 3 of 1,048,577 points, exponential mechanism of scale 2 in ranks
          standard deviation of a rank's error: about 4.45 of 5,000 rows, if these are evenly spaced
        >>> [target.rank for target in plan.targets], round(plan.rank_error, 2)
        ([2430, 2500, 2570], 4.45)
        """
        n = check_sizes(n_samples, n_features)
        if wants_bounds(self.bounds):
            return cast(QuantilePlan, plan_with_bounds(self, n, 1, tails=False))
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        q, grid = tuple(sorted(check_fractions(self.q))), check_grid(self.bounds, self.step)
        level = None if self.confidence_level is None else check_level("confidence_level", self.confidence_level)
        coverage = check_choice("coverage", self.coverage, ["auto", "regular", "any"])
        method = check_choice("method", self.method, ["auto", "joint", "halving"])
        missing = self._policy()
        guarantee = PrivacyGuarantee(epsilon, delta)
        if method == "auto":
            many = level is None and len(q) > _MOST_TOGETHER and not grid.declared
            method = "halving" if many else "joint"
        if method == "halving":
            if level is not None:
                raise refuse(
                    "confidence_level", given=level, allowed="None with method='halving', which has no intervals"
                )
            return _plan_or_name_another(halving_plan, n, grid, q, guarantee, missing)
        if level is None and coverage == "any":
            raise refuse(
                "coverage", given=coverage, allowed="'regular' without intervals", remedy="Give a confidence_level."
            )
        if missing == "drop" and coverage == "any":
            raise refuse(
                "coverage",
                given=coverage,
                allowed="'regular' with missing='drop'",
                remedy="PrivateDistribution(missing='drop') has intervals for any distribution.",
            )
        if len(q) * (1 if level is None else 3) > _MOST_POINTS:
            raise refuse(
                "q",
                got=f"{len(q)} quantiles",
                allowed=f"have at most {_MOST_POINTS} points together, three for each quantile with an interval",
                remedy="PrivateDistribution has them all.",
            )
        if coverage == "auto":
            # With a declared step ties need no check, and the check excludes missing rows.
            excluded = level is None or grid.declared or missing == "drop"
            coverage = "regular" if excluded else cheap_coverage(n, grid, q, guarantee, level)
        return _plan_or_name_another(points_plan, n, grid, q, guarantee, level, coverage, missing)

    def _read(self, rows: Rows, plan: QuantilePlan) -> Any:
        return sorted_places(rows.whole().X, plan.grid, plan.missing)

    def _release(self, private: Any, plan: QuantilePlan, session: Session) -> None:
        release_points(private, plan, session)

    def _report(self, released: Released, plan: QuantilePlan) -> None:
        if plan.dropped:
            self.rows_ = float(released[ROWS][0])
        points, low, high = read_points(released, plan)
        # Restore the order of the given fractions.
        self._fractions = check_fractions(self.q)
        given = np.argsort(np.argsort(self._fractions))
        one = np.ndim(self.q) == 0
        self.quantile_, self.low_, self.high_ = (
            float(values[0]) if one else values[given] for values in (points, low, high)
        )

    def estimates(self) -> Estimates:
        """Return the quantiles with their chosen intervals, as a result that can be pickled alone.

        Intervals have only the level of the estimator, and there are no p-values.
        """
        self._fitted()
        plan, points = self.plan_, np.asarray(self.quantile_)
        how, of = ("level by level", "of the last level") if plan.halving else ("together", "where rows lie evenly")
        return Estimates(
            points,
            None,
            tuple(f"{x:g}" for x in self._fractions),
            self._add_bounds("the quantiles of the population"),
            chosen_limits(points, self.low_, self.high_, plan.confidence_level),
            title="Private quantiles",
            header="quantile",
            facts=[
                *self._first_facts(),
                ("Chosen", f"{plan.chosen} points, {how}"),
                ("Rank error", f"{plan.rank_error:.3g} {plan.guarantee.units} (sd, {of})"),
            ],
            notes=self._notes(),
            rows="q",
            exact=plan.grid.declared,
            simulated=self.privacy_.simulated,
        )

    def _notes(self) -> list[str]:
        plan, notes = self.plan_, []
        if plan.dropped:
            notes += few_observed(self.rows_, plan.rows_std)
            plan = observed_plan(plan, int(plan.anchor(self.rows_)))
        if plan.halving:
            notes.append(
                "Quantiles are chosen level by level. If many rows are tied at one value, quantiles above it are too "
                "high."
            )
        notes += plan.unseparated_note()
        if plan.confidence_level is None:
            return notes
        if plan.coverage == "any":
            notes.append(
                "Intervals hold for independent rows of any distribution. A limit at a bound failed its check, or "
                "could not pass it."
            )
        else:
            notes.append(f"{regular_note(plan.grid.declared)} {_ANY_DROPPED if plan.dropped else _ANY}")
            if not plan.grid.declared:
                notes.insert(0, f"{TIED}{'.' if plan.dropped else _OR_ANY}")
        if plan.crowded:
            where = ", ".join(f"{q:g}" for q in plan.crowded)
            notes.append(
                f"Few rows for this epsilon about q = {where}: a rank error exceeds {100 * CROWDED:g}% of the rows on "
                "the nearer side. Intervals there may undercover."
            )
        if len(plan.q) > 1:
            notes.append("Intervals are not simultaneous.")
        if np.any((self.low_ == plan.grid.low) | (self.high_ == plan.grid.high)):
            notes.append("A limit that equals a bound has no further information.")
        return notes


def release_points(places: Any, plan: QuantilePlan, session: Session) -> None:
    """Release the points of a plan for rows at sorted places of its grid."""
    rows = session.add(ROWS, np.array([places.size])) if plan.dropped else np.array([plan.n_samples])
    if plan.halving:
        names = tuple(stage.name for stage in plan.choices)
        release_by_halving(places, plan.levels, names, plan.grid.steps, session)
        return
    choose_points(places, rows, plan, session)


def choose_points(places: Any, rows: Any, plan: QuantilePlan, session: Session, each: int = 1) -> None:
    """Choose the points of a plan after the number of rows was released. The plan is about ``each`` rows at a time."""
    counted = as_int64(np.clip(np.rint(rows), 2 * each, plan.n_samples))
    anchors, case = np.unique(counted, return_inverse=True)
    # All ranks shift by the same number with the observed rows, so that one row changes all utilities in one
    # direction.
    aims = [[rank + plan.shift(places.size, anchor) for rank in plan.aim(anchor, each)] for anchor in anchors.tolist()]
    cases = [windows(places, tuple(ranks), plan.grid.steps, each) for ranks in aims]
    chosen = session.choose(POINTS, [Part(cases, case.reshape(-1) if plan.dropped else None)])
    if plan.accepted:
        ordered = np.sort(chosen, axis=-1)
        low, high = (
            ordered[..., [i for i, target in enumerate(plan.targets) if target.kind == kind]] for kind in (LOW, HIGH)
        )
        session.add(COUNTS, counts_beside(places, low, high))


def read_points(released: Released, plan: QuantilePlan) -> tuple[Numbers, Numbers, Numbers]:
    """Return the points, and the limits of their intervals, in increasing order of the fractions."""
    if plan.dropped:
        plan = observed_plan(plan, int(plan.anchor(float(released[ROWS][0]))))
    grid, m = plan.grid, len(plan.q)
    points, low, high = np.empty(m), np.full(m, np.nan), np.full(m, np.nan)
    if plan.halving:
        chosen = {
            node.index: place
            for level, stage in zip(plan.levels, plan.choices, strict=True)
            for node, place in zip(level, released[stage.name].tolist(), strict=True)
        }
        # Quantiles that cannot be separated from a bound were not chosen, unless this holds for all of them.
        of = [i for i in range(m) if plan.q[i] not in plan.unseparated] or range(m)
        points[of] = grid.values(np.sort([chosen[i] for i in range(len(of))]))
    else:
        found = place_of_targets(plan, released[POINTS])
        if plan.confidence_level is not None:
            low, high = _read_limits(found, released, plan)
        for i in range(m):
            kinds = [POINT] if (POINT, i) in found else [LOW, HIGH]
            places = [found[kind, i] for kind in kinds if (kind, i) in found]
            points[i] = np.mean(grid.values(places)) if len(places) == len(kinds) else np.nan
    points[[x in plan.unseparated for x in plan.q]] = np.nan
    return points, low, high


def _read_limits(found: Any, released: Released, plan: QuantilePlan) -> tuple[Numbers, Numbers]:
    """Return the limits of the intervals in the units of the data."""
    grid, m = plan.grid, len(plan.q)
    ends = [dict.fromkeys(range(m), bound) for bound in (grid.low, grid.high)]
    counts = iter(np.atleast_1d(released[COUNTS]).tolist()) if plan.accepted else None
    # Rounding moves rows by at most half a step, and not at all if the step is declared.
    half = 0.0 if grid.declared else grid.spacing / 2
    for side, kind in enumerate((LOW, HIGH)):
        for target in plan.targets:
            if target.kind != kind:
                continue
            if counts is not None:
                limit, count = plan.accepted[target.of][side], next(counts)
                if limit is None or (count > limit if kind == LOW else count < limit):
                    continue
            moved = float(grid.values(found[kind, target.of])) + (half if kind == HIGH else -half)
            ends[side][target.of] = min(max(moved, grid.low), grid.high)
    low, high = (np.array([end[i] for i in range(m)]) for end in ends)
    return low, high


def check_fractions(q: Any) -> list[float]:
    """Return distinct fractions in (0, 1) in their given order, or raise an error."""
    axes = attempt(lambda: np.ndim(q), Exception)
    if isinstance(q, str) or axes not in (0, 1) or (axes == 1 and not len(q)):
        raise refuse("q", given=q, allowed="a fraction in (0, 1), or a sequence of some")
    checked = [check_real("q", x, above=0, below=1, of=q) for x in (q if axes else [q])]
    if len(set(checked)) < len(checked):
        raise refuse("q", got=f"{show(q)} with one twice", allowed="have each fraction once")
    return checked


def _plan_or_name_another(make: Callable[..., QuantilePlan], *arguments: Any) -> QuantilePlan:
    """Return a plan. The refusal of a small epsilon names the estimator that allows it."""
    try:
        return make(*arguments)
    except ScaleOutOfRange as error:
        raise ScaleOutOfRange(f"{error}. Or use PrivateDistribution, which allows a smaller epsilon.") from None


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
    figure = new_figure(figsize=(5.6, 3.6))
    axis = figure.subplots()
    if quantiles.plan_.confidence_level is None:
        axis.plot(q, points, "o", ms=4, color=ESTIMATE)
    else:
        # A separately chosen point may equal a limit of its interval, but is never outside.
        middle, errors, marked = place_bars(points, low, high)
        label = f"private, with {100 * quantiles.plan_.confidence_level:g}% intervals"
        axis.errorbar(q, middle, errors, fmt="o", ms=4, capsize=3, color=ESTIMATE, label=label, markevery=marked)
        axis.legend(fontsize=8, frameon=False, loc="upper left")
    axis.set_xlim(0, 1)
    axis.set_xlabel("q")
    axis.set_ylabel("quantile")
    axis.grid(alpha=0.25)
    set_title(axis, title)
    return figure


@picture_of.register
def _of_quantiles(quantiles: PrivateQuantile) -> tuple[str, Any] | None:
    if np.size(quantiles.q) < 2:
        return None
    return (
        "Private quantiles against their fractions, with their intervals where there are any.",
        plot_quantiles(quantiles),
    )
