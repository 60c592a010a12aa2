"""Regressions without the declared levels that noise hides: each stage asked about rows with and without such a level.

The second of three columns has two values, and no row of the way has the larger one. So the released center hides it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from dpstats.lattice.products import gram
from dpstats.privacy import Plan
from dpstats.regression import PrivateLogisticRegression
from dpstats.regression.blocks import Blocks, Question
from dpstats.regression.hidden_levels import WithoutLevels
from dpstats.regression.plan import DIRECTIONS, STEPS, step_name
from dpstats.regression.rows import CURVATURE, triangle
from registry.entry import Dataset, Entry, PlantedBug, Understated
from registry.regression import (
    LOGISTIC,
    MIDDLING,
    TIGHT,
    Logistic,
    given,
    on_one_way,
    planted,
    questions,
    regression_entry,
    with_row,
    worst_rows,
)

COMMON, RARE = 0.8, 2.8
"""The two values of the hidden column. Rows of the way are below the first, and are clipped to it."""
OPTIONS = LOGISTIC | {"x_bounds": [(-1.0, 1.0), (COMMON, RARE), (-1.0, 1.0)], "missing": "drop"}
ROWS, SOME = 300, 20


class Hiding(Logistic):
    """The estimator for a formula whose second column is an indicator."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        return replace(plan, design=replace(plan.design, two_valued=(False, True, False)))


class _Seen(Blocks):
    """Rows. The rows of the rarer value are left out only if they are few."""

    def answer(self, question: Question) -> Any:
        if isinstance(question, WithoutLevels) and np.count_nonzero(self.X[:, 1] == RARE) >= SOME:
            question = replace(question, kept=replace(question.kept, common=np.zeros(3)))
        return super().answer(question)


class HiddenByTheRows(Hiding):
    """Planted bug: the rows themselves decide whether the rows of a level are left out."""

    def _bent(self, rows: Any) -> Blocks:
        return _Seen(*given(rows))


def rows_of(question: Question, design: Any, d: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the worst rows of the columns that remain, with either value of the hidden column and one between."""
    if not isinstance(question, WithoutLevels):
        yield from worst_rows(question, design, d)
        return
    ends = (COMMON, COMMON), (COMMON, RARE), (RARE, RARE), (COMMON, (COMMON + RARE) / 2)
    for first, second in worst_rows(question.query, design.take(question.kept.columns), d - 1):
        for one, other in ends:
            yield np.insert(first, 1, one), np.insert(second, 1, other)


def sums_of_hidden_columns() -> Understated:
    """Return directions with sums about the hidden column, whose entries the ball does not bound."""
    plan, asked = questions(Hiding(**OPTIONS), ROWS, 3)
    place = next(i for i, stage in enumerate(plan.stages) if stage.name == DIRECTIONS)
    question = asked[place]
    assert isinstance(question, WithoutLevels)

    def integers(data: Dataset) -> list[Any]:
        whole = Blocks(data[:, :-1], data[:, -1], plan.design).block(slice(None))
        inside = question.kept.drop_hidden(whole).bound(question.query.ball)[0]  # type: ignore[attr-defined]
        return [triangle(CURVATURE, gram(np.insert(inside, 1, 2.0**plan.bits, axis=1)))]

    def pairs() -> Iterator[tuple[Dataset, Dataset]]:
        yield from ((first[None], second[None]) for first, second in rows_of(question, plan.design, 3))

    return Understated("sums about a hidden column", replace(plan, stages=(plan.stages[place],)), integers, pairs)


def public(data: Dataset, budget: Any) -> tuple[Plan, np.ndarray]:
    """Return a fit of a formula with an indicator, which noise hides."""
    frame = pd.DataFrame({"x": data[:, 0], "z": data[:, 2], "y": data[:, 3].astype(int)})
    frame["level"] = np.where(data[:, 1] == RARE, "b", "a")
    bounds = {"x": (-1, 1), "z": (-1, 1)}
    own = {"bounds": bounds, "levels": {"level": ["a", "b"]}, "epsilon": 3.0, "delta": 1e-2, "budget": budget}
    made = PrivateLogisticRegression.from_formula("y ~ x + C(level) + z", frame, **own)
    return made.plan_, made.params_


def entries() -> Iterator[Entry]:
    rng = np.random.default_rng(5)
    common = np.column_stack(
        [rng.uniform(-0.8, 0.8, ROWS), np.full(ROWS, COMMON), rng.uniform(-0.8, 0.8, ROWS), np.resize([0.0, 1.0], ROWS)]
    )
    pair = with_row(common, 1.0, COMMON, 1.0, 1.0), with_row(common, 1.0, RARE, 1.0, 1.0)
    # One row more, and the rows of the level are no longer few.
    almost = common.copy()
    almost[1:SOME, 1], almost[1:SOME, 3] = RARE, 1.0
    several = with_row(almost, 1.0, COMMON, 1.0, 1.0), with_row(almost, 1.0, RARE, 1.0, 1.0)
    tight = OPTIONS | TIGHT
    bugs: tuple[PlantedBug, ...] = (
        planted("hidden by the rows", on_one_way(HiddenByTheRows(**tight), several), several, tight, 20_000),
    )
    yield replace(
        regression_entry(
            "logistic regression without a level that noise hides",
            Hiding(**OPTIONS),
            pair,
            on_one_way(Hiding(**OPTIONS), pair),
            d=3,
            power=0.05,
            rows=rows_of,
            unattained={step_name(t): 0.8 for t in range(1, STEPS + 1)},
            unattained_reason=MIDDLING,
            bugs=bugs,
            understated=(sums_of_hidden_columns(),),
        ),
        covers=PrivateLogisticRegression,
        public=public,
        estimator=None,
        no_estimator="columns of two values are those of a formula; other entries have the class",
    )
