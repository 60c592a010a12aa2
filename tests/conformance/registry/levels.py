"""Levels adjusted for covariates: each stage asked about the worst rows, in one level, in two and in none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from dpstats.data.rows import Table
from dpstats.data.schema import Categories
from dpstats.groups import GroupMeans
from dpstats.privacy import Plan
from dpstats.regression import PrivateLinearRegression
from dpstats.regression.blocks import Question
from dpstats.regression.levels_plan import CLIPPED, Centered, ResidualTotals, check_factors
from dpstats.release.session import Session
from registry.entry import Dataset, Entry, PlantedBug, Understated, less_noise
from registry.regression import answered, attack, walk, worst_rows

OPTIONS = {
    "groups": (0, 1, 2),
    "bounds": [(-1.0, 1.0), (-1.0, 1.0), (-1.0, 1.0)],
    "adjust": [0, 1],
    "epsilon": 3.0,
    "delta": 1e-2,
}
TIGHT = OPTIONS | {"epsilon": 1.0}
PURE = OPTIONS | {"delta": 0.0}
FACTORS = {
    "factors": {"arm": [0, 1, 2]},
    "x_bounds": (-1.0, 1.0),
    "y_bounds": (-1.0, 1.0),
    "weights": "weight",
    "weight_bounds": (0.0, 1.0),
    "epsilon": 3.0,
    "delta": 1e-2,
}
NOBODY = 9.0
"""A label that is not declared."""
ROWS, SOME = 600, 20


class Adjusted(GroupMeans):
    """The estimator, with a place where planted bugs bend a query."""

    def _bent(self, question: Question, rows: Any) -> Question:
        return question


class Factors(PrivateLinearRegression):
    """A regression with a factor and weights, as a dataset whose last two columns are labels and weights."""

    def _bent(self, question: Question, rows: Any) -> Question:
        return question

    def _categories(self) -> Categories:
        return check_factors(self.factors)["arm"]


class OneRare(Adjusted):
    """The estimator, on a way where the steps leave out the rows of the last level, which is rare."""


class StepsOfSeenLevels(OneRare):
    """Planted bug: the rows themselves decide whether the steps leave out the rows of a level."""

    def _bent(self, question: Question, rows: Any) -> Question:
        if not isinstance(question, Centered) or question.some is None:
            return question
        codes = np.concatenate([block.groups for block in rows.blocks])
        return replace(question, some=question.some | (np.bincount(codes, minlength=3) >= SOME))


class LittleNoise(Adjusted):
    """Planted bug: half the noise that the guarantee needs."""

    def plan(self, n_samples: int | None, n_features: int) -> Any:
        return less_noise(super().plan(n_samples, n_features))


class ResidualsMoveOnce(Adjusted):
    """Planted bug: the Laplace noise of the residuals' totals is for a row that is added, and not for one replaced."""

    def plan(self, n_samples: int | None, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        last = plan.stages[-1]
        assert last.noise == "laplace"
        return replace(plan, stages=(*plan.stages[:-1], replace(last, scale=last.scale / 2)))


class ClipFromTheResiduals(Adjusted):
    """Planted bug: residuals of a level are clipped at the largest of them."""

    def _bent(self, question: Question, rows: Any) -> Question:
        query = getattr(question, "query", None)
        if not isinstance(question, Centered) or not isinstance(query, ResidualTotals):
            return question
        largest = np.full(query.clip.size, 1e-6)
        for block in rows.blocks:
            inside = question.centers.subtract(block)
            np.maximum.at(largest, block.groups, np.abs(inside.y - inside.fit_outcomes(query.line)))
        return replace(question, query=replace(query, clip=largest))


class CentersFromTheRows(Adjusted):
    """Planted bug: the centers of the levels are their exact means."""

    def _bent(self, question: Question, rows: Any) -> Question:
        if not isinstance(question, Centered):
            return question
        y, codes = (np.concatenate([getattr(block, name) for block in rows.blocks]) for name in ("y", "groups"))
        K = len(question.centers.outcomes)
        means = np.bincount(codes, y, K) / np.maximum(np.bincount(codes, minlength=K), 1)
        return replace(question, centers=replace(question.centers, outcomes=means))


def table(estimator: Any, data: Dataset) -> Table:
    """Return rows (x, x, y, label), maybe with weights, as a table."""
    groups = estimator._categories().codes(data[:, 3])
    if isinstance(estimator, Factors):
        return Table(data[:, :2], y=data[:, 2], groups=groups, weight=data[:, 4])
    return Table(data[:, :3], groups=groups)


def questions(estimator: Any) -> tuple[Any, list[Question]]:
    """Return a plan, and what its stages ask of the rows on one way that noise could lead to."""
    rng = np.random.default_rng(4 if isinstance(estimator, Factors) else 3)
    X, k = rng.uniform(-0.8, 0.8, (ROWS, 2)), rng.integers(0, 3, ROWS)
    if isinstance(estimator, OneRare):
        k[3:] %= 2
    y = X @ [0.3, -0.2] + np.array([-0.1, 0.0, 0.2])[k] + rng.normal(scale=0.05, size=ROWS)
    plan = estimator.plan(ROWS, 2 if isinstance(estimator, Factors) else 3)
    data = np.column_stack([X, y, k, rng.uniform(0.2, 1.0, ROWS)])
    return plan, walk(plan, estimator._read(table(estimator, data), plan), rng)


def pairs_of(question: Question, design: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield pairs of rows (x, y, label) that a stage can tell apart best; and any others."""
    for y, z in ((1.0, -1.0), (1.0, 0.0), (0.3, -7.0)):
        for x, w in (
            (np.ones(2), -np.ones(2)),
            (np.full(2, 2.5), -np.full(2, 2.0)),
            (np.array([1.0, -1.0]), np.zeros(2)),
        ):
            for label, other in ((0.0, 0.0), (0.0, 1.0), (2.0, NOBODY)):
                yield np.array([*x, y, label]), np.array([*w, z, other])
    if not isinstance(question, Centered):
        center, half = getattr(question, "center", 0.0), getattr(question, "half", 1.0)
        for other in (0.0, 1.0):
            yield np.array([0, 0, center + half, 0.0]), np.array([0, 0, center - half, other])
        return
    centers = question.centers

    def place(row: np.ndarray, label: int) -> np.ndarray:
        """Return a row whose difference to the centers of its level is given."""
        x = row[:2] + centers.covariates[label]
        y = row[2] * centers.half + centers.middle + centers.outcomes[label]
        return np.array([*x, y, label])

    for label, other in ((0, 0), (0, 1), (1, 2)):
        for first, second in worst_rows(question.query, replace(design, y_half=1.0), 2):
            yield place(first, label), place(second, other)
        if isinstance(question.query, ResidualTotals):
            for part in (1.0, 0.99, 0.5):
                line, clip = question.query.line, question.query.clip
                middle = float(line.table[-1])
                yield (
                    place(np.array([0, 0, middle + 1.001 * clip[label]]), label),
                    place(np.array([0, 0, middle - part * 1.001 * clip[other]]), other),
                )


def with_weights(pairs: Iterator[Any], weighted: bool) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the pairs with weights, if rows have them: the largest, none, and others."""
    ends = ((1.0, 1.0), (1.0, 0.0), (0.31, 0.77))
    for first, second in pairs:
        if not weighted:
            yield first, second
            continue
        for both in ends:
            yield np.append(first, both[0]), np.append(second, both[1])


def on_one_way(estimator: Any, pair: tuple[Dataset, Dataset]) -> Callable[..., np.ndarray]:
    """Return all stages of a fit, drawn on one way that it could go, as an attacker of both datasets best sees them."""

    @cache
    def find_way() -> tuple[Any, list[Question]]:
        return questions(estimator)

    def answers(data: Dataset) -> list[Any]:
        plan, asked = find_way()
        rows = estimator._read(table(estimator, data), plan)
        return [rows.answer(estimator._bent(question, rows)) for question in asked]

    @cache
    def answer_pair() -> tuple[list[Any], ...]:
        return tuple(map(answers, pair))

    def draw(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        plan = find_way()[0]
        with Session.simulated(plan, rng, size) as session:
            return attack(session, plan.stages, answers(data), *answer_pair())[:, None]

    return draw


def public(estimator: Any) -> Any:
    def call(data: Dataset, budget: Any) -> tuple[Plan, np.ndarray]:
        kind = PrivateLinearRegression if isinstance(estimator, Factors) else GroupMeans
        made = kind(**{**estimator.get_params(), "random_state": None, "budget": budget})
        if isinstance(made, PrivateLinearRegression):
            frame = pd.DataFrame(data, columns=["x0", "x1", "y", "arm", "weight"])
            made.fit(frame.drop(columns="y"), frame["y"])
            return made.plan_, made.params_
        made.fit(data[:, :-1], data[:, -1])
        return made.plan_, np.ravel(made.means_)

    return call


def neighbors(first: list[float], second: list[float], n: int = ROWS) -> tuple[Dataset, Dataset]:
    """Return neighbors whose differing row is given."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-0.8, 0.8, (n, 2))
    data = np.column_stack([X, np.zeros(n), rng.integers(0, 3, n)])
    changed = data.copy()
    data[0], changed[0] = first, second
    return data, changed


def clipped_outcomes_twice() -> Understated:
    """Return the number of clipped outcomes, each counted with the weight 2."""
    estimator = Adjusted(**OPTIONS, randomized=False)
    plan, asked = questions(estimator)
    place = next(i for i, stage in enumerate(plan.stages) if stage.name == CLIPPED)

    def integers(data: Dataset) -> list[Any]:
        return [2 * estimator._read(table(estimator, data), plan).answer(asked[place])[CLIPPED]]

    def pairs() -> Iterator[tuple[Dataset, Dataset]]:
        yield from ((first[None], second[None]) for first, second in pairs_of(asked[place], plan.design))

    return Understated("clipped outcomes twice", replace(plan, stages=(plan.stages[place],)), integers, pairs)


def _entry(
    name: str,
    estimator: Any,
    power: float,
    bugs: tuple[PlantedBug, ...] = (),
    understated: tuple[Understated, ...] = (),
) -> Entry:
    plan, asked = questions(estimator)
    pair = neighbors([1.0, 1.0, 1.0, 0.0], [1.0, 1.0, -1.0, 0.0])
    weighted = isinstance(estimator, Factors)
    if weighted:
        pair = tuple(np.column_stack([data, np.ones(len(data))]) for data in pair)

    def pairs() -> Iterator[tuple[Dataset, Dataset]]:
        seen = set()
        for question in asked:
            for first, second in with_weights(pairs_of(question, plan.design), weighted):
                if (found := (first.tobytes(), second.tobytes())) not in seen:
                    seen.add(found)
                    yield first[None], second[None]

    return Entry(
        name=name,
        covers=PrivateLinearRegression if weighted else GroupMeans,
        proof="levels.md",
        plan=plan,
        integers=lambda data: answered(estimator._read(table(estimator, data), plan), plan, asked),
        pairs=pairs,
        draw=on_one_way(estimator, pair),
        dataset=pair[0],
        neighbor=pair[1],
        power=power,
        public=public(estimator),
        bugs=bugs,
        understated=understated,
        no_estimator="covariates are named, so that a fit takes one number of columns; others have the class",
    )


def entries() -> Iterator[Entry]:
    pair = neighbors([1.0, 1.0, 1.0, 0.0], [1.0, 1.0, -1.0, 0.0])
    # A level of one row: without it, what is computed from the rows changes most.
    alone = neighbors([0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.0])
    for data in alone:
        data[1:40, 3], data[40:, 3] = 2.0, 1.0
        data[1:, 2] = 0.3
    bugs = []
    for name, kind, both in (
        ("half the noise", LittleNoise, pair),
        ("a clip from the residuals", ClipFromTheResiduals, alone),
        ("centers from the rows", CentersFromTheRows, alone),
    ):
        draw = on_one_way(kind(**TIGHT), both)
        bugs.append(PlantedBug(name, draw, *both, TIGHT["epsilon"], TIGHT["delta"], 20_000))
    draw = on_one_way(ResidualsMoveOnce(**OPTIONS), pair)
    bugs.append(PlantedBug("residuals move once", draw, *pair, OPTIONS["epsilon"], OPTIONS["delta"], 20_000))
    yield _entry("adjusted means of randomized groups", Adjusted(**OPTIONS), 0.3, tuple(bugs))
    yield _entry("adjusted means with Gaussian noise only", Adjusted(**TIGHT), 0.2)
    yield _entry("means of groups without slopes, Laplace", Adjusted(**PURE), 0.3)
    others = Adjusted(**OPTIONS, randomized=False)
    yield _entry("adjusted means of other groups", others, 0.3, understated=(clipped_outcomes_twice(),))
    # One row more, and the rows of the last level are no longer few.
    several = neighbors([1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 2.0])
    for data in several:
        data[1:SOME], data[SOME:, 3] = [1.0, 1.0, 1.0, 2.0], np.arange(SOME, ROWS) % 2
    draw = on_one_way(StepsOfSeenLevels(**TIGHT, randomized=False), several)
    bug = PlantedBug("levels left out by their rows", draw, *several, TIGHT["epsilon"], TIGHT["delta"], 20_000)
    yield _entry("adjusted means of other groups, one of them rare", OneRare(**OPTIONS, randomized=False), 0.3, (bug,))
    yield _entry("linear regression with a factor and weights", Factors(**FACTORS), 0.3)
