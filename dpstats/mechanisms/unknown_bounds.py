"""Bounds that nobody knows: released from the rows themselves, before the release that uses them.

One selection chooses a window that holds most rows of each column, anywhere among the floats. One noisy histogram
counts the rows on both sides of it. The bounds follow from these releases. An estimator with ``bounds="private"`` makes
both, and then its own release with these bounds, in one session and for one charge.
Proof: docs/proofs/private-bounds.md.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from dpstats.data.parameters import check_columns, check_integer, check_real
from dpstats.data.rows import Rows
from dpstats.errors import DPStatsError, InvalidParameter, attempt, refuse
from dpstats.inference.results import list_some
from dpstats.lattice import isqrt_up
from dpstats.mechanisms.windows import (
    BINS,
    NOT_FOUND,
    REACH,
    UTILITY_RANGE,
    Candidates,
    Clip,
    choose_clip,
    count_tails,
    find_candidates,
    window_utilities,
)
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee, quotient_up
from dpstats.privacy.plan import Counted, ReleasePlan
from dpstats.privacy.stages import AnyStage, Choice, Stage
from dpstats.release.additive import Integers, additive_stages, check_size, has_private_size
from dpstats.release.session import Part, Released, Session

Floats = NDArray[np.float64]

PRIVATE, OUTCOME = "private", "y"
WINDOWS, TAILS = "windows", "rows by distance from the windows"

_WORDS = "a window among {candidates:,} for each column, exponential mechanism of scale {scale:.6g} rows"
_WINDOW_ROWS = 120.0
"""The windows need this over n of epsilon for each column, and no more: the tails can use all the rest."""
NO_WINDOW = "no window holds most rows, too few rows differ from 0, or they need other units (1e-138 to 1e138)"
NARROWEST, FURTHEST = 2.0**-460, 2.0**460
"""Least half-width, and largest size, of bounds that a release can use: inside the limits of lattices and grids."""
LEAST_ROWS = 50.0
"""Rows times epsilon that the bounds of one column need."""
_EXACT = 1 - 2.0**-50  # parts of a float epsilon can add up to one unit in the last place too much


@dataclass(frozen=True)
class UnknownBounds:
    """A request for bounds that the fit chooses itself, as ``bounds`` of an estimator.

    ``bounds="private"`` is the same without options. In a list or mapping of bounds, either may replace the pair of a
    column: only such columns cost a part of epsilon.

    Parameters
    ----------
    step : float or sequence of float, optional
        Spacing of the data, such as 1 for counts or 0.01 for money; one per column, or one for all. No window is
        narrower. It helps if many rows share a value.
    within : (low, high), optional
        Public limits of all columns, which may be infinite. Rows outside count as the nearer limit, and the bounds
        stay inside. For amounts that are never negative: ``within=(0, float("inf"))``.
    share : float, default=0.2
        Part of epsilon that pays for the bounds.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.means import ClippedMean, UnknownBounds
    >>> visits = np.random.default_rng(0).poisson(30, size=(5000, 1))
    >>> mean = ClippedMean(bounds=UnknownBounds(step=1, within=(0, float("inf"))), random_state=0).fit(visits)
    >>> mean.mean_.round(1)
    array([29.9])
    """

    step: Any = None
    within: Any = None
    share: float = 0.2


def is_unknown(bounds: Any) -> bool:
    """Return whether a parameter, or its entry for one column, is a request for bounds."""
    return isinstance(bounds, UnknownBounds) or (isinstance(bounds, str) and bounds == PRIVATE)


def wants_bounds(bounds: Any, name: str = "bounds") -> bool:
    """Return whether an estimator must choose the bounds of a parameter, or of some of its columns."""
    if isinstance(bounds, str) and bounds != PRIVATE:
        raise refuse(name, given=bounds, allowed=f"{PRIVATE!r}, or public numbers (low, high)")
    entries = bounds.values() if isinstance(bounds, Mapping) else bounds if isinstance(bounds, list | tuple) else ()
    return is_unknown(bounds) or any(is_unknown(one) for one in entries)


class ColumnBounds(NamedTuple):
    """Released bounds of one column.

    Attributes
    ----------
    found : bool
    center, width : float
        The chosen window; NaN if none was found.
    clip : Clip
        The bounds, and the rows beyond them.
    rows : float
        The number of rows, or its noisy estimate if it is private.
    """

    found: bool
    center: float
    width: float
    clip: Clip
    rows: float

    @property
    def tail_shares(self) -> tuple[Floats, Floats]:
        """The fraction of rows below and above the bounds, and the standard deviations of its noise."""
        clip = self.clip
        return np.array([clip.below, clip.above]) / self.rows, np.array([clip.below_std, clip.above_std]) / self.rows


_NOWHERE = ColumnBounds(False, math.nan, math.nan, Clip(*[math.nan] * 6), math.nan)


@dataclass(frozen=True)
class BoundsPlan(ReleasePlan):
    """The plan of a release of bounds.

    Attributes
    ----------
    step : tuple of float, or None
        Spacing of the data, for each column.
    within : (float, float) or None
        Public interval of the columns.
    later : float
        Standard deviation of the noise of a later mean, for bounds of width 1; of a later sum, if the number of rows is
        private.
    """

    step: tuple[float, ...] | None
    within: tuple[float, float] | None
    later: float = field(repr=False)

    @property
    def windows(self) -> Choice:
        """The stage that chooses a window for each column."""
        stage = self.stages[0]
        assert isinstance(stage, Choice)
        return stage

    @property
    def tails(self) -> Stage | None:
        """The stage that counts rows on both sides of the windows, if there is one."""
        stage = self.stages[-1]
        return stage if isinstance(stage, Stage) else None

    @property
    def bins(self) -> int:
        """Number of bins of a column: with a private number of rows, one more for rows in the middle."""
        return BINS + self.has_private_size

    @property
    def window_epsilon(self) -> float:
        """Epsilon of the window of one column."""
        return UTILITY_RANGE / self.windows.scale_steps

    def candidates(self, column: int) -> Candidates:
        """Return the candidate windows of a column."""
        return find_candidates(None if self.step is None else self.step[column], self.within)

    @property
    def unnoticed(self) -> float:
        """The number of rows beyond the bounds that the noise of the counts hides; NaN without counts."""
        return math.nan if self.tails is None else math.ceil(3 * self.tails.scale_steps)

    def reader(self, estimator: Any) -> BoundsFirst:
        return BoundsFirst(estimator)

    def notes(self) -> list[str]:
        if self.tails is None:
            return []
        return [f"Up to {self.unnoticed:,.0f} rows beyond the bounds of a column would not be noticed."]


def plan_bounds(
    n: int | None,
    d: int,
    epsilon: float,
    *,
    step: Any = None,
    within: Any = None,
    later: float,
    tails: bool = True,
    neighbors: Neighbors = Neighbors.REPLACE_ONE,
    parameter: str = "bounds",
) -> BoundsPlan:
    """Return the plan of a release of bounds for d columns of n rows.

    Parameters
    ----------
    n, d : int
        Public sizes. A private number of rows is not used.
    epsilon : float
        Privacy parameter of the bounds of all columns together.
    step, within : optional
        The same as in `UnknownBounds`.
    later : float
        See `BoundsPlan`.
    neighbors : Neighbors
    tails : bool, default=True
        Whether to count the tails. Without them the bounds are 64 widths of the window on either side.
    parameter : str
        Name of the parameter that asked for bounds, for errors.
    """
    private = neighbors is Neighbors.ADD_OR_REMOVE_ONE
    if n is not None and not private and n * epsilon < LEAST_ROWS * d:
        raise refuse(
            parameter,
            got=f"'private' for {n:,} rows and {d:,} columns, with epsilon {epsilon:.3g} for the bounds",
            allowed=f"declared for fewer than {math.ceil(LEAST_ROWS * d / epsilon):,} rows",
            remedy="Use a larger epsilon, fewer columns, or bounds that are known without the data.",
        )
    steps = None
    if step is not None:
        checked = check_columns("step", step, d, above=0)
        steps = tuple(np.broadcast_to(checked, (d,)).astype(float).tolist())
        for one in steps:
            check_real("step", one, at_least=2.0**-800, at_most=2.0**800)
    ends = None if within is None else check_limits(within)
    first = epsilon if not tails else epsilon / 2
    if tails and n is not None and not private:
        first = min(first, _WINDOW_ROWS * d / n)
    count = max(find_candidates(None if steps is None else one, ends).count for one in (steps or (None,)))
    # A row changes the window of every column, each drawn independently.
    moved = UTILITY_RANGE * d
    stages: list[AnyStage] = [
        Choice(WINDOWS, 2 * d, moved, quotient_up(moved, first * _EXACT), count, words=_WORDS, neighbors=neighbors)
    ]
    if tails:
        # A replaced row leaves one bin and enters another one.
        moved = d if private else 2 * d
        counts = Integers(TAILS, (BINS + private) * d, 1.0, moved, isqrt_up(moved))
        stages += additive_stages([counts], (epsilon - first) * _EXACT, 0.0, neighbors=neighbors)
    target = PrivacyGuarantee(epsilon, 0.0, neighbors)
    return BoundsPlan(tuple(stages), target, n, d, step=steps, within=ends, later=later)


def check_limits(within: Any) -> tuple[float, float]:
    allowed = "a pair (low, high) of numbers with low < high, finite or infinite"
    if not isinstance(within, Sequence | np.ndarray) or isinstance(within, str) or len(within) != 2:
        raise refuse("within", given=within, allowed=allowed)
    ends = [
        float(end)
        if isinstance(end, int | float | np.number) and not isinstance(end, bool) and not math.isnan(end)
        else None
        for end in within
    ]
    low, high = ends
    if low is None or high is None or not low < high:
        raise refuse("within", given=within, allowed=allowed)
    return low, high


def read_column(X: Any, column: int) -> Floats:
    """Return the finite entries of a column of a table: private. Missing ones are in no window and no bin."""
    part = X[:, [column]].toarray() if issparse(X) else np.asarray(X)[:, [column]]
    x = np.asarray(part, dtype=np.float64)[:, 0]
    return np.asarray(x[np.isfinite(x)])


def release_bounds(columns: Sequence[Floats], plan: BoundsPlan, session: Session) -> None:
    """Choose the window of each column, and count the rows on both sides of it."""
    parts = [Part([window_utilities(x, plan.candidates(j), plan.window_epsilon)]) for j, x in enumerate(columns)]
    chosen = np.atleast_2d(session.choose(WINDOWS, parts))
    if plan.tails is None:
        return
    bins = plan.bins
    counts = np.zeros((len(chosen), bins * plan.n_features), dtype=np.int64)
    for j, x in enumerate(columns):
        candidates, own = plan.candidates(j), chosen[:, 2 * j : 2 * j + 2]
        distinct, case = np.unique(own, axis=0, return_inverse=True)
        for place, (line, at) in enumerate(distinct.tolist()):
            if line == NOT_FOUND:
                continue
            window = candidates.window(line, at)
            found = count_tails(candidates.move(x), *window, whole=plan.has_private_size)
            counts[case.ravel() == place, bins * j : bins * (j + 1)] = found
    session.add(TAILS, counts if session.size is not None else counts[0])


def read_bounds(released: Released, plan: BoundsPlan) -> list[ColumnBounds]:
    """Return the bounds of every column that follow from the releases."""
    chosen = np.asarray(released[WINDOWS]).reshape(plan.n_features, 2)
    found = []
    for j, (line, at) in enumerate(chosen.tolist()):
        if line == NOT_FOUND:
            found.append(_NOWHERE)
            continue
        candidates = plan.candidates(j)
        center, width = candidates.window(line, at)
        ends = (candidates.low, candidates.high)
        if plan.tails is None:
            low, high = max(center - REACH * width, ends[0]), min(center + REACH * width, ends[1])
            clip, rows = Clip(low, high, *[math.nan] * 4), math.nan
        else:
            noisy = np.asarray(released[TAILS])[plan.bins * j : plan.bins * (j + 1)].tolist()
            private = plan.has_private_size
            rows = max(sum(noisy), 1.0) if private else plan.n_samples
            later = plan.later / rows if private else plan.later
            clip = _choose_clip(tuple(noisy[:BINS]), center, width, rows, plan.tails.scale_steps, later, ends)
        # A window at a public limit may leave nothing inside.
        found.append(ColumnBounds(clip.low < clip.high, center, width, clip, rows))
    return found


@lru_cache(maxsize=64)
def _choose_clip(noisy: tuple[float, ...], *given: Any) -> Clip:
    """Return the clip for released counts. A fit reads its bounds four times."""
    return choose_clip(np.array(noisy), *given)


# Estimators with bounds that nobody knows


def plan_with_bounds(
    estimator: Any, n_samples: Any, n_features: Any, *, tails: bool = True, noise: Callable[[Any], Any] | None = None
) -> Any:
    """Return the plan of an estimator that chooses its bounds first.

    The stages of the estimator are those for bounds (-1, 1): its integers, and so its noise and cost, are the same
    for all bounds. Only the length of a step depends on them.

    Parameters
    ----------
    estimator : PrivateEstimator
    n_samples, n_features : int
    tails : bool, default=True
        Whether the bounds clip rows. Otherwise they are wide: 64 widths of the window on either side.
    noise : callable, optional
        Maps a plan for bounds (-1, 1) to the standard deviation of the noise of a mean. Default: Laplace noise.
    """
    _check_options(estimator)
    n = check_size(estimator, n_samples)
    d = check_integer("n_features", n_features, at_least=getattr(estimator, "_fewest", 1))
    slots, unknown = _find_slots(estimator, d)
    places = [place for slot in slots for place in slot.places]
    columns = len(places)
    share = check_real("share", unknown.share, above=0, below=1)
    epsilon = check_real("epsilon", estimator.epsilon, above=0)
    first, private = share * epsilon, has_private_size(estimator)
    plan = _having_bounds(estimator, [(-1.0, 1.0)] * columns, (epsilon - first) * _EXACT, d).plan(n, d)
    if noise is None or private:
        later = math.sqrt(2) * columns / ((epsilon - first) * (1 if private or n is None else n))
    else:
        later = float(np.max(np.broadcast_to(noise(plan), (d,))[places])) / 2
    if unknown.within is not None:
        low, high = check_limits(unknown.within)
        if high - low < 2 * NARROWEST or low > FURTHEST or high < -FURTHEST:
            allowed, remedy = "wider than 1e-138, and not beyond 1e138", "Change the units of the data."
            raise refuse("within", given=unknown.within, allowed=allowed, remedy=remedy)
    limits = {"step": unknown.step, "within": unknown.within}
    neighbors = plan.target.neighbors
    before = plan_bounds(
        n, columns, first, **limits, later=later, tails=tails, neighbors=neighbors, parameter=slots[0].name
    )
    total = PrivacyGuarantee(epsilon, plan.target.delta, neighbors)
    return replace(plan, located=Counted(before, plan.target), target=total)


_NEEDED: Mapping[str, tuple[Any, str]] = {
    "bounds_are": ("clip", "'clip'"),
    "noise": ("proportional", "'proportional'"),
    "adjust": (None, "None"),
    "step": (None, "None"),
}
"""Options of estimators that bounds="private" does not allow: the only allowed value, and its words."""


def _check_options(estimator: Any) -> None:
    for name, (value, words) in _NEEDED.items():
        given = getattr(estimator, name, value)
        if given is not value and given != value:
            remedy = "Give the step as UnknownBounds(step=...)." if name == "step" else f"Leave {name} out."
            raise refuse(name, given=given, allowed=f"{words} with bounds='private'", remedy=remedy)


class _Slot(NamedTuple):
    """A parameter with bounds that a fit chooses, for all columns or for some.

    Attributes
    ----------
    name : str
    entries : list
        One for each column: a pair, or a request.
    places : list of int
        Columns whose bounds the fit chooses.
    """

    name: str
    entries: list[Any]
    places: list[int]

    def fill(self, pairs: Sequence[Any]) -> list[Any]:
        """Return the bounds of all columns, with the chosen ones in their places."""
        filled = list(self.entries)
        for place, pair in zip(self.places, pairs, strict=True):
            filled[place] = pair
        return filled


def _find_slots(estimator: Any, d: int) -> tuple[list[_Slot], UnknownBounds]:
    """Return the parameters with bounds that a fit chooses, and the options of the choice."""
    slots: list[_Slot] = []
    asked: list[tuple[str, Any, int]] = []
    for name, count in estimator._list_slots(d).items():
        bounds = getattr(estimator, name)
        if not wants_bounds(bounds, name):
            continue
        whole = is_unknown(bounds)
        entries = [bounds] * count if whole else [*(bounds.values() if isinstance(bounds, Mapping) else bounds)]
        if len(entries) != count:
            allowed = f"{PRIVATE!r}, or have an entry for each column ({count})"
            raise refuse(name, got=f"{len(entries)} entries", allowed=allowed)
        slots.append(_Slot(name, entries, [j for j, one in enumerate(entries) if is_unknown(one)]))
        asked += [(name, bounds, count)] if whole else [(name, entries[j], 1) for j in slots[-1].places]
    if not slots:
        return slots, UnknownBounds()
    requests = [each if isinstance(each, UnknownBounds) else UnknownBounds() for _, each, _ in asked]
    # One release chooses all of them.
    one = requests[0]
    for (name, _, _), other in zip(asked, requests, strict=True):
        if _find_options(one) != _find_options(other):
            allowed = "given with the same share and within for all columns, and with a step for all or none"
            raise refuse(name, given=other, allowed=allowed)
    if len(asked) == 1 or one.step is None:
        return slots, one
    steps = [
        np.broadcast_to(check_columns("step", request.step, count, above=0), (count,))
        for (_, _, count), request in zip(asked, requests, strict=True)
    ]
    return slots, replace(one, step=np.concatenate(steps).tolist())


def _find_options(request: UnknownBounds) -> tuple[Any, ...]:
    """Return the options that requests of one release have in common."""
    return request.share, None if request.within is None else check_limits(request.within), request.step is None


def _having_bounds(estimator: Any, pairs: Sequence[Any], epsilon: float, d: int) -> Any:
    """Return a copy of an estimator of d columns that has bounds, and a part of epsilon."""
    made, rest = copy.copy(estimator), list(pairs)
    for slot in _find_slots(estimator, d)[0]:
        own, rest = slot.fill(rest[: len(slot.places)]), rest[len(slot.places) :]
        made.__dict__[slot.name] = own[0] if len(own) == 1 else own
    made.__dict__.update(epsilon=epsilon)
    return made


@dataclass(frozen=True)
class BoundsFirst:
    """The steps of a fit that chooses its bounds first. It has the methods of an estimator that a fit calls."""

    estimator: Any

    def _read(self, rows: Rows, plan: Any) -> Rows:
        # Data that the estimator refuses are refused before the charge. Its integers need the bounds.
        unit = [(-1.0, 1.0)] * plan.located.plan.n_features
        _having_bounds(self.estimator, unit, plan.located.target.epsilon, plan.n_features)._read(rows, plan)
        return rows

    def _release(self, rows: Rows, plan: Any, session: Session) -> None:
        table = self.estimator._list_columns(rows.whole())
        slots = _find_slots(self.estimator, plan.n_features)[0]
        columns = [read_column(table[slot.name], place) for slot in slots for place in slot.places]
        release_bounds(columns, plan.located.plan, session)
        found = self._find(session.released, plan)
        if not all(one.found for one in found):
            for stage in plan.stages:
                session.skip(stage.name, "no bounds were found")
            return
        settled = self.settle(session.released, plan)
        session.take_units(settled.stages)
        reader = self._give_bounds(found, settled)
        reader._release(reader._read(rows, settled), settled, session)

    def _find(self, released: Released, plan: Any) -> list[ColumnBounds]:
        """Return the released bounds. Those that no lattice has room for count as not found."""
        found = [
            one._replace(
                found=one.found
                and one.clip.high - one.clip.low >= 2 * NARROWEST
                and max(-one.clip.low, one.clip.high) <= FURTHEST
            )
            for one in read_bounds(released, plan.located.plan)
        ]
        if all(one.found for one in found) and attempt(lambda: self._locate(found, plan), InvalidParameter) is None:
            return [one._replace(found=False) for one in found]  # the units of several columns are too far apart
        return found

    def _locate(self, found: Sequence[ColumnBounds], plan: Any) -> Any:
        return self._give_bounds(found, plan).plan(plan.n_planned, plan.n_features)

    def settle(self, released: Released, plan: Any) -> Any:
        """Return the plan with the bounds that the releases chose, or raise an error if none were found."""
        found = self._find(released, plan)
        missing = [j for j, one in enumerate(found) if not one.found]
        if missing:
            places = [self._places(plan.n_features)[j] for j in missing]
            some = [OUTCOME if j is None else self.estimator._column_names([j])[0] for j in places]
            names = f" of {list_some(some, 5)}" if len(found) > 1 or plan.n_features > 1 else ""
            raise DPStatsError(
                f"no bounds{names} were found: no window holds most rows, too few rows differ from 0, or the units of "
                "the columns are too small, too large or too far apart (1e-138 to 1e138). Use more rows, a larger "
                "epsilon, UnknownBounds(step=...) or declared bounds"
            )
        located = self._locate(found, plan)
        stated = replace(located, located=plan.located, target=plan.target, delta_asked=plan.delta_asked)
        return stated.for_data(plan.target.unit, plan.target.simulated)

    def _places(self, d: int) -> list[int | None]:
        """Return the place of each column with chosen bounds; None for the outcome."""
        slots = _find_slots(self.estimator, d)[0]
        return [None if slot.name == "y_bounds" else place for slot in slots for place in slot.places]

    def record(self, fit: Any, released: Released, plan: Any) -> None:
        """Set the attributes of a fit that describe its bounds."""
        found = read_bounds(released, plan.located.plan)
        pairs = rest = [(one.clip.low, one.clip.high) for one in found]
        for slot in _find_slots(self.estimator, plan.n_features)[0]:
            own, rest = np.array(slot.fill(rest[: len(slot.places)])), rest[len(slot.places) :]
            setattr(fit, f"{slot.name}_", own[0] if slot.name == "y_bounds" else own)
        fit._chosen_bounds = list(zip(self._places(plan.n_features), pairs, strict=True))
        fit.beyond_bounds_ = np.array([one.tail_shares[0] for one in found])
        fit.beyond_bounds_std_ = np.array([one.tail_shares[1] for one in found])

    def facts(self, fit: Any) -> list[tuple[str, str]]:
        """Return the facts of a summary on the bounds that a fit chose."""
        cost, total = fit.plan_.located.plan.target.epsilon, fit.plan_.target.epsilon
        named = len(fit._chosen_bounds) > 1 or fit.plan_.n_features > 1 or not hasattr(fit, "bounds_")
        shown = []
        for place, (low, high) in fit._chosen_bounds:
            name = OUTCOME if place is None else fit._column_names([place])[0]
            shown.append(f"{name}: " * named + f"{low:.6g} to {high:.6g}")
        return [("Bounds", f"{list_some(shown, 5)}, chosen for {cost:.3g} of epsilon = {total:g}")]

    def _give_bounds(self, found: Sequence[ColumnBounds], plan: Any) -> Any:
        pairs = [(one.clip.low, one.clip.high) for one in found]
        made = _having_bounds(self.estimator, pairs, plan.located.target.epsilon, plan.n_features)
        # Noise that was charged for stays the same, whichever would be smaller.
        made.__dict__.update(delta=plan.located.target.delta, _noise_is_chosen=True)
        return made


def show_share(share: float, std: float) -> str:
    """Return a noisy fraction of rows as text; "–" if noise hides it."""
    if math.isnan(share) or share < 2 * std:
        return "–"
    return f"{100 * share:.1f}% (noise sd {100 * std:.2g}%)"


def note_bounds(fit: Any) -> list[str]:
    """Return the notes on estimates for bounds that a fit chose."""
    located = fit.plan_.located
    if located is None or located.plan.tails is None:
        return []
    beyond = []
    for side, word in enumerate(("below", "above")):
        share, std = fit.beyond_bounds_[:, side], fit.beyond_bounds_std_[:, side]
        place = int(np.argmax(share))
        seen = show_share(float(share[place]), float(std[place]))
        if seen != "–":
            beyond.append(f"up to {seen} {word} the bounds of a column")
    rows = f"Clipped rows: {' and '.join(beyond)}. " if beyond else ""
    unnoticed = located.plan.unnoticed
    return [
        "The bounds were chosen from the rows, so estimates and intervals describe rows clipped to the bounds of "
        f"this fit. The mean of unclipped rows, E[x], is not covered. {rows}Up to {unnoticed:,.0f} rows beyond "
        "a bound would not be noticed."
    ]
