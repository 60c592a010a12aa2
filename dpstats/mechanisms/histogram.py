"""Private counts: of rows with a property, and of rows in each of declared or discovered categories.

Proofs: docs/proofs/histogram.md, docs/proofs/discovery.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.columns import DISCOVER, check_labels, cut_units, in_order, truths
from dpstats.data.opening import Tally, open_source
from dpstats.data.parameters import check_integer, check_privacy_parameters
from dpstats.data.schema import Bins, Categories, Column, Schema, Undeclared
from dpstats.data.undeclared import drops_undeclared, refuse_undeclared
from dpstats.data.values import as_int64
from dpstats.errors import refuse, refuse_data
from dpstats.inference.discovered_counts import FoundCounts
from dpstats.lattice import isqrt_up
from dpstats.mechanisms.counts import CountEstimate, DensityEstimate, FoundEstimate
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.events import Event
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee, parse_neighbors
from dpstats.privacy.plan import Plan
from dpstats.privacy.stages import KeyCounts, Stage
from dpstats.release.additive import Integers, additive_stages, count_discovery, smaller_noise
from dpstats.release.charges import state_charges
from dpstats.release.witness import Mechanism

_COUNTS = "counts"
_ROWS = "rows"
_MOST_ROWS = 2**31
_MOST_UNIT_ROWS = 2**16
_WHOSE = "whose row it is, one for each row"
_FRACTION_BITS = 30  # Gaussian noise needs a lattice finer than whole counts


class Histogram(Mechanism):
    """Release how many rows fall in each of declared categories, or of declared bins of numbers.

    Parameters
    ----------
    categories : sequence or "discover", optional
        Public and distinct; declared, never read from the data. A row is in a category that it equals.
        Numbers are equal by exact value, for any type (1, 1.0 and True). Text never equals bytes. Times are
        equal by instant, for any unit. None or NaN is the category of the missing rows (None, NaN, NaT,
        pandas.NA, masked). The word "discover" releases categories that nobody declared (see Notes).
    epsilon : float
        Greater than 0.
    delta : float, default=0.0
        0 adds Laplace noise (whole numbers). A value in (0, 1) adds Laplace or Gaussian noise, whichever is smaller.
        If it is Laplace noise, the guarantee has delta = 0. A budget with ``method="gdp"`` or "zcdp" keeps Gaussian
        noise.
    bins : sequence of numbers, optional
        In place of ``categories``: public and increasing edges of bins of numbers, declared and never read off the
        data. A bin has its lower edge and not its upper one, but for the last, which has both. With them a release also
        has densities (`DensityEstimate`).
    neighbors : {"replace_one", "add_or_remove"} or Neighbors, default="replace_one"
        Neighboring datasets. Replacing a row moves two counts by one each (l1 2, l2 sqrt 2). Adding or removing a row
        moves a single count by one; the number of rows is then private, and may be 0.
    unknown : {"drop", "error"}, default="drop"
        Treatment of a row in no category or bin, or that cannot be a category (a list): leave it out, or raise an
        error, which reveals that there was one. With bins, a non-numeric row always raises an error.
    max_rows : int, optional
        Public largest number of rows of a unit that count, such as a person with several rows. The guarantee is then
        for a unit with all its rows. ``release`` needs the units. Noise is proportional to ``max_rows``. Of a unit
        with more rows, those with the smallest hashes count, regardless of their order and of other units.
    called : str, default="unit"
        Name of a unit in the guarantee, with ``max_rows``.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Charged at every release, before noise is drawn.

    Attributes
    ----------
    categories : tuple
        Empty for "discover".
    guarantee : PrivacyGuarantee
    event : Event
    scale : float
        Scale (Laplace) or standard deviation (Gaussian) of the noise. With "discover", before the threshold
        conditions it.

    Notes
    -----
    **Discovered categories.** With "discover" every category is released whose noisy count reaches ``threshold``. At
    epsilon = 1 and delta = 1e-6 a category of 20 rows is found with probability 0.5, and one of 27 with 0.95.
    Categories are shown verbatim, so never discover secrets, such as names. Rows without a value count nowhere. It
    needs ``delta > 0``.

    **Limits.** Counts are of these rows, without sampling error. Rows in no declared category or bin do not count,
    or are refused. Results can be negative.

    Examples
    --------
    >>> from dpstats.mechanisms import Histogram
    >>> histogram = Histogram(["yes", "no", "unsure"], epsilon=1.0, random_state=0)
    >>> result = histogram.release(["yes"] * 60 + ["no"] * 30 + ["unsure"] * 10)
    >>> result.counts
    array([61., 31.,  7.])
    >>> result.confidence_interval(0.95).low
    array([55., 25.,  1.])
    >>> ages = Histogram(bins=[0, 20, 40, 100], epsilon=1.0, random_state=0).release([31, 8, 15, 62, 20] * 20)
    >>> ages.densities.round(4)
    array([0.0205, 0.0205, 0.0028])
    >>> words = ["rent"] * 500 + ["food"] * 300 + ["a rare word"]
    >>> found = Histogram("discover", epsilon=1.0, delta=1e-6, random_state=0).release(words)
    >>> found.categories, found.counts.round()
    (('food', 'rent'), array([303., 496.]))
    """

    def __init__(
        self,
        categories: Sequence[Any] | None = None,
        epsilon: Any = None,
        delta: float = 0.0,
        *,
        bins: Any = None,
        neighbors: Any = "replace_one",
        unknown: str = "drop",
        max_rows: int | None = None,
        called: str = "unit",
        random_state: Any = None,
        budget: PrivacyBudget | None = None,
    ) -> None:
        if (categories is None) == (bins is None):
            raise refuse(
                "categories", got="neither" if bins is None else "both", allowed="given, or bins, and not both"
            )
        self._discovers = isinstance(categories, str) and categories == DISCOVER
        self._categories: Categories | Bins | None = None
        if not self._discovers:
            self._categories = Categories(categories) if bins is None else Bins(bins)
        self._drops = drops_undeclared(unknown)
        epsilon, delta = check_privacy_parameters(epsilon, delta)
        relation = parse_neighbors(neighbors)
        self._most = max_rows
        if max_rows is not None:
            check_integer("max_rows", max_rows, at_least=1, at_most=_MOST_UNIT_ROWS)
            if self._discovers:
                raise refuse("max_rows", allowed="None for categories='discover'", remedy="Declare the categories.")
        word = "row" if max_rows is None else called
        asked = PrivacyGuarantee(epsilon, delta, relation, unit=word)
        if self._categories is None:
            plan = Plan((found_stage(asked),), asked)
        else:
            plan = _plan_counts(len(self._categories), asked, max_rows or 1, budget)
        super().__init__(plan.target, random_state, budget)
        self._plan = replace(plan, target=self._guarantee)

    @property
    def categories(self) -> tuple[Any, ...]:
        """The declared categories, in order; none for "discover"."""
        return () if self._categories is None else self._categories.values

    @property
    def plan(self) -> Plan:
        """What one release consists of, at which noise, at which cost."""
        return self._plan

    @property
    def event(self) -> Event:
        """The accountant's event of one release."""
        return self._discovery.event if self._discovers else self._stage.event

    @property
    def _stage(self) -> Stage:
        return self._plan.additive[0]

    @property
    def _discovery(self) -> KeyCounts:
        (stage,) = self._plan.stages
        if not isinstance(stage, KeyCounts):
            raise refuse("categories", got="declared categories", allowed="'discover' for a threshold")
        return stage

    @property
    def scale(self) -> float:
        """Scale (Laplace) or standard deviation (Gaussian, "discover") of the noise."""
        return self._discovery.count_std if self._discovers else float(np.asarray(self._stage.noise_scale))

    @property
    def threshold(self) -> float:
        """The least noisy count of a released category, in rows, for "discover"."""
        return self._discovery.threshold

    @state_charges
    def release(self, data: Any, units: Any = None) -> CountEstimate:
        """Release the counts of the rows of ``data``, a 1-d sequence of category values, or of numbers for bins.

        A list, another iterable, an array, or a column of a data frame; a DuckDB relation, a Dask frame or a
        file of one column. The category of a row depends on that row alone, for any types of the others.
        """
        if (units is None) != (self._most is None):
            needed = "given, one for each row, with" if units is None else "None without"
            raise refuse("units", allowed=f"{needed} max_rows")
        if self._most is None:
            plan = self._plan_about(data)
        else:
            plan = self.plan.for_data(self._guarantee.unit, self._guarantee.simulated)
        self._check(plan)
        if self._categories is None:
            labels, rows = self._count_labels(data)
            n_public = None
        else:
            steps, n_rows = self._steps(data, units)
            public = self._guarantee.neighbors is Neighbors.REPLACE_ONE and self._most is None
            n_public = n_rows if public else None
        # A density divides by the public number of rows, so a request includes the number.
        with self._session(plan, rows=n_public) as session:
            if self._categories is None:
                found = session.discover(_COUNTS, labels, {_ROWS: rows})
            else:
                counts = session.add(_COUNTS, steps)
        if self._categories is None:
            return self._report_found(found, session.plan.guarantee)
        numbers = self.categories, counts, session.plan.guarantee, self._stage.noise, self.scale
        if not isinstance(self._categories, Bins):
            return CountEstimate(*numbers, max_rows=self._most)
        return DensityEstimate(*numbers, self._categories.edges, n_public, max_rows=self._most)

    def _count(self, data: Any, units: Any, levels: Any) -> tuple[NDArray[np.int64], int]:
        """Return the counts of all levels and of rows in none, where units are cut, and the number of rows."""
        beside = () if units is None else (Column("labels", None, None, "units", None, _WHOSE),)
        source = open_source(data)
        schema, given = source.resolve(
            Schema(levels=(levels,), beside=beside, plain=True, private_size=self._most is not None), units
        )
        rows = source.read(schema, given)
        counts = Tally((len(levels),)).of(rows)
        if self._most is not None:
            table = rows.whole()
            assert table.labels is not None
            labels, codes = check_labels(table.labels), table.X[:, 0]
            kept = cut_units(labels[codes >= 0], codes[codes >= 0], self._most)
            counts[:-1] = np.bincount(kept, minlength=len(levels))
        return counts, rows.shape[0]

    def _count_labels(self, data: Any) -> tuple[list[Any], NDArray[np.int64]]:
        """Return the labels of the data in their order, and the exact count of each in steps."""
        source = open_source(data)
        rows = source.read(Schema(levels=(Undeclared(),), plain=True).resolve(source.names)).whole()
        if rows.shape[0] > _MOST_ROWS:
            raise refuse_data("data", allowed="have at most 2^31 rows")
        counted = Counter(rows.X[:, 0].tolist())
        del counted[None]
        labels = in_order(counted)
        counts = np.array([counted[label] for label in labels], dtype=np.int64).reshape(-1, 1)
        return labels, counts * self._discovery.row_steps

    def _report_found(self, released: Any, guarantee: PrivacyGuarantee) -> FoundEstimate:
        """Return the estimates of the categories that were found."""
        noisy = np.ravel(released[_ROWS])
        noise, threshold = self._discovery.count_noise, self.threshold
        sizes = FoundCounts(noisy, noise, threshold).sizes
        return FoundEstimate(released["labels"], sizes, guarantee, "laplace", self.scale, noisy, threshold, noise)

    def _steps(self, data: Any, units: Any = None) -> tuple[NDArray[np.int64], int]:
        """Return the exact counts, in steps of the stage's lattice, and how many rows there are."""
        levels = self._categories
        assert levels is not None
        counts, n_rows = self._count(data, units, levels)
        if counts[-1] and not self._drops:
            raise refuse_undeclared("data", levels.kind)
        return count_steps(self._stage, counts[:-1], n_rows), n_rows


