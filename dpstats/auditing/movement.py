"""Exact change of each stage under a neighboring dataset, before noise, and the stated sensitivity."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data.columns import in_order
from dpstats.inference.reports import Printed, Records
from dpstats.inference.results import Summary
from dpstats.privacy.plan import Plan
from dpstats.privacy.stages import (
    Choice,
    Coins,
    Comparisons,
    Discovery,
    JointStage,
    KeyCounts,
    OneOf,
    Responses,
    Selection,
    Shuffle,
    Smooth,
    Stage,
)
from dpstats.release.groups import Cells, Nested, Runs, Windows
from dpstats.release.witness import Declared, Seen

Steps = NDArray[Any] | Mapping[str, NDArray[Any]]
"""Exact integers of a stage, or of the blocks of a joint one by their names."""

Ends = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Lower and upper limits of windows, of shape (numbers of a tuple, windows)."""

MOST_CANDIDATES = 100_000
"""Largest number of tuples of a choice to compare. If more could differ, this many are chosen at random."""
_LARGEST_REACH = 1 << 22
_ROUNDING = 1e-9
"""Relative amount by which the change of a floating-point statistic may exceed its declaration."""


@dataclass(frozen=True, slots=True)
class Movement:
    """Change of one stage under a neighboring dataset, before noise.

    Attributes
    ----------
    stage : str
        Its name.
    norm : str
        Description of the changed quantity and its norm.
    moved, declared : float
        Change and declared sensitivity, in the units of the release. If its numbers have different units, in
        the units of ``norm``.
    ok : bool
        Whether the change is at most the declared sensitivity, compared exactly rather than by these floats.
    problem : str
        Description of any other problem.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.auditing import check_sensitivity
    >>> from dpstats.means import ClippedMean
    >>> X = np.zeros((10, 1))
    >>> neighbor = np.vstack([X[1:], [[5.0]]])
    >>> (movement,) = check_sensitivity(ClippedMean(clip=1.0, std=1.0), X, neighbor).movements
    >>> movement.stage, movement.ratio, movement.ok
    ('clipped mean', 0.5, True)
    """

    stage: str
    norm: str
    moved: float
    declared: float
    ok: bool
    problem: str = ""

    @property
    def ratio(self) -> float:
        """The ratio of the change to the declared sensitivity; NaN for any other problem."""
        if math.isnan(self.declared) or self.declared > 0:
            return self.moved / self.declared
        return math.inf if self.moved > 0 else 0.0


class Vector(NamedTuple):
    """A vector that gets noise, with its unit and the scale of its noise, both in steps."""

    name: str
    size: int
    unit: float
    scale: float


# Additive stages.


def noisy(plan: Plan) -> tuple[Stage | JointStage, ...]:
    """Return the stages of a plan that add noise to integers."""
    return tuple(stage for stage in plan.stages if isinstance(stage, Stage | JointStage))


def vectors(stage: Stage | JointStage) -> list[Vector]:
    """Return the vectors to which a stage adds noise."""
    if isinstance(stage, JointStage):
        return [Vector(b.name, b.size, b.unit_steps, stage.scale_steps(b)) for b in stage.blocks]
    return [Vector(stage.name, stage.size, 1.0, stage.scale_steps)]


def measure_change(stage: Stage | JointStage | Selection, first: Steps, second: Steps) -> Fraction:
    """Return the l1 distance, or the square of the l2 distance, of all integers of a stage together: exact.

    For joint noise it is the range of 0 and each integer's move. For a selection it is half the range of the
    scores' moves, or the whole range if all move in the same direction.
    """
    if isinstance(stage, Selection):
        # A common shift of all scores does not change the selection. Their range counts.
        scores = (np.ravel(np.asarray(one)) for one in (first, second))
        moved = [int(x) - int(y) for x, y in zip(*scores, strict=True)]
        return Fraction(max(moved) - min(moved), 1 if stage.monotone else 2)
    if stage.noise == "joint":
        moves = [int(x) - int(y) for x, y in zip(first, second, strict=True)]
        return Fraction(max(0, *moves) - min(0, *moves))
    power = 1 if stage.noise == "laplace" else 2
    if isinstance(stage, Stage):
        a, b = (steps[stage.name] if isinstance(steps, Mapping) else steps for steps in (first, second))
        return Fraction(_raised_distance(a, b, power))
    total = Fraction(0)
    for block in stage.blocks:
        distance = _raised_distance(first[block.name], second[block.name], power)
        if distance:
            total += distance * _step_weight(block.unit_steps, power)
    return total


