"""Table 1 of a cohort: one release of counts, means, medians and levels, in which a row moves every part."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from dpstats.auditing.movement import Steps
from dpstats.data.rows import Table
from dpstats.groups import CohortTable
from dpstats.groups.cohorts import CohortRows
from dpstats.privacy import Plan
from dpstats.release.session import Session, released_part
from registry.entry import Dataset, Draw, Entry, PlantedBug, Traits, Understated, columns

NAMES = ["arm", "x", "sex", "days"]
DECLARED = {"x": {"mean": (-1.0, 1.0)}, "sex": {"levels": (0.0, 1.0)}, "days": {"median": (0.0, 100.0), "step": 1.0}}
GIVEN: dict[str, Any] = {"groups": (0.0, 1.0), "by": "arm", "columns": DECLARED, "epsilon": 4.0}
NOBODY = 9.0
"""A label that is not declared."""

Pair = tuple[Dataset, Dataset]


def rows_of(estimator: CohortTable, data: Dataset) -> CohortRows:
    """Return rows of an arm, a number, a level and another number as the parts read them."""
    parts = estimator._make_parts()
    arm = parts["x"]._categories().codes(data[:, 0])
    levels = parts["sex"]._kinds()[1].codes(data[:, 2])
    found = {
        "arm": Table(arm[:, None]),
        "x": Table(data[:, 1:2], groups=arm),
        "sex": Table(np.column_stack([arm, levels])),
        "days": Table(data[:, 3:], groups=arm),
    }
    return CohortRows(found, 3)


def read(estimator: CohortTable, data: Dataset) -> tuple[Plan, Any]:
    plan = estimator.plan(len(data))
    return plan, estimator._read(rows_of(estimator, data), plan)


def core(estimator: CohortTable) -> Draw:
    """Return the batched core of a fit."""

    def draw(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        plan, private = read(estimator, data)
        with Session.simulated(plan, rng, size) as session:
            estimator._release(private, plan, session)
        return columns(plan, session.released)

    return draw


def integers(estimator: CohortTable) -> Any:
    """Return the reader of the integers of the stages that add noise."""

    def steps(data: Dataset) -> list[Steps]:
        _, private = read(estimator, data)
        (totals,) = private["x"].values()
        days = np.array([own.size for own in private["days"]])
        return [*private["arm"].values(), dict(totals), *private["sex"].values(), days]

    return steps


class ArmsAsTheyAre(CohortTable):
    """Planted bug: the sizes of the arms have next to no noise, because the columns have theirs."""

    def plan(self, n_samples: int, n_features: int | None = None) -> Any:
        plan = super().plan(n_samples, n_features)
        arms, *others = plan.stages
        return replace(plan, stages=(replace(arms, scale_steps=0.05), *others))


class OneNoiseForAll(CohortTable):
    """Planted bug: each part is released twice, and charged once."""

    def _release(self, private: Any, plan: Any, session: Any) -> None:
        super()._release(private, plan, session)
        with Session.simulated(plan, np.random.default_rng(), session.size) as again:
            super()._release(private, plan, again)
        for name, own in released_part(again.released, "arm", plan.parts["arm"]).items():
            exact = np.asarray(private["arm"][name])
            session._released[f"arm: {name}"] = exact + 0.02 * (own - exact)


def pairs() -> Iterator[Pair]:
    kinds = list(itertools.product((0.0, 1.0, NOBODY), (-1.0, 0.0, 1.0), (0.0, 1.0), (0.0, 100.0)))
    rest = np.array([(0.0, 1.0, 0.0, 50.0), (1.0, -1.0, 1.0, 50.0)])
    for one, other in itertools.combinations(kinds, 2):
        yield np.vstack([one, rest]), np.vstack([other, rest])


def entries() -> Iterator[Entry]:
    one = CohortTable(**GIVEN)
    data = np.array([(0.0, -1.0, 0.0, 0.0)] + [(0.0, 1.0, 0.0, 50.0), (1.0, -1.0, 1.0, 50.0)] * 3)
    neighbor = np.vstack([(1.0, 1.0, 1.0, 100.0), data[1:]])
    plan = one.plan(len(data))
    arms = plan.stages[0]
    half = replace(plan, stages=(replace(arms, sensitivity_steps=1),))

    def public(data: Dataset, budget: Any) -> tuple[Plan, np.ndarray]:
        made = CohortTable(**GIVEN, budget=budget).fit(pd.DataFrame(data, columns=NAMES))
        parts = made.parts_
        numbers = [made.counts_, parts["x"].counts_, parts["sex"].counts_, parts["days"].counts_]
        return made.plan_, np.concatenate([np.ravel(each) for each in numbers])

    yield Entry(
        name="Table 1 of a cohort",
        covers=CohortTable,
        proof="cohort-table.md",
        plan=plan,
        integers=integers(one),
        pairs=pairs,
        draw=core(one),
        dataset=data,
        neighbor=neighbor,
        power=0.05,
        public=public,
        bugs=(
            PlantedBug("the arms as they are", core(ArmsAsTheyAre(**GIVEN)), data, neighbor, 4.0, 0.0, 20_000),
            PlantedBug("the arms again, for free", core(OneNoiseForAll(**GIVEN)), data, neighbor, 4.0, 0.0, 20_000),
        ),
        understated=(Understated("one of two arms", half, lambda data: integers(one)(data)[:1], pairs),),
        no_estimator="its rows have named columns, and the nets of rows give arrays",
        traits=Traits(excused={"estimates": "a table of several estimands; its parts have estimates"}),
    )
