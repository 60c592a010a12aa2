"""Answers: numbers with noise, and what they are off by. Post-processing of what was released."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_level
from dpstats.errors import DPStatsError
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.stages import Smooth, Stage
from dpstats.report import Reported
from dpstats.results import ConfidenceInterval, Summary, significant
from dpstats.sensitivity.levels import LEVEL, half_width, noise_width
from dpstats.sql.plan import ANSWER, SQLPlan
from dpstats.sql.query import Measure, Query

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Off:
    """How far off the numbers of an answer are, in steps.

    Attributes
    ----------
    scales : tuple of float
        Scales of Laplace noise that were added up; none where the scale is private.
    stage : Smooth, optional
        That of noise of a private scale, whose level was released with noise of ``level_scale`` as ``level``.
    """

    scales: tuple[float, ...] = ()
    stage: Smooth | None = None
    level: float | None = None
    level_scale: float = 0.0

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return self.stage is None or self.level is not None

    def describe(self, measure: Measure) -> str:
        """Return the noise in words."""
        if self.stage is None:
            unit = 1 / measure.reach if measure.kind == "mean" else measure.spacing
            words = "Laplace of scale " + " and ".join(f"{scale * unit:.4g}" for scale in self.scales)
            return (
                f"{words} on the count, {self.scales[0] * measure.spacing:.4g} on the sum"
                * (measure.kind == "mean")
                or words
            )
        law = "Laplace" if self.stage.noise == "laplace" else "Student's law, 3 degrees of freedom"
        return f"{law}, of a private scale (smooth sensitivity)"

    def half(self, confidence_level: float, numbers: int = 1) -> float:
        """Return what so many numbers together exceed with probability 1 - ``confidence_level`` at most."""
        if self.stage is None:
            tail = (1 - confidence_level) / numbers / len(self.scales)
            return sum(noise_width("laplace", scale, tail) for scale in self.scales)
        if self.level is None:
            raise DPStatsError("there is no interval: interval=False releases nothing of the noise's scale")
        return (
            half_width(self.stage, self.level, self.level_scale, confidence_level, numbers)
            * self.stage.spacing
        )


@dataclass(frozen=True, eq=False)
class PrivateTable(Reported):
    """Answers for the cells of a GROUP BY, each with noise.

    Attributes
    ----------
    names : tuple of str
        Of the columns that rows are grouped by.
    cells : tuple of tuple
        Their declared values.
    values : ndarray of shape (n_cells,)
        In the units of the data; counts may be negative.
    label : str
        What the values are called.
    guarantee : PrivacyGuarantee
    method : {"public", "smooth", "threshold", "race"}
        What the noise is scaled by: a public bound, the smooth sensitivity, or a threshold for every unit.
    thresholds : tuple of float
        What a unit adds at most, in the units of the data: chosen privately, for positive and for negative values.

    Examples
    --------
    >>> import duckdb
    >>> from dpstats.sql import PrivateSQL
    >>> db = duckdb.connect()
    >>> _ = db.execute("CREATE TABLE visit AS SELECT range % 3 AS clinic, range AS day FROM range(900)")
    >>> sql = PrivateSQL(db, epsilon=0.5, categories={'visit.clinic': [0, 1, 2]}, random_state=0)
    >>> table = sql.query("SELECT clinic, COUNT(*) FROM visit GROUP BY clinic")
    >>> table.names, table.cells, table.values
    (('clinic',), ((0,), (1,), (2,)), array([302., 302., 294.]))
    """

    names: tuple[str, ...]
    cells: tuple[tuple[Any, ...], ...]
    values: Numbers
    label: str
    guarantee: PrivacyGuarantee
    method: str
    thresholds: tuple[float, ...]
    text: str
    measure: Measure = field(repr=False)
    raw: Numbers = field(repr=False)
    off: Off = field(repr=False)

    @property
    def estimand(self) -> str:
        """In words, what intervals cover."""
        what = {"count": "count", "distinct": "number of different values", "sum": "sum", "mean": "mean"}[
            self.measure.kind
        ]
        bounded = " of values within the bounds" if self.measure.kind in ("sum", "mean") else ""
        if self.measure.kind == "sum" and self.measure.rounded:
            bounded += f", each rounded to a multiple of {self.measure.spacing:.3g},"
        if not self.thresholds:
            return f"the {what}{bounded} in these data"
        unit = self.guarantee.unit
        most = " and ".join(f"{threshold:.10g}" for threshold in self.thresholds)
        if self.measure.kind == "mean":
            return f"the mean{bounded} in these data, a {unit} of more than {most} rows weighing as {most}"
        return f"the {what}{bounded} in these data, of a {unit} at most {most}"

    def confidence_interval(
        self, confidence_level: float = 0.95, simultaneous: bool = False
    ) -> ConfidenceInterval:
        """Return an interval for each value in these data, from the noise alone, whatever the data are.

        Parameters
        ----------
        confidence_level : float, default=0.95
        simultaneous : bool, default=False
            Whether all cells are covered together.

        Raises
        ------
        DPStatsError
            If ``interval=False`` was given, or of a race, which has `lower_bound` only.
        """
        level = check_level("confidence_level", confidence_level)
        if self.method == "race":
            raise DPStatsError("a race has no interval: what it releases is below the sum (see lower_bound)")
        low, high = self._ends(level, len(self.cells) if simultaneous else 1)
        return ConfidenceInterval(low, high, level, self.estimand, simultaneous)

    def _ends(self, level: float, cells: int) -> tuple[Numbers, Numbers]:
        measure = self.measure
        if measure.kind != "mean":
            width = self.off.half(level, cells) * measure.spacing
            return self.values - width, self.values + width
        width = self.off.half(level, 2 * cells)
        count, total = self.raw.T
        # At least one row, if there is a mean.
        most, least = (np.maximum((count + sign * width) / measure.reach, 1.0) for sign in (1, -1))
        low, high = total - width, total + width
        ends = np.where(low < 0, low / least, low / most), np.where(high > 0, high / least, high / most)
        # A mean of rounded values is half a step from that of the values, at most.
        half = 0.5 if measure.rounded else 0.0
        ends = ends[0] - half, ends[1] + half
        return (
            measure.spacing * np.clip(measure.middle + ends[0], measure.low, measure.high),
            measure.spacing * np.clip(measure.middle + ends[1], measure.low, measure.high),
        )

    def summary(self, confidence_level: float = 0.95) -> Summary:
        """Return a table; prints as text, shows as HTML in a notebook."""
        columns = [self.label]
        interval = None
        if self.method != "race" and self.off.known:
            interval = self.confidence_interval(confidence_level)
            percent = f"{100 * interval.confidence_level:g}%"
            columns += [f"[{percent} low", f"{percent} high]"]
        rows = []
        for i, cell in enumerate(self.cells):
            if interval is None:
                shown = [f"{self.values[i]:.6g}"]
            else:
                low, high = (float(np.atleast_1d(end)[i]) for end in interval)
                # Widths are known to about a half: two digits of a quarter of them.
                shown = [
                    significant(x, max((high - low) / 4, 1e-12)) for x in (float(self.values[i]), low, high)
                ]
            rows.append((", ".join(map(str, cell)), *shown))
        facts = [
            ("Query", " ".join(self.text.split())),
            ("Privacy", str(self.guarantee)),
            ("Noise", self.off.describe(self.measure)),
        ]
        if interval is not None:
            facts.append(("Interval covers", interval.estimand))
        return Summary(
            "Private answer", facts, (", ".join(self.names), *columns), rows, self._notes(interval)
        )

    def _notes(self, interval: ConfidenceInterval | None) -> list[str]:
        notes = []
        if interval is not None:
            notes.append(
                "The interval counts the noise and nothing else: it is for these data, and no population."
            )
        if self.method == "smooth" and interval is None:
            notes.append("The scale of the noise is private: digits are not those that it leaves.")
        if self.thresholds and self.measure.kind != "mean":
            notes.append(
                f"What a {self.guarantee.unit} adds beyond the threshold is left out: of the whole there is a lower "
                "bound only."
            )
        if self.guarantee.simulated:
            notes.append("Simulated noise, not a private release: random_state was given.")
        return notes

    def records(self, confidence_level: float = 0.95) -> list[dict[str, Any]]:
        """Return the rows as mappings: the cell, the value, and the interval where there is one."""
        found = [
            {**dict(zip(self.names, cell, strict=True)), self.label: float(value)}
            for cell, value in zip(self.cells, self.values, strict=True)
        ]
        if self.method != "race" and self.off.known:
            interval = self.confidence_interval(confidence_level)
            for i, record in enumerate(found):
                record["low"], record["high"] = (float(np.atleast_1d(end)[i]) for end in interval)
        return found

    def __repr__(self) -> str:
        return str(self.summary())

    def _repr_html_(self) -> str:
        return self.summary().as_html()


class PrivateAnswer(PrivateTable):
    """One number with noise: a `PrivateTable` of a single cell.

    Attributes
    ----------
    value : float

    Examples
    --------
    >>> import duckdb
    >>> from dpstats.sql import PrivateSQL
    >>> db = duckdb.connect()
    >>> _ = db.execute("CREATE TABLE visit AS SELECT range % 3 AS clinic, range AS day FROM range(900)")
    >>> sql = PrivateSQL(db, epsilon=0.5, random_state=0)
    >>> answer = sql.count("SELECT COUNT(*) FROM visit WHERE clinic = 1")
    >>> print(answer.guarantee)
    (epsilon = 0.5, delta = 0), one row replaced [simulated noise, not a private release]
    >>> answer.value, answer.confidence_interval(0.95).low
    (299.0, 293.0)
    """

    @property
    def value(self) -> float:
        """The number."""
        return float(self.values[0])

    def confidence_interval(
        self, confidence_level: float = 0.95, simultaneous: bool = False
    ) -> ConfidenceInterval:
        """Return an interval for the number in these data, from the noise alone, whatever the data are."""
        found = super().confidence_interval(confidence_level, simultaneous)
        return ConfidenceInterval(
            float(np.ravel(found.low)[0]),
            float(np.ravel(found.high)[0]),
            found.confidence_level,
            found.estimand,
        )

    def lower_bound(self, confidence_level: float = 0.95) -> float:
        """Return what the whole count, or sum of values that are not negative, is above, with this probability.

        Values of a sum are as they are rounded (see `estimand`). Of a sum over units, which leaves out what they add
        beyond a threshold, this is all that can be said of the whole.
        """
        level = check_level("confidence_level", confidence_level)
        if self.measure.kind == "mean" or self.measure.low < 0:
            raise DPStatsError("a lower bound is of a count, or of a sum of values that are not negative")
        if self.method == "race":
            if level > 0.95:
                raise DPStatsError("the race was run for a lower bound of level 0.95 at most")
            return self.value
        # One tail of the noise.
        return (
            max(0.0, self.value - self.off.half(1 - 2 * (1 - level)) * self.measure.spacing)
            if level > 0.5
            else 0.0
        )


def answered(query: Query, plan: SQLPlan, released: Any, guarantee: PrivacyGuarantee) -> PrivateTable:
    """Return the answer to a query from what was released."""
    measure, size = query.measure, query.cells
    thresholds: list[float] = []
    if plan.truncations:
        total = np.zeros(size * measure.parts)
        scales = []
        for truncation in plan.truncations:
            numbers, scale, power = truncation.report(released)
            sign = -1.0 if truncation.name == "negative" or _only_negative(measure) else 1.0
            total += sign * numbers
            scales.append(scale)
            if power is not None:
                thresholds.append(2.0**power * (1 if measure.kind == "mean" else measure.spacing))
        off = Off(tuple(scales))
    else:
        total = released[ANSWER]
        stage = plan.stages[-1]
        if isinstance(stage, Smooth):
            first = plan.stages[0]
            level = isinstance(first, Stage)
            off = Off(
                stage=stage,
                level=float(released[LEVEL][0]) if level else None,
                level_scale=first.scale_steps if isinstance(first, Stage) else 0.0,
            )
        else:
            assert isinstance(stage, Stage)
            off = Off((stage.scale_steps,))
    raw = np.reshape(total, (size, measure.parts))
    kind = PrivateTable if query.groups else PrivateAnswer
    return kind(
        tuple(group.name for group in query.groups),
        tuple(query.cell(i) for i in range(size)),
        _values(raw, measure),
        query.label,
        guarantee,
        plan.method,
        tuple(thresholds),
        query.text,
        measure,
        raw,
        off,
    )


def _only_negative(measure: Measure) -> bool:
    return measure.kind == "sum" and measure.high <= 0 and measure.low < 0


def _values(raw: Numbers, measure: Measure) -> Numbers:
    if measure.kind != "mean":
        return np.asarray(raw[:, 0] * measure.spacing)
    count = np.maximum(raw[:, 0] / measure.reach, 1.0)
    return np.asarray(
        measure.spacing * np.clip(measure.middle + raw[:, 1] / count, measure.low, measure.high)
    )