def _raised_distance(first: Any, second: Any, power: int) -> int:
    """Return the exact sum of the differences of two integer vectors, each raised to ``power``."""
    return sum(abs(int(x) - int(y)) ** power for x, y in zip(first, second, strict=True) if x != y)


@lru_cache(maxsize=256)
def _step_weight(unit: float, power: int) -> Fraction:
    """Return the weight of one step, given the number of steps in a unit."""
    return 1 / Fraction(unit) ** power


def stated_sensitivity(stage: Stage | JointStage | Selection) -> Fraction:
    """Return the stated upper bound on this distance."""
    largest = Fraction(stage.sensitivity if isinstance(stage, JointStage) else stage.sensitivity_steps)
    return largest**2 if stage.noise == "gaussian" else largest


def in_steps(stage: Stage | JointStage, distance: Fraction) -> float:
    """Return such a distance as a number of steps (for a joint stage: units)."""
    return float(distance) ** 0.5 if stage.noise == "gaussian" else float(distance)


# Every kind of stage.


def movement(first: Seen, second: Seen) -> Movement | None:
    """Return the change of a stage under a neighbor, or None if the stage does not use the data."""
    stage, given = first.stage, (first.given, second.given)
    left_out = [isinstance(what, str) for what in given]
    if isinstance(stage, Coins | Shuffle) or all(left_out):
        return None
    if any(left_out):
        return _wrong(stage.name, "whether it is released", "is left out for one neighbor and not for the other")
    if stage != second.stage:
        return _wrong(
            stage.name, "its declaration", "declares, or draws, other numbers for the neighbor: they are from the data"
        )
    return _KINDS[type(stage)](stage, *given)


def _additive(stage: Stage | JointStage, first: Any, second: Any) -> Movement:
    (a, where), (b, other) = first, second
    words = {"laplace": "l1", "gaussian": "l2", "joint": "range, with 0"}[stage.noise]
    if not np.array_equal(where, other):
        return _wrong(stage.name, words, "is released for one neighbor and not for the other")
    if isinstance(stage, Stage) and stage.times > 1:
        # These are equal releases, each with this sensitivity.
        parts = [np.array_split(np.asarray(steps), stage.times) for steps in (a, b)]
        pairs: Sequence[tuple[Steps, Steps]] = list(zip(*parts, strict=True))
    else:
        pairs = [(a, b)]
    joint = isinstance(stage, JointStage)
    if not all(_alike(*pair) for pair in pairs):
        return _wrong(stage.name, words, "has other numbers for the neighbor: their count depends on the data")
    distance, most = max(measure_change(stage, *pair) for pair in pairs), stated_sensitivity(stage)
    # Use the units of the release, if its numbers have one unit.
    step = 1.0 if isinstance(stage, JointStage) or isinstance(stage.spacing, tuple) else stage.spacing
    words += " of all blocks, in their units" if joint else ", steps" if step == 1.0 else ""
    found, declared = (step * in_steps(stage, length) for length in (distance, most))
    return Movement(stage.name, words, found, declared, distance <= most)


def _alike(first: Steps, second: Steps) -> bool:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(_alike(first[name], second[name]) for name in first)
    shapes = [np.asarray(steps).shape for steps in (first, second)]
    return shapes[0] == shapes[1]