class Count(Histogram):
    """Release how many rows have a property: sensitivity one under both relations.

    Parameters
    ----------
    epsilon, delta, neighbors, max_rows, called, random_state, budget
        As for `Histogram`.

    Notes
    -----
    **Limits.** The count is of these rows, without sampling error. The result can be negative.

    Examples
    --------
    >>> from dpstats.mechanisms import Count
    >>> result = Count(epsilon=0.5, random_state=1).release([True] * 40 + [False] * 60)
    >>> result.counts
    array([42.])
    """

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        neighbors: Any = "replace_one",
        max_rows: int | None = None,
        called: str = "unit",
        random_state: Any = None,
        budget: PrivacyBudget | None = None,
    ) -> None:
        super().__init__(
            [True],
            epsilon,
            delta,
            neighbors=neighbors,
            max_rows=max_rows,
            called=called,
            random_state=random_state,
            budget=budget,
        )

    def release(self, condition: Any, units: Any = None) -> CountEstimate:
        """Release the number of true entries of a 1-d sequence of booleans; a missing one is not true.

        A non-Boolean entry raises an error, which reveals that there was one.
        """
        return super().release(condition, units)

    def _steps(self, data: Any, units: Any = None) -> tuple[NDArray[np.int64], int]:
        counts, n_rows = self._count(data, units, _Truths())
        return count_steps(self._stage, counts[:1], n_rows), n_rows


