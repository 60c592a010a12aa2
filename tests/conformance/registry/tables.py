"""Proportions and contingency tables: every small dataset, and the bugs that counts of others have."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.inference.noisy_counts import uniform
from dpstats.mechanisms.histogram import count_stage
from dpstats.privacy import Neighbors, PrivacyGuarantee
from dpstats.release.session import Session
from dpstats.tables import ContingencyTable, PrivateProportion
from dpstats.tables.contingency import CELLS
from dpstats.tables.proportion import COUNT, UNIFORM
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
    with_less_noise,
)

GAUSSIAN = {"epsilon": 1.0, "delta": 0.1}
Pair = tuple[Dataset, Dataset]


def rows(*rows: Any) -> Dataset:
    return np.array(rows, dtype=np.int64).reshape(len(rows), -1)


def pairs_of(kinds: list[Any], n: int = 3) -> Callable[[], Iterator[Pair]]:
    """Return all neighboring datasets of n rows."""

    def pairs() -> Iterator[Pair]:
        for data in itertools.product(kinds, repeat=n):
            for other in kinds:
                yield rows(*data), rows(*data[:-1], other)

    return pairs


# Proportions.


def statistic(plan: Any, released: Any) -> np.ndarray:
    """Return what tests are from: the count and its uniform."""
    more = uniform(released[UNIFORM]) if UNIFORM in released else 0.0
    return np.asarray(released[COUNT][:, 0] + more)[:, None]


HalfNoise = with_less_noise(PrivateProportion)


def one_uniform_for_both(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
    """Planted bug: the noise is made of the very uniform that is added to it, which the sum shows."""
    plan = PrivateProportion().plan(*data.shape)
    with Session.simulated(plan, rng, size) as session:
        u = uniform(session.coins(UNIFORM))
        session.skip(COUNT, "the bug draws it from the uniform")
    noise = np.rint(-np.sign(u) * np.log(1 - 2 * np.abs(u)))
    z = data.sum() + noise + u
    # Who knows u, z less a whole number, knows the noise.
    u = z - np.rint(z)
    return (z - u - np.rint(-np.sign(u) * np.log(1 - 2 * np.abs(u))))[:, None]


def proportions() -> Iterator[Entry]:
    pair = rows(1, 0, 1), rows(0, 0, 1)
    for law, options in (("Laplace", {"epsilon": 1.0}), ("Gaussian", GAUSSIAN)):
        estimator = PrivateProportion(**options)
        claim = options["epsilon"], options.get("delta", 0.0)
        bugs = [PlantedBug("half the noise", core(HalfNoise(**options), statistic), *pair, *claim, 200_000)]
        if law == "Laplace":
            bugs.append(PlantedBug("one uniform for both", one_uniform_for_both, *pair, *claim))
        plan = estimator.plan(*pair[0].shape)
        yield Entry(
            name=f"proportion, {law}",
            covers=PrivateProportion,
            proof="proportion.md",
            plan=plan,
            integers=exact_integers(estimator, plan),
            pairs=pairs_of([0, 1]),
            draw=core(estimator, statistic),
            dataset=pair[0],
            neighbor=pair[1],
            power=0.4,
            public=fitted(estimator, lambda made: made.statistic_),
            bugs=tuple(bugs),
            estimator=PrivateProportion(**options),
        )


def observed_proportions() -> Iterator[Entry]:
    pair = rows(1, 0, 1), rows(0, 0, 1)
    for law, options in (("Laplace", {"epsilon": 1.0}), ("Gaussian", GAUSSIAN)):
        chosen = {**options, "missing": "drop"}
        estimator = PrivateProportion(**chosen)
        claim = options["epsilon"], options.get("delta", 0.0)
        plan = estimator.plan(*pair[0].shape)
        yield Entry(
            name=f"proportion of observed rows, {law}",
            covers=PrivateProportion,
            proof="proportion.md",
            plan=plan,
            integers=exact_integers(estimator, plan),
            pairs=pairs_of([0, 1, 2]),  # 2 is the code of a missing entry
            draw=core(estimator),
            dataset=pair[0],
            neighbor=pair[1],
            power=0.3,
            public=fitted(estimator, lambda made: [made.count_, made.rows_]),
            bugs=(PlantedBug("half the noise", core(HalfNoise(**chosen)), *pair, *claim, 200_000),),
            estimator=PrivateProportion(**chosen),
        )


# Tables: two attributes, of two levels and of three.

LEVELS = [[0, 1], [0, 1, 2]]
KINDS = list(itertools.product(*LEVELS))
OUTSIDE = (-1, 0)  # as codes have an entry at no level
PAIR = rows((0, 0), (1, 1), (1, 2), (1, 2)), rows((0, 1), (1, 1), (1, 2), (1, 2))


TableHalfNoise = with_less_noise(ContingencyTable)


class AddOrRemove(ContingencyTable):
    """Planted bug: noise for a row that is added, where one is replaced: it leaves a cell and enters another."""

    def plan(self, n_samples: int, n_features: int | None = None) -> Any:
        plan = super().plan(n_samples, n_features)
        guarantee = PrivacyGuarantee(self.epsilon, self.delta, Neighbors.ADD_OR_REMOVE_ONE)
        stage = count_stage(plan.additive[0].size, guarantee, CELLS)
        return replace(plan, stages=(replace(stage, neighbors=Neighbors.REPLACE_ONE),))


def levels_from_the_data(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
    """Planted bug: only combinations that some row has are cells; the others are 0, without noise."""
    found = core(ContingencyTable(levels=LEVELS, unknown="error"))(data, rng, size)
    exact = np.bincount(np.ravel_multi_index(tuple(data.T), (2, 3)), minlength=6)
    return np.where(exact > 0, found, 0.0)


def margins_for_free(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
    """Planted bug: margins with noise of their own beside the cells, charged as one table."""
    both = [core(ContingencyTable(levels=LEVELS, unknown="error"))(data, rng, size) for _ in range(2)]
    return np.mean(both, axis=0)


def exact_remainder(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
    """Planted bug: rows at no level are dropped, and how many are left is told as if it were public."""
    found = core(ContingencyTable(levels=LEVELS))(data, rng, size)
    return np.column_stack([found, np.full(size, float((data >= 0).all(axis=1).sum()))])


def understated(name: str, estimator: ContingencyTable) -> Understated:
    plan = estimator.plan(3, 2)
    return Understated(name, plan, exact_integers(estimator, plan), pairs_of(KINDS))


def tables() -> Iterator[Entry]:
    for law, options in (("Laplace", {"epsilon": 1.0}), ("Gaussian", GAUSSIAN)):
        given = {"levels": LEVELS, "unknown": "error", **options}
        claim = options["epsilon"], options.get("delta", 0.0)
        estimator = ContingencyTable(**given)
        bugs = [("half the noise", core(TableHalfNoise(**given)), PAIR, 400_000)]
        if law == "Laplace":
            bugs += [
                ("noise of add-or-remove", core(AddOrRemove(**given)), PAIR, 400_000),
                ("levels from the data", levels_from_the_data, PAIR, 20_000),
                ("margins for free", margins_for_free, PAIR, 400_000),
            ]
        yield _entry(f"contingency table, {law}", estimator, KINDS, PAIR, bugs, claim)
    drop = ContingencyTable(levels=LEVELS)
    pair = rows((0, 0), (1, 1)), rows(OUTSIDE, (1, 1))
    bugs = [("how many are left is told", exact_remainder, pair, 20_000)]
    entry = _entry("contingency table, rows at no level dropped", drop, [*KINDS, OUTSIDE], pair, bugs, (1.0, 0.0))
    yield replace(entry, public=None)  # of codes, which a fit has of other labels


def _entry(
    name: str,
    estimator: ContingencyTable,
    kinds: list[Any],
    pair: Pair,
    bugs: list[tuple[str, Draw, Pair, int]],
    claim: tuple[float, float],
) -> Entry:
    plan = estimator.plan(*pair[0].shape)
    options = {name: value for name, value in estimator.get_params().items() if name != "levels"}
    return Entry(
        name=name,
        covers=ContingencyTable,
        proof="contingency-table.md",
        plan=plan,
        integers=exact_integers(estimator, plan),
        pairs=pairs_of(kinds),
        draw=core(estimator),
        dataset=pair[0],
        neighbor=pair[1],
        power=0.3,
        public=fitted(estimator, lambda made: made.counts_),
        bugs=tuple(PlantedBug(bug, draw, *both, *claim, trials) for bug, draw, both, trials in bugs),
        understated=(understated("noise of add-or-remove", AddOrRemove(**estimator.get_params())),),
        estimator=ContingencyTable(**{**options, "levels": [[0, 1], [0, 1]]}),
    )


@having(
    {},
    {
        "contingency table, Laplace": {"not_replayed": "levels are for any table", "exact_audit": True},
        "contingency table, Gaussian": {"not_replayed": "levels are for any table"},
        "proportion, Laplace": {"exact_audit": True},
    },
)
def entries() -> Iterator[Entry]:
    yield from proportions()
    yield from observed_proportions()
    yield from tables()
