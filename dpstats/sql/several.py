"""Answers to several aggregates of one query: post-processing of one release.

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
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from dpstats.errors import InvalidParameter
from dpstats.inference import (
    BONFERRONI,
    ErrorDistribution,
    Estimates,
    HasEstimates,
    Limits,
    SelectedErrors,
    Tail,
)
from dpstats.intervals import laplace_sum_tails
from dpstats.means.ratio import Noise, Ratio, RatioErrors
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.results import Exported
from dpstats.sql.answers import SELECTED, Off, read_numbers
from dpstats.sql.plan import SQLPlan
from dpstats.sql.query import Aggregate, Measure, Query, Several

Numbers = NDArray[np.float64]

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
            return self._private_tails(distance, weights)
        scale = self.off.scales[0]
        if self.off.law == "gaussian":
            norm = scale * np.sqrt(sum(np.square(weight) for weight in weights))
            return np.asarray(ndtr(-distance / norm))
        # Noise on whole numbers is within a step of Laplace's.
        inside = np.maximum(distance - sum(weights), 0.0)
        scales = [np.broadcast_to(scale * np.asarray(weight), inside.shape) for weight in weights]
        return laplace_sum_tails(inside, np.zeros(inside.shape), scales)

    def _private_tails(self, distance: Numbers, weights: Sequence[Any]) -> Numbers:
        widths = self._widths(len(weights))
        # The widths rise: the first that reaches the distance belongs to a probability that is not too small.
        place = np.searchsorted(widths, distance / sum(weights), side="left")
        return np.asarray(np.where(place == 0, 0.5, _TAILS[np.clip(place - 1, 0, _TAILS.size - 1)]))

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
        high = max(sum(weights), self.std)
        while excess(high) > 0:
            high *= 2
        return float(brentq(excess, 0.0, high, xtol=1e-12 * high)) * (1 + 1e-11) if excess(0.0) > 0 else 0.0


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
    """Means in half-widths of their bounds: their only error is noise.

    Attributes
    ----------
    shaken : Shaken
    """

    shaken: Shaken = field(kw_only=True)

    def score(self, value: Any) -> Numbers:
        m, count = np.asarray(value, dtype=np.float64), self.N
        distance = np.clip(self.T, -np.abs(count), np.abs(count)) - m * count
        tails = self.shaken.tails(np.abs(distance), [1 - m, 1 + m])
        return np.asarray(np.sign(distance) * -ndtri(np.maximum(tails, _LEAST_TAIL)))


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
        parts = (
            np.split(np.broadcast_to(tail, (size,)), len(self.each))
            if np.ndim(tail)
            else [tail] * len(self.each)
        )
        return _side_by_side([one.limits(part) for one, part in zip(self.each, parts, strict=True)])

    def tails(self, value: Numbers) -> Limits:
        parts = np.split(value, len(self.each), axis=-1)
        return _side_by_side([one.tails(part) for one, part in zip(self.each, parts, strict=True)])


def _side_by_side(pairs: list[Limits]) -> Limits:
    first, second = (np.concatenate([pair[i] for pair in pairs], axis=-1) for i in range(2))
    return first, second


@dataclass(frozen=True, eq=False)
class PrivateAnswers(HasEstimates, Exported):
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

    names: tuple[str, ...]
    cells: tuple[tuple[Any, ...], ...]
    labels: tuple[str, ...]
    values: Numbers
    guarantee: PrivacyGuarantee
    method: str
    thresholds: tuple[float, ...]
    text: str
    several: Several = field(repr=False)
    raw: Numbers = field(repr=False)
    off: Off = field(repr=False)
    most_rows: int | None = field(default=None, repr=False)
    selected: float = field(default=1.0, repr=False)

    def show(self, places: list[int], selected: float) -> PrivateAnswers:
        """Return the answers of some cells, in this order, with the proportion of cells that values selected."""
        cells = tuple(self.cells[place] for place in places)
        return replace(self, cells=cells, values=self.values[places], raw=self.raw[places], selected=selected)

    def __getitem__(self, label: str) -> Numbers:
        """Return the numbers of one aggregate, one for each cell."""
        if label not in self.labels:
            raise InvalidParameter(f"label must be one of {', '.join(self.labels)}, got {label!r}")
        return np.asarray(self.values[:, self.labels.index(label)])

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
            words += f"; a {self.guarantee.unit} of more than {most} rows has the weight of {most}"
        return words

    def estimates(self) -> Estimates:
        """Return all numbers with the distribution of their errors, which is the noise alone."""
        shaken = self._shaken
        errors = [_errors(each, self.several, self.raw, shaken) for each in self.several.asked]
        together = AllErrors(tuple(errors), self.off)
        std = [one.standard_error if self.off.stage is None else math.nan for one in errors]
        repeated = [cell for _ in self.labels for cell in self.cells]
        which = [label for label in self.labels for _ in self.cells]
        return Estimates(
            self.values.T.ravel(),
            np.concatenate([np.broadcast_to(one, (len(self.cells),)) for one in std]),
            tuple(
                ": ".join([label, *([", ".join(map(str, cell))] if cell else [])])
                for label, cell in zip(which, repeated, strict=True)
            ),
            self.estimand,
            SelectedErrors(together, self.selected) if self.selected < 1 else together,
            title="Private answers",
            rows=": ".join(["aggregate", *([", ".join(self.names)] if self.names else [])]),
            facts=[
                ("Query", " ".join(self.text.split())),
                ("Privacy", str(self.guarantee)),
                ("Noise", self._noise_in_words),
            ],
            notes=self._notes,
            together=BONFERRONI,
            labels={
                "aggregate": which,
                **{name: [cell[j] for cell in repeated] for j, name in enumerate(self.names)},
            },
            simulated=self.guarantee.simulated,
        )

    @cached_property
    def _shaken(self) -> Shaken:
        return Shaken(self.off)

    @property
    def _noise_in_words(self) -> str:
        if self.off.stage is not None:
            law = "Laplace" if self.off.stage.noise == "laplace" else "Student's law, 3 degrees of freedom"
            return f"{law}, of a private scale (smooth sensitivity)"
        law, scale = (
            ("Gaussian", "standard deviation") if self.off.law == "gaussian" else ("Laplace", "scale")
        )
        rows = self.off.scales[0] / self.several.reach
        return f"{law} of {scale} {rows:.4g} rows on every share of a column, in one release"

    @property
    def _notes(self) -> list[str]:
        notes = []
        if self.off.known:
            notes.append(
                "Intervals count the noise and nothing else: they are for these data, and no population."
            )
        else:
            notes.append("The scale of the noise is private: digits are not those that it leaves.")
        if self.selected < 1:
            notes.append(SELECTED)
        if self.most_rows is not None:
            notes.append(
                f"Numbers are cut at {self.most_rows:,} rows for each cell, because the scale of the noise is private."
            )
        if self.thresholds:
            notes.append(
                f"A {self.guarantee.unit} with more rows than the threshold is cut: of the whole there is no interval."
            )
        if self.several.missing is not None:
            column = self.several.columns[self.several.missing].column
            notes.append(
                f"COUNT(*) has the noise of three numbers, as {column.name if column else ''} may be missing. "
                "NOT NULL in the table makes it two."
            )
        return notes

    def records(self, confidence_level: float = 0.95) -> list[dict[str, Any]]:
        """Return a mapping for each cell: its values, the aggregates, and their intervals (label_low, label_high)."""
        found: list[dict[str, Any]] = [dict(zip(self.names, cell, strict=True)) for cell in self.cells]
        ends = self.confidence_interval(confidence_level) if self.off.known else None
        for j, label in enumerate(self.labels):
            for i, record in enumerate(found):
                record[label] = float(self.values[i, j])
                if ends is not None:
                    place = j * len(found) + i
                    record[f"{label}_low"] = float(np.ravel(ends.low)[place])
                    record[f"{label}_high"] = float(np.ravel(ends.high)[place])
        return found

    def __repr__(self) -> str:
        return str(self.summary())


def all_answered(query: Query, plan: SQLPlan, released: Any, guarantee: PrivacyGuarantee) -> PrivateAnswers:
    """Return the answers to several aggregates from their release."""
    several = query.measure
    assert isinstance(several, Several)
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


def _errors(item: Aggregate, several: Several, raw: Numbers, shaken: Shaken) -> LinearErrors | MeanErrors:
    """Return the distribution of the errors of one aggregate, which has the answer as its start."""
    place = several.rows if item.column is None else item.column
    column, whole = several.columns[place], several.whole(place)
    shares = raw[:, list(several.shares(place))]
    if item.kind == "count":
        present = shares if item.column is None or place != several.missing else shares[:, :-1]
        return LinearErrors(present.sum(axis=1) / whole, (1 / whole,) * present.shape[1], shaken)
    U, V = shares[:, 0], shares[:, 1]
    low, high = column.low * column.spacing, column.high * column.spacing
    if item.kind == "sum":
        ends = [(end / whole, numbers) for end, numbers in ((high, U), (low, V)) if end]
        values = np.sum([weight * numbers for weight, numbers in ends], axis=0)
        return LinearErrors(values, tuple(abs(weight) for weight, _ in ends), shaken)
    T, N = U - V, U + V
    std = shaken.std * math.sqrt(2)
    count = max(whole, 0.0 if math.isnan(std) else std)
    noise = Noise(0.0, count, 0.0, 0.0, 0.0, 0.0)
    ratio = ShareRatio(T, N, N, T, N, noise, shaken=shaken)
    half, (least, most) = (high - low) / 2, (np.full(T.shape, end) for end in (low, high))
    return MeanErrors(ratio, (low + high) / 2, half, least, most, rounding=_rounding(column))


def _rounding(column: Measure) -> float:
    return column.spacing / 2 if column.rounded else 0.0