class _Truths:
    """The level of true entries; a non-Boolean entry raises an error."""

    def codes(self, data: Any, name: str = "data") -> NDArray[np.int64]:
        return np.where(truths("condition", data), 0, -1)

    def __len__(self) -> int:
        return 1


def _plan_counts(size: int, asked: PrivacyGuarantee, max_rows: int, budget: Any) -> Plan:
    """Return the plan of counts with the smaller noise that a guarantee allows."""

    def make_plan(delta: float) -> Plan:
        guarantee = replace(asked, delta=delta)
        return Plan((count_stage(size, guarantee, max_rows=max_rows),), guarantee)

    return smaller_noise(make_plan, asked.delta, lambda plan: plan.noise(_COUNTS).std, budget)


def count_stage(size: int, guarantee: PrivacyGuarantee, name: str = _COUNTS, *, max_rows: int = 1) -> Stage:
    """Return the stage that releases counts of rows in ``size`` categories, each row in at most one.

    A protected unit has at most ``max_rows`` rows.
    """
    # A replaced row leaves one count and enters another; with a single category it can only do one.
    moved = 2 if guarantee.neighbors is Neighbors.REPLACE_ONE and size > 1 else 1
    bits = 0 if guarantee.delta == 0 else _FRACTION_BITS
    far = moved * max_rows << bits, isqrt_up(moved * max_rows**2 << 2 * bits)
    item = Integers(name, size, 2.0**-bits, *far)
    return additive_stages([item], guarantee.epsilon, guarantee.delta, neighbors=guarantee.neighbors)[0]


def found_stage(guarantee: PrivacyGuarantee) -> KeyCounts:
    """Return the stage that releases counts of categories that nobody declared, each row in at most one."""
    if guarantee.delta == 0:
        raise refuse(
            "delta",
            got="0",
            allowed="positive for categories='discover'",
            remedy="Declare the categories, or give delta=1e-6 for example.",
        )
    return count_discovery(_COUNTS, _ROWS, guarantee)


def count_steps(stage: Stage, counts: NDArray[np.int64], n_rows: int) -> NDArray[np.int64]:
    """Return exact counts in the steps of the stage that releases them."""
    if n_rows > _MOST_ROWS:
        raise refuse_data("data", allowed="have at most 2^31 rows")
    return as_int64(counts) * int(1 / float(np.asarray(stage.spacing)))