def _discovery(stage: Discovery, first: Any, second: Any) -> Movement:
    norm = "l1" if stage.noise == "laplace" else "l2"
    words = f"{norm} of all blocks of the keys that a row touches, in their units"
    if any(list(labels) != in_order(labels) for labels, _ in (first, second)):
        return _wrong(stage.name, words, "has its keys in an order that shows more than the keys")
    keys = [
        {label: {name: steps[k] for name, steps in sums.items()} for k, label in enumerate(labels)}
        for labels, sums in (first, second)
    ]
    absent = {block.name: np.zeros(stage.width(block), dtype=np.int64) for block in stage.blocks}
    pairs = [(keys[0].get(label, absent), keys[1].get(label, absent)) for label in {**keys[0], **keys[1]}]
    touched = [(a, b) for a, b in pairs if any(not np.array_equal(a[name], b[name]) for name in absent)]
    if len(touched) > stage.keys:
        return _wrong(stage.name, words, f"moves {len(touched)} keys, where a row has one")
    counts = [abs(int(a[stage.counts.name][0]) - int(b[stage.counts.name][0])) for a, b in touched]
    if max(counts, default=0) > stage.row_steps:
        return _wrong(stage.name, words, "moves a count by more than a row, for which the threshold is made")
    touched += [(absent, absent)] * (stage.keys - len(touched))
    both = [{name: np.concatenate([pair[side][name] for pair in touched]) for name in absent} for side in (0, 1)]
    distance, most = measure_change(stage.touched, *both), stated_sensitivity(stage.touched)
    found, declared = (in_steps(stage.touched, length) for length in (distance, most))
    return Movement(stage.name, words, found, declared, distance <= most)


def _selection(stage: Selection, first: Any, second: Any) -> Movement:
    words = "scores up to a common shift, steps"
    if first.shape != second.shape:
        return _wrong(stage.name, words, "has other candidates for the neighbor")
    moved, most = measure_change(stage, first, second), stated_sensitivity(stage)
    return Movement(stage.name, words, float(moved), float(most), moved <= most)


def _choice(stage: Choice, first: Any, second: Any) -> Movement:
    words, total, complete = "range of utilities, steps", Fraction(0), True
    for one, other in zip(first, second, strict=True):
        groups = [part.cases[0 if part.case is None else int(part.case[0])] for part in (one, other)]
        found, all_of_them = _utility_range(*groups)
        if found is None:
            return _wrong(stage.name, words, "is among other candidates for the neighbor")
        total, complete = total + found, complete and all_of_them
    words = words if complete else f"{words}, at {MOST_CANDIDATES:,} candidates"
    return Movement(stage.name, words, float(total), float(stage.range_steps), total <= stage.range_steps)


def _utility_range(first: Any, second: Any) -> tuple[Fraction | None, bool]:
    """Return the range over candidates of the change in utility, and whether all were compared.

    The range is None if the two datasets have different candidates.
    """
    if isinstance(first, Cells):
        points = np.unique(np.concatenate([first.low, first.high, second.low, second.high]))
        pairs = list(zip(*(_cell_utilities(cells, points) for cells in (first, second)), strict=True))
        if any((a is None) != (b is None) for a, b in pairs):
            return None, True
        moves: list[Fraction] = [b - a for a, b in pairs if a is not None and b is not None]
        return max(moves) - min(moves), True
    if isinstance(first, Runs):
        return _range_of_runs(first, second), True
    nested = isinstance(first, Nested)
    return _range_of_windows(_window_limits(first), _window_limits(second), first.unit, nested)


def _range_of_windows(first: Ends, second: Ends, unit: int, nested: bool) -> tuple[Fraction | None, bool]:
    # The widest windows hold all candidates.
    widest = [(lower.min(axis=1), upper.max(axis=1)) for lower, upper in (first, second)]
    low, high = widest[0]
    if not np.array_equal(widest, [(low, high)] * 2):
        return None, True
    places = []
    for j in range(low.size):
        found = [side[j] + shift for ends in (first, second) for side in ends for shift in (-1, 0, 1)]
        some = np.unique(np.concatenate(found))
        places.append(some[(some >= low[j]) & (some <= high[j])])
    count = math.prod(found.size for found in places)
    if count <= MOST_CANDIDATES:
        tuples = np.array(list(itertools.product(*(found.tolist() for found in places))), dtype=np.int64).T
    else:
        rng = np.random.default_rng(0)
        tuples = np.stack([rng.choice(found, MOST_CANDIDATES) for found in places])
    change = _utility(second, tuples, nested) - _utility(first, tuples, nested)
    return Fraction(int(change.max() - change.min()), unit), count <= MOST_CANDIDATES


