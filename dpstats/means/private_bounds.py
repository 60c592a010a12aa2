"""Private bounds of columns about which nobody knows anything. Proof: docs/proofs/private-bounds.md."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.data.parameters import check_integer, check_privacy_parameters, check_real
from dpstats.data.rows import Rows
from dpstats.inference.reports import SIMULATED, Records
from dpstats.inference.results import Summary, significant
from dpstats.lattice import check_finite_rows
from dpstats.mechanisms.unknown_bounds import (
    BoundsPlan,
    plan_bounds,
    read_bounds,
    read_column,
    release_bounds,
    show_share,
)
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee, parse_neighbors
from dpstats.release.additive import HiddenSize, check_size
from dpstats.release.estimator import PrivateEstimator, parameters
from dpstats.release.session import Released, Session

Numbers = NDArray[np.float64]

_LATER = 4.0  # times epsilon, for the release that will use the bounds: bounds get a fifth of both together


@parameters
class PrivateBounds(PrivateEstimator[BoundsPlan]):
    """Private bounds of every column, without any public bounds.

    Use it for columns whose unit and size nobody knows, if you want to see the bounds before you use them, or to use
    them several times. For one mean, variance or quantile, ``bounds="private"`` of its estimator does the same within
    one fit.

    Parameters
    ----------
    step : float or array-like of shape (n_features,), optional
        Spacing of the data, such as 1 for counts or 0.01 for money. No window is narrower. It helps if many rows share
        a value.
    within : (low, high), optional
        Public limits of all columns, which may be infinite. Rows outside count as the nearer limit, and the bounds stay
        inside.
    for_epsilon : float, optional
        Epsilon of the mean that will use the bounds. The less there is, the tighter they are. Default: four times
        ``epsilon``.
    missing : {"error", "drop"}, default="error"
        Treatment of NaN and infinite entries. "error" raises `InvalidData`. "drop" leaves out the entry.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    neighbors : {"replace_one", "add_or_remove"}, default="replace_one"
        With "add_or_remove" the number of rows is private, and estimated from the counts.
    epsilon : float, default=0.2
        Privacy parameter of all columns together. Must be positive. Each column needs about 100 rows that are not 0 for
        an epsilon of 1, more if its mean is many standard deviations from 0.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges. Clones share it.

    Attributes
    ----------
    found_ : ndarray of bool, shape (n_features,)
        Whether bounds were found.
    low_, high_ : ndarray of shape (n_features,)
        The bounds, in the units of the data. NaN if none were found.
    clipped_low_, clipped_high_ : ndarray of shape (n_features,)
        Noisy fraction of rows below ``low_`` and above ``high_``. Noise can make it negative.
    clipped_low_std_, clipped_high_std_ : ndarray of shape (n_features,)
        Standard deviation of its noise.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row.
    plan_ : BoundsPlan
        The release plan: every released quantity and its noise.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names. Only if ``X`` has column names.

    See Also
    --------
    ClippedMean : Its ``bounds="private"`` chooses bounds in the same fit.
    AdaptiveMean : Private mean that needs a loose range and a bound on the standard deviation.

    Notes
    -----
    **Privacy.** One exponential mechanism chooses a window that holds most rows of a column, among windows at all
    scales and places of the floats. A replaced row moves the utility of a window by at most one. Then 43 counts of rows
    on both sides of the window get Laplace noise; a row is in one of them at most. The bounds follow from these
    releases.

    **Estimand.** The bounds minimize the error of a clipped mean, as the noisy counts show it. Rows can lie beyond
    them. An estimate with these bounds describes clipped rows.

    **Zeros.** Rows that are exactly 0 count in no window. If nearly all rows are 0, no bounds are found, unless a
    ``step`` is declared.

    **Limits.** A column needs about 100/epsilon rows that are not 0; otherwise no bounds are found, and the charge
    is spent. The bounds are not the extremes of the rows, and a few rows in another unit are not detected.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.means import PrivateBounds
    >>> X = np.random.default_rng(0).normal([0.001, 1e9], [0.0001, 2e8], size=(20_000, 2))
    >>> bounds = PrivateBounds(epsilon=0.2, random_state=0).fit(X)
    >>> bool(np.all(bounds.low_ < [0.0008, 6e8]) and np.all(bounds.high_ > [0.0012, 1.4e9]))
    True
    """

    step: Any = None
    within: Any = None
    for_epsilon: float | None = None
    missing: str = "error"
    missing_codes: Any = None
    neighbors: Any = "replace_one"
    epsilon: float = 0.2
    random_state: Any = None
    budget: Any = None

    def plan(self, n_samples: int | None, n_features: int) -> BoundsPlan:
        """Return the release plan of a fit on data of this size.

        Examples
        --------
        >>> from dpstats.means import PrivateBounds
        >>> print(PrivateBounds(epsilon=0.2).plan(5000, 1))
        Release plan for n = 5000, d = 1: (epsilon = 0.2, delta = 0), one row replaced
          windows: a window among 3,776,972,554 for each column, exponential mechanism of scale 83.3333 rows
          rows by distance from the windows: 43 numbers, Laplace noise of scale 11.3636
          Up to 35 rows beyond the bounds of a column would not be noticed.
        """
        n = check_size(self, n_samples)
        d = check_integer("n_features", n_features, at_least=1)
        epsilon, _ = check_privacy_parameters(self.epsilon, 0.0)
        self._policy()
        later = _LATER * epsilon
        if self.for_epsilon is not None:
            later = check_real("for_epsilon", self.for_epsilon, above=0)
        neighbors = parse_neighbors(self.neighbors)
        noise = math.sqrt(2) * d / later
        if n is not None and neighbors is not Neighbors.ADD_OR_REMOVE_ONE:
            noise /= n
        limits = {"step": self.step, "within": self.within}
        return plan_bounds(n, d, epsilon, **limits, later=noise, neighbors=neighbors)

    def _read(self, rows: Rows, plan: BoundsPlan) -> Rows:
        if self.missing == "error":
            check_finite_rows(rows)
        return rows

    def _release(self, private: Rows, plan: BoundsPlan, session: Session) -> None:
        X = private.whole().X
        release_bounds([read_column(X, j) for j in range(plan.n_features)], plan, session)

    def _report(self, released: Released, plan: BoundsPlan) -> None:
        found = read_bounds(released, plan)
        self.found_ = np.array([one.found for one in found])
        ends = np.array([[one.clip.low, one.clip.high] for one in found])
        self.low_, self.high_ = (np.where(self.found_, ends[:, side], np.nan) for side in (0, 1))
        self.clipped_low_, self.clipped_high_ = np.array([one.tail_shares[0] for one in found]).T
        self.clipped_low_std_, self.clipped_high_std_ = np.array([one.tail_shares[1] for one in found]).T
        if plan.has_private_size:
            self._released_size = HiddenSize("Release it with Histogram or Count.")

    def _records(self) -> Records:
        check_is_fitted(self)
        names = ("low", "high", "found", "clipped_low", "clipped_high")
        columns = {name: np.ravel(getattr(self, f"{name}_")).tolist() for name in names}
        return Records(self._column_names(), columns, {"simulated": self.privacy_.simulated})

    def summary(self) -> Summary:
        """Return a table of the bounds; prints as text, shows as HTML in a notebook."""
        check_is_fitted(self)
        names = self._column_names()
        shares = zip(self.clipped_low_, self.clipped_low_std_, self.clipped_high_, self.clipped_high_std_, strict=True)
        rows = []
        for name, low, high, found, (below, below_std, above, above_std) in zip(
            names, self.low_, self.high_, self.found_, shares, strict=True
        ):
            cells = [significant(low), significant(high)] if found else ["not found", ""]
            beyond = [show_share(below, below_std), show_share(above, above_std)] if found else ["", ""]
            rows.append([name, *cells, *beyond])
        notes = [SIMULATED] * self.privacy_.simulated
        if not self.found_.all():
            notes.append(
                "Not found: no window holds most rows, or too few rows differ from 0 for this epsilon. Use more rows "
                "or a larger epsilon, declare a step, or declare bounds."
            )
        notes.append(
            "Estimates with these bounds describe clipped rows. The mean of unclipped rows, E[x], is not covered. Up "
            f"to {self.plan_.unnoticed:,.0f} rows beyond a bound would not be noticed."
        )
        return Summary(
            "Private bounds", self._table_facts(), ["", "low", "high", "rows below", "rows above"], rows, notes
        )


@dataclass(frozen=True)
class Bounds:
    """Private bounds: numbers of one column, or arrays with an entry for each of several columns.

    Attributes
    ----------
    low, high : float or array
        The bounds, in the units of the data. NaN if none were found.
    privacy : PrivacyGuarantee
    clipped_low, clipped_high : float or array
        Noisy fraction of rows below ``low`` and above ``high``.
    found : bool or array

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.means import private_bounds
    >>> low, high = private_bounds(np.arange(2000.0), epsilon=1.0, random_state=0)
    >>> bool(low < 0 and high > 1999)
    True
    """

    low: Any
    high: Any
    privacy: PrivacyGuarantee
    clipped_low: Any
    clipped_high: Any
    found: Any

    def __iter__(self) -> Iterator[Any]:
        return iter((self.low, self.high))


def private_bounds(
    x: Any,
    *,
    epsilon: float,
    step: Any = None,
    within: Any = None,
    for_epsilon: float | None = None,
    missing: str = "error",
    neighbors: Any = "replace_one",
    random_state: Any = None,
    budget: PrivacyBudget | None = None,
) -> Bounds:
    """Return private bounds of one or several columns, without any public bounds.

    Parameters
    ----------
    x : array-like of shape (n_samples,) or (n_samples, n_features), or container of rows
        Private rows.
    epsilon : float
        Privacy parameter, of all columns together.
    step, within, for_epsilon, missing, neighbors, random_state, budget
        As for `PrivateBounds`.

    Returns
    -------
    Bounds
        Unpacks as ``low, high``. ``found`` says whether there are any.

    Raises
    ------
    InvalidParameter
        If a parameter has a value that is not allowed, or the rows are too few for this epsilon.
    InvalidData
        If x cannot be read, or has a missing entry.
    BudgetExceeded
        If the budget cannot pay.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.means import private_bounds
    >>> x = np.random.default_rng(0).exponential(size=20_000)
    >>> low, high = private_bounds(x, epsilon=0.2, random_state=0)
    >>> bool(low < 0.1 and 4 < high < 20)
    True
    """
    made = PrivateBounds(
        step=step,
        within=within,
        for_epsilon=for_epsilon,
        missing=missing,
        neighbors=neighbors,
        epsilon=epsilon,
        random_state=random_state,
        budget=budget,
    ).fit(x)
    numbers = made.low_, made.high_, made.clipped_low_, made.clipped_high_
    if made.n_features_in_ > 1:
        return Bounds(*numbers[:2], made.privacy_, *numbers[2:], made.found_)
    low, high, below, above = (float(values[0]) for values in numbers)
    return Bounds(low, high, made.privacy_, below, above, bool(made.found_[0]))
