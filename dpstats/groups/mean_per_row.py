"""The mean of all rows if a unit has several: a ratio of sums over units, the units of privacy.

Proof: docs/proofs/mean-per-row.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_integer, check_privacy_parameters, check_real
from dpstats.data.rows import Rows
from dpstats.data.schema import Column, Schema, column_list
from dpstats.errors import refuse
from dpstats.groups.ratios import RatioEstimator, RatioPlan
from dpstats.groups.units import TOTALS, LaplaceUnitTotals, Units, UnitTotals, unit_sums
from dpstats.inference.reports import SIMULATED
from dpstats.inference.results import Summary, significant
from dpstats.lattice import BITS, BoxLattice
from dpstats.lattice.rounding import rows_that_count
from dpstats.means.moments import Region, finest
from dpstats.privacy.guarantee import PrivacyGuarantee, parse_neighbors
from dpstats.release.additive import additive_stages, check_size, record_size
from dpstats.release.estimator import fitted, parameters, privacy_facts
from dpstats.release.session import Released

Floats = NDArray[np.float64]

_MOST_ROWS = 1 << 16
_EXAMPLE = 1000  # units


@dataclass(frozen=True)
class MeanPerRowPlan(RatioPlan[UnitTotals | LaplaceUnitTotals]):
    """The plan of a `MeanPerRow`; ``n_planned`` is a number of units."""

    def mean_noise(self, n_rows: float) -> Floats:
        """Return the standard deviation of the noise in a mean of ``n_rows`` rows, in units of the data.

        For a mean in the middle of its bounds. At a bound, the noise of the count adds a fifth to it.
        """
        rows = check_real("n_rows", n_rows, above=0)
        return self.half * self.totals_noise.total * self.totals.max_rows / rows

    def notes(self) -> list[str]:
        """Return the notes that a reader of the plan needs, one line each."""
        n = _EXAMPLE if self.n_planned is None else self.n_planned
        noise = ", ".join(f"{value:.3g}" for value in self.mean_noise(n)[:6])
        units = f"each of {n} units" if self.n_planned is None else "each"
        most, more = self.totals.max_rows, ", ..." if self.n_features > 6 else ""
        found = [
            f"totals are in half-widths of the bounds, and parts of {most} rows",
            f"if {units} has one row: noise of the mean {noise}{more}; with k rows each, a k-th of it (at most {most} "
            "rows count)",
        ]
        # The number of rows is private: at least one of each unit, and at most `most`.
        enough = 2 * self.totals_noise.count * most
        if self.n_planned is not None and self.n_planned < enough:
            found.append(
                f"warning: fewer than {enough:.0f} rows cannot be distinguished from noise, and {n} units have "
                f"{n * most:,} at most: intervals can be the bounds (more units, a larger epsilon or a smaller "
                "max_rows help)"
            )
        return found


def unit_places(units: Any) -> NDArray[np.int64]:
    """Return the place of each row's unit in the order of their names."""
    return Units.of(units).codes