def _range_of_runs(first: Runs, second: Runs) -> Fraction | None:
    moves = []
    for line in np.union1d(first.line, second.line).tolist():
        own = [runs.line == line for runs in (first, second)]
        if not all(here.any() for here in own):
            return None
        ends = {(int(r.low[here].min()), int(r.high[here].max())) for r, here in zip((first, second), own, strict=True)}
        if len(ends) > 1:
            return None
        both = [(runs.low[here], runs.utility[here]) for runs, here in zip((first, second), own, strict=True)]
        starts = np.union1d(both[0][0], both[1][0])
        before, after = (utility[np.searchsorted(low, starts, side="right") - 1] for low, utility in both)
        moves.append(after - before)
    change = np.concatenate(moves)
    return Fraction(int(change.max() - change.min()), first.unit)


def _cell_utilities(cells: Cells, points: NDArray[np.int64]) -> list[Fraction | None]:
    """Return minus the distance of every point, in units of the cells, or None outside of all cells."""
    found: list[Fraction | None] = [None] * points.size
    for place, (low, high) in enumerate(zip(cells.low.tolist(), cells.high.tolist(), strict=True)):
        away = place - cells.best
        distance = 0
        if away < 0:
            distance = cells.left + (-away - 1) * cells.step
        elif away > 0:
            distance = cells.right + (away - 1) * cells.step
        for i in np.flatnonzero((points >= low) & (points <= high)).tolist():
            found[i] = Fraction(-distance, cells.unit)
    return found


def _window_limits(windows: Windows | Nested) -> Ends:
    """Return the limits of all windows up to the widest."""

    def ends(steps: NDArray[np.int64]) -> Ends:
        return windows.ends(steps) if isinstance(windows, Nested) else windows.ends(steps, steps)

    # Tied rows have windows that stand still before they are the widest.
    widest, reach = ends(np.array([_LARGEST_REACH])), 8
    while True:
        found = ends(np.arange(reach))
        if reach >= _LARGEST_REACH or np.array_equal([side[:, -1:] for side in found], widest):
            return found
        reach *= 2


def _utility(ends: Ends, tuples: NDArray[np.int64], nested: bool) -> NDArray[np.int64]:
    """Return minus the windows on either side that a tuple needs, together; minus the larger one of nested windows."""
    lower, upper = ends
    left = [np.searchsorted(-low, -t, side="left") for low, t in zip(lower, tuples, strict=True)]
    right = [np.searchsorted(high, t, side="left") for high, t in zip(upper, tuples, strict=True)]
    sides = np.max(left, axis=0), np.max(right, axis=0)
    return np.asarray(-(np.maximum(*sides) if nested else np.add(*sides)), dtype=np.int64)


def _smooth(stage: Smooth, first: Any, second: Any) -> Movement:
    (a, level), (b, other) = first, second
    words = "l1 at a private level of noise, steps"
    if abs(int(level) - int(other)) > 1:
        return _wrong(stage.name, words, "has levels of noise that are not next to each other")
    distance = sum(abs(int(x) - int(y)) for x, y in zip(np.ravel(a), np.ravel(b), strict=True))
    most = int(stage.limits[min(level, other)])
    return Movement(stage.name, words, float(distance), float(most), distance <= most)


def _measure_option(stage: OneOf, first: Any, second: Any) -> Movement:
    (a, option), (b, other) = first, second
    words = "l1, steps"
    if option != other:
        return _wrong(stage.name, words, "chooses its scale by the data, and not by earlier releases")
    chosen = stage.options[option]
    distance, most = measure_change(chosen, np.ravel(a), np.ravel(b)), stated_sensitivity(chosen)
    return Movement(stage.name, words, float(distance), float(most), distance <= most)


