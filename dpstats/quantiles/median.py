"""The textbook's private median, by smooth sensitivity: the noise is larger if data near the median are sparse.

Proof: docs/proofs/smooth-sensitivity.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from dpstats.data.parameters import check_level, check_privacy_parameters, check_real
from dpstats.data.rows import Rows
from dpstats.inference.error_distributions import chosen_limits
from dpstats.inference.estimates import Estimates
from dpstats.mechanisms.unknown_bounds import plan_with_bounds, wants_bounds
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.stages import LEAST_HEAVY, Smooth, Stage
from dpstats.quantiles.grid import Grid, GridPlan, OneColumn, check_grid, check_sizes, sorted_places
from dpstats.release.estimator import parameters
from dpstats.release.session import Released, Session
from dpstats.sensitivity.smooth import (
    LEVEL,
    LEVEL_SHARE,
    half_width,
    level_stage,
    median_reach,
    smooth_level,
    smooth_stage,
)

MEDIAN = "median"

_LEAST = 2.0**-5
"""Smallest scale of Laplace noise, in steps. This noise is 0 except with probability 1e-13."""
_FINER = 2**10
"""Parts of a step that Student's noise is drawn in, whose least scale is a few whole numbers."""


@dataclass(frozen=True)
class MedianPlan(GridPlan):
    """The release plan of a `PrivateMedian`.

    Attributes
    ----------
    grid : Grid
        Public points to which rows are rounded.
    confidence_level : float, optional
        Level of the interval, if there is one.
    missing : {"error", "drop"}
    """

    grid: Grid
    confidence_level: float | None = None
    missing: str = "error"

    @property
    def median(self) -> Smooth:
        """The stage that releases the median."""
        stage = self.stages[-1]
        assert isinstance(stage, Smooth)
        return stage

    @property
    def parts(self) -> int:
        """Number of noise steps per step of the grid."""
        return 1 if self.median.noise == "laplace" else _FINER


class _Private(NamedTuple):
    """Place of the median, in steps of the noise, and level of its noise. Both are private."""

    place: int
    level: int


