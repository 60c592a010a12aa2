"""Answers of numbers: the plan of an answer, sums over units, and noisy numbers with the errors of their noise.

Proofs: docs/proofs/elastic-sensitivity.md, docs/proofs/truncated-sums.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_level
from dpstats.data.rows import LEFT_OUT, empty_groups_note
from dpstats.errors import DPStatsError, refuse
from dpstats.inference.error_distributions import BONFERRONI, ErrorDistribution, Limits, SelectedErrors, Tail
from dpstats.inference.estimates import Estimates, HasEstimates
from dpstats.inference.noisy_counts import CountNoise
from dpstats.inference.reports import Printed, free_names
from dpstats.inference.results import list_some
from dpstats.privacy.additive_stages import Spacing
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee, quotient_up
from dpstats.privacy.plan import Plan
from dpstats.privacy.stages import AnyStage, Block, Comparisons, Discovery, OneOf, Smooth, Stage, count_keys
from dpstats.release.additive import JointIntegers, discovery_stage
from dpstats.release.noise import check_scale
from dpstats.release.session import Session
from dpstats.sensitivity.smooth import LEVEL, half_width, noise_width
from dpstats.sql.query import Measure, Query, Several

# Sums over units, cut at a threshold


THRESHOLD_SHARE = 0.3
"""Part of epsilon that the threshold is chosen with."""
RACE_ERROR = 0.05
"""Probability that the largest of the race's candidates is above the sum."""


@dataclass(frozen=True)
class Threshold:
    """The private choice of a power of two that few units exceed.

    Attributes
    ----------
    name : str
    epsilon : float
    powers : (int, int)
        The first and the last threshold are two to these powers.
    neighbors : Neighbors
    """

    name: str
    epsilon: float
    powers: tuple[int, int]
    neighbors: Neighbors = Neighbors.REPLACE_ONE

    @property
    def each(self) -> range:
        """The powers of all thresholds."""
        return range(self.powers[0], self.powers[1] + 1)

    @property
    def stage(self) -> Comparisons:
        """The stage of the choice."""
        first = self.epsilon
        return Comparisons(
            self.name,
            1.0,
            1,
            -math.ceil(8 / first),
            check_scale(quotient_up(2, first)),
            check_scale(quotient_up(4, first)),
            1,
            neighbors=self.neighbors,
        )

    def choose(self, session: Session, above: list[int]) -> int:
        """Return the place of a threshold: ``above`` has how many units exceed each of them."""
        stream = session.stream(self.name)
        # If no threshold passes, use the last one.
        return next((i for i, n in enumerate(above[:-1]) if stream.ask(-n) is not None), len(above) - 1)