@parameters
class MeanPerRow(RatioEstimator[MeanPerRowPlan]):
    """Private mean of all rows, with a guarantee for people (or other units) who have several rows.

    A person with ten rows counts ten times. For a mean in which each person counts once, combine the rows with
    `one_row_per_unit` and use another estimator.

    Parameters
    ----------
    columns : sequence of column names, optional
        Columns to estimate, if ``unit`` is given. Default: the columns that ``bounds`` names, or all others.
    bounds : (low, high) or array-like of shape (n_features, 2)
        Public bounds of every column, known without the data. A mapping ``{column: (low, high)}`` or a data frame with
        one row per column is matched to the columns by name.
    bounds_are : {"clip", "hard"}, default="clip"
        Whether entries can lie outside the bounds. "clip": they can, and are moved to the nearer bound. "hard": they
        cannot, as for an age.
    max_rows : int
        Public largest number of rows of a unit that count. If a unit has more, the rows with the smallest
        hashes count, regardless of their order. The noise is proportional to ``max_rows``.
    unit : column name, optional
        Column of a data frame that identifies the unit of each row. ``fit(frame)`` then needs no ``y``.
    called : str, optional
        Name of a unit in the printed guarantee, such as "person". Default: the name of the column, or "unit".
    missing : {"error", "drop"}, default="error"
        Treatment of rows with a NaN or infinite entry. "error" raises `InvalidData`; the error reveals that there is
        such a row. "drop" leaves the row out.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    neighbors : {"replace_one", "add_or_remove"}, default="replace_one"
        Neighboring datasets. "add_or_remove": one unit is added or removed, with all its rows. The number of units is
        then private, and is not released.
    epsilon : float, default=1.0
        Privacy parameter for a unit with all its rows. Must be positive.
    delta : float, default=1e-6
        Privacy parameter, in [0, 1). Of Laplace noise at delta = 0 and Gaussian noise, the plan takes the smaller, and
        its guarantee says which. Laplace noise is smaller for few columns.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges before it draws noise. Clones share it.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Private estimate in the units of the data, inside the bounds. NaN if the 95% interval holds all values between
        the bounds.
    rows_ : float
        Noisy number of rows that count.
    rows_noise_std_ : float
        Standard deviation of the noise in ``rows_``.
    n_, n_noise_std_ : float
        The same as ``rows_`` and ``rows_noise_std_``. Only with ``neighbors="add_or_remove"``; ``n_interval()`` is its
        interval.
    noise_std_ : ndarray of shape (n_features,)
        Standard deviation of the noise in ``mean_``, for ``rows_`` rows.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one unit with all its rows. The number of units
        is public, unless ``neighbors="add_or_remove"``; the number of rows is private.
    plan_ : MeanPerRowPlan
        The release plan: every released quantity and its noise.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names. Only if ``X`` has column names.

    Notes
    -----
    **Estimand.** Intervals cover the mean of the population's rows after clipping. At most ``max_rows`` rows of a unit
    count.

    **Intervals.** Intervals invert a test of every value (Fieller 1954). They assume independent units. Rows of
    one unit can depend on each other in any way.

    **Limits.** Rare events undercover, and few units more so, because all rows of a unit may have the event. Rows
    beyond ``max_rows`` of a unit are left out, which changes the mean if units with many rows differ.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.groups import MeanPerRow
    >>> rng = np.random.default_rng(0)
    >>> person = np.repeat(np.arange(4000), rng.integers(1, 6, 4000))
    >>> visits = rng.poisson(3.0, (person.size, 1))
    >>> mean = MeanPerRow(bounds=(0, 20), max_rows=5, called="person", random_state=0).fit(visits, person)
    >>> mean.mean_.round(2)
    array([2.96])
    >>> print(mean.privacy_)
    (epsilon = 1, delta = 0), one person replaced [simulated noise, not a private release]
    """

    columns: Any = None
    bounds: Any = None
    bounds_are: str = "clip"
    max_rows: Any = None
    unit: Any = None
    called: Any = None
    missing: str = "error"
    missing_codes: Any = None
    neighbors: Any = "replace_one"
    epsilon: float = 1.0
    delta: float = 1e-6
    random_state: Any = None
    budget: Any = None
    mean_: Floats = fitted()
    rows_: float = fitted()
    rows_noise_std_: float = fitted()
    noise_std_: Floats = fitted()

    def plan(self, n_samples: int | None, n_features: int) -> MeanPerRowPlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples : int
            The number of units, which is public. With ``neighbors="add_or_remove"`` it enters expected errors only, and
            may be None.
        n_features : int
            The number of columns whose means are wanted.
        """
        n, neighbors = check_size(self, n_samples), parse_neighbors(self.neighbors)
        d = check_integer("n_features", n_features, at_least=1)
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        if self.max_rows is None:
            raise refuse("max_rows", allowed="given: how many rows of a unit count, which is public")
        most = check_integer("max_rows", self.max_rows, at_least=1, at_most=_MOST_ROWS)
        missing = self._policy()
        if self.bounds is None:
            raise refuse("bounds", allowed="given: a pair (low, high), or one per column")
        word = self._word()
        region = Region.check(self.bounds, self.bounds_are, None, 0.0, d)

        def make_plan(delta: float) -> MeanPerRowPlan:
            totals_of, guarantee = (
                UnitTotals if delta else LaplaceUnitTotals,
                PrivacyGuarantee(epsilon, delta, neighbors, unit=word),
            )

            def build(bits: int) -> MeanPerRowPlan:
                # A unit's sum has as many bits as an entry has elsewhere; its lower and upper parts have half steps.
                own = bits - math.ceil(math.log2(most)) - (not delta)
                lattice = BoxLattice.build(
                    region.clip, region.center, d, common=False, bits=own, ends=(region.low, region.high)
                )
                totals = totals_of(d, most, own, neighbors)
                stages = additive_stages([totals.integers()], epsilon, delta, neighbors=neighbors)
                return MeanPerRowPlan(
                    stages, guarantee, n, d, region=region, lattice=lattice, totals=totals, missing=missing
                )

            return build(BITS) if most > 2**4 else finest(build)

        return self._smaller_noise(
            make_plan, delta, lambda plan: np.hypot(plan.totals_noise.total, plan.totals_noise.count)
        )

    def _schema(self) -> Schema:
        if self.unit is None and self.columns is not None:
            raise refuse("columns", allowed="given with unit, the column that names the unit of each row")
        meaning = "the unit of each row (or unit, the column of a data frame with this information)"
        parameter = "y" if self.unit is None else "unit"
        units = Column("units", self.unit, None, parameter, unit_places, meaning)
        return replace(super()._schema(), numbers=column_list(self.columns), beside=(units,))

    def _word(self) -> str:
        """Return the name of a unit."""
        if self.called is not None and not (isinstance(self.called, str) and self.called.strip()):
            raise refuse("called", given=self.called, allowed="the name of a unit, such as 'person'")
        return self.called or (str(self.unit) if self.unit is not None else "unit")

    def _row_is(self, unit: str) -> str:
        return self._word() if unit == "row" else unit

    def _read(self, rows: Rows, plan: MeanPerRowPlan) -> Mapping[str, Any]:
        table = rows.whole()
        assert table.units is not None
        kept = rows_that_count(table.X, plan.missing)
        return {TOTALS: unit_sums(table.X, table.units, table.shape[0], kept, plan.lattice, plan.totals)}

    def _report(self, released: Released, plan: MeanPerRowPlan) -> None:
        noise, most = plan.totals_noise, plan.totals.max_rows
        self._ratio = ratio = plan.totals.ratio(released[TOTALS], noise)
        self.rows_, self.rows_noise_std_ = float(ratio.N[0]) * most, noise.count * most
        if plan.has_private_size:
            record_size(self, self.rows_, noise.rows.scale(most))
        self.mean_ = self._known_means()
        rows = max(self.rows_, self.rows_noise_std_)
        self.noise_std_ = plan.mean_noise(rows) * np.sqrt(1 + (ratio.estimate * noise.count / noise.total) ** 2)

    def _estimand(self) -> str:
        word, most = self.privacy_.unit, self.plan_.totals.max_rows
        clipped = "" if self.plan_.region.hard else ", clipped"
        return f"the mean of the population's rows, at most {most} of a {word}{clipped}"

    def _all_names(self) -> list[str]:
        return self._column_names()

    def summary(self, confidence_level: float | None = None) -> Summary:
        """Return a table of means, noise and intervals; prints as text, shows as HTML in a notebook."""
        found, word = self.estimates(), self.privacy_.unit
        columns = f"{self.plan_.n_features:,} (public)"
        if self.plan_.has_private_size:
            sizes = "Columns", f"{columns}; the number of each {word} is private"
        else:
            sizes = f"Number of each {word}, columns", f"{self.plan_.n_samples:,}, {columns}"
        facts = [
            ("Estimator", type(self).__name__),
            (f"Of each {word}", f"at most {self.plan_.totals.max_rows} rows"),
            sizes,
            ("Rows", f"{significant(self.rows_, self.rows_noise_std_)} (noise sd {self.rows_noise_std_:.3g})"),
            *privacy_facts(self),
            ("Noise", "Gaussian, exact curve" if self.privacy_.delta else "Laplace"),
        ]
        notes = [
            *[SIMULATED] * self.privacy_.simulated,
            f"Intervals assume that each {word} is an independent observation, with rows of any kind.",
        ]
        if self.rows_ < 2 * self.rows_noise_std_:
            notes.append("Noise only: the number of rows cannot be distinguished from 0.")
        found = replace(found, title="Private mean of rows", noise=self.noise_std_, facts=facts, notes=notes)
        return found.summary(confidence_level)
