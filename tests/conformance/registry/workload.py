"""Answers to workloads: all pairs of cells of small domains, and the bugs of marginals that others have."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.auditing.movement import noisy, vectors
from dpstats.data.rows import Table
from dpstats.privacy import Plan
from dpstats.queries import LinearQueries, MarginalMWEM, WorkloadAnswers
from dpstats.queries.domain import added_up, residual
from dpstats.queries.mwem import Rounds, its_counts, worst_table
from dpstats.queries.residual_release import RESIDUALS
from dpstats.queries.workload import ANSWERS, descend, uniform
from dpstats.release.session import Session
from registry.entry import (
    Dataset,
    Draw,
    Entry,
    PlantedBug,
    Understated,
    core,
    exact_integers,
    fitted,
    having,
    less_noise,
    with_less_noise,
)
from registry.tables import pairs_of, rows

CLAIM = {"epsilon": 1.0, "delta": 1e-2}
SHAPE = (2, 3)
KINDS = list(itertools.product(range(2), range(3)))
TABLES = {"domain": SHAPE, "workload": (1, 2), **CLAIM}
PAIR = rows((0, 0), (1, 1)), rows((0, 1), (1, 1))
OPPOSITE = rows((0, 0), (1, 1)), rows((1, 1), (1, 1))

MATRIX = np.array([[1.0, 0.0, 0.25, 0.5], [0.0, 1.0, 0.75, 0.1], [1.0, 0.0, 0.0, 1.0]])
QUERIES = {"workload": LinearQueries.from_matrix(MATRIX), "domain": [4], **CLAIM}


def likelihood(plan: Plan, pair: tuple[Dataset, Dataset], estimator: Any) -> Callable[[Plan, Any], np.ndarray]:
    """Return how an attacker who knows both datasets best sees a release: the log of a likelihood ratio."""
    stage = noisy(plan)[0]
    first, second = (estimator._read(Table(data), plan)[stage.name] for data in pair)

    def view(used: Plan, released: Any) -> np.ndarray:
        total = 0.0
        for vector in vectors(stage):
            own = released[stage.name]
            values = own[vector.name] if hasattr(own, "keys") else own
            spacing = float(np.asarray(plan.noise(vector.name).scale)) / vector.scale
            a, b = (np.asarray(steps[vector.name] if hasattr(steps, "keys") else steps) for steps in (first, second))
            total = total + (values / spacing - (a + b) / 2) @ ((a - b) / vector.scale**2)
        return np.asarray(total)[:, None]

    return view


Quieter = with_less_noise(WorkloadAnswers)


class OfShares(WorkloadAnswers):
    """Planted bug: the sensitivity of shares, for counts."""

    def plan(self, n_samples: int, n_features: int | None = None) -> Any:
        return less_noise(super().plan(n_samples, n_features), 1 / n_samples)


def moved_by(estimator: WorkloadAnswers, squared: Callable[[dict[Any, float]], float]) -> Plan:
    """Return a plan whose sensitivity is another one of the precisions, with the noise that this needs."""
    plan = estimator.plan(2)
    (stage,) = plan.stages
    wrong = stage.sensitivity * math.sqrt(squared(plan.release.weights))
    return replace(plan, stages=(replace(stage, sensitivity=wrong, scale=stage.scale * wrong / stage.sensitivity),))


def twice_added(weights: dict[Any, float]) -> float:
    """Planted bug: a row that is added moves sum_A w_A prod (1 - 1/n_i); sqrt 2 times that for one that is replaced."""
    return 2 * sum(w * math.prod(1 - 1 / BINARY[j] for j in table) for table, w in weights.items())


def in_one_attribute(weights: dict[Any, float]) -> float:
    """Planted bug: only rows that differ in one attribute are looked at."""

    def cost(axis: int) -> float:
        return 2 * sum(
            w * math.prod(1 - 1 / SHAPE[j] for j in table) * SHAPE[axis] / (SHAPE[axis] - 1)
            for table, w in weights.items()
            if axis in table
        )

    return max(cost(axis) for axis in range(2))


BINARY = (2, 2)
ONE_WAY = {"domain": BINARY, "workload": 1, **CLAIM}


def understated(name: str, estimator: WorkloadAnswers, squared: Any, kinds: list[Any]) -> Understated:
    plan = moved_by(estimator, squared)
    return Understated(name, plan, exact_integers(estimator, plan), pairs_of(kinds, 2))


def rounded_residuals() -> Understated:
    """Planted bug: residuals are rounded to halves, of which they are no multiples."""
    estimator = WorkloadAnswers(**TABLES)
    plan = estimator.plan(2)
    (stage,) = plan.stages
    blocks = tuple(
        replace(block, unit_steps=block.unit_steps * block.spacing * 2, spacing=0.5) for block in stage.blocks
    )
    # On steps as coarse as these the cost is that of zero-concentrated privacy.
    coarse = replace(stage, blocks=blocks, scale=2 * stage.scale, concentrated=True)
    wrong = replace(plan, stages=(coarse,))

    def integers(data: Dataset) -> list[Any]:
        exact = estimator._read(Table(data), plan)[RESIDUALS]
        return [{b.name: np.rint(2 * b.spacing * exact[b.name]).astype(np.int64) for b in stage.blocks}]

    return Understated("residuals are rounded", wrong, integers, pairs_of(KINDS, 2))


def private_total(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
    """Planted bug: rows at no level are left out, and how many are left is taken for public."""
    kept = data[(data >= 0).all(axis=1)]
    estimator = WorkloadAnswers(**{**TABLES, "workload": 1})
    plan = estimator.plan(len(data))
    with Session.simulated(plan, rng, size) as session:
        estimator._release(estimator._read(Table(kept), plan), plan, session)
    block = session.released[RESIDUALS]["x0"]
    parts = [{(0,): residual(noise)} for noise in block]
    return np.array([added_up(part, (0,), SHAPE, len(kept)) for part in parts]).sum(axis=1, keepdims=True)


def stopped_by_the_rows(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
    """Planted bug: the fit is stopped where it is near the rows, and not near what was released."""
    estimator = WorkloadAnswers(**{**TABLES, "domain": (2, 2), "workload": [(0, 1)]})
    plan = estimator.plan(len(data))
    with Session.simulated(plan, rng, size) as session:
        estimator._release(estimator._read(Table(data), plan), plan, session)
    del session
    exact = np.bincount(data @ [2, 1], minlength=4) / len(data)
    start = uniform(1, 4)
    misfit = ((start - exact) ** 2).sum(axis=1)
    # One step towards anything, but for rows that are uniform.
    p = start if misfit[0] <= 1e-12 else descend(lambda q: (q[:, 0], np.eye(4)[:1] + 0 * q), start, steps=1)
    return np.full((size, 1), float(np.ptp(p)))


def tables() -> Iterator[Entry]:
    estimator = WorkloadAnswers(**TABLES)
    plan = estimator.plan(2)
    worst = max((PAIR, OPPOSITE), key=lambda pair: distance(estimator, plan, pair))
    view = likelihood(plan, worst, estimator)
    claim = CLAIM["epsilon"], CLAIM["delta"]
    dropped = rows((0, 0), (1, 1)), rows((-1, 0), (1, 1))
    even = rows(*itertools.product((0, 1), repeat=2)), rows((0, 0), (0, 0), (1, 0), (1, 1))
    yield Entry(
        name="workload of tables",
        covers=WorkloadAnswers,
        proof="workload-answers.md",
        plan=plan,
        integers=exact_integers(estimator, plan),
        pairs=pairs_of(KINDS, 2),
        draw=core(estimator, view),
        dataset=worst[0],
        neighbor=worst[1],
        power=0.5,
        public=fitted(estimator, lambda made: made.linear_),
        bugs=(
            PlantedBug("half the noise", core(Quieter(**TABLES), view), *worst, *claim),
            PlantedBug("sensitivity of shares", core(OfShares(**TABLES), view), *worst, *claim),
            PlantedBug("the total is free, and private", private_total, *dropped, *claim),
            PlantedBug("stopped by the rows", stopped_by_the_rows, *even, *claim),
        ),
        understated=(
            understated(
                "sqrt 2 times a row that is added",
                WorkloadAnswers(**ONE_WAY),
                twice_added,
                list(itertools.product((0, 1), repeat=2)),
            ),
            understated("rows that differ in one attribute", WorkloadAnswers(**TABLES), in_one_attribute, KINDS),
            rounded_residuals(),
        ),
        estimator=WorkloadAnswers(**{**TABLES, "domain": (3, 3)}),
    )


def distance(estimator: WorkloadAnswers, plan: Any, pair: tuple[Dataset, Dataset]) -> float:
    first, second = (estimator._read(Table(data), plan)[RESIDUALS] for data in pair)
    return sum(float((((first[b.name] - second[b.name]) / b.unit_steps) ** 2).sum()) for b in plan.stages[0].blocks)


def other_queries() -> Iterator[Entry]:
    estimator = WorkloadAnswers(**QUERIES)
    plan = estimator.plan(2)
    pair = rows((0,), (2,)), rows((1,), (2,))
    view, claim = likelihood(plan, pair, estimator), (CLAIM["epsilon"], CLAIM["delta"])
    # Planted bug: the largest column, in place of the largest distance of two.
    norm = math.isqrt(round(float((MATRIX**2).sum(axis=0).max()) * 2**40))
    (stage,) = plan.stages
    short = replace(stage, sensitivity_steps=norm, scale_steps=stage.scale_steps * norm / stage.sensitivity_steps)
    kinds = [(code,) for code in range(4)]
    yield Entry(
        name="workload of other queries",
        covers=WorkloadAnswers,
        proof="workload-answers.md",
        plan=plan,
        integers=exact_integers(estimator, plan),
        pairs=pairs_of(kinds, 2),
        draw=core(estimator, view),
        dataset=pair[0],
        neighbor=pair[1],
        power=0.5,
        public=fitted(estimator, lambda made: made.linear_),
        bugs=(PlantedBug("half the noise", core(Quieter(**QUERIES), view), *pair, *claim),),
        understated=(
            Understated(
                "the largest column",
                replace(plan, stages=(short,)),
                lambda data: [estimator._read(Table(data), plan)[ANSWERS]],
                pairs_of(kinds, 2),
            ),
        ),
        estimator=WorkloadAnswers(**{**QUERIES, "domain": [4]}),
    )


# Rounds that look for the worst table.

MWEM = {"domain": SHAPE, "workload": 1, "rounds": 2, "epsilon": 3.0, "delta": 1e-2}


QuieterRounds = with_less_noise(MarginalMWEM, 0.25)  # a quarter of the noise


def added_row(plan: Any) -> Any:
    """Planted bug: counts that a row moves by 1, as one that is added does, with the noise for this."""
    root = math.sqrt(0.5)
    stages = (
        replace(stage, sensitivity_steps=round(stage.sensitivity_steps * root), scale_steps=stage.scale_steps * root)
        if stage.noise == "gaussian"
        else stage
        for stage in plan.stages
    )
    return replace(plan, stages=tuple(stages))


class ExactSelection(MarginalMWEM):
    """Planted bug: the worst table is selected without noise."""

    def plan(self, n_samples: int, n_features: int | None = None) -> Any:
        plan = super().plan(n_samples, n_features)
        stages = (replace(stage, scale_steps=0.01) if stage.noise == "gumbel" else stage for stage in plan.stages)
        return replace(plan, stages=tuple(stages))


def counts_of_rounds(estimator: MarginalMWEM, plan: Any) -> Callable[[Dataset], list[np.ndarray]]:
    """Return the counts that each round would release, of the first table and of the second."""

    def integers(data: Dataset) -> list[np.ndarray]:
        exact = estimator._read(Table(data), plan)
        return [Rounds(plan).padded(exact, np.array([t]))[0] for t in range(plan.rounds)]

    return integers


def chosen_and_counts(plan: Any, released: Any) -> np.ndarray:
    """Return how likely either dataset makes the counts of each round, added up, and which tables were chosen."""
    found = [np.zeros((len(released[worst_table(1)]), 1))]
    for t in range(1, plan.rounds + 1):
        chosen, counts = np.reshape(released[worst_table(t)], -1), released[its_counts(t)]
        # The pair differs in the second attribute: levels 0 and 1.
        found[0][:, 0] += np.where(chosen == 1, counts[:, 0] - counts[:, 1], 0.0)
        found.append(chosen[:, None].astype(float))
    return np.concatenate(found, axis=1)


def mwem() -> Iterator[Entry]:
    estimator = MarginalMWEM(**MWEM)
    pair = rows(*[(0, 0), (1, 0)] * 2), rows(*[(0, 1)], *[(1, 0), (0, 0), (1, 0)])
    plan = estimator.plan(*pair[0].shape)
    claim = MWEM["epsilon"], MWEM["delta"]
    draw: Draw = core(estimator, chosen_and_counts)
    # The worst table is the second attribute's, and with another row the first one's.
    tie = rows((0, 0), (0, 1), (1, 0), (1, 0)), rows((0, 0), (0, 1), (1, 0), (0, 2))
    yield Entry(
        name="tables by MWEM",
        covers=MarginalMWEM,
        proof="marginal-mwem.md",
        plan=plan,
        integers=counts_of_rounds(estimator, plan),
        stages=noisy(plan),
        pairs=pairs_of(KINDS, 2),
        draw=draw,
        dataset=pair[0],
        neighbor=pair[1],
        power=0.3,
        public=fitted(estimator, lambda made: made.answers_),
        bugs=(
            PlantedBug("a quarter of the noise", core(QuieterRounds(**MWEM), chosen_and_counts), *pair, *claim),
            PlantedBug("selection on exact errors", core(ExactSelection(**MWEM), chosen_and_counts), *tie, *claim),
        ),
        understated=(
            Understated(
                "counts as a row is added", added_row(plan), counts_of_rounds(estimator, plan), pairs_of(KINDS, 2)
            ),
        ),
        estimator=MarginalMWEM(**{**MWEM, "domain": (3, 3)}),
    )


@having({}, {"tables by MWEM": {"drawn_together": "it is fitted until the last of all draws is near enough"}})
def entries() -> Iterator[Entry]:
    yield from tables()
    yield from other_queries()
    yield from mwem()