@dataclass(frozen=True)
class Truncation:
    """How one sum over units is released.

    Attributes
    ----------
    name : str
    method : {"threshold", "race"}
    epsilon : float
    powers : (int, int)
        The first and the last threshold are two to these powers.
    moved : int
        How far (l1) all numbers together move at most, where every unit adds at most 1, in multiples of the threshold.
    size : int
        Number of released numbers.
    finer : int
        Parts of one that numbers which are cut in proportion are rounded to.
    neighbors : Neighbors
    """

    name: str
    method: str
    epsilon: float
    powers: tuple[int, int]
    moved: int = 1
    size: int = 1
    finer: int = 1
    neighbors: Neighbors = Neighbors.REPLACE_ONE

    @property
    def threshold(self) -> Threshold:
        """The choice of the threshold."""
        first = THRESHOLD_SHARE * self.epsilon
        return Threshold(f"threshold of {self.name}", first, self.powers, self.neighbors)

    @property
    def each(self) -> range:
        """The powers of all thresholds."""
        return self.threshold.each

    def stages(self) -> tuple[AnyStage, ...]:
        """Return the stages: a stream of comparisons and one of several sums; or of a race all sums."""
        if self.method == "race":
            each = self.epsilon / len(self.each) * (1 - 2.0**-50)
            return tuple(self._sum(j, each, f"{self.name} cut at 2^{j}") for j in self.each)
        rest = (self.epsilon - self.threshold.epsilon) * (1 - 2.0**-50)
        return (self.threshold.stage, OneOf(self.name, tuple(self._sum(j, rest, self.name) for j in self.each)))

    def _sum(self, j: int, epsilon: float, name: str) -> Stage:
        steps = self.moved * self.finer << j
        scale = check_scale(quotient_up(steps, epsilon))
        return Stage(name, "laplace", self.size, 1 / self.finer, steps, scale, neighbors=self.neighbors)

    def release(self, session: Session, above: list[int], sums: NDArray[Any]) -> None:
        """Release: ``above`` has how many units add more than each threshold, ``sums`` what they add cut there."""
        if self.method == "race":
            for j, cut in zip(self.each, sums, strict=True):
                session.add(f"{self.name} cut at 2^{j}", cut)
            return
        place = self.threshold.choose(session, above)
        session.add_one(self.name, sums[place], place)

    def report(self, released: Any) -> tuple[NDArray[np.float64], float, int | None]:
        """Return the numbers, the scale of their noise, and the power of the threshold; of a race the winner."""
        if self.method == "threshold":
            place, numbers = released[self.name]
            _, sums = self.stages()
            assert isinstance(sums, OneOf)
            return numbers, sums.options[place].scale_steps / self.finer, self.each[place]
        best, scale, count = 0.0, 0.0, len(self.each)
        for j in self.each:
            noise = count * 2.0**j / self.epsilon
            value = float(released[f"{self.name} cut at 2^{j}"][0]) - noise * math.log(count / RACE_ERROR)
            if value > best:
                best, scale = value, noise
        return np.array([best]), scale, None


ANSWER = "answer"
ROWS, SHARES = "rows", "shares"
"""The blocks of keys that are not declared."""
_LARGEST_ANSWER = 2**60


@dataclass(frozen=True)
class SQLPlan(Plan):
    """The plan of the answer to a query.

    Attributes
    ----------
    query : Query
    finer : int
        Parts of a step of the answer that noise is drawn in.
    largest : int
        Public limit of numbers in steps. Larger numbers are clipped to it. It also bounds all sensitivities.
    truncations : tuple of Truncation
        Truncations of sums over units, one for each sign.
    """

    query: Query
    finer: int = 1
    largest: int = _LARGEST_ANSWER
    truncations: tuple[Truncation, ...] = ()

    @property
    def method(self) -> str:
        """How the noise is scaled: by a public bound, by the smooth sensitivity, or by a threshold of units.

        "discovery" has the public bound, and a threshold of keys.
        """
        if not self.stages:
            return "exact"
        if self.truncations:
            return self.truncations[0].method
        if self.query.discovers:
            return "discovery"
        return "smooth" if isinstance(self.stages[-1], Smooth) else "public"

    @property
    def _listed(self) -> tuple[AnyStage, ...]:
        """The stages with noise in rows, or in the units of a sum: answers are released in steps of them."""
        measure = self.query.measure
        unit = measure.step_rows if isinstance(measure, Several) else measure.spacing
        return self.stages if unit == 1 else tuple(_convert_stage(stage, unit) for stage in self.stages)

    def notes(self) -> list[str]:
        rows = isinstance(self.query.measure, Several) and self.method != "smooth"
        return ["scales of the noise are in rows"] if rows else []

    @property
    def discovery(self) -> Discovery:
        """The stage of keys that are not declared."""
        (stage,) = (stage for stage in self.stages if isinstance(stage, Discovery))
        return stage

    @property
    def smooth(self) -> Smooth:
        """The stage of an answer with noise of a private scale."""
        stage = self.stages[-1]
        assert isinstance(stage, Smooth)
        return stage


