"""Answers to several aggregates of one query, and their errors from the noise alone.

Proof: docs/proofs/several-aggregates.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.special import ndtr, ndtri

from dpstats.data.rows import LEFT_OUT
from dpstats.inference.error_distributions import (
    BONFERRONI,
    ErrorDistribution,
    Limits,
    SelectedErrors,
    Tail,
    laplace_sum_tails,
    normal_quantile,
)
from dpstats.inference.estimates import Estimates
from dpstats.inference.noisy_counts import FoundCounts
from dpstats.means.ratio import Noise, Ratio, RatioErrors, hull
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.sql.answers import (
    ANSWER,
    HALF_ROW,
    ROWS,
    SELECTED,
    SHARES,
    CellAnswers,
    Numbers,
    Off,
    SQLPlan,
    exclude_unitless,
    read_numbers,
    smooth_noise,
)
from dpstats.sql.query import Aggregate, Measure, Query, Several

# Errors of weighted sums of released numbers, and of their ratios

_TAILS = np.geomspace(0.5, 1e-14, 250)
"""Error probabilities with a computed width, for noise of a private scale: a probability between two is the larger."""
_LEAST_TAIL = 1e-300


@dataclass(frozen=True, eq=False)
class Shaken:
    """The noise of released numbers: independent, with one distribution.

    Attributes
    ----------
    off : Off
    """

    off: Off

    @property
    def std(self) -> float:
        """Standard deviation of the noise of one number, in steps; NaN where its scale is private."""
        if self.off.law == "gaussian":
            return self.off.scales[0]
        return self.off.std

    def tails(self, distance: Numbers, weights: Sequence[Any]) -> Numbers:
        """Return an upper bound of P(sum of weighted noise >= distance), for nonnegative weights and distances."""
        if not self.off.known:
            self.off.half(0.05)
        if self.off.stage is not None:
            widths = self._widths(len(weights))
            # The widths rise: the first that reaches the distance belongs to a probability that is not too small.
            place = np.searchsorted(widths, distance / sum(weights), side="left")
            return np.asarray(np.where(place == 0, 0.5, _TAILS[np.clip(place - 1, 0, _TAILS.size - 1)]))
        scale = self.off.scales[0]
        if self.off.law == "gaussian":
            norm = scale * np.sqrt(sum(np.square(weight) for weight in weights))
            return np.asarray(ndtr(-distance / norm))
        # Noise on whole numbers is within a step of Laplace's.
        inside = np.maximum(distance - sum(weights), 0.0)
        scales = [np.broadcast_to(scale * np.asarray(weight), inside.shape) for weight in weights]
        return laplace_sum_tails(inside, np.zeros(inside.shape), scales)

    def score(self, distance: Numbers, weights: Sequence[Any]) -> Numbers:
        """Return a sum of weighted noise as a standard normal variable, or nearer to 0."""
        tails = self.tails(np.abs(distance), [np.abs(weight) for weight in weights])
        return np.asarray(np.sign(distance) * -ndtri(np.maximum(tails, _LEAST_TAIL)))

    def _widths(self, count: int) -> Numbers:
        """Return a width for each probability, by Bonferroni's inequality for this number of terms."""
        if count not in self._known:
            self._known[count] = np.array([self.off.half(2 * float(tail) / count) for tail in _TAILS])
        return self._known[count]

    @cached_property
    def _known(self) -> dict[int, Numbers]:
        return {}

    def width(self, tail: float, weights: Sequence[float]) -> float:
        """Return the distance that the sum of weighted noise exceeds with this probability on one side."""

        def excess(distance: float) -> float:
            return float(self.tails(np.array([distance]), weights)[0]) - tail

        if self.off.stage is not None:
            widths = self._widths(len(weights))
            # The first probability that is no larger: the width is a step of the table too large, at most.
            place = int(np.searchsorted(-_TAILS, -tail, side="left"))
            return float(widths[place]) * sum(weights) if place < _TAILS.size else math.inf
        high = max(sum(weights), self.std * math.hypot(*weights))
        while excess(high) > 0:
            high *= 2
        return float(optimize.brentq(excess, 0.0, high, xtol=1e-12 * high)) * (1 + 1e-11) if excess(0.0) > 0 else 0.0


