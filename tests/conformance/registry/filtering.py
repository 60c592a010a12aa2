"""The filtering test: the release as a whole, and what each of its lines rests on.

The printed constants hide most lines at any size that can be run. Among data that line 3 lets pass, T of the raw
rows moves by more than line 13's noise is for only from n d = 4e7 on (a search over epsilon, delta, n and d). So the
whole release is audited with the printed constants, and single lines by the same `_release` with smaller
ones, for which `_scaled_down` states the lemma of docs/proofs/filtering.md anew.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.identity import FilteringTest
from dpstats.identity.by_filtering import (
    FilteringConstants,
    filtering_constants,
    largest_coordinate,
    quadratic_statistic,
    replace_rows,
    rows_beyond,
)
from dpstats.privacy import Plan, Stage, compose
from dpstats.release.noise import SimulatedNoise
from dpstats.release.session import Session
from registry.entry import Dataset, Draw, Entry, PlantedBug, Traits, core, fitted, having
from registry.identity import ANSWERS_ONCE, FAST, sign_neighbors

STEPS = 1024  # of line 4's lattice, to a unit

Pair = tuple[np.ndarray, np.ndarray]


class Rigged(SimulatedNoise):
    """Simulated noise, but for what an entry conditions on, or a bug leaves out.

    ``quiet`` scales have no noise; ``noisy_sum`` is what line 4 has released; and with ``rows`` the fresh signs are the
    rows themselves, so that line 13 has T(X) for T(X^).
    """

    def __init__(
        self,
        generator: np.random.Generator,
        quiet: tuple[float, ...] = (),
        fixed: np.ndarray | None = None,
        rows: np.ndarray | None = None,
    ) -> None:
        super().__init__(generator)
        self.quiet, self.fixed, self.rows = quiet, fixed, rows

    def laplace(self, scale: float, size: Any) -> Any:
        drawn = super().laplace(scale, size)
        return np.zeros_like(drawn) if scale in self.quiet else drawn

    def gaussian(self, scale: float, size: Any) -> Any:
        return super().gaussian(scale, size) if self.fixed is None else np.broadcast_to(self.fixed, size)

    def integers(self, below: int, size: Any) -> Any:
        # Signs are 2 times a bit, less 1.
        return super().integers(below, size) if self.rows is None else np.broadcast_to((self.rows + 1) // 2, size)


def _plan_of(constants: FilteringConstants, n: int, d: int) -> Any:
    """Return a plan of the test with constants of its own, and the stages that follow from them."""
    test = FilteringTest(epsilon=4.0, delta=1e-3)
    plan = test.plan(n, d)
    design = replace(plan.design, constants=constants, steps_per_unit=STEPS)
    return replace(plan, design=design, stages=test._stages(design, n, d))


def _runs(
    constants: FilteringConstants,
    names: Sequence[str],
    *,
    quiet: tuple[float, ...] = (),
    noisy_sum: np.ndarray | None = None,
    raw: bool = False,
) -> Draw:
    """Return a batch of the test's `_release`, of each draw what some stages released; see `Rigged`."""

    def draw(X: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        plan = _plan_of(constants, *X.shape)
        fixed = None if noisy_sum is None else STEPS * (noisy_sum - X.sum(axis=0))
        with Session(plan, Rigged(rng, quiet, fixed, X if raw else None), size=size) as session:
            FilteringTest()._release(X, plan, session)
        return np.concatenate([session.released[name] for name in names], axis=1)

    return draw


def _one_row(n: int, d: int) -> Pair:
    """Return equal rows, and the same with one row reversed: lines 2 and 4 move as far as they can."""
    return np.ones((n, d), dtype=int), np.vstack([-np.ones((1, d), dtype=int), np.ones((n - 1, d), dtype=int)])


# --- the whole release ---


class TotalInside(FilteringTest):
    """Planted bug: the printed algorithm run with (epsilon, delta) and charged as that; it is (4 epsilon, 14 delta)."""

    def _design(self, n: int, d: int, reference: Any) -> Any:
        design = super()._design(n, d, reference)
        return replace(design, constants=filtering_constants(n, d, 4 * self.epsilon, 14 * self.delta))


def _whole(test: FilteringTest) -> Draw:
    """Return the core of a fit: all that is released, with what an early rejection leaves out as -1e9."""

    def draw(X: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        return np.nan_to_num(core(test)(X, rng, size), nan=-1e9)

    return draw


def _whole_entry() -> Entry:
    test, pair = FilteringTest(epsilon=2.0, delta=1e-3), _one_row(6, 1)
    plan = test.plan(6, 1)
    # Its stages share one proof and one event; their sensitivities are brute-forced in the entries below.
    return Entry(
        name="filtering",
        covers=FilteringTest,
        proof="filtering.md",
        plan=plan,
        integers=lambda X: [],
        pairs=lambda: iter(()),
        draw=_whole(test),
        dataset=pair[0],
        neighbor=pair[1],
        power=0.12,
        public=fitted(FilteringTest(epsilon=2.0, delta=1e-3, **FAST), lambda made: made.statistic_),
        bugs=(
            PlantedBug(
                "(4 epsilon, 14 delta) charged as (epsilon, delta)",
                _whole(TotalInside(epsilon=2.0, delta=1e-3)),
                *pair,
                2.0,
                1e-3,
            ),
        ),
        estimator=FilteringTest(random_state=0, **FAST),
        most_trials=200_000,
    )


# --- lines 2, 4 and 6 ---


def _early_entry() -> Entry:
    n, d, pair = 6, 2, _one_row(6, 2)
    plan = FilteringTest(epsilon=4.0, delta=1e-3).plan(n, d)
    stages = plan.additive[:3]
    # Nothing rejects, and the noise of line 4 decides which rows line 6 counts: all that the lines can tell.
    opened = {"largest_threshold": math.inf, "count_threshold": math.inf, "filter_threshold": 8.0}
    constants = replace(plan.design.constants, **opened)
    assert plan.design.steps_per_unit == STEPS
    e, f = constants.epsilon, constants.delta
    # Something that line 4 could have released, at which rows differ in whether they are counted.
    released = np.array([7, -3])

    def integers(X: Dataset) -> list[np.ndarray]:
        count = rows_beyond(X, released * STEPS, math.floor(constants.filter_threshold * STEPS)).sum()
        return [np.array([largest_coordinate(X)]), X.sum(axis=0) * STEPS, np.array([count])]

    first, second, third = ([stage.name] for stage in stages)
    wide = FilteringTest(epsilon=4.0, delta=1e-3).plan(n, 9).design.constants
    counted = np.ones((n, d), dtype=int), np.vstack([[[1, -1]], np.ones((n - 1, d), dtype=int)])
    return Entry(
        name="filtering, lines 2, 4 and 6",
        covers=FilteringTest,
        proof="filtering.md",
        # At most the page's (3e, f), which adds up what this accountant composes.
        plan=Plan(stages, compose([stage.event for stage in stages], f)),
        integers=integers,
        pairs=lambda: sign_neighbors(n, d),
        draw=_runs(constants, [*first, *second, *third]),
        dataset=pair[0],
        neighbor=pair[1],
        power=0.2,
        public=None,
        bugs=(
            PlantedBug(
                "half the noise in line 2",
                _runs(replace(constants, largest_scale=constants.largest_scale / 2), first),
                *pair,
                e,
                0.0,
                trials=5000,
            ),
            PlantedBug(
                "line 4 for a sum of sensitivity 2, at any d",
                _runs(replace(wide, largest_threshold=math.inf, sum_sigma=wide.sum_sigma / 3), second),
                *_one_row(n, 9),
                e,
                f,
                trials=10_000,
            ),
            PlantedBug(
                "no noise in line 6",
                _runs(constants, third, quiet=(constants.count_scale,), noisy_sum=released),
                *counted,
                e,
                0.0,
                trials=1000,
            ),
        ),
        estimator=FilteringTest(random_state=0, **FAST),
        most_trials=200_000,
    )


# --- line 13 ---


def _scaled_down(n: int, d: int, *, kept: int, margin: int, filtered: int, largest: int) -> FilteringConstants:
    """Return smaller constants for which line 13 is e-private, e = 1, given the releases of lines 2 to 6.

    The lemma of the proof page with any numbers. Good: all |S_i| <= largest; at most ``filtered`` rows go; and
    |<x, X~ - S>| <= margin for the row x that is replaced, in both datasets. R is the sum of all other filtered rows.
    A row that stays has |<x, X~>| <= kept, so |<x, R>| <= kept + margin + 2d filtered + d; and |<U, R>| for fresh
    signs U is at most d (largest + 1 + 2 filtered), for certain (the page has Hoeffding's bound, smaller where d is
    large). T moves by 2|<R, x^ - x^'>|: at most 4 times the first, or twice each; by nothing where both rows go.

    With no noise in lines 2 and 6, reaching line 13 is the first two parts of the good event.
    """
    stays, anew = kept + margin + 2 * d * filtered + d, d * (largest + 1 + 2 * filtered)
    sensitivity = max(4 * stays, 2 * stays + 2 * anew)
    return replace(
        filtering_constants(n, d, 4.0, 1e-3),
        largest_threshold=largest,
        sum_margin=margin,
        Delta=kept - margin,
        filter_threshold=kept,
        count_threshold=filtered,
        statistic_sensitivity=sensitivity,
        statistic_scale=float(sensitivity),
    )


def _last_entry(
    name: str,
    constants: FilteringConstants,
    released: np.ndarray,
    neighbors: Callable[[], Iterator[Pair]],
    fresh: Sequence[Any],
    pair: Pair,
    *,
    unattained: Mapping[str, float],
    power: float,
    raw: tuple[Pair, ...] = (),
) -> Entry:
    """Return line 13, given that line 4 released a sum; a dataset is rows, and the signs that a row becomes.

    The brute force has all neighbors within the good event, coupled by each of the ``fresh`` signs; an audit draws
    signs. ``raw``: pairs for T(X).
    """
    sensitivity, scale = constants.statistic_sensitivity, constants.statistic_scale
    stage = Stage("T of the filtered rows", "laplace", 1, 1.0, sensitivity, scale)

    def beyond(X: np.ndarray) -> np.ndarray:
        return rows_beyond(X, released * STEPS, math.floor(constants.filter_threshold * STEPS))

    def good(X: np.ndarray) -> bool:
        small = largest_coordinate(X) <= constants.largest_threshold
        near = abs(int(X[0] @ (released - X.sum(axis=0)))) <= constants.sum_margin
        return bool(small and near and beyond(X).sum() <= constants.count_threshold)

    def pairs() -> Iterator[tuple[Pair, Pair]]:
        known: dict[bytes, bool] = {}
        for X, Y in neighbors():
            for Z in (X, Y):
                if Z.tobytes() not in known:
                    known[Z.tobytes()] = good(Z)
            if known[X.tobytes()] and known[Y.tobytes()]:
                # Where no row goes its fresh signs are nothing to couple.
                for signs in fresh if (beyond(X) | beyond(Y)).any() else fresh[:1]:
                    yield (X, np.array(signs)), (Y, np.array(signs))

    def integers(data: Pair) -> list[np.ndarray]:
        X, signs = data
        return [np.array([quadratic_statistic(replace_rows(X, beyond(X), signs))])]

    def core(scale: float, raw: bool = False) -> Draw:
        last = _runs(
            replace(constants, statistic_scale=scale),
            [stage.name],
            quiet=(constants.largest_scale, constants.count_scale),
            noisy_sum=released,
            raw=raw,
        )
        return lambda data, rng, size: last(data[0], rng, size)

    # The lemma holds for these pairs: none is accused of what it does not claim.
    assert all(good(X) for X in itertools.chain(pair, *raw))
    X, Y = ((X, np.array(fresh[0])) for X in pair)
    return Entry(
        name=name,
        covers=FilteringTest,
        proof="filtering.md",
        plan=Plan((stage,), compose([stage.event], 0.0)),
        integers=integers,
        pairs=pairs,
        draw=core(scale),
        dataset=X,
        neighbor=Y,
        power=power,
        public=None,
        unattained=unattained,
        unattained_reason="the lemma adds up the worst that rows which go, noise and the row itself can do",
        bugs=(
            PlantedBug("an eighth of the noise", core(scale / 8), X, Y, 1.0, 0.0, trials=5000),
            *(PlantedBug("T(X) for T(X^)", core(scale, True), (X, fresh[0]), (Y, fresh[0]), 1.0, 0.0) for X, Y in raw),
        ),
        estimator=FilteringTest(random_state=0, **FAST),
        most_trials=200_000,
    )


def _tilted(copies: int) -> np.ndarray:
    """Return 8 copies of rows with 5 of 8 signs positive: every column adds up to 2 * copies."""
    row = np.array([1, 1, 1, 1, 1, -1, -1, -1])
    return np.vstack([np.roll(row, shift) for shift in range(8)] * copies)


@having(
    {
        FilteringTest: Traits(
            additive=False,
            excused=ANSWERS_ONCE
            | {
                "events": "its plan counts what several of its lines cost together",
                "null": "it runs its own release on datasets that it draws",
                "odd row": "its session refuses fewer rows than the plan has",
            },
        )
    }
)
def entries() -> Iterator[Entry]:
    yield _whole_entry()
    yield _early_entry()
    signs = list(itertools.product((-1, 1), repeat=3))
    # The first of the others goes, all else stays.
    others = [[-1, -1, -1], *[[-1, 1, 1]] * 4]
    yield _last_entry(
        "filtering, line 13",
        _scaled_down(6, 3, kept=5, margin=9, filtered=1, largest=6),
        np.array([2, 2, 5]),
        lambda: sign_neighbors(6, 3),
        signs,
        (np.array([[-1, 1, 1], *others]), np.array([[1, -1, -1], *others])),
        unattained={"T of the filtered rows": 0.59},
        power=0.25,
    )
    # A row of equal signs goes, all others stay, and what they add up to is the same in every column: of a row
    # only the number of its signs matters, so these are all its neighbors.
    rest = _tilted(24)
    ramp = [np.where(np.arange(8) < positive, 1, -1) for positive in range(9)]

    def one_row(positive: int) -> np.ndarray:
        return np.vstack([ramp[positive], rest])

    yield _last_entry(
        "filtering, line 13, one row far out",
        _scaled_down(193, 8, kept=96, margin=8, filtered=1, largest=49),
        rest.sum(axis=0),
        lambda: ((one_row(j), one_row(k)) for j, k in itertools.combinations(range(9), 2)),
        ramp,
        (one_row(3), one_row(5)),
        unattained={"T of the filtered rows": 0.88},
        power=0.1,
        raw=((one_row(8), one_row(0)),),
    )
