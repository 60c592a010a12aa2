"""Regressions that choose their bounds first, as a whole: windows, tails and every stage of the fit, for one charge.

The regression's own stages are asked at bounds of -1 and 1, which the release could have chosen: theorem 2 of
docs/proofs/private-bounds.md says that their integers are the same for all.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from dpstats.mechanisms.unknown_bounds import TAILS, WINDOWS, release_bounds
from dpstats.mechanisms.windows import BINS, count_tails
from dpstats.privacy import JointStage
from dpstats.regression import (
    PrivateCountRegression,
    PrivateGammaRegression,
    PrivateLinearRegression,
    PrivateLogisticRegression,
)
from dpstats.regression.log_linear import LogLinearRegression
from dpstats.regression.plan import step_name
from dpstats.release.session import Session
from registry.entry import Dataset, Entry, PlantedBug, less_noise
from registry.log_linear import HIGH, STEEP, TOO_STEEP, far_apart
from registry.log_linear import worst_rows as worst_rows_of_counts
from registry.regression import MIDDLING, attack, pulling, questions, split, table, with_row, worst_rows

N, D = 800, 2
# A window that the choice could have released, for each column.
CENTER, WIDTH = 0.05, 0.5
PRIVATE: dict[str, Any] = {"epsilon": 3.0, "delta": 1e-2}
TIGHT = PRIVATE | {"epsilon": 1.0}


def chosen(estimator: Any, data: Dataset) -> list[np.ndarray]:
    """Return the columns whose bounds are chosen: all, and the outcome of a linear regression."""
    columns = split(estimator, data)
    return [*columns[0].T, *columns[1:]] if "y_bounds" in estimator._list_slots(D) else [*columns[0].T]


def planned(estimator: Any, data: Dataset) -> Any:
    return estimator.plan(*split(estimator, data)[0].shape)


def declared(estimator: Any, plan: Any) -> Any:
    """Return the estimator with bounds of -1 and 1, and the epsilon that is left."""
    made = copy.copy(estimator)
    bounds = dict.fromkeys(estimator._list_slots(D), (-1.0, 1.0))
    return made.set_params(**bounds, epsilon=plan.located.target.epsilon)


def tails(estimator: Any, data: Dataset) -> np.ndarray:
    """Return the counts beside windows that the choice could have released, of all columns."""
    return np.concatenate([count_tails(column, CENTER, WIDTH) for column in chosen(estimator, data)])


def as_a_whole(estimator: Any, pair: tuple[Dataset, Dataset], factor: float = 1.0) -> Any:
    """Return a release drawn many times, as an attacker of both datasets sees it.

    This is the window of each column, the difference of the two counts of its row, and what the stages of the fit
    together say on one way that it could go. ``factor`` multiplies the noise: a planted bug.
    """

    @cache
    def find_way() -> tuple[Any, Any, Any, list[Any]]:
        plan = planned(estimator, pair[0])
        own = declared(estimator, plan)
        rows = [own._read(table(own, data), plan) for data in pair]
        asked = questions(own, *split(estimator, pair[0])[0].shape)[1]
        return plan, own, asked, [[each.answer(question) for question in asked] for each in rows]

    def draw(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        plan, own, asked, both = find_way()
        rows = own._read(table(own, data), plan)
        with Session.simulated(less_noise(plan.together, factor), rng, size) as session:
            release_bounds(chosen(estimator, data), plan.located.plan, session)
            told = attack(session, plan.stages, [rows.answer(question) for question in asked], *both)
        bins = [np.argmax(count_tails(column[:1], CENTER, WIDTH)) for one in pair for column in chosen(estimator, one)]
        counts = np.asarray(session.released[TAILS])
        d = len(bins) // 2
        moved = [counts[:, j * BINS + bins[d + j]] - counts[:, j * BINS + bins[j]] for j in range(d)]
        return np.column_stack([session.released[WINDOWS], *moved, told])

    return draw


def range_of_the_rows(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
    """Planted bug: the bounds of a fit are the range of the rows."""
    return np.tile(np.concatenate([data.min(axis=0), data.max(axis=0)]), (size, 1))


def pair_of(estimator: Any) -> tuple[Dataset, Dataset]:
    """Return neighbors whose differing row is as long as rows can be, on either side of all windows."""
    own = declared(estimator, estimator.plan(N, D))
    data, _ = (far_apart if isinstance(own, LogLinearRegression) else pulling)(own, N, D)
    if isinstance(own, PrivateLinearRegression):
        data[1:, D] = np.linspace(-0.8, 0.8, N - 1)
    changed = data.copy()
    changed[0, :D] *= -1
    return data, changed


def _entry(
    name: str, estimator: Any, power: float, rows: Callable[..., Iterator[tuple[Any, Any]]] = worst_rows, **more: Any
) -> Entry:
    pair = pair_of(estimator)
    far = pair[0], with_row(pair[0], *([90.0] * D), pair[0][0, D])
    plan = planned(estimator, pair[0])
    own = declared(estimator, plan)
    asked = questions(own, N, D)[1]

    def integers(data: Dataset) -> list[Any]:
        read, found = own._read(table(own, data), plan), []
        for stage, question in zip(plan.stages, asked, strict=True):
            answer = read.answer(question)
            found.append(answer if isinstance(stage, JointStage) else answer[stage.name])
        return [tails(estimator, data), *found]

    def pairs() -> Iterator[tuple[Dataset, Dataset]]:
        for first in (0.0, 0.2, -0.6, 9.0, 1e300):
            for second in (0.2, 0.6, 9.0, -1e300):
                ends = (first, second) if hasattr(estimator, "y_bounds") else (1.0, 0.0)
                yield np.array([[first] * D + [ends[0]]]), np.array([[second] * D + [ends[1]]])
        for question in asked:
            for one, other in rows(question, plan.design, D):
                yield one[None], other[None]

    tight = {**estimator.get_params(), **TIGHT}

    return Entry(
        name=name,
        covers=type(estimator),
        proof="private-bounds.md",
        plan=plan.together,
        integers=integers,
        pairs=pairs,
        draw=as_a_whole(estimator, pair),
        dataset=pair[0],
        neighbor=pair[1],
        power=power,
        public=None,  # a session refuses stages of other noise than planned, which tests of public calls plant
        bugs=(
            PlantedBug("a quarter of the noise", as_a_whole(type(estimator)(**tight), pair, 0.25), *pair, 1.0, 1e-2),
            PlantedBug("bounds are the range of the rows", range_of_the_rows, *far, 3.0, 1e-2),
        ),
        most_trials=20_000,
        no_estimator="its plan refuses few rows; tests/regression/test_private_bounds.py fits and replays",
        **more,
    )


def entries() -> Iterator[Entry]:
    both = {"x_bounds": "private", "y_bounds": "private"}
    yield _entry("linear regression with chosen bounds", PrivateLinearRegression(**both, **PRIVATE), 0.2)
    logistic = PrivateLogisticRegression(x_bounds="private", **PRIVATE)
    middling = {"unattained": {step_name(t): 0.84 for t in range(1, 5)}, "unattained_reason": MIDDLING}
    yield _entry("logistic regression with chosen bounds", logistic, 0.1, **middling)
    steep = {"unattained": TOO_STEEP, "unattained_reason": STEEP, "rows": worst_rows_of_counts}
    given = {"x_bounds": "private", "y_bounds": (0.0, HIGH), **PRIVATE}
    yield _entry("regression of counts with chosen bounds", PrivateCountRegression(**given), 0.1, **steep)
    yield _entry("regression of amounts with chosen bounds", PrivateGammaRegression(**given), 0.1, **steep)