@dataclass(frozen=True, eq=False)
class LinearErrors(ErrorDistribution):
    """Errors of weighted sums of released numbers.

    Attributes
    ----------
    values : array of shape (n_cells,)
    weights : tuple of float
        The absolute movement of a value for one step of each number.
    noise : Shaken
    """

    values: Numbers
    weights: tuple[float, ...]
    noise: Shaken

    @property
    def start(self) -> Numbers:
        return self.values

    @property
    def standard_error(self) -> float:
        """Standard deviation of the noise."""
        return self.noise.std * math.hypot(*self.weights)

    def limits(self, tail: Tail) -> Limits:
        widths = [self.noise.width(float(each), self.weights) for each in np.ravel(tail)]
        width = np.reshape(widths, np.shape(tail))
        return self.values - width, self.values + width

    def tails(self, value: Numbers) -> Limits:
        distance = self.values - value
        beyond = self.noise.tails(np.abs(distance), self.weights)
        return np.where(distance < 0, beyond, 1 - beyond), np.where(distance < 0, 1 - beyond, beyond)


@dataclass(frozen=True, eq=False)
class ShareRatio(Ratio):
    """Means in half-widths of their bounds: their only error is noise. T and N are in rows.

    Attributes
    ----------
    shaken : Shaken
    weights : tuple of (float, float)
        The weights of each released number in T and in N.
    """

    shaken: Shaken = field(kw_only=True)
    weights: tuple[tuple[float, float], ...] = field(kw_only=True)

    def score(self, value: Any) -> Numbers:
        m, count = np.asarray(value, dtype=np.float64), self.N
        distance = np.clip(self.T, -np.abs(count), np.abs(count)) - m * count
        return self.shaken.score(distance, [t - m * n for t, n in self.weights])


@dataclass(frozen=True, eq=False)
class MeanErrors(RatioErrors):
    """Errors of means of rounded values, which are half a step from the values at most.

    Attributes
    ----------
    rounding : float
    """

    rounding: float = 0.0

    def limits(self, tail: Tail) -> Limits:
        low, high = super().limits(tail)
        return np.maximum(low - self.rounding, self.low), np.minimum(high + self.rounding, self.high)

    def score(self, value: Numbers) -> Numbers:
        near = np.clip(self.start, value - self.rounding, value + self.rounding)
        return super().score(near)


# Errors of variances and standard deviations

_MEAN_SHARE = 0.1
"""Part of the error probability for the mean: the variance depends on its square only."""
_NODES = np.linspace(0.0, 1.0, 5)[:, None]


@dataclass(frozen=True, eq=False)
class SquareRatio(Ratio):
    """Sums of squares about fixed means, over numbers of rows: mapped from [0, ``most``] to [-1, 1].

    Attributes
    ----------
    mean : ShareRatio
    about : array
        The means, in half-widths.
    in_squares : tuple of float
        The weights of the released numbers in the sum of squares about the middle.
    one_less : int
        The number to subtract from a number of rows.
    """

    mean: ShareRatio = field(kw_only=True)
    about: Numbers = field(kw_only=True)
    in_squares: tuple[float, ...] = field(kw_only=True)
    one_less: int = field(kw_only=True)

    @property
    def most(self) -> int:
        """The largest variance, in squared half-widths: with two rows, of a sample."""
        return 1 + self.one_less

    @property
    def estimate(self) -> Numbers:
        least = np.maximum(self.N - self.one_less, self.noise.count)
        return np.asarray(np.clip(2 * self.T / (self.most * least) - 1, -1.0, 1.0))

    def score(self, value: Any) -> Numbers:
        v, m = self.most * (np.asarray(value, dtype=np.float64) + 1) / 2, self.about
        count = self.N - self.one_less
        ends = np.minimum(self.most * count, 0.0), np.maximum(self.most * count, 0.0)
        distance = np.clip(self.T, *ends) - v * count
        weights = [q - 2 * m * t + (m**2 - v) * n for q, (t, n) in zip(self.in_squares, self.mean.weights, strict=True)]
        return self.mean.shaken.score(distance, weights)