@parameters
class PrivateMedian(OneColumn[MedianPlan]):
    """The textbook's private median of one column, by smooth sensitivity. For your data, use `PrivateQuantile`.

    The class is here for the algorithm of the source text. `PrivateQuantile` has smaller errors, needs no delta, and
    its intervals are for the population. On lognormal rows at epsilon 1 its root mean squared error is 0.0082 at 1,000
    rows and 0.0015 at 5,000. Here it is 0.10 and 0.021, or 0.030 and 0.0053 with ``delta=0``. At 200 rows and
    delta 1e-6 the noise of this class leaves nothing.

    The noise is small if rows are dense near the median. Its scale is private and never shown, so an interval requires
    an additional release: a bound on this scale.

    Parameters
    ----------
    bounds : (low, high), "private" or UnknownBounds
        Public bounds, in the units of the data, known without the data. A row outside counts as the nearer bound.
        "private" chooses them from the rows for a fifth of epsilon, without a step (`UnknownBounds`).
    step : float, optional
        Spacing of the data, from the lower bound on. Rows and the result are rounded to multiples of it. None: rows are
        rounded to a 2^20th of the range.
    confidence_level : float, optional
        Level of an interval for the median of these rows. None, the default: no interval, and the median uses all of
        epsilon. Otherwise a fifth of epsilon (two fifths if delta is 0) pays for a bound on the scale of the noise.
    missing : {"error", "drop"}, default="error"
        Treatment of a missing or infinite entry. "error" raises `InvalidData`. "drop" leaves its row out and returns
        the median of the observed rows, without additional privacy cost. Their number is not released.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive.
    delta : float, default=1e-6
        Privacy parameter, in [0, 1/2]. A positive value adds Laplace noise, as in the textbook. 0 gives pure
        differential privacy, with noise from Student's t distribution with three degrees of freedom. For deltas below
        about 1e-2, this noise is also smaller.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges before it draws noise. Clones share it.

    Attributes
    ----------
    median_ : float
        Private median, within the bounds. For an even number of rows it estimates the lower median. If no row is
        observed, it estimates the lower bound.
    low_, high_ : float
        Limits of the interval, if there is one.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row.
    plan_ : MedianPlan
        The release plan: every released quantity and its noise.
    n_features_in_ : int
        Number of columns: 1.
    feature_names_in_ : ndarray of shape (1,)
        Column name. Only if ``X`` has one.

    Notes
    -----
    **Privacy.** The scale of the noise belongs to a public geometric sequence. Its ratio is
    1 + epsilon/(2 log(2/delta)), or e^(epsilon/4.37) if delta is 0. The place in the sequence is a whole number. It
    changes by at most one between neighboring datasets, also in floating-point arithmetic.

    **Limits.** Intervals are for these rows, not for the population. The noise is large if few rows are near the
    median, and hides the median of small tables.

    References
    ----------
    Nissim, Raskhodnikova and Smith (2007), Smooth sensitivity and sampling in private data analysis.
    Bun and Steinke (2019), Average-case averages: private algorithms for smooth sensitivity and mean estimation.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.quantiles import PrivateMedian
    >>> x = np.random.default_rng(0).lognormal(size=5_000)
    >>> round(PrivateMedian(bounds=(0, 1000), epsilon=1.0, random_state=0).fit(x).median_, 1)
    1.0
    >>> pure = PrivateMedian(bounds=(0, 1000), delta=0, confidence_level=0.95, random_state=0).fit(x)
    >>> interval = pure.confidence_interval()
    >>> bool(interval.low < np.median(x) < interval.high)
    True
    """

    bounds: Any = None
    step: float | None = None
    confidence_level: float | None = None
    missing: str = "error"
    missing_codes: Any = None
    epsilon: float = 1.0
    delta: float = 1e-6
    random_state: Any = None
    budget: Any = None

    def plan(self, n_samples: int, n_features: int = 1) -> MedianPlan:
        """Return the release plan of a fit on data of this size.

        Examples
        --------
        >>> from dpstats.quantiles import PrivateMedian
        >>> print(PrivateMedian(bounds=(0, 100)).plan(5000))
        Release plan for n = 5000, d = 1: (epsilon = 1, delta = 1e-06), one row replaced
          median: 1 number, Laplace noise of a private scale, by the smooth sensitivity
        """
        n = check_sizes(n_samples, n_features)
        if wants_bounds(self.bounds):
            return cast(MedianPlan, plan_with_bounds(self, n, 1, tails=False))
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        check_real("delta", delta, at_most=0.5)
        level = None
        if self.confidence_level is not None:
            level = check_level("confidence_level", self.confidence_level)
        missing = self._policy()
        grid = check_grid(self.bounds, self.step)
        parts, law = (1, "laplace") if delta else (_FINER, "student")
        for_level = 0.0 if level is None else LEVEL_SHARE[law] * epsilon
        noise = smooth_stage(
            MEDIAN,
            (epsilon - for_level) * (1 if level is None else 1 - 2.0**-50),
            delta,
            spacing=grid.spacing / parts,
            least=_LEAST if delta else LEAST_HEAVY,
            furthest=float(grid.steps * parts),
            noise=law,
            steady=level is not None,
        )
        stages: tuple[Stage | Smooth, ...] = (noise,) if level is None else (level_stage(for_level), noise)
        return MedianPlan(stages, PrivacyGuarantee(epsilon, delta), n, 1, grid, level, missing)

    def _read(self, rows: Rows, plan: MedianPlan) -> _Private:
        places = sorted_places(rows.whole().X, plan.grid, plan.missing)
        middle = int(places[(places.size + 1) // 2 - 1]) if places.size else 0
        reach, parts = median_reach(places, plan.grid.steps), plan.parts
        return _Private(parts * middle, smooth_level(lambda k: parts * reach(k), plan.median.limits))

    def _release(self, private: _Private, plan: MedianPlan, session: Session) -> None:
        if plan.confidence_level is not None:
            session.add(LEVEL, np.array([private.level]))
        session.smooth(MEDIAN, private.place, private.level)

    def _report(self, released: Released, plan: MedianPlan) -> None:
        grid, noise = plan.grid, plan.median
        steps = released[MEDIAN][0] / grid.spacing
        self.median_ = float(grid.values(np.clip(np.rint(steps), 0, grid.steps)))
        if plan.confidence_level is None:
            return
        stage = plan.stages[0]
        assert isinstance(stage, Stage)
        level = float(released[LEVEL][0])
        width = half_width(noise, level, stage.scale_steps, plan.confidence_level) / plan.parts
        # Rounding moves rows by at most half a step, and not at all if the step is declared.
        more = 0.0 if grid.declared else 0.5
        ends = np.clip([steps - width - more, steps + width + more], 0, grid.steps)
        self.low_, self.high_ = (float(end) for end in grid.low + grid.spacing * ends)

    def estimates(self) -> Estimates:
        """Return the median with its interval, if there is one, as a result that can be pickled alone.

        The interval has only the level of the estimator, and there is no p-value.
        """
        self._fitted()
        level, median = self.plan_.confidence_level, np.asarray(self.median_)
        note = (
            "The noise scale depends on the rows and is private. So there is no standard error, and the printed digits "
            "do not show the precision. Set confidence_level=0.95 to release a bound on the noise."
            if level is None
            else "The interval reflects privacy noise only. It covers the median of these rows, not of a population. "
            "PrivateQuantile has intervals for a population."
        )
        low, high = (np.nan, np.nan) if level is None else (self.low_, self.high_)
        return Estimates(
            median,
            None,
            (self._name,),
            self._add_bounds("the median of these rows"),
            chosen_limits(median, low, high, level),
            title="Private median by smooth sensitivity",
            header="median",
            facts=self._first_facts(),
            notes=[note],
            exact=self.plan_.grid.declared,
            simulated=self.privacy_.simulated,
        )