def _convert_stage(stage: AnyStage, unit: Spacing) -> AnyStage:
    """Return a stage of an answer with a step of this length, to be listed. Others are unchanged."""
    if isinstance(stage, Stage):
        return stage if stage.name == LEVEL else _convert_steps(stage, unit)
    if isinstance(stage, OneOf):
        return replace(stage, options=tuple(_convert_steps(option, unit) for option in stage.options))
    if isinstance(stage, Discovery):
        counts, *others = stage.blocks
        blocks = (counts, *(replace(block, spacing=unit) for block in others))
        return replace(stage, touched=replace(stage.touched, blocks=blocks))
    return stage


def _convert_steps(stage: Stage, unit: Spacing) -> Stage:
    assert isinstance(stage.spacing, float)
    return replace(stage, spacing=unit if isinstance(unit, tuple) else stage.spacing * unit)


DISCOVERY_BITS = 28
"""Rows have two to this power of steps where keys are not declared: 64-bit integers hold 2^34 rows of a key."""
_ROUNDING_MARGIN = 1 + 1e-12


def plan_shares(several: Several, guarantee: PrivacyGuarantee) -> Discovery:
    """Return the stage of numbers of keys that are not declared, under Gaussian noise."""
    row, keys = several.row_steps, count_keys(guarantee.neighbors)
    blocks = [Block(ROWS, keys, 1 / row, 1.0)]
    if several.parts:
        blocks.append(Block(SHARES, keys * several.parts, 1.0, 1.0))
    # A replaced row leaves one key and enters another, with its shares.
    far = math.sqrt(keys * row**2 + several.moved_squared(keys == 1)) * _ROUNDING_MARGIN
    touched = JointIntegers(ANSWER, tuple(blocks), math.inf, far)
    return discovery_stage(touched, row, guarantee.epsilon, guarantee.delta, guarantee.neighbors)


# Errors of answers

Numbers = NDArray[np.float64]
_LEAST_MISSED = 1e-15
"""Smallest error probability. Below it, the confidence level rounds to 1, and the interval is infinite."""


def smooth_noise(stage: Smooth) -> str:
    """Return a description of noise with a private scale."""
    law = "Laplace" if stage.noise == "laplace" else "Student's law, 3 degrees of freedom"
    return f"{law}, of a private scale (smooth sensitivity)"


@dataclass(frozen=True)
class Off:
    """Errors of the numbers of an answer, in steps.

    Attributes
    ----------
    scales : tuple of float
        Scales of the added Laplace noise. Empty if the scale is private.
    stage : Smooth, optional
        The stage of noise with a private scale. Its level was released as ``level``, with noise of ``level_scale``.
    law : {"laplace", "gaussian"}
        Distribution of noise with a known scale.
    """

    scales: tuple[float, ...] = ()
    stage: Smooth | None = None
    level: float | None = None
    level_scale: float = 0.0
    law: str = "laplace"

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return self.stage is None or self.level is not None

    def describe(self, measure: Measure) -> str:
        """Return a description of the noise."""
        if self.scales == (0.0,):
            return "none, as all tables are public"
        if self.stage is None:
            return "Laplace of scale " + " and ".join(f"{scale * measure.spacing:.4g}" for scale in self.scales)
        return smooth_noise(self.stage)

    def half(self, missed: float) -> float:
        """Return a width that the error of a number exceeds with at most this probability."""
        if self.stage is None:
            tail = missed / len(self.scales)
            return sum(noise_width("laplace", scale, tail) for scale in self.scales if scale)
        if self.level is None:
            raise DPStatsError(
                "the answer has no interval, because interval=False does not release the scale of the noise. "
                "Set interval=True"
            )
        if missed < _LEAST_MISSED:
            return math.inf
        return half_width(self.stage, self.level, self.level_scale, 1 - missed) * self.stage.spacing

    @property
    def std(self) -> float:
        """Standard deviation of the noise. NaN if its scale is private."""
        if self.stage is not None:
            return math.nan
        return math.sqrt(sum(CountNoise("laplace", scale).variance for scale in self.scales if scale))