@dataclass(frozen=True, eq=False)
class SpreadErrors(ErrorDistribution):
    """Errors of variances, or of standard deviations.

    Attributes
    ----------
    mean : ShareRatio
        The means of the same values.
    squares : array of shape (n_cells,)
        Sums of squares about the middle, in squared half-widths.
    in_squares : tuple of float
        The weights of the released numbers in them.
    half : float
        Half the width of the bounds.
    sample : bool
        Whether sums are divided by the number of rows less one.
    root : bool
        Whether these are standard deviations.
    rounding : float
        Half a step of the values, in the units of the data.
    whole : int
        The whole that shares are parts of.
    """

    mean: ShareRatio
    squares: Numbers
    in_squares: tuple[float, ...]
    half: float
    sample: bool
    root: bool
    rounding: float
    whole: int

    @property
    def start(self) -> Numbers:
        ratio = self._center(self.mean.estimate)
        return self._in_units(np.sqrt(ratio.most * (ratio.estimate + 1) / 2))

    @property
    def box(self) -> Limits:
        most = np.full(self.squares.shape, np.sqrt(1.0 + self.sample))
        return np.zeros(self.squares.shape), self._in_units(most)

    @property
    def standard_error(self) -> Numbers:
        """Half the width of the intervals of one standard deviation."""
        low, high = self.limits(float(ndtr(-1.0)))
        return np.asarray((high - low) / 2)

    def limits(self, tail: Tail) -> Limits:
        # The right mean is among some, and for each of these the variance is inside its limits.
        low, high = self.mean.ends(normal_quantile(_MEAN_SHARE / 2 * np.asarray(tail)))
        middle = self.mean.estimate
        ratio = self._center(np.concatenate([middle + (end - middle) * _NODES for end in (low, high)]))
        z = normal_quantile((1 - _MEAN_SHARE) * np.asarray(tail))
        ends = hull(ratio, np.asarray(z, dtype=np.float64))
        least, most = (ratio.most * (end + 1) / 2 for end in (ends[0].min(axis=0), ends[1].max(axis=0)))
        # Two of three shares are rounded down, and values are rounded to steps.
        most = most + 4 * ratio.most / self.whole
        off = self.rounding / self.half * np.sqrt(ratio.most)
        inside = np.maximum(np.sqrt(least) - off, 0.0), np.minimum(np.sqrt(most) + off, np.sqrt(ratio.most))
        return self._in_units(inside[0]), self._in_units(inside[1])

    def _center(self, about: Numbers) -> SquareRatio:
        mean = self.mean
        squares = self.squares - 2 * about * mean.T + about**2 * mean.N
        return SquareRatio(
            squares,
            mean.N,
            squares,
            squares,
            mean.N,
            mean.noise,
            mean=mean,
            about=about,
            in_squares=self.in_squares,
            one_less=int(self.sample),
        )

    def _in_units(self, deviation: Numbers) -> Numbers:
        found = self.half * deviation
        return np.asarray(found if self.root else found**2)


# Answers

_HIDDEN = 0.025
"""Probability that the noise alone makes a number of rows that is not called hidden by it."""