def _responses(stage: Responses, first: Any, second: Any) -> Movement:
    words = "rows that answer another thing"
    if first.shape != second.shape:
        return _wrong(stage.name, words, "has another number of rows for the neighbor")
    count = int(np.count_nonzero(first != second))
    return Movement(stage.name, words, float(count), 1.0, count <= 1)


def _question(stage: Comparisons, first: Any, second: Any) -> Movement:
    # The compared value, and the value that is released if it is above.
    most = max(abs(int(a) - int(b)) for a, b in zip(first, second, strict=True) if a is not None and b is not None)
    least = stage.sensitivity_steps
    return Movement(stage.name, "value of a question, steps", float(most), float(least), most <= least)


def _measure_declared(stage: Declared, first: Any, second: Any) -> Movement:
    words = f"{stage.norm} of scores up to a common shift" if stage.selection else stage.norm
    if first.shape != second.shape:
        return _wrong(stage.name, words, "has other numbers for the neighbor: their count depends on the data")
    if object in (first.dtype, second.dtype):  # integers that a float cannot hold
        pairs = zip(first.ravel().tolist(), second.ravel().tolist(), strict=True)
        move = [Fraction(a) - Fraction(b) for a, b in pairs]
    else:
        move = list((first - second).ravel().tolist())
    if stage.selection:
        distance = float(max(move) - min(move)) / (1 if stage.monotone else 2)
    else:
        sizes = [abs(float(item)) for item in move]
        distance = max(sizes, default=0.0)
        if stage.norm != "linf" and 0 < distance < math.inf:
            # Math's own lengths neither overflow nor underflow.
            distance = math.fsum(sizes) if stage.norm == "l1" else math.hypot(*sizes)
    return Movement(stage.name, words, distance, stage.sensitivity, distance <= stage.sensitivity * (1 + _ROUNDING))


def _wrong(name: str, words: str, problem: str) -> Movement:
    return Movement(name, words, math.nan, math.nan, False, problem)


_KINDS: Mapping[type, Callable[[Any, Any, Any], Movement]] = {
    Stage: _additive,
    JointStage: _additive,
    Discovery: _discovery,
    KeyCounts: _discovery,
    Selection: _selection,
    Choice: _choice,
    Smooth: _smooth,
    OneOf: _measure_option,
    Responses: _responses,
    Comparisons: _question,
    Declared: _measure_declared,
}


FOLLOWS = "follows from the releases"
DIFFERS = "differs: it does not follow from the releases"
NOT_COMPARED = "not compared: it has more than numbers, text, arrays, and collections of these"
NOT_REACHED = "not compared: the runs part before it"
NOT_REPEATED = "not compared: two runs on the same dataset, with the same releases, return different ones"

KEPT, VIOLATED, NOTHING_MOVED = "kept", "violated", "nothing moved"
REFUSED, LEFT_OPEN = "refused", "output not compared"