@dataclass(frozen=True, eq=False)
class AnswerErrors(ErrorDistribution):
    """Errors of answers, from the noise only.

    Attributes
    ----------
    values : array of shape (n_cells,), or a number
        Answers in the units of the data.
    measure : Measure
    off : Off
    race : bool
        Whether only a lower bound was released.
    """

    values: Numbers
    measure: Measure
    off: Off
    race: bool

    @property
    def start(self) -> Numbers:
        return self.values

    @property
    def known(self) -> bool:
        return self.off.known and not self.race

    def confirm_level(self, confidence_level: float | None) -> float:
        if self.race:
            raise DPStatsError("a race has no interval: what it releases is below the sum (see lower_bound)")
        level = super().confirm_level(confidence_level)
        self.off.half(1 - level)
        return level

    def limits(self, tail: Tail) -> Limits:
        # Each limit of an interval has half of the error probability, and the noise is symmetric.
        widths = [self.off.half(2 * float(each)) for each in np.ravel(tail)]
        width = np.reshape(widths, np.shape(tail)) * self.measure.spacing
        return self.values - width, self.values + width


# Answers

SELECTED = (
    "The rows were selected by their noisy values. The intervals account for this: on average, at least the stated "
    "fraction of the intervals shown is right (false coverage rate)."
)
HALF_ROW = 0.5
"""Fewer rows than this are none, however little noise there is."""


def exclude_unitless(unit: str) -> str:
    """Return the end of an estimand where units are protected."""
    return f"; rows without a {unit} do not count"


def show_cell(cell: tuple[Any, ...]) -> str:
    """Return the values of a cell as text, with quotes for an empty text."""
    return ", ".join("''" if value == "" else str(value) for value in cell)


@dataclass(frozen=True, eq=False, repr=False)
class CellAnswers(HasEstimates, Printed):
    """Base of several answers for the cells of a GROUP BY: a column of numbers for each label."""

    names: tuple[str, ...]
    cells: tuple[tuple[Any, ...], ...]
    labels: tuple[str, ...]
    values: Numbers

    def __getitem__(self, label: str) -> Numbers:
        """Return the numbers of a label, one for each cell."""
        if label not in self.labels:
            raise refuse("label", given=label, allowed=f"one of {', '.join(self.labels)}")
        return np.asarray(self.values[:, self.labels.index(label)])

    def _name_rows(self, what: str) -> dict[str, Any]:
        """Return the names of estimates, label by label, as `Estimates` has them; ``what`` is what a label names."""
        places = [(label, cell) for label in self.labels for cell in self.cells]
        names = free_names(self.names, [what])
        columns = {name: [cell[j] for _, cell in places] for j, name in enumerate(names)}
        return {
            "names": tuple(f"{label}: {show_cell(cell)}" if cell else label for label, cell in places),
            "rows": f"{what}: {', '.join(self.names)}" if self.names else what,
            "labels": {what: [label for label, _ in places], **columns},
        }

    def _note_noise_only(self, hidden: NDArray[np.bool_]) -> list[str]:
        """Return a note on the numbers of shape (n_cells, n_labels) whose rows are hidden by the noise."""
        names = self._name_rows("")["names"]
        hidden = np.broadcast_to(hidden, self.values.shape).T.ravel()
        if not hidden.any():
            return []
        listed = list_some([name for name, one in zip(names, hidden, strict=True) if one])
        advice = " Check the spelling of the declared values." * bool(self.names)
        return [f"Noise only: {listed}. The number of rows with a value cannot be distinguished from 0.{advice}"]

    def records(self, confidence_level: float | None = None) -> list[dict[str, Any]]:
        """Return a mapping for each cell: its values, the answers, and their intervals (label_low, label_high)."""
        found = self.estimates()
        numbers = {label: self.values[:, j] for j, label in enumerate(self.labels)}
        if found.distribution.known:
            interval = found.confidence_interval(confidence_level)
            ends = np.reshape([interval.low, interval.high], (2, len(self.labels), -1))
            keys = free_names([f"{label}_{end}" for label in self.labels for end in ("low", "high")], numbers)
            numbers |= dict(zip(keys, ends.swapaxes(0, 1).reshape(len(keys), -1), strict=True))
        names = free_names(self.names, numbers)
        return [
            {**dict(zip(names, cell, strict=True)), **{key: float(column[i]) for key, column in numbers.items()}}
            for i, cell in enumerate(self.cells)
        ]