@dataclass(frozen=True, eq=False)
class AllErrors(ErrorDistribution):
    """Errors of several aggregates, one after another.

    Attributes
    ----------
    each : tuple of ErrorDistribution
        Each of the same number of cells.
    off : Off
    """

    each: tuple[ErrorDistribution, ...]
    off: Off

    @property
    def start(self) -> Numbers:
        return np.concatenate([one.start for one in self.each])

    @property
    def known(self) -> bool:
        return self.off.known

    def confirm_level(self, confidence_level: float | None) -> float:
        level = super().confirm_level(confidence_level)
        if not self.known:
            self.off.half(1 - level)
        return level

    @property
    def box(self) -> Limits:
        return _side_by_side([one.box for one in self.each])

    def limits(self, tail: Tail) -> Limits:
        size = self.start.size
        parts = np.split(np.broadcast_to(tail, (size,)), len(self.each)) if np.ndim(tail) else [tail] * len(self.each)
        return _side_by_side([one.limits(part) for one, part in zip(self.each, parts, strict=True)])

    def tails(self, value: Numbers) -> Limits:
        parts = np.split(value, len(self.each), axis=-1)
        return _side_by_side([one.tails(part) for one, part in zip(self.each, parts, strict=True)])


def _side_by_side(pairs: list[Limits]) -> Limits:
    first, second = (np.concatenate([pair[i] for pair in pairs], axis=-1) for i in range(2))
    return first, second


@dataclass(frozen=True, eq=False, repr=False)
class PrivateAnswers(CellAnswers):
    """Answers to several aggregates, for the cells of a GROUP BY: one release, with an interval for each number.

    Attributes
    ----------
    names : tuple of str
        Names of the columns that rows are grouped by.
    cells : tuple of tuple
        Their declared values.
    labels : tuple of str
        Names of the aggregates.
    values : ndarray of shape (n_cells, n_aggregates)
        In the units of the data; counts may be negative.
    guarantee : PrivacyGuarantee
    method : {"public", "smooth", "threshold"}
        What the noise is scaled by: a public bound, the smooth sensitivity, or a threshold for every unit.
    thresholds : tuple of float
        How many rows a unit adds at most: chosen privately.
    text : str
        The query.

    Examples
    --------
    >>> import duckdb
    >>> from dpstats.sql import PrivateSQL
    >>> db = duckdb.connect()
    >>> _ = db.execute("CREATE TABLE visit AS SELECT range % 3 AS clinic, range % 10 AS days FROM range(900)")
    >>> sql = PrivateSQL(
    ...     db, epsilon=1.0, categories={"visit.clinic": [0, 1, 2]}, bounds={"visit.days": (0, 10)}, random_state=0
    ... )
    >>> answers = sql.query("SELECT clinic, COUNT(days), SUM(days), AVG(days) FROM visit GROUP BY clinic")
    >>> answers.labels
    ('count_days', 'sum_days', 'mean_days')
    >>> answers["mean_days"].round(1)
    array([4.5, 4.6, 4.3])
    """

    guarantee: PrivacyGuarantee
    method: str
    thresholds: tuple[float, ...]
    text: str
    several: Several = field(repr=False)
    raw: Numbers = field(repr=False)
    off: Off = field(repr=False)
    most_rows: int | None = field(default=None, repr=False)
    found: FoundCounts | None = field(default=None, repr=False)
    selected: float = field(default=1.0, repr=False)

    def show(self, places: list[int], selected: float) -> PrivateAnswers:
        """Return the answers of some cells, in this order, with the proportion of cells that values selected."""
        cells = tuple(self.cells[place] for place in places)
        found = None if self.found is None else self.found[places]
        return replace(
            self, cells=cells, values=self.values[places], raw=self.raw[places], found=found, selected=selected
        )

    @property
    def estimand(self) -> str:
        """Description of the covered quantities."""
        bounded = [one for one in self.several.columns if one.kind == "mean"]
        words = "each aggregate in these data"
        if bounded:
            words += ", of values within their bounds"
        rounded = [one for one in bounded if one.rounded and one.column is not None]
        if rounded:
            steps = ", ".join(f"{one.spacing:.3g} ({one.column.name})" for one in rounded if one.column)
            words += f", in sums rounded to multiples of {steps}"
        if self.thresholds:
            most = f"{self.thresholds[0]:.10g}"
            unit = self.guarantee.unit
            words += f"; a {unit} of more than {most} rows has the weight of {most}{exclude_unitless(unit)}"
        return words

    def estimates(self) -> Estimates:
        """Return all numbers with the distribution of their errors, which is the noise alone."""
        shaken = self._shaken
        errors = [_errors(each, self.several, self.raw, shaken, self.found) for each in self.several.asked]
        together = AllErrors(tuple(errors), self.off)
        std = [one.standard_error if self.off.stage is None else math.nan for one in errors]
        return Estimates(
            self.values.T.ravel(),
            np.concatenate([np.broadcast_to(one, (len(self.cells),)) for one in std]),
            estimand=self.estimand,
            distribution=SelectedErrors(together, self.selected) if self.selected < 1 else together,
            title="Private answers",
            facts=[("Query", " ".join(self.text.split())), *self.guarantee.facts(), ("Noise", self._noise_in_words)],
            notes=self._notes(errors),
            together=BONFERRONI,
            simulated=self.guarantee.simulated,
            **self._name_rows("aggregate"),
        )

    @cached_property
    def _shaken(self) -> Shaken:
        return Shaken(self.off)

    @property
    def _noise_in_words(self) -> str:
        if self.off.stage is not None:
            return smooth_noise(self.off.stage)
        law, scale = ("Gaussian", "standard deviation") if self.off.law == "gaussian" else ("Laplace", "scale")
        several, noise = self.several, self.off.scales[0]
        if self.found is not None:
            shares = ", and on every share of a column" if several.columns else ""
            return f"{self.found.noise.words}, on the rows of a group{shares}, in one release"
        where = [f"{noise / several.reach:.4g} rows on every share of a column"]
        if several.paired:
            # A count with a sum has half the weight of one alone.
            alone = noise / (2 << several.bits)
            where = [f"{alone:.4g} rows on every count"] * any(one.kind == "count" for one in several.columns)
            if any(one.kind == "mean" for one in several.columns):
                where.append(f"{2 * alone:.4g} rows on the count of a column with a sum or a mean")
        return f"{law} of {scale} {', '.join(where)}, in one release"

    def _notes(self, errors: Sequence[Any]) -> list[str]:
        notes = []
        if self.off.known:
            notes.append(
                "Intervals reflect privacy noise only. They cover the answers for these data, not for a population."
            )
        else:
            notes.append("The noise scale is private, so the printed digits do not show the precision.")
        if self.off.known:
            hidden = np.column_stack([_find_hidden(one, self._shaken, len(self.cells)) for one in errors])
            notes += self._note_noise_only(hidden)
        if self.found is not None:
            notes.append(self.found.note)
        elif self.names:
            notes.append(LEFT_OUT)
        if self.selected < 1:
            notes.append(SELECTED)
        if self.most_rows is not None:
            notes.append(
                f"Numbers are cut at {self.most_rows:,} rows for each cell, because the scale of the noise is private."
            )
        if self.thresholds:
            notes.append(
                f"The rows of one {self.guarantee.unit} together have at most the weight of the threshold. Totals "
                "without this limit have no interval."
            )
        if self.several.missing is not None:
            column = self.several.columns[self.several.missing].column
            notes.append(
                f"COUNT(*) has the noise of three numbers, as {column.name if column else ''} may be missing. "
                "NOT NULL in the table makes it two."
            )
        return notes


