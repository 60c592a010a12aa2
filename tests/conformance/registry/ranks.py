"""Rank tests: every small dataset, ties included, and noise for less than a row can move.

A row of two groups or more is one number here: its whole part is the value, its thousandths are the group, as
`registry.reading` makes both of any number. A group beyond the declared ones is of rows with an undeclared label.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.auditing.movement import Steps
from dpstats.ranks.rank_tests import STATISTIC, KruskalWallisTest, MannWhitneyTest, RankTest, SignedRankTest
from dpstats.release.session import Session
from registry.entry import Dataset, Draw, Entry, PlantedBug, Traits, Understated, having, less_noise
from registry.reading import fit_rows, table_of

Pair = tuple[Dataset, Dataset]
FEW = {"n_simulations": 199}


def row(value: float, group: int = 0) -> float:
    return value + (group + 0.5) / 1000


def of_groups(*pairs: tuple[int, int]) -> Dataset:
    return np.array([[row(*pair)] for pair in pairs])


def core(estimator: Any, stage: str = STATISTIC) -> Draw:
    """Return the batched core of a fit: `_read`, then `_release` through a session."""

    def draw(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        plan = estimator.plan(*data.shape)
        with Session.simulated(plan, rng, size) as session:
            estimator._release(estimator._read(table_of(estimator, data), plan), plan, session)
        return np.asarray(session.released[stage])

    return draw


def integers(estimator: RankTest, plan: Any) -> Callable[[Dataset], list[Steps]]:
    return lambda data: [estimator._read(table_of(estimator, data), plan)[STATISTIC]]


def public(estimator: RankTest) -> Callable[[Dataset, Any], tuple[Any, np.ndarray]]:
    def call(data: Dataset, budget: Any) -> tuple[Any, np.ndarray]:
        made = type(estimator)(**{**estimator.get_params(), "random_state": None, "budget": budget})
        fit_rows(made, data)
        return made.plan_, np.array([made.statistic_])

    return call


def pairs_of(kinds: list[float], n: int) -> Callable[[], Iterator[Pair]]:
    """Return all neighboring datasets of n rows, whatever their order."""

    def pairs() -> Iterator[Pair]:
        for rest in itertools.combinations_with_replacement(kinds, n - 1):
            for first, second in itertools.combinations(kinds, 2):
                yield np.array([*rest, first])[:, None], np.array([*rest, second])[:, None]

    return pairs


def claiming(bug: type[RankTest], factor: float, **options: Any) -> RankTest:
    """Return a test whose plan has so much of the noise."""

    class Less(bug):  # type: ignore[valid-type, misc]
        def plan(self, n_samples: int, n_features: int = 1) -> Any:
            return less_noise(super().plan(n_samples, n_features), factor)

    return Less(**options)


def stating(kind: type[RankTest], steps: int, **options: Any) -> RankTest:
    """Return a test that states that a row moves its statistic by so many half ranks."""

    class Stating(kind):  # type: ignore[valid-type, misc]
        def plan(self, n_samples: int, n_features: int = 1) -> Any:
            plan = super().plan(n_samples, n_features)
            (stage,) = plan.stages
            scale = stage.scale_steps * steps / stage.sensitivity_steps
            return replace(plan, stages=(replace(stage, sensitivity_steps=steps, scale_steps=scale),))

    return Stating(**options)


def _entry(name: str, estimator: RankTest, kinds: list[float], pair: Pair, wrong: tuple[str, int]) -> Entry:
    n = len(pair[0])
    kind, options = type(estimator), estimator.get_params()
    plan, (what, steps) = estimator.plan(*pair[0].shape), wrong
    bug = stating(kind, steps, **options)
    return Entry(
        name=name,
        covers=kind,
        proof="rank-tests.md",
        plan=plan,
        integers=integers(estimator, plan),
        pairs=pairs_of(kinds, n),
        draw=core(estimator),
        dataset=pair[0],
        neighbor=pair[1],
        power=0.4,
        public=public(estimator),
        bugs=(
            PlantedBug("half the noise", core(claiming(kind, 0.5, **options)), *pair, 1.0, 0.0, 100_000),
            PlantedBug(what, core(bug), *pair, 1.0, 0.0, 400_000),
        ),
        understated=(Understated(what, bug.plan(*pair[0].shape), integers(bug, plan), pairs_of(kinds, n)),),
        estimator=estimator,
    )


def private_sizes() -> Entry:
    """Return the entry of a test that releases the size of a group too: groups that are far apart, of every size."""
    n = 30
    estimator = MannWhitneyTest(groups=[0, 1], epsilon=4.0, **FEW)

    def pairs() -> Iterator[Pair]:
        for size in range(1, n):
            for below, above in ((0, 1), (1, 0)):
                rest = [(1, below)] * (size - 1) + [(2, above)] * (n - size)
                for group in (0, 1, 2):
                    yield of_groups((0, below), *rest), of_groups((3, group), *rest)

    pair = list(pairs())[6 * (n // 2)]
    made = replace(_entry("", estimator, [], pair, ("what the statistic alone needs", n - 1)), pairs=pairs)
    return replace(
        made,
        name="Mann-Whitney, private sizes",
        understated=tuple(replace(one, pairs=pairs) for one in made.understated),
    )


@having(
    dict.fromkeys((SignedRankTest, MannWhitneyTest, KruskalWallisTest), Traits(additive=False)),
    {
        "Mann-Whitney": {"not_replayed": "labels and values are in one number"},
        "Mann-Whitney, private sizes": {"not_replayed": "labels and values are in one number"},
        "Kruskal-Wallis": {"not_replayed": "labels and values are in one number"},
    },
)
def entries() -> Iterator[Entry]:
    n = 4
    signs = np.array([1.0, 2.0, 3.0, 4.0])[:, None], np.array([1.0, 2.0, 3.0, -4.0])[:, None]
    yield _entry(
        "signed rank",
        SignedRankTest(**FEW),
        [float(v) for v in range(-n, n + 1)],
        signs,
        ("what a sum of positive ranks needs", 2 * n),
    )
    # Of five rows the rounding of weighted sums adds nothing to what a row moves them by.
    others = ((1, 0), (1, 1), (1, 1), (1, 1))
    two = of_groups((0, 0), *others), of_groups((2, 0), *others)
    yield _entry(
        "Mann-Whitney",
        MannWhitneyTest(groups=[0, 1], **FEW),
        [row(v, g) for v in range(3) for g in range(3)],
        two,
        ("what a sum in whole ranks needs", 3),
    )
    yield private_sizes()
    three = of_groups((0, 0), (1, 1), (1, 1), (0, 0)), of_groups((0, 0), (1, 1), (1, 1), (2, 0))
    yield _entry(
        "Kruskal-Wallis",
        KruskalWallisTest(groups=[0, 1, 2], **FEW),
        [*(row(v, g) for v in range(n) for g in range(3)), row(0, 3), row(2, 3)],
        three,
        ("what a single rank sum needs", n),
    )
