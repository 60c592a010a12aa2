"""Result of a sensitivity check: the change and the declared sensitivity of every stage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpstats.auditing.movement import Movement, movement
from dpstats.exports import Records
from dpstats.release.witness import Seen
from dpstats.report import Printed
from dpstats.results import Summary

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
            notes.append(
                "That bad data are refused is seen by all: bounds, or checks beforehand, must make it public."
            )
        notes.append(
            "Of these two datasets alone. A violation is a proof; that none is seen is not: other rows may move more."
        )
        notes.append("What moved is a fact of the rows: of private data it is private.")
        return Summary(
            "Sensitivity check",
            facts,
            ("stage", "measured by", "moved", "declared", "ratio", "within"),
            rows,
            notes,
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