def all_answered(query: Query, plan: SQLPlan, released: Any, guarantee: PrivacyGuarantee) -> PrivateAnswers:
    """Return the answers to several aggregates from their release."""
    several = query.measure
    assert isinstance(several, Several)
    if query.discovers:
        return _found_answers(query, plan, released[ANSWER], guarantee)
    raw, off, thresholds = read_numbers(query, plan, released)
    values = [_errors(each, several, raw, Shaken(off)).start for each in several.asked]
    return PrivateAnswers(
        tuple(group.name for group in query.groups),
        tuple(query.cell(i) for i in range(query.cells)),
        tuple(each.label for each in several.asked),
        np.column_stack(values),
        guarantee,
        plan.method,
        thresholds,
        query.text,
        several,
        raw,
        off,
        plan.largest // several.reach if plan.method == "smooth" else None,
    )


def _found_answers(query: Query, plan: SQLPlan, released: Any, guarantee: PrivacyGuarantee) -> PrivateAnswers:
    """Return the answers of the keys that were found."""
    several, stage = query.measure, plan.discovery
    assert isinstance(several, Several)
    keys = released["labels"]
    rows = np.reshape(released[ROWS], len(keys))
    raw = np.reshape(released[SHARES], (len(keys), several.parts)) if several.parts else np.empty((len(keys), 0))
    off = Off((stage.touched.scale_steps(stage.counts),), law=stage.noise)
    found = FoundCounts(rows, stage.count_noise, stage.threshold)
    errors = [_errors(each, several, raw, Shaken(off), found) for each in several.asked]
    return PrivateAnswers(
        tuple(group.name for group in query.groups),
        tuple(map(query.key_values, keys)),
        tuple(each.label for each in several.asked),
        np.column_stack([one.start for one in errors]),
        guarantee,
        plan.method,
        (),
        query.text,
        several,
        raw,
        off,
        found=found,
    )


