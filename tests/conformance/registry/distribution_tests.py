"""Tests of distributions: every small dataset, ties in every order, and noise for less than a row can move.

Rows of two groups are numbers as in `registry.ranks`, with undeclared labels too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import astuple, replace
from typing import Any

import numpy as np

from dpstats.auditing.movement import Steps
from dpstats.data.rows import Table
from dpstats.ranks import GoodnessOfFitTest, KolmogorovSmirnovTest
from dpstats.ranks.distribution_tests import DIFFERENCE
from dpstats.ranks.statistics import TwoSamples
from registry.entry import Dataset, Entry, PlantedBug, Traits, Understated, having
from registry.ranks import Pair, claiming, core, of_groups, pairs_of, public, row
from registry.reading import outcomes, table_of

FEW = {"n_simulations": 199}
ORDER = np.array([2, 0, 3, 1, 4])


def two_samples(estimator: Any, X: Any) -> tuple[Any, ...]:
    """Return values without ties, whose order no place decides, and labels from their digits behind the point."""
    return X, outcomes(estimator, X)


def integers(estimator: Any, plan: Any) -> Callable[[Dataset], list[Steps]]:
    """Return the integers of a release, with ties in the order `ORDER`, or of the rows."""

    def read(data: Dataset) -> list[Steps]:
        order = ORDER if len(data) == len(ORDER) else np.arange(len(data))
        table = table_of(estimator, data)
        # Values are whole parts here, so that rows of different groups tie.
        table = table if table.groups is None else Table(np.floor(data), groups=table.groups)
        return [plan.statistic.measure(estimator._arrange(estimator._read(table, plan), order))]

    return read


def stating(kind: type[Any], part: float, **options: Any) -> Any:
    """Return a test that states that a row moves its statistic by a part of what it does."""

    class Stating(kind):  # type: ignore[valid-type, misc]
        def plan(self, n_samples: int, n_features: int = 1) -> Any:
            plan = super().plan(n_samples, n_features)
            *before, stage = plan.stages
            steps = math.floor(part * stage.sensitivity_steps)
            scale = stage.scale_steps * steps / stage.sensitivity_steps
            return replace(plan, stages=(*before, replace(stage, sensitivity_steps=steps, scale_steps=scale)))

    return Stating(**options)


class ScaledUp(TwoSamples):
    """A statistic of rows with a declared label, times what makes their number that of all rows."""

    def measure(self, first: np.ndarray) -> np.ndarray:
        return super().measure(first) * self.rows // max(first.size, 1)


def scaled_up(**options: Any) -> Any:
    """Return a test that scales its statistic to all rows, with the noise of one that does not."""

    class Scaling(KolmogorovSmirnovTest):
        def plan(self, n_samples: int, n_features: int = 1) -> Any:
            plan = super().plan(n_samples, n_features)
            return replace(plan, statistic=ScaledUp(*astuple(plan.statistic)))

    return Scaling(**options)


def with_undeclared(entry: Entry) -> Entry:
    """Return the entry with a bug that needs rows with an undeclared label."""
    bug = scaled_up(**entry.estimator.get_params())
    few = [(1, 2), (1, 2), (1, 2), (1, 1)]
    pair = of_groups((0, 0), *few), of_groups((0, 2), *few)
    what = "scaled to all rows"
    planted = PlantedBug(what, core(bug, DIFFERENCE), *pair, 1.0, 0.0, 100_000)
    understated = Understated(what, bug.plan(*pair[0].shape), integers(bug, bug.plan(*pair[0].shape)), entry.pairs)
    return replace(entry, bugs=(*entry.bugs, planted), understated=(*entry.understated, understated))


def _entry(
    name: str,
    estimator: Any,
    pairs: Callable[[], Iterator[Pair]],
    pair: Pair,
    wrong: tuple[str, float],
    *,
    attains: float = 1.0,
) -> Entry:
    kind, options = type(estimator), estimator.get_params()
    plan, (what, part) = estimator.plan(*pair[0].shape), wrong
    bug = stating(kind, part, **options)
    return Entry(
        name=name,
        covers=kind,
        proof="distribution-tests.md",
        plan=plan,
        integers=integers(estimator, plan),
        pairs=pairs,
        draw=core(estimator, DIFFERENCE),
        dataset=pair[0],
        neighbor=pair[1],
        power=0.4 * attains,
        public=public(estimator),
        unattained={} if attains == 1 else {DIFFERENCE: attains},
        unattained_reason="" if attains == 1 else "the root mean square is bounded by the largest change",
        bugs=(
            PlantedBug(
                "a third of the noise", core(claiming(kind, 1 / 3, **options), DIFFERENCE), *pair, 1.0, 0.0, 100_000
            ),
        ),
        understated=(Understated(what, bug.plan(*pair[0].shape), integers(bug, plan), pairs),),
        estimator=estimator,
    )


def released_sizes() -> Entry:
    """Return the entry of a test that releases the size of a group too."""
    n = 120
    estimator = KolmogorovSmirnovTest(groups=[0, 1], epsilon=4.0, **FEW)

    def pairs() -> Iterator[Pair]:
        for size in (1, 2, n // 3, n // 2, n - 2):
            for below, above in ((0, 1), (1, 0)):
                rest = [(1, below)] * size + [(2, above)] * (n - 1 - size)
                for first, second, label in itertools.product((0, 3), (0, 3), (1, 2)):
                    yield of_groups((first, 0), *rest), of_groups((second, label), *rest)

    made = _entry("", estimator, pairs, list(pairs())[48], ("what the statistic alone needs", 0.9))
    return replace(made, name="Kolmogorov-Smirnov, released sizes")


def far_apart() -> Iterator[Pair]:
    """Yield a pair whose root mean square moves by more than all datasets of up to eight rows suggest: 0.577 rows."""
    n, few = 2000, 40
    rest = [(1, 0)] * (few - 1) + [(2, 1)] * (n - few)
    yield of_groups((1, 0), *rest), of_groups((3, 0), *rest)


def by_small_datasets(entry: Entry) -> Entry:
    """Return the entry with a bug: the sensitivity that all datasets of up to eight rows attain."""
    bug = stating(KolmogorovSmirnovTest, 0.58, groups=[0, 1], statistic="cvm", **FEW)
    plan = bug.plan(2000, 1)
    what = "what small datasets need"
    return replace(entry, understated=(Understated(what, plan, integers(bug, plan), far_apart),))


@having(
    {KolmogorovSmirnovTest: Traits(additive=False, rows=two_samples), GoodnessOfFitTest: Traits(additive=False)},
    {
        name: {"not_replayed": "labels and values are in one number"}
        for name in ("Kolmogorov-Smirnov", "Kuiper", "Cramer-von Mises", "Kolmogorov-Smirnov, released sizes")
    },
)
def entries() -> Iterator[Entry]:
    kinds = [row(v, g) for v in range(3) for g in range(3)]
    others = ((1, 0), (1, 0), (1, 0), (1, 0))
    two = of_groups((0, 1), *others), of_groups((2, 0), *others)
    for name, statistic, attains in (
        ("Kolmogorov-Smirnov", "ks", 1.0),
        ("Kuiper", "kuiper", 1.0),
        ("Cramer-von Mises", "cvm", 0.3),
    ):
        estimator = KolmogorovSmirnovTest(groups=[0, 1], statistic=statistic, **FEW)
        wrong = ("what equal public sizes need", 0.61)
        made = _entry(name, estimator, pairs_of(kinds, 5), two, wrong, attains=attains)
        yield with_undeclared(made) if statistic != "cvm" else by_small_datasets(made)
    yield released_sizes()
    ends = np.full((4, 1), -9.0), np.array([[-9.0]] * 3 + [[9.0]])
    middle = np.zeros((4, 1)), np.array([[0.0]] * 3 + [[9.0]])
    values = [-9.0, -0.5, 0.0, 0.5, 9.0]
    for statistic, pair, attains in (("ks", ends, 1.0), ("kuiper", middle, 1.0), ("cvm", ends, 0.4)):
        estimator = GoodnessOfFitTest(distribution="norm", statistic=statistic, **FEW)
        wrong = ("half a row", 0.5 * attains)
        name = f"goodness of fit, {statistic}"
        yield _entry(name, estimator, pairs_of(values, 4), pair, wrong, attains=attains)
    discrete = GoodnessOfFitTest(distribution="poisson", args=(1.0,), **FEW)
    counts = np.array([[0.0], [1.0], [1.0], [0.0], [0.0]]), np.array([[9.0], [1.0], [1.0], [0.0], [0.0]])
    values = [0.0, 1.0, 2.0, 9.0]
    name = "goodness of fit, discrete"
    made = _entry(name, discrete, pairs_of(values, 5), counts, ("half a row", 0.5))
    yield replace(made, estimator=None, no_estimator="the places of tied rows decide what is read")
