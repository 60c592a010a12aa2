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

from dpstats.error_distributions import ErrorDistribution, Limits, SelectedErrors, Tail
from dpstats.found_counts import FoundCounts
from dpstats.inference import Estimates
from dpstats.means.ratio import Noise
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.sql.answers import (
    HALF_ROW,
    SELECTED,
    CellAnswers,
    Numbers,
    Off,
    exclude_unitless,
    read_numbers,
)
from dpstats.sql.noise import LinearErrors, MeanErrors, Shaken, ShareRatio
from dpstats.sql.plan import ANSWER, ROWS, SHARES, SQLPlan
from dpstats.sql.query import Aggregate, Measure, Query, Several
from dpstats.sql.spreads import SpreadErrors
from dpstats.together import BONFERRONI

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
            self,
            cells=cells,
            values=self.values[places],
            raw=self.raw[places],
            found=found,
            selected=selected,
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
            facts=[
                ("Query", " ".join(self.text.split())),
                *self.guarantee.facts(),
                ("Noise", self._noise_in_words),
            ],
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
            law = "Laplace" if self.off.stage.noise == "laplace" else "Student's law, 3 degrees of freedom"
            return f"{law}, of a private scale (smooth sensitivity)"
        law, scale = (
            ("Gaussian", "standard deviation") if self.off.law == "gaussian" else ("Laplace", "scale")
        )
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
    raw = (
        np.reshape(released[SHARES], (len(keys), several.parts))
        if several.parts
        else np.empty((len(keys), 0))
    )
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