@dataclass(frozen=True, slots=True, repr=False)
class SensitivityCheck(Printed):
    """Change of every stage under a neighboring dataset, compared with the declared sensitivity.

    Attributes
    ----------
    movements : tuple of Movement
        For every stage that uses the data: ``stage``, ``norm``, ``moved``, ``declared``, ``ratio``,
        ``ok`` and ``problem``. For a stream, the values of the worst question.
    course : str
        Description of the first difference between the runs; "" if both request the same stages in the same
        order.
    output : str
        Statement whether the result follows from the releases of the stages.
    neighbor : str
        Description of the neighbor, if several were tried.
    refused : bool
        Whether one of the two is rejected as bad data (`InvalidData`) before anything else differs. The error
        is public.

    See Also
    --------
    check_sensitivity

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.auditing import check_sensitivity
    >>> check = check_sensitivity(np.sum, [1, 0, 1], [1, 1, 1], sensitivity=1.0)
    >>> check.ok, check.ratio
    (True, 1.0)
    """

    movements: tuple[Movement, ...]
    course: str
    output: str
    neighbor: str = ""
    refused: bool = False

    @property
    def violated(self) -> bool:
        """Whether this pair shows that the declaration is wrong."""
        parted = bool(self.course) and not self.refused
        return parted or self.output == DIFFERS or not all(item.ok for item in self.movements)

    @property
    def verdict(self) -> str:
        """ "violated"; "kept"; "nothing moved", "refused" or "output not compared", which show neither."""
        if self.violated:
            return VIOLATED
        if self.refused:
            return REFUSED
        if self.output != FOLLOWS:
            return LEFT_OPEN
        return KEPT if self.ratio > 0 else NOTHING_MOVED

    @property
    def ok(self) -> bool:
        """Whether some stage changed, all within the declared sensitivities, and the output follows."""
        return self.verdict == KEPT

    @property
    def worst(self) -> Movement | None:
        """The stage that is wrong, or comes nearest to it."""
        return max(self.movements, key=rank, default=None)

    @property
    def stage(self) -> str:
        """The name of the worst stage."""
        return "" if self.worst is None else self.worst.stage

    @property
    def ratio(self) -> float:
        """The largest ratio of a change to its declared sensitivity."""
        return max((item.ratio for item in self.movements if not math.isnan(item.ratio)), default=0.0)

    def _records(self) -> Records:
        keys = ("norm", "moved", "declared", "ratio", "ok", "problem")
        return Records(
            [item.stage for item in self.movements],
            {key: [getattr(item, key) for item in self.movements] for key in keys},
            {key: getattr(self, key) for key in ("verdict", "course", "output", "neighbor")},
        )

    def summary(self) -> Summary:
        """Return a table with one row per stage, which prints as text and shows as HTML in a notebook."""
        facts = [
            ("Verdict", self.verdict),
            ("Course", self.course or "the same stages, in the same order"),
            ("Output", self.output),
            *([("Neighbor", self.neighbor)] if self.neighbor else []),
        ]
        rows = [
            (
                item.stage,
                item.norm,
                *(map(_number, (item.moved, item.declared, item.ratio))),
                "yes" if item.ok else "NO",
            )
            for item in self.movements
        ]
        notes = [f"{item.stage}: {item.problem}." for item in self.movements if item.problem]
        if self.verdict == NOTHING_MOVED:
            notes.append("No stage moved: this pair tests nothing. Choose a row that counts.")
        if self.verdict == LEFT_OPEN:
            notes.append("The output may hold more than was released: return what can be compared, or None.")
        if self.verdict == REFUSED:
            notes.append("That bad data are refused is seen by all: bounds, or checks beforehand, must make it public.")
        notes.append(
            "This compares two datasets only. A violation is a proof. Its absence is not: other rows may move more."
        )
        notes.append("The moved amounts depend on the rows: if these are private, so are the amounts.")
        return Summary(
            "Sensitivity check", facts, ("stage", "measured by", "moved", "declared", "ratio", "within"), rows, notes
        )


PARTS = "disjoint parts of the rows"


def worst_of_each(first: Sequence[Seen], second: Sequence[Seen], rows_apart: int = 1) -> tuple[Movement, ...]:
    """Compare each stage with its declaration, and count the disjoint parts that moved.

    A stream counts by its worst query. A plan with stages of disjoint parts costs as much as the dearest
    part, because a row is in one part only.
    """
    found: dict[str, Movement] = {}
    parts = {part for seen in first if (part := getattr(seen.stage, "part", ""))}
    moving = set()
    for pair in zip(first, second, strict=False):
        item = movement(*pair)
        if item is None:
            continue
        if item.moved > 0:
            moving |= parts & {getattr(pair[0].stage, "part", "")}
        known = found.get(item.stage)
        if known is None or rank(item) > rank(known):
            found[item.stage] = item
    if len(parts) > 1 and len(moving) > rows_apart:
        problem = "stages of several parts move with one row, but the plan counts the cost of one part only"
        found[PARTS] = Movement(PARTS, "parts that move", len(moving), rows_apart, False, problem)
    return tuple(found.values())


def rank(item: Movement) -> tuple[bool, float]:
    """Return the severity of a change, for comparisons."""
    return not item.ok, math.inf if math.isnan(item.ratio) else item.ratio


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.5g}"