@dataclass(frozen=True, eq=False, repr=False)
class PrivateTable(HasEstimates, Printed):
    """Answers for the cells of a GROUP BY, each with noise.

    Attributes
    ----------
    names : tuple of str
        Names of the GROUP BY columns.
    cells : tuple of tuple
        Declared values of these columns in each cell.
    values : ndarray of shape (n_cells,)
        Noisy answers in the units of the data. Counts may be negative.
    label : str
        Label of the values.
    guarantee : PrivacyGuarantee
        Guarantee of the answer.
    method : {"public", "smooth", "threshold", "race"}
        Basis for the scale of the noise: a public bound, the smooth sensitivity, or a threshold for every unit.
    thresholds : tuple of float
        Largest contributions of a unit, in the units of the data, for positive and for negative values. They are
        chosen privately.
    text : str
        The query.

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
    off: Off = field(repr=False)
    selected: float = field(default=1.0, repr=False)

    def show(self, places: list[int], selected: float) -> Self:
        """Return the answers of some cells, in this order, with the proportion of cells that values selected."""
        cells = tuple(self.cells[place] for place in places)
        return replace(self, cells=cells, values=self.values[places], selected=selected)

    @property
    def estimand(self) -> str:
        """Estimand of the intervals, as text."""
        what = {"count": "count", "distinct": "number of different values", "sum": "sum"}[self.measure.kind]
        bounded = " of values within the bounds" if self.measure.kind == "sum" else ""
        if self.measure.kind == "sum" and self.measure.rounded:
            bounded += f", each rounded to a multiple of {self.measure.spacing:.3g},"
        if not self.thresholds:
            return f"the {what}{bounded} in these data"
        unit = self.guarantee.unit
        most = " and ".join(f"{threshold:.10g}" for threshold in self.thresholds)
        return f"the {what}{bounded} in these data, of a {unit} at most {most}{exclude_unitless(unit)}"

    def estimates(self) -> Estimates:
        """Return the values with the distribution of their errors. It includes the noise only, for any data."""
        values = self.values if self.names else np.asarray(self.values[0])
        errors: ErrorDistribution
        errors = AnswerErrors(values, self.measure, self.off, self.method == "race")
        if self.selected < 1:
            errors = SelectedErrors(errors, self.selected)
        std = self.off.std * self.measure.spacing if errors.known else math.nan
        return Estimates(
            values[()],
            np.full(values.shape, std),
            tuple(show_cell(cell) if cell else "answer" for cell in self.cells),
            self.estimand,
            errors,
            title="Private answer",
            header=self.label,
            rows=", ".join(self.names),
            facts=[
                ("Query", " ".join(self.text.split())),
                *self.guarantee.facts(),
                ("Noise", self.off.describe(self.measure)),
            ],
            notes=self._notes(errors.known),
            together=BONFERRONI,
            labels={name: [cell[j] for cell in self.cells] for j, name in enumerate(free_names(self.names, ()))},
            simulated=self.guarantee.simulated,
        )

    def _notes(self, known: bool) -> list[str]:
        notes = []
        if self.names and self.method not in ("exact", "discovery"):
            if known and self.measure.kind == "count":
                hidden = self.values < max(2 * self.off.std * self.measure.spacing, HALF_ROW)
                cells = zip(self.cells, hidden.tolist(), strict=True)
                notes += empty_groups_note([show_cell(cell) for cell, is_hidden in cells if is_hidden])
            notes.append(LEFT_OUT)
        if known:
            notes.append(
                "The interval reflects privacy noise only. It covers the answer for these data, not for a population."
            )
        if self.selected < 1:
            notes.append(SELECTED)
        if self.method == "smooth" and not known:
            notes.append("The noise scale is private, so the printed digits do not show the precision.")
        if self.thresholds:
            notes.append(
                f"The contribution of one {self.guarantee.unit} is limited to the threshold. The total without this "
                "limit has only a lower bound."
            )
        return notes

    def records(self, confidence_level: float = 0.95) -> list[dict[str, Any]]:
        """Return the rows as mappings with the cell, the value, and the interval if there is one."""
        ends = free_names(["low", "high"], [self.label])
        names = free_names(self.names, [self.label, *ends])
        found = [
            {**dict(zip(names, cell, strict=True)), self.label: float(value)}
            for cell, value in zip(self.cells, self.values, strict=True)
        ]
        if self.method != "race" and self.off.known:
            interval = self.confidence_interval(confidence_level)
            for i, record in enumerate(found):
                record |= {end: float(np.atleast_1d(limit)[i]) for end, limit in zip(ends, interval, strict=True)}
        return found


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
        """The noisy answer."""
        return float(self.values[0])

    def lower_bound(self, confidence_level: float = 0.95) -> float:
        """Return a lower confidence bound for the full count, or for a sum of values that are not negative.

        The sum uses rounded values (see `estimand`). A sum over units omits contributions beyond a threshold. For such
        a sum, only this lower bound holds for the full sum.
        """
        level = check_level("confidence_level", confidence_level)
        if self.measure.low < 0:
            raise DPStatsError("lower_bound() needs a COUNT, or a SUM with a lower bound of at least 0")
        if self.method == "race":
            if level > 0.95:
                raise DPStatsError("confidence_level must be at most 0.95 with truncation='race'")
            return self.value
        # One tail of the noise.
        return max(0.0, self.value - self.off.half(2 * (1 - level)) * self.measure.spacing) if level > 0.5 else 0.0


def answered(query: Query, plan: SQLPlan, released: Any, guarantee: PrivacyGuarantee) -> PrivateTable:
    """Return the answer to a query from its release."""
    measure, size = query.measure, query.cells
    assert isinstance(measure, Measure)
    raw, off, thresholds = read_numbers(query, plan, released)
    kind = PrivateTable if query.groups else PrivateAnswer
    return kind(
        tuple(group.name for group in query.groups),
        tuple(query.cell(i) for i in range(size)),
        raw[:, 0] * measure.spacing,
        query.label,
        guarantee,
        plan.method,
        thresholds,
        query.text,
        measure,
        off,
    )


def read_numbers(query: Query, plan: SQLPlan, released: Any) -> tuple[Numbers, Off, tuple[float, ...]]:
    """Return the numbers of all cells in steps, their noise, and the thresholds of units."""
    measure, size = query.measure, query.cells
    thresholds: list[float] = []
    if plan.truncations:
        total = np.zeros(size * measure.parts)
        scales = []
        for truncation in plan.truncations:
            numbers, scale, power = truncation.report(released)
            negative = truncation.name == "negative"
            if isinstance(measure, Measure) and measure.kind == "sum" and measure.high <= 0 and measure.low < 0:
                negative = True
            sign = -1.0 if negative else 1.0
            total += sign * numbers
            scales.append(scale)
            if power is not None:
                step = measure.spacing if isinstance(measure, Measure) else 1.0
                thresholds.append(2.0**power * step)
        off = Off(tuple(scales))
    else:
        total = released[ANSWER]
        if plan.method == "exact":
            return np.reshape(total, (size, measure.parts)), Off((0.0,)), ()
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
            off = Off((stage.scale_steps,), law=stage.noise)
    return np.reshape(total, (size, measure.parts)), off, tuple(thresholds)
