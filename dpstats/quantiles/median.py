"""The private median by smooth sensitivity: noise as large as the data near it are sparse.

Proof: docs/proofs/smooth-sensitivity.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_privacy_parameters
from dpstats.data.tables import Table
from dpstats.errors import InvalidParameter
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Smooth
from dpstats.quantiles.column import OneColumn, check_sizes
from dpstats.quantiles.grid import Grid, check_grid, sorted_places
from dpstats.release.session import Released, Session
from dpstats.results import Summary
from dpstats.sensitivity.smooth import median_reach, smooth_level, smooth_levels

MEDIAN = "median"

_LOWEST = 2.0**-5
"""The least scale, in steps: noise that is 0 but for a probability of 1e-13."""
_MOST_LEVELS = 200_000


@dataclass(frozen=True)
class MedianPlan(ReleasePlan):
    """What a fit of a `PrivateMedian` will release.

    Attributes
    ----------
    grid : Grid
        The public points that rows are rounded to.
    """

    grid: Grid

    @property
    def limits(self) -> NDArray[np.int64]:
        """How far one row may move the median at most, at each level of the noise, in steps."""
        stage = self.stages[0]
        assert isinstance(stage, Smooth)
        share = Fraction(stage.sensitivity_share)
        return np.array([math.floor(Fraction(level) * share) for level in stage.levels], dtype=np.int64)


class _Private(NamedTuple):
    """The median's place, and the level of its noise: both are private."""

    place: int
    level: int


class PrivateMedian(OneColumn[MedianPlan]):
    """Private median of one column by smooth sensitivity: the textbook's method, and of its kind the sharpest.

    Noise has the scale of the median's smooth sensitivity at the data: little, where rows are dense about it. That
    scale is private and never shown, so that there is neither a standard error nor an interval.
    `PrivateQuantile` has both, pure privacy, and mostly smaller errors.

    Parameters
    ----------
    bounds : (low, high)
        Public ends, known without the data. A row beyond them counts as the nearer end.
    step : float, optional
        What the data are whole multiples of, counted from the lower bound. Rows and the result are rounded to it.
        None: to a 2^20th of the range.
    epsilon : float, default=1.0
        Privacy parameter, greater than 0.
    delta : float, default=1e-6
        In (0, 1/2]: Laplace noise of a private scale is not private at 0.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise: a release. Anything else is a simulation.
    budget : PrivacyBudget, optional
        Charged by every fit, before anything is drawn; shared by clones.

    Attributes
    ----------
    median_ : float
        Within the bounds. Of an even number of rows the lower median is meant.
    privacy_ : PrivacyGuarantee
        For neighbours that differ in one row; n is public.
    plan_ : MedianPlan
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (1,)
        Where X has a column name.

    Notes
    -----
    Half of epsilon is for where the median is, half for the scale of the noise, which is one of a public geometric
    sequence whose ratio is 1 + epsilon/(2 log(2/delta)). Its place in the sequence, a whole number, moves by at most
    one between neighbours, whatever floating point does.

    References
    ----------
    Nissim, Raskhodnikova and Smith (2007), Smooth sensitivity and sampling in private data analysis.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.quantiles import PrivateMedian
    >>> x = np.random.default_rng(0).lognormal(size=5_000)
    >>> round(PrivateMedian(bounds=(0, 1000), epsilon=1.0, random_state=0).fit(x).median_, 1)
    1.0
    """

    def __init__(
        self,
        *,
        bounds: Any = None,
        step: float | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        random_state: Any = None,
        budget: Any = None,
    ) -> None:
        self.bounds = bounds
        self.step = step
        self.epsilon = epsilon
        self.delta = delta
        self.random_state = random_state
        self.budget = budget

    def plan(self, n_samples: int, n_features: int = 1) -> MedianPlan:
        """Return what a fit on data of this size would release, and at which cost.

        Examples
        --------
        >>> from dpstats.quantiles import PrivateMedian
        >>> print(PrivateMedian(bounds=(0, 100)).plan(5000))
        Release plan for n = 5000, d = 1: (epsilon = 1, delta = 1e-06), one row replaced
          median: 1 number, Laplace noise of a private scale, by the smooth sensitivity
        """
        n = check_sizes(n_samples, n_features)
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        if not 0 < delta <= 0.5:
            raise InvalidParameter(
                f"delta must be greater than 0 and at most 0.5, got {delta:g}: Laplace noise of a private scale is not "
                "pure; PrivateQuantile is"
            )
        grid = check_grid(self.bounds, self.step)
        half = epsilon / 2
        # A little less than the ratio that gives delta: what is lost is in the tenth digit.
        ratio = 1 + half / math.log(2 / delta) * (1 - 1e-10)
        highest = grid.steps / half * (1 + 1e-12)
        if math.log(highest / _LOWEST) > _MOST_LEVELS * math.log(ratio):
            raise InvalidParameter(
                f"epsilon is too small for the smooth sensitivity of a median, got {epsilon:g}"
            )
        levels = smooth_levels(_LOWEST, highest, ratio)
        stage = Smooth(MEDIAN, grid.spacing, levels, half, half)
        return MedianPlan((stage,), PrivacyGuarantee(epsilon, delta), n, 1, grid)

    def _read(self, table: Table, plan: MedianPlan) -> _Private:
        places = sorted_places(table.X, plan.grid)
        middle = int(places[(places.size + 1) // 2 - 1])
        return _Private(middle, smooth_level(median_reach(places, plan.grid.steps), plan.limits))

    def _release(self, private: _Private, plan: MedianPlan, session: Session) -> None:
        session.smooth(MEDIAN, private.place, private.level)

    def _report(self, released: Released, plan: MedianPlan) -> None:
        place = np.clip(np.rint(released[MEDIAN][0] / plan.grid.spacing), 0, plan.grid.steps)
        self.median_ = float(plan.grid.values(place))

    def summary(self) -> Summary:
        """Return a table; prints as text, shows as HTML in a notebook."""
        self._fitted()
        grid = self.plan_.grid
        return Summary(
            "Private median by smooth sensitivity",
            [*self._first_facts(), ("Bounds", f"{grid.low:g} to {grid.high:g} (public)")],
            ["", "median"],
            [(self._name, f"{self.median_:.6g}")],
            [
                "The scale of the noise depends on the rows and is private: there is no standard error, and digits are "
                "not those that the noise leaves. PrivateQuantile has an interval.",
                *self._simulated_note(),
            ],
        )
