"""Tests of noisy tables: chi-square statistics, and their null distributions by public simulation.

Proof: docs/intervals/tables.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data.schema import Categories
from dpstats.errors import refuse, show
from dpstats.inference.error_distributions import BONFERRONI
from dpstats.inference.estimates import Estimates
from dpstats.inference.noisy_counts import CountNoise, CountShare, NoisyShare, ShareErrors
from dpstats.inference.reports import SIMULATED
from dpstats.inference.results import FREE, HypothesisTest, Summary
from dpstats.parallel import cut
from dpstats.privacy.guarantee import PrivacyGuarantee

# Released counts, from which all reports of a table derive

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Cells:
    """The counts of a table, with independent noise of the same distribution.

    Attributes
    ----------
    counts : array of shape (r_1, ..., r_k)
        Counts as released. A count may be negative.
    total : float
        Number of rows in all cells. It is public if every row is in a cell. Otherwise it is the public number of rows
        minus the released number of rows in no cell.
    noise : CountNoise
        Noise of a cell.
    total_noise : CountNoise or None
        Noise of the total, or None if the total is public.
    summed : bool
        Whether the total is the sum of the noisy counts, because the number of rows is private.
    names : tuple
        Names of the attributes.
    levels : tuple of tuples
        Levels of each attribute.
    """

    counts: Numbers
    total: float
    noise: CountNoise
    total_noise: CountNoise | None
    names: tuple[Any, ...]
    levels: tuple[tuple[Any, ...], ...]
    summed: bool = False

    @cached_property
    def projected(self) -> Numbers:
        """The nearest nonnegative counts that add up to the total."""
        flat = projection(self.counts.ravel()[None], np.array([max(self.total, 0.0)]))
        return flat.reshape(self.counts.shape)

    def _is_name(self, attribute: Any) -> bool:
        try:
            return attribute in self.names
        except (TypeError, ValueError):  # the comparison of an array, or of pandas.NA, has no truth value
            return False

    def position(self, attribute: Any, of: Any = ...) -> int:
        """Return the position of an attribute that is given by name or by position."""
        if self._is_name(attribute):
            return self.names.index(attribute)
        count = len(self.names)
        if isinstance(attribute, int | np.integer) and not isinstance(attribute, bool) and 0 <= attribute < count:
            return int(attribute)
        known = ", ".join(map(repr, self.names))
        raise refuse(
            "an attribute", given=attribute if of is ... else of, allowed=f"one of {known}, or a position below {count}"
        )

    def positions(self, name: str, attributes: Any) -> tuple[int, ...]:
        """Return the positions of one attribute, or of several different ones."""
        if getattr(attributes, "ndim", None) == 1 and hasattr(attributes, "tolist"):
            attributes = attributes.tolist()  # an array, or names of columns
        several = isinstance(attributes, list | tuple) and not self._is_name(attributes)
        found = tuple(self.position(item, attributes) for item in (attributes if several else [attributes]))
        if len(set(found)) < len(found) or not found:
            raise refuse(name, given=attributes, allowed="different attributes")
        return found

    def code(self, attribute: int, level: Any, name: str, of: Any = ...) -> int:
        """Return the position of a level of an attribute."""
        (code,) = Categories(self.levels[attribute]).codes([level])
        if code < 0:
            known = ", ".join(map(repr, self.levels[attribute]))
            raise refuse(
                name,
                given=level if of is ... else of,
                allowed=f"one of the levels {known} of {show(self.names[attribute])}",
            )
        return int(code)

    def over(self, attributes: Sequence[int]) -> Cells:
        """Return the marginal table of some attributes in the given order, summed over the others."""
        others = tuple(j for j in range(self.counts.ndim) if j not in attributes)
        kept = sorted(attributes)
        summed = self.counts.sum(axis=others)
        times = int(np.prod([self.counts.shape[j] for j in others], dtype=np.int64))
        return Cells(
            np.transpose(summed, [kept.index(j) for j in attributes]),
            self.total,
            self.noise.of(times),
            self.total_noise,
            tuple(self.names[j] for j in attributes),
            tuple(self.levels[j] for j in attributes),
            self.summed,
        )

    def shares(self, over: Sequence[int] | None) -> Numbers:
        """Return the estimated proportions that add up to 1 over some attributes (None: all).

        Over all attributes the total is known, and the proportions use the nearest possible counts. Within groups, the
        sizes are not known: the proportions use the released counts, with negative counts set to 0. They are NaN if
        no count of a group is positive.
        """
        counts = self.projected if over is None else np.maximum(self.counts, 0.0)
        with np.errstate(invalid="ignore"):
            return np.asarray(counts / counts.sum(axis=None if over is None else tuple(over), keepdims=True))

    def estimates(self, over: Sequence[int] | None = None, first: int | None = None) -> Estimates:
        """Return the proportions that add up to 1 over some attributes (None: all), with their errors.

        ``first`` limits the result to this number of cells.
        """
        shape = self.counts.shape
        along = tuple(range(len(shape))) if over is None else tuple(over)
        within = len(along) < len(shape)
        sums = np.broadcast_to(self.counts.sum(axis=along, keepdims=True), shape)
        others = self.noise.of(max(math.prod(shape[j] for j in along) - 1, 1))
        places = list(islice(np.ndindex(shape), first))
        shares: list[CountShare | NoisyShare] = []
        for place in places:
            count = float(self.counts[place])
            if within or self.total_noise is not None:
                shares.append(NoisyShare(count, float(sums[place]) - count, self.noise, others))
            else:
                half = self.noise.half
                shares.append(CountShare(count - half, count + half, int(self.total), self.noise))
        estimate = self.shares(over)
        errors = ShareErrors(estimate if first is None else estimate.ravel()[:first], shares)
        levels = [[self.levels[j][place[j]] for place in places] for j in range(len(shape))]
        words = "the proportions in the population" + (
            f" that add up to 1 over {', '.join(str(self.names[j]) for j in along)}" if within else ""
        )
        return Estimates(
            errors.estimate,
            None,
            tuple(", ".join(map(str, row)) for row in zip(*levels, strict=True)),
            words,
            errors,
            header="proportion",
            together=BONFERRONI,
            labels={str(name): column for name, column in zip(self.names, levels, strict=True)},
        )


def projection(points: Numbers, totals: Numbers, least: float = 0.0) -> Numbers:
    """Return the nearest vectors with entries of at least ``least`` that add up to ``totals``, row by row.

    If the total is too small for this, ``least`` is lowered to the mean entry.
    """
    floor = np.minimum(least, totals / points.shape[1])
    above = points - floor[:, None]
    left = totals - points.shape[1] * floor
    descending = -np.sort(-above, axis=1)
    # Subtract one number from all entries, so that the positive ones add up to the total (Held, Wolfe, Crowder 1974).
    taken = (np.cumsum(descending, axis=1) - left[:, None]) / np.arange(1, points.shape[1] + 1)
    last = np.maximum((descending > taken).sum(axis=1) - 1, 0)
    threshold = taken[np.arange(len(points)), last]
    return np.asarray(np.maximum(above - threshold[:, None], 0.0) + floor[:, None])


# Results


@dataclass(frozen=True, slots=True, eq=False)
class TableTest(HypothesisTest):
    """Result of a test on a released table. The test has no additional privacy cost.

    Attributes
    ----------
    statistic : float
        Projected statistic of Kifer and Rogers (2017). With many rows its null distribution is close to chi-square.
    pvalue : float
        (1 + #{simulated >= statistic}) / (n_simulations + 1), for simulated releases under the null hypothesis.
    expected : ndarray
        Estimated counts under the null hypothesis.
    null : str
        The null hypothesis as text.
    level_note : str
        Statement about the level of the test.
    n_simulations : int
        Number of simulations in each bootstrap.
    privacy : PrivacyGuarantee
        Guarantee of the release.
    name : str
        Name of the statistic.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.tables import ContingencyTable
    >>> rng = np.random.default_rng(0)
    >>> arm = rng.integers(2, size=2000)
    >>> rows = np.column_stack([arm, rng.random(2000) < 0.3 + 0.1 * arm])
    >>> table = ContingencyTable(levels=[[0, 1], [0, 1]], epsilon=1.0, random_state=0).fit(rows)
    >>> test = table.independence(n_simulations=199)
    >>> test.null, test.pvalue < 0.01
    ('x0, x1: independent', True)
    """

    _numbers: ClassVar[tuple[str, ...]] = ("statistic", "pvalue")

    statistic: float
    pvalue: float
    expected: NDArray[np.float64]
    null: str
    level_note: str
    n_simulations: int
    privacy: PrivacyGuarantee
    name: str = "projected chi-square"

    def summary(self) -> Summary:
        """Return a table. It prints as text, and shows as HTML in a notebook."""
        notes = [f"{FREE} {self.level_note}", *[SIMULATED] * self.privacy.simulated]
        return Summary(
            "Private test of a table",
            [
                ("Null hypothesis", self.null),
                ("Privacy", str(self.privacy)),
                ("Null distribution", f"a fixed draw of {self.n_simulations:,} simulated releases"),
            ],
            ["", "statistic", "p-value"],
            [(self.name, f"{self.statistic:.4g}", f"{self.pvalue:.4g}")],
            notes,
        )


# Statistics and p-values

PUBLIC_SEED = 20_170_420
"""Public seed of all simulated null tables. It is fixed, so that a release has one p-value."""
_LEAST = 0.5
"""Smallest number of rows in a margin. It ensures that no level is treated as impossible."""
_SWEEPS = 2
"""Passes over the attributes in the least squares of `independence_statistic`. One is exact for equal weights."""
_CONCENTRATED = 2.0
"""Number of noise standard deviations by which margins are lowered for the second bootstrap."""
_LEAST_VARIANCE = 1e-6
"""Least variance of a cell's noise in the statistic, in rows squared. Cells that the null hypothesis leaves empty are
divided by it, so it stays far above rounding errors."""
_TIES = 1 - 1e-9
"""Simulated statistics above this multiple of the observed one count as ties, because rounding may separate ties."""
_BLOCK = 1 << 20  # cells that are simulated at once


# Against stated proportions it is the closed form of the projected statistic of Kifer and Rogers (2017), against
# independence a score statistic. The simulation draws the whole release, including noise and estimated margins.
def projected_statistic(counts: Numbers, totals: Numbers, shares: Numbers, variance: float) -> Numbers:
    """Return Q for each table: the squared distance of noisy from expected counts, in directions that keep the total.

    It is a sum of squares, so it is never negative. Without noise it is Pearson's chi-square statistic.

    Parameters
    ----------
    counts : array of shape (size, K)
        Noisy counts.
    totals : array of shape (size,)
        Positive totals.
    shares : array of shape (size, K) or (K,)
        Proportions under the null hypothesis. They add up to 1.
    variance : float
        Variance of the noise of a cell.
    """
    floor = max(variance, _LEAST_VARIANCE)
    expected = totals[:, None] * shares
    away = counts - expected
    # The null hypothesis keeps the total, so only differences from the mean count.
    away = away - away.mean(axis=1, keepdims=True)
    spread = expected + floor
    weighed = away / spread
    along = weighed.sum(axis=1) ** 2 / (expected / spread).sum(axis=1)
    return np.asarray((away * weighed).sum(axis=1) + floor * along)


def independence_statistic(counts: Numbers, totals: Numbers, shape: Sequence[int], noise: CountNoise) -> Numbers:
    """Return the score statistic of noisy tables (size, *shape) against independence.

    Differences from the expected counts that other margins would explain are removed by weighted least squares, so
    that errors of the estimated margins hardly count. Without noise it is Pearson's chi-square statistic.
    """
    whole, axes = np.maximum(totals, 1.0), range(1, len(shape) + 1)
    margins = [_margin_shares(counts, totals, axis) for axis in range(len(shape))]
    shares = margins_product(margins)
    expected = np.expand_dims(whole, tuple(axes)) * shares
    weights = 1 / (expected + max(noise.variance, _LEAST_VARIANCE))
    away = counts - expected
    away = away - away.mean(axis=tuple(axes), keepdims=True)
    for axis, margin in list(zip(axes, margins, strict=True)) * _SWEEPS:
        others = tuple(other for other in axes if other != axis)
        direction = shares / np.expand_dims(margin, others)
        weighed = weights * direction
        along = (weighed * away).sum(axis=others, keepdims=True)
        away = away - direction * (along / (weighed * direction).sum(axis=others, keepdims=True))
    return np.asarray((weights * away**2).sum(axis=tuple(axes)))


def margins_product(margins: Sequence[Numbers]) -> Numbers:
    """Return the proportions (size, r_1, ..., r_k) of independent attributes with margins (size, r_j)."""
    table = margins[0]
    for margin in margins[1:]:
        table = table[..., None] * margin.reshape(len(margin), *[1] * (table.ndim - 1), -1)
    return table


def _margin_shares(counts: Numbers, totals: Numbers, axis: int) -> Numbers:
    margin = counts.sum(axis=tuple(j + 1 for j in range(counts.ndim - 1) if j != axis))
    whole = np.maximum(totals, 1.0)
    return projection(margin, whole, _LEAST) / whole[:, None]


def concentrated(margin: Numbers, total: float, std: float) -> Numbers:
    """Return a concentrated margin: lower all levels except the largest by their noise, and add the rest to it."""
    lowered = np.maximum(margin * total - _CONCENTRATED * std, min(_LEAST, total / margin.size))
    largest = int(np.argmax(margin))
    lowered[largest] = 0.0
    lowered[largest] = max(total - lowered.sum(), 0.0)
    return np.asarray(lowered / lowered.sum())


def independence_pvalue(cells: Cells, n_simulations: int) -> tuple[float, float]:
    """Return the statistic and the larger p-value of two bootstraps: at the margins released, and concentrated."""
    shape = cells.counts.shape
    total = max(cells.total, 1.0)
    observed = independence_statistic(cells.counts[None], np.array([total]), shape, cells.noise)[0]
    margins = [_margin_shares(cells.counts[None], np.array([total]), axis)[0] for axis in range(len(shape))]
    # The count of a level is a sum over the other attributes.
    spreads = [cells.noise.of(cells.counts.size // size).std for size in shape]
    lowered = [concentrated(m, total, std) for m, std in zip(margins, spreads, strict=True)]
    pvalues = []
    for place, given in enumerate((margins, lowered)):
        shares = margins_product([m[None] for m in given])[0]
        rng = np.random.default_rng((PUBLIC_SEED, place))
        above = 0
        for size in cut(n_simulations, max(1, _BLOCK // shares.size)):
            tables, totals = _simulated(cells, shares, size, rng)
            above += int(np.sum(independence_statistic(tables, totals, shape, cells.noise) >= _TIES * observed))
        pvalues.append((1 + above) / (n_simulations + 1))
    return float(observed), max(pvalues)


def fit_pvalue(cells: Cells, shares: Numbers, n_simulations: int) -> tuple[float, float]:
    """Return the statistic and the p-value of a table against stated proportions. The null distribution is known."""
    flat = shares.ravel()

    def statistic(counts: Numbers, totals: Numbers) -> Numbers:
        return projected_statistic(counts.reshape(len(counts), -1), np.maximum(totals, 1.0), flat, cells.noise.variance)

    observed = statistic(cells.counts[None], np.array([cells.total]))[0]
    rng = np.random.default_rng((PUBLIC_SEED, 2))
    above = 0
    for size in cut(n_simulations, max(1, _BLOCK // flat.size)):
        above += int(np.sum(statistic(*_simulated(cells, shares, size, rng)) >= _TIES * observed))
    return float(observed), (1 + above) / (n_simulations + 1)


def _simulated(cells: Cells, shares: Numbers, size: int, rng: np.random.Generator) -> tuple[Numbers, Numbers]:
    """Return simulated releases of tables under the null hypothesis, and their totals."""
    n = max(1, math.floor(cells.total + 0.5))
    drawn = rng.multinomial(n, shares.ravel(), size) + cells.noise.draw(rng, (size, shares.size))
    totals = np.full(size, float(n))
    if cells.summed:
        totals = np.maximum(drawn.sum(axis=1, dtype=np.float64), 0.0)
    elif cells.total_noise is not None:
        totals = totals + cells.total_noise.draw(rng, (size,))
    return drawn.reshape(size, *shares.shape).astype(np.float64), totals