def _errors(
    item: Aggregate, several: Several, raw: Numbers, shaken: Shaken, found: FoundCounts | None = None
) -> LinearErrors | MeanErrors | SpreadErrors | FoundCounts:
    """Return the distribution of the errors of one aggregate, which has the answer as its start."""
    if found is not None and item.column is None:
        return found
    place = several.rows if item.column is None else item.column
    column = several.columns[place]
    shares = raw[:, list(several.shares(place))]
    in_count = several.count_weights(place)
    if item.kind == "count":
        if item.column is None and place == several.missing:
            in_count = (*in_count, 1 / several.whole(place))
        return _linear(shares, in_count, shaken)
    in_sum = several.sum_weights(place)
    low, high = column.low * column.spacing, column.high * column.spacing
    middle, half = (low + high) / 2, (high - low) / 2
    if item.kind == "sum":
        return _linear(shares, [middle * n + half * t for n, t in zip(in_count, in_sum, strict=True)], shaken)
    counted = shares[:, : len(in_count)]
    T, N = counted @ np.array(in_sum), counted @ np.array(in_count)
    std = shaken.std * math.hypot(*in_count)
    noise = Noise(0.0, max(1.0, 0.0 if math.isnan(std) else std), 0.0, 0.0, 0.0, 0.0)
    weights = tuple(zip(in_sum, in_count, strict=True))
    ratio = ShareRatio(T, N, N, T, N, noise, shaken=shaken, weights=weights)
    if item.kind == "mean":
        least, most = (np.full(T.shape, end) for end in (low, high))
        return MeanErrors(ratio, middle, half, least, most, rounding=_rounding(column))
    in_squares = several.square_weights(place)
    return SpreadErrors(
        ratio,
        counted @ np.array(in_squares),
        in_squares,
        half,
        sample=item.kind.endswith("samp"),
        root=item.kind.startswith("stddev"),
        rounding=_rounding(column),
        whole=several.whole(place),
    )


def _find_hidden(errors: Any, shaken: Shaken, size: int) -> NDArray[np.bool_]:
    """Return the means and spreads whose noisy number of rows cannot be distinguished from 0."""
    ratio = errors.ratio if isinstance(errors, MeanErrors) else getattr(errors, "mean", None)
    if not isinstance(ratio, ShareRatio):
        return np.zeros(size, dtype=bool)
    width = shaken.width(_HIDDEN, [count for _, count in ratio.weights if count])
    return np.less(ratio.N, max(width, HALF_ROW))


def _linear(shares: Numbers, weights: Sequence[float], shaken: Shaken) -> LinearErrors:
    """Return the errors of a weighted sum of the first numbers."""
    used = [(weight, shares[:, i]) for i, weight in enumerate(weights) if weight]
    values = np.sum([weight * numbers for weight, numbers in used], axis=0)
    return LinearErrors(values, tuple(abs(weight) for weight, _ in used), shaken)


def _rounding(column: Measure) -> float:
    return column.spacing / 2 if column.rounded else 0.0
